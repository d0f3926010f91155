"""Programs that are given by an energy or a Lagrangian: those that split, those that mix q and p, those of degree 2."""

from __future__ import annotations

import random

from attack.terms import kinetic, number, term

Draft = dict[str, object]


def group_of(rng: random.Random) -> str:
    """Most terms are smooth."""
    return rng.choices(["smooth", "kink", "jump", "wild"], [0.80, 0.09, 0.07, 0.04])[0]


def some_terms(rng: random.Random, names: list[str], most: int = 4) -> tuple[list[str], list[str]]:
    """(terms, their groups): half of the cases are smooth altogether."""
    smooth = rng.random() < 0.55
    groups = ["smooth" if smooth else group_of(rng) for _ in range(rng.randint(1, most))]
    return [term(rng, names, g) for g in groups], groups


def pair(d: int) -> tuple[str, list[str], list[str], tuple[int, ...]]:
    """(annotations, names of positions, of momenta, shape) of d numbers each; scalars for none."""
    if d == 0:
        return "q, p", ["q"], ["p"], ()
    notes = f"q: tp.Vec[{d}], p: tp.Vec[{d}]"
    return notes, [f"q[{i}]" for i in range(d)], [f"p[{i}]" for i in range(d)], (d,)


def layout_of(shape: tuple[int, ...]) -> tuple[tuple[str, tuple[int, ...], int, str], ...]:
    n = 1
    for s in shape:
        n *= s
    return (("q", shape, n, "position"), ("p", shape, n, "momentum"))


def trapped(names: list[str]) -> str:
    return " + ".join(f"{x}**2/2" for x in names)


def separable(rng: random.Random, timed: bool = False, d: int | None = None) -> Draft:
    d = rng.choice([0, 1, 2, 2, 3]) if d is None else d
    notes, qs, ps, shape = pair(d)
    terms, groups = some_terms(rng, [*qs, "k*" + qs[0]])
    if timed:
        terms.append(term(rng, [*qs], "timed"))
        groups.append("timed")
        if rng.random() < 0.3:
            terms.append(term(rng, ps, "timed"))
    if rng.random() < 0.7:
        terms.append(trapped(qs))
    clock = ", t" if timed else ""
    return {
        "signature": f"@tp.hamiltonian\ndef system({notes}{clock}, k=0.8):",
        "terms": (*kinetic(rng, ps), *terms),
        "layout": layout_of(shape),
        "groups": tuple(groups),
        "params": {"k": 0.8},
    }


def timed(rng: random.Random) -> Draft:
    return separable(rng, timed=True)


def mixed(rng: random.Random) -> Draft:
    """Energies that do not split."""
    d = rng.choice([0, 1, 2, 2])
    notes, qs, ps, shape = pair(d)
    terms, groups = some_terms(rng, [*qs, *ps], 3)
    cross = rng.choice(
        [
            "{c}*{q}*{p}",
            "(1.0 + {q}**2)*{p}**2/2",
            "({p} - {c}*{q})**2/2",
            "{c}*{q}**2*{p}",
            "tp.sin({q})*{p}",
        ]
    ).format(c=number(rng), q=rng.choice(qs), p=rng.choice(ps))
    base = [f"{p}**2/2" for p in ps] if rng.random() < 0.8 else kinetic(rng, ps)
    return {
        "signature": f"@tp.hamiltonian\ndef system({notes}):",
        "terms": (*base, trapped(qs), cross, *terms),
        "layout": layout_of(shape),
        "groups": tuple(groups),
    }


def quadratic(rng: random.Random) -> Draft:
    """Energies of degree 2, some of them driven."""
    d = rng.choice([0, 1, 2, 3])
    notes, qs, ps, shape = pair(d)
    names = [*qs, *ps] if rng.random() < 0.4 else qs
    terms = [f"{number(rng)}*{rng.choice(names)}*{rng.choice(names)}" for _ in range(rng.randint(1, 3))]
    clock = rng.random() < 0.35
    if clock:
        terms.append(f"0.4*tp.cos({number(rng, 0.5, 2.0)}*t)*{qs[0]}" + rng.choice(["", "**2"]))
    return {
        "signature": f"@tp.hamiltonian\ndef system({notes}{', t' if clock else ''}):",
        "terms": (*(f"{p}**2/2" for p in ps), trapped(qs), *terms),
        "layout": layout_of(shape),
        "groups": ("timed",) if clock else (),
    }


def lagrangian(rng: random.Random) -> Draft:
    d = rng.choice([0, 1, 2])
    _, qs, _, shape = pair(d)
    vs = ["v"] if d == 0 else [f"v[{i}]" for i in range(d)]
    notes = "q, v" if d == 0 else f"q: tp.Vec[{d}], v: tp.Vec[{d}]"
    terms, groups = some_terms(rng, qs, 3)
    clock = rng.random() < 0.2
    extra = rng.choice(
        ["0.3*{q}**2*{v}**2", "{c}*{q}*{v}", "0.2*tp.cos({q})*{v}**2", "{c}*tp.sin({q})*{v}", "0.0*{v}"]
    ).format(c=number(rng), q=rng.choice(qs), v=rng.choice(vs))
    if clock:
        terms.append(term(rng, qs, "timed"))
    return {
        "signature": f"@tp.lagrangian\ndef system({notes}{', t' if clock else ''}):",
        "terms": (*(f"{v}**2/2" for v in vs), extra, f"-({trapped(qs)})", *terms),
        "layout": layout_of(shape),
        "groups": (*groups, *(["timed"] if clock else [])),
    }


def several(rng: random.Random) -> Draft:
    """Several pairs, with names of their own."""
    terms, groups = some_terms(rng, ["x", "y"], 3)
    return {
        "signature": '@tp.hamiltonian(pairs=[("x", "px"), ("y", "py")])\ndef system(x, px, y, py):',
        "terms": (*kinetic(rng, ["px", "py"]), trapped(["x", "y"]), *terms),
        "layout": (
            ("x", (), 1, "position"),
            ("px", (), 1, "momentum"),
            ("y", (), 1, "position"),
            ("py", (), 1, "momentum"),
        ),
        "groups": tuple(groups),
    }


def orbits(rng: random.Random) -> Draft:
    """A Kepler problem with something added."""
    terms, groups = some_terms(rng, ["q[0]", "q[1]"], 2)
    return {
        "signature": "@tp.hamiltonian\ndef system(q: tp.Vec[2], p: tp.Vec[2]):",
        "terms": ("p @ p/2", "-1.0/tp.norm(q)", *(f"0.01*{x}" for x in terms[: rng.randint(0, 2)])),
        "layout": layout_of((2,)),
        "groups": tuple(groups),
    }
