"""A goal is refused where the program is not consistent with its energy: no pilot would show that."""

from __future__ import annotations

import pytest

import tinyphysics as tp
from tinyphysics.errors import PlanError


def with_potential(f):
    @tp.hamiltonian
    def h(q: float, p: float):
        return p**2 / 2 + f(q)

    return h


@pytest.mark.parametrize("method", ["auto", "leapfrog", "implicit_midpoint", "rk4"])
@pytest.mark.parametrize("goal", [{"error": 1e-4}, {"energy_drift": 1e-4}])
def test_a_goal_is_refused_where_the_program_is_not_consistent(method, goal):
    system = with_potential(lambda q: q**2 / 2 + tp.where(q < 0.3, 0, 0.2))
    with pytest.raises(PlanError, match="not consistent with its energy: where"):
        tp.compile(system, dt=0.01, method=method, **goal).evolve(q=1.0, p=0.0, steps=10)


def test_no_step_is_suggested_for_a_program_that_is_not_consistent():
    system = with_potential(lambda q: q**2 / 2 + tp.where(q < 0.3, 0, 0.2))
    with pytest.raises(PlanError, match="not consistent"):
        tp.compile(system, dt=0.01).suggest_dt(q=1.0, p=0.0, error=1e-3)


def test_a_goal_is_measured_where_branches_are_shown_to_meet():
    system = with_potential(lambda q: q**2 / 2 + tp.where(q < 0.3, 0, (q - 0.3) ** 2))
    assert tp.compile(system, dt=0.005, error=1e-3).evolve(q=1.0, p=0.0, until=2.0).metrics["goals"]["met"]
