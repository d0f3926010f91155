"""A billion steps at once: a chain is struck at one end, and each mode keeps its energy for 10**12 steps."""

import numpy as np

import tinyphysics as tp
from tinyphysics.physics.chains import mode_energies, oscillators

N, dt = 32, 0.01
start = dict(q=np.zeros(N), p=np.eye(N)[0])  # the first one is struck
ends = [10**k for k in (3, 6, 9, 12)]


if __name__ == "__main__":
    sim = tp.compile(oscillators, dt, propagator="exact", sizes={"n": N})
    before = mode_energies(start["q"], start["p"])
    print(sim.explain())
    for n in ends:
        end = sim.evolve(**start, steps=n).final
        after = mode_energies(end.q, end.p)
        worst = np.abs(after - before).max() / before.sum()
        print(
            f"{n:>17,} steps: the first is at {end.q[0]:+.6f}; no mode has gained or lost {worst:.0e} of the energy"
        )
        assert worst < 1e-14

    # there and back: the flow of minus dt is its inverse
    back = tp.compile(oscillators, -dt, propagator="exact", sizes={"n": N}).evolve(
        q=end.q, p=end.p, steps=ends[-1]
    )
    missed = max(np.abs(back.final.q - start["q"]).max(), np.abs(back.final.p - start["p"]).max())
    print(f"10**12 steps there and 10**12 back miss the start by {missed:.0e}")
    assert missed < 1e-14
