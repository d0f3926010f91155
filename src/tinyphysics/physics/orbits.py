"""On which ellipse does a body move?  Orbital elements of few bodies, traced: osculating, from q and p at one time."""

from __future__ import annotations

import math
from typing import Any

from tinyphysics.errors import InputError
from tinyphysics.front.functions import arctan2, hypot, log, maximum, sin, sqrt, stack, take, where
from tinyphysics.front.measure import Subject, measure
from tinyphysics.physics.observables import bodies, number

ELEMENTS = ("a", "e", "i", "node", "pericentre", "M", "period")  # the columns; angles in radians
ROUND = 1e-13  # an eccentricity or a tilt below this is rounding: its direction means nothing


@measure
def orbital_elements(
    s: Subject, about: int | str = 0, G: Any = "G", mu: Any = None, dimensions: int | None = None
) -> Any:
    """The columns ELEMENTS for each body: (bodies - 1, 7) about one of them, (bodies, 7) about "barycentre" or "origin".

    About "barycentre" each body is taken relative to the centre of mass of the others. About "origin" there is a
    fixed centre, whose mu = G M is given: the name of a parameter, or a number.
    """
    q, p, w = (bodies(s, x, dimensions) for x in (s.positions, s.momenta, s.inverse_masses))
    n, d = q.shape
    if d not in (2, 3):
        raise InputError(
            f"the bodies of `{s.name}` move in {d} dimension: no orbits", fix="Pass dimensions=3."
        )
    if not all(s.shown_equal(w[:, c], w[:, 0]) for c in range(1, d)):
        raise InputError(
            f"the bodies of `{s.name}` are not shown to have one mass for all directions",
            fix="Write the kinetic energy as ((p**2).sum(-1) / (2*m)).sum().",
        )
    m, v = (1.0 / w)[:, 0], w * p
    if about == "origin":
        if mu is None:
            raise InputError(
                "orbits about the origin need mu = G M of the central mass", fix='Pass mu="mu", or a number.'
            )
        return elements(space(q), space(v), number(s, mu, "mu") + 0.0 * m)
    strength = number(s, G, "G")
    if about == "barycentre":
        if n < 2:
            raise InputError(
                f"`{s.name}` has one body, and nothing that it could orbit", fix='Pass about="origin".'
            )
        whole, rest = m.sum(), (m.sum() - m)[:, None]
        far = [x - ((m[:, None] * x).sum(0)[None, :] - m[:, None] * x) / rest for x in (q, v)]
        return elements(space(far[0]), space(far[1]), strength * whole + 0.0 * m)
    if not isinstance(about, int) or not -n <= about < n or n < 2:
        raise InputError(
            f"about={about!r}: `{s.name}` has {n} bodies",
            fix='about is the number of a body, "barycentre" or "origin".',
        )
    others = [k for k in range(n) if k != about % n]
    q, v = (take(x, others, 0) - x[about][None, :] for x in (q, v))
    return elements(space(q), space(v), strength * (take(m, others, 0) + m[about]))


def space(x: Any) -> list[Any]:
    """The three coordinates of each body; a plane is z = 0."""
    return [x[:, 0], x[:, 1], x[:, 2] if x.shape[1] == 3 else 0.0 * x[:, 0]]


def outer(a: Any, b: Any) -> list[Any]:
    return [a[j] * b[k] - a[k] * b[j] for j, k in ((1, 2), (2, 0), (0, 1))]


def inner(a: Any, b: Any) -> Any:
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


def turned(angle: Any) -> Any:
    """The same direction, from 0 to 2 pi."""
    return where(angle < 0.0, angle + math.tau, angle)


def elements(r: Any, v: Any, mu: Any) -> Any:
    """Of relative positions and velocities, as lists of coordinates; angles as in Murray & Dermott 1999, section 2.8."""
    distance = sqrt(inner(r, r))
    a = 1.0 / (2.0 / distance - inner(v, v) / mu)
    h = outer(r, v)
    tilt, spin = hypot(h[0], h[1]), sqrt(inner(h, h))
    flat = tilt <= ROUND * spin  # no node: angles are counted from x
    node = [
        where(flat, 1.0, -h[1] / where(flat, 1.0, tilt)),
        where(flat, 0.0, h[0] / where(flat, 1.0, tilt)),
        0.0,
    ]
    up = [x / spin for x in h]
    ahead = outer(up, node)  # in the plane of the orbit, a quarter turn after the node
    to_pericentre = [x / mu - y / distance for x, y in zip(outer(v, h), r)]
    e = sqrt(inner(to_pericentre, to_pericentre))
    circle = e <= ROUND  # no pericentre: it is put at the node
    x, y = where(circle, 1.0, inner(to_pericentre, node)), where(circle, 0.0, inner(to_pericentre, ahead))
    pericentre = arctan2(y, x)
    along, across = inner(r, node), inner(r, ahead)
    size = hypot(x, y)
    cosine, sine = (along * x + across * y) / (distance * size), (across * x - along * y) / (distance * size)
    return stack(
        [
            a,
            e,
            arctan2(tilt, h[2]),
            turned(where(flat, 0.0, arctan2(node[1], node[0]))),
            turned(pericentre),
            mean_anomaly(e, cosine, sine),
            period(a, mu),
        ],
        -1,
    )


def mean_anomaly(e: Any, cosine: Any, sine: Any) -> Any:
    """From the cosine and sine of the true anomaly; for a hyperbola it grows from the pericentre in both directions."""
    below = 1.0 + e * cosine
    E = arctan2(sqrt(maximum(1.0 - e * e, 0.0)) * sine, e + cosine)
    x = sqrt(maximum(e * e - 1.0, 0.0)) * sine / below
    far = where(x < 0.0, -1.0, 1.0) * log(where(x < 0.0, -x, x) + sqrt(x * x + 1.0))  # arsinh, odd to the bit
    return where(e < 1.0, turned(E - e * sin(E)), e * x - far)


def period(a: Any, mu: Any) -> Any:
    """2 pi sqrt(a**3/mu); infinite for what does not come back."""
    size = where(a > 0.0, a, 1.0)
    return where(a > 0.0, math.tau * size * sqrt(size / mu), math.inf)
