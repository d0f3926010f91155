"""Is a line what a bath makes of a momentum, and do lines of a bath keep Maxwell's law of the declared masses?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tinyphysics.ir import i64
from tinyphysics.ir.ops import Ops
from tinyphysics.ir.uop import UOp, toposort
from tinyphysics.rules.equality.normal import Normal
from tinyphysics.rules.formulas.baths import draws_of, in_bath
from tinyphysics.rules.formulas.motions import translates
from tinyphysics.rules.formulas.thermostats import TRIGGER, Thermostat, draws_together
from tinyphysics.tpir.program.isa import Instruction, Program, Register, Type
from tinyphysics.tpir.program.symbolic import clocks, state_var
from tinyphysics.tpir.proof.together import Moved
from tinyphysics.tpir.proof.units import DT, moving
from tinyphysics.tpir.proof.walk import Walk, check_type
from tinyphysics.tpir.proof.weights import Update

Velocity = Callable[[int], UOp]  # of a momentum, by its number among the states: dH/dp


@dataclass(frozen=True)
class Heated:
    """A momentum that a bath changed."""

    update: Update
    weight: float
    rate: UOp
    kT: UOp
    inverse: UOp  # one over the mass
    drawn: tuple[UOp, ...]
    way: str


def heated(walk: Walk, i: Instruction) -> Heated | str:
    """A momentum in a bath: the formula of its word, with what its operands declare; or why it is not one."""
    symbolic, where, dst = walk.symbolic, walk.where, i.dst
    assert isinstance(dst, Register)
    value, own = symbolic.read(i.args[0], i.type, where), symbolic.read(dst, i.type, where)
    check_type(value, i, where)
    number = Type(i.type.dtype)
    kT, w, rate = (symbolic.read(x, number, where) for x in i.args[3:])
    weight, way = i.args[2], str(i.args[1])
    drawn = sorted({u for u in toposort([value]) if u.op is Ops.RANDOM}, key=lambda u: str(u.arg[0]))
    assert isinstance(weight, float)
    meant = in_bath(way, own, rate, weight, kT, w, drawn, DT)
    update = walk.update(i, own, UOp.const(weight) * DT)
    symbolic.load(dst.index)
    if value is not meant or moving(rate) or moving(kT) or moving(w):
        return f"{where} is not shown to be what a bath makes of {dst}"
    return Heated(update, weight, rate, kT, w, tuple(drawn), way)


def not_maxwell(program: Program, lines: Sequence[Heated], normal: Normal, velocity: Velocity) -> str:
    """Why a piece of a bath does not keep Maxwell's law; empty if all do."""
    seen: set[object] = set()
    for h in lines:
        u, name = h.update, program.states[h.update.state].name
        if u.section != "step":
            return f"{u}: the noise of a step would be drawn again outside of it"
        if clocks(h.kT) or clocks(h.rate) or clocks(h.inverse):
            return f"{u}: the bath of `{name}` depends on time"
        if not normal.same(h.kT, lines[0].kT):
            return f"{u}: `{name}` has another temperature"
        if why := off_mass(program, u, h.inverse, normal, velocity):
            return why
        if why := not_independent(program, h):
            return f"{u}: {why}"
        if any(x.arg[1] in seen for x in h.drawn):
            return f"{u}: its noise is that of another line"
        seen |= {x.arg[1] for x in h.drawn}
    return ""


def seen_at(*us: UOp) -> float | None:
    """The time that a piece of a bath sees, in steps since the run began; None where it sees none."""
    times = {t for u in us for t in clocks(u)}
    return min(times) if times else None


def off_times(*us: UOp) -> bool:
    return len({t for u in us for t in clocks(u)}) > 1


def off_mass(program: Program, u: Update, inverse: UOp, normal: Normal, velocity: Velocity) -> str:
    own = state_var(program, u.state, 0)
    if normal.ratio(velocity(u.state), inverse.expand(own.shape) * own) != 1:
        return f"{u}: 1/w is not shown to be the mass of `{program.states[u.state].name}`"
    return ""


def not_independent(program: Program, h: Heated) -> str:
    """Is there a random number for each of a momentum, or of its bodies, and each at an address of its own?"""
    wanted = draws_of(h.way, program.states[h.update.state].type.shape)
    return not_at_addresses(h.drawn, wanted, "for each of its numbers")


def not_at_addresses(
    drawn: Sequence[UOp],
    wanted: Sequence[tuple[str, tuple[int, ...]]],
    where: str = "at each of its addresses",
) -> str:
    for x, (kind, shape) in zip(drawn, wanted):
        index = UOp.range(x.arg[2]).reshape(shape) if shape else UOp.const(0, i64)
        if x.arg[0] != kind or x.shape != shape or x.src[-1] is not index:
            return f"its noise is not a {kind} number {where}"
    if len({x.arg[1] for x in drawn}) < len(drawn):
        return "its noise is used twice"
    return ""


# --- all momenta together ---------------------------------------------------------------------------
def not_kept(
    program: Program, moves: Sequence[Moved], normal: Normal, velocity: Velocity, energy: UOp, held: int = 0
) -> str:
    """Why a move of a bath on all momenta does not keep its law; empty if all do. So many numbers are held by constraints."""
    seen: set[object] = set()
    for m in moves:
        u, bath = m.update, m.bath
        assert bath is not None
        if u.section != "step":
            return f"{u}: a bath outside of the steps"
        if m.way == TRIGGER:
            return f"{u}: a bath that acts above a temperature alone takes heat and gives none back"
        if clocks(m.kT) or clocks(bath.tau):
            return f"{u}: the bath depends on time"
        if m.kT is not moves[0].kT:
            return f"{u}: another temperature than that of the first"
        if bath.hidden and moves[0].bath is not None and bath.tau is not moves[0].bath.tau:
            return f"{u}: another time than that of the first: its own states would have another law"
        for line, w in zip(m.lines, bath.inverse):
            own = line.update
            if why := off_mass(program, own, w, normal, velocity):
                return why
        if why := miscounted(program, m, bath, energy, held):
            return f"{u}: {why}"
        if why := not_at_addresses(m.drawn, draws_together(m.way, bath)):
            return f"{u}: {why}"
        if any(x.arg[1] in seen for x in m.drawn):
            return f"{u}: its noise is that of another line"
        seen |= {x.arg[1] for x in m.drawn}
    return ""


def miscounted(program: Program, m: Moved, bath: Thermostat, energy: UOp, held: int) -> str:
    """Is g the number of momenta, less those that the energy keeps or constraints hold?"""
    numbers, axes = sum(p.size for p in bath.momenta), len(set(bath.axes))
    if bath.g != numbers - axes - held:
        less = f"{numbers} numbers less {axes + held}"
        return f"g is {bath.g:g}, and {less} are scaled"
    states = [state_var(program, k, 0) for k in range(len(program.states))]
    own = [line.update.state for line in m.lines[: len(bath.momenta)]]
    pairs = [(program.conjugate(k), k) for k in own]
    q, p = [states[j] for j, _ in pairs if j is not None], [states[k] for k in own]
    alike = (
        len({(x.shape[-1] if x.shape[-1] in (2, 3) else 1) if x.shape else 0 for x in q}) == 1 and q[0].shape
    )
    for axis in bath.axes:
        if not alike or not translates(energy, q, p, axis):
            return f"the energy is not shown to keep the momentum of the whole along axis {axis}"
    return ""
