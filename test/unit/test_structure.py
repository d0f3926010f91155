"""Does an energy move states as its structure says, and is what may be asked of it said there too?"""

from __future__ import annotations

from pathlib import Path

import pytest

import tinyphysics as tp
from tinyphysics.analysis.analyse import QUESTIONS, facts_of
from tinyphysics.facts import Fact, Facts
from tinyphysics.ir import UOp
from tinyphysics.planner.choice.choose import instead, of_order
from tinyphysics.plan import Goal
from tinyphysics.planner.methods.catalog import BY_NAME, METHODS
from tinyphysics.planner.methods.needs import objection
from tinyphysics.rules.calculus.vjp import gradient
from tinyphysics.structure import (
    CLAIMS,
    FIVE,
    ROLES,
    STRUCTURES,
    WORDS,
    Canonical,
    Nothing,
    structure_of,
    word_of,
)
from tinyphysics.system import State, System
from tinyphysics.tpir.program import isa
from tinyphysics.tpir.program.symbolic import structure_at
from tinyphysics.tpir.proof.certificate import Verdict
from tinyphysics.tpir.verifier import meaningful
from tinyphysics.user_bracket import UserBracket

q, p, x, y = (UOp.var(name) for name in ("q", "p", "x", "y"))


@tp.hamiltonian
def pendulum(q, p):
    return p**2 / 2 - tp.cos(q)


@tp.map
def turn(a, b):
    return b, -a


def test_a_derivative_moves_the_partner_of_its_state():
    two = Canonical(((q, p), (x, y)))
    assert two.states == (q, p, x, y)
    assert [two.partner(u) for u in two.states] == [p, q, y, x]
    assert two.flow({p: 1, q: 2, y: 3}) == [(q, 1, "pass"), (p, 2, "negate"), (x, 3, "pass")]


def test_rates_are_those_of_hamilton():
    s = pendulum.structure
    H, own = pendulum.energy, s.states
    rates = s.rates(dict(zip(own, gradient(H, own))))
    dq, dp = gradient(H, own)
    assert rates[own[0]] is dp and rates[own[1]] is -dq


def test_pairs_are_of_positions_and_momenta_in_their_order():
    states = [State("q", q, "position"), State("p", p, "momentum"), State("w", x, "auxiliary")]
    found = structure_of(states)
    assert found.pairs == ((q, p),) and found.partner(x) is None


def test_a_map_has_none():
    assert isinstance(turn.structure, Nothing) and turn.structure.partner(turn.states[0].var) is None


def test_no_other_file_pairs_states_by_their_numbers():
    source = Path(tp.__file__).parent
    rooms = ("flows", "synth", "planner", "analysis")
    found = [
        f for room in rooms for f in (source / room).rglob("*.py") if "^ 1" in f.read_text(encoding="utf-8")
    ]
    assert found == []


# --- what may be asked ---------------------------------------------------------------------------------------
def test_listings_have_the_words_of_all_structures():
    assert ROLES == isa.ROLES and ROLES[:2] == ("position", "momentum")
    assert ROLES[-4:] == ("field", "auxiliary", "error", "cotangent")
    assert WORDS == ("pass", "negate", "bracket", "force") == isa.POISSON_TYPES
    assert CLAIMS[: len(FIVE)] == FIVE and CLAIMS == isa.CLAIMS
    assert [word_of(role) for role in ROLES] == ["pass", "negate", *[None] * (len(ROLES) - 2)]


def test_a_listing_has_the_structure_of_its_system():
    program = tp.compile(pendulum, dt=0.1).tpir
    found = structure_at(program)
    assert [str(u.arg) for u in found.states] == ["S0@0", "S1@0"]
    assert found.mirror() == {found.states[1]: -found.states[1]}


@tp.hamiltonian(bracket=lambda z: [[0.0, z[0]], [-z[0], 0.0]])
def user_bracket(z: tp.Vec[2]):
    return z[0] + z[1] ** 2


@pytest.mark.parametrize("kind", STRUCTURES)
def test_every_fact_that_is_asked_is_a_row_and_every_family_a_kind(kind):
    assert {*kind.facts} <= {*QUESTIONS} and kind.claims
    own = user_bracket.structure.families if kind is UserBracket else kind.families
    assert {*own} <= {m.family.kind for m in METHODS}


def test_every_question_is_asked_of_some_structure():
    assert {name for s in STRUCTURES for name in s.facts} == {*QUESTIONS}


def test_what_is_not_asked_of_a_structure_does_not_hold():
    found = Facts((Fact.yes("smooth", because="so"),), unasked="no pairs")
    assert found["smooth"] and not found["separable"] and found["separable"].because == "no pairs"
    assert "separable" not in found and [f.name for f in found.plus(Fact.no("reads", because=""))] == [
        "smooth",
        "reads",
    ]
    with pytest.raises(KeyError, match="separable"):
        Facts(())["separable"]


def test_the_defect_of_a_shear_is_nothing_and_that_of_a_dilation_is_not():
    s, at, z = pendulum.structure, {u: k for k, u in enumerate(pendulum.structure.states)}, [0.3, 0.4]

    def defect(M):
        return [sum(products) - wanted for _, _, products, wanted in s.defect(M, at, z, z)]

    assert defect([[1.0, 0.5], [0.0, 1.0]]) == [0.0] and defect([[2.0, 0.0], [0.0, 1.0]]) == [-1.0]


# --- another structure --------------------------------------------------------------------------------------
class Spinning(Nothing):
    """As far as planner and certificate ask: its own first claim, few facts, one family."""

    claims = ("poisson", "symmetric", "consistent")
    facts = ("smooth", "reads")
    unasked = "its states are angular momenta"
    families = ("shears",)


@pytest.fixture
def spinning(monkeypatch):
    monkeypatch.setattr(System, "structure", property(lambda _: Spinning()))
    return pendulum


def test_a_structure_says_which_facts_are_asked(spinning):
    found = facts_of(spinning)
    assert [f.name for f in found] == ["smooth", "reads"]
    assert not found["separable"] and found["separable"].because == Spinning.unasked


def test_a_structure_says_which_methods_fit(spinning):
    facts = facts_of(spinning)
    assert objection(BY_NAME["leapfrog_kdk"], spinning, facts) == Spinning.unasked
    assert {m.name for m in of_order(2, True, spinning, facts, Goal(0.1))} == {"strang"}
    advice = instead(spinning, facts)  # it names what applies, and this energy is not given in parts
    assert ("`strang`" in advice) is not bool(objection(BY_NAME["strang"], spinning, facts))
    assert "gauss4" not in advice


def test_a_certificate_has_the_claims_of_its_structure():
    yes, no = Verdict(True, "so"), Verdict(False, "not so")
    c = meaningful({"symplectic": yes, "symmetric": no, "conformal": yes}, Spinning())
    assert list(c) == ["poisson", "symmetric", "consistent", "conformal"]
    assert not c.poisson and "nothing is known about `poisson`" in c.poisson.because
