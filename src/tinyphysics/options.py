"""Which options do compile, evolve and the decorators take, and what is said about a name that is none of them?

One table for each call: the option, its default, the check of its value alone and a sentence, which docs/options.md prints.
Which options exclude each other is the table of planner/conflicts.py. A keyword that is not in the table is one of three
things: a feature that is not there yet (COMING), another library's word for something that is there (SAME_AS), or a
misspelling.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from tinyphysics import given
from tinyphysics.errors import InputError, PlanError, TinyPhysicsError
from tinyphysics.given import shown
from tinyphysics.tracebacks import users_frames
from tinyphysics.util import did_you_mean, one_of

F = TypeVar("F", bound=Callable[..., Any])
Check = Callable[[str, Any], Any]  # (name, value) -> nothing, or an error
# Told of every call while a file is read and not run (script.py); it may raise, and then nothing happens.
HELD: ContextVar[Callable[[str, tuple[Any, ...], Mapping[str, Any]], None] | None] = ContextVar(
    "HELD", default=None
)


@dataclass(frozen=True)
class Option:
    default: Any  # as in the signature of the call
    check: Check
    sentence: str  # as in its docstring
    of_goal: bool = False  # of compile: is it kept in Goal.more?  Then it is saved, and in the keys of plans


# --- checks of one value ----------------------------------------------------------------------------
def anything(name: str, value: Any) -> None:
    """What is checked elsewhere, with what it depends on."""


def a_word(example: str) -> Check:
    return lambda name, value: given.word(name, value, f'{name}="{example}"')


def a_number(example: str, noun: str) -> Check:
    return lambda name, value: given.number(name, value, f"{name}={example}", noun)


def a_part(example: str, noun: str) -> Check:
    """Above 0 and below 1."""

    def check(name: str, value: Any) -> None:
        given.number(name, value, f"{name}={example}", noun)
        if not 0 < value < 1:
            raise InputError(
                f"{name}={shown(value)} is not a {noun} between 0 and 1", fix=f"Pass {name}={example}."
            )

    return check


def a_time(example: str, noun: str) -> Check:
    """A number, or a quantity of pint's, which the units of a system decide about."""
    return lambda name, value: (
        None if hasattr(value, "m_as") else given.number(name, value, f"{name}={example}", noun)
    )


def a_count(least: int) -> Check:
    return lambda name, value: given.whole(name, value, least)


def a_path(example: str) -> Check:
    return lambda name, value: given.path(name, value, example)


def a_dict(example: str) -> Check:
    def check(name: str, value: Any) -> None:
        if not isinstance(value, Mapping):
            raise InputError(f"{name}={shown(value)} is not a dict", fix=f"Pass {name}={example}.")
        for key in value:
            if not isinstance(key, str) or not key:
                raise InputError(f"{name}: {shown(key)} is not a name", fix=f"Pass {name}={example}.")

    return check


def the_checks(name: str, value: Any) -> None:
    if isinstance(value, Mapping):
        if not value:
            raise InputError(
                f"{name}={{}} says nothing", fix=f'Pass {name}={{"shadow": 1e-3}}, or leave it out.'
            )
        for key, threshold in value.items():
            if key != "shadow":
                raise PlanError(
                    f"{name}={shown(value)}: there is no threshold for {shown(key)}",
                    fix=f'Pass {name}={{"shadow": 1e-3}}.',
                )
            if given.number(f"{name}[{key!r}]", threshold, '{"shadow": 1e-3}') <= 0:
                raise InputError(
                    f"{name}={shown(value)}: a threshold is above zero",
                    fix=f'Pass {name}={{"shadow": 1e-3}}.',
                )
        return
    given.word(name, value, f'{name}="strict"')


def a_view(name: str, value: Any) -> None:
    if value is not None and value != "terminal":
        raise InputError(
            f"{name}={shown(value)} is not known",
            fix='Pass view="terminal"; out.plot() draws the run when it is over.',
        )


def an_order(name: str, value: Any) -> None:
    word = given.no_number(value)
    if value is not None and (word or not hasattr(value, "__index__")):
        raise InputError(
            f"{name}={shown(value)} is not an integer{given.because(word) if word else ''}",
            fix=f"Pass {name}=4.",
        )


def names(name: str, value: Any) -> None:
    """One name, or several."""
    listed = isinstance(value, Iterable) and not isinstance(value, (bytes, Mapping))
    if not listed or not isinstance(value, str) and not all(isinstance(x, str) for x in value):
        raise InputError(
            f"{name}={shown(value)} is not a list of names", fix=f'Pass {name}=["leapfrog_kdk"].'
        )


def functions(example: str) -> Check:
    """A dict of functions, or of ready-made observables."""
    return a_dict(example)


def or_none(check: Check) -> Check:
    return lambda name, value: None if value is None else check(name, value)


def a_truth(name: str, value: Any) -> None:
    if type(value).__name__ not in ("bool", "bool_"):
        raise InputError(f"{name}={shown(value)} is neither True nor False", fix=f"Pass {name}=True.")


def printed(name: str, value: Any) -> None:
    truth = type(value).__name__ in ("bool", "bool_")  # of Python, or of any NumPy
    if not truth and not (isinstance(value, str) and value == "full"):
        raise InputError(
            f"{name}={shown(value)} is not True or False",
            fix=f'Pass {name}=True to print the report, or {name}="full" for all of it.',
        )


# fmt: off
COMPILE: dict[str, Option] = {
    "dt":           Option(None, or_none(a_time("0.01", "time step")), "the time step; with a goal it may be left out"),
    "method":       Option("auto", a_word("leapfrog"),
        'the name of a method (docs/methods.md); "auto" lets the compiler choose'),
    "order":        Option(None, an_order,  # those that exist are listed where one is chosen
        "the order of the method that the compiler chooses"),
    "target_order": Option(None, an_order, "another name for order="),
    "forbid":       Option((), or_none(names), "names of methods that must not be chosen"),
    "energy_drift": Option(None, anything,  # relative errors, which goals check
        "a goal: the largest relative energy error of a run"),
    "error":        Option(None, anything, "a goal: the largest relative error of the states of a run"),
    "propagator":   Option(None, or_none(a_word("exact")),
        '"exact", "method" or "loop": whether an energy of degree 2 is solved or stepped'),
    "time":         Option(None, anything,  # a word or a function
        'a transformed time variable: "logarithmic", "sundman" or a function of the positions'),
    "kinetics":     Option("newtonian", a_word("relativistic"), '"newtonian" or "relativistic"'),
    "friction":     Option(None, anything,
        "the rate at which momenta decay: a number, an array, or the name of a parameter"),
    "temperature":  Option(None, anything,
        "the temperature of a bath, in units of 1/kB: a number, the name of a parameter, or a function of t"),
    "bath":         Option(None, anything,  # a word or an object
        'how heat comes and goes: "langevin", the default if a temperature is given, or another (docs/heat.md)'),
    "tau":          Option(None, anything,
        "the time of a bath that has one in place of a rate: bussi, nose_hoover, nose_poincare"),
    "kB":           Option(1.0, a_number("1.0", "constant"),
        "Boltzmann's constant: tinyphysics.physics.molecular.BOLTZMANN for kelvin"),
    "pressure":     Option(None, anything,
        "in a bath: the box of the pair sums changes its size, out.box; a number or the name of a parameter"),
    "barostat":     Option(None, anything,  # a word or an object
        'how: "rescale", the default if a pressure is given, "mtk", or tp.barostat(...) (docs/heat.md)'),
    "bias":         Option(None, anything,
        "what makes rare events come soon: tp.metadynamics(...) or tp.umbrella(...)"),
    "absorb":       Option(None, anything,  # a number, or a dict
        "absorbing layers at the ends of a lattice: their cells, absorb=20 (docs/absorb.md)"),
    "backend":      Option("auto", a_word("llvm"),
        'where it runs: "llvm", "c", "numpy", "python", "opencl", "cuda", "wasm", "webgpu"; "auto" chooses'),
    "precision":    Option("float64", a_word("float32"), '"float64", "float32", "mixed", "compensated", "dd" or "lattice"'),
    "math":         Option("exact", a_word("fast"),
        '"exact": the same bits on every machine; "fast": faster, but the last bits depend on the machine'),
    "sizes":        Option(None, or_none(a_dict('{"n": 16}')),
        'values for the letters in shapes, {"n": 16}; otherwise taken from the state of the first run'),
    "pilot":        Option(None, or_none(a_dict('{"q": ..., "p": ...}')),
        'an initial state {"q": ..., "p": ...} for the trial runs that goals need'),
    "checks":       Option("on", the_checks,
        '"on" warns about a run that looks wrong and stops one that is, "strict" raises an error, "off" does neither'),
    "check_every":  Option(None, or_none(a_count(1)),
        "the number of steps between two looks at what a run conserves; by default so many that they cost little"),
    "approximate":  Option(None, anything,
        "the allowed relative error of 1/r forces, which are then summed with a tree code"),
    "force_error":  Option(None, or_none(a_part("1e-4", "relative error")),
        "the allowed relative error of forces that are summed over all images of a box (docs/long_range.md)", of_goal=True),
    "long_range":   Option(None, anything,  # a dict, which is checked there
        'how they are summed, instead of what is chosen: {"alpha": 1.0, "cutoff": 3.0}', of_goal=True),
    "boundary":     Option(None, anything,
        '"periodic": sums over all pairs in open space go over all images of a box (docs/long_range.md)'),
    "box":          Option(None, anything,
        "its length, three lengths, three vectors as rows, or the name of a parameter"),
    "inner":        Option(None, anything, "the number of fast kicks in a step of tp.fast(a) + tp.slow(b)"),
    "scale":        Option("off", a_word("auto"), '"auto" computes in units in which a step takes the fewest operations'),
    "lattice":      Option(None, anything, 'the unit of precision="lattice"'),
    "tolerance":    Option(None, anything, "the relative error of a step, for methods that choose their own steps"),
    "absolute":     Option(None, anything, "the absolute error that is allowed in addition"),
    "project":      Option(None, anything,
        'invariants to restore to their initial values after every step: "energy", or functions by name'),
    "explain":      Option(False, printed,
        'True prints the report of sim.explain(), and "full" all of it: the method, why, and what is proved'),
}
EVOLVE: dict[str, Option] = {
    "steps":            Option(None, or_none(a_count(0)), "the number of steps; or use until"),
    "until":            Option(None, or_none(a_number("10.0", "time")), "the final time; any time"),
    "t0":               Option(0.0, a_number("0.0", "time"), "the initial time"),
    "save_every":       Option(None, or_none(a_count(1)), "the number of steps between two frames; or use save_at or frames"),
    "save_at":          Option(None, anything,  # a state or a parameter may have this name, and the next one
        "keep frames at these times, in the order of the run: [0.5, 1.0, 2.0]"),
    "frames":           Option(None, anything,
        "the number of frames, evenly spaced: frames=400; frames=2 keeps the first and the last"),
    "observe":          Option(None, or_none(functions('{"q2": lambda q: q @ q}')),
        'functions of the state, {"r": lambda q: ...}; their values are out["r"]'),
    "observe_every":    Option(1, a_count(1), "the number of steps between two values"),
    "hash_every":       Option(None, or_none(a_count(1)), "the number of steps between two digests of the state, out.hashes"),
    "seed":             Option(0, a_count(0), "the seed of the random numbers of a map"),
    "progress":         Option("auto", anything, '"auto", True or False: a bar in the terminal or notebook'),
    "threads":          Option(None, or_none(a_count(1)), "the number of threads; by default all"),
    "speculate":        Option(None, or_none(a_count(0)),
        "of walls and events: how many steps are tried at once before one looks; 0 tests every step"),
    "save":             Option(None, anything,  # a path, or where a replay hands its frames on
        "a directory for a zarr store with the frames"),
    "checkpoint":       Option(None, or_none(a_path("run.checkpoint")), "a file from which the run can be continued"),
    "checkpoint_every": Option(None, or_none(a_count(1)), "the number of steps between two checkpoints"),
    "resume":           Option(None, anything, "a checkpoint to continue from, or a run: resume=out"),
    "events":           Option(None, or_none(functions('{"crossing": lambda q: q[1]}')),
        'functions whose sign changes are located, {"apsis": lambda q, p: q @ p}'),
    "acts":             Option(None, anything,
        'what changes the state between steps: {"kick": tp.act(every=100, map=lambda p: -p)}'),
    "exchange":         Option(None, anything,
        'replicas exchange temperatures: exchange=100, every 100 steps; or tp.exchange("k", every=100)'),
    "on":               Option(None, anything,
        "a Dask client, cluster or address: the members of an ensemble run there"),
    "verify":           Option(None, anything, "with on=: the share of the blocks that a second worker computes too"),
    "parallel":         Option(None, anything, "slices of time side by side: tp.Parareal(slices=20)"),
    "view":             Option(None, anything,  # a state may have this name
        '"terminal": watch the run there; q ends it, and what there is comes back'),
    "observer":         Option(None, anything,  # a state may have this name
        'what is handed out of the run: "none", "metrics", "snapshots" or "visualize"'),
    "options":          Option(None, anything, '{"frames": 400}: for a system that has a state or a parameter of that name'),
}
# than 0.1: options that take no name away from states and parameters
LATER = ("save_at", "frames", "acts", "exchange", "on", "verify", "parallel", "view", "observer")
# Features that are named in the interface and not built: what is not there, and what can be written today.
COMING: dict[str, tuple[str, str]] = {
    "contacts": ("contacts are added to a system", "Write system + tp.contact(gap), as in docs/contacts.md."),
    "unsafe": ("systems without checks are not available yet", "Write @tp.ode: nothing is claimed about its structure."),
    "noise": ("noise is not an option yet", "Write a map with tp.random.normal()."),
}
# Options, and the words that other libraries have for them.
OTHER_WORDS: dict[str, str] = {
    'backend="llvm"':               "target",
    'backend="gpu"':                "device gpu platform",
    'method="leapfrog"':            "integrator solver scheme algorithm",
    "friction=0.1":                 "damping gamma",
    "temperature=300.0":            "T kT",
    'bath="langevin"':              "thermostat",
    "dt=0.01":                      "timestep time_step step_size stepsize h",
    'precision="float32"':          "dtype",
    "tolerance=1e-9":               "rtol tol",
    "absolute=1e-9":                "atol",
    "energy_drift=1e-9":            "drift",
    "error=1e-6":                   "accuracy",
    'sizes={"n": 16}':              "size n",
    "steps=1000":                   "nsteps n_steps num_steps",
    "until=10.0":                   "t_end t_final tmax t_max",
    "t0=0.0":                       "t_start",
    "save_every=10":                "every stride save_interval",
    'observe={"r": lambda q: ...}': "observables callback",
    'save="run.zarr"':              "output",
    "seed=0":                       "random_seed rng",
    "threads=8":                    "workers num_threads n_jobs",
    "progress=True":                "verbose",
    'resume="run.checkpoint"':      "restart",
}
SAME_AS = {word: line for line, words in OTHER_WORDS.items() for word in words.split()}
# What is not an argument of any call: the line that does it.
LINES: dict[str, str] = {
    "plot":         "out.plot()",
    "energy":       "out.energy after the run",
    "certificate":  "print(sim.certificate)",
    "cite":         "print(sim.cite())",
    "constraint":   "@tp.constraint above a function that stays zero, and add it: tp.compile(mass + rod, dt=0.01)",
    "constraints":  "@tp.constraint above a function that stays zero, and add it: tp.compile(mass + rod, dt=0.01)",
    "wall":         "floor = tp.wall(lambda q: q[1]), and add it: tp.compile(ball + floor, dt=0.01)",
    "walls":        "floor = tp.wall(lambda q: q[1]), and add it: tp.compile(ball + floor, dt=0.01)",
    "pairs":        '@tp.hamiltonian(pairs=[("x", "px"), ("y", "py")]) above the energy',
    "bracket":      '@tp.hamiltonian(bracket="so3") above the energy',
    "cutoff":       "tp.pair_distance2(q, cutoff=2.5) in the energy",
    "skin":         "tp.pair_distance2(q, cutoff=2.5, skin=0.3) in the energy",
}
# fmt: on
# Calls that do a run and take some of its options.
WITH_A_RUN = ("value_and_grad", "grad", "vjp", "jvp", "hvp", "gradcheck", "jacobian")
RUN: dict[str, Option] = {
    name: EVOLVE[name]
    for name in ("steps", "until", "t0", "save_every", "observe", "observe_every", "seed", "threads")
} | {
    "per_member": Option(
        False, a_truth, "gradients by shared parameters member by member, instead of their sum"
    )
}
CALLS: dict[str, dict[str, Option]] = {"compile": COMPILE, "evolve": EVOLVE}
CHECKED: dict[str, dict[str, Option]] = {**CALLS, **dict.fromkeys(WITH_A_RUN, RUN)}


# The call of a simulation that the user wrote, and its options: what a run inside it says is about that call.
CALLED: ContextVar[tuple[str, tuple[str, ...]] | None] = ContextVar("called", default=None)
# Is a public call open, and is another open inside it?  A run inside a measurement hands its beginning to no later call.
OPEN: ContextVar[bool] = ContextVar("open", default=False)
INSIDE: ContextVar[bool] = ContextVar("inside", default=False)
MEANT = {  # (call, what others call an option) -> how it is written here
    ("random.normal", "size"): "shape=(3,)",
    ("random.uniform", "size"): "shape=(3,)",
    ("random.integers", "size"): "shape=(3,)",
    ("poisson", "dx"): "spacing=0.1",
    ("poisson", "h"): "spacing=0.1",
    ("dx", "L"): "length=6.28",
    ("lyapunov", "count"): "spectrum=2",
    ("lyapunov", "exponents"): "spectrum=2",
    ("lyapunov", "n"): "spectrum=2",
    ("lyapunov", "k"): "spectrum=2",
    ("lyapunov", "transient"): "discard=10.0",
    ("lyapunov", "burn_in"): "discard=10.0",
    ("gradcheck", "atol"): "tolerance=1e-7",
    ("gradcheck", "rtol"): "tolerance=1e-7",
    ("gradcheck", "eps"): "tolerance=1e-7",
    ("value_and_grad", "argnums"): 'wrt=["q"]',
    ("grad", "argnums"): 'wrt=["q"]',
}


def called() -> tuple[str, tuple[str, ...]]:
    """The call that a run belongs to, and its options."""
    return CALLED.get() or ("evolve", tuple(EVOLVE))


def place_of(option: str) -> str:
    """The call that takes an option; empty if none does."""
    return next((call for call, table in CALLS.items() if option in table), "")


def unknown(call: str, name: str, known: Iterable[str], example: str = "") -> TinyPhysicsError:
    """What is said about a keyword that a call does not take."""
    known = list(known)
    what = f"{call} has no option `{name}`"
    if (call, name) in MEANT:
        return InputError(what, fix=f"Pass {MEANT[call, name]}.")
    if name in COMING:
        missing, today = COMING[name]
        return PlanError(f"{call} does not take {name}=: {missing}", fix=today)
    if name in SAME_AS:
        line = SAME_AS[name]
        other = place_of(line.partition("=")[0])
        return InputError(what, fix=f"Pass {line}{f' to {other}' if other not in ('', call) else ''}.")
    if name in LINES:
        return InputError(what, fix=f"Write {LINES[name]}.")
    if (other := place_of(name)) and other != call:
        return InputError(what, fix=f"Pass it to {other}: {other}(..., {name}=...).")
    if len(name) > 1 and (near := did_you_mean(name, known)):  # one letter is near to any other
        return InputError(what, fix=near.strip())
    if call == "compile":
        return InputError(what, fix=f"Pass a state or a parameter to evolve: evolve({name}=..., steps=1000).")
    return InputError(what, fix=f"It takes {one_of(known[:8])}." if known else f"Write {example}.")


def heeds(call: str, example: str) -> Callable[[F], F]:
    """A function whose arguments are checked by name before it runs; `example` is how it is written."""

    def decorate(function: F) -> F:
        table = CHECKED.get(call, {})
        listed = list(inspect.signature(function).parameters.values())
        kinds = inspect.Parameter
        places = sum(p.kind in (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD) for p in listed)
        required = [
            p.name for p in listed if p.default is kinds.empty and p.kind is kinds.POSITIONAL_OR_KEYWORD
        ]
        needed = [p.name for p in listed if p.default is kinds.empty and p.kind is kinds.KEYWORD_ONLY]
        positions = [p.name for p in listed if p.kind is kinds.POSITIONAL_OR_KEYWORD]
        takes = {p.name for p in listed if p.kind in (kinds.POSITIONAL_OR_KEYWORD, kinds.KEYWORD_ONLY)}
        takes -= {"self"}
        open_ended = any(p.kind is kinds.VAR_KEYWORD for p in listed)
        many = any(p.kind is kinds.VAR_POSITIONAL for p in listed)
        begins = open_ended and listed[0].name == "self"

        @functools.wraps(function)
        def checked(*args: Any, **options: Any) -> Any:
            if (held := HELD.get()) is not None:
                held(call, args, options)
            if len(args) > places and not many:
                extra = args[places]
                line = f"{call}(**start, ...)" if isinstance(extra, Mapping) else example
                raise InputError(
                    f"{call} takes named arguments only, and {shown(extra)} has no name", fix=f"Write {line}."
                )
            for name, value in options.items():
                if name in table:
                    table[name].check(name, value)
                elif name not in takes and not open_ended:
                    raise unknown(call, name, sorted(takes - {"function"}), example)
                if name in positions[: len(args)]:
                    raise InputError(f"{call} received `{name}` twice", fix=f"Write {example}.")
            for k, name in enumerate(positions[: len(args)]):
                if name in table:
                    table[name].check(name, args[k])
            for name in (*required[len(args) :], *needed):
                if name not in options:
                    raise InputError(f"{call} is missing its argument `{name}`", fix=f"Write {example}.")
            which = INSIDE if OPEN.get() else OPEN
            around = which.set(True)
            named = begins and CALLED.get() is None
            token = (
                CALLED.set((call, tuple(table) if call in CALLS else tuple(sorted(takes)))) if named else None
            )
            try:
                return function(*args, **options)
            finally:
                which.reset(around)
                if token is not None:
                    CALLED.reset(token)

        return cast(F, users_frames(checked))

    return decorate
