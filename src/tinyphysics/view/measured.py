"""What is measured of a run and drawn: the band of its energy, its spectrum, its section, its cloud.

Nothing here imports matplotlib: figures and films draw what these functions return.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tinyphysics.errors import InputError, TinyPhysicsError
from tinyphysics.system import System
from tinyphysics.trajectory import Trajectory
from tinyphysics.view.choice import FEW, visible
from tinyphysics.view.terminal import with_members

LEAST = 8  # frames of which there is a spectrum
EVEN = 1e-6  # of the spacing of frames: what is as good as equal


# --- the energy -----------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Band:
    """Where a constant shadow energy keeps (E - E0)/S, and how far the energy was outside of it."""

    low: float
    high: float
    outside: float


def energy_band(out: Trajectory, scale: Any) -> Band | None:
    """The range in which the energy error stays while the shadow energy does; None where no shadow energy is known.

    The shadow energy is H and a correction of order dt**2 or more, which is known at every state. If the sum is constant, H
    differs from its first value by what the correction does.
    """
    if "shadow_energy" not in out.__dict__.get("_later", {}):
        return None
    try:
        shadow, energy = np.asarray(out.shadow_energy, float), np.asarray(out.energy, float)
    except TinyPhysicsError:  # not of this method, or not of these numbers
        return None
    if shadow.shape != energy.shape or shadow.ndim != 1 or not np.isfinite(shadow).all():
        return None
    allowed = (shadow[0] - energy[0]) - (shadow - energy)
    s = float(np.ravel(scale)[0]) or 1.0
    low, high = float(allowed.min()) / s, float(allowed.max()) / s
    error = (energy - energy[0]) / s
    return Band(low, high, float(max((low - error).max(), (error - high).max(), 0.0)))


def energy_errors(out: Trajectory) -> Any:
    """(E - E0)/max |E0| at the frames, a column for each member."""
    energy = np.asarray(out.energy, float).reshape(len(out.t), -1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return (energy - energy[0]) / (np.nanmax(np.abs(energy[0])) or 1.0)


# --- its spectrum ---------------------------------------------------------------------------------------
def spectrum(t: Any, values: Any) -> tuple[Any, Any]:
    """(frequencies, power of each column), by a Hann window; 1 is a sine of amplitude 1.

    >>> t = np.linspace(0.0, 10.0, 1001)
    >>> f, power = spectrum(t, np.sin(2 * np.pi * 3.0 * t)[:, None])
    >>> round(float(f[power[:, 0].argmax()]), 1), round(float(power.max()), 1)
    (3.0, 1.0)
    """
    t, values = np.asarray(t, float), np.asarray(values, float)
    window = np.hanning(len(t) + 1)[:-1]
    moved = (values - values.mean(axis=0)) * window[:, None]
    amplitude = np.abs(np.fft.rfft(moved, axis=0)) * 2 / window.sum()
    step = abs(float(t[-1] - t[0])) / (len(t) - 1)
    return np.fft.rfftfreq(len(t), step)[1:], amplitude[1:] ** 2


def for_spectrum(out: Trajectory, system: System) -> tuple[str, Any]:
    """The name of what is transformed, and its columns; an error where the frames are few or not evenly spaced."""
    t = np.asarray(out.t, float)
    if len(t) < LEAST:
        raise InputError(
            f"a spectrum needs at least {LEAST} frames, and this run saved {len(t)}",
            fix="Pass save_every= to evolve().",
        )
    steps = np.diff(t)
    if np.abs(steps - steps.mean()).max() > EVEN * abs(steps.mean()):
        raise InputError(
            "a spectrum needs frames at equal distances in time",
            fix="Pass a save_every= that divides steps=, or frames at equal times as save_at=.",
        )
    name = visible(system)[0].name
    values = with_members(out, name, visible(system)[0].var.shape).reshape(len(t), -1)[:, :FEW]
    if not np.isfinite(values).all():
        raise InputError(
            f"`{name}` is not finite in all frames", fix="Run for a shorter time, or with a shorter dt."
        )
    return name, values


# --- its section ----------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Crossings:
    """Points where a run went through a surface: (count, 2), their times, and whether it went upwards."""

    points: Any
    t: Any
    rising: Any
    names: tuple[str, str]
    event: str


def section(out: Trajectory, system: System) -> Crossings:
    """The states at the first event of a run, in the plane of a position that is free there and its momentum."""
    if not out.found:
        raise InputError(
            "a section is drawn of an event, and this run recorded none",
            fix='Pass the surface to evolve: events={"section": lambda q: q[0]}.',
        )
    event = next(iter(out.found))
    found: Any = out.events(event)
    if not len(found):
        raise InputError(f"the event `{event}` never happened in this run", fix="Run it longer.")
    best: tuple[float, Any, tuple[str, str]] | None = None
    for q, p in system.pairs:
        x, y = (np.asarray(found.states[str(u.arg)], float).reshape(len(found), -1) for u in (q, p))
        for k in range(x.shape[1]):
            index = "" if q.shape == () else "[" + ", ".join(map(str, np.unravel_index(k, q.shape))) + "]"
            names = f"{q.arg}{index}", f"{p.arg}{index}"
            spread = min(float(np.ptp(x[:, k])), float(np.ptp(y[:, k])))
            if best is None or spread > best[0]:
                best = spread, np.stack([x[:, k], y[:, k]], 1), names
    assert best is not None
    return Crossings(best[1], np.asarray(found.t, float), np.asarray(found.rising, bool), best[2], event)


# --- its cloud ------------------------------------------------------------------------------------------
def cloud_of(out: Trajectory, system: System) -> tuple[Any, list[str]]:
    """(frames, points, 2): members, or bodies; in the plane of positions, or of a position and its momentum."""
    states = visible(system)
    first, shape = states[0], states[0].var.shape
    x = with_members(out, first.name, shape)
    if shape and shape[-1] in (2, 3):
        before = ":, " if len(shape) == 2 else ""
        points = x.reshape(len(x), -1, shape[-1])[..., :2]
        return points, [f"{first.name}[{before}{k}]" for k in range(2)]
    single = [s.name for s in states if s.var.shape == ()][:2]
    if shape == () and system.pairs:
        single = [str(u.arg) for u in system.pairs[0]]
    elif shape and system.pairs:
        q, p = (str(u.arg) for u in system.pairs[0])
        pair = [with_members(out, n, shape).reshape(len(x), -1) for n in (q, p)]
        return np.stack(pair, -1), [q, p]
    if len(single) < 2:
        raise InputError(
            f"`{system.name}` has one number for each member, and a cloud lies in a plane",
            fix='Write kind="time".',
        )
    return np.stack([with_members(out, n, ()) for n in single], -1), single
