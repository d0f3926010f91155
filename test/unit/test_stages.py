"""Are the stages of a step found, and only where they are equal up to their weights?  Bits decide."""

from __future__ import annotations

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.runtime.engines.backend import lane_engine
from tinyphysics import tpir
from tinyphysics.device.host.arrays import ArraysLoader
from tinyphysics.ir.uop import elements, substitute
from tinyphysics.ir.ops import Ops
from tinyphysics.runtime.engines.loaders import CLoader, LlvmLoader
from tinyphysics.target import VectorShape
from tinyphysics.tpir.program.isa import Param, Register
from tinyphysics.tpir.kernels.kernel import Meaning, build_kernel, scalars

BACKENDS = ("python", "llvm", "c", "numpy")


@tp.hamiltonian
def pendulum(q, p):
    return p**2 / 2 - tp.cos(q)


@tp.hamiltonian
def coupled(q: tp.Vec[2], p: tp.Vec[2], m: float = 1.3, k: float = 0.7):
    return p @ p / (2 * m) + k * tp.exp(q[0] - q[1]) - tp.cos(q[0]) + q @ q / 2


@tp.hamiltonian
def driven(q, p, t, m: float = 2.0):
    return p**2 / (2 * m) + tp.cos(q) * (1 + 0.1 * tp.sin(t))


@tp.hamiltonian
def moving(q, p, t):
    """Time in the kinetic part: the drifts have clocks, the kicks none."""
    return p**2 / 2 * (1 + 0.1 * tp.cos(t)) + q**4


@tp.hamiltonian
def torture(q, p):
    return p**2 / 2 + tp.sin(1e6 * q) + tp.cos(1e12 * q**3) + 1 / (2 + q * q)


def written_out(program):
    """The step as one expression, instruction by instruction: what the stages must come to."""
    meaning = Meaning(program)
    meaning.run(program.init)
    states = [Register("S", k) for k in range(len(program.states))]
    names = {e: u for r in states for e, u in zip(elements(state(program, r)), numbered(state(program, r)))}
    for p in program.params:
        v = meaning.env[Param(p.name)]
        names |= dict(zip(elements(v), numbered(v)))
    meaning.env |= {r: state(program, r) for r in states}
    meaning.run(program.step)
    return substitute(scalars([meaning.env[r] for r in states]), names)


def state(program, r):
    t = program.states[r.index].type
    return tp.ir.UOp.var(str(r), t.shape, t.dtype)


def numbered(u):
    return [
        tp.ir.UOp.var(f"{e.src[0].arg}.{e.arg}" if e.op is Ops.ELEMENT else str(e.arg)) for e in elements(u)
    ]


@pytest.mark.parametrize(
    "method, stages",
    [
        ("leapfrog", 1),
        ("yoshida4", 3),
        ("kahan_li6", 9),
        ("kahan_li8", 17),
        ("blanes_moan4", 6),
        ("blanes_moan_nystrom6", 11),
        ("sofroniou_spaletta10", 35),
    ],
)
@pytest.mark.parametrize("system", [pendulum, coupled])
def test_a_composition_is_its_stages_one_after_the_other(system, method, stages):
    """Node by node: expressions are hash-consed, so equal means identical."""
    program = tp.compile(system, dt=0.1, method=method).tpir
    k = build_kernel(program)
    assert k.stages == stages
    whole, reference = k.whole_step(), written_out(program)
    assert len(whole) == len(reference) and all(a is b for a, b in zip(whole, reference))


def test_the_code_of_a_step_does_not_grow_with_its_order():
    leapfrog, eighth = (
        build_kernel(tp.compile(pendulum, dt=0.1, method=m).tpir).section("step")
        for m in ("leapfrog", "kahan_li8")
    )
    assert eighth.code == leapfrog.code and eighth.operations == 17 * leapfrog.operations


@pytest.mark.parametrize(
    "system, start",
    [
        (pendulum, dict(q=1.0, p=0.3)),
        (driven, dict(q=1.0, p=0.1)),
        (moving, dict(q=0.4, p=0.1)),
        (coupled, dict(q=[0.1, 0.2], p=[0.3, -0.1])),
    ],
)
@pytest.mark.parametrize("order", [4, 8])
def test_stages_give_the_bits_of_the_virtual_machine(system, start, order):
    assert build_kernel(tp.compile(system, dt=0.1, order=order).tpir).stages > 1
    watch = {"w": lambda q, p, t: tp.sin(t) * (q * p).sum()}
    runs = {
        b: tp.compile(system, dt=0.1, order=order, backend=b).evolve(
            steps=11, t0=0.5, save_every=4, observe=watch, observe_every=3, **start
        )
        for b in BACKENDS
    }
    plain = tp.compile(system, dt=0.1, order=order).evolve(steps=11, t0=0.5, **start)
    for out in runs.values():
        assert out.hash == plain.hash and np.array_equal(out["w"], runs["python"]["w"])
        assert all(np.array_equal(out.frames[s], runs["python"].frames[s]) for s in out.frames)


@pytest.mark.parametrize(
    "system, start", [(driven, dict(q=1.0, p=0.1)), (coupled, dict(q=[0.1, 0.2], p=[0.3, -0.1]))]
)
def test_stages_in_float32_give_the_bits_of_the_virtual_machine(system, start):
    """The weights are float32, but for those of the clock, which counts in float64."""
    members = {k: np.asarray(v) + np.zeros((9, *np.shape(v))) for k, v in start.items()}
    options = dict(dt=0.1, method="kahan_li6", precision="float32")
    assert build_kernel(tp.compile(system, **options).tpir).stages == 9
    for given in (start, members):
        runs = [tp.compile(system, backend=b, **options).evolve(steps=7, t0=0.5, **given) for b in BACKENDS]
        assert len({r.hash for r in runs}) == 1


def test_a_scaled_composition_whose_stages_differ_is_written_out():
    """Its drifts hold their weights as numbers."""

    @tp.hamiltonian
    def henon_heiles(q: tp.Vec[2], p: tp.Vec[2]):
        x, y = q
        return p @ p / 2 + (x * x + y * y) / 2 + x * x * y - y**3 / 3

    program = tp.compile(henon_heiles, dt=0.1, order=4, scale="auto").tpir
    assert any(i.op == "SHIFT" for i in program.step) and build_kernel(program).stages == 1
    start = dict(q=np.linspace(-0.2, 0.2, 18).reshape(9, 2), p=np.linspace(-0.1, 0.3, 18).reshape(9, 2))
    runs = [
        tp.compile(henon_heiles, dt=0.1, order=4, scale="auto", backend=b).evolve(steps=7, **start)
        for b in BACKENDS
    ]
    assert len({r.hash for r in runs}) == 1


def test_a_guard_may_fire_in_any_stage():
    """1e12*q**3 leaves the fast path of the cosine in some members and stages; those are done again."""
    start = dict(q=np.linspace(1e-4, 2.0, 9), p=np.linspace(0.0, 1e5, 9))
    runs = {b: tp.compile(torture, dt=1e-6, order=4, backend=b).evolve(steps=2, **start) for b in BACKENDS}
    assert len({r.hash for r in runs.values()}) == 1
    assert np.isfinite(runs["llvm"].final.p).all()


# --- written by hand: what the loop must and must not take for a stage ---------------------------------------
TEXT = """program hand
state S0 q position
state S1 p momentum of S0
param $dt f64[]
param $a f64[]
init:
  LOAD S0, &q
  LOAD S1, &p
  ELEM T0, mul, 0.3, $a
  ELEM T1, mul, 0.7, $dt
step:
{step}
final:
  STORE &q, S0
  STORE &p, S1
"""
DRIFT = "  GRAD_INIT G1.{n}, S1\n  POISSON_J F0.{n}, G1.{n}, pass\n  SYMP_STEP S0, F0.{n}, {h}\n"
KICK = "  ELEM T{t}, {f}, S0\n  GRAD_INIT G0.{n}, {g}\n  POISSON_J F1.{n}, G0.{n}, negate\n  SYMP_STEP S1, F1.{n}, {k}\n"


def stage(n, h, k, f="sin", g=None):
    return DRIFT.format(n=n, h=h) + KICK.format(n=n, t=10 + n, f=f, g=g or f"T{10 + n}", k=k)


NESTED = "".join(
    "".join(stage(10 * m + n, "T0", "$dt") for n in (1, 2, 3))
    + KICK.format(n=40 + m, t=40 + m, f="cos", g=f"T{40 + m}", k="T1")
    for m in (1, 2)
) + KICK.format(n=50, t=50, f="exp", g="T50", k="$a")


@pytest.mark.parametrize(
    "step, stages",
    [
        (stage(1, "T0", "$dt") + stage(2, "T1", "$a"), 2),
        (stage(1, "$dt", "$dt") + stage(2, "$dt", "$dt") + stage(3, "$dt", "$dt"), 3),  # nothing differs
        (stage(1, "T0", "$dt") + stage(2, "T1", "$dt", f="cos"), 1),  # another function
        (stage(1, "T0", "$dt") + stage(2, "T1", "$dt", g="T11"), 1),  # the kick of the first stage again
        (
            stage(1, "T0", "$dt") + stage(2, "T1", "$dt") + DRIFT.format(n=3, h="T0"),
            2,
        ),  # a drift is left over: a tail
        (stage(1, "T0", "0.0") + stage(2, "T1", "-0.0"), 1),  # numbers are not weights
        (
            "".join(stage(n, "T0", "$dt") for n in (1, 2, 3))
            + KICK.format(n=4, t=20, f="cos", g="T20", k="$a"),
            3,
        ),  # a slow kick
        (
            "".join(stage(n, "T0", "$dt") for n in (1, 2, 3))
            + KICK.format(n=4, t=20, f="neg", g="T13", k="$a"),
            3,
        ),  # of a value
        (
            "".join(stage(n, "T0", "$dt") for n in (1, 2, 3))
            + KICK.format(n=4, t=20, f="neg", g="T11", k="$a"),
            1,
        ),  # of an old one
        (NESTED, 6),  # tails of two depths
        (NESTED.replace("sin, S0", "cos, S0", 1), 1),  # whose first stage is another
        (NESTED.replace("$dt", "T1", 1), 6),  # or has another weight
    ],
)
def test_only_stages_that_are_equal_up_to_weights_are_rolled(step, stages):
    program = tpir.parse(TEXT.format(step=step))
    kernel = build_kernel(program)
    assert kernel.stages == stages
    assert all(a is b for a, b in zip(kernel.whole_step(), written_out(program)))
    start = {"q": np.linspace(-1, 1, 9), "p": np.linspace(0.2, 0.9, 9)}
    a = np.linspace(0.05, 0.2, 9)  # a weight that every member has for itself
    expected = [
        tpir.vm.run(program, {n: v[k] for n, v in start.items()}, 5, {"dt": 0.1, "a": a[k]}) for k in range(9)
    ]
    shapes = [VectorShape(1, 1), VectorShape(4, 2), VectorShape(4, 2, in_turn=True)]
    loaders = [ArraysLoader(), CLoader(), LlvmLoader(), *(LlvmLoader(shape=s) for s in shapes)]
    for loader in loaders:
        engine = lane_engine(program, loader)
        m = engine.start(start, {"a": a}, 9, 0.1, 0.0)
        engine.advance(m, 5)
        out = engine.synchronised(m)
        for name in start:
            assert out[name].tolist() == [e[name] for e in expected], loader


def test_a_long_composition_is_compiled_because_one_stage_of_it_is_short():
    @tp.hamiltonian
    def chain(q: tp.Vec[32], p: tp.Vec[32]):
        return p @ p / 2 + ((q[1:] - q[:-1]) ** 4).sum() / 4

    assert tp.compile(chain, dt=0.1, order=8).target.backend == "llvm"
