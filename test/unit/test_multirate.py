"""Are fast and slow forces stepped at their own pace?  As the method is written, certified, and counted."""

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.device.engines import loops
from tinyphysics.errors import InputError, PlanError
from tinyphysics.physics.molecular import harmonic_bonds, lennard_jones
from tinyphysics.synth.methods.multirate import composed, nested
from tinyphysics.tpir.kernels.kernel import build_kernel
from tinyphysics.tpir.kernels.loops import build_loops


@tp.hamiltonian
def bond(q: tp.Vec[2], p: tp.Vec[2], k: float = 100.0):
    return p @ p / 2 + k * (q[1] - q[0]) ** 2 / 2


@tp.potential
def weak(q: tp.Vec[2], g: float = 0.3):
    return g * tp.cos(q).sum()


@tp.potential
def weaker(q: tp.Vec[2], t, a: float = 0.05):
    return a * (q @ q) * tp.cos(t)


START = dict(q=[0.1, 0.3], p=[0.4, -0.2])


def by_hand(q, p, dt, inner, steps):
    q, p = np.array(q), np.array(p)

    def fast(q):
        return 100.0 * np.array([q[1] - q[0], q[0] - q[1]])

    def slow(q):
        return 0.3 * np.sin(q)

    for _ in range(steps):
        p = p + dt / 2 * slow(q)
        for _ in range(inner):
            p = p + dt / inner / 2 * fast(q)
            q = q + dt / inner * p
            p = p + dt / inner / 2 * fast(q)
        p = p + dt / 2 * slow(q)
    return q, p


@pytest.mark.requirement("S2-09")
def test_it_is_the_method_as_it_is_written():
    out = tp.compile(tp.fast(bond) + tp.slow(weak), dt=0.1, inner=7).evolve(**START, steps=50)
    q, p = by_hand(**START, dt=0.1, inner=7, steps=50)
    assert out.final.q == pytest.approx(q, abs=1e-12) and out.final.p == pytest.approx(p, abs=1e-11)


@pytest.mark.requirement("S2-09")
def test_its_certificate_and_what_is_measured():
    sim = tp.compile(tp.fast(bond) + tp.slow(weak), dt=0.1, inner=5)
    for name in ("symplectic", "symmetric", "reversible", "consistent"):
        assert sim.certificate[name], name
    assert tp.measure_symplectic(sim, **START).symplectic
    there = sim.evolve(**START, steps=300).final
    back = sim.evolve(q=there.q, p=-there.p, steps=300).final
    assert back.q == pytest.approx(START["q"], abs=1e-11) and back.p == pytest.approx([-0.4, 0.2], abs=1e-10)


@pytest.mark.requirement("S2-09")
def test_the_slow_force_is_evaluated_once_a_step():
    step = tp.compile(tp.fast(bond) + tp.slow(weak), dt=0.1, inner=10).tpir.step
    assert sum(i.op == "ELEM" and str(i.args[0]) == "sin" for i in step) == 1
    assert sum(i.op == "SYMP_STEP" for i in step) == 21


def test_three_levels_with_time_in_the_slowest():
    assert nested([2, 3]) == [*[*[("T", 1 / 6), ("0", 1 / 6)] * 2, ("1", 1 / 3)] * 3, ("2", 1.0)]
    sums = tp.fast(bond) + tp.slow(weak) + tp.slow(weaker, 2)
    sim = tp.compile(sums, dt=0.1, inner=(4, 3))
    assert sim.certificate.symplectic and sim.certificate.consistent and sim.certificate.symmetric
    ends = []
    for n in (20, 40, 80):
        out = tp.compile(sums, dt=2.0 / n, inner=(4, 3)).evolve(**START, steps=n)
        ends.append(np.concatenate([out.final.q, out.final.p]))
    exact = tp.compile(bond + weak + weaker, dt=2.0 / 4000, order=6).evolve(**START, steps=4000).final
    errors = [np.abs(e - np.concatenate([exact.q, exact.p])).max() for e in ends]
    assert np.log2(errors[1] / errors[2]) == pytest.approx(2, abs=0.15)


@pytest.mark.parametrize("backend", ["python", "numpy", "c"])
def test_the_same_bits_everywhere(backend):
    sums = tp.fast(bond) + tp.slow(weak)
    given = dict(q=np.random.default_rng(1).normal(size=(5, 2)), p=np.zeros((5, 2)), steps=20)
    wanted = tp.compile(sums, dt=0.1, inner=3, backend="llvm").evolve(**given).hash
    assert tp.compile(sums, dt=0.1, inner=3, backend=backend).evolve(**given).hash == wanted


@tp.hamiltonian
def beads(q: tp.Array["n", 3], p: tp.Array["n", 3], bonds: tp.Array["b", 2], k: float = 1e4):
    return (p**2).sum() / 2 + harmonic_bonds(q, bonds, k, 1.0).sum()


@tp.potential
def pairs(q: tp.Array["n", 3]):
    return tp.pair_sum(lennard_jones(tp.pair_distance2(q, cutoff=2.5, shift=True), 0.2, 0.9))


def chain(n):
    rng = np.random.default_rng(4)
    turn = np.linspace(0, 6 * np.pi, n)
    q = np.stack([np.cos(turn), np.sin(turn), 0.35 * turn], -1)
    q *= 1 / np.linalg.norm(np.diff(q, axis=0), axis=1).mean()
    return dict(q=q, p=rng.normal(size=(n, 3)) * 0.3, bonds=[(i, i + 1) for i in range(n - 1)])


@pytest.mark.requirement("S2-09")
def test_a_chain_of_beads_needs_far_fewer_pair_forces():
    """Steps of 0.005 with ten fast kicks drift less than steps of 0.001 of all forces: five times as many pair forces."""
    given = chain(16)
    fast = tp.compile(tp.fast(beads) + tp.slow(pairs), dt=0.005, inner=10).evolve(**given, steps=200)
    plain = tp.compile(beads + pairs, dt=0.001).evolve(**given, steps=1000)
    assert fast.drift("energy") < plain.drift("energy") < 1e-3


# --- loops in loops ----------------------------------------------------------------------------------------------
def test_the_inner_steps_are_a_loop_however_many_there_are():
    """Number by number: one fast step and one slow kick are written."""
    few, many = (
        build_kernel(tp.compile(tp.fast(bond) + tp.slow(weak), dt=0.1, inner=n).tpir) for n in (5, 200)
    )
    assert (few.stages, many.stages) == (5, 200) and [t.period for t in many.tails] == [200]
    assert few.section("step").code == many.section("step").code
    sums = tp.fast(bond) + tp.slow(weak) + tp.slow(weaker, 2)
    nested_twice = build_kernel(tp.compile(sums, dt=0.1, inner=(4, 3)).tpir)
    assert nested_twice.stages == 12 and [t.period for t in nested_twice.tails] == [4, 12]


@tp.hamiltonian
def oscillator(q: tp.Vec[1], p: tp.Vec[1]):
    return p @ p / 2 + q @ q / 2


@tp.potential
def softer(q: tp.Vec[1], c: float = 0.2):
    return c * (q @ q) / 2


def test_a_drift_and_a_kick_of_the_same_operations_are_told_apart_by_their_states():
    paces, start = tp.fast(oscillator) + tp.slow(softer), dict(q=[1.0], p=[0.3])
    sim = tp.compile(paces, dt=0.5, inner=400)
    kernel = build_kernel(sim.tpir)
    assert kernel.stages == 400 and kernel.section("step").code < 20
    here = tp.compile(paces, dt=0.5, inner=400, backend="python")
    assert sim.evolve(**start, steps=3).hash == here.evolve(**start, steps=3).hash
    with pytest.raises(PlanError, match="20,000 fast kicks in a step"):
        tp.compile(paces, dt=0.5, inner=20_000)


@pytest.mark.all
def test_two_thousand_inner_steps_run_in_the_kernel():
    paces = tp.fast(oscillator) + tp.slow(softer)
    runs = [
        tp.compile(paces, dt=0.5, inner=2000, backend=b).evolve(q=[1.0], p=[0.3], steps=3)
        for b in ("auto", "python")
    ]
    assert runs[0].metrics["backend"]["used"] == "llvm" and runs[0].hash == runs[1].hash


@pytest.mark.requirement("S2-09")
def test_nests_go_round_in_one_kernel_and_the_slow_pairs_once():
    sims = {
        n: tp.compile(tp.fast(beads) + tp.slow(pairs), dt=0.002, inner=n, sizes={"n": 24, "b": 23})
        for n in (3, 30)
    }
    steps = {n: build_loops(sim.tpir).sections["step"] for n, sim in sims.items()}
    assert {n: s.passes for n, s in steps.items()} == {3: 3, 30: 30}
    assert len(steps[3].nests) == len(steps[30].nests)
    done = [steps[30].nests[k].kind for turn in steps[30].sequence() for k in range(turn.begin, turn.end)]
    assert done.count("pairs") == 1 and done.count("scatter") == 30
    assert "passes in a step" in str(sims[30].explain("full"))


@tp.hamiltonian
def fput(q: tp.Vec["n"], p: tp.Vec["n"]):
    stretch = np.diff(q)
    return p @ p / 2 + (stretch**2 / 2 + stretch**4 / 4).sum()


@tp.potential
def ripple(q: tp.Vec["n"], k: float = 0.1):
    return k * tp.cos(q).sum()


@tp.potential
def breath(q: tp.Vec["n"], a: float = 0.01):
    return a * (q @ q) ** 2


@tp.potential
def tide(q: tp.Vec["n"], t, b: float = 0.1):
    return b * tp.sin(t) * q.sum()


LINE = dict(q=np.sin(np.arange(40.0)), p=np.cos(np.arange(40.0)))


@pytest.mark.parametrize(
    "sums, inner, given, passes",
    [
        (tp.fast(beads) + tp.slow(pairs), 4, chain(12), 4),
        (tp.fast(fput) + tp.slow(ripple), 20, LINE, 20),
        (tp.fast(fput) + tp.slow(ripple), 5, LINE, 1),  # maps alone, and few: they may stay in registers
        (tp.fast(fput) + tp.slow(ripple) + tp.slow(breath, 2), (5, 4), LINE, 20),
        (tp.fast(fput) + tp.slow(breath + tide), 3, LINE, 3),  # the slow part has a clock
        (
            tp.fast(fput + tide) + tp.slow(breath),
            3,
            LINE,
            1,
        ),  # the fast part has one: each of its kicks has its own time
    ],
)
def test_loops_in_loops_have_the_bits_of_the_virtual_machine(sums, inner, given, passes):
    sim = tp.compile(sums, dt=0.005, inner=inner, backend="python")
    wanted = sim.evolve(**given, steps=4, t0=0.3, observe={"E": "energy"}, observe_every=2)
    assert build_loops(sim.tpir).sections["step"].passes == passes
    for backend in ("llvm", "c", "numpy"):
        out = tp.compile(sums, dt=0.005, inner=inner, backend=backend).evolve(
            **given, steps=4, t0=0.3, observe={"E": "energy"}, observe_every=2
        )
        assert out.hash == wanted.hash and np.array_equal(out["E"], wanted["E"])


def test_threads_share_the_nests_of_a_loop_in_a_loop(monkeypatch):
    monkeypatch.setattr(loops, "THREAD_WORK", 1.0)
    sim = tp.compile(tp.fast(beads) + tp.slow(pairs), dt=0.002, inner=6)
    given = chain(40)
    assert len({sim.evolve(**given, steps=5, threads=n).hash for n in (1, 2, 3)}) == 1


def test_an_ensemble_and_float32_go_round_too():
    given = dict(q=np.random.default_rng(1).normal(size=(37, 2)), p=np.zeros((37, 2)), steps=9)
    sums = tp.fast(bond) + tp.slow(weak) + tp.slow(weaker, 2)
    for precision in ("float32", "compensated"):
        runs = {
            b: tp.compile(sums, dt=0.1, inner=(3, 4), precision=precision, backend=b).evolve(**given).hash
            for b in ("python", "llvm", "c", "numpy")
        }
        assert len(set(runs.values())) == 1


# --- order 4 -----------------------------------------------------------------------------------------------------
def test_steps_of_two_paces_are_composed_to_order_4():
    assert composed([2], [0.75, -0.5, 0.75]) == [
        ("T", 0.375),
        ("0", 0.375),
        ("T", 0.375),
        ("0", 0.0625),
        ("1", 0.125),
        ("T", -0.25),
        ("0", -0.25),
        ("T", -0.25),
        ("0", 0.0625),
        ("1", 0.125),
        ("T", 0.375),
        ("0", 0.375),
        ("T", 0.375),
        ("0", 0.375),
        ("1", 0.75),
    ]
    sums = tp.fast(bond) + tp.slow(weak) + tp.slow(weaker, 2)
    sim = tp.compile(sums, dt=0.1, inner=(4, 3), order=4)
    assert sim.built.plan.method == "respa4" and sim.certificate.symplectic and sim.certificate.symmetric
    assert sim.certificate.consistent and build_kernel(sim.tpir).stages == 60
    exact = tp.compile(bond + weak + weaker, dt=2.0 / 4000, order=8).evolve(**START, steps=4000).final
    errors = []
    for n in (40, 80):
        end = tp.compile(sums, dt=2.0 / n, inner=(4, 3), order=4).evolve(**START, steps=n).final
        errors.append(max(np.abs(end.q - exact.q).max(), np.abs(end.p - exact.p).max()))
    assert np.log2(errors[0] / errors[1]) == pytest.approx(4, abs=0.2)
    hashes = {
        b: tp.compile(sums, dt=0.1, inner=(4, 3), order=4, backend=b).evolve(**START, steps=7).hash
        for b in ("python", "llvm", "c", "numpy")
    }
    assert len(set(hashes.values())) == 1


def test_it_may_be_asked_for_by_name():
    sums = tp.fast(bond) + tp.slow(weak)
    assert (
        tp.compile(sums, dt=0.1, inner=5, method="respa").tpir.hash
        == tp.compile(sums, dt=0.1, inner=5).tpir.hash
    )


def test_it_is_saved_and_loaded(tmp_path):
    sim = tp.compile(tp.fast(bond) + tp.slow(weak), dt=0.1, inner=5)
    sim.save(tmp_path / "s")
    assert tp.load(tmp_path / "s").evolve(**START, steps=9).hash == sim.evolve(**START, steps=9).hash


@pytest.mark.parametrize(
    "make, options, error, said",
    [
        (lambda: tp.fast(bond) + weak, dict(inner=5), PlanError, "`weak` is marked neither fast nor slow"),
        (
            lambda: tp.fast(bond) + tp.slow(weak),
            dict(inner=(2, 2)),
            PlanError,
            "has 2 parts of different speed",
        ),
        (lambda: bond + weak, dict(inner=5), PlanError, "needs an energy with fast and slow parts"),
        (lambda: tp.fast(bond) + tp.slow(weak), dict(inner=0), InputError, "inner=0"),
        (lambda: tp.fast(bond) + tp.slow(weak, 0), dict(inner=3), InputError, "Ranks are"),
        (lambda: tp.fast(3), dict(inner=3), InputError, "a number is not a system"),
        (
            lambda: tp.fast(bond) + tp.slow(weak),
            dict(inner=5, order=6),
            PlanError,
            "order 6 applies all kicks with the same step(.|\n)*orders 2 and 4",
        ),
        (
            lambda: tp.fast(bond) + tp.slow(weak),
            dict(inner=5, method="leapfrog"),
            PlanError,
            "leapfrog_kdk applies all kicks with the same step",
        ),
        (
            lambda: tp.fast(bond) + tp.slow(weak),
            dict(inner=5, forbid="respa"),
            PlanError,
            "with the same step",
        ),
        (
            lambda: tp.fast(bond) + tp.slow(weak),
            dict(inner=5, precision="lattice"),
            PlanError,
            "without fast and slow parts",
        ),
        (lambda: bond, dict(method="respa"), PlanError, "no part of it was said to be fast or slow"),
    ],
)
def test_what_is_not_said_clearly_is_refused(make, options, error, said):
    with pytest.raises(error, match=said):
        tp.compile(make(), dt=0.1, **options)


def test_parts_of_one_pace_are_stepped_as_one():
    sums = tp.slow(bond) + tp.slow(weak)
    assert tp.compile(sums, dt=0.01).tpir.hash == tp.compile(bond + weak, dt=0.01).tpir.hash


def test_a_sum_in_a_file_is_what_the_command_runs(tmp_path, capsys):
    from tinyphysics.cli import main

    (tmp_path / "two.py").write_text(
        "import tinyphysics as tp\n\n"
        "@tp.hamiltonian\ndef stiff(q, p):\n    return p**2 / 2 + 50 * q**2\n\n"
        "@tp.potential\ndef soft(q):\n    return tp.cos(q)\n\n"
        "both = tp.fast(stiff) + tp.slow(soft)\nstart, dt = dict(q=1.0, p=0.0), 0.1\n"
    )
    assert main(["run", str(tmp_path / "two.py"), "--steps", "3"]) == 0
    assert "stiff + soft: respa" in capsys.readouterr().out
