"""What is asked for by friction=?  A rate for each momentum: a number, an array, or a parameter of the system by its name."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from tinyphysics.analysis.separable import separable
from tinyphysics.constrained import BRACKET as CONSTRAINED
from tinyphysics.errors import InputError, PlanError
from tinyphysics.given import shown
from tinyphysics.ir import Ops, UOp
from tinyphysics.structure import FIVE
from tinyphysics.system import SizedFamily, System
from tinyphysics.util import did_you_mean, one_of

FIX = 'Pass a rate, friction=0.1, or the name of a parameter, friction="gamma".'


def with_friction(system: System | SizedFamily, friction: Any) -> System | SizedFamily:
    """The same with momenta that decay besides: p' = -dH/dq - rate*p."""
    if isinstance(system, SizedFamily):
        family = system
        return replace(family, build=lambda sizes: damped(family.build(sizes), friction))
    return damped(system, friction)


def damped(system: System, friction: Any) -> System:
    if system.kind not in ("hamiltonian", "forces"):
        raise PlanError(
            f"friction= for `{system.name}`, which is given by its {system.kind}: it has no momenta to damp",
            fix="Write it as an energy, or write the friction into the equations: return p, -q - 0.1*p.",
        )
    if system.bracket == CONSTRAINED:
        raise PlanError(
            f"friction= cannot be combined with the constraints of `{system.name}` yet",
            fix="Leave friction= out.",
        )
    if system.structure.headline != FIVE[0] and system.bracket != "magnetic":
        raise PlanError(
            f"friction= for `{system.name}`, whose states are no pairs of positions and momenta alone",
            fix="Leave friction= out.",
        )
    if system.levels or system.clock is not None or system.motion is not None:
        what = "fast and slow parts" if system.levels else "time=" if system.clock else "a Lagrangian"
        raise PlanError(f"friction= cannot be combined with {what} yet", fix="Write an energy H(q, p).")
    if system.kind == "hamiltonian" and not (split := separable(system)):
        raise PlanError(
            f"friction= for `{system.name}`, whose energy is not shown to be T(p) + V(q): {split.because}",
            site=split.site,
            fix="Friction acts on mass times velocity, which p is not. Give a magnetic field by bracket=tp.magnetic(B).",
        )
    rates, signed = [], system.parameters
    for p in system.p:
        rate = friction.get(str(p.arg), 0.0) if isinstance(friction, dict) else friction
        rates.append(rate_of(system, p, rate))
        signed = tuple(replace(x, sign="not negative") if x.var is rates[-1] else x for x in signed)
    if isinstance(friction, dict):
        known = [str(p.arg) for p in system.p]
        if unknown := next((name for name in friction if name not in known), None):
            raise InputError(
                f"friction= for `{unknown}`, which is no momentum", fix=f"It has {one_of(known)}."
            )
    if all(rate.op is Ops.CONST and rate.arg == 0 for rate in rates):
        return system
    return replace(system, friction=tuple(rates), parameters=signed, function=None)


def rate_of(system: System, p: UOp, rate: Any) -> UOp:
    """The rate of one momentum: one number, or one for each of its own."""
    if isinstance(rate, str):
        own = {x.name: x for x in system.parameters}
        if rate not in own:
            raise InputError(
                f'friction="{rate}": `{system.name}` has no parameter of that name',
                fix=f"{did_you_mean(rate, own)}Add it to the function: def H(q, p, {rate}: float = 0.1).",
            )
        found = own[rate].var
        if found.shape not in ((), p.shape):
            raise InputError(
                f'friction="{rate}": the parameter has the shape {found.shape}, and `{p.arg}` has {p.shape}',
                fix="A rate is one number, or one for each number of the momenta.",
            )
        return found
    if isinstance(rate, (bool, np.bool_)):
        raise InputError(f"friction={rate} says nothing about how fast momenta decay", fix=FIX)
    try:
        numbers = np.asarray(rate, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"friction={shown(rate)} is not a rate", fix=FIX) from None
    if not np.isfinite(numbers).all():
        raise InputError(f"friction={shown(rate)} is not finite", fix=FIX)
    if (numbers < 0).any():
        raise InputError(
            f"friction={shown(rate)} is negative: momenta would grow as exp({-numbers.min():g} t)",
            fix="A rate is zero or above, in 1/time: p' = -dH/dq - friction*p.",
        )
    try:
        numbers = numbers if not numbers.ndim else np.broadcast_to(numbers, p.shape)
    except ValueError:
        raise InputError(
            f"friction= has the shape {numbers.shape}, and `{p.arg}` has {p.shape}",
            fix="A rate is one number, or one for each number of the momenta.",
        ) from None
    first = float(numbers.flat[0])
    if (numbers == first).all():
        return UOp.const(first)
    return UOp.stack([UOp.const(float(x)) for x in numbers.ravel()], p.shape)
