"""How is a sum of two energies stepped that turn phases?  Each by its exact turns, in the order of a splitting."""

from __future__ import annotations

from collections.abc import Sequence

from tinyphysics.flows.closed_form import ClosedFlow, time_of
from tinyphysics.ir import UOp
from tinyphysics.rules.formulas.phases import after
from tinyphysics.rules.formulas.waves import Phase
from tinyphysics.step import PHASES, Claims, Step, SubFlow, Term
from tinyphysics.system import System

Part = tuple[str, UOp, tuple[Phase, ...]]  # label, energy, and how it turns fields


def split_turns(
    name: str, system: System, parts: Sequence[Part], moves: Sequence[tuple[str, float]], claims: Claims
) -> Step:
    """One step; its first and last turns are of one part, and merge with those of its neighbours."""
    at = {label: k for k, (label, *_) in enumerate(parts)}
    own = [(at[label], w) for label, w in moves if label in at]
    own = [(own[0][0], sum(w for _, w in own))] if len(parts) == 1 else own

    def flow(k: int, weight: float) -> SubFlow:
        return ClosedFlow(weight, k, after(parts[k][2], time_of(weight)), frozenset({PHASES}))

    merged = len(own) > 2 and own[0][0] == own[-1][0]
    first, last = own[0], own[-1]
    loop = [*own[1:-1], (last[0], last[1] + first[1])] if merged else own
    init = (flow(*first),) if merged else ()
    final = (flow(first[0], -first[1]),) if merged else ()
    terms = tuple(Term(label, energy) for label, energy, _ in parts)
    count = sum(bool(parts[k][2] and parts[k][2][0].axes) for k, _ in loop)
    return Step.of(system, name, terms, claims, count, init, tuple(flow(*x) for x in loop), final)
