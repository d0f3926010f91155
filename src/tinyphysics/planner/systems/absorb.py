"""What is asked for by absorb=?  Layers at the ends of a lattice in which waves decay and from which nothing comes back.

In a layer each staggered difference of the energy is stretched: d/dx becomes 1/s d/dx with s = 1 + sigma/(i omega), at the
faces of a lattice and again at its nodes (Berenger 1994; Chew & Weedon 1994). In time that is a memory beside each
difference: m' = sigma*(g - m), and g - m is what is left of g. Inside, sigma is 0 and the equations are those of the energy.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tinyphysics.analysis.separable import separable
from tinyphysics.errors import InputError, PlanError
from tinyphysics.given import shown
from tinyphysics.ir import Ops, UOp, f64, substitute, toposort
from tinyphysics.ir.ops import ELEMENTWISE
from tinyphysics.rules.calculus.jvp import jvp
from tinyphysics.rules.calculus.vjp import gradient, vjp
from tinyphysics.rules.identities.real import simplify
from tinyphysics.system import SizedFamily, State, System
from tinyphysics.util import did_you_mean

POWER = 4  # sigma grows so from the edge of a layer
LEFT = 1e-10  # of an amplitude that goes through a layer and back, in the continuum
SPEC = {"width": 20, "axes": None, "power": POWER, "left": LEFT}
EXAMPLE = 'absorb={"width": 20, "axes": (0,)}'
FIX = "Pass the cells of a layer: absorb=20."


@dataclass(frozen=True)
class Layers:
    width: int
    axes: tuple[int, ...] | None
    power: float
    left: float


@dataclass(frozen=True, eq=False)
class Difference:
    """Of neighbours along an axis, as an energy has it."""

    node: UOp
    field: UOp
    axis: int
    offset: float  # where its first number is, in cells from the first node
    name: UOp


def with_layers(system: Any, absorb: Any) -> Any:
    """The same with layers at the ends of its axes."""
    layers = layers_of(absorb)
    if isinstance(system, SizedFamily):
        family = system
        return replace(family, build=lambda sizes: absorbing(family.build(sizes), layers))
    return absorbing(system, layers)


def layers_of(absorb: Any) -> Layers:
    given = dict(absorb) if isinstance(absorb, Mapping) else {"width": absorb}
    if unknown := next((k for k in given if k not in SPEC), None):
        raise InputError(f"absorb= has no {unknown!r}", fix=f"{did_you_mean(str(unknown), SPEC)}{EXAMPLE}")
    own = SPEC | given
    width, axes = own["width"], own["axes"]
    if isinstance(width, bool) or not isinstance(width, int) or width < 1:
        raise InputError(f"absorb={shown(width)} is not a number of cells", fix=FIX)
    for name, least, most in (("power", 0.0, 10.0), ("left", 0.0, 1.0)):
        x: Any = own[name]
        if isinstance(x, bool) or not isinstance(x, (int, float)) or not least < x < most:
            raise InputError(f"absorb= with {name}={shown(x)}", fix=f"It is between {least:g} and {most:g}.")
    if axes is not None:
        axes = (axes,) if isinstance(axes, int) else tuple(axes)
    return Layers(width, axes, float(own["power"]), float(own["left"]))


def absorbing(system: System, layers: Layers) -> System:
    name = system.name
    if system.kind != "hamiltonian" or system.bracket or system.complexes:
        raise PlanError(
            f"absorb= for `{name}`: layers stretch the differences in an energy H(q, p) of real fields",
            fix="Write the wave as an energy, as physics.fields.wave does.",
        )
    if (
        system.friction
        or system.heat
        or system.levels
        or system.guards
        or system.gaps
        or system.clock
        or system.driven
    ):
        raise PlanError(
            f"absorb= for `{name}` cannot be combined with friction, baths, walls, contacts or explicit time yet",
            fix="Leave absorb= out, or these.",
        )
    split = separable(system)
    if not split:
        raise PlanError(
            f"absorb= for `{name}`: {split.because}", site=split.site, fix="Write an energy T(p) + V(q)."
        )
    assert system.energy is not None
    found = differences(system.energy, system.q)
    kept = [d for d in found if layers.axes is None or d.axis in axes_of(layers.axes, d.field.ndim)]
    table = {d.node: d.name for d in found}
    (local,) = substitute([system.energy], table)
    check_local(name, local, system.q)
    for d in kept:
        n = d.field.shape[d.axis]
        if n <= 2 * layers.width:
            raise InputError(
                f"absorb={layers.width} takes {2 * layers.width} of the {n} cells along axis {d.axis} of `{d.field.arg}`",
                fix="Take a larger lattice, or thinner layers.",
            )
    if not kept:
        raise PlanError(
            f"absorb= for `{name}`: its energy has no difference of neighbours along such an axis",
            fix="Write np.roll(u, -1, 0) - u, or np.diff(u), in the energy.",
        )
    back = {d.name: d.node for d in found}
    by = simplify(gradient(local, [*(d.name for d in found), *system.q]))
    flows, pulls = by[: len(found)], list(by[len(found) :])
    velocities = simplify(gradient(system.energy, list(system.p)))
    fields = {q: k for k, q in enumerate(system.q)}
    memories: list[State] = []
    rates: list[UOp] = []
    sigmas: list[UOp] = []
    forces = [-x for x in substitute(pulls, back)]

    def remembered(what: UOp, label: str, sigma: UOp) -> UOp:
        """What is left of it in a layer."""
        m = UOp.var(label, what.shape)
        memories.append(State(label, m, "field", start=0.0))
        rates.append(sigma * (what - m))
        sigmas.append(sigma)
        return what - m

    pending = []
    for d, flow in zip(found, flows):
        k = fields[d.field]
        (g,) = substitute([flow], back)
        if d in kept:
            speed = wave_speed(velocities[k], flow, d, system)
            most = (layers.power + 1) * -math.log(layers.left) / (2 * layers.width) * speed
            label = f"{d.field.arg}_face{found.index(d)}"
            g = remembered(
                g, label, most * profile(d.node.shape, d.axis, d.offset, d.field.shape[d.axis], layers)
            )
            pending.append((d, k, g, most))
        else:
            forces[k] = forces[k] - vjp([d.node], [g], [d.field])[0]
    for d, k, g, most in pending:
        (pull,) = vjp([d.node], [-g], [d.field])
        shape = d.field.shape
        label = f"{d.field.arg}_node{found.index(d)}"
        forces[k] = forces[k] + remembered(
            pull, label, most * profile(shape, d.axis, 0.5, shape[d.axis], layers)
        )
    own = dict(zip(system.q, velocities)) | dict(zip(system.p, forces))
    states = tuple(replace(s, role="field") for s in system.states)
    update = (*simplify([own[s.var] for s in states]), *simplify(rates))
    return replace(
        system,
        kind="ode",
        states=(*states, *memories),
        energy=None,
        update=update,
        absorbed=(system.energy, *system.q, *sigmas),
        function=None,
    )


def axes_of(axes: tuple[int, ...], ndim: int) -> set[int]:
    for a in axes:
        if isinstance(a, bool) or not isinstance(a, int) or not -ndim <= a < ndim:
            raise InputError(f"absorb= along axis {shown(a)} of a lattice with {ndim}", fix=EXAMPLE)
    return {a % ndim for a in axes}


def differences(V: UOp, q: tuple[UOp, ...]) -> list[Difference]:
    out: list[Difference] = []
    for u in toposort([V]):
        if u.op is not Ops.SUB:
            continue
        a, b = (placed(s, q) for s in u.src)
        if a is None or b is None or a[0] is not b[0]:
            continue
        apart = [(axis, x, y) for axis, (x, y) in enumerate(zip(a[1], b[1])) if x != y]
        if len(apart) == 1 and abs(apart[0][1] - apart[0][2]) == 1:
            axis, x, y = apart[0]
            name = UOp.var(f"?difference {len(out)}", u.shape, u.dtype)
            out.append(Difference(u, a[0], axis, 0.5 + (x + y) / 2, name))
    return out


def placed(u: UOp, q: tuple[UOp, ...]) -> tuple[UOp, tuple[int, ...]] | None:
    """(the field, which node is first), of a field that was rolled or cut."""
    if any(u is x for x in q) and u.shape:
        return u, (0,) * u.ndim
    if not u.src or not any(u.src[0] is x for x in q):
        return None
    begin = [0] * u.ndim
    if u.op is Ops.ROLL:
        for k, axis in u.arg:
            n = u.shape[axis]
            begin[axis] -= (k + n // 2) % n - n // 2  # the shorter way round
    elif u.op is Ops.SLICE and all(step == 1 for _, _, step in u.arg):
        begin = [lo for lo, _, _ in u.arg]
    else:
        return None
    return u.src[0], tuple(begin)


def check_local(name: str, local: UOp, q: tuple[UOp, ...]) -> None:
    """What is no difference of neighbours must be of one node."""
    allowed = ELEMENTWISE | {Ops.REDUCE, Ops.EXPAND, Ops.VAR, Ops.RESHAPE}
    for u in toposort([local]):
        if u.leaves & frozenset(q) and u.op not in allowed:
            raise PlanError(
                f"absorb= for `{name}`: `{u}` joins nodes, and is no difference of neighbours along an axis",
                fix="Write np.roll(u, -1, 0) - u, or np.diff(u), in the energy.",
            )


def wave_speed(velocity: UOp, flow: UOp, d: Difference, system: System) -> UOp:
    """Of long waves along an axis, in cells: the root of T'' V'' at rest."""
    p = next(p for p in system.p if p in velocity.leaves)
    rest = {x: UOp.const(0.0, x.dtype, x.shape) for x in (*system.q, *system.p)}
    parts = []
    for f, x in ((velocity, p), (flow, d.name)):
        (slope,) = jvp([f], [x], [UOp.const(1.0, x.dtype, x.shape)])
        (slope,) = simplify(substitute([slope], rest | {d.name: UOp.const(0.0, d.name.dtype, d.name.shape)}))
        parts.append(one_number(slope))
    (speed,) = simplify([(parts[0] * parts[1]).sqrt()])
    return speed


def one_number(u: UOp) -> UOp:
    """That all of an array are, or the largest of them."""
    if u.op is Ops.CONST:
        return UOp.const(u.arg)
    inner = u
    while inner.op in (Ops.EXPAND, Ops.RESHAPE) and inner.shape:
        inner = inner.src[0]
    return inner if not inner.shape else u.max()


def profile(shape: tuple[int, ...], axis: int, offset: float, n: int, layers: Layers) -> UOp:
    """0 inside, growing to 1 at the ends of an axis of n cells."""
    m = shape[axis]
    x = UOp.range(m).cast(f64) + offset
    x = x - (x / float(n)).floor() * float(n)
    deep = (float(layers.width) - x).maximum(x - float(n - layers.width)).maximum(0.0) * (1.0 / layers.width)
    whole = int(layers.power)
    if whole == layers.power:  # as products
        grown = deep
        for _ in range(whole - 1):
            grown = grown * deep
    else:
        grown = deep**layers.power
    return grown.reshape(tuple(m if a == axis else 1 for a in range(len(shape)))).expand(shape)
