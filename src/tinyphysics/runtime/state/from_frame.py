"""Where does a run begin that is given a frame of another one?  At its states, its time and its parameters.

`**out.final` passes the states by their names and the frame itself as from_frame=. What the call says goes before what
the frame has, so that `sim.evolve(**out.final, mu=2.0, t0=0.0, steps=100)` changes two things and keeps the rest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tinyphysics.errors import InputError
from tinyphysics.given import FROM_FRAME, shown
from tinyphysics.trajectory import Frame


class Unsaid(float):
    """A number that stands in a signature, and that the call did not give."""


BEGINS = Unsaid(0.0)


def opened(own: Sequence[str], given: Mapping[str, Any], t0: Any) -> tuple[dict[str, Any], Any]:
    """(states and parameters, the time) of a call."""
    said = dict(given)
    frame = said.pop(FROM_FRAME, None) if FROM_FRAME not in own else None
    if frame is None:
        return said, 0.0 if isinstance(t0, Unsaid) else t0
    if not isinstance(frame, Frame):
        raise InputError(
            f"{FROM_FRAME}={shown(frame)} is not a frame of a run",
            fix="Pass **out.final, or **out[12] for frame 12.",
        )
    if isinstance(t0, Unsaid):
        if getattr(frame.t, "ndim", 0):
            raise InputError(
                "the members of this frame are at different times, and a run starts at one time",
                fix="Pass the time too: t0=0.0.",
            )
        t0 = frame.t
    # the call has the states by name, complex ones in two parts
    begun = {name: v for name, v in frame.states.items() if name in own}
    begun |= {name: v for name, v in frame.given.items() if name in own}
    return {**begun, **said}, t0
