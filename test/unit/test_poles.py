"""Where a denominator is zero an energy is infinite, or it may jump: then it is not certified as consistent."""

import pytest

import tinyphysics as tp
from tinyphysics.ir import UOp
from tinyphysics.rules.equality.poles import hidden_pole


def quadrupole(q):
    r2 = q @ q
    return -1 / tp.sqrt(r2) * (1 - 0.001 * (1.5 * q[2] ** 2 / r2 - 0.5) / r2)


def lennard_jones(q):
    s = (1 / (q @ q)) ** 3
    return 4 * s * (s - 1)


INFINITE = {
    "gravity": lambda q: -1 / tp.norm(q),
    "a pole": lambda q: 1 / q[0],
    "lennard-jones": lennard_jones,
    "screened": lambda q: (1 + tp.norm(q)) * tp.exp(-tp.norm(q)) / tp.norm(q),
    "of higher order": lambda q: q[0] * q[1] / tp.norm(q) ** 5,
    "a quadrupole": quadrupole,
    "zero elsewhere": lambda q: (q[0] - 1) / q[0],
    "another number": lambda q: q[0] / abs(q[1]),
    "never zero": lambda q: q[0] / tp.sqrt(1 + q @ q),
    "a power": lambda q: abs(q[0]) ** (1 + q[1] ** 2),
    "a logarithm": lambda q: tp.log(q @ q),
    "a bounded function of no pole": lambda q: tp.arctan(q[0]) + tp.tanh(q[1] ** 3),
}
JUMPS = {
    "x/|x|": lambda q: q[0] / abs(q[0]),
    "x/root of a square": lambda q: q[0] / tp.sqrt(q[0] * q[0]),
    "a direction": lambda q: q[0] / tp.norm(q),
    "two directions": lambda q: q[0] * q[1] / (q @ q),
    "cubes": lambda q: q[0] ** 3 * abs(q[0]) ** -3.0,
    "a product": lambda q: q[0] * q[1] / abs(q[0] * q[1]),
    "behind a sum": lambda q: (1 / abs(q[0]) + 1) * q[0],
    "beside what is finite": lambda q: q[0] / (abs(q[0]) * (1 + q[1] ** 2)),
    "poles over poles": lambda q: (1 / q[0]) / (1 + 1 / abs(q[0])),
    "arctan": lambda q: tp.arctan(1 / q[0]),
    "tanh": lambda q: tp.tanh(1 / q[0]),
    "sin": lambda q: tp.sin(1 / q[0]),
    "exp": lambda q: tp.exp(-1 / q[0]),
    "clipped": lambda q: tp.maximum(tp.minimum(1 / q[0], 1.0), -1.0),
    "a power that is not known": lambda q: q[0] * (q[0] * q[0]) ** (-0.5 * q[1]),
    "sin of a logarithm": lambda q: tp.sin(tp.log(abs(q[0]))),
    "arctan of tan": lambda q: tp.arctan(tp.tan(q[0])),
}


def consistent(V):
    @tp.hamiltonian
    def system(q: tp.Vec[3], p: tp.Vec[3]):
        return p @ p / 2 + V(q)

    return tp.compile(system, dt=0.01, backend="python").certificate.consistent


@pytest.mark.parametrize("name", INFINITE)
def test_what_is_infinite_there_is_seen_in_a_run(name):
    assert consistent(INFINITE[name])


@pytest.mark.parametrize("name", JUMPS)
def test_what_may_jump_there_is_not_certified(name):
    verdict = consistent(JUMPS[name])
    assert not verdict and "may jump" in verdict.because


def test_the_energy_of_a_run_does_jump_there():
    """The drift that no certificate may call consistent."""
    sign = tp.hamiltonian(lambda q, p: p**2 / 2 + 0.1 * q / abs(q))
    out = tp.compile(sign, dt=0.01, checks="off").evolve(q=-1.0, p=1.0, steps=200)
    assert abs(out.energy[-1] - out.energy[0]) > 0.19


def test_arrays_that_are_not_taken_apart_are_judged_as_a_whole():
    q, m = UOp.var("q", (100, 3)), UOp.var("m", (100,))
    r = ((q[:, None] - q[None, :]) ** 2).sum(-1).sqrt()
    assert hidden_pole([(m[:, None] * m[None, :] / r).sum()], frozenset([q])) is None
    assert hidden_pole([((q[:, None] - q[None, :]).sum(-1) / r).sum()], frozenset([q])) is not None
    assert hidden_pole([((q[:, None] - q[None, :]).sum(-1) / r**3).sum()], frozenset([q])) is None


@pytest.mark.parametrize(
    "V, holds",
    [
        (lambda q: abs(q) * (q * q - 1 / abs(q)), True),
        (lambda q: abs(q) * tp.sqrt(abs(q)) * (q + 2 / abs(q)), True),
        (lambda q: q * (q * q - 1 / abs(q)), False),
        (lambda q: abs(q) * (q * q - q / (abs(q) * abs(q))), False),
    ],
)
def test_what_cancels_is_no_pole_and_what_does_not_is_one(V, holds):
    @tp.hamiltonian
    def line(q, p):
        return p * p / 2 + V(q)

    assert bool(tp.compile(line, dt=0.01).certificate["consistent"]) is holds
