"""Movement in loops: whatever is rearranged has NumPy's numbers, in its derivative too, with one set of bits everywhere."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tinyphysics as tp
from tinyphysics.runtime.engines.backend import nest_engine
from tinyphysics.ir import UOp, evaluate
from tinyphysics.runtime.engines.loaders import CLoops, LlvmLoops, numpy_loops
from tinyphysics.tpir.kernels.index import LONGEST, Unsupported, divided, over
from tinyphysics.tpir.kernels.index import Index as Place

LOADERS = (numpy_loops, CLoops, LlvmLoops, lambda: LlvmLoops(width=1))
FIXED = {
    "merged":          ((40, 36), lambda x: x.reshape(-1)),
    "merged, rolled":  ((40, 36), lambda x: np.roll(x, 5)),
    "split":           ((360,), lambda x: x.reshape(36, 10)[::-1]),
    "split long":      ((40 * 36,), lambda x: np.roll(x.reshape(40, 36), 3, 1)),
    "other axes":      ((36, 40), lambda x: x.reshape(48, 30)),
    "components":      ((40, 3), lambda x: x.reshape(-1)[2:-5]),
    "components back": ((120,), lambda x: np.roll(x.reshape(40, 3), 1, 1)),
    "three axes":      ((36, 3, 40), lambda x: x.reshape(36 * 3, 40)[1:]),
    "every third":     ((100,), lambda x: x[::3]),
    "every seventh":   ((40, 100), lambda x: x[::7, 3:-2:5]),
    "backwards":       ((100,), lambda x: x[97:4:-6]),
    "repeat":          ((40,), lambda x: np.repeat(x, 3)),
    "repeat rows":     ((36, 5), lambda x: np.repeat(x, 2, axis=0)),
    "tile":            ((40,), lambda x: np.tile(x, 3)[7:]),
    "tile both":       ((5, 36), lambda x: np.tile(x, (2, 2))),
    "wrap":            ((36, 40), lambda x: np.pad(x, ((1, 2), (0, 3)), mode="wrap")),
    "edge":            ((40,), lambda x: np.pad(x, 2, mode="edge")),
    "zeros":           ((40, 36), lambda x: np.pad(x, ((1, 0), (2, 2)))[::3]),
    "joined":          ((40,), lambda x: np.hstack([x[::3], x.reshape(8, 5)[:, 2]])),
    "transposed":      ((36, 40), lambda x: np.swapaxes(x, 0, 1).reshape(-1)[::2]),
    "moved":           ((3, 36, 40), lambda x: np.moveaxis(x, 0, -1).reshape(36, 120)),
    "stacked":         ((40,), lambda x: np.vstack([x, np.flip(x)]).reshape(-1)),
    "squeezed":        ((40, 1, 33), lambda x: np.squeeze(np.expand_dims(x, 0)).reshape(44, 30)),
}  # fmt: skip


def in_loops(sim, loader, state, params):
    """One step of the loops, whatever the sizes would have made of it."""
    engine = nest_engine(sim.tpir, loader(), 1)
    m = engine.start(
        {k: v[None] for k, v in state.items()}, {k: v[None] for k, v in params.items()}, 1, 1.0, 0.0
    )
    engine.advance(m, 1)
    return {k: v[0] for k, v in engine.synchronised(m).items()}


def check(shape, move, loaders=LOADERS):
    """The numbers as a map, and as the force of a linear energy, whose place follows from where NumPy puts indices."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=shape)
    origin = move(np.arange(x.size).reshape(shape) + 1.0).astype(int) - 1  # -1: a zero that was filled in
    weight = rng.normal(size=origin.shape)
    expected = np.append(np.zeros(x.size), 0.0)
    np.add.at(expected, origin.ravel(), weight.ravel())

    @tp.map
    def moved(y: tp.Array[origin.shape], x: tp.Array[shape]):
        return move(x) + y

    @tp.hamiltonian
    def linear(q: tp.Array[shape], p: tp.Array[shape], w: tp.Array[origin.shape]):
        return (p**2).sum() / 2 + (w * move(q)).sum()

    sim = tp.compile(moved, backend="python")
    assert all(
        np.array_equal(in_loops(sim, f, {"y": weight}, {"x": x})["y"], move(x) + weight) for f in loaders
    )
    sim = tp.compile(linear, dt=1.0, backend="python")
    final = sim.evolve(q=x, p=0 * x, w=weight, steps=1).final.p
    assert all(
        np.array_equal(in_loops(sim, f, {"q": x, "p": 0 * x}, {"w": weight})["p"], final) for f in loaders
    )
    assert np.allclose(final.ravel(), -expected[:-1], rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("name", FIXED)
def test_a_movement_is_that_of_numpy(name):
    check(*FIXED[name])


MOVES = st.one_of(
    st.tuples(st.just("reshape"), st.integers(0, 10**6)),
    st.tuples(
        st.just("slice"), st.integers(0, 3), st.integers(0, 4), st.sampled_from([1, 2, 3, 5, 7, -1, -2, -3])
    ),
    st.tuples(st.just("roll"), st.integers(-50, 50), st.integers(0, 1)),
    st.tuples(st.just("flip"), st.integers(0, 1)),
    st.tuples(st.just("transpose")),
    st.tuples(st.just("repeat"), st.integers(1, 3), st.integers(0, 1)),
    st.tuples(st.just("tile"), st.integers(1, 3)),
    st.tuples(st.just("pad"), st.integers(0, 3), st.integers(0, 3)),
)


def divisors(n):
    return [d for d in range(1, n + 1) if n % d == 0]


def moved_by(x, moves):
    for kind, *how in moves:
        axis = how[-1] % max(x.ndim, 1) if how else 0
        match kind:
            case "reshape":
                d = divisors(x.size)
                first = d[how[0] % len(d)]
                x = x.reshape(first, x.size // first) if how[0] % 3 else x.reshape(-1)
            case "slice":
                cut = (
                    x[how[0] : x.shape[0] - how[1] : how[2]]
                    if how[2] > 0
                    else x[x.shape[0] - 1 - how[0] : how[1] : how[2]]
                )
                x = cut if cut.shape[0] else x
            case "roll":
                x = np.roll(x, how[0], axis)
            case "flip":
                x = np.flip(x, axis)
            case "transpose":
                x = np.transpose(x)
            case "repeat" if x.size <= 600:
                x = np.repeat(x, how[0], axis)
            case "tile" if x.size <= 600:
                x = np.tile(x, how[0])
            case "pad":
                x = np.pad(x, [tuple(how)] * x.ndim)
    return x


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from([(40,), (36, 3), (34, 36), (5, 40)]), st.lists(MOVES, min_size=1, max_size=4))
def test_any_chain_of_movements_is_that_of_numpy(shape, moves):
    check(shape, lambda x: moved_by(x, moves), (numpy_loops, LlvmLoops))


@settings(max_examples=300, deadline=None)
@given(st.integers(1, 5000), st.integers(0, LONGEST - 1), st.integers(0, LONGEST - 1))
def test_an_index_is_divided_exactly(d, largest, x):
    x = min(x, largest)
    for value in (x, largest, max(x // d * d - 1, 0), x // d * d):
        u = over(UOp.var("x", (), UOp.range(1).dtype), d, largest)
        assert evaluate([u], {"x": value}) == [value // d]


def test_what_is_split_after_it_was_merged_is_where_it_was():
    i = Place(0, 99, UOp.var("@i", (), UOp.range(1).dtype), inner=True)
    quotient, rest = divided(i.times(3).shifted(2), 3)
    assert rest == 2 and quotient.key == i.key


def test_an_axis_too_long_to_divide_is_named():
    i = Place(0, 2**40, UOp.var("@i", (), UOp.range(1).dtype))
    with pytest.raises(Unsupported, match="division of an index by 3"):
        divided(i, 3)
