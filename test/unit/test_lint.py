"""Are the twelve causes found before a run and after it, and nothing in their healthy neighbours?"""

import json

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.cli import main
from tinyphysics.runtime.measure.causes import CAUSES

pytestmark = pytest.mark.filterwarnings("ignore::tinyphysics.PhysicsWarning")


@tp.hamiltonian
def spring(q, p, k=1.0, m=1.0):
    return p**2 / (2 * m) + k * q**2 / 2


@tp.hamiltonian
def bodies(q: tp.Array[3, 2], p: tp.Array[3, 2], m: tp.Vec[3], eps=0.0):
    r = tp.sqrt(((q[:, None] - q[None, :]) ** 2).sum(-1) + eps**2)
    return ((p**2).sum(-1) / (2 * m)).sum() - tp.pair_sum(m[:, None] * m[None, :] / r)


@tp.hamiltonian
def centre(q: tp.Vec[2], p: tp.Vec[2], eps=0.0):
    return p @ p / 2 - 1 / tp.sqrt(q @ q + eps * eps)


@tp.forces
def swirl(q: tp.Vec[2], c=0.5):
    x, y = q
    return -q + c * np.stack([-y, x])


@tp.forces
def one_sided(q: tp.Vec[60], back=0.0):  # each pulls its neighbour, and is pulled by it only if `back` is 1
    return np.roll(q, 1) - (1 + back) * q + back * np.roll(q, -1)


@tp.hamiltonian
def cut(q, p, bottom=0.0):
    return p**2 / 2 + tp.where(abs(q) < 1.0, (q**2 - 1) / 2 - bottom, 0.0)


@tp.hamiltonian
def faded(q, p):
    return p**2 / 2 + tp.where(abs(q) < 1.0, -((1 - q**2) ** 3), 0.0)


@tp.hamiltonian
def bent(q, p):
    return p**2 / 2 + abs(q)


@tp.hamiltonian
def half(q, p):
    return p**2 / 2 + tp.maximum(q, 0.0) ** 2 + q**2 / 8


def in_a_box(energy):
    @tp.hamiltonian
    def folded(q: tp.Array[3, 2], p: tp.Array[3, 2], L=4.0):
        d = q[:, None] - q[None, :]
        d = d - L * tp.floor(d / L + 0.5)
        return (p * p).sum() / 2 + tp.pair_sum(energy(d, L))

    return folded


far = in_a_box(lambda d, L: 1 / tp.sqrt((d * d).sum(-1) + 0.1))
periodic = in_a_box(lambda d, L: tp.cos(2 * np.pi * d / L).sum(-1))


def short(d, L):
    r2 = (d * d).sum(-1)
    return tp.where(r2 < 2.25, (1 - r2 / 2.25) ** 3, 0.0)


near = in_a_box(short)


@tp.hamiltonian
def bonds(q: tp.Array[3, 2], p: tp.Array[3, 2], beyond=10.0):
    r = tp.sqrt(((q[:, None] - q[None, :]) ** 2).sum(-1))
    return (p**2).sum() / 2 + tp.pair_sum(tp.where(r < 1.5, 50 * (r - 1) ** 2, beyond))


@tp.hamiltonian
def root(q, p):
    return p**2 / 2 + tp.sqrt(q)


@tp.hamiltonian
def hill(q, p):
    return p**2 / 2 - q**4 / 4


@tp.hamiltonian
def mixed(q, p):
    return p**2 * (1 + q**2) / 2 + tp.cosh(q)


def with_op(name, factor):
    well = tp.op(name, lambda x: x**2 / 2, lambda x: (factor * x,))
    return tp.hamiltonian(lambda q, p: p**2 / 2 + well(q))


THREE = {"q": [[0.0, 0.0], [1.0, 0.0], [0.0, 2.0]], "p": np.zeros((3, 2)), "m": [1.0, 1.0, 1.0]}
BOX = {"q": [[0.5, 0.5], [2.2, 0.6], [0.4, 2.0]], "p": [[-1.0, 0.0], [1.0, 0.2], [0.0, 0.0]]}
ONE = {"q": 0.5, "p": 1.0}
LOOP = {"method": "leapfrog", "propagator": "loop"}
ROW = np.sin(np.arange(60.0))
# fmt: off
WRONG = {  # cause: what has it, found before a run
    "dt above the limit": [
        (spring, {"dt": 2.5, **LOOP}, ONE),
        (bodies, {"dt": 0.05}, THREE | {"q": [[0.0, 0.0], [1.0, 0.0], [1.01, 0.0]], "p": [[0.0, 0.0], [0.0, -7.0], [0.0, 7.0]]}),
    ],
    "overlap at the start": [
        (bodies, {"dt": 0.01}, THREE | {"q": [[0.0, 0.0], [1.0, 0.0], [1.0, 0.0]]}),
        (bodies, {"dt": 0.01}, THREE | {"q": [[0.0, 0.0], [1.0, 0.0], [1.001, 0.0]]}),
    ],
    "pole": [(centre, {"dt": 0.01}, {"q": [0.0, 0.0], "p": [0.0, 1.0]})],
    "curl in @tp.forces": [
        (swirl, {"dt": 0.01}, {"q": [1.0, 0.0], "p": [0.0, 1.0]}),
        (one_sided, {"dt": 0.01}, {"q": ROW, "p": ROW}),
    ],
    "wrong derivative in a tp.op": [(with_op("lint_wrong", 1.01), {"dt": 0.01}, ONE)],
    "mass zero": [
        (spring, {"dt": 0.01}, ONE | {"m": 0.0}),
        (bodies, {"dt": 0.01}, THREE | {"m": [1.0, 0.0, 1.0]}),
    ],
    "jump at a cutoff": [
        (cut, {"dt": 0.01}, ONE | {"bottom": 0.2}),
        (bonds, {"dt": 0.01}, {"q": [[0.0, 0.0], [1.0, 0.0], [0.5, 0.9]], "p": np.zeros((3, 2))}),
    ],
    "image jump in a box": [(far, {"dt": 0.01}, BOX)],
    "kink": [(bent, {"dt": 0.01}, ONE), (cut, {"dt": 0.01}, ONE)],
    "root of a negative": [(root, {"dt": 0.01}, {"q": -0.1, "p": 0.0})],
    "overflow": [(spring, {"dt": 0.01, "precision": "float32"}, {"q": 1e20, "p": 0.0})],
    "equations not solved": [(mixed, {"dt": 30.0, "method": "gauss4"}, {"q": 3.0, "p": 4.0})],
}
HEALTHY = [  # as near to them as possible, and nothing wrong
    (spring, {"dt": 1.9, **LOOP}, ONE),
    (spring, {"dt": 2.5, "method": "implicit_midpoint", "propagator": "loop"}, ONE),
    (bodies, {"dt": 0.001}, THREE | {"q": [[0.0, 0.0], [1.0, 0.0], [1.05, 0.0]]}),
    (bodies, {"dt": 0.01}, THREE | {"q": [[0.0, 0.0], [1.0, 0.0], [1.0, 0.0]], "eps": 0.2}),
    (centre, {"dt": 0.01}, {"q": [0.0, 0.0], "p": [0.0, 1.0], "eps": 0.5}),
    (swirl, {"dt": 0.01}, {"q": [1.0, 0.0], "p": [0.0, 1.0], "c": 0.0}),
    (one_sided, {"dt": 0.01}, {"q": ROW, "p": ROW, "back": 1.0}),
    (with_op("lint_right", 1.0), {"dt": 0.01}, ONE),
    (faded, {"dt": 0.01}, ONE),
    (half, {"dt": 0.01}, ONE),
    (periodic, {"dt": 0.01}, BOX),
    (near, {"dt": 0.01}, BOX),
    (root, {"dt": 0.01}, {"q": 0.1, "p": 1.0}),
    (spring, {"dt": 0.01, "precision": "float32"}, {"q": 1e18, "p": 0.0}),
    (mixed, {"dt": 0.01, "method": "gauss4"}, {"q": 3.0, "p": 4.0}),
]
# fmt: on
EVERY = [(cause, *row) for cause, rows in WRONG.items() for row in rows]


def test_every_cause_of_the_catalogue_has_a_planted_bug():
    assert list(WRONG) == list(CAUSES) and len(CAUSES) == 12


@pytest.mark.parametrize(
    "cause, system, options, start", EVERY, ids=lambda x: x if isinstance(x, str) else ""
)
def test_a_planted_bug_is_found_before_the_run(cause, system, options, start):
    found = tp.compile(system, **options, checks="off").lint(**start)
    assert [f.cause for f in found] == [cause], str(found)
    assert cause in str(found) and not found.clean


@pytest.mark.parametrize("k", range(len(HEALTHY)))
def test_nothing_is_found_in_a_healthy_neighbour(k):
    system, options, start = HEALTHY[k]
    found = tp.compile(system, **options, checks="off").lint(**start)
    assert found.clean, str(found)


def test_a_finding_has_the_line_the_pair_and_the_fix():
    (found,) = tp.compile(far, dt=0.01, checks="off").lint(**BOX)
    assert "test_lint.py:" in found.term and found.where in ((0, 1), (0, 2), (1, 2))
    assert "cutoff" in found.fix


def test_a_cutoff_of_a_liquid_is_found_by_its_kind():
    q = 1.3 * np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    for options, causes in (({}, ["jump at a cutoff"]), ({"shift": True}, ["kink"]), ({"switch": 2.0}, [])):

        @tp.hamiltonian
        def liquid(q: tp.Array[3, 3], p: tp.Array[3, 3]):
            r2 = tp.pair_distance2(q, box=8.0, cutoff=2.5, **options)
            return (p * p).sum() / 2 + tp.pair_sum(4 * (r2**-6 - r2**-3))

        assert [f.cause for f in tp.compile(liquid, dt=0.002).lint(q=q, p=0 * q)] == causes


def test_a_lint_runs_nothing_of_the_simulation_itself():
    sim = tp.compile(spring, dt=0.01)
    before = sim.evolve(**ONE, steps=10).hash
    sim.lint(**ONE)
    assert sim.evolve(**ONE, steps=10).hash == before


# --- after a run ------------------------------------------------------------------------------------
def stopped_at_its_largest_change(system, start, steps=400, **options):
    """A run, and a stop at the step in which its energy changed most."""
    out = tp.compile(system, **{"dt": 0.01, "checks": "off", **options}).evolve(
        **start, steps=steps, save_every=1
    )
    step = 1 + int(np.abs(np.diff(out.energy)).argmax())
    return tp.Stop("integrity", step, 0.01 * step, of=out)


AFTER = {
    "jump at a cutoff": (cut, ONE | {"p": 2.0, "bottom": 0.2}),
    "image jump in a box": (far, BOX),
    "kink": (bent, ONE),
}


@pytest.mark.parametrize("cause", AFTER)
def test_what_an_energy_lost_at_a_step_is_named(cause):
    stop = stopped_at_its_largest_change(*AFTER[cause])
    found = stop.report()
    assert found.cause == cause, str(found)
    assert f"at step {stop.step:,}" in str(found) and "test_lint.py:" in found.term


@pytest.mark.parametrize(
    "system, start", [(faded, ONE), (half, ONE), (near, BOX), (periodic, BOX), (spring, ONE)]
)
def test_no_cause_is_named_where_none_is(system, start):
    found = stopped_at_its_largest_change(system, start).report()
    assert found.cause == "no cause found", str(found)


def test_forces_with_a_curl_and_a_wrong_derivative_are_named_where_they_end():
    sim = tp.compile(swirl, dt=0.05, checks="off")
    found = sim.evolve(q=[1.0, 0.0], p=[0.0, 1.0], steps=100_000).stopped.report()
    assert found.cause == "curl in @tp.forces" and "c*[-q[1], q[0]]" in found.term
    wrong = tp.compile(with_op("lint_sign", -1.0), dt=0.05, method="leapfrog", checks="off")
    found = wrong.evolve(**ONE, steps=100_000).stopped.report()
    assert found.cause == "wrong derivative in a tp.op" and "lint_sign" in found.because
    # without the mistake the same shape of energy has no lower bound, and nothing else is wrong with it
    upside_down = tp.hamiltonian(lambda q, p: p**2 / 2 - q**2 / 2)
    found = tp.compile(upside_down, dt=0.05, propagator="loop", checks="off").evolve(**ONE, steps=100_000)
    assert found.stopped.report().cause == "overflow"


def test_a_force_at_a_pole_is_a_pole_and_no_curl():
    pull = tp.forces(lambda q: -1 / (q * abs(q)))
    out = tp.compile(pull, dt=0.01, checks="off").evolve(q=0.0, p=1.0, steps=10)
    assert out.stopped.report().cause == "pole"


def test_the_equations_of_an_implicit_step_are_not_blamed_for_a_root():
    out = tp.compile(root, dt=0.01, method="implicit_midpoint", checks="off").evolve(q=-1.0, p=1.0, steps=10)
    assert out.stopped.report().cause == "root of a negative"


# --- tp check ---------------------------------------------------------------------------------------
FILE = """
import tinyphysics as tp

@tp.hamiltonian
def spring(q, p, k=1.0):
    return p**2 / 2 + k * q**2 / 2

start = dict(q=1.0, p=0.0)
dt = 0.01
"""


def test_tp_check_has_three_exit_codes(tmp_path, capsys):
    file = tmp_path / "spring.py"
    file.write_text(FILE)
    assert main(["check", str(file)]) == 0
    assert "none of the 12 causes" in capsys.readouterr().out
    assert main(["check", f"{file}:spring", "--dt", "3", "--method", "leapfrog", "--set", "k=2"]) == 1
    assert "dt above the limit: dt*omega is 4.24" in capsys.readouterr().out
    assert main(["check", str(tmp_path / "none.py")]) == 2
    file.write_text(FILE.replace("start = ", "other = "))
    assert main(["check", str(file)]) == 2
    assert "the initial `q`" in capsys.readouterr().err


def test_tp_check_prints_json(tmp_path, capsys):
    file = tmp_path / "spring.py"
    file.write_text(FILE)
    assert main(["check", str(file), "--json", "--dt", "3", "--method", "leapfrog"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["system"] == "spring" and not told["clean"]
    assert told["findings"][0]["cause"] == "dt above the limit"
    assert told["findings"][0]["line"] == "spring.py:6"


@pytest.mark.requirement("S1-48")
def test_a_run_says_how_much_memory_there_was():
    sim = tp.compile(spring, dt=0.01)
    out = sim.evolve(q=np.zeros(100_000), p=np.zeros(100_000), steps=20, save_every=1)
    frames = out.q.nbytes + out.p.nbytes
    assert 1e12 > out.metrics["peak_memory"] > frames
    assert sim.evolve(**ONE, steps=1).metrics["peak_memory"] >= out.metrics["peak_memory"]


def test_a_fault_is_no_cause_of_the_catalogue_and_its_act_is_named():
    start = THREE | {"p": [[0.0, 0.0], [0.0, 1.0], [-0.7, 0.0]]}
    fault = {"fault": tp.fault("p", (1, 1), relative=1e-3, since=30)}
    out = tp.compile(bodies, dt=0.01, method="leapfrog").evolve(**start, eps=0.1, steps=100, acts=fault)
    found = out.stopped.report()
    assert found.cause == "no cause found" and found.flow == "act `fault`" and found.place == "p[1, 1]"
    assert [row.step for row in found.rows] == list(range(22, 31))
    before, bad = found.rows[-2].own, found.rows[-1].own
    assert bad == pytest.approx(1.001 * before, rel=1e-2) and "momentum" in found.because


def test_a_run_that_lost_its_energy_long_before_it_stopped_is_examined_where_it_lost_it():
    @tp.hamiltonian
    def cores(q: tp.Array[3, 2], p: tp.Array[3, 2]):
        r2 = ((q[:, None] - q[None, :]) ** 2).sum(-1)
        return (p * p).sum() / 2 + (q**4).sum() / 40 + tp.pair_sum(r2**-6)

    start = {"q": [[0.0, 0.0], [2.1, 0.1], [-0.2, 2.2]], "p": np.zeros((3, 2))}
    out = tp.compile(cores, dt=0.35, method="leapfrog", checks="off").evolve(**start, steps=100_000)
    found = out.stopped.report()
    assert found.cause == "dt above the limit", str(found)
    assert out.stopped.step > found.rows[-1].step and f"lost at step {found.rows[-1].step:,}" in found.because
    assert max(row.pace for row in found.rows) > 2


def test_a_root_inside_a_step_of_a_differential_equation_is_named():
    leak = tp.ode(lambda x: -tp.sqrt(x) - 0.1)
    out = tp.compile(leak, dt=0.01, method="rk4", checks="off").evolve(x=0.5, steps=1000)
    assert out.stopped.report().cause == "root of a negative"


def test_one_bad_member_of_many_is_found_before_the_run():
    sim, q = tp.compile(spring, dt=0.01, **LOOP, checks="off"), np.ones(2000)
    for name, value, cause in (("m", 0.0, "mass zero"), ("k", 1e6, "dt above the limit")):
        odd = np.ones(2000)
        odd[1234] = value
        assert [f.cause for f in sim.lint(q=q, p=q, **{name: odd})] == [cause]


def test_two_particles_that_begin_in_one_place_overlap():
    """Without others to compare with: the step would have to be thousands of times shorter."""

    @tp.hamiltonian
    def pair(q: tp.Array[2, 3], p: tp.Array[2, 3]):
        return (p**2).sum() / 2 - 1 / tp.norm(q[0] - q[1])

    sim = tp.compile(pair, dt=0.01)
    together = np.array([[0.0, 0.0, 0.0], [1e-5, 0.0, 0.0]])
    (found,) = sim.lint(q=together, p=0 * together)
    assert found.cause == "overlap at the start" and found.where == (0, 1)
    apart, around = together * 1e5, np.array([[0.0, 0.5, 0.0], [0.0, -0.5, 0.0]])
    assert not list(sim.lint(q=apart, p=around))


@pytest.mark.parametrize("name", ["steps", "until"])
def test_lint_decides_itself_how_far_it_goes(name):
    sim = tp.compile(lambda q, p: p**2 / 2 + q**2 / 2, dt=0.01)
    with pytest.raises(tp.InputError, match=f"no {name}=\\.\n  Leave it out"):
        sim.lint(q=1.0, p=0.0, **{name: 3})
