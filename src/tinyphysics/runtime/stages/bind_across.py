"""What changes all members of a run together?  Swaps of replicas that a call asks for, hills of a bias, or boxes."""

from __future__ import annotations

from typing import Any

import numpy as np

from tinyphysics.errors import InputError, PlanError, StoreError
from tinyphysics.given import shown, whole
from tinyphysics.planner.systems.bias import HILLS
from tinyphysics.planner.systems.heat import parameter_of, without_bath
from tinyphysics.runtime.stages.cells import cell_moves
from tinyphysics.runtime.stages.hills import hills
from tinyphysics.runtime.stages.resolve import Resolved
from tinyphysics.runtime.stages.swaps import swaps
from tinyphysics.runtime.state.across import Across, Exchange
from tinyphysics.runtime.state.ensemble import Inputs

WRITE = (
    "Write sim.evolve(temperature=[1.0, 1.5, 2.0], exchange=100, ...), with one more leading axis of q and p."
)
KIND = "exchange"
HIDDEN = ("nose_hoover", "nose_poincare", "gle", "trigger")


def bind_across(r: Resolved, i: Inputs) -> Across | None:
    c = r.begun
    asked = r.request.exchange
    if c is not None and c.across is not None and asked is None and c.across[0] == KIND:
        asked = Exchange(*c.across[1:])
    found = None if asked is None else exchanged(r, i, asked)
    if (how := r.setup.system.biased_by) and how[0] == HILLS:
        if found is not None:
            raise PlanError(
                "exchange= cannot be combined with metadynamics yet", fix="Leave one of them out."
            )
        check_loop(r, i, "bias=tp.metadynamics(...)")
        found = hills(r.setup.system)
    if r.setup.system.barostat:
        if found is not None:
            what = "exchange=" if found.name == KIND else "metadynamics"
            raise PlanError(f"pressure= cannot be combined with {what} yet", fix="Leave one of them out.")
        check_loop(r, i, "pressure=")
        found = cell_moves(r.setup.system)
    if c is not None and (None if found is None else found.data) != c.across:
        had = "no exchange" if c.across is None else f"exchange={c.across}"
        raise StoreError(
            f"the run in `{r.path}` has {had}, and this call another", fix="Leave exchange= out."
        )
    return found


def exchanged(r: Resolved, i: Inputs, asked: Any) -> Across:
    """What a call says, with what does not go with it refused."""
    system = r.setup.system
    if isinstance(asked, (int, np.integer)) and not isinstance(asked, (bool, np.bool_)):
        bath = parameter_of(system)
        if bath is None and system.heat:
            raise without_bath(system, f"exchange={asked}")
        if bath is None:
            raise PlanError(
                f"exchange={asked}: `{system.name}` has no bath, so its members have no temperatures",
                fix="Compile it with one, tp.compile(system, dt, temperature=1.0), or name a parameter: "
                'exchange=tp.exchange("k", every=100).',
            )
        asked = Exchange(bath.name, whole("exchange", asked, 1))
    if not isinstance(asked, Exchange):
        raise InputError(f"exchange={shown(asked)} is not a number of steps", fix=WRITE)
    known = {p.name: p for p in system.parameters}
    if asked.parameter not in known:
        raise InputError(
            f"exchange= of `{asked.parameter}`, which is no parameter of `{system.name}`",
            fix=f"It has {', '.join(f'`{n}`' for n in known) or 'none'}.",
        )
    if parameter_of(system) is None:
        raise PlanError(
            f"exchange= without a bath: replicas of `{system.name}` would not be at a temperature",
            fix="Compile it with temperature=1.0.",
        )
    if system.bath in HIDDEN:
        raise PlanError(
            f"exchange= with bath={shown(system.bath)}, which has numbers of its own or is not canonical",
            fix='Take bath="langevin", "andersen" or "bussi".',
        )
    values = i.params[asked.parameter]
    if len(values) < 2 or i.members < 2:
        raise InputError(
            f"exchange= with one value of `{asked.parameter}`", fix=f"Pass one for each replica. {WRITE}"
        )
    check_loop(r, i, "exchange=")
    return swaps(system, asked, int(r.seed), values)


def check_loop(r: Resolved, i: Inputs, what: str) -> None:
    """An error where members do not stop together between two steps."""
    compiled = r.setup.compiled
    if compiled.jump is not None or compiled.adaptive or i.there:
        raise PlanError(
            f"{what} needs a loop of steps of dt on this machine's arrays",
            fix='Compile it with method="leapfrog" and propagator="loop", and pass NumPy arrays.',
        )
    if r.request.save is not None:
        raise PlanError(
            f"{what} cannot be combined with save= yet", fix="Leave save= out; checkpoint= works."
        )
