"""Does an energy move states as its structure says?  q' = dH/dp and p' = -dH/dq, written in one place."""

from __future__ import annotations

from pathlib import Path

import tinyphysics as tp
from tinyphysics.ir import UOp
from tinyphysics.rules.calculus.vjp import gradient
from tinyphysics.structure import Canonical, Nothing, structure_of
from tinyphysics.system import State

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
