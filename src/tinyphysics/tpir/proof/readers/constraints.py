"""Does a step keep its bracket on the positions where declared functions are zero?  Kicks, and drifts that end there.

Known here and derived nowhere: that a drift by the equations of rules/formulas/constraints.py keeps dq∧dp on g(q) = 0, where
momenta are known up to Gᵀλ, and is its own adjoint. That a listing has these equations, for the declared g and T, is derived:
residuals, and what is made of their root, number by number. A kick is J times the gradient of a term of the positions. What
takes a part along Gᵀ off the momenta moves nothing there; `final` must end with it.

Of a bath (heated.py) more is known: where all momenta forget at one rate, c p + noise with its part along Gᵀ taken off keeps
exp(-p w p/2 k_B T) of momenta along the constraints, since Π M Πᵀ = Π M for what takes that part off. What multiplies all
momenta along the constraints by one factor keeps it too, with g less by the numbers that are held.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction

from tinyphysics.constrained import Constrained
from tinyphysics.errors import TraceError
from tinyphysics.ir.uop import UOp, elements, substitute
from tinyphysics.rules.calculus.linear import is_number
from tinyphysics.rules.calculus.unroll import unroll
from tinyphysics.rules.calculus.vjp import gradient
from tinyphysics.rules.formulas.baths import LANGEVIN
from tinyphysics.rules.formulas.constraints import WRITTEN, ArrayConstraints, Constraints, in_a_row
from tinyphysics.rules.formulas.smoothness import KINK
from tinyphysics.rules.formulas.thermostats import NOSE_HOOVER
from tinyphysics.rules.identities.real import simplify
from tinyphysics.tpir.program.isa import Instruction, Program, Register, Type
from tinyphysics.tpir.program.symbolic import clocks, state_of, state_var
from tinyphysics.tpir.proof.certificate import Verdict
from tinyphysics.tpir.proof.heated import Heated, heated, not_kept, not_maxwell, off_times, seen_at
from tinyphysics.tpir.proof.long_chains import chain_along, chain_drift
from tinyphysics.tpir.proof.solutions import RESIDUAL, is_over_size
from tinyphysics.tpir.proof.solved_turns import root_in
from tinyphysics.tpir.proof.together import GROUPS, Together
from tinyphysics.tpir.proof.units import DT, everywhere, moving
from tinyphysics.tpir.proof.walk import Walk, check_type, rough_in
from tinyphysics.tpir.proof.weights import (
    Applied,
    Update,
    in_a_step,
    not_symmetric,
    off_weight,
    symmetric,
    uneven,
)

NO_LENGTH = Fraction(0)  # of a kick; two drifts that were solved for are not one of both lengths
BATH = 20_000  # as a part
OFF = "momenta that `final` gives back may have a part across the constraints"


class ConstraintReader:
    """Positions and momenta on g(q) = 0."""

    name, refusal, by_derivatives = "constraints", "is no part of a step along constraints", True
    rank = 24  # before that of stages: what it ends by CONSTRAIN was solved for

    def __init__(self, program: Program) -> None:
        self.program, self.walk = program, Walk(program)
        self.symbolic, self.normal, self.terms = self.walk.symbolic, self.walk.normal, self.walk.terms
        self.states = [state_var(program, k, 0) for k in range(len(program.states))]
        self.held: dict[int, UOp] = {}  # the lines of a drift or a projection that is not complete
        self.of: Update | None = None
        self.kicking: dict[int, tuple[UOp, UOp, Update]] = {}
        self.parts: dict[tuple[int, Fraction], int] = {}
        self.across = True  # may momenta have a part along Gᵀ?
        self.heated: list[Heated] = []  # by a bath, one momentum after the other
        self.heating: list[Heated] = []  # those of one piece of the bath
        self.together = Together(program)  # by a bath that changes all momenta at once
        self.kinetic = self.find_kinetic()
        self.walk.read(self)

    @staticmethod
    def has(program: Program) -> bool:
        return any(i.row.reader == "constraints" for _, _, i in program.numbered())

    def find_kinetic(self) -> tuple[int, Constraints | ArrayConstraints] | None:
        """The term that a drift is of: quadratic in the momenta, with masses that no state enters."""
        structure = self.walk.structure
        own = [
            s for s in self.program.states if s.role != "field"
        ]  # a chain of thermostats has states beside them
        if not isinstance(structure, Constrained) or len(structure.states) < len(own):
            self.walk.refuse("the program declares no constraints of pairs of positions and momenta")
            return None
        q, p = zip(*structure.pairs)
        for k, term in enumerate(self.terms):
            if not {self.states[j] for j in moving(term)} <= {*p} or not moving(term) or clocks(term):
                continue
            if sum(g.size for g in structure.constraints) > WRITTEN:
                if len(q) == 1:
                    chain = ArrayConstraints(q[0], p[0], in_a_row(structure.constraints), term)
                    way = UOp.var("direction", p[0].shape)
                    slope = chain.moved(way)
                    return (k, chain) if not moving(slope) and DT not in slope.leaves else None
                continue
            found = Constraints(q, p, structure.constraints, term)
            if not any(moving(u) or DT in u.leaves for row in found.A for u in row):
                return k, found
        self.walk.refuse("no term of the energy is shown to be quadratic in the momenta alone")
        return None

    def part(self, term: int, length: Fraction = NO_LENGTH) -> int:
        return self.parts.setdefault((term, length), len(self.parts))

    # --- reading the program --------------------------------------------------------------------
    def close(self, walk: Walk) -> None:
        self.close_kick()
        self.close_group()
        self.close_bath()
        if why := self.together.incomplete:
            walk.refuse(why)
        for r in walk.carried if walk.section == "init" else []:
            walk.refuse(f"{r} is carried from step to step, and may depend on the state or on time")

    def take(self, walk: Walk, i: Instruction) -> bool:
        if i.op != "CONSTRAIN":
            self.close_group()
        if i.row.kind == "update" and i.op != "BATH":
            self.close_bath()
        if i.row.reader == "baths":
            self.close_kick()
            self.bath(i)
        elif i.op == "CONSTRAIN":
            self.close_kick()
            self.constrain(i)
        elif i.row.numbers == "by_flow":
            self.kick(i)
        else:
            return False
        return True

    def fresh(self, u: UOp, moved: Sequence[int] = ()) -> UOp | None:
        """u at version 0 of the states as they are, or were before some of them moved; None if it holds older ones."""
        now = {
            state_var(self.program, k, v - (k in moved)): self.states[k]
            for k, v in self.symbolic.version.items()
        }
        if any(state_of(v) is not None and v not in now for v in u.leaves):
            return None
        return substitute([u], now)[0]

    # --- along the constraints ------------------------------------------------------------------
    def constrain(self, i: Instruction) -> None:
        where, dst = self.walk.where, i.dst
        assert isinstance(dst, Register)
        u = self.symbolic.read(i.args[0], i.type, where)
        check_type(u, i, where)
        if dst.index in self.held:
            self.close_group()
        value = self.fresh(u)
        if value is None or clocks(value):
            self.walk.refuse(f"{where} is not made of the states as they are before it")
            value = self.states[dst.index]
        self.held[dst.index], self.of = value, self.walk.update(i, u, DT)

    def close_group(self) -> None:
        group, self.held = self.held, {}
        if not group:
            return
        assert self.of is not None
        for k in group:
            self.symbolic.load(k)
        if self.kinetic is None:
            return
        term, c = self.kinetic
        values = {self.states[k]: u for k, u in group.items()}
        root = root_in(values)
        try:
            if set(values) == {*self.walk.structure.mirror()}:
                self.across = self.across and (root is None or not self.is_along(c, values, root))
                if self.across:
                    self.walk.refuse(
                        f"{self.of} does not take the part across the constraints off the momenta"
                    )
                return
            weight = None if root is None else self.drift(c, values, root)
        except TraceError as error:
            self.walk.refuse(f"the constraints could not be differentiated: {error.what}")
            return
        if weight is None:
            self.walk.refuse(f"{self.of} and those before it are not a drift along the declared constraints")
            return
        self.across = True
        every = frozenset(range(len(self.states)))
        self.walk.applied.append(Applied(self.part(term, weight), weight, None, self.of, every, every))

    def equations(
        self, values: Mapping[UOp, UOp], root: UOp
    ) -> tuple[list[UOp], list[UOp], dict[UOp, list[UOp]]]:
        """The unknowns, their residuals, and what the states become, as numbers."""
        unknown = UOp.var(str(root.arg[0]), root.shape, root.dtype)
        new = substitute(list(values.values()), {root: unknown})
        return elements(unknown), unroll([root.src[2]])[0], dict(zip(values, unroll(new)))

    def same(self, a: Sequence[UOp], b: Sequence[UOp]) -> bool:
        return len(a) == len(b) and all(x is y or self.normal.same(x, y) for x, y in zip(a, b))

    def is_along(self, c: Constraints | ArrayConstraints, values: Mapping[UOp, UOp], root: UOp) -> bool:
        if isinstance(c, ArrayConstraints):
            return chain_along(c, values, root, self.normal)
        y, residuals, new = self.equations(values, root)
        if len(y) != c.count or not is_over_size(root.src[1]):
            return False
        wanted = c.along(y)
        return self.same([u for p in c.momenta for u in new[p]], wanted) and self.same(
            residuals, c.rates(wanted)
        )

    def drift(
        self, c: Constraints | ArrayConstraints, values: Mapping[UOp, UOp], root: UOp
    ) -> Fraction | None:
        """For how much of dt states move along the constraints; None if that is not shown."""
        if isinstance(c, ArrayConstraints):
            return chain_drift(c, values, root, self.normal)
        if set(values) != {*c.positions, *c.momenta}:
            return None
        x, residuals, new = self.equations(values, root)
        if len(x) != c.count or not is_over_size(root.src[1]):
            return None
        there = [u for q in c.positions for u in new[q]]
        weight = self.length(c, there)
        if weight is None:
            return None
        wanted, momenta = c.drift(x, DT * UOp.const(float(weight)))
        shown = self.same(there, wanted) and self.same([u for p in c.momenta for u in new[p]], momenta)
        return weight if shown and self.same(residuals, c.at(c.g, there)) else None

    def length(self, c: Constraints, there: Sequence[UOp]) -> Fraction | None:
        """By how much of dt positions move by T'(p)."""
        for row, u in zip(c.A, there):
            k = next((k for k, a in enumerate(row) if not is_number(a, 0.0)), None)
            if k is not None:
                return self.normal.ratio(simplify(gradient(u, [c.p[k]]))[0], DT * row[k])
        return None

    # --- baths ----------------------------------------------------------------------------------
    def bath(self, i: Instruction) -> None:
        if i.op == "BATH":
            found = heated(self.walk, i)
            if isinstance(found, str):
                self.walk.refuse(found)
            else:
                self.heating.append(found)
            return
        if i.op != "THERMO":
            self.walk.refuse(f"{self.walk.where} is not known to keep a law on g(q) = 0")
        begins = not self.together.open
        if begins and self.across:
            self.walk.refuse(f"{self.walk.where} scales momenta that may have a part across the constraints")
        done = len(self.together.moves)
        if i.op in GROUPS:
            self.together.take(self.walk, i)
        for m in self.together.moves[done:]:
            told = (m.kT,) if m.bath is None else (m.kT, m.bath.tau)
            self.applied_bath(m.weight, m.update, range(len(self.states)), told)
        for why in self.together.maps:
            self.walk.refuse(why)

    def close_bath(self) -> None:
        """One piece of a bath that changes momenta one by one: all of them, at one rate."""
        piece, self.heating = self.heating, []
        if not piece:
            return
        self.across, first = True, piece[0]
        momenta = {k for k, s in enumerate(self.program.states) if s.role == "momentum"}
        alike = all(h.rate is first.rate and h.weight == first.weight and h.way == LANGEVIN for h in piece)
        if {h.update.state for h in piece} != momenta or not alike or first.rate.shape:
            self.walk.refuse(f"{first.update}: on g(q) = 0 all momenta must forget at one rate")
        self.heated += piece
        self.applied_bath(first.weight, first.update, momenta, [u for h in piece for u in (h.kT, h.rate)])

    def applied_bath(self, weight: float, update: Update, moves: Iterable[int], told: Sequence[UOp]) -> None:
        own = frozenset(moves)
        if off_times(*told):
            self.walk.refuse(f"{update} reads more than one time")
        self.walk.applied.append(Applied(BATH, Fraction(weight), seen_at(*told), update, own, own))

    def law(self) -> str:
        """Why a bath does not keep its law; empty if it does."""
        structure = self.walk.structure
        if not isinstance(structure, Constrained) or self.kinetic is None:
            return "no constraints are declared"
        if self.heated and self.together.moves:
            return "two baths"
        if self.together.incomplete or not (self.heated or self.together.moves):
            return self.together.incomplete or "no bath is shown"
        held = sum(g.size for g in structure.constraints)
        kept = [(UOp.var(f"multipliers {k}", g.shape) * g).sum() for k, g in enumerate(structure.constraints)]
        energy = UOp.sum_of([*self.terms, *kept])
        how = (self.program, self.heated or self.together.moves, self.normal, self.velocity)
        return not_maxwell(*how) if self.heated else not_kept(*how, energy, held)  # type: ignore[arg-type]

    def velocity(self, momentum: int) -> UOp:
        return simplify(gradient(UOp.sum_of(self.terms), [self.states[momentum]]))[0]

    def canonical(self, palindrome: Verdict, consistent: Verdict) -> Verdict:
        why = self.walk.trouble or self.law()
        if not why and any(f.time is not None for f in self.walk.applied):
            why = "H depends on t, so that no law exp(-H/kT) stays as it is"
        for verdict in (consistent, palindrome):
            why = why or ("" if verdict else verdict.because)
        chains = [m.lines[-1].own.size for m in self.together.moves if m.way == NOSE_HOOVER]
        if not why and any(n == 1 for n in chains):
            why = "one thermostat alone is not ergodic for an oscillator: a chain of two or more is meant"
        where = ", where the motion is ergodic" if chains else ""
        told = (
            f"canonical to O(dt²) on g(q) = 0{where}: H enters by parts of weight 1 that keep dq∧dp there, the bath keeps "
            f"Maxwell's law of momenta along the constraints exactly, and they are a palindrome; {RESIDUAL}"
        )
        return Verdict(not why, why or told)

    # --- kicks ----------------------------------------------------------------------------------
    def kick(self, i: Instruction) -> None:
        s, dst, where = self.symbolic, i.dst, self.walk.where
        assert isinstance(dst, Register)
        flow, h = s.read(i.args[0], i.type, where), s.read(i.args[1], Type(i.type.dtype), where)
        if dst.index in self.kicking or any(h is not other for _, other, _ in self.kicking.values()):
            self.close_kick()
        value = self.fresh(flow, list(self.kicking))
        if value is None or moving(h) or clocks(value):
            self.walk.refuse(
                f"{where} is not a kick by the states as they are, for a time that no state enters"
            )
        else:
            self.kicking[dst.index] = (value, h, self.walk.update(i, value, h))
        s.load(dst.index)

    def close_kick(self) -> None:
        kicks, self.kicking = self.kicking, {}
        if not kicks:
            return
        self.across = True
        _, h, update = next(iter(kicks.values()))
        flows = {self.states[k]: value for k, (value, *_) in kicks.items()}
        for term, u in enumerate(self.terms):
            factor = self.share(u, flows) if DT not in u.leaves and not clocks(u) else None
            if factor is not None:
                weight = factor * self.walk.step_of(h, str(update))
                reads = frozenset(moving(u))
                self.walk.applied.append(
                    Applied(self.part(term), weight, None, update, frozenset(kicks), reads)
                )
                return
        self.walk.refuse(f"{update} is not a multiple of what one term of the positions moves momenta by")

    def share(self, term: UOp, flows: Mapping[UOp, UOp]) -> Fraction | None:
        """The factor by which flows are J times the gradient of a term, which holds none of what they move."""
        held = [self.states[k] for k in sorted(moving(term))]
        if not {*held} <= {*self.walk.structure.states}:  # a number that no bracket moves
            return None
        if not held or any(s in flows for s in held):
            return None
        rates = self.walk.structure.rates(dict(zip(held, simplify(gradient(term, held)))))
        factors: set[Fraction | None] = set()
        for state in {*rates, *flows}:
            rate, flow = rates.get(state), flows.get(state)
            nothing = rate is None or everywhere(lambda a, _: self.normal.is_zero(a), rate, rate)
            if flow is None and nothing:
                continue
            if flow is None or nothing or rate is None:
                return None
            factors.add(self.normal.ratio(flow, rate))
        return factors.pop() if len(factors) == 1 else None

    # --- verdicts -------------------------------------------------------------------------------
    def still(self, term: int) -> bool:
        return not moving(self.terms[term])

    def consistent(self, why: str) -> Verdict:
        flows = self.walk.applied
        for term in range(len(self.terms)):
            own = {part for (k, _), part in self.parts.items() if k == term}
            why = why or ("" if self.still(term) else off_weight(f"E{term}", in_a_step(flows, own)))
        if any(f.part == BATH for f in flows):
            why = why or off_weight("the bath", in_a_step(flows, {BATH}))
        why = why or self.walk.jump or (OFF if self.across else "")
        told = "every term of the energy enters with total weight 1; momenta are given back along the constraints"
        return Verdict(not why, why or told)

    def reversible(self, palindrome: Verdict) -> Verdict:
        if not palindrome:
            return Verdict(False, not_symmetric(palindrome))
        if (odd := self.walk.odd) is not None:
            return Verdict(False, f"E{odd} is not shown to be even in the momenta")
        return Verdict(True, f"symmetric, and negating the momenta reverses every sub-flow; {RESIDUAL}")

    def kink(self) -> str:
        """Why the equations may have several solutions near by; empty if there is no reason to think so."""
        structure = self.walk.structure
        own = structure.constraints if isinstance(structure, Constrained) else ()
        found = rough_in(self.program, [*own, *self.terms], KINK)
        return "" if found is None else f"{found} may have a kink: across it a drift may have several ends"

    def verdicts(self) -> Mapping[str, Verdict]:
        why = self.walk.trouble
        told = f"on g(q) = 0: kicks by gradients, and drifts that RATTLE's equations end there; {RESIDUAL}"
        flows = self.walk.applied
        palindrome = symmetric(flows, why)
        if palindrome:
            why_not = self.kink()
            palindrome = Verdict(not why_not, why_not or f"{palindrome.because}; {RESIDUAL}")
        consistent = self.consistent(why or uneven(flows))
        if any(i.row.reader == "baths" for i in self.program.step):
            return {
                "canonical": self.canonical(palindrome, consistent),
                "symmetric": palindrome,
                "consistent": consistent,
            }
        return {
            "symplectic": Verdict(not why, why or told),
            "symmetric": palindrome,
            "reversible": self.reversible(palindrome),
            "consistent": consistent,
        }
