"""Do the units of an expression fit together?  Each node has one; what is not annotated is an unknown, solved for.

Terms of a sum have one unit, arguments of functions are pure numbers, [q][p] = [H][t]. Numbers in the user's function are
pure; zero and infinity have any unit. Powers of base units and the logarithm of the factor are linear in the unknowns, so
that each rule is an equation: it gives an unknown, or is true, or is a UnitError with both operands and their lines.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import lru_cache

from tinyphysics.errors import UnitError
from tinyphysics.ir.ops import COMPARE, MOVEMENT, Ops
from tinyphysics.ir.uop import UOp, toposort
from tinyphysics.system import System
from tinyphysics.units import BASE, SAME, Unit, unit, written
from tinyphysics.util import Site

FACTOR = "#"  # beside the base units: the logarithm of the factor
Power = Fraction | float
Measure = dict[str, Power]  # powers of base units, of FACTOR and of unknowns, which begin with ?

PURE: Measure = {}
SAME_UNIT = frozenset({Ops.ADD, Ops.SUB, Ops.MIN, Ops.MAX, Ops.HYPOT, Ops.IMAGE, Ops.ATAN2, *COMPARE})
OF_NUMBERS = frozenset({
    Ops.SIN, Ops.COS, Ops.TAN, Ops.ASIN, Ops.ACOS, Ops.ATAN, Ops.SINH, Ops.COSH, Ops.TANH, Ops.EXP, Ops.EXPM1, Ops.LOG,
    Ops.LOG1P, Ops.ERF, Ops.FLOOR, Ops.RINT,
})  # fmt: skip
ROOTS = {Ops.SQRT: Fraction(1, 2), Ops.RSQRT: Fraction(-1, 2), Ops.CBRT: Fraction(1, 3)}
WORDS = {
    Ops.ADD: "added", Ops.SUB: "subtracted", Ops.MIN: "compared", Ops.MAX: "compared", Ops.HYPOT: "sides of one triangle",
    Ops.IMAGE: "subtracted", Ops.ATAN2: "sides of one triangle", Ops.FMA: "added", Ops.WHERE: "values of one choice",
    Ops.STACK: "in one array", Ops.CONCAT: "in one array",
}  # fmt: skip


def measure(u: Unit) -> Measure:
    out: Measure = {name: x for name, x in zip(BASE, u.powers) if x}
    if abs(u.factor - 1) > SAME / 10:
        out[FACTOR] = math.log(u.factor)
    return out


def combined(a: Measure, b: Measure, times: Power = 1) -> Measure:
    out = dict(a)
    for name, x in b.items():
        y = out.get(name, 0) + (float(times) * x if isinstance(x, float) else times * x)
        if y and not (isinstance(y, float) and abs(y) < SAME / 10):
            out[name] = y
        else:
            out.pop(name, None)
    return out


def scaled(a: Measure, times: Power) -> Measure:
    return combined({}, a, times)


class Units:
    """The units of one system, as far as they are known; unknowns are solved for by what it is made of."""

    def __init__(self, system: System) -> None:
        self.system = system
        self.solved: dict[str, Measure] = {}
        self.of_node: dict[UOp, Measure] = {}
        self.of_name: dict[str, Measure] = {}
        self.annotated: dict[str, str] = {}
        for name, text in units_written(system):
            self.of_name[name] = {f"?{name}": Fraction(1)}
            if text is not None:
                self.annotated[name] = text
                self.of_name[name] = measure(unit(text, name, system.site))
        if system.time_unit is not None:
            self.annotated["t"] = system.time_unit
        self.of_name["t"] = (
            {"?t": Fraction(1)}
            if system.time_unit is None
            else measure(unit(system.time_unit, "t", system.site))
        )
        for k, v in enumerate(() if system.motion is None else system.motion.v):
            name, text = str(v.arg), (*system.velocity_units, *[None] * (k + 1))[k]
            self.of_name[name] = {f"?{name}": Fraction(1)}
            if text is not None:
                self.annotated[name] = text
                self.of_name[name] = measure(unit(text, name, system.site))
        self.energy: Measure | None = None

    # --- equations ----------------------------------------------------------------------------
    def now(self, a: Measure) -> Measure:
        """With what is known of its unknowns."""
        while any(name in self.solved for name in a):
            name = next(name for name in a if name in self.solved)
            times = a[name]
            a = combined({n: x for n, x in a.items() if n != name}, self.solved[name], times)
        return a

    def equal(self, a: Measure, b: Measure) -> bool:
        """Makes two units one, or says that they are not."""
        rest = self.now(combined(a, b, -1))
        unknown = [name for name in rest if name.startswith("?")]
        if unknown:
            name = next((n for n in unknown if n.startswith("?@")), unknown[-1])
            times = rest.pop(name)
            assert isinstance(times, Fraction) or isinstance(times, int)
            self.solved[name] = scaled(rest, Fraction(-1) / times)
            return True
        return not rest

    def is_in(self, a: Measure) -> str:
        return f"is {'' if not self.now(a) else 'in '}{self.told(a)}"

    def told(self, a: Measure) -> str:
        a = self.now(a)
        unknown = [name[1:] for name in a if name.startswith("?")]
        powers = tuple(Fraction(a.get(name, 0)) for name in BASE)
        text = written(powers, math.exp(float(a.get(FACTOR, 0.0))))
        return text if not unknown else f"{text} times the unknown unit of {', '.join(unknown)}"

    def site(self, u: UOp) -> Site | None:
        sites = self.system.sites
        return sites.get(u) or next(
            (sites[x] for x in reversed(toposort([u])) if x in sites), self.system.site
        )

    def differ(self, u: UOp, x: UOp, y: UOp, a: Measure, b: Measure) -> UnitError:
        a, b = self.now(a), self.now(b)
        word = WORDS.get(u.op, "compared")
        places = [s for s in dict.fromkeys((self.site(x), self.site(y))) if s is not None]
        where = f"; {places[0]} and {places[1]}" if len(places) > 1 else ""
        gap = combined(a, b, -1)
        what = f"`{short(x)}` {self.is_in(a)} and `{short(y)}` {self.is_in(b)}, and they are {word}{where}"
        bare = next((v for v in (x, y) if not v.leaves), None)
        if bare is not None and set(gap) != {FACTOR}:
            fix = (
                f'Make {short(bare)} a parameter with a unit: width: Annotated[float, "..."] = {short(bare)}.'
            )
        elif set(gap) == {FACTOR}:
            factor = math.exp(float(gap[FACTOR]))
            fix = f"They differ by a factor of {factor:.9g}: write {factor:.9g}*({short(x)}), or annotate one unit for both."
        else:
            fix = f"Their quotient is in {self.told(gap)}: a factor is missing, or an annotation is wrong."
        return UnitError(what, site=self.site(u), fix=fix)

    # --- nodes --------------------------------------------------------------------------------
    def of(self, root: UOp) -> Measure:
        """The unit of an expression; a UnitError where its parts do not fit."""
        for u in toposort([root]):
            if u not in self.of_node:
                self.of_node[u] = self.node(u, [self.of_node[s] for s in u.src])
        return self.of_node[root]

    def fresh(self, u: UOp) -> Measure:
        return {f"?@{len(self.of_node)}": Fraction(1)}

    def together(self, u: UOp, items: Sequence[UOp]) -> Measure:
        """The one unit of several operands."""
        found = [x for x in items if not any_unit(x)]
        for x in found[1:]:
            a, b = self.of_node[found[0]], self.of_node[x]
            if not self.equal(a, b):
                raise self.differ(u, found[0], x, a, b)
        return self.of_node[found[0]] if found else self.fresh(u)

    def pure(self, u: UOp, x: UOp) -> None:
        if not any_unit(x) and not self.equal(self.of_node[x], PURE):
            found, name = self.now(self.of_node[x]), u.op.value
            if set(found) == {FACTOR}:
                factor = math.exp(float(found[FACTOR]))
                raise UnitError(
                    f"`{short(x)}` counts in {factor:.9g}, and {name}() takes a pure number",
                    site=self.site(u),
                    fix=f"Write {name}({factor:.9g}*({short(x)})), or annotate units of one size; angles are in rad.",
                )
            raise UnitError(
                f"`{short(x)}` is in {self.told(found)}, and {name}() takes a pure number",
                site=self.site(u),
                fix=f"Divide it by a quantity of that unit: {name}({short(x)}/scale).",
            )

    def node(self, u: UOp, src: list[Measure]) -> Measure:
        match u.op:
            case Ops.VAR:
                return self.of_name.get(str(u.arg), PURE)
            case Ops.CONST | Ops.RANGE | Ops.RANDOM:
                return PURE
            case Ops.MUL:
                return self.fresh(u) if any(map(any_unit, u.src)) else combined(src[0], src[1])
            case Ops.DIV:
                return self.fresh(u) if any_unit(u.src[0]) else combined(src[0], src[1], -1)
            case Ops.FMA:
                product = combined(src[0], src[1])
                if not any_unit(u.src[2]) and not self.equal(product, src[2]):
                    raise self.differ(u, u.src[0] * u.src[1], u.src[2], product, src[2])
                return product
            case Ops.NEG | Ops.ABS:
                return src[0]
            case Ops.POW:
                return self.raised(u, src)
            case Ops.SIGN | Ops.CAST | Ops.NOT:
                return PURE
            case Ops.WHERE:
                return self.together(u, u.src[1:])
            case Ops.REDUCE:
                return combined(src[0], src[1]) if u.arg[0] == "dot" else src[0]
            case Ops.GATHER:
                return src[0]
            case Ops.NEIGHBOURS:
                self.together(u, (*u.src[:2], *u.src[3:4]))
                return scaled(src[0], 2) if u.arg[0] == "distance2" else PURE
            case op if op in SAME_UNIT:
                own = self.together(u, u.src)
                return PURE if op in COMPARE or op is Ops.ATAN2 else own
            case op if op in ROOTS:
                return scaled(src[0], ROOTS[op])
            case op if op in OF_NUMBERS:
                self.pure(u, u.src[0])
                return PURE
            case Ops.STACK | Ops.CONCAT | Ops.FOURIER:
                return self.together(u, u.src)
            case op if op in MOVEMENT:
                return src[0]
        return self.fresh(u)  # an operation of the user's: its unit is whatever fits

    def raised(self, u: UOp, src: list[Measure]) -> Measure:
        n = u.src[1]
        while n.op in (Ops.EXPAND, Ops.RESHAPE):
            n = n.src[0]
        if n.op is Ops.CONST:
            return scaled(src[0], Fraction(float(n.arg)).limit_denominator(64))
        self.pure(u, u.src[1])
        if not self.equal(src[0], PURE):
            raise UnitError(
                f"`{short(u)}` raises a quantity in {self.told(src[0])} to a power that is not a fixed number",
                site=self.site(u),
                fix="Divide it by a quantity of that unit first.",
            )
        return PURE

    # --- the system ---------------------------------------------------------------------------
    def demand(self, what: str, a: Measure, b: Measure, rule: str) -> None:
        if not self.equal(a, b):
            raise UnitError(
                f"{what} is in {self.told(a)}, and {rule} in {self.told(b)}",
                site=self.system.site,
                fix=f"One of the annotations of `{self.system.name}` is wrong; leave one out, and it is solved for.",
            )

    def solve(self) -> Units:
        system, t = self.system, self.of_name["t"]
        own = {s.name: self.of_name[s.name] for s in system.states}
        if system.motion is not None:
            for q, v in zip(system.q, system.motion.v):
                rate = combined(self.of_name[str(q.arg)], t, -1)
                self.demand(
                    f"the velocity `{v.arg}`", self.of_name[str(v.arg)], rate, f"`{q.arg}` over the time is"
                )
            self.energy = self.of(system.motion.lagrangian)
        elif system.energy is not None:
            self.energy = self.of(system.energy)
        if self.energy is not None:
            for q, p in system.pairs:
                action = combined(self.energy, t)
                pair = combined(own[str(q.arg)], own[str(p.arg)])
                self.demand(f"[{q.arg}][{p.arg}]", pair, action, "the energy times the time is")
        elif system.kind == "forces":
            place, push = (own[str(x.arg)] for x in (system.q[0], system.p[0]))
            mass = self.of_name.get("mass", PURE)
            self.demand(
                "the momentum", push, combined(combined(mass, place), t, -1), "mass times velocity is"
            )
            self.demand(
                "the force", self.of(system.forces[0]), combined(push, t, -1), "momentum over time is"
            )
        else:
            rate = t if system.kind == "ode" else PURE
            for s, u in zip(system.states, system.update):
                if not any_unit(u):
                    rule = f"`{s.name}`{' over the time' if system.kind == 'ode' else ''} is"
                    self.demand(f"what `{s.name}` becomes", self.of(u), combined(own[s.name], rate, -1), rule)
        return self

    def unit(self, name: str) -> Unit | None:
        """The unit of a state, a parameter, "t" or "energy"; None if it is not known."""
        a = self.energy if name == "energy" else self.of_name.get(name)
        return None if a is None else self.as_unit(a, self.annotated.get(name))

    def as_unit(self, a: Measure, text: str | None = None) -> Unit | None:
        a = self.now(a)
        if any(name.startswith("?") for name in a):
            return None
        if text is not None:
            return unit(text)
        return Unit(tuple(Fraction(a.get(name, 0)) for name in BASE), math.exp(float(a.get(FACTOR, 0.0))))

    def rows(self) -> Mapping[str, str]:
        """Every name with its unit, in words."""
        names = [*self.of_name, *(["energy"] if self.energy is not None else [])]
        out = {}
        for name in names:
            found = self.unit(name)
            out[name] = "unknown" if found is None else str(found)
        return out


def any_unit(u: UOp) -> bool:
    """Zero, infinity and NaN are one and the same in every unit."""
    while u.op in (Ops.EXPAND, Ops.RESHAPE, Ops.NEG):
        u = u.src[0]
    if u.op is Ops.STACK:
        return all(map(any_unit, u.src))
    return u.op is Ops.CONST and (u.arg == 0 or not math.isfinite(u.arg))


def short(u: UOp) -> str:
    text = str(u)
    return text if len(text) <= 60 else f"{text[:57]}..."


def units_written(system: System) -> list[tuple[str, str | None]]:
    return [(s.name, s.unit) for s in system.states] + [(x.name, x.unit) for x in system.parameters]


def annotated(system: System) -> bool:
    said = (system.time_unit, *system.velocity_units, *(text for _, text in units_written(system)))
    return any(text is not None for text in said)


@lru_cache(maxsize=256)
def units_of(system: System) -> Units | None:
    """Those of a system with annotations, solved; None of one without."""
    return Units(system).solve() if annotated(system) else None


def added_to_momentum(system: System) -> UOp | None:
    """A sum of a position and a momentum, as they are or times numbers: right in units in which both are numbers."""
    kinds = {q: "q" for q in system.q} | {p: "p" for p in system.p}

    def kind(u: UOp) -> str:
        while (
            u.op in MOVEMENT
            and len(u.src) == 1
            or u.op is Ops.NEG
            or u.op is Ops.MUL
            and Ops.CONST in (x.op for x in u.src)
        ):
            u = next((x for x in u.src if x.op is not Ops.CONST), u.src[0])
        return kinds.get(u, "")

    for u in toposort(system.equations):
        if u.op in (Ops.ADD, Ops.SUB) and {kind(s) for s in u.src} == {"q", "p"}:
            return u
    return None
