"""Which states turn?  Angular momenta and what bodies carry along: tops, spins, attitudes and axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tinyphysics.ir import UOp
from tinyphysics.ir.vectors import columns, cross, from_columns
from tinyphysics.poisson import ANY_RATES, Poisson, is_nothing, starts


def hat(v: Sequence[Any]) -> list[list[Any]]:
    """The matrix that multiplies from the left as a vector product does: hat(v) w = v x w.

    >>> hat((1, 2, 3))
    [[0, -3, 2], [3, 0, -1], [-2, 1, 0]]
    """
    x, y, z = v
    return [[0, -z, y], [z, 0, -x], [-y, x, 0]]


def spread(u: UOp, like: UOp) -> UOp:
    """u with axes of length 1 put before its last one, as far as another array has more."""
    more = len(like.shape) - len(u.shape)
    return u.reshape(*u.shape[:-1], *[1] * more, u.shape[-1]).expand((*like.shape[:-1], u.shape[-1]))


@dataclass(frozen=True, eq=False)
class Turning(Poisson):
    """Bodies with an angular momentum L each, and what is carried along: L' = L x dH/dL and the torques.

    A body sees its own momentum, and vectors that are fixed in space, turn by -dH/dL (`sign` 1). Seen from outside, the
    momentum and what is fixed in the body turn by dH/dL (`sign` -1).
    """

    bodies: tuple[tuple[UOp, UOp | None], ...]  # the momentum of each, and what is carried
    families = ("rotations", "spherical midpoint", "cayley", *ANY_RATES)
    unasked = "its states turn, and are no positions and momenta"
    sign = 1
    carried_first = False  # is what is carried declared before its momentum?
    is_matrix = False  # are three rows carried by each body?
    decays = True  # may friction act on its momenta?
    half = False  # is it a rotor (w, x, y, z), which turns by half of the angle?

    @classmethod
    def of(cls, groups: Sequence[tuple[UOp, ...]], tensor: tuple[UOp, ...] = ()) -> Turning:
        ordered = [g[::-1] if cls.carried_first else g for g in groups]
        return cls(tuple((g[0], g[1] if len(g) > 1 else None) for g in ordered))

    @property
    def states(self) -> tuple[UOp, ...]:
        both = [(x, L) if self.carried_first else (L, x) for L, x in self.bodies]
        return tuple(u for pair in both for u in pair if u is not None)

    @property
    def turning(self) -> tuple[Turning, ...]:
        return (self,)

    def swaps(self, carried: bool, axis: int) -> tuple[tuple[int, int], ...]:
        """Columns (a, b) that turn into each other about an axis, a' = b and b' = -a for a unit of the angle."""
        i, j = (axis + 1) % 3, (axis + 2) % 3
        both = ((axis + 1, 0), (i + 1, j + 1)) if carried and self.half else ((i, j),)
        return both if self.sign > 0 else tuple((b, a) for a, b in both)

    def moved(self, x: UOp, w: UOp) -> UOp:
        """How fast what is carried moves, for the derivatives w by the momentum."""
        if not self.half:
            w = spread(w, x)
            return cross(x, w) if self.sign > 0 else cross(w, x)
        r, (a, b, c) = columns(x), columns(w)
        rows = [-r[1] * a - r[2] * b - r[3] * c, r[0] * a + r[2] * c - r[3] * b]
        rows += (r[0] * b + r[3] * a - r[1] * c, r[0] * c + r[1] * b - r[2] * a)
        return from_columns([row * 0.5 for row in rows])

    def torque(self, x: UOp, g: UOp) -> UOp:
        """How fast a momentum moves, for the derivatives g by what is carried."""
        if not self.half:
            each = cross(x, g) if self.sign > 0 else cross(g, x)
            return each.sum(-2) if self.is_matrix else each
        (w, x1, y, z), (a, b, c, d) = columns(x), columns(g)
        rows = (
            x1 * a - w * b - z * c + y * d,
            y * a + z * b - w * c - x1 * d,
            z * a - y * b + x1 * c - w * d,
        )
        return from_columns([row * 0.5 for row in rows])

    def rates(self, slopes: Mapping[UOp, UOp]) -> dict[UOp, UOp]:
        out: dict[UOp, UOp] = {}
        for L, x in self.bodies:
            w, g = slopes.get(L), None if x is None else slopes.get(x)
            if x is not None and w is not None:
                out[x] = self.moved(x, w)
            own = [] if w is None else [cross(L, w) if self.sign > 0 else cross(w, L)]
            own += [] if g is None or x is None else [self.torque(x, g)]
            if own:
                out[L] = UOp.sum_of(own)
        return {s: out[s] for s in self.states if s in out}

    def matrix(self, z: Sequence[Any]) -> list[list[Any]]:
        """P, number by number; of arrays, body by body."""
        out: list[list[Any]] = [[0] * len(z) for _ in z]
        at = dict(zip(self.states, starts(self.states)))
        for L, x in self.bodies:
            for k in range(L.size // 3):
                first = at[L] + 3 * k
                own = list(range(first, first + 3))
                for i, row in zip(own, hat([self.sign * z[n] for n in own])):
                    out[i][first : first + 3] = row
                if x is not None:
                    each = x.size // (L.size // 3)
                    self.couple(out, z, own, list(range(at[x] + each * k, at[x] + each * (k + 1))))
        return out

    def couple(self, out: list[list[Any]], z: Sequence[Any], own: list[int], others: list[int]) -> None:
        """What is carried by one body, as its momentum moves it and is moved by it."""
        blocks: list[tuple[int, list[Any]]] = []
        if self.half:
            w, x, y, v = (z[n] * 0.5 for n in others)
            blocks = list(zip(others, ([-x, -y, -v], [w, -v, y], [v, w, -x], [-y, x, w])))
        else:
            for k in range(0, len(others), 3):
                rows = hat([self.sign * z[n] for n in others[k : k + 3]])
                blocks += list(zip(others[k : k + 3], rows))
        for i, row in blocks:
            for j, value in zip(own, row):
                out[i][j], out[j][i] = value, -value if not is_nothing(value) else 0

    def mirror(self) -> dict[UOp, UOp]:
        return {L: -L for L, _ in self.bodies}

    def casimirs(self) -> dict[str, UOp]:
        out = {}
        for L, x in self.bodies:
            if x is None:
                out[f"|{L.arg}|"] = (L * L).sum(-1)
                continue
            out[f"|{x.arg}|"] = (x * x).sum(-1)
            if not self.half and not self.is_matrix:
                out[f"{L.arg}·{x.arg}"] = (L * x).sum(-1)
        return out


class BodyFrame(Turning):
    """Rows of angular momenta as their bodies see them: L' = L x dH/dL."""

    roles = ("so3",)


class SpaceFrame(Turning):
    """Rows of spins, or of angular momenta as seen from outside: S' = dH/dS x S."""

    roles = ("spin",)
    sign = -1
    decays = False


class HeavyTop(Turning):
    """Angular momenta, and a direction that is fixed in space, both as bodies see them: se(3)."""

    roles = ("se3", "se3_vector")


class Rotors(Turning):
    """Attitudes as unit quaternions (w, x, y, z), from the body to space, with angular momenta in the body's frame."""

    roles = ("rotor", "rotor_momentum")
    carried_first = half = True


class Rotations(Turning):
    """Attitudes as matrices, from the body to space, with angular momenta in the body's frame."""

    roles = ("rotation", "rotation_momentum")
    carried_first = is_matrix = True


class Axes(Turning):
    """Directions of bodies that are symmetric about them and do not spin, with angular momenta in the frame of space."""

    roles = ("axis", "axis_momentum")
    carried_first = True
    sign = -1
