"""Do the estimates of a device serve for roots and quotients (emit/kinds/ptx_rounded.py)?  A kernel looks at all.

A root must be the nearest number. A reciprocal, of x sqrt x and of every d, must come from an estimate that is right to 20
digits, and be the nearest number where d is just below a power of two: elsewhere that is not needed for a quotient to be the
nearest one (tools/rounded.c).
"""

from __future__ import annotations

import math

from tinyphysics.emit.kinds.ptx_rounded import NUMBER, Rounding, constant
from tinyphysics.emit.scalar.ptx import ATTRIBUTES, HEAD, SPECIAL
from tinyphysics.emit.scalar.ptx_tools import kernel
from tinyphysics.emit.text.writer import Writer

NAME = "estimates"
# as the bits of float32: all that can be a divisor, and what under a root has a reciprocal of x sqrt x
FIRST, LAST = (127 - 126) << 23, (127 + 60) << 23
FIRST_ROOT, LAST_ROOT = (127 - 86) << 23, (127 + 40) << 23
COUNT = LAST - FIRST + 1
RESIDUE = 2.0**-20  # of 1 - d z
MANTISSA, NEAR_POWER = 0x7FFFFF, 0x7FFFC0  # its last 64 values


def differs(w: Writer, a: str, b: str) -> str:
    return w.new(f"fcmp une float {a}, {b}")


def serves_not(r: Rounding, d: str, z: str) -> list[str]:
    """What speaks against z as the estimate of 1/d; one that is infinite makes no number, and is found out."""
    w = r.w
    finite = w.new(f"fcmp one float {z}, {constant(math.inf)}")
    nearest = w.new(f"fdiv float {constant(1.0)}, {d}")
    wrong = differs(w, r.reciprocal(d, z), nearest)
    digits = w.new(f"and i32 {w.new(f'bitcast float {d} to i32')}, {MANTISSA}")
    rough = w.new(f"fcmp ugt float {r.size(r.less(constant(1.0), d, z))}, {constant(RESIDUE)}")
    return [
        w.new(f"and i1 {wrong}, {w.new(f'icmp uge i32 {digits}, {NEAR_POWER}')}"),
        w.new(f"and i1 {rough}, {finite}"),
    ]


def module() -> str:
    """The word is set if one of `count` numbers from that with the bits `first` on does not serve."""
    w = Writer(1)
    r = Rounding(w)
    w.lines += ["  %place = add i64 %k, %first", "  %number = trunc i64 %place to i32"]
    x = w.new("bitcast i32 %number to float")
    root, y = r.root(x)
    seen = differs(w, root, w.call("sqrt", NUMBER, [x]))
    for more in serves_not(r, r.times(x, root), r.cube(y)):
        seen = w.new(f"or i1 {seen}, {more}")
    above = w.new(f"sub i32 %number, {FIRST_ROOT}")
    seen = w.new(f"and i1 {seen}, {w.new(f'icmp ule i32 {above}, {LAST_ROOT - FIRST_ROOT}')}")
    for more in serves_not(r, x, r.estimate("rcp", x)):
        seen = w.new(f"or i1 {seen}, {more}")
    body = [line.strip() for line in w.lines]
    body += [f"br i1 {seen}, label %set, label %next", "set:", "store i32 1, ptr %word", "br label %next"]
    text = kernel(NAME, "ptr %word, i64 %first, i64 %count", "%count", body)
    return "\n".join([HEAD, *SPECIAL.values(), *w.declared.values(), *text, ATTRIBUTES]) + "\n"
