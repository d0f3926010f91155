"""tp.compile: what may be asked for, and what is said about what may not be."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import frexp, inf
from numbers import Real
from types import FunctionType
from typing import Any

from tinyphysics.errors import InputError, PlanError, ShapeError, TraceError
from tinyphysics.front.trace import PhysicsSystem, hamiltonian
from tinyphysics.options import COMPILE, heeds
from tinyphysics.plan import Goal
from tinyphysics.planner.choice.choose import named
from tinyphysics.planner.choice.goals import check_goals
from tinyphysics.planner.choice.propagator import PROPAGATORS
from tinyphysics.planner.conflicts import NO_LEVELS, NOT_EACH, OWN_STEPS, Ask, check
from tinyphysics.planner.cost.target import checked
from tinyphysics.planner.methods.catalog import CHOICES, LAYERED, METHODS, is_adaptive
from tinyphysics.planner.systems.absorb import with_layers
from tinyphysics.planner.systems.bias import with_bias
from tinyphysics.planner.systems.boxed import with_box
from tinyphysics.planner.systems.friction import with_friction
from tinyphysics.planner.systems.heat import check_fixman, with_bath
from tinyphysics.planner.systems.kinetics import relativistic
from tinyphysics.planner.systems.link import WITHOUT_MOTION, linked
from tinyphysics.planner.systems.long_range import checked_long_range
from tinyphysics.planner.systems.pressure import with_pressure
from tinyphysics.planner.systems.time_transformation import in_another_time
from tinyphysics.rules.equality.measured_in import units_of
from tinyphysics.runtime.api.quantities import as_numbers
from tinyphysics.runtime.api.simulation import CHECKS, Simulation
from tinyphysics.runtime.engines.backend import ready, resolved
from tinyphysics.runtime.stages.invariants import checked_invariants
from tinyphysics.runtime.stages.observed import traced
from tinyphysics.runtime.stages.resolve import checked_step
from tinyphysics.runtime.state.complex_numbers import in_parts
from tinyphysics.synth.methods.taylor import TOLERANCE
from tinyphysics.system import Meeting, SizedFamily, Sum, System
from tinyphysics.tpir.precision.precision import PRECISIONS
from tinyphysics.tpir.program.isa import MATHS
from tinyphysics.util import a_kind, did_you_mean, one_of, prod

SCALES = ("off", "auto")
LOOSEST = 1e-2  # tolerance of a step: beyond, its last terms say nothing about the rest
SMALLEST_UNIT, LARGEST_UNIT = 2.0**-200, 2.0**200  # of a lattice: products with it are exact


def choice(name: str, value: Any, built: tuple[Any, ...]) -> None:
    if value not in built:
        raise PlanError(
            f"there is no {name} {value!r}",
            fix=f"{did_you_mean(value, built)}{name} may be {one_of([str(v) for v in built])}.",
        )


def check_sizes(system: Any, sizes: Mapping[str, int] | None) -> None:
    letters = system.letters if isinstance(system, SizedFamily) else ()
    for letter, n in (sizes or {}).items():
        if letter not in letters:
            known = f"Its sizes are {one_of(letters)}." if letters else "Its shapes have no letters."
            raise InputError(f"`{system.name}` has no size `{letter}`", fix=known)
        if isinstance(n, bool) or not isinstance(n, int) or n < 1:
            raise InputError(
                f"sizes={{{letter!r}: {n!r}}} is not a size", fix="A size is a positive integer."
            )


def checked_budget(ask: Ask) -> float:
    """A relative error that forces may have."""
    approximate = ask["approximate"]
    number = isinstance(approximate, (int, float)) and not isinstance(approximate, bool)
    if not number or not 0.0 < approximate < 1.0:
        raise InputError(f"approximate={approximate!r} is not a relative error", fix="Pass approximate=1e-3.")
    check("approximate", ask)
    return float(approximate)


MOST_KICKS = 10_000  # in a step: some seconds of compiling


def checked_inner(inner: Any, has_levels: bool) -> tuple[int, ...]:
    """How many fast kicks there are in a slow one, for each level but the slowest."""
    if inner is None:
        return ()
    counts = tuple(inner) if isinstance(inner, (tuple, list)) else (inner,)
    if not counts or not all(isinstance(n, int) and not isinstance(n, bool) and n >= 1 for n in counts):
        raise InputError(
            f"inner={inner!r} is not a number of kicks",
            fix="Pass inner=10: ten fast kicks for each slow one.",
        )
    check("parts", Ask({"inner": inner}, traits={NO_LEVELS: not has_levels}))
    if (kicks := prod(counts)) > MOST_KICKS:
        raise PlanError(
            f"inner={inner!r} is {kicks:,} fast kicks in a step; the compiled step writes out each of "
            f"them, up to {MOST_KICKS:,}",
            fix="Choose a shorter dt, and fewer kicks in proportion.",
        )
    return counts


def checked_units(ask: Ask) -> tuple[tuple[str, float], ...]:
    """The units of a lattice by the name of a state; "" is any other."""
    check("precision", ask)
    lattice = ask["lattice"]
    if ask["precision"] != "lattice":
        return ()
    given = {} if lattice is None else dict(lattice) if isinstance(lattice, Mapping) else {"": lattice}
    for name, unit in given.items():
        good = isinstance(name, str) and isinstance(unit, (int, float)) and not isinstance(unit, bool)
        if not good or not SMALLEST_UNIT <= unit <= LARGEST_UNIT or frexp(unit)[0] != 0.5:
            of = f" of `{name}`" if name else ""
            raise InputError(
                f"the unit {unit!r}{of} is not a power of two",
                fix="Pass lattice=2**-40, or one for each state.",
            )
    return tuple(sorted((name, float(unit)) for name, unit in given.items()))


def checked_tolerance(given: Any, precision: str) -> float:
    least = TOLERANCE.get(precision, TOLERANCE["float64"])
    if isinstance(given, bool) or not isinstance(given, Real) or not least <= float(given) <= LOOSEST:
        raise InputError(
            f"tolerance={given!r} is not a relative error between {least:.2g} and {LOOSEST:g}",
            fix="Pass tolerance=1e-9, or leave it out.",
        )
    return float(given)


def checked_absolute(given: Any, method: str, kind: str, precision: str) -> float:
    if isinstance(given, bool) or not isinstance(given, Real) or not 0.0 < float(given) < inf:
        raise InputError(
            f"absolute={given!r} is not an absolute error",
            fix="Pass absolute=1e-9, in the units of the states.",
        )
    looks = [m.name for m in METHODS if m.family.each_number]
    chosen = (
        method == "auto" and kind == "ode" and precision == "float64"
    )  # then the planner takes one of these
    traits = {NOT_EACH: method not in looks and not chosen}
    check("absolute", Ask({"absolute": given, "method": method}, traits=traits, others=one_of(looks)))
    return float(given)


def energy_of(function: FunctionType) -> Any:
    """A plain function as the Hamiltonian that it is read as; errors say so."""
    try:
        return hamiltonian(function)
    except (TraceError, ShapeError) as error:
        raise type(error)(
            error.what,
            site=error.site,
            fix=f"{error.fix or ''} A function without a decorator is read as an energy H(q, p): for anything else "
            "write @tp.lagrangian, @tp.forces, @tp.ode or @tp.map.".lstrip(),
        ) from None


@heeds("compile", 'tp.compile(system, dt=0.01, method="leapfrog")')
def compile(
    system: Any,
    dt: float | None = None,
    *,
    method: str = "auto",
    order: int | None = None,
    target_order: int | None = None,
    forbid: tuple[str, ...] = (),
    energy_drift: float | None = None,
    error: float | None = None,
    propagator: str | None = None,
    time: Any = None,
    kinetics: str = "newtonian",
    friction: Any = None,
    temperature: Any = None,
    bath: Any = None,
    tau: Any = None,
    kB: float = 1.0,
    pressure: Any = None,
    barostat: Any = None,
    bias: Any = None,
    absorb: Any = None,
    backend: str = "auto",
    precision: str = "float64",
    math: str = "exact",
    sizes: Mapping[str, int] | None = None,
    pilot: Any = None,
    checks: str = "on",
    check_every: int | None = None,
    approximate: float | None = None,
    force_error: float | None = None,
    long_range: Any = None,
    boundary: str | None = None,
    box: Any = None,
    inner: int | Sequence[int] | None = None,
    scale: str = "off",
    lattice: float | Mapping[str, float] | None = None,
    tolerance: float | None = None,
    absolute: float | None = None,
    project: Any = None,
    explain: bool | str = False,
) -> Simulation:
    """Compiles a system: analyses it, chooses a method, lowers the step to TP-IR and verifies it. Nothing is run yet.

    system        a system made with a decorator such as @tp.hamiltonian, an instance of a tp.PhysicsSystem, or a sum
    dt            the time step; with a goal it may be left out
    method        the name of a method (docs/methods.md); "auto" lets the compiler choose
    order         the order of the method that the compiler chooses
    forbid        names of methods that must not be chosen
    energy_drift  a goal: the largest relative energy error of a run
    error         a goal: the largest relative error of the states of a run
    propagator    "exact", "method" or "loop": whether an energy of degree 2 is solved or stepped
    time          a transformed time variable: "logarithmic", "sundman" or a function of the positions
    kinetics      "newtonian" or "relativistic"
    friction      the rate at which momenta decay: a number, an array, or the name of a parameter
    temperature   the temperature of a bath, in units of 1/kB: a number, the name of a parameter, or a function of t
    bath          how heat comes and goes: "langevin", the default if a temperature is given, or another (docs/heat.md)
    tau           the time of a bath that has one in place of a rate: bussi, nose_hoover, nose_poincare
    kB            Boltzmann's constant: tinyphysics.physics.molecular.BOLTZMANN for kelvin
    pressure      in a bath: the box of the pair sums changes its size, out.box; a number or the name of a parameter
    barostat      how: "rescale", the default if a pressure is given, "mtk", or tp.barostat(...) (docs/heat.md)
    absorb        absorbing layers at the ends of a lattice: their cells, absorb=20 (docs/absorb.md)
    bias          what makes rare events come soon: tp.metadynamics(...) or tp.umbrella(...)
    backend       where it runs: "llvm", "c", "numpy", "python", "opencl", "cuda", "wasm", "webgpu"; "auto" chooses
    precision     "float64", "float32", "mixed", "compensated", "dd" or "lattice"
    math          "exact": the same bits on every machine; "fast": faster, but the last bits depend on the machine
    sizes         values for the letters in shapes, {"n": 16}; otherwise taken from the state of the first run
    pilot         an initial state {"q": ..., "p": ...} for the trial runs that goals need
    checks        "on" warns about a run that looks wrong and stops one that is, "strict" raises an error, "off" does neither
    check_every   the number of steps between two looks at what a run conserves; by default so many that they cost little
    approximate   the allowed relative error of 1/r forces, which are then summed with a tree code
    force_error   the allowed relative error of forces that are summed over all images of a box (docs/long_range.md)
    long_range    how they are summed, instead of what is chosen: {"alpha": 1.0, "cutoff": 3.0}
    boundary      "periodic": sums over all pairs in open space go over all images of a box (docs/long_range.md)
    box           its length, three lengths, three vectors as rows, or the name of a parameter
    inner         the number of fast kicks in a step of tp.fast(a) + tp.slow(b)
    scale         "auto" computes in units in which a step takes the fewest operations
    lattice       the unit of precision="lattice"
    tolerance     the relative error of a step, for methods that choose their own steps
    absolute      the absolute error that is allowed in addition
    project       invariants to restore to their initial values after every step: "energy", or functions by name
    explain       True prints the report of sim.explain(), and "full" all of it: the method, why, and what is proved

    A function without a decorator is read as an energy H(q, p). dt may also be passed to each run, `evolve(..., dt=0.01)`, or
    be found for a goal. target_order= is another name for order=.

    precision="float32" rounds states, parameters, constants and dt to float32 once and steps in float32 alone;
    frames are float32 arrays, times, energies and observables float64.

    precision="lattice" stores states as whole numbers of units, and can be rewound to the last bit (`sim.rewind`); lattice=
    is their unit, a power of two, or one for each state: {"q": 2**-40, "p": 2**-44}.

    energy_drift=1e-9, error=1e-6 are goals: the method, and the step if no dt is given, are found by trial runs from the
    state of pilot={"q": ..., "p": ...}, or of each run, and measured again in every run.

    precision="dd" gives every number of a step a second float64, about 32 digits; `out.words("q")` gives both words, and
    energies, observables and drift are computed in such pairs too.

    propagator="exact" solves an energy of degree 2 or less instead of stepping it, "method" gives what n steps of the
    method would in exact arithmetic; then a run of 10**12 steps is one jump. "loop" steps. The default is "exact" for small
    systems, if no option asks for steps, and "loop" for others; explain() says why.

    method="taylor" chooses its own steps, each with a relative error of tolerance=, by default that of rounding; dt is then
    the spacing of output times; without it frames are evenly spaced in time. So do method="dop853",
    which is explicit, and method="radau" for stiff systems; their error for each number is tolerance= times its size, plus
    absolute= if it is given. With error= trial runs choose the tolerance, and the run itself is measured too.

    kinetics="relativistic" replaces p**2/2m by sqrt(p**2 c**2 + m**2 c**4) - m c**2; c is the parameter `c`, 1 if
    the system has none, and the last axis of p is space where it has up to three components.

    friction=0.1 lets momenta decay, p' = -dH/dq - 0.1*p, by exact factors exp(-0.1*h) between kicks and drifts; of bodies
    their angular momenta. One rate for all is certified conformally symplectic, of bodies conformally Poisson. What friction
    takes is booked in out.ledger, and out.drift("energy") is that of the energy and the ledger.

    temperature=1.0 puts the energy into a bath: momenta forget at the rate friction=, by default 1, and get noise, so that
    states have the law exp(-H/kT). Both are run-time values, evolve(temperature=...), one for each member if they differ.
    The step is certified canonical to O(dt²); out.heat is the heat that came in.

    time="logarithmic" steps in another time s: dt = ds/(-V), shorter steps where the potential is deep, and symplectic all
    the same, with t as a state; "sundman" is the same dt/ds for implicit methods, a function of the positions any other.
    dt is then a step of s; out.t is t.

    project="energy" ends every step where the energy is what it was at first, by Newton's method along its gradient; a
    dict of functions, {"L": lambda q, p: ...}, holds others. Such a step is not symplectic.

    math="fast" lets kernels contract, multiply by reciprocals and begin roots with an instruction of the machine: errors
    are those of docs/maths.md, and bits are those of one machine and backend. The default, "exact", has the same everywhere.

    approximate=1e-3 sums forces of c*m[i]*m[j]/r through a tree, whose relative error is measured where a run begins.

    checks={"shadow": 1e-3} warns like "on", and at the first step at which the shadow energy of a splitting is further from H
    than that, relative to the terms of H; the warning has a step that was measured to be short enough.
    """
    ask = Ask(dict(locals()))  # every option as it was given
    if isinstance(system, type):
        raise InputError(
            f"{system.__name__} is a class, not a system",
            fix=f"Compile an instance of it: {system.__name__}().",
        )
    if isinstance(system, PhysicsSystem):
        system = system.traced()
    if isinstance(system, FunctionType):
        system = energy_of(system)
    check("names", ask)
    order = order if target_order is None else target_order
    counts = checked_inner(inner, isinstance(system, Sum) and any(rank is not None for rank in system.ranks))
    if isinstance(system, Sum):
        system = linked(system)
    if isinstance(system, Meeting):
        raise InputError(
            f"`{system.name}` alone is not a system: nothing moves",
            fix=f"Add it to an energy: tp.compile(ball + {system.name}, dt=0.01).",
        )
    if not hasattr(system, "bind"):
        raise InputError(
            f"{a_kind(system)} is not a system",
            fix="Decorate the function: @tp.hamiltonian, @tp.lagrangian, @tp.forces, @tp.ode or @tp.map.",
        )
    if system.kind in WITHOUT_MOTION:
        raise PlanError(
            f"`{system.name}` is only a {system.kind}: without a kinetic energy nothing moves",
            fix=f"Add it to a system with kinetic energy: free + {system.name}.",
        )
    check("options", ask)
    if propagator is not None and propagator not in PROPAGATORS:
        raise PlanError(
            f"there is no propagator {propagator!r}", fix=f"propagator may be {one_of(PROPAGATORS)}."
        )
    choice("kinetics", kinetics, ("newtonian", "relativistic"))
    choice("precision", precision, tuple(PRECISIONS))
    choice("math", math, MATHS)
    if scale not in SCALES:
        raise InputError(f"scale={scale!r} is not known", fix=f"scale may be {one_of(SCALES)}.")
    wanted: Any = checks  # or thresholds of what is watched besides: {"shadow": 1e-3}
    thresholds = {name: float(x) for name, x in wanted.items()} if isinstance(wanted, Mapping) else {}
    checks = "on" if thresholds else checks
    if checks not in CHECKS:
        raise InputError(
            f"checks={checks!r} is not known",
            fix=f"{did_you_mean(checks, CHECKS)}checks may be {one_of(CHECKS)}.",
        )
    if method not in CHOICES:
        named(method)
    units = checked_units(ask)
    requested = resolved(checked(backend))
    if approximate is not None:
        approximate = checked_budget(ask)
    ready(requested)
    if kinetics == "relativistic":
        system = relativistic(system)
    if time is not None:
        system = in_another_time(system, time)
    if any(map(ask.has, ("temperature", "bath", "kB", "tau"))):
        system = with_bath(system, temperature, bath, friction, kB, tau, dt)
    elif friction is not None:
        system = with_friction(system, friction)
    if pressure is not None or barostat is not None:
        system = with_pressure(system, pressure, barostat)
    if bias is not None:
        system = with_bias(system, bias, lambda s, f: traced(s, f, "cv"))
    if boundary is not None or box is not None:
        system = with_box(system, boundary, box)
    if absorb is not None:
        system = with_layers(system, absorb)
        method = LAYERED if method in ("auto", "leapfrog") else method
    source = system
    check_sizes(system, sizes)
    if not isinstance(system, SizedFamily) or sizes is not None:
        source = system.bind(sizes)
    if isinstance(source, System):
        check_fixman(source)
        units_of(source.seen)  # a sum may add what does not fit
    if dt is not None:
        dt = checked_step(as_numbers(source, {"dt": dt})["dt"])
    if isinstance(pilot, Mapping):
        pilot = as_numbers(source, in_parts(source.complexes, pilot))
    check("system", Ask.of(Goal(dt), source))
    if order is not None and hasattr(order, "__index__"):  # one of NumPy's is as good
        order = operator.index(order)
    forbidden = (forbid,) if isinstance(forbid, str) else tuple(forbid or ())
    found: dict[str, Any] = {"inner": counts, "lattice": units, "propagator": propagator, "math": math}
    found |= {"energy_drift": energy_drift, "error": error}
    found["tolerance"] = None if tolerance is None else checked_tolerance(tolerance, precision)
    found["absolute"] = (
        None if absolute is None else checked_absolute(absolute, method, source.kind, precision)
    )
    kept = {name: ask[name] for name, o in COMPILE.items() if o.of_goal and ask.has(name)}
    if long_range is not None:
        kept["long_range"] = checked_long_range(long_range)
    found["more"] = tuple(kept.items())
    goal = Goal(dt, method, order, forbidden, precision, scale, approximate, **found)
    adapts = is_adaptive(source.kind, method)
    check("steps", Ask.of(goal, source, {OWN_STEPS: adapts}, pilot=pilot))
    if goal.is_accurate or pilot is not None:
        check_goals(goal, source, adapts)
    if goal.is_accurate:
        goal = replace(
            goal,
            energy_drift=None if energy_drift is None else float(energy_drift),
            error=None if error is None else float(error),
        )
    if project is not None:
        check("project", ask)
        whole = Simulation(source, goal, requested, checks)
        held = checked_invariants(project, source, lambda *f: traced(whole.system, *f), pilot)
        goal = replace(goal, project=held, propagator="loop")
    if checks == "off" and check_every is not None:
        raise PlanError(
            f'check_every={check_every} says how often to look, and checks="off" looks at nothing',
            fix="Leave one of them out.",
        )
    sim = Simulation(source, goal, requested, checks, thresholds, check_every)
    if pilot is not None:
        from tinyphysics.runtime.measure.accuracy import plan_by_pilot

        plan_by_pilot(sim, pilot)
    if explain:
        print(sim.explain("full" if explain == "full" else "short"))
    return sim
