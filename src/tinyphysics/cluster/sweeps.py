"""How does a run depend on parameters?  One ensemble over all their values, as a dataset with an axis for each."""

from __future__ import annotations

import builtins
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tinyphysics.errors import BackendError, InputError
from tinyphysics.given import shown
from tinyphysics.options import EVOLVE, heeds
from tinyphysics.runtime.api.simulation import Simulation
from tinyphysics.runtime.stages.elsewhere import HERE
from tinyphysics.system import SizedFamily
from tinyphysics.util import did_you_mean

TOGETHER = "sweep"  # the axis of values that go together


@heeds("sweep", "tp.sweep(sim, mu=[0.9, 1.0, 1.1], q=[1.0, 0.0], p=[0.0, 1.2], until=20.0)")
def sweep(
    sim: Simulation,
    *,
    start: Callable[..., Mapping[str, Any]] | None = None,
    zip: bool = False,
    **call: Any,
) -> Any:
    """Runs a simulation for every combination of the values given, and returns an xarray.Dataset with an axis for each.

    A parameter or a state with one more axis than it has is an axis of the sweep: `mu=[0.9, 1.0, 1.1]`; that of a state q is
    called `q_start`. With `zip=True` all of them have one length and go together. `start` is a function of values of the
    sweep that returns states and parameters by name: `start=lambda e: {"p": [0.0, (1 + e) ** 0.5]}` with
    `e=[0.0, 0.3, 0.6]`. All else of `call` is passed to `sim.evolve`: steps or until, frames, observe, `on=client`.
    """
    if not hasattr(sim, "_compiled"):
        raise InputError(
            f"tp.sweep: {shown(sim)} is not a simulation",
            fix="Compile it first: tp.sweep(tp.compile(system, dt=0.01), mu=[0.9, 1.0, 1.1], ...).",
        )
    try:
        import pandas
        import xarray  # noqa: F401  (to_xarray needs it: better said before a long run)
    except ImportError as error:
        raise BackendError(
            "tp.sweep needs xarray, which is not installed", fix='pip install "tinyphysics[io]"'
        ) from error
    options = {name: v for name, v in call.items() if name in EVOLVE}
    given = {name: v for name, v in call.items() if name not in EVOLVE}
    made = () if start is None else tuple(inspect.signature(start).parameters)
    ranks = ranks_of(sim)
    for name in given:
        if name not in ranks and name not in made:
            near = did_you_mean(name, [*ranks, *made, *EVOLVE])
            raise InputError(
                f"tp.sweep: `{name}` is no state, parameter or option, and start= does not take it",
                fix=near.strip() or f"States and parameters: {', '.join(ranks)}.",
            )
    axes = {name: np.asarray(v) for name, v in given.items() if np.ndim(v) == ranks.get(name, 0) + 1}
    if not axes:
        raise InputError("tp.sweep has nothing to vary", fix="Pass several values: mu=[0.9, 1.0, 1.1].")
    rows = together(axes) if zip else combined(axes)
    ensemble = {name: v[rows[name]] for name, v in axes.items()}
    fixed = {name: v for name, v in given.items() if name not in axes}
    if start is not None:
        fixed, ensemble = begun(start, made, fixed, ensemble)
    if HERE.get() is not None:
        options = {"on": HERE.get()} | options
    out = sim.evolve(**fixed, **ensemble, **options)
    data = out.to_xarray()
    states = {s.name for s in sim.system.seen.states}
    called = {name: f"{name}_start" if name in states else name for name in axes}
    labels = {called[name]: labels_of(axes[name]) for name in axes}
    if zip:
        data = data.drop_vars([n for n in labels if n in data.variables]).rename(member=TOGETHER)
        return data.assign_coords({name: (TOGETHER, found) for name, found in labels.items()})
    index = pandas.MultiIndex.from_arrays(
        [labels[called[n]][rows[n]] for n in axes], names=[f"{called[n]}_" for n in axes]
    )
    data = data.drop_vars([n for n in (*labels, "member") if n in data.variables])
    data = data.assign_coords(xarray.Coordinates.from_pandas_multiindex(index, "member")).unstack("member")
    return data.rename({f"{name}_": name for name in labels})


def ranks_of(sim: Simulation) -> dict[str, int]:
    """How many axes each state and parameter has."""
    source = sim.source if sim._compiled is None else sim.system.seen
    if isinstance(source, SizedFamily):
        return {name: len(shape) for name, shape in source.shapes.items() if name != "t"}
    states, parameters = source.states, source.parameters
    return {x.name: len(x.var.shape) for x in states} | {x.name: len(x.var.shape) for x in parameters}


def labels_of(values: Any) -> Any:
    """What an axis is labelled by: its values, or the numbers of rows that are arrays."""
    return values if values.ndim == 1 else np.arange(len(values))


def combined(axes: Mapping[str, Any]) -> dict[str, Any]:
    """Which value each member has, of every combination; the last axis goes fastest."""
    grid = np.meshgrid(*(np.arange(len(v)) for v in axes.values()), indexing="ij")
    return {name: g.reshape(-1) for name, g in builtins.zip(axes, grid)}


def together(axes: Mapping[str, Any]) -> dict[str, Any]:
    lengths = {name: len(v) for name, v in axes.items()}
    if len(set(lengths.values())) > 1:
        raise InputError(
            f"tp.sweep: with zip=True all values have one length: {', '.join(f'{n} has {k}' for n, k in lengths.items())}",
            fix="Give them all the same length, or leave zip= out for every combination.",
        )
    return {name: np.arange(n) for name, n in lengths.items()}


def begun(
    start: Callable[..., Mapping[str, Any]],
    made: tuple[str, ...],
    fixed: Mapping[str, Any],
    ensemble: Mapping[str, Any],
) -> tuple[dict[str, Any], dict[str, Any]]:
    """States and parameters of every member, from the values that `start` takes."""
    members = max((len(v) for v in ensemble.values()), default=1)
    found: list[Mapping[str, Any]] = []
    for k in range(members):
        one = {n: ensemble[n][k] if n in ensemble else fixed[n] for n in made if n in ensemble or n in fixed}
        state = start(**one)
        if not isinstance(state, Mapping):
            raise InputError(
                f"tp.sweep: start= returned {shown(state)}, which is not a dict",
                fix='Return states and parameters by name: start=lambda e: {"p": [0.0, (1 + e) ** 0.5]}.',
            )
        found.append(state)
    states = {name: np.stack([np.asarray(s[name], float) for s in found]) for name in found[0]}
    return {n: v for n, v in fixed.items() if n not in made}, {
        **{n: v for n, v in ensemble.items() if n not in made},
        **states,
    }
