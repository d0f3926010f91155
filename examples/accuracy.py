"""How many digits would you like?  The same orbit with three to ten digits, and what each accuracy costs."""

import numpy as np

import tinyphysics as tp


@tp.hamiltonian
def kepler(q: tp.Vec[2], p: tp.Vec[2], mu: float = 1.0):
    return p @ p / 2 - mu / tp.norm(q)


start = dict(q=[1.0, 0.0], p=[0.0, 1.2])
years = 10
dt = 0.02  # for `tp run`; below, nobody has to know one
axis = 1 / (2 - 1.2**2)  # the semi-major one: 1/(2/r - v**2)
period = 2 * np.pi * axis**1.5  # Kepler's third law
farthest, fastest = (
    2 * axis - 1.0,
    1.2,
)  # an error is relative to the largest q and the largest p of the orbit

if __name__ == "__main__":
    work = []
    for error in (1e-3, 1e-6, 1e-10):
        sim = tp.compile(kepler, error=error, checks="strict")
        out = sim.evolve(**start, until=years * period)
        dq, dp = out.final.q - out.q[0], out.final.p - out.p[0]  # it should be back where it was
        off = max(abs(dq).max() / farthest, abs(dp).max() / fastest)
        steps, evaluations = int(out.steps[-1]), sim.built.step.evaluations
        work.append(steps * evaluations)
        print(
            f"asked for {error:.0e}: {sim.built.plan.method}, dt = {out.t[-1] / steps:.4f}, "
            f"{work[-1] / years:.0f} force evaluations a year; off by {off:.1e}"
        )
        assert off < error
        assert out.metrics["goals"]["met"]
    assert work[0] < work[1] < work[2] < 10 * work[0]  # seven more digits for a few times the work
