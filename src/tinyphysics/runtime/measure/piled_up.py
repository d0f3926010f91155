"""Do the times of an event pile up?  Beyond their limit there is no motion, and what a run shows there is something else.

A ball that an event sends back with half its speed meets it infinitely often in a finite time. A wall knows of rest; an event
does what it was told, until its jump is below rounding.
"""

from __future__ import annotations

import warnings

import numpy as np

from tinyphysics.errors import PhysicsWarning
from tinyphysics.runtime.engines.events import Events
from tinyphysics.runtime.stages.diagnose import Finished
from tinyphysics.util import frames_to_user

MANY = 30  # of one event and member, that are at one time but for rounding
AT_ONCE = 1e-7  # of a step


def tell_of_piles(f: Finished) -> None:
    """A warning about the first such event."""
    r = f.run
    for c in r.system.crossings:
        e = f.out.found.get(c.name)
        if c.kind != "event" or not c.writes or not isinstance(e, Events) or len(e) < MANY:
            continue
        close = np.abs(e.t[MANY - 1 :] - e.t[: 1 - MANY]) <= AT_ONCE * abs(r.dt)
        close &= e.member[MANY - 1 :] == e.member[: 1 - MANY]
        if close.any():
            k = int(np.argmax(close))
            who = f" of member {int(e.member[k])}" if r.given.is_ensemble else ""
            what = (
                f"the times of the event `{c.name}`{who} pile up at t = {float(e.t[k]):.6g}, and what the run shows after "
                "that is not the motion"
            )
            f.out.metrics["notes"] = (*f.out.metrics["notes"], what)
            f.out._warned = (*f.out._warned, what)
            fix = "A body that comes to rest is a tp.wall(restitution=...)."
            warnings.warn(PhysicsWarning(f"{r.system.name}: {what}. {fix}"), stacklevel=frames_to_user())
            return
