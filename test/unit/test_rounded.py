"""Roots and quotients that are rounded side by side on a GPU: are they the nearest numbers, whatever the estimates are?"""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

import numpy as np
import ptx_lanes
import ptx_machine
import pytest
from fake_cuda import Card, FakeDriver, installed
from ptx_on_host import OnHostFromEstimates
from test_loops import cluster, wave

import tinyphysics as tp
from tinyphysics.device import cache
from tinyphysics.device.cuda import driver as cuda, nvptx
from tinyphysics.device.host.cc import compiler
from tinyphysics.emit.kinds import ptx_estimates, ptx_pairs, ptx_rounded
from tinyphysics.emit.modules import ptx_nests
from tinyphysics.emit.scalar.ptx import ATTRIBUTES, HEAD, SPECIAL
from tinyphysics.emit.scalar.ptx_tools import kernel
from tinyphysics.emit.text.writer import Writer
from tinyphysics.ir.dtype import f32, f64
from tinyphysics.ir.ops import INSIDE, Ops
from tinyphysics.ir.uop import UOp, toposort
from tinyphysics.runtime.engines import backend, estimates
from tinyphysics.tpir.kernels.loops import build_loops
from tinyphysics.tpir.kernels.nests import Store

TOOLS = Path(__file__).parents[2] / "tools"
FLOAT32 = dict(dt=2.0**-7, precision="float32")


@tp.hamiltonian
def sixth(q: tp.Array["n", 3], p: tp.Array["n", 3]):
    """A divisor that is no power of a root."""
    d = q[:, None] - q[None, :]
    return (p**2).sum() / 2 + tp.pair_sum(1 / ((d**2).sum(-1) + 0.1) ** 3)


@tp.hamiltonian
def springs(q: tp.Array["n", 3], p: tp.Array["n", 3]):
    """A root that is no divisor."""
    d = q[:, None] - q[None, :]
    return (p**2).sum() / 2 + tp.pair_sum((np.sqrt((d**2).sum(-1)) - 1.0) ** 2)


@tp.hamiltonian
def cut(q: tp.Array["n", 3], p: tp.Array["n", 3], m: tp.Vec["n"]):
    """A quotient of which nothing may be left."""
    d = q[:, None] - q[None, :]
    r = np.sqrt((d**2).sum(-1))
    return (p**2).sum() / 2 + tp.pair_sum(np.where(r < 1.5, m[:, None] * m[None, :] / r, 0.0))


@tp.hamiltonian
def sharp(q: tp.Array["n", 3], p: tp.Array["n", 3], m: tp.Vec["n"]):
    """No softening."""
    d = q[:, None] - q[None, :]
    return (p**2).sum() / 2 - tp.pair_sum(m[:, None] * m[None, :] / np.sqrt((d**2).sum(-1)))


@pytest.fixture
def from_estimates(monkeypatch):
    """The backend `c` is kernels of a device whose estimates serve."""
    monkeypatch.setitem(backend.LOOPS, "c", OnHostFromEstimates)
    backend.engine_for.cache_clear()
    yield
    backend.engine_for.cache_clear()


def both(system, steps=2, **state):
    sizes = {"n": len(state["q"])}
    return [
        tp.compile(system, backend=b, sizes=sizes, **FLOAT32).evolve(**state, steps=steps)
        for b in ("c", "llvm")
    ]


def points(n, seed=0, size=1.0):
    rng = np.random.default_rng(seed)
    return dict(q=rng.normal(size=(n, 3)) * size, p=rng.normal(size=(n, 3)))


def masses(n, low=-3.0, high=3.0):
    return 2.0 ** np.random.default_rng(n).uniform(low, high, n)


@pytest.mark.requirement("S3-21")
@pytest.mark.parametrize("n", [40, 65, 300, 1100])
def test_sums_over_pairs_have_the_bits_of_the_processor(from_estimates, n):
    ours, expected = both(cluster, **points(n), m=masses(n))
    assert ours.hash == expected.hash


@pytest.mark.parametrize("system", [sixth, springs], ids=lambda s: s.name)
def test_divisors_and_roots_of_every_kind(from_estimates, system):
    ours, expected = both(system, **points(200))
    assert ours.hash == expected.hash


@pytest.mark.parametrize("system", [cut, sharp], ids=lambda s: s.name)
@pytest.mark.parametrize("what", ["none", "tiny", "huge", "negative", "mixed"])
def test_numbers_out_of_range_are_done_again(from_estimates, system, what):
    n = 200
    m = {
        "none": lambda: np.where(np.arange(n) % 3, masses(n), 0.0),
        "tiny": lambda: masses(n, -70, -30),
        "huge": lambda: masses(n, 20, 50),
        "negative": lambda: -masses(n),
        "mixed": lambda: masses(n, -60, 40),
    }[what]()
    ours, expected = both(system, 1, **points(n), m=m)
    assert ours.hash == expected.hash


@pytest.mark.parametrize("size", [2.0**-60, 2.0**-42.4, 2.0**-30, 2.0**-18, 2.0**22, 2.0**41])
@pytest.mark.parametrize("system", [springs, sharp], ids=lambda s: s.name)
def test_distances_of_every_size(from_estimates, system, size):
    """Around 2^-42 the cube of a distance is subnormal, and its reciprocal is not infinite."""
    rng = np.random.default_rng(1)
    q, m = rng.normal(size=(150, 3)) * size, masses(150) * min(size, 1.0)
    given = dict(m=m) if system is sharp else {}
    ours, expected = both(system, 1, q=q, p=np.zeros((150, 3)), **given)
    assert ours.hash == expected.hash and bool(ours.stopped) == bool(expected.stopped)


def test_points_that_coincide_stop_as_on_the_processor(from_estimates):
    state = points(100)
    state["q"][60] = state["q"][3]
    ours, expected = both(sharp, 1, **state, m=masses(100))
    assert ours.hash == expected.hash and ours.stopped.cause == expected.stopped.cause


def test_what_is_in_doubt_is_really_done_again(from_estimates, monkeypatch):
    """Without that the sums would be others: remainders of numbers that are too small are rounded."""
    monkeypatch.setattr(ptx_rounded.Rounding, "at_least", lambda self, x, least: None)
    ours, expected = both(sharp, 1, q=points(100)["q"] / 1024, p=np.zeros((100, 3)), m=masses(100, -66, -64))
    assert ours.hash != expected.hash


# --- which numbers are looked at from one side -------------------------------------------------------------
def sums(*values):
    k = UOp.var("@i0", (), f32)
    return ptx_rounded.Sums([Store("out", 0, (k,), v, Ops.ADD) for v in values], ())


def test_a_quotient_shows_in_a_sum_unless_something_hides_it():
    x, n, e = (UOp.var(name, (), f32) for name in "xne")
    root = x.sqrt()
    force = n / (x * root)
    assert sums(e * force).shown == {force, root}
    assert sums((x < 1.0).where(e * force, e)).shown == set()
    assert sums(e * force, root).shown == {force}  # the root is a sum of its own
    assert sums(e * force + n * root).shown == {force}
    assert sums(n / root).shown == {n / root}
    assert sums(n / (x * root) * e, e.alu(Ops.MAX, force)).shown == {force, root}


# --- the estimates of a device -----------------------------------------------------------------------------
def test_a_quotient_needs_no_more_than_is_asked_of_estimates(tmp_path):
    """All numbers: without an argument, ten seconds."""
    program = tmp_path / "rounded"
    flags = ["-O2", "-march=native", "-ffp-contract=off"]
    subprocess.run([*compiler(), *flags, str(TOOLS / "rounded.c"), "-o", str(program), "-lm"], check=True)
    done = subprocess.run([str(program), "211"], capture_output=True, text=True)
    assert done.returncode == 0 and "and of none elsewhere" in done.stdout, done.stdout


def looked_at(first, count):
    text, _ = nvptx.ptx(ptx_estimates.module(), cuda.device().capability)
    return estimates.looked_at(text, cuda.device(), first, count)


@pytest.mark.parametrize("exponent", [-126, -86, -60, -1, 0, 1, 39, 59])
def test_the_estimates_that_ptx_promises_serve(fake_cuda, exponent):
    """The last numbers below a power of two are those for which more is asked."""
    assert looked_at(127 + exponent << 23, 300)
    assert looked_at((128 + exponent << 23) - 300, 300)


@pytest.mark.parametrize("name", ["inverse", "inverse_root"])
def test_estimates_that_do_not_serve_are_found_out(fake_cuda, monkeypatch, name):
    exact = getattr(ptx_lanes, name)
    off = lambda x: (exact(x) * np.float32(1 + 2.0**-18)).astype(np.float32)  # noqa: E731
    monkeypatch.setitem(ptx_machine.NAMES, name, off)
    ptx_machine.compiled.cache_clear()
    assert not looked_at(127 << 23, 300)
    ptx_machine.compiled.cache_clear()


def test_the_answer_is_noted(fake_cuda, monkeypatch):
    asked = []
    monkeypatch.setattr(estimates, "looked_at", lambda *a: asked.append(a) or True)
    estimates.serve.cache_clear()
    assert estimates.serve(cuda.device())
    estimates.serve.cache_clear()
    assert estimates.serve(cuda.device()) and len(asked) == 1
    with monkeypatch.context() as other:
        other.setattr(cuda, "driver_version", lambda: 13010)  # another assembler
        estimates.serve.cache_clear()
        assert estimates.serve(cuda.device()) and len(asked) == 2
    asked.pop()
    monkeypatch.setattr(cache, "read", lambda name: b"something else" if name.endswith(".note") else None)
    estimates.serve.cache_clear()
    assert estimates.serve(cuda.device()) and len(asked) == 2
    estimates.serve.cache_clear()


@pytest.mark.parametrize("serve", [True, False])
def test_a_run_uses_them_where_they_serve(objects_of_the_fake, monkeypatch, serve):
    monkeypatch.setenv("TINYPHYSICS_CACHE", str(objects_of_the_fake))
    state = points(70) | dict(m=masses(70))
    with installed(FakeDriver(Card(estimates=serve))) as driver:
        out = tp.compile(cluster, backend="cuda", sizes={"n": 70}, **FLOAT32).evolve(**state, steps=1)
        expected = tp.compile(cluster, backend="llvm", sizes={"n": 70}, **FLOAT32).evolve(**state, steps=1)
        assert out.hash == expected.hash and driver.faults == []


def test_what_is_listed_has_no_estimates_and_what_has_no_pairs_needs_none():
    sim = tp.compile(cluster, backend="llvm", sizes={"n": 40}, **FLOAT32)
    assert ".approx" not in sim.ir("ptx")
    kernel = build_loops(sim.tpir)
    assert ptx_nests.wants_estimates(kernel)
    assert "rsqrt.approx.ftz.f32" in nvptx.compiled(ptx_nests.nests_module(kernel, estimates=True).text)
    waves = build_loops(tp.compile(wave, backend="llvm", sizes={"n": 40}, **FLOAT32).tpir)
    assert not ptx_nests.wants_estimates(waves)
    pairs = next(n for n in kernel.sections["step"].nests if n.kind == "pairs")
    assert ptx_pairs.rounds(pairs) and any(ptx_rounded.is_special(u) for u in toposort(pairs.pieces[0].roots))


# --- quotients and roots of float64 far from the ends of the range (emit/text/inside.py) -----------------------
def test_quotients_and_roots_inside_the_range_are_the_nearest_numbers(fake_cuda):
    w = Writer(1, estimates=True)
    for name in "ab":
        w.lines += [
            f"  %{name}.at = getelementptr double, ptr %{name}s, i64 %k",
            f"  %{name} = load double, ptr %{name}.at",
        ]
    x, y = (UOp.var(name) for name in "ab")
    env = {x: "%a", y: "%b"}
    for to, u in (
        ("as", UOp(Ops.DIV, f64, (), (x, y), INSIDE)),
        ("bs", UOp(Ops.SQRT, f64, (), (x,), INSIDE)),
    ):
        w.operation(u, env)
        w.lines += [
            f"  %{to}.to = getelementptr double, ptr %{to}, i64 %k",
            f"  store double {env[u]}, ptr %{to}.to",
        ]
    body = [line.strip() for line in w.lines] + ["br label %next"]
    lines = kernel("both", "ptr %as, ptr %bs, i64 %count", "%count", body)
    llvm = "\n".join([HEAD, *SPECIAL.values(), *w.declared.values(), *lines, ATTRIBUTES])
    text = nvptx.compiled(llvm)
    assert "div.rn" not in text and "sqrt.rn" not in text and "rcp.approx.ftz.f64" in text
    rng = np.random.default_rng(5)
    a = np.concatenate(
        [rng.random(40_000), 2.0 ** rng.uniform(-53, 7, 40_000), 1 + rng.integers(0, 99, 20_000) * 2.0**-52]
    )
    b = np.concatenate([1.7 + 0.8 * rng.random(80_000), 1 + rng.integers(0, 99, 20_000) * 2.0**-52])
    a[:4] = -0.0, 2.0**-52, 0.0, 1.0
    one, other = cuda.upload(a), cuda.upload(b)
    f = cuda.Module(text.encode() + b"\0").function("both")
    cuda.launch(f, 8, 128, [one, other, ctypes.c_int64(len(a))])
    assert cuda.read(one, np.empty_like(a))[1:].tobytes() == (a / b)[1:].tobytes()
    assert cuda.read(other, np.empty_like(a)).tobytes() == np.sqrt(a).tobytes()
