"""Bodies of one system side by side in vectors: the bits of scalars, for any number of bodies, law and method."""

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.runtime.engines.backend import lane_engine
from tinyphysics.emit.scalar import llvm, packed
from tinyphysics.emit.scalar.packs import packs_of_pairs, unsigned
from tinyphysics.ir.ops import Ops
from tinyphysics.ir.uop import UOp
from tinyphysics.planner.cost.machine import shape_for
from tinyphysics.runtime.engines.loaders import LlvmLoader
from tinyphysics.target import CORES, VectorShape
from tinyphysics.tpir.kernels.kernel import build_kernel

LAWS = {
    "gravity": lambda r2, m: -(m / tp.sqrt(r2)).sum(),
    "softened": lambda r2, m: -(m / tp.sqrt(r2 + 0.01)).sum(),
    "argon": lambda r2, m: (m / r2**6 - m / r2**3).sum(),
    "yukawa": lambda r2, m: -(m * tp.exp(-tp.sqrt(r2)) / tp.sqrt(r2)).sum(),
}


def bodies(n: int, d: int, law: str):
    """Every pair once, as a user writes it."""

    def system(q, p, m):
        H = (p**2 / (2 * m[:, None])).sum()
        for k in range(1, n):
            H = H + LAWS[law](((q[k:] - q[:-k]) ** 2).sum(axis=1), m[k:] * m[:-k])
        return H

    system.__annotations__ = {"q": tp.Array[n, d], "p": tp.Array[n, d], "m": tp.Vec[n]}
    return tp.hamiltonian(system)


def start(n: int, d: int):
    """Some bodies lie in a plane, and zeros have both signs: a difference of 0 has a sign, too."""
    rng = np.random.default_rng(n)
    q, p = rng.normal(0, 0.3, (n, d)), rng.normal(0, 0.1, (n, d))
    q[:, 0] += 1.3 * np.arange(n)
    if d > 1:
        q[:, -1] = np.where(np.arange(n) % 3 == 0, 0.0, q[:, -1])
    p[:, -1] = np.where(np.arange(n) % 2 == 0, -0.0, p[:, -1])
    return {"q": q, "p": p, "m": rng.uniform(0.5, 1.0, n)}


def lanes(sim, at, wide: int, steps: int):
    """The last state as bytes, and the engine."""
    engine = lane_engine(sim.tpir, LlvmLoader(shape=VectorShape(1, 1, bodies=wide)), threads=1)
    state = {name: at.get(name, np.zeros_like(at["q"]))[None] for name in engine.kernel.outputs}
    m = engine.start(state, {"m": at["m"][None]}, 1, 0.01, 0.0)
    engine.advance(m, steps)
    return {name: a.tobytes() for name, a in engine.synchronised(m).items()}


def step_of(sim):
    return build_kernel(sim.tpir).section("step")


MORE = [pytest.param(n, d, marks=pytest.mark.all) for n, d in ((4, 2), (5, 3), (8, 2), (10, 2), (17, 1))]


@pytest.mark.parametrize("n, d", [(3, 3), (5, 2), (7, 1), (9, 3), *MORE])
def test_vectors_of_any_width_have_the_bits_of_scalars(n, d):
    sim, at = tp.compile(bodies(n, d, "gravity"), 0.01, backend="llvm"), start(n, d)
    assert packed.pairs(step_of(sim), 8) is not None
    alone = lanes(sim, at, 0, 20)
    assert all(lanes(sim, at, wide, 20) == alone for wide in (2, 4, 8))


@pytest.mark.parametrize(
    "law, method",
    [("softened", "yoshida4"), ("argon", "leapfrog"), ("yukawa", "leapfrog"), ("softened", "rk4")],
)
def test_other_laws_and_methods_have_them(law, method):
    sim, at = tp.compile(bodies(4, 2, law), 0.01, backend="llvm", method=method), start(4, 2)
    assert lanes(sim, at, 8, 5) == lanes(sim, at, 4, 5) == lanes(sim, at, 0, 5)


def test_double_doubles_have_them():
    sim, at = tp.compile(bodies(3, 1, "gravity"), 0.01, backend="llvm", precision="dd"), start(3, 1)
    assert lanes(sim, at, 8, 3) == lanes(sim, at, 0, 3)


def test_a_run_has_the_bits_of_the_virtual_machine_and_of_an_ensemble():
    at = start(5, 3)
    one, vm, many = (
        tp.compile(bodies(5, 3, "gravity"), 0.01, backend=backend) for backend in ("llvm", "python", "llvm")
    )
    two = {name: np.stack([at[name], 1.01 * at[name]]) for name in ("q", "p")}
    a, b = one.evolve(**at, steps=4).final, vm.evolve(**at, steps=4).final
    c = many.evolve(**two, m=at["m"], steps=4).final
    for name in ("q", "p"):
        assert getattr(a, name).tobytes() == getattr(b, name).tobytes() == getattr(c, name)[0].tobytes()


def test_nine_bodies_take_five_vectors_of_divisions_and_roots():
    """36 pairs: four vectors of eight and one of four; the sums of eight bodies are vectors as well, the Sun's scalars."""
    layout = packed.pairs(step_of(tp.compile(bodies(9, 3, "gravity"), 0.01)), 8)
    assert layout is not None
    rows, packs = layout
    assert [len(slots) for slots in rows] == [8] * 6
    for op in (Ops.DIV, Ops.SQRT):
        assert sorted(len(p) for p in packs.found() if p[0].op is op) == [4, 8, 8, 8, 8]
    left = [u for u in packs.order if u.op not in (Ops.CONST, Ops.VAR, Ops.NEG) and u not in packs.lane]
    assert (
        len(left) <= 3 * 10
    )  # a drift of two operations, seven sums and a kick for each component of the Sun


def test_sums_and_differences_share_a_pack():
    a, b, c, d = (UOp.var(name) for name in "abcd")
    r = [a / b, b / c, c / d, d / a]
    one, other = r[0] + r[1], r[2] - r[3]
    kicks = one * a, (-other) * a
    packs = packs_of_pairs([kicks], list(kicks), 4)
    assert packs.lane[one][0] is packs.lane[other][0]
    assert [u is v for u, v in zip(unsigned((one, -other)), (one, other))] == [True, True]


def test_what_gains_nothing_stays_scalar():
    @tp.hamiltonian
    def chain(q: tp.Vec[8], p: tp.Vec[8]):
        x = q[1:] - q[:-1]
        return p @ p / 2 + (x * x).sum() / 2 + (x**4).sum() / 4

    assert packed.pairs(step_of(tp.compile(chain, 0.01)), 8) is None  # no division
    assert packed.pairs(step_of(tp.compile(bodies(2, 3, "gravity"), 0.01)), 8) is None  # one pair
    solved = tp.compile(bodies(4, 2, "gravity"), 0.01, method="gauss4")
    assert packed.pairs(step_of(solved), 8) is None  # its time goes where it is solved
    f = step_of(tp.compile(bodies(5, 2, "gravity"), 0.01))
    assert llvm.layout_of(f, VectorShape(1, 1), False) is None  # nothing is known of the processor
    assert llvm.layout_of(f, VectorShape(8, 2), False) is None  # members are the lanes


@pytest.mark.parametrize("core, width, wide", [("Zen 4", 8, 8), ("Zen 3", 4, 4), ("an unknown core", 2, 0)])
def test_bodies_share_vectors_where_those_are_wide(core, width, wide):
    f = step_of(tp.compile(bodies(5, 2, "gravity"), 0.01))
    assert shape_for(f, 1, CORES[core], width) == VectorShape(1, 1, bodies=wide)
