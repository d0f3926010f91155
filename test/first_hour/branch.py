"""A ball that bounces on a soft floor, with an if."""

import tinyphysics as tp


@tp.hamiltonian
def ball(q, p):
    if q < 0:
        return p**2 / 2 + 500 * q**2
    return p**2 / 2 + 9.81 * q


ball.compile(dt=0.01)

# says: TraceError: `q < 0` has no truth value while tracing (branch.py:8)
# says: Write tp.where(q < 0, a, b) instead of `if q < 0`
