"""What does a program conserve that solves for the stages of its steps?  What their coefficients say, at the root.

The residuals are read, not the way to their root: stages Y with Y_i = y + sum a_ij dt f(Y_j), f = J dH of the declared
energy, and y moves by sum b_j dt f(Y_j). That is symplectic if b_i a_ij + b_j a_ji = b_i b_j (Lasagni, Sanz-Serna and
Suris 1988), for every H. The matrix and the start of a SOLVE decide how soon it arrives, and nothing else: residuals are
looked at in every round. So certificates hold to the residual that is left. What is not of this form is not shown.
"""
from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from tinyphysics.errors import TraceError
from tinyphysics.ir.ops import Ops
from tinyphysics.ir.uop import UOp, elements, substitute, toposort
from tinyphysics.rules.normal import Normal, TooLarge, chooses
from tinyphysics.rules.real import simplify
from tinyphysics.rules.unroll import unroll
from tinyphysics.rules.vjp import gradient
from tinyphysics.tpir.blocks import STEPS_DONE, Blocks, check_type
from tinyphysics.tpir.certificate import Certificate, Verdict
from tinyphysics.tpir.isa import Program, Register, Type
from tinyphysics.tpir.kernel import reads_before_writing
from tinyphysics.tpir.symbolic import CLOCK, Symbolic, state_of, state_var
from tinyphysics.tpir.units import DT, moving
from tinyphysics.tpir.weights import TOL
from tinyphysics.util import prod

NOW = UOp.var(f"{CLOCK}@0.0")  # when a step begins
SUMS = (Ops.ADD, Ops.FMA)
MOST_UNKNOWNS = 40  # whose residuals are compared one by one
RESIDUAL = "to the residual of its equations: rounding, as a rule"


def solves(program: Program) -> bool:
    return any(i.op == "SOLVE" for _, _, i in program.numbered())


def root_of(u: UOp) -> UOp | None:
    """The one solution that an expression is made of."""
    found = [x for x in toposort([u]) if x.op is Ops.SOLVE]
    return found[0] if len(found) == 1 else None


def exact(r: Fraction) -> UOp:
    """A coefficient as a constant: the float that it was read from."""
    return UOp.const(float(r))


def at_time(c: Fraction) -> UOp:
    return NOW + exact(c) * DT


class NotShown(Exception):
    """Why something is not shown."""


@dataclass
class Move:
    state: int
    flow: UOp
    h: UOp
    where: str


@dataclass
class Stages:
    """One SOLVE and the moves that it serves, as coefficients in units of dt."""

    a: list[list[Fraction]]
    b: list[Fraction]
    c: list[Fraction]
    begins: bool  # does the unknown start at the state, as dt vanishes?

    @property
    def symplectic(self) -> bool:
        a, b, n = self.a, self.b, range(len(self.b))
        return all(abs(b[i] * a[i][j] + b[j] * a[j][i] - b[i] * b[j]) <= TOL for i in n for j in n)

    @property
    def symmetric(self) -> bool:
        """a mirrored and a add up to b: the adjoint has the same stages, the last first."""
        a, b, last = self.a, self.b, len(self.b) - 1
        return all(abs(a[last - i][last - j] + a[i][j] - b[j]) <= TOL and abs(b[j] - b[last - j]) <= TOL
                   for i in range(len(b)) for j in range(len(b)))  # fmt: skip

    @property
    def length(self) -> Fraction:
        return sum(self.b, Fraction(0))

    def same(self, other: Stages) -> bool:
        mine, theirs = ([x for row in s.a for x in row] + s.b for s in (self, other))
        return len(mine) == len(theirs) and all(abs(x - y) <= TOL for x, y in zip(mine, theirs))


def mirrored(times: list[Fraction]) -> bool:
    return all(abs(c + d - 1) <= TOL for c, d in zip(times, reversed(times)))


class Collocated:
    """A program whose states move by what a SOLVE gives, and by nothing else."""

    def __init__(self, program: Program) -> None:
        self.program, self.normal = program, Normal()
        self.blocks = Blocks(program)  # checks its form, and reads the declared energy
        self.terms = self.blocks.terms
        self.steps: list[Stages] = []
        self.trouble = ""
        self.timed = False
        try:
            self.walk()
        except NotShown as why:
            self.trouble = str(why)
        except TooLarge:
            self.trouble = "its expressions are too long to be compared"
        except TraceError as error:
            self.trouble = f"the energy could not be differentiated twice: {error.what}"

    # --- reading the program ------------------------------------------------------------------
    def walk(self) -> None:
        if not self.terms:
            raise NotShown("the program declares no energy")
        symbolic = Symbolic(self.program)
        waiting: list[Move] = []
        root: UOp | None = None
        began: dict[int, int] = {}
        for name, symbolic.steps in STEPS_DONE.items():
            for number, section, i in self.program.numbered():
                if section != name:
                    continue
                where = f"step {number} `{i}`"
                if i.op == "LOAD":
                    assert isinstance(i.dst, Register)
                    symbolic.load(i.dst.index)
                elif i.op == "SYMP_STEP":
                    assert isinstance(i.dst, Register)
                    flow = symbolic.read(i.args[0], i.type, where)
                    found = root_of(flow)
                    if found is None and not self.normal.form(flow):
                        continue  # what the energy does not depend on holds its conjugate still
                    if section != "step" or found is None:
                        raise NotShown(f"{where} moves a state without an equation that was solved for it in the step")
                    if root is not None and found is not root:
                        self.steps.append(self.understood(root, waiting, began))
                        waiting, root = [], None
                    if root is None:
                        root, began = found, dict(symbolic.version)
                    waiting.append(Move(i.dst.index, flow, symbolic.read(i.args[1], Type(), where), where))
                    symbolic.load(i.dst.index)
                elif i.op in ("MAP", "SHIFT", "SCALE", "ORBIT", "PROPAGATE", "NOISE", "NEAR", "TREE"):
                    raise NotShown(f"{where} is not one of the stages of a step")
                elif i.op not in ("STORE", "OBSERVE") and section != "energy":
                    value = symbolic.value(i, where)
                    assert value is not None
                    check_type(value, i, where)
                    symbolic.env[i.dst] = value
            if name == "step" and root is not None:
                self.steps.append(self.understood(root, waiting, began))
        self.check_carried(symbolic)

    def check_carried(self, symbolic: Symbolic) -> None:
        rewritten = {i.dst for i in self.program.step}
        for r in reads_before_writing((*self.program.step, *self.program.final)):
            if r.kind != "S" and (r in rewritten or moving(symbolic.env.get(r, UOp.const(0.0)))):
                raise NotShown(f"{r} is carried from step to step, and may depend on the state")

    # --- one solution -------------------------------------------------------------------------
    def understood(self, root: UOp, moves: list[Move], began: dict[int, int]) -> Stages:
        """The coefficients of the stages that a SOLVE is for."""
        states = [state_var(self.program, k, began[k]) for k in range(len(self.program.states))]
        z = [e for v in states for e in elements(v)]
        n, size = len(z), root.shape[0]
        if size % n or size > MOST_UNKNOWNS:
            raise NotShown(f"{size} unknowns for {n} numbers of the state are not read as stages")
        if any(map(chooses, (*root.src, *self.terms))):
            raise NotShown("an index that is not known chooses what is read")
        unknown = UOp.var(root.arg[0], root.shape)
        start, _, residual, *_ = root.src
        stages = size // n
        Y = [elements(unknown)[j * n : (j + 1) * n] for j in range(stages)]
        for u in (residual, *(m.flow for m in moves)):
            old = [v for v in u.leaves if state_of(v) is not None and all(v is not s for s in states)]
            if old:
                raise NotShown(f"{old[0]} is not the state that the stages begin with")
        (residuals,) = unroll([residual])
        f = self.slopes(states)
        jacobian = [gradient(g, z) for g in f]
        times = self.times(residual, stages)
        tables = [dict(zip(z, y)) | {NOW: at_time(c)} for y, c in zip(Y, times)]
        at = [[substitute([g], table)[0] for g in f] for table in tables]
        a = [[self.coefficient(residuals[i * n : (i + 1) * n], z, Y[i], Y[j], jacobian, tables[j]) for j in range(stages)]
             for i in range(stages)]  # fmt: skip
        for i in range(stages):
            for k in range(n):
                moved = UOp.sum_of(exact(a[i][j]) * (DT * at[j][k]) for j in range(stages))
                if not self.normal.same(residuals[i * n + k], (Y[i][k] - z[k]) - moved):
                    raise NotShown(f"residual {i * n + k} is not that of a stage: Y - y less multiples of dt and of the "
                                   "slopes of the declared energy")  # fmt: skip
        b = self.weights(moves, at, unknown, root)
        (first,) = unroll([substitute([start], {DT: UOp.const(0.0)})[0]])
        begins = all(self.normal.same(s, zk) for s, zk in zip(first, z * stages))
        return Stages(a, b, times, begins)

    def times(self, residual: UOp, stages: int) -> list[Fraction]:
        """When each stage is, in units of dt after the step began; in order, where the energy depends on time."""
        if not self.timed:
            return [Fraction(0)] * stages
        found = [self.normal.ratio(u - NOW, DT) for u in toposort([residual]) if u.op in SUMS and any(s is NOW for s in u.src)]
        known = sorted({c for c in found if c is not None})
        if len(known) != stages:
            raise NotShown("the energy depends on time, and the times of its stages are not found")
        return known

    def slopes(self, states: list[UOp]) -> list[UOp]:
        """J dH, number by number, of the declared energy at these states."""
        own = [state_var(self.program, k, 0) for k in range(len(states))]
        (energy,) = substitute([UOp.sum_of(self.terms)], dict(zip(own, states)))
        self.timed = NOW in energy.leaves
        ((scalar,),) = unroll([energy])
        numbers = [e for v in states for e in elements(v)]
        slopes = dict(zip(numbers, simplify(gradient(scalar, numbers))))
        out = []
        for k in range(len(states)):
            pair = self.program.conjugate(k)
            if pair is None:
                raise NotShown(f"S{k} has no conjugate")
            sign = self.program.states[k].role == "momentum"
            out += [-slopes[e] if sign else slopes[e] for e in elements(states[pair])]
        return out

    def coefficient(
        self, residuals: list[UOp], z: list[UOp], own: list[UOp], other: list[UOp], jacobian: list[list[UOp]],
        table: dict[UOp, UOp],
    ) -> Fraction:  # fmt: skip
        """a_ij, from the first residual of a stage that a component of another enters."""
        for k, r in enumerate(residuals):
            moved = (own[k] - z[k]) - r
            by = gradient(moved, other)
            for m, slope in enumerate(jacobian[k]):
                if not self.normal.form(slope):
                    continue
                (reference,) = substitute([slope], table)
                if not self.normal.form(by[m]):
                    return Fraction(0)
                ratio = self.normal.ratio(by[m], DT * reference)
                if ratio is None:
                    raise NotShown(f"residual {k} of a stage is not made of slopes of the declared energy")
                return ratio
        raise NotShown("the slopes are constant: there is nothing to solve for")

    def weights(self, moves: list[Move], at: list[list[UOp]], unknown: UOp, root: UOp) -> list[Fraction]:
        """b, the same for every state."""
        found: dict[int, dict[int, Fraction]] = {}
        first, offset = {}, 0
        for k, s in enumerate(self.program.states):
            first[k] = offset
            offset += prod(s.type.shape)
        for m in moves:
            h = self.normal.ratio(m.h, DT)
            if h is None:
                raise NotShown(f"{m.where}: h is not shown to be a multiple of dt")
            (flow,) = unroll(substitute([m.flow], {root: unknown}))
            mine = found.setdefault(m.state, {})
            j = next((j for j, f in enumerate(at) if j not in mine and all(
                self.normal.same(x, f[first[m.state] + k]) for k, x in enumerate(flow))), None)  # fmt: skip
            if j is None:
                raise NotShown(f"{m.where} is not the slope of the declared energy at a stage")
            mine[j] = h
        still = {k for k, s in enumerate(self.program.states) if k not in found and not any(
            self.normal.form(f[first[k] + m]) for f in at for m in range(prod(s.type.shape)))}  # fmt: skip
        rows = [[found.get(k, {}).get(j, Fraction(0)) for j in range(len(at))] for k in range(len(self.program.states))
                if k not in still]  # fmt: skip
        if any(abs(x - y) > TOL for row in rows for x, y in zip(row, rows[0])):
            raise NotShown("the states do not move by the same weights")
        return rows[0]

    # --- verdicts -----------------------------------------------------------------------------
    def certificate(self) -> Certificate:
        if self.trouble:
            no = Verdict(False, self.trouble)
            return Certificate(no, no, no, Verdict(False, f"not shown to be symmetric: {self.trouble}"), no)
        symplectic = Verdict(True, f"stages of J dH with b_i a_ij + b_j a_ji = b_i b_j, {RESIDUAL}")
        if not all(s.symplectic for s in self.steps):
            symplectic = Verdict(False, "the coefficients of its stages do not satisfy b_i a_ij + b_j a_ji = b_i b_j")
        symmetric = Verdict(True, "its stages are those of its adjoint, the last first")
        if not all(s.symmetric for s in self.steps):
            symmetric = Verdict(False, "the coefficients of its stages are not symmetric")
        elif not all(x.same(y) for x, y in zip(self.steps, reversed(self.steps))):
            symmetric = Verdict(False, "its solutions are not a palindrome")
        elif self.timed and not mirrored([c for s in self.steps for c in s.c]):
            symmetric = Verdict(False, "the times of its stages are not those of a palindrome")
        return Certificate(symplectic, symplectic, symmetric, self.reversible(symmetric), self.consistent())

    def consistent(self) -> Verdict:
        total = sum((s.length for s in self.steps), Fraction(0))
        if abs(total - 1) > TOL:
            return Verdict(False, f"the slopes enter with total weight {float(total):g} instead of 1")
        if not all(s.begins for s in self.steps):
            return Verdict(False, "an unknown is not shown to start at the state as dt vanishes: another root may be found")
        if self.timed and (why := self.out_of_time()):
            return Verdict(False, why)
        return Verdict(True, "the slopes of the energy enter with total weight 1 and the sign of J")

    def out_of_time(self) -> str:
        """Why the times of the stages are not those at which their states are."""
        done = Fraction(0)
        for s in self.steps:
            if any(abs(done + sum(row, Fraction(0)) - c) > TOL for row, c in zip(s.a, s.c)):
                return "a stage sees another time than that of its state"
            done += s.length
        return ""

    def reversible(self, symmetric: Verdict) -> Verdict:
        if not symmetric:
            return Verdict(False, f"not shown to be symmetric: {symmetric.because}")
        if self.timed:
            return Verdict(False, "it depends on time explicitly")
        energy = UOp.sum_of(self.terms)
        mirror = {v: -v for k, s in enumerate(self.program.states) if s.role == "momentum"
                  for v in [state_var(self.program, k, 0)]}  # fmt: skip
        if not self.normal.same(substitute([energy], mirror)[0], energy):
            return Verdict(False, "the energy is not shown to be even in the momenta")
        return Verdict(True, "symmetric, and the energy is even in the momenta")
