"""What does a program conserve?  A geometric type system: it certifies, or says which rule is broken.

A block of updates is symplectic when its flows are J times the complete gradient of one scalar G, with
one state-free h, and G holds nothing that the block writes. Freshness alone proves volume preservation
only. Every certificate speaks of exact arithmetic and is one-sided: what is not shown does not hold.
"""
from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

from tinyphysics.errors import VerifyError
from tinyphysics.ir.uop import UOp, elements, substitute
from tinyphysics.rules.normal import Normal
from tinyphysics.rules.real import simplify
from tinyphysics.rules.unroll import unroll
from tinyphysics.rules.vjp import gradient
from tinyphysics.tpir.isa import Instruction, Program, Register, Word
from tinyphysics.tpir.symbolic import CLOCK, Symbolic, state_var

MOST_COMPONENTS = 24  # a curl is tested component by component up to here
TOL = Fraction(1, 2**46)  # weights are sums of a few rounded coefficients


@dataclass(frozen=True)
class Verdict:
    holds: bool
    because: str

    def __bool__(self) -> bool:
        return self.holds


@dataclass(frozen=True)
class Certificate:
    symplectic: Verdict
    volume_preserving: Verdict
    symmetric: Verdict
    reversible: Verdict
    consistent: Verdict

    def items(self) -> list[tuple[str, Verdict]]:
        return [(name.replace("_", "-"), v) for name, v in vars(self).items()]

    def __getitem__(self, name: str) -> Verdict:
        verdict: Verdict = getattr(self, name.replace("-", "_"))
        return verdict

    @property
    def level(self) -> str:
        """The strongest structure that was shown."""
        return next((name for name, v in self.items() if v and name != "consistent"), "none")


@dataclass
class Update:
    """One SYMP_STEP, with its flow as an expression of the states at version 0."""

    number: int
    instruction: Instruction
    state: int
    flow: UOp
    h: UOp
    stale: str = ""  # why the flow is not fresh
    force: bool = False
    clock: float | None = None  # the c of TIME in its flow
    section: str = "step"


@dataclass
class Group:
    """Consecutive updates that do not read what they write and share one h: one sub-flow."""

    updates: list[Update] = field(default_factory=list)

    @property
    def written(self) -> list[int]:
        return [u.state for u in self.updates]


def moving(u: UOp) -> set[int]:
    """The states that an expression holds."""
    return {int(str(v.arg)[1:].partition("@")[0]) for v in u.leaves if str(v.arg)[0] == "S"}


class Verifier:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.normal = Normal()
        self.groups: list[Group] = []
        self.maps: list[str] = []
        self.mixing: str = ""  # a position added to a momentum
        self.terms: list[UOp] = []
        self._gradients: dict[int, list[UOp]] = {}
        self.walk()

    # --- reading the program ------------------------------------------------------------------
    def walk(self) -> None:
        symbolic = Symbolic(self.program)
        for number, section, i in self.program.numbered():
            where = f"step {number} `{i}`"
            symbolic.check_kinds(i, where)
            if section == "energy":
                self.declare(symbolic, i, where)
                continue
            if i.op == "LOAD":
                assert isinstance(i.dst, Register)
                if i.dst.index >= len(self.program.states):
                    raise VerifyError(f"{where} loads a state that is not declared")
                symbolic.load(i.dst.index)
            elif i.op == "SYMP_STEP":
                self.update(symbolic, i, number, section, where)
            elif i.op == "MAP":
                assert isinstance(i.dst, Register)
                self.maps.append(where)
                symbolic.load(i.dst.index)
            elif (value := symbolic.value(i, where)) is not None:
                self.check_mixing(i, symbolic, where)
                symbolic.env[i.dst] = value

    def declare(self, symbolic: Symbolic, i: Instruction, where: str) -> None:
        if not self.terms and not symbolic.version:
            for k in range(len(self.program.states)):
                symbolic.env[Register("S", k)] = state_var(self.program, k, 0)
        value = symbolic.value(i, where)
        assert value is not None
        symbolic.env[i.dst] = value
        if isinstance(i.dst, Register) and i.dst.kind == "E":
            self.terms.append(value)

    def check_mixing(self, i: Instruction, symbolic: Symbolic, where: str) -> None:
        """A position added to a momentum: a type error in a program that claims to be symplectic."""
        additive = i.op == "ELEM" and i.args[0] in (Word("add"), Word("sub"))
        summands = i.args[1:] if additive else ()
        roles = [
            (self.program.states[r.index].role, r) for r in summands
            if isinstance(r, Register) and r.kind == "S"
        ]  # fmt: skip
        if len({role for role, _ in roles}) > 1 and not self.mixing:
            (a, x), (b, y) = roles[:2]
            self.mixing = f"{where} adds {a} {x} and {b} {y}"

    def update(self, symbolic: Symbolic, i: Instruction, number: int, section: str, where: str) -> None:
        assert isinstance(i.dst, Register)
        if i.dst not in symbolic.env:
            raise VerifyError(f"{where} updates a state that was not loaded")
        flow = symbolic.read(i.args[0], i.type, where)
        h = symbolic.read(i.args[1], self.program.states[i.dst.index].type, where)
        if h.shape:
            h = UOp.const(h.arg) if not h.src and not h.leaves else h
        stale = ""
        for k in symbolic.version:
            old = [v for v in (state_var(self.program, k, n) for n in range(symbolic.version[k]))
                   if v in flow.leaves]  # fmt: skip
            if old:
                stale = (f"{where} uses {i.args[0]}, computed from {old[0]}; "
                         f"S{k} is now S{k}@{symbolic.version[k]}")  # fmt: skip
        clocks = {str(v.arg) for v in flow.leaves if str(v.arg).startswith(CLOCK)}
        clock = float(clocks.pop().partition("@")[2]) if len(clocks) == 1 else None
        u = Update(number, i, i.dst.index, symbolic.base(flow), symbolic.base(h), stale, clock=clock,
                   section=section)  # fmt: skip
        u.force = self.is_force(i, section)
        self.join(u)
        symbolic.load(i.dst.index)

    def is_force(self, i: Instruction, section: str) -> bool:
        """Was the flow made by `POISSON_J ... force`?"""
        return any(
            j.op == "POISSON_J" and j.dst == i.args[0] and j.args[1] == Word("force")
            for j in (*self.program.init, *self.program.step, *self.program.final)
        )

    def join(self, u: Update) -> None:
        last = self.groups[-1] if self.groups else None
        independent = last is not None and all(
            v.section == u.section and v.h is u.h and v.state != u.state
            and v.state not in moving(u.flow) and u.state not in moving(v.flow)
            for v in last.updates
        )  # fmt: skip
        if last is not None and independent:
            last.updates.append(u)
        else:
            self.groups.append(Group([u]))

    # --- derivatives of the declared energy ---------------------------------------------------
    def slopes(self, k: int) -> list[UOp]:
        """d(term k)/d(state), for every state; k = -1 is the sum of the terms."""
        if k not in self._gradients:
            energy = UOp.sum_of(self.terms) if k < 0 else self.terms[k]
            states = [state_var(self.program, i, 0) for i in range(len(self.program.states))]
            self._gradients[k] = simplify(gradient(energy, states))
        return self._gradients[k]

    def reference(self, state: int, k: int) -> UOp | None:
        """What the flow of a state is for term k: J times its gradient."""
        pair = self.program.conjugate(state)
        if pair is None:
            return None
        slope = self.slopes(k)[pair]
        return -slope if self.program.states[state].role == "momentum" else slope

    def share(self, u: Update) -> tuple[int, Fraction] | None:
        """(term, factor) such that the flow of u is factor times that of the term."""
        if not self.terms:
            return None
        for k in (-1, *range(len(self.terms))):
            reference = self.reference(u.state, k)
            if reference is None:
                return None
            if (ratio := self.normal.ratio(u.flow, self.at_clock(reference, u))) is not None:
                return k, ratio
        return None

    def at_clock(self, reference: UOp, u: Update) -> UOp:
        """The energy section reads the clock at 0; a flow reads it where its block stands."""
        if u.clock is None:
            return reference
        return substitute([reference], {UOp.var(f"{CLOCK}@0.0"): UOp.var(f"{CLOCK}@{u.clock!r}")})[0]

    # --- verdicts -----------------------------------------------------------------------------
    def volume(self) -> Verdict:
        if self.maps:
            return Verdict(False, f"{self.maps[0]} is an explicit map")
        for g in self.groups:
            for u in g.updates:
                if u.stale:
                    return Verdict(False, u.stale)
                if u.state in moving(u.flow):
                    return Verdict(False, f"step {u.number} `{u.instruction}`: the flow depends on "
                                   f"S{u.state}, which it updates")  # fmt: skip
                if moving(u.h):
                    return Verdict(False, f"step {u.number} `{u.instruction}`: h depends on the state")
        return Verdict(True, "every update is a shear: its flow does not depend on what it updates")

    def symplectic(self, volume: Verdict) -> Verdict:
        if not volume:
            return Verdict(False, volume.because)
        if self.mixing:
            return Verdict(False, self.mixing)
        if not self.groups:
            return Verdict(True, "nothing moves")
        for g in self.groups:
            if why := self.not_a_gradient(g):
                return Verdict(False, why)
        return Verdict(True, "every block is J times the complete gradient of one scalar that it does not move")

    def not_a_gradient(self, g: Group) -> str:
        """Why a block is not the flow of one scalar; empty if it is."""
        first = g.updates[0]
        pairs = {self.program.conjugate(s) for s in g.written}
        if None in pairs:
            return f"step {first.number} `{first.instruction}`: S{first.state} has no conjugate"
        for u in g.updates:
            for s in sorted(moving(u.flow)):
                if s not in pairs:
                    other = self.program.conjugate(s)
                    name = f"S{other}" if other is not None else "nothing"
                    return (f"step {u.number} `{u.instruction}`: the scalar it is a derivative of holds S{s}, "
                            f"so {name} must be updated in the same block with the same h")  # fmt: skip
        shares = [self.share(u) for u in g.updates]
        if shares[0] is not None and all(s == shares[0] for s in shares):
            return ""  # all are derivatives of one declared energy, by one factor
        return self.curl(g)

    def curl(self, g: Group) -> str:
        """Is the covector of the block closed?  Tested component by component."""
        covectors: list[UOp] = []
        components: list[UOp] = []
        for u in g.updates:
            pair = self.program.conjugate(u.state)
            assert pair is not None
            sign = -u.flow if self.program.states[u.state].role == "momentum" else u.flow
            covectors += unroll([sign])[0]
            components += elements(state_var(self.program, pair, 0))
        if len(components) > MOST_COMPONENTS:
            return (f"step {g.updates[0].number}: no declared energy has this gradient, and "
                    f"{len(components)} components are too many to test for a curl")  # fmt: skip
        rows = [gradient(c, components) for c in covectors]
        for i in range(len(rows)):
            for j in range(i):
                if not self.normal.same(rows[i][j], rows[j][i]):
                    u = g.updates[0]
                    return (f"step {u.number} `{u.instruction}`: the force has a curl: "
                            f"d/d{self.name(components[j])} of component {i} is not "
                            f"d/d{self.name(components[i])} of component {j}, so no energy has this "
                            "gradient")  # fmt: skip
        return ""

    def name(self, component: UOp) -> str:
        variable = component.src[0] if component.src else component
        index = int(str(variable.arg)[1:].partition("@")[0])
        suffix = f"[{component.arg}]" if component.src else ""
        return f"{self.program.states[index].name}{suffix}"

    def weights(self) -> tuple[list[tuple[tuple[int, ...], Fraction]], dict[int, Fraction], str]:
        """The sub-flows of one step (states written, weight), the total per state, and what spoils it."""
        totals: dict[int, Fraction] = {}
        sequence: list[tuple[tuple[int, ...], Fraction]] = []
        dt = UOp.var("$dt")
        trouble = ""
        for g in self.groups:
            factors = set()
            for u in g.updates:
                share = self.share(u)
                h = self.normal.ratio(u.h, dt)
                if h is None:
                    h = self.normal.ratio(u.h, UOp.const(1.0))  # a literal step
                if share is None or h is None:
                    if u.force and h is not None:
                        factors.add(h)
                        totals[u.state] = totals.get(u.state, Fraction(0)) + h
                        continue
                    trouble = trouble or (
                        f"step {u.number} `{u.instruction}` is not a multiple of the derivative of the "
                        "declared energy" if self.terms else "the program declares no energy")  # fmt: skip
                    continue
                factors.add(share[1] * h)
                totals[u.state] = totals.get(u.state, Fraction(0)) + share[1] * h
            if len(factors) == 1:
                sequence.append((tuple(g.written), factors.pop()))
            else:
                trouble = trouble or "a block moves its states by different weights"
        return sequence, totals, trouble

    def consistent(self, totals: dict[int, Fraction], trouble: str) -> Verdict:
        if self.maps:
            return Verdict(False, "an explicit map has no energy to be consistent with")
        if trouble:
            return Verdict(False, trouble)
        scale = Fraction(1)
        if not any("$dt" in str(v.arg) for g in self.groups for u in g.updates for v in u.h.leaves):
            scale = next(iter(totals.values()), Fraction(1))  # the step is a literal: all must agree
            if scale <= 0:
                return Verdict(False, f"the states move by {float(scale):g}, backwards in time")
        for i, s in enumerate(self.program.states):
            total = totals.get(i, Fraction(0)) / scale
            if self.terms and i not in totals:
                reference = self.reference(i, -1)
                if reference is None or not self.normal.form(reference):
                    continue
            if abs(total - 1) > TOL:
                return Verdict(False, f"the derivative that moves `{s.name}` enters with total weight "
                               f"{float(total):g} instead of 1")  # fmt: skip
        forces = any(u.force for g in self.groups for u in g.updates)
        return Verdict(True, "every force enters with total weight 1" if forces
                       else "every term of the energy enters with total weight 1 and the sign of J")  # fmt: skip

    def symmetric(
        self, sequence: list[tuple[tuple[int, ...], Fraction]], volume: Verdict, trouble: str
    ) -> Verdict:
        if not volume or trouble:
            return Verdict(False, volume.because if not volume else trouble)
        merged: list[tuple[tuple[int, ...], Fraction]] = []
        for states, w in sequence:
            if merged and merged[-1][0] == states:
                w += merged.pop()[1]
            if abs(w) > TOL:
                merged.append((states, w))
        for (a, v), (b, w) in zip(merged, reversed(merged)):
            if a != b or abs(v - w) > TOL:
                return Verdict(False, "its sub-flows are not a palindrome")
        if why := self.clock_trouble():
            return Verdict(False, why)
        return Verdict(True, "init, step, final is a palindrome of sub-flows")

    def clock_trouble(self) -> str:
        """Time must advance inside exactly one sub-flow: what the clocked part sees is the other's weight."""
        now: dict[int, Fraction] = {}
        dt = UOp.var("$dt")
        steps_done = Fraction(0)
        for g in self.groups:
            for u in g.updates:
                if u.clock is None:
                    continue
                others = [w for s, w in now.items() if s != u.state] or [Fraction(0)]
                seen = Fraction(u.clock) + (1 if u.section == "final" else 0)
                if abs(seen - others[0]) > TOL:
                    return (f"step {u.number} `{u.instruction}` sees the time {float(seen):g} steps in, "
                            f"where the other part stands at {float(others[0]):g}")  # fmt: skip
            for u in g.updates:
                h = self.normal.ratio(u.h, dt)
                now[u.state] = now.get(u.state, steps_done) + (h or 0)
        return ""

    def reversible(self, symmetric: Verdict) -> Verdict:
        if not symmetric:
            return Verdict(False, f"not shown to be symmetric: {symmetric.because}")
        if any(u.clock is not None for g in self.groups for u in g.updates):
            return Verdict(False, "it depends on time explicitly")
        mirror = {}
        for i, s in enumerate(self.program.states):
            if s.role == "momentum":
                v = state_var(self.program, i, 0)
                mirror[v] = -v
        for g in self.groups:
            for u in g.updates:
                (flipped,) = substitute([u.flow], mirror)
                position = self.program.states[u.state].role == "position"
                if not self.normal.same(flipped, -u.flow if position else u.flow):
                    return Verdict(False, f"the flow of `{self.program.states[u.state].name}` is not shown to "
                                   f"be {'odd' if position else 'even'} in the momenta")  # fmt: skip
        return Verdict(True, "symmetric, and negating the momenta reverses every sub-flow")

    def certificate(self) -> Certificate:
        volume = self.volume()
        symplectic = self.symplectic(volume)
        if volume and not self.groups and not self.maps:
            volume = Verdict(True, "nothing moves")
        sequence, totals, trouble = self.weights()
        symmetric = self.symmetric(sequence, volume, trouble)
        return Certificate(
            symplectic, volume, symmetric, self.reversible(symmetric), self.consistent(totals, trouble)
        )


def verify(program: Program) -> Certificate:
    """The certificate of a program; a VerifyError if it is malformed or claims what is not shown."""
    verifier = Verifier(program)
    certificate = verifier.certificate()
    for claim in program.claims:
        verdict = certificate[claim]
        if not verdict:
            raise VerifyError(verdict.because, fix=remedy(verifier, claim, verdict))
    return certificate


def remedy(verifier: Verifier, claim: str, verdict: Verdict) -> str:
    if any(u.stale for g in verifier.groups for u in g.updates) and claim in ("symplectic", "volume-preserving"):
        return ("Recompute dH/dq after the drift (symplectic Euler), or split the kick in two (leapfrog).")
    if "adds position" in verdict.because or "adds momentum" in verdict.because:
        return "A position moves by h*dH/dp, a momentum by -h*dH/dq: SYMP_STEP S0, F0, h."
    return f"The program claims `{claim}`: mend this, or drop the claim."
