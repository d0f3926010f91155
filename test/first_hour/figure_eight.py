"""Three equal masses chase each other along a figure eight and are back after one period."""

import numpy as np
import tinyphysics as tp


@tp.hamiltonian
def three(q: tp.Array[3, 2], p: tp.Array[3, 2]):
    return (p**2).sum() / 2 - tp.pair_sum(1 / np.sqrt(tp.pair_distance2(q)))


x, v = np.array([0.97000436, -0.24308753]), np.array([-0.93240737, -0.86473146])
start = dict(q=np.array([x, -x, [0.0, 0.0]]), p=np.array([-v / 2, -v / 2, v]))
period = 6.32591398
out = three.compile(dt=0.005, order=4).evolve(**start, until=period)
print("back to 1e-4:", bool(np.abs(out.final.q - start["q"]).max() < 1e-4))

# prints: back to 1e-4: True
