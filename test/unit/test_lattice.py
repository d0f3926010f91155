"""Does a run on a lattice come back?  Every bit, in any pieces, on every backend; and what stops it or is refused."""

from __future__ import annotations

import re
import subprocess

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.runtime.engines.backend import lane_engine
from here import HERE
from tinyphysics import tpir
from tinyphysics.device.host.arrays import ArraysLoader
from tinyphysics.device.host.cc import compiler
from tinyphysics.errors import InputError, PhysicsIntegrityError, PlanError
from tinyphysics.physics import starts
from tinyphysics.physics.molecular import lennard_jones
from tinyphysics.physics.particles import gravity, solar_system
from tinyphysics.physics.zoo import henon_heiles, kepler
from tinyphysics.planner.methods.catalog import METHODS
from tinyphysics.runtime.state.digest import state_hash
from tinyphysics.runtime.engines.loaders import LlvmLoader
from tinyphysics.target import VectorShape
from tinyphysics.tpir.kernels.kernel import build_kernel
from tinyphysics.tpir.precision.lattice import UNIT

SPLITTINGS = [m.name for m in METHODS if m.splits]
START = dict(q=[0.1, 0.2], p=[0.3, -0.1])
ATOMS, BOX = starts.lattice("fcc", 3, density=0.8)
HOT = np.random.default_rng(3).normal(size=ATOMS.shape)
LIQUID = dict(q=ATOMS, p=HOT - HOT.mean(0), box=float(BOX[0]))


def on_lattice(system=henon_heiles, dt=0.05, **options):
    return tp.compile(system, dt=dt, precision="lattice", **options)


@tp.hamiltonian
def liquid(q: tp.Array["n", 3], p: tp.Array["n", 3], box: float, epsilon: float = 1.0, skin: float = 0.3):
    r2 = tp.pair_distance2(q, box=box, cutoff=2.0, skin=skin)
    return (p * p).sum() / 2 + tp.pair_sum(lennard_jones(r2, epsilon))


@tp.hamiltonian
def hill(q, p):
    """q and p grow with e**t."""
    return p**2 / 2 - q**2 / 2


@tp.hamiltonian
def driven(q, p, t):
    return p**2 / 2 + tp.cos(q) * (1 + 0.1 * tp.sin(t))


def pieces(steps, count, seed):
    """A number of steps cut at random."""
    cuts = np.sort(np.random.default_rng(seed).integers(0, steps + 1, count - 1))
    return np.diff([0, *cuts, steps]).tolist()


def forward(sim, state, cuts, **given):
    """A run in pieces, each from what the one before it has shown; and the last of them."""
    out = sim.evolve(**state, **given, steps=0)
    for n in cuts:
        out = sim.evolve(**{name: out.final[name] for name in state}, **given, steps=n)
    return out


# --- back to the last bit -----------------------------------------------------------------------------
@pytest.mark.requirement("S2-43")
@pytest.mark.parametrize("method", SPLITTINGS)
def test_every_splitting_comes_back_however_it_is_cut(method):
    sim = on_lattice(method=method)
    begin, whole = sim.evolve(**START, steps=0), sim.evolve(**START, steps=2000)
    assert forward(sim, START, pieces(2000, 20, 1)).hash == whole.hash != begin.hash
    back = whole
    for n in pieces(2000, 20, 2):
        back = sim.rewind(back, n)
    assert back.hash == begin.hash and back.final.step == 0 and back.t[-1] == 0.0


@pytest.mark.requirement("S2-43")
def test_20_000_steps_there_and_back_in_100_pieces():
    sim = on_lattice(dt=0.1)
    out = forward(sim, START, pieces(20_000, 100, 3))
    whole = sim.evolve(**START, steps=20_000)
    assert out.hash == whole.hash
    for n in pieces(20_000, 100, 4):
        whole = sim.rewind(whole, n)
    assert whole.hash == sim.evolve(**START, steps=0).hash


@pytest.mark.parametrize("order", [2, 4, 6, 8])
def test_with_its_velocities_reversed_a_run_comes_back_too(order):
    sim = on_lattice(order=order)
    end = sim.evolve(**START, steps=3000).final
    back = sim.evolve(q=end.q, p=-end.p, steps=3000).final
    begin = sim.evolve(**START, steps=0).final
    assert np.array_equal(back.q, begin.q) and np.array_equal(back.p, -begin.p)


@pytest.mark.requirement("S2-43")
def test_a_liquid_with_lists_comes_back_in_pieces():
    sim = on_lattice(liquid, dt=0.005)
    state = {name: LIQUID[name] for name in ("q", "p")}
    whole = sim.evolve(**LIQUID, steps=3000)
    assert abs(whole.final.q - LIQUID["q"]).max() > 1.0, "nothing has moved"
    assert forward(sim, state, pieces(3000, 7, 5), box=LIQUID["box"]).hash == whole.hash
    back = whole
    for n in pieces(3000, 9, 6):
        back = sim.rewind(back, n)
    assert back.hash == sim.evolve(**LIQUID, steps=0).hash
    floats = tp.compile(liquid, dt=0.005)
    there = floats.evolve(**LIQUID, steps=3000).final
    again = floats.evolve(q=there.q, p=there.p, box=LIQUID["box"], steps=3000, dt=-0.005).final
    assert abs(again.q - LIQUID["q"]).max() > 1e-6, "float64 would do"


@pytest.mark.requirement("S2-43")
def test_the_order_of_a_list_changes_no_bit():
    sim = on_lattice(liquid, dt=0.005)
    hashes = {sim.evolve(**LIQUID, skin=skin, steps=400).hash for skin in (0.02, 0.1, 0.3, 0.5)}
    floats = {
        tp.compile(liquid, dt=0.005).evolve(**LIQUID, skin=skin, steps=400).hash
        for skin in (0.02, 0.1, 0.3, 0.5)
    }
    assert len(hashes) == 1 and len(floats) > 1


N = len(ATOMS)
PAIRS = {
    "charges":  lambda r2, m, types, table: lennard_jones(r2) + m[:, None] * m[None, :] / tp.sqrt(r2),
    "radii":    lambda r2, m, types, table: lennard_jones(r2, 1.0, 0.4 * (m[:, None] + m[None, :])),
    "types":    lambda r2, m, types, table: lennard_jones(r2, table[types[:, None], types[None, :]]),
    "in turn":  lambda r2, m, types, table: lennard_jones(r2) + m[:, None] * (m[None, :] * m[:, None]) * m[None, :] / r2,
}  # fmt: skip


def mixture(energy):
    @tp.hamiltonian
    def system(
        q: tp.Array[N, 3],
        p: tp.Array[N, 3],
        m: tp.Array[N],
        types: tp.Array[N],
        table: tp.Array[2, 2],
        box: float,
        skin: float = 0.3,
    ):
        r2 = tp.pair_distance2(q, box=box, cutoff=2.0, skin=skin, exclude=[(0, 1), (7, 3)])
        return (p * p / m[:, None]).sum() / 2 + tp.pair_sum(energy(r2, m, types, table))

    return system


@pytest.mark.requirement("S2-43")
@pytest.mark.parametrize("name", PAIRS)
def test_a_pair_adds_the_same_whoever_comes_first_or_is_refused(name):
    if name == "in turn":  # a product of three is rounded in another order
        with pytest.raises(
            PlanError, match="not shown to be the same to the last bit if the two change places"
        ):
            on_lattice(mixture(PAIRS[name]), 0.004)
        return
    sim, rng = on_lattice(mixture(PAIRS[name]), 0.004), np.random.default_rng(5)
    given = dict(m=rng.uniform(0.8, 1.2, N), types=rng.integers(0, 2, N), table=[[1.0, 0.9], [0.9, 1.1]])
    assert len({sim.evolve(**LIQUID, **given, skin=skin, steps=120).hash for skin in (0.03, 0.5)}) == 1


@pytest.mark.requirement("S2-43")
def test_atoms_far_outside_their_box_feel_the_same_forces():
    sim, (q, p, box) = on_lattice(liquid, dt=0.005), (LIQUID[k] for k in ("q", "p", "box"))
    box = round(box / UNIT) * UNIT
    moved = q + box * np.random.default_rng(1).integers(-9, 10, q.shape)
    here, there = (sim.evolve(q=x, p=p, box=box, steps=200) for x in (q, moved))
    start = sim.evolve(q=moved, p=p, box=box, steps=0)
    assert np.array_equal(there.final.q - start.final.q, here.final.q - here.q[0])
    assert np.array_equal(there.final.p, here.final.p)


def test_a_frame_is_the_end_of_a_shorter_run():
    sim = on_lattice(order=4)
    out = sim.evolve(**START, steps=60, save_every=7)
    for k, n in enumerate(out.steps):
        assert np.array_equal(out.p[k], sim.evolve(**START, steps=int(n)).final.p)


def test_rewinding_shows_where_it_is():
    sim = on_lattice()
    out = sim.evolve(**START, steps=50, t0=1.0)
    back = sim.rewind(out, 20)
    same = sim.evolve(**START, steps=30, t0=1.0)
    assert back.hash == same.hash and back.final.step == 30 and back.steps.tolist() == [50, 30]
    assert (
        back.final.t == same.final.t
        and np.allclose(back.t, [3.5, 2.5])
        and "taken back" in back.metrics["rewind"]
    )
    assert back.energy[-1] == same.energy[-1] and back.drift("energy") == same.drift("energy")
    assert np.array_equal(back.q[0], out.final.q) and np.array_equal(back.q[1], same.final.q)
    assert sim.rewind(out, 0).hash == out.hash


# --- elsewhere it is done again -----------------------------------------------------------------------
@pytest.mark.parametrize("how", [dict(), dict(precision="float32"), dict(method="rk4")])
def test_a_float_run_is_replayed(how):
    sim = tp.compile(henon_heiles, dt=0.05, **how)
    out = sim.evolve(**START, steps=80)
    back = sim.rewind(out, 30)
    assert back.hash == sim.evolve(**START, steps=50).hash and back.final.step == 50
    assert back.metrics["rewind"] == "replayed from step 0"


@pytest.mark.parametrize(
    "options",
    [{}, {"precision": "lattice", "lattice": 2.0**-40}, {"precision": "dd"}, {"method": "aba84"}],
    ids=str,
)
def test_what_has_open_sizes_goes_back_too(options):
    sim, start = tp.compile(gravity, dt=1.0, **options), solar_system()
    out = sim.evolve(**start, steps=12)
    assert sim.rewind(out, 5).hash == sim.evolve(**start, steps=7).hash


def test_a_replay_may_begin_at_a_checkpoint(tmp_path):
    sim = tp.compile(henon_heiles, dt=0.05)
    sim.evolve(**START, steps=40, checkpoint=tmp_path / "c")
    out = sim.evolve(**START, steps=80)
    back = sim.rewind(out, 30, checkpoint=tmp_path / "c")
    assert (
        back.hash == sim.evolve(**START, steps=50).hash and back.metrics["rewind"] == "replayed from step 40"
    )
    with pytest.raises(InputError, match="the checkpoint is at step 40, which is after step 30"):
        sim.rewind(out, 50, checkpoint=tmp_path / "c")


def test_maps_and_what_depends_on_time_are_replayed():
    @tp.map
    def standard(theta, p, k: float = 0.9):
        new = p + k * tp.sin(theta)
        return theta + new, new

    sim = tp.compile(standard)
    out = sim.evolve(theta=0.1, p=0.2, steps=30)
    assert sim.rewind(out, 10).hash == sim.evolve(theta=0.1, p=0.2, steps=20).hash
    timed = on_lattice(driven, order=4)
    out = timed.evolve(q=0.5, p=0.0, steps=30, t0=0.3)
    back = timed.rewind(out, 10)
    assert (
        back.hash == timed.evolve(q=0.5, p=0.0, steps=20, t0=0.3).hash
        and "replayed" in back.metrics["rewind"]
    )


def test_rewind_says_what_it_takes():
    sim = on_lattice()
    out = sim.evolve(**START, steps=10)
    with pytest.raises(InputError, match="steps=11 is more than the 10 steps"):
        sim.rewind(out, 11)
    with pytest.raises(InputError, match="another program"):
        on_lattice(order=4).rewind(out, 1)
    with pytest.raises(InputError, match="that evolve returned"):
        sim.rewind(START, 1)


# --- the same bits everywhere -------------------------------------------------------------------------
@pytest.mark.requirement("S2-43")
@pytest.mark.parametrize("method", ["leapfrog", "leapfrog_dkd", "kahan_li8"])
def test_backends_agree_on_ensembles_with_parameters(method):
    start = dict(q=np.linspace(1, 2, 9)[:, None] * [1.0, 0.1], p=[0.1, 0.8], mu=np.linspace(0.9, 1.1, 9))
    runs = [
        on_lattice(kepler, 0.02, method=method, backend=b).evolve(
            **start, steps=24, save_every=4, hash_every=6, observe={"e": "energy"}
        )
        for b in HERE
    ]
    assert len({(r.hash, *r.hashes, r["e"].tobytes(), r.q.tobytes()) for r in runs}) == 1
    assert runs[0].words("q").arrays["q"].dtype == np.int64 and runs[0].q.dtype == np.float64


def test_backends_agree_on_arrays():
    @tp.hamiltonian
    def chain(q: tp.Array[48], p: tp.Array[48], k: float = 0.25):
        d = q - np.roll(q, 1)
        return (p * p / 2 + d * d / 2 + k * d**4).sum()

    start = dict(q=np.sin(np.arange(48.0)), p=np.zeros(48))
    assert len({on_lattice(chain, 0.1, backend=b).evolve(**start, steps=20).hash for b in HERE}) == 1


def test_backends_agree_on_lists():
    runs = [
        on_lattice(liquid, 0.005, backend=b).evolve(**LIQUID, steps=3).hash
        for b in HERE
        if b not in ("opencl", "python")
    ]
    assert len(set(runs)) == 1
    few = dict(q=ATOMS[:27], p=LIQUID["p"][:27], box=LIQUID["box"])
    assert (
        len({on_lattice(liquid, 0.005, backend=b).evolve(**few, steps=3).hash for b in ("python", "llvm")})
        == 1
    )


def test_widths_and_threads_agree():
    program, rng = on_lattice(kepler, 0.02, order=4).tpir, np.random.default_rng(0)
    state = {name: np.rint(rng.uniform(0.5, 1.0, (40, 2)) / UNIT).astype(np.int64) for name in "qp"}
    hashes = set()
    loaders = [LlvmLoader(shape=VectorShape(*s)) for s in ((1, 1), (2, 3), (4, 4), (8, 1))]
    for loader in (*loaders, ArraysLoader()):
        engine = lane_engine(program, loader, threads=2)
        m = engine.start(state, {"mu": np.ones(1)}, 40, 0.02, 0.0)
        engine.advance(m, 30)
        hashes.add(state_hash(engine.synchronised(m)))
    assert len(hashes) == 1
    sim = on_lattice(liquid, 0.005)
    assert len({sim.evolve(**LIQUID, steps=50, threads=n).hash for n in (1, 2)}) == 1


def test_the_same_from_the_program_as_text_on_the_virtual_machine():
    sim = on_lattice(order=4)
    program = tpir.parse(sim.ir("tpir"))
    assert str(program) == sim.ir("tpir") and program.hash == sim.tpir.hash
    numbers = {name: [round(x / UNIT) for x in v] for name, v in START.items()}
    end = tpir.vm.run(program, numbers, 30)
    assert sim.evolve(**START, steps=30).final.words("q").arrays["q"].tolist() == end["q"]
    assert tpir.vm.run(program, tpir.vm.run(program, numbers, 30), 30, dt=-0.05) == numbers


@pytest.mark.skipif(compiler() is None, reason="no C compiler")
def test_the_c_program_prints_the_hash(tmp_path):
    sim = on_lattice()
    (tmp_path / "run.c").write_text(sim.ir("c"))
    subprocess.run(
        [*compiler(), "-O1", "-ffp-contract=off", "-fwrapv", "run.c", "-lm", "-o", "run"],
        cwd=tmp_path,
        check=True,
    )
    numbers = [str(round(x / UNIT)) for v in START.values() for x in v]
    told = subprocess.run(
        ["./run", "25", "0.05", "0", *numbers], cwd=tmp_path, check=True, capture_output=True, text=True
    )
    assert told.stdout.split()[-1] == sim.evolve(**START, steps=25).hash


def test_many_stages_stay_one_loop():
    assert build_kernel(on_lattice(method="kahan_li8").tpir).stages == 17


# --- how good it is -----------------------------------------------------------------------------------
@pytest.mark.parametrize("order", [2, 4, 6, 8])
def test_energies_are_those_of_float64_up_to_rounding(order):
    run = [
        tp.compile(kepler, dt=0.01, order=order, precision=p).evolve(q=[1.0, 0.0], p=[0.0, 1.1], steps=1000)
        for p in ("lattice", "float64")
    ]
    assert abs(run[0].energy - run[1].energy).max() < 1000 * UNIT
    assert abs(run[0].q[-1] - run[1].q[-1]).max() < 1e4 * UNIT * (1 + order)


def test_a_liquid_keeps_its_energy_as_in_float64():
    lattice, floats = (
        tp.compile(liquid, dt=0.002, precision=p).evolve(**LIQUID, steps=300) for p in ("lattice", "float64")
    )
    assert abs(lattice.energy - floats.energy).max() < 1e-7 * abs(floats.energy).max()
    assert abs(lattice.final.q - floats.final.q).max() < 1e-6


def test_the_first_frame_is_on_the_lattice_and_the_rounding_is_told():
    out = on_lattice(lattice=2.0**-10).evolve(q=[0.1, 0.25], p=[0.0, 0.0], steps=0)
    assert out.q[0].tolist() == [102 / 1024, 0.25] and out.final.words("q").arrays["q"].tolist() == [102, 256]
    told = out.metrics["lattice"]
    assert told["unit"] == {"q": 2.0**-10, "p": 2.0**-10}
    assert told["initial_rounding"] == {"q": abs(0.1 - 102 / 1024), "p": 0.0}


def test_units_are_those_asked_for():
    sim = on_lattice(lattice={"q": 2.0**-30, "p": 2.0**-50})
    q, p = (sim.evolve(**START, steps=1).final.words(n).arrays[n] for n in "qp")
    assert abs(q[0] * 2.0**-30 - 0.115) < 1e-3 and abs(p[0] * 2.0**-50 - 0.29) < 1e-2
    assert "q 2**-30, p 2**-50" in str(sim.explain("full"))
    assert sim.tpir.hash != on_lattice().tpir.hash


def test_the_report_says_what_holds_to_the_last_bit():
    told = str(on_lattice().explain("full"))
    for line in (
        r"precision +lattice",
        r"bijective +yes +to the last bit",
        r"the rest +up to rounding",
        "beyond q 262144",
    ):
        assert re.search(line, told), line
    told = str(on_lattice(liquid, sizes={"n": 108}).explain("full"))
    assert "before they are summed" in told and "beyond q 256, p 262144" in told


# --- what ends a run ----------------------------------------------------------------------------------
@pytest.mark.requirement("S2-43")
@pytest.mark.parametrize("backend", HERE)
def test_overflow_stops_a_run_at_its_step(backend):
    sim = on_lattice(hill, 0.1, backend=backend)
    out = sim.evolve(q=1.0, p=1.0, steps=1000, save_every=100)
    assert (out.stopped.cause, out.stopped.where) == ("overflow", ("q", 0))
    last = out.stopped.step - 1
    good = sim.evolve(q=1.0, p=1.0, steps=last)
    assert good.stopped is None and good.hash == out.hash and out.final.step == last
    assert 1.3 * good.final.q > 2.0**18 > good.final.q > 0, "it could have gone on"
    assert sim.rewind(out, last).hash == sim.evolve(q=1.0, p=1.0, steps=0).hash


def test_a_stopped_member_stays_where_it_was():
    sim = on_lattice(hill, 0.1)
    out = sim.evolve(q=[1.0, 0.0, 1e-3], p=[1.0, 0.0, 1.0], steps=300, save_every=50, observe={"e": "energy"})
    assert [s.member for s in out.stops] == [0, 2] and {s.cause for s in out.stops} == {"overflow"}
    for k in (0, 2):
        ended = next(s.step for s in out.stops if s.member == k)
        later = out.q[out.steps >= ended, k]
        assert len(later) > 2 and (later == out.final.q[k]).all()
        assert np.isnan(out["e"][ended:, k]).all() and np.isfinite(out["e"][:ended, k]).all()
    assert (out.q[:, 1] == 0.0).all() and out.final.step == 300
    assert sim.rewind(out, 200).hash == sim.evolve(q=[1.0, 0.0, 1e-3], p=[1.0, 0.0, 1.0], steps=100).hash


def test_a_force_that_is_no_number_stops_a_run_too():
    out = on_lattice(kepler, 0.5, method="symplectic_euler").evolve(q=[1.0, 0.0], p=[-2.0, 0.0], steps=10)
    assert out.stopped.cause == "overflow" and out.stopped.step == 1
    two = dict(LIQUID, q=LIQUID["q"].copy())
    two["q"][1] = two["q"][0] + [0.6, 0, 0]  # nearer than any force that has a place in the sum
    assert on_lattice(liquid, 5e-4).evolve(**two, steps=5).stopped.cause == "overflow"
    wide = on_lattice(liquid, 5e-4, lattice={"force": 2.0**-10}).evolve(**two, steps=5)
    assert wide.stopped is None


@pytest.mark.parametrize("method", ["leapfrog_kdk", "leapfrog_dkd"])
def test_what_is_shown_is_a_number_wherever_the_loop_has_one(method):
    """The loop is half a sub-step ahead: what is shown may lie outside of a range that the loop has not left."""

    @tp.hamiltonian
    def falling(q, p):
        return p**2 / 2 + 1000.0 * q

    out = on_lattice(falling, 0.1, method=method, lattice=2.0**-46).evolve(
        q=0.0, p=60000.0, steps=10_000, save_every=1
    )
    assert out.stopped.cause == "overflow" and np.isfinite(out.q).all() and np.isfinite(out.p).all()
    assert max(abs(out.q).max(), abs(out.p).max()) < 2.0**16 * 1.01


def test_strict_checks_raise():
    with pytest.raises(PhysicsIntegrityError, match="no number of the lattice at step"):
        on_lattice(hill, 0.1, checks="strict").evolve(q=1.0, p=1.0, steps=1000)


def test_an_initial_state_must_fit():
    with pytest.raises(InputError, match=r"beyond the lattice: .* units of 2\*\*-44, which is 262144"):
        on_lattice(hill).evolve(q=1e6, p=0.0, steps=1)
    assert on_lattice(hill, lattice=2.0**-30).evolve(q=1e6, p=0.0, steps=1).stopped is None


# --- files --------------------------------------------------------------------------------------------
def test_checkpoints_stores_and_saved_simulations_know_the_lattice(tmp_path):
    sim = on_lattice(order=4, lattice={"q": 2.0**-41})
    whole = sim.evolve(**START, steps=50, save_every=10, hash_every=10)
    sim.evolve(**START, steps=30, save_every=10, hash_every=10, checkpoint=tmp_path / "c")
    rest = sim.evolve(resume=tmp_path / "c", steps=20)
    assert rest.hash == whole.hash and rest.hashes == whole.hashes
    sim.save(tmp_path / "sim.json")
    assert tp.load(tmp_path / "sim.json").evolve(**START, steps=50).hash == whole.hash
    kept = sim.evolve(**START, steps=50, save_every=10, save=tmp_path / "run.zarr")
    assert kept.hash == whole.hash and np.array_equal(np.asarray(kept.q), whole.q)
    assert np.array_equal(np.asarray(kept.words("q").arrays["q"]), whole.words("q").arrays["q"])
    assert sim.rewind(kept, 50).hash == sim.evolve(**START, steps=0).hash
    from tinyphysics.runtime.api.verify_store import replay

    assert replay(tmp_path / "run.zarr").difference is None


# --- what is refused ----------------------------------------------------------------------------------
@tp.map
def counted(x, y):
    return x + 1, y


@tp.hamiltonian
def oblique(q: tp.Array[20, 3], p: tp.Array[20, 3], cell: tp.Array[3, 3]):
    r2 = tp.pair_distance2(q, box=cell, cutoff=2.0)
    return (p * p).sum() / 2 + tp.pair_sum(r2)


@tp.hamiltonian
def two_kinds(q: tp.Array[20, 3], p: tp.Array[20, 3]):
    r2 = tp.pair_distance2(q, cutoff=2.0)
    return (p * p).sum() / 2 + tp.pair_sum(r2, shift=True) + tp.pair_sum(r2)


@tp.hamiltonian
def numbered(q: tp.Array[20, 3], p: tp.Array[20, 3]):
    r2 = tp.pair_distance2(q, box=6.1, cutoff=2.0)
    return (p * p).sum() / 2 + tp.pair_sum(1 / r2)


@pytest.mark.parametrize(
    "system, options, says",
    [
        (kepler, dict(method="rk4"), "is not a shear"),
        (counted, dict(dt=None), "is not a shear"),
        (kepler, dict(scale="auto"), "scale='auto' cannot be combined with"),
        (oblique, {}, "oblique"),
        (two_kinds, {}, "the order of a neighbour list would change the result"),
        (numbered, {}, "the box 6.1 is not a whole number of units"),
        (kepler, dict(lattice={"r": 1}), "gives a unit to `r`, which is not a state"),
    ],
)
def test_what_does_not_go_with_a_lattice_is_refused(system, options, says):
    with pytest.raises(PlanError, match=re.escape(says)):
        tp.compile(system, **{"dt": 0.01, "precision": "lattice", **options})


@pytest.mark.parametrize("unit", [0.3, 0, -1.0, float("nan"), "2**-40", True])
def test_a_unit_is_a_power_of_two(unit):
    with pytest.raises(InputError, match="is not a power of two"):
        on_lattice(lattice=unit)
    with pytest.raises(PlanError, match='needs precision="lattice"'):
        tp.compile(kepler, dt=0.1, lattice=unit)
