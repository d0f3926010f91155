"""A picture of slices of time: how fast they converge, and what they could gain on so many workers."""

import numpy as np

import tinyphysics as tp

START = {"q": [1.0, 0.0], "p": [0.0, 1.2]}


@tp.hamiltonian
def kepler(q: tp.Vec[2], p: tp.Vec[2], mu: float = 1.0):
    return p @ p / 2 - mu / tp.norm(q)


def draw_parareal(left, right) -> None:
    """Left: the largest error of slice ends after each sweep. Right: the model, beside one serial method."""
    fine = tp.compile(kepler, dt=1e-3)
    ends = fine.evolve(**START, steps=20_000, save_every=1000).q
    truth = tp.compile(kepler, method="taylor", tolerance=1e-15).evolve(**START, until=20.0).final.q
    errors = []
    for sweeps in range(6):
        plan = tp.Parareal(slices=20, coarse={"dt": 0.1}, sweeps=sweeps, tolerance=0)
        out = fine.evolve(**START, steps=20_000, parallel=plan)
        errors.append(float(np.abs(np.asarray(out.q) - ends).max()))
    left.semilogy(errors, "o-", color="tab:blue", ms=4)
    own = float(np.abs(ends[-1] - truth).max())
    left.axhline(own, color="0.5", lw=0.8, ls="--")
    left.annotate(
        "error of the fine steps themselves", (5, own), ha="right", va="bottom", color="0.4", fontsize=7
    )
    left.set(
        title="A planet for 20 slices of 1, leapfrog 1e-3 and 0.1",
        xlabel="sweeps",
        ylabel="largest error of slice ends",
    )
    ratio = out.metrics["parareal"]["speedup"]["coarse/fine"]
    workers = np.arange(1, 201)
    for sweeps, color in ((1, "tab:green"), (2, "tab:orange"), (3, "tab:blue")):
        gain = workers / (sweeps + workers * (sweeps + 1) * ratio)
        right.loglog(workers, gain, color=color, label=f"{sweeps} sweep{'s' * (sweeps > 1)}")
    right.axhline(20_000 / 416, color="0.3", lw=1.2)
    right.annotate("nystrom6 alone, on one", (1.2, 20_000 / 416), va="bottom", color="0.2", fontsize=7)
    right.set(
        title="Forces saved, against fine steps in a row",
        xlabel="slices and workers",
        ylabel="times faster, at most",
    )
    right.set_ylim(0.3, 100)
    right.legend(fontsize=7)
