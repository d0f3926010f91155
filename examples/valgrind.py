"""The physics debugger: what is proved, what is watched, and each sentence it says when something goes wrong, once."""

import warnings
from typing import Annotated

import numpy as np

import tinyphysics as tp


@tp.hamiltonian
def bodies(q: tp.Array[3, 2], p: tp.Array[3, 2], m: tp.Vec[3]):
    r = tp.sqrt(((q[:, None] - q[None, :]) ** 2).sum(-1))
    return ((p**2).sum(-1) / (2 * m)).sum() - tp.pair_sum(m[:, None] * m[None, :] / r)


# three equal bodies on one figure of eight (Chenciner and Montgomery 2000)
start = dict(
    q=[[0.97000436, -0.24308753], [-0.97000436, 0.24308753], [0.0, 0.0]],
    p=[[0.466203685, 0.43236573], [0.466203685, 0.43236573], [-0.93240737, -0.86473146]],
    m=[1.0, 1.0, 1.0],
)
dt, steps = 0.01, 2_000


def warned(call) -> str:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        call()
    return str(next(w.message for w in told if issubclass(w.category, tp.PhysicsWarning)))


def refused(call) -> str:
    try:
        call()
    except tp.TinyPhysicsError as error:
        return f"{type(error).__name__}: {error}"
    return ""


def proved_and_watched(sim) -> None:
    sim.verify_symmetries(**start)
    print(sim.evolve(**start, steps=steps).checks)
    fault = {"fault": tp.fault("p", (2, 0), relative=1e-3, since=1000)}
    strict = tp.compile(bodies, dt, method="leapfrog", checks="strict")
    broken = refused(lambda: strict.evolve(**start, steps=steps, acts=fault))
    print(broken)
    assert "momentum" in broken and "step 1,000" in broken


def too_long_and_too_near() -> None:
    @tp.hamiltonian
    def kepler(q: tp.Vec[2], p: tp.Vec[2], mu: float = 1.0):
        return p @ p / 2 - mu / tp.norm(q)

    watched = tp.compile(kepler, 0.02, method="leapfrog", checks={"shadow": 1e-3})
    shadow = warned(lambda: watched.evolve(q=[1.0, 0.0], p=[0.0, 0.6], steps=500))
    print(shadow)
    assert "At step 72, your Shadow Energy deviates by" in shadow
    falling = tp.compile(kepler, 0.01, method="leapfrog")
    fault = warned(lambda: falling.evolve(q=[1.0, 0.0], p=[0.0, 0.0], steps=300))
    print(fault)
    assert "step 111" in fault


def chaotic() -> None:
    @tp.map
    def cat(q, p):
        return (2 * q + p) % 1.0, (q + p) % 1.0

    lost = warned(lambda: tp.compile(cat).lyapunov(q=0.1, p=0.3, steps=2000))
    print(lost)
    assert "Lyapunov Exponent = 0.962. Floating point precision lost after 38 steps." in lost


def a_step_of_your_own() -> None:
    @tp.map(pairs=[("q", "p")], step="h")
    def euler(q, p, h=0.01):
        return q + h * p, p - h * q

    wrong = refused(lambda: tp.compile(euler).check(q=1.0, p=0.0))
    print(wrong)
    assert "Function euler is not symplectic" in wrong


def units() -> None:
    Mass, Stiffness = Annotated[float, "kg"], Annotated[float, "N/m"]

    def tense(q: Annotated[float, "m"], p: Annotated[float, "kg m/s"], m: Mass = 1.0, k: Stiffness = 1.0):
        return p**2 / (2 * m) + k * q

    wrong = refused(lambda: tp.hamiltonian(tense))
    print(wrong)
    assert "is in J" in wrong and "is in N" in wrong


def before_a_run(sim) -> None:
    print(sim.lint(**start))
    found = sim.lint(q=[[1.0, 0.0], [-1.0, 0.0], [1.0, 1e-6]], p=np.zeros((3, 2)), m=start["m"])
    print(found)
    assert [f.cause for f in found] == ["overlap at the start"]


def after_a_run() -> None:
    root = tp.hamiltonian(lambda q, p: p**2 / 2 + tp.sqrt(q))
    report = tp.compile(root, dt, method="leapfrog").evolve(q=0.1, p=-1.0, steps=200).stopped.report()
    print(report)
    assert report.cause == "root of a negative"


if __name__ == "__main__":
    sim = tp.compile(bodies, dt, method="leapfrog")
    for call, given in (
        (proved_and_watched, [sim]),
        (too_long_and_too_near, []),
        (chaotic, []),
        (a_step_of_your_own, []),
        (units, []),
        (before_a_run, [sim]),
        (after_a_run, []),
    ):
        print(f"--- {call.__name__.replace('_', ' ')}")
        call(*given)
