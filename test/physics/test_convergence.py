"""Do the methods have the order they claim?  Slopes of the state error, energies, and time run backwards."""

import re

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import tinyphysics as tp
from tinyphysics.planner.methods.catalog import BY_NAME
from tinyphysics.tpir import parse, vm
from tinyphysics.physics.zoo import henon_heiles, kepler


@tp.hamiltonian
def oscillator(q, p):
    return p**2 / 2 + q**2 / 2


@tp.hamiltonian
def driven_pendulum(q, p, t, a=0.8):
    return p**2 / 2 - tp.cos(q) - a * q * tp.cos(1.7 * t)


@tp.hamiltonian
def breathing(q, p, t):
    return p**2 / (2 + tp.cos(t)) + q**4 / 4


@tp.hamiltonian
def skew(q, p):
    return p**2 / 2 + p**3 / 5 + q**2 / 2 + q**4 / 8


@tp.forces
def pushed(q, t, mass=2.0):
    return -q - q**3 + tp.sin(2 * t)


def exact(rate, start, until, t0=0.0):
    """Dormand and Prince's method of order 8 at its tightest."""
    return solve_ivp(rate, (t0, until), start, method="DOP853", rtol=1e-13, atol=1e-15).y[:, -1]


RATES = {  # written down by hand, not derived by us
    "henon_heiles": lambda t, z: [z[2], z[3], -z[0] - 2 * z[0] * z[1], -z[1] - z[0] ** 2 + z[1] ** 2],
    "driven_pendulum": lambda t, z: [z[1], -np.sin(z[0]) + 0.8 * np.cos(1.7 * t)],
    "breathing": lambda t, z: [2 * z[1] / (2 + np.cos(t)), -(z[0] ** 3)],
    "skew": lambda t, z: [z[1] + 0.6 * z[1] ** 2, -z[0] - z[0] ** 3 / 2],
    "pushed": lambda t, z: [z[1] / 2, -z[0] - z[0] ** 3 + np.sin(2 * t)],
}
HENON_HEILES_START = [0.1, -0.2, 0.35, 0.3]  # E = 0.13: bound, below 1/6


def end_of(system, method, dt, start, until, t0=0.0, precision="float64"):
    half = len(start) // 2
    q, p = (start[:half], start[half:]) if half > 1 else start
    out = (
        tp.compile(system, dt=dt, method=method, precision=precision)
        .evolve(q=q, p=p, until=until, t0=t0)
        .final
    )
    return np.concatenate([np.ravel(out.q), np.ravel(out.p)])


def slopes(system, method, steps, start, until, t0=0.0):
    """log2 of the ratios of the state errors, where each step is half of the one before."""
    true = exact(RATES[system.name], start, until, t0)
    errors = [abs(end_of(system, method, dt, start, until, t0) - true).max() for dt in steps]
    return np.log2(np.divide(errors[:-1], errors[1:]))


# --- order (numerics.md, 17) --------------------------------------------------------------------------
STEPS = {  # where each is asymptotic, and above the rounding of float64
    "symplectic_euler": [1 / 80, 1 / 160, 1 / 320],
    "euler": [1 / 160, 1 / 320, 1 / 640],
    "leapfrog_kdk": [0.2, 0.1, 0.05, 0.025],
    "leapfrog_dkd": [0.2, 0.1, 0.05, 0.025],
    "leapfrog": [0.2, 0.1, 0.05],
    "midpoint": [1 / 80, 1 / 160, 1 / 320, 1 / 640],
    "yoshida4": [0.2, 0.1, 0.05, 0.025],
    "rk4": [0.05, 0.025, 0.0125],
}


@pytest.mark.requirement("S2-42")
@pytest.mark.parametrize("method", STEPS)
def test_the_state_error_falls_with_the_order_on_henon_heiles(method):
    order = BY_NAME[{"leapfrog": "leapfrog_kdk"}.get(method, method)].order
    found = slopes(henon_heiles, method, STEPS[method], HENON_HEILES_START, 8.0)
    assert found == pytest.approx(order, abs=0.1), found


def test_the_order_on_an_oscillator_would_say_too_little():
    """Errors in phase only: a method that is exact in amplitude by accident still shows its slope here."""
    true = [np.cos(8.0), -np.sin(8.0)]
    errors = [abs(end_of(oscillator, "leapfrog", dt, [1.0, 0.0], 8.0) - true).max() for dt in (0.1, 0.05)]
    assert np.log2(errors[0] / errors[1]) == pytest.approx(2, abs=0.05)


@pytest.mark.parametrize(
    "method, order", [("leapfrog_kdk", 2), ("leapfrog_dkd", 2), ("yoshida4", 4), ("symplectic_euler", 1)]
)
@pytest.mark.parametrize(
    "system, start",
    [(driven_pendulum, [0.4, 0.3]), (breathing, [0.9, 0.2]), (pushed, [0.4, 0.3])],
    ids=lambda x: getattr(x, "name", ""),
)
def test_explicit_time_keeps_the_order(system, start, method, order):
    """t advances inside exactly one sub-flow (numerics.md, 13), in T or in V or in a force, from any t0."""
    steps = [1 / 80, 1 / 160, 1 / 320] if order == 1 else [0.1, 0.05, 0.025]
    found = slopes(system, method, steps, start, 4.7, t0=0.7)
    assert found == pytest.approx(order, abs=0.12), found


@pytest.mark.parametrize(
    "method, order, last", [("leapfrog_kdk", 2, 6), ("leapfrog_dkd", 2, 5), ("yoshida4", 4, 3)]
)
@pytest.mark.parametrize(
    "system, start",
    [(henon_heiles, HENON_HEILES_START), (driven_pendulum, [0.4, 0.3])],
    ids=lambda x: getattr(x, "name", ""),
)
def test_float32_keeps_the_order_down_to_its_rounding(system, start, method, order, last):
    """dt = 1/2, 1/4, ... falls by the order up to 2**-last; from there on rounding is what is left of the error."""
    start = np.float64(np.float32(start))
    true = exact(RATES[system.name], start, 8.0)
    errors = [
        abs(end_of(system, method, 2.0**-k, start, 8.0, precision="float32") - true).max()
        for k in range(2, 11)
    ]
    found = np.log2(np.divide(errors[:-1], errors[1:]))
    assert found[: last - 2] == pytest.approx(order, abs=0.15), found
    assert 1e-7 < errors[-1] < 3e-5 and found[-2:].mean() < order - 0.5, errors
    wide = abs(end_of(system, method, 2.0**-10, start, 8.0) - true).max()
    assert wide < errors[-1]  # control: in float64 the error goes on falling


@pytest.mark.parametrize(
    "method, order, steps", [("rk4", 4, [0.05, 0.025, 0.0125]), ("midpoint", 2, [0.0125, 0.00625, 0.003125])]
)
def test_explicit_time_keeps_the_order_of_runge_kutta(method, order, steps):
    assert slopes(driven_pendulum, method, steps, [0.4, 0.3], 4.7, t0=0.7) == pytest.approx(order, abs=0.15)


def test_a_frozen_clock_would_cost_three_orders():
    """The same yoshida4 with t frozen at the beginning of each step: slope 0.95 (numerics.md, 13)."""
    good = tp.compile(driven_pendulum, dt=0.1, method="yoshida4").tpir
    head, _, tail = str(good).partition("\nstep:\n")
    body, _, last = tail.partition("\nfinal:\n")
    frozen = parse(
        "\n".join(
            [
                re.sub(r"claim.*\n", "", head),
                "step:",
                re.sub(r"TIME (\w+), [-\d.e]+", r"TIME \1, 0.0", body),
                "final:",
                last.replace("TIME ", "TIME ").replace(", 0.0  ; t", ", -1.0  ; t"),
            ]
        )
    )
    true = exact(RATES["driven_pendulum"], [0.4, 0.3], 4.0)
    found = {}
    for program in (good, frozen):
        errors = []
        for dt in (0.05, 0.025, 0.0125):
            out = vm.run(program, {"q": 0.4, "p": 0.3}, round(4 / dt), {"a": 0.8}, dt=dt)
            errors.append(abs(np.array([out["q"], out["p"]]) - true).max())
        found[program is good] = np.log2(np.divide(errors[:-1], errors[1:]))
    assert found[True] == pytest.approx(4, abs=0.05)
    assert found[False] == pytest.approx(1, abs=0.15)


def test_a_kinetic_energy_odd_in_p_is_stepped_as_well_as_any():
    assert slopes(skew, "yoshida4", [0.1, 0.05, 0.025], [0.3, 0.4], 5.0) == pytest.approx(4, abs=0.1)


# --- energy -------------------------------------------------------------------------------------------
@pytest.mark.parametrize("dt, worst", [(0.02, "1.129e-04"), (0.01, "2.822e-05")])
def test_kepler_keeps_its_energy_to_the_published_figures(dt, worst):
    out = tp.compile(kepler, dt=dt, method="leapfrog").evolve(
        q=[1.0, 0.0], p=[0.0, 1.2], until=20.0, save_every=1
    )
    assert len(out.t) == round(20 / dt) + 1
    error = abs(out.energy - out.energy[0]).max() / abs(out.energy[0])
    assert f"{error:.3e}" == worst


def test_drift_is_relative_to_the_largest_sum_of_terms_and_frames_alone_would_alias():
    """Every step, relative to S: 1.8e-5 (numerics.md, 10)."""
    out = tp.compile(kepler, dt=0.02).evolve(q=[1.0, 0.0], p=[0.0, 1.2], steps=1500, save_every=750)
    assert f"{out.drift('energy'):.1e}" == "1.8e-05"
    assert abs(out.energy - out.energy[0]).max() / abs(out.energy[0]) < 1e-6  # once an orbit


@pytest.mark.slow("the claim of the README")
@pytest.mark.requirement("S3-19", "S3-15")
def test_a_million_steps_of_the_oscillator_keep_their_energy():
    """The listing run by the VM: bounded below 1 % with no trend (as often printed: e**100 times as much)."""
    machine = vm.Machine(tp.compile(oscillator, dt=0.01, method="symplectic_euler").tpir)
    loop = machine.start({"q": 1.0, "p": 0.0}, {}, 0.01)
    energies = []
    for _ in range(1000):
        machine.advance(loop, 1000)
        state = machine.final(loop)
        energies.append((state["q"] ** 2 + state["p"] ** 2) / 2)
    error = np.array(energies) / 0.5 - 1
    assert abs(error).max() < 0.01
    slope, _ = np.polyfit(np.arange(1000), error, 1)
    assert abs(slope) * 1000 < 1e-3  # over the whole run
    assert abs(error[-100:]).max() < 1.1 * abs(error[:100]).max()


def test_symplectic_methods_do_not_drift_where_rk4_does():
    start = dict(q=HENON_HEILES_START[:2], p=HENON_HEILES_START[2:], steps=20_000)
    split = tp.compile(henon_heiles, dt=0.2).evolve(**start).drift_rate("energy")
    rk4 = tp.compile(henon_heiles, dt=0.2, method="rk4").evolve(**start).drift_rate("energy")
    assert abs(split.slope) < 5 * split.error + 1e-8
    assert rk4.slope < -100 * abs(split.slope) and abs(rk4.slope) > 20 * rk4.error


# --- time backwards --------------------------------------------------------------------------------------
@pytest.mark.parametrize("method", ["leapfrog_kdk", "leapfrog_dkd", "yoshida4"])
@pytest.mark.parametrize(
    "system, start",
    [
        (henon_heiles, HENON_HEILES_START),
        (driven_pendulum, [0.4, 0.3]),
        (breathing, [0.9, 0.2]),
        (skew, [0.3, 0.4]),
    ],
    ids=lambda x: getattr(x, "name", ""),
)
def test_a_negative_step_retraces_a_symmetric_method(system, start, method):
    there = end_of(system, method, 0.05, start, 10.0)
    back = end_of(system, method, -0.05, list(there), 0.0, t0=10.0)
    assert back == pytest.approx(start, abs=1e-12)


def test_a_negative_step_does_not_retrace_symplectic_euler():
    there = end_of(henon_heiles, "symplectic_euler", 0.05, HENON_HEILES_START, 10.0)
    back = end_of(henon_heiles, "symplectic_euler", -0.05, list(there), 0.0, t0=10.0)
    assert abs(back - HENON_HEILES_START).max() > 1e-3


def test_negating_the_momenta_retraces_only_where_the_certificate_says_so():
    for system, start, reversible in ((henon_heiles, HENON_HEILES_START, True), (skew, [0.3, 0.4], False)):
        sim = tp.compile(system, dt=0.05)
        half = len(start) // 2
        there = end_of(system, "leapfrog", 0.05, start, 5.0)
        turned = end_of(system, "leapfrog", 0.05, [*there[:half], *-there[half:]], 5.0)
        miss = abs(np.array([*turned[:half], *-turned[half:]]) - start).max()
        assert bool(sim.certificate.reversible) is reversible
        assert miss < 1e-12 if reversible else miss > 1e-2


# --- momentum ---------------------------------------------------------------------------------------------
class Galaxy(tp.PhysicsSystem):
    """Softened stars; attributes are parameters."""

    softening = 0.5

    def __init__(self, masses):
        self.mass = np.asarray(masses, float)

    def energy(self, q: tp.Array[5, 3], p: tp.Array[5, 3]):
        kinetic = (p**2 / (2 * self.mass[:, None])).sum()
        pull = sum(
            self.mass[i] * self.mass[j] / tp.sqrt(((q[i] - q[j]) ** 2).sum() + self.softening**2)
            for i in range(5)
            for j in range(i)
        )
        return kinetic - pull


@pytest.mark.requirement("S2-28")
@pytest.mark.parametrize("method", ["symplectic_euler", "leapfrog", "yoshida4"])
def test_a_galaxy_conserves_its_momentum_to_rounding_and_its_angular_momentum(method):
    rng = np.random.default_rng(7)
    q, p = rng.normal(size=(5, 3)), rng.normal(size=(5, 3)) * 0.3
    p -= p.mean(0)
    sim = Galaxy([1.0, 2.0, 0.5, 1.5, 1.0]).compile(dt=0.01, method=method)
    out = sim.evolve(q=q, p=p, steps=2000, save_every=100)
    assert abs(out.p.sum(1)).max() < 1e-12
    spin = np.cross(out.q, out.p).sum(1)
    assert abs(spin - spin[0]).max() < 1e-11
    assert sim.certificate.symplectic and out.drift("energy") < {
        "symplectic_euler": 1e-2,
        "leapfrog": 1e-3,
    }.get(method, 1e-6)
