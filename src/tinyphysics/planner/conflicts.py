"""What goes with what?  Every option, trait of a method and kind of system that exclude each other, in one table.

A row names two things. It holds where both are asked for, or where `when` says so. Each stage checks its own rows, and the
first row that holds is raised: the order of the table is the order of the errors. docs/options.md prints it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from tinyphysics import step as kinds
from tinyphysics.analysis.free_bodies import free_bodies
from tinyphysics.constrained import BRACKET as CONSTRAINED
from tinyphysics.errors import InputError, PlanError, TinyPhysicsError
from tinyphysics.facts import Facts
from tinyphysics.options import CALLS
from tinyphysics.plan import Goal
from tinyphysics.rules.formulas.thermostats import NOSE_HOOVER, NOSE_POINCARE
from tinyphysics.rules.functions.random import draws
from tinyphysics.step import Step
from tinyphysics.target import PYTHON
from tinyphysics.tpir.precision.precision import PRECISIONS, Precision

PLAIN = {name: option.default for table in CALLS.values() for name, option in table.items()}
NOTHING_KNOWN = Facts(())

# --- what a row may name besides options ----------------------------------------------------------------
GOALS = "energy_drift= or error="
LEVELS, NO_LEVELS = "fast and slow parts", "an energy without fast and slow parts"
MAP, RATES, FORCES = "a map", "a system of derivatives", "a system of forces"
WHOLE = "states of whole numbers"
CONSTRAINTS, MET = "constraints", "contacts"
SOLVING = ("float32", "dd")  # precisions in which constraints are solved for
KINDS = {"map": MAP, "ode": RATES, "forces": FORCES}
NOT_HAMILTONIAN, EXPLICIT_TIME = "a system that is not a Hamiltonian", "an energy that depends on t"
OWN_STEPS, FIXED_STEP = "a method that chooses its own steps", "a method with a fixed step"
NOT_EACH = "a method that does not control the error of each number"
NAMED = "a method chosen by name"
NOT_SPLIT, GRADIENTS = "a method that is not a splitting", "a method with force gradients"
SHEARS, EXPONENTIAL = "a method for parts that mix q and p", "an exponential method"
JUMPS, ORBITS = "a jump", "a step on Kepler orbits"
SOLVES, TURNS = "a step that solves equations", "a step that turns oscillators"
DRAWS, NO_ENERGY = "a step that draws random numbers", "a step that does not keep the energy"
NO_END = "a step that does not end with q and p"
OPEN = "friction, contacts or a bath"
BACKWARDS, ENSEMBLE, NO_DT, ON_A_GPU = "rewinding", "an ensemble", "a run without dt", "arrays on a GPU"


@dataclass(frozen=True)
class Ask:
    """What is asked for, as far as a stage knows it."""

    options: Mapping[str, Any]  # by name; None is one that was not given
    system: Any = None
    traits: Mapping[str, Any] = field(default_factory=dict)  # nouns of those above: which hold
    by: str = ""  # the name of the method, of its step, or of the backend
    facts: Facts = NOTHING_KNOWN
    others: str = ""  # names of methods that can do it

    def __getitem__(self, option: str) -> Any:
        return self.options.get(option)

    def has(self, noun: str) -> bool:
        """Is an option given, or does a trait hold?"""
        if noun == GOALS:
            return self.has("energy_drift") or self.has("error")
        if noun not in PLAIN:
            return bool(self.traits.get(noun))
        plain, value = PLAIN[noun], self[noun]
        return value is not None and (plain is None or bool(value != plain))

    @classmethod
    def of(
        cls, goal: Goal, system: Any, traits: Mapping[str, Any] | None = None, by: str = "", **more: Any
    ) -> Ask:
        """The options of a goal and those that no goal has, with what a system is and what else holds."""
        facts = more.pop("facts", NOTHING_KNOWN)
        clock, levels = getattr(system, "clock", None), getattr(system, "levels", ())
        given = {**goal.options, "inner": goal.inner or None, "project": goal.project or None, "time": clock}
        whole = not all(s.var.dtype.is_float for s in getattr(system, "states", ()))
        held = getattr(system, "bracket", "") == CONSTRAINED
        known = {LEVELS: levels, KINDS.get(system.kind, ""): True, WHOLE: whole, CONSTRAINTS: held}
        return cls({**given, **more}, system, {**known, **(traits or {})}, by, facts)

    @property
    def given(self) -> str:
        return " and ".join(f"{name}=" for name in self.options if self.has(name))

    @property
    def precision(self) -> Precision:
        return PRECISIONS[self["precision"]]

    @property
    def opened(self) -> str:
        """By what the energy of a system comes and goes."""
        return "the bath" if self.system.heat else "the friction" if self.system.friction else "a contact"

    @property
    def degree(self) -> str:
        """Why an energy is not shown to be of degree 2 or less."""
        if self.system.structure.turning:
            return f"no free bodies: {free_bodies(self.system)}"
        bound = self.facts["polynomial"]
        return f"the degree may be {bound.degree}" if bound else bound.because


def traits_of(step: Step, adaptive: bool = False) -> dict[str, Any]:
    """How a step is made."""
    has = step.traits
    return {
        JUMPS: kinds.JUMPS in has,
        OWN_STEPS: adaptive or kinds.OWN_STEPS in has,
        SOLVES: kinds.SOLVES in has,
        TURNS: kinds.TURNS in has,
        ORBITS: kinds.ORBITS in has,
        DRAWS: kinds.DRAWS in has,
        NO_ENERGY: kinds.NO_ENERGY in has,
        NO_END: bool(has & {kinds.TURNS, kinds.ORBITS, kinds.JUMPS, kinds.OWN_STEPS}),
    }


def not_solved_in(trait: str) -> Callable[[Ask], bool]:
    """Does a step with this trait not run in the precision?  Constraints are solved for in some others, too."""
    return lambda a: (
        a.has(trait)
        and a.has("precision")
        and not (trait == SOLVES and a.has(CONSTRAINTS) and a["precision"] in SOLVING)
    )


# --- the table ----------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Conflict:
    one: str  # an option, or a noun of those above
    other: str
    at: str  # the stage that looks
    what: str  # {one}, {other}: their names; {its}: the value of the other; {a...}: of the Ask
    fix: str
    when: Callable[[Ask], Any] | None = None  # None: where both are asked for
    error: type[TinyPhysicsError] = PlanError
    fact: str = ""  # whose line in the user's file is shown

    def holds(self, a: Ask) -> bool:
        return a.has(self.one) and a.has(self.other) if self.when is None else bool(self.when(a))

    def words(self, a: Any) -> tuple[str, str]:
        """What is said, and what to write."""
        what, fix = (
            text.format(a=a, one=self.one, other=self.other, its=a[self.other])
            for text in (self.what, self.fix)
        )
        return what, fix

    def raised(self, a: Ask) -> TinyPhysicsError:
        what, fix = self.words(a)
        return self.error(what, site=a.facts[self.fact].site if self.fact else None, fix=fix)


def is_not_quadratic(a: Ask) -> bool:
    if not isinstance(free_bodies(a.system), str):
        return False
    bound = a.facts["polynomial"]
    return not bound or bound.degree > 2


def with_own_steps(option: str, fine: tuple[str, ...]) -> Callable[[Ask], bool]:
    """Does a method choose its own steps, and has an option another value than those?"""
    return lambda a: a.has(OWN_STEPS) and a.has(option) and a[option] not in fine


def goes_back(dt: Any) -> bool:
    """What is no number is refused elsewhere."""
    return isinstance(dt, (int, float)) and dt < 0


def among(others: Iterable[str], one: str, *row: Any, **more: Any) -> tuple[Conflict, ...]:
    """The same row for each of the others."""
    return tuple(Conflict(one, other, *row, **more) for other in others)


# fmt: off
CONFLICTS: tuple[Conflict, ...] = (
    # --- compile: options as they were given, before anything is known of the system ---
    Conflict("order", "target_order", "names",
        "order={a[order]!r} and target_order={its!r} are two names of the same option", "Pass one of them.",
        lambda a: a.has("order") and a.has("target_order") and a["order"] != a["target_order"], InputError),
    Conflict("inner", NO_LEVELS, "parts",
        "inner= needs an energy with fast and slow parts", "Mark them: tp.fast(a) + tp.slow(b)."),
    *among(("energy_drift", "error", "pilot", "propagator", "approximate", "scale"), "time", "options",
        "{one}= cannot be combined with {other}=", "Leave {other}= out, and choose dt yourself."),
    Conflict("lattice", "precision", "precision",
        "lattice={a[lattice]!r} with precision={its!r}", 'lattice= needs precision="lattice": pass both.',
        lambda a: a.has("lattice") and a["precision"] != "lattice"),
    Conflict("scale", "precision", "precision",
        'scale={a[scale]!r} cannot be combined with precision="lattice"', "Leave scale= out.",
        lambda a: a.has("scale") and a["precision"] == "lattice"),
    *among(("precision", "scale"), "approximate", "approximate",
        "approximate= cannot be combined with {other}={its!r}", "Leave {other}= out."),
    # --- compile: with the system, and the goal ---
    Conflict("time", NOT_HAMILTONIAN, "time",
        "time= needs an energy, and `{a.system.name}` is given by its {a.system.kind}",
        "Write it as a Hamiltonian, or leave time= out.", lambda a: a.system.energy is None),
    Conflict("time", LEVELS, "time",
        "time= cannot be combined with fast and slow parts", "Leave tp.fast, tp.slow and inner= out."),
    Conflict("time", CONSTRAINTS, "time",
        "time= cannot be combined with the constraints of `{a.system.name}` yet",
        "Leave time= out, and choose a short dt."),
    Conflict("dt", MAP, "system",
        "`{a.system.name}` is a map: it has no dt", "Leave dt= out: tp.compile(system).", error=InputError),
    Conflict("absolute", NOT_EACH, "absolute",
        "absolute= needs a method that controls the error of each number, which `{a[method]}` does not do",
        "Choose {a.others} as method=, or leave absolute= out."),
    Conflict("dt", OWN_STEPS, "steps",
        "dt={a[dt]:g} is negative: a method that chooses its own steps runs forward in time only",
        "Write the equations with -t, or choose a method with a fixed step.",
        lambda a: a.has(OWN_STEPS) and a.has("dt") and a["dt"] < 0),
    Conflict("pilot", OWN_STEPS, "steps",
        "pilot= is for finding a step size, and this method chooses its own steps",
        "Leave pilot= out, or set a goal for the accuracy: error=1e-6.",
        lambda a: a.has(OWN_STEPS) and a.has("pilot") and not a.has(GOALS)),
    # --- what cannot be promised; pilot= alone asks for it too ---
    Conflict(GOALS, MAP, "goals",
        "`{a.system.name}` is a map: it has no time step, and so no accuracy to choose",
        "Leave energy_drift=, error= and pilot= out.", lambda a: a.has(MAP)),
    Conflict("energy_drift", RATES, "goals",
        "energy_drift= for `{a.system.name}` cannot be checked: it is given by derivatives, and no energy is known for it",
        "Set a goal for the state instead: error=1e-6."),
    Conflict(GOALS, RATES, "goals",
        "`{a.system.name}` is given by derivatives, and accuracy goals for those need a method that chooses its own steps",
        'Leave method= out, or choose method="dop853" or "radau"; or leave error= and pilot= out.',
        lambda a: a.has(RATES) and not a.has(OWN_STEPS)),
    Conflict("tolerance", "error", "goals",
        "tolerance= cannot be combined with error=: trial runs choose the tolerance that meets the goal",
        "Leave one of the two out; tolerance= limits the error of one step, error= that of the state.",
        lambda a: a.has(OWN_STEPS) and a.has("tolerance") and a.has("error")),
    Conflict("energy_drift", FORCES, "goals",
        "energy_drift= for `{a.system.name}` cannot be checked: it is given by its forces, and no energy is known for it",
        "Set error= alone, or write the system as a Hamiltonian."),
    Conflict(GOALS, "precision", "goals",
        "goals cannot be combined with precision={its!r} yet: the trial runs are in float64",
        "Leave precision= out, or choose dt yourself.", lambda a: a.has(GOALS) and not a.precision.is_piloted),
    Conflict(GOALS, "inner", "goals",
        "goals cannot be combined with inner= yet: the steps of fast and slow parts are the ones you choose",
        "Choose dt yourself, or leave tp.fast and tp.slow out."),
    Conflict(GOALS, "approximate", "goals",
        "goals cannot be combined with approximate=: halving the step does not reveal the error of a tree code",
        "Leave one of the two out."),
    # --- project= ---
    Conflict("project", "propagator", "project",
        "project= cannot be combined with propagator=", "Leave propagator= out, and choose dt yourself.",
        lambda a: a.has("project") and a["propagator"] not in (None, "loop")),
    *among(("approximate", "tolerance"), "project", "project",
        "{one}= cannot be combined with {other}=", "Leave {other}= out, and choose dt yourself."),
    Conflict("project", NOT_HAMILTONIAN, "invariants",
        "project= keeps invariants of a Hamiltonian without t, and `{a.system.name}` is given by its {a.system.kind}",
        "Leave project= out.", lambda a: a.system.kind != "hamiltonian"),
    Conflict("project", EXPLICIT_TIME, "invariants",
        "project= keeps invariants of a Hamiltonian without t, and `{a.system.name}` depends on t",
        "Leave project= out.", lambda a: a.system.time is not None or a.system.clock is not None),
    # --- the stages of the compiler: before its facts, and with them ---
    Conflict("project", CONSTRAINTS, "build",
        "project= cannot be combined with the constraints of `{a.system.name}`: it would lead off them",
        "Leave project= out: constraints are kept without it."),
    Conflict("project", OPEN, "build",
        "project= keeps what the motion keeps, and {a.opened} of `{a.system.name}` changes it",
        "Leave project= out.", lambda a: a.has("project") and a.system.is_open),
    Conflict("propagator", CONSTRAINTS, "build",
        "propagator={a[propagator]!r}, but the positions of `{a.system.name}` are held by constraints",
        "Leave propagator= out: it is stepped.",
        lambda a: a.has(CONSTRAINTS) and a["propagator"] not in (None, "loop")),
    Conflict("scale", "precision", "build",
        'scale="{a[scale]}" cannot be combined with precision="dd": changing units rounds the weights of the method',
        "Leave scale= out.", lambda a: a.has("scale") and a["precision"] == "dd"),
    Conflict("tolerance", FIXED_STEP, "facts",
        "tolerance= needs a method that chooses its own steps; this one has the fixed step dt",
        'Add method="taylor" or "dop853", or leave tolerance= out.'),
    Conflict("precision", OWN_STEPS, "facts",
        '`{a[method]}` runs in float64, and precision="dd" needs more digits',
        'Choose method="taylor", or leave precision= out.',
        lambda a: a.has(OWN_STEPS) and a["precision"] == "dd" and a["method"] not in ("auto", "taylor")),
    Conflict("time", OWN_STEPS, "facts",
        "time= cannot be combined with a method that chooses its own steps", "Leave time= out."),
    *(Conflict(one, OWN_STEPS, "facts",
        f"{{one}}={{a[{one}]!r}} cannot be combined with a method that chooses its own steps",
        "Leave {one}= out; tolerance= sets the relative error of a step.",
        with_own_steps(one, fine))
      for one, fine in (
        ("precision", ("dd",)), ("scale", ()), ("approximate", ()), ("propagator", ("loop",)), ("inner", ()))),
    Conflict("energy_drift", OWN_STEPS, "facts",
        "energy_drift={a[energy_drift]!r} cannot be combined with a method that chooses its own steps",
        "Set a goal for the state instead: error=1e-6."),
    # --- a method is chosen ---
    Conflict("method", MAP, "choice",
        "`{a.system.name}` is an explicit map: it is run as written, without an integration method",
        "Leave method= and order= out.", lambda a: a.has(MAP) and (a.has("method") or a.has("order"))),
    Conflict("precision", WHOLE, "choice",
        "`{a.system.name}` has states of whole numbers, which have a type of their own: precision={a[precision]!r}",
        "Leave precision= out: floats beside them are float64."),
    Conflict("order", RATES, "choice",
        "`{a.system.name}` is given by derivatives, and no certified method exists for those",
        'Leave method= and order= out, or choose method="dop853".',
        lambda a: a.has(RATES) and (a["method"] == "symplectic" or a["method"] == "auto" and a.has("order"))),
    Conflict(GOALS, LEVELS, "levels",
        "goals cannot be combined with fast and slow parts yet: their steps are the ones you choose",
        "Choose dt yourself, or leave tp.fast and tp.slow out."),
    # --- a loop is deleted ---
    Conflict("propagator", NOT_HAMILTONIAN, "jump",
        "propagator={a[propagator]!r}, but `{a.system.name}` is given by its {a.system.kind}",
        "Give its energy to @tp.hamiltonian, or leave propagator= out.", lambda a: a.system.kind != "hamiltonian"),
    Conflict("propagator", "an energy of degree 3 or more", "jump",
        "propagator={a[propagator]!r} needs an energy of degree 2 or less in the state: {a.degree}",
        'Run it step by step: propagator="loop".', is_not_quadratic, fact="polynomial"),
    Conflict("propagator", "an energy that draws random numbers", "jump",
        "propagator={a[propagator]!r}, but H draws random numbers: its matrix is not a constant",
        'Run it step by step: propagator="loop".', lambda a: draws(a.system.energy)),
    Conflict("propagator", EXPLICIT_TIME, "jump",
        "propagator={a[propagator]!r}, but H depends on t: its matrix is not a constant",
        'Run it step by step: propagator="loop".', lambda a: a.facts["explicit time"]),
    *among(("precision", "scale", "approximate", "inner", "energy_drift", "error"), "propagator", "jump",
        "propagator={a[propagator]!r} cannot be combined with {other}={its!r}", "Leave {other}= out."),
    Conflict("propagator", "method", "jump",
        'propagator="exact" is the exact flow of H: it uses no method',
        'Leave method= and order= out, or choose propagator="method".',
        lambda a: a["propagator"] == "exact" and (a.has(NAMED) or a.has("order"))),
    Conflict("propagator", NOT_SPLIT, "power",
        'propagator="method" needs a method of plain kicks and drifts, which `{a.by}` is not',
        'Choose another method, or propagator="exact".'),
    # --- a step is made ---
    Conflict("approximate", NOT_HAMILTONIAN, "family",
        "approximate= cannot be combined with a system given by its {a.system.kind}",
        "It needs an energy T(p) + V(q) and a splitting method, the default.",
        lambda a: a.has("approximate") and a.system.kind != "hamiltonian"),
    Conflict("approximate", NOT_SPLIT, "family",
        "approximate= cannot be combined with the method {a.by}",
        "It needs an energy T(p) + V(q) and a splitting method, the default."),
    Conflict("approximate", GRADIENTS, "family",
        "approximate= cannot be combined with the method {a.by}: a tree code gives no derivative of the force",
        "Leave method= out, or choose one without force gradients."),
    Conflict("scale", SHEARS, "family",
        "`{a.by}` steps parts that mix q and p, which scale={a[scale]!r} does not support yet",
        'Choose precision="float64" or "dd", and leave scale= out.'),
    Conflict("precision", SHEARS, "family",
        "`{a.by}` steps parts that mix q and p, which precision={a[precision]!r} does not support yet",
        'Choose precision="float64" or "dd", and leave scale= out.',
        lambda a: a.has(SHEARS) and not a.precision.takes_shears),
    Conflict("precision", EXPONENTIAL, "family",
        '`{a.by}` uses series accurate to float64, and precision="dd" needs more digits',
        'Choose a splitting, or precision="float64".', lambda a: a.has(EXPONENTIAL) and a["precision"] == "dd"),
    Conflict("project", NO_END, "projection",
        "project= cannot be combined with `{a.by}`, whose steps do not end with the states q and p",
        'Choose another method=; if the run is a jump, add propagator="loop".'),
    Conflict("project", BACKWARDS, "projection",
        "a run with project= cannot be rewound", "Leave project= out."),
    # --- a step is known ---
    *(row for trait, does, units in (
        (SOLVES, "solves equations", "solves equations in your units"),
        (TURNS, "turns oscillators", "solves its quadratic part in your units"),
        (ORBITS, "goes on Kepler orbits", "keeps bodies in Jacobi coordinates"))
      for row in (
        Conflict("precision", trait, "step",
            f"`{{a.by}}` {does}, which precision={{a[precision]!r}} does not support yet", 'Choose precision="float64".',
            not_solved_in(trait)),
        Conflict("scale", trait, "step",
            f'`{{a.by}}` {units}, and scale="auto" would choose other units', "Leave scale= out."))),
    Conflict(GOALS, DRAWS, "step",
        "goals cannot be combined with `{a.by}`, which draws random numbers: with half the step it draws others",
        "Choose dt yourself, and leave energy_drift= and error= out."),
    Conflict("energy_drift", NO_ENERGY, "step",
        "energy_drift= cannot be combined with `{a.by}`, which changes the energy on purpose",
        "Leave energy_drift= out."),
    Conflict("math", "precision", "step",
        'math="fast" cannot be combined with precision={its!r}, whose digits rely on math="exact"',
        "Leave one of the two out.", lambda a: a.has("math") and not a.precision.takes_fast),
    *(Conflict("math", trait, "step",
        f'`{{a.by}}` {does}, which math="fast" does not support', f"Leave math= out, or choose {instead}.")
      for trait, does, instead in (
        (JUMPS,     "jumps over its steps",  'propagator="loop"'),
        (OWN_STEPS, "chooses its own steps", "a method of kicks and drifts"),
        (SOLVES,    "solves equations",      "a method of kicks and drifts"),
        (TURNS,     "turns oscillators",     "a method of kicks and drifts"),
        (ORBITS,    "goes on Kepler orbits", "a method of kicks and drifts"))),
    Conflict("math", "backend", "step",
        'the backend `python` is the exact reference, and has no math="fast"',
        "Leave math= out, or choose another backend.", lambda a: a.has("math") and a["backend"] == PYTHON.backend),
    Conflict("math", "backend", "target",
        'this program runs on the backend `python` alone, which has no math="fast"',
        "Leave math= out.", lambda a: a.has("math") and a.by == PYTHON.backend),
    # --- evolve ---
    *(Conflict(one, other, "frames",
        "{a.given} cannot be combined: each of them chooses the frames to keep",
        "Pass one of save_every=10 (steps), save_at=[0.5, 1.0] (times) and frames=400 (how many).", error=InputError)
      for one, other in (("save_every", "save_at"), ("save_every", "frames"), ("save_at", "frames"))),
    Conflict("resume", ON_A_GPU, "arrays",
        "resume= takes the state from a checkpoint, and arrays on a GPU were given too",
        "Leave the states and parameters out."),
    Conflict("dt", MAP, "run",
        "`{a.system.name}` is a map: it has no dt", "Leave dt= out.", error=InputError),
    Conflict("dt", "contacts", "run",
        "contacts cannot be met backwards in time, and dt={a[dt]} is negative",
        "Use a positive dt; reverse the momenta of the start.",
        lambda a: a.system.contacts and goes_back(a["dt"])),
    Conflict("dt", "walls", "run",
        "walls and events cannot be met backwards in time, and dt={a[dt]} is negative",
        "Use a positive dt; reverse the momenta of the start.",
        lambda a: a.system.crossings and goes_back(a["dt"])),
    Conflict("dt", "a bath", "run",
        "dt={a[dt]} with bath={a.system.bath!r}: noise does not run backwards",
        "Use a positive dt, or compile with bath=tp.nose_hoover(), which is reversible.",
        lambda a: a.system.bath not in ("", NOSE_HOOVER, NOSE_POINCARE) and goes_back(a["dt"])),
    *(Conflict(one, NO_DT, "grid",
        f"{{one}}={{a[{one}]!r}} counts output times dt apart, and no dt was given",
        "Pass one to compile: with dt=0.1, frames are at multiples of 0.1.", error=InputError)
      for one in ("save_every", "hash_every", "checkpoint_every")),
    Conflict("events", MAP, "events",
        "events= looks for times, and `{a.system.name}` is a map: between two of its steps there is none",
        "Observe the function, with observe=, and look where its sign changes.", lambda a: a["events"] and a.has(MAP)),
    Conflict("events", "precision", "events",
        "events= needs parts of a step, and the lattice has none",
        'Choose precision="float64" or another.', lambda a: a["events"] and a["precision"] == "lattice"),
    Conflict("events", "system", "events",
        "events= only finds times, and `{a.system.name}` has walls or events that change its motion",
        'Add it to the system: tp.event(lambda q: q[0], name="section"), which changes nothing without then=.',
        lambda a: a["events"] and a.system.crossings),
    Conflict("acts", OWN_STEPS, "acts",
        "acts= needs steps of dt, and `{a.by}` chooses its own steps",
        'Choose a method with a fixed step, such as method="leapfrog" or "rk4".'),
    Conflict("acts", JUMPS, "acts",
        "acts= needs steps, and the loop over them was deleted: this run jumps from frame to frame",
        'Compile with propagator="loop".'),
    Conflict("acts", CONSTRAINTS, "acts",
        "acts= cannot be combined with the constraints of `{a.system.name}` yet: an act may lead off them",
        "Start a new run: sim.evolve(**sim.consistent(...), ...)."),
    Conflict("acts", "time", "acts",
        "acts= cannot be combined with time=: a map of the states does not know t and its momentum",
        "Leave time= out."),
    Conflict("acts", "a bath", "acts",
        "acts= cannot be combined with bath={a.system.bath!r}: it and `{a.system.name}` would not keep their energy",
        "Compile with bath=tp.nose_hoover().", lambda a: a["acts"] and a.system.bath == NOSE_POINCARE),
    Conflict("acts", "project", "acts",
        "acts= cannot be combined with project=, which would undo what an act does to an invariant",
        "Leave project= out."),
    Conflict("acts", GOALS, "acts",
        "acts= cannot be combined with goals: trial runs choose a step for the motion without acts",
        "Choose dt yourself, and leave energy_drift= and error= out."),
    Conflict("until", "time", "until",
        "until= cannot be used with time= for an ensemble: its members reach a time at different steps",
        "Pass steps=, and read out.t, which has a column for each member.", lambda a: a.has(ENSEMBLE)),
    Conflict("steps", "until", "length",
        "evolve needs either steps= or until=, and not both",
        "Write evolve(..., steps=1000) or evolve(..., until=10.0).",
        lambda a: a.has("steps") == a.has("until"), InputError),
    Conflict("save_at", "time", "clock",
        "save_at= cannot be combined with time= yet: the times of its steps are not known in advance",
        "Pass save_every= or frames=, and read out.t; until= ends at any time."),
    Conflict("save", "time", "clock",
        "save= cannot be combined with time= yet: a store has one time for all members of a frame",
        "Leave save= out, and pass save_every= and checkpoint=."),
    Conflict("checkpoint_every", "a run without `checkpoint=`", "checkpoint",
        "checkpoint_every= needs checkpoint=", 'Pass checkpoint="run.checkpoint" too.',
        lambda a: a.has("checkpoint_every") and not a.has("checkpoint"), InputError),
    *(Conflict("on", other, "on", why, fix) for other, why, fix in (
        ("checkpoint_every", "checkpoint_every= cannot be combined with on=: workers run their members to the end, and every "
         "block of members that is done is kept",
         "Leave checkpoint_every= out: resume= computes the blocks that are missing."),
        (ON_A_GPU, "on= sends members to other machines, and the states are arrays on a GPU of this one",
         "Pass NumPy arrays."))),
    # --- other calls ---
    *(Conflict(call, "time", "call",
        "{one} cannot be combined with time=", "For that, compile the system without time=.")
      for call in ("minimise", "suggest_dt", "check", "lyapunov", "sensitivity", "an indicator of chaos")),
    Conflict("minimise", CONSTRAINTS, "call",
        "minimise does not keep constraints yet", "Minimise the energy in coordinates of your own."),
    Conflict("minimise", MET, "call",
        "minimise follows the energy alone, and would pass through the contacts of this system",
        "Write them as potentials, and minimise that energy."),
)
# fmt: on
STAGES = {at: tuple(rows) for at, rows in groupby(CONFLICTS, key=lambda row: row.at)}


def refusal(at: str, ask: Ask) -> TinyPhysicsError | None:
    """The error of the first row of a stage that holds, if one does."""
    return next((row.raised(ask) for row in STAGES[at] if row.holds(ask)), None)


def check(at: str, ask: Ask) -> None:
    if (error := refusal(at, ask)) is not None:
        raise error
