"""Does the way a run is cut change a bit?  Frames, observables, checkpoints, two runs instead of one."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from attack.findings import Tally
from attack.subject import Subject

STEPS = 7
GROWN = (
    100  # two runs may differ by so many times what some units in the last place of their first state become
)


def same(a: np.ndarray, b: np.ndarray) -> bool:
    return a.shape == b.shape and bool(np.array_equal(a, b, equal_nan=True))


def check(s: Subject, t: Tally) -> None:
    case, sim = s.case, s.open
    z = case.start(salt=50)
    given = {**case.given(z), **case.params, "t0": case.t0, "progress": False}
    whole = sim.evolve(**given, steps=STEPS)
    if whole.stopped:
        return
    t.shares["segments"] += 1
    each = sim.evolve(**given, steps=STEPS, save_every=1)
    t.check(
        case.seed,
        "same bits with save_every",
        each.hash != whole.hash,
        "frames change no bit",
        "another hash",
    )
    name = case.layout[0][0]
    watched = sim.evolve(**given, steps=STEPS, observe={"first": observable(name)})
    t.check(
        case.seed,
        "same bits with observe",
        watched.hash != whole.hash,
        "observing changes no bit",
        "another hash",
    )
    k = 1 + case.seed % (STEPS - 1)
    frame = sim.evolve(**given, steps=k)
    ok = all(
        same(np.asarray(getattr(each, n))[k], np.asarray(getattr(frame.final, n))) for n, *_ in case.layout
    )
    t.check(case.seed, "frame k is evolve(steps=k).final", not ok, f"frame {k}", "other bits")
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "run.ckpt")
        sim.evolve(**given, steps=k, checkpoint=path)
        rest = sim.evolve(resume=path, steps=STEPS - k, progress=False)
        t.check(
            case.seed,
            "resume",
            rest.hash != whole.hash,
            "resume is bit-equal",
            f"another hash after {k} steps",
        )
    if s.is_map or whole.metrics.get("propagator") or "substeps" in whole.metrics:
        return  # with steps of its own, a second run begins with another first step: equal to its tolerance
    second = sim.evolve(**frame.final, steps=STEPS - k, progress=False)
    # a frame carries what its run measured at its first state; the bare numbers of a frame are another first state
    other = second.metrics["program"] != whole.metrics["program"]
    t.check(case.seed, "a frame keeps what was decided", other, "the program of its run", "another program")
    if second.stopped or not np.isfinite(case.flat(whole)).all():
        return
    off = float(np.abs(case.flat(second) - case.flat(whole)).max() / max(1.0, np.abs(case.flat(whole)).max()))
    tol = 2e5 * s.eps if s.precision != "lattice" else 1e-4
    if off > tol and off <= GROWN * spread(s, given):
        t.unclear["two runs"] += 1
        return
    t.check(case.seed, "two runs", off > tol, "agree to rounding", f"they differ by {off:.1e}")


def spread(s: Subject, given: dict[str, object]) -> float:
    """How far some units in the last place of the state grow, as at a body that is met; on the scale of the end."""
    case = s.case
    z = case.start(salt=50)
    ends = [
        case.flat(s.open.evolve(**{**given, **case.given(z * (1 + k * 8 * s.eps))}, steps=STEPS))
        for k in (-1, 0, 1)
    ]
    found = float(np.ptp(ends, axis=0).max() / max(1.0, np.abs(ends[1]).max()))
    return found if np.isfinite(found) else float("inf")


def observable(name: str):  # type: ignore[no-untyped-def]
    """A function of one state by its own name, as observe= wants it."""
    scope: dict[str, object] = {}
    exec(f"def first({name}):\n    return {name}*{name} + 1.0", scope)
    return scope["first"]
