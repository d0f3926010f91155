"""From a Python function to a System: it is called once, on symbols, and what it returns is the graph."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import takewhile, zip_longest
from typing import Any, TypeVar

from tinyphysics.errors import InputError, ShapeError, TinyPhysicsError, TraceError
from tinyphysics.front.arrays_of_symbols import arrays_of_symbols
from tinyphysics.front.asked_pairs import ask, beside, by_name
from tinyphysics.front.brackets import Bracket, bracket_of
from tinyphysics.front.complex import REAL, Complex, without_roots
from tinyphysics.front.neighbours import left_over
from tinyphysics.front.random import IN_ENERGY, IN_FORCES, IN_RATES, Draws, drawing, of_observable
from tinyphysics.front.spaces import WHOLE, Space, evaluated_annotations, space_of
from tinyphysics.given import NO_UNITS, quantity, shown
from tinyphysics.ir import Ops, Sites, UOp, as_uop, bool_, elements, f64, graph_rewrite, substitute, toposort
from tinyphysics.ir.uop import COMPLEX, NOT_REAL, RECORD
from tinyphysics.options import heeds
from tinyphysics.rules.calculus.unroll import unroll
from tinyphysics.rules.equality.pairs import Infinite, with_pair_sums
from tinyphysics.rules.identities.exact import exact
from tinyphysics.system import (
    RESERVED,
    SHOWN,
    ComplexNumbers,
    Parameter,
    SizedFamily,
    State,
    Sum,
    System,
    other_name,
)
from tinyphysics.tracebacks import users_frames
from tinyphysics.util import Site, a_kind, one_of, plural

LETTER = {"momentum": "p", "velocity": "v"}  # what goes with a position
Made = TypeVar("Made", System, SizedFamily)
UNROLL_LIMIT = 512  # components; larger systems skip the check of each one's use
TO_WRITE = "While it is traced, its arguments are symbols: use operators and the functions of tp or NumPy."


@dataclass(frozen=True)
class Argument:
    name: str
    space: Space
    default: Any


@dataclass(frozen=True)
class Definition:
    """A function before it is traced: its arguments in order, and how to call it."""

    name: str
    arguments: tuple[Argument, ...]
    call: Callable[[dict[str, UOp]], Any]
    site: Site | None
    function: Callable[..., Any]
    complexes: tuple[ComplexNumbers, ...] = ()  # which arguments are parts of complex ones

    def __getitem__(self, name: str) -> Argument:
        return next(a for a in self.arguments if a.name == name)

    def wrong(self, what: str, fix: str, kind: type[TinyPhysicsError] = TraceError) -> TinyPhysicsError:
        """An error at the line where the function begins."""
        return kind(what, site=self.site, fix=fix)

    def system(
        self,
        kind: str,
        states: Sequence[State],
        symbols: Mapping[str, UOp],
        sizes: Mapping[str, int],
        sites: dict[UOp, Site],
        not_parameters: Sequence[str] = (),
        **content: Any,
    ) -> System:
        """The system that was traced: `content` is its energy, forces or update; the time is no parameter."""
        own = [a for a in self.arguments if a.name != "t" and a.name not in not_parameters]
        system = System(
            self.name,
            kind,
            tuple(states),
            tuple(parameter(self, a, sizes) for a in own),
            time=symbols.get("t"),
            sites=sites,
            site=self.site,
            function=self.function,
            time_unit=next((a.space.unit for a in self.arguments if a.name == "t"), None),
            complexes=tuple(
                replace(c, is_state=any(s.name in c.parts for s in states)) for c in self.complexes
            ),
            **content,
        )
        if any(a.space.unit is not None for a in self.arguments):  # an error where they do not fit
            from tinyphysics.rules.equality.measured_in import units_of

            units_of(system)
        return system


# how a function of a kind is begun
WRITTEN = {
    "": "def f(x): return ...",
    "hamiltonian": "def H(q, p): return ...",
    "lagrangian": "def L(q, v): return ...",
    "forces": "def F(q): return ...",
    "potential": "def V(q): return ...",
    "ode": "def rates(x): return ...",
    "constraint": "def rod(q, l=1.0): return q*q - l*l",
}


def definition(function: Callable[..., Any], kind: str = "") -> Definition:
    """The arguments of a function; of a `kind` of system that is named, all must be real numbers."""
    if not hasattr(function, "__code__"):
        raise TraceError.here(
            f"{a_kind(function)} is not a function that can be traced",
            f"Write {WRITTEN.get(kind, WRITTEN[''])}",
        )
    code = inspect.unwrap(function).__code__
    site = Site(code.co_filename, code.co_firstlineno)
    notes = evaluated_annotations(function, site)
    arguments, first = [], []
    for name, p in inspect.signature(function).parameters.items():
        if p.kind is p.POSITIONAL_ONLY:
            first.append(name)
        if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
            raise TraceError(
                f"`{function.__name__}` takes *{name}: a variable number of arguments has no names to trace",
                site=site,
                fix="Write out every state and parameter as an argument.",
            )
        default = None if p.default is p.empty else p.default
        arguments.append(Argument(name, space_of(notes.get(name, p.empty), name, site), default))

    def call(symbols: dict[str, UOp]) -> Any:
        named = {n: s for n, s in symbols.items() if n not in first}
        return function(*(symbols[n] for n in first), **named)

    d = Definition(function.__name__, tuple(arguments), call, site, function)
    if any(a.space.is_complex for a in arguments):
        d = in_real_parts(d, kind)
    if kind:
        check_floats(d, kind)
    return d


PARTS_OF_ANY = ("ode", "map", "hamiltonian", "")  # kinds of functions whose states may be complex


def leading(d: Definition) -> list[str]:
    """The complex arguments that a function begins with: those of an energy are its states."""
    return [a.name for a in takewhile(lambda a: a.space.is_complex and a.default is None, d.arguments)]


def in_real_parts(d: Definition, kind: str) -> Definition:
    """With two real arguments for each complex one; the function sees complex numbers."""
    states = leading(d) if kind == "hamiltonian" else []
    if kind not in PARTS_OF_ANY and d.arguments[0].space.is_complex:
        raise d.wrong(
            f"`{d.arguments[0].name}` of `{d.name}` is complex, and @tp.{kind} moves real numbers",
            "Complex states go into @tp.hamiltonian, @tp.ode and @tp.map.",
        )
    out: list[Argument] = []
    known: list[ComplexNumbers] = []
    for a in d.arguments:
        if not a.space.is_complex:
            out.append(a)
            continue
        ends, scale = (("_q", "_p"), 2.0) if a.name in states else (("_re", "_im"), 1.0)
        parts = (a.name + ends[0], a.name + ends[1])
        if taken := next((b.name for b in d.arguments if b.name in parts), None):
            raise d.wrong(
                f"`{taken}` of `{d.name}` is the name of a part of `{a.name}`", "Choose another name."
            )
        real, z = replace(a.space, is_complex=False), None if a.default is None else complex_default(d, a)
        values = (None, None) if z is None else z
        out += [Argument(name, real, value) for name, value in zip(parts, values)]
        known.append(ComplexNumbers(a.name, parts, scale))

    def call(symbols: dict[str, UOp]) -> Any:
        return d.call({name: symbols_of(name, symbols, known) for name in (a.name for a in d.arguments)})

    return replace(d, arguments=tuple(out), call=call, complexes=tuple(known))


def symbols_of(name: str, symbols: Mapping[str, UOp], known: Sequence[ComplexNumbers]) -> Any:
    c = next((c for c in known if c.name == name), None)
    return symbols[name] if c is None else COMPLEX["complex"](*seen_parts(c, symbols))


def seen_parts(c: ComplexNumbers, symbols: Mapping[str, UOp]) -> tuple[UOp, UOp]:
    """Real and imaginary part of a complex argument."""
    re, im = (symbols[part] for part in c.parts)
    return re, im if c.scale == 1.0 else im * (1.0 / c.scale)


def complex_symbols(complexes: Sequence[ComplexNumbers], symbols: Mapping[str, UOp]) -> dict[str, Any]:
    """The complex numbers of a system as functions see them, by name."""
    return {
        c.name: symbols_of(c.name, symbols, complexes)
        for c in complexes
        if all(part in symbols for part in c.parts)
    }


def complex_default(d: Definition, a: Argument) -> tuple[Any, Any]:
    try:
        value = a.default.tolist() if hasattr(a.default, "tolist") else a.default
        return part_of(value, "real"), part_of(value, "imag")
    except (TypeError, ValueError):
        raise d.wrong(
            f"the default of `{a.name}` is {shown(a.default)}, not a complex number", f"Write {a.name} = 1j."
        ) from None


def part_of(value: Any, which: str) -> Any:
    if isinstance(value, (list, tuple)):
        return [part_of(v, which) for v in value]
    return float(getattr(complex(value), which))


def in_real_values(d: Definition, given: Sequence[Any]) -> Sequence[Any]:
    """What a function of complex states returns, with two real values for each complex one."""
    out: list[Any] = []
    waiting = list(given)
    parts = {c.parts[0]: c for c in d.complexes}
    for a in (a for a in d.arguments if a.name != "t"):
        if not waiting or len(out) and a.name in {c.parts[1] for c in d.complexes}:
            continue
        value = waiting.pop(0)
        if a.name in parts:
            z = COMPLEX["complex"](value)
            out += [z.real, z.imag]
        else:
            out.append(value)
    return [*out, *waiting]


@contextmanager
def recording() -> Iterator[Sites]:
    sites = Sites()
    token = RECORD.set(sites)
    try:
        yield sites
    finally:
        RECORD.reset(token)


def run(d: Definition, symbols: dict[str, UOp], draws: Draws) -> tuple[Any, Sites]:
    """The user's function on symbols; what Python raises inside it becomes a TraceError at that line."""
    with recording() as sites, drawing(draws), arrays_of_symbols():
        try:
            return d.call(symbols), sites
        except TinyPhysicsError:
            raise
        except Exception as error:
            if isinstance(error.__cause__, TinyPhysicsError):  # ours, wrapped by NumPy in its own words
                raise error.__cause__ from None
            trace, site = error.__traceback__, None
            while trace is not None:
                file = trace.tb_frame.f_code.co_filename
                if file == d.function.__code__.co_filename:
                    site = Site(file, trace.tb_lineno)
                trace = trace.tb_next
            why = " ".join(f"{type(error).__name__}: {error}".split()).rstrip(".!")
            raise TraceError(
                f"`{d.name}` failed while it was traced: {why}", site=site, fix=TO_WRITE
            ) from error


def symbol(a: Argument, sizes: Mapping[str, int]) -> UOp:
    return UOp.var(a.name, a.space.bound(sizes), a.space.dtype)


def check_floats(d: Definition, kind: str) -> None:
    """A TraceError where an argument is a whole number: energies, forces and rates are functions of real numbers."""
    for a in d.arguments:
        if not a.space.dtype.is_float:
            name = next(c.__name__ for c in WHOLE if c.kind is a.space.dtype)
            plain = f"tp.Array[{', '.join(map(repr, a.space.shape))}]" if a.space.shape else "no annotation"
            raise TraceError(
                f"`{a.name}` of `{d.name}` is tp.{name}, and @tp.{kind} is for real numbers: their derivatives are needed",
                site=d.site,
                fix=f"Write a step of whole numbers as @tp.map; for real numbers write {plain}.",
            )


def check_time(d: Definition, step_number: bool = False) -> None:
    """`t` is time: one number that a run counts, so that it has no default and no shape."""
    t = next((a for a in d.arguments if a.name == "t"), None)
    if t is None:
        return
    what = "the step number" if step_number else "the time"
    if t.default is not None:
        raise d.wrong(
            f"`{d.name}` has `t={shown(t.default)}`, but `t` is {what} here and cannot have a default value",
            "Write `t` without a default if you mean the time; give a parameter another name, such as `t_`.",
        )
    if not t.space.dtype.is_float:
        raise TraceError(
            f"`{d.name}` has a `t` that is {t.space.dtype.numpy}, but `t` is {what} here, a float",
            site=d.site,
            fix='Write `t` alone, and t.astype("int64") where a whole number is needed.',
        )
    if t.space.shape:
        raise d.wrong(
            f"`{d.name}` has a `t` of shape {t.space.shape}, but `t` is {what} here, a single number",
            "Give the array another name, such as `times`.",
            ShapeError,
        )


def check_no_defaults(d: Definition, states: Sequence[str], why: str) -> None:
    """A state begins where a run is told to: a default would never be read."""
    for name in states:
        if d[name].default is not None:
            raise d.wrong(
                f"`{name}={shown(d[name].default)}` of `{d.name}`: {name} is a state ({why}), and a "
                f"state cannot have a default value",
                f"Write `{name}` alone, and pass {name}=... to evolve; parameters come after the states.",
            )


def parameter(d: Definition, a: Argument, sizes: Mapping[str, int]) -> Parameter:
    if a.name in RESERVED:
        raise d.wrong(
            f"`{a.name}` means {RESERVED[a.name]} and cannot name a parameter", "Choose another name."
        )
    shape = a.space.bound(sizes)
    value = a.default
    if a.space.unit is not None and value is not None:
        from tinyphysics.units import in_unit, unit

        value = in_unit(value, unit(a.space.unit, a.name, d.site), a.name)
    if (found := quantity(value)) is not None:
        raise d.wrong(f"the default of `{a.name}` is {found[0]}", f"{NO_UNITS} {a.name}=x.{found[1]}.")
    default = value.tolist() if hasattr(value, "tolist") else value
    if default is not None and as_uop(default).shape not in ((), shape):
        annotated = "Give one number for all, or an array of the annotated shape."
        raise d.wrong(
            f"the default of `{a.name}` has shape {as_uop(default).shape}, but its annotation says {shape}",
            annotated if shape else f"Annotate it: {a.name}: tp.Vec[{len(default)}] = ...",
            ShapeError,
        )
    return Parameter(a.name, UOp.var(a.name, shape), default, a.space.unit, dtype=a.space.dtype)


def check_free(d: Definition, states: Sequence[str]) -> None:
    """A TraceError if a state has a name that evolve() has another use for."""
    for name in states:
        if name in RESERVED:
            raise d.wrong(f"`{name}` means {RESERVED[name]} and cannot name a state", "Choose another name.")
        if name in SHOWN:
            hidden = f"a state named `{name}` would be hidden: out.{name} already means something else"
            raise d.wrong(hidden, other_name(name))


# What makes a number of a constant that is none: the result is no number, or infinite, for every state.
WITH_NAN = frozenset(set(Ops) - {Ops.WHERE, Ops.STACK, Ops.EXPAND, Ops.RESHAPE})
WITH_INFINITY = {Ops.ADD: "+", Ops.SUB: "-", Ops.MUL: "*"}


def constants_of(u: UOp) -> list[float]:
    """The numbers of a constant, or of an array that holds constants."""
    items = [u] if u.op is Ops.CONST else [x for x in u.src if x.op is Ops.CONST] if u.op is Ops.STACK else []
    return [float(x.arg) for x in items if x.dtype.is_float]


def always_computed(root: UOp) -> list[UOp]:
    """What a value needs in every state: of a choice its condition, since a branch may be no number on purpose."""
    seen, left = {root: None}, [root]
    while left:
        u = left.pop()
        new = [s for s in (u.src[:1] if u.op is Ops.WHERE else u.src) if s not in seen]
        seen.update(dict.fromkeys(new))
        left += new
    return list(seen)


def check_constants(d: Definition, root: UOp, sites: Sites) -> None:
    """A TraceError at the line of an operation with a constant that spoils its result for every state."""
    for u in always_computed(root):
        if not u.src or u.op not in WITH_NAN:
            continue
        known = [constants_of(s) for s in u.src]
        if any(map(math.isnan, (x for found in known for x in found))):
            why = "computes with nan, which is not a number"
        elif u.op is Ops.DIV and 0.0 in known[1]:
            why = "divides by zero"
        elif u.op in WITH_INFINITY and any(map(math.isinf, (x for found in known for x in found))):
            why = "computes with an infinite number"
        else:
            continue
        raise TraceError(
            f"`{d.name}` {why}: `{u}`",
            site=sites.of(u) or d.site,
            fix="Write the number you mean; tp.where(condition, a, b) avoids a value where it is not defined.",
        )


def numbers(d: Definition, value: Any, sites: Sites, state: Argument | None = None) -> UOp:
    """What a function has returned, as a graph of numbers; of a map, in the type of a state."""
    if value is None:
        raise d.wrong(f"`{d.name}` returns nothing", "End it with `return <the value>`.")
    dtype = f64 if state is None else state.space.dtype
    if isinstance(value, Complex):
        raise TraceError(NOT_REAL, site=sites.of(value.real) or d.site, fix=REAL)
    u = as_uop(value, dtype)
    if u.op is Ops.CONST and dtype is bool_ and u.arg in (0, 1):
        u = u.cast(bool_)
    if u.dtype is not dtype and state is not None and not (dtype.is_float and u.dtype is bool_):
        raise TraceError(
            f"`{d.name}` returns {u.dtype.numpy} for `{state.name}`, which is {dtype.numpy}",
            site=sites.of(u) or d.site,
            fix=f'Write .astype("{dtype.numpy}") behind the new value of {state.name}'
            + (", or a comparison such as x != 0." if dtype is bool_ else "."),
        )
    if u.dtype is not dtype:
        where = "Choose numbers with tp.where(condition, 1.0, 0.0)."
        raise d.wrong(f"`{d.name}` returns a condition, `{u}`, not a number", where)
    if left_over([u]) is not None:
        add = "Sum them: tp.pair_sum(energy_of(r2)) with r2 = tp.pair_distance2(...)."
        raise d.wrong(f"`{d.name}` returns distances of pairs that no sum has consumed", add)
    check_constants(d, u, sites)
    return u


def over_pairs(energy: UOp, sites: Sites) -> UOp:
    """The energy with its double sums over pairs as such; one that is infinite for every state is the user's mistake."""
    try:
        return with_pair_sums(energy)
    except Infinite as found:
        raise TraceError(
            f"`{found.sum}` includes the term of each particle with itself, which is not finite",
            site=sites.of(found.sum),
            fix="Write tp.pair_sum(x), which sums i < j, or leave the diagonal out: np.where(np.eye(n), 0, x).sum()/2.",
        ) from None


def used_components(roots: Sequence[UOp], state: UOp) -> list[bool]:
    """Which numbers of a state the expressions really contain."""
    order = toposort(roots)
    other = dict.fromkeys(
        s
        for u in order
        if state in u.leaves
        for s in u.src
        if state not in s.leaves and s.op is not Ops.CONST
    )
    # what does not contain it need not be written out: a sum over pairs of positions is long
    roots = substitute(roots, {s: UOp.var(f"@{i}", s.shape, s.dtype) for i, s in enumerate(other)})
    (scalars,) = [[u for group in unroll(roots) for u in group]]
    scalars = graph_rewrite(scalars, exact)
    seen: dict[UOp, None] = {}
    stack = list(scalars)
    found: dict[UOp, None] = {}
    while stack:
        u = stack.pop()
        if u in seen:
            continue
        seen[u] = None
        if u.op is Ops.ELEMENT and u.src[0] is state or u is state:
            found[u] = None
        else:
            stack.extend(u.src)
    return [e in found for e in elements(state)]


def check_dependence(d: Definition, energy: UOp, pairs: Sequence[tuple[UOp, UOp]]) -> None:
    """Every momentum must occur: without it the position it moves stands still."""
    for q, p in pairs:
        if not p.leaves & energy.leaves:
            raise d.wrong(
                f"the energy of `{d.name}` does not depend on `{p.arg}`, so `{q.arg}` would never move",
                f"Add the kinetic energy, for example {p.arg} @ {p.arg} / 2 (or {p.arg}**2/2).",
            )
        if not 1 < p.size <= UNROLL_LIMIT:
            continue
        unused = [i for i, used in enumerate(used_components([energy], p)) if not used]
        if unused:
            raise d.wrong(
                f"the energy of `{d.name}` does not depend on `{elements(p)[unused[0]]}`"
                + (f" and {plural(len(unused) - 1, 'other component')}" if len(unused) > 1 else ""),
                f"Use all of `{p.arg}`, or annotate `{q.arg}` and `{p.arg}` with a smaller shape.",
            )


def family(d: Definition, kind: str, build: Callable[[Mapping[str, int]], System]) -> System | SizedFamily:
    """The system, or one for every size if its shapes have letters."""
    letters = tuple(dict.fromkeys(n for a in d.arguments for n in a.space.letters))
    if not letters:
        return documented(build({}), d)
    shapes = {a.name: a.space.shape for a in d.arguments}
    return documented(SizedFamily(d.name, kind, letters, build, shapes, d.complexes), d)


def documented(system: Made, d: Definition) -> Made:
    """With the words of the user's function, which help(system) shows."""
    if d.function.__doc__:
        vars(system)["__doc__"] = d.function.__doc__
    return system


def traced_energy(d: Definition, symbols: dict[str, UOp]) -> tuple[UOp, dict[UOp, Site]]:
    """What an energy function returns, with the lines that its nodes come from."""
    value, sites = run(d, symbols, Draws(refused=IN_ENERGY))
    energy = numbers(d, value, sites)
    if energy.shape != ():
        what = f"`{d.name}` returns an energy of shape {energy.shape}, not a scalar"
        raise d.wrong(what, "Sum it: `(p**2).sum()/2` or `p @ p / 2`.", ShapeError)
    energy = over_pairs(without_roots(energy) if d.complexes else energy, sites)
    sites.table |= {
        u: line for u in toposort([energy]) if u not in sites.table and (line := sites.of(u)) is not None
    }
    return energy, sites.table


def checked_pairs(d: Definition, pairs: Sequence[tuple[str, str]], second: str) -> list[str]:
    """The names of all states, or a TraceError; `second` says what goes with a position."""
    if (
        not isinstance(pairs, (tuple, list))
        or not pairs
        or not all(isinstance(pair, (tuple, list)) and len(pair) == 2 for pair in pairs)
    ):
        raise d.wrong(
            f"pairs={pairs!r} is not a list of pairs",
            f"pairs= names the arguments: [(position, {second}), ...].",
        )
    names = [n for pair in pairs for n in pair]
    for n in names:
        if not any(a.name == n for a in d.arguments):
            raise d.wrong(
                f"`{d.name}` has no argument `{n}`",
                f"pairs= names its arguments: [(position, {second}), ...].",
            )
        if n == "t" or names.count(n) > 1:
            raise d.wrong(
                f"`{n}` is {'the time, not a state' if n == 't' else 'in two pairs'}",
                f"Write def {d.name}(q, {LETTER[second]}, t, ...): states first.",
            )
    check_free(d, names)
    return names


def check_shapes(
    d: Definition, pairs: Sequence[tuple[str, str]], symbols: Mapping[str, UOp], second: str
) -> None:
    for q, p in pairs:
        if symbols[q].shape != symbols[p].shape:
            raise d.wrong(
                f"`{q}` has shape {symbols[q].shape} and `{p}` {symbols[p].shape}",
                f"A position and its {second} must have the same shape.",
                ShapeError,
            )


def pair_of(d: Definition, second: str) -> list[tuple[str, str]]:
    """The first two arguments; a TraceError if the names of further ones say that they are pairs, too."""
    if len(d.arguments) < 2:
        raise d.wrong(
            f"`{d.name}` needs a position and a {second}", f"Write def {d.name}(q, {LETTER[second]}, ...)."
        )
    first = (d.arguments[0].name, d.arguments[1].name)
    if (named := by_name([a.name for a in plain(d)])) is not None:
        told = f"`{named[-1][1]}` looks like the {second} of `{named[-1][0]}`"
        raise ask(d.name, named, first, second, told, d.site)
    return [first]


def plain(d: Definition) -> list[Argument]:
    """Arguments that are numbers without a default: states, or parameters that a run must give."""
    return [a for a in d.arguments if a.default is None and not a.space.shape and a.name != "t"]


def check_beside(d: Definition, energy: UOp, symbols: Mapping[str, UOp], second: str) -> None:
    """A TraceError where two parameters without defaults move nothing: they are meant as states."""
    names = [a.name for a in plain(d)]
    if len(names) < 4 or names[:2] != [a.name for a in d.arguments[:2]]:
        return
    q, p, *rest = names
    alone = beside(energy, [symbols[q], symbols[p]], [symbols[n] for n in rest])
    if len(alone) > 1:
        told, half = one_of([str(u.arg) for u in alone], "and"), len(names) // 2
        why = f"{told} are in no term with `{q}` or `{p}`, so as parameters they would have no effect"
        raise ask(d.name, list(zip(names[:half], names[half:])), (q, p), second, why, d.site)


def trace_hamiltonian(
    d: Definition, pairs: Sequence[tuple[str, str]], sizes: Mapping[str, int], said: bool = True
) -> System:
    """`said`: the pairs were given by the user, and are not the first two arguments."""
    names = checked_pairs(d, pairs, "momentum")
    check_time(d)
    check_no_defaults(d, names, "one of a canonical pair")
    symbols = {a.name: symbol(a, sizes) for a in d.arguments}
    plain = [(q, p) for q, p in pairs if not d[q].space.body]
    check_shapes(d, plain, symbols, "momentum")
    states = []
    for q, p in pairs:
        roles = body_roles(d, q, p, symbols)
        states += [State(n, symbols[n], role, d[n].space.unit) for n, role in zip((q, p), roles)]
    energy, sites = traced_energy(d, symbols)
    if not said:
        check_beside(d, energy, symbols, "momentum")
    check_dependence(d, energy, [(symbols[q], symbols[p]) for q, p in pairs])
    system = d.system("hamiltonian", states, symbols, sizes, sites, names, energy=energy)
    return with_moments(system) if len(plain) < len(pairs) else system


def body_roles(d: Definition, q: str, p: str, symbols: Mapping[str, UOp]) -> tuple[str, str]:
    """Of a pair: a position and its momentum, or an attitude and an angular momentum."""
    space = d[q].space
    if not space.body:
        if d[p].space.body:
            raise d.wrong(
                f"`{p}` is an attitude, and stands where the momentum of `{q}` is expected",
                f"Write the momentum after the position: def {d.name}(q, p, {p}: ..., L: tp.Vec[3]).",
            )
        return "position", "momentum"
    rows = symbols[q].shape[: -2 if space.body == "rotation" else -1]
    if symbols[p].shape != (*rows, 3):
        raise d.wrong(
            f"`{q}` is an attitude, and its angular momentum `{p}` has shape {symbols[p].shape} instead of {(*rows, 3)}",
            f"Annotate it: {p}: tp.{'Vec[3]' if not rows else f'Array[{rows[0]}, 3]'}.",
            ShapeError,
        )
    return space.body, f"{space.body}_momentum"


def with_moments(system: System) -> System:
    """With parameters that momenta are divided by known as moments of inertia or masses: they are not zero."""
    assert system.energy is not None
    momenta = {s.var for s in system.states if s.role.endswith("_momentum")}
    own = {x.var for x in system.parameters}
    below = {
        v
        for u in toposort([system.energy])
        if u.op is Ops.DIV and u.src[0].leaves & momenta and u.src[1].op in (Ops.VAR, Ops.EXPAND)
        for v in u.src[1].leaves & own
    }
    moments = tuple(replace(x, sign="moment") if x.var in below else x for x in system.parameters)
    return replace(system, parameters=moments)


def pairs_of_bodies(d: Definition) -> list[tuple[str, str]]:
    """An attitude and the argument after it; before them may stand a position and its momentum."""
    names = [a.name for a in d.arguments]
    at = [k for k, a in enumerate(d.arguments) if a.space.body]
    if at[-1] + 1 >= len(names):
        raise d.wrong(
            f"`{names[at[-1]]}` of `{d.name}` is an attitude without an angular momentum",
            f"Write def {d.name}({names[at[-1]]}: tp.Rotor, L: tp.Vec[3], ...).",
        )
    if at[0] not in (0, 2):
        raise d.wrong(
            f"the states of `{d.name}` are not told apart: `{names[at[0]]}` is an attitude, and not the first argument",
            'Say which belong together: @tp.hamiltonian(pairs=[("x", "p"), ("R", "L")]).',
        )
    first = [] if at[0] == 0 else [(names[0], names[1])]
    return first + [(names[k], names[k + 1]) for k in at]


def with_arguments_of(d: Definition, function: Callable[..., Any]) -> Definition:
    """The definition with the parameters that another function has besides: one name is one parameter."""
    own = {a.name for a in d.arguments}
    more = tuple(a for a in definition(function).arguments if a.name not in own)

    def call(symbols: dict[str, UOp]) -> Any:
        return d.call({name: u for name, u in symbols.items() if name in own})

    return replace(d, arguments=(*d.arguments, *more), call=call) if more else d


def traced_beside(d: Definition, function: Callable[..., Any], symbols: Mapping[str, UOp]) -> Any:
    """Another function of the same arguments, by their names."""
    own = definition(function)
    value, _ = run(own, {a.name: symbols[a.name] for a in own.arguments}, Draws(refused=IN_ENERGY))
    if value is None:
        raise own.wrong(f"`{own.name}` returns nothing", "End it with `return <the value>`.")
    return value


def trace_bracket(
    d: Definition, bracket: Bracket, pairs: Sequence[tuple[str, str]] | None, sizes: Mapping[str, int]
) -> System:
    """An energy whose states move by another bracket than that of positions and momenta."""
    if len(d.arguments) < len(bracket.roles):
        raise d.wrong(f"`{d.name}` needs a state", f"Write def {d.name}({bracket.begins}, ...).")
    names = [a.name for a in d.arguments[: len(bracket.roles)]]
    roles = list(bracket.roles)
    if pairs is not None:
        if bracket.roles != ("position", "momentum"):
            raise d.wrong(
                f"pairs= of `{d.name}` with bracket={shown(bracket.name)}: its states are no positions and momenta",
                f"Leave pairs= out: def {d.name}({bracket.begins}, ...).",
            )
        names = checked_pairs(d, pairs, "momentum")
        roles = roles * len(pairs)
    check_time(d)
    if "t" in names:
        raise d.wrong("`t` is the time, not a state", f"Write def {d.name}({bracket.begins}, t, ...).")
    check_free(d, names)
    check_no_defaults(d, names, "moved by the energy")
    if bracket.field is not None:
        d = with_arguments_of(d, bracket.field)
    symbols = {a.name: symbol(a, sizes) for a in d.arguments}
    own = [symbols[name] for name in names]
    if why := bracket.trouble(own):
        raise d.wrong(
            f"{why} for bracket={shown(bracket.name)}",
            f"Write def {d.name}({bracket.begins}, ...).",
            ShapeError,
        )
    states = [State(name, symbols[name], role, d[name].space.unit) for name, role in zip(names, roles)]
    energy, sites = traced_energy(d, symbols)
    if not any(u in energy.leaves for u in own):
        raise d.wrong(
            f"the energy of `{d.name}` does not depend on `{names[0]}`, so nothing would move", "Use it."
        )
    value = None if bracket.field is None else traced_beside(d, bracket.field, symbols)
    tensor = bracket.tensor(value, own)
    return d.system(
        "hamiltonian",
        states,
        symbols,
        sizes,
        sites,
        names,
        energy=energy,
        bracket=bracket.word,
        tensor=tensor,
    )


@heeds("hamiltonian", '@tp.hamiltonian, or @tp.hamiltonian(pairs=[("x", "px"), ("y", "py")])')
def hamiltonian(
    function: Any = None, *, pairs: Sequence[tuple[str, str]] | None = None, bracket: Any = None
) -> Any:
    """Makes a system from an energy H(q, p, [t], parameters).

    `function` returns the energy; its first two arguments are a position and its momentum, and `pairs` names other
    pairs: @tp.hamiltonian(pairs=[("x", "px"), ("y", "py")]). An argument `t` is the time, the rest are parameters.
    Shapes are annotations, tp.Vec[3]; an argument without one is a number. `bracket` says how the energy moves the
    states, where they are no positions and momenta (docs/tops.md): a word such as "so3", or a function J(z).

    >>> @hamiltonian
    ... def spring(q, p, k=1.0):
    ...     return p**2/2 + k*q**2/2
    >>> spring.energy
    p**2/2 + k*q**2/2
    """
    if function is None:
        return users_frames(lambda f: hamiltonian(f, pairs=pairs, bracket=bracket))
    d, said = definition(function, "hamiltonian"), pairs is not None
    if bracket is not None:
        found = bracket_of(bracket)
        if not isinstance(found, Bracket):
            raise d.wrong(*found)
        return family(d, "hamiltonian", lambda sizes: trace_bracket(d, found, pairs, sizes))
    if pairs is None and d.complexes and d.complexes[0].scale != 1.0:
        pairs, said = [c.parts for c in d.complexes if c.scale != 1.0], True
    if pairs is None and any(a.space.body for a in d.arguments):
        pairs, said = pairs_of_bodies(d), True
    pairs = pair_of(d, "momentum") if pairs is None else pairs
    return family(d, "hamiltonian", lambda sizes: trace_hamiltonian(d, pairs, sizes, said))


VELOCITIES = ("p", "v", "vel", "velocity", "momentum", "qdot", "q_dot", "dq")


def check_no_friction(d: Definition, q: str) -> None:
    """A TraceError where a force reads a momentum or a velocity, which would be a parameter that never changes."""
    names = (*VELOCITIES, f"v{q}", f"v_{q}", f"{q}dot", f"{q}_dot", f"d{q}")
    v = next((a for a in d.arguments[1:] if a.name in names and (a.name == "p" or a.default is None)), None)
    if v is None:
        return
    others = [a.name for a in d.arguments[1:] if a.name != v.name]
    rates = f"{v.name}, <the force>"
    if "mass" in others:
        rates = f"{v.name}/mass, <the force>" if v.name == "p" else f"{v.name}, <the force>/mass"
    constant = "another name" if v.name == "p" else "another name or a default"
    name = "friction" if d.name == "<lambda>" else d.name
    raise d.wrong(
        f"`{d.name}` takes `{v.name}`, but a force of @tp.forces may depend only on positions, t and parameters",
        f"Write friction with @tp.ode: def {name}({', '.join([q, v.name, *others])}): return {rates}. "
        f"If `{v.name}` is a constant, give it {constant}.",
    )


def trace_forces(d: Definition, sizes: Mapping[str, int]) -> System:
    q_name = d.arguments[0].name
    if q_name == "p":
        raise d.wrong(
            f"`{d.name}` takes `p` first, but here `p` names the momentum",
            "Give the position another name: def force(q, ...).",
        )
    check_no_friction(d, q_name)
    check_time(d)
    check_no_defaults(d, [q_name], "the position")
    symbols = {a.name: symbol(a, sizes) for a in d.arguments}
    q = symbols[q_name]
    value, sites = run(d, symbols, Draws(refused=IN_FORCES))
    force = numbers(d, value, sites)
    if force.shape != q.shape and force.op is not Ops.CONST:
        raise d.wrong(
            f"`{d.name}` returns a force of shape {force.shape}, `{q_name}` has {q.shape}",
            f"Return one force for each number of `{q_name}`.",
            ShapeError,
        )
    states = (
        State(q_name, q, "position", d[q_name].space.unit),
        State("p", UOp.var("p", q.shape), "momentum"),
    )
    return d.system("forces", states, symbols, sizes, sites.table, [q_name], forces=(force.expand(q.shape),))


@heeds("forces", "@tp.forces before def force(q): ...")
def forces(function: Callable[..., Any]) -> System | SizedFamily:
    """Makes a system from a force F(q, [t], parameters) on unit masses, or on the parameter `mass`; the state is (q, p).

    `function` returns one force for each number of its first argument, the position.
    """
    d = definition(function, "forces")
    if not d.arguments:
        raise d.wrong(f"`{d.name}` needs a position", f"Write def {d.name}(q, ...).")
    return family(d, "forces", lambda sizes: trace_forces(d, sizes))


def trace_potential(d: Definition, positions: Sequence[str], sizes: Mapping[str, int]) -> System:
    if isinstance(positions, str) or not isinstance(positions, Sequence) or not positions:
        raise d.wrong(
            f"positions={shown(positions)} is not a list of names",
            'positions= names its arguments: ["q", ...].',
        )
    for n in positions:
        if n == "t" or not any(a.name == n for a in d.arguments):
            raise d.wrong(f"`{d.name}` has no position `{n}`", 'positions= names its arguments: ["q", ...].')
    check_time(d)
    check_no_defaults(d, positions, "a position")
    symbols = {a.name: symbol(a, sizes) for a in d.arguments}
    energy, sites = traced_energy(d, symbols)
    states = [State(n, symbols[n], "position", d[n].space.unit) for n in positions]
    return d.system("potential", states, symbols, sizes, sites, positions, energy=energy)


@heeds("potential", '@tp.potential, or @tp.potential(positions=["x", "y"])')
def potential(function: Any = None, *, positions: Sequence[str] | None = None) -> Any:
    """Makes a potential energy V(q, [t], parameters), which is added to a system: `gas + trap`.

    `function` returns the energy. Its first argument is the position; `positions` names several: positions=["x", "y"].

    >>> @potential
    ... def trap(q, k=1.0):
    ...     return k*q**2/2
    >>> trap.energy
    k*q**2/2
    """
    if function is None:
        return users_frames(lambda f: potential(f, positions=positions))
    d = definition(function, "potential")
    if positions is None:
        if not d.arguments:
            raise d.wrong(f"`{d.name}` needs a position", f"Write def {d.name}(q, ...).")
        positions = [d.arguments[0].name]
    return family(d, "potential", lambda sizes: trace_potential(d, positions, sizes))


def apart(value: Any, d: Definition, symbols: Mapping[str, UOp]) -> Sequence[Any]:
    """What a map of numbers returns as one array, np.array([y, -x]), as one value for each state."""
    numbers = [a.name for a in d.arguments if a.name != "t"]
    if isinstance(value, UOp) and value.ndim == 1 and 1 < value.size <= len(numbers):
        if all(symbols[name].shape == () for name in numbers[: value.size]):
            return elements(value)
    return (value,)


def trace_map(
    d: Definition,
    sizes: Mapping[str, int],
    kind: str = "map",
    what: str = "state",
    pairs: Sequence[tuple[str, str]] | None = None,
) -> System:
    """Also of an ode, which returns a derivative for each state."""
    check_time(d, kind == "map")
    symbols = {a.name: symbol(a, sizes) for a in d.arguments}
    value, sites = run(d, symbols, Draws() if kind == "map" else Draws(refused=IN_RATES))
    if isinstance(value, Mapping):
        raise d.wrong(
            f"`{d.name}` returns a dict",
            f"Return the new {what}s in order: return {', '.join(map(str, value))}.",
        )
    given = value if isinstance(value, (tuple, list)) else apart(value, d, symbols)
    given = in_real_values(d, given) if d.complexes else given
    arguments = [a for a in d.arguments if a.name != "t"]
    new = tuple(numbers(d, v, sites, a) for v, a in zip_longest(given, arguments[: len(given)]))
    new = tuple(map(without_roots, new)) if d.complexes else new
    if len(new) > len(arguments):
        raise d.wrong(
            f"`{d.name}` returns {len(new)} {what}s but takes {plural(len(arguments), 'argument')}",
            "Return one new value for each state, in order; np.stack turns a list of arrays into one state.",
        )
    counted = plural(len(new), "new value" if kind == "map" else "derivative")
    check_no_defaults(
        d,
        [a.name for a in arguments[: len(new)]],
        f"as {counted} {'is' if len(new) == 1 else 'are'} returned",
    )
    states = []
    for a, u in zip(arguments, new):
        if u.shape != symbols[a.name].shape and u.op is not Ops.CONST:
            raise d.wrong(
                f"`{d.name}` returns shape {u.shape} for `{a.name}`, which has {symbols[a.name].shape}",
                "Return one new value per state, in the order of the arguments and in its shape; "
                "np.stack makes one of components.",
                ShapeError,
            )
        states.append(State(a.name, symbols[a.name], "field", a.space.unit))
    parameters = [parameter(d, a, sizes) for a in arguments[len(new) :]]
    read = {symbols[p.name]: p.symbol for p in parameters if p.symbol is not p.var}
    new = tuple(substitute(new, read)) if read else new
    update = {s.name: u.expand(s.var.shape) for s, u in zip(states, new)}
    states = states if pairs is None else in_pairs(d, states, pairs)
    moved = tuple(update[s.name] for s in states)
    return d.system(kind, states, symbols, sizes, sites.table, list(update), update=moved)


def in_pairs(d: Definition, states: Sequence[State], pairs: Sequence[tuple[str, str]]) -> list[State]:
    """The states of a map as positions and momenta, pair by pair."""
    check_floats(d, "map(pairs=...)")
    names = checked_pairs(d, pairs, "momentum")
    known = {s.name: s for s in states}
    for s in states:
        if s.name not in names:
            raise d.wrong(
                f"`{s.name}` of `{d.name}` is in no pair, and only maps of canonical pairs can be symplectic",
                f"Put every state into pairs= ({', '.join(known)}), or leave pairs= out.",
            )
    for name in names:
        if name not in known:
            raise d.wrong(
                f"`{d.name}` returns no new value for `{name}`, which makes it a parameter",
                f"Only states can be in pairs: {', '.join(known)}.",
            )
    check_shapes(d, pairs, {s.name: s.var for s in states}, "momentum")
    roles = ("position", "momentum")
    return [replace(known[name], role=role) for pair in pairs for name, role in zip(pair, roles)]


@heeds("map", '@tp.map, or @tp.map(pairs=[("q", "p")]), before def step(q, p): ...')
def map_(
    function: Any = None,
    *,
    pairs: Sequence[tuple[str, str]] | None = None,
    step: str | None = None,
    unsafe: str | None = None,
) -> Any:
    """Makes a system from an explicit map: one step gives the next state.

    `function` takes k states, then parameters, and returns the k new states; an argument `t` is the step number.
    `pairs`, as pairs=[("q", "p")], says which states are canonical pairs. The map is then certified symplectic
    where its Jacobian M is shown to have M^T J M = J; it runs just the same. `step`, as step="h", names the parameter that
    is its time step: sim.check doubles it, to tell a small defect from rounding and to measure the order. `unsafe`, as
    unsafe="friction", says why a map of pairs is not meant to be symplectic: then it is not demanded.

    >>> @map_(pairs=[("q", "p")])
    ... def kicked(q, p, K=0.9):
    ...     p = p + K*q
    ...     return q + p, p
    >>> kicked.update
    (q + p + K*q, p + K*q)
    """
    if function is None:
        return users_frames(lambda f: map_(f, pairs=pairs, step=step, unsafe=unsafe))
    d = definition(function)
    check_step(d, pairs, step, unsafe)
    if not d.arguments:
        raise d.wrong(f"`{d.name}` needs a state", f"Write def {d.name}(x, ...).")
    parameter, waived = step or "", unsafe or ""

    def traced(sizes: Any) -> System:
        return replace(trace_map(d, sizes, pairs=pairs), step=parameter, unsafe=waived)

    return family(d, "map", traced)


def check_step(d: Definition, pairs: Any, step: Any, unsafe: Any) -> None:
    """What a map says about itself: a parameter with a number as its default, and a reason."""
    if step is not None:
        numbers = [
            a.name
            for a in d.arguments
            if isinstance(a.default, (int, float)) and not isinstance(a.default, bool)
        ]
        if step not in numbers:
            raise d.wrong(
                f"step={step!r} of `{d.name}` is not a parameter with a number as its default",
                f'Write def {d.name}(..., h=0.01) and step="h".'
                + (f" Its parameters are {', '.join(numbers)}." if numbers else ""),
            )
    if unsafe is not None and (not isinstance(unsafe, str) or not unsafe.strip()):
        raise d.wrong(f"unsafe={unsafe!r} of `{d.name}` is not a reason", 'Write unsafe="friction".')
    if unsafe is not None and pairs is None:
        raise d.wrong(
            f"unsafe= of `{d.name}` waives what pairs= claims, and there are no pairs",
            'Leave unsafe= out, or write pairs=[("q", "p")].',
        )


@heeds("ode", "@tp.ode before def rate(x): ...")
def ode(function: Callable[..., Any]) -> System | SizedFamily:
    """Makes a system from ordinary differential equations.

    `function` takes k states, then [t] and parameters, and returns the k derivatives in time.

    >>> @ode
    ... def decay(x, rate=1.0):
    ...     return -rate*x
    >>> decay.update
    (-rate*x,)
    """
    d = definition(function, "ode")
    if not any(a.name != "t" for a in d.arguments):
        raise d.wrong(f"`{d.name}` needs a state", f"Write def {d.name}(x, ...).")

    def trace(sizes: Mapping[str, int]) -> System:
        system = trace_map(d, sizes, "ode", "derivative")
        check_free(d, [s.name for s in system.states])
        return system

    return family(d, "ode", trace)


def read_only(self: Any, name: str, value: Any) -> None:
    raise TraceError.here(
        f"`self.{name} = ...` inside energy()",
        "Set attributes in __init__; energy() only computes and returns a value.",
    )


def symbolic(model: Any, symbols: Mapping[str, UOp]) -> Any:
    """The model while it is traced: a copy, of a class derived from its own, with symbols for attributes."""
    kind = type(type(model).__name__, (type(model),), {"__setattr__": read_only})
    copy: Any = object.__new__(kind)
    vars(copy).update({**vars(model), **symbols})
    return copy


def numeric(x: Any) -> bool:
    if isinstance(x, list):
        return bool(x) and all(map(numeric, x))
    return isinstance(x, (int, float)) and not isinstance(x, bool)


def attributes_of(model: Any) -> list[Argument]:
    """Floats and arrays, also inherited ones; what is computed (a property) is left to its function."""
    classes = type(model).__mro__[: type(model).__mro__.index(PhysicsSystem)]
    out = []
    for name in sorted({n for c in classes for n in vars(c)} | set(vars(model))):
        value = inspect.getattr_static(model, name)
        if (found := quantity(value)) is not None:
            raise TraceError(
                f"`self.{name}` is {found[0]}",
                site=Site(
                    type(model).energy.__code__.co_filename, type(model).energy.__code__.co_firstlineno
                ),
                fix=f"{NO_UNITS} self.{name}={name}.{found[1]}.",
            )
        listed = value.tolist() if hasattr(value, "tolist") else value
        if not name.startswith("_") and isinstance(listed, (float, list)) and numeric(listed):
            out.append(Argument(name, Space(as_uop(listed).shape), listed))
    return out


class PhysicsSystem:
    """The base of a system that is written as a class with a method `energy(self, q, p)`.

    Attributes that are floats or arrays are its parameters: a run may be given other values.
    Integer attributes stay plain numbers, so that `range(self.n)` works.
    """

    def energy(self, q: Any, p: Any) -> Any:
        """Returns the energy of the positions q and momenta p; this is what you write."""
        raise TraceError.here(f"{type(self).__name__} has no energy", "Define energy(self, q, p).")

    @users_frames
    def traced(self) -> System | SizedFamily:
        """The system of this model as it stands: later changes of its attributes do not reach it."""
        method = self.energy.__func__  # type: ignore[attr-defined]
        own = definition(method, "hamiltonian")
        if len(own.arguments) < 3:
            raise TraceError(
                f"{type(self).__name__}.energy needs q and p",
                site=own.site,
                fix="Write def energy(self, q, p).",
            )
        attributes = attributes_of(self)
        for a in attributes:
            if a.name == "t" or any(a.name == b.name for b in own.arguments):
                what = "the time" if a.name == "t" else "an argument of energy()"
                raise TraceError(
                    f"`self.{a.name}` has the name of {what}",
                    site=own.site,
                    fix="Rename the attribute: states, parameters and t share one set of names.",
                )

        def call(symbols: dict[str, UOp]) -> Any:
            given = {a.name: symbols[a.name] for a in own.arguments[1:]}
            return method(symbolic(self, {a.name: symbols[a.name] for a in attributes}), **given)

        arguments = (*own.arguments[1:], *attributes)
        d = Definition(type(self).__name__.lower(), arguments, call, own.site, method)
        pairs = pair_of(d, "momentum")
        return family(d, "hamiltonian", lambda sizes: trace_hamiltonian(d, pairs, sizes, False))

    @users_frames
    def bind(self, sizes: Mapping[str, int] | None = None) -> System:
        """Returns the system for some sizes, as sizes={"n": 16}."""
        return self.traced().bind(sizes)

    @users_frames
    def compile(self, dt: float | None = None, **options: Any) -> Any:
        """Makes it ready to run with the step `dt`; `options` are those of tp.compile."""
        return self.traced().compile(dt, **options)

    @users_frames
    def rename(self, **names: str) -> System | SizedFamily:
        """Returns the system with other `names` for some states and parameters: rename(k="stiffness")."""
        return self.traced().rename(**names)

    @users_frames
    def __add__(self, other: Any) -> Sum:
        both: Sum = self.traced() + other
        return both


# where each is given
OPTIONS = {
    "observable": "observe", "event": "events", "invariant": "project", "function": "time", "wall": "tp.wall",
    "contact": "tp.contact",
}  # fmt: skip


def observable(
    function: Callable[..., Any], known: Mapping[str, UOp], name: str, what: str = "observable"
) -> UOp:
    """A function to be watched in a run, or `what` it is: its arguments are states, parameters and t, by name."""
    if not callable(function):
        raise InputError(f"{OPTIONS[what]}[{name!r}] is not a function", fix="Pass lambda q, p: ...")
    signature = inspect.signature(function).parameters
    arguments = [n for n, p in signature.items() if n in known or p.default is p.empty]
    for a in arguments:
        if a not in known:
            raise InputError(
                f"the {what} `{name}` has an argument `{a}`, which this system does not have",
                fix=f"Arguments are matched by name with {', '.join(known)}.",
            )
    d = Definition(name, (), lambda s: function(**s), None, function)
    value, sites = run(d, {a: known[a] for a in arguments}, of_observable(name))
    if value is None:
        raise InputError(f"the {what} `{name}` returns nothing", fix="End it with `return <the value>`.")
    listed = isinstance(value, (list, tuple)) and any(isinstance(v, UOp) for v in value)
    out = as_uop(list(value)) if listed else as_uop(value)
    check_constants(d, out, sites)
    return out
