"""What does a program conserve that turns oscillators?  Each turn must be the exact flow of one declared term.

Two things are known here and derived nowhere: that FLOW has the matrix of its term; and what the functions arc_sign,
arc_drift and arc_kick of (a, b, h) are, and so that rules/formulas/harmonic.py makes of them the flow of a*p*p/2 + g*p +
b*q*q/2 + f*q for a time h. The a, b, f and g are derived from the declared energies, never read from the program; h is a
multiple of dt. A kick is the complete gradient of another term, at the positions, or at means of them (arc_lag), which go
to the positions as dt**2. Everything else is a no.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from tinyphysics.ir.ops import HARMONIC, Ops
from tinyphysics.ir.uop import UOp, substitute, toposort
from tinyphysics.rules.calculus.vjp import gradient
from tinyphysics.rules.formulas.coupled import flowed
from tinyphysics.rules.formulas.harmonic import averaged, turned
from tinyphysics.rules.formulas.oscillators import Oscillator, oscillators
from tinyphysics.rules.functions.random import draws
from tinyphysics.rules.identities.real import simplify
from tinyphysics.tpir.program.isa import FLOW, Instruction, Param, Program, Register, Type
from tinyphysics.tpir.program.symbolic import at_clock, clocks, state_var
from tinyphysics.tpir.proof.certificate import Verdict, five
from tinyphysics.tpir.proof.readers.propagate import not_constant
from tinyphysics.tpir.proof.units import DT, everywhere, exactly, moving
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


class OscillatorReader:
    """Pairs of positions and momenta, turned together, and kicked by what depends on positions."""

    name, refusal, by_derivatives = "turns", "is no part of a step that turns oscillators", True
    rank = 40

    def __init__(self, program: Program) -> None:
        self.program, self.walk = program, Walk(program)
        self.symbolic, self.normal, self.terms = self.walk.symbolic, self.walk.normal, self.walk.terms
        self.turning: dict[int, UOp] = {}  # the values of a turn that is not complete yet
        self.kicking: dict[int, tuple[UOp, UOp, Update]] = {}  # and of a kick: flow, h
        self.positions = [k for k, s in enumerate(program.states) if s.role == "position"]
        self.pairs = [(k, other) for k in self.positions if (other := program.conjugate(k)) is not None]
        self.solved: dict[int, list[Oscillator]] = {}
        # the parts that kicks are: of a term, and means over so much of dt by the oscillators of another
        self.kicks: dict[tuple[int, Fraction, int | None], int] = {}
        self.matrices: dict[UOp, tuple[int, UOp]] = {}  # (term, time) of what is handed in
        self.find_oscillators()
        self.walk.read(self)

    @staticmethod
    def has(program: Program) -> bool:
        return any(i.row.reader == "turns" for _, _, i in program.numbered())

    def var(self, k: int) -> UOp:
        return state_var(self.program, k, 0)

    def find_oscillators(self) -> None:
        if 2 * len(self.pairs) != len(self.program.states):
            self.walk.refuse("a state has no conjugate")
            return
        for k, u in enumerate(self.terms):
            if clocks(u) or draws(u) or DT in u.leaves:
                continue
            found = oscillators(u, [(self.var(q), self.var(p)) for q, p in self.pairs], self.normal)
            if found is not None and any(moving(u) & {p} for _, p in self.pairs):
                self.solved[k] = found

    # --- reading the program ------------------------------------------------------------------
    def close(self, walk: Walk) -> None:
        self.close_kick()
        if self.turning:
            walk.refuse(f"`{walk.section}` ends with a part of a turn")
            self.turning = {}
        for r in walk.carried if walk.section == "init" else []:
            walk.refuse(f"{r} is carried from step to step, and may depend on the state or on time")

    def take(self, walk: Walk, i: Instruction) -> bool:
        if self.turning and i.op != "ROTATE":
            walk.refuse(f"{walk.where} stands within a turn")
        if i.op == "ROTATE":
            self.close_kick()
            self.turn(i)
        elif i.row.numbers == "by_flow":
            self.kick(i)
        elif i.op == "FLOW":
            self.flow(i)
        else:
            return False
        return True

    def flow(self, i: Instruction) -> None:
        """A matrix that is handed in, for one term and one time."""
        (matrix, energy, time), where = i.args, self.walk.where
        h = self.symbolic.read(time, Type(i.type.dtype), where)
        value = self.symbolic.read(matrix, i.type, where)
        check_type(value, i, where)
        known = isinstance(matrix, Param) and matrix.name.startswith(FLOW) and value not in self.matrices
        known = known and self.walk.section == "init" and not moving(h)
        term = energy.index if isinstance(energy, Register) and energy.kind == "E" else len(self.terms)
        if known and term < len(self.terms):
            self.matrices[value] = (term, h)
        else:
            self.walk.refuse(f"{where} is not a matrix of its own for one term of the energy")
        self.symbolic.env[i.dst] = value

    def fresh(self, u: UOp) -> UOp | None:
        """u at version 0 of the states as they are now; None if it holds an older one."""
        now = {state_var(self.program, k, v): self.var(k) for k, v in self.symbolic.version.items()}
        if any(str(v.arg)[0] == "S" and v not in now for v in u.leaves):
            return None
        return substitute([u], now)[0]

    # --- turns --------------------------------------------------------------------------------
    def turn(self, i: Instruction) -> None:
        s, dst, where = self.symbolic, i.dst, self.walk.where
        assert isinstance(dst, Register)
        u = s.read(i.args[0], i.type, where)
        check_type(u, i, where)
        value = self.fresh(u)  # in the middle of a turn its states keep their versions
        if value is None or dst.index in self.turning:
            self.walk.refuse(f"{where} is not made of the states as they are before a turn")
        else:
            self.turning[dst.index] = value
        if len(self.turning) == len(self.program.states) or value is None:
            self.close_turn(self.walk.update(i, u, DT), where)

    def close_turn(self, update: Update, where: str) -> None:
        values, self.turning = self.turning, {}
        for k in range(len(self.program.states)):
            self.symbolic.load(k)
        if len(values) < len(self.program.states):
            return
        turns = [
            u for u in toposort(list(values.values())) if u.op in HARMONIC and u.op is not Ops.HARMONIC_LAG
        ]
        times = {scalar_of(u.src[2]) for u in turns}
        term, h = None, times.pop() if len(times) == 1 else None
        if h is not None:
            term = next((k for k in self.solved if self.is_flow(values, self.solved[k], h)), None)
        elif not times:
            term, h = self.by_matrix(values)
        if h is None or term is None:
            self.walk.refuse(
                f"{where} and those before it are not shown to be the flow of one term of the energy"
            )
            return
        everything = frozenset(range(len(self.program.states)))
        weight = self.walk.step_of(h, where)
        self.walk.applied.append(Applied(term, weight, None, update, everything, everything))

    def by_matrix(self, values: dict[int, UOp]) -> tuple[int | None, UOp | None]:
        """(term, time) of the matrix that the states are multiplied by; the term must have a constant one."""
        used = [u for u in self.matrices if any(u in v.leaves for v in values.values())]
        if len(used) != 1:
            return None, None
        states = [self.var(k) for k in range(len(self.program.states))]
        term, h = self.matrices[used[0]]
        wanted = flowed(states, used[0])
        if any(values[k] is not u for k, u in enumerate(wanted)):
            return None, None
        if not_constant(self.program, [self.terms[term]]):
            return None, None
        return (None, None) if DT in self.terms[term].leaves else (term, h)

    def is_flow(self, values: dict[int, UOp], found: list[Oscillator], h: UOp) -> bool:
        """Are these the states after a time h?  What is linear in them to the last bit of its constants."""
        for (q, p), o in zip(self.pairs, found):
            old = (self.var(q), self.var(p))
            zeros = {u: UOp.const(0.0, u.dtype, u.shape) for u in old}
            wanted, plain = turned(*old, o, h), turned(*old, Oscillator(o.a, o.b), h)
            for k, u, v in zip((q, p), wanted, plain):
                if values[k] is u:
                    continue
                at_rest, expected = substitute([values[k], u], zeros)
                if not exactly(values[k], v + at_rest, self.normal):
                    return False
                if not everywhere(self.normal.same, at_rest, expected):
                    return False
        return True

    # --- kicks --------------------------------------------------------------------------------
    def kick(self, i: Instruction) -> None:
        s, dst, where = self.symbolic, i.dst, self.walk.where
        assert isinstance(dst, Register)
        flow, h = s.read(i.args[0], i.type, where), s.read(i.args[1], Type(i.type.dtype), where)
        value = self.fresh(flow)
        if value is None or self.program.states[dst.index].role != "momentum" or moving(h):
            self.walk.refuse(
                f"{where} is not a kick by the positions as they are, for a time that no state enters"
            )
            s.load(dst.index)
            return
        if dst.index in self.kicking or any(h is not other for _, other, *_ in self.kicking.values()):
            self.close_kick()
        self.kicking[dst.index] = (value, h, self.walk.update(i, value, h))
        s.load(dst.index)

    def close_kick(self) -> None:
        """Momenta that are kicked by one term for one time: all that it moves."""
        kicks, self.kicking = self.kicking, {}
        if not kicks:
            return
        _, h, update = next(iter(kicks.values()))
        where = str(update)
        flows = {k: value for k, (value, *_) in kicks.items()}
        times = sorted({t for u in flows.values() for t in clocks(u)})
        if len(times) > 1:
            self.walk.refuse(f"{where} reads more than one time")
        timeless = {k: at_clock(u, times[0], 0.0) if times else u for k, u in flows.items()}
        found = self.kicked_by(timeless)
        if found is None:
            self.walk.refuse(f"{where} is not a multiple of the complete gradient of one term of the energy")
            return
        term, factor, lag, means = found
        part = self.kicks.setdefault((term, lag, means), len(self.terms) + len(self.kicks))
        moved = frozenset(p for _, p in self.pairs)
        weight, time = factor * self.walk.step_of(h, where), times[0] if times else None
        self.walk.applied.append(Applied(part, weight, time, update, moved, frozenset(self.positions)))

    def kicked_by(self, flows: dict[int, UOp]) -> tuple[int, Fraction, Fraction, int | None] | None:
        """(term, factor, time of means, whose) such that the kicks are that multiple of -dE/dq, at positions or at means."""
        lags = {scalar_of(u.src[2]) for u in toposort(list(flows.values())) if u.op in HARMONIC}
        # they are even in h
        lag = next((abs(x) for h in lags if (x := self.normal.ratio(h, DT)) is not None), Fraction(0))
        for term, u in enumerate(self.terms):
            if moving(u) - set(self.positions) or DT in u.leaves:
                continue
            for means, energy in self.seen(u, lags):
                slopes = simplify(gradient(energy, [self.var(q) for q, _ in self.pairs]))
                factors: set[Fraction | None] = set()
                for (_, p), slope in zip(self.pairs, slopes):
                    nothing = not self.normal.form(slope)
                    if p not in flows and not nothing:
                        factors.add(None)
                    elif p in flows and not (nothing and not self.normal.form(flows[p])):
                        factors.add(self.normal.ratio(flows[p], -slope))
                factor = factors.pop() if len(factors) == 1 else None
                if factor is not None:
                    return term, factor, lag, means
        return None

    def seen(self, energy: UOp, lags: set[UOp]) -> list[tuple[int | None, UOp]]:
        """An energy as a kick sees it: of the positions, or of means over a multiple of dt by a term's oscillators."""
        if not lags:
            return [(None, energy)]
        if len(lags) > 1 or self.normal.ratio(h := next(iter(lags)), DT) is None:
            return []
        means = {
            k: {self.var(q): averaged(self.var(q), o, h) for (q, _), o in zip(self.pairs, found)}
            for k, found in self.solved.items()
        }
        return [(k, substitute([energy], table)[0]) for k, table in means.items()]

    # --- verdicts -----------------------------------------------------------------------------
    def consistent(self) -> Verdict:
        flows = self.walk.applied
        why = self.walk.trouble or uneven(flows) or clock_trouble(flows)
        for k in range(len(self.terms)):
            own = {k, *(part for (term, *_), part in self.kicks.items() if term == k)}
            why = why or off_weight(f"E{k}", in_a_step(flows, own))
        if why := why or self.walk.jump:
            return Verdict(False, why)
        return Verdict(
            True,
            "every term of the energy enters with total weight 1 and the sign of J"
            f"{'; means of positions go to them as dt**2' if self.mollified else ''}",
        )

    @property
    def mollified(self) -> bool:
        return any(
            i.op == "ELEM" and str(i.args[0]) == Ops.HARMONIC_LAG.value for _, _, i in self.program.numbered()
        )

    def reversible(self, palindrome: Verdict) -> Verdict:
        if not palindrome:
            return Verdict(False, not_symmetric(palindrome))
        if any(f.time is not None for f in self.walk.applied):
            return Verdict(False, "it depends on time explicitly")
        if (odd := self.walk.odd) is not None:
            return Verdict(False, f"E{odd} is not shown to be even in the momenta")
        return Verdict(True, "symmetric, and negating the momenta reverses every sub-flow")

    def verdicts(self) -> Mapping[str, Verdict]:
        trouble, means = self.walk.trouble, " at means of the positions" if self.mollified else ""
        exact = f"exact flows of the quadratic part, and kicks by the gradient of the rest{means}"
        symplectic = Verdict(not trouble, trouble or exact)
        palindrome = symmetric(self.walk.applied, trouble)
        return five(symplectic, symplectic, palindrome, self.reversible(palindrome), self.consistent())


def scalar_of(h: UOp) -> UOp:
    """The number that an array repeats."""
    if h.op is Ops.MUL and h.shape:
        return UOp(Ops.MUL, h.dtype, (), tuple(map(scalar_of, h.src)))
    if h.op is Ops.CONST:
        return UOp.const(h.arg, h.dtype)
    return scalar_of(h.src[0]) if h.op is Ops.EXPAND else h
