"""Which part of a rate is diagonal in Fourier space?  The part that exponential integrators solve.

The symbols are those of rules/formulas/waves.py: a factor for each wave. What is not shown to be linear is stepped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tinyphysics.facts import Fact
from tinyphysics.ir import UOp, toposort
from tinyphysics.ir.fourier import has_stages
from tinyphysics.ir.ops import Ops
from tinyphysics.rules.formulas.waves import Symbol, Waves, linear_symbols, own_symbol, plus
from tinyphysics.system import GIVEN_BY, System

NAME = "linear in Fourier space"


# --- what is solved, and what is left ------------------------------------------------------------------------------------
def addends(u: UOp) -> list[UOp]:
    """With their signs."""
    if u.op is Ops.ADD:
        return addends(u.src[0]) + addends(u.src[1])
    if u.op is Ops.SUB:
        return addends(u.src[0]) + [-x for x in addends(u.src[1])]
    if u.op is Ops.NEG:
        return [-x for x in addends(u.src[0])]
    return [u]


@dataclass(frozen=True, eq=False)
class Spectral:
    """Of a field, or two that are a complex one: its symbol, and the rates that are left."""

    fields: tuple[UOp, ...]
    symbol: Symbol
    rest: tuple[UOp, ...]
    solved: tuple[UOp, ...]  # the addends that the symbol stands for


def spectral_part(system: System) -> Fact:
    """For each field of an @tp.ode what is solved in Fourier space: the part `groups`, a Spectral each."""
    if system.kind != "ode":
        return Fact.no(
            NAME, f"it is given by its {GIVEN_BY[system.kind]}: write its rates with @tp.ode", system.site
        )
    rates = dict(zip((s.var for s in system.states), system.update))
    groups: list[Spectral] = []
    lines: list[str] = []
    for fields in groups_of(system):
        waves = Waves(rates)
        split = [addends(rates[s]) for s in fields]
        solved, symbol = solvable(waves, fields, split, system)
        gone = set(solved)
        left = [[x for x in own if x not in gone] for own in split]
        rest = tuple(UOp.sum_of(own) if own else 0.0 * s for s, own in zip(fields, left))
        groups.append(Spectral(fields, symbol, rest, tuple(solved)))
        lines += [str(u) for u in solved]
    if not any(g.solved for g in groups):
        why = "no addend of the rates is a constant multiple of each wave: tp.dx(u, 2), or a product in np.fft.fftn(u)"
        lengths = {n for s in system.states for n in s.var.shape if n > 1 and not has_stages(n)}
        if lengths and any(u.op is Ops.FOURIER for u in toposort(system.update)):
            n = min(lengths)
            why = f"a transform of {n} numbers is put together of others: take a length up to 4,096 of factors up to 13"
        return Fact.no(NAME, why, system.site)
    first = next(u for g in groups for u in g.solved)
    count = sum(len(g.solved) for g in groups)
    site = next((system.sites[u] for u in toposort([first])[::-1] if u in system.sites), None)
    return Fact.yes(
        NAME, f"{count} of the addends multiply each wave by a number of its own", site, groups=tuple(groups)
    )


def groups_of(system: System) -> list[tuple[UOp, ...]]:
    """Fields one by one, those that are the parts of a complex one together; numbers alone are fields of one place."""
    by_name = {s.name: s.var for s in system.states}
    pairs = [tuple(by_name[n] for n in c.parts) for c in system.complexes if c.parts[0] in by_name]
    paired = {u for pair in pairs for u in pair}
    return [*pairs, *((s.var,) for s in system.states if s.var not in paired)]


def solvable(
    waves: Waves, fields: tuple[UOp, ...], split: Sequence[Sequence[UOp]], system: System
) -> tuple[list[UOp], Symbol]:
    """The addends that are solved, and their symbol."""
    if not fields[0].shape:
        return [], (None, None)
    total: Symbol = (None, None)
    every = [x for own in split for x in own]
    timed = {x for x in every if system.time is not None and system.time in x.leaves}
    found = {
        x: s
        for x in every
        if x not in timed and (s := linear_symbols(waves.of(x), fields[0].shape)) is not None
    }
    if len(fields) == 1:
        solved = [x for x in split[0] if x in found and set(found[x]) == {fields[0]}]
        for x in solved:
            total = plus(total, found[x][fields[0]])
        return solved, total
    sums = []
    solved = []
    for own in split:
        row: dict[UOp, Symbol] = {}
        for x in own:
            if x in found and set(found[x]) <= set(fields):
                solved.append(x)
                for u, a in found[x].items():
                    row[u] = plus(row[u], a) if u in row else a
        sums.append(row)
    symbol = own_symbol(sums, fields)
    return (solved, symbol) if symbol is not None else ([], (None, None))
