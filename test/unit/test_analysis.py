"""Is every yes true?  Energies made to mislead the analyses; each yes is checked on numbers, each no may be shy."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tinyphysics as tp
from tinyphysics.analysis.analyse import facts_of
from tinyphysics.analysis.quadratic import polynomial, quadratic
from tinyphysics.analysis.separable import open_product, separable
from tinyphysics.analysis.symmetry import even_in_p
from tinyphysics.facts import Fact
from tinyphysics.ir import UOp, evaluate
from tinyphysics.system import State, System

A = np.array([[2.0, 0.5], [0.5, 1.0]])
S, V2, V3, M = (), (2,), (3,), (2, 3)

# What must be found: S separable, Q quadratic, E even in p; a small letter must not be found; a digit is the
# degree; what is not mentioned may be either way, and a yes is checked all the same.
# fmt: off
ENERGIES = {
    # plain
    "oscillator":               (S, "SQE2", lambda q, p: p**2 / 2 + q**2 / 2),
    "pendulum":                 (S, "SqE", lambda q, p: p**2 / 2 - np.cos(q)),
    "kepler":                   (V2, "SqE", lambda q, p: p @ p / 2 - 1 / np.linalg.norm(q)),
    "henon-heiles":             (V2, "SqE3", lambda q, p: (p @ p + q @ q) / 2 + q[0] ** 2 * q[1] - q[1] ** 3 / 3),
    "relativistic":             (V3, "SqE", lambda q, p: np.sqrt(p @ p + 1) + (q**4).sum()),
    "quartic in p":             (S, "SqE4", lambda q, p: p**4 + p**2 / 2 + q),
    "chain":                    (V3, "SQE2", lambda q, p: (p * p).sum() / 2 + ((q - np.roll(q, 1)) ** 2).sum() / 2),
    "walls":                    (V3, "SQE2", lambda q, p: p @ p / 2 + (np.diff(q, prepend=0, append=0) ** 2).sum() / 2),
    "matrix":                   (V2, "SQE2", lambda q, p: p @ A @ p / 2 + q @ A @ q / 2 + q[0]),
    "linear and constant":      (V2, "SQe2", lambda q, p: p @ p / 2 + 3 * p[0] - 2 * q[1] + 7),
    "by a parameter":           (S, "SQE2", lambda q, p, k=3.0, m=2.0: p**2 / (2 * m) + k * q**2 / 2 + k * q),
    "scaled squares":           (S, "SQE2", lambda q, p: (p * 2) ** 2 + (q - 1) ** 2),
    "negated":                  (S, "SQE2", lambda q, p: -(-(p**2) - q**2) / 2),
    "a common factor":          (S, "SQE2", lambda q, p: 0.5 * (p**2 + q**2)),
    "over a common number":     (S, "SQE2", lambda q, p: (p**2 + q**2 - 3 * q) / 2),
    "a sum of sums":            (M, "SQE2", lambda q, p: ((p * p).sum(axis=1) + (q * q).sum(axis=1)).sum() / 2),
    "mean of both":             (V3, "SQE2", lambda q, p: np.mean(p * p + q * q)),
    "a sum turned around":      (M, "SQE2", lambda q, p: (p * p + q * q).T.reshape(6)[::-1].sum()),
    "a kinetic and a potential dot": (V3, "SQE2", lambda q, p: np.dot(p, p) / 2 + np.dot(q, np.roll(q, 1))),
    "squares that share a sum": (V2, "SQE2", lambda q, p: (p**2 + q**2)[0] + (p**2 + q**2)[1]),
    # cross terms in the open
    "product":                  (S, "sQe2", lambda q, p: p**2 / 2 + p * q),
    "angular momentum":         (V2, "sQe2", lambda q, p: p @ p / 2 + q[0] * p[1] - q[1] * p[0]),
    "dot of q and p":           (V3, "sQe2", lambda q, p: p @ p / 2 + q @ p),
    "cross product":            (V3, "sQe2", lambda q, p: p @ p / 2 + np.cross(q, p)[2]),
    "outer product":            (V3, "sQ2", lambda q, p: p @ p / 2 + np.outer(q, p).sum()),
    "einsum":                   (V2, "sQ2", lambda q, p: p @ p / 2 + np.einsum("i,ij,j->", q, A, p)),
    "neighbours":               (V3, "sQ2", lambda q, p: p @ p / 2 + (np.roll(p, 1) * q).sum()),
    "mass that depends on q":   (S, "sqE", lambda q, p: p**2 / (2 * (1 + q**2)) + q**2),
    "metric":                   (V2, "sqE4", lambda q, p: (p @ p) * (1 + q @ q)),
    "position in the kinetic":  (V2, "sqE", lambda q, p: (p[0] ** 2 + p[1] ** 2 / np.sin(q[0]) ** 2) / 2),
    # cross terms in hiding
    "magnetic":                 (S, "sQe2", lambda q, p: (p - q) ** 2 / 2),
    "magnetic in the plane":    (V2, "sQe2", lambda q, p: ((p[0] + q[1]) ** 2 + (p[1] - q[0]) ** 2) / 2),
    "sum of sums squared":      (V3, "sQe2", lambda q, p: p @ p / 2 + (p.sum() + q.sum()) ** 2),
    "mean of a square":         (V3, "sQ2", lambda q, p: np.mean((p + q) ** 2)),
    "exp times exp":            (S, "sqe", lambda q, p: p**2 / 2 + np.exp(p) * np.exp(q)),
    "exp of a sum":             (S, "sqe", lambda q, p: p**2 / 2 + np.exp(p + q)),
    "cosine of a difference":   (S, "sqe", lambda q, p: p**2 / 2 + np.cos(q - p)),
    "cosine times cosine":      (S, "sqE", lambda q, p: p**2 / 2 + np.cos(q) * np.cos(p)),
    "norm of a difference":     (V2, "sqe", lambda q, p: p @ p / 2 + np.linalg.norm(q - p)),
    "product of norms":         (V2, "sqE", lambda q, p: p @ p / 2 + np.linalg.norm(q) * np.linalg.norm(p)),
    "root of a product":        (S, "sqe", lambda q, p: p**2 + np.sqrt(p * q)),
    "half power of a product":  (S, "sqe", lambda q, p: p**2 + (p * q) ** 0.5),
    "root of a squared product": (S, "sqE", lambda q, p: p**2 + (p**2 * q**2) ** 0.5),
    "squared product":          (S, "sqE4", lambda q, p: p**2 / 2 + (p * q) ** 2),
    "inverse product":          (S, "sqe", lambda q, p: p**2 + (p * q) ** -1.0),
    "square of a sum of squares": (S, "sqE4", lambda q, p: (p**2 + q**2) ** 2),
    "root of a sum of squares": (S, "sqE", lambda q, p: np.sqrt(p**2 + q**2)),
    "hypot":                    (S, "sq", lambda q, p: p**2 + np.hypot(p, q)),
    "atan2":                    (S, "sqe", lambda q, p: p**2 + np.arctan2(p, q)),
    "power of each other":      (S, "sqe", lambda q, p: p**2 + (2 + np.sin(p)) ** q),
    "absolute product":         (S, "sqE", lambda q, p: p**2 / 2 + np.abs(p * q)),
    "larger of both":           (S, "sqe", lambda q, p: p**2 / 2 + np.maximum(p, q)),
    "smaller of both":          (S, "sq", lambda q, p: p**2 / 2 + np.minimum(p**2, q)),
    "largest of all":           (V3, "sqe", lambda q, p: p @ p / 2 + np.max(p + q)),
    "largest of joined":        (V2, "sqe", lambda q, p: p @ p / 2 + np.max(np.concatenate([q, p]))),
    "floor times p":            (S, "sqe", lambda q, p: p**2 / 2 + np.floor(q) * p),
    "sign of q times p":        (S, "sqe", lambda q, p: p**2 / 2 + np.sign(q) * p),
    "clipped product":          (S, "sq", lambda q, p: p**2 / 2 + np.clip(p * q, -1, 1)),
    "remainder":                (S, "sq", lambda q, p: p**2 / 2 + (p + q) % 1.5),
    # branches
    "branch on q of p":         (S, "sqE", lambda q, p: np.where(q > 0, p**2, p**2 / 2)),
    "branch on p of q":         (S, "sq", lambda q, p: p**2 / 2 + np.where(p > 0, q, -q)),
    "branch on both":           (S, "sq", lambda q, p: p**2 / 2 + np.where(q > p, 1.0, 0.0)),
    "branch within p":          (S, "Sqe", lambda q, p: np.where(p > 0, p**2, 2 * p**2) + q**2),
    "branch within q":          (S, "SqE", lambda q, p: p**2 / 2 + np.where(q > 0, q**2, 0.0)),
    "branch of sums":           (V2, "sqE", lambda q, p: np.where(q @ q > 1, p @ p, p @ p / 2)),
    "condition as a number":    (S, "sqe", lambda q, p: p**2 / 2 + (q > 0) * p),
    "conditions multiplied":    (S, "sq", lambda q, p: p**2 / 2 + 1.0 * ((q > 0) * (p > 0))),
    "branch with both in one":  (S, "sq", lambda q, p: p**2 / 2 + np.where(q > 0, q, p)),
    # indices that mix, or only look as if
    "component of a product":   (V2, "sQ2", lambda q, p: p @ p / 2 + (q * p[::-1])[0]),
    "crossed components":       (V2, "sQ2", lambda q, p: p @ p / 2 + p[0] * q[1]),
    "joined, then multiplied":  (V2, "sQ2", lambda q, p: p @ p / 2 + np.prod(np.concatenate([q, p])[1:3])),
    "stacked, then summed":     (V2, "sQ2", lambda q, p: p @ p / 2 + (np.stack([q, p]).sum(axis=0) ** 2).sum()),
    "stacked, then indexed":    (V2, "Q2", lambda q, p: p @ p / 2 + np.stack([q, p])[0] @ q),
    "joined squares":           (V2, "Q2", lambda q, p: (np.concatenate([q, p]) ** 2).sum()),
    "rolled over the seam":     (V2, "sQ2", lambda q, p: p @ p / 2 + (np.concatenate([q, p]) * np.roll(np.concatenate([q, p]), 1)).sum()),
    # cancellations: true, but not shown; never the other way round
    "product minus product":    (S, "2", lambda q, p: p**2 / 2 + p * q - p * q),
    "difference of squares":    (S, "2", lambda q, p: (p + q) * (p - q)),
    "expanded square taken away": (S, "2", lambda q, p: p**2 / 2 + (p + q) ** 2 - 2 * p * q),
    "almost taken away":        (S, "sQ2", lambda q, p: p**2 / 2 + (p + q) ** 2 - 1.9999999 * p * q),
    "zero times q":             (S, "3", lambda q, p: p**2 * (1 + 0 * q)),
    "p plus q minus q":         (S, "2", lambda q, p: (p + q - q) ** 2 / 2),
    "log of exp times exp":     (S, "q", lambda q, p: p**2 / 2 + np.log(np.exp(p) * np.exp(q))),
    "same branch twice":        (S, "q", lambda q, p: np.where(q > 0, p**2, p**2)),
    "cube minus cube":          (S, "SE3", lambda q, p: p**2 / 2 + q**3 - q**3),
    "product to the zero":      (S, "0", lambda q, p: (p * q) ** 0 + 0),
    # powers
    "power two and a half":     (S, "SqE", lambda q, p: p**2 / 2 + np.abs(q) ** 2.5),
    "series":                   (S, "SQE2", lambda q, p: p**2 / 2 + sum(c * q**k for k, c in enumerate([1.0, -2.0, 3.0]))),
    "series in p":              (S, "SQe2", lambda q, p: sum(c * p**k for k, c in enumerate([1.0, -2.0, 3.0])) + q),
    "nothing to the first":     (S, "SQE2", lambda q, p: p**2 / 2 + (q - q) ** 1.0 + q),
    "root squared":             (S, "SqE", lambda q, p: p**2 / 2 + np.sqrt(q) ** 2),
    "square rooted":            (S, "SqE", lambda q, p: np.sqrt(p**2) + q**2),
    "by a parameter's power":   (S, "SqE", lambda q, p, n=2.0: p**2 / 2 + np.abs(q) ** n),
    "inverse":                  (S, "SqE", lambda q, p: p**2 / 2 + 1 / q),
    "over one":                 (S, "Sq", lambda q, p: p**2 / 2 + q / (0 * q + 1)),
    "product of two":           (V2, "SQE2", lambda q, p: p @ p / 2 + np.prod(q)),
    "product of three":         (V3, "SqE3", lambda q, p: p @ p / 2 + np.prod(q)),
    "condition times square":   (S, "Sq", lambda q, p: p**2 / 2 + (q > 0) * q**2),
    "rounded":                  (S, "Sq", lambda q, p: p**2 / 2 + np.floor(q)),
    # even or odd in p
    "cube of p":                (S, "Sqe3", lambda q, p: p**2 / 2 + p**3 / 10 + q),
    "absolute p":               (S, "SqE", lambda q, p: p**2 / 2 + np.abs(p) + q),
    "p times its absolute":     (S, "Sqe", lambda q, p: p**2 + p * np.abs(p) + q),
    "sine of p":                (S, "Sqe", lambda q, p: p**2 / 2 + np.sin(p) + q),
    "sine squared of p":        (S, "SqE", lambda q, p: np.sin(p) ** 2 + q),
    "p times sine of p":        (S, "SqE", lambda q, p: p * np.sin(p) + q),
    "exponential of p":         (S, "Sqe", lambda q, p: np.exp(p) + q),
    "cosh by exponentials":     (S, "SqE", lambda q, p: np.exp(p) + np.exp(-p) + q),
    "cosh":                     (S, "SqE", lambda q, p: np.cosh(p) + q),
    "cube root squared":        (S, "SqE", lambda q, p: p**2 + np.cbrt(p) ** 2 + q),
    "sign times p":             (S, "SqE", lambda q, p: np.sign(p) * p + p**2 + q),
    "a little odd":             (S, "SQe2", lambda q, p: p**2 / 2 + 1e-17 * p + q),
    "hardly odd":               (S, "SQe2", lambda q, p: p**2 / 2 + 1e-300 * p + q),
    "odd by rounding":          (S, "SQe2", lambda q, p: p**2 / 2 + 0.1 * p + 0.2 * p - 0.3 * p + q),
    "odd in one component":     (V2, "SQe2", lambda q, p: p @ p / 2 + p[1]),
    "product of momenta":       (V2, "SQE2", lambda q, p: p @ p / 2 + p[0] * p[1]),
    "squared angular momentum": (V2, "sqE4", lambda q, p: p @ p / 2 + (q[0] * p[1] - q[1] * p[0]) ** 2),
    "square of q times p":      (S, "sq", lambda q, p: p**2 / 2 + q * (p + 1) ** 2),
    "shifted momentum":         (S, "SQe2", lambda q, p: (p - 1) ** 2 / 2 + q**2),
    "shifted cosine":           (S, "Sqe", lambda q, p: np.cos(p - 1) + q**2),
    "floor of p":               (S, "Sqe", lambda q, p: p**2 + np.floor(p) ** 2 + q),
    # explicit time
    "driven":                   (S, "SQE2", lambda q, p, t: p**2 / 2 + q**2 / 2 - q * np.cos(t)),
    "growing mass":             (S, "SQE2", lambda q, p, t: p**2 / (2 * (1 + t * t)) + q**2),
    "both driven":              (S, "Sq", lambda q, p, t: p**2 / 2 * (2 + np.sin(t)) + q**4 * t),
    "time that mixes":          (S, "sQe2", lambda q, p, t: p**2 / 2 + t * p * q),
    "time that is not used":    (S, "SQE2", lambda q, p, t: p**2 / 2 + q**2),
    "time alone":               (S, "SQE2", lambda q, p, t: p**2 / 2 + q**2 + np.sin(t)),
}
# fmt: on


def traced(name):
    shape, expected, energy = ENERGIES[name]
    if shape:
        energy.__annotations__ = {"q": tp.Array[shape], "p": tp.Array[shape]}
    try:
        return tp.hamiltonian(energy), expected
    except tp.TraceError:  # an energy with no p left in it
        q, p = UOp.var("q"), UOp.var("p")
        states = (State("q", q, "position"), State("p", p, "momentum"))
        return System(name, "hamiltonian", states, (), energy=energy(q, p)), expected


class Numbers:
    """A graph of a system as a function on numbers, at random points where it is finite."""

    def __init__(self, system, seed=0):
        self.system, self.r = system, np.random.default_rng(seed)
        self.fixed = {x.name: float(x.default) for x in system.parameters}
        self.size = sum(s.var.size for s in system.states)

    def point(self):
        low = self.r.choice([0.2, -2.0])
        out = {s.name: self.r.uniform(low, 2.0, s.var.size) for s in self.system.states}
        return out | {"t": self.r.uniform(0, 3)}

    def __call__(self, u, at):
        env = {
            s.name: at[s.name].tolist() if s.var.shape else float(at[s.name][0]) for s in self.system.states
        }
        return evaluate([u], {**env, **self.fixed, "t": at["t"]})[0]

    def points(self, u, n=12):
        found = []
        for _ in range(20 * n):
            at = self.point()
            if math.isfinite(self(u, at)):
                found.append(at)
            if len(found) == n:
                break
        assert found, "no point where the energy is defined"
        return found


def close(a, b, scale=1.0):
    return not (math.isfinite(a) and math.isfinite(b)) or abs(a - b) <= 1e-9 * (scale + abs(a) + abs(b))


def check_separable(system, fact):
    q, p = set(system.q), set(system.p)
    assert not fact.T.leaves & q and not fact.V.leaves & p
    f = Numbers(system)
    for at, other in zip(f.points(system.energy), f.points(system.energy)):
        assert close(f(fact.T, at) + f(fact.V, at), f(system.energy, at)), "T + V is not H"
        # H(q', p') - H(q', p) - H(q, p') + H(q, p) = 0 for a sum, and for no other function
        moved = {**at, "q": other["q"]}, {**at, "p": other["p"]}, {**at, "q": other["q"], "p": other["p"]}
        a, b, both = (f(system.energy, m) for m in moved)
        assert close(both + f(system.energy, at), a + b, abs(a) + abs(b)), "q and p are coupled"


def along(at, direction, s):
    return {n: at[n] + s * direction[n] if n in ("q", "p") else at[n] for n in at}


def check_degree(system, fact):
    """The difference of order degree + 1 of a polynomial vanishes on every line."""
    f, n = Numbers(system), fact.degree + 1
    for at, direction in zip(f.points(system.energy, 6), f.points(system.energy, 6)):
        values = [f(system.energy, along(at, direction, s / 4)) for s in range(n + 1)]
        assert all(map(math.isfinite, values)), "a polynomial is defined everywhere"
        total = sum((-1) ** k * math.comb(n, k) * v for k, v in enumerate(values))
        scale = 1 + sum(math.comb(n, k) * abs(v) for k, v in enumerate(values))
        assert abs(total) <= 1e-9 * scale, "a higher degree"


def check_quadratic(system, fact):
    f = Numbers(system)
    n = f.size
    assert len(fact.hessian) == n == len(fact.linear) and all(len(row) == n for row in fact.hessian)
    states = set(system.q) | set(system.p)
    assert not any(u.leaves & states for row in [*fact.hessian, fact.linear, [fact.constant]] for u in row)
    for at in f.points(system.energy, 6):
        z = np.concatenate([at["q"], at["p"]])
        hessian = np.array([[f(u, at) for u in row] for row in fact.hessian])
        linear, constant = np.array([f(u, at) for u in fact.linear]), f(fact.constant, at)
        assert np.isfinite(hessian).all() and np.isfinite(linear).all() and math.isfinite(constant)
        assert np.allclose(hessian, hessian.T, rtol=1e-13, atol=0)
        want = f(system.energy, at)
        assert close(z @ hessian @ z / 2 + linear @ z + constant, want), (
            "Hessian, linear and constant are not H"
        )
        for i, j in itertools.combinations_with_replacement(
            range(n), 2
        ):  # differences of a quadratic are exact

            def at_step(a, b, i=i, j=j, at=at, z=z):
                moved = z.copy()
                moved[i] += a
                moved[j] += b
                return f(system.energy, {**at, "q": moved[: n // 2], "p": moved[n // 2 :]})

            second = at_step(1, 1) - at_step(1, 0) - at_step(0, 1) + at_step(0, 0)
            assert close(second, hessian[i, j], 10 * (1 + abs(want))), f"entry {i}, {j} of the Hessian"


def check_even(system, fact):
    f = Numbers(system)
    compared = 0
    for at in f.points(system.energy):
        mirrored = f(system.energy, {**at, "p": -at["p"]})
        compared += math.isfinite(mirrored)
        assert close(mirrored, f(system.energy, at)), "H(q, -p) is not H(q, p)"
    assert compared, "H(q, -p) is defined nowhere"


def check_time(system, fact, split):
    f = Numbers(system)
    parts = {"T": split.T, "V": split.V} if split else {"H": system.energy}
    moving = set(fact.inside) if fact else set()
    for at in f.points(system.energy, 6):
        for name in set(parts) - moving:
            assert close(f(parts[name], at), f(parts[name], {**at, "t": at["t"] + 1.3})), (
                f"{name} depends on t"
            )


def check_reads(system, fact, split):
    f = Numbers(system)
    parts = {"T": split.T, "V": split.V} if split else {"H": system.energy}
    for at in f.points(system.energy, 4):
        for name, part in parts.items():
            for s in set(at) - set(fact.table[name]):
                assert close(f(part, at), f(part, {**at, s: at[s] * 0.7 + 0.1})), f"{name} reads {s}"


def check_all(system):
    facts = facts_of(system)
    if facts["separable"]:
        check_separable(system, facts["separable"])
    if facts["polynomial"]:
        check_degree(system, facts["polynomial"])
    if facts["quadratic"]:
        check_quadratic(system, facts["quadratic"])
    if facts["even in p"]:
        check_even(system, facts["even in p"])
    check_time(system, facts["explicit time"], facts["separable"])
    check_reads(system, facts["reads"], facts["separable"])
    return facts


def test_the_suite_is_large_and_has_its_share_of_noes():
    assert len(ENERGIES) >= 100
    assert sum("s" in code for _, code, _ in ENERGIES.values()) >= 40


@pytest.mark.parametrize("name", ENERGIES)
def test_every_yes_is_true_and_what_should_be_found_is_found(name):
    system, expected = traced(name)
    facts = check_all(system)
    for letter, fact in (("s", "separable"), ("q", "quadratic"), ("e", "even in p")):
        if letter.upper() in expected:
            assert facts[fact], f"{fact}: {facts[fact].because}"
        if letter in expected:
            assert not facts[fact], f"{fact}: a wrong yes"
    for digit in filter(str.isdigit, expected):
        assert facts["polynomial"].degree == int(digit)


@pytest.mark.parametrize("name", ENERGIES)
def test_every_no_says_why(name):
    for fact in facts_of(traced(name)[0]):
        assert isinstance(fact, Fact) and fact.because and bool(fact) is fact.holds


# --- evidence --------------------------------------------------------------------------------------
def test_a_no_names_the_term_and_its_line():
    @tp.hamiltonian
    def bead(q, p):
        kinetic = p**2 / 2
        coupling = tp.sin(q) * p  # this line
        return kinetic + coupling

    fact = separable(bead)
    assert not fact and fact.because == "sin(q)*p mixes q and p" and "# this line" in fact.site.text
    assert not even_in_p(bead) and not polynomial(bead)
    assert (
        polynomial(bead).because == "sin(q) is not a polynomial of the state"
        and "# this line" in polynomial(bead).site.text
    )


@pytest.mark.parametrize(
    "energy",
    [
        lambda q, p: p**2 / 2 + q**2 + 1e18 * (0.1 * p + 0.2 * p - 0.3 * p),
        lambda q, p: p**2 / 2 + q**2 + 1e17 * (1.0000000000000002 * p - p),
    ],
)
def test_roundings_of_constants_do_not_add_up_to_a_symmetry(energy):
    """What is left of 0.1 + 0.2 - 0.3 in binary is odd in p, and a large factor shows it."""
    assert not even_in_p(tp.hamiltonian(energy))


def test_a_square_of_q_stays_closed():
    """(q1 - q0)**2 expanded is a cancelling sum: only what mixes q and p is opened."""
    system = tp.hamiltonian(lambda q, p: (p * 2 + 0 * p) ** 2 + (q - 1) ** 2)
    fact = separable(system)
    q = UOp.var("q")
    assert fact.V is (q - 1.0) ** 2.0

    def pair(q: tp.Vec[2], p: tp.Vec[2]):
        return (p @ p + 3 * (q[1] - q[0]) ** 2) / 2

    fact = separable(tp.hamiltonian(pair))
    assert "(q[1] - q[0])**2" in str(fact.V)


def test_a_root_of_a_product_stays_closed():
    """sqrt(x*y) is not sqrt(x)*sqrt(y) where both are negative."""
    q, p = UOp.var("q"), UOp.var("p")
    assert open_product.rewrite((q * p) ** 0.5) is None and open_product.rewrite((q * p) ** 1.5) is None
    assert open_product.rewrite((q * p) ** 2.0) is q**2.0 * p**2.0


def test_explicit_time_says_in_which_part():
    def inside(name):
        fact = facts_of(traced(name)[0])["explicit time"]
        return fact.inside if fact else []

    assert (
        inside("driven") == ["V"] and inside("growing mass") == ["T"] and inside("both driven") == ["T", "V"]
    )
    assert (
        inside("time that mixes") == ["H"]
        and inside("time that is not used") == []
        and inside("oscillator") == []
    )


def test_a_hessian_that_depends_on_time_is_not_called_constant():
    assert "constant" in quadratic(traced("oscillator")[0]).because
    fact = quadratic(traced("growing mass")[0])
    assert not fact or "constant" not in fact.because and "t" in fact.because


def test_which_state_each_term_reads():
    @tp.hamiltonian(pairs=[("x", "px"), ("y", "py")])
    def plane(x, px, y, py, t, k=1.0, m=2.0, unused=0.0):
        return px**2 / (2 * m) + py**2 / 2 + k * x**2 + tp.cos(t)

    table = facts_of(plane)["reads"].table
    assert table == {"T": ["px", "py", "m"], "V": ["x", "k", "t"]}


def test_several_pairs_are_one_question():
    @tp.hamiltonian(pairs=[("x", "px"), ("y", "py")])
    def crossed(x, px, y, py):
        return px**2 / 2 + py**2 / 2 + x * py

    facts = facts_of(crossed)
    assert not facts["separable"] and facts["quadratic"] and not facts["even in p"]
    hessian = [[evaluate([u], {})[0] for u in row] for row in facts["quadratic"].hessian]
    assert hessian == [[0, 0, 0, 1], [0, 0, 0, 0], [0, 0, 1, 0], [1, 0, 0, 1]]  # order: x, y, px, py


def test_forces_and_maps_have_the_facts_that_make_sense():
    names = [f.name for f in facts_of(tp.forces(lambda q, t: -q + t))]
    assert names == ["explicit time", "smooth", "reads"]
    assert facts_of(tp.map(lambda x, a=1.0: a * x))["reads"].table == {"x": ["x", "a"]}


def test_a_long_sum_written_as_a_loop_is_no_deeper_than_the_stack():
    def long(q: tp.Vec[46], p: tp.Vec[46]):
        out = p @ p / 2
        for i in range(46):
            for j in range(i):
                out = out + (q[i] - q[j]) ** 2 / 2
        return out

    def nested(q: tp.Vec[2], p: tp.Vec[2]):
        out = p @ p / 2
        for _ in range(800):
            out = -(-out + q[0] * q[1])
        return out

    for function in (long, nested):
        facts = facts_of(tp.hamiltonian(function))
        assert facts["separable"] and facts["polynomial"].degree == 2


def test_a_product_of_many_sums_does_not_explode():
    def many(q: tp.Vec[20], p: tp.Vec[20]):
        out = p @ p / 2
        return out + np.prod(np.stack([q[i] + p[i] for i in range(20)]))

    def hidden(q: tp.Vec[20], p: tp.Vec[20]):
        return (p @ p / 2 + np.prod(np.stack([q[i] + p[i] for i in range(20)])) * np.ones(3)).sum()

    for function in (many, hidden):
        assert not separable(tp.hamiltonian(function))


def test_many_components_are_not_written_out():
    def big(q: tp.Vec[40], p: tp.Vec[40]):
        return p @ p / 2 + q @ q / 2

    facts = facts_of(tp.hamiltonian(big))
    assert facts["separable"] and facts["polynomial"].degree == 2 and not facts["quadratic"]
    assert "too many" in facts["quadratic"].because


def test_a_fact_is_true_or_false_and_has_its_parts():
    yes, no = Fact.yes("works", because="it was tried", part=3), Fact.no("works", because="not tried")
    assert yes and not no and yes.part == 3
    with pytest.raises(AttributeError, match="no part"):
        _ = no.part
    assert "separable" in facts_of(traced("oscillator")[0]) and "magic" not in facts_of(
        traced("oscillator")[0]
    )


# --- random energies -------------------------------------------------------------------------------
@st.composite
def energies(draw):
    """A random expression of q, p and a number, with cancellations, branches and powers of products."""
    q, p = UOp.var("q"), UOp.var("p")
    pool = [q, p, UOp.const(draw(st.sampled_from([2.0, -1.0, 0.5, 1.0])))]
    for _ in range(draw(st.integers(2, 8))):
        a, b = draw(st.sampled_from(pool)), draw(st.sampled_from(pool))
        match draw(st.sampled_from("++--***/^^nfwm")):
            case "+":
                new = a + b
            case "-":
                new = a - b
            case "*":
                new = a * b
            case "/":
                new = a / (1.0 + b * b)
            case "^":
                new = a ** draw(st.sampled_from([2.0, 3.0, 0.5, 0.0, 1.0, -1.0]))
            case "n":
                new = -a
            case "f":
                new = draw(st.sampled_from([UOp.sin, UOp.cos, UOp.exp, UOp.__abs__, UOp.sqrt, UOp.tanh]))(a)
            case "w":
                new = (a < b).where(draw(st.sampled_from(pool)), draw(st.sampled_from(pool)))
            case "m":
                new = a.maximum(b)
        pool.append(new)
    return pool[-1] + draw(st.sampled_from(pool)) * draw(st.sampled_from([1.0, -1.0]))


@pytest.mark.slow("a wrong yes costs physics")
@settings(max_examples=120, deadline=None)
@given(energies(), st.integers(0, 10**6))
def test_no_random_energy_gets_a_wrong_yes(energy, seed):
    q, p = UOp.var("q"), UOp.var("p")
    system = System(
        "random", "hamiltonian", (State("q", q, "position"), State("p", p, "momentum")), (), energy=energy
    )
    f = Numbers(system, seed)
    defined = sum(math.isfinite(f(energy, f.point())) for _ in range(40))
    if defined >= 20 and max((abs(f(energy, f.point())) for _ in range(20)), default=0) < 1e6:
        facts = facts_of(system)
        if facts["even in p"] and defined < 40:  # equal where both are defined: there must be such a place
            return
        check_all(system)
