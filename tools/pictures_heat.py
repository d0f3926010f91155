"""Pictures of energies at a temperature."""

import numpy as np

import tinyphysics as tp


@tp.hamiltonian
def quartic(q, p):
    return p**2 / 2 + q**4 / 4


@tp.hamiltonian
def well(q, p):
    return p**2 / 2 + 3 * (q**2 - 1) ** 2


def draw_heat(left, middle, right) -> None:
    zeros = np.zeros(4000)
    left.axhline(0.675978, color="0.6", lw=0.8)
    for method, color in (("baoab", "tab:blue"), ("obabo", "tab:orange")):
        steps = np.array([0.1, 0.2, 0.3, 0.4])
        found = []
        for dt in steps:
            sim = tp.compile(quartic, dt, temperature=1.0, method=method)
            run = sim.evolve(
                q=zeros, p=zeros, steps=round(400 / dt), frames=2, observe={"q2": lambda q: q**2}
            )
            found.append(run.mean("q2"))
        left.errorbar(
            steps,
            [s.mean for s in found],
            [2 * s.error for s in found],
            fmt="o-",
            ms=3,
            lw=1,
            color=color,
            label=method,
        )
    left.set(title="<q²> of a quartic well; exact: grey", xlabel="dt")
    left.legend(loc="upper left")
    sim = tp.compile(well, 0.05, temperature=1.0)
    out = sim.evolve(q=-1.0, p=0.0, until=200.0, frames=500, seed=4)
    middle.plot(out.t, out.q, lw=0.7, color="tab:blue")
    middle.set(title="q in a double well, barrier 3 k_B T", xlabel="t")
    right.plot(out.t, out.energy - out.energy[0], lw=0.7, color="tab:blue", label="H - H₀")
    right.plot(out.t, out.heat, lw=0.7, ls="--", color="tab:red", label="heat")
    right.plot(out.t, 10 * out.shadow_work, lw=1.0, color="k", label="shadow work × 10")
    right.set(title="its books", xlabel="t")
    right.legend(loc="upper right")
