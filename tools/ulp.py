"""How wrong is each elementary function at worst, in units in the last place?

    PYTHONPATH=src python tools/ulp.py                        # every function against mpmath: a table
    PYTHONPATH=src python tools/ulp.py sin cos --count 100000 # some of them, more points
    PYTHONPATH=src python tools/ulp.py --exhaustive-f32 sin   # all 2**32 float32 against our float64
    PYTHONPATH=src python tools/ulp.py --peak                 # is a cosine ever above 1?
    PYTHONPATH=src python tools/ulp.py --bias cos             # its mean error, for angles of some sizes

The points are the same on every run (`points`): random bit patterns, the interval where the function
varies, neighbours of multiples of pi/2 and of powers of two, subnormal and huge numbers.
"""

from __future__ import annotations

import argparse
import ctypes
import math
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import mpmath as mp
import numpy as np

from tinyphysics.ir import DType, Ops, UOp, bool_, f32, f64, toposort
from tinyphysics.rules.functions.transcendental import BOUNDS, guarded, lower

Array = np.ndarray[Any, Any]
TYPES: dict[DType, type] = {f64: np.float64, f32: np.float32}
TWO_ARGUMENTS = ("atan2", "hypot", "pow")
POWERS = tuple(n / 2 for n in range(-32, 33) if n)  # constant exponents, a column of their own


# --- the functions as graphs and as mpmath knows them ----------------------------------------------
def graph(name: str, dtype: DType) -> UOp:
    """A function of variables x and y; `pow:1.5` is a power with a constant exponent."""
    x, y = UOp.var("x", dtype=dtype), UOp.var("y", dtype=dtype)
    if name.startswith("pow:"):
        return x ** float(name[4:])
    if name == "pow":
        return x**y
    root: UOp = getattr(x, name)(y) if name in TWO_ARGUMENTS else getattr(x, name)()
    return root


def real_power(x: mp.mpf, y: mp.mpf) -> mp.mpf:
    return mp.power(x, y) if x > 0 or y == mp.floor(y) else mp.nan


REFERENCE: dict[str, Callable[..., mp.mpf]] = {
    "sqrt": mp.sqrt,
    "sin": mp.sin,
    "cos": mp.cos,
    "tan": mp.tan,
    "asin": mp.asin,
    "acos": mp.acos,
    "atan": mp.atan,
    "atan2": mp.atan2,
    "exp": mp.exp,
    "expm1": mp.expm1,
    "log": mp.log,
    "log1p": mp.log1p,
    "sinh": mp.sinh,
    "cosh": mp.cosh,
    "tanh": mp.tanh,
    "erf": mp.erf,
    "rsqrt": lambda x: 1 / mp.sqrt(x),
    "hypot": lambda x, y: mp.sqrt(x * x + y * y),
    "cbrt": lambda x: mp.sign(x) * mp.cbrt(abs(x)),
    "pow": real_power,
}
# where the function is defined, finite and not constant to the last bit: (low, high) in float64
INTERVAL: dict[str, tuple[float, float]] = {
    "sqrt": (0, 10),
    "sin": (-100, 100),
    "cos": (-100, 100),
    "tan": (-100, 100),
    "asin": (-1, 1),
    "acos": (-1, 1),
    "atan": (-5, 5),
    "exp": (-746, 710),
    "expm1": (-45, 710),
    "log": (0, 5),
    "log1p": (-1, 5),
    "rsqrt": (0, 10),
    "cbrt": (-10, 10),
    "sinh": (-711, 711),
    "cosh": (-711, 711),
    "tanh": (-20, 20),
    "erf": (-6, 6),
}
DOMAIN: dict[str, Callable[[Array], Array]] = {
    "sqrt": lambda x: x >= 0,
    "log": lambda x: x > 0,
    "rsqrt": lambda x: x > 0,
    "log1p": lambda x: x > -1,
    "asin": lambda x: abs(x) <= 1,
    "acos": lambda x: abs(x) <= 1,
}


def worst_ulp(name: str, dtype: DType, arguments: Sequence[Array], result: Array) -> tuple[float, int]:
    """The largest error in ulp and where it is; infinity for a NaN, an overflow counts as 2**(emax+1)."""
    precision, low, top = (53, -1074, 1024) if dtype is f64 else (24, -149, 128)
    reference = REFERENCE[name.partition(":")[0]]
    constant = [mp.mpf(float(name[4:]))] if name.startswith("pow:") else []
    worst, where = 0.0, 0
    with mp.workprec(150):
        for i, row in enumerate(zip(*(a.tolist() for a in arguments), result.tolist())):
            *x, got = row
            exact = reference(*(mp.mpf(v) for v in x), *constant)
            if mp.isnan(exact) and math.isnan(got):
                continue
            value = mp.ldexp(mp.sign(got), top) if math.isinf(got) else mp.mpf(got)
            if abs(exact) > mp.ldexp(1, top):
                exact = mp.ldexp(mp.sign(exact), top)
            exponent = max(mp.frexp(exact)[1] - precision, low) if exact else low
            error = float(mp.ldexp(abs(value - exact), -min(exponent, top - precision)))
            if not error <= worst:
                worst, where = (math.inf if math.isnan(error) else error), i
    return worst, where


# --- the published points --------------------------------------------------------------------------
def random_bits(n: int, stream: int) -> Array:
    """splitmix64 (Steele et al. 2014) of the index: the same numbers wherever it runs."""
    with np.errstate(over="ignore"):
        z = (np.arange(n, dtype=np.uint64) + np.uint64(stream << 32)) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def uniform(n: int, stream: int, low: float, high: float) -> Array:
    return low + (high - low) * (random_bits(n, stream) >> np.uint64(11)) * 2.0**-53


def patterns(n: int, stream: int, dtype: DType) -> Array:
    """Floats with random bits: every exponent as often as any other."""
    b = random_bits(n, stream)
    return b.view(np.float64) if dtype is f64 else (b >> np.uint64(32)).astype(np.uint32).view(np.float32)


def beside(x: Array, dtype: DType) -> Array:
    """Each x rounded to dtype, and its two neighbours on either side."""
    x = x.astype(TYPES[dtype])
    top = x.dtype.type(np.inf)
    up, down = np.nextafter(x, top), np.nextafter(x, -top)
    return np.concatenate([x, up, down, np.nextafter(up, top), np.nextafter(down, -top)])


def right_angles(n: int, dtype: DType) -> Array:
    """Multiples of pi/2, half of them with small factors, half with factors of any size below 2**40."""
    small = np.arange(1, n // 2 + 1, dtype=np.float64)
    large = np.floor(2.0 ** uniform(n // 2, 7, 1, 40 if dtype is f64 else 24))
    with mp.workprec(200):
        return np.array([float(mp.mpf(k) * mp.pi / 2) for k in np.concatenate([small, large]).tolist()])


HARDEST = [6381956970095103.0 * 2.0**797, 16367173 * 2.0**72, 2.0**1023, 3.4e38]  # next to k pi/2 (Muller)


def points(name: str, dtype: DType, n: int) -> list[Array]:
    """About n arguments of a function, or n pairs."""
    real = TYPES[dtype]
    if name == "pow":
        return power_points(dtype, n)
    if name in TWO_ARGUMENTS:
        x, near = patterns(n, 1, dtype), 2.0 ** uniform(n, 2, -30, 30)
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            y = np.where(np.arange(n) % 4 == 0, patterns(n, 3, dtype), x * near).astype(real)
        keep = np.isfinite(x) & np.isfinite(y)
        return [x[keep], y[keep]]
    base = name.partition(":")[0]
    low, high = INTERVAL.get(base, (-4, 4))
    if dtype is f32 and max(abs(low), abs(high)) > 100:
        low, high = low / 7, high / 8
    m = max(n // 6, 8)
    with np.errstate(over="ignore", under="ignore"):
        x = np.concatenate(
            [
                patterns(m, 1, dtype),
                uniform(2 * m, 2, low, high).astype(real),
                (2.0 ** uniform(m, 3, -60, 6) * np.where(np.arange(m) % 2, 1, -1)).astype(real),
                beside(right_angles(max(m // 5, 2), dtype), dtype),
                beside(np.outer([1.0, -1.0], 2.0 ** np.arange(-30, 31)).ravel(), dtype)[: max(m, 200)],
                beside(np.array([0.0, 0.5, -0.5, *HARDEST]), dtype),
                np.ldexp(uniform(max(m // 8, 8), 4, 1, 2), -1050 if dtype is f64 else -140).astype(real),
                beside(1 + uniform(max(m // 8, 8), 5, -1e-3, 1e-3), dtype),
            ]
        )
    x = x[np.isfinite(x)]
    if name.startswith("pow:"):
        return [x[(x > 0) | ((x < 0) & (float(name[4:]) % 1 == 0))]]
    return [x[DOMAIN[base](x)] if base in DOMAIN else x]


def power_points(dtype: DType, n: int) -> list[Array]:
    """Bases of every size with exponents that lead anywhere in the range, and negative bases."""
    real, top = TYPES[dtype], 745 if dtype is f64 else 103
    m = n // 4
    x = np.concatenate(
        [
            abs(patterns(2 * m, 1, dtype)),
            uniform(m, 2, 0.5, 2).astype(real),
            1 + uniform(m, 3, -1e-4, 1e-4).astype(real),
        ]
    )
    keep = np.isfinite(x) & (x > 0) & (x != 1)
    x = x[keep]
    with np.errstate(over="ignore", under="ignore"):
        y = (uniform(len(x), 4, -top, top) / np.log(x.astype(np.float64))).astype(real)
    whole = np.arange(len(x)) % 8 == 0
    y = np.where(whole, np.round(y), y)
    x = np.where(whole & (np.arange(len(x)) % 16 == 0), -x, x)
    return [x, y]


# --- a graph as C ----------------------------------------------------------------------------------
C_TYPE = {
    "f64": "double",
    "f32": "float",
    "i64": "int64_t",
    "i32": "int32_t",
    "u64": "uint64_t",
    "u32": "uint32_t",
    "bool": "_Bool",
}
INFIX = {
    Ops.ADD: "+",
    Ops.SUB: "-",
    Ops.MUL: "*",
    Ops.DIV: "/",
    Ops.AND: "&",
    Ops.OR: "|",
    Ops.XOR: "^",
    Ops.SHL: "<<",
    Ops.SHR: ">>",
    Ops.LT: "<",
    Ops.LE: "<=",
    Ops.EQ: "==",
    Ops.NE: "!=",
}
FLAGS = "-O3 -march=native -ffp-contract=off -fno-math-errno -fno-trapping-math -shared -fPIC".split()


def literal(u: UOp) -> str:
    if not u.dtype.is_float:
        return f"({C_TYPE[u.dtype.name]}){int(u.arg) % 2**u.dtype.bits}ULL"
    if not math.isfinite(u.arg):
        return "NAN" if math.isnan(u.arg) else "INFINITY" if u.arg > 0 else "-INFINITY"
    return f"({C_TYPE[u.dtype.name]}){u.arg.hex()}"


def expression(u: UOp, s: Sequence[str]) -> str:
    t, suffix = C_TYPE[u.dtype.name], "f" if u.dtype is f32 else ""
    match u.op:
        case Ops.CONST:
            return literal(u)
        case Ops.FMA:
            return f"__builtin_fma{suffix}({', '.join(s)})"
        case Ops.SQRT:
            return f"__builtin_sqrt{suffix}({s[0]})"
        case Ops.NEG:
            return f"-{s[0]}" if u.dtype.is_float else f"({t})(0 - (u{t.lstrip('u')}){s[0]})"
        case Ops.NOT:
            return f"{'!' if u.dtype is bool_ else '~'}{s[0]}"
        case Ops.WHERE:
            return f"{s[0]} ? {s[1]} : {s[2]}"
        case Ops.CAST:
            return f"({t}){s[0]}"
        case Ops.BITCAST:
            return f"((union {{ {C_TYPE[u.src[0].dtype.name]} a; {t} b; }}){{ .a = {s[0]} }}).b"
        case Ops.MULHI:
            return f"({t})((uint64_t){s[0]} * {s[1]} >> 32)"
    if u.dtype.is_int:
        unsigned = f"u{t.lstrip('u')}"  # wraps instead of overflowing, and shifts zeros in
        return f"({t})(({unsigned}){s[0]} {INFIX[u.op]} ({unsigned}){s[1]})"
    return f"{s[0]} {INFIX[u.op]} {s[1]}"


def function_text(name: str, root: UOp) -> str:
    t = C_TYPE[root.dtype.name]
    lines, names = [], {}
    for i, u in enumerate(toposort([root])):
        names[u] = u.arg if u.op is Ops.VAR else f"v{i}"
        if u.op is not Ops.VAR:
            text = expression(u, [names[s] for s in u.src])
            lines.append(f"  const {C_TYPE[u.dtype.name]} v{i} = {text};")
    body = "\n".join(lines)
    return f"static inline {t} {name}({t} x, {t} y) {{\n{body}\n  return {names[root]};\n}}\n"


HEAD = "#include <stdint.h>\n#include <math.h>\n#include <string.h>\n"


def compiled(text: str) -> ctypes.CDLL:
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder) / "f.c", Path(folder) / "f.so"
        source.write_text(HEAD + text)
        subprocess.run(["gcc", *FLAGS, str(source), "-o", str(library), "-lm"], check=True)
        return ctypes.CDLL(str(library))


def run(root: UOp, arguments: Sequence[Array]) -> Array:
    """The values of a lowered graph of x and y, by way of gcc."""
    t, real = C_TYPE[root.dtype.name], TYPES[root.dtype]
    head = f"void go(long n, const {t}* x, const {t}* y, {t}* z)"
    loop = f"{head} {{ for (long i = 0; i < n; i++) z[i] = f(x[i], y[i]); }}"
    go = compiled(function_text("f", root) + loop).go
    columns = [np.ascontiguousarray(a, dtype=real) for a in (arguments[0], arguments[-1])]
    out = np.empty_like(columns[0])
    go(ctypes.c_long(len(out)), *(ctypes.c_void_p(a.ctypes.data) for a in (*columns, out)))
    return out


EXHAUSTIVE = """
void go(long first, long n, double* worst, uint32_t* where) {
  for (long b = first; b < first + n; b += 256) {
    double e[256];
    for (int j = 0; j < 256; j++) {
      const uint32_t bits = (uint32_t)(b + j);
      const float x = ((union { uint32_t a; float b; }){ .a = bits }).b;
      const double exact = wide((double)x, 0.0), got = (double)narrow(x, 0.0f);
      const int64_t raw = ((union { double a; int64_t b; }){ .a = exact }).b & 0x7ff0000000000000LL;
      int64_t field = raw - ((int64_t)23 << 52);                            /* ulp of a float32 there */
      field = field < (int64_t)(1023 - 149) << 52 ? (int64_t)(1023 - 149) << 52 : field;
      field = field > (int64_t)(1023 + 104) << 52 ? (int64_t)(1023 + 104) << 52 : field;
      const double ulp = ((union { int64_t a; double b; }){ .a = field }).b;
      const double top = 0x1p128;
      const double want = exact > top ? top : exact < -top ? -top : exact;
      const double have = got > top ? top : got < -top ? -top : got;
      const double d = fabs(have - want) / ulp;
      e[j] = want != want && have != have ? 0.0 : d == d ? d : INFINITY;
    }
    for (int j = 0; j < 256; j++) if (e[j] > *worst) { *worst = e[j]; *where = (uint32_t)(b + j); }
  }
}
"""


def exhaustive(name: str) -> None:
    """Every float32 against the float64 function, whose own error is 2**-29 of these units."""
    narrow, wide = (lower([graph(name, d)])[0] for d in (f32, f64))
    go = compiled(function_text("narrow", narrow) + function_text("wide", wide) + EXHAUSTIVE).go
    worst, where = ctypes.c_double(0.0), ctypes.c_uint32(0)
    for first in range(0, 1 << 32, 1 << 28):
        go(ctypes.c_long(first), ctypes.c_long(1 << 28), ctypes.byref(worst), ctypes.byref(where))
        x = np.array([where.value], np.uint32).view(np.float32)[0]
        done = f"{name} up to 0x{first + (1 << 28) - 1:08x}"
        print(f"{done}: {worst.value:.4f} ulp at {float(x).hex()}", flush=True)


def peak(dtype: DType) -> None:
    """cos at every x that gives the reduced argument another float near pi/2, where 1 must not be passed."""
    root = lower([graph("cos", dtype)])[0]
    step, last = (2.0**-52, 2**26) if dtype is f64 else (2.0**-23, 2**14)
    size = min(last, 2**22)
    parts = (np.arange(first, first + size) * step for first in range(-last, last, size))
    top = max(float(np.max(run(root, [x]))) for x in parts)
    print(f"{dtype}: cos is at most {top!r} at the {2 * last:,} multiples of {step} around 0")


def bias(name: str, dtype: DType, low: float, high: float, n: int) -> tuple[float, float]:
    """(mean error in ulp, with its sign; how far that may be off) for arguments between two numbers."""
    x, precision = uniform(n, 11, low, high).astype(TYPES[dtype]), 53 if dtype is f64 else 24
    errors = []
    with mp.workprec(150):
        for at, got in zip(x.tolist(), run(lower([graph(name, dtype)])[0], [x]).tolist()):
            exact = REFERENCE[name](mp.mpf(at))
            errors.append(float(mp.ldexp(mp.mpf(got) - exact, precision - mp.frexp(exact)[1])))
    return float(np.mean(errors)), float(np.std(errors)) / math.sqrt(n)


def biases(name: str, n: int) -> None:
    for low, high in ((0.0, 1e-3), (1e-3, 1e-2), (1e-2, 0.1), (0.1, 0.3), (0.3, 0.6), (0.6, 1.0), (1.0, 1.5)):
        cells = ("{:+.3f} ({:.3f})".format(*bias(name, dtype, low, high, n)) for dtype in (f64, f32))
        print(f"{name} of {low:g} to {high:g}: mean error in ulp", " f32 ".join(cells), flush=True)


# --- the table -------------------------------------------------------------------------------------
def operations(root: UOp) -> int:
    return sum(u.op not in (Ops.CONST, Ops.VAR, Ops.BITCAST) for u in toposort([root]))


def measure(name: str, dtype: DType, n: int) -> tuple[float, list[float], int]:
    """(largest error in ulp, where, operations on the fast path)."""
    x, root = points(name, dtype, n), graph(name, dtype)
    error, i = worst_ulp(name, dtype, x, run(lower([root])[0], x))
    return error, [float(a[i]) for a in x], operations(guarded([root])[0][0])


def main() -> None:
    plain = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=plain)
    parser.add_argument("names", nargs="*", help="functions; all if none is given")
    parser.add_argument("--count", type=int, default=20_000, help="points for each function")
    parser.add_argument("--exhaustive-f32", metavar="NAME", help="all float32 of a function of one argument")
    parser.add_argument("--peak", action="store_true", help="whether a cosine near 1 is ever above it")
    parser.add_argument("--bias", metavar="NAME", help="the mean error of a function of one argument")
    given = parser.parse_args()
    if given.peak:
        peak(f64)
        peak(f32)
        return
    if given.bias:
        biases(given.bias, given.count)
        return
    if given.exhaustive_f32:
        exhaustive(given.exhaustive_f32)
        return
    cell = f"{'ulp':>8} {'bound':>6} {'ops':>4}"
    print(f"{'function':10} f64{cell[3:]}    f32{cell[3:]}    worst points")
    for name in given.names or [*BOUNDS, *(f"pow:{y:g}" for y in POWERS)]:
        bound = BOUNDS[name.partition(":")[0]]
        cells, where = [], []
        for dtype, b in zip((f64, f32), bound):
            error, at, ops = measure(name, dtype, given.count)
            cells.append(f"{error:8.3f} {b:6.2f} {ops:4}{'   ' if error <= b else ' ! '}")
            where.append(", ".join(v.hex() for v in at))
        print(f"{name:10}", *cells, "; ".join(where), flush=True)


if __name__ == "__main__":
    main()
