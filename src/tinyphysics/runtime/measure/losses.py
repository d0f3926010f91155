"""What does a run throw away or approximate?  A table, with a function for each way to lose something.

A function is asked before a run, for explain(), and after it, for out.losses; it says what is known then. An amount is
measured or proved, and of an ensemble it is that of the worst member. Nothing here is computed before it is read.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tinyphysics.errors import PlanError
from tinyphysics.ir import Ops, toposort
from tinyphysics.ir.dtype import f64
from tinyphysics.loss import Loss
from tinyphysics.plan import Goal
from tinyphysics.planner.cost.rounding import roundings
from tinyphysics.planner.methods.catalog import BY_NAME
from tinyphysics.planner.methods.method import DISCRETE_GRADIENT, PUSHERS
from tinyphysics.rules.formulas.cutoffs import CUT, SHIFTED, SWITCHED, at_cutoffs, cutoffs
from tinyphysics.rules.formulas.relativity import NAME as RELATIVISTIC
from tinyphysics.rules.functions.fast import BOUNDS, NEAR_ZERO
from tinyphysics.runtime.engines.events import PLACES
from tinyphysics.runtime.stages.origin import Origin
from tinyphysics.runtime.stages.setup import Setup
from tinyphysics.system import System
from tinyphysics.tpir.kernels.library import handed_over
from tinyphysics.tpir.precision.lattice import FORCE
from tinyphysics.tpir.precision.precision import PRECISIONS, ROUNDING
from tinyphysics.util import plural


@dataclass(frozen=True, eq=False)
class Case:
    """A simulation, or a run of it that is over."""

    system: System
    goal: Goal
    parameters: Mapping[str, Any]  # (members or 1, shape...)
    since: float | None = None  # the time at which the run began; None: before a run
    origin: Origin | None = None
    tree: Sequence[Mapping[str, float]] = ()  # the measured errors of each member's forces
    events: tuple[str, ...] = ()
    searched: float | None = None  # the time from which on events were looked for
    apart: float | None = None  # the largest time between two looks
    called: Sequence[Any] = ()  # products that a library does: tpir/kernels/library.py
    own_steps: bool = True  # are they those of a method that chooses its steps?
    method: str = ""  # that was chosen

    @property
    def roots(self) -> list[Any]:
        return self.system.seen.equations


def far_field(c: Case) -> Iterator[Loss]:
    """The forces of a tree code."""
    if c.goal.approximate is None:
        return
    amount, because = c.goal.approximate, "a bound: a run whose first forces are further off is refused"
    if c.tree:
        amount = max(v for m in c.tree for name, v in m.items() if name in ("rms", "last_rms"))
        because = (
            "measured at the first and the last force of the run, against a direct sum for up to 256 bodies"
        )
    unit = "rms of the relative errors of forces"
    yield Loss("far field of the tree", amount, unit, c.since, "leave approximate= out", because)


SHORT = 3.0  # cells, at which the error of a mesh alone is told


def images(c: Case) -> Iterator[Loss]:
    """What a mesh, or a cutoff that was set, leaves out of a sum over all images of a box."""
    if c.system.long_range is None:
        return
    s = c.system.long_range.settings
    if s.grid is None and s.exact:
        return
    if s.alone:
        amount = None if s.by_distance is None else dict(s.by_distance).get(SHORT)
        because = "nearer than some cells particles act as clouds do: out.metrics has the error by distance"
        unit = f"rms relative error of the force of a pair {SHORT:g} cells apart"
        yield Loss("forces of near pairs on a mesh", amount, unit, c.since, 'leave "cutoff": 0 out', because)
        return
    because = "measured at the first state, against a finer sum for up to 256 particles"
    if s.error is None:
        because = "no error was asked for: force_error=1e-4 measures it"
    unit = "rms error of forces, over their rms"
    yield Loss(
        "sums over images of the box",
        s.error,
        unit,
        c.since,
        "leave force_error= and long_range= out",
        because,
    )


def projection(c: Case) -> Iterator[Loss]:
    """What project= does to a step."""
    if not c.goal.project:
        return
    amount, because = None, "how far a projection moves a step is measured in a run"
    if c.since is not None:
        amount, because = moved_in(c.origin)
    told = "a projected step is neither symplectic nor symmetric"
    unit = "largest move of a step, in parts of the state"
    yield Loss("the method's own steps", amount, unit, c.since, "leave project= out", f"{because}; {told}")


def moved_in(origin: Origin | None) -> tuple[float | None, str]:
    from tinyphysics.runtime.measure.moved_by_projection import moved

    if origin is None or not origin.run.encoding.plain:
        return None, "how far the projection moved a step is not measured in such a run"
    amount = moved(origin)
    if amount is None:
        return None, "the run has no finite frame from which a step could be looked at"
    return amount, "measured in steps that begin at the frames of the run"


ENDS = {
    CUT: "the energy jumps by that amount where a pair crosses the cutoff",
    SHIFTED: "shifted: the energy of every pair within the cutoff is lower by it",
    SWITCHED: "switched: the energy of a pair goes to zero smoothly before the cutoff",
}


def beyond_cutoffs(c: Case) -> Iterator[Loss]:
    """Pairs that are farther apart than a cutoff, without a correction for what they add up to."""
    for kind, _, value in at_cutoffs(c.roots):
        from tinyphysics.runtime.measure.pair_at_cutoff import NotKnown, largest_at

        amount, because = None, ENDS[kind]
        try:
            amount = largest_at(value, c.parameters)
        except NotKnown as why:
            because = f"{why}; {ENDS[kind]}"
        unit = "energy of a pair at the cutoff, the largest of all pairs"
        yield Loss("pairs beyond the cutoff", amount, unit, c.since, "a larger cutoff", because)


def fast_functions(c: Case) -> Iterator[Loss]:
    """What is known of the errors of math="fast"."""
    if c.goal.math != "fast":
        return
    which = 0 if c.goal.precision == "float64" else 1
    near = round(math.log2(NEAR_ZERO[which]))
    told = ", ".join(f"{name} {bounds[which]:g}" for name, bounds in BOUNDS.items())
    yield Loss(
        "last digits of functions",
        max(bounds[which] for bounds in BOUNDS.values()),
        "units in the last place at most",
        c.since,
        'math="exact"',
        f"bounds for every machine: {told}; where a sine or cosine is almost zero, 2**{near} absolutely",
    )


def library_calls(c: Case) -> Iterator[Loss]:
    """Products of matrices that a library sums in an order of its own."""
    if not c.called:
        return
    terms = max(p.terms for p in c.called)
    yield Loss(
        "order of sums in products",
        terms * ROUNDING[f64],
        "error of a product at most, relative to its sum of absolute values",
        c.since,
        'math="exact"',
        f"{plural(len(c.called), 'product')} of matrices by NumPy's BLAS, {terms:,} terms in a sum",
    )


def fewer_digits(c: Case) -> Iterator[Loss]:
    """States and forces with fewer digits than float64."""
    p, restores = replace(PRECISIONS[c.goal.precision], units=c.goal.lattice), 'precision="float64"'
    moves = "map" if c.system.kind == "map" else "forces"
    if p.state.is_float:
        unit = "largest relative error of a rounding"
        for name, amount in zip(("states", moves), roundings(p.name)):
            if amount > ROUNDING[f64]:
                because = f"2**{math.log2(amount):.0f}, in the range of float32"
                yield Loss(f"digits of the {name}", amount, unit, c.since, restores, because)
        return
    s = max(c.system.states, key=lambda s: p.unit(s.name))
    because = f"every state is a whole number of its unit; that of `{s.name}` is the largest"
    yield Loss("digits of the states", p.unit(s.name), "unit of a state", c.since, restores, because)
    if cutoffs(c.roots):
        because = "what a pair adds is rounded to whole units of force, before it is summed"
        given = dict(p.units).get(FORCE)
        if given is None:
            because += '; the compiler chose the unit: lattice={"force": 2**-20} gives one'
        yield Loss("digits of the forces", given, "unit of a force", c.since, restores, because)


def events_between_looks(c: Case) -> Iterator[Loss]:
    """Events are looked for in some places of every step, or at the ends of steps of one length."""
    if not c.events:
        return
    how, restores = (
        (f"a step is looked at in {PLACES} places", "a smaller tolerance=, for shorter steps")
        if c.own_steps
        else ("signs are compared from step to step", "a smaller dt")
    )
    because = f"measured: {how}; two changes of sign between two of them are not seen"
    unit = "longest time between two looks"
    yield Loss("events close together", c.apart, unit, c.searched, restores, because)


def rigid_bonds(c: Case) -> Iterator[Loss]:
    """Vibrations that constraints have taken the place of."""
    if not c.system.stiffness:
        return
    from tinyphysics.runtime.measure.rigid_vibrations import count_of, vibrations

    restores, count = "add the potential itself, without tp.rigid_bonds", count_of(c.system)
    amount, because = None, "frequencies are those of the springs at the first state of a run"
    if c.origin is not None and c.origin.run.given.members:
        slowest, fastest = vibrations(c.system, c.origin.run.given)
        amount = slowest
        because = f"{plural(count, 'vibration')} of the first member, {slowest:.3g} to {fastest:.3g} at its first frame"
    unit = "lowest angular frequency that is no longer in the motion"
    yield Loss("vibrations of rigid bonds", amount, unit, c.since, restores, because)
    told = "every vibration of a spring holds kT on average, half of it as kinetic energy"
    yield Loss("heat capacity of rigid bonds", float(count), "kB", c.since, restores, told)
    if not c.system.fixman:
        told = "rigid bonds weigh angles by sqrt(det(G M⁻¹ Gᵀ)), which stiff springs do not"
        yield Loss("distribution of angles", None, "", c.since, "pass fixman=kT to tp.rigid_bonds", told)


def to_friction(c: Case) -> Iterator[Loss]:
    """Energy that friction takes out of the motion."""
    if not c.system.friction or c.system.energy is None:
        return
    amount, because = None, "how much friction takes is booked in a run: out.ledger"
    if c.origin is not None and c.origin.run.given.members:
        booked, because = taken_in(c.origin), f"`{c.method}` does not book what friction takes"
        if "friction" in booked:
            amount = float(np.max(booked["friction"][-1]))
            because = "booked step by step, up to the last frame: out.ledger has it"
    yield Loss("energy of the motion", amount, "energy", c.since, "leave friction= out", because)


def to_layers(c: Case) -> Iterator[Loss]:
    """Energy that went into absorbing layers."""
    if not c.system.absorbed:
        return
    amount, because = None, "how much energy leaves is measured in a run"
    if c.origin is not None and c.origin.run.given.members:
        energy = np.asarray(c.origin.looked({"energy": c.system.absorbed[0]})["energy"], float)
        amount = float(np.max(energy[0] - energy[-1]))
        because = "the energy of the lattice at the first frame, less that at the last; symplectic between the layers only"
    yield Loss("energy that left", amount, "energy", c.since, "leave absorb= out", because)


def taken_in(origin: Origin) -> Mapping[str, Any]:
    """What is booked; nothing where a method does not book it."""
    try:
        return origin.ledger()
    except PlanError:
        return {}


def bracket(c: Case) -> Iterator[Loss]:
    """Steps that do not keep the bracket of the motion: turns about B(q), and energies that are kept in its place."""
    kind = BY_NAME[c.method].family.kind if c.method in BY_NAME else ""
    if kind == PUSHERS:
        fast = any(u.op is Ops.CUSTOM and u.arg == RELATIVISTIC for u in toposort(c.roots))
        by_axes = c.system.bracket == "magnetic" and not fast
        restores = 'method="symplectic"' if by_axes else "a vector potential inside H, and no method="
        why = "a turn about B(q) is not the flow of a part of H: no shadow energy is kept"
    elif kind == DISCRETE_GRADIENT and c.system.bracket == "poisson":
        restores, why = (
            "an energy of parts that move each number alone",
            "the energy is kept instead of the bracket J(z)",
        )
    else:
        return
    because = f"{why}; sim.check measures the defect of a step"
    yield Loss("the bracket of the motion", None, "", c.since, restores, because)


def soft_contacts(c: Case) -> Iterator[Loss]:
    """What a fixed number of sweeps leaves of contacts."""
    if not c.system.contacts:
        return
    worst = across = None
    because = "contacts are soft: impulses are found by a fixed number of sweeps"
    if c.origin is not None:
        worst = across = 0.0
        for touch in c.system.contacts:
            found = c.origin.contacts(touch.name)
            worst = max(worst, float(np.nanmax(-np.minimum(found.gap, 0.0), initial=0.0)))
            across = max(across, float(np.nanmax(found.force * np.maximum(found.gap, 0.0), initial=0.0)))
        because = "measured at the frames of the run"
    more = "more iterations=, or a smaller dt"
    yield Loss("overlap of bodies that touch", worst, "largest, in units of the gap", c.since, more, because)
    unit = "largest force times open gap, which hard contacts do not have"
    yield Loss("forces across open gaps", across, unit, c.since, more, because)


# fmt: off
LOSSES: tuple[Callable[[Case], Iterator[Loss]], ...] = (
    far_field,
    images,
    projection,
    beyond_cutoffs,
    fast_functions,
    library_calls,
    fewer_digits,
    events_between_looks,
    rigid_bonds,
    to_friction,
    to_layers,
    bracket,
    soft_contacts,
)
# fmt: on


def losses(c: Case) -> tuple[Loss, ...]:
    return tuple(loss for made in LOSSES for loss in made(c))


def before_a_run(setup: Setup) -> tuple[Loss, ...]:
    """What explain() lists; with the parameters of the first run or of a pilot, else with the defaults.

    Of an ensemble the parameters of some members are kept until then; out.losses looks at all of them.
    """
    usual = {
        x.name: np.broadcast_to(np.asarray(x.default, float), x.var.shape)[None]
        for x in setup.system.seen.parameters
        if x.default is not None
    }
    given = usual if setup.began is None else setup.began.given.own
    compiled = setup.compiled
    called = handed_over(compiled.built.program, setup.target.backend) if setup.goal.math == "fast" else ()
    own = called if compiled.in_loops(1) else ()
    return losses(Case(setup.system, setup.goal, given, called=own, method=compiled.known.method))
