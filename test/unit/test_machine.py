"""Is the layout of a loop right for its core, and does it leave the bits alone?"""

from __future__ import annotations

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.runtime.engines.backend import lane_engine
from tinyphysics.tpir.kernels.rows import kernel_of
from tinyphysics.device.host.arrays import ArraysLoader
from tinyphysics.device.engines.engine import LaneEngine
from tinyphysics.ir import UOp
from tinyphysics.physics.zoo import pendulum
from tinyphysics.planner.cost.machine import cycles, kinds, pressure, shape_for
from tinyphysics.runtime.state.digest import state_hash
from tinyphysics.runtime.engines.loaders import LlvmLoader
from tinyphysics.target import CORES, VectorShape, core_of
from tinyphysics.tpir.kernels.kernel import build_kernel
from tinyphysics.tpir.precision.precision import PRECISIONS
from tinyphysics.tpir.precision.probe import probe

ZEN_3, ZEN_4, SKYLAKE = CORES["Zen 3"], CORES["Zen 4"], CORES["Skylake"]


@tp.hamiltonian
def henon_heiles(q: tp.Vec[2], p: tp.Vec[2]):
    x, y = q
    return p @ p / 2 + (x * x + y * y) / 2 + x * x * y - y**3 / 3


@tp.hamiltonian
def kepler(q: tp.Vec[3], p: tp.Vec[3], mu: float = 1.0):
    return p @ p / 2 - mu / tp.norm(q)


@tp.map
def swap(a, b):
    return b, a + 0.5


@tp.map
def same(a, b):
    return a + b, a + b


def step(system, **options):
    return build_kernel(tp.compile(system, **options).tpir).section("step")


def test_what_is_only_added_to_is_found():
    """Leapfrog reads a position once, in its own drift; a momentum drives the drift as well."""
    assert {str(v.arg) for v in step(henon_heiles, dt=0.1).accumulators} == {"S0.0", "S0.1"}
    assert {str(v.arg) for v in step(pendulum, dt=0.1, method="leapfrog_dkd").accumulators} == {"S1"}
    assert not step(swap).accumulators  # a is added to, but in another place
    assert not step(same).accumulators  # two places for one sum


def test_operations_are_counted_in_the_minimal_set():
    f = step(henon_heiles, dt=0.1)
    assert kinds(f) == {"fma": 7, "add": 1}  # signs go into the products
    assert kinds(step(henon_heiles, dt=0.1, method="kahan_li8")) == {k: 17 * n for k, n in kinds(f).items()}


def test_the_port_limit_is_that_of_the_busiest_port():
    f = step(henon_heiles, dt=0.1)
    assert cycles(f, ZEN_3, 4) == 7 / 2 / 4 and cycles(f, ZEN_4, 8) == 7 / 1 / 8
    divides = step(kepler, dt=0.1)
    assert cycles(divides, ZEN_3, 4) == (ZEN_3.divide + ZEN_3.root) / 4
    short = step(
        kepler, dt=0.1, precision="float32"
    )  # twice the lanes, and at best half the time in the divider
    assert cycles(short, ZEN_3, 8) == (ZEN_3.divide + ZEN_3.root) / 2 / 8
    n = kinds(step(pendulum, dt=0.1))
    shared = (n["fma"] + n["mul"] + n["sub"] + n["compare"]) / 2 / 4
    assert cycles(step(pendulum, dt=0.1), SKYLAKE, 4) == shared  # sums have no ports of their own there


def test_a_state_that_fits_is_interleaved_and_one_that_does_not_is_written_in_turn():
    assert shape_for(step(pendulum, dt=0.1), 65_536, ZEN_3, 4) == VectorShape(4, 6)
    assert shape_for(step(pendulum, dt=0.1, order=8), 65_536, ZEN_3, 4) == VectorShape(4, 6)
    short = step(henon_heiles, dt=0.1)
    small, large = shape_for(short, 65_536, ZEN_3, 4), shape_for(short, 65_536, ZEN_4, 8)
    assert small.in_turn and not large.in_turn
    p = pressure(short)
    assert small.unroll * (p.state - p.adders) + p.temporaries + p.constants <= ZEN_3.registers
    assert shape_for(short, 1, ZEN_3, 4) == VectorShape(1, 1, bodies=4)
    words = step(
        pendulum, dt=0.1, precision="compensated"
    )  # four numbers: groups of four copies fill the registers
    assert shape_for(words, 65_536, ZEN_3, 8) == VectorShape(4 * 8, 2, in_turn=True)
    assert shape_for(words, 50, ZEN_3, 8) == VectorShape(8, 4)  # too few for two groups
    assert shape_for(short, 7, ZEN_3, 4).unroll == 2  # no more vectors than there are members for


@pytest.mark.parametrize(
    "name, width, core",
    [
        ("znver3", 4, "Zen 3"),
        ("znver4", 8, "Zen 4"),
        ("skylake", 4, "Skylake"),
        ("sapphirerapids", 8, "Skylake-X"),
        ("x86-64", 2, "an unknown core"),
        ("znver5", 8, "an unknown AVX-512 core"),
    ],
)
def test_every_processor_has_a_class(name, width, core):
    assert core_of(name, width) is CORES[core]


@pytest.mark.parametrize(
    "system, options",
    [
        (henon_heiles, dict(dt=0.1)),
        (henon_heiles, dict(dt=0.1, order=4)),
        (kepler, dict(dt=0.05)),
        (pendulum, dict(dt=0.1)),
        (pendulum, dict(dt=0.1, order=6)),
        (swap, {}),
        (same, {}),
        (henon_heiles, dict(dt=0.1, scale="auto")),
        (henon_heiles, dict(dt=0.1, precision="float32")),
        (pendulum, dict(dt=0.1, order=4, precision="float32")),
    ],
)
@pytest.mark.parametrize("unroll", [1, 3, 5])
def test_copies_in_turn_give_the_same_bits_and_observations(system, options, unroll):
    sim = tp.compile(system, backend="python", **options)
    rng = np.random.default_rng(1)
    start = {s.name: rng.normal(size=(23, *s.var.shape)) + 1 for s in sim.system.states}
    params = {p.name: np.array([p.default]) for p in sim.system.parameters}
    s = sim.system
    watched = probe(
        s.states,
        s.parameters,
        UOp.var("t"),
        {"product": s.states[0].var * s.states[1].var},
        PRECISIONS[sim.goal.precision],
    )
    hashes, seen = set(), []
    for loader in (ArraysLoader(), LlvmLoader(shape=VectorShape(4, unroll, in_turn=True))):
        for program in (None, watched):
            engine = LaneEngine(sim.tpir, kernel_of(sim.tpir, program), loader)
            m = engine.start(start, params, 23, options.get("dt", 1.0), 0.0)
            if program is None:
                engine.advance(m, 6)
            else:
                seen.append(engine.watch(m, 3, 2)["product"])
            hashes.add(state_hash(engine.synchronised(m)))
    assert len(hashes) == 1 and np.array_equal(seen[0], seen[1])


@pytest.mark.parametrize("groups", [2, 3, 4])
@pytest.mark.parametrize("method", ["interaction_aba84", "leapfrog_kdk", "kahan_li8"])
def test_groups_of_any_number_of_vectors_have_the_bits_of_single_lanes(method, groups):
    @tp.hamiltonian
    def rows(q: tp.Vec[5], p: tp.Vec[5]):
        return p @ p / 2 + q @ q / 2 + (q**4).mean()

    members, dt = 50, 0.05
    start = {"q": np.linspace(-1, 1, 5 * members).reshape(-1, 5), "p": np.ones((members, 5)) / 3}
    sim = tp.compile(rows, dt, method=method, backend="llvm")
    engine = lane_engine(sim.tpir, LlvmLoader(shape=VectorShape(8 * groups, 2, in_turn=True)))
    m = engine.start(start, {}, members, dt, 0.0)
    engine.advance(m, 7)
    end = sim.evolve(q=start["q"][41], p=start["p"][41], steps=7).final
    assert (engine.synchronised(m)["q"][41] == end.q).all() and (
        engine.synchronised(m)["p"][41] == end.p
    ).all()
