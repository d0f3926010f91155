"""A Trojan in the frame that rotates with the Sun and Jupiter: gravity, and a Coriolis term that mixes q and p."""

import numpy as np

import tinyphysics as tp

MU = 9.5388e-4  # Jupiter's share of the mass


@tp.hamiltonian
def two_suns(q: tp.Vec[2], p: tp.Vec[2], mu: float = MU):
    sun, planet = tp.stack([-mu, 0.0]), tp.stack([1 - mu, 0.0])
    return p @ p / 2 - (1 - mu) / tp.norm(q - sun) - mu / tp.norm(q - planet)


@tp.hamiltonian
def turning(q: tp.Vec[2], p: tp.Vec[2]):
    return -(q[0] * p[1] - q[1] * p[0])  # once in 2 pi


trojan = tp.split(two_suns, turning)
l4 = np.array([0.5 - MU, np.sqrt(3) / 2])
q = l4 + [0.005, 0.0]
start = dict(q=q, p=[-q[1], q[0]])  # at rest in this frame: p is the velocity as seen from outside
dt = 2 * np.pi / 200

if __name__ == "__main__":
    sim = tp.compile(trojan, dt, order=4)
    print(sim.explain())
    out = sim.evolve(**start, steps=200 * 300, save_every=50)  # 300 periods of Jupiter
    apart = np.linalg.norm(out.q - l4, axis=1)
    print(
        f"within {apart.max():.3f} of L4 for 300 periods, Jacobi's constant kept to {out.drift('energy'):.1e}"
    )
    assert sim.certificate.level == "symplectic" and apart.max() < 0.3 and out.drift("energy") < 1e-6

    coarse, fine = (tp.compile(trojan, dt=h).evolve(**start, until=2 * np.pi) for h in (dt, dt / 2))
    ratio = coarse.drift("energy") / fine.drift("energy")
    commutators = fine.metrics["commutators"]["relative"]
    print(f"order 2: {ratio:.2f} times the drift at twice the step; commutators {commutators:.1e}")
    assert 3.5 < ratio < 4.6
