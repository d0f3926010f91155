"""Are sums of parts that do not commute stepped as Strang's product of them?  Order, certificate, bits, and what it neglects."""

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.analysis.shears import shears
from tinyphysics.errors import InputError, PlanError
from tinyphysics.ir import elements, substitute
from tinyphysics.physics.zoo import kepler, pendulum
from tinyphysics.rules.calculus.brackets import bracket, strang_error
from tinyphysics.rules.equality.normal import same
from tinyphysics.synth.methods.parts import products
from tinyphysics.tpir import parse, verify


@tp.hamiltonian
def turning(q: tp.Vec[2], p: tp.Vec[2], w: float = 0.3):
    return -w * (q[0] * p[1] - q[1] * p[0])


@tp.hamiltonian
def bent(q: tp.Vec[2], p: tp.Vec[2]):
    """Three parts: V(q), q[0]**2 p[1], which moves q[1] and p[0], and T(p)."""
    return p @ p / 2 + q @ q / 2 - q[0] ** 2 * p[1] + (q @ q) ** 2


@tp.hamiltonian(pairs=[("x", "px"), ("y", "py")])
def plane(x: tp.Vec["n"], px: tp.Vec["n"], y: tp.Vec["n"], py: tp.Vec["n"], w: float = 0.3):
    return (px @ px + py @ py) / 2 - w * (x @ py - y @ px) + ((x**2 + y**2) ** 2).sum() / 4


@tp.hamiltonian
def magnetic(q: tp.Vec[2], p: tp.Vec[2], B: float = 1.0):
    v = p - B / 2 * tp.stack([-q[1], q[0]])
    return v @ v / 2 + tp.cos(q[0])


@tp.hamiltonian
def rotor(q: tp.Vec[3], p: tp.Vec[3], w: tp.Vec[3]):
    return p @ p / 2 + (q @ q) ** 2 / 4 - w @ np.cross(q, p)


@tp.hamiltonian
def correction(q: tp.Vec[2], p: tp.Vec[2], c: float = 10.0):
    return -((p @ p) ** 2) / (8 * c**2)


START = dict(q=[0.5, 0.2], p=[0.1, 0.3])


def end(sim, steps, **start):
    out = sim.evolve(**(start or START), steps=steps).final
    return np.concatenate([out.q, out.p])


# --- the product -------------------------------------------------------------------------------------------
@pytest.mark.requirement("S2-58")
@pytest.mark.parametrize("order, first", [(2, 8), (4, 8), (6, 8), (8, 4)])
def test_the_error_falls_with_the_order_that_was_asked_for(order, first):
    ends = [end(tp.compile(bent, 2 / n, order=order), n) for n in (first, 2 * first, 4 * first, 8 * first)]
    errors = [np.abs(a - b).max() for a, b in zip(ends, ends[1:])]
    slopes = [np.log2(a / b) for a, b in zip(errors, errors[1:])]
    assert slopes == pytest.approx([order, order], abs=0.25)


@pytest.mark.parametrize(
    "system, given", [(bent, {}), (magnetic, {}), (rotor, {"w": [0.1, 0.2, 0.3]}), (plane, {})]
)
def test_every_product_is_certified_and_has_the_same_bits_everywhere(system, given):
    rng = np.random.default_rng(1)
    shape = {"rotor": 3, "plane": 5}.get(system.name, 2)
    start = {n: rng.normal(size=shape) for n in (("x", "px", "y", "py") if system is plane else "qp")}
    sims = [tp.compile(system, 0.01, order=4, backend=b) for b in ("python", "numpy", "llvm", "c")]
    assert len({sim.evolve(**start, **given, steps=20).hash for sim in sims}) == 1
    c = sims[0].certificate
    assert c.symplectic and c.volume_preserving and c.symmetric and c.consistent
    assert sims[0].evolve(**start, **given, steps=20).drift("energy") < 1e-6
    both = tp.compile(system, 0.01).evolve(
        **{n: np.stack([v, 2 * v]) for n, v in start.items()}, **given, steps=20
    )
    alone = tp.compile(system, 0.01).evolve(**start, **given, steps=20)
    assert all(np.array_equal(both.final[n][0], alone.final[n]) for n in start)


def test_a_frame_that_turns_sees_the_orbit_that_stands_still():
    """The rotation commutes with a central force, so the orbit is the one that is seen from a frame that turns."""
    w, t, dt = 0.3, 4.0, 0.001
    moving = (
        tp.compile(tp.split(kepler, turning), dt, order=4)
        .evolve(q=[1.0, 0.0], p=[0.0, 1.2], w=w, steps=4000)
        .final
    )
    still = tp.compile(kepler, dt, order=4).evolve(q=[1.0, 0.0], p=[0.0, 1.2], steps=4000).final
    c, s = np.cos(w * t), np.sin(w * t)
    assert np.abs(np.array([[c, s], [-s, c]]) @ still.q - moving.q).max() < 1e-10


def test_a_product_goes_there_and_back():
    def weights(*given):
        return [(part, weight) for part, weight, _ in products(*given)]

    assert weights(3, [1.0]) == [(0, 0.5), (1, 0.5), (2, 1.0), (1, 0.5), (0, 0.5)]
    assert weights(2, [0.5, 0.5]) == [(0, 0.25), (1, 0.5), (0, 0.5), (1, 0.5), (0, 0.25)]


# --- what it neglects --------------------------------------------------------------------------------------
def test_a_bracket_is_the_one_of_the_textbook():
    q, p = kepler.q[0], kepler.p[0]
    (x, y), (px, py) = elements(q), elements(p)
    L, pairs = x * py - y * px, kepler.pairs
    assert same(bracket(x, px, pairs), 1.0 + 0 * x) and same(bracket(x, py, pairs), 0 * x)
    assert same(bracket(x, L, pairs), -y) and same(bracket(px, L, pairs), -py)
    assert same(bracket(q @ q, p @ p, pairs), 4 * (q @ p))


def test_of_leapfrog_the_brackets_are_the_known_ones():
    (q,), (p,) = pendulum.q, pendulum.p
    T, V = p**2 / 2, -tp.cos(q)
    assert same(strang_error([V, T], pendulum.pairs), p**2 * tp.cos(q) / 12 - tp.sin(q) ** 2 / 24)


@pytest.mark.requirement("S2-58")
def test_the_commutators_are_what_the_energy_is_off_by():
    """H + dt**2 H2 is kept a power of dt**2 better than H, and the estimate is H2 where the run begins."""
    kept = []
    for dt in (0.04, 0.02):
        sim = tp.compile(bent, dt)
        H2 = strang_error([term.energy for term in sim.built.step.terms], sim.system.pairs)
        seen = lambda q, p: substitute([H2], {sim.system.q[0]: q, sim.system.p[0]: p})[0]  # noqa: B023, E731
        out = sim.evolve(**START, steps=round(4 / dt), observe={"E": "energy", "H2": seen})
        wanted, found = np.ptp(dt**2 * out["H2"]), np.ptp(out["E"])
        assert found == pytest.approx(wanted, rel=2e-3)
        assert out.metrics["commutators"]["energy"] == pytest.approx(dt**2 * abs(out["H2"][0]), rel=1e-12)
        kept.append(np.ptp(out["E"] + dt**2 * out["H2"]))
    assert np.log2(kept[0] / kept[1]) == pytest.approx(4, abs=0.05)
    assert "commutators" in str(sim.explain("full")) and "commutators" not in str(
        tp.compile(bent, 0.02, order=4).explain("full")
    )


# --- sums --------------------------------------------------------------------------------------------------
@pytest.mark.requirement("S2-58")
def test_parts_whose_kicks_commute_are_leapfrog_to_the_last_bit():
    @tp.potential
    def trap(q: tp.Vec[2], k: float = 0.5):
        return k * (q @ q) / 2

    given = dict(q=[1.0, 0.0], p=[0.0, 1.2], steps=100)
    assert (
        tp.compile(tp.split(kepler, trap), 0.01).evolve(**given).hash
        == tp.compile(kepler + trap, 0.01).evolve(**given).hash
    )
    assert tp.compile(tp.split(kepler, kepler.rename(mu="nu")), 0.01).evolve(**given).energy[
        0
    ] == pytest.approx(0.72 - 2)


def test_kinetic_energies_that_differ_add_up_on_request():
    """Both are functions of p: they commute, and are one drift."""
    with pytest.raises(PlanError, match=r"tp.split\(kepler, correction\)"):
        tp.compile(kepler + correction, 0.01)
    sim = tp.compile(tp.split(kepler, correction), 0.01)
    assert sim.built.plan.method == "leapfrog_kdk" and "what moves `p` added up" in sim.system.linked
    out = sim.evolve(q=[1.0, 0.0], p=[0.0, 1.2], steps=0)
    assert out.energy[0] == pytest.approx(0.72 - 1 - 1.2**4 / 800, rel=1e-15)


def test_what_may_be_meant_once_or_twice_is_refused():
    with pytest.raises(PlanError, match="once or twice"):
        tp.compile(tp.split(kepler, bent), 0.01)
    with pytest.raises(PlanError, match="once or twice"):
        tp.compile(tp.split(kepler, correction, bent), 0.01)


def test_three_parts_of_three_kinds():
    """A trap, a field that turns it, and a relativistic correction: five terms, of which two mix q and p."""
    sim = tp.compile(tp.split(kepler, turning, correction), 0.01)
    assert [name for name, _ in shears(sim.system).parts["parts"]] == ["V", "M0", "M1", "T"]
    assert sim.certificate.symplectic and sim.certificate.consistent
    out = sim.evolve(q=[1.0, 0.0], p=[0.0, 1.2], steps=500)
    assert out.drift("energy") < 1e-5


def test_systems_compiled_apart_are_linked_without_being_traced_again():
    traced = []

    @tp.hamiltonian
    def well(q, p):
        traced.append("well")
        return p**2 / 2 + q**4

    @tp.potential
    def tilt(q, a: float = 0.1):
        traced.append("tilt")
        return a * q

    tp.compile(well, 0.1).evolve(q=1.0, p=0.0, steps=1)
    before = list(traced)
    whole = tp.compile(well + tilt, 0.1).evolve(q=1.0, p=0.0, steps=10)
    tp.compile(tp.split(well, tilt), 0.1)
    assert traced == before and sorted(set(before)) == ["tilt", "well"]
    assert whole.energy[0] == pytest.approx(1.1)


def test_nor_are_systems_of_open_sizes():
    traced = []

    @tp.hamiltonian
    def row(q: tp.Vec["n"], p: tp.Vec["n"]):
        traced.append(q.shape)
        return p @ p / 2 + (q**4).sum()

    start = dict(q=np.ones(5), p=np.zeros(5), steps=2)
    tp.compile(row, 0.1).evolve(**start)
    before = list(traced)
    tp.compile(row + row.rename(q="x", p="y"), 0.1).evolve(**start, x=np.ones(5), y=np.zeros(5))
    assert traced == before
    assert tp.compile(sum([row, row.rename(q="x", p="y")]), 0.1, sizes={"n": 3}).system.q[1].shape == (3,)


def test_a_state_says_how_large_a_system_of_open_sizes_is():
    """Whoever gives a state need not give sizes=."""

    @tp.hamiltonian
    def row(q: tp.Vec["n"], p: tp.Vec["n"]):
        return p @ p / 2 + (q**4).sum()

    start = dict(q=np.ones(3), p=np.zeros(3))
    assert tp.compile(row, 0.1, pilot=start).frequency == pytest.approx(12**0.5, rel=1e-3)
    assert 0 < tp.compile(row, 0.1).suggest_dt(**start) < 1
    assert tp.compile(row, 0.1).minimise(q=np.ones(3)).converged
    out = tp.compile(row, 0.1).evolve(**start, steps=10)
    assert tp.compile(row, 0.1).rewind(out, 4).final.step == 6


def test_what_is_no_system_is_not_added():
    from tinyphysics.physics.additions import oblateness
    from tinyphysics.physics.particles import solar_system

    for wrong in (solar_system, solar_system(), 3):
        with pytest.raises(InputError, match="the first is not a system"):
            wrong + oblateness


# --- refusals ----------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "make, error, said",
    [
        (lambda: tp.compile(tp.split(), 0.1), InputError, "has nothing to split"),
        (lambda: tp.split(kepler, 3), InputError, "a number is not a system"),
        (lambda: tp.split(tp.fast(kepler), turning), InputError, "fast and slow"),
        (
            lambda: tp.compile(bent, 0.1, method="strang", precision="float32"),
            PlanError,
            "precision='float32' does not support yet",
        ),
        (
            lambda: tp.compile(bent, 0.1, method="strang", scale="auto"),
            PlanError,
            "scale='auto' does not support yet",
        ),
        (lambda: tp.compile(kepler, 0.1, method="strang"), PlanError, "leapfrog is the Strang splitting"),
        (
            lambda: tp.compile(tp.hamiltonian(lambda q, p: q**2 * p**2), 0.1, method="strang"),
            PlanError,
            "holds q and p",
        ),
    ],
)
def test_what_is_not_done_says_so(make, error, said):
    with pytest.raises(error, match=said):
        make()


def test_time_in_parts_that_mix_is_refused():
    @tp.hamiltonian
    def driven(q: tp.Vec[2], p: tp.Vec[2], t):
        return p @ p / 2 + tp.cos(t) * q[0] * p[1]

    with pytest.raises(PlanError, match="`strang` does not apply to `driven`: H depends on t"):
        tp.compile(driven, 0.1, method="strang")


# --- the verifier looks at numbers -------------------------------------------------------------------------
def test_a_block_that_reads_a_number_it_moves_is_no_shear():
    text = str(tp.compile(bent, 0.1).tpir)
    program = parse(text)
    assert verify(program).symplectic
    lines = text.splitlines()
    k = next(i for i, line in enumerate(lines) if line.startswith("step:"))
    j = next(i for i in range(k, len(lines)) if "element, S0, (0,)" in lines[i])
    lines[j] = lines[j].replace("(0,)", "(1,)")
    spoilt = [line for line in lines if not line.startswith("claim")]
    c = verify(parse("\n".join(spoilt) + "\n"))
    assert not c.symplectic
