"""Is everything what its pin says?  Runs one by one, the rest a few at a time; `make replay` shows all that moved at once."""

from __future__ import annotations

from functools import cache

import pytest

from pins import check, runs
from pins.everything import cases, units
from pins.unit import TIERS, Setting

FEW = 12  # of what is cheap, in one test
RUNS = {c.unit.key for c in cases()}
MARKS = {"quick": [pytest.mark.quick], "test": [], "all": [pytest.mark.all]}


@cache
def without_opencl():
    """Why OpenCL cannot run here; empty if it can."""
    return runs.opencl_is_here()


def parameters():
    """Runs alone, the others in small heaps of one group and tier."""
    heaps: list[tuple[str, str, list[str]]] = []
    for u in units().values():
        heap = next((h for h in heaps if h[:2] == (u.group, u.tier) and len(h[2]) < FEW), None)
        if u.key in RUNS or heap is None:
            heaps.append((u.group, "" if u.key in RUNS else u.tier, [u.key]))
        else:
            heap[2].append(u.key)
    for _, _, keys in heaps:
        name = keys[0] if len(keys) == 1 else f"{keys[0]} and {len(keys) - 1} more"
        yield pytest.param(keys, id=name, marks=MARKS[units()[keys[0]].tier])


@pytest.mark.slow("nothing moves unseen")
@pytest.mark.parametrize("keys", list(parameters()))
def test_nothing_moved(keys):
    setting = Setting(opencl=not without_opencl(), cuda="fake")
    moved = [m for key in keys for m in check.checked(units()[key], setting)]
    assert not moved, "\n".join(["make replay-update REASON=... if this is meant", *map(str, moved)])


@pytest.mark.quick
def test_pins_of_opencl_are_compared_here():
    if why := without_opencl():
        pytest.skip(f"the pins of OpenCL are left out: {why}")


@pytest.mark.quick
def test_every_pin_is_of_something_that_is_still_computed():
    assert check.left_over() == []


@pytest.mark.quick
def test_tiers_are_as_large_as_their_names_promise():
    sizes = {tier: sum(c.unit.is_in(tier) for c in cases()) for tier in TIERS}
    assert sizes["quick"] == 30 and sizes["test"] == 100 and sizes["all"] >= 300


@pytest.mark.quick
def test_every_method_of_the_catalogue_is_pinned():
    from tinyphysics.planner.methods.catalog import METHODS

    asked = {c.options.get("method") for c in cases()}
    assert [m.name for m in METHODS if m.name not in asked] == []


@pytest.mark.quick
@pytest.mark.parametrize("tier", TIERS)
def test_every_kind_of_run_and_every_precision_is_in_each_tier(tier):
    inside = [c for c in cases() if c.unit.is_in(tier)]
    assert {c.group for c in inside} == {c.group for c in cases()}
    assert {c.options.get("precision", "float64") for c in inside} >= {
        "float64", "float32", "compensated", "mixed", "dd", "lattice",
    }  # fmt: skip
    assert any(c.opencl for c in inside) and any(c.fake_cuda for c in inside)


def test_twenty_runs_and_more_are_behind_the_fake_driver():
    assert sum(c.fake_cuda for c in cases()) >= 20
