"""What a user writes to be run keeps its parentheses: the operations of the expression, in its order, each rounded once."""

from __future__ import annotations

import numpy as np
import pytest
from here import HERE

import tinyphysics as tp

# results differ from those of real numbers, and from each other if a rule reorders, contracts or divides otherwise
EXPRESSIONS = {
    "lost": lambda x, y, m: (x - (x + y)) + y,
    "what a sum loses": lambda x, y, m: y - ((x + y) - x),
    "compensated": lambda x, y, m: (x + (y - m)) - x - (y - m),
    "twice": lambda x, y, m: (x + x) - x * 2.0 + (x + y) - x,
    "three products": lambda x, y, m: x * y + y * m - m * x,
    "a product and a sum": lambda x, y, m: x * y - (x * y - m),
    "opened": lambda x, y, m: x * (y + 1.0) - x * y - x,
    "quotients": lambda x, y, m: x / m + y / m - (x + y) / m,
    "quotient of a quotient": lambda x, y, m: (x / y) / m - x / (y * m),
    "by a constant": lambda x, y, m: x / 3.0 * 3.0 - x + y / 49.0 * 49.0 - y,
    "powers": lambda x, y, m: x**2 - x * x + y / x**2 - y / (x * x),
    "roots": lambda x, y, m: np.sqrt(x * x) / x + np.sqrt(abs(y)) * np.sqrt(abs(y)) - abs(y),
}
NUMBERS = [
    (1e16, 1.0, 3.0),
    (0.1, 0.2, 0.3),
    (1 / 3, 1e-9, 7.0),
    (12345.678, -0.999, 49.0),
    (1e8 + 1, 1e-8, 0.7),
]


def expected(f, x, y, m):
    with np.errstate(all="ignore"):
        return float(f(np.float64(x), np.float64(y), np.float64(m)))


@pytest.mark.parametrize("backend", HERE)
@pytest.mark.parametrize("name", EXPRESSIONS)
def test_a_map_is_what_python_computes(name, backend):
    f = EXPRESSIONS[name]

    @tp.map
    def step(x: float, y: float, m: float = 1.0):
        return f(x, y, m), y

    sim = tp.compile(step, backend=backend)
    for x, y, m in NUMBERS:
        assert float(sim.evolve(x=x, y=y, m=m, steps=1).final.x) == expected(f, x, y, m), (x, y, m)


@pytest.mark.parametrize("backend", [b for b in HERE if b != "python"])
def test_a_map_in_loops_is_what_python_computes(backend):
    m = 49.0
    for f in EXPRESSIONS.values():

        @tp.map
        def step(x: tp.Vec[40], y: tp.Vec[40]):
            return f(x, y, m), y  # noqa: B023

        x, y = np.linspace(0.3, 1e8, 40), np.linspace(-1.0, 1.0, 40)
        out = tp.compile(step, backend=backend).evolve(x=x, y=y, steps=1)
        assert np.array_equal(out.final.x, [expected(f, a, b, m) for a, b in zip(x, y)])


def test_a_compensated_sum_that_a_user_writes_works():
    @tp.map
    def kahan(s: float, c: float, x: float = 0.1):
        y = x - c
        t = s + y
        return t, (t - s) - y

    @tp.map
    def plain(s: float, x: float = 0.1):
        return s + x

    n = 1_000_000
    out = tp.compile(kahan).evolve(s=0.0, c=0.0, steps=n)
    assert (
        abs(out.final.s - 0.1 * n) < 2e-11 < abs(tp.compile(plain).evolve(s=0.0, steps=n).final.s - 0.1 * n)
    )


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_rates_forces_observables_and_energies_are_what_python_computes(name):
    f = EXPRESSIONS[name]

    @tp.ode
    def rates(x: float, y: float, z: float, m: float = 1.0):
        return 0.0 * x, 0.0 * y, f(x, y, m)

    @tp.forces
    def pushed(q: tp.Vec[2], m: float = 1.0):
        return np.stack([f(q[0], q[1], m), 0.0 * q[1]])

    @tp.hamiltonian
    def energy(q: tp.Vec[2], p: tp.Vec[2], m: float = 1.0):
        return f(q[0], q[1], m) + p @ p

    euler = tp.compile(rates, dt=1.0, method="euler")
    kick = tp.compile(pushed, dt=1.0, method="symplectic_euler")
    still = tp.compile(energy, dt=0.1, method="leapfrog")
    for x, y, m in NUMBERS:
        value, start = expected(f, x, y, m), dict(q=[x, y], p=[0.0, 0.0], m=m)
        assert float(euler.evolve(x=x, y=y, z=0.0, m=m, steps=1).final.z) == value
        assert float(kick.evolve(**start, steps=1).final.p[0]) == value
        out = still.evolve(**start, steps=0, observe={"f": lambda q, m: f(q[0], q[1], m)})
        assert float(out["f"][0]) == value and float(out.energy[0]) == value


@pytest.mark.parametrize("method", ["rk4", "dop853", "radau"])
def test_stages_evaluate_rates_as_they_are_written(method):
    """What is lost in (x - (x + y)) + y is lost in every stage: then x stays where it is, and z grows by the time."""

    @tp.ode
    def rates(x: float, y: float, z: float):
        return 0.0 * x, 0.0 * y, (x - (x + y)) + y

    run = {} if method == "rk4" else {"tolerance": 1e-6}
    out = tp.compile(rates, dt=0.5, method=method, **run).evolve(x=1e16, y=1.0, z=0.0, steps=4)
    assert out.final.z == pytest.approx(2.0, rel=1e-12)


def test_a_derivative_of_an_energy_is_ours():
    """It is simplified as real numbers allow: what is nothing exerts no force, whatever it would round to."""

    @tp.hamiltonian
    def plain(q: float, p: float):
        return p**2 / 2 + q**2 / 2

    @tp.hamiltonian
    def more(q: float, p: float):
        return p**2 / 2 + q**2 / 2 + ((q - (q + 1.0)) + 1.0)

    ends = [
        tp.compile(h, dt=0.1, method="leapfrog").evolve(q=1e16, p=0.0, steps=3).final for h in (plain, more)
    ]
    assert ends[0].q == ends[1].q and ends[0].p == ends[1].p
