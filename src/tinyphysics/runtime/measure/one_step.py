"""What does one step do to states near by?  Its Jacobian, the way back and its order, by exact derivatives in 106 bits."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tinyphysics.charged import but_for_weights
from tinyphysics.errors import InputError
from tinyphysics.ir import UOp, elements, substitute
from tinyphysics.physics.draws import normal
from tinyphysics.rules.calculus.jvp import jvp
from tinyphysics.rules.calculus.unroll import unroll
from tinyphysics.runtime.measure.precise import arithmetic, precise
from tinyphysics.structure import Canonical, Structure
from tinyphysics.system import System
from tinyphysics.tpir.kernels.kernel import NOW, ORIGIN

BITS = 106  # two doubles
MOST_COMPONENTS = 32  # whose Jacobian is written out; of more, random directions are measured
MOST_HALVINGS = 4  # of the step whose order is measured
LOST_DIGITS = 2.0**-46  # of a float64, with some to spare
SAMPLES, STREAM = 3, 0x5EED  # pairs of random directions, and where they are drawn


@dataclass(frozen=True, eq=False)
class OneStep:
    """One step as scalar expressions of the numbers of a state, evaluated in 106 bits."""

    system: System
    inputs: tuple[UOp, ...]
    outputs: list[UOp]
    structure: Structure
    h: float  # of a map without step=: 1
    start: list[Any]
    given_at: Callable[[float], dict[UOp, Any]]  # parameters, by the step

    @property
    def is_map(self) -> bool:
        return self.system.kind == "map"

    @property
    def has_step(self) -> bool:
        return not self.is_map or bool(self.system.step)

    @property
    def written_out(self) -> bool:
        return len(self.inputs) <= MOST_COMPONENTS

    @cached_property
    def places(self) -> dict[UOp, int]:
        sizes = [s.var.size for s in self.system.states]
        return {s.var: sum(sizes[:k]) for k, s in enumerate(self.system.states)}

    def at(self, h: float, z: Sequence[Any]) -> dict[UOp, Any]:
        return self.given_at(h) | dict(zip(self.inputs, z))

    def image(self, h: float, z: Sequence[Any], t: float = 0.0) -> list[Any]:
        """The state after one step that begins at a time, in the working precision."""
        mp = arithmetic()
        with mp.workprec(BITS):
            return list(precise(self.outputs, self.at(h, z) | {ORIGIN: t}, mp))

    @cached_property
    def looks(self) -> list[tuple[float, list[Any], int]]:
        """(step, state, number of the step) where it is measured: longer steps, or the next states of a map."""
        if self.has_step:
            return [(self.h * k, self.start, 0) for k in (1, 2, 4)]
        orbit = [self.start]
        for _ in range(2):
            orbit.append(self.image(self.h, orbit[-1]))
        return [(self.h, z, n) for n, z in enumerate(orbit)]

    @cached_property
    def columns(self) -> list[list[UOp]]:
        n = len(self.inputs)
        units = ([UOp.const(float(j == k)) for j in range(n)] for k in range(n))
        return [jvp(self.outputs, list(self.inputs), unit) for unit in units]

    @cached_property
    def jacobians(self) -> list[tuple[list[list[Any]], list[Any], list[Any]]]:
        """(M, state, new state) at each look; M[i] is row i."""
        mp, n, found = arithmetic(), len(self.inputs), []
        with mp.workprec(BITS):
            for h, z, count in self.looks:
                env = self.at(h, z) | {NOW: count}
                flat = precise([*self.outputs, *(u for c in self.columns for u in c)], env, mp)
                M = [[flat[n * (k + 1) + i] for k in range(n)] for i in range(n)]
                found.append((M, list(z), list(flat[:n])))
        return found

    def defects(self) -> list[float]:
        mp, out = arithmetic(), []
        if not self.written_out:
            return self.sampled()
        with mp.workprec(BITS):
            for (M, z, new), (h, *_) in zip(self.jacobians, self.looks):
                n = len(M)
                worst, size = mp.mpf(0), max(sum(row[k] * row[k] for row in M) for k in range(n))
                structure = self.structure.evaluated(self.numbers_at(h, mp)).decayed(self.decays(h, mp))
                for _, _, products, wanted in structure.defect(M, self.places, z, new):
                    form = sum(products)
                    worst = max(worst, abs(form - wanted)) if mp.isfinite(form) else mp.inf
                out.append(float(worst / max(size, 1)))
        return out

    def decays(self, h: float, mp: Any) -> list[Any]:
        """What friction multiplies each number of the momenta by, over a step of h."""
        numbers, out = self.numbers_at(h, mp), []
        for p, rate in zip(self.system.momenta, self.system.friction):
            out += [mp.exp(-h * x) for x in numbers(rate.expand(p.shape), {})]
        return out

    def numbers_at(self, h: float, mp: Any) -> Callable[[UOp, Mapping[UOp, Any]], Sequence[Any]]:
        """How what a bracket is made of is evaluated: its parameters are those of the run."""

        def numbers(u: UOp, at: Mapping[UOp, Any]) -> Sequence[Any]:
            (flat,) = unroll([u])
            known = {str(v.arg)[1:]: x for v, x in self.given_at(h).items()}  # $k, or $k.2 of an array
            own: dict[UOp, Any] = {}
            for p in (p.var for p in self.system.parameters):
                for k, e in enumerate(elements(p) if p.shape else [p]):
                    own[e] = known.get(f"{p.arg}.{k}", known.get(str(p.arg)))
            own |= at
            names = {
                e: UOp.var(f"#{k}") for k, e in enumerate(own)
            }  # a number of an array is a variable here
            return list(precise(substitute(flat, names), {names[e]: x for e, x in own.items()}, mp))

        return numbers

    def sampled(self) -> list[float]:
        """ω(Mu, Mv) - ω(u, v) of random directions u, v of length 1, relative to those of Mu and Mv."""
        if type(self.structure) is not Canonical:
            raise InputError(
                f"{len(self.inputs)} components are too many to write the Jacobian out",
                fix=f"Measure a system of the same kind with up to {MOST_COMPONENTS}.",
            )
        mp, n, out = arithmetic(), len(self.inputs), []
        rows = normal(2 * SAMPLES * n, 0, STREAM).ravel()[: 2 * SAMPLES * n].reshape(2 * SAMPLES, n)
        unit = [(row / math.sqrt(float(row @ row))).tolist() for row in rows]
        moved = [jvp(self.outputs, list(self.inputs), [UOp.const(x) for x in u]) for u in unit]
        places = [(self.places[q], self.places[p], q.size) for q, p in self.structure.pairs]

        def form(u: Sequence[Any], v: Sequence[Any]) -> Any:
            return sum(
                u[q + i] * v[p + i] - u[p + i] * v[q + i] for q, p, size in places for i in range(size)
            )

        with mp.workprec(BITS):
            for h, z, count in self.looks:
                flat = precise([x for m in moved for x in m], self.at(h, z) | {NOW: count}, mp)
                images = [flat[k * n : (k + 1) * n] for k in range(2 * SAMPLES)]
                worst = mp.mpf(0)
                for k in range(0, 2 * SAMPLES, 2):
                    (u, v), (mu, mv) = unit[k : k + 2], images[k : k + 2]
                    size = mp.sqrt(sum(x * x for x in mu) * sum(x * x for x in mv))
                    worst = max(worst, abs(form(mu, mv) - form([mp.mpf(x) for x in u], v)) / max(size, 1))
                out.append(float(worst))
        return out

    def determinants(self) -> tuple[float, float, float] | None:
        if not self.written_out:
            return None
        mp = arithmetic()
        with mp.workprec(BITS):
            one, two, four = (float(mp.det(mp.matrix(M)) - 1) for M, _, _ in self.jacobians)
        return one, two, four

    def factors(self) -> tuple[float, float, float] | None:
        """det M over the factor of volumes that friction has, less 1."""
        if not self.written_out:
            return None
        mp, out = arithmetic(), []
        with mp.workprec(BITS):
            for (M, _, _), (h, *_) in zip(self.jacobians, self.looks):
                found = mp.det(mp.matrix(M))
                out.append(float(found / but_for_weights(found, mp.fprod(self.decays(h, mp))) - 1))
        return out[0], out[1], out[2]

    def reversals(self) -> tuple[float, float, float] | None:
        if not isinstance(self.structure, Canonical) or self.system.time is not None:
            return None
        turned = {self.places[p] + i for _, p in self.structure.pairs for i in range(p.size)}

        def mirror(z: Sequence[Any]) -> list[Any]:
            return [-x if k in turned else x for k, x in enumerate(z)]

        mp, out = arithmetic(), []
        with mp.workprec(BITS):
            for h, z, _ in self.looks:
                back = mirror(self.image(h, mirror(self.image(h, z))))
                size = max(max(abs(x) for x in z), 1e-300)
                out.append(float(max(abs(a - b) for a, b in zip(back, z)) / size))
        return out[0], out[1], out[2]

    def order(self) -> float | None:
        """One step of h and two of h/2 differ by h to the order and one more; at the shortest steps that show it.

        Coefficients of a method are float64: what they have lost is no error of the method.
        """
        mp, size = arithmetic(), max(max(abs(x) for x in self.start), 1.0)
        errors: list[Any] = []
        with mp.workprec(BITS):
            for k in range(MOST_HALVINGS):
                h = self.h / 2.0**k
                half = self.image(h / 2, self.image(h / 2, self.start), h / 2)
                found = max(abs(a - b) for a, b in zip(self.image(h, self.start), half))
                if found < LOST_DIGITS * abs(h) * size:
                    break
                errors.append(found)
            if len(errors) < 2:
                return None  # exact, or too good to be measured
            return float(mp.log(errors[-2] / errors[-1], 2)) - 1.0
