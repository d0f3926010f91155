"""States in other units: is it the same physics, with the same bits everywhere, and is a wrong unit found?"""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.context import CHECK
from tinyphysics.errors import InputError, VerifyError
from tinyphysics.planner.systems import scaling as units
from tinyphysics.planner.cost.cost import operations
from tinyphysics.flows.rescaled import scaled
from tinyphysics.runtime.measure.symplecticity import measure_symplectic
from tinyphysics.flows.shears import ScaledShear, ShearFlow
from tinyphysics.tpir import parse, verify, vm

BACKENDS = ("python", "llvm", "c", "numpy")


@tp.hamiltonian
def henon_heiles(q: tp.Vec[2], p: tp.Vec[2]):
    x, y = q
    return p @ p / 2 + (x * x + y * y) / 2 + x * x * y - y**3 / 3


@tp.hamiltonian
def pendulum(q, p, m: float = 1.0):
    return p**2 / (2 * m) - tp.cos(q)


@tp.hamiltonian
def kepler(q: tp.Vec[2], p: tp.Vec[2], mu: float = 1.0):
    return p @ p / 2 - mu / tp.norm(q)


@tp.hamiltonian
def bodies(q: tp.Array[3, 2], p: tp.Array[3, 2], m: tp.Vec[3]):
    out = (p * p / (2 * m.reshape(3, 1))).sum()
    for i in range(3):
        for j in range(i):
            out = out - m[i] * m[j] / tp.norm(q[i] - q[j])
    return out


@tp.hamiltonian
def unequal(q: tp.Vec[2], p: tp.Vec[2], a: float = 1.0, b: float = 2.0):
    return p[0] ** 2 / (2 * a) + p[1] ** 2 / (2 * b) + q[0] ** 2 * q[1] ** 2 + (q @ q) / 2


@tp.hamiltonian(pairs=[("x", "px"), ("y", "py")])
def two_pairs(x, px, y, py):
    return (px**2 + py**2) / 2 + (x * x + y * y) / 2 + x * x * y - y**3 / 3


@tp.hamiltonian
def driven(q, p, t, m: float = 2.0):
    return p**2 / (2 * m) + tp.cos(q) * (1 + 0.1 * tp.sin(t))


@tp.hamiltonian
def soft(q, p, k: float = 1.0):
    """dT/dp = k*p: a parameter of zero leaves no unit for p."""
    return k * p**2 / 2 + tp.cosh(q)


SUITE = {
    "henon_heiles": (henon_heiles, dict(q=[0.1, 0.2], p=[0.3, -0.1])),
    "pendulum": (pendulum, dict(q=1.0, p=0.3, m=1.3)),
    "kepler": (kepler, dict(q=[1.0, 0.0], p=[0.0, 1.2])),
    "bodies": (
        bodies,
        dict(q=[[0.0, 0.0], [4.0, 0.1], [-0.2, 5.3]], p=np.full((3, 2), 0.1), m=[1.0, 2.0, 3.0]),
    ),
    "unequal": (unequal, dict(q=[0.4, 0.5], p=[0.3, -0.7])),
    "two_pairs": (two_pairs, dict(x=0.1, px=0.3, y=0.2, py=-0.1)),
    "driven": (driven, dict(q=1.0, p=0.1)),
}


def compiled(name, scale="auto", **options):
    return tp.compile(SUITE[name][0], **({"dt": 0.05} | options), scale=scale)


def row(sim):
    return next(r for s in sim.explain("full").sections for r in s.rows if r.name == "scaled")


def close(a, b, tolerance=1e-12):
    return all(np.allclose(a.frames[s], b.frames[s], rtol=0, atol=tolerance) for s in a.frames)


# --- what is decided ------------------------------------------------------------------------------
def test_henon_heiles_keeps_four_multiplications_of_seven():
    plain, other = (compiled("henon_heiles", s).tpir for s in ("off", "auto"))
    assert operations(plain.step, plain) == {"fma": 7, "add": 1}
    assert operations(other.step, other) == {"fma": 4, "add": 2, "sub": 1}


def test_the_report_says_which_units_and_what_they_save():
    r = row(compiled("henon_heiles"))
    assert r.verdict == "q by dt*dt, p by dt*dt*dt"
    assert r.because.startswith("7 (4 fma, 2 add, 1 sub) a step instead of 8 (7 fma, 1 add)")
    assert "scaled" not in str(compiled("henon_heiles", "off").explain("full"))


@pytest.mark.parametrize(
    "name, unit",
    [
        ("pendulum", "p by dt*(1/m)"),
        ("kepler", "p by dt"),
        ("bodies", "p by dt*(1/m)"),
        ("unequal", "p by dt*[1/a, 1/b]"),
    ],
)
def test_a_mass_goes_into_the_unit(name, unit):
    assert row(compiled(name)).verdict == unit


def test_units_that_save_nothing_are_not_taken():
    @tp.hamiltonian
    def relativistic(q, p):
        return tp.sqrt(1 + p * p) + q**2 / 2

    sim = tp.compile(relativistic, 0.01, scale="auto")
    assert row(sim).verdict == "no" and sim.tpir == tp.compile(relativistic, 0.01).tpir
    sim = tp.compile(kepler, 0.01, method="rk4", scale="auto")
    assert row(sim).verdict == "no" and sim.tpir == tp.compile(kepler, 0.01, method="rk4").tpir


def test_a_difference_of_positions_is_not_opened():
    """k*(q1 - q0) as k*q1 - k*q0 cancels, and the two ends would not feel opposite forces."""

    @tp.hamiltonian
    def spring(q: tp.Vec[2], p: tp.Vec[2]):
        d = q[1] - q[0]
        return p @ p / 2 + d * d / 2 + d**4 / 4

    sim = tp.compile(spring, 0.05, scale="auto")
    assert row(sim).verdict != "no"
    near, far = (sim.evolve(q=[x, x + 1.5], p=[0.25, -0.25], steps=200) for x in (0.0, 2.0**20))
    assert near.final.p.sum() == 0 and far.final.p.sum() == 0


def test_few_addends_join_a_momentum_one_by_one():
    @tp.hamiltonian
    def wells(q, p, a: float = 1.0, b: float = 1.0, c: float = 1.0):
        return p * p / 2 + a * q**2 / 2 + b * tp.cos(q) + c * tp.sin(q)

    program = tp.compile(wells, 0.05, scale="auto").tpir
    assert (
        sum(any(str(x) == "S1" for x in i.args) for i in program.step if i.op in ("FMA", "ELEM")) == 2
    )  # drift, kick


def test_without_being_asked_nothing_is_scaled():
    assert tp.compile(henon_heiles, 0.05).tpir == compiled("henon_heiles", "off").tpir
    with pytest.raises(InputError, match="scale='on'"):
        compiled("henon_heiles", "on")


def test_units_in_which_less_is_certified_are_refused(monkeypatch):
    """A rule that forgets a factor is caught by the verifier, and the user's units are kept."""

    def forgetful(step):
        for other in scaled(step):
            *rest, kick = other.body
            (shift,) = kick.shears
            body = (
                *rest,
                ShearFlow((ScaledShear(shift.state, shift.state - shift.state.lift(0.0) * shift.state),)),
            )
            yield type(other)(**{**vars(other), "body": body})

    monkeypatch.setattr(units, "scaled", forgetful)
    with CHECK(1):  # what is compiled is no plan to be kept
        sim = compiled("henon_heiles")
    assert row(sim).because == "less could be certified in other units"
    assert sim.tpir == compiled("henon_heiles", "off").tpir


# --- the same physics -----------------------------------------------------------------------------
@pytest.mark.parametrize("method", ["leapfrog", "leapfrog_dkd", "symplectic_euler", "yoshida4"])
@pytest.mark.parametrize("name", SUITE)
def test_the_motion_and_the_certificate_are_those_of_the_user_s_units(name, method):
    plain, other = (compiled(name, s, method=method) for s in ("off", "auto"))
    assert {n for n, v in other.certificate.items() if v} >= {n for n, v in plain.certificate.items() if v}
    assert other.certificate.symplectic and other.certificate.consistent
    assert close(*(sim.evolve(steps=40, save_every=7, **SUITE[name][1]) for sim in (plain, other)))


def test_it_is_symplectic_when_measured():
    for name in ("henon_heiles", "kepler", "unequal"):
        assert measure_symplectic(compiled(name), **SUITE[name][1]).symplectic


def test_a_negative_step_goes_back():
    sim = compiled("henon_heiles")
    end = sim.evolve(steps=50, **SUITE["henon_heiles"][1]).final
    back = sim.evolve(steps=50, q=end.q, p=end.p, dt=-0.05).final
    assert np.allclose(back.q, [0.1, 0.2], atol=1e-14) and np.allclose(back.p, [0.3, -0.1], atol=1e-14)


def test_dt_and_parameters_stay_run_time_values():
    other = compiled("pendulum", dt=0.2)
    start = dict(q=1.0, p=0.3, m=3.0, steps=20)
    assert other.tpir.hash == compiled("pendulum").tpir.hash
    assert other.evolve(dt=0.05, **start).hash == compiled("pendulum").evolve(**start).hash


def test_energies_are_of_the_user_s_state():
    machine = vm.Machine(compiled("henon_heiles").tpir)
    loop = machine.start({"q": [0.1, 0.2], "p": [0.3, -0.1]}, {}, 0.05)
    assert sum(machine.energies(loop)) == pytest.approx(0.05 + 0.025 + 0.002 - 0.008 / 3, rel=1e-14)


# --- the same bits --------------------------------------------------------------------------------
@pytest.mark.parametrize("name, order", [(n, 2) for n in SUITE] + [("henon_heiles", 4), ("bodies", 4)])
def test_every_backend_gives_the_hash_of_the_virtual_machine(name, order):
    runs = {
        b: compiled(name, order=order, backend=b).evolve(
            steps=12, save_every=5, hash_every=4, **SUITE[name][1]
        )
        for b in BACKENDS
    }
    assert {b: o.metrics["backend"]["used"] for b, o in runs.items()} == {b: b for b in BACKENDS}
    assert len({(o.hash, *o.hashes) for o in runs.values()}) == 1
    assert compiled(name, order=order).tpir.hash != compiled(name, "off", order=order).tpir.hash


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_frame_is_the_end_of_a_shorter_run(backend):
    sim = compiled("henon_heiles", backend=backend)
    start = SUITE["henon_heiles"][1]
    out = sim.evolve(steps=30, save_every=10, observe={"r": lambda q: tp.norm(q)}, **start)
    for i, n in enumerate((0, 10, 20, 30)):
        end = sim.evolve(steps=n, **start).final
        assert (out.q[i] == end.q).all() and (out.p[i] == end.p).all()
    assert (out.q[0] == [0.1, 0.2]).all() and (out.p[0] == [0.3, -0.1]).all()  # the input itself


@pytest.mark.parametrize("backend", ["llvm", "c", "numpy"])
def test_a_mass_for_each_member(backend):
    rng = np.random.default_rng(0)
    q, p, m = rng.normal(size=7), rng.normal(size=7), rng.uniform(0.5, 2, 7)
    sim = compiled("pendulum", backend=backend)
    together = sim.evolve(q=q, p=p, m=m, steps=25)
    alone = [sim.evolve(q=q[k], p=p[k], m=m[k], steps=25).final for k in range(7)]
    assert (together.final.q == [a.q for a in alone]).all() and (
        together.final.p == [a.p for a in alone]
    ).all()


def test_time_blocks_carry_the_loop_and_not_the_user_s_state(monkeypatch):
    from tinyphysics.device.engines.engine import LaneEngine

    whole = compiled("henon_heiles").evolve(steps=50, **SUITE["henon_heiles"][1])
    monkeypatch.setattr(LaneEngine, "block", lambda self, members: 3)
    assert compiled("henon_heiles").evolve(steps=50, **SUITE["henon_heiles"][1]).hash == whole.hash


def test_a_stopped_member_keeps_its_last_good_state():
    q, p = np.array([[0.1, 0.2], [50.0, 60.0]]), np.zeros((2, 2))
    out = compiled("henon_heiles").evolve(q=q, p=p, steps=400)
    (stop,) = out.stops
    assert stop.member == 1 and stop.cause == "not finite"
    good = compiled("henon_heiles").evolve(q=q[1], p=p[1], steps=stop.step - 1).final
    assert (out.final.q[1] == good.q).all() and (out.final.p[1] == good.p).all()


def test_it_is_saved_and_read_back(tmp_path):
    sim = compiled("henon_heiles")
    sim.save(tmp_path / "sim.json")
    for again in (tp.load(tmp_path / "sim.json"), pickle.loads(pickle.dumps(sim))):
        assert again.tpir == sim.tpir


# --- units that cannot be used --------------------------------------------------------------------
def test_a_unit_of_zero_is_an_error_that_says_what_to_write():
    sim = tp.compile(soft, 0.05, scale="auto")
    with pytest.raises(InputError, match=r"`p` cannot be stored in units of dt\*k = 0") as e:
        sim.evolve(q=1.0, p=0.3, k=0.0, steps=5)
    assert 'scale="off"' in str(e.value)
    with pytest.raises(InputError, match="`p` of member 1 cannot"):
        sim.evolve(q=1.0, p=0.3, k=[1.0, 0.0, 2.0], steps=5)
    assert sim.evolve(q=1.0, p=0.3, k=0.0, steps=0).final.p == 0.3
    assert tp.compile(soft, 0.05).evolve(q=1.0, p=0.3, k=0.0, steps=5).final.q == 1.0


def test_a_unit_that_would_lose_digits_is_refused():
    with pytest.raises(InputError, match=r"units of dt\*dt = 1e-200"):
        compiled("henon_heiles").evolve(dt=1e-100, steps=1, **SUITE["henon_heiles"][1])


# --- what the verifier refuses --------------------------------------------------------------------
GOOD = """
program scaled
claim symplectic consistent
state S0 q f64[2] position
state S1 p f64[2] momentum of S0
param $dt f64[]
energy:
  ELEM T0:f64[2], mul, S1, S1
  SUM T1, T0, (0,)
  ELEM E0, mul, T1, 0.5
  MOVE T2, element, S0, (0,)
  MOVE T3, element, S0, (1,)
  ELEM T4, mul, T2, T2
  ELEM E1, mul, T4, T3
init:
  LOAD S0:f64[2], &q
  LOAD S1:f64[2], &p
  SCALE S1:f64[2], times, $dt
  ELEM T10, mul, $dt, $dt
  ELEM T11, mul, T10, 2.0
step:
  ELEM T20:f64[2], add, S0, S1
  SHIFT S0:f64[2], T20
  MOVE T21, element, S0, (0,)
  MOVE T22, element, S0, (1,)
  ELEM T23, mul, T21, T22
  ELEM T24, mul, T23, T11
  ELEM T25, mul, T21, T21
  ELEM T26, mul, T25, T10
  MOVE T27:f64[2], stack, T24, T26
  ELEM T28:f64[2], sub, S1, T27
  SHIFT S1:f64[2], T28
final:
  SCALE S1:f64[2], over, $dt
  STORE &q, S0
  STORE &p, S1
"""  # V = x*x*y


def edited(*changes):
    text = GOOD
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


def test_the_listing_that_the_mistakes_are_made_in_is_right():
    certificate = verify(parse(GOOD))
    assert certificate.symplectic and certificate.volume_preserving and certificate.consistent
    assert "in the units of the user" in certificate.symplectic.because


SCALE_P = "SCALE S1:f64[2], times, $dt"
UNDO_P = "  SCALE S1:f64[2], over, $dt\n"


@pytest.mark.parametrize(
    "changes, what",
    [
        ([(UNDO_P, "")], "in other units"),  # not undone
        ([(UNDO_P, "  SCALE S1:f64[2], over, T10\n")], "in other units"),  # by the wrong factor
        ([(UNDO_P, "  SCALE S1:f64[2], times, $dt\n")], "in other units"),  # the wrong way
        ([(UNDO_P, UNDO_P + "  SCALE S0:f64[2], over, $dt\n")], "in other units"),  # of what was not scaled
        ([(UNDO_P, "  SCALE S1:f64[2], over, 0.01\n")], "in other units"),  # dt is not 0.01
        ([("ELEM T10, mul, $dt, $dt", "ELEM T10, mul, 1.0, $dt")], "multiple of dt"),  # a dt forgotten
        (
            [("ELEM T20:f64[2], add, S0, S1", "FMA T20:f64[2], S1, 2.0, S0")],
            "total weight 2",
        ),  # a drift of two steps
        ([("ELEM T11, mul, T10, 2.0", "ELEM T11, mul, T10, 1.8")], "curl"),  # one component of the force
        (
            [("SHIFT S0:f64[2], T20", "SHIFT S0:f64[2], T20\n  SHIFT S0:f64[2], T20")],
            "does not enter",
        ),  # its old value
        ([(SCALE_P, "SCALE S1:f64[2], times, 0.0")], "zero"),
        ([(SCALE_P, "SCALE S1:f64[2], over, 0.0")], "zero"),
        ([(SCALE_P, "SCALE S1:f64[2], times, inf"), ("over, $dt", "over, inf")], "inf"),
        (
            [(UNDO_P, "  ELEM T9, mul, $dt, 1.0000000000000002\n  SCALE S1:f64[2], over, T9\n")],
            "in other units",
        ),  # by an ulp
        (
            [
                (
                    "ELEM T28:f64[2], sub, S1, T27",
                    "ELEM T19:f64[2], neg, T27\n  FMA T28:f64[2], S1, 1.0000000000000002, T19",
                )
            ],
            "does not enter",
        ),  # grows by an ulp a step
        ([(SCALE_P, "ELEM T9, sub, $dt, $dt\n  SCALE S1:f64[2], times, T9")], "zero"),
        ([(SCALE_P, "MOVE T9, element, S0, (0,)\n  SCALE S1:f64[2], times, T9")], "depends on S0"),
        ([(SCALE_P, "TIME T9, 0.0\n  SCALE S1:f64[2], times, T9")], "depends on time"),
        ([(SCALE_P, "SCALE S1:f64[2], twice, $dt")], "goes the way `twice`"),
        ([(SCALE_P, "MOVE T9:f64[3], expand, $dt\n  SCALE S1:f64[2], times, T9")], "a factor of shape"),
        ([("ELEM T20", "SCALE S1:f64[2], times, 1.0\n  ELEM T20")], "units are chosen for a whole run"),
        (
            [("  LOAD S1:f64[2], &p\n  " + SCALE_P, "  " + SCALE_P + "\n  LOAD S1:f64[2], &p")],
            "nothing has written",
        ),
    ],
)
def test_a_wrong_unit_does_not_verify(changes, what):
    with pytest.raises(VerifyError, match=what):
        verify(parse(edited(*changes)))


def test_components_that_are_coupled_need_one_factor():
    """Units dt and 2 dt for p[0] and p[1], undone rightly: another kick, and no energy has it."""
    two = "MOVE T8:f64[2], stack, $dt, T9"
    changes = [
        (SCALE_P, f"ELEM T9, mul, 2.0, $dt\n  {two}\n  SCALE S1:f64[2], times, T8"),
        (UNDO_P, "  SCALE S1:f64[2], over, T8\n"),
    ]
    with pytest.raises(VerifyError, match="curl"):
        verify(parse(edited(*changes)))
    # with the factors where they belong it is the same motion
    right = [
        *changes,
        (
            "ELEM T20:f64[2], add, S0, S1",
            "ELEM T19:f64[2], div, S1, T8\n  MOVE T18:f64[2], expand, $dt\n  FMA T20:f64[2], T19, T18, S0",
        ),
        ("ELEM T26, mul, T25, T10", "ELEM T26, mul, T25, T11"),
    ]
    assert verify(parse(edited(*right))).consistent


def test_a_kick_of_nine_tenths_is_symplectic_and_wrong():
    weak = edited(("ELEM T10, mul, $dt, $dt", "ELEM T9, mul, $dt, $dt\n  ELEM T10, mul, T9, 0.9"))
    with pytest.raises(VerifyError, match="total weight 0.9"):
        verify(parse(weak))
    assert verify(parse(weak.replace(" consistent", ""))).symplectic


def test_a_sign_that_is_undone_is_harmless():
    turned = edited(
        (SCALE_P, "ELEM T9, neg, $dt\n  SCALE S1:f64[2], times, T9"),
        ("over, $dt", "over, T9"),
        ("T20:f64[2], add", "T20:f64[2], sub"),
        ("T28:f64[2], sub", "T28:f64[2], add"),
    )
    assert verify(parse(turned)).symplectic and verify(parse(turned)).consistent


def test_a_shift_that_damps_is_not_a_shear():
    damped = edited(
        ("ELEM T28:f64[2], sub, S1, T27", "ELEM T19:f64[2], mul, S1, 0.9\n  ELEM T28:f64[2], sub, T19, T27")
    )
    certificate = verify(parse(damped.replace("claim symplectic consistent\n", "")))
    assert not any(v for _, v in certificate.items())
    assert "does not enter" in certificate.volume_preserving.because


def test_a_shift_by_a_stale_force_is_found():
    drift = "  ELEM T20:f64[2], add, S0, S1\n  SHIFT S0:f64[2], T20\n"
    kick = "  SHIFT S1:f64[2], T28\n"
    with pytest.raises(VerifyError, match="S0 is now S0@1"):
        verify(parse(edited((drift, ""), (kick, drift + kick))))


def test_a_position_plus_a_momentum_in_the_user_s_units_is_still_a_type_error():
    plain = edited((f"  {SCALE_P}\n", ""), (UNDO_P, ""))
    with pytest.raises(VerifyError, match="adds position S0 and momentum S1"):
        verify(parse(plain))


@pytest.mark.slow("no ordinary program is refused by our own verifier")
def test_units_that_cannot_be_shown_to_be_undone_are_not_taken():
    """A long program may use up what proofs may cost: then your units stay, and nothing is raised."""

    @tp.hamiltonian
    def bodies(q: tp.Array[4, 3], p: tp.Array[4, 3]):
        r2 = ((q[:, None] - q[None, :]) ** 2).sum(-1)
        near = -0.1 * tp.pair_sum(tp.where(r2 < 1.0, (1.0 - r2) ** 3, 0.0))
        return (p**2).sum() / 2 + near + 0.54 * tp.sum(tp.reshape(q, -1)[1:3]) + tp.sum(q**2) / 2

    sim = tp.compile(bodies, dt=0.3, scale="auto", backend="python")
    assert sim.certificate.symplectic


def test_in_long_forces_no_other_units_are_looked_for():
    """Each component of a product of all numbers is as long as the product: the search would take seconds."""

    @tp.hamiltonian
    def product(q: tp.Vec[36], p: tp.Vec[36]):
        return tp.sum(p**2) / 2 + q @ q / 2 + tp.prod(q)

    row = tp.compile(product, dt=0.05, scale="auto").explain("full").to_dict()["plan"]["scaled"]
    assert row["verdict"] == "no" and "each component counted alone" in row["because"]
