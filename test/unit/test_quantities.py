"""Is a quantity with a unit refused wherever a number is expected?  Units are not converted: 1 km would be 1 m.

The stand-ins have the attributes that these libraries give to a quantity; the libraries themselves are tested where
they are installed.
"""

from __future__ import annotations

import numpy as np
import pytest
from test_wrong_calls import Astropy, Quantity, Unyt

import tinyphysics as tp
from tinyphysics.given import quantity


@tp.hamiltonian
def spring(q, p, k: float = 1.0):
    return p**2 / 2 + k * q**2 / 2


class Rescaled:
    """As the library `quantities` has it."""

    magnitude, units = np.array(3.0), "km"


class OfOpenmm:
    def __init__(self, value, unit):
        self._value, self.unit = value, unit

    def value_in_unit(self, unit):
        return self._value


def of_pint():
    u = pytest.importorskip("pint").UnitRegistry()
    return 1.0 * u.km, np.ones(2) * u.km


def of_astropy():
    u = pytest.importorskip("astropy.units")
    return 1.0 * u.km, np.ones(2) * u.km


def of_unyt():
    unyt = pytest.importorskip("unyt")
    return unyt.unyt_quantity(1.0, "km"), unyt.unyt_array([1.0, 1.0], "km")


LIBRARIES = {
    "stand-in for pint": lambda: (Quantity(1.0, "kilometer"), Quantity(np.ones(2), "kilometer")),
    "stand-in for astropy": lambda: (Astropy(1.0, "km"), Astropy(np.ones(2), "km")),
    "stand-in for unyt": lambda: (Unyt(1.0, "km"), Unyt(np.ones(2), "km")),
    "pint": of_pint,
    "astropy": of_astropy,
    "unyt": of_unyt,
}


@pytest.fixture(params=LIBRARIES)
def quantities(request):
    return LIBRARIES[request.param]()


# fmt: off
PLACES = {  # where a number is expected
    "state":             lambda one, many: run(q=one),
    "ensemble":          lambda one, many: run(q=many),
    "list":              lambda one, many: run(q=[one, one]),
    "nested list":       lambda one, many: run(q=[[one], [one]]),
    "parameter":         lambda one, many: run(k=one),
    "parameters":        lambda one, many: run(k=many),
    "until":             lambda one, many: run(steps=None, until=one),
    "t0":                lambda one, many: run(t0=one),
    "steps":             lambda one, many: run(steps=one),
    "dt of a run":       lambda one, many: run(dt=one),
    "dt":                lambda one, many: tp.compile(spring, dt=one),
    "pilot":             lambda one, many: tp.compile(spring, dt=0.1, pilot={"q": one, "p": 0.0}),
    "default":           lambda one, many: tp.hamiltonian(lambda q, p, k=one: p**2 / 2 + k * q**2),
    "product":           lambda one, many: tp.hamiltonian(lambda q, p: p**2 / 2 + q * one),
    "product, reversed": lambda one, many: tp.hamiltonian(lambda q, p: p**2 / 2 + one * q),
    "sum":               lambda one, many: tp.hamiltonian(lambda q, p: p**2 / 2 + (q + one) ** 2),
    "observable":        lambda one, many: run(observe={"x": lambda q: q * one}),
    "minimise":          lambda one, many: tp.compile(spring, dt=0.1).minimise(q=one),
    "model":             lambda one, many: tp.compile(model(one), dt=0.1),
}
# fmt: on


def run(**given):
    return tp.compile(spring, dt=0.1).evolve(**{"q": 1.0, "p": 0.0, "steps": 3, **given})


def model(k):
    class Spring(tp.PhysicsSystem):
        def __init__(self):
            self.k = k

        def energy(self, q, p):
            return p**2 / 2 + self.k * q**2 / 2

    return Spring()


@pytest.mark.parametrize("place", PLACES)
def test_a_quantity_is_refused_with_the_line_to_write(quantities, place):
    with pytest.raises(tp.TinyPhysicsError) as found:
        PLACES[place](*quantities)
    if place == "product, reversed" and "symbol" in str(
        found.value
    ):  # unyt asks the symbol for an array first
        return
    assert "a quantity in `k" in str(found.value)
    if place != "steps":  # a number of steps has no unit: an example is said there
        assert any(line in found.value.fix for line in ("m_as(", "to_value("))


@pytest.mark.parametrize("value", [Rescaled(), OfOpenmm(1.0, "nanometer")])
def test_other_libraries_are_known_by_their_attributes(value):
    assert quantity(value) is not None


def test_arrays_that_only_carry_a_label_are_arrays():
    xarray = pytest.importorskip("xarray")
    labelled = xarray.DataArray([1.0, 2.0], attrs={"units": "m"})
    assert labelled.units == "m" and quantity(labelled) is None
    assert run(q=labelled).hash == run(q=[1.0, 2.0]).hash


def test_a_run_that_was_saved_with_units_can_be_gone_on_with():
    pytest.importorskip("xarray")
    out = run()
    again = out.to_xarray()
    assert run(q=again["q"][-1], p=again["p"][-1]).hash == run(q=out.final.q, p=out.final.p).hash
