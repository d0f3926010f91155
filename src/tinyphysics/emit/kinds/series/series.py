"""A Taylor step as LLVM IR: loops over the coefficients that are there, four sums of products to a vector.

One member at a time: its own numbers fill the vectors. What is linear is written out twice, for the first coefficient and
for all others. No pass runs on this text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

from tinyphysics.emit.scalar.llvm import RESTORE_MODE, SET_MODE
from tinyphysics.emit.text.writer import FLOAT, OnWriter, Writer, lines_for, literal
from tinyphysics.ir.ops import Ops
from tinyphysics.ir.uop import UOp
from tinyphysics.rules.calculus.series import QUAD, RECURRENT, Quad, SeriesPlan, Sums, beginning, exponents
from tinyphysics.rules.functions.transcendental import lower

TOGETHER = 6  # quads whose sums run side by side: the latency of one hides behind the others
VECTOR = "<4 x double>"
ARGUMENTS = "ptr %state, ptr %constants, ptr %tables, ptr %scratch, double %until, i64 %count"


class SeriesWriter(OnWriter):
    """The text of one module; numbers lie as device/engines/series.py says."""

    def __init__(
        self, plan: SeriesPlan, update: Sequence[UOp], look: UOp, time: Sequence[UOp], length: UOp
    ) -> None:
        self.plan, self.update, self.look, self.time, self.length = plan, update, look, time, length
        self.w = Writer(1, careful=True)
        self.padded = -(-len(plan.states) // QUAD) * QUAD
        self.low = (
            plan.order + 1
        ) * self.padded  # where error words are, in numbers from the beginning of a member
        self.clock = self.low + self.padded
        self.constant = {u: k for k, u in enumerate(plan.constants)}
        self.index = {s: k for k, s in enumerate(plan.states)}
        self.inverse: dict[Quad, int] = {}
        self.temporary: dict[Quad, int] = {}
        for level in plan.sums:
            for s in level:
                for q in s.out:
                    if s.kind in RECURRENT:
                        self.inverse.setdefault(q, len(self.inverse))
                    if q not in plan.stored:
                        self.temporary.setdefault(q, len(self.temporary))
        self.row = plan.order * QUAD  # numbers of a quad
        self.inverses = len(plan.stored) * self.row
        self.temporaries = self.inverses + len(self.inverse) * QUAD
        self.scratch = max(
            self.temporaries + len(self.temporary) * QUAD, self.padded
        )  # numbers that are wanted

    # --- small things ---------------------------------------------------------------------------------------
    def at(self, base: str, offset: int | str) -> str:
        return self.new(f"getelementptr double, ptr {base}, i64 {offset}")

    def load(self, base: str, offset: int | str, type_: str = "double") -> str:
        return self.new(f"load {type_}, ptr {self.at(base, offset)}, align 8")

    def store(self, value: str, base: str, offset: int | str, type_: str = "double") -> None:
        self.line(f"store {type_} {value}, ptr {self.at(base, offset)}, align 8")

    def times(self, k: str, n: int, plus: int = 0) -> str:
        """k*n + plus, of a whole number that is known or not."""
        if k.lstrip("-").isdigit():
            return str(int(k) * n + plus)
        product = self.new(f"mul i64 {k}, {n}")
        return self.new(f"add i64 {product}, {plus}") if plus else product

    def expression(self, width: int, roots: Sequence[UOp], env: dict[UOp, str]) -> list[str]:
        self.w.width, low = width, lower(roots)
        lines_for(self.w, low, [env])
        out = [self.w.ref(u, env) for u in low]
        self.w.width = 1
        return out

    def fma(self, a: str, b: str, c: str) -> str:
        self.w.declared["@llvm.fma.v4f64"] = f"declare {VECTOR} @llvm.fma.v4f64({VECTOR}, {VECTOR}, {VECTOR})"
        return self.new(f"call {VECTOR} @llvm.fma.v4f64({VECTOR} {a}, {VECTOR} {b}, {VECTOR} {c})")

    # --- one order ------------------------------------------------------------------------------------------
    def one_order(self, k: str) -> None:
        """The rates' coefficient k from those of the states, and with it the states' next one."""
        plan, zero = self.plan, k == "0"
        self.k, self.values, self.found = k, dict[UOp, str](), dict[UOp, str]()
        self.waiting: dict[int, dict[int, str]] = {}
        self.here = self.times(k, QUAD)
        for s in plan.states:
            self.keep(s, self.value(s))
        for linear, sums in zip(plan.linear, plan.sums):
            for u in linear:
                self.keep(u, self.combined(u, zero))
            for group in sums:
                (self.first if zero else self.later)(group)
        step = "" if zero else self.load("%tables", k)
        row = self.times(k, self.padded, self.padded)
        for i, r in enumerate(plan.rates):
            if plan.moves(r):
                x = self.value(r)
            else:
                x = self.load("%constants", self.constant[r]) if zero else literal(UOp.const(0.0))
            x = x if zero else self.new(f"fmul double {x}, {step}")
            self.store(x, "%state", self.plus(row, i))

    def plus(self, row: str, i: int) -> str:
        return str(int(row) + i) if row.isdigit() else self.new(f"add i64 {row}, {i}")

    def value(self, u: UOp) -> str:
        """The coefficient of a number that is known by now."""
        if u in self.values:
            return self.values[u]
        if u in self.index:
            name = self.load("%state", self.plus(self.times(self.k, self.padded), self.index[u]))
        else:
            name = self.load("%scratch", self.found[u])
        self.values[u] = name
        return name

    def keep(self, u: UOp, name: str) -> None:
        """A coefficient for every quad that wants it."""
        self.values[u] = name
        for number, lane in self.plan.kept.get(u, ()):
            self.fill(number, lane, name)

    def fill(self, number: int, lane: int, name: str) -> None:
        """One number of a quad; the four are stored together, so that a vector that is read soon is there."""
        lanes = self.waiting.setdefault(number, {})
        lanes[lane] = name
        if len(lanes) < QUAD:
            return
        vector = "poison"
        for k in range(QUAD):
            vector = self.new(f"insertelement {VECTOR} {vector}, double {lanes[k]}, i64 {k}")
        self.store(vector, "%scratch", self.plus(self.here, number * self.row), VECTOR)

    def combined(self, u: UOp, zero: bool) -> str:
        """A linear operation; what does not move is a factor of every coefficient, and an addend of the first alone."""
        scales = u.op in (Ops.MUL, Ops.DIV)
        names = [
            self.value(s)
            if self.plan.moves(s)
            else self.load("%constants", self.constant[s])
            if zero or scales
            else ""
            for s in u.src
        ]
        if u.op is Ops.NEG or u.op is Ops.SUB and not names[0]:
            return self.new(f"fneg double {names[-1]}")
        if not all(names):
            return next(name for name in names if name)
        return self.new(f"{FLOAT[u.op]} double {names[0]}, {names[1]}")

    # --- sums of products -----------------------------------------------------------------------------------
    def quad(self, q: Quad, index: str) -> str:
        """A vector of coefficients: of a quad that is kept, by order; of another, the only one."""
        if q in self.plan.stored:
            return self.load("%scratch", self.times(index, QUAD, self.plan.stored[q] * self.row), VECTOR)
        return self.load("%scratch", self.temporaries + self.temporary[q] * QUAD, VECTOR)

    def put(self, q: Quad, name: str, k: str) -> None:
        """What came out, where linear operations and other quads find it."""
        if q in self.plan.stored:
            offset = self.times(k, QUAD, self.plan.stored[q] * self.row)
        else:
            offset = str(self.temporaries + self.temporary[q] * QUAD)
        self.store(name, "%scratch", offset, VECTOR)
        for lane, u in enumerate(q):
            if u in self.found:
                continue
            self.found[u] = self.plus(offset, lane)
            for number, where in self.plan.kept.get(u, ()):
                if number != self.plan.stored.get(q, -1):
                    self.fill(number, where, self.value(u))

    def first(self, s: Sums) -> None:
        for n, q in enumerate(s.out):
            a = [self.quad(group[n], "0") for group in s.operands]
            u = q[0]
            names = [UOp.var(f"x{k}") for k in range(len(a))]
            out = self.expression(QUAD, beginning(s.kind, u, names), dict(zip(names, a)))
            if len(out) > 1:
                self.store(out[1], "%scratch", self.inverses + self.inverse[q] * QUAD, VECTOR)
            self.put(q, out[0], "0")

    def later(self, s: Sums) -> None:
        for begin in range(0, len(s.out), TOGETHER):
            self.together(s, range(begin, min(begin + TOGETHER, len(s.out))))

    def together(self, s: Sums, which: range) -> None:
        k = self.k
        if s.kind in ("square", "root"):
            first = 0 if s.kind == "square" else 1
            half = self.new(
                f"lshr i64 {self.new(f'add i64 {k}, 1')}, 1"
            )  # pairs of different coefficients: j below that
            count = self.new(f"sub i64 {half}, {first}")
            outer = self.new(f"sub i64 {half}, 1")
            rows = s.operands[0] if s.kind == "square" else s.out

            def inwards(i: str, _: str) -> list[tuple[str, str]]:
                """From the middle to the ends: the newest coefficient is the last to be wanted."""
                j = self.new(f"sub i64 {outer}, {i}")
                back = self.new(f"sub i64 {k}, {j}")
                return [(self.quad(rows[n], j), self.quad(rows[n], back)) for n in which]

            sums = self.summed(0, count, which, inwards)
            middle = self.new(f"lshr i64 {k}, 1")
            even = self.splat(self.load("%tables", self.plus_name(k, self.plan.order)))
            for n, x in zip(which, sums):
                twice = self.new(f"fadd {VECTOR} {x}, {x}")
                centre = self.quad(rows[n], middle)
                whole = self.fma(self.new(f"fmul {VECTOR} {even}, {centre}"), centre, twice)
                if s.kind == "root":
                    whole = self.solved(
                        s, n, self.new(f"fsub {VECTOR} {self.quad(s.operands[0][n], k)}, {whole}")
                    )
                self.put(s.out[n], whole, k)
            return
        if s.kind == "product":
            a, b = s.operands
            pairs = lambda j, back: [(self.quad(a[n], j), self.quad(b[n], back)) for n in which]  # noqa: E731
            sums = self.summed(0, self.new(f"add i64 {k}, 1"), which, pairs)
            for n, x in zip(which, sums):
                self.put(s.out[n], x, k)
            return
        end = self.new(f"add i64 {k}, 1")
        if s.kind == "quotient":
            a, b = s.operands
            sums = self.summed(
                1,
                end,
                which,
                lambda j, back: [(self.quad(b[n], j), self.quad(s.out[n], back)) for n in which],
            )
            for n, x in zip(which, sums):
                self.put(s.out[n], self.solved(s, n, self.new(f"fsub {VECTOR} {self.quad(a[n], k)}, {x}")), k)
            return
        table = self.times(k, self.plan.order, self.weights(s.exponent))

        def weighed(j: str, back: str) -> list[tuple[str, str]]:
            one = self.load("%tables", self.new(f"add i64 {table}, {j}"))
            wide = self.splat(one)
            return [
                (
                    self.new(f"fmul {VECTOR} {wide}, {self.quad(s.operands[0][n], j)}"),
                    self.quad(s.out[n], back),
                )
                for n in which
            ]

        for n, x in zip(which, self.summed(1, end, which, weighed)):
            self.put(s.out[n], self.solved(s, n, x), k)

    def solved(self, s: Sums, n: int, rest: str) -> str:
        factor = self.load("%scratch", self.inverses + self.inverse[s.out[n]] * QUAD, VECTOR)
        return self.new(f"fmul {VECTOR} {rest}, {factor}")

    def weights(self, exponent: Fraction | None) -> int:
        """Where the table of a power begins."""
        assert exponent is not None
        return 2 * self.plan.order + exponents(self.plan).index(exponent) * self.plan.order**2

    def summed(
        self, start: int, end: str, which: range, pairs: Callable[[str, str], list[tuple[str, str]]]
    ) -> list[str]:
        """Sums of products over j from start to end, j and k - j."""

        def term(j: str, sums: list[str]) -> list[str]:
            terms = pairs(j, self.new(f"sub i64 {self.k}, {j}"))
            return [self.fma(a, b, x) for (a, b), x in zip(terms, sums)]

        return self.w.loop(str(start), end, [(VECTOR, "zeroinitializer")] * len(which), term)

    # --- the whole step -------------------------------------------------------------------------------------
    def module(self, x86: bool) -> str:
        whole: list[str] = []
        for name, write in (("advance", self.advance), ("look", self.looking)):
            write(x86)
            whole += [f"define void @{name}({ARGUMENTS}) #0 {{", "entry:", *self.taken(), "  ret void", "}"]
        attributes = 'attributes #0 = { nounwind "prefer-vector-width"="256" "stackrealign" }'
        return "\n".join([*self.w.declared.values(), *whole, attributes]) + "\n"

    def taken(self) -> list[str]:
        """The lines of a function that is complete."""
        out, self.w.lines, self.w.block = self.w.lines, [], "entry"
        return out

    def mode(self, x86: bool, text: str) -> None:
        if x86:
            self.w.lines.append(text)
            self.w.declared["@llvm.x86.sse.ldmxcsr"] = "declare void @llvm.x86.sse.ldmxcsr(ptr)"
            self.w.declared["@llvm.x86.sse.stmxcsr"] = "declare void @llvm.x86.sse.stmxcsr(ptr)"

    def clocks(self) -> list[str]:
        return [self.load("%state", self.clock + i) for i in range(4)]

    def left(self, high: str, low: str) -> str:
        return self.new(f"fsub double {self.new(f'fsub double %until, {high}')}, {low}")

    def splat(self, x: str) -> str:
        put = self.new(f"insertelement {VECTOR} poison, double {x}, i64 0")
        return self.new(f"shufflevector {VECTOR} {put}, {VECTOR} poison, <4 x i32> zeroinitializer")

    def each_quad(self, roots: Sequence[UOp], h: str, where: Sequence[int], names: Sequence[UOp]) -> None:
        """Some expressions of a state's coefficients, its error word and h, for four numbers at a time."""
        wide = self.splat(h)

        def one(i: str, _: list[str]) -> list[str]:
            env: dict[UOp, str] = {names[0]: wide}
            for k, v in enumerate(names[1:]):
                env[v] = self.load("%state", self.plus_name(i, k * self.padded), VECTOR)
            for name, offset in zip(self.expression(QUAD, roots, env), where):
                there = "%state" if offset >= 0 else "%scratch"
                self.store(name, there, self.plus_name(i, max(offset, 0)), VECTOR)
            return []

        self.w.loop("0", str(self.padded), [], one, QUAD)

    def plus_name(self, i: str, n: int) -> str:
        return self.new(f"add i64 {i}, {n}")

    def advance(self, x86: bool) -> None:
        self.mode(x86, SET_MODE)
        clocks: list[str] = []

        def more(n: list[str]) -> str:
            clocks[:] = self.clocks()
            high, low, h, _ = clocks
            before = self.new(f"fcmp olt double {h}, {self.left(high, low)}")
            room = self.new(f"icmp slt i64 {n[0]}, %count")
            return self.new(f"and i1 {before}, {room}")

        def one(n: list[str]) -> list[str]:
            self.step(*clocks)
            return [self.new(f"add i64 {n[0]}, 1")]

        self.w.while_(more, [("i64", "0")], one)
        self.mode(x86, RESTORE_MODE)

    def step(self, high: str, low: str, h: str, done: str) -> None:
        coefficients = [UOp.var(f"c{k}") for k in range(self.plan.order + 1)]
        self.each_quad(self.update, h, [0, self.low], [UOp.var("h"), *coefficients, UOp.var("low")])
        env = {UOp.var("high"): high, UOp.var("low"): low, UOp.var("h"): h}
        now = self.expression(1, self.time, env)
        for i, x in enumerate(now):
            self.store(x, "%state", self.clock + i)
        self.store(self.new(f"fadd double {done}, {literal(UOp.const(1.0))}"), "%state", self.clock + 3)
        self.one_order("0")

        def order(k: str, _: list[str]) -> list[str]:
            self.one_order(k)
            return []

        self.w.loop("1", str(self.plan.order), [], order)
        env = {UOp.var("now"): now[0]}
        for v in sorted(self.length.leaves, key=lambda v: str(v.arg)):
            if v not in env:
                k, i = map(int, str(v.arg)[1:].split("."))
                env[v] = self.load("%state", k * self.padded + i)
        (following,) = self.expression(1, [self.length], env)
        self.store(following, "%state", self.clock + 2)

    def looking(self, x86: bool) -> None:
        """The states at the time that is asked for, into the scratch."""
        self.mode(x86, SET_MODE)
        high, low, h, _ = self.clocks()
        left = self.left(high, low)
        there = self.new(f"fcmp ole double {left}, {h}")
        nan = literal(UOp.const(float("nan")))
        at = self.new(f"select i1 {there}, double {left}, double {nan}")
        coefficients = [UOp.var(f"c{k}") for k in range(self.plan.order + 1)]
        self.each_quad([self.look], at, [-1], [UOp.var("h"), *coefficients, UOp.var("low")])
        self.mode(x86, RESTORE_MODE)
