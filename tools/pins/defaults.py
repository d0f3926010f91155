"""Pinned defaults: what a call means where nothing is said, and the method that each kind of system gets."""

from __future__ import annotations

import inspect
from functools import partial
from typing import Any

import tinyphysics as tp
from pins import arrays, methods, precisions, systems
from pins.tiers import tier_of
from pins.unit import Setting, Unit, message, neutral

CALLED = {  # what users call, of classes
    "Simulation": "explain cite ir monitor save minimise rewind suggest_dt suggest_split estimate evolve",
    "Trajectory": "words events times every_step drift drift_rate plot animate to_xarray",
    "PhysicsSystem": "rename compile",
    "System": "bind compile rename",
    "Report": "portable only to_dict",
}
ORDERS = (None, 1, 2, 4, 6, 8, 10)
OF_ARRAYS = (None, 4)  # orders that are asked of systems in loops
# fmt: off
SYSTEMS: dict[str, tuple[Any, dict[str, Any]]] = {
    **{name: (demo.system, {} if demo.dt is None else {"dt": 0.0625}) for name, demo in tp.physics.zoo.ZOO.items()},
    **{s.name: (s, {"dt": 0.0625}) for s in (
        systems.swing, systems.anharmonic, systems.trig, systems.driven, systems.pumped, systems.curved, systems.bead,
        systems.magnetic, systems.carousel, systems.stiff_trap, systems.moving_trap, systems.springs, systems.swirl,
        systems.gravity_force, systems.double_pendulum, systems.hoop)},
    **{s.name: (s, {}) for s in (systems.standard, systems.noisy, systems.lorenz, systems.witch)},
    **{f"{name}-in-loops": (s, {"dt": 0.0625, "sizes": sizes}) for name, (s, sizes, start) in precisions.LOOPS.items() if "p" in start},
    "liquid": (arrays.liquid, {"dt": 0.0625, "sizes": {"n": 27}}),
    "rotating": (methods.ROTATING[0], {"dt": 0.0625}),
    "fast-and-slow": (methods.PACED[0], {"dt": 0.0625, "inner": 3}),
    "logarithmic": (systems.kepler, {"dt": 0.0625, "time": "logarithmic"}),
}
# fmt: on


def signature(f: Any) -> str:
    """Arguments with their defaults, without annotations: what they are for is in their names."""
    out, only = [], False
    for p in inspect.signature(f).parameters.values():
        if p.kind is p.KEYWORD_ONLY and not only:
            out.append("*")
        only = only or p.kind in (p.KEYWORD_ONLY, p.VAR_POSITIONAL)
        star = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
        default = "" if p.default is p.empty else f"={p.default!r}"
        out.append(f"{star}{p.name}{default}")
    return neutral(f"({', '.join(out)})")


def signatures(where: str, setting: Setting) -> dict[str, str]:
    """By name, a kind each."""
    if where in CALLED:
        return {name: signature(getattr(getattr(tp, where), name)) for name in CALLED[where].split()}
    module = tp if where == "tp" else tp.random
    found = {n: getattr(module, n) for n in dir(module) if not n.startswith("_")}
    return {
        n: signature(f)
        for n, f in found.items()
        if inspect.isfunction(f) and f.__module__.startswith("tinyphysics") and (where == "tp" or n in DRAWS)
    }


DRAWS = ("uniform", "normal", "integers")


def method_of(name: str, setting: Setting) -> dict[str, str]:
    """The method and what is said of it, for each order that may be asked for."""
    system, options = SYSTEMS[name]
    lines = []
    for order in (OF_ARRAYS if "sizes" in options else ORDERS) if options.get("dt") else (None,):
        try:
            plan = (
                tp.compile(system, **options, **({} if order is None else {"order": order}))
                .explain("full")
                .to_dict()["plan"]
            )
            told = f"{plan['method']['verdict']}: {plan['method'].get('because', '')}"
        except tp.TinyPhysicsError as error:
            told = message(error).partition("\n")[0]
        lines.append(f"{'default' if order is None else f'order={order}'}: {told}")
    return {"method": "\n".join(["", *lines]) if len(lines) > 1 else lines[0]}


def units() -> list[Unit]:
    every = [Unit("defaults", name, partial(method_of, name), tier_of("defaults", name)) for name in SYSTEMS]
    every += [
        Unit("signatures", where, partial(signatures, where), "quick") for where in ("tp", "random", *CALLED)
    ]
    return every
