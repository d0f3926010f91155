"""Do methods have the order they claim on random energies?  A sample of what `tools/orders.py` does for 1,000 of them."""

import os

import mpmath
import pytest

import tinyphysics as tp
from tinyphysics.planner.methods.catalog import BY_NAME
from tools_of import tool

orders = tool("orders")
ENERGIES = int(os.environ.get("TINYPHYSICS_ORDERS", "60"))
BATCH = 10
SPLITTINGS = [name for name, m in BY_NAME.items() if m.splits]


@pytest.mark.requirement("S2-42", "S2-57")
@pytest.mark.parametrize("batch", range(ENERGIES // BATCH))
def test_the_order_on_random_energies_is_at_least_what_is_claimed(batch):
    """Each energy meets one method that applies to it, the next energy the next."""
    with mpmath.workdps(orders.DIGITS):
        for seed in range(batch * BATCH, (batch + 1) * BATCH):
            subject = orders.Subject(seed)
            methods = list(subject.methods(SPLITTINGS))
            m = methods[seed % len(methods)]
            found = subject.measure(m)
            assert found.order is not None and found.order >= m.order - orders.BELOW, (seed, m.name, found)
            assert not found.untrue, (seed, m.name, found)


def test_a_method_of_a_lower_order_than_it_claims_would_be_found():
    with mpmath.workdps(orders.DIGITS):
        subject = orders.Subject(0)
        found = subject.measure(BY_NAME["leapfrog_kdk"])
        assert found.order == pytest.approx(2, abs=0.2)
        run = orders.in_digits(orders.program_of(subject, BY_NAME["leapfrog_kdk"]))
        assert subject.order(run, 4) < 4 - orders.BELOW


def test_the_reference_solves_an_oscillator():
    @tp.hamiltonian
    def oscillator(q, p):
        return p**2 / 2 + q**2 / 2

    with mpmath.workdps(orders.DIGITS):
        q, p = orders.solution(oscillator, [mpmath.mpf(1), mpmath.mpf(0)], orders.Fraction(1))
        assert abs(q - mpmath.cos(1)) < 1e-30 and abs(p + mpmath.sin(1)) < 1e-30
