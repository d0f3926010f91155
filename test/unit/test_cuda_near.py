"""Lists of neighbours that a CUDA device makes: the order of the definition, no pair missed, the bits of the processor."""

from __future__ import annotations

import numpy as np
import pytest
from test_near import adversarial, cell_of, lennard_jones, open_space, pairs_in, spread, tilted, wanted

import tinyphysics as tp
from tinyphysics.device.cuda import driver as cuda, ahead as cuda_ahead, sort as cuda_sort
from tinyphysics.device.engines import cuda_loops
from tinyphysics.device.cuda.ahead import StepAction, LookAhead, place_of, swapped
from tinyphysics.device.cuda.neighbours import DeviceList
from tinyphysics.device.host.neighbours import Domain
from tinyphysics.emit.modules import ptx_nests
from tinyphysics.errors import BackendError
from tinyphysics.ir import UOp
from tinyphysics.ir.dtype import DTYPES
from tinyphysics.ir.neighbours import arranged, skin_of
from tinyphysics.ir.reduction import slabs
from tinyphysics.physics.particles import cold_sphere
from tinyphysics.runtime.engines.cuda import list_kernels
from tinyphysics.tpir.kernels.neighbours import FIRST, ListSpec
from tinyphysics.tpir.kernels.loops import build_loops

KINDS = {
    "order": np.int64,
    "inverse": np.int64,
    "starts": np.int64,
    "columns": np.int64,
    "blocks": np.int32,
    "rows": np.int32,
}


def cell_for(space, d):
    """(rows of the cell, whether it is straight)."""
    if space == "open":
        return None, True
    cell = np.diag([8.0, 9.0, 7.5][:d]) + (np.tril(np.full((d, d), 1.3), -1) if space == "tilted" else 0.0)
    return tuple(map(tuple, cell.tolist())), space == "cube"


def listed(q, space="cube", curve=0, dtype="f64", cutoff=2.0):
    n, d = q.shape
    rows, straight = cell_for(space, d)
    cell = None if rows is None else UOp.const(0.0, DTYPES["f64"], (d,) if straight else (d, d))
    spec = ListSpec(0, q.shape, DTYPES[dtype], UOp.const(0.0), UOp.const(0.0), cell, curve)
    return DeviceList(spec, Domain(cutoff, skin_of(cutoff, -1.0, rows), rows, curve), list_kernels)


class Read:
    """What a device has made of a list, here."""

    def __init__(self, near):
        self.spec = near.spec
        self.made = {
            w: cuda.read(b := near.made[near.spec.name(w)], np.empty(b.size // np.dtype(t).itemsize, t))
            for w, t in KINDS.items()
        }
        images = near.made[near.spec.name("images")]
        real = np.float32 if near.spec.dtype.name == "f32" else np.float64
        n, d = near.spec.shape
        self.images = (
            cuda.read(images, np.empty(images.size // np.dtype(real).itemsize, real)).reshape(d, -1)[:, :n].T
        )


def pairs_by_columns(found):
    """All pairs of a list turned round, by index."""
    n, cuts = found.spec.shape[0], slabs(found.spec.shape[0], True)
    parts, out, m = len(cuts) - 1, set(), found.made
    for block in range(-(-n // 8)):
        for slab in range(parts):
            rows = m["rows"][m["columns"][block * parts + slab] : m["columns"][block * parts + slab + 1]]
            assert (np.diff(rows) > 0).all() and (rows >= cuts[slab]).all() and (rows < cuts[slab + 1]).all()
            out |= {(i, j) for i in rows.tolist() for j in range(8 * block, min(8 * block + 8, n)) if j > i}
    a, b = (m["order"][list(x)] for x in zip(*out)) if out else (np.zeros(0, int), np.zeros(0, int))
    return set(zip(np.minimum(a, b).tolist(), np.maximum(a, b).tolist()))


@pytest.mark.parametrize("curve", [0, 1])
@pytest.mark.parametrize(
    ("space", "d", "n", "dtype"),
    [
        ("cube", 3, 77, "f64"),
        ("cube", 2, 40, "f32"),
        ("cube", 1, 5, "f64"),
        ("tilted", 3, 33, "f32"),
        ("tilted", 2, 100, "f64"),
        ("open", 3, 60, "f64"),
        ("open", 2, 1, "f64"),
        ("open", 1, 23, "f32"),
    ],
)
def test_the_order_is_that_of_the_definition(fake_cuda, space, d, n, dtype, curve):
    rng = np.random.default_rng(n)
    q = (rng.normal(size=(n, d)) * rng.choice([0.3, 5.0, 300.0], (n, 1))).astype(
        {"f32": np.float32, "f64": float}[dtype]
    )
    near = listed(q, space, curve, dtype)
    near.make_at(q.T)
    order, periods = arranged(q.tolist(), near.domain.cell, curve)
    found = Read(near)
    assert found.made["order"][:n].tolist() == order
    assert found.made["inverse"][order].tolist() == list(range(n))
    assert found.images.tolist() == np.array(periods, dtype={"f32": np.float32, "f64": float}[dtype]).tolist()
    assert np.array_equal(near.points, q.T) and near.times == 1


@pytest.mark.requirement("S2-27", "C-35")
@pytest.mark.parametrize(
    ("kind", "space", "d"),
    [
        *(
            (kind, space, 3)
            for kind in ("anywhere", "on the edges", "two heaps")
            for space in ("cube", "tilted", "open")
        ),
        ("one place", "cube", 3),
        ("one far away", "open", 3),
        ("a line", "open", 3),
        ("a line", "cube", 2),
        ("anywhere", "open", 1),
        ("anywhere", "tilted", 2),
    ],
)
def test_no_pair_is_missed_by_rows_or_by_columns(fake_cuda, kind, space, d):
    q = adversarial(kind, 70, d, np.random.default_rng(1))
    near = listed(q, space, curve=d % 2)
    near.make_at(q.T)
    found = Read(near)
    for pairs in (pairs_in(found), pairs_by_columns(found)):
        missing = wanted(q, near.domain) - pairs
        assert not missing, f"{len(missing)}, such as {sorted(missing)[:3]}"


def test_far_away_blocks_are_left_out_and_boxes_of_all_levels_are_asked(fake_cuda):
    q = spread(1200, [40.0] * 3, 1)
    near = listed(q, "open")
    near.make_at(q.T)
    found = Read(near)
    assert len(near.shape) == 3  # 150 blocks, 19 boxes of them, 3 of those
    assert not wanted(q, near.domain) - pairs_in(found)
    assert found.made["starts"][1200] < 1200 * 150 / 8
    words = found.made["blocks"][: found.made["starts"][1200]]
    rows = np.repeat(np.arange(1200), np.diff(found.made["starts"][:1201]))
    by_row = set(zip(rows.tolist(), (words >> FIRST).tolist()))
    by_block = {
        (i, b)
        for b in range(150)
        for i in found.made["rows"][found.made["columns"][b] : found.made["columns"][b + 1]].tolist()
    }
    assert by_row == by_block


def test_several_slabs_of_rows_under_each_block(fake_cuda):
    q = spread(2100, [22.0] * 3, 1)
    near = listed(q, "open", cutoff=1.2)
    near.make_at(q.T)
    found = Read(near)
    assert len(slabs(2100, True)) == 3
    assert not wanted(q, near.domain) - pairs_by_columns(found)


def test_what_has_no_room_is_made_again_with_more(fake_cuda):
    q = adversarial("one place", 60, 3, np.random.default_rng(1))
    near = listed(q, "open")
    near.room = {"near": 3, "blocks": 5, "rows": 1}
    near.make_at(q.T)
    assert not wanted(q, near.domain) - pairs_in(Read(near))
    assert near.times == 1 and near.room["near"] >= 64 and near.room["rows"] >= near.room["blocks"] > 100
    before = fake_cuda.counts["cuLaunchKernel"]
    near.make_at(q.T)
    again = fake_cuda.counts["cuLaunchKernel"] - before
    assert fake_cuda.launches and again < 60 and not wanted(q, near.domain) - pairs_in(Read(near))


@pytest.mark.parametrize("space", ["cube", "open"])
def test_points_that_are_no_numbers_are_somewhere(fake_cuda, space):
    q = spread(20, [7.0] * 3, 1)
    q[3], q[7, 1], q[9, 2] = np.nan, np.inf, -np.inf
    near = listed(q, space)
    near.make_at(q.T)
    assert Read(near).made["order"][:20].tolist() == arranged(q.tolist(), near.domain.cell)[0]


def test_a_list_that_a_copy_has_made_leaves_the_first_as_it_is(fake_cuda):
    q = spread(30, [7.0] * 3, 1)
    near = listed(q)
    near.make_at(q.T)
    before = Read(near).made["order"].tolist()
    other = near.copy()
    other.make_at(q[::-1].T)
    assert Read(near).made["order"].tolist() == before != Read(other).made["order"].tolist()
    assert (near.times, other.times) == (1, 2)


def test_a_list_of_its_own_is_made_where_the_last_one_was(fake_cuda):
    q = spread(30, [7.0] * 3, 1)
    near = listed(q)
    near.make_at(q.T)
    places = {name: b.pointer for name, b in near.made.items()}
    near.make_at(q[::-1].T)
    assert places == {name: b.pointer for name, b in near.made.items()}
    kept = near.made
    near.made = kept  # somebody had it, and may have it still
    near.make_at(q.T)
    assert not {b.pointer for b in kept.values()} & {b.pointer for b in near.made.values()}


# --- sorting ----------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("n", "low", "high"), [(1, 0, 8), (5, 3, 20), (300, 0, 61), (300, 9, 10), (1000, 10, 34)]
)
def test_keys_are_sorted_by_the_bits_that_are_used(fake_cuda, monkeypatch, n, low, high):
    monkeypatch.setattr(cuda_sort, "SUMMED", (16, 1 << 14))
    rng = np.random.default_rng(n)
    kernels = listed(np.zeros((9, 3))).kernels
    keys = rng.integers(0, 1 << high, n) >> low << low | np.arange(n) % (1 << low)
    out = cuda_sort.ordered(kernels, cuda.upload(keys), n, low, high)
    expected = keys[np.argsort(keys >> low, kind="stable")]
    assert cuda.read(out, np.empty(n, np.int64)).tolist() == expected.tolist()


# --- runs -------------------------------------------------------------------------------------------
def both(system, q, p, steps=3, dt=0.02, evolve=None, **given):
    runs = [
        tp.compile(system, dt=dt, backend=b, **(evolve or {})).evolve(q=q, p=p, steps=steps, **given)
        for b in ("cuda", "llvm")
    ]
    assert runs[0].metrics["backend"]["used"] == "cuda"
    return runs


def start_of(kind, n=27, d=3):
    cell = None if kind == "open" else cell_of("tilted" if kind == "tilted" else "cube")[:d, :d]
    q = spread(n, [5.0] * 3 if cell is None else [1.0] * 3, 3)[:, :d]
    p = np.random.default_rng(0).normal(size=q.shape) * 4  # fast enough that lists are made again
    return (
        q if cell is None else q @ cell,
        p,
        {} if cell is None else {"cell": cell} if kind == "tilted" else {"box": np.diag(cell)},
    )


@pytest.mark.thin(rows=2)
@pytest.mark.requirement("S3-21", "C-106")
@pytest.mark.parametrize(
    ("kind", "precision"),
    [("cube", "float64"), ("cube", "float32"), ("tilted", "float64"), ("open", "float32")],
)
def test_a_run_has_the_bits_of_the_processor(fake_cuda, kind, precision):
    q, p, given = start_of(kind)
    system = {"open": open_space, "tilted": tilted}.get(kind, lennard_jones)
    there, ours = both(system, q, p, save_every=2, evolve=dict(precision=precision), **given)
    assert there.hash == ours.hash and np.array_equal(there.frames["q"], ours.frames["q"])


def test_points_of_a_plane_have_the_bits_of_the_processor(fake_cuda):
    @tp.hamiltonian
    def disks(q: tp.Array["n", 2], p: tp.Array["n", 2], box: tp.Vec[2] = (8.0, 8.0)):
        return (p**2).sum() / 2 + tp.pair_sum((1 - tp.pair_distance2(q, box=box, cutoff=1.0)) ** 3)

    q, p, _ = start_of("cube", 44, 2)
    there, ours = both(disks, q, p)
    assert there.hash == ours.hash


def test_every_member_has_a_list_of_its_own(fake_cuda):
    q = np.stack([spread(27, [8.0] * 3, k) for k in range(2)])
    p = np.random.default_rng(0).normal(size=q.shape) * 4
    there, ours = both(lennard_jones, q, p, box=np.array([[8.0] * 3, [8.5] * 3]))
    assert there.hash == ours.hash


def test_to_look_at_a_run_changes_nothing(fake_cuda):
    q, p, given = start_of("cube")
    look = dict(observe={"E": "energy", "T": lambda p: (p**2).sum()}, observe_every=1)
    there, ours = both(lennard_jones, q, p, **look, **given)
    assert (
        there.hash == ours.hash == tp.compile(lennard_jones, dt=0.02).evolve(q=q, p=p, steps=3, **given).hash
    )
    assert np.array_equal(there["E"], ours["E"]) and np.array_equal(there["T"], ours["T"])


@pytest.mark.parametrize("first, then", [("cuda", "llvm"), ("llvm", "cuda")])
def test_a_checkpoint_says_where_points_were_when_the_list_was_made(fake_cuda, tmp_path, first, then):
    q, p, given = start_of("cube")
    p = p * 0.2  # slowly: the list is older than the checkpoint
    sims = {b: tp.compile(lennard_jones, dt=0.01, backend=b) for b in ("cuda", "llvm")}
    whole = sims["llvm"].evolve(q=q, p=p, steps=5, **given)
    sims[first].evolve(q=q, p=p, steps=3, checkpoint=tmp_path / "half", **given)
    assert sims[then].evolve(resume=tmp_path / "half", steps=2).hash == whole.hash


def test_a_block_that_is_done_again_begins_with_its_list(fake_cuda):
    @tp.hamiltonian
    def rippled(q: tp.Array["n", 3], p: tp.Array["n", 3], t, L: float = 5.4):
        s6 = 1 / tp.pair_distance2(q, box=L, cutoff=2.5) ** 3
        ripple = 1e-9 * tp.sin(tp.where(t < 0.03, 1e9, 1.0) * q).sum()  # too fast in the first steps only
        return (p**2).sum() / 2 + tp.pair_sum(4 * (s6 * s6 - s6)) + ripple

    q = spread(27, [5.4] * 3, 3)
    there, ours = both(rippled, q, np.random.default_rng(0).normal(size=q.shape) * 3)
    assert there.hash == ours.hash


def test_a_number_that_is_none_is_a_stop(fake_cuda):
    q, p, given = start_of("cube")
    p[3, 1] = 1e300
    there, ours = both(lennard_jones, q, p, dt=1e10, **given)
    assert there.stopped == ours.stopped and there.stopped.cause == "not finite"


def test_no_memory_for_a_list_is_said_and_what_others_look_at_stays(fake_cuda):
    q = spread(60, [7.0] * 3, 1)
    near = listed(q)
    near.make_at(q.T)
    before, kept = near.made, near.copy()
    cuda.release()
    fake_cuda.outside = fake_cuda.cards[0].memory - fake_cuda.used - 5_000
    with pytest.raises(BackendError, match="cannot allocate .* MiB more"):
        near.make_at(q.T)
    assert near.made is before is kept.made and near.times == 1
    fake_cuda.outside = 0
    near.make_at(q.T)
    assert near.times == 2


# --- steps ahead of the host ------------------------------------------------------------------------
def moving(speed, steps=24, **how):
    """A run of many steps, on a device and here; graphs are worth their while."""
    q, p, given = start_of("cube")
    return both(lennard_jones, q, speed * p, steps=steps, evolve=how, **given, frames=2)


def test_steps_are_queued_ahead_and_the_host_looks_now_and_then(fake_cuda, monkeypatch):
    monkeypatch.setattr(cuda_loops, "WORTH", 2)
    there, ours = moving(0.05, 40)
    assert there.hash == ours.hash and 35 < fake_cuda.counts["cuGraphLaunch"] < 55  # some in vain
    assert (
        fake_cuda.counts["cuGraphInstantiateWithFlags"] <= 2
    )  # the list that a snapshot shares is not written over
    q, p, given = start_of("cube")
    short = tp.compile(lennard_jones, dt=0.02, backend="cuda").evolve(
        q=q, p=0.05 * p, steps=20, **given, frames=2
    )
    assert there.metrics["transfers"] - short.metrics["transfers"] < 12  # in 20 steps


@pytest.mark.parametrize("how", [{}, {"order": 4}])
def test_where_the_host_looks_changes_no_bit(fake_cuda, monkeypatch, how):
    """A list is made when a point has gone too far, and neither sooner nor later."""
    rng = np.random.default_rng(5)
    monkeypatch.setattr(cuda_loops, "WORTH", 2)
    monkeypatch.setattr(LookAhead, "ahead", lambda self, left: int(min(left, rng.integers(1, 9))))
    there, ours = moving(0.5, 6 if how else 12, **how)
    assert there.hash == ours.hash


def test_two_lists_and_a_clock(fake_cuda, monkeypatch):
    @tp.hamiltonian
    def driven(q: tp.Array["n", 3], p: tp.Array["n", 3], t, L: float = 8.0):
        a, b = tp.pair_distance2(q, box=L, cutoff=2.5), tp.pair_distance2(q, box=L, cutoff=1.3)
        return (
            (p**2).sum() / 2 + tp.pair_sum((1 - a / 6.25) ** 3) + tp.cos(3 * t) * tp.pair_sum((1.69 - b) ** 3)
        )

    monkeypatch.setattr(cuda_loops, "WORTH", 2)
    q, p, _ = start_of("cube")
    there, ours = both(driven, q, 0.3 * p, steps=8)
    assert there.hash == ours.hash
    assert len(build_loops(tp.compile(driven, dt=0.02, sizes={"n": 27}).tpir).lists) == 2


@pytest.mark.slow("nothing is lost")
def test_a_run_that_is_interrupted_while_a_list_is_made_ends_with_its_last_block(fake_cuda, monkeypatch):
    monkeypatch.setattr(cuda_loops, "BLOCK_LAUNCHES", 12)  # a step or two
    q, p, given = start_of("cube")
    made, calls = DeviceList.make, []

    def make(self, points):
        calls.append(points)
        if len(calls) == 4:
            raise KeyboardInterrupt
        made(self, points)

    monkeypatch.setattr(DeviceList, "make", make)
    out = tp.compile(lennard_jones, dt=0.02, backend="cuda").evolve(q=q, p=5 * p, steps=8, **given)
    assert out.stopped.cause == "interrupted" and 0 < out.stopped.step < 8
    ours = tp.compile(lennard_jones, dt=0.02, backend="llvm").evolve(
        q=q, p=5 * p, steps=out.stopped.step, **given
    )
    assert np.array_equal(out.final.q, ours.final.q) and np.array_equal(out.final.p, ours.final.p)


def test_a_pace_is_most_of_what_the_last_list_lasted_for():
    pace = LookAhead()
    assert [pace.ahead(100), pace.ahead(0)] == [1, 1]
    pace.went(7)
    pace.stopped(5)
    assert (pace.lasted, pace.ahead(100), pace.ahead(4)) == (12, 9, 4)
    pace.went(9)
    assert pace.ahead(100) == 2
    pace.went(10**6)
    assert pace.ahead(10**6) == cuda_ahead.MOST


def test_names_are_what_they_were_where_a_run_stopped():
    every = [StepAction(0), StepAction(None, (("a", "b"),)), StepAction(1), StepAction(None, (("b", "c"),))]
    held = {"a": 1, "b": 2, "c": 3}
    one_by_one = [dict(held)]
    for act in every * 4:
        now = dict(one_by_one[-1])
        for a, b in act.swaps:
            now[a], now[b] = now[b], now[a]
        one_by_one.append(now)
    for begin in range(5):
        for steps in range(3):
            for end in range(begin if not steps else 0, 4):
                assert swapped(one_by_one[begin], every, begin, steps, end) == one_by_one[4 * steps + end]
    assert place_of((77 << cuda_ahead.WITHIN | 5) + 1) == (77, 5) and cuda_ahead.WITHIN == ptx_nests.WITHIN


def test_a_tree_and_a_list_in_one_program(fake_cuda):
    @tp.hamiltonian
    def clumps(q: tp.Array["n", 3], p: tp.Array["n", 3], m: tp.Vec["n"], softening: float = 0.1):
        r2 = ((q[:, None] - q[None, :]) ** 2).sum(-1) + softening**2
        hard = tp.pair_sum((0.04 - tp.pair_distance2(q, cutoff=0.2)) ** 3)
        return hard + (p**2 / (2 * m[:, None])).sum() - tp.pair_sum(m[:, None] * m[None, :] / np.sqrt(r2))

    start = cold_sphere(300, seed=1)
    runs = [
        tp.compile(clumps, dt=0.01, approximate=1e-3, backend=b).evolve(**start, steps=2)
        for b in ("cuda", "llvm")
    ]
    assert runs[0].hash == runs[1].hash


def far_apart(q):
    d = q[1] - q[0]
    return tp.sqrt((d * d).sum() + 1e-6)


def test_hills_leave_a_liquid_on_the_device_with_the_bits_of_the_processor(fake_cuda):
    """Loops begin again in the same buffers, with a new list and the new bias, from frames and checkpoints too."""
    q, p, given = start_of("cube")
    bias = tp.metadynamics(far_apart, width=1.0, height=0.5, every=2, grid=(0.0, 40.0, 80), bias_factor=5)
    runs = [
        tp.compile(lennard_jones, dt=0.02, temperature=1.0, bias=bias, backend=b, checks="off").evolve(
            q=q, p=p, steps=5, save_every=2, hash_every=4, observe={"d": far_apart}, seed=3, **given
        )
        for b in ("cuda", "llvm")
    ]
    assert runs[0].hash == runs[1].hash and runs[0].hashes == runs[1].hashes
    assert np.array_equal(runs[0].q, runs[1].q) and np.array_equal(runs[0]["d"], runs[1]["d"])
    grids = [out.free_energy() for out in runs]
    assert np.array_equal(grids[0].F, grids[1].F, equal_nan=True)
