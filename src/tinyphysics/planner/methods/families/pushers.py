"""Steps of charges in magnetic fields that turn momenta about B: volume is kept, and no more is claimed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from tinyphysics.analysis.masses import masses
from tinyphysics.analysis.vector_potential import vector_potential
from tinyphysics.charged import Magnetic
from tinyphysics.facts import Facts
from tinyphysics.ir import Ops, UOp, toposort
from tinyphysics.ir.vectors import columns
from tinyphysics.planner.methods.method import PUSHERS, Family, Job, Method
from tinyphysics.report import Row
from tinyphysics.rules.equality.normal import Normal
from tinyphysics.rules.formulas.relativity import NAME as RELATIVISTIC
from tinyphysics.rules.formulas.relativity import root
from tinyphysics.rules.identities.real import simplify
from tinyphysics.step import Step, Term
from tinyphysics.synth.methods.derivative import derivative
from tinyphysics.synth.methods.pushers import Charges, half_angle, higuera_cary, pushed, vay_step
from tinyphysics.system import System


@dataclass(frozen=True, eq=False)
class Pusher(Family):
    way: str = "cayley"
    about: Callable[[Charges], UOp] = half_angle
    fast: bool | None = None  # is it for relativistic kinetic energies only, or for none of them?
    kind = PUSHERS
    takes = (*Family.takes, "tensor", "friction")

    def keeps(self, method: Method) -> tuple[str, ...]:
        return ("volume-preserving", "symmetric")

    def lacking(self, system: System, facts: Facts) -> str | None:
        found = self.parts(system, facts)
        return found if isinstance(found, str) else None

    def parts(self, system: System, facts: Facts) -> Found | str:
        return charges_in(system, facts, self.fast)

    def step(self, job: Job) -> Step:
        found = self.parts(job.system, job.facts)
        assert not isinstance(found, str), "what lacks its parts is not chosen"
        claims = job.claims if not found.canonical else ("volume-preserving",)
        if job.system.friction:
            claims = ("volume-factor", "symmetric")
        make = partial(
            pushed, job.method.name, job.system, found.terms, found.V, found.charges, found.drifts, claims
        )
        return make(self.way, self.about, found.canonical)

    def rows(self, method: Method, facts: Facts) -> list[Row]:
        what = (
            "a turn about B(q) is not the flow of a part of H: no shadow energy is kept, and none is claimed"
        )
        return [Row("not symplectic", "volume only", what)]


@dataclass(frozen=True, eq=False)
class Found:
    terms: tuple[Term, ...]
    V: UOp
    charges: tuple[Charges, ...]
    drifts: list[tuple[UOp, UOp, str]]
    canonical: tuple[tuple[UOp, UOp], ...] = ()


def charges_in(system: System, facts: Facts, fast: bool | None) -> Found | str:
    """The charges of a system and what moves them; or why there are none."""
    if system.energy is None:
        return "it is not given by an energy"
    structure = system.structure
    if not isinstance(structure, Magnetic):
        return in_potential(system, fast)
    split = facts["separable"]
    if not split:
        return f"H is not shown to be T(p) + V(q): {split.because}"
    T, V = split.T, split.V
    if system.time is not None and system.time in T.leaves:
        return "its kinetic energy depends on time"
    relativistic = [u for u in toposort([T]) if u.op is Ops.CUSTOM and u.arg == RELATIVISTIC]
    if fast is not None and fast is not bool(relativistic):
        return (
            'it is for fast particles: kinetics="relativistic"' if fast else "it is for slow particles only"
        )
    weights = masses_of(system, T, structure, relativistic)
    if isinstance(weights, str):
        return weights
    drifts = structure.flow(dict(zip(system.p, derivative(T, system.p))))
    return Found((Term("T", T), Term("V", V)), V, tuple(weights), drifts)


def masses_of(
    system: System, T: UOp, structure: Magnetic, relativistic: Sequence[UOp]
) -> list[Charges] | str:
    out = []
    if relativistic:
        nodes = {p: next((u for u in relativistic if p in u.leaves), None) for p in system.p}
        for (q, p), b in zip(structure.pairs, structure.fields):
            node = nodes[p]
            if node is None:
                return f"the kinetic energy of `{p.arg}` is not that of fast particles"
            _, m, c = node.src
            light = next((x.var for x in system.parameters if x.name == "c"), None)
            if light is None:
                return "the speed of light is not a parameter c"

            def weight(p: UOp, m: UOp = m, c: UOp = c) -> UOp:
                squares = UOp.sum_of([x * x for x in columns(p)])
                return 1.0 / root(squares, m.expand(squares.shape), c.expand(squares.shape))

            shape = p.shape[:-1]
            out.append(Charges(q, p, b, weight, light, m.expand(shape)))
        return out
    found = masses(system, T)
    if not found:
        return found.because
    for (q, p), b, w in zip(structure.pairs, structure.fields, found.inverse):
        own = simplify(columns(w))
        if any(not Normal().same(x, own[0]) for x in own):
            return f"the components of {p.arg} are not shown to have one mass"
        out.append(Charges(q, p, b, lambda p, w=own[0]: w))  # type: ignore[misc]
    return out


def in_potential(system: System, fast: bool | None) -> Found | str:
    """A vector potential inside H: momenta are kinetic in the loop, and canonical where they are seen."""
    if fast:
        return 'it is for fast particles: kinetics="relativistic"'
    found = vector_potential(system)
    if not found:
        return found.because
    (q, p), own = system.pairs[0], found.parts
    w = own["inverse_mass"]
    c = Charges(q, p, own["field"], lambda p: w)
    mass = w.reshape(*w.shape, 1).expand(p.shape) if p.shape[:-1] == w.shape else w
    drifts = [(q, p * mass, "pass")]
    assert system.energy is not None
    return Found((Term("H", system.energy),), own["V"], (c,), drifts, ((p, own["A"]),))


@dataclass(frozen=True, eq=False)
class Vay(Family):
    kind = PUSHERS
    takes = (*Family.takes, "tensor")

    def keeps(self, method: Method) -> tuple[str, ...]:
        return ()

    def lacking(self, system: System, facts: Facts) -> str | None:
        found = charges_in(system, facts, True)
        if not isinstance(found, str) and system.time is not None:
            return "a field that depends on t is seen in the middle of a step, which this map does not know"
        return found if isinstance(found, str) else None

    def step(self, job: Job) -> Step:
        found = charges_in(job.system, job.facts, True)
        assert not isinstance(found, str), "what lacks its parts is not chosen"
        return vay_step(job.method.name, job.system, found.terms, found.V, found.charges, found.drifts)

    def rows(self, method: Method, facts: Facts) -> list[Row]:
        return [
            Row(
                "not symplectic",
                "no volume",
                "its map changes volumes in phase space; nothing is shown of it",
            )
        ]


BORIS, EXACT, HIGUERA_CARY = Pusher(), Pusher("exact", fast=False), Pusher(about=higuera_cary, fast=True)
VAY = Vay()
