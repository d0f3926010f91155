"""The pendulum with heyoka: its Taylor integrator, as many members at once as a vector holds.

It chooses its own steps, so it is in the row of the solution only.
"""

from __future__ import annotations

import heyoka as hy
import numpy as np

NOTE = "heyoka: Taylor series with steps of its own, so only in the row of a given accuracy"
RUNGS = (1e-8, 1e-9, 1e-10, 1e-11, 1e-12)


def solvers(T, weights):
    lanes = hy.recommended_simd_size()
    made = {}

    def run(q, p, tolerance):
        if tolerance not in made:
            made[tolerance] = hy.taylor_adaptive_batch(
                hy.model.pendulum(), np.zeros((2, lanes)), tol=tolerance, fast_math=True
            )
        ta, out = made[tolerance], np.empty(len(q))
        state = ta.state
        for o in range(0, len(q), lanes):
            ta.set_time(0.0)
            state[0], state[1] = q[o : o + lanes], p[o : o + lanes]
            ta.propagate_until(T)
            out[o : o + lanes] = state[0]
        return out

    return {"heyoka": run}


FIRST = """
import heyoka as hy, numpy as np
x, v = hy.make_vars("x", "v")
def once(c):
    lanes = hy.recommended_simd_size()
    ta = hy.taylor_adaptive_batch([(x, v), (v, -c * hy.sin(x))], np.zeros((2, lanes)), tol=1e-11, fast_math=True)
    for _ in range(64 // lanes):
        ta.set_time(0.0)
        ta.state[:] = [[0.0] * lanes, [1.0] * lanes]
        ta.propagate_until(0.01)
"""
