"""What does a machine have to compute?  A program as scalar expressions in the minimal operator set.

Nothing is decided here: every instruction is replaced by its meaning, arrays by their numbers, functions
by their expansions, all bit for bit. What depends on parameters alone is computed before the loop.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache

from tinyphysics.errors import PlanError
from tinyphysics.ir.dtype import DType, i64, u32
from tinyphysics.ir.ops import Ops
from tinyphysics.ir.rewrite import graph_rewrite
from tinyphysics.ir.text import dumped
from tinyphysics.ir.uop import RECORD, UOp, elements, substitute, toposort
from tinyphysics.rules.calculus.custom import inline
from tinyphysics.rules.calculus.unroll import unroll
from tinyphysics.rules.formulas import elliptic, jacobi, mesh
from tinyphysics.rules.functions import fast
from tinyphysics.rules.functions.transcendental import always, conditions, guarded, lower, usual, weight
from tinyphysics.rules.identities.exact import exact
from tinyphysics.rules.identities.fast_products import fewer
from tinyphysics.target import PORTABLE, Seed
from tinyphysics.tpir.kernels.stages import RolledStep, ends_of, rolled_up
from tinyphysics.tpir.program.form import check_node
from tinyphysics.tpir.program.isa import (
    ADDRESS,
    GOING,
    MEMBER_BITS,
    Instruction,
    Operand,
    Param,
    Pointer,
    Program,
    Register,
)
from tinyphysics.tpir.program.liveness import reads_before_writing
from tinyphysics.tpir.program.symbolic import Symbolic
from tinyphysics.tpir.program.values import instant
from tinyphysics.util import without_collections

# registers of a loop that keep how near it came to a pole, and how long its longest step was: as nearest.0
BESIDE = NEAREST, LONGEST = "nearest", "longest"
SAMPLED = 64  # steps, of which a loop looks at one at least to see how long it is
NOW = UOp.var("n")  # steps done, as a float: exact up to 2**53
STEP, ORIGIN = UOp.var("$dt"), UOp.var("$t0")
# sections that are functions of what is carried, and give it back
LOOPS = ("step", "watch", "enter", "leave")
LARGEST = (
    20_000  # scalar operations; beyond, compilers take minutes and a loop over the array is the right form
)
LARGEST_RARE = 3 * LARGEST  # of what is right for any argument: members whose guard fires wait for it


@dataclass(frozen=True, eq=False)
class Tail:
    """What becomes of the loads after every so many stages."""

    period: int
    roots: tuple[UOp, ...]
    guards: tuple[UOp, ...] = ()


@dataclass(frozen=True, eq=False)
class Section:
    """A function of its loads and of the parameters: what a machine evaluates for every member.

    `guards` are the conditions under which the roots must not be trusted: an argument was too large for
    the fast path of a function. `invariants` are evaluated once, from parameters alone. With `stages` the
    roots are one stage of a step, done that often; `weights` says what a variable is in each of them, and `tails`
    what is done after some of them.
    """

    name: str
    loads: tuple[UOp, ...]
    roots: tuple[UOp, ...]
    guards: tuple[UOp, ...]
    invariants: dict[UOp, UOp]  # variable -> its value
    loops: bool = False
    watched: tuple[UOp, ...] = ()  # evaluated after every `stride` steps, from the loads
    watched_guards: tuple[UOp, ...] = ()
    stages: int = 1
    weights: dict[UOp, tuple[UOp, ...]] = field(default_factory=dict)  # constants, parameters, invariants
    careful: bool = False  # which of their forms the functions in it have, where they are not written out
    bodies: int = 0  # rows of its states that are alike: what a vector may do together for one member
    tails: tuple[Tail, ...] = ()
    going: UOp | None = (
        None  # of the loads: a loop ends where it holds for no lane, because a step would change nothing
    )
    rows: int = 0  # bodies in arrays that all have as many: what one member's vectors may hold side by side
    highs: tuple[
        int, ...
    ] = ()  # of the loads: of an error word the place of what it is added to, of others its own

    def __str__(self) -> str:
        return "\n".join(line for line, _ in self.listed)

    @property
    def listed(self) -> list[tuple[str, UOp | None]]:
        """Its lines, each with its node."""
        lines: list[tuple[str, UOp | None]] = [
            (f"{self.name}: {', '.join(str(v.arg) for v in self.loads)}", None)
        ]
        if self.invariants:
            names = " ".join(str(v.arg) for v in self.invariants)
            lines += [(f"  once {names}:", None), *_indented(list(self.invariants.values()))]
        if self.stages > 1:
            lines.append((f"  {self.stages} stages:", None))
            lines += [
                (f"  {w.arg} = {' '.join(str(u.arg) for u in row)}", w) for w, row in self.weights.items()
            ]
        if not self.tails:
            return [*lines, *_indented(self.everything)]
        lines += _indented([*self.roots, *self.guards])
        for t in self.tails:
            lines += [(f"  after every {t.period}:", None), *_indented([*t.roots, *t.guards])]
        return [*lines, *(_indented([*self.watched, *self.watched_guards]) if self.watched else [])]

    @cached_property
    def accumulators(self) -> frozenset[UOp]:
        """Loads that are read once, to be added to: v becomes a*b + v. No chain of operations waits for them."""
        if self.tails:
            return frozenset()
        users = Counter(s for u in toposort([*self.roots, *self.guards]) for s in u.src)
        ends = Counter(self.roots)  # a + b may be what becomes of both
        return frozenset(
            v
            for v, r in zip(self.loads, self.roots)
            if users[v] == 1
            and v not in ends
            and ends[r] == 1
            and (r.op is Ops.FMA and r.src[2] is v or r.op is Ops.ADD and any(s is v for s in r.src))
        )

    @cached_property
    def beside(self) -> frozenset[UOp]:
        """Loads that are kept beside a state, and that nothing else waits for: how near it came to poles."""
        return frozenset(v for v in self.loads if is_beside(v)) if self.sampled else frozenset()

    @cached_property
    def sampled(self) -> frozenset[UOp]:
        """Of those, what need not be looked at in every step: how long a step is."""
        return frozenset(v for v in self.loads if self.loops and str(v.arg).startswith(f"{LONGEST}."))

    @cached_property
    def idle(self) -> frozenset[UOp]:
        """Loads that a loop neither changes nor reads: what is kept beside a step, for what is done between steps."""
        if not self.loops or self.tails:
            return frozenset()
        same = {v for v, r in zip(self.loads, self.roots) if v is r}
        if not same:
            return frozenset()
        read = {s for u in toposort([*self.roots, *self.guards]) for s in u.src}
        ends = Counter(self.roots)
        return frozenset(v for v in same if v not in read and ends[v] == 1)

    @cached_property
    def code(self) -> int:
        """Operations as they are written, a loop over stages once."""
        return count(self.everything)

    @cached_property
    def operations(self) -> int:
        """How many a machine does for one member in one step."""
        often = self.code + (self.stages - 1) * count([*self.roots, *self.guards])
        return often + sum((self.stages // t.period - 1) * count([*t.roots, *t.guards]) for t in self.tails)

    @cached_property
    def moving(self) -> int:
        """Of these, those that a state waits for. What is kept beside it takes far less time than its operations say."""
        if not self.beside:
            return self.operations
        own = [r for v, r in zip(self.loads, self.roots) if v not in self.beside]
        return count([*self.invariants.values(), *own, *self.guards])

    @property
    def guarded(self) -> bool:
        """May a guard fire in it?"""
        return bool(self.guards or self.watched_guards or any(t.guards for t in self.tails))

    @property
    def everything(self) -> list[UOp]:
        gate = [] if self.going is None else [self.going]
        tails = [u for t in self.tails for u in (*t.roots, *t.guards)]
        return [*gate, *self.roots, *self.guards, *tails, *self.watched, *self.watched_guards]

    @cached_property
    def needed(self) -> dict[UOp, None]:
        """All that is read or computed, before the loop and in it."""
        weights = [u for row in self.weights.values() for u in row]
        return dict.fromkeys(toposort([*self.everything, *self.invariants.values(), *weights]))


def is_beside(v: UOp) -> bool:
    """Does a loop keep this beside the state, to know how near it came to a pole?"""
    return str(v.arg).partition(".")[0] in BESIDE


def count(roots: Sequence[UOp]) -> int:
    """Operations of the minimal set, also where functions are not written out."""
    return sum(map(weight, toposort(roots)))


def early(roots: Sequence[UOp], guards: Sequence[UOp]) -> list[UOp]:
    """Sources before users, each guard as soon as it can be known: its argument need not be kept for it."""
    order = dict.fromkeys(toposort(roots))
    after: dict[UOp | None, list[UOp]] = {}
    place = {u: k for k, u in enumerate(order)}
    for g in guards:
        cone = [u for u in toposort([g]) if u not in order]
        known = [s for u in cone for s in u.src if s in place]
        after.setdefault(max(known, key=place.__getitem__, default=None), []).extend(cone)
    out = dict.fromkeys(after.pop(None, []))
    for u in order:
        out[u] = None
        out |= dict.fromkeys(after.get(u, []))
    return list(out)


def _indented(roots: Sequence[UOp]) -> list[tuple[str, UOp | None]]:
    return [("  " + line, u) for line, u in dumped(roots)]


@dataclass(eq=False)
class Kernel:
    """A program as scalars: `inputs` are loaded once, `carried` goes round the loop."""

    name: str
    inputs: tuple[UOp, ...]
    params: tuple[UOp, ...]
    carried: tuple[UOp, ...]
    outputs: dict[str, tuple[DType, tuple[int, ...]]]  # what `final` gives: dtype and shape by name
    # init, step (one stage of it), final: before functions are expanded
    functions: dict[str, tuple[UOp, ...]]
    watched: tuple[UOp, ...] = ()  # observables, as functions of what is carried
    observed: dict[str, tuple[DType, tuple[int, ...]]] = field(default_factory=dict)
    stages: int = 1
    weights: dict[UOp, tuple[UOp, ...]] = field(default_factory=dict)  # a variable of the stage -> its values
    # stages, weights: enter, leave
    ends: dict[str, tuple[int, dict[UOp, tuple[UOp, ...]]]] = field(default_factory=dict)
    bodies: int = 0
    rows: int = 0
    tails: tuple[Tail, ...] = ()  # what is done after some of the stages
    going: UOp | None = None  # of what is carried
    highs: tuple[int, ...] = ()  # of what is carried: of an error word the place of what it is added to
    seed: Seed | None = None  # of math="fast": what its roots begin with
    kinds: tuple[DType, ...] = ()  # of what is carried, where rows have another type: tpir/kernels/rows.py
    _cache: dict[tuple[str, bool, bool], Section] = field(default_factory=dict)

    def section(self, name: str, careful: bool = False, short: bool = False) -> Section:
        """One section in the minimal operator set; `careful` is right for any argument.

        With `short`, functions stay what they are, to be called: the same bits from less text.
        """
        short = short and self.seed is None
        if (name, careful, short) not in self._cache:
            loops = name in LOOPS
            stages, weights = self.ends.get(name, (self.stages, self.weights) if loops else (1, {}))
            values = [u for row in weights.values() for u in row]
            groups: list[list[UOp]] = []
            gate = [self.going] if name == "step" and self.going is not None else []
            tails = self.tails if name in ("step", "watch") else ()
            behind = (*(t.roots for t in tails), gate)
            for roots in (self.functions[name], self.watched if name == "watch" else (), values, *behind):
                plain = inline(roots)
                if short:
                    plain, rare = (always(plain), []) if careful else usual(plain)
                    groups += [plain, [] if careful else [*conditions([*plain, *rare]), *rare]]
                elif self.seed is None or roots is self.watched:  # what is only looked at is exact
                    groups += [lower(plain), []] if careful else guarded(plain)
                else:
                    groups += [lower(plain), []] if careful else fast.guarded(fewer(plain), self.seed)
            flat = [u for group in groups for u in group]
            if not short:
                flat = graph_rewrite(flat, exact)
            size = count(flat)
            if size > (LARGEST_RARE if careful else LARGEST):
                raise PlanError(f"one {name} of `{self.name}` is {size:,} operations when written out")
            rest, invariants = hoist(flat, frozenset(self.params))
            parts = []
            for group in groups:
                parts.append(tuple(rest[: len(group)]))
                rest = rest[len(group) :]
            loads = self.inputs if name == "init" else self.carried
            table = {w: parts[4][k * stages : (k + 1) * stages] for k, w in enumerate(weights)}
            self._cache[name, careful, short] = Section(
                name,
                loads,
                parts[0],
                parts[1] + parts[5],
                invariants,
                loops,
                parts[2],
                parts[3],
                stages,
                table,
                careful,
                self.bodies if loops else 0,
                tuple(Tail(t.period, parts[6 + 2 * k], parts[7 + 2 * k]) for k, t in enumerate(tails)),
                parts[-2][0] if gate else None,
                self.rows if loops else 0,
                self.highs if loops else (),
            )
        return self._cache[name, careful, short]

    def has(self, name: str) -> bool:
        """Are there stages between `init` and the steps, or between them and `final`?  Then observables are apart, too."""
        return name in self.functions

    def whole_step(self) -> list[UOp]:
        """A step with its stages one after the other, as functions of what is carried."""
        values = list(self.carried)
        for k in range(self.stages):
            here = dict(zip(self.carried, values)) | {w: row[k] for w, row in self.weights.items()}
            values = substitute(self.functions["step"], here)
            for t in self.tails:
                if (k + 1) % t.period == 0:
                    here |= dict(zip(self.carried, values))
                    values = substitute(t.roots, here)
        return values

    def __str__(self) -> str:
        return "\n".join([f"kernel {self.name}", *(str(s) for s in self.used)])

    @property
    def used(self) -> list[Section]:
        """The sections that are not empty, in the order in which they run."""
        names = [n for n in ("init", "enter", "step", "leave", "final") if self.functions.get(n)]
        return [self.section(n) for n in names]


class Meaning(Symbolic):
    """A program run on expressions, where an update replaces the state by its new expression."""

    def run(self, instructions: Sequence[Instruction]) -> dict[Operand, UOp]:
        """What is stored and observed."""
        out: dict[Operand, UOp] = {}
        sites = RECORD.get()
        for i in instructions:
            where, row = f"`{i}`", i.row
            if sites is not None:
                sites.begin(i)
            if i.op == "LOAD":
                assert isinstance(i.dst, Register)
                self.env[i.dst] = input_of(self.program, i.dst.index)
            elif row.writes == "&":
                out[i.dst] = self.read(i.args[0], i.type, where)
            else:
                value = self.becomes(i, where) if row.kind == "update" else self.value(i, where)
                assert value is not None
                self.env[i.dst] = mesh.expand(elliptic.expand(jacobi.expand(value)))
        if sites is not None:
            sites.begin(None)
        return out

    def made(self, u: UOp, where: str) -> UOp:
        return check_node(u, where)

    def rooted(self, u: UOp) -> UOp:
        return u

    def time(self, i: Instruction, where: str) -> UOp:
        c, *words = (self.env[x] if isinstance(x, Register) else x for x in i.args)
        return instant(NOW, STEP, ORIGIN, i.type.dtype, c, *words)

    def address(self) -> tuple[UOp, ...]:
        *seed, below, above = address_of(self.program)
        member = (above.cast(i64) << MEMBER_BITS) + below.cast(i64)
        return (*(x.cast(u32) for x in seed), NOW.cast(i64), member)


def address_of(program: Program) -> tuple[UOp, ...]:
    """The parameters that random numbers are addressed by; those that vary have the format of all that do."""
    own = given_format(program)
    return tuple(
        UOp.var(f"${name}", (), dtype) for name, dtype in zip(ADDRESS, (NOW.dtype, NOW.dtype, own, own))
    )


def given_format(program: Program) -> DType:
    """The format of the parameters: that of the states, where one number is a state."""
    first = next((s.type.dtype for s in program.states if s.type.dtype.is_float), NOW.dtype)
    return NOW.dtype if any(s.low_of is not None for s in program.states) else first


def implicit(program: Program) -> tuple[UOp, ...]:
    """What a program reads of a run without declaring it."""
    return (STEP, ORIGIN, *(address_of(program) if program.draws else ()))


def input_of(program: Program, index: int) -> UOp:
    s = program.states[index]
    return UOp.var(f"&{s.name}", s.type.shape, s.type.dtype)


def unchanging(program: Program, start: Mapping[Operand, UOp]) -> Callable[[Register], bool]:
    """Is a register of `init` the same at every step, and computed from parameters alone?"""
    rewritten = {i.dst for i in program.step}
    return lambda r: r not in rewritten and not any(str(v.arg).startswith("&") for v in start[r].leaves)


def carried_registers(program: Program, start: Mapping[Operand, UOp]) -> list[Register]:
    """What goes round the loop: the states, and what a step or the end reads of an earlier section."""
    states = [Register("S", i) for i in range(len(program.states))]
    needed, fixed = reads_before_writing((*program.step, *program.final)), unchanging(program, start)
    return states + [r for r in needed if r not in states and not fixed(r)]


@lru_cache(maxsize=64)
def loop_registers(program: Program) -> dict[str, tuple[DType, tuple[int, ...]]]:
    """The registers of a loop between two steps, by name: all that a run needs to go on, whatever runs it."""
    meaning = Meaning(program)
    meaning.run(program.init)
    return {
        str(r): (meaning.env[r].dtype, meaning.env[r].shape) for r in carried_registers(program, meaning.env)
    }


def scalars(roots: Sequence[UOp]) -> list[UOp]:
    """The numbers of the roots, as scalar expressions without needless operations."""
    flat = [u for group in unroll(roots) for u in group]
    return graph_rewrite(flat, exact)


def build_kernel(program: Program, seed: Seed = PORTABLE) -> Kernel:
    """The kernel of a program, for a machine with some seed; a PlanError if it would be too long to write out.

    Made once: a run, what is looked at beside it and the report all ask for it.
    """
    return _built(program, seed)


def made_anew(program: Program, seed: Seed = PORTABLE) -> Kernel:
    """The kernel with the constants that rules make here and now, such as quotients that are not rounded."""
    found: Kernel = _built.__wrapped__(program, seed)
    return found


def highs_of(program: Program, carried: Sequence[str]) -> tuple[int, ...]:
    """Of each number that is carried the place of what it is added to, if it is an error word; else its own."""
    lows = {f"S{k}": f"S{s.low_of}" for k, s in enumerate(program.states) if s.low_of is not None}
    place = {name: k for k, name in enumerate(carried)}
    out = []
    for name in carried:
        of, dot, index = name.partition(".")
        out.append(place.get(f"{lows.get(of, of)}{dot}{index}", place[name]))
    return tuple(out)


@lru_cache(maxsize=8)
@without_collections()
def _built(program: Program, seed: Seed) -> Kernel:
    meaning = Meaning(program)
    meaning.run(program.init)
    ends = ends_of(program, lambda r: r in meaning.env and unchanging(program, meaning.env)(r))
    if ends.enter is not None:
        meaning = Meaning(program)
        meaning.run(ends.init)
    start = dict(meaning.env)
    needed = reads_before_writing((*program.step, *program.final))
    rewritten = {i.dst for i in program.step}
    fixed, round_the_loop = unchanging(program, start), carried_registers(program, start)
    shaped: dict[Operand, UOp] = {r: UOp.var(f"{r}", start[r].shape, start[r].dtype) for r in round_the_loop}
    known = {
        r: u for r, u in start.items() if isinstance(r, Param) or r in needed and r not in shaped
    } | shaped
    loop = Meaning(program)
    loop.env |= known
    stages, weights = rolled(program, start, [r for r in round_the_loop if r in rewritten], fixed)
    loop.env |= {w: UOp.var(str(w), row[0].shape, row[0].dtype) for w, row in weights.items()}
    gate = loop.run(stages.body).get(Pointer(GOING))
    next_values = [loop.env[r] for r in round_the_loop]
    less_often = []
    for tail in stages.tails:
        behind = Meaning(program)
        behind.env |= known | {w: UOp.var(str(w), row[0].shape, row[0].dtype) for w, row in weights.items()}
        behind.run(tail.body)
        less_often.append([behind.env[r] for r in round_the_loop])
    end = Meaning(program)
    end.env |= known
    stored = end.run(ends.final)
    outputs = [r for r in stored if isinstance(r, Pointer)]
    if sum(u.size for u in next_values) > LARGEST:
        raise PlanError(f"`{program.name}` has too many numbers to write out one by one")

    sections = {
        "init": scalars([start[r] for r in round_the_loop]),
        "step": scalars(next_values),
        "final": scalars([stored[p] for p in outputs]),
        GOING: [] if gate is None else scalars([gate]),
    }
    tails = [scalars(values) for values in less_often]
    tables = {"step": weights}
    for title, part in (("enter", ends.enter), ("leave", ends.leave)):
        if part is not None:
            apart = Meaning(program)
            apart.env |= {
                r: u for r, u in start.items() if not isinstance(r, Register) or r.kind != "S"
            } | shaped
            tables[title] = values_of(part.weights, start)
            apart.env |= {w: UOp.var(str(w), row[0].shape, row[0].dtype) for w, row in tables[title].items()}
            apart.run(part.body)
            sections[title] = scalars([apart.env[r] for r in round_the_loop])
    carried = [e for r in round_the_loop for e in elements(shaped[r])]
    inputs = [e for i in range(len(program.states)) for e in elements(input_of(program, i))]
    params = [e for p in program.params for e in elements(meaning.env[Param(p.name)])]
    weighed: dict[str, dict[UOp, tuple[UOp, ...]]] = {}
    for title, table in tables.items():
        weighed[title] = {}
        for w, row in table.items():
            flat = scalars(row)
            variable = UOp.var(str(w), row[0].shape, row[0].dtype)
            weighed[title] |= {e: tuple(flat[k :: row[0].size]) for k, e in enumerate(elements(variable))}
    names: dict[UOp, UOp] = {}
    for u in (*carried, *inputs, *params, *(w for table in weighed.values() for w in table)):
        name = f"{u.src[0].arg}.{u.arg}" if u.op is Ops.ELEMENT else str(u.arg)
        names[u] = UOp.var(name, (), u.dtype)
    functions = {title: tuple(substitute(roots, names)) for title, roots in sections.items()}
    going = functions.pop(GOING)
    own = tuple(dict.fromkeys([*(names[u] for u in params), *implicit(program)]))
    return Kernel(
        program.name,
        tuple(names[u] for u in inputs),
        own,
        tuple(names[u] for u in carried),
        {p.name: (stored[p].dtype, stored[p].shape) for p in outputs},
        functions,
        stages=stages.count,
        weights=named(weighed.pop("step"), names),
        bodies=bodies_of(program),
        rows=rows_of(program),
        highs=highs_of(program, [str(names[u].arg) for u in carried]),
        going=going[0] if going else None,
        tails=tuple(Tail(t.period, tuple(substitute(roots, names))) for t, roots in zip(stages.tails, tails)),
        ends={
            title: (part.count, named(weighed[title], names))
            for title, part in (("enter", ends.enter), ("leave", ends.leave))
            if part is not None
        },
        seed=seed if program.math == "fast" else None,
    )


def bodies_of(program: Program) -> int:
    """How many rows of its states go on orbits, each like the others?"""
    return program.states[0].type.shape[0] - 1 if any(i.op == "ORBIT" for i in program.step) else 0


def rows_of(program: Program) -> int:
    """How many rows have its states, if all have as many?"""
    shapes = {r.type.shape for r in program.states}
    return next(iter(shapes))[0] if len(shapes) == 1 and all(shapes) else 0


def named(table: Mapping[UOp, Sequence[UOp]], names: dict[UOp, UOp]) -> dict[UOp, tuple[UOp, ...]]:
    return {names[w]: tuple(substitute(row, names)) for w, row in table.items()}


def rolled(
    program: Program,
    start: dict[Operand, UOp],
    carried: Sequence[Register],
    fixed: Callable[[Register], bool],
) -> tuple[RolledStep, dict[Register, list[UOp]]]:
    """The stages of a step and the values of their weights; where they differ otherwise, the step is one stage."""
    whole = RolledStep(1, program.step, {})
    found = rolled_up(program, lambda r: r in start and fixed(r))
    if found is None or any(r.kind != "S" for r in carried):
        return whole, {}
    weights = values_of(found.weights, start)
    alike = all(u.shape == row[0].shape and u.dtype is row[0].dtype for row in weights.values() for u in row)
    return (found, weights) if alike else (whole, {})


def values_of(
    weights: Mapping[Register, Sequence[Operand]], start: Mapping[Operand, UOp]
) -> dict[Register, list[UOp]]:
    return {
        w: [UOp.const(x, NOW.dtype) if isinstance(x, float) else start[x] for x in row]
        for w, row in weights.items()
    }


def watching(k: Kernel, probe: Kernel) -> Kernel:
    """The kernel with observables fused into its loop: the probe of the synchronised state."""
    state = dict(zip(probe.inputs, k.functions["final"]))
    loaded = dict(zip(probe.carried, substitute(probe.functions["init"], state)))
    watched = tuple(substitute(probe.functions["final"], loaded))
    params = tuple(dict.fromkeys((*k.params, *probe.params)))  # a probe may draw where a step does not
    new = replace(k, params=params, observed=probe.outputs, _cache={})
    if k.has("leave"):  # between a step and what is seen of it lies more than one expression
        return replace(new, functions=k.functions | {"look": watched})
    functions = k.functions | {"watch": k.functions["step"]}
    return replace(new, functions=functions, watched=watched, ends={}, bodies=0, going=None, kinds=())


RECORDED = "registers"  # what a kernel observes that keeps all that its loop carries


def recording(k: Kernel) -> Kernel:
    """The kernel whose loop also writes down what it carries, after every step."""
    functions = k.functions | {"watch": k.functions["step"]}
    seen: dict[str, tuple[DType, tuple[int, ...]]] = {RECORDED: (k.carried[0].dtype, (len(k.carried),))}
    return replace(k, functions=functions, watched=k.carried, observed=seen, _cache={})


def hoist(roots: Sequence[UOp], params: frozenset[UOp], name: str = "c") -> tuple[list[UOp], dict[UOp, UOp]]:
    """The roots with what depends on parameters alone replaced by variables, and those variables' values."""
    order = toposort(roots)
    varies: dict[UOp, bool | None] = {}  # None: a number
    for u in order:
        below = [v for s in u.src if (v := varies[s]) is not None]
        varies[u] = any(below) if below else u not in params if u.op is Ops.VAR else None
    fixed = {u: bool(u.src) and varies[u] is False for u in order}
    outside = {u: None for u in roots if fixed[u]}
    for u in order:
        if not fixed[u]:
            outside |= {s: None for s in u.src if fixed[s]}
    if not outside:
        return list(roots), {}
    names = {u: UOp.var(f"{name}{k}", u.shape, u.dtype) for k, u in enumerate(outside)}
    return substitute(roots, names), {v: u for u, v in names.items()}
