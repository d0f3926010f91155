"""How are sums over all images done?  What was asked, as settings; and the system with its sums replaced by converging ones.

Without a goal they are plain Ewald sums, right to 1e-12. `Settings` holds lengths in widths of the box, unless they were
pinned, so that a box may change its size.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from math import ceil, inf, isfinite, pi, sqrt
from typing import Any

from tinyphysics.analysis.masses import masses
from tinyphysics.analysis.separable import separable
from tinyphysics.errors import InputError, PlanError
from tinyphysics.front.lattice_sums import LatticeSum, is_lattice_sum, lattice_sum, one_number
from tinyphysics.given import shown
from tinyphysics.ir import Ops, UOp, substitute, toposort
from tinyphysics.ir.neighbours import widths
from tinyphysics.plan import Goal
from tinyphysics.planner.systems.ewald import constants, exclusions, far_part, near_part, surface, width
from tinyphysics.planner.systems.mesh import on_mesh
from tinyphysics.rules.formulas.ewald import COULOMB, FORMS, GAUSSIAN, SCREENED, SOFTENED
from tinyphysics.system import LongRange, System, roots_in
from tinyphysics.util import did_you_mean, one_of

FORCE_ERROR, LONG_RANGE = "force_error", "long_range"  # options of compile, kept in Goal.more
ALONE, ALONE_ORDER = (COULOMB, GAUSSIAN, SCREENED), 4  # what a mesh alone does, and the order of its splines
FORCES = ("gradient", "ik")
SURFACES = ("tin foil", "vacuum")
ORDER = 6
ORDERS = range(3, 13)
OF_CLOUDS = 2  # each particle a cloud of one cell (CIC): forces jump, so it is for a mesh alone


def length(x: Any) -> str | None:
    good = isinstance(x, (int, float)) and not isinstance(x, bool) and isfinite(x) and x > 0
    return None if good else "a number above zero"


def is_zero(x: Any) -> bool:
    return isinstance(x, (int, float)) and not isinstance(x, bool) and x == 0


def is_order(x: Any) -> bool:
    return (x in ORDERS or x == OF_CLOUDS) and not isinstance(x, (bool, float))


def mesh_of(x: Any) -> str | None:
    sizes = (x,) * 3 if hasattr(x, "__index__") else x if isinstance(x, (tuple, list)) else ()
    good = len(sizes) == 3 and all(hasattr(n, "__index__") and n > 1 for n in sizes)
    return None if good else "a number of nodes, or three"


# entry of long_range= -> what is wrong with a value of it
KNOWN: dict[str, Callable[[Any], str | None]] = {
    "alpha": length,
    "cutoff": lambda x: None if is_zero(x) else length(x),
    "grid": mesh_of,
    "order": lambda x: None if is_order(x) else "an order from 3 to 12",
    "switch": lambda x: length(x) or ("at most 1" if x > 1 else None),
    "anchored": lambda x: None if isinstance(x, bool) else "True or False",
    "forces": lambda x: None if x in FORCES else one_of(FORCES),
    "surface": lambda x: None if x in SURFACES else one_of(SURFACES),
}
SPLIT = '"alpha": 1.0, "cutoff": 3.0'
EXAMPLES = {  # of entries that are not a split
    "grid": '"grid": (32, 32, 64)',
    "order": '"grid": 32, "order": 6',
    "switch": '"cutoff": 3.0, "switch": 0.9',
    "anchored": '"grid": 32, "anchored": False',
    "forces": '"grid": 32, "forces": "ik"',
    "surface": '"surface": "vacuum"',
}
CUTOFF = 0.45  # widths of the box: a list needs room for its skin
SWITCH = 0.9  # of the cutoff: where the near part begins to end
RIGHT = 0.01  # of the force of a pair: from where on a mesh alone is said to be right
EXACT = 5.54  # exp(-x²) is 5e-14: how far both parts reach where no error was asked for


@dataclass(frozen=True)
class Settings:
    """What a sum over all images is computed by."""

    alpha: float  # the split; per width of the box if `scaled`
    cutoff: float  # of the near part; in widths of the box if `cut_scaled`
    waves: tuple[int, int, int]  # along each vector of the box; without a mesh
    scaled: bool = True
    cut_scaled: bool = True
    vacuum: bool = False
    switch: float = SWITCH  # of the cutoff: where the near part begins to end; 1: it is cut off
    grid: tuple[int, int, int] | None = None  # nodes of a mesh
    order: int = ORDER  # of its splines
    anchored: bool = True  # positions relative to their mean, and own meshes taken out
    by_waves: bool = False  # forces of differentiated waves, which are no gradient
    error: float | None = field(default=None, compare=False)  # measured: rms error of forces over their rms
    goal: float | None = field(default=None, compare=False)
    # of a mesh alone, measured: (distance in cells, rms relative error of the force of a pair there), from near to far
    by_distance: tuple[tuple[float, float], ...] | None = field(default=None, compare=False)

    @property
    def alone(self) -> bool:
        """Is there a mesh and no near part?"""
        return self.cutoff == 0.0

    @property
    def plain(self) -> bool:
        """Does the mesh have all waves as they are, with no split that makes them fall off?"""
        return self.alone and self.alpha == inf

    @property
    def right_from(self) -> float | None:
        """Cells from which on a force of a mesh alone is right to `RIGHT`; None if it is not known, or nowhere."""
        found = None
        for cells, error in reversed(self.by_distance or ()):
            if not error <= RIGHT:
                break
            found = cells
        return found

    @property
    def exact(self) -> bool:
        """Do both parts reach as far as they do where nothing was asked for?"""
        return self.scaled and self.cut_scaled and self.grid is None and self.switch == SWITCH

    def told(self) -> dict[str, Any]:
        """For reports and out.metrics."""
        if self.alone:
            return self.told_alone()
        of = " / width of the box" if self.scaled else ""
        cut = " widths of the box" if self.cut_scaled else ""
        found: dict[str, Any] = {"alpha": f"{self.alpha:g}{of}", "cutoff": f"{self.cutoff:g}{cut}"}
        far = {"waves": self.waves} if self.grid is None else {"grid": self.grid, "order": self.order}
        more = {"goal": self.goal, "force_error": self.error} if self.error is not None else {}
        return found | far | {"surface": SURFACES[self.vacuum]} | more

    def told_alone(self) -> dict[str, Any]:
        split = {} if self.plain else {"alpha": f"{self.alpha:g}"}
        found = {"cutoff": "none: a mesh alone", **split, "grid": self.grid, "order": self.order}
        more = (
            {}
            if self.by_distance is None
            else {"right_from": self.right_from, "by_distance": dict(self.by_distance)}
        )
        return found | {"surface": SURFACES[self.vacuum]} | more

    def lengths(self, wide: float) -> tuple[float, float]:
        """(split, cutoff) in a box of this width."""
        split = self.alpha / wide if self.scaled else self.alpha
        return split, self.cutoff * wide if self.cut_scaled else self.cutoff


def written(name: str) -> str:
    """What to pass for an entry."""
    return f"Pass long_range={{{EXAMPLES.get(name, SPLIT)}}}."


def checked_long_range(given: Any) -> tuple[tuple[str, Any], ...]:
    """The dict long_range= as a tuple, in the order of KNOWN."""
    if not isinstance(given, Mapping):
        raise InputError(f"long_range={shown(given)} is not a dict", fix=written("alpha"))
    for name, value in given.items():
        if name not in KNOWN:
            what = f"long_range has no entry {name!r}"
            raise InputError(what, fix=f"{did_you_mean(str(name), [*KNOWN])}It takes {one_of([*KNOWN])}.")
        if (wanted := KNOWN[name](value)) is not None:
            raise InputError(f"long_range: {name}={shown(value)} is not {wanted}", fix=written(name))
    if given.get("forces") == "ik" and (given.get("anchored") or "grid" not in given):
        raise InputError(
            'long_range: forces="ik" are those of a mesh as it is',
            fix='Pass a mesh, "grid": 32, and leave "anchored" out: such forces add up to zero anyway.',
        )
    alone = is_zero(given.get("cutoff"))
    if alone and "grid" not in given:
        raise InputError(
            'long_range: "cutoff": 0 leaves a mesh alone, and there is none',
            fix='Pass a mesh too: "grid": 64.',
        )
    if alone and "switch" in given:
        raise InputError("long_range: a switch, and no near part that it ends", fix='Leave "switch" out.')
    if given.get("order") == OF_CLOUDS and not alone:
        raise InputError(
            f"long_range: order={OF_CLOUDS} is not an order from 3 to 12",
            fix='Forces of clouds jump. A mesh alone may have them, "cutoff": 0; else take "order": 4.',
        )
    if "order" in given and "grid" not in given:
        raise InputError("long_range: order= without a mesh", fix='Pass a mesh too: "grid": 32.')
    out = {name: given[name] for name in KNOWN if name in given}
    if "grid" in out:
        g = out["grid"]
        out["grid"] = (int(g),) * 3 if hasattr(g, "__index__") else tuple(int(n) for n in g)
        order = out.get("order", ALONE_ORDER if alone else ORDER)
        if min(out["grid"]) < 2 * order:
            raise InputError(
                f"long_range: a mesh of {out['grid']} for splines of order {order}",
                fix="Along each axis it has twice as many nodes as the order, or more.",
            )
    return tuple(out.items())


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
    found = sums_over_images(system)
    new = {u: expanded(t, settings, mean_of(system, t.points)) for u, t in found.items()}
    return replace(replaced(system, new), long_range=LongRange(system, settings))


def mean_of(system: System, points: UOp) -> UOp:
    """Weights of a mean of points: the masses over their sum where they are known, else all the same."""
    n = points.shape[0]
    same = UOp.const(1.0 / n, points.dtype, (n,))
    if system.kind != "hamiltonian" or points not in system.q:
        return same
    split = separable(system)
    found = masses(system, split.T) if split else None
    if not found:
        return same
    inverse = found.inverse[system.q.index(points)]
    own: UOp = 1.0 / without_number(inverse)[:, 0]
    out: UOp = own / own.sum().expand((n,))
    return out


def without_number(u: UOp) -> UOp:
    """Without the factors that all of an array share, as of the time: a mean does not see them."""
    if u.op is Ops.MUL:
        for k in (0, 1):
            if one_number(u.src[k]) is not None and one_number(u.src[1 - k]) is None:
                return without_number(u.src[1 - k])
    if u.op in (Ops.EXPAND, Ops.RESHAPE) and u.src[0].size > 1:
        return u.replace((without_number(u.src[0]),))
    if u.op is Ops.DIV:
        above, below = (one_number(s) is not None for s in u.src)
        if below and not above:
            return without_number(u.src[0])
        if above and not below:
            return 1.0 / without_number(u.src[1])
    return u


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
    return substitute([u], {v: expanded(t, s, mean_of(system, t.points)) for v, t in found.items()})[0]


def expanded(t: LatticeSum, s: Settings, mean: UOp) -> UOp:
    """A sum over images as sums that converge."""
    wide = width(t.cell)
    split = s.alpha / wide if s.scaled else UOp.const(s.alpha)
    cutoff = wide * s.cutoff if s.cut_scaled else UOp.const(s.cutoff)
    n = t.points.shape[0]
    far = (
        far_part(t, split, s.waves)
        if s.grid is None or n == 1 and not s.alone
        else on_mesh(t, split, s.grid, s.order, mean if s.anchored else None, s.plain)
    )
    parts = [far] if s.plain else [far, constants(t, split)]
    if n > 1 and not s.alone:
        parts.insert(0, near_part(t, split, cutoff, None if s.switch == 1.0 else cutoff * s.switch))
    if (out := exclusions(t, split)) is not None:
        parts.append(out)
    if s.vacuum and FORMS[t.form].charged:
        parts.append(surface(t))
    return UOp.sum_of(parts)


def of_mesh_alone(
    sums: Mapping[UOp, LatticeSum], asked: Mapping[str, Any], pinned: Mapping[str, Any]
) -> Settings:
    """A mesh without a near part: forces of pairs fall off within some cells, as if particles were clouds."""
    if FORCE_ERROR in asked:
        raise PlanError(
            "force_error= with a mesh alone, whose forces are not those of 1/r within some cells",
            fix='Leave "cutoff": 0 out of long_range=.',
        )
    for t in sums.values():
        if t.form not in ALONE or t.partners is not None:
            what = "pairs that are left out" if t.form in ALONE else f"`{FORMS[t.form].written}`"
            raise PlanError(
                f"a mesh alone cannot do {what}: near pairs need a sum of their own",
                fix='Leave "cutoff": 0 out of long_range=, or write 1/np.sqrt(r2): the cells of the mesh soften it.',
            )
    return Settings(
        pinned.get("alpha", inf),
        0.0,
        (1, 1, 1),
        False,
        False,
        pinned.get("surface") == "vacuum",
        1.0,
        pinned["grid"],
        pinned.get("order", ALONE_ORDER),
        pinned.get("anchored", pinned.get("forces") != "ik"),
        pinned.get("forces") == "ik",
    )


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
    if is_zero(pinned.get("cutoff")):
        return of_mesh_alone(sums, asked, pinned)
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
    if FORCE_ERROR in asked and vectors is None and "grid" not in pinned:
        return Settings(
            8.0, CUTOFF, (1, 1, 1), grid=(2 * ORDER,) * 3, goal=asked[FORCE_ERROR]
        )  # until the first state
    longest = 2.0 * EXACT * split / wide  # the longest wave vector
    a, b, c = (max(1, ceil(longest * x / (2.0 * pi))) for x in lengths)
    return Settings(
        alpha if alpha is not None else split,
        cutoff if cutoff is not None else CUTOFF,
        (a, b, c),
        alpha is None and (cutoff is None or vectors is not None),
        cutoff is None,
        pinned.get("surface") == "vacuum",
        pinned.get("switch", SWITCH),
        pinned.get("grid"),
        pinned.get("order", ORDER),
        pinned.get("anchored", pinned.get("forces") != "ik"),
        pinned.get("forces") == "ik",
    )
