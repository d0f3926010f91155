"""Are certificates of tops, spins, magnetic fields, friction, contact energies and user brackets true?

Each kind has its own law of motion in NumPy, z' = P(z) dH/dz and what friction or a contact adds, with dH/dz by differences
of the user's energy. M of a few steps is measured along the tangents of the manifold of the states: a quaternion keeps its
length.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

import tinyphysics as tp
from attack.case import Case, Layout
from attack.certificates import STENCIL
from attack.findings import Tally
from attack.passages import written
from attack.plain import Functions
from attack.truth import WIDE, Unknown, gradient

CLOSE = 1e-7  # between two sides of an identity, relative to |M|**2
STEP = 2e-3  # of differences of a run
LARGEST = 50.0  # entries of M, and numbers of a state, that are judged


def cross(a: np.ndarray) -> np.ndarray:
    """The matrix of a x ."""
    x, y, z = a
    return np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])


def rotate(R: Any, v: Any) -> Any:
    """A vector of the body in space, by a unit quaternion (w, x, y, z)."""
    w, u, v = R[0], np.asarray(R[1:]), np.asarray(v)
    return v + 2 * w * np.cross(u, v) + 2 * np.cross(u, np.cross(u, v))


def turned(R: np.ndarray) -> np.ndarray:
    """(4, 3): how a quaternion changes with an angular velocity in the body's frame, R' = R (0, w)/2."""
    w, x, y, z = R
    return np.array([[-x, -y, -z], [w, -z, y], [z, w, -x], [-y, x, w]]) / 2


class Plain(Functions):
    rotate = staticmethod(rotate)


@dataclass(frozen=True)
class Body:
    """A system whose states are no pairs alone, or whose energy is not kept."""

    kind: str
    signature: str  # up to the colon
    energy: str
    layout: tuple[Layout, ...]
    options: dict[str, Any]
    tensor: Callable[[np.ndarray], np.ndarray]
    odd: tuple[int, ...]  # numbers that change their sign where time runs backward
    decorator: str = "@tp.hamiltonian"
    rates: np.ndarray | None = None  # of friction, one for each number
    unit: tuple[int, ...] = ()  # numbers that are a vector of length 1
    casimirs: Callable[[np.ndarray], np.ndarray] = field(default=lambda z: np.zeros(0))
    scope: dict[str, Any] = field(default_factory=dict)

    @property
    def size(self) -> int:
        return sum(n for _, _, n, _ in self.layout)

    @property
    def text(self) -> str:
        return f"{self.decorator}\n{self.signature}\n    return {self.energy}\n"

    def H(self, z: np.ndarray) -> Any:
        scope = {"tp": Plain, "np": np, **self.scope}
        return eval(self.energy, scope | named(self.layout, z))

    def motion(self, z: np.ndarray) -> np.ndarray:
        slopes = gradient(self.H, np.asarray(z, WIDE)).astype(float)
        if self.kind == "contact":
            n, p, s = (len(z) - 1) // 2, z[(len(z) - 1) // 2 : -1], slopes[-1]
            by_q, by_p = slopes[:n], slopes[n : 2 * n]
            return np.concatenate([by_p, -by_q - p * s, [p @ by_p - float(self.H(z))]])
        out = self.tensor(z) @ slopes
        return out if self.rates is None else out - self.rates * z

    def tangents(self, z: np.ndarray) -> np.ndarray:
        """(numbers, dimension): directions in which a state may change."""
        if not self.unit:
            return np.eye(self.size)
        normal = np.zeros((1, self.size))
        normal[0, list(self.unit)] = z[list(self.unit)]
        return np.asarray(np.linalg.svd(normal)[2][1:].T)

    def moved(self, z: np.ndarray) -> np.ndarray:
        """With unit vectors of length 1 again."""
        if self.unit:
            at = list(self.unit)
            z = z.copy()
            z[..., at] /= np.linalg.norm(z[..., at], axis=-1, keepdims=True)
        return z


def named(layout: tuple[Layout, ...], z: np.ndarray) -> dict[str, Any]:
    out, at = {}, 0
    for name, shape, n, _ in layout:
        out[name] = z[at : at + n].reshape(shape) if shape else z[at]
        at += n
    return out


# --- what is drawn ------------------------------------------------------------------------------------
def number(rng: random.Random) -> float:
    return round(rng.uniform(0.3, 2.0), 2)


def quadratic(rng: random.Random, x: str) -> str:
    """Of angular momenta with principal axes; sometimes with products of inertia."""
    out = " + ".join(f"{number(rng)}*{x}[{k}]**2" for k in range(3))
    if rng.random() < 0.3:
        out += f" + {rng.choice([0.1, 0.2])}*{x}[0]*{x}[1]"
    if rng.random() < 0.3:
        out += f" + {rng.choice([0.1, -0.3])}*{x}[{rng.randrange(3)}]" + rng.choice(["", "**3", "**4"])
    return out


ROTATED = "auto rotations rotations4 rotations6 spherical_midpoint lie_cayley lie_cayley4 rk4".split()


def so3(rng: random.Random) -> Body:
    sign = rng.choice([1, -1])
    return Body(
        "so3" if sign > 0 else "spin",
        "def system(L: tp.Vec[3]):",
        quadratic(rng, "L"),
        (("L", (3,), 3, "momentum"),),
        {"method": rng.choice(ROTATED)},
        (lambda z: cross(z)) if sign > 0 else (lambda z: -cross(z)),
        (0, 1, 2),
        f'@tp.hamiltonian(bracket="{"so3" if sign > 0 else "spin"}")',
        casimirs=lambda z: np.array([z @ z]),
    )


def spins(rng: random.Random) -> Body:
    energy = f"{number(rng)}*tp.sum(S[0]*S[1]) + {number(rng)}*S[0, 2]**2"
    energy += rng.choice(["", f" + {number(rng)}*S[1, 0]", f" + {number(rng)}*S[0, 0]*S[1, 1]"])

    def tensor(z: np.ndarray) -> np.ndarray:
        out = np.zeros((6, 6))
        out[:3, :3], out[3:, 3:] = -cross(z[:3]), -cross(z[3:])
        return out

    return Body(
        "spins",
        "def system(S: tp.Array[2, 3]):",
        energy,
        (("S", (2, 3), 6, "momentum"),),
        {"method": rng.choice(ROTATED)},
        tensor,
        tuple(range(6)),
        '@tp.hamiltonian(bracket="spin")',
        casimirs=lambda z: np.array([z[:3] @ z[:3], z[3:] @ z[3:]]),
    )


def se3(rng: random.Random) -> Body:
    pull = rng.choice([f"{number(rng)}*G[2]", "G[0]*G[1]", f"{number(rng)}*G[0]**2 + G[2]", "tp.cos(G[2])"])

    def tensor(z: np.ndarray) -> np.ndarray:
        out = np.zeros((6, 6))
        out[:3, :3], out[:3, 3:], out[3:, :3] = cross(z[:3]), cross(z[3:]), cross(z[3:])
        return out

    return Body(
        "se3",
        "def system(L: tp.Vec[3], G: tp.Vec[3]):",
        f"{quadratic(rng, 'L')} + {pull}",
        (("L", (3,), 3, "momentum"), ("G", (3,), 3, "position")),
        {"method": rng.choice(ROTATED)},
        tensor,
        (0, 1, 2),
        '@tp.hamiltonian(bracket="se3")',
        casimirs=lambda z: np.array([z[:3] @ z[3:], z[3:] @ z[3:]]),
    )


def top(rng: random.Random) -> Body:
    axis = [0.0, 0.0, 0.0]
    axis[rng.randrange(3)] = 1.0
    pull = f"{number(rng)}*tp.rotate(R, {axis})[{rng.randrange(3)}]" + rng.choice(["", "**2"])

    def tensor(z: np.ndarray) -> np.ndarray:
        out, turn = np.zeros((7, 7)), turned(z[:4])
        out[:4, 4:], out[4:, :4], out[4:, 4:] = turn, -turn.T, cross(z[4:])
        return out

    return Body(
        "top",
        "def system(R: tp.Rotor, L: tp.Vec[3]):",
        f"{quadratic(rng, 'L')} + {pull}",
        (("R", (4,), 4, "position"), ("L", (3,), 3, "momentum")),
        {"method": rng.choice(ROTATED)},
        tensor,
        (4, 5, 6),
        unit=(0, 1, 2, 3),
        casimirs=lambda z: np.array([z[:4] @ z[:4]]),
    )


def damped(rng: random.Random) -> Body:
    """A body with friction of its momenta: what is kept is kept up to a factor. Spins have none."""
    body, rate = rng.choice([so3, se3, top])(rng), rng.choice([0.2, 0.5])
    if body.kind == "spin":
        return damped(rng)
    method = rng.choice(["auto", "rotations", "rotations4"])
    rates = np.zeros(body.size)
    rates[[*body.odd]] = rate
    options = {"method": method, "friction": rate}
    return replace(
        body, kind=f"damped {body.kind}", options=options, rates=rates, casimirs=lambda z: np.zeros(0)
    )


def canonical(n: int) -> np.ndarray:
    out = np.zeros((2 * n, 2 * n))
    out[:n, n:], out[n:, :n] = np.eye(n), -np.eye(n)
    return out


POTENTIALS = (
    "tp.sum(q*q)/2",
    "0.3*tp.sum(q**4)",
    "tp.cos(q[0])",
    "q[0]**2*q[1]",
    "tp.exp(-q[1])",
    "0.5*q[0]*q[1]",
)


def pair(n: int) -> tuple[str, tuple[Layout, ...]]:
    layout: tuple[Layout, ...] = (("q", (n,), n, "position"), ("p", (n,), n, "momentum"))
    return f"def system(q: tp.Vec[{n}], p: tp.Vec[{n}]):", layout


def magnetic(rng: random.Random) -> Body:
    n, mass, charge = rng.choice([2, 3, 3]), rng.choice([1.0, 2.0]), rng.choice([1.0, -1.5])
    planar = rng.choice(["1.0", "1.0 + q[0]", "tp.cos(q[1])", "q[0]*q[1] - 0.5"])
    solid = rng.choice([
        ["0.3", "0.0", "1.0"], ["q[1]", "q[2]", "1.0 + q[0]"], ["-q[0]*q[2]", "-q[1]*q[2]", "1.0 + q[2]*q[2]"],
        ["tp.sin(q[1])", "0.0", "q[0]*q[1]"],
    ])  # fmt: skip
    field_ = planar if n == 2 else f"[{', '.join(solid)}]"
    signature, layout = pair(n)
    B = eval(f"lambda q: {field_}", {"tp": Functions})

    def tensor(z: np.ndarray) -> np.ndarray:
        out, b = canonical(n), np.asarray(B(z[:n]), float)
        # p' = charge v x B
        out[n:, n:] = charge * (np.array([[0.0, b], [-b, 0.0]]) if n == 2 else -cross(b))
        return out

    methods = ("auto", "boris", "boris_exact", "axes", "axes4", "axes6", "symplectic", "rk4")
    friction = rng.choice([0.0, 0.0, 0.3])
    options: dict[str, Any] = {"method": rng.choice(methods)}
    if friction:
        options["friction"] = friction
    return Body(
        "magnetic",
        signature,
        f"tp.sum(p*p)/(2*{mass}) + {number(rng)}*{rng.choice(POTENTIALS)}",
        layout,
        options,
        tensor,
        tuple(range(n, 2 * n)),
        f"@tp.hamiltonian(bracket=tp.magnetic(lambda q: {field_}, charge={charge}))",
        rates=np.concatenate([np.zeros(n), np.full(n, friction)]),
    )


def friction(rng: random.Random) -> Body:
    n = 2
    signature, layout = pair(n)
    rates = rng.choice([[0.3, 0.3], [0.3, 0.3], [0.1, 0.5]])
    methods = (
        "auto leapfrog leapfrog_dkd symplectic_euler yoshida4 suzuki4 kahan_li6 blanes_moan4 nystrom4 rk4 symplectic"
    ).split()
    kinetic = rng.choice(["tp.sum(p*p)/2", "p[0]**2/2 + p[1]**2/3", "tp.sum(p*p)/2 + 0.1*p[0]*p[1]"])
    return Body(
        "friction",
        signature,
        f"{kinetic} + {number(rng)}*{rng.choice(POTENTIALS)} + {number(rng)}*{rng.choice(POTENTIALS)}",
        layout,
        {"method": rng.choice(methods), "friction": rates[0] if rates[0] == rates[1] else rates},
        lambda z: canonical(n),
        (2, 3),
        rates=np.array([0.0, 0.0, *rates]),
    )


def contact(rng: random.Random) -> Body:
    potential = rng.choice(["-tp.cos(q)", "q**2/2", "q**4/4 + q", "tp.exp(-q)"])
    return Body(
        "contact",
        "def system(q, p, s):",
        f"p**2/2 + {number(rng)}*({potential}) + {rng.choice([0.2, 0.5, -0.1])}*s",
        (("q", (), 1, "position"), ("p", (), 1, "momentum"), ("s", (), 1, "")),
        {"method": rng.choice(["auto", "contact", "contact4", "rk4"])},
        lambda z: np.zeros((3, 3)),
        (),
        '@tp.hamiltonian(bracket="contact")',
    )


def bracket(rng: random.Random) -> Body:
    n = rng.choice([3, 4])
    J = np.zeros((n, n))
    for i in range(n):
        for j in range(i):
            J[i, j] = rng.choice([0.0, 1.0, -0.5, 0.7])
    J = J - J.T
    return Body(
        "bracket",
        f"def system(z: tp.Vec[{n}]):",
        f"tp.sum(z*z)/2 + {number(rng)}*"
        + rng.choice(["z[0]**4", "tp.cos(z[1])", "z[0]*z[1]*z[2]", "z[2]**3"]),
        (("z", (n,), n, ""),),
        {"method": rng.choice(["auto", "implicit_midpoint", "gauss4", "rk4"])},
        lambda z: J,
        (),
        f"@tp.hamiltonian(bracket=lambda z: {J.tolist()})",
    )


WRITERS = (so3, spins, se3, top, magnetic, magnetic, friction, friction, contact, bracket, damped)


# --- what is measured ---------------------------------------------------------------------------------
class Runs:
    """A body as a map of rows of numbers."""

    def __init__(self, body: Body, dt: float) -> None:
        self.body, self.dt = body, dt
        head, name = body.text.partition("def ")[::2]
        self.sim = tp.compile(written(head + "def " + name, "system"), dt=dt, **body.options)

    def ends(self, z: np.ndarray, steps: int, dt: float | None = None) -> np.ndarray:
        given, at, z = {}, 0, self.body.moved(z)
        for name, shape, n, _ in self.body.layout:
            given[name] = z[..., at : at + n].reshape((*z.shape[:-1], *shape))
            at += n
        more = {} if dt is None else {"dt": dt}
        out = self.sim.evolve(**given, steps=steps, save_every=steps, progress=False, **more)
        found = np.concatenate(
            [np.asarray(out.final[name], float).reshape(len(z), n) for name, _, n, _ in self.body.layout], -1
        )
        for stop in out.stops:
            found[stop.member] = np.nan
        return found

    def jacobian(self, z: np.ndarray, along: np.ndarray, steps: int, h: float) -> np.ndarray:
        """M times some directions, as columns."""
        rows = [self.body.moved(z + k * h * v) for v in along.T for k, _ in STENCIL]
        ends = self.ends(np.array(rows), steps).reshape(along.shape[1], len(STENCIL), -1)
        return np.einsum("k,jki->ij", np.array([c for _, c in STENCIL]) / h, ends)


def drawn(seed: int) -> tuple[Body, float, int]:
    rng = random.Random(f"bodies {seed}")
    return rng.choice(WRITERS)(rng), rng.choice([0.05, 0.1, 0.2]), rng.randint(1, 3)


def check(case: Case, t: Tally) -> None:
    body, dt, steps = drawn(case.seed)
    runs = Runs(body, dt)
    t.shares["bodies"] += 1
    holds = {name: v for name, v in runs.sim.certificate.items() if v}
    z = body.moved(np.random.default_rng([case.seed, 65]).uniform(-0.9, 0.9, body.size))
    judge(runs, z, steps, holds, case.seed, t)


def judge(runs: Runs, z: np.ndarray, steps: int, holds: dict[str, Any], seed: int, t: Tally) -> None:
    body, dt = runs.body, runs.dt
    told = f"{body.kind}: {body.energy}, {body.options}, dt = {dt}"

    def say(name: str, off: float, close: float) -> None:
        says = f"{name} of {told}: {holds[name].because}"
        t.check(seed, f"{name} of bodies", not off < close, says, f"it is off by {off:.1e}")

    end = runs.ends(z[None], steps)[0]
    if not np.isfinite(end).all() or np.abs(end).max() > LARGEST:
        t.unclear["bodies"] += 1
        return
    structure(runs, z, end, steps, holds, say, t)
    if "casimirs" in holds and body.kind != "bracket":
        say("casimirs", float(np.abs(body.casimirs(end) - body.casimirs(z)).max()), 1e-11)
    if "symmetric" in holds:
        say("symmetric", float(np.abs(runs.ends(end[None], steps, -dt)[0] - z).max()), 1e-9)
    if "reversible" in holds and body.odd:
        sign = np.ones(body.size)
        sign[list(body.odd)] = -1.0
        say("reversible", float(np.abs(sign * runs.ends((sign * end)[None], steps)[0] - z).max()), 1e-9)
    if "consistent" in holds:
        try:
            rates = body.motion(z)
        except Unknown:
            t.unclear["consistent of bodies"] += 1
            return
        off = [np.abs((runs.ends(z[None], 1, h)[0] - z) / h - rates).max() for h in (1e-3, 1e-5)]
        scale = max(1.0, float(np.abs(rates).max()))
        say("consistent", float(off[1]) / scale if off[1] > 0.05 * off[0] else 0.0, 1e-6)


def structure(
    runs: Runs, z: np.ndarray, end: np.ndarray, steps: int, holds: dict[str, Any], say: Any, t: Tally
) -> None:
    """Brackets, forms and volumes: what M does to them."""
    names = {
        "poisson",
        "symplectic",
        "conformally-symplectic",
        "conformally-poisson",
        "volume-preserving",
        "volume-factor",
        "contact",
    }
    if not names & set(holds):
        return
    body, time = runs.body, steps * runs.dt
    basis = body.tangents(z)
    wide, M = (runs.jacobian(z, basis, steps, h) for h in (STEP, STEP / 2))
    size = max(1.0, float(np.abs(M).max()))
    if not np.isfinite(M).all() or size > LARGEST or np.abs(wide - M).max() > 1e-7 * size:
        t.unclear["bodies"] += 1
        return
    lost = 0.0 if body.rates is None else float(body.rates.sum()) * time
    if "poisson" in holds:
        inside = basis.T @ body.tensor(z) @ basis
        say("poisson", float(np.abs(M @ inside @ M.T - body.tensor(end)).max()) / size**2, CLOSE)
    if "conformally-poisson" in holds:
        assert body.rates is not None
        inside, after = basis.T @ body.tensor(z) @ basis, np.exp(-body.rates.max() * time) * body.tensor(end)
        say("conformally-poisson", float(np.abs(M @ inside @ M.T - after).max()) / size**2, CLOSE)
    J = canonical(body.size // 2)
    if "symplectic" in holds:
        say("symplectic", float(np.abs(M.T @ J @ M - J).max()) / size**2, CLOSE)
    if "conformally-symplectic" in holds:
        assert body.rates is not None
        factor = np.exp(-body.rates[-1] * time)
        say("conformally-symplectic", float(np.abs(M.T @ J @ M - factor * J).max()) / size**2, CLOSE)
    for name in ("volume-preserving", "volume-factor"):
        if name in holds and not body.unit:
            say(name, abs(np.linalg.det(M) - np.exp(-lost)) / size**2, 10 * CLOSE)
    if "contact" in holds:
        form = lambda x: np.array([-x[1], 0.0, 1.0])  # noqa: E731
        moved, own = form(end) @ M, form(z)
        rate = float(gradient(body.H, np.asarray(z, WIDE))[2])
        say("contact", float(np.abs(moved - np.exp(-rate * time) * own).max()) / size**2, CLOSE)
