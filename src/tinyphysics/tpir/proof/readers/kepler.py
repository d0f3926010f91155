"""What does a program conserve whose loop keeps bodies in Jacobi coordinates?  The map that the user sees.

Two things are known here and derived nowhere: the change to Jacobi coordinates is linear and canonical and makes the sum
of p**2/2m one of the same form; and KEPLER is the exact flow of A = sum p**2/2m + K, where K is the sum of the potentials
-gm m'/r of the rows. So a kick must be that of B = V - K, with the same gm: the force of a declared term V, and PULL.
Everything else that a program does to a state is a no.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from tinyphysics.errors import VerifyError
from tinyphysics.ir.ops import Ops
from tinyphysics.ir.uop import UOp, substitute
from tinyphysics.rules.calculus.vjp import gradient
from tinyphysics.rules.formulas.jacobi import WAYS
from tinyphysics.rules.identities.real import simplify
from tinyphysics.tpir.program.isa import Instruction, Program, Register, Type
from tinyphysics.tpir.program.symbolic import state_var
from tinyphysics.tpir.proof.certificate import Verdict, five
from tinyphysics.tpir.proof.units import DT, moving
from tinyphysics.tpir.proof.walk import Walk, check_type
from tinyphysics.tpir.proof.weights import Applied, in_a_step, not_symmetric, off_weight, symmetric, uneven

ORBITS, KICK = 0, 1  # the two parts
POSITIONS, MOMENTA = frozenset({0}), frozenset({1})  # by the numbers of the states
BOTH = POSITIONS | MOMENTA


def in_frame(program: Program) -> bool:
    return any(i.row.reader == "orbits" for _, _, i in program.numbered())


class KeplerReader:
    """One position and its momentum, both changed in `init` and changed back in `final`."""

    name, refusal, by_derivatives = "orbits", "is no part of a step on Kepler orbits", True
    rank = 10

    def __init__(self, program: Program) -> None:
        self.program, self.walk = program, Walk(program)
        self.symbolic, self.normal = self.walk.symbolic, self.walk.normal
        self.waiting: UOp | None = None  # a flow of which one half has been applied
        self.frame: tuple[UOp, tuple[object, ...]] | None = None  # masses, order
        self.gm: UOp | None = None
        if [s.role for s in program.states] != ["position", "momentum"]:
            raise VerifyError(
                "bodies on Kepler orbits are one position and its momentum",
                fix="state S0 q f64[9, 3] position, state S1 p f64[9, 3] momentum of S0.",
            )
        states = [state_var(program, k, 0) for k in (0, 1)]
        self.slopes = [simplify(gradient(t, states)) for t in self.walk.terms]
        self.walk.read(self)

    @staticmethod
    def has(program: Program) -> bool:
        return in_frame(program)

    # --- reading the program ------------------------------------------------------------------
    def close(self, walk: Walk) -> None:
        if self.waiting is not None:
            walk.refuse(
                f"`{walk.section}` ends with half of a flow: the other half of KEPLER is not propagated"
            )
        for r in walk.carried if walk.section == "init" else []:
            walk.refuse(f"{r} is carried from step to step, and may depend on the state")

    def take(self, walk: Walk, i: Instruction) -> bool:
        if i.op == "JACOBI" and isinstance(i.dst, Register) and i.dst.kind == "S":
            self.change(i)
        elif i.op == "JACOBI":
            self.symbolic.env[i.dst] = undone(walk.value(i))
        elif i.op == "ORBIT":
            self.propagate(i)
        elif i.row.numbers == "by_flow":
            self.kick(i)
        elif i.row.writes == "&":
            source = i.args[0]
            self.symbolic.read(source, i.type, walk.where)
            if isinstance(source, Register) and source.kind == "S" and source.index in self.symbolic.frames:
                raise VerifyError(
                    f"{walk.where} gives {i.dst} back in Jacobi coordinates",
                    fix=f"Change it back first: JACOBI {source}, places or momenta, ...",
                )
        else:
            return False
        return True

    def change(self, i: Instruction) -> None:
        s, dst, section, where = self.symbolic, i.dst, self.walk.section, self.walk.where
        assert isinstance(dst, Register)
        node = s.becomes(i, where)
        way, *order = node.arg
        into, back = ("positions", "places") if dst.index == 0 else ("velocities", "momenta")
        is_in = section == "init"
        if way != (into if is_in else back) or i.args[1] != dst or is_in == (dst.index in s.frames):
            raise VerifyError(
                f"{where} is not the change of {dst} in `{section}:`",
                fix=f"JACOBI {dst}, {into}, {dst}, ... in `init:`, once; {back} in `final:`.",
            )
        if moving(node.src[1]):
            raise VerifyError(f"{where} has masses that depend on the state", fix="Masses are parameters.")
        if DT in node.src[1].leaves:
            self.walk.refuse(f"{where} has masses that depend on dt")
        mine = (node.src[1], tuple(order))
        if self.frame is None:
            self.frame = mine
        if self.frame[0] is not mine[0] or self.frame[1] != mine[1]:
            raise VerifyError(
                f"{where} has other masses or another order than the change before it",
                fix="Positions and momenta are changed together, and back the same way.",
            )
        if section == "init":
            s.frames[dst.index] = (node.src[1], (way, *order))
        else:
            del s.frames[dst.index]
        s.env[dst] = s.held(state_var(self.program, dst.index, s.version[dst.index]), dst.index)

    def known(self, gm: UOp, where: str) -> None:
        """All flows and kicks of a program are about the same centres."""
        self.gm = gm if self.gm is None else self.gm
        if gm is not self.gm:
            self.walk.refuse(f"{where} has another gm than the flows before it")
        if moving(gm):
            self.walk.refuse(f"{where} has a gm that depends on the state")
        if DT in gm.leaves:
            self.walk.refuse(f"{where} has a gm that depends on dt")

    def propagate(self, i: Instruction) -> None:
        s, dst, where = self.symbolic, i.dst, self.walk.where
        assert isinstance(dst, Register)
        u = s.read(i.args[0], i.type, where)
        check_type(u, i, where)
        first = self.waiting is None
        fresh = u.op is Ops.KEPLER and u.arg == (dst.index,) and len(s.frames) == 2
        if fresh and first:
            fresh = u.src[0] is s.current(0) and u.src[1] is s.current(1)
        elif fresh:
            assert self.waiting is not None
            fresh = all(map(lambda a, b: a is b, u.src, self.waiting.src)) and u.arg != self.waiting.arg
        if not fresh:
            self.walk.refuse(
                f"{where} is not its part of KEPLER, of the states as they are before both parts are propagated"
            )
        elif first:
            self.known(u.src[2], where)
            update = self.walk.update(i, u, u.src[3])
            weight = self.walk.step_of(u.src[3], where)
            self.walk.applied.append(Applied(ORBITS, weight, None, update, BOTH, BOTH))
        self.waiting = u if first else None
        s.load(dst.index)

    def kick(self, i: Instruction) -> None:
        s, dst, where = self.symbolic, i.dst, self.walk.where
        assert isinstance(dst, Register)
        flow, h = s.read(i.args[0], i.type, where), s.read(i.args[1], Type(i.type.dtype), where)
        if self.waiting is not None:
            self.walk.refuse(f"{where} stands between the two halves of a flow")
        force = self.force(flow, where) if dst.index == 1 else None
        if force is None:
            self.walk.refuse(
                f"{where} is not a kick in Jacobi coordinates: the force as velocities, then PULL"
            )
        else:
            share = self.share(force)
            if DT in force.leaves:
                self.walk.refuse(f"{where}: the force itself depends on dt")
            if share is None:
                self.walk.refuse(
                    f"{where} is not a multiple of the derivative of the declared potential energy"
                )
            elif share != 1:
                self.walk.refuse(f"{where} adds {float(share):g} times the force, and PULL once")
            update, weight = self.walk.update(i, force, h), self.walk.step_of(h, where)
            self.walk.applied.append(Applied(KICK, weight, None, update, MOMENTA, POSITIONS))
        s.load(dst.index)

    def force(self, flow: UOp, where: str) -> UOp | None:
        """The user's force in a kick, at version 0 of the positions; None if it is not of that form."""
        s = self.symbolic
        if flow.op is not Ops.PERTURBATION or flow.src[1] is not s.current(0) or self.frame is None:
            return None
        a, _, gm = flow.src
        if a.op is not Ops.JACOBI or a.arg != ("velocities", *self.frame[1]) or a.src[1] is not self.frame[0]:
            return None
        self.known(gm, where)
        now = [state_var(self.program, k, s.version[k]) for k in (0, 1)]
        if any(str(v.arg)[0] == "S" and v is not now[0] for v in a.src[0].leaves):
            return None  # stale, or of momenta
        return substitute([a.src[0]], {now[0]: state_var(self.program, 0, 0)})[0]

    def share(self, force: UOp) -> Fraction | None:
        total = UOp.sum_of([dq for dq, _ in self.slopes]) if self.slopes else None
        return None if total is None else self.normal.ratio(force, -total)

    # --- verdicts -----------------------------------------------------------------------------
    def kinetic(self) -> str:
        """Why the energy is not a sum of p**2/2m, with the masses of the frame, and a potential; empty if it is."""
        if self.frame is None or not self.slopes:
            return "the program declares no energy, or no masses"
        m, p = self.frame[0], state_var(self.program, 1, 0)
        inverse = (1.0 / m).reshape((m.shape[0], 1)).expand(p.shape)
        velocity = UOp.sum_of([dp for _, dp in self.slopes])
        if self.normal.ratio(velocity, inverse * p) != 1:
            return "the velocity is not shown to be p over the mass that the frame has"
        force = UOp.sum_of([dq for dq, _ in self.slopes])
        return "the force depends on momenta" if 1 in moving(force) else ""

    def consistent(self) -> Verdict:
        flows = self.walk.applied
        why = self.walk.trouble or uneven(flows)
        for part, name in ((ORBITS, "Kepler orbits"), (KICK, "the rest of the potential")):
            why = why or off_weight(f"the flow of {name}", in_a_step(flows, {part}))
        if why := why or self.walk.jump:
            return Verdict(False, why)
        return Verdict(True, "Kepler orbits, and the potential without theirs, enter with total weight 1")

    def verdicts(self) -> Mapping[str, Verdict]:
        walk = self.walk
        if self.symbolic.frames:
            walk.refuse("the states are not changed back from Jacobi coordinates")
        walk.refuse(self.kinetic())
        symplectic = Verdict(
            not walk.trouble,
            walk.trouble
            or "a linear canonical change; in it, exact flows of Kepler orbits, and kicks by the "
            "gradient of the rest of the potential",
        )
        palindrome = symmetric(walk.applied, walk.trouble)
        reversible = Verdict(True, "symmetric, and negating the momenta reverses every sub-flow")
        if not palindrome:
            reversible = Verdict(False, not_symmetric(palindrome))
        return five(symplectic, symplectic, palindrome, reversible, self.consistent())


def undone(u: UOp) -> UOp:
    """u, or what it was if it goes back the way that its source came."""
    if u.op is not Ops.JACOBI or u.src[0].op is not Ops.JACOBI:
        return u
    inner = u.src[0]
    same = inner.src[1] is u.src[1] and inner.arg[1:] == u.arg[1:] and WAYS[inner.arg[0]] == u.arg[0]
    return inner.src[0] if same else u
