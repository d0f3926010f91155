"""What is the true motion?  Vector fields by differences of the user's function, solutions by SciPy's DOP853.

Numbers are long doubles where the machine has them. A derivative is a difference quotient of sixth order and of
step 1e-3 or 2e-3: if the two disagree, the function is not smooth there and the point is not used.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.integrate import solve_ivp

from attack.case import Case
from attack.plain import Plain, understood

WIDE = np.longdouble
STENCIL = (
    (1, WIDE(45 / 60)),
    (2, WIDE(-9 / 60)),
    (3, WIDE(1 / 60)),
)  # of the first derivative, odd; of sixth order
STEP = WIDE(1e-3)
FAR = 1e4  # a state that is further away is not compared with anything
MOST_CALLS = 400_000  # of the user's function, for one solution: some seconds; it may run away in finite time
AGREE = 1e-8  # between two steps of a difference quotient, relative to the larger of it and 1


class Unknown(Exception):
    """The truth cannot be told here: a kink, a jump or a pole is too near."""


def slope(f: Any, x: np.ndarray, i: int, step: Any) -> tuple[Any, Any]:
    """Of this step and of twice as long a one; f has some of its places in common."""
    change: dict[int, Any] = {}
    for k in (1, 2, 3, 4, 6):
        ahead, behind = x.copy(), x.copy()
        ahead[i] += k * step
        behind[i] -= k * step
        change[k] = f(ahead) - f(behind)
    near, far = (sum((c * change[m * k] for k, c in STENCIL), WIDE(0)) for m in (1, 2))
    return near / step, far / (2 * step)


def gradient(f: Any, x: np.ndarray, which: range | None = None) -> np.ndarray:
    """df/dx at x, or Unknown."""
    out = []
    for i in which if which is not None else range(len(x)):
        a, b = slope(f, x, i, STEP)
        if not np.isfinite(a) or abs(a - b) > AGREE * max(1, abs(a)):
            raise Unknown("not smooth")
        out.append(a)
    return np.array(out, WIDE)


@dataclass
class Truth:
    """A case without the compiler."""

    case: Case

    def __post_init__(self) -> None:
        self.system: Plain = understood(self.case.text)
        self.layout = self.case.layout
        self.size = sum(n for _, _, n, _ in self.layout)
        names, code = [], self.system.function.__code__
        names += code.co_varnames[: code.co_argcount]
        self.timed = "t" in names
        self.calls = 0
        self.signatures: dict[int, tuple[tuple[str, ...], dict[str, Any], bool]] = {}  # of the parts
        self.places = {
            role: [
                i
                for i, r in enumerate(
                    np.repeat([r for *_, r in self.layout], [n for _, _, n, _ in self.layout])
                )
                if r == role
            ]
            for role in {r for *_, r in self.layout}
        }

    # --- states as one vector ------------------------------------------------------------------
    def split(self, z: np.ndarray) -> dict[str, Any]:
        out, at = {}, 0
        for name, shape, n, _ in self.layout:
            out[name] = z[at : at + n].reshape(shape) if shape else z[at]
            at += n
        return out

    def indices(self, role: str) -> list[int]:
        return self.places.get(role, [])

    def omega(self) -> np.ndarray:
        """The Poisson tensor: conjugate numbers lie at the same place in `position` and `momentum`."""
        out = np.zeros((self.size, self.size))
        for q, p in zip(self.indices("position"), self.indices("momentum")):
            out[q, p], out[p, q] = 1.0, -1.0
        return out

    # --- the user's function -------------------------------------------------------------------
    def call(self, part: Plain, given: dict[str, Any], t: Any) -> Any:
        self.calls += 1
        names, params, timed = self.taken(part)
        states = {k: given[k] for k in names if k in given}
        clock = {"t": WIDE(t)} if timed else {}
        with np.errstate(all="ignore"):
            return part.function(**states, **params, **clock)

    def taken(self, part: Plain) -> tuple[tuple[str, ...], dict[str, Any], bool]:
        """(the arguments of a function, its parameters, does it take the time?)."""
        known = self.signatures.get(id(part))
        if known is None:
            code = part.function.__code__
            names = code.co_varnames[: code.co_argcount]
            params = {k: WIDE(v) for k, v in self.case.params.items() if k in names}
            known = self.signatures[id(part)] = (names, params, "t" in names)
        return known

    def energy(self, z: np.ndarray, t: Any = 0.0) -> Any:
        """H of a Hamiltonian or a sum, or v dL/dv - L of a Lagrangian."""
        z = np.asarray(z, WIDE)
        if self.system.kind == "lagrangian":
            v = self.velocity(z, t)
            q = z[self.indices("position")]
            momenta = z[self.indices("momentum")]
            return (v * momenta).sum() - self.lagrangian(q, v, t)
        out = self.call(self.system, self.split(z), t)
        for k in range(len(self.system.parts)):
            out = out + self.part_energy(k, z, t)
        return out

    def part_energy(self, k: int, z: np.ndarray, t: Any) -> Any:
        """Of what is added to a system; the kinetic energy of a Hamiltonian is that of the first."""
        part, given = self.system.parts[k], self.split(np.asarray(z, WIDE))
        if part.kind == "hamiltonian":
            given = {name: v * 0 if name == "p" else v for name, v in given.items()}
        return self.call(part, given, t)

    def lagrangian(self, q: np.ndarray, v: np.ndarray, t: Any) -> Any:
        (_, shape, _, _) = self.layout[0]
        return self.call(
            self.system,
            {"q": q.reshape(shape) if shape else q[0], "v": v.reshape(shape) if shape else v[0]},
            t,
        )

    def velocity(self, z: np.ndarray, t: Any) -> np.ndarray:
        """v of p = dL/dv: three steps of Newton's method, whose matrix is made of differences too."""
        q, p = z[self.indices("position")], z[self.indices("momentum")]
        v = p.copy()
        for _ in range(3):
            off = gradient(lambda w: self.lagrangian(q, w, t), v) - p
            if np.abs(off).max() < 1e-15:
                break
            rows = [
                (gradient(lambda w: self.lagrangian(q, w, t), v + e) - off - p) / WIDE(0.125)
                for e in np.eye(len(v), dtype=WIDE) * WIDE(0.125)
            ]
            v = v - np.linalg.solve(np.array(rows, float).T, off.astype(float))
        return v

    def rates(self, z: np.ndarray, t: Any = 0.0) -> np.ndarray:
        """dz/dt, or Unknown; of a map, its next state."""
        z = np.asarray(z, WIDE)
        kind, given = self.system.kind, self.split(z)
        if kind == "hamiltonian":
            slopes = gradient(lambda x: self.energy(x, t), z)
            return np.asarray(self.omega() @ slopes, WIDE)
        if kind == "lagrangian":
            v, q, out = self.velocity(z, t), z[self.indices("position")], np.zeros(self.size, WIDE)
            out[self.indices("position")] = v
            out[self.indices("momentum")] = gradient(lambda x: self.lagrangian(x, v, t), q)
            return out
        if kind == "forces":
            force = np.asarray(self.call(self.system, given, t), WIDE).reshape(-1)
            out = np.zeros(self.size, WIDE)
            out[self.indices("position")] = z[self.indices("momentum")] / WIDE(
                self.case.params.get("mass", 1.0)
            )
            out[self.indices("momentum")] = force
            return out
        value = self.call(self.system, given, t)
        parts = value if isinstance(value, (tuple, list)) else (value,)
        return np.concatenate([np.asarray(x, WIDE).reshape(-1) for x in parts])

    def flow(self, z: np.ndarray, t0: float, span: float, tight: float = 1e-12) -> np.ndarray:
        """The solution after a time, or Unknown."""

        most = self.calls + MOST_CALLS

        def rates(t: float, x: np.ndarray) -> np.ndarray:
            if self.calls > most or np.abs(x).max() > FAR:
                raise Unknown("it runs away, or changes too fast for a reference")
            out = self.rates(x, t).astype(float)
            if not np.isfinite(out).all() or np.abs(out).max() > 1e6:
                raise Unknown("leaves every bound")
            return out

        found = solve_ivp(rates, (t0, t0 + span), np.asarray(z, float), "DOP853", rtol=tight, atol=tight)
        if not found.success:
            raise Unknown(found.message)
        return np.asarray(found.y[:, -1])
