"""WebAssembly: an exact fused operation without one, modules without a linker, and the bits of every other backend."""

import math
import random
import struct
from fractions import Fraction

import numpy as np
import pytest

import tinyphysics as tp
from here import need
from tinyphysics.device.host import llvm
from tinyphysics.device.wasm import module
from tinyphysics.device.wasm.driver import Instance
from tinyphysics.emit.scalar import wasm as emit
from tinyphysics.errors import BackendError
from tinyphysics.ir import UOp, f32
from tinyphysics.ir.value import evaluate, fma32
from tinyphysics.rules.functions import exact_fma

pytestmark = pytest.mark.requirement("S1-67")


# --- one rounding, where the machine has two -------------------------------------------------------
def rounded(x, y, z):
    """x*y + z through whole numbers: Python divides them with one rounding, subnormal numbers included."""
    if not (math.isfinite(x) and math.isfinite(y)):
        return x * y + z
    if not math.isfinite(z):
        return z
    exact = Fraction(x) * Fraction(y) + Fraction(z)
    if exact == 0:
        return x * y + z if x * y == 0.0 and z == 0.0 else 0.0
    try:
        return exact.numerator / exact.denominator
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def number(r, low, high):
    """With an exponent from a range, and often with a significand at the edge of something."""
    own = [r.getrandbits(52), r.getrandbits(52), 0, 1, (1 << 52) - 1, 1 << 51, r.getrandbits(26) << 26]
    field = min(max(r.randint(low, high) + 1023, 0), 2046)
    return struct.unpack("<d", struct.pack("<Q", r.getrandbits(1) << 63 | field << 52 | r.choice(own)))[0]


SPECIAL = [
    0.0,
    -0.0,
    math.inf,
    -math.inf,
    math.nan,
    5e-324,
    -5e-324,
    2.0**-1022,
    -(2.0**-1022),
    1.7976931348623157e308,
    1.0,
    -1.0,
]


def triple(r):
    kind = r.randrange(6)
    if kind == 0:
        return number(r, -3, 3), number(r, -3, 3), number(r, -120, 70)
    if kind == 1:
        return tuple(number(r, -1074, 1023) for _ in range(3))
    if kind == 2:  # results at the end of the normal numbers
        return number(r, -600, -450), number(r, -600, -450), number(r, -1080, -990)
    if kind == 3:  # the sum cancels, here and where it becomes subnormal
        x, y = number(r, -3, 3), number(r, -3, 3)
        scale = r.choice([1.0, 2.0**-1000, 2.0**-1015, 2.0**1000])
        return x * scale, y, -x * y * scale * (1 + r.choice([0, 1, -1, 2]) * 2.0**-52)
    if kind == 4:
        return number(r, 500, 600), number(r, 400, 530), number(r, 900, 1023)
    return r.choice(SPECIAL), r.choice(SPECIAL), r.choice([r.choice(SPECIAL), number(r, -1074, 1023)])


def same(a, b):
    return struct.pack("<d", a) == struct.pack("<d", b) or a != a and b != b


def test_a_fused_operation_of_sums_and_products_has_the_rounding_of_rationals():
    x, y, z = (UOp.var(n) for n in "xyz")
    roots = [exact_fma.always(x, y, z), exact_fma.usual(x, y, z), exact_fma.is_usual(x, y, z)]
    r, tried = random.Random(1), 0
    for _ in range(1500):
        given = triple(r)
        want = rounded(*given)
        always, usual, ok = evaluate(roots, dict(zip("xyz", given)))
        assert same(always, want), given
        assert not ok or same(usual, want), given
        tried += ok
    assert tried > 200


def test_the_same_of_float32_is_that_of_the_reference():
    x, y, z = (UOp.var(n, (), f32) for n in "xyz")
    root, r = exact_fma.single(x, y, z), random.Random(2)
    for _ in range(800):
        bits = [r.getrandbits(32) for _ in range(3)]
        if r.random() < 0.5:  # near enough to each other that all three matter
            bits = [b & 0x807FFFFF | r.randint(90, 150) << 23 for b in bits]
        given = [struct.unpack("<f", struct.pack("<I", b))[0] for b in bits]
        (found,) = evaluate([root], dict(zip("xyz", given)))
        assert same(found, fma32(*given)), given


LOOP = """define void @many(ptr %in, ptr %out, i64 %n) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %i.next, %loop ]
  %x.at = getelementptr double, ptr %in, i64 %i
  %x = load double, ptr %x.at
  %j = add i64 %i, %n
  %y.at = getelementptr double, ptr %in, i64 %j
  %y = load double, ptr %y.at
  %k = add i64 %j, %n
  %z.at = getelementptr double, ptr %in, i64 %k
  %z = load double, ptr %z.at
  %r = call double @llvm.fma.f64(double %x, double %y, double %z)
  %r.at = getelementptr double, ptr %out, i64 %i
  store double %r, ptr %r.at
  %i.next = add i64 %i, 1
  %more = icmp slt i64 %i.next, %n
  br i1 %more, label %loop, label %exit
exit:
  ret void
}
declare double @llvm.fma.f64(double, double, double)
"""


@pytest.mark.parametrize("count", [4_000, pytest.param(200_000, marks=pytest.mark.all)])
def test_the_module_agrees_with_rationals(count):
    need("wasm")
    code, _ = module.binary(emit.without_fused(LOOP), ["many"])
    one, r = Instance(code), random.Random(count)
    given = np.array([triple(r) for _ in range(count)]).T.copy()
    out = np.empty(count)
    places = one.sent([given, out])
    one.exports["many"](one.store, *places, count)
    one.fetched(out, places[1])
    wrong = [g for g, found in zip(given.T.tolist(), out.tolist()) if not same(found, rounded(*g))]
    assert wrong == []


# --- modules ---------------------------------------------------------------------------------------
def test_a_module_exports_what_it_is_asked_for_and_needs_memory_alone():
    code, _ = module.binary(emit.without_fused(LOOP), ["many"])
    kinds = [kind for kind, _ in module.parts(code)]
    assert kinds == sorted(kinds) and module.CUSTOM not in kinds and kinds.count(module.EXPORT) == 1
    assert module.imports(code) == [module.MEMORY]


def test_a_module_with_data_is_refused():
    text = (
        "@table = internal constant [4 x double] [double 1.0, double 2.0, double 3.0, double 5.0]\n"
        "define double @at(i32 %i) {\n  %p = getelementptr [4 x double], ptr @table, i32 0, i32 %i\n"
        "  %v = load double, ptr %p\n  ret double %v\n}\n"
    )
    with llvm._lock:
        ll = llvm.binding()
        made = module.target_machine(ll).emit_object(module.parsed(ll, text))
    with pytest.raises(AssertionError, match="linker"):
        module.linked(made, ["at"])


# --- the bits of the others ------------------------------------------------------------------------
@tp.hamiltonian
def pendulum(q, p):
    return p**2 / 2 - tp.cos(q)


@tp.hamiltonian
def kepler(q: tp.Vec[2], p: tp.Vec[2], mu: float = 1.0):
    return p @ p / 2 - mu / tp.norm(q)


@tp.hamiltonian
def henon_heiles(q: tp.Vec[2], p: tp.Vec[2]):
    return (p @ p + q @ q) / 2 + q[0] ** 2 * q[1] - q[1] ** 3 / 3


@tp.lagrangian
def double_pendulum(q: tp.Vec[2], v: tp.Vec[2]):
    a, b = q
    return v[0] ** 2 + v[1] ** 2 / 2 + v[0] * v[1] * tp.cos(a - b) + 2 * tp.cos(a) + tp.cos(b)


@tp.hamiltonian
def fput(q: tp.Vec[32], p: tp.Vec[32], alpha: float = 0.25):
    left, right = np.concatenate([[0.0], q]), np.concatenate([q, [0.0]])
    r = right - left
    return p @ p / 2 + (r**2 / 2 + alpha * r**3 / 3).sum()


@tp.map
def standard_map(q, p, K: float = 0.9):
    p = p + K * tp.sin(q)
    return q + p, p


wave = np.sin(np.pi * np.arange(1, 33) / 33)
# fmt: off
SYSTEMS = {  # system, dt, a state
    "pendulum":        (pendulum,        0.05, {"q": 1.0, "p": 0.3}),
    "kepler":          (kepler,          0.02, {"q": [1.0, 0.0], "p": [0.0, 1.2]}),
    "henon_heiles":    (henon_heiles,    0.05, {"q": [0.1, 0.2], "p": [0.3, 0.1]}),
    "double_pendulum": (double_pendulum, 0.01, {"q": [1.0, 1.5], "p": [0.0, 0.1]}),
    "fput":            (fput,            0.1,  {"q": wave, "p": 0 * wave}),
    "standard_map":    (standard_map,    None, {"q": 0.5, "p": 0.7}),
}
# fmt: on


def members(start, n):
    """The state a little differently in every member."""
    return {k: np.array([np.asarray(x) * (1 + 1e-3 * i) for i in range(n)]) for k, x in start.items()}


def run(name, backend, steps=300, n=1, precision="float64", **options):
    system, dt, start = SYSTEMS[name]
    sim = tp.compile(system, dt, backend=backend, precision=precision, **options)
    out = sim.evolve(**(members(start, n) if n > 1 else start), steps=steps)
    assert out.metrics["backend"]["used"] == backend
    return out


@pytest.mark.parametrize("n", [1, 100])
@pytest.mark.parametrize("name", SYSTEMS)
def test_a_run_has_the_hash_of_llvm(name, n):
    need("wasm")
    steps = 300 if n == 1 else 20
    assert run(name, "wasm", steps, n).hash == run(name, "llvm", steps, n).hash


@pytest.mark.all
@pytest.mark.slow("the row that is promised: 10,000 steps of 100 members")
@pytest.mark.parametrize("n", [1, 100])
@pytest.mark.parametrize("name", SYSTEMS)
def test_a_long_run_has_the_hash_of_llvm(name, n):
    need("wasm")
    assert run(name, "wasm", 10_000, n).hash == run(name, "llvm", 10_000, n).hash


PRECISIONS = ["float32", "compensated", "dd", "lattice", "mixed"]


@pytest.mark.parametrize("precision", PRECISIONS)
def test_every_precision_has_the_hash_of_llvm(precision):
    need("wasm")
    a, b = (run("henon_heiles", backend, 200, 3, precision) for backend in ("wasm", "llvm"))
    assert a.hash == b.hash and a.metrics["backend"]["used"] == "wasm"


def test_a_checkpoint_goes_on_with_the_same_bits_on_another_backend(tmp_path):
    need("wasm")
    there = tmp_path / "a.tpc"
    system, dt, start = SYSTEMS["kepler"]
    tp.compile(system, dt, backend="wasm").evolve(**start, steps=150, checkpoint=there)
    whole = tp.compile(system, dt, backend="llvm").evolve(**start, steps=400)
    for backend in ("wasm", "llvm"):
        assert tp.compile(system, dt, backend=backend).evolve(resume=there, steps=250).hash == whole.hash


def test_observables_energies_and_steps_of_their_own_length_have_the_same_bits():
    need("wasm")
    system, dt, start = SYSTEMS["kepler"]
    seen = []
    for backend in ("wasm", "llvm"):
        out = tp.compile(system, dt, backend=backend).evolve(
            **start, steps=90, observe={"r": lambda q: tp.norm(q)}, observe_every=3
        )
        free = tp.compile(system, dt, method="dop853", backend=backend).evolve(**start, until=3.0)
        seen.append((out["r"].tobytes(), out.energy.tobytes(), out.drift("energy"), free.hash))
    assert seen[0] == seen[1]


def test_where_wasmtime_is_missing_the_error_has_the_line_that_installs_it(monkeypatch):
    from tinyphysics.device.wasm import driver

    monkeypatch.setattr(driver, "import_module", lambda name: (_ for _ in ()).throw(ImportError(name)))
    driver.wasmtime.cache_clear()
    try:
        with pytest.raises(BackendError, match="needs wasmtime") as told:
            run("kepler", "wasm", 5)
        assert 'pip install "tinyphysics[wasm]"' in str(told.value)
    finally:
        driver.wasmtime.cache_clear()


def test_what_runs_in_loops_only_is_refused_by_name():
    pytest.importorskip("wasmtime")

    @tp.hamiltonian
    def many(q: tp.Array[4000, 3], p: tp.Array[4000, 3]):
        return (p * p).sum() / 2 + tp.pair_sum(1 / tp.pair_distance2(q))

    with pytest.raises(BackendError, match="the backend `wasm` does not support"):
        tp.compile(many, 0.01, backend="wasm").evolve(
            q=np.random.default_rng(0).normal(size=(4000, 3)), p=np.zeros((4000, 3)), steps=1
        )


def test_the_listing_is_that_of_the_module():
    text = tp.compile(kepler, 0.02).ir("wasm")
    assert "f64.sqrt" in text and "call\tfused.f64" in text and "__linear_memory" not in text
