"""Sums over neighbours: every pair within the cutoff, none beyond, whatever the box; lists that miss nothing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tinyphysics as tp
from tinyphysics.device.host import neighbours
from tinyphysics.device.host.neighbours import Domain, NearList, aligned, arranged
from tinyphysics.errors import BackendError, InputError, PlanError, ShapeError, TraceError
from tinyphysics.ir import UOp
from tinyphysics.ir.dtype import DTYPES
from tinyphysics.ir.neighbours import arranged as by_definition
from tinyphysics.ir.neighbours import skin_of
from tinyphysics.runtime.engines.loaders import LlvmLoops, list_builder
from tinyphysics.tpir.kernels.neighbours import FIRST, ListSpec

DATA = Path(__file__).parents[3] / "shared" / "data"
BACKENDS = ("python", "numpy", "c", "llvm")


@tp.hamiltonian
def lennard_jones(
    q: tp.Array["n", 3], p: tp.Array["n", 3], box: tp.Vec[3] = (8.0, 8.0, 8.0), rc: float = 2.5
):
    s6 = 1 / tp.pair_distance2(q, box=box, cutoff=rc) ** 3
    return (p**2).sum() / 2 + tp.pair_sum(4 * (s6 * s6 - s6))


@tp.hamiltonian
def tilted(q: tp.Array["n", 3], p: tp.Array["n", 3], cell: tp.Array[3, 3], rc: float = 2.5):
    s6 = 1 / tp.pair_distance2(q, box=cell, cutoff=rc) ** 3
    return (p**2).sum() / 2 + tp.pair_sum(4 * (s6 * s6 - s6))


@tp.hamiltonian
def open_space(q: tp.Array["n", 3], p: tp.Array["n", 3], rc: float = 2.5):
    s6 = 1 / tp.pair_distance2(q, cutoff=rc) ** 3
    return (p**2).sum() / 2 + tp.pair_sum(4 * (s6 * s6 - s6))


def differences(q, cell=None):
    """All pairs i < j, to the nearest image, by brute force over 27 of them."""
    i, j = np.triu_indices(len(q), 1)
    d = q[i] - q[j]
    if cell is not None:
        d = d - np.round(d @ np.linalg.inv(cell)) @ cell
        images = np.stack(np.meshgrid(*[[-1, 0, 1]] * q.shape[1]), -1).reshape(-1, q.shape[1]) @ cell
        every = d[:, None] + images
        d = every[np.arange(len(d)), (every**2).sum(-1).argmin(1)]
    return i, j, d


def energy_and_forces(q, cell, rc, shift=0.0):
    i, j, d = differences(q, cell)
    r2 = (d**2).sum(-1)
    near = r2 < rc**2
    i, j, d, r2 = i[near], j[near], d[near], r2[near]
    s6 = r2**-3
    f = ((48 * s6 * s6 - 24 * s6) / r2)[:, None] * d
    out = np.zeros_like(q)
    np.add.at(out, i, f)
    np.add.at(out, j, -f)
    return (4 * (s6 * s6 - s6) - shift).sum(), out


def spread(n, size, seed=0, least=0.85):
    """Points that keep a distance, as a liquid does: a lattice that is shaken."""
    rng = np.random.default_rng(seed)
    m = int(np.ceil(n ** (1 / 3)))
    grid = np.stack(np.meshgrid(*[np.arange(m)] * 3, indexing="ij"), -1).reshape(-1, 3)[
        rng.permutation(m**3)[:n]
    ]
    return (grid + rng.uniform(-0.07, 0.07, (n, 3))) * (np.asarray(size) / m)


def cell_of(name):
    return {
        "cube": np.diag([8.0] * 3),
        "bricks": np.diag([7.0, 11.0, 19.0]),
        "tilted": np.array([[8.0, 0, 0], [3.0, 7.5, 0], [-2.0, 2.5, 9.0]]),
    }[name]


def one_step(system, q, dt=2.0**-12, **given):
    """(energy, forces at the start) of a system, from rest: two half kicks around a tiny drift."""
    sim = tp.compile(system, dt=dt, sizes={"n": len(q)})
    out = sim.evolve(q=q, p=np.zeros_like(q), steps=1, **given)
    return out.energy[0], out.final.q, out.final.p / dt


@pytest.mark.parametrize("n", [2, 5, 8, 9, 16, 17, 100, 343])
@pytest.mark.parametrize("kind", ["cube", "bricks", "tilted", "open"])
def test_energy_and_forces_are_those_of_all_pairs(kind, n):
    cell = None if kind == "open" else cell_of(kind)
    q = spread(n, [8.0] * 3 if cell is None else [1.0] * 3, seed=n)
    q = q if cell is None else q @ cell
    system = {"open": open_space, "tilted": tilted}.get(kind, lennard_jones)
    given = {} if cell is None else {"cell": cell} if kind == "tilted" else {"box": np.diag(cell)}
    energy, after, force = one_step(system, q, **given)
    e0, f0 = energy_and_forces(q, cell, 2.5)
    _, f1 = energy_and_forces(after, cell, 2.5)
    assert energy == pytest.approx(e0, rel=1e-12, abs=1e-12)
    assert np.abs(force - (f0 + f1) / 2).max() <= 1e-11 * max(np.abs(f0).max(), 1.0)


def test_positions_are_unwrapped_and_any_finite_value_is_legal():
    q = spread(60, [8.0] * 3)
    k = np.random.default_rng(1).integers(-5, 6, q.shape)
    here = one_step(lennard_jones, q)
    there = one_step(lennard_jones, q + 8.0 * k)
    assert there[0] == pytest.approx(here[0], rel=1e-12)
    assert there[2] == pytest.approx(here[2], rel=1e-9, abs=1e-9)
    assert np.abs(there[1] - here[1] - 8.0 * k).max() < 1e-12  # they come back where they were put


@pytest.mark.parametrize(
    "name, box, expected",
    [
        ("nist_lj_config4.xyz", None, -16.790321304625856),
        ("nist_lj_triclinic3.xyz", None, -505.78567945268367),
    ],
)
def test_the_reference_configurations_of_nist(name, box, expected):
    path = DATA / name
    if not path.exists():
        pytest.skip(f"{name} is not there: it is public data that the project does not carry")
    lines = path.read_text().split("\n")
    numbers = [float(x) for x in lines[1].split()]
    q = np.array([[float(x) for x in line.split()[1:4]] for line in lines[2:] if line.strip()])
    cell = nist_cell(numbers)
    energy, *_ = one_step(tilted, q, cell=cell, rc=3.0)
    assert energy == pytest.approx(expected, rel=1e-13)


def nist_cell(numbers):
    """The diagonal, then what lies below it, if the cell is not straight."""
    _, a, b, c, *tilt = numbers
    xy, xz, yz = tilt or (0.0, 0.0, 0.0)
    return np.array([[a, 0, 0], [xy, b, 0], [xz, yz, c]])


# --- bits -----------------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", ["cube", "tilted", "open"])
def test_every_backend_has_the_same_bits(kind):
    cell = None if kind == "open" else cell_of(kind)
    q = spread(27, [5.0] * 3 if cell is None else [1.0] * 3, 3)
    q = q if cell is None else q @ cell
    p = np.random.default_rng(0).normal(size=q.shape) * 3  # fast enough that lists are made again
    system = {"open": open_space, "tilted": tilted}.get(kind, lennard_jones)
    given = {} if cell is None else {"cell": cell} if kind == "tilted" else {"box": np.diag(cell)}
    hashes = {
        b: tp.compile(system, dt=0.004, backend=b).evolve(q=q, p=p, steps=40, save_every=7, **given).hash
        for b in BACKENDS
    }
    assert len(set(hashes.values())) == 1, hashes


@pytest.mark.slow("the contract")
@pytest.mark.requirement("C-57", "C-106")
def test_no_bit_depends_on_threads_widths_frames_or_observables(monkeypatch):
    q = spread(2200, [16.0] * 3, 5)
    p = np.random.default_rng(0).normal(size=q.shape)
    given = dict(q=q, p=p, box=[16.0] * 3, steps=30)
    sim = tp.compile(lennard_jones, dt=0.004)
    expected = sim.evolve(**given, threads=1).hash
    assert {sim.evolve(**given, threads=k).hash for k in (2, 3, 7)} == {expected}
    watched = sim.evolve(**given, save_every=4, observe={"T": lambda p: (p**2).sum()}, hash_every=6)
    assert watched.hash == expected
    for width in (1, 2, 4, 8):
        monkeypatch.setattr(
            "tinyphysics.runtime.engines.backend.LOOPS", {"llvm": lambda w=width: LlvmLoops(width=w)}
        )
        tp.runtime.engines.backend.engine_for.cache_clear()
        assert sim.evolve(**given).hash == expected
    tp.runtime.engines.backend.engine_for.cache_clear()


def test_a_frame_is_the_end_of_a_shorter_run():
    q = spread(100, [8.0] * 3, 5)
    p = np.random.default_rng(0).normal(size=q.shape) * 2
    sim = tp.compile(lennard_jones, dt=0.004)
    out = sim.evolve(q=q, p=p, steps=60, save_every=9)
    for k, n in enumerate([0, 9, 18, 27, 36, 45, 54, 60]):
        short = sim.evolve(q=q, p=p, steps=n)
        assert (short.final.q == out.q[k]).all() and (short.final.p == out.p[k]).all()


def test_lists_are_made_again_after_a_block_that_was_done_twice():
    """An argument too large for the fast sine: the block is done again, and lists must follow its memory."""

    @tp.hamiltonian
    def rippled(q: tp.Array["n", 3], p: tp.Array["n", 3], t, L: float = 5.4):
        s6 = 1 / tp.pair_distance2(q, box=L, cutoff=2.5) ** 3
        ripple = 1e-9 * tp.sin(tp.where(t < 0.01, 1e9, 1.0) * q).sum()  # too fast in the first steps only
        return (p**2).sum() / 2 + tp.pair_sum(4 * (s6 * s6 - s6)) + ripple

    q = spread(27, [5.4] * 3, 3)
    p = np.random.default_rng(0).normal(size=q.shape) * 3
    often = dict(q=q, p=p, steps=60, observe={"K": lambda p: (p**2).sum()})  # many calls on one memory
    outs = {b: tp.compile(rippled, dt=0.004, backend=b).evolve(**often) for b in BACKENDS}
    assert len({out.hash for out in outs.values()}) == 1
    from tinyphysics.tpir.kernels.loops import build_loops

    assert build_loops(tp.compile(rippled, dt=0.004, sizes={"n": 27}).tpir).guarded


def test_an_ensemble_has_a_list_for_each_member():
    q = np.stack([spread(50, [8.0] * 3, k) for k in range(3)])
    p = np.random.default_rng(0).normal(size=q.shape)
    sim = tp.compile(lennard_jones, dt=0.004)
    boxes = np.array([[8.0] * 3, [8.5] * 3, [9.0] * 3])
    together = sim.evolve(q=q, p=p, box=boxes, steps=30)
    for k in range(3):
        assert (sim.evolve(q=q[k], p=p[k], box=boxes[k], steps=30).final.q == together.final.q[k]).all()


def test_float32_has_lists_too():
    q = spread(40, [8.0] * 3, 3)
    p = np.random.default_rng(0).normal(size=q.shape) * 3
    outs = {
        b: tp.compile(lennard_jones, dt=0.004, backend=b, precision="float32").evolve(q=q, p=p, steps=30)
        for b in ("numpy", "c", "llvm")
    }
    assert len({out.hash for out in outs.values()}) == 1
    exact = tp.compile(lennard_jones, dt=0.004).evolve(q=q, p=p, steps=30)
    assert np.abs(outs["llvm"].final.q - exact.final.q).max() < 1e-3


# --- lists ----------------------------------------------------------------------------------------
def made(q, domain, dtype="f64", threads=1):
    n, d = q.shape
    straight = domain.cell is not None and not np.any(np.array(domain.cell) - np.diag(np.diag(domain.cell)))
    cell = None if domain.cell is None else UOp.const(0.0, DTYPES["f64"], (d,) if straight else (d, d))
    spec = ListSpec(0, q.shape, DTYPES[dtype], UOp.const(0.0), UOp.const(0.0), cell)
    own = {what: near_room(spec, what) for what in ("limit", "shifts", "points")}
    near = NearList(spec, domain, own, list_builder, threads)
    near.make_at(q.T)
    return near


def near_room(spec, what):
    return aligned(next(b for b in spec.buffers() if b.name == spec.name(what)))


def pairs_in(near):
    """All pairs (i, j) of a list, by index."""
    n = near.spec.shape[0]
    order, starts = near.made["order"][:n], near.made["starts"]
    rows = np.repeat(np.arange(n), np.diff(starts[: n + 1]))
    js = ((near.made["blocks"][: starts[n]].astype(int) >> FIRST) * 8)[:, None] + np.arange(8)
    i, j = np.broadcast_to(rows[:, None], js.shape), js
    keep = (j > i) & (j < n)
    a, b = order[i[keep]], order[j[keep]]
    return set(zip(np.minimum(a, b).tolist(), np.maximum(a, b).tolist()))


def wanted(q, domain):
    i, j, d = differences(q, None if domain.cell is None else np.array(domain.cell))
    near = (d**2).sum(-1) <= (domain.cutoff + domain.skin) ** 2
    return set(zip(i[near].tolist(), j[near].tolist()))


def test_a_list_that_is_made_again_and_again_stays_as_large():
    q = spread(60, [8.0] * 3, 1)
    near = made(q, Domain(2.0, 0.3, tuple(map(tuple, np.diag([8.0] * 3).tolist()))))
    first = len(near.made["blocks"])
    for _ in range(500):
        near.make_at(q.T)
    assert len(near.made["blocks"]) <= first


def adversarial(kind, n, d, rng):
    match kind:
        case "anywhere":
            return rng.uniform(-30, 30, (n, d))
        case "one place":
            return np.zeros((n, d)) + rng.normal(size=(n, d)) * 1e-9
        case "a line":
            return np.outer(np.linspace(0, 40, n), np.eye(d)[0])
        case "a plane":
            return rng.uniform(0, 10, (n, d)) * (np.arange(d) > 0)
        case "on the edges":
            return rng.integers(-3, 4, (n, d)) * 8.0 * rng.choice([1.0, 1.0 - 2**-53, 1.0 + 2**-52], (n, d))
        case "two heaps":
            return rng.normal(size=(n, d)) * 0.3 + np.where(rng.uniform(size=(n, 1)) < 0.5, 0.0, 100.0)
        case "one far away":
            return np.concatenate([rng.uniform(0, 8, (n - 1, d)), np.full((1, d), 1e12)])
        case "a lattice":
            return np.stack(np.unravel_index(np.arange(n), (max(2, round(n ** (1 / d)) + 1),) * d), -1) * 1.1
    raise AssertionError(kind)


@pytest.mark.parametrize(
    "kind",
    ["anywhere", "one place", "a line", "a plane", "on the edges", "two heaps", "one far away", "a lattice"],
)
@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("space", ["open", "cube", "tilted"])
@pytest.mark.requirement("S2-27", "C-35")
def test_no_pair_is_ever_missed(kind, d, space):
    rng = np.random.default_rng(0)
    for n in (9, 64, 100, 700):
        q = adversarial(kind, n, d, rng)
        cell = (
            None
            if space == "open"
            else np.diag([8.0] * d)
            if space == "cube"
            else np.tril(rng.uniform(-3, 3, (d, d)), -1) + np.diag([9.0] * d)
        )
        room = np.inf if cell is None else min(1 / np.linalg.norm(np.linalg.inv(cell), axis=0)) / 2
        cutoff = min(2.5, 0.8 * room)
        rows = None if cell is None else tuple(map(tuple, cell.tolist()))
        for curve in (0, 1):  # columns, and Morton's
            domain = Domain(cutoff, skin_of(cutoff, -1.0, rows), rows, curve)
            missing = wanted(q, domain) - pairs_in(made(q, domain))
            assert not missing, f"{len(missing)} of n = {n}, such as {sorted(missing)[:3]}"


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 3),
    st.integers(9, 80),
    st.integers(0, 10**6),
    st.floats(0.05, 3.0),
    st.floats(0.0, 1.0),
    st.booleans(),
)
def test_no_pair_is_missed_at_random(d, n, seed, cutoff, skin, periodic):
    rng = np.random.default_rng(seed)
    cell = np.tril(rng.uniform(-4, 4, (d, d)), -1) + np.diag(rng.uniform(8.0, 12.0, d)) if periodic else None
    if periodic:
        room = min(1 / np.linalg.norm(np.linalg.inv(cell), axis=0)) / 2
        cutoff, skin = min(cutoff, 0.7 * room), min(skin, 0.25 * room)
    q = rng.normal(size=(n, d)) * rng.choice([0.5, 3.0, 30.0])
    domain = Domain(cutoff, skin, None if cell is None else tuple(map(tuple, cell.tolist())))
    assert not wanted(q, domain) - pairs_in(made(q, domain))


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 3), st.integers(1, 60), st.integers(0, 10**6), st.booleans(), st.sampled_from([0, 1]))
def test_the_order_of_a_list_is_that_of_its_definition(d, n, seed, periodic, curve):
    rng = np.random.default_rng(seed)
    q = rng.normal(size=(n, d)) * 10.0 ** rng.integers(-2, 4)
    cell = np.tril(rng.uniform(-4, 4, (d, d)), -1) + np.diag(rng.uniform(8.0, 12.0, d)) if periodic else None
    rows = None if cell is None else cell.tolist()
    order, periods = by_definition(q.tolist(), rows, curve)
    found = np.empty((d, n))
    ours, *_ = arranged(
        q.T, Domain(1.0, 0.1, None if rows is None else tuple(map(tuple, rows)), curve), found
    )
    assert ours.tolist() == order and found.T.tolist() == periods and sorted(order) == list(range(n))


@pytest.mark.parametrize("periodic", [False, True])
@pytest.mark.parametrize("curve", [0, 1])
def test_threads_make_the_list_of_one(periodic, curve, monkeypatch):
    """Cut as finely as that goes: keys in ranges of values, boxes and spans in parts."""
    monkeypatch.setattr(neighbours, "WORTH_A_CALL", 16)
    monkeypatch.setattr(neighbours, "WORTH_A_PART", 64)
    q = np.random.default_rng(3).normal(size=(1013, 3)) * 3
    domain = Domain(
        1.0, 0.2, ((9.0, 0.0, 0.0), (1.0, 8.0, 0.0), (0.0, 0.0, 10.0)) if periodic else None, curve
    )
    one, many = made(q, domain), made(q, domain, threads=5)
    for what, numbers in one.made.items():
        assert np.array_equal(numbers, many.made[what]), what


def test_fast_particles_meet_whom_they_come_near():
    """Many lists are made on the way; all pairs without a list say where everybody goes."""

    @tp.hamiltonian
    def all_pairs(q: tp.Array["n", 3], p: tp.Array["n", 3], L: float = 8.0, rc: float = 2.5):
        d = q[:, None] - q[None, :]
        d = d - L * np.floor(d / L + 0.5)
        r2 = (d**2).sum(-1)
        s6 = 1 / r2**3
        return (p**2).sum() / 2 + tp.pair_sum(tp.where(r2 < rc * rc, 4 * (s6 * s6 - s6), 0.0))

    q = spread(64, [8.0] * 3, 2)
    p = np.random.default_rng(0).normal(size=q.shape) * 20
    for order in (2, 4):
        ours = tp.compile(lennard_jones, dt=2e-4, order=order).evolve(q=q, p=p, steps=300)
        theirs = tp.compile(all_pairs, dt=2e-4, order=order).evolve(q=q, p=p, steps=300)
        assert np.abs(q - ours.final.q).max() > 1.0
        assert np.abs(ours.final.q - theirs.final.q).max() < 1e-9


def test_the_order_of_morton_can_be_pinned():
    @tp.hamiltonian
    def pinned(q: tp.Array["n", 3], p: tp.Array["n", 3], L: float = 8.0):
        s6 = 1 / tp.pair_distance2(q, box=L, cutoff=2.5, order="morton") ** 3
        return (p**2).sum() / 2 + tp.pair_sum(4 * (s6 * s6 - s6))

    q = spread(27, [5.4] * 3, 3)
    p = np.random.default_rng(0).normal(size=q.shape)
    outs = {b: tp.compile(pinned, dt=0.004, backend=b).evolve(q=q, p=p, L=5.4, steps=40) for b in BACKENDS}
    assert len({out.hash for out in outs.values()}) == 1
    other = tp.compile(lennard_jones, dt=0.004).evolve(q=q, p=p, box=[5.4] * 3, steps=40)
    assert other.hash != outs["llvm"].hash and np.abs(other.final.q - outs["llvm"].final.q).max() < 1e-9
    assert "(0,1)" in tp.compile(pinned, dt=0.004, sizes={"n": 27}).ir()


# --- what an energy may say -----------------------------------------------------------------------
def test_shift_and_switch():
    def energy(**options):
        @tp.hamiltonian
        def two(q: tp.Array["n", 3], p: tp.Array["n", 3], rc: float = 2.5):
            r2 = tp.pair_distance2(q, cutoff=rc, **options)
            return (p**2).sum() / 2 + tp.pair_sum(1 / r2)

        sim = tp.compile(two, dt=1e-3, sizes={"n": 9})

        def at(r):
            q = np.arange(9)[:, None] * np.array([[1000.0, 0, 0]])
            q[1] = [r, 0, 0]
            return sim.evolve(q=q, p=np.zeros((9, 3)), steps=0).energy[0]

        return at

    plain, shifted, switched = energy(), energy(shift=True), energy(switch=2.0)
    assert plain(2.0) == pytest.approx(0.25) and plain(2.51) == 0.0
    assert shifted(2.0) == pytest.approx(0.25 - 1 / 6.25) and shifted(2.4999999) == pytest.approx(
        0.0, abs=1e-7
    )
    assert switched(1.5) == plain(1.5) and switched(2.51) == 0.0
    h = 2e-5
    for edge in (2.0, 2.5):  # value, slope and curvature are continuous
        left, right = ([switched(edge + s * k * h) for k in (1, 2, 3, 4)] for s in (-1, 1))
        for order in range(3):
            a, b = (np.diff(side, order)[0] * s**order / h**order for side, s in ((left, -1), (right, 1)))
            assert a == pytest.approx(b, abs=0.01)


def test_tables_of_types_and_numbers_of_each_particle():
    @tp.hamiltonian
    def mixture(
        q: tp.Array["n", 3],
        p: tp.Array["n", 3],
        types: tp.Vec["n"],
        eps: tp.Array[2, 2],
        charge: tp.Vec["n"],
        L: float = 8.0,
    ):
        r2 = tp.pair_distance2(q, box=L, cutoff=2.5)
        e = eps[types[:, None], types[None, :]]
        return (p**2).sum() / 2 + tp.pair_sum(e / r2**3 + charge[:, None] * charge[None, :] / np.sqrt(r2))

    q, rng = spread(60, [8.0] * 3), np.random.default_rng(0)
    types, charge, eps = rng.integers(0, 2, 60), rng.normal(size=60), np.array([[1.0, 2.0], [2.0, 5.0]])
    sim = tp.compile(mixture, dt=1e-3)
    given = dict(q=q, p=np.zeros_like(q), types=types, charge=charge, eps=eps)
    i, j, d = differences(q, np.diag([8.0] * 3))
    r2 = (d**2).sum(-1)
    expected = (eps[types[i], types[j]] / r2**3 + charge[i] * charge[j] / np.sqrt(r2))[r2 < 6.25].sum()
    assert sim.evolve(**given, steps=0).energy[0] == pytest.approx(expected, rel=1e-12)
    with pytest.raises(InputError, match="holds 2"):
        sim.evolve(**given | {"types": types + 1}, steps=1)
    with pytest.raises(InputError, match="symmetric"):
        sim.evolve(**given | {"eps": [[1.0, 2.0], [3.0, 5.0]]}, steps=1)


@pytest.mark.parametrize(
    "table, why",
    [
        (lambda eps, q: 2 * eps, "not symmetric: \\(0, 1\\) and \\(1, 0\\)"),
        (lambda eps, q: eps + np.array([[0.0, 1.0], [1.0, 0.0]]), "not symmetric"),
        (lambda eps, q: eps * q[0, 0], "depends on the state"),
    ],
)
def test_a_computed_table_is_symmetric_or_refused(table, why):
    @tp.hamiltonian
    def mixture(
        q: tp.Array["n", 3], p: tp.Array["n", 3], types: tp.Vec["n"], eps: tp.Array[2, 2], L: float = 8.0
    ):
        e = table(eps, q)[types[:, None], types[None, :]]
        return (p**2).sum() / 2 + tp.pair_sum(e / tp.pair_distance2(q, box=L, cutoff=2.5))

    q = spread(60, [8.0] * 3)
    given = dict(q=q, p=np.zeros_like(q), types=np.arange(60) % 2, eps=[[1.0, 2.0], [3.0, 5.0]])
    with pytest.raises(InputError, match=why):
        tp.compile(mixture, dt=1e-3).evolve(**given, steps=1)


@pytest.mark.parametrize("n", [6, 60])
def test_excluded_pairs_do_not_see_each_other(n):
    bonds = [(k, k + 1) for k in range(0, n - 1, 2)] + [(0, 3)]

    @tp.hamiltonian
    def molecules(q: tp.Array["n", 3], p: tp.Array["n", 3], L: float = 8.0):
        return (p**2).sum() / 2 + tp.pair_sum(1 / tp.pair_distance2(q, box=L, cutoff=2.5, exclude=bonds))

    q = spread(n, [8.0] * 3) if n > 8 else np.random.default_rng(0).uniform(0, 2, (n, 3))
    i, j, d = differences(q, np.diag([8.0] * 3))
    r2 = (d**2).sum(-1)
    kept = np.array([(a, b) not in bonds for a, b in zip(i.tolist(), j.tolist())])
    expected = (1 / r2)[(r2 < 6.25) & kept].sum()
    out = tp.compile(molecules, dt=1e-3, sizes={"n": n}).evolve(q=q, p=np.zeros_like(q), steps=0)
    assert out.energy[0] == pytest.approx(expected, rel=1e-12)


@tp.hamiltonian
def switched_liquid(q: tp.Array["n", 3], p: tp.Array["n", 3], L: float):
    s6 = 1 / tp.pair_distance2(q, box=L, cutoff=2.5, switch=2.0) ** 3
    return (p**2).sum() / 2 + tp.pair_sum(4 * (s6 * s6 - s6))


def test_with_a_switch_the_energy_error_falls_like_the_square_of_the_step():
    q = spread(125, [5.6] * 3, 1)
    p = np.random.default_rng(0).normal(size=q.shape)
    sim = tp.compile(switched_liquid, dt=0.004)
    start = sim.evolve(q=q, p=p, L=5.6, steps=500).final
    errors = [
        sim.evolve(q=start.q, p=start.p, L=5.6, dt=0.004 / k, steps=100 * k).drift("energy")
        for k in (1, 2, 4)
    ]
    slopes = np.diff(np.log2(errors))
    assert (np.abs(slopes + 2) < 0.15).all(), (errors, slopes)


def test_it_is_certified_and_conserves_momentum():
    sim = tp.compile(switched_liquid, dt=0.004, sizes={"n": 216})
    assert sim.certificate.symplectic and sim.certificate.symmetric
    q, p = spread(216, [8.0] * 3), np.random.default_rng(0).normal(size=(216, 3))
    out = sim.evolve(q=q, p=p, L=8.0, steps=100)
    assert np.abs(out.final.p.sum(0) - p.sum(0)).max() < 1e-12


# --- mistakes -------------------------------------------------------------------------------------
@pytest.mark.slow("messages")
def test_what_makes_no_sense_is_refused_with_the_fix():
    q = spread(30, [8.0] * 3)
    given = dict(q=q, p=np.zeros_like(q), steps=1)
    sim = tp.compile(lennard_jones, dt=1e-3)
    with pytest.raises(InputError, match="over half the width of the box"):
        sim.evolve(**given, rc=4.5)
    with pytest.raises(InputError, match="not a distance"):
        sim.evolve(**given, rc=-1.0)
    with pytest.raises(InputError, match="above zero"):
        sim.evolve(**given, box=[8.0, 0.0, 8.0])
    few = spread(5, [8.0] * 3)
    for system, more in ((lennard_jones, {}), (tilted, {"cell": np.diag([8.0] * 3)})):
        small = tp.compile(system, dt=1e-3)
        with pytest.raises(InputError, match="over half the width of the box"):
            small.evolve(q=few, p=0 * few, steps=1, rc=4.5, **more)
        assert small.evolve(q=few, p=0 * few, steps=1, rc=3.9, **more).stopped is None
    flat = tp.compile(tilted, dt=1e-3)
    with pytest.raises(InputError, match="8 x 8 x -8"):
        flat.evolve(**given, cell=np.diag([8.0, 8.0, -8.0]))
    with pytest.raises(InputError, match="singular"):
        flat.evolve(**given, cell=np.ones((3, 3)))


def test_a_backend_that_makes_no_lists_says_so():
    with pytest.raises(BackendError, match="opencl"):
        tp.compile(lennard_jones, dt=1e-3, backend="opencl", sizes={"n": 30})


@pytest.mark.parametrize("level", ["c", "opencl"])
def test_a_listing_that_could_not_run_is_refused(level):
    with pytest.raises(PlanError, match="neighbours"):
        tp.compile(lennard_jones, dt=1e-3, sizes={"n": 30}).ir(level)


def refused(energy, match, error=TraceError):
    def traced(q: tp.Array["n", 3], p: tp.Array["n", 3], m: tp.Vec["n"]):
        return (p**2).sum() / 2 + energy(q, m)

    with pytest.raises(error, match=match):
        tp.compile(tp.hamiltonian(traced), dt=1e-3, sizes={"n": 20})


def test_what_cannot_be_summed_is_refused_when_it_is_traced():
    near = tp.pair_distance2
    refused(lambda q, m: near(q, cutoff=2.0).sum(), "no sum has consumed")
    refused(lambda q, m: tp.pair_sum(near(q, cutoff=2.0) + near(q, cutoff=3.0)), "mixes the distances")
    refused(lambda q, m: tp.pair_sum(near(q, cutoff=2.0) * m[:, None]), "not shown to be that of")
    refused(lambda q, m: tp.pair_sum(near(q, box=3.0)), "with 2 coordinates|no sum over all images")
    refused(lambda q, m: tp.pair_sum(near(q, cutoff=2.0) + 1 / near(q)), "mixes the distances")
    refused(lambda q, m: tp.pair_sum(near(q, cutoff=2.0, shift=True, switch=1.0)), "together")
    refused(lambda q, m: tp.pair_sum(near(m, cutoff=2.0)), "pair_distance2 of shape", ShapeError)
    refused(lambda q, m: tp.pair_sum(near(q, cutoff=2.0, box=(1.0, 2.0))), "a box of shape", ShapeError)
    refused(lambda q, m: tp.pair_sum(near(q, cutoff=2.0, exclude=[(0, 20)])), "exclude=", InputError)
    refused(lambda q, m: tp.pair_sum((q[:, None] - q[None, :]).sum(-1) ** 2, switch=1.0), "need a cutoff")


def test_overlapping_atoms_are_named():
    q = spread(40, [8.0] * 3)
    q[23] = q[7]
    out = tp.compile(lennard_jones, dt=1e-3).evolve(q=q, p=np.zeros_like(q), steps=10)
    assert out.stopped.cause == "not finite" and out.stopped.where == (7, 23) and out.stopped.step == 1


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.requirement("S4-10")
def test_a_resumed_run_goes_on_with_its_list(backend, tmp_path):
    """The order of a sum depends on where the list was made: without it a resumed run would have other bits."""
    q = spread(30, [8.0] * 3, 3)
    p = np.random.default_rng(0).normal(size=q.shape) * 3
    sim = tp.compile(lennard_jones, dt=0.004, backend=backend)
    whole = sim.evolve(q=q, p=p, steps=60)
    for k in (7, 31, 44):
        sim.evolve(q=q, p=p, steps=k, checkpoint=tmp_path / f"run{k}")
        assert sim.evolve(steps=60 - k, resume=tmp_path / f"run{k}").hash == whole.hash
    other = tp.compile(lennard_jones, dt=0.004, backend="llvm" if backend != "llvm" else "c")
    assert other.evolve(steps=60 - k, resume=tmp_path / f"run{k}").hash == whole.hash
