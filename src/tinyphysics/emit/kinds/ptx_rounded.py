"""How is a root or a quotient of float32 rounded correctly on a GPU without a jump?  From the estimates that it has.

The instructions sqrt.rn and div.rn look at their arguments and jump, so that those of several partners wait for each other.
Here they are computed side by side,

    root:      y ~ 1/sqrt x,  s = x y,  s + (x - s s) y/2
    quotient:  z ~ 1/d,  g = 1 - d z,  r = z + z (g + g g),  q = n r,  q + (n - d q) r

and it is noted whether a number was so large or so small that a remainder may have been rounded: then all has to be done
again with those instructions. Where d is x sqrt x, as in a force that falls with the square of a distance, z is y^3, and
there is one estimate in all.

Whether these are the nearest numbers depends on the estimates alone, and there are few of them: 2^24 for roots, since an
argument that is 4 times as large has half the estimate, and 2^23 for quotients. A device is asked for all of them
(emit/kinds/ptx_estimates.py). That nothing else is needed is what tools/rounded.c goes through.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tinyphysics.emit.loops.nest_writer import Names, NestWriter
from tinyphysics.emit.text.writer import Writer
from tinyphysics.ir.dtype import f32
from tinyphysics.ir.ops import Ops
from tinyphysics.ir.uop import UOp, toposort
from tinyphysics.tpir.kernels.nests import Store

NUMBER = UOp.var("number", (), f32)  # of this type all is
# sizes between which nothing overflows, and every remainder has all of its digits
OF_ROOT = (2.0**-40, 2.0**40)
OF_DIVISOR = (2.0**-60, 2.0**60)  # x sqrt x is between these if x is between those
OF_DIVIDEND = (2.0**-64, 2.0**62)
PASSES = (Ops.ADD, Ops.SUB, Ops.MUL, Ops.NEG, Ops.FMA, Ops.DIV, Ops.SQRT)  # what is made of no number is none


def constant(x: float) -> str:
    return Writer(1).constant(UOp.const(x, f32))


@dataclass
class Rounding:
    """What is written for one number after the other."""

    w: Writer
    doubts: list[str] = field(default_factory=list)  # was a number out of range?

    def fma(self, a: str, b: str, c: str) -> str:
        return self.w.call("fma", NUMBER, [a, b, c])

    def times(self, a: str, b: str) -> str:
        return self.w.new(f"fmul float {a}, {b}")

    def less(self, a: str, b: str, c: str) -> str:
        """a - b c, rounded once."""
        return self.fma(self.w.new(f"fneg float {b}"), c, a)

    def size(self, x: str) -> str:
        return self.w.call("fabs", NUMBER, [x])

    def estimate(self, what: str, x: str) -> str:
        name = f"@llvm.nvvm.{what}.approx.ftz.f"
        self.w.declared[name] = f"declare float {name}(float)"
        return self.w.new(f"call float {name}(float {x})")

    def root(self, x: str) -> tuple[str, str]:
        """(sqrt x, the estimate of its reciprocal)."""
        y = self.estimate("rsqrt", x)
        s = self.times(x, y)
        return self.fma(self.less(x, s, s), self.times(y, constant(0.5)), s), y

    def cube(self, y: str) -> str:
        return self.times(self.times(y, y), y)

    def reciprocal(self, d: str, z: str) -> str:
        g = self.less(constant(1.0), d, z)
        return self.fma(z, self.fma(g, g, g), z)

    def quotient(self, n: str, d: str, z: str) -> str:
        r = self.reciprocal(d, z)
        q = self.times(n, r)
        return self.fma(self.less(n, d, q), r, q)

    def at_least(self, x: str, least: float) -> None:
        """Doubt if x is smaller, or no number."""
        self.doubts.append(self.w.new(f"fcmp ult float {self.size(x)}, {constant(least)}"))

    def at_most(self, x: str, most: float) -> None:
        self.doubts.append(self.w.new(f"fcmp ugt float {self.size(x)}, {constant(most)}"))


def is_special(u: UOp) -> bool:
    return u.op in (Ops.SQRT, Ops.DIV) and u.dtype is f32


def root_in(d: UOp) -> UOp | None:
    """The root of a divisor that is x sqrt x."""
    if d.op is not Ops.MUL:
        return None
    return next((b for a, b in (d.src, d.src[::-1]) if b.op is Ops.SQRT and b.src[0] is a), None)


class Sums:
    """Sums of special numbers: which of them would show in a sum, if they were none?

    Those need to be looked at from one side. Of a dividend that is too large and a divisor that is too small nothing finite
    is made, and no root under such a divisor is seen.
    """

    def __init__(self, stores: Sequence[Store], guards: Sequence[UOp]) -> None:
        self.roots = [*(s.value for s in stores), *guards]
        order = toposort(self.roots)
        self.special = [u for u in order if is_special(u)]
        shown = {s.value for s in stores if s.combine is Ops.ADD}
        for u in reversed(order):
            if u in shown and u.op in PASSES:
                shown.update(u.src)
        self.shown = {u for u in self.special if u in shown}
        users: dict[UOp, list[UOp]] = {}
        for u in order:
            for s in u.src:
                users.setdefault(s, []).append(u)
        kept = set(self.roots)

        def divides(d: UOp) -> bool:
            return d not in kept and all(
                u in self.shown and u.op is Ops.DIV and u.src[1] is d and u.src[0] is not d for u in users[d]
            )

        self.shown -= {
            u
            for u in self.special
            if u.op is Ops.SQRT and (u in kept or not all(root_in(d) is u and divides(d) for d in users[u]))
        }

    def number(self, r: Rounding, u: UOp, env: Names, estimates: dict[UOp, str]) -> str:
        """A root or a quotient."""
        a = [r.w.ref(s, env) for s in u.src]
        both = u not in self.shown
        if u.op is Ops.SQRT:
            r.at_most(a[0], OF_ROOT[1])
            if both:
                r.at_least(a[0], OF_ROOT[0])
            out, estimates[u] = r.root(a[0])
            return out
        n, d = u.src
        root = root_in(d)
        if root in estimates:
            z = r.cube(estimates[root])
        else:
            r.at_most(a[1], OF_DIVISOR[1])
            if both:
                r.at_least(a[1], OF_DIVISOR[0])
            z = r.estimate("rcp", a[1])
        if n.op is not Ops.CONST or not OF_DIVIDEND[0] <= abs(n.arg) <= OF_DIVIDEND[1]:
            r.at_least(a[0], OF_DIVIDEND[0])
            if both:
                r.at_most(a[0], OF_DIVIDEND[1])
        return r.quotient(a[0], a[1], z)

    def side_by_side(self, f: NestWriter, envs: Sequence[Names]) -> list[str]:
        """The roots in several environments, one operation beside the other; the names of doubts."""
        r = Rounding(f.w)
        estimates: list[dict[UOp, str]] = [{} for _ in envs]
        for u in toposort(self.roots):
            for env, known in zip(envs, estimates):
                if u in env or u.op is Ops.CONST:
                    continue
                if is_special(u):
                    env[u] = self.number(r, u, env, known)
                else:
                    f.one(u, env)
        return r.doubts
