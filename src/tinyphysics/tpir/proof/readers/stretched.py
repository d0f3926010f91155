"""Is a step with a thermostat of Nosé and Poincaré one of the Hamiltonian that they gave it?

That is s (H(q, y/s) + p_eta²/2Q + g k_BT ln s), of the pairs (q, y) and (s, p_eta). A listing has p = y/s and eta = ln s in
their place; where the energy keeps the momentum of the whole, y/s is what p has besides, and the whole moves by itself. A
block of updates is the flow of s V where it adds to momenta what V gives them, and -V to p_eta, with one h; of
s (T + g k_BT ln s) where it adds to positions what T gives them, and T - g k_BT (1 + eta) to p_eta. THERMO lines are that of
s p_eta²/2Q where their values are those of rules/formulas/thermostats.py. Flows of parts of one Hamiltonian are symplectic.
One thermostat alone is known not to be ergodic for oscillators, so nothing is said of the law that states have.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction

from tinyphysics.ir.uop import UOp
from tinyphysics.rules.formulas.thermostats import NOSE_POINCARE, Thermostat, pushes
from tinyphysics.tpir.program.isa import Program
from tinyphysics.tpir.program.symbolic import state_of, state_var
from tinyphysics.tpir.proof.blocks import Group, applied, idle, length, multiple
from tinyphysics.tpir.proof.certificate import Verdict
from tinyphysics.tpir.proof.heated import not_kept
from tinyphysics.tpir.proof.readers.shears import ShearReader
from tinyphysics.tpir.proof.units import moving
from tinyphysics.tpir.proof.weights import Applied, not_symmetric, off_weight, symmetric, uneven

THERMO = 30_000  # as a part
PARTS = {"V": "s*V", "T": "s*(T + g*k_BT*ln s)"}
ALONE = (
    "one thermostat alone is not ergodic for an oscillator: averages are canonical only where the motion is; "
    "bath=tp.nose_hoover() has a chain"
)


class StretchedReader:
    """Kicks and drifts that move a thermostat too, and its own part between them."""

    by_derivatives = False
    rank = 830  # before that of the other thermostats, which do not know that shears move one

    def __init__(self, program: Program) -> None:
        self.program, self.shears = program, ShearReader(program, beside=("THERMO",))
        self.blocks, self.walk, self.normal = self.shears.blocks, self.shears.walk, self.shears.normal
        self.moves = self.blocks.together.moves
        self.totals = dict.fromkeys(PARTS, Fraction(0))

    @staticmethod
    def has(program: Program) -> bool:
        return any(i.op == "THERMO" and str(i.args[1]) == NOSE_POINCARE for _, _, i in program.numbered())

    def velocity(self, momentum: int) -> UOp:
        return self.shears.slopes(-1)[momentum]

    # --- the parts of the Hamiltonian ---------------------------------------------------------
    def bath(self) -> Thermostat:
        """What its lines declare, of the states as they are at the beginning of a step."""
        (first, *_) = self.moves
        assert first.bath is not None
        own = [state_var(self.program, line.update.state, 0) for line in first.lines]
        count = len(first.bath.momenta)
        return replace(first.bath, momenta=tuple(own[:count]), hidden=tuple(own[count:]))

    def meant(self) -> dict[str, dict[int, UOp]] | str:
        """By what each part moves each state; or why the energy has no such parts."""
        roles, terms = [s.role for s in self.program.states], {"V": UOp.const(0.0), "T": UOp.const(0.0)}
        for u in self.shears.terms:
            held = {roles[k] for k in moving(u)}
            if len(held) > 1 or held - {"position", "momentum"}:
                return "the energy is not shown to be T(p) + V(q)"
            terms["T" if "momentum" in held else "V"] += u
        bath, slopes = self.bath(), self.shears.slopes(-1)
        p_eta = state_of(bath.hidden[1])
        assert p_eta is not None
        out: dict[str, dict[int, UOp]] = {"V": {}, "T": {}}
        for k, role in enumerate(roles):
            if (other := self.program.conjugate(k)) is not None:
                out["T" if role == "position" else "V"][k] = (
                    slopes[other] if role == "position" else -slopes[other]
                )
        for part, push in zip("VT", pushes(bath, terms["V"])):
            out[part][p_eta] = push
            out[part] = {k: u for k, u in out[part].items() if not self.normal.is_zero(u)}
        return out

    def not_a_flow(self, g: Group, meant: Mapping[str, dict[int, UOp]]) -> str:
        """Why a block is not the flow of a part; empty if it is, and its weight is counted."""
        first = g.updates[0]
        moved = {u.state: u.timeless for u in g.updates if not idle(u, self.normal)}
        if not moved:
            return ""
        h = length(first, self.normal, False)
        if h is None:
            return f"{first}: h is not shown to be a multiple of dt"
        for part, flows in meant.items():
            if (by := multiple(moved, flows, self.normal)) is not None:
                self.totals[part] += by * h if first.section == "step" else 0
                return ""
        return (
            f"{first}: the lines with this h are not shown to be the flow of {' or of '.join(PARTS.values())}"
        )

    def symplectic(self) -> Verdict:
        volume = self.shears.volume()
        if not volume:
            return volume
        if not self.moves or any(m.way != NOSE_POINCARE for m in self.moves):
            return Verdict(False, "another bath is beside that of Nosé and Poincaré")
        if any(u.times for u in self.blocks.updates):
            return Verdict(False, "H depends on t, so that it and the thermostat do not stay at zero")
        energy = UOp.sum_of(self.shears.terms)
        if why := not_kept(self.program, self.moves, self.normal, self.velocity, energy):
            return Verdict(False, why)
        meant = self.meant()
        if isinstance(meant, str):
            return Verdict(False, meant)
        for g in self.blocks.groups:
            if why := self.not_a_flow(g, meant):
                return Verdict(False, why)
        eta, p_eta = (self.program.states[line.update.state].name for line in self.moves[0].lines[-2:])
        whole = ", of the motion relative to the centre of mass" if self.bath().axes else ""
        return Verdict(
            True,
            f"symplectic in (q, s*p) and (s, {p_eta}), s = exp({eta}){whole}: exact flows of {PARTS['V']}, {PARTS['T']} and "
            f"s*{p_eta}**2/2Q, the parts of one Hamiltonian",
        )

    # --- verdicts -----------------------------------------------------------------------------
    def flows(self) -> tuple[list[Applied], str]:
        found, trouble = applied(self.blocks, self.normal)
        every = frozenset(range(len(self.program.states)))
        found += [Applied(THERMO, Fraction(m.weight), None, m.update, every, every) for m in self.moves]
        return sorted(found, key=lambda f: f.update.number), trouble

    def consistent(self, symplectic: Verdict) -> Verdict:
        if not symplectic:
            return symplectic
        weights = {PARTS[part]: total for part, total in self.totals.items()}
        weights["the part s*p_eta**2/2Q"] = sum((Fraction(m.weight) for m in self.moves), Fraction(0))
        meant = self.meant()
        assert not isinstance(meant, str)
        for (name, total), flows in zip(weights.items(), [*meant.values(), {0: None}]):
            if flows and (why := off_weight(name, total)):
                return Verdict(False, why)
        if self.walk.jump:
            return Verdict(False, self.walk.jump)
        return Verdict(
            True, "every part of the Hamiltonian enters with total weight 1, and so does the thermostat"
        )

    def verdicts(self) -> Mapping[str, Verdict]:
        symplectic = self.symplectic()
        if not symplectic:
            return dict.fromkeys(
                ("symplectic", "canonical", "symmetric", "reversible", "consistent"), symplectic
            )
        flows, trouble = self.flows()
        trouble = trouble or uneven(flows)
        palindrome, consistent = symmetric(flows, trouble), self.consistent(symplectic)
        if consistent and trouble:
            consistent = Verdict(False, trouble)
        back = Verdict(
            True, "symmetric, and negating momenta and p_eta reverses every sub-flow: T is even in p"
        )
        return {
            "symplectic": symplectic,
            "canonical": Verdict(False, ALONE),
            "symmetric": palindrome,
            "reversible": back if palindrome else Verdict(False, not_symmetric(palindrome)),
            "consistent": consistent,
        }
