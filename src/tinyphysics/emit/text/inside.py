"""How does a GPU divide and take roots where numbers are known to be far from the ends of the range (ir.ops.INSIDE)?

By the instructions that the assembler writes for `div.rn.f64` and `sqrt.rn.f64` themselves, with the same bits: an
estimate, two steps of Newton, and a last one with the remainder, which is exact and rounds to the nearest number (Markstein
1990). What is left out is the look for numbers near the ends, with a jump to what is slow, over which the assembler moves
nothing.
"""

from __future__ import annotations

from typing import Protocol

LESS = 0x3500000  # of the high word of a root's argument: what the assembler has there as the low word of the estimate
HALF_EXPONENT = 1 << 20  # of a high word: one less is half the number


class Lines(Protocol):
    """What emit/text/writer.py offers."""

    declared: dict[str, str]

    def new(self, text: str) -> str: ...


def constant(x: float) -> str:
    return f"{x:e}"


def fma(w: Lines, a: str, b: str, c: str) -> str:
    w.declared["@llvm.fma.f64"] = "declare double @llvm.fma.f64(double, double, double)"
    return w.new(f"call double @llvm.fma.f64(double {a}, double {b}, double {c})")


def bits(w: Lines, x: str) -> str:
    return w.new(f"bitcast double {x} to i64")


def number(w: Lines, x: str) -> str:
    return w.new(f"bitcast i64 {x} to double")


def estimate(w: Lines, what: str, x: str, low: str) -> str:
    """An instruction's, which has the high word alone, with a low word."""
    name = f"@llvm.nvvm.{what}.approx.ftz.d"
    w.declared[name] = f"declare double {name}(double)"
    high = bits(w, w.new(f"call double {name}(double {x})"))
    return number(w, w.new(f"or i64 {high}, {low}"))


def quotient(w: Lines, a: str, b: str) -> str:
    """a/b, rounded to the nearest; a is not -0."""
    y = estimate(w, "rcp", b, "1")
    less = w.new(f"fneg double {b}")
    e = fma(w, less, y, constant(1.0))
    y = fma(w, y, fma(w, e, e, e), y)
    y = fma(w, y, fma(w, less, y, constant(1.0)), y)
    q = w.new(f"fmul double {a}, {y}")
    return fma(w, y, fma(w, less, q, a), q)


def root(w: Lines, x: str) -> str:
    """sqrt x, rounded to the nearest; of 0 it is that 0."""
    high = w.new(f"lshr i64 {bits(w, x)}, 32")
    low = w.new(f"sub i64 {high}, {LESS}")
    y = estimate(w, "rsqrt", x, w.new(f"and i64 {low}, {0xFFFFFFFF}"))
    square = w.new(f"fmul double {y}, {y}")
    e = fma(w, x, w.new(f"fneg double {square}"), constant(1.0))
    y = fma(w, fma(w, e, constant(0.375), constant(0.5)), w.new(f"fmul double {y}, {e}"), y)
    r = w.new(f"fmul double {x}, {y}")
    half = number(w, w.new(f"sub i64 {bits(w, y)}, {HALF_EXPONENT << 32}"))
    rest = fma(w, w.new(f"fneg double {r}"), r, x)
    found = fma(w, rest, half, r)
    nothing = w.new(f"fcmp oeq double {x}, {constant(0.0)}")
    return w.new(f"select i1 {nothing}, double {x}, double {found}")
