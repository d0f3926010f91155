"""How is H = oscillators + rest(q) stepped?  Turn, kick, turn, ...: the oscillators are solved, the rest kicks.

Both parts are done exactly, so that every product of them is symplectic, and a step may be many turns of an oscillator
long. T is quadratic in p, so that [V, [V, [V, L]]] = 0 for L = oscillators and V = rest: it is a matter of degrees in p
alone, and splittings whose order rests on it (Nyström's) have it here too.

Where the turn of a whole step is near a multiple of pi, kicks at always the same place of an oscillation add up, and it may
grow. A mollified kick is the gradient of V at the mean of q over a step (García-Archilla, Sanz-Serna & Skeel 1999), in which
such oscillations have no part.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from tinyphysics.facts import Fact
from tinyphysics.flows.harmonic import CoupledFlow, HarmonicFlow
from tinyphysics.flows.shears import Shear, ShearFlow, along
from tinyphysics.ir import UOp, substitute
from tinyphysics.rules.formulas.harmonic import averaged
from tinyphysics.step import DT, WORK, Claims, Step, SubFlow, Term
from tinyphysics.synth.coefficients.clocks import palindrome
from tinyphysics.synth.coefficients.coefficients import COMPOSITION
from tinyphysics.synth.coefficients.schemes import drifts_and_kicks
from tinyphysics.synth.methods.derivative import derivative, power
from tinyphysics.synth.methods.wisdom_holman import NEAR_INTEGRABLE
from tinyphysics.system import System

Sequence_ = list[tuple[str, float]]  # ("L", weight) of turns and ("V", weight) of kicks


def leapfrogs(name: str) -> Callable[[], Sequence_]:
    """A composition of turn, kick, turn."""
    return lambda: palindrome("L", "V", COMPOSITION[name])


@cache
def of_scheme(name: str) -> Sequence_:
    """A splitting of synth/coefficients/schemes.py: what it calls a drift is a turn."""
    return [("L" if part == "T" else part, weight) for part, weight in drifts_and_kicks(name)]


def of_orbits(name: str) -> Sequence_:
    """A splitting for a small rest."""
    turns, kicks = NEAR_INTEGRABLE[name]()
    return [x for t, k in zip(turns, kicks) for x in (("L", t), ("V", k))] + [("L", turns[-1])]


def kicks_of(sequence: Sequence_) -> int:
    """In one of many steps: the last kick of one and the first of the next are one."""
    parts = [part for part, _ in sequence]
    return parts.count("V") - (len(parts) > 2 and parts[0] == parts[-1] == "V")


def interaction_step(
    name: str, system: System, found: Fact, sequence: Sequence_, claims: Claims, mollified: bool = False
) -> Step:
    """The step; `found` is what analysis/interaction.py says. A mollified kick sees means over as long as it acts."""
    pairs = tuple(system.pairs)
    timed = system.time is not None and system.time in found.rest.leaves

    @cache
    def rest(weight: float) -> UOp:
        """At q, or at the mean of q over weight * dt."""
        h = DT if weight == 1.0 else weight * DT
        at = {q: averaged(q, o, h) for (q, _), o in zip(pairs, found.oscillators)} if mollified else {}
        return substitute([found.rest], at)[0]

    @cache
    def kicks(weight: float) -> list[tuple[UOp, UOp, str]]:
        return system.structure.flow(dict(zip(system.q, derivative(rest(weight), system.q))))

    def part(what: str, weight: float, clock: float) -> SubFlow:
        if what == "L" and found.oscillators:
            return HarmonicFlow(weight, pairs, tuple(found.oscillators))
        if what == "L":
            return CoupledFlow(weight, pairs, found.linear)
        works = (Shear(WORK, -power(rest(weight), system.time), "force", weight),) if timed else ()
        return ShearFlow(along(kicks(weight), weight), clock if timed else 0.0, works)

    begins, first = sequence[0]
    assert sequence[-1] == sequence[0], "a step ends as it begins, so that neighbours share it"
    now, body = first if begins == "L" else 0.0, []
    for k, (what, weight) in enumerate(sequence[1:], 1):
        last = k == len(sequence) - 1
        body.append(part(what, weight + first if last else weight, 1.0 if last else now))
        now += weight if what == "L" else 0.0
    terms = (Term("L", found.linear), Term("V", found.rest))
    init, final = ((part(begins, weight, 0.0),) for weight in (first, -first))
    return Step.of(system, name, terms, claims, kicks_of(sequence), init, tuple(body), final)
