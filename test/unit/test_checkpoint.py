"""Does a run that was interrupted and resumed end as if it had not been?  Bit for bit, on every backend."""

import contextlib
import errno
import os
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.runtime.engines.backend import lane_engine, nest_engine
from here import HERE
from tinyphysics.device.host.arrays import ArraysLoader
from tinyphysics.device.engines.engine import LaneEngine
from tinyphysics.device.engines.host import VmEngine
from tinyphysics.errors import InputError, StoreError, TinyPhysicsError
from tinyphysics.runtime.storage import checkpoint, resume
from tinyphysics.runtime.engines.loaders import LlvmLoader, LlvmLoops, numpy_loops
from tinyphysics.runtime.state.schedule import Schedule
from tinyphysics.tpir import parse


@tp.hamiltonian
def kepler(q: tp.Vec[2], p: tp.Vec[2], mu: float = 1.0):
    return p @ p / 2 - mu / tp.norm(q)


@tp.hamiltonian
def driven(q, p, t, a=0.3):
    return p**2 / 2 - tp.cos(q) - a * q * tp.cos(1.3 * t)


@tp.hamiltonian
def chain(q: tp.Vec["n"], p: tp.Vec["n"], k: tp.Vec["n"] = 1.0):
    stretch = tp.roll(q, -1) - q
    return tp.sum(p**2) / 2 + tp.sum(k * stretch**2) / 2 + tp.sum(stretch**4) / 4


@tp.hamiltonian
def steep(q, p):
    """Runs away: the force grows as q**3."""
    return p**2 / 2 - q**4 / 4


@tp.map
def delayed(x, y, z):
    return y, z, 0.9 * x


NOBODY = 65534
RNG = np.random.default_rng(3)
START = {
    "kepler": dict(q=[1.0, 0.0], p=[0.0, 1.2], mu=1.1),
    "driven": dict(q=0.3, p=0.1),
    "chain": dict(q=np.sin(np.arange(100.0)), p=np.zeros(100), k=RNG.uniform(1, 2, 100)),
    "delayed": dict(x=1.0, y=2.0, z=3.0),
}
OBSERVE = {
    "kepler": {"r": lambda q: tp.norm(q)},
    "driven": {"now": lambda t: t * 2.0},
    "chain": {"e": "energy"},
    "delayed": {},
}


def compiled(system, backend="auto", **options):
    return tp.compile(system, None if system.kind == "map" else 0.02, backend=backend, **options)


def same_bits(a, b):
    a, b = np.asarray(a), np.asarray(b)
    return a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()


def goes_on(part, whole):
    """The resumed part is the end of the whole run."""
    assert (part.hash, part.hashes) == (whole.hash, whole.hashes)
    for name in whole.frames:
        assert same_bits(part.final[name], whole.final[name])
        later = [n for n in part.steps.tolist() if n in whole.steps]
        assert later[-1] == whole.steps[-1] and len(later) >= len(part.steps) - 1
        for n in later:
            mine, theirs = part.steps.tolist().index(n), whole.steps.tolist().index(n)
            assert same_bits(part.frames[name][mine], whole.frames[name][theirs]), (name, n)
    for name in whole.observed:
        rows = len(part.times(name))
        assert (
            rows
            and same_bits(part[name], whole[name][-rows:])
            and same_bits(part.times(name), whole.times(name)[-rows:])
        )
    assert [(s.cause, s.step, s.t, s.member, s.where) for s in part.stops] == [
        (s.cause, s.step, s.t, s.member, s.where) for s in whole.stops
    ]


# --- strides -------------------------------------------------------------------------------------------
@pytest.mark.parametrize("every", [None, 1, 4, 7, 10, 100])
@pytest.mark.parametrize("first", [0, 1, 5, 10, 13, 20])
def test_a_frame_has_a_number_and_a_number_a_frame(first, every):
    for steps in (n for n in (0, 1, 7, 10, 13, 20, 53, 60) if n >= first):
        s = Schedule(steps, every, every, None, first)
        frames = s.frames(steps)[0].tolist()
        assert (
            frames[0] == first and frames[-1] == steps and all(n % every == 0 for n in frames[1:-1] if every)
        )
        assert (
            [s.slot(n) for n in frames]
            == s.steps_of(0, len(frames)).searchsorted(frames).tolist()
            == [*range(len(frames))]
        )
        for n in range(first, steps + 1):
            assert s.complete(n) == sum(m <= n for m in frames)
            assert [*s.observed(n)] == (
                [] if every is None else [m for m in range(first, n + 1) if m % every == 0]
            )


# --- the same bits -------------------------------------------------------------------------------------
@pytest.mark.requirement("S1-48")
@pytest.mark.parametrize("backend", HERE)
@pytest.mark.parametrize("system", [kepler, driven, chain, delayed], ids=lambda s: s.name)
def test_a_resumed_run_has_the_bits_of_one_that_was_never_interrupted(tmp_path, system, backend):
    path, n, other = tmp_path / "c", system.name, HERE[HERE.index(backend) - 1]
    options = dict(save_every=8, hash_every=5, observe_every=3, observe=OBSERVE[n])
    whole = compiled(system, backend).evolve(**START[n], steps=50, **options)
    first = compiled(system, backend).evolve(
        **START[n], steps=20, checkpoint=path, checkpoint_every=7, **options
    )
    assert first.steps.tolist() == [0, 8, 16, 20]
    second = compiled(system, other).evolve(
        steps=13, resume=path, checkpoint=path, checkpoint_every=7, **options
    )
    assert second.steps.tolist() == [20, 24, 32, 33] and second.metrics["steps"] == 13
    third = compiled(system, backend).evolve(steps=17, resume=path, **options)
    goes_on(third, whole)
    assert (
        third.hashes[: len(second.hashes)] == second.hashes
        and second.hashes[: len(first.hashes)] == first.hashes
    )


@pytest.mark.thin(strength=2)
@pytest.mark.parametrize("precision", ["float64", "float32", "mixed", "compensated"])
@pytest.mark.parametrize("scale", ["off", "auto"])
@pytest.mark.parametrize("method", ["leapfrog", "leapfrog_dkd", "yoshida4", "rk4"])
def test_every_form_of_a_program_can_be_resumed(tmp_path, precision, scale, method):
    sim = compiled(kepler, precision=precision, scale=scale, method=method)
    whole = sim.evolve(**START["kepler"], steps=100, hash_every=10)
    sim.evolve(**START["kepler"], steps=37, hash_every=10, checkpoint=tmp_path / "c")
    goes_on(sim.evolve(steps=63, resume=tmp_path / "c"), whole)


@pytest.mark.parametrize(
    "options",
    [
        dict(),
        dict(save_every=1),
        dict(save_every=4, observe={"x": lambda q: q @ q}),
        dict(save_every=90, observe={"x": lambda q: q @ q}, observe_every=9, hash_every=11),
    ],
    ids=lambda o: " ".join(o) or "plain",
)
@pytest.mark.parametrize("small", [False, True], ids=["one tile", "tiles"])
def test_ensembles_are_resumed_in_tiles(tmp_path, monkeypatch, small, options):
    if small:
        monkeypatch.setattr(LaneEngine, "room", 8192)
    members = 2 * 8192 + 77
    start = dict(
        q=RNG.normal(size=(members, 2)) + [4, 0],
        p=RNG.normal(size=(members, 2)),
        mu=RNG.uniform(0.5, 2, members),
    )
    sim = compiled(kepler)
    options = options or {"frames": 2}
    whole = sim.evolve(**start, steps=200, **options)
    sim.evolve(**start, steps=83, checkpoint=tmp_path / "c", checkpoint_every=31, **options)
    monkeypatch.undo()  # tiles are not part of the state
    goes_on(sim.evolve(steps=117, resume=tmp_path / "c", **options), whole)


@pytest.mark.parametrize("at", [1, 29, 60, 149])
def test_members_that_have_stopped_stay_stopped(tmp_path, at):
    q = np.full(50, 0.01)
    q[[0, 5, 17]] = [2.0, 3.0, 1.2]
    sim = tp.compile(steep, dt=0.1)
    whole = sim.evolve(q=q, p=0.0, steps=150, save_every=10)
    assert len(whole.stops) == 3
    sim.evolve(q=q, p=0.0, steps=at, save_every=10, checkpoint=tmp_path / "c")
    goes_on(sim.evolve(steps=150 - at, resume=tmp_path / "c"), whole)


def test_a_run_in_which_everyone_failed_leaves_the_checkpoint_before(tmp_path):
    sim = tp.compile(steep, dt=0.1)
    out = sim.evolve(q=2.0, p=0.0, steps=500, checkpoint=tmp_path / "c", checkpoint_every=3)
    assert out.stopped.cause == "not finite"
    assert checkpoint.read(tmp_path / "c").step == (out.stopped.step - 1) // 3 * 3
    again = sim.evolve(steps=500, resume=tmp_path / "c")
    assert (again.stopped, again.hash) == (out.stopped, out.hash)


def test_checkpoints_change_no_bit_and_go_on_from_step_0(tmp_path):
    sim = compiled(kepler)
    options = dict(steps=60, save_every=7, hash_every=9, observe={"r": lambda q: tp.norm(q)})
    plain = sim.evolve(**START["kepler"], **options)
    goes_on(sim.evolve(**START["kepler"], **options, checkpoint=tmp_path / "a", checkpoint_every=1), plain)
    zero = sim.evolve(**START["kepler"], steps=0, checkpoint=tmp_path / "b", hash_every=9, save_every=7)
    assert checkpoint.read(tmp_path / "b").step == 0
    goes_on(sim.evolve(resume=tmp_path / "b", **options), plain)
    there = sim.evolve(steps=0, resume=tmp_path / "a")
    assert (
        same_bits(there.final.q, plain.final.q)
        and there.steps.tolist() == [60]
        and zero.steps.tolist() == [0]
    )
    assert same_bits(sim.evolve(steps=0, resume=tmp_path / "b").final.q, zero.final.q)


def test_time_goes_on_from_where_it_was(tmp_path):
    sim = compiled(driven)
    whole = sim.evolve(**START["driven"], until=4.0, t0=1.0)
    sim.evolve(**START["driven"], steps=33, t0=1.0, seed=5, checkpoint=tmp_path / "c")
    part = sim.evolve(until=4.0, resume=tmp_path / "c")
    goes_on(part, whole)
    assert part.metrics["seed"] == 5 and part.t[0] == pytest.approx(1.66) and part.t[-1] == whole.t[-1] == 4.0
    with pytest.raises(InputError, match="lies before the checkpoint"):
        sim.evolve(until=1.2, resume=tmp_path / "c")


def test_energies_and_drifts_of_a_resumed_run_are_those_of_the_whole(tmp_path):
    sim = compiled(kepler)
    whole = sim.evolve(**START["kepler"], steps=300, save_every=50)
    sim.evolve(**START["kepler"], steps=100, save_every=50, checkpoint=tmp_path / "c")
    part = sim.evolve(steps=200, resume=tmp_path / "c")
    assert part.drift("energy") == whole.drift("energy") and part.drift_rate("energy") == whole.drift_rate(
        "energy"
    )
    assert same_bits(part.energy, whole.energy[2:])


def test_sizes_are_restored_too(tmp_path):
    start = START["chain"]
    whole = compiled(chain).evolve(**start, steps=40, save_every=2)
    compiled(chain).evolve(**start, steps=30, save_every=2, checkpoint=tmp_path / "c")
    goes_on(compiled(chain).evolve(steps=10, resume=tmp_path / "c"), whole)
    with pytest.raises(StoreError, match="checkpoint of `chain`, not of `cluster`"):
        tp.compile(cluster, dt=0.1).evolve(steps=1, resume=tmp_path / "c")


@tp.hamiltonian
def cluster(q: tp.Array["n", 2], p: tp.Array["n", 2]):
    return tp.sum(p**2) / 2 + tp.sum(q**2) / 2


CARRIED = """
program memory
state S0 q f64[3] position
state S1 p f64[3] momentum of S0
param $k f64[]
init:
  LOAD S0, &q
  LOAD S1, &p
  MOVE T3:f64[3], expand, $k
  ELEM T0:f64[3], mul, S0, T3
  ELEM T1:f64[3], mul, T3, 0.5
step:
  MAP S0, T0
  ELEM T0:f64[3], add, S0, S1
  ELEM T0:f64[3], mul, T0, T1
final:
  ELEM T2:f64[3], add, S0, T0
  STORE &q, T2
  STORE &p, S1
"""  # T0 is written by one step and read by the next; T1 depends on parameters alone


def engines(program):
    return {
        "python": VmEngine(program),
        "numpy": lane_engine(program, ArraysLoader()),
        "llvm": lane_engine(program, LlvmLoader()),
        "loops": nest_engine(program, LlvmLoops()),
        "numpy loops": nest_engine(program, numpy_loops()),
    }


def test_what_a_loop_carries_beside_its_states_is_kept_by_every_engine():
    made = engines(parse(CARRIED))
    state, params = {"q": RNG.normal(size=(2, 3)), "p": RNG.normal(size=(2, 3))}, {"k": np.array([1.5, 0.7])}
    ends, held = {}, {}
    for name, engine in made.items():
        m = engine.start(state, params, 2, 0.1, 0.0)
        engine.advance(m, 4)
        held[name] = engine.registers(m)
        engine.advance(m, 3)
        ends[name] = engine.synchronised(m)["q"]
    assert list(held["python"]) == ["S0", "S1", "T0"]
    for name, engine in made.items():
        for other, registers in held.items():
            assert all(same_bits(v, held["python"][r]) for r, v in registers.items()), other
            m = engine.restored(registers, params, 2, 0.1, 0.0, 4)
            engine.advance(m, 3)
            assert same_bits(engine.synchronised(m)["q"], ends["python"]), (name, other)


# --- what must agree -----------------------------------------------------------------------------------
@pytest.fixture
def made(tmp_path):
    compiled(kepler).evolve(
        **START["kepler"], steps=20, t0=1.0, seed=3, hash_every=5, checkpoint=tmp_path / "c"
    )
    return tmp_path / "c"


def test_what_is_given_again_and_agrees_is_accepted(made):
    whole = compiled(kepler).evolve(**START["kepler"], steps=30, t0=1.0, hash_every=5)
    goes_on(
        compiled(kepler).evolve(
            **START["kepler"], steps=10, t0=1.0, seed=3, hash_every=5, dt=0.02, resume=made
        ),
        whole,
    )


@pytest.mark.parametrize(
    "options, what",
    [
        (dict(mu=1.2), "`mu` differs from the value that the run"),
        (dict(q=[1.0, 0.1]), "`q` differs from the value that the run"),
        (dict(mu=[1.1, 1.1]), "mu"),
        (dict(t0=2.0), "t0=2.0"),
        (dict(seed=4), "seed=4"),
        (dict(hash_every=6), "hash_every=6"),
        (dict(dt=0.01), "dt=0.01"),
        (dict(nu=1.0), "no state or parameter `nu`"),
    ],
    ids=str,
)
def test_what_is_given_and_does_not_agree_is_an_error(made, options, what):
    with pytest.raises(TinyPhysicsError, match=what) as caught:
        compiled(kepler).evolve(steps=1, resume=made, **options)
    assert caught.value.fix


@pytest.mark.parametrize(
    "other",
    [
        lambda: compiled(driven),
        lambda: compiled(kepler, method="yoshida4"),
        lambda: compiled(kepler, precision="float32"),
        lambda: compiled(kepler, scale="auto"),
    ],
)
def test_a_checkpoint_of_another_program_is_refused(made, other):
    before = made.read_bytes()
    with pytest.raises(StoreError, match="is a checkpoint of .*: its program is"):
        other().evolve(steps=1, resume=made, checkpoint=made)
    assert made.read_bytes() == before


def test_a_checkpoint_of_another_version_is_refused(made, monkeypatch):
    monkeypatch.setattr(resume, "BITS", 99)
    with pytest.raises(
        StoreError, match=f"written by version {tp.__version__}, whose runs give different bits"
    ):
        compiled(kepler).evolve(steps=1, resume=made)
    made.write_bytes(made.read_bytes().replace(b"checkpoint 1", b"checkpoint 7"))
    with pytest.raises(StoreError, match="in the format of another version"):
        compiled(kepler).evolve(steps=1, resume=made)


def test_no_bit_of_a_checkpoint_can_be_altered_or_lost_unseen(made):
    whole = made.read_bytes()
    for k in [*range(0, len(whole), 37), len(whole) - 1]:
        made.write_bytes(whole[:k] + bytes([whole[k] ^ 1 << k % 8]) + whole[k + 1 :])
        with pytest.raises(StoreError, match="damaged|not a checkpoint|another version"):
            checkpoint.read(made)
        made.write_bytes(whole[:k])
        with pytest.raises(StoreError, match="damaged|not a checkpoint|another version"):
            checkpoint.read(made)


def test_nothing_is_overwritten_that_is_not_this_runs(made, tmp_path):
    sim, before = compiled(kepler), made.read_bytes()
    with pytest.raises(StoreError, match="of a run that reached step 20"):
        sim.evolve(**START["kepler"], steps=5, checkpoint=made)
    sim.evolve(q=[1.0, 0.0], p=[0.0, 1.0], steps=5, checkpoint=tmp_path / "other")
    with pytest.raises(StoreError, match="the checkpoint of another run"):
        sim.evolve(steps=5, resume=tmp_path / "other", checkpoint=made)
    (tmp_path / "notes").write_text("mine")
    with pytest.raises(StoreError, match="is not a checkpoint"):
        sim.evolve(**START["kepler"], steps=5, checkpoint=tmp_path / "notes")
    with pytest.raises(StoreError, match="is a directory"):
        sim.evolve(**START["kepler"], steps=5, checkpoint=tmp_path)
    with pytest.raises(StoreError, match="could not be read"):
        sim.evolve(steps=5, resume=tmp_path)
    with pytest.raises(StoreError, match="there is no directory"):
        sim.evolve(**START["kepler"], steps=5, checkpoint=tmp_path / "no" / "c")
    assert made.read_bytes() == before and (tmp_path / "notes").read_text() == "mine"


@contextlib.contextmanager
def locked():
    """A directory that this process may read and not write; root, who may, is somebody else meanwhile."""
    with tempfile.TemporaryDirectory() as path:
        os.chmod(path, 0o555)
        user = os.geteuid()
        if user == 0:
            os.seteuid(NOBODY)
        try:
            yield Path(path)
        finally:
            os.seteuid(user)


def test_no_permission_is_said_before_the_run(tmp_path):
    sim = compiled(kepler)
    sim.evolve(**START["kepler"], steps=5, checkpoint=tmp_path / "c")  # with all that a run imports
    with locked() as there, pytest.raises(StoreError, match="permission denied"):
        sim.evolve(**START["kepler"], steps=5, checkpoint=there / "c")


# --- when it cannot be written --------------------------------------------------------------------------
@pytest.mark.requirement("S0-36")
@pytest.mark.parametrize("after", [0, 1, 2, 3, 5])
def test_a_full_disk_stops_the_run_and_loses_nothing(made, monkeypatch, after):
    """Writing fails after so many pieces of the second checkpoint; the first one is still there, and whole."""
    before, pieces = made.read_bytes(), [0]
    real = checkpoint.written

    def failing(c):
        for piece in real(c):
            if c.step >= 40 and pieces[0] >= after:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            pieces[0] += c.step >= 40
            yield piece

    monkeypatch.setattr(checkpoint, "written", failing)
    sim = compiled(kepler)
    out = sim.evolve(steps=100, resume=made, checkpoint=made, checkpoint_every=10, save_every=4)
    assert (out.stopped.cause, out.stopped.step) == ("store", 40)
    assert isinstance(out.stopped.error, StoreError) and "No space left" in str(out.stopped.error)
    assert (
        out.final.step == 40
        and out.steps[-1] == 40
        and out.hash == sim.evolve(**START["kepler"], steps=40, t0=1.0).hash
    )
    assert checkpoint.read(made).step == 30 and made.read_bytes() != before
    assert [f.name for f in made.parent.iterdir()] == ["c"]
    monkeypatch.undo()
    assert sim.evolve(steps=70, resume=made).hash == sim.evolve(**START["kepler"], steps=100, t0=1.0).hash


@pytest.mark.parametrize("calls", [0, 1, 4])
def test_ctrl_c_leaves_a_checkpoint_where_the_run_was(tmp_path, monkeypatch, calls):
    watch, made = LaneEngine.watch, []

    def pressed(self, m, rows, stride):
        made.append(rows)
        if len(made) > calls:
            raise KeyboardInterrupt
        return watch(self, m, rows, stride)

    sim, frames = compiled(kepler), dict(save_every=70, hash_every=70)
    monkeypatch.setattr(LaneEngine, "watch", pressed)
    out = sim.evolve(**START["kepler"], steps=1000, checkpoint=tmp_path / "c", **frames)
    monkeypatch.undo()
    assert out.stopped.cause == "interrupted" and out.final.step == out.stopped.step == 70 * calls
    assert checkpoint.read(tmp_path / "c").step == 70 * calls
    assert sim.evolve(steps=0, resume=tmp_path / "c").hash == out.hash
    goes_on(
        sim.evolve(steps=1000 - 70 * calls, resume=tmp_path / "c"),
        sim.evolve(**START["kepler"], steps=1000, **frames),
    )


KILLED = """
    import os, random, signal, sys, time
    from pathlib import Path
    import tinyphysics as tp
    from tinyphysics.runtime.storage.checkpoint import read

    @tp.hamiltonian
    def pendulum(q, p):
        return p**2 / 2 - tp.cos(q)

    STEPS, EVERY = 40_000, 100
    path, sim, draw = Path(sys.argv[1]), tp.compile(pendulum, dt=0.01), random.Random(1)
    whole = sim.evolve(q=1.0, p=0.0, steps=STEPS, hash_every=1000, threads=1)
    sim.evolve(q=1.0, p=0.0, steps=1000, hash_every=1000, threads=1, checkpoint=path, checkpoint_every=EVERY)  # all is compiled
    path.unlink()

    def going_on(**options):
        done = read(path).step if path.exists() else 0
        begin = dict(resume=path) if path.exists() else dict(q=1.0, p=0.0)
        return sim.evolve(**begin, steps=STEPS - done, hash_every=1000, threads=1, progress=False, **options)

    def until_killed(patience):
        child = os.fork()
        if child == 0:
            going_on(checkpoint=path, checkpoint_every=EVERY)
            os._exit(0)
        time.sleep(patience)
        os.kill(child, signal.SIGKILL)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    reached, killed, partial = [], 0, 0
    while killed < 100:
        killed += until_killed(draw.uniform(0.0, 0.1)) == -signal.SIGKILL
        partial += path.with_name(".c.partial").exists()
        out = going_on()
        assert (out.hash, out.hashes) == (whole.hash, whole.hashes), reached
        step = read(path).step if path.exists() else 0
        assert step % EVERY == 0 and (not reached or step >= reached[-1] or reached[-1] == STEPS)
        reached.append(step)
        if step == STEPS:
            path.unlink()
    print(f"{killed} killed, {len(set(reached))} places, {partial} in the middle of writing")
"""


@pytest.mark.requirement("S1-48", "S0-36")
@pytest.mark.all
def test_a_hundred_kills_lose_nothing_but_the_steps_since_the_last_checkpoint(tmp_path):
    script = tmp_path / "killed.py"
    script.write_text(textwrap.dedent(KILLED))
    environment = os.environ | {"PYTHONPATH": str(Path(tp.__file__).parents[1])}
    out = subprocess.run(
        [sys.executable, script, tmp_path / "c"], capture_output=True, text=True, env=environment, timeout=120
    )
    assert out.returncode == 0, out.stderr
    killed, places, _ = (int(part.split()[0]) for part in out.stdout.split(","))
    assert killed == 100 and places > 20, out.stdout
