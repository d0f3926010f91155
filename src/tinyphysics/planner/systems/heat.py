"""What is asked for by temperature= and bath=?  A thermal energy k_B T and how fast momenta forget, both run-time values."""

from __future__ import annotations

import inspect
import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tinyphysics.analysis.charges import directions, layout_of, proved, translation, written_out
from tinyphysics.analysis.masses import masses
from tinyphysics.analysis.separable import separable
from tinyphysics.analysis.turns import turns
from tinyphysics.constrained import BRACKET as CONSTRAINED
from tinyphysics.errors import InputError, PhysicsWarning, PlanError
from tinyphysics.front.baths import Bath, bath_of
from tinyphysics.front.rigid_bonds import OF_BATH
from tinyphysics.given import shown
from tinyphysics.ir import Ops, UOp, as_uop, substitute
from tinyphysics.planner.systems.friction import rate_of
from tinyphysics.rules.equality.ranges import range_of
from tinyphysics.rules.formulas.baths import ANDERSEN, LANGEVIN
from tinyphysics.rules.formulas.memory import GLE, LONGEST
from tinyphysics.rules.formulas.motions import translates
from tinyphysics.rules.formulas.overdamped import BROWNIAN
from tinyphysics.rules.formulas.thermostats import (
    BUSSI,
    NOSE_HOOVER,
    NOSE_POINCARE,
    TOGETHER,
    TRIGGER,
)
from tinyphysics.structure import FIVE
from tinyphysics.system import Parameter, SizedFamily, State, System
from tinyphysics.turning import Axes
from tinyphysics.util import did_you_mean, frames_to_user, one_of

TEMPERATURE, FRICTION, TAU = (
    "temperature",
    "friction",
    "tau",
)  # the names of its parameters, where a system has none of its own
RATE = 1.0  # of a bath, where none is asked for
TIME = 1.0  # the same, of baths that have a time in place of a rate
FEW = 24  # momenta of a system in which every sum of them that is conserved is looked for
WARM = "Pass a temperature above zero, in units of energy/kB: temperature=1.0."
COLD = "A bath at zero takes all of the energy: that is friction=1.0 alone, without temperature=."


@dataclass(frozen=True)
class Asked:
    """temperature=, bath=, friction=, tau= and kB= of compile."""

    temperature: Any
    bath: Bath
    friction: Any
    tau: Any
    kB: float


def with_bath(
    system: System | SizedFamily,
    temperature: Any,
    bath: Any,
    friction: Any,
    kB: float,
    tau: Any = None,
    dt: float | None = None,
) -> System | SizedFamily:
    """The same at a temperature."""
    if temperature is None:
        given = {"bath": bath, "tau": tau}
        what = next((f"{name}={shown(x)}" for name, x in given.items() if x is not None), f"kB={shown(kB)}")
        raise InputError(
            f"{what} without a temperature", fix="Pass temperature=1.0 too: the bath is at that temperature."
        )
    found = bath_of(LANGEVIN if bath is None else bath)
    if not kB > 0:
        raise InputError(f"kB={shown(kB)} is not above zero", fix="Leave kB= out, or pass kB=1.0.")
    if found.way in TOGETHER and friction is not None:
        raise PlanError(
            f"friction= with bath={shown(found.way)}, which has no rate but a time",
            fix="Pass tau=1.0, the time in which it changes the kinetic energy.",
        )
    if found.way not in TOGETHER and tau is not None:
        raise PlanError(
            f"tau= with bath={shown(found.way)}, which has a rate", fix="Pass friction=1.0: 1/tau."
        )
    if found.length == 1 or found.way == NOSE_POINCARE:
        one = "one Nosé-Hoover thermostat" if found.length else "a Nosé-Poincaré thermostat"
        warnings.warn(
            PhysicsWarning(
                f"{system.name}: {one} alone is not ergodic for oscillators: averages depend on where a "
                "run begins. Take bath=tp.nose_hoover(length=3)."
            ),
            stacklevel=frames_to_user(),
        )
    if found.way == GLE and friction is not None:
        raise PlanError("friction= with tp.gle, whose rates are in its matrix", fix="Leave friction= out.")
    if dt is not None and dt < 0 and found.way not in (NOSE_HOOVER, NOSE_POINCARE):
        raise PlanError(
            f"dt={dt:g} with bath={shown(found.way)}: noise does not run backwards",
            fix="Pass a positive dt, or bath=tp.nose_hoover(), which is reversible.",
        )
    size = max((sum(map(abs, row)) for row in found.A), default=0)
    if found.way == GLE and dt is not None and abs(float(dt)) * float(size) > LONGEST:
        raise PlanError(
            f"dt={dt:g} with tp.gle: dt times the norm of A is {float(dt * size):.3g}, and {LONGEST:g} is the most",
            fix=f"Pass dt={LONGEST / float(size):.2g} or less, or smaller rates: momenta forget all in a step anyway.",
        )
    asked = Asked(temperature, found, friction, tau, kB)
    if isinstance(system, SizedFamily):
        family, taken = system, tuple(system.shapes)
        added = (
            {}
            if isinstance(temperature, str) or callable(temperature)
            else {free_name(taken, TEMPERATURE): ()}
        )
        if found.way in TOGETHER:
            if not isinstance(tau, str) and not callable(tau):
                added[free_name(taken, TAU)] = ()
        elif (
            found.way != GLE
            and not isinstance(friction, (str, dict))
            and not callable(friction)
            and not np.ndim(friction)
        ):
            added[free_name(taken, FRICTION)] = ()
        return replace(
            family,
            build=lambda sizes: heated(family.build(sizes), asked),
            shapes={**family.shapes, **added},
        )
    return heated(system, asked)


def heated(system: System, asked: Asked) -> System:
    check_momenta(system)
    kinetic = kinetic_of(system, asked)
    if not (found := masses(system, kinetic, system.momenta)):
        raise PlanError(
            f"temperature= for `{system.name}`, whose kinetic energy is not a sum of p**2/2m: {found.because}",
            site=system.site,
            fix="Momenta in a bath have the law exp(-p**2/2mkT): write T as a sum of p**2/2m, with masses that may be "
            "parameters.",
        )
    made: list[Parameter] = []
    way = asked.bath.way
    held = held_in(system, asked)
    warm = temperature_of(system, asked.temperature, made)
    kT = warm if asked.kB == 1.0 else asked.kB * warm
    system = fixman_at(system, kT)
    states = system.states
    signs = dict.fromkeys(weights_of(system, found.inverse) if kinetic is not None else (), "positive")
    signs[warm] = "positive"
    if way in TOGETHER:
        tau = time_of(system, asked.tau, made)
        axes = () if way == TRIGGER or system.structure.turning else kept_axes(system, way)
        check_whole(system, way)
        g = sum(p.size for p in system.momenta) - len(axes) - held
        if g < 1:
            raise PlanError(
                f"bath={shown(way)} for `{system.name}`: {g} degrees of freedom are left without the motion of the whole",
                fix='Take bath="langevin", which heats that motion too.',
            )
        heat = (kT, tau, UOp.const(float(g)), *(UOp.const(float(k)) for k in axes))
        signs[tau] = "positive"
        if way in (NOSE_HOOVER, NOSE_POINCARE):
            taken = names_in(system)
            eta = free_name(taken, "eta"), free_name(taken, "p_eta")
            shape = (asked.bath.length,) if way == NOSE_HOOVER else ()
            # that of a Hamiltonian follows from the other states of the start
            starts = (None if way == NOSE_POINCARE else 0.0, 0.0)
            states += tuple(State(n, UOp.var(n, shape), "field", start=x) for n, x in zip(eta, starts))
        if way == NOSE_POINCARE and any(
            UOp.var("t") in u.leaves or system.time in u.leaves for u in (kT, tau)
        ):
            raise PlanError(
                f"a temperature or a time that depends on t with bath={shown(way)}: its energy and that of "
                f"`{system.name}` would not stay at zero together",
                fix="Take bath=tp.nose_hoover(), whose books hold what comes with the temperature.",
            )
    elif way == GLE:
        n = len(asked.bath.A)
        heat = (
            kT,
            *(
                UOp.stack([UOp.const(float(x)) for row in m for x in row], (n, n))
                for m in (asked.bath.A, asked.bath.C)
            ),
        )
        taken = names_in(system)
        states += tuple(
            State(name, UOp.var(name, p.shape), "field", start=0.0)
            for p in system.p
            for name in (free_name(taken, f"{p.arg}_s{k}") for k in range(1, n))
        )
    else:
        rates = rates_of(system, RATE if asked.friction is None else asked.friction, made)
        sign = "positive" if way == BROWNIAN else "not negative"
        signs |= dict.fromkeys(rates, sign)
        heat = (kT, *rates)
        if way == BROWNIAN:
            momenta = frozenset(system.p)
            states = tuple(replace(s, start=0.0) if s.var in momenta else s for s in states)
    own = tuple(replace(x, sign=signs.get(x.var, x.sign)) for x in (*system.parameters, *made))
    clock = (
        UOp.var("t") if system.time is None and any(UOp.var("t") in u.leaves for u in heat) else system.time
    )
    return replace(system, heat=heat, bath=way, parameters=own, states=states, time=clock, function=None)


def weights_of(system: System, inverse: Sequence[UOp]) -> list[UOp]:
    """The parameters that must be positive so that all masses are: exp(-p**2/2mkT) is no law with a negative one."""
    out: list[UOp] = []
    for w in inverse:
        known = dict.fromkeys((x.var for x in system.parameters), (0.0, math.inf))
        if range_of(w, known)[0] < 0.0:
            raise PlanError(
                f"temperature= for `{system.name}`, whose masses are not shown to be positive: 1/m is {w}",
                site=system.site,
                fix="Write T as a sum of p**2/2m with masses that are numbers above zero, or parameters.",
            )
        for x in list(known):
            fewer = {y: r for y, r in known.items() if y is not x}
            known = fewer if range_of(w, fewer)[0] >= 0.0 else known
        out += known
    return out


def kept_axes(system: System, way: str) -> tuple[int, ...]:
    """The axes along which an energy is shown to keep the momentum of the whole: a bath that scales does not heat that."""
    assert system.energy is not None
    layout = layout_of(system)
    held = [
        (UOp.var(f"multipliers {k}", g.shape) * g).sum()
        for k, g in enumerate(system.tensor if system.bracket == CONSTRAINED else ())
    ]
    energy = UOp.sum_of([system.energy, *held])
    arrays = (
        len(layout.pairs) == len(system.pairs) and not layout.of_scalars and layout.pairs[0][0].shape != ()
    )
    axes = tuple(
        k
        for k in range(layout.dimensions if layout.pairs else 0)
        if proved(system, energy, translation(layout, k)) is not None
    )
    other = bool(axes) and not arrays
    whole = replace(system, energy=energy)
    if not axes and 1 < sum(p.size for p in system.p) <= FEW and (found := written_out(whole)) is not None:
        other = bool(directions(whole, *found))
    if other:
        raise PlanError(
            f"bath={shown(way)} for `{system.name}`, whose forces keep a sum of momenta that is not that of an array",
            fix='Write the positions as one array, q: tp.Array["n", 3] in space or tp.Array["n", 1] on a line, or take '
            'bath="langevin".',
        )
    return axes


def check_whole(system: System, way: str) -> None:
    """An error where bodies turn and points among them keep the momentum of the whole: it would stay along one direction."""
    if not system.structure.turning or not system.pairs:
        return
    assert system.energy is not None
    d = {(q.shape[-1] if q.shape[-1] in (2, 3) else 1) if q.shape else 1 for q in system.q}
    if any(translates(system.energy, list(system.q), list(system.p), axis) for axis in range(max(d))):
        raise PlanError(
            f"bath={shown(way)} for `{system.name}`, whose bodies turn and whose forces keep the momentum of the whole",
            fix='Take bath="langevin", which heats that motion too.',
        )


ALONG = (LANGEVIN, BUSSI, NOSE_HOOVER)  # baths that keep the law of momenta along constraints
NOT_ALONG = {  # why others do not
    ANDERSEN: "a collision gives one body a new momentum, and what rods leave of it has not Maxwell's law",
    BROWNIAN: "its positions need a force that comes from how rods share masses, which is not computed",
    GLE: "the numbers beside momenta would have to turn with the rods",
    TRIGGER: "it takes heat and gives none back",
    NOSE_POINCARE: "its Hamiltonian has no part for rods",
}


def held_in(system: System, asked: Asked) -> int:
    """How many numbers constraints hold: so many degrees of freedom less."""
    if system.bracket != CONSTRAINED:
        return 0
    way = asked.bath.way
    if way not in ALONG:
        raise PlanError(
            f"bath={shown(way)} with the constraints of `{system.name}`: {NOT_ALONG[way]}",
            fix=f"Take {one_of([f'bath={shown(x)}' for x in ALONG])}, or write stiff springs in place of the constraints.",
        )
    if (
        isinstance(asked.friction, dict)
        or np.ndim(asked.friction)
        or friction_is_array(system, asked.friction)
    ):
        raise PlanError(
            f"friction= number by number with the constraints of `{system.name}`: rods tie momenta together",
            fix="Pass one rate for all: friction=1.0.",
        )
    return sum(g.size for g in system.tensor)


def friction_is_array(system: System, friction: Any) -> bool:
    own = {x.name: x.var for x in system.parameters}
    return isinstance(friction, str) and friction in own and bool(own[friction].shape)


def fixman_at(system: System, kT: UOp) -> System:
    """The same with the thermal energy of the bath in the potential of its rigid bonds (tp.rigid_bonds(fixman=True))."""
    if not system.fixman:
        return system
    if system.fixman[0] is not OF_BATH:
        raise PlanError(
            f"fixman= of `{system.name}` is a number of its own, and its bath has another temperature",
            fix="Pass fixman=True: it takes the temperature of the bath.",
        )
    assert system.energy is not None
    energy, *terms = substitute([system.energy, *(u for _, u in system.parts)], {OF_BATH: kT})
    parts = tuple((name, u) for (name, _), u in zip(system.parts, terms))
    return replace(system, energy=energy, parts=parts, fixman=(kT,))


def check_fixman(system: System | SizedFamily) -> None:
    """An error where rigid bonds ask for the temperature of a bath that is not there."""
    if isinstance(system, System) and system.fixman and system.fixman[0] is OF_BATH:
        raise PlanError(
            f"fixman=True for `{system.name}` without a bath: there is no temperature to take",
            fix="Compile it with temperature=1.0, or pass fixman=kT as a number.",
        )


TURNING = (LANGEVIN, ANDERSEN, BUSSI, NOSE_HOOVER)  # baths of bodies that turn
NOT_TURNING = {  # why others are not
    NOSE_POINCARE: "its Hamiltonian has no part for turns",
    BROWNIAN: "it moves positions, and attitudes are none",
    GLE: "it remembers momenta along fixed axes, and those of bodies turn",
    TRIGGER: "it takes heat and gives none back",
}


def kinetic_of(system: System, asked: Asked) -> UOp:
    """The kinetic energy, of bodies that turn with that of their angular momenta."""
    if not system.structure.turning:
        found: UOp = separable(system).T
        return found
    if asked.bath.way not in TURNING:
        raise PlanError(
            f"bath={shown(asked.bath.way)} for `{system.name}`, whose bodies turn: {NOT_TURNING[asked.bath.way]}",
            fix=f"Take {one_of([f'bath={shown(x)}' for x in TURNING])}.",
        )
    split = turns(system)
    assert split is not None
    return UOp.sum_of([u for u in (split.T, split.K) if u is not None])


def check_bodies(system: System) -> None:
    """Bodies with a kinetic energy of angular momenta that are free numbers: not spins, and not axes that do not spin."""
    for kind in system.structure.turning:
        if not kind.decays:
            raise PlanError(
                f"temperature= for `{system.name}`: spins have no kinetic energy, and a bath would change their length",
                fix="Sample them: tp.random in a @tp.map, a new direction accepted with exp(-dH/kT).",
            )
        if isinstance(kind, Axes):
            raise PlanError(
                f"temperature= for `{system.name}`: noise would spin bodies about their axes, which have no such motion",
                fix="Write them as two points with a rod between them, or as rotors.",
            )
    if system.time is not None:
        raise PlanError(
            f"temperature= cannot be combined with `{system.name}` yet, whose bodies turn and whose energy depends on t",
            fix="Leave t out.",
        )
    found = turns(system)
    if not found:
        why = "its states do not turn" if found is None else found.because
        raise PlanError(
            f"temperature= for `{system.name}`: {why}",
            site=None if found is None else found.site,
            fix="Write an energy T(L) + V(R) with a moment of inertia for each axis.",
        )


def check_momenta(system: System) -> None:
    if system.kind not in ("hamiltonian", "forces"):
        raise PlanError(
            f"temperature= for `{system.name}`, which is given by its {system.kind}: it has no momenta to heat",
            fix="Write it as an energy H(q, p), or write the noise into a @tp.map: tp.random.normal().",
        )
    if system.kind == "forces":
        raise PlanError(
            f"temperature= for `{system.name}`, which is given by its forces: without an energy there is no law exp(-H/kT)",
            fix="Write its energy: @tp.hamiltonian.",
        )
    if system.structure.turning:
        return check_bodies(system)
    if system.structure.headline != FIVE[0]:
        raise PlanError(
            f"temperature= for `{system.name}`, whose states are no pairs of positions and momenta alone",
            fix="Leave temperature= out.",
        )
    if system.levels or system.clock is not None or system.motion is not None:
        what, instead = (
            ("fast and slow parts", "Leave tp.fast and tp.slow out: a + b.") if system.levels
            else ("time=", "Leave time= out.") if system.clock
            else ("a Lagrangian", "Write an energy H(q, p).")
        )  # fmt: skip
        raise PlanError(f"temperature= cannot be combined with {what} yet", fix=instead)
    if not (split := separable(system)):
        raise PlanError(
            f"temperature= for `{system.name}`, whose energy is not shown to be T(p) + V(q): {split.because}",
            site=split.site,
            fix="A bath acts on mass times velocity, which p is not here. Write H = p**2/2m + V(q).",
        )


def names_in(system: System) -> tuple[str, ...]:
    return (*(s.name for s in system.states), *(x.name for x in system.parameters))


def free_name(taken: tuple[str, ...], name: str) -> str:
    """The name of a parameter of the bath: its own, unless the system has it."""
    return name if name not in taken else f"bath_{name}"


def temperature_of(system: System, temperature: Any, made: list[Parameter]) -> UOp:
    """One number for a run, or one for each member: a parameter, which the system has or which is added to `made`."""
    if callable(temperature):
        return of_time(system, "temperature", temperature)
    if isinstance(temperature, str):
        own = {x.name: x.var for x in system.parameters}
        if temperature not in own:
            raise InputError(
                f'temperature="{temperature}": `{system.name}` has no parameter of that name',
                fix=f"{did_you_mean(temperature, own)}Add it to the function, or pass a number: temperature=1.0.",
            )
        if own[temperature].shape:
            raise InputError(
                f'temperature="{temperature}": the parameter has the shape {own[temperature].shape}',
                fix="A bath has one temperature; members of an ensemble may have one each.",
            )
        return own[temperature]
    if isinstance(temperature, (bool, np.bool_)):
        raise InputError(f"temperature={temperature} is not a temperature", fix=WARM)
    try:
        numbers = np.asarray(temperature, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"temperature={shown(temperature)} is not a temperature", fix=WARM) from None
    if numbers.ndim:
        raise InputError(
            f"temperature= has the shape {numbers.shape}",
            fix="Pass one number here; one for each member of an ensemble goes to evolve(temperature=[...]).",
        )
    number = checked(float(numbers))
    name = free_name(names_in(system), TEMPERATURE)
    made.append(Parameter(name, UOp.var(name), number))
    return made[-1].var


def of_time(system: System, what: str, function: Callable[..., Any]) -> UOp:
    """A function of t, and of parameters of the system by their names."""
    known = {"t": UOp.var("t") if system.time is None else system.time} | {
        x.name: x.symbol for x in system.parameters
    }
    names = list(inspect.signature(function).parameters)
    if unknown := next((name for name in names if name not in known), None):
        raise InputError(
            f"{what}= is a function of `{unknown}`, which is neither t nor a parameter of `{system.name}`",
            fix=f"{what}=lambda t: 2.0 - 0.01*t.",
        )
    found = as_uop(function(*(known[name] for name in names)))
    if found.shape:
        raise InputError(f"{what}= gives {found.shape} numbers", fix="Return one number.")
    return found


def time_of(system: System, tau: Any, made: list[Parameter]) -> UOp:
    """The time of a bath, as its temperature is given."""
    if callable(tau):
        return of_time(system, TAU, tau)
    if isinstance(tau, str):
        own = {x.name: x.var for x in system.parameters}
        if tau not in own or own[tau].shape:
            raise InputError(
                f'tau="{tau}": `{system.name}` has no parameter of that name that is one number',
                fix=f"{did_you_mean(tau, own)}Add it to the function, or pass a number: tau=1.0.",
            )
        return own[tau]
    fix = "Pass a time above zero: tau=1.0; one for each member of an ensemble goes to evolve(tau=[...])."
    try:
        number = float(TIME if tau is None else tau)
    except (TypeError, ValueError):
        raise InputError(f"tau={shown(tau)} is not a time", fix=fix) from None
    if isinstance(tau, (bool, np.bool_)) or not np.isfinite(number) or number <= 0:
        raise InputError(f"tau={shown(tau)} is not above zero", fix=fix)
    made.append(
        Parameter(free_name(names_in(system), TAU), UOp.var(free_name(names_in(system), TAU)), number)
    )
    return made[-1].var


def rates_of(system: System, friction: Any, made: list[Parameter]) -> list[UOp]:
    """For each momentum the rate at which it forgets: one number for a run, or one for each number of the momentum."""
    if callable(friction):
        return [of_time(system, FRICTION, friction)] * len(system.momenta)
    if isinstance(friction, dict):
        known = [str(p.arg) for p in system.momenta]
        if unknown := next((name for name in friction if name not in known), None):
            raise InputError(
                f"friction= for `{unknown}`, which is no momentum", fix=f"It has {one_of(known)}."
            )
        return [rate_of(system, p, friction.get(str(p.arg), 0.0)) for p in system.momenta]
    found = [rate_of(system, p, friction) for p in system.momenta]
    if isinstance(friction, str) or np.ndim(friction):
        return found
    name = free_name(names_in(system), FRICTION)
    made.append(Parameter(name, UOp.var(name), float(friction)))
    return [made[-1].var] * len(found)


def checked(temperature: float) -> float:
    if not np.isfinite(temperature) or temperature <= 0:
        raise InputError(
            f"temperature={shown(temperature)} is not above zero", fix=COLD if temperature == 0 else WARM
        )
    return temperature


# --- the default of runs, which a simulation may change ----------------------------------------------
def parameter_of(system: System) -> Parameter | None:
    """What a run gives the temperature by."""
    warm = system.heat[0].leaves if system.heat else frozenset()
    return next((x for x in system.parameters if x.var in warm), None)


def boltzmann(system: System) -> float:
    """Boltzmann's constant in the units of the system: k_B T over T."""
    kT = system.heat[0]
    return next((float(u.arg) for u in kT.src if u.op is Ops.CONST), 1.0)


def without_bath(system: System, what: str) -> PlanError:
    if system.heat:
        return PlanError(
            f"{what}: the temperature of `{system.name}` is a function of t alone",
            fix="Make the function one of a parameter too: temperature=lambda t, T0: T0 - 0.01*t.",
        )
    return PlanError(
        f"{what}: `{system.name}` has no bath",
        fix="Compile it with one: sim = tp.compile(system, dt, temperature=300.0).",
    )


def default_temperature(system: System | SizedFamily) -> float:
    if isinstance(system, SizedFamily):
        raise PlanError(
            f"the temperature of `{system.name}` is known after its first run", fix="Pass sizes= to compile."
        )
    if (found := parameter_of(system)) is None:
        raise without_bath(system, "sim.temperature")
    return float(found.default)


def at_temperature(system: System | SizedFamily, temperature: Any) -> System | SizedFamily:
    """The same with another default."""
    what = f"sim.temperature = {shown(temperature)}"
    try:
        number = checked(float(temperature))
    except (TypeError, ValueError):
        raise InputError(f"{what} is not a temperature", fix=WARM) from None
    if isinstance(system, SizedFamily):
        family = system
        return replace(family, build=lambda sizes: at_temperature(family.build(sizes), number))  # type: ignore[arg-type,return-value]
    if (found := parameter_of(system)) is None:
        raise without_bath(system, what)
    new = tuple(replace(x, default=number) if x is found else x for x in system.parameters)
    return replace(system, parameters=new)
