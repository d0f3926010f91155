"""Which parts of an energy have flows in closed form?  Axes of charges in a magnetic field, and parts of a contact energy.

A kinetic energy p_i**2/2m moves a charge along the axis i, and the other momenta by line integrals of B along it (He et al.
2015): explicit, and exact in the bracket of the field. A contact energy is a sum of functions of p, of q and of a multiple
of s, of which each moves nothing that it depends on, but for a factor.
"""

from __future__ import annotations

from tinyphysics.analysis.masses import masses
from tinyphysics.analysis.separable import signed_sum, terms
from tinyphysics.charged import Magnetic
from tinyphysics.contact_form import Contact
from tinyphysics.facts import Facts
from tinyphysics.flows.closed_form import ClosedFlow, Values, time_of
from tinyphysics.ir import UOp, elements, substitute
from tinyphysics.rules.calculus.unroll import unroll
from tinyphysics.rules.equality.normal import Normal
from tinyphysics.rules.formulas.divergence import divergence_free
from tinyphysics.rules.formulas.line_integral import line_integral
from tinyphysics.rules.identities.real import simplify
from tinyphysics.step import ExactPart, Term
from tinyphysics.synth.methods.derivative import derivative
from tinyphysics.system import System

MOST = 24  # numbers of positions that are written out one by one


def part(number: int, label: str, energy: UOp, values: Values) -> ExactPart:
    return ExactPart(Term(label, energy), lambda weight: ClosedFlow(weight, number, values(time_of(weight))))


def along_axes(system: System, facts: Facts) -> list[ExactPart] | str:
    """The kick by V, then one axis after the other; or why there is no closed form."""
    m = system.structure
    if not isinstance(m, Magnetic):
        return "it is made for charges: @tp.hamiltonian(bracket=tp.magnetic(B))"
    split = facts["separable"]
    if not split:
        return f"H is not shown to be T(p) + V(q): {split.because}"
    if system.time is not None and any(system.time in u.leaves for u in (split.T, split.V, *m.fields)):
        return "the energy or the field depends on t"
    if len(m.pairs) != 1 or m.pairs[0][0].size > MOST:
        return f"one pair of positions and momenta with up to {MOST} numbers is written out"
    if not (closed := divergence_free(m)):
        return closed.because
    found = masses(system, split.T)
    if not found:
        return found.because
    (q, p), (b,) = m.pairs[0], m.fields
    axes = q.shape[-1]
    places, own, field, weights = elements(q), elements(p), unroll([b])[0], unroll([found.inverse[0]])[0]
    out: list[ExactPart] = []
    if split.V.leaves & {q}:
        (slope,) = derivative(split.V, [q])
        out.append(part(0, "V", split.V, lambda h: ((p, p - slope * h.expand(p.shape)),)))
    for axis in range(axes):
        energy = UOp.sum_of(0.5 * weights[k] * own[k] * own[k] for k in range(axis, len(own), axes))
        if why := no_integral(places, field, axis, axes):
            return why
        out.append(part(len(out), f"T{'xyz'[axis]}", energy, axis_values(q, p, field, weights, axis)))
    return out


def pushes(axis: int, axes: int) -> list[tuple[int, int, float]]:
    """(momentum, component of B, sign) that motion along an axis changes: p_j' = e_jik v_i B_k."""
    if axes == 2:
        return [(1, 0, -1.0)] if axis == 0 else [(0, 0, 1.0)]
    j, k = (axis + 1) % 3, (axis + 2) % 3
    return [(j, k, -1.0), (k, j, 1.0)]


def no_integral(places: list[UOp], field: list[UOp], axis: int, axes: int) -> str:
    length, count = UOp.var("length"), 1 if axes == 2 else 3
    for row in range(len(places) // axes):
        for _, k, _ in pushes(axis, axes):
            u = field[count * row + k]
            if line_integral(u, places[axes * row + axis], length) is None:
                name = "B" if axes == 2 else f"B_{'xyz'[k]}"
                return f"no line integral of {name} along {'xyz'[axis]} is found: {u}"
    return ""


def axis_values(q: UOp, p: UOp, field: list[UOp], weights: list[UOp], axis: int) -> Values:
    axes, count = q.shape[-1], 1 if q.shape[-1] == 2 else 3

    def values(h: UOp) -> tuple[tuple[UOp, UOp], ...]:
        places, own = list(elements(q)), list(elements(p))
        new_q, new_p = list(places), list(own)
        for row in range(len(places) // axes):
            i = axes * row + axis
            length = h * (weights[i] * own[i])
            new_q[i] = places[i] + length
            for j, k, sign in pushes(axis, axes):
                found = line_integral(field[count * row + k], places[i], length)
                assert found is not None
                if Normal().is_zero(found):
                    continue
                new_p[axes * row + j] = own[axes * row + j] + sign * found
        drift = (q, UOp.stack(simplify(new_q), q.shape))
        if all(a is b for a, b in zip(new_p, own)):
            return (drift,)
        return (drift, (p, UOp.stack(simplify(new_p), p.shape)))

    return values


def contact_parts(system: System, facts: Facts) -> list[ExactPart] | str:
    """V of q, T of p, and a multiple of s; or why the energy is not a sum of these."""
    c = system.structure
    assert isinstance(c, Contact) and system.energy is not None
    if system.time is not None and system.time in system.energy.leaves:
        return "the energy depends on t"
    q, p, s = c.states
    held: dict[str, list[tuple[UOp, bool]]] = {"q": [], "p": [], "s": []}

    def mixed(u: UOp) -> bool:
        return len(u.leaves & {q, p, s}) > 1

    for term, minus in terms(system.energy, mixed):
        if mixed(term):
            return f"{term} holds more than one of q, p and s"
        name = "p" if p in term.leaves else "s" if s in term.leaves else "q"
        held[name].append((term, minus))
    out: list[ExactPart] = []
    if held["q"]:
        V = signed_sum(held["q"])
        (slope,) = derivative(V, [q])
        out.append(part(0, "V", V, lambda h: ((p, p - slope * h.expand(p.shape)), (s, s - h * V))))
    if held["p"]:
        T = signed_sum(held["p"])
        (v,) = derivative(T, [p])
        action = ((p * v).sum() if p.shape else p * v) - T
        out.append(part(len(out), "T", T, lambda h: ((q, q + v * h.expand(q.shape)), (s, s + h * action))))
    if held["s"]:
        F = signed_sum(held["s"])
        (rate,) = derivative(F, [s])
        (rest,) = simplify(substitute([F], {s: UOp.const(0.0)}))
        if s in rate.leaves or not Normal().is_zero(rest):
            return f"{F} is not a multiple of s"

        def decay(h: UOp) -> tuple[tuple[UOp, UOp], ...]:
            factor = (-(rate * h)).exp()
            return ((p, p * factor.expand(p.shape)), (s, s * factor))

        out.append(part(len(out), "F", F, decay))
    return out
