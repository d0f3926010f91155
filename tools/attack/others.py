"""Programs that are no single energy: forces, rates, maps, sums of systems, operations of the user."""

from __future__ import annotations

import random

from attack.energies import Draft, layout_of, pair, separable, some_terms, trapped
from attack.terms import number, term


def forces(rng: random.Random) -> Draft:
    """Forces, half of them gradients."""
    d = rng.choice([0, 2, 2, 3])
    _, qs, _, shape = pair(d)
    groups = ["smooth" if rng.random() < 0.7 else rng.choice(["kink", "jump"]) for _ in qs]
    own = rng.random() < 0.5  # does each component read its own number alone?
    lines = [f"-{q} + {term(rng, [q] if own else qs, g)}" for q, g in zip(qs, groups)]
    if d and own and rng.random() < 0.4:  # a jump that no derivative shows
        lines[0] += f" + {rng.choice(['0.2*tp.sign({x})', 'tp.where({x} > 0.1, 0.3, -0.1)']).format(x=qs[1])}"
        groups.append("jump")
    mass = rng.random() < 0.3
    notes = "q" if d == 0 else f"q: tp.Vec[{d}]"
    return {
        "signature": f"@tp.forces\ndef system({notes}{', mass=1.3' if mass else ''}):",
        "terms": tuple(lines),
        "form": "list" if d == 0 else "stack",
        "layout": layout_of(shape),
        "groups": tuple(groups),
        "params": {"mass": 1.3} if mass else {},
    }


def ode(rng: random.Random) -> Draft:
    n = rng.choice([1, 2, 3])
    names = ["x", "y", "z"][:n]
    groups = [rng.choices(["smooth", "kink"], [0.8, 0.2])[0] for _ in names]
    clock = rng.random() < 0.2
    lines = [f"-0.5*{x} + {term(rng, names, g)}" for x, g in zip(names, groups)]
    if clock:
        lines[0] += " + 0.3*tp.sin(t)"
    return {
        "signature": f"@tp.ode\ndef system({', '.join(names)}{', t' if clock else ''}):",
        "terms": tuple(lines),
        "form": "tuple",
        "layout": tuple((x, (), 1, "field") for x in names),
        "groups": (*groups, *(["timed"] if clock else [])),
    }


def map_(rng: random.Random) -> Draft:
    n = rng.choice([1, 2, 3])
    names = ["x", "y", "z"][:n]
    groups = [rng.choice(["smooth", "smooth", "kink", "jump"]) for _ in names]
    lines = [f"0.5*{rng.choice(names)} + {term(rng, names, g)}" for g in groups]
    if rng.random() < 0.3:
        lines = [
            rng.choice(
                [
                    "({a} - ({a} + {b})) + {b}",
                    "({a} + {b}) - {a}",
                    "({a} - {b}) + ({b} - {c})",
                    "({a}/{b})*{b}",
                ]
            ).format(a=rng.choice(names), b=rng.choice(names), c=rng.choice(names))
            for _ in names
        ]
        groups = ["exact"]
    return {
        "signature": f"@tp.map\ndef system({', '.join(names)}):",
        "terms": tuple(lines),
        "form": "tuple",
        "layout": tuple((x, (), 1, "field") for x in names),
        "groups": tuple(groups),
    }


def summed(rng: random.Random) -> Draft:
    """Sums of systems: a Hamiltonian and potentials, or another Hamiltonian with the same T; fast and slow."""
    d = rng.choice([0, 2, 2])
    notes, qs, ps, shape = pair(d)
    of_q = "q" if d == 0 else f"q: tp.Vec[{d}]"
    base = [f"{p}**2/2" for p in ps]
    first, groups = some_terms(rng, qs, 2)
    tail, names = "", []
    for i in range(rng.randint(1, 2)):
        more, g = some_terms(rng, qs, 2)
        groups += g
        whole = rng.random() < 0.35
        shown = [*base, *more] if whole else more
        tail += (
            f"\n\n@tp.{'hamiltonian' if whole else 'potential'}\ndef part{i}({notes if whole else of_q}):\n"
        )
        tail += f"    return {' + '.join(shown)}\n"
        names.append(f"part{i}")
    paced = rng.random() < 0.25 and "hamiltonian" not in tail
    right = " + ".join(f"tp.slow({n})" if paced else n for n in names)
    tail += f"\nsystem = {'tp.fast(system)' if paced else 'system'} + {right}\n"
    return {
        "signature": f"@tp.hamiltonian\ndef system({notes}):",
        "terms": (*base, trapped(qs), *first),
        "tail": tail,
        "layout": layout_of(shape),
        "groups": (*groups, *(["paced"] if paced else [])),
    }


def operations(rng: random.Random) -> Draft:
    """User operations with their derivatives, some of which are wrong."""
    draft = separable(rng, d=rng.choice([0, 2]))
    q = "q" if "q, p" in str(draft["signature"]) else "q[0]"
    name = f"own{rng.randrange(10**9)}"
    good = (
        ("lambda x: tp.log1p(tp.exp(x))", "lambda x: (1.0/(1.0 + tp.exp(-x)),)"),
        ("lambda x: tp.sin(x)*x", "lambda x: (tp.cos(x)*x + tp.sin(x),)"),
        ("lambda x: x/tp.sqrt(1.0 + x*x)", "lambda x: ((1.0 + x*x)**-1.5,)"),
        ("lambda x: tp.abs(x)*x", "lambda x: (2.0*tp.abs(x),)"),
    )
    bad = (
        ("lambda x: tp.sin(x)*x", "lambda x: (tp.cos(x)*x,)"),
        ("lambda x: x**3", "lambda x: (2.9*x**2,)"),
        ("lambda x: tp.where(x > 0.1, 1.0, 0.0)", "lambda x: (0.0*x,)"),
    )
    wrong = rng.random() < 0.4
    definition, derivative = rng.choice(bad if wrong else good)
    return {
        **draft,
        "head": f'{name} = tp.op("{name}", {definition}, {derivative})\n\n\n',
        "terms": (*draft["terms"], f"{number(rng)}*{name}({q})"),  # type: ignore[misc]
        "groups": (*draft["groups"], "wrong operation" if wrong else "operation"),  # type: ignore[misc]
    }
