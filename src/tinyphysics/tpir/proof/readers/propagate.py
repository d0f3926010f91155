"""What does a PROPAGATE conserve?  It stands for n steps of an energy of degree 2 or less, whose matrix is a constant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

from tinyphysics.ir.uop import UOp
from tinyphysics.rules.calculus.degree import degrees
from tinyphysics.rules.calculus.laurent import Laurent
from tinyphysics.rules.calculus.squares import squares
from tinyphysics.rules.functions.random import draws
from tinyphysics.tpir.program.isa import Program, Word
from tinyphysics.tpir.program.propagate import jump_of, parts_of
from tinyphysics.tpir.program.symbolic import clocks, state_var, structure_at
from tinyphysics.tpir.proof.blocks import Blocks
from tinyphysics.tpir.proof.certificate import Verdict, five
from tinyphysics.tpir.proof.units import DT
from tinyphysics.tpir.proof.weights import TOL, not_symmetric, off_weight


def not_constant(program: Program, terms: Sequence[UOp]) -> str:
    """Why the matrix of an energy is not shown to be a constant; empty if it is."""
    if not terms:
        return "the program declares no energy"
    states = frozenset(state_var(program, k, 0) for k in range(len(program.states)))
    for k, u in enumerate(terms):
        degree = degrees(u, states)[u]
        if degree is None or degree > 2:
            return f"E{k} is not shown to be of degree 2 or less in the state"
        if clocks(u):
            return f"E{k} depends on time explicitly"
        if draws(u):
            return f"E{k} draws random numbers"
    unpaired = next((s.name for k, s in enumerate(program.states) if program.conjugate(k) is None), None)
    return "" if unpaired is None else f"`{unpaired}` has no conjugate"


def not_free(program: Program, terms: Sequence[UOp]) -> str:
    """Why an energy is not shown to be that of free bodies alone; empty if it is."""
    kinds = structure_at(program).turning
    if not terms or sum(len(kind.states) for kind in kinds) < len(program.states):
        return "the program declares no energy" if not terms else "it has states that are no bodies"
    momenta = [L for kind in kinds for L, _ in kind.bodies]
    states = {state_var(program, k, 0) for k in range(len(program.states))}
    for k, u in enumerate(terms):
        if clocks(u) or DT in u.leaves or draws(u):
            return f"E{k} depends on time explicitly" if not draws(u) else f"E{k} draws random numbers"
        found = squares(u, momenta, [x for x in u.leaves if x not in states])
        if isinstance(found, str):
            return f"E{k} is not that of free bodies: {found}"
    return ""


def moves_itself(program: Program, u: UOp) -> bool:
    """Does an energy hold a position and its own momentum?"""
    held = {k for k in range(len(program.states)) if state_var(program, k, 0) in u.leaves}
    return any(program.conjugate(k) in held for k in held)


class JumpReader:
    """One PROPAGATE in place of all steps."""

    by_derivatives = False
    rank = 60

    def __init__(self, program: Program) -> None:
        self.program, self.blocks = program, Blocks(program)
        self.walk = self.blocks.walk

    @staticmethod
    def has(program: Program) -> bool:
        return jump_of(program) is not None

    def verdicts(self) -> Mapping[str, Verdict]:
        i, terms = jump_of(self.program), self.walk.terms
        assert i is not None
        parts, flow = parts_of(i), i.args[0] == Word("flow")
        if i.args[0] == Word("damped"):
            return self.damped(parts)
        if i.args[0] == Word("bodies"):
            return self.of_bodies(parts)
        why = (
            self.walk.trouble or not_constant(self.program, terms) or ("" if flow else self.not_shears(parts))
        )
        if why:
            return five(*[Verdict(False, why)] * 5)
        what = "exp(n dt J H'')" if flow else "a power of shears, each exp(w dt J H'')"
        kept = Verdict(True, f"{what} with a constant H''; how far a run is from it is in its metrics")
        palindrome = Verdict(
            True, "the flow of one energy" if flow else "the sub-flows of a step are a palindrome"
        )
        if not flow and not is_palindrome(parts):
            palindrome = Verdict(False, "its sub-flows are not a palindrome")
        reversible = Verdict(True, "symmetric, and every term of the energy is even in the momenta")
        if not palindrome:
            reversible = Verdict(False, not_symmetric(palindrome))
        elif (odd := self.walk.odd) is not None:
            reversible = Verdict(False, f"E{odd} is not shown to be even in the momenta")
        if (holds := next((k for k, u in enumerate(terms) if DT in u.leaves), None)) is not None:
            return five(kept, kept, *[Verdict(False, f"E{holds} itself depends on dt")] * 3)
        return five(kept, kept, palindrome, reversible, consistent(parts, len(terms), flow))

    def damped(self, parts: Sequence[tuple[int, float]]) -> Mapping[str, Verdict]:
        """An energy of degree 2 with friction: the last term is its function, a sum of rates times squares of momenta."""
        names = ("conformally-symplectic", "volume-factor", "symmetric", "reversible", "consistent")
        terms = self.walk.terms
        why = self.walk.trouble or not_constant(self.program, terms)
        rates = [] if why or not parts else self.rates(terms[parts[-1][0]])
        if why or rates is None or not parts:
            return dict.fromkeys(
                names, Verdict(False, why or "its last term is not the function of friction")
            )
        one = len({x.key for x in rates}) == 1
        flow = "exp(n dt A) with a constant A; how far a run is from it is in its metrics"
        first = Verdict(True, f"DΦᵀ J DΦ = f J, f by the one rate of all momenta: {flow}")
        if not one:
            first = Verdict(False, "not one rate for all momenta: no one factor multiplies J")
        back = Verdict(
            False, "friction takes energy in both directions of time: negated momenta do not bring it back"
        )
        volume = Verdict(True, f"A has a constant trace, which is minus the sum of the rates: {flow}")
        both = consistent(parts, len(terms), True)
        if (holds := next((k for k, u in enumerate(terms) if DT in u.leaves), None)) is not None:
            both = Verdict(False, f"E{holds} itself depends on dt")
        if both:
            both = Verdict(
                True,
                "every term of the energy enters with total weight 1 and the sign of J; so does friction",
            )
        return dict(
            zip(names, (first, volume, Verdict(True, "the flow of one energy and its friction"), back, both))
        )

    def rates(self, lost: UOp) -> list[Laurent] | None:
        """Of every number of the momenta."""
        states = [state_var(self.program, k, 0) for k in range(len(self.program.states))]
        momenta = [x for x, s in zip(states, self.program.states) if s.role == "momentum"]
        found = squares(lost, momenta, [x for x in lost.leaves if x not in frozenset(states)])
        return None if isinstance(found, str) else found

    def of_bodies(self, parts: Sequence[tuple[int, float]]) -> Mapping[str, Verdict]:
        """Free rigid bodies: the energy holds squares of momenta alone, and Jacobi's functions solve all of it."""
        names = ("poisson", "casimirs", "symmetric", "reversible", "consistent")
        if why := self.walk.trouble or not_free(self.program, self.walk.terms):
            return dict.fromkeys(names, Verdict(False, why))
        exact = "the flow of free bodies, by Jacobi's functions"
        kept = Verdict(True, f"{exact}; how far a run is from it is in its metrics")
        both = Verdict(True, "symmetric, and negating the momenta reverses the flow")
        found = [kept, kept, Verdict(True, "the flow of one energy"), both]
        return dict(zip(names, (*found, consistent(parts, len(self.walk.terms), True))))

    def not_shears(self, parts: Sequence[tuple[int, float]]) -> str:
        k = next((k for k, _ in parts if moves_itself(self.program, self.walk.terms[k])), None)
        return "" if k is None else f"the flow of E{k} is not a shear: it holds a position and its momentum"


def is_palindrome(parts: Sequence[tuple[int, float]]) -> bool:
    return all(
        a == c and abs(Fraction(b) - Fraction(d)) <= TOL for (a, b), (c, d) in zip(parts, reversed(parts))
    )


def consistent(parts: Sequence[tuple[int, float]], terms: int, flow: bool) -> Verdict:
    for k in range(terms):
        total = sum((Fraction(w) for e, w in parts if e == k), Fraction(0))
        if why := off_weight(f"E{k}", total, Fraction(0) if flow else TOL):
            return Verdict(False, why)
    return Verdict(True, "every term of the energy enters with total weight 1 and the sign of J")
