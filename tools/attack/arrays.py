"""Programs on arrays: chains with neighbours, and particles with pairs."""

from __future__ import annotations

import random

from attack.terms import number

CHAINS = (
    "{c}*tp.sum((tp.roll(q, 1) - q)**2)/2",
    "{c}*tp.sum(tp.diff(q)**2)/2",
    "{c}*tp.sum(tp.diff(q)**4)/4",
    "tp.sum(q**4)/4",
    "{c}*tp.sum(tp.cos(q))",
    "{c}*tp.sum(q[1:]*q[:-1])",
    "{c}*tp.mean(q**4)",
    "{c}*tp.sum(tp.exp(-q**2))",
    "{c}*tp.norm(q)",
    "{c}*tp.prod(q)",
    "{c}*tp.sum(tp.outer(q, tp.sin(q)))",
    '{c}*tp.einsum("i,i->", q, q*q)',
    "{c}*tp.sum(tp.take(q, [0, 2])**2)",
    "{c}*tp.sum(tp.concatenate([q, q[:1]])**2)",
    "{c}*tp.sum(tp.where(q > 0.2, (q - 0.2)**2, 0.0))",
    "{c}*tp.sum(tp.maximum(q, 0.0))",
    "{c}*tp.sum(tp.tanh(q - tp.roll(q, -1)))",
    "{c}*tp.sum(tp.stack([q[0]*q[1], q[1]*q[2]]))",
    "{c}*(q @ q)**2/4",
    "{c}*tp.sum(tp.abs(q))",
)
PAIRS = (
    "{c}*tp.pair_sum(1.0/tp.sqrt(r2 + 0.3))",
    "{c}*tp.pair_sum(tp.exp(-r2))",
    "{c}*tp.pair_sum(r2**2)",
    "{c}*tp.pair_sum(tp.where(r2 < 1.0, (1.0 - r2)**3, 0.0))",
    "{c}*tp.pair_sum(tp.log(r2 + 0.5))",
    "tp.sum(q**2)/2",
    "{c}*tp.sum(q[:, 0]**2*q[:, 1])",
    "{c}*tp.sum(tp.sin(q))",
    "{c}*tp.sum(tp.norm(q, axis=1))",
    "{c}*tp.sum(tp.reshape(q, -1)[1:3])",
    "{c}*tp.sum(tp.transpose(q)**4)",
)

MAPS = (
    "tp.where(np.arange({n}) % 2 == 0, -s, s)",
    "np.where(mask, -s, s)",
    "tp.roll(s*s, 1)",
    "s + np.arange({n})",
    "tp.where(mask, s*s, 0.5)",
    "tp.maximum(s, tp.roll(s, 2))",
    "(s - (s + tp.roll(s, 1))) + tp.roll(s, 1)",
    "s[::-1] + np.arange({n}, dtype=np.int32)",
    "tp.where(s > tp.roll(s, 1), s, np.float32(0.25))",
    "s*weights",
)


def array_map(rng: random.Random) -> dict[str, object]:
    """Maps of arrays, with constants of several types."""
    n = rng.choice([5, 8, 33, 40])
    head = f"mask = np.arange({n}) % 3 == 0\nweights = np.arange({n}, dtype=np.float32)/4\n\n\n"
    return {
        "head": head,
        "signature": f"@tp.map\ndef system(s: tp.Vec[{n}]):",
        "terms": (rng.choice(MAPS).format(n=n),),
        "form": "list",
        "layout": (("s", (n,), n, "field"),),
        "groups": ("exact",),
    }


def rough(terms: list[str]) -> tuple[str, ...]:
    return (
        ("kink",) if any(w in x for x in terms for w in ("where", "maximum", "abs", "norm")) else ("smooth",)
    )


def chain(rng: random.Random) -> dict[str, object]:
    n = rng.choice([3, 4, 5, 5, 6, 36])
    terms = [rng.choice(CHAINS).format(c=number(rng)) for _ in range(rng.randint(1, 3))]
    return {
        "signature": f"@tp.hamiltonian\ndef system(q: tp.Vec[{n}], p: tp.Vec[{n}]):",
        "terms": (
            rng.choice(["p @ p/2", "tp.sum(p**2)/2", "tp.sum(tp.sqrt(1.0 + p**2))"]),
            "q @ q/2",
            *terms,
        ),
        "layout": (("q", (n,), n, "position"), ("p", (n,), n, "momentum")),
        "groups": rough(terms),
    }


def particles(rng: random.Random) -> dict[str, object]:
    n, d = rng.choice([2, 3, 4]), rng.choice([2, 3])
    terms = [rng.choice(PAIRS).format(c=number(rng)) for _ in range(rng.randint(1, 3))]
    first = "    r2 = ((q[:, None] - q[None, :])**2).sum(-1)"
    return {
        "signature": f"@tp.hamiltonian\ndef system(q: tp.Array[{n}, {d}], p: tp.Array[{n}, {d}]):\n{first}",
        "terms": ("(p**2).sum()/2", *terms),
        "layout": (("q", (n, d), n * d, "position"), ("p", (n, d), n * d, "momentum")),
        "groups": rough(terms),
    }
