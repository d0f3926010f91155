"""How are equations of whole arrays solved in loops?  By rounds of nests, after what they know and before what follows.

A solution in the rounds of another is a loop in its loop. All that a round writes is chosen by a number, `on`, that is 0 once
the solution has arrived: so rounds after the last change nothing, and a machine need not look after each of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from tinyphysics.ir.dtype import bool_
from tinyphysics.ir.ops import MOVEMENT, Ops
from tinyphysics.ir.uop import UOp, substitute, toposort
from tinyphysics.ir.value import NAN
from tinyphysics.rules.calculus.solve import array_round, of_arrays, unknown_of
from tinyphysics.tpir.kernels.at_index import Home
from tinyphysics.tpir.kernels.index import Unsupported
from tinyphysics.tpir.kernels.materialise import cost
from tinyphysics.tpir.kernels.nests import Repeat, Round, Turn
from tinyphysics.tpir.kernels.schedule import Marks, Schedule

ON, LEFT = ".on", ".left"  # after the name of a solution: does it go on, and what is left of its residual?
WORTH = 3  # operations for which an array that rounds read is stored before them
Scheduled = Callable[[Marks, Mapping[UOp, Home], str], Schedule]


def solutions(roots: Sequence[UOp]) -> list[UOp]:
    """The equations that these values need solved, each after those that it needs; not those in its rounds."""
    out: dict[UOp, None] = {}

    def visit(u: UOp) -> None:
        if u.op is not Ops.SOLVE or u in out:
            return
        x = unknown_of(u)
        for s in of_level(u.src[:2]):
            visit(s)
        for s in toposort(list(u.src[2:])):
            if s.op is Ops.SOLVE and x not in s.leaves:
                visit(s)
        out[u] = None

    for u in of_level(roots):
        visit(u)
    return list(out)


def of_level(roots: Sequence[UOp]) -> Iterator[UOp]:
    """The solutions in an expression, without what is in the rounds of one."""
    seen: dict[UOp, None] = {}
    left = list(reversed(roots))
    while left:
        u = left.pop()
        if u in seen:
            continue
        seen[u] = None
        if u.op is Ops.SOLVE:
            yield u
        else:
            left += u.src


def known(roots: Sequence[UOp], unknown: UOp, homes: Mapping[UOp, Home]) -> list[UOp]:
    """What rounds read that neither they nor rounds in them change, and that is worth computing once before them."""
    changes: dict[UOp, bool] = {}
    found: list[UOp] = []
    for u in toposort(list(roots)):
        changes[u] = unknown in u.leaves or any(str(v.arg).startswith("?") for v in u.leaves)
        if changes[u]:
            found += [s for s in u.src if not changes[s]]
    found += [u for u in roots if not changes[u]]
    stored, seen = dict.fromkeys(homes), dict[UOp, None]()
    out: dict[UOp, None] = {}
    while found:
        u = found.pop()
        if u in seen or u in homes or not u.src:
            continue
        seen[u] = None
        if u.op in MOVEMENT:  # what it moves, where it is
            found += u.src
        elif cost(u, stored) >= WORTH or any(x.op is Ops.REDUCE for x in toposort([u])):
            out[u] = None
    return [u for u in toposort(list(out)) if u in out]  # what one is made of is there before it


def spread(u: UOp, like: UOp) -> UOp:
    return u.expand(like.shape)


class RoundsInLoops:
    """The turns of one section; `schedule` makes nests of marks, `done` is called with each schedule."""

    def __init__(self, schedule: Scheduled, done: Callable[[Schedule], int], section: str) -> None:
        self.schedule, self.done, self.section = schedule, done, section
        self.count = self.parts = self.depth = 0

    def turns(self, marks: Marks, homes: Mapping[UOp, Home], going: str = "", named: str = "") -> list[Turn]:
        """Marks with all that they need solved before; where the number in `going` is 0 then, the loop around ends."""
        out: list[Turn] = []
        names, values = [name for name, _ in marks], [u for _, u in marks]
        here, solved = dict(homes), solutions(values)
        while solved:
            u, *rest = solved
            turns, found, more = self.solution(u, here)
            out += turns
            here |= more
            # those that follow may hold it
            replaced = substitute([*values, *rest], {u: found})
            values, solved = replaced[: len(values)], replaced[len(values) :]
        out.append(self.turn(list(zip(names, values)), here, going, named))
        return out

    def turn(self, marks: Marks, homes: Mapping[UOp, Home], going: str = "", named: str = "") -> Round:
        prefix = named or f"{self.section}.part{self.parts}."
        self.parts += not named
        s = self.schedule(marks, homes, prefix)
        begin = self.done(s)
        return Round(begin, begin + len(s.nests), tuple(s.swaps), going=going)

    def solution(self, u: UOp, homes: Mapping[UOp, Home]) -> tuple[list[Turn], UOp, dict[UOp, Home]]:
        """(turns that solve, what the solution is then, where it and what it is made of are)."""
        if not of_arrays(u):
            raise Unsupported("equations that are written out number by number")
        start, scale, residual, *by = u.src
        if any(x.op in (Ops.NEIGHBOURS, Ops.TREE) for x in toposort([u])):
            raise Unsupported("equations of sums over neighbours or through a tree")
        name = f"{self.section}.solve{self.count}"
        self.count += 1
        # the name of its register is another in each section
        x, on, before, left = (
            UOp.var(name + what, shape, dtype)
            for what, shape, dtype in (
                (".x", u.shape, u.dtype),
                (ON, (), bool_),
                (".before", (), u.dtype),
                (LEFT, (), u.dtype),
            )
        )
        residual, scale, *by = substitute([residual, scale, *by], {unknown_of(u): x})
        done = array_round(x, residual, by[0] if by else residual, scale, before)
        kept = known([done.x[0], done.change, done.over], x, {**homes, on: Home(""), before: Home("")})
        place = {v: Home(str(v.arg)) for v in (x, on, before, left)}
        # under names of their own, since sums in them may be written in parts
        names = {k: UOp.var(f"{name}.known{n}", k.shape, k.dtype) for n, k in enumerate(kept)}
        place |= {v: Home(str(v.arg)) for v in names.values()}
        first = [
            (place[x].buffer, start),
            (place[on].buffer, UOp.const(True, bool_)),
            (place[before].buffer, UOp.const(float("inf"), u.dtype)),
            *((place[names[k]].buffer, k) for k in kept),
        ]
        if not self.depth:  # what the rounds of another leave is of no use
            first.append((place[left].buffer, UOp.const(float("inf"), u.dtype)))
        out = self.turns(first, homes)
        inside = {**homes, **place}
        moved = spread(on, x).where(done.x[0], x)
        ends = on & UOp(Ops.NOT, bool_, (), (done.over,))
        values = {x: moved, before: on.where(done.change, before), on: ends}
        if not self.depth:
            values[left] = on.where(done.residual, left)
        new = substitute(list(values.values()), names)
        self.depth += 1
        rounds = self.turns([(place[v].buffer, u) for v, u in zip(values, new)], inside, place[on].buffer)
        self.depth -= 1
        out.append(Repeat(tuple(rounds), u.arg[1]))
        lost = spread(on, x).where(UOp.const(NAN, u.dtype, u.shape), x)
        return out, lost, {v: place[v] for v in (x, on, before)}
