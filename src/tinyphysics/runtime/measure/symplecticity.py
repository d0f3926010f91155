"""Is a step symplectic when measured?  Its Jacobian by exact derivatives, in 106 bits, at dt, 2 dt and 4 dt.

A defect that scales with dt is not rounding, however small: RK4 on an oscillator at dt = 0.01 has 1.4e-14,
which float64 would take for noise. "Not symplectic" does not say that the energy drifts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any

from tinyphysics.errors import InputError, VerifyError
from tinyphysics.front.trace import map_
from tinyphysics.ir import UOp, substitute
from tinyphysics.rules.calculus.custom import inline
from tinyphysics.rules.calculus.jvp import jvp
from tinyphysics.runtime.measure.multirate import set_paces
from tinyphysics.runtime.measure.precise import arithmetic, precise
from tinyphysics.runtime.stages.flow_matrices import flows_of, with_flows
from tinyphysics.runtime.stages.invariants import own_invariants
from tinyphysics.runtime.stages.momenta_of_velocities import given_momenta
from tinyphysics.runtime.stages.resolve import checked_step
from tinyphysics.runtime.stages.setup import Setup
from tinyphysics.runtime.state.ensemble import inputs
from tinyphysics.runtime.state.from_frame import opened
from tinyphysics.structure import FIVE, Canonical, Structure
from tinyphysics.system import SizedFamily, System
from tinyphysics.tpir.kernels.kernel import NOW, ORIGIN, STEP, build_kernel
from tinyphysics.tpir.proof.readers.kepler import in_frame
from tinyphysics.util import a_kind

# a simulation, a map, or a plain function of states
Measurable = Setup | System | SizedFamily | Callable[..., Any]
BITS = 106  # two doubles
ROUNDING = 2.0**-90  # of a step of a few thousand operations in 106 bits
MOST_COMPONENTS = 32


@dataclass(frozen=True)
class Defect:
    """|MᵀJM - J| / |M|² of one step, at dt, 2 dt and 4 dt; of a map, at a state and the next two of its orbit."""

    step: str
    dt: float | None  # None: a map, which has no step to be shortened
    values: tuple[float, float, float]
    claim: str = field(default=FIVE[0], repr=False)  # what a step without a defect is
    form: str = field(default=Structure.measured, repr=False)  # what is measured

    @property
    def symplectic(self) -> bool:
        return max(self.values) < ROUNDING

    @property
    def power(self) -> float | None:
        """The defect falls as this power of dt; None where it is rounding."""
        if self.dt is None or self.symplectic or not self.values[1]:
            return None
        return math.log2(self.values[2] / self.values[1])

    def __str__(self) -> str:
        if self.dt is None:
            if self.symplectic:
                return f"`{self.step}` is {self.claim} at this state and the next two: {self.form}/|M|² is rounding"
            return (
                f"`{self.step}` is not {self.claim}: {self.form}/|M|² is {max(self.values):.2e} on its orbit"
            )
        if self.symplectic:
            return f"`{self.step}` is {self.claim}: {self.form}/|M|² is rounding at dt, 2 dt and 4 dt"
        power = "" if self.power is None else f" and falls as dt^{self.power:.1f}"
        return f"`{self.step}` is not {self.claim}: {self.form}/|M|² is {self.values[0]:.2e} at dt = {self.dt:g}{power}"


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
        return own
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


def measure_symplectic(sim: Measurable, dt: float | None = None, pairs: Any = None, **given: Any) -> Defect:
    """Measures how far one step is from symplectic: |MᵀJM - J| of its Jacobian M, in 60 digits.

    `sim` is what tp.compile returned, or any map. The state and parameters are `given` by name, as to `evolve`; `dt` is
    the step, that of the simulation if it is left out; `pairs`, as [("x", "px"), ("y", "py")], are the canonical pairs
    of a map that does not declare them. It needs the package mpmath: pip install "tinyphysics[measure]".
    """
    setup = subject(sim)
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
    if system.levels and not setup.goal.inner:
        set_paces(setup, given, h, 0.0, None)
    i = inputs(system, given_momenta(system, given))
    if i.is_ensemble:
        raise InputError("the symplectic defect is measured for one member at a time", fix="Pass one member.")
    if in_frame(setup.tpir):
        raise InputError(
            "the symplectic defect of steps on Kepler orbits cannot be measured yet: they have no derivative here",
            fix="Its certificate is in sim.explain().",
        )
    if setup.compiled.jump is not None:
        return defect_of_jump(setup, h, given)
    kernel = build_kernel(setup.built.exact)
    if len(kernel.inputs) > MOST_COMPONENTS:
        raise InputError(
            f"{len(kernel.inputs)} components are too many to write the Jacobian out",
            fix=f"Measure a system of the same kind with up to {MOST_COMPONENTS}; the certificate is in sim.explain().",
        )
    start = dict(zip(kernel.carried, kernel.functions["init"]))
    after = dict(zip(kernel.carried, substitute(kernel.whole_step(), start)))
    outputs = inline(
        substitute(substitute(kernel.functions["final"], after), own_invariants(setup.goal, system, kernel))
    )
    columns = []
    for k in range(len(kernel.inputs)):
        direction = [UOp.const(float(j == k)) for j in range(len(kernel.inputs))]
        columns.append(jvp(outputs, list(kernel.inputs), direction))
    env: dict[UOp, Any] = {NOW: 0, ORIGIN: 0}
    flat = [x for s in system.states for x in i.states[s.name][0].ravel().tolist()]
    env |= dict(zip(kernel.inputs, flat))

    def given_at(dt: float) -> dict[UOp, Any]:
        """All that a step of this length reads: the matrices of turns are others for another one."""
        now = with_flows(i, setup.built.exact, dt) if flows_of(setup.built.exact) else i
        out = env | {STEP: dt}
        for p in kernel.params:
            name, _, index = str(p.arg)[1:].partition(".")
            if p is not STEP and p is not ORIGIN and name in now.params:
                out[p] = now.params[name][0].ravel()[int(index or 0)].item()
        return out

    sizes = [s.var.size for s in system.states]
    places = {s.var: sum(sizes[:k]) for k, s in enumerate(system.states)}

    def measured(env: Mapping[UOp, Any]) -> float:
        return defect(columns, outputs, kernel.inputs, env, structure, places)

    try:
        if is_map:
            values = tuple(map(measured, orbit(outputs, kernel.inputs, given_at(h), 3)))
        else:
            values = tuple(measured(given_at(h * k)) for k in (1, 2, 4))
    except (ZeroDivisionError, TypeError, ValueError):  # 1/0, and complex values of real functions
        values = (math.nan,) * 3
    if not all(map(math.isfinite, values)):
        raise InputError(
            f"a step of `{system.name}` is not finite at this state",
            fix="Choose a state away from the singularity.",
        )
    what = system.name if is_map else f"{setup.built.plan.method} of {system.name}"
    return Defect(
        what, None if is_map else h, (values[0], values[1], values[2]), structure.headline, structure.measured
    )


def defect_of_jump(sim: Setup, dt: float, given: Mapping[str, Any]) -> Defect:
    """A jump has no kernel: it says in double-double how well it preserves areas, over one, two and four steps."""
    told = [sim.evolve(**given, dt=dt, steps=k, frames=2).metrics["propagator"] for k in (1, 2, 4)]
    if not all("area_error" in x for x in told):
        raise InputError(
            f"a jump by {told[0]['by']} does not measure how well it preserves areas",
            fix="Its certificate is in sim.explain().",
        )
    one, two, four = (float(x["area_error"]) for x in told)
    return Defect(f"{sim.built.plan.method} of {sim.system.name}", dt, (one, two, four))


def orbit(outputs: list[UOp], inputs: Sequence[UOp], env: dict[UOp, Any], count: int) -> list[dict[UOp, Any]]:
    """The state of a map and those that follow, in the working precision."""
    mp, out = arithmetic(), [env]
    with mp.workprec(BITS):
        for step in range(1, count):
            now = precise(outputs, out[-1], mp)
            out.append(env | dict(zip(inputs, now)) | {NOW: step})
    return out


def defect(
    columns: list[list[UOp]],
    outputs: list[UOp],
    inputs: Sequence[UOp],
    env: Mapping[UOp, Any],
    structure: Structure,
    places: Mapping[UOp, int],
) -> float:
    mp = arithmetic()
    with mp.workprec(BITS):
        flat = precise([*outputs, *(u for c in columns for u in c)], env, mp)
        n = len(columns)
        new, M = flat[:n], [[flat[n * (k + 1) + i] for k in range(n)] for i in range(n)]  # M[i] is row i
        worst, size = mp.mpf(0), max(sum(row[k] * row[k] for row in M) for k in range(n))
        for _, _, products, wanted in structure.defect(M, places, [env[x] for x in inputs], new):
            form = sum(products)
            worst = max(worst, abs(form - wanted)) if mp.isfinite(form) else mp.inf
        return float(worst / max(size, 1))


def assert_symplectic(sim: Measurable, dt: float | None = None, pairs: Any = None, **given: Any) -> Defect:
    """Raises a VerifyError unless one step of a simulation is measured to be symplectic, up to rounding.

    `sim`, `dt`, `pairs` and the state `given` by name are those of `tp.measure_symplectic`, whose result it returns.
    """
    found = measure_symplectic(sim, dt, pairs, **given)
    if not found.symplectic:
        raise VerifyError(
            str(found),
            fix="Splitting methods are symplectic; friction, noise and Runge–Kutta steps are not "
            "meant to be, so do not assert it for them.",
        )
    return found
