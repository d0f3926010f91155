"""What does a program conserve that turns bodies?  Each turn must be the exact flow of a declared term about one axis.

Known here and derived nowhere: that rules/formulas/turns.py turns columns of states by an angle, and that this is the flow of
P(z) dE where dE/dL about the axis stays the same. That is derived: the angle must be a multiple of dt times dE/dL about that
axis, which must depend on momenta about that axis alone. A kick is P(z) times the complete gradient of a term of what it does
not move. R (3 - |R|²)/2 brings a unit quaternion back to length 1 and moves nothing on the sphere where it lives.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction

from tinyphysics.ir.uop import UOp, substitute, toposort
from tinyphysics.rules.calculus.vjp import gradient
from tinyphysics.rules.equality.closed_sums import multiple
from tinyphysics.rules.formulas.thermostats import BUSSI, NOSE_HOOVER
from tinyphysics.rules.formulas.turns import angle_in, speeds, turned
from tinyphysics.rules.identities.real import simplify
from tinyphysics.tpir.program.isa import Instruction, Program, Register, Type
from tinyphysics.tpir.program.symbolic import at_clock, clocks, state_of, state_var
from tinyphysics.tpir.proof.blocks import decayed
from tinyphysics.tpir.proof.certificate import Verdict
from tinyphysics.tpir.proof.heated import Heated, heated, not_kept, not_maxwell, off_times, seen_at
from tinyphysics.tpir.proof.readers.friction import BACKWARDS, FRICTION, Decay
from tinyphysics.tpir.proof.solutions import RESIDUAL
from tinyphysics.tpir.proof.solved_turns import Equations, root_in
from tinyphysics.tpir.proof.together import Together
from tinyphysics.tpir.proof.units import DT, everywhere, moving
from tinyphysics.tpir.proof.walk import Walk, check_type
from tinyphysics.tpir.proof.weights import (
    Applied,
    Update,
    clock_trouble,
    in_a_step,
    not_symmetric,
    off_weight,
    symmetric,
    uneven,
)
from tinyphysics.turning import Turning

AXES, BATH = "xyz", 20_000  # the second as a part
# a term, and the axis that it turns about; -1 of what kicks or drifts.  Two steps that were solved for are not one of both
# lengths: each length is a part of its own
Part = tuple[int, int, Fraction]
LONG = 300  # nodes of expressions whose sums are not multiplied out at first
NO_LENGTH = Fraction(0)
Turn = tuple[int, int, Fraction, float | None]  # (term, axis, weight, time)


class RotationReader:
    """Bodies that turn about their axes, kicked by what they carry and by other positions."""

    name, refusal, by_derivatives = "rotations", "is no part of a step that turns bodies", True
    rank = 25  # before that of stages: what it ends by a TURN was solved for

    def __init__(self, program: Program) -> None:
        self.program, self.walk = program, Walk(program)
        self.symbolic, self.normal, self.terms = self.walk.symbolic, self.walk.normal, self.walk.terms
        self.states = [state_var(program, k, 0) for k in range(len(program.states))]
        self.bodies = [(kind, L, x) for kind in self.walk.structure.turning for L, x in kind.bodies]
        self.turning: dict[UOp, UOp] = {}  # the values of turns that are not complete yet
        self.kicking: dict[int, tuple[UOp, UOp, Update]] = {}
        self.parts: dict[Part, int] = {}
        self.solves = False
        self.relaxed: list[Update] = []
        self.heated: list[Heated] = []  # by a bath
        # by a bath that changes all momenta at once
        self.together = Together(program, turning=tuple(place(L) for _, L, _ in self.bodies))
        self.rates: dict[int, UOp] = {}  # of friction, by the numbers of what declares them
        self.factors: dict[tuple[UOp, UOp], Fraction | None] = {}
        self._speeds: dict[tuple[int, int], Mapping[UOp, UOp] | None] = {}
        self._slopes: dict[int, dict[UOp, UOp]] = {}
        self.walk.read(self)

    @staticmethod
    def has(program: Program) -> bool:
        return any(i.row.reader == "rotations" for _, _, i in program.numbered())

    # --- derivatives of the declared energy -----------------------------------------------------
    def slopes(self, term: int) -> dict[UOp, UOp]:
        if term not in self._slopes:
            found = simplify(gradient(self.terms[term], self.states))
            self._slopes[term] = dict(zip(self.states, found))
        return self._slopes[term]

    def speeds(self, term: int, axis: int) -> Mapping[UOp, UOp] | None:
        """How fast each body turns; None where a term holds anything but momenta of bodies about that axis."""
        if (term, axis) not in self._speeds:
            momenta = [L for _, L, _ in self.bodies]
            held = {self.states[k] for k in moving(self.terms[term])}
            own = None
            if held <= set(momenta) and DT not in self.terms[term].leaves:
                own = speeds({L: self.slopes(term)[L] for L in momenta}, axis)
            self._speeds[term, axis] = own
        return self._speeds[term, axis]

    def part(self, term: int, axis: int = -1, length: Fraction = NO_LENGTH) -> int:
        return self.parts.setdefault((term, axis, length), len(self.parts))

    # --- reading the program --------------------------------------------------------------------
    def close(self, walk: Walk) -> None:
        self.close_kick()
        if why := self.together.incomplete:
            walk.refuse(why)
        if self.turning:
            walk.refuse(f"`{walk.section}` ends with a part of a turn")
            self.turning = {}
        for r in walk.carried if walk.section == "init" else []:
            walk.refuse(f"{r} is carried from step to step, and may depend on the state or on time")

    def take(self, walk: Walk, i: Instruction) -> bool:
        if self.turning and i.op != "TURN":
            walk.refuse(f"{walk.where} stands within a turn")
        if i.op == "TURN":
            self.close_kick()
            self.turn(i)
        elif i.row.reader == "friction":
            self.close_kick()
            self.relax(i)
        elif i.op in ("BATH", "THERMO"):
            self.close_kick()
            self.bath(i)
        elif i.row.numbers == "by_flow":
            self.kick(i)
        else:
            return False
        return True

    def fresh(self, u: UOp) -> UOp | None:
        """u at version 0 of the states as they are now; None if it holds an older one."""
        now = {state_var(self.program, k, v): self.states[k] for k, v in self.symbolic.version.items()}
        if any(state_of(v) is not None and v not in now for v in u.leaves):
            return None
        return substitute([u], now)[0]

    # --- turns ------------------------------------------------------------------------------------
    def turn(self, i: Instruction) -> None:
        s, dst, where = self.symbolic, i.dst, self.walk.where
        assert isinstance(dst, Register)
        u = s.read(i.args[0], i.type, where)
        check_type(u, i, where)
        value, own = self.fresh(u), self.states[dst.index]  # in a turn its states keep their versions
        if value is not None and not self.turning and self.is_unit(own, value):
            s.load(dst.index)
            return
        if value is None or own in self.turning:
            self.walk.refuse(f"{where} is not made of the states as they are before a turn")
            self.turning = {}
            s.load(dst.index)
            return
        self.turning[own] = value
        bodies = [b for b in self.bodies if b[1] in self.turning or b[2] in self.turning]
        if all(L in self.turning and (x is None or x in self.turning) for _, L, x in bodies):
            self.close_turn(bodies, self.walk.update(i, u, DT), where)

    def is_unit(self, own: UOp, value: UOp) -> bool:
        """Is a unit quaternion, or a unit vector, brought back to its length?"""
        if not any(x is own for _, _, x in self.bodies):
            return False
        square = (own * own).sum(-1, keepdims=True)
        return everywhere(self.normal.same, value, own * (1.5 - 0.5 * square).expand(own.shape))

    def close_turn(self, bodies: list[tuple[Turning, UOp, UOp | None]], update: Update, where: str) -> None:
        """The first of several bodies that turn at once, or all of them."""
        values, self.turning = self.turning, {}
        for u in values:
            self.symbolic.load(place(u))
        found: set[Turn] = set()
        root = root_in(values)
        solved = None if root is None else self.solved_by(Equations(bodies, values, root, self.normal))
        for kind, L, x in bodies:
            own = self.turned_by(kind, L, x, values) if root is None else solved
            if own is None:
                self.walk.refuse(
                    f"{where} is not shown to turn {L.arg} about an axis by the speed of one term of the energy"
                )
                return
            found.add(own)
        (term, axis, weight, time), *others = found
        if others:
            self.walk.refuse(
                f"{where} and those before it turn bodies by different terms, or for different times"
            )
            return
        moved = frozenset(place(u) for u in values)
        part = self.part(term, axis, NO_LENGTH if root is None else weight)
        self.walk.applied.append(Applied(part, weight, time, update, moved, moved))

    def solved_by(self, equations: Equations) -> Turn | None:
        """A turn that was solved for."""
        momenta = {L for _, L, _ in self.bodies}
        for term, u in enumerate(self.terms):
            if {self.states[k] for k in moving(u)} <= momenta and not clocks(u) and DT not in u.leaves:
                weight = equations.weight(self.slopes(term), self.walk.structure.rates)
                if weight is not None:
                    self.solves = True
                    return term, -1, weight, None
        return None

    def turned_by(self, kind: Turning, L: UOp, x: UOp | None, values: Mapping[UOp, UOp]) -> Turn | None:
        angle = angle_in(values[L])
        if angle is None or len(times := clocks(angle)) > 1:
            return None
        for axis in range(3):
            new = turned(kind, L, x, axis, angle)
            if any(values[u] is not v for u, v in new.items()):
                continue
            for term in range(len(self.terms)):
                fast = self.speeds(term, axis)
                if fast is None or self.normal.is_zero(fast[L]):
                    continue
                weight = self.normal.ratio(timeless(angle), DT.expand(angle.shape) * fast[L])
                if weight is not None:
                    return term, axis, weight * (2 if kind.half else 1), next(iter(times), None)
        return None

    # --- kicks and drifts -------------------------------------------------------------------------
    def kick(self, i: Instruction) -> None:
        s, dst, where = self.symbolic, i.dst, self.walk.where
        assert isinstance(dst, Register)
        flow, h = s.read(i.args[0], i.type, where), s.read(i.args[1], Type(i.type.dtype), where)
        times = clocks(flow)
        if dst.index in self.kicking or any(
            h is not other or times != clocks(u.flow) for _, other, u in self.kicking.values()
        ):
            self.close_kick()
        value = self.fresh(flow) if not self.kicking else self.before(flow)
        if value is None or moving(h) or len(times) > 1:
            self.walk.refuse(
                f"{where} is not a kick by the states as they are, for a time that no state enters"
            )
            s.load(dst.index)
            return
        self.kicking[dst.index] = (value, h, self.walk.update(i, value, h))
        s.load(dst.index)

    def before(self, u: UOp) -> UOp | None:
        """u at version 0 of the states as they were before a kick that is not complete."""
        was = {
            state_var(self.program, k, v - (k in self.kicking)): self.states[k]
            for k, v in self.symbolic.version.items()
        }
        if any(state_of(v) is not None and v not in was for v in u.leaves):
            return None
        return substitute([u], was)[0]

    def close_kick(self) -> None:
        """All that one term moves, for one time: it holds nothing of that."""
        kicks, self.kicking = self.kicking, {}
        if not kicks:
            return
        _, h, update = next(iter(kicks.values()))
        flows = {self.states[k]: timeless(value) for k, (value, *_) in kicks.items()}
        time = next(iter(update.times), None)
        for term, u in enumerate(self.terms):
            factor = self.share(term, flows) if DT not in u.leaves else None
            if factor is not None:
                weight = factor * self.walk.step_of(h, str(update))
                reads = frozenset(moving(u))
                applied = Applied(self.part(term), weight, time, update, frozenset(kicks), reads)
                self.walk.applied.append(applied)
                return
        self.walk.refuse(f"{update} is not a multiple of what one term of the energy moves states by")

    def share(self, term: int, flows: Mapping[UOp, UOp]) -> Fraction | None:
        """The factor by which flows are P(z) times the gradient of a term, which holds none of what they move."""
        held = {self.states[k] for k in moving(self.terms[term])}
        if held & set(flows):
            return None
        rates = self.walk.structure.rates({s: g for s, g in self.slopes(term).items() if s in held})
        factors: set[Fraction | None] = set()
        for state in {*rates, *flows}:
            rate, flow = rates.get(state), flows.get(state)
            nothing = rate is None or everywhere(lambda a, _: self.normal.is_zero(a), rate, rate)
            if flow is None and nothing:
                continue
            if flow is None or nothing or rate is None:
                return None
            if (flow, rate) not in self.factors:
                self.factors[flow, rate] = self.factor(flow, rate)
            factors.add(self.factors[flow, rate])
        return factors.pop() if len(factors) == 1 else None

    def factor(self, flow: UOp, rate: UOp) -> Fraction | None:
        """The number r with flow = r*rate."""
        ways = [self.normal.ratio, multiple]
        if len(toposort([flow, rate])) > LONG:
            ways.reverse()
        return next((r for way in ways if (r := way(flow, rate)) is not None), None)

    # --- friction ---------------------------------------------------------------------------------
    def relax(self, i: Instruction) -> None:
        s, dst, where = self.symbolic, i.dst, self.walk.where
        assert isinstance(dst, Register)
        value, own = s.read(i.args[0], i.type, where), s.read(dst, i.type, where)
        check_type(value, i, where)
        rate = s.read(i.args[1], Type(i.type.dtype), where)
        h = decayed(value, own, rate, self.normal)
        if h is None or moving(rate):
            self.walk.refuse(
                f"{where} is not shown to be {dst} times exp(-rate*h) with a rate that no state enters"
            )
        else:
            update, state = self.walk.update(i, own, h), frozenset({dst.index})
            self.relaxed.append(update)
            self.rates[update.number] = rate
            weight = self.normal.ratio(h, DT) or Fraction(0)
            self.walk.applied.append(Applied(FRICTION + dst.index, weight, None, update, state, state))
        s.load(dst.index)

    # --- baths ------------------------------------------------------------------------------------
    def bath(self, i: Instruction) -> None:
        if i.op == "THERMO":
            done = len(self.together.moves)
            self.together.take(self.walk, i)
            every = frozenset(range(len(self.states)))
            for m in self.together.moves[done:]:
                assert m.bath is not None
                if off_times(m.kT, m.bath.tau):
                    self.walk.refuse(f"{m.update} reads more than one time")
                seen = seen_at(m.kT, m.bath.tau)
                self.walk.applied.append(Applied(BATH, Fraction(m.weight), seen, m.update, every, every))
            for why in self.together.maps:
                self.walk.refuse(why)
            return
        found = heated(self.walk, i)
        if isinstance(found, str):
            self.walk.refuse(found)
            return
        if off_times(found.kT, found.rate):
            self.walk.refuse(f"{found.update} reads more than one time")
            return
        self.heated.append(found)
        own, seen = frozenset({found.update.state}), seen_at(found.kT, found.rate)
        weight = Fraction(found.weight)
        self.walk.applied.append(Applied(BATH + found.update.state, weight, seen, found.update, own, own))

    def in_bath(self) -> Mapping[str, Verdict]:
        """Flows of the bracket keep exp(-H/k_B T) and the volume of rotations and momenta, a bath Maxwell's law."""
        trouble, flows = self.walk.trouble or uneven(self.walk.applied), self.walk.applied
        if self.relaxed:
            trouble = trouble or f"{self.relaxed[0]}: no rule is known for RELAX beside BATH"
        palindrome, consistent = symmetric(flows, trouble), self.consistent()
        if self.heated and self.together.moves:
            trouble = trouble or "two baths"
        if self.together.incomplete or not (self.heated or self.together.moves):
            trouble = trouble or self.together.incomplete or "no bath is shown"
        if self.together.moves and consistent and (why := off_weight("the bath", in_a_step(flows, {BATH}))):
            consistent = Verdict(False, why)
        for state in {h.update.state for h in self.heated} if consistent else ():
            name = f"the bath of `{self.program.states[state].name}`"
            if why := off_weight(name, in_a_step(flows, {BATH + state})):
                consistent = Verdict(False, why)
        how = (self.program, self.heated or self.together.moves, self.normal, self.velocity)
        energy = UOp.sum_of(self.terms)
        why = trouble or (not_maxwell(*how) if self.heated else not_kept(*how, energy))  # type: ignore[arg-type]
        moves = self.together.moves
        chain = any(m.way == NOSE_HOOVER for m in moves)
        if not why and any(m.way not in (BUSSI, NOSE_HOOVER) or m.bath is None or m.bath.axes for m in moves):
            why = "of bodies that turn no rule is known for this bath"
        if not why and len({m.way for m in moves}) > 1:
            why = "two baths"
        if not why and chain and any(m.bath is not None and m.bath.hidden[0].size == 1 for m in moves):
            why = "one thermostat alone is not ergodic for an oscillator: a chain of two or more is meant"
        if not why and any(f.time is not None for f in flows):
            why = "H depends on t, so that no law exp(-H/kT) stays as it is"
        for verdict in (consistent, palindrome):
            why = why or ("" if verdict else verdict.because)
        told = (
            "canonical to O(dt²): H enters by exact turns and kicks of weight 1, the bath keeps Maxwell's law of momenta and "
            "angular momenta exactly, and they are a palindrome"
        )
        if chain:
            told = (
                "canonical to O(dt²), where the motion is ergodic: H enters by exact turns and kicks of weight 1, which keep "
                f"volume, a chain by exact flows that keep its measure, g is {moves[0].bath.g:g}, and they are a palindrome"  # type: ignore[union-attr]
            )
        canonical = Verdict(not why, why or told)
        return {"canonical": canonical, "symmetric": palindrome, "consistent": consistent}

    def velocity(self, momentum: int) -> UOp:
        """dH/dL, or dH/dp."""
        return UOp.sum_of([self.slopes(term)[self.states[momentum]] for term in range(len(self.terms))])

    # --- verdicts ---------------------------------------------------------------------------------
    def consistent(self) -> Verdict:
        flows = self.walk.applied
        why = self.walk.trouble or uneven(flows) or clock_trouble(flows)
        for term in range(len(self.terms)):
            whole = any(known[:2] == (term, -1) for known in self.parts)
            axes = [k for k in range(3) if not whole and self.moves_about(term, k)]
            for axis in axes if axes else [-1]:
                name = f"E{term}" if axis < 0 else f"E{term} about {AXES[axis]}"
                numbers = {part for known, part in self.parts.items() if known[:2] == (term, axis)}
                why = why or off_weight(name, in_a_step(flows, numbers))
        if why := why or self.walk.jump or self.off_friction():
            return Verdict(False, why)
        told = "every term of the energy enters with total weight 1 and the sign of the bracket"
        return Verdict(True, f"{told}; so does friction" if self.relaxed else told)

    def off_friction(self) -> str:
        """Why friction is not what was declared; empty if it is."""
        decay = Decay(self.program, self.relaxed, self.rates, self.normal)
        return decay.trouble()

    def moves_about(self, term: int, axis: int) -> bool:
        fast = self.speeds(term, axis)
        return fast is not None and any(not self.normal.is_zero(g) for g in fast.values())

    def reversible(self, palindrome: Verdict) -> Verdict:
        if not palindrome:
            return Verdict(False, not_symmetric(palindrome))
        if any(f.time is not None for f in self.walk.applied):
            return Verdict(False, "it depends on time explicitly")
        if (odd := self.walk.odd) is not None:
            return Verdict(False, f"E{odd} is not shown to be even in the momenta")
        return Verdict(True, "symmetric, and negating the momenta reverses every sub-flow")

    def damped(self, exact: str) -> Mapping[str, Verdict]:
        """Of bodies whose momenta decay: P up to a factor where there is one rate, volumes in any case."""
        trouble, decay = self.walk.trouble, Decay(self.program, self.relaxed, self.rates, self.normal)
        others = [f.update.number for f in self.walk.applied if f.update not in self.relaxed]
        momenta = [place(u) for u in self.momenta]
        volume = Verdict(
            not trouble, trouble or f"{exact}; friction multiplies volumes by a factor that no state enters"
        )
        one = decay.one_rate(momenta, others)
        why = trouble or (
            "" if one else "the momenta do not all decay at one rate: only the factor of volumes is known"
        )
        laws = "".join(f", and {law}" for law in self.laws(decay)) if one else ""
        factor = f"M P(z) Mᵀ = f P(z') with f = exp(-{decay.shown_rate} dt): {exact}; friction multiplies all momenta by f"
        conformal = Verdict(not why, why or factor + laws)
        found = (
            conformal,
            volume,
            symmetric(self.walk.applied, trouble),
            Verdict(False, BACKWARDS),
            self.consistent(),
        )
        return dict(zip(self.walk.structure.claims, found))

    @property
    def momenta(self) -> list[UOp]:
        """What friction acts on, where it acts on all."""
        points = [u for u, s in zip(self.states, self.program.states) if s.role == "momentum"]
        return [*points, *(L for _, L, _ in self.bodies)]

    def laws(self, decay: Decay) -> Iterator[str]:
        """What becomes of what every energy would keep."""
        for kind, L, x in self.bodies:
            name = self.program.states[place(L)].name
            if x is None:
                yield f"|{name}|² falls by exp(-2*{decay.shown_rate} dt)"
            elif not kind.half and not kind.is_matrix:
                yield f"{name}·{self.program.states[place(x)].name} falls by exp(-{decay.shown_rate} dt)"

    def verdicts(self) -> Mapping[str, Verdict]:
        trouble = self.walk.trouble
        exact = "exact turns about one axis each, by what stays the same meanwhile, and kicks by the gradient of the rest"
        if self.solves:
            exact = f"equations that keep the bracket for every energy; {RESIDUAL}"
        if any(i.op in ("BATH", "THERMO") for i in self.program.step):
            return self.in_bath()
        if self.relaxed:
            return self.damped(exact)
        poisson = Verdict(not trouble, trouble or exact)
        kept = Verdict(not trouble, trouble or "exact flows of the bracket keep what every energy keeps")
        palindrome = symmetric(self.walk.applied, trouble)
        found = {"poisson": poisson, "casimirs": kept, "symmetric": palindrome}
        return found | {"reversible": self.reversible(palindrome), "consistent": self.consistent()}


def timeless(u: UOp) -> UOp:
    """u with its clock at 0, where the energy has it."""
    times = clocks(u)
    return at_clock(u, times[0], 0.0) if times else u


def place(u: UOp) -> int:
    """The number of a state."""
    found = state_of(u)
    assert found is not None
    return found
