"""Is math="fast" within its stated errors, repeatable on one machine, honest about its bits, and no part of exact runs?"""

from __future__ import annotations

import ctypes
import math
import sys
from pathlib import Path

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.device.host import llvm
from tinyphysics.device.host.processor import named, seed_for
from tinyphysics.emit.kinds.ptx_pairs import apart
from tinyphysics.emit.text.writer import TYPE, Writer, lines_for
from tinyphysics.errors import PlanError, VerifyError
from tinyphysics.ir import Ops, UOp, f32, f64, graph_rewrite, substitute, toposort
from tinyphysics.ir.value import evaluate
from tinyphysics.physics.zoo import henon_heiles, kepler, pendulum
from tinyphysics.rules.functions import fast, trig
from tinyphysics.rules.identities.fast_products import fewer
from tinyphysics.rules.digits.floats import format_of
from tinyphysics.context import PROCESSOR
from tinyphysics.target import PORTABLE, PROCESSORS, PTX_RSQRT, RSQRT14, RSQRTPS, SSE_RSQRTPS
from tinyphysics.tpir.kernels.loops import build_loops
from tinyphysics.tpir.program.text import parse

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "tools")]
import arrays  # noqa: E402, I001
import processors  # noqa: E402
from processors import imitation  # noqa: E402
import ulp  # noqa: E402

FLOATS = pytest.mark.parametrize("dtype", [f64, f32], ids=str)
SEEDS = pytest.mark.parametrize(
    "seed", [RSQRTPS, RSQRT14, PTX_RSQRT, PORTABLE], ids=lambda s: s.name or "portable"
)
DIGITS = 24  # of what an instruction gives, at most: float64 of x86 goes through float32 or has 14, PTX clears half of them
ORBIT = {"q": [1.0, 0.0], "p": [0.0, 1.2]}


def orbits(n):
    e = np.linspace(0.02, 0.5, n)
    return {"q": np.stack([1 - e, 0 * e], 1), "p": np.stack([0 * e, np.sqrt((1 + e) / (1 - e))], 1)}


@tp.hamiltonian
def cluster(q: tp.Array["n", 3], p: tp.Array["n", 3]):
    r = np.sqrt(((q[:, None] - q[None, :]) ** 2).sum(-1))
    return (p**2).sum() / 2 - tp.pair_sum(1 / r) / 100


def stars(n):
    g = np.random.default_rng(0)
    return {"q": 2 * g.normal(size=(n, 3)), "p": 0.1 * g.normal(size=(n, 3))}


# --- the seeds -------------------------------------------------------------------------------------
def worst_seeds(x, seed, dtype):
    """What a machine may give at worst: too large, too small, or something between."""
    reach = seed.double if dtype is f64 else seed.single
    y = 1 / np.sqrt(x.astype(np.float64))
    off = np.array([-1.0, 1.0, 0.2])[np.arange(len(x)) % 3] * (reach / 2 - 2.0**-DIGITS)
    mantissa, exponent = np.frexp(y * (1 + off))
    y = np.ldexp(np.rint(np.ldexp(mantissa, DIGITS)), exponent - DIGITS)
    off = np.abs(x.astype(np.longdouble) * y.astype(np.longdouble) ** 2 - 1)
    assert reach / 2 < off.max() < reach * 1.001
    return y.astype(ulp.TYPES[dtype])


def values(root, dtype, x, seed):
    """A function of x with the worst of seeds."""
    nodes = [u for u in toposort([root]) if u.op is Ops.RSQRT_ESTIMATE]
    env = {"x": x}
    if nodes:
        assert [u.arg[0] for u in nodes] == [seed.name]
        root = substitute([root], {nodes[0]: UOp.var("s", (), dtype)})[0]
        env["s"] = worst_seeds(x, seed, dtype)
    return arrays.evaluate([root], env)[0]


def positive(dtype, n=3000):
    """Over many binary orders, within float32 and so that no result leaves it."""
    x = np.exp2(ulp.uniform(n, 3, -60.0, 60.0))
    return x.astype(ulp.TYPES[dtype])


@SEEDS
@FLOATS
@pytest.mark.parametrize(
    ("name", "cubed", "stated"), [("rsqrt", False, "1/sqrt(x)"), ("pow:-1.5", True, "x**-1.5")]
)
def test_roots_are_within_their_bounds_from_the_worst_of_seeds(name, cubed, stated, dtype, seed):
    x = positive(dtype)
    root, _ = fast.inverse_root(UOp.var("x", (), dtype), cubed, seed)
    error, i = ulp.worst_ulp(name, dtype, [x], values(root, dtype, x, seed))
    assert error <= fast.BOUNDS[stated][dtype is f32], f"{error} ulp at {float(x[i]).hex()}"


@SEEDS
@FLOATS
def test_a_root_beside_its_inverse_is_within_its_bound(dtype, seed):
    x = UOp.var("x", (), dtype)
    both = fewer([1.0 / x.sqrt(), x.sqrt()])
    assert not any(u.op in (Ops.SQRT, Ops.DIV) for u in toposort(both))
    (root,) = graph_rewrite(both[1:], fast.table(seed, True))
    at = positive(dtype)
    assert (
        ulp.worst_ulp("sqrt", dtype, [at], values(root, dtype, at, seed))[0]
        <= fast.BOUNDS["sqrt(x)"][dtype is f32]
    )


def test_a_shorter_series_would_be_seen(monkeypatch):
    monkeypatch.setattr(fast, "WANTED", (2.0**-40, 2.0**-10))
    x = positive(f64, 300)
    root, _ = fast.inverse_root(UOp.var("x"), True, RSQRTPS)
    assert ulp.worst_ulp("pow:-1.5", f64, [x], values(root, f64, x, RSQRTPS))[0] > 100


@FLOATS
@pytest.mark.parametrize("name", ["sin", "cos"])
def test_sines_are_within_their_bounds(name, dtype):
    (x,) = ulp.points(name, dtype, 4000)
    x = x[np.abs(x) <= trig.limit(format_of(UOp.var("x", (), dtype)))]
    y = arrays.evaluate([getattr(fast, name)(UOp.var("x", (), dtype))], {"x": x})[0]
    exact = [getattr(ulp.mp, name)(ulp.mp.mpf(float(v))) for v in x]
    near = np.array(
        [abs(float(ulp.mp.mpf(float(a)) - b)) <= fast.NEAR_ZERO[dtype is f32] for a, b in zip(y, exact)]
    )
    assert near.mean() < 0.7
    error, i = ulp.worst_ulp(name, dtype, [x[~near]], y[~near])
    assert error <= fast.BOUNDS[name][dtype is f32], f"{error} ulp at {float(x[~near][i]).hex()}"


@FLOATS
def test_division_by_a_parameter_is_within_its_bound(dtype):
    x, c = UOp.var("x", (), dtype), UOp.var("$c", (), dtype)
    (root,) = fewer([x / c])
    assert root.op is Ops.MUL
    a, b = (ulp.uniform(3000, k, 1.0, 2.0).astype(ulp.TYPES[dtype]) for k in (1, 2))
    got = arrays.evaluate([root], {"x": a, "$c": b})[0]
    exact = a.astype(np.longdouble) / b
    unit = np.spacing(np.abs(exact).astype(a.dtype))
    assert 0.51 < np.max(np.abs(got - exact) / unit) <= fast.BOUNDS["x/y"][dtype is f32]


# --- what is rewritten -------------------------------------------------------------------------------
def names(*letters):
    return [UOp.var(n) for n in letters]


def test_what_a_floor_or_a_comparison_sees_stays_as_it_was():
    x, d, h = names("x", "d", "$h")
    roots = [(x / h).floor(), (x / d.sqrt() < 1.0).where(x, d)]
    assert all(a is b for a, b in zip(fewer(roots), roots))


def test_one_root_serves_all_its_powers():
    x, y = names("x", "y")
    a, b, c = fewer([x / y.sqrt(), x / (y * y.sqrt()), x / (y * (y * y.sqrt()))])
    assert not any(u.op in (Ops.SQRT, Ops.DIV, Ops.POW) for u in toposort([a, b, c]))
    assert sum(u.op is Ops.RSQRT for u in toposort([a, b, c])) == 1
    assert evaluate([a, b, c], {"x": 3.0, "y": 4.0}) == pytest.approx([3 / 2, 3 / 8, 3 / 32], rel=1e-15)


# --- the machine -------------------------------------------------------------------------------------
def instruction(seed, dtype, width, x, told=True, cpu=None):
    """What the instruction gives, lanes at a time; without a processor that has it, what its model gives."""
    w = Writer(width)
    v = UOp.var("x", (), dtype)
    t, env = w.type(dtype), {v: "%x"}
    u = UOp(Ops.RSQRT_ESTIMATE, dtype, (), (v,), (seed.name, told))
    lines_for(w, [u], [env])
    size = dtype.bits // 8
    text = "\n".join(
        [
            *w.declared.values(),
            "define void @f(ptr %in, ptr %out) {",
            f"  %x = load {t}, ptr %in, align {size}",
            *w.lines,
            f"  store {t} {env[u]}, ptr %out, align {size}",
            "  ret void",
            "}",
            "",
        ]
    )
    code = (
        llvm.compile_text(imitation(text), llvm.host_cpu()) if cpu is None else llvm.compile_text(text, cpu)
    )
    f = llvm.link(code, {"f": ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)})["f"]
    y = np.empty_like(x)
    for k in range(0, len(x), width):
        f(x[k:].ctypes.data, y[k:].ctypes.data)
    return y


# every instruction as a model, and by the processors that this one can be
INSTRUCTIONS = pytest.mark.parametrize(
    ("seed", "cpu"),
    [(seed, None) for seed in (SSE_RSQRTPS, RSQRTPS, RSQRT14, PTX_RSQRT)]
    + list(
        {seed_for(named(n)): (seed_for(named(n)), named(n)) for n in processors.HERE if named(n).x86}.values()
    ),
    ids=lambda x: "model" if x is None else x.name,
)


@INSTRUCTIONS
@FLOATS
def test_the_instruction_keeps_its_promise_with_the_same_bits_at_every_width(dtype, seed, cpu):
    x = positive(dtype, 1024)
    one = instruction(seed, dtype, 1, x, cpu=cpu)
    off = np.abs(x.astype(np.longdouble) * one.astype(np.longdouble) ** 2 - 1)
    assert off.max() <= (seed.double if dtype is f64 else seed.single)
    for width in (2, 4, 8, 16) if seed is not PTX_RSQRT else ():
        assert np.array_equal(instruction(seed, dtype, width, x, cpu=cpu), one)


def every_order(dtype):
    """All binary orders of a format, the smallest and the largest numbers, and where x**-1.5 leaves the range; multiples of 16."""
    info, kind = np.finfo(ulp.TYPES[dtype]), ulp.TYPES[dtype]
    low, high = (-1074, 1024) if dtype is f64 else (-149, 128)
    orders = np.ldexp(ulp.uniform(high - low, 5, 1.0, 2.0), np.arange(low, high))
    edge = float(info.max) ** (-2 / 3)
    near = edge * np.exp2(np.linspace(-0.01, 0.01, 100))
    ends = [info.smallest_subnormal, info.smallest_normal, info.max]
    x = np.concatenate([orders, near, ends, np.nextafter(np.array(ends[1:], kind), kind(0)).astype(float)])
    x = x.astype(kind)
    return np.resize(x[np.isfinite(x) & (x > 0)], -(-len(x) // 16) * 16)


def fast_root(x, dtype, cubed, seed, told, cpu):
    """(the fast root of an array, where its guard fires)."""
    roots = fast.inverse_root(UOp.var("x", (), dtype), cubed, seed, told)
    nodes = [u for u in toposort(roots) if u.op is Ops.RSQRT_ESTIMATE]
    env = {"x": x}
    if nodes:
        roots = substitute(roots, {nodes[0]: UOp.var("s", (), dtype)})
        env["s"] = instruction(seed, dtype, 1 if seed is PTX_RSQRT else 16, x, told, cpu)
    with np.errstate(all="ignore"):
        return arrays.evaluate(roots, env)


ROOTS = pytest.mark.parametrize(
    ("seed", "cpu"), [*INSTRUCTIONS.args[1], (PORTABLE, None)], ids=lambda x: "model" if x is None else x.name
)


@ROOTS
@FLOATS
@pytest.mark.parametrize("cubed", [False, True])
def test_where_the_instruction_fails_the_guard_fires_or_the_sum_tells(dtype, cubed, seed, cpu):
    """Of every finite x: within the stated error; or a guard is true; or, where nobody asks, it is not finite."""
    x = every_order(dtype)
    with np.errstate(all="ignore"):
        exact = x.astype(np.longdouble) ** (-1.5 if cubed else -0.5)
        unit = np.spacing(np.abs(exact).astype(x.dtype))
    stated = fast.BOUNDS["x**-1.5" if cubed else "1/sqrt(x)"][dtype is f32]
    for told in (False, True):
        y, guard = fast_root(x, dtype, cubed, seed, told, cpu)
        with np.errstate(all="ignore"):
            right = np.abs(y - exact) <= stated * unit
        seen = ~np.isfinite(y) if told else guard
        assert np.all(seen | right), [float(v).hex() for v in x[~(seen | right)][:4]]
        usual = (2.0**-80 < x) & (x < 2.0**80)
        assert not seen[usual].any() and right[usual].all()  # or every run would be repeated


@ROOTS
@FLOATS
@pytest.mark.parametrize("cubed", [False, True])
def test_what_has_no_inverse_root_is_seen(dtype, cubed, seed, cpu):
    x = np.resize(np.array([0.0, -0.0, -1.0, math.nan, -math.inf]), 16).astype(ulp.TYPES[dtype])
    for told in (False, True):
        y, guard = fast_root(x, dtype, cubed, seed, told, cpu)
        assert guard.all() and not np.isfinite(y).any()
    y, guard = fast_root(np.full(16, math.inf, x.dtype), dtype, cubed, seed, True, cpu)
    assert np.all((y == 0) | ~np.isfinite(y))  # right, or seen


def test_every_instruction_is_written_for_its_machine():
    ll = llvm.binding()
    ll.initialize_all_targets()
    ll.initialize_all_asmprinters()
    wanted = [
        (RSQRT14, f64, 8, "x86_64-linux", "skylake-avx512", "vrsqrt14pd\t%zmm"),
        (RSQRT14, f32, 4, "x86_64-linux", "skylake-avx512", "vrsqrt14ps\t%xmm"),
        (RSQRT14, f64, 1, "x86_64-linux", "skylake-avx512", "vrsqrt14pd\t%xmm"),
        (RSQRT14, f32, 32, "x86_64-linux", "skylake-avx512", "vrsqrt14ps\t%zmm"),
        (RSQRTPS, f64, 4, "x86_64-linux", "haswell", "vrsqrtps\t%xmm"),
        (RSQRTPS, f32, 8, "x86_64-linux", "haswell", "vrsqrtps\t%ymm"),
        (SSE_RSQRTPS, f32, 8, "x86_64-linux", "x86-64-v2", "rsqrtps\t%xmm"),
        (SSE_RSQRTPS, f64, 16, "x86_64-linux", "x86-64", "rsqrtps\t%xmm"),
        (PTX_RSQRT, f64, 1, "nvptx64-nvidia-cuda", "sm_90", "rsqrt.approx.ftz.f64"),
        (PTX_RSQRT, f32, 1, "nvptx64-nvidia-cuda", "sm_90", "rsqrt.approx.ftz.f32"),
    ]
    for seed, dtype, width, triple, cpu, instruction in wanted:
        w = Writer(width)
        v = UOp.var("x", (), dtype)
        u, env = UOp(Ops.RSQRT_ESTIMATE, dtype, (), (v,), (seed.name, False)), {v: "%x"}
        lines_for(w, [u], [env])
        t = f"<{width} x {TYPE[dtype.name]}>" if width > 1 else TYPE[dtype.name]
        text = "\n".join(
            [*w.declared.values(), f"define {t} @f({t} %x) {{", *w.lines, f"  ret {t} {env[u]}", "}", ""]
        )
        machine = ll.Target.from_triple(triple).create_target_machine(cpu=cpu, opt=2)
        assert instruction in machine.emit_assembly(ll.parse_assembly(text)), instruction


# --- runs ---------------------------------------------------------------------------------------------
@tp.hamiltonian
def twice(q: tp.Array["n", 3], p: tp.Array["n", 3], eps: float = 0.3):
    r2 = ((q[:, None] - q[None, :]) ** 2).sum(-1)
    return (p**2).sum() / 2 - tp.pair_sum(1 / np.sqrt(r2 + eps) - 0.5 / np.sqrt(r2 + 2 * eps)) / 100


@pytest.mark.parametrize("math", ["exact", "fast"])
def test_two_roots_in_a_step_or_a_pair_are_told_apart(math):
    a, b = (
        tp.compile(twice, dt=0.01, sizes={"n": 40}, math=math, backend=k).evolve(**stars(40), steps=20)
        for k in ("llvm", "c")
    )
    assert np.abs(a.final.q - b.final.q).max() < 1e-13
    one = [
        tp.compile(kepler, dt=0.01, math=m, method="rk4").evolve(**ORBIT, steps=50).final.q
        for m in ("exact", math)
    ]
    assert np.abs(one[0] - one[1]).max() < 1e-13


SYSTEMS = [
    (pendulum, lambda n: {"q": np.linspace(-2, 2, n), "p": np.linspace(0.1, 0.3, n)}),
    (kepler, orbits),
    (henon_heiles, lambda n: {"q": np.stack([np.linspace(0.01, 0.3, n)] * 2, 1), "p": np.full((n, 2), 0.1)}),
]


@pytest.mark.parametrize(("system", "start"), SYSTEMS, ids=lambda x: getattr(x, "name", ""))
@pytest.mark.parametrize("precision", ["float64", "float32", "mixed"])
def test_a_fast_run_stays_beside_the_exact_one(system, start, precision):
    sims = [tp.compile(system, dt=0.01, precision=precision, math=m) for m in ("exact", "fast")]
    a, b = (sim.evolve(**start(9), steps=200) for sim in sims)
    assert np.abs(a.final.q - b.final.q).max() < (1e-12 if precision == "float64" else 1e-4)


@pytest.mark.parametrize("precision", ["float64", "float32"])
@pytest.mark.parametrize("backend", ["llvm", "c", "numpy"])
def test_every_backend_has_it_for_lanes_and_for_loops(backend, precision):
    few = 20 if backend == "numpy" else 200
    for system, start, options in ((kepler, ORBIT, {}), (cluster, stars(40), {"sizes": {"n": 40}})):
        a, b = (
            tp.compile(system, dt=0.01, precision=precision, math=m, backend=k, **options).evolve(
                **start, steps=few
            )
            for m, k in (("exact", "llvm"), ("fast", backend))
        )
        assert np.abs(a.final.q - b.final.q).max() < (1e-12 if precision == "float64" else 1e-4)
        assert b.metrics["backend"]["used"] == backend


def test_energy_drifts_no_faster():
    for system, start in SYSTEMS:
        worst = [
            tp.compile(system, dt=0.01, method="kahan_li8", math=m).evolve(
                **start(8), steps=4000, observe={"energy": "energy"}
            )["energy"]
            for m in ("exact", "fast")
        ]
        exact, quick = (np.abs(e - e[0]).max(axis=0) for e in worst)
        assert np.all(quick < 4 * exact + 1e-14)


def test_energy_of_a_cluster_drifts_no_faster():
    options = {"dt": 0.01, "method": "yoshida6", "sizes": {"n": 40}}
    exact, quick = (
        tp.compile(cluster, math=m, **options).evolve(**stars(40), steps=300).drift("energy")
        for m in ("exact", "fast")
    )
    assert quick < 1.5 * exact


def test_bits_repeat_whatever_the_number_of_members_threads_frames_and_observables():
    sim, given = tp.compile(kepler, dt=0.01, math="fast"), orbits(70)
    whole = sim.evolve(**given, steps=60)
    assert whole.hash == tp.compile(kepler, dt=0.01, math="fast").evolve(**given, steps=60, threads=1).hash
    for k in (0, 69):
        alone = sim.evolve(
            **{n: v[k] for n, v in given.items()}, steps=60, save_every=7, observe={"energy": "energy"}
        )
        assert np.array_equal(alone.final.q, whole.final.q[k]) and np.array_equal(
            alone.final.p, whole.final.p[k]
        )
    assert np.array_equal(
        sim.evolve(**given, steps=60, save_every=20).q[1], sim.evolve(**given, steps=20).final.q
    )


@pytest.mark.parametrize("size", [1e-40, 1e-25, 1e25, 1e40])
def test_distances_beyond_the_instruction_are_done_exactly(size):
    scale = size**1.5  # of time
    start = {"q": [size, 0.0], "p": [0.0, size / scale]}
    a, b = (tp.compile(kepler, dt=0.01 * scale, math=m).evolve(**start, steps=30) for m in ("exact", "fast"))
    assert np.abs(a.final.q - b.final.q).max() < 1e-13 * size


def test_two_at_one_place_still_stop_a_run():
    given = stars(40)
    given["q"][7] = given["q"][30]
    out = tp.compile(cluster, dt=1e-3, sizes={"n": 40}, math="fast").evolve(**given, steps=3)
    assert out.stopped.cause == "not finite" and out.stopped.where == (7, 30)


def test_what_is_observed_is_exact():
    values = {
        m: tp.compile(kepler, dt=0.01, math=m).evolve(
            **ORBIT, steps=0, observe={"u": lambda q: 1 / tp.norm(q) ** 3}
        )["u"]
        for m in ("exact", "fast")
    }
    assert np.array_equal(values["exact"], values["fast"])


@tp.hamiltonian
def screened(q: tp.Array["n", 3], p: tp.Array["n", 3], box: tp.Vec[3] = (6.0, 6.0, 6.0)):
    r = np.sqrt(tp.pair_distance2(q, box=box, cutoff=2.0))
    return (p**2).sum() / 2 + tp.pair_sum(tp.exp(-r) / r)


@pytest.mark.parametrize("backend", ["llvm", "c"])
def test_sums_over_neighbours_have_it_too(backend):
    g = np.random.default_rng(1)
    lattice = np.stack(np.meshgrid(*[np.arange(5) * 1.2] * 3), -1).reshape(-1, 3)
    start = {"q": lattice + 0.2 * g.random((125, 3)), "p": 0.3 * g.normal(size=(125, 3))}
    a, b = (
        tp.compile(screened, dt=0.01, math=m, backend=k).evolve(**start, steps=50)
        for m, k in (("exact", "llvm"), ("fast", backend))
    )
    assert np.abs(a.final.q - b.final.q).max() < 1e-12


def test_neighbours_and_products_that_join_sums():
    kernel = build_loops(tp.compile(cluster, dt=0.01, sizes={"n": 40}, math="fast").tpir, seed=RSQRTPS)
    (pairs,) = [n for n in kernel.sections["step"].nests if n.kind == "pairs"]
    assert kernel.contracts and not pairs.pieces[0].guards  # the sums tell
    assert any(
        u.op is Ops.RSQRT_ESTIMATE and u.arg == ("rsqrtps", True) for u in toposort(pairs.pieces[0].roots)
    )
    assert not any(
        u.op is Ops.RSQRT_ESTIMATE
        for n in kernel.careful["step"].nests
        for p in n.pieces
        for u in toposort(p.roots)
    )


# --- what is said of it, and what is refused ----------------------------------------------------------
def test_a_fast_run_says_that_its_bits_are_its_own(tmp_path):
    sim = tp.compile(kepler, dt=0.01, math="fast")
    out, text = sim.evolve(**ORBIT, steps=10), str(sim.explain("full"))
    assert (
        out.hash.startswith("fast:")
        and out.metrics["math"] == "fast"
        and "machine" in out.metrics["comparable"]
    )
    assert not sim.target.bit_exact and "not in the contract" in text
    for name, bounds in fast.BOUNDS.items():
        assert f"{name} {bounds[0]:g}" in text
    assert "exact arithmetic" in text and sim.certificate.symplectic
    assert sim.certificate == tp.compile(kepler, dt=0.01).certificate
    sim.save(tmp_path / "fast.json")
    assert tp.load(tmp_path / "fast.json").evolve(**ORBIT, steps=10).hash == out.hash


def test_exact_is_the_default_and_has_its_own_program():
    exact, quick = tp.compile(kepler, dt=0.01), tp.compile(kepler, dt=0.01, math="fast")
    assert tp.compile(kepler, dt=0.01, math="exact").tpir.hash == exact.tpir.hash != quick.tpir.hash
    assert "math" not in str(exact.tpir) and "\nmath fast\n" in str(quick.tpir)
    assert parse(str(quick.tpir)) == quick.tpir and parse(str(exact.tpir)).math == "exact"
    out = exact.evolve(**ORBIT, steps=10)
    assert ":" not in out.hash and "math" not in out.metrics and exact.target.bit_exact
    with pytest.raises(VerifyError, match="`loose` is no way to compute"):
        parse(str(quick.tpir).replace("math fast", "math loose"))


@pytest.mark.parametrize(
    "options",
    [
        {"precision": "dd"},
        {"precision": "lattice"},
        {"precision": "compensated"},
        {"method": "gauss4"},
        {"method": "taylor"},
        {"backend": "python"},
        {"math": "loose"},
    ],
    ids=str,
)
def test_what_would_lose_what_it_is_for_is_refused(options):
    with pytest.raises(PlanError, match="math"):
        tp.compile(kepler, **{"dt": 0.01, "math": "fast"} | options).evolve(**ORBIT, steps=1)


def test_a_jump_has_no_kernel_to_be_fast():
    @tp.hamiltonian
    def spring(q, p):
        return p**2 / 2 + q**2 / 2

    with pytest.raises(PlanError, match="jumps over its steps"):
        tp.compile(spring, dt=0.01, math="fast", propagator="exact").explain("full")


def test_the_complete_c_program_is_of_exact_runs():
    with pytest.raises(PlanError, match="text of a run with"):
        tp.compile(kepler, dt=0.01, math="fast").ir("c")
    for name in PROCESSORS:
        with PROCESSOR(name):
            text = tp.compile(kepler, dt=0.01, math="fast").ir("llvm")
        assert ("rsqrt" in text) == bool(seed_for(named(name)).name)


# --- a GPU ----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("precision", ["float64", "float32"])
@pytest.mark.parametrize(
    ("system", "start", "options"),
    [
        (kepler, orbits(5), {}),
        (pendulum, {"q": [0.1, 3.0], "p": [0.2, 0.1]}, {}),
        (cluster, stars(40), {"sizes": {"n": 40}}),
    ],
    ids=["kepler", "pendulum", "cluster"],
)
def test_a_driver_that_interprets_runs_it_too(fake_cuda, system, start, options, precision):
    a, b = (
        tp.compile(system, dt=0.01, precision=precision, math=m, backend=k, **options).evolve(
            **start, steps=6
        )
        for m, k in (("exact", "llvm"), ("fast", "cuda"))
    )
    assert np.abs(a.final.q - b.final.q).max() < (1e-14 if precision == "float64" else 1e-5)
    assert b.hash.startswith("fast:") and b.metrics["backend"]["used"] == "cuda"


def test_ptx_takes_the_instruction_and_nothing_else_that_is_not_exact():
    for system, options, kind in (
        (kepler, {}, "ftz.f64"),
        (cluster, {"sizes": {"n": 64}}, "ftz.f64"),
        (cluster, {"sizes": {"n": 64}, "precision": "float32"}, "ftz.f32"),
    ):
        text = tp.compile(system, dt=0.01, math="fast", **options).ir("ptx")
        assert f"rsqrt.approx.{kind}" in text and "sqrt.rn" not in text and "div.rn" not in text
        assert all(kind in line for line in text.splitlines() if "approx" in line or "ftz" in line)
    f32_pairs = [
        line
        for line in text.splitlines()
        if line.strip().startswith(("fma.rn.f32", "mul.rn.f32", "add.rn.f32", "sub.rn.f32"))
    ]
    assert sum("fma" in line for line in f32_pairs) > sum(
        "add" in line for line in f32_pairs
    )  # products join the sums


def test_a_run_whose_bits_are_its_own_is_not_moved_to_a_gpu(fake_cuda):
    sim = tp.compile(kepler, dt=0.01, math="fast")
    assert sim.evolve(**orbits(4), steps=3).metrics["backend"]["used"] == "llvm"


@tp.hamiltonian
def heavy(q: tp.Array["n", 3], p: tp.Array["n", 3], m: tp.Array["n"]):
    r = np.sqrt(((q[:, None] - q[None, :]) ** 2).sum(-1) + 0.01)
    return ((p * p).sum(-1) / m).sum() / 2 - tp.pair_sum(m[:, None] * m[None, :] / r)


def test_a_mass_that_all_items_have_is_taken_out_of_their_sum(fake_cuda):
    a, b, i, j = names("a", "b", "i", "j")
    value, own = apart((i + j) * ((a * i) * (b * j)), j)
    assert str(value) == "(i + j)*j" and [str(u) for u in own] == ["b", "a*i"]
    assert apart(i + j, j)[0] is i + j and apart(i * i, j)[0] is i * i
    given = stars(40) | {"m": np.random.default_rng(2).uniform(0.5, 2.0, 40) / 40}
    x, y = (
        tp.compile(heavy, dt=0.01, sizes={"n": 40}, math=m, backend=k).evolve(**given, steps=4)
        for m, k in (("exact", "llvm"), ("fast", "cuda"))
    )
    assert np.abs(x.final.p - y.final.p).max() < 1e-16


# --- the whole way ---------------------------------------------------------------------------------------
@tp.map
def roots(x, y, u, z, s, c):
    return x, 1 / np.sqrt(x), u, 1 / (u * np.sqrt(u)), np.sin(x), np.cos(x)


def errors_of(backend, precision, members):
    """The largest errors of a run, in units in the last place, by the name that the table has for them."""
    real = np.float64 if precision == "float64" else np.float32
    x, u = (np.exp2(ulp.uniform(members, k, -30.0, 12.0)).astype(real) for k in (5, 6))
    none = np.zeros(members)
    out = tp.compile(roots, math="fast", precision=precision, backend=backend).evolve(
        x=x, u=u, y=none, z=none, s=none, c=none, steps=1
    )
    wide = {"x": x.astype(np.longdouble), "u": u.astype(np.longdouble)}
    exact = {
        "1/sqrt(x)": ("y", wide["x"] ** -0.5),
        "x**-1.5": ("z", wide["u"] ** -1.5),
        "sin": ("s", np.sin(wide["x"])),
        "cos": ("c", np.cos(wide["x"])),
    }
    found = {}
    for name, (state, value) in exact.items():
        off = np.abs(out.final[state].astype(np.longdouble) - value)
        found[name] = float(
            np.max(
                np.where(
                    off <= fast.NEAR_ZERO[real is np.float32],
                    0.0,
                    off / np.spacing(np.abs(value).astype(real)),
                )
            )
        )
    return found


@pytest.mark.parametrize("precision", ["float64", "float32"])
@pytest.mark.parametrize("backend", ["llvm", "c", "numpy"])
def test_what_a_run_computes_on_this_machine_is_within_the_bounds(backend, precision):
    found = errors_of(backend, precision, 20_000)
    assert all(0.3 < found[name] <= fast.BOUNDS[name][precision == "float32"] for name in found), found
