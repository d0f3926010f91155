"""What does a newcomer get wrong first, and does the answer help?"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics import tpir


@tp.hamiltonian
def spring(q, p, k: float = 1.0):
    return p**2 / 2 + k * q**2 / 2


class Well(tp.PhysicsSystem):
    depth = 2.0

    def energy(self, q, p):
        return p**2 / 2 + self.depth * q**4


def test_a_force_that_reads_the_momentum_is_refused():
    """As a parameter named p it would run without friction, certified."""
    with pytest.raises(tp.TraceError, match="takes `p`"):
        tp.forces(lambda q, p: -q - 0.1 * p)


def test_a_scalar_force_is_not_spread_over_a_vector_but_a_constant_is():
    def one(q: tp.Vec[2]):
        return q[0]

    def wind(q: tp.Vec[2]):
        return 0.5

    with pytest.raises(tp.ShapeError, match="one force for each number"):
        tp.forces(one)
    out = tp.compile(tp.forces(wind), dt=0.1).evolve(q=[0.0, 0.0], p=[0.0, 0.0], steps=10)
    assert np.allclose(out.final.p, 0.5)


@pytest.mark.parametrize(
    "call, what, remedy",
    [
        (lambda: tp.compile(Well, dt=0.1), "is a class", "Well()"),
        (lambda: tp.compile(spring, dt=0.1).evolve(q=1.0, p=0.0, steps=True), "whole number", "steps=1000"),
        (
            lambda: tp.compile(spring, dt=0.1).evolve(q=1.0, p=0.0, steps=1, threads=0),
            "less than 1",
            "threads=2",
        ),
        (lambda: tp.compile(spring, dt=0.1).evolve(q=10**400, p=0.0, steps=1), "not a number", "q=1.0"),
        (
            lambda: tp.compile(spring, dt=0.1).evolve(q=1.0, p=0.0, steps=1, k=np.nan),
            "`k` is not finite",
            "Check",
        ),
        (lambda: tp.compile(spring, dt=0.1).monitor(3, name="x"), "not a function", "lambda q, p"),
        (lambda: tpir.vm.run("program x", {}, 1), "takes a Program", "tpir.parse"),
        (
            lambda: tpir.vm.run(tp.compile(spring, dt=0.1).tpir, {"q": 1.0, "p": 0.0}, 2.5),
            "whole number",
            "steps=1000",
        ),
        (
            lambda: tpir.vm.run(tp.compile(spring, dt=0.1).tpir, {"q": "a", "p": 0.0}, 1),
            "not a number",
            "q=1.0",
        ),
        (
            lambda: tpir.vm.run(tp.compile(spring, dt=0.1).tpir, {"q": 1.0, "p": 0.0, "x": 1.0}, 1),
            "no state `x`",
            "q, p",
        ),
        (lambda: tpir.verify("program x"), "takes a Program", "tpir.parse"),
        (lambda: tpir.parse(None), "is text", "string"),
        (
            lambda: tp.measure_symplectic(
                tp.compile(tp.hamiltonian(lambda q, p: p**2 / 2 + 1 / q), dt=0.1), q=0.0, p=0.0
            ),
            "not finite",
            "singularity",
        ),
    ],
)
def test_the_error_names_the_argument_and_the_remedy(call, what, remedy):
    with pytest.raises(tp.TinyPhysicsError) as error:
        call()
    assert what in str(error.value) and remedy in str(error.value)


def test_a_map_that_forgets_to_return_a_state_says_what_it_took_for_a_parameter():
    """Which arguments are states is decided by what is returned, so that this is a map and no error."""

    @tp.map
    def standard(x, p, K=1.0):
        return x + p + K * tp.sin(x)

    sim = tp.compile(standard)
    assert "p, K" in str(sim.explain("full")) and "they keep their values" in str(sim.explain("full"))
    with pytest.raises(tp.InputError, match="`p` has no default") as caught:
        sim.evolve(x=1.0, steps=1)
    assert "return its new value" in caught.value.fix


def test_a_parameter_given_as_none_is_not_taken_for_its_default():
    with pytest.raises(tp.InputError, match="Leave k= out: its default is 1.0"):
        tp.compile(spring, dt=0.1).evolve(q=1.0, p=0.0, steps=3, k=None)


def test_the_remedy_for_a_stale_flow_names_the_flow():
    text = """
    program kick_first
    claim symplectic
    state S0 q position
    state S1 p momentum of S0
    init:
      LOAD S0, &q
      LOAD S1, &p
    step:
      GRAD_INIT G0, S0
      GRAD_INIT G1, S1
      POISSON_J F0, G1, pass
      POISSON_J F1, G0, negate
      SYMP_STEP S1, F1, 0.01
      SYMP_STEP S0, F0, 0.01
    final:
      STORE &q, S0
      STORE &p, S1
    """
    with pytest.raises(tp.VerifyError, match="Recompute dH/dp after the kick"):
        tpir.verify(tpir.parse(text))


def test_a_flag_that_is_no_number_is_named():
    env = os.environ | {"TINYPHYSICS_CHECK": "abc", "PYTHONPATH": str(Path(tp.__file__).parents[1])}
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "import tinyphysics as tp; from tinyphysics.physics.zoo import ZOO; tp.compile(ZOO['kepler'].system, 0.01)",
        ],
        env=env,
        capture_output=True,
        text=True,
    )
    assert done.returncode and "TINYPHYSICS_CHECK='abc' is not a whole number" in done.stderr
