"""Are the derivatives of an oscillator's times right?  Beside those of mpmath, from small angles to hundreds of turns."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

from tinyphysics.ir import Ops, UOp
from tinyphysics.rules.calculus.vjp import gradient
from tinyphysics.runtime.measure.loss_function import evaluate
from tinyphysics.runtime.measure.precise import arcs_of

INPUTS = [UOp.var(n) for n in "abh"]


@pytest.mark.parametrize(
    "op", [Ops.HARMONIC_KICK, Ops.HARMONIC_DRIFT, Ops.HARMONIC_LAG], ids=lambda op: op.value
)
def test_slopes_of_an_oscillators_times(op):
    slopes = gradient(UOp(op, INPUTS[0].dtype, (), tuple(INPUTS)), INPUTS)
    rng = np.random.default_rng(0)
    for k in range(60):
        size = 10 ** rng.uniform(-6, 2.6 if k % 2 else 5)  # of a growth the numbers themselves end
        at = [rng.uniform(0.5, 2), rng.uniform(0.5, 2) * (-1) ** k, np.sqrt(size) * (-1) ** (k // 2)]
        if k % 20 == 19:
            at[1] = 0.0
        found = evaluate(
            {str(j): u for j, u in enumerate(slopes)}, dict(zip("abh", np.array(at)[:, None])), 1
        )
        with mpmath.workdps(50):
            exact, point = arcs_of(mpmath)[op], [mpmath.mpf(x) for x in at]
            for j in range(3):
                want = mpmath.diff(
                    lambda x: exact(*point[:j], x, *point[j + 1 :]), point[j], h=mpmath.mpf(10) ** -18
                )
                assert float(np.ravel(found[str(j)])[0]) == pytest.approx(float(want), rel=1e-12), (at, j)
