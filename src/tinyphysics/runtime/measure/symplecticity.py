"""Is a step symplectic when measured?  Its Jacobian by exact derivatives, in 106 bits, at dt, 2 dt and 4 dt.

A defect that scales with dt is not rounding, however small: RK4 on an oscillator at dt = 0.01 has 1.4e-14,
which float64 would take for noise. So constants that rules make of others are not rounded here: 2^-53 of a coefficient,
in one place and not in another, is a defect that scales with dt too. "Not symplectic" does not say that the energy drifts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from types import FunctionType
from typing import Any

from tinyphysics.errors import InputError, VerifyError
from tinyphysics.front.trace import map_
from tinyphysics.ir import Ops, UOp, elements, substitute, toposort
from tinyphysics.ir.fourier import roots_in_words
from tinyphysics.options import heeds
from tinyphysics.pipeline import in_exact_constants
from tinyphysics.poisson import starts
from tinyphysics.rules.calculus.custom import inline
from tinyphysics.rules.calculus.unroll import unroll
from tinyphysics.rules.formulas.constraints import jacobian
from tinyphysics.rules.identities.exact import unrounded
from tinyphysics.runtime.measure.multirate import choose_inner_steps
from tinyphysics.runtime.measure.one_step import OneStep
from tinyphysics.runtime.measure.precise import arithmetic
from tinyphysics.runtime.stages.constraints import check_start
from tinyphysics.runtime.stages.flow_matrices import flows_of, with_flows
from tinyphysics.runtime.stages.invariants import own_invariants
from tinyphysics.runtime.stages.momenta_of_velocities import given_momenta
from tinyphysics.runtime.stages.resolve import checked_step
from tinyphysics.runtime.stages.setup import Setup
from tinyphysics.runtime.state.ensemble import Inputs, inputs
from tinyphysics.runtime.state.from_frame import opened
from tinyphysics.structure import FIVE, Canonical, Structure
from tinyphysics.system import SizedFamily, System
from tinyphysics.tpir.kernels.kernel import NOW, ORIGIN, STEP, made_anew
from tinyphysics.tpir.program.free_bodies import DIGITS, jacobian_of_bodies, moved_bodies
from tinyphysics.tpir.proof.readers.kepler import in_frame
from tinyphysics.util import a_kind

# a simulation, a map, or a plain function of states
Measurable = Setup | System | SizedFamily | Callable[..., Any]
SOME_ORDER = 0.25  # less than that is no step of a flow
ROUNDING = 2.0**-90  # of a step of a few thousand operations in 106 bits


@dataclass(frozen=True)
class Defect:
    """|MᵀJM - J| / |M|² of one step, at dt, 2 dt and 4 dt; of a map without step=, at a state and the next two of its orbit.

    `determinant` is det M - 1 at the same places, `reversibility` how far a step, a turned momentum, a step and a turned
    momentum lead away from where they began, relative to the state, and `order` how the error of a step falls with it.
    """

    step: str
    dt: float | None  # None: a map, which has no step to be shortened
    values: tuple[float, float, float]
    claim: str = field(default=FIVE[0], repr=False)  # what a step without a defect is
    form: str = field(default=Structure.measured, repr=False)  # what is measured
    of: OneStep | None = field(default=None, repr=False, compare=False)
    unsafe: str = field(default="", repr=False)  # why it is not meant to be symplectic

    @property
    def symplectic(self) -> bool:
        return max(self.values) < ROUNDING

    @property
    def power(self) -> float | None:
        """The defect falls as this power of dt; None where it is rounding."""
        if self.dt is None or self.symplectic or not self.values[1]:
            return None
        return math.log2(self.values[2] / self.values[1])

    @cached_property
    def determinant(self) -> tuple[float, float, float] | None:
        """det M - 1; None of a step whose Jacobian is not written out."""
        asked = self.of is not None and "volume-preserving" in self.of.structure.claims
        return self.of.determinants() if asked and self.of is not None else None

    @cached_property
    def volume_factor(self) -> tuple[float, float, float] | None:
        """det M over the factor that friction has, less 1; None of a step without friction, or of attitudes."""
        asked = self.of is not None and "volume-factor" in self.of.structure.claims
        return self.of.factors() if asked and self.of is not None and not self.of.structure.turning else None

    @cached_property
    def reversibility(self) -> tuple[float, float, float] | None:
        """None where no momentum is known that could be turned."""
        return None if self.of is None else self.of.reversals()

    @property
    def volume_preserving(self) -> bool | None:
        return None if self.determinant is None else max(map(abs, self.determinant)) < ROUNDING

    @property
    def reversible(self) -> bool | None:
        return None if self.reversibility is None else max(self.reversibility) < ROUNDING

    @cached_property
    def order(self) -> float | None:
        """By one step of h against two of h/2, at ever shorter steps; None of a map without step=."""
        return None if self.of is None or self.dt is None else self.of.order()

    @property
    def called(self) -> str:
        """The step, as messages call it."""
        return f"`{self.step}`" if self.of is None or not self.of.is_map else f"Function {self.step}"

    def __str__(self) -> str:
        if self.dt is None:
            if self.symplectic:
                return f"{self.called} is {self.claim} at this state and the next two: {self.form}/|M|² is rounding"
            return (
                f"{self.called} is not {self.claim}: {self.form}/|M|² is {max(self.values):.2e} on its orbit"
            )
        h = "dt" if self.of is None or not self.of.is_map else self.of.system.step
        if self.symplectic:
            return f"{self.called} is {self.claim}: {self.form}/|M|² is rounding at {h}, 2 {h} and 4 {h}"
        power = "" if self.power is None else f" and falls as {h}^{self.power:.1f}"
        return f"{self.called} is not {self.claim}: {self.form}/|M|² is {self.values[0]:.2e} at {h} = {self.dt:g}{power}"


@dataclass(frozen=True)
class StepCheck(Defect):
    """What `sim.check` found of one step at a state: print it."""

    def __str__(self) -> str:
        lines = [Defect.__str__(self)]
        if self.unsafe:
            lines.append(f"  not claimed: unsafe={self.unsafe!r}")
        if self.determinant is not None:
            off = max(self.determinant, key=abs)
            lines.append(
                f"  volume        {'kept: det M is 1' if self.volume_preserving else f'det M - 1 is {off:.2e}'}"
            )
        if self.volume_factor is not None:
            off = max(self.volume_factor, key=abs)
            met = max(map(abs, self.volume_factor)) < ROUNDING
            told = (
                "multiplied by the factor of friction"
                if met
                else f"det M over the factor of friction, less 1, is {off:.2e}"
            )
            lines.append(f"  volume        {told}")
        if self.reversibility is not None:
            told = "yes" if self.reversible else f"no: off by {max(self.reversibility):.2e} of the state"
            lines.append(f"  reversible    {told}")
        if self.order is not None:
            none = "none: the step does not become the identity as it gets shorter"
            lines.append(f"  order         {f'{self.order:.2f}' if self.order > SOME_ORDER else none}")
        return "\n".join(lines)


def subject(what: Measurable) -> Setup:
    """A simulation as it is; a map, or a plain function of states, made ready; of a step, the one that it is of."""
    if isinstance(what, Setup):
        return what
    if isinstance(what, FunctionType) and hasattr(what, "simulation"):  # a step of tinyphysics.kernel
        made: Setup = what.simulation()
        return made
    system: Any = map_(what) if callable(what) and not hasattr(what, "bind") else what
    if getattr(system, "kind", "") != "map":
        raise InputError(
            f"{a_kind(what)} is not a step that can be measured",
            fix="Pass a simulation, sim = tp.compile(system, dt=0.01), or a map.",
        )
    sim: Setup = system.compile()
    return sim


def structure_to_keep(system: System, pairs: Any) -> Structure:
    """What a step is measured against: that of the system, or canonical pairs that are given or plain."""
    if pairs is None and (own := system.structure).states:
        with unrounded():
            return own.differentiated(lambda u, state: jacobian(unroll([u])[0], elements(state)))
    known = {s.name: s.var for s in system.states}
    found = [(known[q], known[p]) for q, p in pairs_of(system, pairs)]
    for q, p in found:
        if q.size != p.size:
            raise InputError(
                f"`{q.arg}` and `{p.arg}` have different sizes",
                fix="Both members of a pair must have the same shape.",
            )
    return Canonical(tuple(found))


def pairs_of(system: System, pairs: Any) -> list[tuple[str, str]]:
    """The canonical pairs of a map by name: given, or of a map with two states those two."""
    names = [s.name for s in system.states]
    if pairs is not None:
        listed = [tuple(pair) for pair in pairs]
        if sorted(n for pair in listed for n in pair) != sorted(names) or any(len(p) != 2 for p in listed):
            raise InputError(
                f"pairs={pairs!r} are not the states of `{system.name}` in pairs",
                fix=f"Name every state once: {', '.join(names)}.",
            )
        return listed
    if system.kind == "map" and len(names) == 2:
        return [(names[0], names[1])]
    if system.kind == "map" and len(names) % 2 == 0:
        raise InputError(
            f"`{system.name}` has the states {', '.join(names)}, and it is not known which of them form pairs",
            fix='Pass pairs=[("x", "px"), ("y", "py")], or declare them: @tp.map(pairs=[...]).',
        )
    raise InputError(
        f"`{system.name}` has no momenta", fix="Only systems of canonical pairs can be symplectic."
    )


@heeds("measure_symplectic", "tp.measure_symplectic(sim, q=..., p=...)")
def measure_symplectic(sim: Measurable, dt: float | None = None, pairs: Any = None, **given: Any) -> Defect:
    """Measures how far one step is from symplectic: |MᵀJM - J| of its Jacobian M, in 106 bits.

    The step is measured as its formulas say, with no coefficient rounded that is computed from others.
    `sim` is what tp.compile returned, or any map. The state and parameters are `given` by name, as to `evolve`; `dt` is
    the step, that of the simulation if it is left out; `pairs`, as [("x", "px"), ("y", "py")], are the canonical pairs
    of a map that does not declare them. It needs the package mpmath: pip install "tinyphysics[measure]".
    """
    setup = subject(sim)
    setup.in_own_time("check")
    system = setup.system
    structure = structure_to_keep(system, pairs)
    if setup.compiled.adaptive:
        raise InputError(
            f"`{setup.built.plan.method}` chooses its own steps: it has no fixed step to measure",
            fix="Its certificate is in sim.explain().",
        )
    is_map = system.kind == "map"
    if is_map and dt is not None:
        raise InputError(f"`{system.name}` is a map: it has no dt", fix="Leave dt= out.")
    h = 1.0 if is_map else checked_step(setup.goal.dt if dt is None else dt)
    given, _ = opened(setup.own_names, given, 0.0)
    if is_map and system.step:
        defaults = {x.name: x.default for x in system.parameters}
        h = checked_step(given.get(system.step, defaults[system.step]))
    if system.levels and not setup.goal.inner:
        choose_inner_steps(setup, given, h, 0.0, None)
    i = inputs(system, given_momenta(system, given))
    check_start(system, i)
    if system.contacts:
        raise InputError(
            f"`{system.name}` has contacts: nothing is claimed of its steps that could be measured",
            fix="Compile the energy without tp.contact.",
        )
    if system.crossings:
        raise InputError(
            f"`{system.name}` has walls or events: steps that meet one are cut there, and these cannot be measured yet",
            fix="Compile the energy without them to measure the steps between events.",
        )
    if i.is_ensemble:
        raise InputError("the symplectic defect is measured for one member at a time", fix="Pass one member.")
    if in_frame(setup.tpir):
        raise InputError(
            "the symplectic defect of steps on Kepler orbits cannot be measured yet: they have no derivative here",
            fix="Its certificate is in sim.explain().",
        )
    if system.heat:
        raise InputError(
            f"a step of `{system.name}` has a bath: the form of its positions and momenta alone does not stay as it is",
            fix="sim.certificate says what it keeps; without temperature= the form can be measured.",
        )
    if any(u.op is Ops.RANDOM for u in toposort([*system.update, *system.equations])):
        raise InputError(
            f"a step of `{system.name}` draws random numbers, and each draw has another Jacobian",
            fix="Measure the step without its noise.",
        )
    if setup.compiled.jump is not None:
        return defect_of_bodies(setup, h, i) if structure.turning else defect_of_jump(setup, h, given)
    step = one_step(setup, i, h, structure)
    try:
        values = step.defects()
    except (ZeroDivisionError, TypeError, ValueError):  # 1/0, and complex values of real functions
        values = [math.nan] * 3
    if not all(map(math.isfinite, values)):
        raise InputError(
            f"a step of `{system.name}` is not finite at this state",
            fix="Choose a state away from the singularity.",
        )
    what = system.name if is_map else f"{setup.built.plan.method} of {system.name}"
    return Defect(
        what,
        h if step.has_step else None,
        (values[0], values[1], values[2]),
        structure.called or structure.headline,
        structure.measured,
        step,
        system.unsafe,
    )


def one_step(setup: Setup, i: Inputs, h: float, structure: Structure) -> OneStep:
    system, program = setup.system, in_exact_constants(setup.built)
    with unrounded(), roots_in_words(3):
        kernel = made_anew(program)
        start = dict(zip(kernel.carried, kernel.functions["init"]))
        after = dict(zip(kernel.carried, substitute(kernel.whole_step(), start)))
        ends = substitute(
            substitute(kernel.functions["final"], after), own_invariants(setup.goal, system, kernel)
        )
        outputs = inline(ends)

    def given_at(dt: float) -> dict[UOp, Any]:
        """All that a step of this length reads: the matrices of turns are others for another one."""
        now = with_flows(i, program, dt) if flows_of(program) else i
        out: dict[UOp, Any] = {NOW: 0, ORIGIN: 0, STEP: dt}
        for p in kernel.params:
            name, _, index = str(p.arg)[1:].partition(".")
            if p is not STEP and p is not ORIGIN and name in now.params:
                out[p] = dt if name == system.step else now.params[name][0].ravel()[int(index or 0)].item()
        return out

    flat = [x for s in system.states for x in i.states[s.name][0].ravel().tolist()]
    found = OneStep(system, kernel.inputs, outputs, structure, h, flat, given_at)
    if not structure.settles:
        return found
    return replace(
        found, start=found.image(h, found.image(-h, flat))
    )  # in as many digits as it is measured in


def defect_of_jump(sim: Setup, dt: float, given: Mapping[str, Any]) -> Defect:
    """A jump has no kernel: it says in double-double how well it preserves areas, over one, two and four steps."""
    told = [sim.evolve(**given, dt=dt, steps=k, frames=2).metrics["propagator"] for k in (1, 2, 4)]
    if not all("area_error" in x for x in told):
        raise InputError(
            f"a jump by {told[0]['by']} does not measure how well it preserves areas",
            fix="Its certificate is in sim.explain().",
        )
    one, two, four = (float(x["area_error"]) for x in told)
    structure, what = sim.system.structure, f"{sim.built.plan.method} of {sim.system.name}"
    return Defect(what, dt, (one, two, four), structure.headline, structure.measured)


def defect_of_bodies(setup: Setup, dt: float, i: Inputs) -> Defect:
    """Of a jump of free bodies: its formula in 120 digits, with differences for derivatives."""
    system, structure, mp = setup.system, setup.system.structure, arithmetic()
    now = {s.var: [float(x) for x in i.states[s.name][0].ravel()] for s in system.states}
    own = {name: [float(x) for x in v[0].ravel()] for name, v in i.params.items()}
    assert system.energy is not None
    by = [(x, k) for x in now for k in range(x.size)]
    places = dict(zip(now, starts(list(now))))
    values = []
    with mp.workdps(60):
        z = [mp.mpf(x) for v in now.values() for x in v]
        for steps in (1, 2, 4):
            of = structure.turning, system.energy, now, own, steps * Fraction(dt)
            new = moved_bodies(*of, 2 * DIGITS)
            columns = [[mp.mpf(str(x)) for x in column] for column in jacobian_of_bodies(*of, by)]
            M = [list(row) for row in zip(*columns)]
            ends = [mp.mpf(str(x)) for state in now for x in new[state]]
            found = structure.defect(M, places, z, ends)
            worst = max(abs(sum(products) - wanted) for _, _, products, wanted in found)
            values.append(float(worst / max(max(sum(x * x for x in column) for column in columns), 1)))
    what = f"{setup.built.plan.method} of {system.name}"
    return Defect(what, dt, (values[0], values[1], values[2]), structure.headline, structure.measured)


@heeds("assert_symplectic", "tp.assert_symplectic(sim, q=..., p=...)")
def assert_symplectic(sim: Measurable, dt: float | None = None, pairs: Any = None, **given: Any) -> Defect:
    """Raises a VerifyError unless one step of a simulation is measured to be symplectic, up to rounding.

    `sim`, `dt`, `pairs` and the state `given` by name are those of `tp.measure_symplectic`, whose result it returns.
    """
    found = measure_symplectic(sim, dt, pairs, **given)
    if not found.symplectic:
        raise not_symplectic(found)
    return found


def not_symplectic(found: Defect) -> VerifyError:
    own = (
        ' In a map of your own, unsafe="friction" says that it is not.'
        if found.called.startswith("F")
        else ""
    )
    return VerifyError(
        str(Defect.__str__(found)),
        fix="Splitting methods are symplectic; friction, noise and Runge–Kutta steps are not "
        f"meant to be, so do not assert it for them.{own}",
    )


def check_step(setup: Setup, dt: float | None, given: Mapping[str, Any]) -> StepCheck:
    """What a step is at a state, against what it claims: the pairs of a map, or the certificate of a method."""
    d = measure_symplectic(setup, dt, None, **given)
    found = StepCheck(d.step, d.dt, d.values, d.claim, d.form, d.of, d.unsafe)
    claimed = (
        bool(setup.system.p) and not found.unsafe
        if setup.system.kind == "map"
        else bool(setup.built.certificate.get(d.claim))
    )
    if claimed and not found.symplectic:
        raise not_symplectic(found)
    return found
