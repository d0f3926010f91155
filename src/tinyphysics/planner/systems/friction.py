"""What is asked for by friction=?  A rate for each momentum: a number, an array, or a parameter of the system by its name."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from tinyphysics.analysis.separable import separable
from tinyphysics.analysis.turns import turns
from tinyphysics.constrained import BRACKET as CONSTRAINED
from tinyphysics.errors import InputError, PlanError
from tinyphysics.given import shown
from tinyphysics.ir import Ops, UOp
from tinyphysics.system import SizedFamily, System
from tinyphysics.turning import SpaceFrame
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
    if found := not_damped(system):
        why, fix = found
        raise PlanError(f"friction= for `{system.name}`: {why}", site=system.site, fix=fix)
    if system.contacts:
        raise PlanError(
            f"friction= cannot be combined with the contacts of `{system.name}` yet",
            fix="Let the contacts rub: tp.contact(gap, slip=..., friction=0.3).",
        )
    if system.levels or system.clock is not None or system.motion is not None:
        what = "fast and slow parts" if system.levels else "time=" if system.clock else "a Lagrangian"
        raise PlanError(f"friction= cannot be combined with {what} yet", fix="Write an energy H(q, p).")
    if system.structure.turning:
        check_bodies(system)
    elif system.kind == "hamiltonian" and not (split := separable(system)):
        raise PlanError(
            f"friction= for `{system.name}`, whose energy is not shown to be T(p) + V(q): {split.because}",
            site=split.site,
            fix="Friction acts on mass times velocity, which p is not. Give a magnetic field by bracket=tp.magnetic(B).",
        )
    rates, signed = [], system.parameters
    for p in system.momenta:
        rate = friction.get(str(p.arg), 0.0) if isinstance(friction, dict) else friction
        rates.append(rate_of(system, p, rate))
        signed = tuple(replace(x, sign="not negative") if x.var is rates[-1] else x for x in signed)
    if isinstance(friction, dict):
        known = [str(p.arg) for p in system.momenta]
        if unknown := next((name for name in friction if name not in known), None):
            raise InputError(
                f"friction= for `{unknown}`, which is no momentum", fix=f"It has {one_of(known)}."
            )
    if all(rate.op is Ops.CONST and rate.arg == 0 for rate in rates):
        return system
    return replace(system, friction=tuple(rates), parameters=signed, function=None)


def not_damped(system: System) -> tuple[str, str] | None:
    """Why no momentum of a bracket can decay, and what to write instead; None if one can."""
    if any(isinstance(kind, SpaceFrame) for kind in system.structure.turning):
        return (
            "it would make spins shorter, and their length is fixed. Gilbert damping turns spins, and is no friction",
            'Write the damping with @tp.ode. Of an angular momentum that may decay, write bracket="so3".',
        )
    if system.bracket == "contact":
        return "friction stands in a contact energy itself", "Add gamma*s to H: p' = -dH/dq - gamma*p."
    if system.bracket == "poisson":
        return (
            "the numbers of a bracket J(z) are no momenta, and nothing says which of them decay",
            "Write the equations with their friction: @tp.ode.",
        )
    return None


def check_bodies(system: System) -> None:
    """Friction acts on mass times velocity, and on angular momenta: none of these is mixed with a position."""
    found = turns(system)
    assert found is not None
    if "T" not in found.parts:
        raise PlanError(
            f"friction= for `{system.name}`: {found.because}",
            site=found.site,
            fix="Write an energy T(L) + V(R): then friction takes from T alone.",
        )
    moving = [u for u in (found.T, found.K) if u is not None]
    if system.time is not None and any(system.time in u.leaves for u in moving):
        raise PlanError(
            f"friction= for `{system.name}`: its kinetic energy depends on t, and what friction takes is not booked then",
            site=system.site,
            fix='Leave t to the potential, or take method="rk4" without friction=, with the friction in an @tp.ode.',
        )


def is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def rate_of(system: System, p: UOp, rate: Any) -> UOp:
    """The rate of one momentum: one number, or one for each of its own."""
    if isinstance(rate, str):
        own = {x.name: x for x in system.parameters}
        if rate not in own and is_number(rate):
            raise InputError(f"friction={rate!r} is a word", fix=f"Pass the number: friction={rate}.")
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
