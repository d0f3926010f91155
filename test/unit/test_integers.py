"""Are states of whole numbers and conditions NumPy's, to the last bit, on every backend, at every size?"""

import numpy as np
import pytest
from here import HERE
from test_loops import loops

import tinyphysics as tp
from tinyphysics.ir import UOp, evaluate
from tinyphysics.ir.dtype import bool_, f64, i8, i16, i32, i64
from tinyphysics.rules.functions.transcendental import lower
from tinyphysics.runtime.engines.loaders import LlvmLoops
from tinyphysics.tpir.kernels.loops import build_loops
from tinyphysics.tpir.kernels.rows import row_type

KINDS = {"int8": tp.Int8, "int16": tp.Int16, "int32": tp.Int32, "int64": tp.Int64}
SMALL, LARGE = 5, 40  # written out; in loops
BACKENDS = [b for b in HERE if b != "cuda"]


# --- every operation --------------------------------------------------------------------------------------
def operations(x, y):
    """What is asked of NumPy's arrays and of symbols, in the same words."""
    return [
        x + y, x - y, x * y, x // y, x % y, x & y, x | y, x ^ y, ~x, -x, abs(x), x << (y & 7), x >> (y & 7), x >> y,
        x << y, np.minimum(x, y), np.maximum(x, y), np.where(x < y, x, y), np.where(x >= y, x - 1, 3), np.sign(x),
        x**3, x // 4, x % 8, x % 7, x // -3, x // 0, x % 0, 7 // y, 5 % y, x // -1, x % -1, np.roll(x, 1), x[::-1],
        np.clip(x, -3, 5), np.concatenate([x[1:], x[:1]]), np.diff(x, prepend=x[:1]), 100 - x, 3 * x + 1,
    ]  # fmt: skip


def operands(kind, n):
    """The extremes of a type against small divisors, and random numbers."""
    limits, rng = np.iinfo(kind), np.random.default_rng(1)
    edges = np.array([limits.min, limits.max, 0, -1, 1, 2, -2, limits.min + 1, 7], kind)
    x = np.concatenate([edges, rng.integers(limits.min, limits.max, n, kind)])[:n]
    y = np.concatenate([edges[::-1], rng.integers(-20, 20, n).astype(kind)])[:n]
    return x, y


def step_of(kind, count):
    T = KINDS[kind]

    def step(x: T["n"], y: T["n"], out: T[count, "n"]):
        return x, y, np.stack(operations(x, y))

    return tp.map(step)


def check_operations(backend, kind, n):
    x, y = operands(kind, n)
    with np.errstate(all="ignore"):
        wanted = np.stack([np.asarray(v).astype(kind) for v in operations(x, y)])
    sim = tp.compile(step_of(kind, len(wanted)), backend=backend, sizes={"n": n})
    found = sim.evolve(x=x, y=y, out=np.zeros_like(wanted), steps=1).final.out
    assert found.dtype == kind
    assert [k for k in range(len(wanted)) if not np.array_equal(found[k], wanted[k])] == []


@pytest.mark.slow("all operations of a type are one kernel, which takes some time to compile")
@pytest.mark.parametrize("kind, n", [("int8", LARGE), ("int16", LARGE), ("int32", 9), ("int64", 9)])
def test_operations_are_numpys(kind, n):
    check_operations("llvm", kind, n)


@pytest.mark.slow("all operations of a type are one kernel, which takes some time to compile")
@pytest.mark.parametrize("backend", [b for b in BACKENDS if b != "llvm"])
def test_operations_are_numpys_on_other_backends(backend):
    check_operations(backend, "int8", 9)


@pytest.mark.all
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [9, LARGE])
@pytest.mark.parametrize("backend", BACKENDS)
def test_all_operations_are_numpys(backend, kind, n):
    check_operations(backend, kind, n)


@pytest.mark.parametrize("dtype", [i8, i16, i32, i64], ids=str)
def test_division_is_the_same_in_machine_operations(dtype):
    """Rounded down by a power of two it is a shift; 0 and -1 are no divisors that a machine sees."""
    low, high = dtype.limits
    x, y = UOp.var("x", (), dtype), UOp.var("y", (), dtype)
    for a in (low, -7, 0, 6, high):
        for b in (low, -3, -1, 0, 1, 8, high):
            for u in (x // y, x % y, x // UOp.const(b, dtype), x % UOp.const(b, dtype)):
                env = {"x": a, "y": b}
                assert evaluate(lower([u]), env) == evaluate([u], env)
            with np.errstate(all="ignore"):
                kind = np.dtype(dtype.numpy).type
                assert evaluate([x // y, x % y], {"x": a, "y": b}) == [kind(a) // kind(b), kind(a) % kind(b)]


# --- sums, tables, products -----------------------------------------------------------------------------
TABLE = np.array([0, 1, 1, 1, 0, 1, 1, 0], np.int8)  # rule 110


@tp.map
def mixture(c: tp.Int8["n"], M: tp.Int8["n", "n"], z: tp.Int16, b: tp.Bool["n"]):
    return whole_step(c, M, z, b)


def whole_step(c, M, z, b):
    s = np.concatenate([c[1:], c[:1]]) + np.pad(c[:-1], (1, 0)) - np.flip(c)
    w = np.stack([c, s, M @ c + c @ M])[1] + np.max(c) + np.min(M) + b
    total = c.max().astype("int16") * c.sum().astype("int16") + np.prod(c[:5]).astype("int16")
    return w, M + np.outer(c, s), z + total, ~b & (c > 0)


@pytest.mark.parametrize("n", [SMALL, LARGE])
def test_sums_and_products_of_arrays_are_numpys(n):
    rng = np.random.default_rng(3)
    start = dict(
        c=rng.integers(-128, 128, n).astype(np.int8),
        M=rng.integers(-128, 128, (n, n)).astype(np.int8),
        z=np.int16(7),
        b=rng.random(n) < 0.5,
    )
    wanted = tuple(start.values())
    with np.errstate(all="ignore"):
        for _ in range(2):
            wanted = whole_step(*wanted)
    hashes = set()
    for backend in BACKENDS:
        out = tp.compile(mixture, backend=backend, sizes={"n": n}).evolve(**start, steps=2)
        for name, v in zip(start, wanted):
            assert np.array_equal(out.final[name], v) and out.final[name].dtype == v.dtype
        hashes.add(out.hash)
    assert len(hashes) == 1


@tp.map
def below_the_largest(s: tp.Int8["n"]):
    return s - s.max() + s.min()


@pytest.mark.parametrize("n", [64, 70, 127, 200])
@pytest.mark.parametrize("width", [1, 4, 8])
def test_extremes_of_bytes_are_numpys_for_vectors_of_every_width(n, width):
    """A vector of 512 bits has 64 bytes, and a long reduction 32 accumulators."""
    s = np.random.default_rng(n).integers(-128, 128, n).astype(np.int8)
    sim = tp.compile(below_the_largest, backend="python", sizes={"n": n})
    with np.errstate(all="ignore"):
        wanted = s - s.max() + s.min()
    assert np.array_equal(loops(sim, LlvmLoops(width=width), {"s": s}, {}, 1)["s"], wanted)


@tp.map
def rule110(c: tp.Int8["n"]):
    return tp.take(TABLE, np.roll(c, 1) * 4 + c * 2 + np.roll(c, -1))


@pytest.mark.parametrize("n", [SMALL, LARGE])
def test_a_table_of_bytes_is_read_by_bytes(n):
    c = wanted = (np.arange(n) % 3 == 0).astype(np.int8)
    for _ in range(4):
        wanted = TABLE[np.roll(wanted, 1) * 4 + wanted * 2 + np.roll(wanted, -1)]
    for backend in BACKENDS:
        assert np.array_equal(tp.compile(rule110, backend=backend).evolve(c=c, steps=4).final.c, wanted)


# --- states of several types, noise -----------------------------------------------------------------------
@tp.map
def noisy(
    alive: tp.Bool["n"], x: tp.Array["n"], k: tp.Int32["n"], age: tp.Int64, p: float = 0.3, rule: tp.Int8 = 3
):
    u = tp.random.uniform(alive.shape)
    alive = (u < p) ^ np.roll(alive, 1)
    k = k * 3 + alive + rule
    return alive, x + np.where(alive, 1.0, -0.5) * u, k, age + k.sum() + 2**62


def start_of(n, members=None):
    rng, shape = np.random.default_rng(0), (n,) if members is None else (members, n)
    return dict(
        alive=rng.random(shape) < 0.5,
        x=rng.normal(size=shape),
        k=rng.integers(-100, 100, shape).astype(np.int32),
        age=np.int64(5) if members is None else np.arange(members),
    )


SEEN = {
    "alive": lambda alive: alive.sum(),
    "sum": lambda k: k.sum(),
    "next": lambda age, rule: age % 1000 + rule,
    "mean": lambda k: k.mean(),
}


def seen(out):
    return (out.hash, out.hashes, *(out.observed[name][1].tolist() for name in ("sum", "next", "mean")))


@pytest.mark.parametrize("n", [SMALL, LARGE])
@pytest.mark.parametrize("members", [None, 3])
def test_bits_frames_and_observables_agree(n, members):
    """Conditions, floats, whole numbers and a draw in one step, alone and in ensembles."""
    watch = {name: f for name, f in SEEN.items() if name != "alive"}
    how = dict(steps=7, save_every=2, observe=watch, observe_every=3, hash_every=3, seed=4)
    runs = [
        tp.compile(noisy, backend=b, sizes={"n": n}).evolve(**start_of(n, members), **how) for b in BACKENDS
    ]
    assert len({str(seen(out)) for out in runs}) == 1
    for name, dtype in (("alive", bool), ("x", float), ("k", np.int32), ("age", np.int64)):
        assert runs[0][name].dtype == dtype
        assert all(np.array_equal(out[name], runs[0][name]) for out in runs)


@pytest.mark.parametrize("n", [SMALL, LARGE])
def test_a_checkpoint_goes_on_elsewhere(n, tmp_path):
    sim = tp.compile(noisy, backend="llvm", sizes={"n": n})
    whole = sim.evolve(**start_of(n), steps=9, seed=3)
    sim.evolve(**start_of(n), steps=4, seed=3, checkpoint=tmp_path / "c")
    for backend in BACKENDS:
        other = tp.compile(noisy, backend=backend, sizes={"n": n})
        assert other.evolve(resume=tmp_path / "c", steps=5).hash == whole.hash
    again = sim.evolve(**{name: whole.words(name) for name in start_of(n)}, steps=0)
    assert again["k"].dtype == np.int32


@pytest.mark.parametrize("n", [SMALL, LARGE])
def test_simulations_stores_and_steppers_keep_types(n, tmp_path):
    sim = tp.compile(noisy, backend="llvm", sizes={"n": n})
    out = sim.evolve(**start_of(n), steps=6, seed=3, save_every=2, save=tmp_path / "run.zarr")
    sim.save(tmp_path / "sim.json")
    assert tp.load(tmp_path / "sim.json").evolve(**start_of(n), steps=6, seed=3).hash == out.hash
    assert (tmp_path / "run.zarr").exists() and out.alive.dtype == bool and out.k.dtype == np.int32
    s = sim.stepper(**start_of(n), seed=3)
    s.step(2)
    s.step(4)
    assert np.array_equal(s.k, out.final.k) and np.array_equal(s.alive, out.final.alive)


def test_only_floats_stop_a_run():
    """-2**63 is a whole number like any other; where a float is none, its member stops and the others go on."""

    @tp.map
    def fails(x: tp.Array["n"], k: tp.Int64["n"], f: tp.Bool):
        return x * x * x * 10, k - 2**62, ~f

    found = set()
    for backend in BACKENDS:
        for n in (3, LARGE):
            x = np.full((3, n), 0.1)
            x[1] = 4.0
            sim = tp.compile(fails, backend=backend, sizes={"n": n})
            start = dict(x=x, k=np.zeros((3, n), np.int64), f=np.array([True, False, True]))
            out = sim.evolve(**start, steps=10, save_every=2)
            assert out.k[1, 0, 0] == -(2**63) and out.k[-1, 0, 0] == -(2**63)
            assert [(s.cause, s.member, s.step, s.where) for s in out.stops] == [
                ("not finite", 1, 6, ("x", 0))
            ]
            found.add((n, out.hash))
    assert len(found) == 2


# --- on a GPU ---------------------------------------------------------------------------------------------
@tp.map
def life(c: tp.Int8["n", "n"], b: tp.Bool["n", "n"]):
    around = sum(np.roll(c, (i, j), (0, 1)) for i in (-1, 0, 1) for j in (-1, 0, 1) if i or j)
    return ((around == 3) | ((around == 2) & (c == 1))).astype("int8"), b ^ (around % 3 == 0)


@pytest.mark.slow("the kernels of a GPU are run by a machine of the tests")
@pytest.mark.parametrize("n", [SMALL, LARGE])
def test_a_gpu_has_the_same_bits(fake_cuda, n):
    rng = np.random.default_rng(2)
    start = dict(c=rng.integers(0, 2, (n, n)).astype(np.int8), b=rng.random((n, n)) < 0.5)
    there, ours = (
        tp.compile(life, backend=b, sizes={"n": n}).evolve(**start, steps=3, save_every=1, observe={"s": lambda c: c.sum()})
        for b in ("cuda", "llvm")
    )  # fmt: skip
    assert there.metrics["backend"]["used"] == "cuda"
    assert there.hash == ours.hash and np.array_equal(there.c, ours.c) and np.array_equal(there.b, ours.b)
    assert np.array_equal(there["s"], ours["s"])


@pytest.mark.all
@pytest.mark.parametrize("n", [9, LARGE])
@pytest.mark.parametrize("kind", KINDS)
def test_operations_on_a_gpu(fake_cuda, kind, n):
    x, y = operands(kind, n)
    count = len(operations(x, y))
    start = dict(x=x, y=y, out=np.zeros((count, n), kind))
    there, ours = (
        tp.compile(step_of(kind, count), backend=b, sizes={"n": n}).evolve(**start, steps=1)
        for b in ("cuda", "llvm")
    )
    assert there.hash == ours.hash


# --- how they lie -----------------------------------------------------------------------------------------
def test_bytes_fill_whole_vectors():
    text = tp.compile(life, backend="llvm", sizes={"n": 256}).ir("llvm")
    assert "<32 x i8>" in text or "<64 x i8>" in text
    kernel = build_loops(tp.compile(life, backend="llvm", sizes={"n": 256}).tpir)
    assert {kernel.buffers[name].dtype for name in kernel.inputs.values()} == {i8}


@pytest.mark.parametrize(
    "kinds, bytes_too, row",
    [
        ([f64], True, None),
        ([i64], True, None),
        ([i8], True, None),
        ([i8], False, i64),
        ([i32], False, None),
        ([bool_], True, i8),
        ([bool_, i8], True, i8),
        ([bool_, i8], False, i64),
        ([f64, i8], True, i64),
        ([i16, i64], True, i64),
    ],
)
def test_rows_have_one_type(kinds, bytes_too, row):
    assert row_type(kinds, bytes_too) is row


def test_a_complete_c_program_prints_the_hash(tmp_path):
    import shutil
    import subprocess

    if shutil.which("cc") is None:
        pytest.skip("no C compiler")
    c, b = np.array([1, -2, 3], np.int8), np.array([True, False, True])

    @tp.map
    def small(c: tp.Int8[3], b: tp.Bool[3], x: tp.Vec[3]):
        return np.roll(c, 1) * 3 + b, ~b & (c > 0), x / 3

    sim = tp.compile(small)
    out = sim.evolve(c=c, b=b, x=[0.1, 0.2, 0.3], steps=5)
    (tmp_path / "x.c").write_text(sim.ir("c"))
    flags = ["-O1", "-ffp-contract=off", "-fwrapv", "-w"]
    subprocess.run(["cc", *flags, str(tmp_path / "x.c"), "-o", str(tmp_path / "x"), "-lm"], check=True)
    words = ["5", "1", "0", *map(str, c), *(str(int(v)) for v in b), "0.1", "0.2", "0.3"]
    done = subprocess.run([tmp_path / "x", *words], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == out.hash


# --- casts ------------------------------------------------------------------------------------------------
def test_floats_enter_by_casts_alone():
    """They lose their fraction and wrap; what is no number of 64 bits is 0 on every machine."""

    @tp.map
    def entering(x: tp.Array["n"], k: tp.Int8["n"], b: tp.Bool["n"]):
        return k.astype(float) / 4, x.astype("int8") + tp.cast(b, "int8"), x.astype(bool)

    x = np.array(
        [0.0, -0.0, 1.9, -1.9, 127.5, 128.0, -129.0, 1e10, 2.0**62, 2.0**63, -(2.0**63), 1e300, 5e-324]
    )
    wanted = np.array([0, 0, 1, -1, 127, -128, 127, 1e10 % 256, 0, 0, 0, 0, 0]).astype(np.int8)
    for n in (len(x), 3 * len(x)):
        given = np.resize(x, n)
        for backend in BACKENDS:
            out = tp.compile(entering, backend=backend, sizes={"n": n}).evolve(
                x=given, k=np.arange(n, dtype=np.int8), b=np.zeros(n, bool), steps=1
            )
            assert np.array_equal(out.final.k, np.resize(wanted, n))
            assert np.array_equal(out.final.b, given != 0) and np.array_equal(out.final.x, np.arange(n) / 4)


# --- mistakes ---------------------------------------------------------------------------------------------
def traced(step):
    return lambda: tp.map(step).bind({"n": LARGE})


def mixes(x: tp.Int8["n"]):
    return x + 0.5


def mixes_states(x: tp.Int8["n"], q: tp.Array["n"]):
    return x * q, q


def divides(x: tp.Int8["n"]):
    return x / 2


def root(x: tp.Int8["n"]):
    return np.sqrt(x)


def too_large(x: tp.Int8["n"]):
    return x + 300


def wider(x: tp.Int8["n"]):
    return x.sum() + x


def condition(x: tp.Int8["n"]):
    return x == 1


def not_a_condition(x: tp.Bool["n"]):
    return x.astype("int8")


def not_a_float(x: tp.Array["n"], k: tp.Int8["n"]):
    return k, k


def stacked(x: tp.Int8["n"], q: tp.Array["n"]):
    return np.stack([x, q])[0], q


def unknown(x: tp.Int8["n"]):
    return x.astype("float16")


@pytest.mark.parametrize(
    "step, said, fix",
    [
        (mixes, "`x + 0.5` mixes int8 with float64", "x.astype(float)"),
        (mixes_states, "`x * q` mixes int8 with float64", 'q.astype("int8")'),
        (divides, "`x / 2` is not a whole number", "x // 2"),
        (root, "`sqrt(x)` is not a whole number", "x.astype(float)"),
        (too_large, "300 does not fit int8, which goes from -128 to 127", 'x.astype("int16")'),
        (wider, "`wider` returns int64 for `x`, which is int8", '.astype("int8")'),
        (condition, "returns bool for `x`, which is int8", '.astype("int8")'),
        (not_a_condition, "returns int8 for `x`, which is bool", "x != 0"),
        (not_a_float, "returns int8 for `x`, which is float64", '.astype("float64")'),
        (stacked, "mixes int8 with float64", "astype"),
        (unknown, "'float16' is not a type that symbols can have", '.astype("int8")'),
    ],
)
def test_mixing_types_is_an_error_at_its_line(step, said, fix):
    with pytest.raises(tp.TraceError) as error:
        traced(step)()
    assert said in error.value.what and fix in error.value.fix
    assert error.value.site.file.endswith("test_integers.py")


def energy(q: tp.Int8["n"], p: tp.Array["n"]):
    return (p * p).sum()


def rate(x: tp.Int32):
    return x


@pytest.mark.parametrize(
    "kind, function",
    [
        (tp.hamiltonian, energy),
        (tp.ode, rate),
        (tp.forces, rate),
        (tp.potential, rate),
        (tp.lagrangian, energy),
    ],
)
def test_only_maps_have_whole_numbers(kind, function):
    with pytest.raises(
        tp.TraceError, match=r"is for real numbers: their derivatives are needed \(test_integers"
    ) as e:
        kind(function)
    assert "@tp.map" in e.value.fix


@tp.map
def counter(x: tp.Int8["n"], alive: tp.Bool["n"], rule: tp.Int8 = 3, on: tp.Bool = True):
    return x + rule + on, ~alive


GOOD = dict(x=np.zeros(4, np.int8), alive=np.zeros(4, bool))


@pytest.mark.parametrize(
    "given, said, fix",
    [
        (dict(x=np.zeros(4)), "`x` is int8 and was given floats", 'x=x.astype("int8")'),
        (dict(x=[1.0, 2.0, 3.0, 4.0]), "was given floats", 'x=np.asarray(x).astype("int8")'),
        (dict(x=2.0), "was given floats", "x=int(x)"),
        (dict(x=[1, 2.5, 3, 4]), "x[1] is 2.5", 'np.rint(x).astype("int8")'),
        (dict(x=[1, 2, np.nan, 4]), "x[2] is nan", "Check that number"),
        (dict(x=[1, 2, 1e6, 4.0]), "x[2] is 1e+06", "Check that number"),
        (dict(x=[1, 2, 300, 4]), "x[2] is 300, and int8 goes from -128 to 127", "tp.Int16"),
        (dict(x=[1, 2, 2**70, 4]), "x[2] is 1180591620717411303424", "wraps"),
        (dict(x=np.ones(4, bool)), "`x` is int8 and was given truth values", 'x.astype("int8")'),
        (dict(alive=np.ones(4, int)), "`alive` is bool and was given numbers (int64)", "alive != 0"),
        (dict(x="abc"), "it is text", "Pass x="),
        (dict(x=None), "`x` is None", "shape (4,)"),
        (dict(rule=2.5), "`rule` is 2.5, and must be a whole number from -128 to 127", "rule=1"),
        (dict(rule=300), "`rule` is 300", "rule=1"),
        (dict(on=2), "`on` is 2, and must be true or false", "on=True"),
    ],
)
def test_what_is_no_whole_number_is_named(given, said, fix):
    with pytest.raises(tp.InputError) as error:
        counter.compile(backend="python").evolve(**{**GOOD, **given}, steps=1)
    assert said in error.value.what and fix in error.value.fix


@pytest.mark.parametrize("x", [[1, 2, 3, 4], np.arange(4, dtype=np.uint8), np.arange(4, dtype=">i8")])
def test_whole_numbers_of_other_types_are_taken_where_they_fit(x):
    out = counter.compile(backend="python").evolve(
        **{**GOOD, "x": x}, rule=np.array([1, 2]), on=False, steps=1
    )
    assert out.final.x.dtype == np.int8 and np.array_equal(out.final.x[1], np.asarray(x) + 2)


def test_observables_mix_no_types_either():
    with pytest.raises(tp.TraceError, match="mixes int8 with float64"):
        counter.compile(backend="python").evolve(**GOOD, steps=1, observe={"a": lambda x: x * 0.5})
