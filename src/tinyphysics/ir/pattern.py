"""Rules as tables: patterns that look like the expressions they match, and what to put in their place."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tinyphysics.ir.dtype import DType
from tinyphysics.ir.math import Arithmetic
from tinyphysics.ir.ops import COMMUTATIVE, Ops
from tinyphysics.ir.uop import UOp

Bindings = dict[str, UOp]
Predicate = Callable[[UOp], bool]
Action = Callable[..., UOp | None]


class UPat(Arithmetic):
    """Matches a node: its op, dtype, constant, sources, and a predicate; binds it to a name.

    >>> x = UPat.var("x")
    >>> q = UOp.var("q")
    >>> next((x * 2).match(q * 2.0))["x"]
    q
    """

    __slots__ = ("op", "dtype", "src", "value", "name", "when")

    def __init__(
        self,
        op: Ops | tuple[Ops, ...] | frozenset[Ops] | None = None,
        dtype: DType | None = None,
        src: tuple[UPat, ...] | None = None,
        value: Any = None,
        name: str | None = None,
        when: Predicate | None = None,
    ) -> None:
        self.op = frozenset({op}) if isinstance(op, Ops) else op if op is None else frozenset(op)
        self.dtype, self.src, self.value, self.name, self.when = dtype, src, value, name, when

    @staticmethod
    def var(name: str, when: Predicate | None = None) -> UPat:
        return UPat(name=name, when=when)

    @staticmethod
    def const(name: str, when: Predicate | None = None) -> UPat:
        return UPat(Ops.CONST, name=name, when=when)

    def named(self, name: str) -> UPat:
        return UPat(self.op, self.dtype, self.src, self.value, name, self.when)

    def lift(self, x: Any) -> UPat:
        return x if isinstance(x, UPat) else UPat(Ops.CONST, value=x)

    def alu(self, op: Ops, *others: Any) -> UPat:
        return UPat(op, src=(self, *(self.lift(o) for o in others)))

    def match(self, u: UOp, bound: Bindings | None = None) -> Iterator[Bindings]:
        """Every way in which u fits, the operands of commutative operations tried in both orders."""
        bound = {} if bound is None else bound
        if self.op is not None and u.op not in self.op:
            return
        if self.dtype is not None and u.dtype is not self.dtype:
            return
        if self.value is not None and not (u.arg == self.value and _same_zero(u.arg, self.value)):
            return
        if self.name is not None:
            if self.name in bound and bound[self.name] is not u:
                return
            bound = bound | {self.name: u}
        if self.when is not None and not self.when(u):
            return
        if self.src is None:
            yield bound
            return
        if len(self.src) != len(u.src):
            return
        yield from self._match_sources(u.src, bound)
        if len(u.src) == 2 and u.op in COMMUTATIVE and u.src[0] is not u.src[1]:
            yield from self._match_sources((u.src[1], u.src[0]), bound)

    def _match_sources(self, nodes: tuple[UOp, ...], bound: Bindings) -> Iterator[Bindings]:
        assert self.src is not None
        if not nodes:
            yield bound
            return
        partial = [bound]
        for pattern, node in zip(self.src, nodes):
            partial = [b for p in partial for b in pattern.match(node, p)]
        yield from partial


def _same_zero(a: Any, b: Any) -> bool:
    return a != 0 or str(a).startswith("-") == str(b).startswith("-")


@dataclass(frozen=True)
class Rule:
    pattern: UPat
    action: Action
    name: str

    @cached_property
    def wants(self) -> tuple[tuple[int, frozenset[Ops], Any], ...]:
        """(which, operations, number) of the sources for which the pattern prescribes them."""
        return tuple((k, s.op, s.value) for k, s in enumerate(self.pattern.src or ()) if s.op is not None)

    @cached_property
    def whole(self) -> str | None:
        """The name of the node, where the pattern asks for nothing but its operation."""
        p = self.pattern
        plain = p.dtype is None and p.src is None and p.value is None and p.when is None
        return p.name if plain else None

    def fits_operations(self, op: Ops, below: Sequence[Ops]) -> bool:
        """Could it fit a node of this operation, on sources of these?  Their numbers are looked at by `may_fit`."""
        if self.pattern.src is None:
            return True
        if len(below) != len(self.pattern.src):
            return False
        if all(below[k] in ops for k, ops, _ in self.wants):
            return True
        return len(below) == 2 and op in COMMUTATIVE and all(below[1 - k] in ops for k, ops, _ in self.wants)

    def may_fit(self, u: UOp) -> bool:
        """A look at the sources: most rules do not fit most nodes, and this is cheaper than a match."""
        src = u.src
        pattern = self.pattern.src
        if pattern is None:
            return True
        if len(src) != len(pattern):
            return False
        for k, ops, value in self.wants:
            s = src[k]
            if s.op not in ops or value is not None and s.arg != value:
                break
        else:
            return True
        if len(src) != 2 or u.op not in COMMUTATIVE:
            return False
        for k, ops, value in self.wants:
            s = src[1 - k]
            if s.op not in ops or value is not None and s.arg != value:
                return False
        return True


class PatternMatcher:
    """A table of (pattern, function) rows; the first row that fits and does not answer None wins."""

    def __init__(self, rows: Sequence[tuple[UPat, Action] | Rule]) -> None:
        self.rules = [r if isinstance(r, Rule) else Rule(r[0], r[1], _name(r[1])) for r in rows]
        self._by_op: dict[Ops, list[Rule]] = {}
        self._by_sources: dict[tuple[Ops, ...], list[Rule]] = {}

    def __add__(self, other: PatternMatcher) -> PatternMatcher:
        return PatternMatcher(self.rules + other.rules)

    def candidates(self, op: Ops) -> list[Rule]:
        found = self._by_op.get(op)
        if found is None:
            found = self._by_op[op] = [r for r in self.rules if r.pattern.op is None or op in r.pattern.op]
        return found

    def likely(self, u: UOp) -> list[Rule]:
        """The rules for its operation and those of its sources, in their order: few of a table, looked up."""
        if len(u.src) > 3:
            return self.candidates(u.op)
        shape = (u.op, *[s.op for s in u.src])
        found = self._by_sources.get(shape)
        if found is None:
            rules = self.candidates(u.op)
            found = [r for r in rules if r.whole is not None or r.fits_operations(shape[0], shape[1:])]
            self._by_sources[shape] = found
        return found

    def fire(self, u: UOp) -> tuple[Rule, UOp] | None:
        for rule in self.likely(u):
            if rule.whole is not None:
                new = rule.action(**{rule.whole: u})
                if new is not None and new is not u:
                    return rule, new
            elif rule.may_fit(u):
                for bound in rule.pattern.match(u):
                    new = rule.action(**bound)
                    if new is not None and new is not u:
                        return rule, new
        return None

    def rewrite(self, u: UOp) -> UOp | None:
        """u after the first rule that applies at its root, or None."""
        fired = self.fire(u)
        return None if fired is None else fired[1]


def _name(function: Callable[..., Any]) -> str:
    code = getattr(function, "__code__", None)
    line = f":{code.co_firstlineno}" if code is not None else ""
    module = getattr(function, "__module__", "").removeprefix("tinyphysics.")
    name = getattr(function, "__name__", "rule")
    return f"{module}{line}" if name == "<lambda>" else f"{module}.{name}"
