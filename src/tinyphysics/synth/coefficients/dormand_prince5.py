"""What are the coefficients of the pair of Dormand and Prince of order 5, with an estimate of order 4?

The pair is that of Dormand and Prince 1980, with the curve of order 4 of the program DOPRI5 of Hairer, Nørsett and Wanner
(Solving Ordinary Differential Equations I, II.5 and II.6).
"""

from __future__ import annotations

from tinyphysics.synth.coefficients.dormand_prince import Row

# fmt: off
STAGES: dict[int, Row] = {  # of the slopes before, by the number of a slope
    2: {1: 1 / 5},
    3: {1: 3 / 40, 2: 9 / 40},
    4: {1: 44 / 45, 2: -56 / 15, 3: 32 / 9},
    5: {1: 19372 / 6561, 2: -25360 / 2187, 3: 64448 / 6561, 4: -212 / 729},
    6: {1: 9017 / 3168, 2: -355 / 33, 3: 46732 / 5247, 4: 49 / 176, 5: -5103 / 18656},
}
WEIGHTS: Row = {1: 35 / 384, 3: 500 / 1113, 4: 125 / 192, 5: -2187 / 6784, 6: 11 / 84}  # slope 7 is the one at the end
PLACES = {2: 1 / 5, 3: 3 / 10, 4: 4 / 5, 5: 8 / 9, 6: 1.0, 7: 1.0}  # of the step
FOURTH: Row = {1: 71 / 57600, 3: -71 / 16695, 4: 71 / 1920, 5: -17253 / 339200, 6: 22 / 525,
               7: -1 / 40}  # less those of order 4
CURVE: dict[int, Row] = {  # of the last number of the curve
    0: {1: -12715105075 / 11282082432, 3: 87487479700 / 32700410799, 4: -10690763975 / 1880347072,
        5: 701980252875 / 199316789632, 6: -1453857185 / 822651844, 7: 69997945 / 29380423},
}
# fmt: on
