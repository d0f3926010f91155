"""Metropolis sampling of the Ising model, as a map that draws random numbers: Onsager's magnetisation."""

import numpy as np

import tinyphysics as tp


@tp.map
def ising(s: tp.Array["n", "n"], black: tp.Array["n", "n"], T: float = 2.0):
    """A sweep: the black squares of a chess board, which touch only white ones, then the white squares."""
    for half in (black, 1 - black):
        around = sum(np.roll(s, shift, axis) for shift in (1, -1) for axis in (0, 1))
        flips = tp.random.uniform(s.shape) < tp.exp(-2 * s * around / T)
        s = tp.where((half > 0.5) & flips, -s, s)
    return s


n, T = 64, 2.0
start = dict(s=np.ones((n, n)), black=np.indices((n, n)).sum(0) % 2, T=T)

if __name__ == "__main__":
    sim = tp.compile(ising)
    seen = {"m": lambda s: s.mean(), "bonds": lambda s: (s * np.roll(s, 1, 0)).mean()}
    out = sim.evolve(**start, steps=2000, seed=1, observe=seen)
    m, bonds = (out[name][500:] for name in ("m", "bonds"))
    onsager = (1 - np.sinh(2 / T) ** -4) ** (1 / 8)  # Yang 1952
    print(f"magnetisation {m.mean():.4f}, Onsager and Yang {onsager:.4f}")
    print(f"energy a spin {-2 * bonds.mean():.4f}, Onsager -1.7456")
    again = sim.evolve(**start, steps=2000, seed=1)
    print("the same seed, the same bits:", again.hash == out.hash)
    assert abs(m.mean() - onsager) < 0.003 and abs(-2 * bonds.mean() + 1.7456) < 0.005
    assert again.hash == out.hash and sim.evolve(**start, steps=2000, seed=2).hash != out.hash
