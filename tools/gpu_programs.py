"""Which programs are packed for a GPU?  The zoo, methods, precisions, odd arguments, arrays; large ones are timed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import tinyphysics as tp
from tinyphysics.physics.zoo import ZOO, henon_heiles, kepler, pendulum

MEMBERS, STEPS = 1_001, 200  # no whole number of blocks
MANY, LONG = 1 << 22, 1_000
MULTIPLIER, INCREMENT = 6364136223846793005, 1442695040888963407  # Knuth's, as in gpu_launch.py


@dataclass(frozen=True, eq=False)
class Packed:
    """A program and what it begins from; `uniform` are the arrays that a launcher can make by itself."""

    name: str
    system: Any
    start: Mapping[str, Any]
    steps: int = STEPS
    options: Mapping[str, Any] = field(default_factory=lambda: {"dt": 0.01})
    uniform: Mapping[str, tuple[int, float, float]] = field(
        default_factory=dict
    )  # (seed, low, high), by state
    timed: tuple[str, float] | None = None  # (unit, how many of it a run does)
    differs: bool = False  # its sums of products are contracted, which must show


def uniform(seed: int, low: float, high: float, count: int) -> Any:
    """Numbers of a linear congruence, as gpu_launch.uniform makes them one by one."""
    powers = np.full(count + 1, MULTIPLIER, np.uint64)
    powers[0] = 1
    powers = np.multiply.accumulate(powers)  # modulo 2**64
    x = powers[1:] * np.uint64(seed) + np.uint64(INCREMENT) * np.add.accumulate(powers[:-1])
    return (x >> np.uint64(11)) * 2.0**-53 * (high - low) + low


def scattered(start: Mapping[str, Any], members: int = MEMBERS, width: float = 0.01) -> dict[str, Any]:
    """States near one, a member each."""
    out = {}
    for seed, (name, value) in enumerate(start.items(), 1):
        centre = np.asarray(value, float)
        out[name] = centre + width * uniform(seed, -1.0, 1.0, members * centre.size).reshape(
            members, *centre.shape
        )
    return out


def spread(
    shapes: Mapping[str, tuple[int, ...]], low: float, high: float
) -> tuple[dict[str, Any], dict[str, Any]]:
    """(arrays of uniform numbers, how they are made)."""
    how = {name: (seed, low, high) for seed, name in enumerate(shapes, 1)}
    return {n: uniform(*how[n], int(np.prod(shape))).reshape(shape) for n, shape in shapes.items()}, how


# --- systems beside the zoo ---------------------------------------------------------------------
@tp.hamiltonian
def many_functions(q, p):
    return (
        p**2 / 2
        + tp.exp(-q * q)
        + tp.log(1 + q * q)
        + (2 + tp.tanh(q)) ** 0.3
        + tp.arctan(q) / 4
        + tp.cosh(q / 3)
    )


@tp.map
def shared_product(x, y):
    """A product that two sums need stays a product; contraction would round once less, and chaos shows it."""
    f = x * y
    return 3 * tp.sin(f + x), 2 * tp.sin(f - y)


@tp.hamiltonian
def mixed_terms(q, p):
    return (1 + q * q) * p * p / 2 + q**4 / 4


@tp.hamiltonian
def gravity(q: tp.Array["n", 3], p: tp.Array["n", 3], m: tp.Vec["n"], eps: float = 0.05):
    d = q[:, None] - q[None, :]
    r = np.sqrt((d**2).sum(-1) + eps**2)
    return ((p**2).sum(-1) / (2 * m)).sum() - tp.pair_sum(m[:, None] * m[None, :] / r)


@tp.hamiltonian
def chain(q: tp.Vec["n"], p: tp.Vec["n"], alpha: float = 0.25):
    d = np.diff(q, prepend=0, append=0)
    return (p**2).sum() / 2 + (d**2 / 2 + alpha * d**3 / 3).sum()


@tp.hamiltonian
def waves(q: tp.Array["n", "n"], p: tp.Array["n", "n"]):
    return ((p**2).sum() + sum(((np.roll(q, -1, axis) - q) ** 2).sum() for axis in (0, 1))) / 2


# --- the list -----------------------------------------------------------------------------------
METHODS = (
    "symplectic_euler",
    "yoshida4",
    "nystrom6",
    "kahan_li8",
    "chin4",
    "rk4",
    "implicit_midpoint",
    "gauss4",
    "gonzalez",
)
ARGUMENTS = {"small": 1e-310, "large": 1e6, "huge": 1e18, "largest": 1e300}


def of_the_zoo() -> list[Packed]:
    out = []
    for name, demo in ZOO.items():
        options = {"propagator": "loop"} | ({} if demo.dt is None else {"dt": demo.dt})
        out.append(Packed(f"zoo_{name}", demo.system, scattered(demo.start), options=options))
    return out


def ensembles() -> list[Packed]:
    stars, orbits, swings = (scattered(ZOO[name].start) for name in ("henon_heiles", "kepler", "pendulum"))
    varied = orbits | {"mu": uniform(7, 0.9, 1.1, MEMBERS)}
    functions = scattered({"q": 0.3, "p": 0.5}, width=0.5)
    out = [Packed(f"method_{m}", henon_heiles, stars, options={"dt": 0.02, "method": m}) for m in METHODS]
    out += [
        Packed(f"pendulum_{p}", pendulum, swings, options={"dt": 0.01, "precision": p})
        for p in ("float32", "compensated", "mixed", "dd", "lattice")
    ]
    out += [
        Packed(f"kepler_{p}", kepler, orbits, options={"dt": 0.01, "precision": p}) for p in ("float32", "dd")
    ]
    out += [
        Packed(
            f"arguments_{word}",
            pendulum,
            {"q": size * uniform(1, -1, 1, MEMBERS), "p": uniform(2, -1, 1, MEMBERS)},
        )
        for word, size in ARGUMENTS.items()
    ]
    far = {"q": 1e6 * uniform(1, -1, 1, MEMBERS), "p": uniform(2, -1, 1, MEMBERS)}
    chaos = scattered({"x": 0.4, "y": 0.5})
    return [
        *out,
        Packed("arguments_large_float32", pendulum, far, options={"dt": 0.01, "precision": "float32"}),
        Packed("one_member", pendulum, {"q": np.array([1.0]), "p": np.array([0.5])}),
        Packed("a_parameter_for_each", kepler, varied),
        Packed("functions", many_functions, functions),
        Packed("functions_float32", many_functions, functions, options={"dt": 0.01, "precision": "float32"}),
        Packed("not_separable", mixed_terms, functions, options={"dt": 0.01}),
        Packed("products", shared_product, chaos, options={}),
        Packed("products_contracted", shared_product, chaos, options={}, differs=True),
    ]


def arrays() -> list[Packed]:
    n = 300
    bodies = {
        "q": uniform(1, -1, 1, 3 * n).reshape(1, n, 3),
        "p": uniform(2, -0.1, 0.1, 3 * n).reshape(1, n, 3) / n,
        "m": uniform(3, 1, 2, n)[None] / n,
    }
    line, _ = spread({"q": (1, 5_000), "p": (1, 5_000)}, -0.1, 0.1)
    sheet, _ = spread({"q": (1, 96, 96), "p": (1, 96, 96)}, -0.1, 0.1)
    fluid = {
        "f": WEIGHTS[None, :, None, None] * (1 + uniform(1, -0.01, 0.01, 9 * 64 * 64).reshape(1, 9, 64, 64))
    }
    out = []
    for p in ("float64", "float32"):
        out += [
            Packed(f"gravity_{p}", gravity, bodies, 20, {"dt": 1e-3, "precision": p, "sizes": {"n": n}}),
            Packed(f"chain_{p}", chain, line, 100, {"dt": 0.05, "precision": p, "sizes": {"n": 5_000}}),
            Packed(
                f"waves_{p}",
                waves,
                sheet,
                100,
                {"dt": 0.1, "precision": p, "sizes": {"n": 96}, "propagator": "loop"},
            ),
            Packed(f"fluid_{p}", stream_collide, fluid, 100, {"precision": p, "sizes": {"n": 64}}),
        ]
    return out


CX, CY = (0, 1, 0, -1, 0, 1, -1, -1, 1), (0, 0, 1, 0, -1, 1, 1, -1, -1)
WEIGHTS = np.array([4 / 9] + [1 / 9] * 4 + [1 / 36] * 4)


@tp.map
def stream_collide(f: tp.Array[9, "n", "n"], om: float = 1.25):
    """D2Q9: populations move by a site, then relax towards equilibrium (Bhatnagar, Gross & Krook)."""
    g = [np.roll(f[k], (CY[k], CX[k]), (0, 1)) for k in range(9)]
    rho = g[0] + (g[1] + g[3]) + (g[2] + g[4]) + (g[5] + g[6]) + (g[7] + g[8])
    ux = ((g[1] - g[3]) + ((g[5] - g[7]) + (g[8] - g[6]))) / rho
    uy = ((g[2] - g[4]) + ((g[5] - g[7]) - (g[8] - g[6]))) / rho
    along = [CX[k] * ux + CY[k] * uy for k in range(9)]
    square = 1.5 * (ux * ux + uy * uy)
    return np.stack(
        [
            g[k] + om * (WEIGHTS[k] * rho * (1 + 3 * c + 4.5 * c * c - square) - g[k])
            for k, c in enumerate(along)
        ]
    )


def large() -> list[Packed]:
    """The sizes of the benchmark: numbers that a launcher makes by itself."""
    swings, how = spread({"q": (MANY,), "p": (MANY,)}, -1.0, 1.0)
    stars, stars_how = spread({"q": (MANY, 2), "p": (MANY, 2)}, -0.1, 0.1)
    timed = ("system-step", MANY * float(LONG))
    return [
        Packed("large_pendulum", pendulum, swings, LONG, uniform=how, timed=timed),
        Packed(
            "large_pendulum_float32", pendulum, swings, LONG, {"dt": 0.01, "precision": "float32"}, how, timed
        ),
        Packed("large_henon_heiles", henon_heiles, stars, LONG, uniform=stars_how, timed=timed),
        Packed(
            "large_henon_heiles_scaled",
            henon_heiles,
            stars,
            LONG,
            {"dt": 0.01, "scale": "auto"},
            stars_how,
            timed,
        ),
    ]


def programs(with_large: bool = True) -> list[Packed]:
    return [*of_the_zoo(), *ensembles(), *arrays(), *(large() if with_large else [])]
