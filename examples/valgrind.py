"""The physics debugger: what is proved, what is watched, and each sentence it says when something goes wrong, once."""

import warnings

import numpy as np

import tinyphysics as tp
from tinyphysics.physics import zoo


@tp.hamiltonian
def bodies(q: tp.Array[3, 2], p: tp.Array[3, 2], m: tp.Vec[3]):
    r = tp.sqrt(((q[:, None] - q[None, :]) ** 2).sum(-1))
    return ((p**2).sum(-1) / (2 * m)).sum() - tp.pair_sum(m[:, None] * m[None, :] / r)


def euler(q, p, h=0.01):
    return q + h * p, p - h * q


# three equal bodies on one figure of eight (Chenciner and Montgomery 2000)
a, v = np.array([0.97000436, -0.24308753]), np.array([0.466203685, 0.43236573])
start = dict(q=[a, -a, 0 * a], p=[v, v, -2 * v], m=[1.0, 1.0, 1.0])
dt, steps = 0.01, 2_000


def says(words, call) -> None:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            call()
            found = str(next(w.message for w in told if issubclass(w.category, tp.PhysicsWarning)))
        except tp.TinyPhysicsError as error:
            found = f"{type(error).__name__}: {error}"
    print(found)
    assert words in found, words


if __name__ == "__main__":
    sim = tp.compile(bodies, dt, method="leapfrog")
    sim.verify_symmetries(**start)
    print(sim.evolve(**start, steps=steps).checks)
    fault = {"fault": tp.fault("p", (2, 0), relative=1e-3, since=1000)}
    says("at step 1,000", lambda: sim.evolve(**start, steps=steps, acts=fault))
    coarse = tp.compile(zoo.kepler, 0.02, method="leapfrog")
    says("At step 72, your Shadow Energy", lambda: coarse.evolve(q=[1.0, 0.0], p=[0.0, 0.6], steps=500))
    falls = tp.compile(zoo.kepler, 0.01, method="leapfrog")
    says("step 111", lambda: falls.evolve(q=[1.0, 0.0], p=[0.0, 0.0], steps=300))
    cat = tp.map(lambda q, p: ((2 * q + p) % 1.0, (q + p) % 1.0))
    says("precision lost after 38 steps", lambda: tp.compile(cat).lyapunov(q=0.1, p=0.3, steps=2000))
    own = tp.map(euler, pairs=[("q", "p")], step="h")
    says("Function euler is not symplectic", lambda: tp.compile(own).check(q=1.0, p=0.0))
    print(sim.lint(**start), sim.lint(**start | {"q": [a, -a, 0.999999 * a]}), sep="\n")
    root = tp.hamiltonian(lambda q, p: p**2 / 2 + tp.sqrt(q))
    print(tp.compile(root, dt, method="leapfrog").evolve(q=0.1, p=-1.0, steps=200).stopped.report())
