"""What does a program conserve?  A geometric type system: it certifies, or says which rule is broken.

A block of updates is symplectic when its flows are J times the complete gradient of one scalar G, with
one state-free h, and G holds nothing that the block writes. Freshness alone proves volume preservation
only. Every certificate speaks of exact arithmetic and is one-sided: what is not shown does not hold.
"""
from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

from tinyphysics.errors import TraceError, VerifyError
from tinyphysics.ir.uop import UOp, elements, substitute
from tinyphysics.rules.normal import Normal
from tinyphysics.rules.real import simplify
from tinyphysics.rules.unroll import unroll
from tinyphysics.rules.vjp import gradient
from tinyphysics.tpir.form import check_form
from tinyphysics.tpir.isa import Instruction, Operand, Program, Register, Type, Word
from tinyphysics.tpir.kernel import reads_before_writing
from tinyphysics.tpir.symbolic import CLOCK, Symbolic, clocks, state_var

MOST_COMPONENTS = 24  # a curl is tested component by component up to here
TOL = Fraction(1, 2**46)  # weights are sums of a few rounded coefficients
DT = UOp.var("$dt")
# a run with two steps, and the steps done before each part of it: what one step leaves to the next counts
LAPS = (("init", 0), ("step", 0), ("step", 1), ("final", 2))
INIT, STEP, AGAIN, FINAL = range(4)


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
    lap: int
    stale: str = ""  # why the flow is not fresh
    force: bool = False

    @property
    def times(self) -> list[float]:
        """The times that its flow reads, in steps since the run began."""
        return clocks(self.flow)

    @property
    def timeless(self) -> UOp:
        """The flow with its clock at 0."""
        return at_clock(self.flow, self.times[0], 0.0) if len(self.times) == 1 else self.flow


@dataclass
class Group:
    """Consecutive updates that do not read what they write and share one h: one sub-flow."""

    updates: list[Update] = field(default_factory=list)

    @property
    def written(self) -> list[int]:
        return [u.state for u in self.updates]

    @property
    def lap(self) -> int:
        return self.updates[0].lap


@dataclass(frozen=True)
class Flight:
    """A block by what it does: the part that it is a multiple of, by which factor, at which time."""

    part: int
    weight: Fraction
    time: float | None
    lap: int
    update: Update = field(compare=False, repr=False)

    def again(self) -> tuple[int, Fraction, float | None]:
        """The same in every step."""
        return self.part, self.weight, None if self.time is None else self.time - LAPS[self.lap][1]


def merged(flights: list[Flight]) -> list[tuple[int, Fraction]]:
    """(part, weight) with neighbours of one part and one time added, and what adds to nothing left out."""
    out: list[tuple[int, Fraction, float | None]] = []
    for f in flights:
        part, weight, time = f.again()
        time = None if time is None else time + (f.lap == FINAL)
        if out and out[-1][0] == part and out[-1][2] == time:
            weight += out.pop()[1]
        if abs(weight) > TOL:
            out.append((part, weight, time))
    return [(part, weight) for part, weight, _ in out]


def at_clock(u: UOp, old: float, new: float) -> UOp:
    return substitute([u], {UOp.var(f"{CLOCK}@{old!r}"): UOp.var(f"{CLOCK}@{new!r}")})[0]


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
        self.unsettled: str = ""  # a register that differs from step to step
        self.forced: dict[Operand, bool] = {}  # was the flow made by `POISSON_J ... force`?
        self.terms: list[UOp] = []
        self._gradients: dict[int, list[UOp]] = {}
        self._shares: dict[tuple[int, UOp], tuple[int, Fraction] | None] = {}
        check_form(program)
        self.declare()
        self.walk()
        self.literal = all(DT not in u.h.leaves for g in self.groups for u in g.updates)

    # --- reading the program ------------------------------------------------------------------
    def declare(self) -> None:
        symbolic = Symbolic(self.program)
        for k in range(len(self.program.states)):
            symbolic.env[Register("S", k)] = state_var(self.program, k, 0)
        for number, section, i in self.program.numbered():
            if section == "energy":
                value = self.value(symbolic, i, f"step {number} `{i}`")
                if isinstance(i.dst, Register) and i.dst.kind == "E":
                    self.terms.append(value)

    def walk(self) -> None:
        symbolic = Symbolic(self.program)
        left: list[dict[Register, UOp]] = []
        for lap, (name, symbolic.steps) in enumerate(LAPS):
            began = dict(symbolic.version)
            for number, section, i in self.program.numbered():
                if section == name:
                    self.read(symbolic, i, number, lap, began)
            if name == "step":
                left.append(self.left(symbolic))
        for r, u in left[0].items():
            if left[1][r] is not u:
                self.unsettled = f"{r} carries a value from step to step that is not the same function of the state"

    def left(self, symbolic: Symbolic) -> dict[Register, UOp]:
        """What one step leaves to the next in registers, as functions of the state where it ends."""
        table = {state_var(self.program, k, n): state_var(self.program, k, n - v)
                 for k, v in symbolic.version.items() for n in range(v + 1)}  # fmt: skip
        out = {}
        for r in reads_before_writing((*self.program.step, *self.program.final)):
            if r.kind != "S" and r in symbolic.env:
                (u,) = substitute([symbolic.env[r]], table)
                for t in clocks(u):
                    u = at_clock(u, t, t - symbolic.steps)
                out[r] = u
        return out

    def read(self, symbolic: Symbolic, i: Instruction, number: int, lap: int, began: dict[int, int]) -> None:
        where = f"step {number} `{i}`"
        symbolic.check_kinds(i, where)
        match i.op:
            case "LOAD":
                assert isinstance(i.dst, Register)
                symbolic.load(i.dst.index)
            case "SYMP_STEP":
                self.update(symbolic, i, number, lap, began)
            case "MAP":
                assert isinstance(i.dst, Register)
                value = symbolic.read(i.args[0], i.type, where)
                self.maps.append(where)
                check_type(value, i, where)
                symbolic.load(i.dst.index)
            case "STORE" | "OBSERVE":
                symbolic.read(i.args[0], i.type, where)
            case _:
                self.forced[i.dst] = i.op == "POISSON_J" and i.args[1] == Word("force")
                self.check_mixing(i, symbolic, where)
                self.value(symbolic, i, where)

    def value(self, symbolic: Symbolic, i: Instruction, where: str) -> UOp:
        value = symbolic.value(i, where)
        assert value is not None
        check_type(value, i, where)
        symbolic.env[i.dst] = value
        return value

    def check_mixing(self, i: Instruction, symbolic: Symbolic, where: str) -> None:
        """A position added to a momentum: a type error in a program that claims to be symplectic."""
        summands: tuple[Operand, ...] = ()
        if i.op == "ELEM" and i.args[0] in (Word("add"), Word("sub")):
            summands = i.args[1:]
        if i.op == "FMA" and any(isinstance(x, float) for x in i.args[:2]):  # a multiple is of the same kind
            summands = i.args
        roles = [
            (self.program.states[r.index].role, r) for r in summands
            if isinstance(r, Register) and r.kind == "S"
        ]  # fmt: skip
        if len({role for role, _ in roles}) > 1 and not self.mixing:
            (a, x), (b, y) = roles[:2]
            self.mixing = f"{where} adds {a} {x} and {b} {y}"

    def update(
        self, symbolic: Symbolic, i: Instruction, number: int, lap: int, began: dict[int, int]
    ) -> None:
        where = f"step {number} `{i}`"
        assert isinstance(i.dst, Register)
        symbolic.read(i.dst, i.type, where)
        flow = symbolic.read(i.args[0], i.type, where)
        h = symbolic.read(i.args[1], Type(i.type.dtype), where)
        if h.shape:
            raise VerifyError(f"{where} has an h of shape {h.shape}",
                              fix="h is one number: the components of a state move together.")  # fmt: skip
        stale = ""
        for k in symbolic.version:
            old = [v for v in (state_var(self.program, k, n) for n in range(symbolic.version[k]))
                   if v in flow.leaves]  # fmt: skip
            if old:
                stale = (f"{where} uses {i.args[0]}, computed from {old[0]}; "
                         f"S{k} is now S{k}@{symbolic.version[k]}")  # fmt: skip
        self.join(Update(number, i, i.dst.index, symbolic.base(flow, began), symbolic.base(h, began), lap,
                         stale, self.forced.get(i.args[0], False)))  # fmt: skip
        symbolic.load(i.dst.index)

    def join(self, u: Update) -> None:
        last = self.groups[-1] if self.groups else None
        independent = last is not None and all(
            v.lap == u.lap and v.h is u.h and v.state != u.state
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
        """(term, factor) such that the flow of u is factor times that of the term; -1 is their sum."""
        if (u.state, u.timeless) not in self._shares:
            self._shares[u.state, u.timeless] = self._share(u)
        return self._shares[u.state, u.timeless]

    def _share(self, u: Update) -> tuple[int, Fraction] | None:
        if not self.terms:
            return None
        for k in (-1, *range(len(self.terms))):
            reference = self.reference(u.state, k)
            if reference is None:
                return None
            if (ratio := self.normal.ratio(u.timeless, reference)) is not None:
                return k, ratio
        return None

    def moved_by(self, state: int, k: int) -> bool:
        """Does term k move this state?"""
        reference = self.reference(state, k) if self.terms else None
        return reference is not None and bool(self.normal.form(reference))

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
        if self.unsettled:
            return Verdict(False, self.unsettled)
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
        size = sum(u.flow.size for u in g.updates)
        if size > MOST_COMPONENTS:
            return (f"step {g.updates[0].number}: no declared energy has this gradient, and "
                    f"{size} components are too many to test for a curl")  # fmt: skip
        for u in g.updates:
            pair = self.program.conjugate(u.state)
            assert pair is not None
            sign = -u.flow if self.program.states[u.state].role == "momentum" else u.flow
            covectors += unroll([sign])[0]
            components += elements(state_var(self.program, pair, 0))
        try:
            rows = [gradient(c, components) for c in covectors]
        except TraceError as error:  # an operation without a derivative
            return f"step {g.updates[0].number}: the force could not be differentiated: {error.what}"
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

    # --- weights ------------------------------------------------------------------------------
    def length(self, u: Update) -> Fraction | None:
        """h as a multiple of dt, or of 1 where the program writes its step as a number."""
        return self.normal.ratio(u.h, UOp.const(1.0) if self.literal else DT)

    def flights(self) -> tuple[list[Flight], str]:
        """The blocks of a run with two steps by what they do, and what keeps them from being named."""
        parts: list[dict[int, UOp]] = []
        out: list[Flight] = []
        for g in self.groups:
            flows = {u.state: u.timeless for u in g.updates if self.normal.form(u.flow)}
            if not flows:
                continue
            u = g.updates[0]
            h, times = self.length(u), {t for v in g.updates for t in v.times}
            if h is None:
                return [], f"step {u.number} `{u.instruction}`: h is not shown to be a multiple of dt"
            if any(DT in f.leaves for f in flows.values()):
                return [], f"step {u.number} `{u.instruction}`: the flow itself depends on dt"
            if len(times) > 1:
                return [], f"step {u.number} `{u.instruction}` reads more than one time"
            ratio = Fraction(1)
            for part, known in enumerate(parts):
                ratios = {self.normal.ratio(f, known[s]) if s in known else None for s, f in flows.items()}
                one = ratios.pop()
                if one is not None and not ratios and len(known) == len(flows):
                    ratio = one
                    break
            else:
                part = len(parts)
                parts.append(flows)
            out.append(Flight(part, ratio * h, next(iter(times), None), g.lap, u))
        return out, ""

    def uneven(self, flights: list[Flight]) -> str:
        """Why n steps are not n times one step; empty if they are."""
        laps: list[list[Flight]] = [[f for f in flights if f.lap == lap] for lap in range(len(LAPS))]
        if [f.again() for f in laps[STEP]] != [f.again() for f in laps[AGAIN]]:
            return "the first step is not like the next"
        if merged([*(Flight(f.part, f.weight, f.time, INIT, f.update) if f.time is None else
                     Flight(f.part, f.weight, f.time - LAPS[FINAL][1], INIT, f.update) for f in laps[FINAL]),
                   *laps[INIT]]):  # fmt: skip
            return "what `final` does is not undone by `init`, so that n steps are not n times one step"
        return ""

    def totals(self) -> tuple[dict[tuple[int, int], Fraction], str]:
        """By which weight each term moves each state in one step, and what spoils it; term -1 is a force."""
        out: dict[tuple[int, int], Fraction] = {}
        forces: dict[int, UOp] = {}
        for u in (u for g in self.groups if g.lap == STEP for u in g.updates):
            h, share = self.length(u), self.share(u)
            if h is None:
                return out, f"step {u.number} `{u.instruction}`: h is not shown to be a multiple of dt"
            if not self.normal.form(u.flow):
                continue
            if share is None and u.force and not self.moved_by(u.state, -1):
                ratio = self.normal.ratio(u.timeless, forces.setdefault(u.state, u.timeless))
                share = None if ratio is None else (-1, ratio)
                terms = [-1]
            elif share is not None:
                terms = list(range(len(self.terms))) if share[0] < 0 else [share[0]]
            if share is None:
                return out, (f"step {u.number} `{u.instruction}` is not a multiple of the derivative of the "
                             "declared energy" if self.terms else "the program declares no energy")  # fmt: skip
            for k in terms:
                out[k, u.state] = out.get((k, u.state), Fraction(0)) + share[1] * h
        return out, ""

    def consistent(self, uneven: str) -> Verdict:
        if self.maps:
            return Verdict(False, "an explicit map has no energy to be consistent with")
        totals, trouble = self.totals()
        if trouble or uneven or self.unsettled:
            return Verdict(False, trouble or uneven or self.unsettled)
        scale = Fraction(1)
        if self.literal:  # the step is a number: all must agree
            scale = next(iter(totals.values()), Fraction(1))
            if scale <= 0:
                return Verdict(False, f"the states move by {float(scale):g}, backwards in time")
        for i, s in enumerate(self.program.states):
            moving_terms = [k for k in range(len(self.terms)) if self.moved_by(i, k)]
            for k in [*moving_terms, *([-1] if (-1, i) in totals else [])]:
                total = totals.get((k, i), Fraction(0)) / scale
                if abs(total - 1) > TOL:
                    return Verdict(False, f"the derivative that moves `{s.name}` enters with total weight "
                                   f"{float(total):g} instead of 1")  # fmt: skip
        return Verdict(True, "every force enters with total weight 1" if any(k < 0 for k, _ in totals)
                       else "every term of the energy enters with total weight 1 and the sign of J")  # fmt: skip

    def symmetric(self, volume: Verdict, flights: list[Flight], trouble: str) -> Verdict:
        if not volume or trouble:
            return Verdict(False, volume.because if not volume else trouble)
        once = merged([f for f in flights if f.lap != AGAIN])
        for (a, v), (b, w) in zip(once, reversed(once)):
            if a != b or abs(v - w) > TOL:
                return Verdict(False, "its sub-flows are not a palindrome")
        if why := self.clock_trouble(flights):
            return Verdict(False, why)
        return Verdict(True, "init, step, final is a palindrome of sub-flows")

    def clock_trouble(self, flights: list[Flight]) -> str:
        """Time must advance inside exactly one part: what the clocked blocks see is the weight of that part."""
        clocked = {f.part for f in flights if f.time is not None}
        ticking = [*dict.fromkeys(f.part for f in flights if f.part not in clocked)] or [-1]
        reasons = []
        for part in ticking if clocked else []:
            now, why = Fraction(0), ""
            for f in flights:
                if f.time is not None and abs(Fraction(f.time) - now) > TOL and not why:
                    why = (f"step {f.update.number} `{f.update.instruction}` sees the time {f.time:g} steps in, "
                           f"where the other part stands at {float(now):g}")  # fmt: skip
                now += f.weight if f.part == part else 0
            reasons.append(why)
        return "" if "" in reasons or not reasons else reasons[0]

    def reversible(self, symmetric: Verdict) -> Verdict:
        if not symmetric:
            return Verdict(False, f"not shown to be symmetric: {symmetric.because}")
        if any(u.times or clocks(u.h) for g in self.groups for u in g.updates):
            return Verdict(False, "it depends on time explicitly")
        mirror = {}
        for i, s in enumerate(self.program.states):
            if s.role == "momentum":
                v = state_var(self.program, i, 0)
                mirror[v] = -v
        for g in self.groups:
            for u in g.updates:
                (flipped,) = substitute([u.flow], mirror)
                odd = self.program.states[u.state].role != "momentum"
                if not self.normal.same(flipped, -u.flow if odd else u.flow):
                    return Verdict(False, f"the flow of `{self.program.states[u.state].name}` is not shown to "
                                   f"be {'odd' if odd else 'even'} in the momenta")  # fmt: skip
        return Verdict(True, "symmetric, and negating the momenta reverses every sub-flow")

    def certificate(self) -> Certificate:
        volume = self.volume()
        symplectic = self.symplectic(volume)
        if volume and not self.groups and not self.maps:
            volume = Verdict(True, "nothing moves")
        flights, trouble = self.flights() if volume else ([], "")
        if volume:
            uneven = trouble or self.uneven(flights)
        else:  # stale flows have no name: then nothing may move outside the steps
            uneven = "" if all(g.lap in (STEP, AGAIN) for g in self.groups) else "updates outside the steps"
        symmetric = self.symmetric(volume, flights, uneven)
        return Certificate(symplectic, volume, symmetric, self.reversible(symmetric), self.consistent(uneven))


def check_type(value: UOp, i: Instruction, where: str) -> None:
    if value.shape != i.type.shape or value.dtype is not i.type.dtype:
        raise VerifyError(f"{where} puts {value.dtype}{list(value.shape)} into {i.type}",
                          fix="Write the type of the destination, or expand: MOVE T1:f64[3], expand, T0.")  # fmt: skip


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
