"""Energies that move other states than positions and momenta."""

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.runtime.stages.description import system_data, system_of
from tinyphysics.tpir import parse

L0 = (0.5, 1.1, 0.7)


@tp.hamiltonian(bracket="so3")
def top(L: tp.Vec[3], moments: tp.Vec[3] = (1.0, 2.0, 3.0)):
    return (L**2 / moments).sum() / 2


@tp.hamiltonian(bracket="spin")
def spins(S: tp.Array[2, 3], B: tp.Vec[3] = (0.0, 0.0, 1.0)):
    return -(S @ B).sum()


def test_a_body_frame_and_a_space_frame_turn_in_opposite_senses():
    body, space = (
        s.structure.matrix([1.0, 2.0, 3.0, 0.0, 0.0, 1.0][: s.states[0].var.size]) for s in (top, spins)
    )
    assert body == [[0, -3, 2], [3, 0, -1], [-2, 1, 0]]
    assert [row[:3] for row in space[:3]] == [[0, 3, -2], [-3, 0, 1], [2, -1, 0]]
    assert [row[3:] for row in space[:3]] == [[0] * 3] * 3


def test_a_spin_precesses_about_its_field_by_any_method_that_asks_for_rates():
    out = tp.compile(spins, dt=0.01, method="rk4").evolve(S=[[1.0, 0.0, 0.0], [0.0, 0.6, 0.8]], steps=100)
    assert np.allclose(out.final.S[0], [np.cos(1.0), -np.sin(1.0), 0.0], atol=1e-9)
    assert np.allclose(out.final.S[1], [0.6 * np.sin(1.0), 0.6 * np.cos(1.0), 0.8], atol=1e-9)


def test_a_system_with_a_bracket_is_saved_and_listed():
    again = system_of(system_data(top))
    assert [s.role for s in again.states] == ["so3"] and again.structure.states[0].shape == (3,)
    program = tp.compile(top, dt=0.1, method="rk4").tpir
    assert parse(str(program)) == program and "so3" in str(program)


def test_parts_with_one_bracket_are_added():
    @tp.hamiltonian(bracket="so3")
    def rotor(L: tp.Vec[3], b: tp.Vec[3] = (0.1, 0.0, 0.0)):
        return L @ b

    whole = tp.compile(top + rotor, dt=0.1, method="rk4")
    assert [s.role for s in whole.system.states] == ["so3"]

    @tp.hamiltonian(bracket="spin")
    def outside(L: tp.Vec[3]):
        return L[0] + L[1] + L[2]

    with pytest.raises(tp.PlanError, match="different brackets"):
        tp.compile(top + outside, dt=0.1)
