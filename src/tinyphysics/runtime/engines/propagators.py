"""What is a jump computed by?  Modes, waves, a normal form, polynomials, or the matrix itself in whole numbers.

`prepared(steps)` is what so many steps do to any state, for each of some frames; `apply` does it to states, and gives them
frame by frame; `told` says what is known of it. Where `together` is not set, frames are made one by one.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from tinyphysics.analysis.stencil import stencils, uniform
from tinyphysics.device.linear.chebyshev import Springs, springs
from tinyphysics.device.linear.double_double import DD, dot, matmul, of_fraction
from tinyphysics.device.linear.modes import Modes, NoModes, StepMatrix, Unstable, modes, step_matrix
from tinyphysics.device.linear.normal_form import NormalForm, normal_form
from tinyphysics.device.linear.rank import Undecided, nullity
from tinyphysics.device.linear.spectral import Waves, waves
from tinyphysics.errors import PlanError
from tinyphysics.facts import Facts
from tinyphysics.flows.propagator import propagator_of
from tinyphysics.ir import UOp
from tinyphysics.planner.choice.propagator import LOOP
from tinyphysics.rules.calculus.hessian import Hessian, dense, hessian
from tinyphysics.rules.calculus.matrices import Fixed, exponential, power, sheared
from tinyphysics.step import Step
from tinyphysics.system import System
from tinyphysics.tpir.program.propagate import slowed

LOG = logging.getLogger("tinyphysics")
MANY = 300  # pairs, from which on whoever waits is told
LOST = 2.0**-44  # of the largest number in a state, that a jump may be wrong by
Flat = tuple[Any, Any]  # positions and momenta, (components, members)


@dataclass(frozen=True, eq=False)
class LinearProblem:
    """A system at given parameters and a step, and what is asked of it."""

    system: System
    facts: Facts
    step: Step
    parameters: Mapping[str, list[float]]
    h: Fraction

    @property
    def stages(self) -> list[tuple[str, Fraction]] | None:
        """The kicks and drifts of a power; None of a flow."""
        jump = propagator_of(self.step)
        return None if jump.way in ("flow", "damped") else [("TV"[k], Fraction(w)) for k, w in jump.parts]

    def hessian(self, energy: UOp) -> Hessian:
        return hessian(energy, self.system.q, self.system.p, self.parameters)


class ModePropagator:
    """Eigenvectors, and a phase for each."""

    name, together = "modes", True

    def __init__(self, x: LinearProblem) -> None:
        n = sum(u.size for u in x.system.q)
        if n >= MANY:
            LOG.warning(
                "%s: modes of %s pairs are computed with 106 bits, once: this takes some seconds (Ctrl-C ends it)",
                x.system.name,
                n,
            )
        whole = x.hessian(x.step.terms[0].energy + x.step.terms[1].energy)
        k, w = whole.block(False, False), whole.block(True, True)
        f, b = whole.linear[:n], whole.linear[n:]
        stages, reasons = x.stages, []
        self.h = x.h
        for swapped in (False, True):
            if swapped:  # positions and momenta change places: (q, p) -> (p, -q)
                k, w, f, b = w, k, b, [-c for c in f]
                stages = None if stages is None else [("VT"["TV".index(part)], c) for part, c in stages]
            try:
                self.modes: Modes = modes(dense(k, n), dense(w, n), f, b, nullity(k, n), swapped)
                break
            except (NoModes, Undecided) as error:
                reasons.append(f"{'with p and q exchanged, ' if swapped else ''}{error}")
        else:
            raise NoModes("; ".join(dict.fromkeys(reasons)))
        self.matrix: StepMatrix | None = None if stages is None else step_matrix(stages)
        self.shapes = [u.shape for u in x.system.q]
        self.system = x.system

    def prepared(self, steps: Sequence[int]) -> Any:
        if self.matrix is None:
            return self.modes.exact(self.h, steps)
        return self.modes.method(self.matrix, self.h, steps)

    def apply(self, change: Any, states: Mapping[str, Any]) -> dict[str, Any]:
        q, p = flat(self.system, states)
        return unflat(self.system, self.modes.apply(change, q, p))

    def told(self, change: Any, t: float) -> dict[str, Any]:
        m = self.modes
        return {
            "modes": m.size,
            "zero_modes": int(m.zero.sum()),
            "phase_error": m.phase_error(t),
            "area_error": change.area,
            "skew": m.skew,
        }


class FourierPropagator:
    """Waves of a lattice whose sites are alike."""

    name, together = "waves", False

    def __init__(self, x: LinearProblem) -> None:
        s = stencils(uniform(x.system), x.system, x.parameters)
        self.waves: Waves = waves(s.shape, s.stiffness, s.inverse_mass, s.force, s.drift)
        stages = x.stages
        self.matrix = None if stages is None else step_matrix(stages)
        self.h, self.names = x.h, [v.name for v in x.system.states]

    def prepared(self, steps: Sequence[int]) -> Any:
        (n,) = steps
        return self.waves.changes(self.h, n, self.matrix)

    def apply(self, change: Any, states: Mapping[str, Any]) -> dict[str, Any]:
        return dict(zip(self.names, self.waves.apply(change, *(states[name] for name in self.names))))

    def told(self, change: Any, t: float) -> dict[str, Any]:
        off = np.abs(change["qq"] * change["pp"] - change["qp"] * change["pq"] - 1.0)
        return {
            "modes": int(np.prod(self.waves.shape)),
            "zero_modes": int(self.waves.zero.sum()),
            "phase_error": self.waves.phase_error(t),
            "area_error": float(off.max()),
        }


class NormalFormPropagator:
    """A definite energy that mixes q and p."""

    name, together = "normal form", True

    def __init__(self, x: LinearProblem) -> None:
        assert x.system.energy is not None
        whole = x.hessian(x.system.energy)
        self.form: NormalForm = normal_form(dense(whole.rows, 2 * whole.pairs), whole.linear)
        self.system, self.h = x.system, x.h

    def prepared(self, steps: Sequence[int]) -> Any:
        return self.form.modes.exact(self.h, steps)

    def apply(self, change: Any, states: Mapping[str, Any]) -> dict[str, Any]:
        return unflat(self.system, halves(self.form.apply(change, np.concatenate(flat(self.system, states)))))

    def told(self, change: Any, t: float) -> dict[str, Any]:
        m = self.form.modes
        return {
            "modes": m.size // 2,
            "zero_modes": 0,
            "phase_error": m.phase_error(t),
            "area_error": change.area,
            "skew": m.skew,
        }


class ChebyshevPropagator:
    """A polynomial of the matrix of many springs."""

    name, together = "polynomials", False

    def __init__(self, x: LinearProblem) -> None:
        whole = x.hessian(x.step.terms[0].energy + x.step.terms[1].energy)
        if any(whole.linear):
            raise NoModes("there are constant forces")
        self.springs: Springs = springs(whole.block(False, False), whole.block(True, True), whole.pairs)
        self.system, self.h = x.system, x.h

    def prepared(self, steps: Sequence[int]) -> Any:
        (n,) = steps
        t = float(n * self.h)
        return t, self.springs.series(t)

    def apply(self, change: Any, states: Mapping[str, Any]) -> dict[str, Any]:
        t, series = change
        return unflat(self.system, self.springs.apply(series, t, *flat(self.system, states)))

    def told(self, change: Any, t: float) -> dict[str, Any]:
        terms = len(change[1]) // 2 + 1
        return {"terms": terms, "rounding": terms * 2.0**-51}


class IntegerMatrixPropagator:
    """The matrix itself."""

    name, together = "whole numbers", False

    def __init__(self, x: LinearProblem) -> None:
        self.system, self.h = x.system, x.h
        terms = [term.energy for term in x.step.terms]
        lost = terms.pop() if x.system.friction else None
        parts = [(x.hessian(term).generator()) for term in terms]
        stages, size = x.stages, len(parts[0])
        self.generator = [
            [sum((a[i][j] for a in parts), Fraction(0)) for j in range(size)] for i in range(size)
        ]
        if lost is not None:
            self.generator = slowed(self.generator, x.hessian(lost))
        self.factors = None
        if stages is not None:
            self.check_stable(step_matrix(stages))
            self.factors = [sheared(parts["TV".index(part)], w * self.h) for part, w in stages]

    def check_stable(self, m: StepMatrix) -> None:
        """Frequencies are below the root of the norm of J H'' squared: where that is below the limit all is well."""
        a = [[float(c) for c in row[:-1]] for row in self.generator[:-1]]
        square = np.array(a) @ np.array(a)
        most = float(np.sqrt(np.abs(square).sum(axis=1).max(initial=0.0))) * abs(float(self.h))
        if most >= m.limit():
            raise Unstable(f"omega*dt may be {most:.4g}, and the method is stable below {m.limit():.4g} only")

    def prepared(self, steps: Sequence[int]) -> Any:
        (n,) = steps
        m: Fixed = exponential(self.generator, n * self.h) if self.factors is None else power(self.factors, n)
        scale = 1 << m.bits
        pairs = [[of_fraction(Fraction(c, scale)) for c in row] for row in m.rows[:-1]]
        return DD(
            np.array([[a for a, _ in row] for row in pairs]), np.array([[b for _, b in row] for row in pairs])
        )

    def apply(self, change: DD, states: Mapping[str, Any]) -> dict[str, Any]:
        z = np.concatenate(flat(self.system, states))
        full = np.concatenate([z, np.ones((1, z.shape[1]))])
        if not np.isfinite(change.high).all():
            return unflat(self.system, halves(np.full_like(z, np.nan)))
        new = dot(change, DD(full)).rounded()
        # a state that shrinks inside a flow that grows has lost what was cancelled
        grown = np.abs(change.high).max(initial=0.0) * np.abs(full).max(axis=0) * len(full) * 2.0**-100
        if (grown > LOST * np.maximum(np.abs(new).max(axis=0), np.abs(z).max(axis=0))).any():
            raise PlanError(
                f"the flow grows by {np.abs(change.high).max():.1e}, and this state cannot be resolved in it",
                fix=LOOP,
            )
        return unflat(self.system, halves(new))

    def told(self, change: DD, t: float) -> dict[str, Any]:
        n = len(change) // 2
        m = change[:, : 2 * n]
        j = DD(np.block([[np.zeros((n, n)), np.eye(n)], [-np.eye(n), np.zeros((n, n))]]))
        size = float(np.abs(m.high).max(initial=1.0))
        off = matmul(matmul(m.T(), j), m) - j if np.isfinite(size) else DD(np.full((1, 1), np.nan))
        return {"modes": n, "area_error": float(np.abs(off.high).max()) / max(1.0, size) ** 2}


def flat(system: System, states: Mapping[str, Any]) -> Flat:
    """All positions and all momenta as columns, one for each member."""
    out = []
    for variables in (system.q, system.p):
        parts = [states[str(u.arg)] for u in variables]
        out.append(np.concatenate([v.reshape(len(v), -1) for v in parts], axis=1).T)
    return out[0], out[1]


def unflat(system: System, columns: Flat) -> dict[str, Any]:
    out = {}
    for variables, x in zip((system.q, system.p), columns):
        at = 0
        for u in variables:
            part = x[at : at + u.size].T
            out[str(u.arg)] = np.ascontiguousarray(part).reshape(len(part), *u.shape)
            at += u.size
    return {s.name: out[s.name] for s in system.states}


def halves(z: Any) -> Flat:
    n = len(z) // 2
    return z[:n], z[n:]


WAYS = ModePropagator, FourierPropagator, NormalFormPropagator, IntegerMatrixPropagator, ChebyshevPropagator
BY: dict[str, Any] = {c.name: c for c in WAYS}
