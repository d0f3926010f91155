"""What does a program conserve that solves for the stages of its steps?  What their coefficients say, at the root.

The residuals are read, not the way to their root: stages Y with Y_i = y + sum a_ij dt f(Y_j), f = J dH of the declared
energy, and y moves by sum b_j dt f(Y_j). That is symplectic if b_i a_ij + b_j a_ji = b_i b_j (Lasagni, Sanz-Serna and
Suris 1988), for every H. The matrix and the start of a SOLVE decide how soon it arrives, and nothing else: residuals are
looked at in every round. So certificates hold to the residual that is left. What is not of this form is not shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from tinyphysics.errors import TraceError
from tinyphysics.ir.ops import Ops
from tinyphysics.ir.uop import UOp, elements, substitute, toposort
from tinyphysics.rules.calculus.unroll import unroll
from tinyphysics.rules.calculus.vjp import gradient
from tinyphysics.rules.equality.normal import Normal, TooLarge, chooses
from tinyphysics.rules.identities.real import simplify
from tinyphysics.tpir.program.isa import Instruction, Program, Register, Type
from tinyphysics.tpir.program.symbolic import CLOCK, clocks, state_of, state_var
from tinyphysics.tpir.proof.blocks import Blocks
from tinyphysics.tpir.proof.certificate import Verdict, five
from tinyphysics.tpir.proof.readers.variational import NotStationary, Stationary, reader, stationary
from tinyphysics.tpir.proof.solutions import (
    RESIDUAL,
    energy_reversible,
    has_own_steps,
    is_over_size,
    numbers_moved,
    refused,
    solved_alike,
    solves,
    too_much,
)
from tinyphysics.tpir.proof.tableau import Kick, StageTableau, mirrored
from tinyphysics.tpir.proof.units import DT
from tinyphysics.tpir.proof.walk import NotShown, Walk
from tinyphysics.tpir.proof.weights import TOL
from tinyphysics.util import prod

NOW = UOp.var(f"{CLOCK}@0.0")  # when a step begins
SUMS = (Ops.ADD, Ops.FMA)
MOST_UNKNOWNS = 96  # whose residuals are compared one by one


def root_of(u: UOp, where: str) -> UOp | None:
    """The one solution that an expression is made of, if it is made of any."""
    found = [x for x in toposort([u]) if x.op is Ops.SOLVE]
    if len(found) > 1:
        raise NotShown(f"{where} is made of more than one solution")
    return found[0] if found else None


def exact(r: Fraction) -> UOp:
    """A coefficient as a constant: the float that it was read from."""
    return UOp.const(float(r))


def at_time(c: Fraction) -> UOp:
    return NOW + exact(c) * DT


@dataclass
class Move:
    state: int
    flow: UOp
    h: UOp
    where: str
    root: UOp | None  # the solution that it is made of


class CollocationReader:
    """A program whose states move by what a SOLVE gives, and by nothing else."""

    name, refusal, by_derivatives = "stages", "is not one of the stages of a step", True
    rank = 30

    def __init__(self, program: Program) -> None:
        self.program = program
        self.walk = Walk(program, Blocks(program).terms)  # malformed lines are said first
        self.normal, self.terms = self.walk.normal, self.walk.terms
        self.steps: list[StageTableau | Kick | Stationary] = []
        self.ends: list[tuple[str, Kick]] = []
        self.waiting: list[Move] = []
        self.began: dict[int, int] = {}  # the versions of the states when the first that waits was read
        self.timed = False
        self.unread = ""  # why it is no step of velocities
        try:
            self.read()
        except NotShown as why:
            self.walk.trouble = str(why)
        except (TooLarge, TraceError) as error:
            self.walk.trouble = too_much(error)

    @staticmethod
    def has(program: Program) -> bool:
        return solves(program)

    # --- reading the program ------------------------------------------------------------------
    def read(self) -> None:
        if has_own_steps(self.program):
            raise NotShown("its steps have their own lengths, and end where an error is small enough")
        if not self.terms:
            raise NotShown("the program declares no energy")
        if any(DT in t.leaves for t in self.terms):
            raise NotShown("the declared energy holds dt")
        self.walk.read(self)
        for r in self.walk.carried:
            raise NotShown(f"{r} is carried from step to step, and may depend on the state or on time")
        self.check_ends()
        if not self.steps:  # or all that follows would be said of nothing
            raise NotShown("no state moves by what is solved for")

    def take(self, walk: Walk, i: Instruction) -> bool:
        symbolic, where = walk.symbolic, walk.where
        if i.row.kind == "memory":
            return False
        if i.row.numbers == "by_flow":
            assert isinstance(i.dst, Register)
            flow = symbolic.read(i.args[0], i.type, where)
            h = symbolic.read(i.args[1], Type(), where)
            move = Move(i.dst.index, flow, h, where, root_of(flow, where))
            if self.waiting and not self.joins(self.waiting, move, self.began):
                self.close(walk)
            if not self.waiting:
                self.began = dict(symbolic.version)
            self.waiting.append(move)
            symbolic.load(i.dst.index)
            return True
        if i.op == "MAP":
            raise NotShown(f"{where} is not read as a stage of a step: measure it by tp.measure_symplectic")
        if self.name in i.row.no_part_of or i.row.kind in ("update", "all states"):
            raise NotShown(f"{where} {self.refusal}")
        return False

    def close(self, walk: Walk) -> None:
        moves, self.waiting = self.waiting, []
        if moves:
            self.understand(moves, self.began, walk.section)

    def joins(self, waiting: list[Move], move: Move, began: dict[int, int]) -> bool:
        """Does a move belong to those before it?  If it has not seen them, and is of the same solution, or of none."""
        roots = [m.root for m in (*waiting, move) if m.root is not None]
        if any(r is not roots[0] for r in roots):
            return False
        begun = [state_var(self.program, k, n) for k, n in began.items()]
        if any(state_of(v) is not None and all(v is not b for b in begun) for v in move.flow.leaves):
            return False
        if roots:
            return True
        return all(m.state != move.state for m in waiting) and self.normal.ratio(move.h, waiting[0].h) == 1

    def understand(self, moves: list[Move], began: dict[int, int], section: str) -> None:
        """Some moves as stages, or as a kick, of the first term of the energy that fits."""
        states = [state_var(self.program, k, began[k]) for k in range(len(self.program.states))]
        why = NotShown("")
        for term in (-1, *range(len(self.terms) if len(self.terms) > 1 else 0)):
            try:
                root = next((m.root for m in moves if m.root is not None), None)
                found: StageTableau | Kick
                if root is None:
                    found = self.kick(moves, states, term)
                else:
                    found = self.understood(root, moves, states, term)
            except NotShown as trouble:
                why = trouble
                continue
            if section != "step":
                if not isinstance(found, Kick):
                    raise NotShown(f"`{section}` solves equations: only steps may")
                self.ends.append((section, found))
            else:
                self.steps.append(found)
            return
        if section == "step" and (varied := self.varied(moves, states)) is not None:
            self.steps.append(varied)
            return
        if self.unread:
            raise NotShown(self.unread)
        if len(self.terms) > 1 and all(m.root is None for m in moves):
            raise NotShown(
                f"{moves[0].where} is not a kick by a term of the declared energy without momenta: {why}"
            )
        raise why

    def varied(self, moves: list[Move], states: list[UOp]) -> Stationary | None:
        """Some moves as a step of velocities that make something stationary; None if they are not read so."""
        root = next((m.root for m in moves if m.root is not None), None)
        if (
            root is None
            or root.ndim > 1
            or not is_over_size(root.src[1])
            or any(map(chooses, (*root.src, *self.terms)))
        ):
            return None
        read = reader(self.program, root, [(m.state, m.flow, Normal().ratio(m.h, DT)) for m in moves], states)
        if read is None:
            return None
        own = [state_var(self.program, k, 0) for k in range(len(states))]
        (energy,) = substitute([UOp.sum_of(self.terms)], dict(zip(own, states)))
        try:
            found = stationary(read, unroll([energy])[0][0])
        except NotStationary as why:
            self.unread = str(why)
            return None
        read_by = root.src[2], energy, *(m.flow for m in moves)
        self.timed = self.timed or any(NOW in u.leaves for u in read_by)
        return found

    def kick(self, moves: list[Move], states: list[UOp], term: int) -> Kick:
        """Momenta, all that a term of positions moves, by one multiple of dt."""
        f, at, size = self.slopes(states, term), {}, 0
        for k, v in enumerate(states):
            at[k] = f[size : size + v.size]
            size += v.size
        h = self.normal.ratio(moves[0].h, DT)
        if h is None:
            raise NotShown(f"{moves[0].where}: h is not shown to be a multiple of dt")
        moved = {m.state for m in moves}
        if NOW in UOp.sum_of(self.terms).leaves:
            raise NotShown(f"{moves[0].where}: a kick beside equations, and the energy depends on time")
        for k, v in enumerate(states):
            role = self.program.states[k].role
            if role == "momentum" and any(v in g.leaves for gs in at.values() for g in gs):
                raise NotShown(f"{moves[0].where}: the energy that it is of holds the momenta that it moves")
            if k not in moved and any(self.normal.form(g) for g in at[k]):
                raise NotShown(f"{moves[0].where}: S{k} is not moved by the same kick")
        for m in moves:
            (flow,) = unroll([m.flow])
            if not all(self.normal.same(x, g) for x, g in zip(flow, at[m.state])):
                raise NotShown(
                    f"{m.where} is not the slope of a term of the declared energy, where the state is"
                )
        return Kick(term, h)

    def check_ends(self) -> None:
        """What is done before the first step is taken back after the last."""
        total: dict[int, Fraction] = {}
        for _, kick in self.ends:
            total[kick.term] = total.get(kick.term, Fraction(0)) + kick.weight
        sections = [s for s, _ in self.ends]
        if any(abs(w) > TOL for w in total.values()) or sections not in ([], ["init", "final"]):
            raise NotShown("what is done in `init` is not taken back in `final`")

    @property
    def whole(self) -> list[StageTableau | Kick | Stationary]:
        """One step as one sees it: with its ends, and kicks of a term that follow each other as one."""
        out: list[StageTableau | Kick | Stationary] = []
        before, after = ([k for s, k in self.ends if s == section] for section in ("init", "final"))
        for x in (*before, *self.steps, *after):
            last = out[-1] if out else None
            if isinstance(x, Kick) and isinstance(last, Kick) and x.term == last.term:
                out[-1] = Kick(x.term, x.weight + last.weight)
            else:
                out.append(x)
        return out

    # --- one solution -------------------------------------------------------------------------
    def understood(self, root: UOp, moves: list[Move], states: list[UOp], term: int) -> StageTableau:
        """The coefficients of the stages that a SOLVE is for."""
        if root.ndim > 1:
            return self.understood_arrays(root, moves, states, term)
        z = [e for v in states for e in elements(v)]
        n, size = len(z), root.shape[0]
        if size % n and 2 * size != n or size > MOST_UNKNOWNS:
            raise NotShown(f"{size} unknowns for {n} numbers of the state are not read as stages")
        if not is_over_size(root.src[1]):
            raise NotShown("the scale of its equations is not shown to be one over the size of the states")
        self.check_sources(root, moves, states)
        roles = [s.role for s in self.program.states]
        momenta = [role == "momentum" for role, v in zip(roles, states) for _ in range(v.size)]
        solved = [list(range(n))]
        if size % n:
            solved = [[k for k in range(n) if momenta[k] is which] for which in (True, False)]
        why = NotShown("")
        for own in solved:
            try:
                return self.stages(root, moves, states, own, momenta, term)
            except NotShown as trouble:
                why = why if str(why) else trouble
        raise why

    def check_sources(self, root: UOp, moves: list[Move], states: list[UOp]) -> None:
        if any(map(chooses, (*root.src, *self.terms))):
            raise NotShown("an index that is not known chooses what is read")
        for u in (root.src[2], *(m.flow for m in moves)):
            old = [v for v in u.leaves if state_of(v) is not None and all(v is not s for s in states)]
            if old:
                raise NotShown(f"{old[0]} is not the state that the stages begin with")

    def understood_arrays(self, root: UOp, moves: list[Move], states: list[UOp], term: int) -> StageTableau:
        """The same of stages that are whole arrays."""
        from tinyphysics.tpir.proof.array_stages import ArrayStages, is_array_over_size, slopes_of_arrays

        if not is_array_over_size(root.src[1]):
            raise NotShown("the scale of its equations is not shown to be one over the size of the states")
        self.check_sources(root, moves, states)
        unknown = UOp.var(root.arg[0], root.shape, root.dtype)
        slopes = slopes_of_arrays(self.program, states, self.energy(states, term))
        read = ArrayStages(self.normal, states, unknown, root, slopes)
        times = self.times(root.src[2], read.count)
        at = read.at(NOW, [at_time(c) for c in times])
        a = read.coefficients(root.src[2], at)
        known = []
        for m in moves:
            h = self.normal.ratio(m.h, DT)
            if h is None:
                raise NotShown(f"{m.where}: h is not shown to be a multiple of dt")
            known.append((m.state, m.flow, h, m.where))
        rows = read.weights(known, at)
        if not rows or any(abs(x - y) > TOL for row in rows for x, y in zip(row, rows[0])):
            raise NotShown("the states do not move by the same weights")
        return StageTableau(a, a, rows[0], times, read.begins(root.src[0]), term)

    def stages(
        self, root: UOp, moves: list[Move], states: list[UOp], own: list[int], momenta: list[bool], term: int
    ) -> StageTableau:
        """If the unknowns are these components of each stage; the others of a stage are those of the state."""
        start, _, residual, *_ = root.src
        unknown, z = UOp.var(root.arg[0], root.shape), [e for v in states for e in elements(v)]
        n, size = len(own), root.shape[0]
        count = size // n
        x = [elements(unknown)[j * n : (j + 1) * n] for j in range(count)]
        Y = [[xs[own.index(k)] if k in own else z[k] for k in range(len(z))] for xs in x]
        (residuals,) = unroll([residual])
        f = self.slopes(states, term)
        times = self.times(residual, count)
        tables = [dict(zip(z, y)) | {NOW: at_time(c)} for y, c in zip(Y, times)]
        at = [[substitute([g], table)[0] for g in f] for table in tables]
        moved = [[(x[i][k] - z[own[k]]) - residuals[i * n + k] for k in range(n)] for i in range(count)]
        if count == 1:
            a = [[self.only(moved[0], [at[0][k] for k in own])]]
        else:
            jacobian = [gradient(f[k], z) for k in own]
            each = list(zip(Y, tables))
            a = [[self.coefficient(m, y, jacobian, table) for y, table in each] for m in moved]
        for i in range(count):
            for k in range(n):
                whole = UOp.sum_of(exact(a[i][j]) * (DT * at[j][own[k]]) for j in range(count))
                if not self.normal.same(moved[i][k], whole):
                    raise NotShown(
                        f"residual {i * n + k} is not that of a stage: Y - y less multiples of dt and of the "
                        "slopes of the declared energy"
                    )
        b = self.weights(moves, at, unknown, root)
        (first,) = unroll([substitute([start], {DT: UOp.const(0.0)})[0]])
        begins = all(self.normal.same(s, z[k]) for s, k in zip(first, own * count))
        none = [[Fraction(0)] * count for _ in range(count)]
        of_q, of_p = (a if any(momenta[k] is which for k in own) else none for which in (False, True))
        if not any(momenta):  # no pairs: all numbers are alike
            of_p = of_q
        return StageTableau(of_q, of_p, b, times, begins, term)

    def only(self, moved: list[UOp], slopes: list[UOp]) -> Fraction:
        """a of a single stage."""
        for m, slope in zip(moved, slopes):
            if self.normal.form(slope):
                ratio = self.normal.ratio(m, DT * slope)
                if ratio is None:
                    raise NotShown(
                        "a residual is not that of a stage: Y - y less a multiple of dt and of the slopes of the "
                        "declared energy"
                    )
                return ratio
        raise NotShown("no slope of the declared energy moves what is solved for")

    def times(self, residual: UOp, stages: int) -> list[Fraction]:
        """When each stage is, in units of dt after the step began; in order, where the energy depends on time."""
        if not self.timed:
            return [Fraction(0)] * stages
        sums = [u for u in toposort([residual]) if u.op in SUMS and any(s is NOW for s in u.src)]
        found = [self.normal.ratio(u - NOW, DT) for u in sums]
        known = sorted({c for c in found if c is not None})
        if len(known) != stages:
            raise NotShown("the energy depends on time, and the times of its stages are not found")
        return known

    def slopes(self, states: list[UOp], term: int) -> list[UOp]:
        """J dH, number by number, of a term of the declared energy at these states; -1 is all of it."""
        ((scalar,),) = unroll([self.energy(states, term)])
        numbers = [e for v in states for e in elements(v)]
        slopes = dict(zip(numbers, simplify(gradient(scalar, numbers))))
        return numbers_moved(self.program, states, slopes)

    def energy(self, states: list[UOp], term: int) -> UOp:
        """A term of the declared energy at these states; -1 is all of it."""
        own = [state_var(self.program, k, 0) for k in range(len(states))]
        whole = UOp.sum_of(self.terms) if term < 0 else self.terms[term]
        (energy,) = substitute([whole], dict(zip(own, states)))
        if any(clocks(energy)):  # another than 0.0
            raise NotShown("the energy is declared at another time than that at which a step begins")
        self.timed = self.timed or NOW in energy.leaves
        return energy

    def coefficient(
        self, moved: list[UOp], other: list[UOp], jacobian: list[list[UOp]], table: dict[UOp, UOp]
    ) -> Fraction:
        """a_ij, from the first residual of a stage that a component of another enters."""
        for move, row in zip(moved, jacobian):
            by = gradient(move, other)
            for m, slope in enumerate(row):
                if not self.normal.form(slope):
                    continue
                (reference,) = substitute([slope], table)
                if not self.normal.form(by[m]):
                    return Fraction(0)
                ratio = self.normal.ratio(by[m], DT * reference)
                if ratio is None:
                    raise NotShown("a residual of a stage is not made of slopes of the declared energy")
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
            for j, f in enumerate(at):
                slopes = f[first[m.state] :]
                if j not in mine and all(self.normal.same(x, g) for x, g in zip(flow, slopes)):
                    mine[j] = h
                    break
            else:
                raise NotShown(f"{m.where} is not the slope of the declared energy at a stage")
        rows = []
        for k, s in enumerate(self.program.states):
            mine, numbers = found.get(k, {}), range(first[k], first[k] + prod(s.type.shape))
            if mine or any(self.normal.form(f[m]) for f in at for m in numbers):
                rows.append([mine.get(j, Fraction(0)) for j in range(len(at))])
        if any(abs(x - y) > TOL for row in rows for x, y in zip(row, rows[0])):
            raise NotShown("the states do not move by the same weights")
        return rows[0]

    # --- verdicts -----------------------------------------------------------------------------
    def verdicts(self) -> Mapping[str, Verdict]:
        if self.walk.trouble:
            return refused(self.walk.trouble)
        kicks = "kicks, and " if any(isinstance(s, Kick) for s in self.steps) else ""
        symplectic = Verdict(True, f"{kicks}stages of J dH with b_i a_ij + b_j a_ji = b_i b_j, {RESIDUAL}")
        varied = [s for s in self.steps if isinstance(s, Stationary)]
        if varied:
            symplectic = Verdict(
                True, f"p dq changes by the differential of an action in every step, {RESIDUAL}"
            )
        if not all(s.symplectic for s in self.steps):
            symplectic = Verdict(
                False, "the coefficients of its stages do not satisfy b_i a_ij + b_j a_ji = b_i b_j"
            )
        symmetric = Verdict(
            True, f"its {'equations' if varied else 'stages'} are those of its adjoint, the last first"
        )
        if not all(x.adjoint.same(y) for x, y in zip(self.whole, reversed(self.whole))):
            symmetric = Verdict(False, "its stages are not those of its adjoint, the last first")
        elif self.timed and not mirrored([c for s in self.steps if isinstance(s, StageTableau) for c in s.c]):
            symmetric = Verdict(False, "the times of its stages are not those of a palindrome")
        if not varied or not all(s.continuous for s in varied) or len(varied) < len(self.steps):
            symmetric = solved_alike(self.walk, symmetric)
        return five(symplectic, symplectic, symmetric, self.reversible(symmetric), self.consistent())

    def consistent(self) -> Verdict:
        for k in range(len(self.terms)):
            total = sum((s.length for s in self.steps if s.term in (-1, k)), Fraction(0))
            if abs(total - 1) > TOL:
                return Verdict(
                    False, f"the slopes of a term enter with total weight {float(total):g} instead of 1"
                )
        if not all(s.begins for s in self.steps):
            return Verdict(
                False,
                "an unknown is not shown to start at the state as dt vanishes: another root may be found",
            )
        if self.timed and (why := self.out_of_time()):
            return Verdict(False, why)
        if why := next((s.of_energy for s in self.steps if isinstance(s, Stationary) and s.of_energy), ""):
            return Verdict(False, why)
        if self.walk.jump:
            return Verdict(False, self.walk.jump)
        return Verdict(True, "the slopes of the energy enter with total weight 1 and the sign of J")

    def out_of_time(self) -> str:
        """Why the times of the stages are not those at which their states are."""
        done = Fraction(0)
        for s in self.steps:
            low, high = sorted((done, done + s.length))
            if isinstance(s, StageTableau) and any(not low - TOL <= c <= high + TOL for c in s.c):
                return "a stage sees a time that is not in its part of the step"
            done += s.length
        return ""

    def reversible(self, symmetric: Verdict) -> Verdict:
        varied = [s for s in self.steps if isinstance(s, Stationary)]
        if symmetric and self.timed:
            return Verdict(False, "it depends on time explicitly")
        if symmetric and not all(s.even for s in varied):
            return Verdict(
                False,
                "its equations are not shown to be the same with the other sign of momenta and velocities",
            )
        if symmetric and varied and len(varied) == len(self.steps):
            return Verdict(
                True,
                "symmetric, and its equations are the same with the other sign of momenta and velocities",
            )
        return energy_reversible(self.walk, symmetric)
