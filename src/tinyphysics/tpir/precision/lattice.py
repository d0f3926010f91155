"""How does a program of shears step on a lattice?  States are whole numbers of units, and every shear adds a whole number.

    n += round(h*F/unit)

with F in float64 from the numbers n*unit, and halves rounded to even, so that what goes forward goes back: the same
whole number is taken away again. A step of a symmetric method begins and ends with one part, whose halves meet
between two steps. That part moves by even numbers, 2*round(h*F/2/unit), so that half of a move is one too: `init` and
`final` do just that half, and a run is the same to the last bit however it is cut into pieces.

A number that leaves the range of a state, or a move that is no number, leaves OVERFLOW in its place for good.

Lists of neighbours have a history, in which order sums are taken and images are chosen. On a lattice that changes
nothing: a box is a whole number of units, so that images are exact, and what a pair adds to a sum is rounded to a unit
of force before it is added, so that sums are (tpir/precision/order_free.py says for which forces that is enough).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from itertools import groupby

from tinyphysics.errors import PlanError
from tinyphysics.ir.dtype import bool_, f64, i64
from tinyphysics.structure import COTANGENT
from tinyphysics.tpir.precision.order_free import list_sums
from tinyphysics.tpir.precision.rewriter import Choices, Rewriter
from tinyphysics.tpir.precision.state_flows import flows
from tinyphysics.tpir.program.isa import SECTIONS, Instruction, Operand, Param, Program, Register, Type, Word
from tinyphysics.util import one_of

UNIT = 2.0**-44  # of every state, if none is given
RANGE = 2.0**62  # a state is a whole number from -RANGE up to RANGE, which is left out
SHOWN = 1.5 * RANGE  # what is taken back where values are read may lead a little out of it
EXACT = 2.0**52  # below it a whole number, and the difference of two, is one in float64
LARGEST = 2.0**60  # a move is smaller: a number within the range plus twice a move does not wrap around
MAGIC, MAGIC_BITS = 1.5 * 2.0**52, float(0x4338 << 48)  # a float64, and its bits as a whole number
OVERFLOW = -(2.0**63)  # with any move added it is outside the range still
STRONGEST = 2.0**14  # what one pair may add to a force if no unit of force is given; more is an overflow
FORCE = "force"  # the name of that unit among those of the states
SHEARS = "Only compositions of shears are bijective on a lattice: leapfrog and the other splittings of T(p) + V(q)."


def on_lattice(program: Program, choices: Choices) -> Program:
    """A float64 program of shears with states of whole numbers; a PlanError if it is anything else."""
    given, names = dict(choices.units), [s.name for s in program.states]
    for name in given:
        if name not in (*names, FORCE, ""):
            raise PlanError(
                f"lattice= gives a unit to `{name}`, which is not a state",
                fix=f"Units can be given to {one_of([*names, FORCE])}.",
            )
    states = tuple(
        s if s.role == COTANGENT else replace(s, type=Type(i64, s.type.shape)) for s in program.states
    )
    # what is claimed is claimed of exact arithmetic
    return Lattice(program, given, choices.even).rewritten(claims=(), states=states)


class Lattice(Rewriter):
    """Section by section; what is read of a state is its number times its unit, until the state moves again."""

    name = "lattice"
    sections = SECTIONS

    def __init__(
        self, program: Program, units: Mapping[str, float], even: tuple[str, ...] | None = None
    ) -> None:
        check_shears(program)
        super().__init__(program)
        # cotangents of the step without its rounding: float64, at the points of the lattice
        self.floats = frozenset(k for k, s in enumerate(program.states) if s.role == COTANGENT)
        self.units = [units.get(s.name, units.get("", UNIT)) for s in program.states]
        self.range = [RANGE] * len(program.states)
        self.even = (
            even_states(program)
            if even is None
            else frozenset(k for k, s in enumerate(program.states) if s.name in even)
        )
        self.alias: dict[Operand, Operand] = {}  # gradients and flows by the registers that hold them
        self.seen: dict[int, Register] = {}  # states as float64, as they are now
        self.factors: dict[tuple[Operand, float, tuple[int, ...]], Register] = {}
        self.boxes: dict[Param, float] = {}  # parameters that are periods, and the unit they are multiples of
        self.force, self.sums = units.get(FORCE), 0
        self.forces = moving(program, self.floats)
        if lists := [i for i in (*program.init, *program.step, *program.final) if i.op == "NEAR"]:
            self.prepare(lists)

    # --- reading ----------------------------------------------------------------------------------
    def read(self, x: Operand) -> Operand:
        """What stands for an operand of the float64 program."""
        if not isinstance(x, Register):
            return self.alias.get(x, x) if self.section != "energy" else x
        if x.kind != "S" or x.index in self.floats:
            return self.alias.get(x, x)
        if x.index not in self.seen:
            type_ = Type(f64, self.program.states[x.index].type.shape)
            number = self.elem(type_, "cast", x)
            self.seen[x.index] = self.elem(type_, "mul", number, self.units[x.index])
        return self.seen[x.index]

    def factor(self, h: Operand, scale: float, shape: tuple[int, ...]) -> Register:
        """h in units of a state, in the shape of its flow; computed once, before the loop."""
        if (h, scale, shape) not in self.factors:
            where = "init" if self.section != "energy" else "energy"
            one = self.elem(Type(), "mul", h, scale, section=where)
            self.factors[h, scale, shape] = (
                self.new("MOVE", Type(f64, shape), Word("expand"), one, section=where) if shape else one
            )
        return self.factors[h, scale, shape]

    # --- instructions -----------------------------------------------------------------------------
    def begin(self) -> None:
        self.seen.clear()
        if self.section == "init":
            self.round_boxes()

    def is_float(self, x: Operand) -> bool:
        return isinstance(x, Register) and x.kind == "S" and x.index in self.floats

    def plainly(self, i: Instruction) -> None:
        """What is done to cotangents, as it is."""
        self.put(replace(i, operands=(i.dst, *(self.read(x) for x in i.args))))

    def memory(self, i: Instruction) -> None:
        if self.is_float(i.dst):
            self.put(i)
            return
        self.put(replace(i, type=Type(i64, i.type.shape)) if isinstance(i.dst, Register) else i)

    def gradient(self, i: Instruction) -> None:
        if self.is_float(i.args[0]):  # a cotangent, to which more is added
            self.put(i)
            return
        self.alias[i.dst] = self.held(self.read(i.args[0]), i.type)

    def flow(self, i: Instruction) -> None:
        flow = self.read(i.args[0])
        self.alias[i.dst] = self.elem(i.type, "neg", flow) if i.args[1] == Word("negate") else flow

    def summed(self, i: Instruction) -> None:
        if self.section == "energy" or not is_listed(i) or i.dst not in self.forces:
            self.number(i)
            return
        table, axis, pairs = i.args
        self.put(replace(i, operands=(i.dst, self.whole_forces(table, axis), axis, pairs)))

    def number(self, i: Instruction) -> None:
        args = [self.read(x) for x in i.args]
        if isinstance(i.dst, Register) and i.dst.kind == "G":  # a gradient that is one operation
            self.alias[i.dst] = self.new(i.op, i.type, *args, note=i.note)
        else:
            self.put(replace(i, operands=(i.dst, *args)))

    def held(self, x: Operand, type_: Type) -> Operand:
        """x in a register: a number as an operand says nothing about its shape."""
        if not isinstance(x, float):
            return x
        if type_.shape:
            return self.new("MOVE", type_, Word("expand"), x)
        return self.elem(type_, "mul", x, 1.0)

    def shear(self, i: Instruction) -> None:
        state, flow, h = i.operands
        assert isinstance(state, Register)
        k, shape = state.index, i.type.shape
        even = k in self.even
        number, whole, truth = Type(f64, shape), Type(i64, shape), Type(bool_, shape)
        twice = even and self.section == "step"  # in `init` and `final` stands one half
        scale = (0.5 if twice else 1.0) / self.units[k]
        steps = self.elem(number, "mul", self.read(flow), self.factor(h, scale, shape))
        small = self.elem(truth, "lt", self.elem(number, "abs", steps), LARGEST)
        move = self.nearest(steps, shape)
        if twice:
            move = self.elem(whole, "add", move, move)
        new = self.elem(whole, "add", state, move)
        limit = SHOWN if self.section == "final" else self.range[k]
        good = self.elem(truth, "and", small, self.inside(new, limit, shape))
        kept = self.elem(whole, "where", good, new, OVERFLOW)
        self.put(Instruction("SHIFT", (state, kept), whole, i.note))
        self.seen.pop(k, None)

    def nearest(self, x: Register, shape: tuple[int, ...]) -> Register:
        """The whole number nearest to x, halves to even, for all that are small; in operations that vectors have.

        Adding 1.5*2**52 leaves the nearest whole number in the low bits: of x/2**32, then of what is left over.
        """
        number, whole = Type(f64, shape), Type(i64, shape)
        high = self.elem(number, "add", self.elem(number, "mul", x, 2.0**-32), MAGIC)
        top = self.elem(number, "sub", high, MAGIC)
        low = self.elem(number, "add", self.new("FMA", number, top, -(2.0**32), x), MAGIC)
        left = self.elem(whole, "shl", self.elem(whole, "bitcast", high), 32.0)  # its own bits are gone
        right = self.elem(whole, "sub", self.elem(whole, "bitcast", low), MAGIC_BITS)
        return self.elem(whole, "add", left, right)

    def inside(self, n: Register, limit: float, shape: tuple[int, ...]) -> Register:
        """Is a number within the range of its state?  Of the full range the two highest bits are the same."""
        whole, truth = Type(i64, shape), Type(bool_, shape)
        if limit == RANGE:
            differ = self.elem(whole, "xor", n, self.elem(whole, "shl", n, 1.0))
            return self.elem(truth, "le", 0.0, differ)
        above, below = self.elem(truth, "lt", -limit, n), self.elem(truth, "lt", n, limit)
        return self.elem(truth, "and", above, below)

    # --- lists ------------------------------------------------------------------------------------
    def prepare(self, lists: list[Instruction]) -> None:
        """What must hold so that a list changes no bit: its images are exact, its sums too."""
        found = list_sums(self.program)
        if found.trouble:
            raise PlanError(
                f'precision="lattice": the order of a neighbour list would change the result: {found.trouble}',
                fix="Write one pair_sum, of one number per particle, as in (m[:, None]*m[None, :]); "
                "or sum over all pairs: q[:, None] - q[None, :].",
            )
        self.sums = found.sums
        for i in lists:
            _, points, _, _, *cell, _ = i.args
            if not cell:
                continue
            if not isinstance(points, Register) or points.kind != "S":
                raise PlanError(
                    'precision="lattice": the points of a neighbour list in a box are not a state',
                    fix="Write pair_distance2(q, box=...) with the position itself.",
                )
            self.range[points.index] = EXACT
            self.periods(cell[0], self.units[points.index])

    def periods(self, x: Operand, unit: float) -> None:
        """The lengths of a box, which are rounded to whole numbers of units where they are parameters."""
        made = {i.dst: i for i in self.program.init if i.op == "MOVE"}
        if isinstance(x, Param) and len(self.types[x].shape) < 2:
            if self.boxes.setdefault(x, unit) != unit:
                raise PlanError(
                    f'precision="lattice": {x} is the box of states that have different units',
                    fix="Give them the same unit.",
                )
        elif isinstance(x, float):
            if x % unit:
                raise PlanError(
                    f'precision="lattice": the box {x!r} is not a whole number of units {unit!r}',
                    fix="Make it a parameter, which is rounded: box: float = ...",
                )
        elif x in made and len(made[x].type.shape) == 1:
            for source in made[x].args:
                if not isinstance(source, (Word, tuple)):
                    self.periods(source, unit)
        else:
            raise PlanError(
                'precision="lattice": a box that is computed or oblique cannot be used with neighbour lists',
                fix="Pass one length, or a parameter with one length for each axis.",
            )

    def round_boxes(self) -> None:
        for box, unit in self.boxes.items():
            type_ = self.types[box]
            units = self.elem(type_, "rint", self.elem(type_, "mul", box, 1.0 / unit))
            self.alias[box] = self.elem(type_, "mul", units, unit)

    def whole_forces(self, table: Operand, axis: Operand) -> Register:
        """What each pair adds in whole units of force, so that sums are exact: as many as a sum may have; else NaN.

        Adding 1.5*2**52 units leaves no place for a fraction of one, and taking them away again is exact.
        """
        assert isinstance(axis, tuple) and isinstance(axis[0], int)
        type_ = self.types[table]
        most = 2.0 ** (53 - (self.sums - 1).bit_length() - (type_.shape[axis[0]] - 1).bit_length())  # units
        unit = STRONGEST / most if self.force is None else self.force
        much = MAGIC * unit
        x = self.read(table)
        rounded = self.elem(type_, "sub", self.elem(type_, "add", x, much), much)
        small = self.elem(Type(bool_, type_.shape), "lt", self.elem(type_, "abs", x), most * unit)
        return self.elem(type_, "where", small, rounded, math.nan)


# fmt: off
Lattice.rules = {
    "kept": Lattice.memory, "gradient": Lattice.gradient, "flow": Lattice.flow, "by_flow": Lattice.shear,
    "summed": Lattice.summed, **dict.fromkeys(("added", "by_sum", "by_value"), Lattice.plainly),
    **dict.fromkeys(("plain", "moved", "listed", "clock", "watched", "orbit", "turn", "solved"), Lattice.number),
}  # check_shears has refused all others
# fmt: on


def is_listed(i: Instruction) -> bool:
    """Is it a sum over the neighbours of a list?"""
    return i.op == "PAIRS" and isinstance(i.args[2], tuple) and len(i.args[2]) > 2


def moving(program: Program, floats: frozenset[int]) -> frozenset[Operand]:
    """What moves a state of whole numbers; what is added to cotangents alone is not rounded."""
    found: set[Operand] = set()
    for section in ("final", "step", "init"):
        for i in reversed(program.section(section)):
            state = isinstance(i.dst, Register) and i.dst.kind == "S" and i.dst.index not in floats
            if i.dst in found or state and i.row.numbers == "by_flow":
                found |= set(i.sources)
    return frozenset(found)


# --- what qualifies -------------------------------------------------------------------------------
def check_shears(program: Program) -> None:
    """Every state moves by shears alone, in units of the user's; cotangents move as they will."""
    beside = {Register("S", k) for k, s in enumerate(program.states) if s.role == COTANGENT}
    for _, _, i in program.numbered():
        how = i.row.numbers
        if i.dst in beside:
            continue
        if how == "gradient" and i.args[0] in beside and isinstance(i.dst, Register):
            beside.add(i.dst)  # to which more is added
            continue
        moves = isinstance(i.dst, Register) and i.dst.kind == "S" and how not in ("kept", "by_flow")
        if moves or how == "added":
            raise PlanError(
                f'precision="lattice" cannot be combined with `{program.name}`: `{i}` is not a shear',
                fix=SHEARS,
            )
        if how in ("drawn", "tree", "line"):
            what = {"drawn": "random numbers", "tree": "approximate=", "line": "equations along a line"}[how]
            raise PlanError(
                f'precision="lattice" cannot be combined with {what}',
                fix="A force must be a function of the positions alone, to the last bit.",
            )
    for flow in flows(program):
        if not flow.is_shear:
            raise PlanError(
                f'precision="lattice" cannot be combined with `{program.name}`: `{flow.instruction}` is not a shear',
                fix=SHEARS,
            )


def even_states(program: Program) -> frozenset[int]:
    """The states that the first and the last part of a step move: their halves are done in `init` and `final`.

    `final` must take back all that `init` does, the last of it first; and a move between two steps must be twice the
    half that `init` ends with, to the last bit.
    """
    init, step, final = (shears(program, name) for name in ("init", "step", "final"))
    # shear of each state in a step; a step backwards begins with it
    last, earliest = (dict(step), dict(reversed(step)))
    ends = dict(runs(program, init)[-1]) if init else {}
    taken_back = [
        {k: [-w for w in reversed(ws)] for k, ws in run.items()} for run in reversed(together(program, final))
    ]
    whole = all(2.0 * w in (last.get(k), -earliest.get(k, math.nan)) for k, w in ends.items())
    if together(program, init) != taken_back or not whole:
        raise PlanError(
            f'precision="lattice" cannot be combined with `{program.name}`: a step does not end with the part it starts with',
            fix="Choose a method whose first and last parts are the same, such as leapfrog, or symplectic_euler, without "
            "fast and slow parts.",
        )
    return frozenset(ends)


Shears = list[tuple[int, float]]


def runs(program: Program, moves: Shears) -> list[Shears]:
    """Shears cut where they turn from positions to momenta or back; within a run their order does not matter."""
    return [list(run) for _, run in groupby(moves, lambda move: program.states[move[0]].role)]


def together(program: Program, moves: Shears) -> list[dict[int, list[float]]]:
    """For each run the weights of each state, in order."""
    out = []
    for run in runs(program, moves):
        weights: dict[int, list[float]] = {}
        for k, w in run:
            weights.setdefault(k, []).append(w)
        out.append(weights)
    return out


def shears(program: Program, section: str) -> Shears:
    """(state, h/dt) of the shears of a section, without what only follows a run and is never read."""
    products = {i.dst: i.args[1:] for i in program.init if i.op == "ELEM" and i.args[0] == Word("mul")}
    dt = Param("dt")

    def weight(h: Operand) -> float:
        factors = products.get(h, (h,))
        if h == dt:
            return 1.0
        numbers = [x for x in factors if isinstance(x, float)]
        return numbers[0] if dt in factors and len(numbers) == 1 else math.nan

    return [
        (i.dst.index, weight(i.args[1]))
        for i in program.section(section)
        if i.row.numbers == "by_flow"
        and isinstance(i.dst, Register)
        and program.states[i.dst.index].role != "auxiliary"
    ]
