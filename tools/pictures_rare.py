"""Pictures of rare events, and of averages that take their time."""

import numpy as np

import tinyphysics as tp


@tp.hamiltonian
def well(q, p):
    return p**2 / 2 + 10 * (q**2 - 1) ** 2


def band(left, middle, s, F, error, color, label) -> None:
    """F, and how far it is from the exact one, each less its mean over the wells; bands are two errors."""
    F = np.where(np.isfinite(F) & (F < 14), F, np.nan)
    left.plot(s, F, lw=1.0, color=color, label=label)
    off = F - 10 * (s**2 - 1) ** 2
    off = off - np.nanmean(off[np.abs(np.abs(s) - 1) < 0.25])
    middle.plot(s, off, lw=1.0, color=color)
    middle.fill_between(s, off - 2 * error, off + 2 * error, color=color, alpha=0.25, lw=0)


def counted(q, edges) -> tuple:
    """F from a histogram, with the error of blocks."""
    s = 0.5 * (edges[1:] + edges[:-1])
    with np.errstate(divide="ignore", invalid="ignore"):
        count = np.histogram(q, edges)[0]
        whole = -np.log(np.where(count < 4, 0, count))
        parts = [-np.log(np.histogram(part, edges)[0]) for part in np.array_split(q, 8)]
        parts = [x - np.log(8) for x in parts]
        error = np.where(np.isfinite(parts), parts, np.nan).std(0) / np.sqrt(8)
    return s, whole - whole[np.isfinite(whole)].min(), np.nan_to_num(error)


def draw_rare(left, middle, right) -> None:
    edges, x = np.linspace(-1.6, 1.6, 65), np.linspace(-1.6, 1.6, 400)
    left.plot(x, 10 * (x**2 - 1) ** 2, color="0.5", lw=3, alpha=0.5, label="exact")
    alone = tp.compile(well, 0.02, temperature=1.0).evolve(
        q=-1.0, p=0.0, steps=400_000, save_every=40, seed=1
    )
    band(left, middle, *counted(alone.q, edges), "k", "alone")
    T = np.geomspace(1.0, 10.0, 6)
    swaps = tp.compile(well, 0.02, temperature=1.0).evolve(
        q=-np.ones(6), p=np.zeros(6), temperature=T, exchange=40, steps=400_000, save_every=40, seed=1
    )
    cold = swaps.at(temperature=1.0)
    band(left, middle, *counted(cold.q, edges), "tab:orange", "replicas")
    hills = tp.metadynamics(lambda q: q, width=0.1, height=0.3, every=100, grid=(-2, 2, 80))
    hilly = tp.compile(well, 0.02, temperature=1.0, bias=hills).evolve(
        q=-1.0, p=0.0, steps=400_000, save_every=40, seed=1
    )
    band(left, middle, *hilly.free_energy(), "tab:green", "hills")
    c = np.linspace(-1.5, 1.5, 21)
    springs = tp.compile(well, 0.02, temperature=1.0, bias=tp.umbrella(lambda q: q, c, 80.0))
    windows = springs.evolve(q=c, p=0 * c, steps=20_000, save_every=20, seed=1)
    band(left, middle, *tp.mbar(windows, method="wham").free_energy(bins=edges), "tab:blue", "windows")
    left.set(title="free energy, in k_B T", xlabel="q", ylim=(-6, 14))
    left.legend(loc="lower center", fontsize=7)
    middle.axhline(0, color="0.5", lw=0.8)
    middle.set(title="less the exact one, with two errors", xlabel="q", xlim=(-1.5, 1.5), ylim=(-1.5, 1.5))
    for k, (run, color, label) in enumerate(
        ((alone.q, "k", "alone"), (cold.q, "tab:orange", "replicas"), (hilly.q, "tab:green", "hills"))
    ):
        right.plot(alone.steps[::10] / 1000, run[::10] - 3.2 * k, lw=0.5, color=color, label=label)
    right.set(
        title="q, each a little lower than the one above", xlabel="steps / 1000", yticks=[], ylim=(-9.2, 1.2)
    )
    right.legend(loc="lower center", ncol=3)
