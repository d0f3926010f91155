"""How are sums over all images done?  What was asked, as settings; and the system with its sums replaced by converging ones.

Without a goal they are plain Ewald sums, right to 1e-12. `Settings` holds lengths in widths of the box, unless they were
pinned, so that a box may change its size.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import ceil, isfinite, pi, sqrt
from typing import Any

from tinyphysics.errors import InputError, PlanError
from tinyphysics.front.lattice_sums import LatticeSum, is_lattice_sum, lattice_sum
from tinyphysics.given import shown
from tinyphysics.ir import UOp, substitute, toposort
from tinyphysics.ir.neighbours import widths
from tinyphysics.plan import Goal
from tinyphysics.planner.systems.ewald import ewald, width
from tinyphysics.rules.formulas.ewald import SOFTENED
from tinyphysics.system import LongRange, System, roots_in
from tinyphysics.util import did_you_mean, one_of

FORCE_ERROR, LONG_RANGE = "force_error", "long_range"  # options of compile, kept in Goal.more
KNOWN = ("alpha", "cutoff", "surface")
SURFACES = ("tin foil", "vacuum")
CUTOFF = 0.45  # widths of the box: a list needs room for its skin
SWITCH = 0.9  # of the cutoff: where the near part begins to end
EXACT = 5.54  # exp(-x²) is 5e-14: how far both parts reach where no error was asked for


@dataclass(frozen=True)
class Settings:
    """What a sum over all images is computed by."""

    alpha: float  # the split; per width of the box if `scaled`
    cutoff: float  # of the near part; in widths of the box if `cut_scaled`
    waves: tuple[int, int, int]  # along each vector of the box
    scaled: bool = True
    cut_scaled: bool = True
    vacuum: bool = False

    def told(self) -> dict[str, Any]:
        """For reports and out.metrics."""
        of = " / width of the box" if self.scaled else ""
        cut = " widths of the box" if self.cut_scaled else ""
        found: dict[str, Any] = {"alpha": f"{self.alpha:g}{of}", "cutoff": f"{self.cutoff:g}{cut}"}
        return found | {"waves": self.waves, "surface": SURFACES[self.vacuum]}


def checked_long_range(given: Any) -> tuple[tuple[str, Any], ...]:
    """The dict long_range= as a tuple, in the order of KNOWN."""
    example = 'Pass long_range={"alpha": 1.0, "cutoff": 3.0}.'
    if not isinstance(given, Mapping):
        raise InputError(f"long_range={shown(given)} is not a dict", fix=example)
    for name, value in given.items():
        if name not in KNOWN:
            what = f"long_range has no entry {name!r}"
            raise InputError(what, fix=f"{did_you_mean(str(name), KNOWN)}It takes {one_of(KNOWN)}.")
        if name in ("alpha", "cutoff") and not (
            isinstance(value, (int, float)) and not isinstance(value, bool) and isfinite(value) and value > 0
        ):
            raise InputError(f"long_range: {name}={shown(value)} is not a length above zero", fix=example)
        if name == "surface" and value not in SURFACES:
            raise InputError(f"long_range: surface={shown(value)}", fix=f"It is {one_of(SURFACES)}.")
    return tuple((name, given[name]) for name in KNOWN if name in given)


def sums_over_images(system: System) -> dict[UOp, LatticeSum]:
    roots = [u for us in system.roots.values() for u in us] + [u for _, u in system.parts]
    return {u: lattice_sum(u) for u in toposort(roots) if is_lattice_sum(u)}


def with_long_range(system: System, goal: Goal) -> System:
    """The system as it is computed; the same if it has no sums over images."""
    asked = asked_of(goal)
    if system.long_range is not None:
        return system
    found = sums_over_images(system)
    if not found:
        if asked:
            name = next(iter(asked))
            raise PlanError(
                f"{name}= for `{system.name}`, which has no sum over all images of a box",
                fix="Write tp.pair_distance2(q, box=L) without a cutoff, or leave it out.",
            )
        return system
    return computed(system, settings_of(found, asked, None))


def asked_of(goal: Goal) -> dict[str, Any]:
    return {name: value for name, value in goal.more if name in (FORCE_ERROR, LONG_RANGE)}


def computed(system: System, settings: Settings) -> System:
    """With the sums over images of a system as written replaced."""
    new = {u: expanded(t, settings) for u, t in sums_over_images(system).items()}
    return replace(replaced(system, new), long_range=LongRange(system, settings))


def replaced(system: System, new: Mapping[UOp, UOp]) -> System:
    held, how = system.roots, roots_in(type(system))
    fields = {name: how[name].put(substitute(list(us), dict(new))) for name, us in held.items()}
    parts = tuple((name, substitute([u], dict(new))[0]) for name, u in system.parts)
    return replace(system, **fields, parts=parts)


def observed(u: UOp, system: System) -> UOp:
    """A function of the state, with its own sums over images as those of the system."""
    found = {v: lattice_sum(v) for v in toposort([u]) if is_lattice_sum(v)}
    if not found:
        return u
    s = system.long_range.settings if system.long_range is not None else settings_of(found, {}, None)
    return substitute([u], {v: expanded(t, s) for v, t in found.items()})[0]


def expanded(t: LatticeSum, s: Settings) -> UOp:
    wide = width(t.cell)
    split = s.alpha / wide if s.scaled else UOp.const(s.alpha)
    cutoff = wide * s.cutoff if s.cut_scaled else UOp.const(s.cutoff)
    return ewald(t, split, cutoff, cutoff * SWITCH, s.waves, s.vacuum)


def settings_of(
    sums: Mapping[UOp, LatticeSum], asked: Mapping[str, Any], vectors: list[list[float]] | None
) -> Settings:
    """What is computed; `vectors` are those of the box, where they are known: a cube is assumed before."""
    pinned = dict(asked.get(LONG_RANGE, ()))
    if any(t.form == SOFTENED for t in sums.values()) and not pinned and FORCE_ERROR not in asked:
        raise PlanError(
            "1/sqrt(r2 + e**2) summed over all images falls off too slowly beyond 1/r to be right to 1e-12",
            fix="Pass force_error=1e-4, or soften by tp.erf(b*np.sqrt(r2))/np.sqrt(r2).",
        )
    lengths = [1.0, 1.0, 1.0] if vectors is None else [sqrt(sum(x * x for x in v)) for v in vectors]
    wide = 1.0 if vectors is None else min(widths(vectors))
    cutoff, alpha = pinned.get("cutoff"), pinned.get("alpha")
    cut = CUTOFF if cutoff is None else cutoff if vectors is None else cutoff / wide
    if vectors is not None and cut > 0.5:
        raise InputError(
            f"long_range: the cutoff {cut * wide:g} is over half the width of the box, {wide / 2:g}",
            fix="A particle would interact with two images of another: shorten the cutoff.",
        )
    split = EXACT / (SWITCH * CUTOFF) if alpha is None else alpha * wide
    if alpha is None and cutoff is not None:
        split = EXACT / (SWITCH * cut)
    longest = 2.0 * EXACT * split / wide  # the longest wave vector
    a, b, c = (max(1, ceil(longest * x / (2.0 * pi))) for x in lengths)
    return Settings(
        alpha if alpha is not None else split,
        cutoff if cutoff is not None else CUTOFF,
        (a, b, c),
        alpha is None and (cutoff is None or vectors is not None),
        cutoff is None,
        pinned.get("surface") == "vacuum",
    )
