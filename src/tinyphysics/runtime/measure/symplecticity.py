"""Is a step symplectic when measured?  Its Jacobian by exact derivatives, in 106 bits, at dt, 2 dt and 4 dt.

A defect that scales with dt is not rounding, however small: RK4 on an oscillator at dt = 0.01 has 1.4e-14,
which float64 would take for noise. "Not symplectic" does not say that the energy drifts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import Any

from tinyphysics.errors import BackendError, InputError, VerifyError
from tinyphysics.front.trace import map_
from tinyphysics.ir import Ops, UOp, substitute, toposort
from tinyphysics.rules.calculus.custom import inline
from tinyphysics.rules.calculus.jvp import jvp
from tinyphysics.rules.calculus.solve import equations, part
from tinyphysics.runtime.api.simulation import Simulation, checked_step, given_momenta
from tinyphysics.runtime.stages.flow_matrices import flows_of, with_flows
from tinyphysics.runtime.stages.invariants import own_invariants
from tinyphysics.runtime.state.ensemble import inputs
from tinyphysics.runtime.state.from_frame import opened
from tinyphysics.system import SLOTS, System
from tinyphysics.tpir.kernels.kernel import NOW, ORIGIN, STEP, build_kernel
from tinyphysics.tpir.proof.readers.kepler import in_frame
from tinyphysics.util import a_kind

BITS = 106  # two doubles
ROUNDING = 2.0**-90  # of a step of a few thousand operations in 106 bits
MOST_COMPONENTS = 32
MOST_ROUNDS = 400  # of a solution


@dataclass(frozen=True)
class Defect:
    """|MᵀJM - J| / |M|² of one step, at dt, 2 dt and 4 dt; of a map, at a state and the next two of its orbit."""

    step: str
    dt: float | None  # None: a map, which has no step to be shortened
    values: tuple[float, float, float]

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
                return (
                    f"`{self.step}` is symplectic at this state and the next two: |MᵀJM - J|/|M|² is rounding"
                )
            return f"`{self.step}` is not symplectic: |MᵀJM - J|/|M|² is {max(self.values):.2e} on its orbit"
        if self.symplectic:
            return f"`{self.step}` is symplectic: |MᵀJM - J|/|M|² is rounding at dt, 2 dt and 4 dt"
        power = "" if self.power is None else f" and falls as dt^{self.power:.1f}"
        return f"`{self.step}` is not symplectic: |MᵀJM - J|/|M|² is {self.values[0]:.2e} at dt = {self.dt:g}{power}"


def arithmetic() -> Any:
    try:
        import mpmath
    except ImportError:
        raise BackendError("measuring a Jacobian needs mpmath", fix="pip install mpmath") from None
    return mpmath


def subject(what: Any) -> Simulation:
    """A simulation as it is; a map, or a plain function of states, made ready; of a step, the one that it is of."""
    if isinstance(what, Simulation):
        return what
    if isinstance(what, FunctionType) and hasattr(what, "simulation"):  # a step of tinyphysics.kernel
        made: Simulation = what.simulation()
        return made
    if callable(what) and not hasattr(what, "bind"):
        what = map_(what)
    if getattr(what, "kind", "") != "map":
        raise InputError(
            f"{a_kind(what)} is not a step that can be measured",
            fix="Pass a simulation, sim = tp.compile(system, dt=0.01), or a map.",
        )
    sim: Simulation = what.compile()
    return sim


def pairs_of(system: System, pairs: Any) -> list[tuple[str, str]]:
    """The canonical pairs of a system by name: declared, given, or of a map with two states those two."""
    names = [s.name for s in system.states]
    if pairs is not None:
        listed = [tuple(pair) for pair in pairs]
        if sorted(n for pair in listed for n in pair) != sorted(names) or any(len(p) != 2 for p in listed):
            raise InputError(
                f"pairs={pairs!r} are not the states of `{system.name}` in pairs",
                fix=f"Name every state once: {', '.join(names)}.",
            )
        return listed
    if system.p:
        return [(str(q.arg), str(p.arg)) for q, p in system.pairs]
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


def measure_symplectic(sim: Any, dt: float | None = None, pairs: Any = None, **given: Any) -> Defect:
    """Measures how far one step is from symplectic: |MᵀJM - J| of its Jacobian M, in 60 digits.

    `sim` is what tp.compile returned, or any map. The state and parameters are `given` by name, as to `evolve`; `dt` is
    the step, that of the simulation if it is left out; `pairs`, as [("x", "px"), ("y", "py")], are the canonical pairs
    of a map that does not declare them. It needs the package mpmath: pip install "tinyphysics[measure]".
    """
    sim = subject(sim)
    system = sim.system
    paired = pairs_of(system, pairs)
    if sim.compiled.adaptive:
        raise InputError(
            f"`{sim.built.plan.method}` chooses its own steps: it has no fixed step to measure",
            fix="Its certificate is in sim.explain().",
        )
    is_map = system.kind == "map"
    if is_map and dt is not None:
        raise InputError(f"`{system.name}` is a map: it has no dt", fix="Leave dt= out.")
    h = 1.0 if is_map else checked_step(sim.goal.dt if dt is None else dt)
    given, _ = opened(sim.own_names, given, 0.0)
    if system.levels and not sim.goal.inner:
        SLOTS["set_paces"](sim, given, h, 0.0, None)
    i = inputs(system, given_momenta(system, given))
    if i.is_ensemble:
        raise InputError("the symplectic defect is measured for one member at a time", fix="Pass one member.")
    if in_frame(sim.tpir):
        raise InputError(
            "the symplectic defect of steps on Kepler orbits cannot be measured yet: they have no derivative here",
            fix="Its certificate is in sim.explain().",
        )
    if sim.compiled.jump is not None:
        return defect_of_jump(sim, h, given)
    kernel = build_kernel(sim.built.exact)
    if len(kernel.inputs) > MOST_COMPONENTS:
        raise InputError(
            f"{len(kernel.inputs)} components are too many to write the Jacobian out",
            fix=f"Measure a system of the same kind with up to {MOST_COMPONENTS}; the certificate is in sim.explain().",
        )
    start = dict(zip(kernel.carried, kernel.functions["init"]))
    after = dict(zip(kernel.carried, substitute(kernel.whole_step(), start)))
    outputs = inline(
        substitute(substitute(kernel.functions["final"], after), own_invariants(sim.goal, system, kernel))
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
        now = with_flows(i, sim.built.exact, dt) if flows_of(sim.built.exact) else i
        out = env | {STEP: dt}
        for p in kernel.params:
            name, _, index = str(p.arg)[1:].partition(".")
            if p is not STEP and p is not ORIGIN and name in now.params:
                out[p] = now.params[name][0].ravel()[int(index or 0)].item()
        return out

    places = pairing(system.states, paired)
    try:
        if is_map:
            points = orbit(outputs, kernel.inputs, given_at(h), 3)
            values = tuple(defect(columns, at, places) for at in points)
        else:
            values = tuple(defect(columns, given_at(h * k), places) for k in (1, 2, 4))
    except (ZeroDivisionError, TypeError, ValueError):  # 1/0, and complex values of real functions
        values = (math.nan,) * 3
    if not all(map(math.isfinite, values)):
        raise InputError(
            f"a step of `{system.name}` is not finite at this state",
            fix="Choose a state away from the singularity.",
        )
    what = system.name if is_map else f"{sim.built.plan.method} of {system.name}"
    return Defect(what, None if is_map else h, (values[0], values[1], values[2]))


def defect_of_jump(sim: Simulation, dt: float, given: Mapping[str, Any]) -> Defect:
    """A jump has no kernel: it says in double-double how well it preserves areas, over one, two and four steps."""
    told = [sim.evolve(**given, dt=dt, steps=k, frames=2).metrics["propagator"] for k in (1, 2, 4)]
    if not all("area_error" in x for x in told):
        raise InputError(
            f"a jump by {told[0]['by']} does not measure how well it preserves areas",
            fix="Its certificate is in sim.explain().",
        )
    one, two, four = (float(x["area_error"]) for x in told)
    return Defect(f"{sim.built.plan.method} of {sim.system.name}", dt, (one, two, four))


def pairing(states: Sequence[Any], pairs: Sequence[tuple[str, str]]) -> list[tuple[int, int]]:
    """(index of a position, index of its momentum) among the components."""
    begins, sizes, at = {}, {s.name: s.var.size for s in states}, 0
    for s in states:
        begins[s.name], at = at, at + s.var.size
    for q, p in pairs:
        if sizes[q] != sizes[p]:
            raise InputError(
                f"`{q}` and `{p}` have different sizes",
                fix="Both members of a pair must have the same shape.",
            )
    return [(begins[q] + k, begins[p] + k) for q, p in pairs for k in range(sizes[q])]


def orbit(outputs: list[UOp], inputs: Sequence[UOp], env: dict[UOp, Any], count: int) -> list[dict[UOp, Any]]:
    """The state of a map and those that follow, in the working precision."""
    mp, out = arithmetic(), [env]
    with mp.workprec(BITS):
        for step in range(1, count):
            now = precise(outputs, out[-1], mp)
            out.append(env | dict(zip(inputs, now)) | {NOW: step})
    return out


def defect(columns: list[list[UOp]], env: Mapping[UOp, Any], pairs: list[tuple[int, int]]) -> float:
    mp = arithmetic()
    with mp.workprec(BITS):
        flat = precise([u for c in columns for u in c], env, mp)
        n = len(columns)
        M = [flat[k * n : (k + 1) * n] for k in range(n)]  # M[k] is column k
        worst, size = mp.mpf(0), mp.mpf(0)
        for a in range(n):
            size = max(size, sum(x * x for x in M[a]))
            for b in range(n):
                form = sum(M[a][q] * M[b][p] - M[a][p] * M[b][q] for q, p in pairs)
                wanted = sum((a == q and b == p) - (a == p and b == q) for q, p in pairs)
                worst = max(worst, abs(form - wanted)) if mp.isfinite(form) else mp.inf
        return float(worst / max(size, 1))


def functions_of(mp: Any) -> dict[Ops, Any]:
    """Every operation on scalars, in the working precision."""
    return {
        Ops.SQRT: mp.sqrt,
        Ops.CBRT: mp.cbrt,
        Ops.SIN: mp.sin,
        Ops.COS: mp.cos,
        Ops.TAN: mp.tan,
        Ops.ASIN: mp.asin,
        Ops.ACOS: mp.acos,
        Ops.ATAN: mp.atan,
        Ops.SINH: mp.sinh,
        Ops.COSH: mp.cosh,
        Ops.TANH: mp.tanh,
        Ops.EXP: mp.exp,
        Ops.EXPM1: mp.expm1,
        Ops.LOG: mp.log,
        Ops.LOG1P: mp.log1p,
        Ops.ERF: mp.erf,
        Ops.ABS: abs,
        Ops.SIGN: mp.sign,
        Ops.FLOOR: mp.floor,
        Ops.NEG: lambda x: -x,
        Ops.RSQRT: lambda x: 1 / mp.sqrt(x),
        Ops.ADD: lambda a, b: a + b,
        Ops.SUB: lambda a, b: a - b,
        Ops.MUL: lambda a, b: a * b,
        Ops.DIV: lambda a, b: a / b,
        Ops.POW: mp.power,
        Ops.ATAN2: mp.atan2,
        Ops.HYPOT: mp.hypot,
        Ops.MIN: min,
        Ops.MAX: max,
        Ops.FMA: lambda a, b, c: a * b + c,
        Ops.LT: lambda a, b: a < b,
        Ops.LE: lambda a, b: a <= b,
        Ops.EQ: lambda a, b: a == b,
        Ops.NE: lambda a, b: a != b,
        Ops.WHERE: lambda c, a, b: a if c else b,
        Ops.CAST: lambda x: x,
        Ops.AND: lambda a, b: a and b,
        Ops.OR: lambda a, b: a or b,
        Ops.NOT: lambda x: not x,
    } | arcs_of(mp)


def arcs_of(mp: Any) -> dict[Ops, Any]:
    """The flow of an oscillator, as ir/harmonic.py says it."""

    def angle(a: Any, b: Any, h: Any) -> tuple[Any, Any, Any]:
        """(h sin(x)/x, cos(x), sin(x)/x) with x = sqrt(a b) h, which may be imaginary."""
        x = mp.sqrt(a * b) * h
        ratio = mp.re(mp.sin(x) / x) if x else mp.mpf(1)
        return h * ratio, mp.re(mp.cos(x)), ratio

    def sign(a: Any, b: Any, h: Any) -> Any:
        return mp.mpf(-1 if angle(a, b, h)[1] < 0 else 1)

    def kick(a: Any, b: Any, h: Any) -> Any:
        return sign(a, b, h) * angle(a, b, h)[0]

    def lag(a: Any, b: Any, h: Any) -> Any:
        return (1 - angle(a, b, h)[2]) / b if b else a * h * h / 6

    return {
        Ops.ARC_SIGN: sign,
        Ops.ARC_KICK: kick,
        Ops.ARC_LAG: lag,
        Ops.ARC_DRIFT: lambda a, b, h: kick(a, b, h) / (1 + abs(angle(a, b, h)[1])),
    }


def precise(roots: Sequence[UOp], env: Mapping[UOp, Any], mp: Any) -> list[Any]:
    """The values of scalar graphs in the working precision."""
    functions = functions_of(mp)
    values: dict[UOp, Any] = {}
    for u in toposort(roots):
        if u.op is Ops.CONST:
            values[u] = mp.mpf(u.arg)
        elif u.op is Ops.VAR:
            values[u] = mp.mpf(env[u])
        elif u.op is Ops.SOLVED:
            if part(u, -1) not in values:
                values[part(u, -1)] = precise_root(u, [values[s] for s in u.src], mp)
            values[u] = values[part(u, -1)][u.arg[0]]
        else:
            values[u] = functions[u.op](*(values[s] for s in u.src))
    return [values[r] for r in roots]


def precise_root(u: UOp, given: list[Any], mp: Any) -> list[Any]:
    """The unknowns of equations in the working precision: corrections until they are rounding there, too."""
    eq = equations(u)
    x, known = given[: eq.n], dict(zip(eq.given, given[2 * eq.n :]))
    last = mp.inf
    for _ in range(MOST_ROUNDS):
        found = precise(list(eq.corrections), dict(zip(eq.unknowns, x)) | known, mp)
        x = [a - c for a, c in zip(x, found)]
        size = sum(abs(c) * w for c, w in zip(found, given[eq.n : 2 * eq.n]))
        if not mp.isfinite(size) or size == 0 or size >= last and last < mp.mpf(2) ** -80:
            return x
        last = size
    return [mp.nan] * eq.n


def assert_symplectic(sim: Any, dt: float | None = None, pairs: Any = None, **given: Any) -> Defect:
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
