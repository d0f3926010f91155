"""From a Lagrangian L(q, v) to a System: its momenta are dL/dv, its energy is found by the Legendre transform."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tinyphysics.errors import TraceError
from tinyphysics.front.asked_pairs import ask
from tinyphysics.front.trace import (
    Definition,
    check_beside,
    check_free,
    check_no_defaults,
    check_shapes,
    check_time,
    checked_pairs,
    definition,
    family,
    pair_of,
    plain,
    symbol,
    traced_energy,
)
from tinyphysics.ir import UOp
from tinyphysics.options import heeds
from tinyphysics.rules.calculus.legendre import NotExplicit, legendre
from tinyphysics.system import Motion, State, System
from tinyphysics.tracebacks import users_frames


@heeds("lagrangian", '@tp.lagrangian, or @tp.lagrangian(pairs=[("x", "vx"), ("y", "vy")])')
def lagrangian(function: Any = None, *, pairs: Sequence[tuple[str, str]] | None = None) -> Any:
    """Makes a system from a Lagrangian L(q, v, [t], parameters).

    `function` returns L; its first two arguments are a position and its velocity, and `pairs` names other
    pairs: @tp.lagrangian(pairs=[("x", "vx"), ("y", "vy")]).
    The momentum is called `p`; with several pairs that of `x` is `p_x`. A run begins with velocities or momenta.

    >>> @lagrangian
    ... def spring(x, v, m=2.0, k=1.0):
    ...     return m*v**2/2 - k*x**2/2
    >>> spring.energy
    p*p/m*0.5 + 0.5*k*x*x
    """
    if function is None:
        return users_frames(lambda f: lagrangian(f, pairs=pairs))
    d, said = definition(function, "lagrangian"), pairs is not None
    pairs = pair_of(d, "velocity") if pairs is None else pairs
    return family(d, "hamiltonian", lambda sizes: trace_lagrangian(d, pairs, sizes, said))


def momentum_names(d: Definition, pairs: Sequence[tuple[str, str]]) -> list[str]:
    names = ["p"] if len(pairs) == 1 else [f"p_{q}" for q, _ in pairs]
    for name in names:
        if any(a.name == name for a in d.arguments):
            raise d.wrong(
                f"`{d.name}` has an argument `{name}`, but this name is taken by the momentum",
                "Rename the argument.",
            )
    check_free(d, names)
    return names


def trace_lagrangian(
    d: Definition, pairs: Sequence[tuple[str, str]], sizes: Mapping[str, int], said: bool = True
) -> System:
    """`said`: the pairs were given by the user, and are not the first two arguments."""
    names = checked_pairs(d, pairs, "velocity")
    check_time(d)
    check_no_defaults(d, names, "a position or its velocity")
    momenta = momentum_names(d, pairs)
    symbols = {a.name: symbol(a, sizes) for a in d.arguments}
    check_shapes(d, pairs, symbols, "velocity")
    L, sites = traced_energy(d, symbols)
    if not said:
        check_beside(d, L, symbols, "velocity")
    states, v, p = [], [], []
    for (q, rate), name in zip(pairs, momenta):
        v.append(symbols[rate])
        p.append(UOp.var(name, symbols[q].shape, symbols[q].dtype))
        states += [State(q, symbols[q], "position", d[q].space.unit), State(name, p[-1], "momentum")]
        if symbols[rate] not in L.leaves:
            raise d.wrong(
                f"the Lagrangian of `{d.name}` does not depend on `{rate}`, so `{q}` has no momentum",
                f"Add the kinetic energy, for example {rate} @ {rate} / 2.",
            )
    try:
        found = legendre(L, v, p)
    except NotExplicit as reason:
        if not said and len(left := [a.name for a in plain(d)]) >= 4:
            why = f"{reason.because} with `{pairs[0][1]}` as the velocity of `{pairs[0][0]}`"
            halves = list(zip(left[: len(left) // 2], left[len(left) // 2 :]))
            raise ask(d.name, halves, pairs[0], "velocity", why, d.site) from None
        raise TraceError(
            f"no formula is known for the energy of `{d.name}`: {reason.because}",
            site=d.site if reason.culprit is None else sites.get(reason.culprit, d.site),
            fix="Write a Lagrangian that is quadratic in each velocity, or its energy H(q, p) with @tp.hamiltonian.",
        ) from None
    motion = Motion(L, tuple(v), found.momenta, found.velocities)
    return d.system(
        "hamiltonian", states, symbols, sizes, sites, names, energy=found.energy, motion=motion,
        velocity_units=tuple(d[rate].space.unit for _, rate in pairs),
    )  # fmt: skip
