"""Pictures of baths: what they sample, what they leave of the dynamics, what they cost; argon, a cluster, and error bars."""

import time

import numpy as np
from scipy.stats import gamma

import tinyphysics as tp
from tinyphysics.physics.starts import lattice


@tp.hamiltonian
def liquid(q: tp.Array["n", 3], p: tp.Array["n", 3], box: float = 1.0):  # noqa: F821
    s = 1 / tp.pair_distance2(q, box=box, cutoff=2.5, skin=0.3, switch=2.2) ** 3
    return (p**2).sum() / 2 + tp.pair_sum(4 * (s * s - s))


@tp.hamiltonian
def three(q: tp.Array["n", 3], p: tp.Array["n", 3]):  # noqa: F821
    d = q - q[::-1]
    return (p**2).sum() / 2 + (q**2).sum() / 2 + (q[:, 0] ** 2 * q[:, 1] ** 2 + d[:, 2] ** 4).sum() / 4


BATHS = {
    "none": ({}, "k"),
    "langevin, γ = 1": ({"temperature": 1.0}, "tab:blue"),
    "langevin, γ = 10": ({"temperature": 1.0, "friction": 10.0}, "tab:cyan"),
    "andersen, ν = 10": ({"temperature": 1.0, "bath": "andersen", "friction": 10.0}, "tab:red"),
    "bussi, τ = 0.2": ({"temperature": 1.0, "bath": "bussi", "tau": 0.2}, "tab:green"),
    "nose_hoover, τ = 0.2": ({"temperature": 1.0, "bath": "nose_hoover", "tau": 0.2}, "tab:orange"),
    "gle, one memory": ({"temperature": 1.0, "bath": tp.gle(kernel=[(10.0, 0.2)])}, "tab:purple"),
}


def melted(cells: int, density: float, T: float, steps: int, seed: int = 0):
    q, box = lattice("fcc", cells, density=density)
    p = np.random.default_rng(seed).normal(size=q.shape) * np.sqrt(2 * T)
    sim = tp.compile(liquid, 0.004, temperature=T, friction=2.0, checks="off")
    end = sim.evolve(q=q, p=p, box=float(box[0]), steps=steps, frames=2, seed=seed, progress=False).final
    return np.array(end.q), np.array(end.p - end.p.mean(0)), float(box[0])


def draw_baths(left, middle, right) -> None:
    q, p, box = melted(5, 0.85, 1.0, 4000)
    stride, many = 2, 90
    cost = {}
    for name, (more, color) in BATHS.items():
        sim = tp.compile(liquid, 0.004, checks="off", **more)
        start = dict(q=q, p=p, box=box, progress=False, threads=1)
        v = np.asarray(sim.evolve(**start, steps=6000, save_every=stride).p)
        v = v - v.mean(1, keepdims=True)
        c = np.array([(v[: len(v) - k] * v[k:]).mean() for k in range(many)])
        left.plot(0.004 * stride * np.arange(many), c / c[0], lw=1.8 if name == "none" else 1.0, color=color)
        cost[name] = (sim, start)
    left.axhline(0, color="0.8", lw=0.8, zorder=0)
    left.set(title="<v(0) v(t)> in a liquid of 500 atoms", xlabel="t", xlim=(0, 0.6))
    spent = dict.fromkeys(cost, np.inf)
    for _ in range(5):  # in turns: all see the same machine
        for name, (sim, start) in cost.items():
            began = time.process_time()
            sim.evolve(**start, steps=1000, frames=2)
            spent[name] = min(spent[name], time.process_time() - began)
    names = [name for name in BATHS if name != "langevin, γ = 10"]  # it costs what γ = 1 does
    right.barh(
        names[::-1], [spent[n] / spent["none"] for n in names[::-1]], color=[BATHS[n][1] for n in names[::-1]]
    )
    right.axvline(1, color="0.5", lw=0.8)
    right.set(title="time of a step; 1: without a bath", xlim=(0.8, 1.35))
    x = np.linspace(0, 22, 300)
    middle.fill_between(x, gamma(4.5, scale=2).pdf(x), color="0.88", label="exact")
    rng = np.random.default_rng(1)
    q, p = rng.normal(size=(2, 2000, 3, 3))
    for name, more, color in (
        ("langevin", {}, "tab:blue"),
        ("bussi", {"bath": "bussi", "tau": 0.5}, "tab:green"),
        ("nose_hoover", {"bath": "nose_hoover", "tau": 0.5}, "tab:orange"),
        ("trigger", {"bath": "trigger", "tau": 0.5}, "tab:brown"),
    ):
        sim = tp.compile(three, 0.05, temperature=1.0, **more)
        seen = sim.evolve(q=q, p=p, steps=1200, frames=2, observe={"T": tp.physics.temperature(at="bath")})
        h, edges = np.histogram(9 * np.asarray(seen["T"])[300:], np.linspace(0, 22, 56), density=True)
        middle.plot(0.5 * (edges[1:] + edges[:-1]), h, lw=1.1, color=color, label=name)
    middle.set(title="2K/k_B T of three bodies", xlabel="2K/k_B T", yticks=[])
    middle.legend(loc="upper right")


ARGON = dict(T=94.4 / 120.0, density=0.8141, time=2.1514, length=3.4)  # ε/k_B = 120 K, σ = 3.4 Å; ps, Å


def diffusion(q: np.ndarray, dt: float, first: int, blocks: int = 8):
    """D with its error: the slope of <|q(t) - q(0)|²>/6 from lag `first` on, in blocks of the run."""
    found = []
    for part in np.array_split(q, blocks):
        lags = np.arange(first, len(part) // 2)
        moved = [((part[k:] - part[:-k]) ** 2).sum(-1).mean() for k in lags]
        found.append(np.polyfit(dt * lags, moved, 1)[0] / 6)
    return np.mean(found), np.std(found, ddof=1) / np.sqrt(blocks)


def draw_argon(left, middle, right) -> None:
    T = ARGON["T"]
    q, p, box = melted(6, ARGON["density"], T, 3000, seed=2)
    sim = tp.compile(liquid, 0.004, temperature=T, bath="bussi", tau=0.5, checks="off")
    out = sim.evolve(
        q=q, p=p, box=box, steps=20_000, save_every=20, progress=False, observe={"T": tp.physics.temperature(at="bath")},
        observe_every=10,
    )  # fmt: skip
    r, g = tp.physics.radial_distribution(out.q[::5], box, bins=140)
    left.plot(r * ARGON["length"], g, lw=1.2)
    left.axvline(3.7, color="0.6", lw=0.8, ls="--")
    left.set(title="g(r) of argon; dashed: 3.7 Å (Rahman)", xlabel="r in Å")
    t = 0.08 * ARGON["time"]
    whole = np.asarray(out.q)
    lags = np.arange(1, 150)
    msd = np.array([((whole[k:] - whole[:-k]) ** 2).sum(-1).mean() for k in lags]) * ARGON["length"] ** 2
    D, error = diffusion(whole * ARGON["length"], t, 25)
    middle.plot(t * lags, msd, lw=1.4, label="<|q(t) - q(0)|²>")
    middle.plot(t * lags, 6 * D * t * lags + msd[24] - 6 * D * t * lags[24], "k--", lw=0.8,
                label=f"D = {10 * D:.2f} ± {10 * error:.2f}\n(Rahman: 2.43) ·10⁻⁵ cm²/s")  # fmt: skip
    middle.set(title="how far atoms go, in Å²", xlabel="t in ps")
    middle.legend(loc="upper left")
    kelvin = np.asarray(out["T"]) * 120
    x = np.linspace(83, 106, 200)
    right.hist(kelvin, 60, density=True, color="tab:blue", alpha=0.5)
    right.plot(x, gamma(2589 / 2, scale=2 * 94.4 / 2589).pdf(x), "k", lw=1.0)
    right.set(title=f"temperature in K: {tp.statistics(kelvin)}\nline: its exact law", yticks=[])


@tp.hamiltonian
def cluster(q: tp.Array[13, 3], p: tp.Array[13, 3]):
    s = 1 / tp.pair_distance2(q) ** 3
    return (p**2).sum() / 2 + tp.pair_sum(4 * (s * s - s)) + (((q**2).sum(-1) / 9) ** 8).sum()


GROUND, MELTING = -44.326801, 0.29  # the icosahedron


def icosahedron() -> np.ndarray:
    """Twelve corners and the middle, neighbours a bit more than one apart."""
    g = (1 + 5**0.5) / 2
    corners = [(0, a, b * g) for a in (1, -1) for b in (1, -1)]
    return 0.56 * np.array([(0, 0, 0), *(np.roll(c, k) for c in corners for k in range(3))])


def melted_clusters(members: int):
    q = np.broadcast_to(icosahedron(), (members, 13, 3)).copy()
    p = np.random.default_rng(4).normal(size=q.shape) * 0.8
    hot = tp.compile(cluster, 0.005, temperature=0.7, checks="off")
    end = hot.evolve(q=q, p=p, steps=6000, frames=2, seed=5, progress=False).final
    return np.array(end.q), np.array(end.p)


def cooled(q: np.ndarray, p: np.ndarray, length: float, frames: int = 101):
    """Temperature from 0.5 to nothing in a time."""
    sim = tp.compile(cluster, 0.01, temperature=lambda t: 0.5 * (1.002 - t / length), checks="off")
    steps = round(length / 0.01)
    return sim.evolve(
        q=q, p=p * np.sqrt(0.5 / 0.7), steps=steps, frames=frames, seed=6, progress=False,
        observe={"U": tp.physics.potential_energy()}, observe_every=steps // (frames - 1),
    )  # fmt: skip


def draw_annealing(left, right) -> None:
    q, p = melted_clusters(200)
    lengths, share, error = (10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0), [], []
    for length, color in zip(lengths, plt_colors(len(lengths))):
        out = cooled(q, p, length)
        U = np.asarray(out["U"])
        found = (U[-1] < GROUND + 1.0).mean()  # the next minimum is 2.85 higher
        share.append(found)
        error.append(np.sqrt(max(found * (1 - found), 1 / len(q)) / len(q)))
        if length in (10.0, 100.0, 3000.0):
            T = 0.5 * (1.002 - np.linspace(0, 1, len(U)))
            left.plot(T, U.mean(1), color=color, lw=1.2, label=f"in {length:g}")
            spread = U.std(1) / np.sqrt(len(q))
            left.fill_between(
                T, U.mean(1) - 2 * spread, U.mean(1) + 2 * spread, color=color, alpha=0.25, lw=0
            )
    left.axhline(GROUND, color="0.6", lw=0.8)
    left.set(title="mean energy of 200 clusters of 13 that are cooled", xlabel="temperature", xlim=(0.5, 0))
    left.legend(loc="upper right", title="time from 0.5 to 0")
    right.errorbar(lengths, share, 2 * np.array(error), fmt="o-", ms=4, lw=1.0)
    right.set(
        title="share that ends as the icosahedron", xlabel="time of cooling", xscale="log", ylim=(0, 1.05)
    )


def plt_colors(n: int) -> list:
    from matplotlib import colormaps

    return [colormaps["viridis"](k / max(n - 1, 1)) for k in range(n)]


@tp.hamiltonian
def wells(q, p):
    return p**2 / 2 + 2 * (q**2 - 1) ** 2


def exact_square() -> float:
    x = np.linspace(-3, 3, 20_001)
    w = np.exp(-2 * (x**2 - 1) ** 2)
    return float((w * x**2).sum() / w.sum())


def draw_how_long(left, middle, right) -> None:
    exact = exact_square()
    sim = tp.compile(wells, 0.1, temperature=1.0, checks="off")
    x = np.asarray(
        sim.evolve(q=1.0, p=0.0, steps=100_000, frames=2, seed=3, observe={"q2": lambda q: q**2})["q2"]
    )
    lengths = np.unique(np.geomspace(200, len(x), 40).astype(int))
    found = [tp.statistics(x[:n]) for n in lengths]
    mean, error = (np.array([getattr(s, name) for s in found]) for name in ("mean", "error"))
    left.fill_between(lengths, mean - 2 * error, mean + 2 * error, color="tab:blue", alpha=0.25, lw=0)
    left.plot(lengths, mean, lw=1.0)
    left.axhline(exact, color="0.4", lw=0.8)
    left.set(title="<q²> of the first steps, two errors; exact: grey", xscale="log", xlabel="steps")
    good = np.array([s.converged for s in found])
    middle.loglog(lengths[good], error[good], "o", ms=3.5, color="tab:blue", label="error")
    middle.loglog(
        lengths[~good], error[~good], "o", ms=4.5, mfc="none", color="tab:red", label='"not converged"'
    )
    middle.loglog(lengths, np.sqrt(x.var() / lengths), "k:", lw=1.0, label="as if steps were independent")
    middle.loglog(lengths, error[-1] * np.sqrt(lengths[-1] / lengths), "k-", lw=0.7, label="1/√n")
    middle.set(title="its error", xlabel="steps")
    middle.legend(fontsize=7)
    many = sim.evolve(
        q=np.where(np.arange(60) % 2, 1.0, -1.0), p=np.zeros(60), steps=20_000, frames=2, seed=4,
        observe={"q2": lambda q: q**2},
    )["q2"]  # fmt: skip
    every = [tp.statistics(np.asarray(many)[500:, k]) for k in range(60)]
    for k, s in enumerate(every):
        off = abs(s.mean - exact) > 1.96 * s.error
        right.errorbar(
            s.mean, k, xerr=1.96 * s.error, fmt=".", ms=3, lw=0.8, color="tab:red" if off else "tab:blue"
        )
    right.axvline(exact, color="0.4", lw=0.8)
    hit = sum(abs(s.mean - exact) < 1.96 * s.error for s in every)
    right.set(title=f"60 runs: {hit} of 95 % intervals hold the truth", xlabel="<q²>", yticks=[])
