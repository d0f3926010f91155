"""Wrong calls of gradients, fits, exponents, walls, events and constraints."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

import tinyphysics as tp
from pins import systems

ORBIT = {"q": [1.0, 0.0], "p": [0.0, 1.25]}
FALL = {"q": [0.0, 1.0], "p": [0.0, 0.0]}


@tp.hamiltonian
def ball(q: tp.Vec[2], p: tp.Vec[2]) -> Any:
    return p @ p / 2 + 9.81 * q[1]


@tp.constraint
def rod(q: tp.Vec[2], l: float = 1.0) -> Any:  # noqa: E741
    return q @ q - l * l


@lru_cache(maxsize=8)
def made(name: str) -> Any:
    return {
        "orbit": lambda: tp.compile(systems.kepler, dt=0.125, backend="numpy"),
        "rod": lambda: tp.compile(ball + rod, dt=0.125, backend="numpy"),
        "spring": lambda: tp.compile(tp.physics.zoo.oscillator, dt=0.125),
        "floor": lambda: tp.compile(ball + tp.wall(lambda q: q[1], name="floor"), dt=0.125, backend="numpy"),
    }[name]()


def first(out: Any) -> Any:
    return out.final.q[0]


def grad(loss: Any = first, **given: Any) -> Any:
    return made("orbit").grad(loss, **{**ORBIT, "steps": 2, **given})


def lyapunov(**given: Any) -> Any:
    return made("orbit").lyapunov(**{**ORBIT, "steps": 64, **given})


def fit(**given: Any) -> Any:
    t = np.arange(1, 4) * 0.125
    start = {"data": {"q": np.ones((3, 2))}, "t": t, "start": ORBIT}
    return tp.fit(made("orbit"), **{**start, **given})


def with_event(then: Any, when: Any = lambda q: q[1]) -> Any:
    return tp.compile(ball + tp.event(when=when, then=then), dt=0.125)


# fmt: off
CALLS: dict[str, Callable[[], Any]] = {
    # --- losses
    "a loss that is a number": lambda: grad(lambda out: 3.0),
    "a loss that is text": lambda: grad("q"),
    "a loss that returns text": lambda: grad(lambda out: "a"),
    "a loss that returns a dict": lambda: grad(lambda out: {"a": first(out)}),
    "a loss that returns two numbers": lambda: grad(lambda out: (first(out), 1.0)),
    "a loss that makes a float": lambda: grad(lambda out: float(first(out))),
    "a loss of the energy": lambda: grad(lambda out: out.energy[-1]),
    "a loss of the times alone": lambda: grad(lambda out: out.t.sum()),
    "a loss without a derivative": lambda: grad(lambda out: np.sqrt(first(out) * 0.0)),
    # --- gradients
    "wrt of nothing": lambda: grad(wrt=[]),
    "wrt of what is unknown": lambda: grad(wrt=["k"]),
    "wrt of a part": lambda: grad(wrt="q[0]"),
    "wrt of a number": lambda: grad(wrt=3),
    "argnums": lambda: grad(argnums=0),
    "a past that is unknown": lambda: grad(past="memory"),
    "the way back of a rod": lambda: made("rod").grad(first, q=[1.0, 0.0], p=[0.0, 0.0], steps=2, past="reverse"),
    "the adjoint of a rod, back": lambda: made("rod").adjoint(past="reverse"),
    "no snapshots": lambda: grad(snapshots=0),
    "no memory": lambda: grad(memory=-1),
    "a gradient without a state": lambda: made("orbit").grad(first, steps=2),
    "a gradient that is saved": lambda: grad(save="x.zarr"),
    "cotangents of nothing": lambda: made("orbit").vjp({}, **ORBIT, steps=2),
    "cotangents of what is unknown": lambda: made("orbit").vjp({"z": 1.0}, **ORBIT, steps=2),
    "cotangents of another shape": lambda: made("orbit").vjp({"q": [1.0]}, **ORBIT, steps=2),
    "tangents that are a number": lambda: made("orbit").jvp(3, **ORBIT, steps=2),
    "tangents of what is unknown": lambda: made("orbit").jvp({"z": 1.0}, **ORBIT, steps=2),
    "a tolerance below zero": lambda: made("orbit").gradcheck(first, **ORBIT, steps=2, tolerance=-1.0),
    "a check with eps": lambda: made("orbit").gradcheck(first, **ORBIT, steps=2, eps=1e-6),
    "a sensitivity of what is unknown": lambda: made("orbit").sensitivity(of="z", to="q[0]", **ORBIT, steps=2),
    "a sensitivity to an array": lambda: made("orbit").sensitivity(of="q[0]", to="q", **ORBIT, steps=2),
    # --- fits
    "data of nothing": lambda: fit(data={}),
    "data of what is unknown": lambda: fit(data={"z": np.ones((3, 2))}),
    "data that are masked": lambda: fit(data={"q": np.ma.array(np.ones((3, 2)), mask=np.eye(3, 2) > 0)}),
    "data that are complex": lambda: fit(data={"q": np.ones((3, 2)) * 1j}),
    "data with too few rows": lambda: fit(data={"q": np.ones((2, 2))}),
    "times before the start": lambda: fit(t=[-1.0, 1.0, 2.0]),
    "sigma of zero": lambda: fit(sigma=0.0),
    "a start without momenta": lambda: fit(start={"q": [1.0, 0.0]}),
    "bounds the wrong way round": lambda: fit(wrt=["q"], bounds={"q": (2.0, 0.0)}),
    "a fit of a system": lambda: tp.fit(systems.kepler, data={}, t=[1.0], start=ORBIT),
    "a fit with maxiter": lambda: fit(maxiter=3),
    # --- exponents and charges
    "exponents by count": lambda: lyapunov(count=2),
    "exponents of frames": lambda: lyapunov(save_every=2),
    "exponents by transient": lambda: lyapunov(transient=2.0),
    "no exponents": lambda: lyapunov(spectrum=0),
    "too few steps for exponents": lambda: lyapunov(steps=10),
    "exponents of the module": lambda: tp.chaos.lyapunov,
    "charges that are called": lambda: made("orbit").conserved(3),
    "charges by name": lambda: made("orbit").conserved["energy"],
    "a certificate that is called": lambda: made("orbit").certificate(),
    # --- walls, events, constraints
    "a wall alone": lambda: tp.compile(tp.wall(lambda q: q[1], name="floor"), dt=0.125),
    "a wall and a wall": lambda: tp.wall(lambda q: q[1], name="floor") + tp.wall(lambda q: 1 - q[1], name="lid"),
    "a wall and a number": lambda: tp.wall(lambda q: q[1], name="floor") + 3,
    "a number and a wall": lambda: 3 + tp.wall(lambda q: q[1], name="floor"),
    "a wall without a name": lambda: tp.wall(lambda q: q[1], name=""),
    "a wall of text": lambda: tp.wall(lambda q: q[1], restitution="hard"),
    "a wall that gives speed": lambda: tp.wall(lambda q: q[1], restitution=2.0),
    "a wall that is a number": lambda: tp.wall(3),
    "a wall that is constant": lambda: tp.compile(ball + tp.wall(lambda q: 1.0), dt=0.125),
    "a start behind a wall": lambda: made("floor").evolve(q=[0.0, -1.0], p=[0.0, 0.0], steps=1),
    "an event that changes nothing": lambda: with_event(lambda p: {}),
    "an event that returns a condition": lambda: with_event(lambda p: {"p": p > 0}),
    "an event that jumps": lambda: with_event(lambda p: {"p": -p}, when=lambda q: tp.sign(q[1] - 0.5)),
    "an event at an angle": lambda: with_event(None, when=lambda q: tp.arctan2(q[1], q[0])),
    "an event that is a square": lambda: with_event(None, when=lambda q: q[1] ** 2),
    "a wall that jumps": lambda: tp.compile(ball + tp.wall(lambda q: tp.where(q[1] > 0.5, 1.0, -1.0)), dt=0.125),
    "walls and negative dt": lambda: tp.compile(ball + tp.wall(lambda q: q[1], name="floor")).evolve(
        **FALL, steps=2, dt=-0.125
    ),
    "contacts and negative dt": lambda: tp.compile(ball + tp.contact(lambda q: q[1]), dt=-0.125).evolve(**FALL, steps=2),
    "contacts and minimise": lambda: tp.compile(ball + tp.contact(lambda q: q[1]), dt=0.125).minimise(**FALL),
    "a contact of friction nan": lambda: tp.contact(lambda q: q[1], slip=lambda v: v[0], friction=np.nan),
    "statistics of text": lambda: tp.statistics("x"),
    "snapshots below one of a jump": lambda: made("spring").grad(
        lambda out: out.final.q, q=1.0, p=0.0, steps=5, snapshots=-1
    ),
    "an event that returns a list": lambda: with_event(lambda p: [-p]),
    "an event of what is unknown": lambda: with_event(lambda p: {"z": p}),
    "an event in no direction": lambda: tp.event(when=lambda q: q[1], then=lambda p: {"p": -p}, direction="up"),
    "a constraint that is a number": lambda: tp.constraint(3),
    "forces that are a number": lambda: tp.forces(3),
    "a constraint without a position": lambda: tp.constraint(lambda: 1.0),
    "a start off a constraint": lambda: made("rod").evolve(q=[2.0, 0.0], p=[0.0, 0.0], steps=1),
    "friction of the module": lambda: tp.friction,
}
# fmt: on
