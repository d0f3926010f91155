"""A pendulum with Python's own math module."""

import math

import tinyphysics as tp


@tp.hamiltonian
def pendulum(q, p):
    return p**2 / 2 - math.cos(q)


pendulum.compile(dt=0.01)

# says: TraceError: float() needs a number, but `q` is a symbol while tracing (math_functions.py:10)
# says: np.sin(q), not math.sin(q)
