"""Is one field enough for another expression that a system is given by, and one row for another option of a goal?"""

from __future__ import annotations

import json
from dataclasses import dataclass, fields

import pytest

import tinyphysics as tp
from tinyphysics.ir import UOp
from tinyphysics.options import COMPILE, Option, anything
from tinyphysics.plan import Goal
from tinyphysics.planner import conflicts
from tinyphysics.planner.conflicts import Ask
from tinyphysics.planner.methods.catalog import METHODS, OF_FLOW
from tinyphysics.planner.methods.method import not_taken
from tinyphysics.planner.systems.link import others
from tinyphysics.runtime.engines.plans import plan_key
from tinyphysics.runtime.stages.description import goal_data, goal_of, system_data, system_of
from tinyphysics.system import GIVEN_BY, KINDS, System, root, roots_in


@dataclass(frozen=True, eq=False)
class Held(System):
    """A system with one more field: what stays zero."""

    constraints: tuple[UOp, ...] = root(())


@tp.hamiltonian
def falling(q: tp.Vec[2], p: tp.Vec[2], g=1.0):
    return p @ p / 2 + g * q[1]


def rod(square=1.0):
    q = falling.q[0]
    given = {f.name: getattr(falling, f.name) for f in fields(System)}
    return Held(**given, constraints=((q * q).sum() - square,))


def test_the_fields_of_expressions_are_listed_once():
    of_flows = ["energy", "forces", "tensor", "update", "levels", "motion", "friction", "heat", "bias"]
    assert list(roots_in(System)) == [
        *of_flows,
        "stiffness",
        "fixman",
        "absorbed",
        "guards",
        "jumps",
        "gaps",
        "slips",
        "rubs",
    ]
    assert GIVEN_BY.keys() == KINDS.keys() and {*GIVEN_BY.values()} <= roots_in(System).keys()
    assert falling.roots == {"energy": (falling.energy,)} and falling.equations == [falling.energy]


def test_another_field_is_renamed_and_an_equation_of_the_system():
    (c,) = rod().rename(q="x").constraints
    assert [str(v.arg) for v in c.leaves] == ["x"]
    assert rod().equations == [falling.energy, *rod().constraints]


def test_another_field_is_in_the_key_of_a_plan():
    keys = {plan_key(s, Goal(0.1), "auto") for s in (falling, rod(), rod(2.0))}
    assert len(keys) == 3 or None in keys  # None: the package was edited while it ran


def test_another_field_is_saved_and_sums_have_that_of_every_part():
    data = system_data(rod())
    assert list(data)[-1] == "constraints" and list(data)[:-1] == list(system_data(falling))
    assert others([rod(), falling, rod(2.0)]) == {"constraints": [*rod().constraints, *rod(2.0).constraints]}


@pytest.mark.parametrize(
    "option", ({}, {"method": "leapfrog"}, {"order": 4}, {"propagator": "exact"}, {"error": 1e-3})
)
def test_no_method_leaves_another_field_out_silently(option):
    with pytest.raises(tp.PlanError, match="leave out the constraints of `falling`"):
        tp.compile(rod(), 0.1, **option).evolve(q=[1.0, 0.0], p=[0.0, 0.0], steps=1)


def test_every_method_takes_what_there_is():
    assert not any(not_taken(m, falling) for m in (*METHODS, OF_FLOW))


def test_levels_and_motion_come_back_from_a_file_and_have_new_names():
    L = tp.lagrangian(lambda q, v, k=1.0: v**2 / 2 - k * q**4)
    data = system_data(L)
    assert list(data)[-3:] == ["graph", "levels", "motion"]
    again = system_of(data)
    assert again.motion.roots == L.motion.roots and system_data(again) == data
    assert "x" in {str(v.arg) for u in L.rename(q="x").motion.roots for v in u.leaves}


def test_an_option_of_a_goal_is_saved_by_its_name_alone(monkeypatch):
    monkeypatch.setitem(COMPILE, "cut", Option(None, anything, "", of_goal=True))
    plain, goal = (
        Goal(0.1, project=(("L", "x"),)),
        Goal(0.1, project=(("L", "x"),)).given(cut=(("g", 2.0), "q")),
    )
    data = json.loads(json.dumps(goal_data(goal)))
    assert goal_of(data) == goal and goal_of(goal_data(plain)) == plain
    assert data.keys() - goal_data(plain).keys() == {"cut"} and list(data)[-3:] == [
        "cut",
        "project",
        "decision",
    ]
    monkeypatch.setitem(conflicts.PLAIN, "cut", None)
    assert Ask.of(goal, falling).has("cut") and not Ask.of(plain, falling).has("cut")
    assert (
        plan_key(falling, goal, "auto") != plan_key(falling, plain, "auto")
        or plan_key(falling, goal, "auto") is None
    )


def test_a_sum_of_fast_and_slow_parts_has_its_new_names_everywhere():
    @tp.potential
    def trap(q: tp.Vec[2], s=2.0):
        return s * (q @ q) ** 2

    system = tp.compile(tp.fast(trap) + tp.slow(falling), 0.1, inner=3).system.rename(q="x")
    held = (*system.equations, *system.levels, *(u for _, u in system.parts))
    assert "q" not in {str(v.arg) for u in held for v in u.leaves}
    assert tp.compile(system, 0.1).built.certificate.symplectic
