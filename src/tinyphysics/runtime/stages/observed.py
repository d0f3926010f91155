"""What does a run observe?  Functions of the state, traced to expressions, under names that hide nothing of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tinyphysics.errors import InputError
from tinyphysics.front.measure import as_measure
from tinyphysics.front.trace import OPTIONS, complex_symbols, observable
from tinyphysics.given import shown
from tinyphysics.ir import UOp
from tinyphysics.planner.systems.long_range import observed as in_sums
from tinyphysics.runtime.stages.execute import clock_of
from tinyphysics.runtime.stages.setup import Setup
from tinyphysics.runtime.stages.subject import Observed
from tinyphysics.system import OF_A_RUN, System


def watched(setup: Setup, observe: Mapping[str, Any]) -> dict[str, Callable[..., Any]]:
    """What a run observes, by name; an error if a name is taken."""
    if not isinstance(observe, Mapping):
        raise InputError(
            f"observe={shown(observe)} is not a dict", fix='Pass observe={"q2": lambda q: q @ q}.'
        )
    for name, function in observe.items():
        if setup.monitors.get(name, function) is not function:
            raise InputError(
                f"observe: `{name}` is a monitor of this simulation already",
                fix=f"Give it another name: observe={{'{name}_2': ...}}.",
            )
    out = {**setup.monitors, **observe}
    states = [s.name for s in setup.system.seen.states]
    for name, function in out.items():
        if name in states:
            why = f"out.{name} is a state"
        elif name not in OF_A_RUN or name == "energy" and isinstance(function, str):
            continue
        else:
            why = f"out.{name} is {'the energy of the system' if name == 'energy' else 'another thing'}"
        raise InputError(
            f"the observable `{name}` would be hidden: {why}",
            fix=f"Give it another name, such as `{name}_seen`.",
        )
    return out


def traced(whole: System, function: Any, name: str, what: str = "observable") -> UOp:
    """A function of the state as an expression; `what` it is for is what errors speak of."""
    system = whole.seen
    if (ready := as_measure(function)) is not None:
        return ready(Observed(system))
    if isinstance(function, str):
        if function == "energy" and system.energy is not None:
            return system.energy
        why = "" if function != "energy" else f": `{system.name}` has no energy"
        raise InputError(
            f"{OPTIONS[what]}[{name!r}] = {function!r}{why}",
            fix=f'The one named {what} is "energy", of a Hamiltonian; pass a function.',
        )
    known = {s.name: s.var for s in system.states} | {p.name: p.symbol for p in system.parameters}
    known |= complex_symbols(system.complexes, known)
    return in_sums(observable(function, known | {"t": clock_of(system)}, name, what), system)
