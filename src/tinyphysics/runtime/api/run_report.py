"""What is on the page of a run?  Charges against their bands, energies, plan, losses, a portrait, and why it stopped."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tinyphysics.charge import EXACT
from tinyphysics.errors import InputError, StoreError, TinyPhysicsError
from tinyphysics.given import shown
from tinyphysics.runtime.api.pictures import drawn
from tinyphysics.runtime.api.simulation import Simulation
from tinyphysics.runtime.measure.causes import CAUSES
from tinyphysics.runtime.measure.charges import conserved
from tinyphysics.runtime.measure.checked import TITLES
from tinyphysics.runtime.measure.shadow import every_step
from tinyphysics.runtime.stages.origin import Origin
from tinyphysics.system import System
from tinyphysics.trajectory import Trajectory
from tinyphysics.util import plural
from tinyphysics.version import __version__
from tinyphysics.view.charts import Chart, Curve
from tinyphysics.view.choice import FEW
from tinyphysics.view.page import sketch
from tinyphysics.view.run_report import Figure, Page, Part, html

FIRST = 600  # steps of a portrait where frames are far apart
MOST_NUMBERS = 500_000  # in it
MOST_STEPS = 2_000_000  # steps times members of a run whose energy is looked at in every step
SECTIONS = ("plan", "certificate")  # of explain("full")


def report(out: Trajectory, path: Any) -> Path:
    """Writes the page, and returns where it is."""
    if not isinstance(path, (str, Path)) or Path(path).suffix not in (".html", ".htm"):
        raise InputError(
            f"report({shown(path)}) is not the name of a page", fix='Write out.report("run.html").'
        )
    run, system = drawn(out)
    text = html(page(run, out, system))
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise StoreError(
            f"`{path}` could not be written: {error.strerror}", fix="Pass another path."
        ) from error
    return Path(path)


def page(run: Trajectory, out: Trajectory, system: System) -> Page:
    origin = out.origin
    parts = [
        p for f in (autopsy, charges, energies, portrait, plan, losses, machine) if (p := f(run, out, system))
    ]
    failed = [c for c in checks(out) if not c.holds]
    if (stop := out.stopped) is not None:
        named = asked(lambda: stop.report().cause)
        cause = stop.cause if named not in CAUSES else f"{stop.cause} ({named})"
        verdict, good = f"stopped at step {stop.step:,} (t = {stop.t:g}): {cause}", False
    elif failed:
        verdict, good = str(failed[0]), False
    elif out._warned:
        verdict, good = out._warned[0], False
    else:
        verdict, good = "ran to its end; nothing was found to be wrong", True
    formula = "" if system.energy is None else f"H = {system.energy}"
    return Page(
        system.name.replace("_", " "),
        formula if len(formula) <= 400 else f"{formula[:397]}...",
        verdict,
        good,
        list(tiles(out, origin)),
        parts,
        [n for n in out.metrics.get("notes", ()) if n != verdict],
        f"tinyphysics {__version__}, {datetime.date.today().isoformat()}",
    )


def tiles(out: Trajectory, origin: Any) -> Iterator[tuple[str, str]]:
    m = out.metrics
    yield "steps", f"{int(m.get('steps', out.steps[-1])):,}"
    yield "time", f"{float(np.ravel(out.t)[0]):g} to {float(np.ravel(out.t)[-1]):g}"
    if isinstance(origin, Origin):
        if not origin.run.adaptive:
            yield "dt", f"{origin.run.dt:g}"
        if origin.run.given.is_ensemble:
            yield "members", f"{origin.run.given.members:,}"
    yield "runs on", f"{m['backend']['used']}, {m['precision']}"
    if isinstance(origin, Origin) and origin.run.system.energy is not None and affordable(out, origin):
        try:
            yield "energy drift, relative", f"{float(np.nanmax(out.drift('energy'))):.1e}"
        except TinyPhysicsError:
            pass


def affordable(out: Trajectory, origin: Origin) -> bool:
    return origin.last * max(origin.run.given.members, 1) <= MOST_STEPS


def checks(out: Trajectory) -> list[Any]:
    try:
        return list(out.checks)
    except (TinyPhysicsError, AttributeError):
        return []


# --- the parts -----------------------------------------------------------------------------------------
def autopsy(run: Trajectory, out: Trajectory, system: System) -> Part | None:
    if out.stopped is None:
        return None
    try:
        found = out.stopped.report()
    except TinyPhysicsError as error:
        return Part("Why it stopped", [str(error)])
    figures = []
    if found.rows:
        steps = [float(r.step) for r in found.rows]
        figures.append(
            Figure(
                Chart([Curve(steps, [r.largest for r in found.rows])], ("step", "largest number"), log=True),
                "The largest number of the state, in the last steps.",
            )
        )
        if any(np.isfinite(r.own) for r in found.rows):
            figures.append(
                Figure(
                    Chart([Curve(steps, [r.own for r in found.rows])], ("step", found.header)),
                    f"{found.header} in the last steps.",
                )
            )
    words = f"Cause: {found.cause}. {found.fix}" if found.cause in CAUSES else f"{found.because}. {found.fix}"
    return Part("Why it stopped", [words], figures, text=str(found))


def charges(run: Trajectory, out: Trajectory, system: System) -> Part | None:
    """Each kind of charge over time, beside the band that rounding stays in."""
    origin = out.origin
    rows, figures = [], []
    for c in checks(out):
        held = "yes" if c.holds else "NO"
        name = TITLES.get(c.name, c.name.replace("_", " ")).lower()
        rows.append([name, f"{c.deviation:.2e}", f"{c.band:.2e}", held])
        t, away = course_of(origin, c.name)
        if t is None or len(t) < 3:
            continue
        grown = c.band * np.sqrt(np.clip((t - t[0]) / (t[-1] - t[0]), 0.0, 1.0))
        lines = [Curve(t, away, "deviation"), Curve(t[1:], grown[1:], "band", "#b3261e", "dashed")]
        figures.append(
            Figure(
                Chart(lines, ("t", f"change of {name}"), log=True),
                f"{name.capitalize()}: the largest change so far among its components, and the band "
                "in which a walk by rounding stays.",
            )
        )
    words = watched(out)
    if not rows and not words:
        return None
    head = ("charge", "largest change", "band", "within")
    return Part("What is conserved", words, figures, head, rows)


def watched(out: Trajectory) -> list[str]:
    """What was watched in the run itself, how often, and how often it was not kept."""
    found = out.metrics.get("checks")
    if not isinstance(found, Mapping) or not found.get("watched"):
        return []
    names, alarms = ", ".join(map(str, found["watched"])), int(found.get("alarms", 0))
    return [
        f"Watched in the run, at least every {int(found['every']):,} steps: {names}. {plural(alarms, 'alarm')}."
    ]


def course_of(origin: Any, kind: str) -> tuple[Any, Any]:
    """(times, largest change of the charges of one name from their first values), at the frames."""
    if not isinstance(origin, Origin) or origin.asked is None or origin.run.system.clock is not None:
        return None, None
    run, goal = origin.run, origin.asked.goal
    of = [
        c
        for c in conserved(run.system, goal, method_of(origin))
        if c.kept == EXACT and c.name.partition("[")[0] == kind
    ]
    if not of:
        return None, None
    seen = origin.looked({str(k): c.expression for k, c in enumerate(of)})
    away = [
        np.fmax.reduce(
            np.abs(v - v[:1]).reshape(len(v), -1), axis=1
        )  # members that have stopped are no numbers
        for v in (np.asarray(x, float) for x in seen.values())
    ]
    return run.t0 + run.dt * np.asarray(origin.steps, float), np.fmax.accumulate(np.max(away, axis=0))


def method_of(origin: Origin) -> str:
    program = origin.run.program
    return str(getattr(getattr(program, "program", program), "name", ""))


def energies(run: Trajectory, out: Trajectory, system: System) -> Part | None:
    origin = out.origin
    if system.energy is None or not isinstance(origin, Origin):
        return None
    figures, words = [], []
    marks = [] if out.stopped is None else [out.stopped.t]
    if affordable(out, origin):
        t, values, scale = out.every_step("energy")
        where = "at every step"
    else:
        t, values = np.asarray(run.t, float), np.asarray(run.energy, float)
        scale, where = np.abs(values[0]).max() or 1.0, "at the frames"
    off = (values - values[:1]) / np.where(np.asarray(scale) > 0, scale, 1.0)
    off = off.reshape(len(off), -1)
    some = np.unique(np.linspace(0, off.shape[1] - 1, FEW).astype(int))
    curves = [Curve(t, v) for v in off.T[some]]
    figures.append(
        Figure(
            Chart(curves, ("t", "(E - E0)/S"), marks=marks),
            f"The energy error {where}; S is the largest sum of |terms of H|."
            + ("" if off.shape[1] <= FEW else f" {FEW} of {off.shape[1]:,} members."),
        )
    )
    gap = asked(lambda: np.asarray(out.shadow_gap, float))
    if isinstance(gap, str):
        words.append(f"No shadow energy is shown: {gap}")
    elif gap is not None:
        gap = gap.reshape(len(gap), -1)
        at = np.asarray(run.t, float)
        figures.append(
            Figure(
                Chart(
                    [Curve(at, v) for v in gap.T[some]], ("t", "|shadow energy - H|/S"), log=True, marks=marks
                ),
                "How far the energy that the method conserves, the shadow energy, is from H: a step that is too long for "
                "the curvature of the potential shows here.",
            )
        )
    return Part("Energy", words, figures)


def asked(question: Callable[[], Any]) -> Any:
    """An answer, or in words why there is none."""
    try:
        return question()
    except TinyPhysicsError as error:
        return error.what
    except AttributeError:
        return None


def portrait(run: Trajectory, out: Trajectory, system: System) -> Part | None:
    """The picture that suits the run; where its frames are far apart, of its first steps."""
    near, words = run, ""
    origin = out.origin
    if isinstance(origin, Origin) and can_follow(origin) and len(run.t) < origin.last + 1:
        steps = min(origin.last, FIRST)
        again = every_step(replace(origin, last=steps), {s.name: s.var for s in system.states})
        frames = {s.name: np.asarray(again.series(s.name)) for s in system.states}
        if not origin.run.given.is_ensemble:
            frames = {name: v[:, 0] for name, v in frames.items()}
        count = min(len(v) for v in frames.values())
        t = origin.run.t0 + origin.run.dt * np.arange(count)
        near = replace(run, t=t, steps=np.arange(count), frames={n: v[:count] for n, v in frames.items()})
        words = f"Every step of the first {steps:,}." if steps < origin.last else "Every step."
    s = sketch(near, system)
    if s is None:
        return None
    style = "line" if s.joined else "points"
    curves = [Curve(c[:, 0], c[:, 1], style=style) for c in s.curves if len(c)]
    high = 420 if s.to_scale else 300
    return Part("Portrait", figures=[Figure(Chart(curves, s.names, to_scale=s.to_scale, high=high), words)])


def can_follow(origin: Origin) -> bool:
    """May some steps be done again for a picture?"""
    r = origin.run
    numbers = sum(s.var.size for s in r.system.states) * r.given.members
    plain = r.jump is None and not r.adaptive and r.series is None and not r.acts and r.begun is None
    return plain and r.system.clock is None and r.given.members <= FEW and numbers * FIRST <= MOST_NUMBERS


def plan(run: Trajectory, out: Trajectory, system: System) -> Part | None:
    origin = out.origin
    if not isinstance(origin, Origin) or origin.asked is None:
        return None
    source, record = origin.run.system, origin.asked
    found = asked(lambda: Simulation(source, record.goal, record.backend).explain("full"))
    if found is None or isinstance(found, str):
        return None
    rows = []
    for section in found.only(*SECTIONS).sections:
        for r in section.rows:
            if r.verdict == "not estimated":
                continue
            where = f" ({r.where})" if r.where else ""
            rows.append([r.name, r.verdict, r.because + where])
    return Part("Plan and certificate", head=("", "", "because"), rows=rows) if rows else None


def losses(run: Trajectory, out: Trajectory, system: System) -> Part:
    found = asked(lambda: out.losses)
    if not found or isinstance(found, str):
        return Part("What was thrown away", ["Nothing."])
    rows = [
        [x.what, "not known" if x.amount is None else f"{x.amount:.2g}", x.unit, x.restores] for x in found
    ]
    return Part("What was thrown away", head=("what", "how much", "of what", "what restores it"), rows=rows)


def machine(run: Trajectory, out: Trajectory, system: System) -> Part:
    m = out.metrics
    rows = [
        ["device", str(m.get("device", ""))],
        ["program", str(m.get("program", ""))],
        ["last state", out.hash],
    ]
    seconds = m.get("seconds") or {}
    if seconds:
        rows.append(["seconds", ", ".join(f"{k} {v:.3g}" for k, v in seconds.items())])
    if "peak_memory" in m:
        rows.append(["peak memory of the process", f"{m['peak_memory'] / 2**20:,.0f} MiB"])
    return Part("Where it ran", rows=rows)
