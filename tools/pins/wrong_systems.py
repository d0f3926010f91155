"""Wrong systems: functions that have no meaning as physics, and what is said about them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import tinyphysics as tp
from pins import arrays, systems

zoo = tp.physics.zoo


def shaped(f: Callable[..., Any], **shapes: Any) -> Callable[..., Any]:
    """A function with the shapes of its arguments."""
    f.__annotations__ = shapes
    return f


PLANE = {"q": tp.Vec[2], "p": tp.Vec[2]}
LETTER = {"q": tp.Vec["n"], "p": tp.Vec["n"]}
H = tp.hamiltonian
FREE = H(shaped(lambda q, p: p @ p / 2, q=tp.Vec[2], p=tp.Vec[2]))
SPIN = H(bracket="spin")(shaped(lambda S: -S[2], S=tp.Vec[3]))
ROD = tp.constraint(shaped(lambda q: q @ q - 1.0, q=tp.Vec[2]))


def branching(q, p):
    if q < 0:
        return p**2 / 2 + 100 * q**2
    return p**2 / 2


def changing(q, p):
    q[0] = 1.0
    return p @ p / 2


def looping(q, p):
    return sum(x for x in q) + p**2


def nothing(x):
    x + 1


def named(x, y):
    return {"x": y, "y": x}


# fmt: off
CALLS: dict[str, Callable[[], Any]] = {
    # --- truth, numbers, assignment
    "if on a symbol": lambda: H(branching),
    "and of symbols": lambda: H(lambda q, p: p**2 / 2 + (q > 0 and q < 1)),
    "min of symbols": lambda: H(lambda q, p: p**2 / 2 + min(q, 1.0)),
    "chained comparison": lambda: H(lambda q, p: p**2 / 2 + tp.where(0 < q < 1, q, 0.0)),
    "math.sin of a symbol": lambda: H(lambda q, p: p**2 / 2 + math.sin(q)),
    "float of a symbol": lambda: H(lambda q, p: p**2 / 2 + float(q)),
    "int of a symbol": lambda: H(lambda q, p: p**2 / 2 + int(q)),
    "assignment to an element": lambda: H(shaped(changing, **PLANE)),
    "iteration over a scalar": lambda: H(looping),
    "index of a scalar": lambda: H(lambda q, p: p**2 / 2 + q[0]),
    "index out of range": lambda: H(shaped(lambda q, p: p @ p / 2 + q[2], **PLANE)),
    "a string in an energy": lambda: H(lambda q, p: p**2 / 2 + "q"),
    "None in an energy": lambda: H(lambda q, p: p**2 / 2 + None),
    "a list in an energy": lambda: H(lambda q, p: p**2 / 2 + [1.0, 2.0]),
    "a function without a rule": lambda: H(lambda q, p: p**2 / 2 + np.sinc(q)),
    "np.fft of a symbol": lambda: H(shaped(lambda q, p: p @ p / 2 + np.fft.fft(q).sum(), **PLANE)),
    # --- what is returned
    "an energy that is no scalar": lambda: H(shaped(lambda q, p: p**2 / 2 + q**2, **PLANE)),
    "an energy that is nothing": lambda: H(lambda q, p: None),
    "an energy that is text": lambda: H(lambda q, p: "energy"),
    "an energy that is two": lambda: H(lambda q, p: (p**2 / 2, q**2)),
    "an energy without p": lambda: H(lambda q, p: q**2),
    "an energy without arguments": lambda: H(lambda: 1.0),
    "an energy with one argument": lambda: H(lambda q: q**2),
    "states of two shapes": lambda: H(shaped(lambda q, p: p @ p / 2, q=tp.Vec[2], p=tp.Vec[3])),
    "shapes that do not fit": lambda: H(shaped(lambda q, p, w: p @ p / 2 + w @ q, **PLANE, w=tp.Vec[3])),
    "a matrix product that does not fit": lambda: H(shaped(lambda q, p, A: p @ p / 2 + q @ A @ q, **PLANE, A=tp.Array[3, 3])),
    "batches of matrices that do not fit": lambda: H(shaped(lambda q, p, A, B: p @ p / 2 + (A @ B).sum() + q @ q, **PLANE, A=tp.Array[2, 3, 3], B=tp.Array[4, 3, 3])),
    "an einsum that does not fit": lambda: H(shaped(lambda q, p, A: p @ p / 2 + np.einsum("ij,j->i", A, q).sum(), **PLANE, A=tp.Array[3, 3])),
    "reshape to another size": lambda: H(shaped(lambda q, p: p @ p / 2 + q.reshape(3).sum(), **PLANE)),
    "an axis that is not there": lambda: H(shaped(lambda q, p: p @ p / 2 + q.sum(2), **PLANE)),
    "random numbers in an energy": lambda: H(lambda q, p: p**2 / 2 + tp.random.normal() * q),
    "an annotation that is no shape": lambda: H(shaped(lambda q, p: p**2 / 2, q="three", p="three")),
    "a shape of -1": lambda: tp.Vec[-1],
    "a shape of 1.5": lambda: tp.Vec[1.5],
    "no function": lambda: H(3),
    "keywords": lambda: H(lambda q, p, **rest: p**2 / 2 + q**2),
    "stars": lambda: H(lambda *both: both[1] ** 2 / 2 + both[0] ** 2),
    "a default that is text": lambda: H(lambda q, p, k="stiff": p**2 / 2 + q**2),
    "pairs that are not there": lambda: tp.hamiltonian(pairs=[("x", "y")])(lambda q, p: p**2 / 2 + q**2),
    # --- forces, maps, equations, Lagrangians, potentials
    "a force that takes p": lambda: tp.forces(lambda q, p: -q - 0.1 * p),
    "one force for two numbers": lambda: tp.forces(shaped(lambda q: q[0], q=tp.Vec[2])),
    "forces of another shape": lambda: tp.forces(shaped(lambda q: tp.stack([q[0], q[1], q[0]]), q=tp.Vec[2])),
    "a force that is nothing": lambda: tp.forces(lambda q: None),
    "a map that returns nothing": lambda: tp.compile(tp.map(nothing)),
    "a map that returns a dict": lambda: tp.compile(tp.map(named)),
    "a map that returns too much": lambda: tp.compile(tp.map(lambda x: (x, x, x))),
    "a map of another shape": lambda: tp.compile(tp.map(shaped(lambda x: x[0], x=tp.Vec[2]))),
    "an equation that returns nothing": lambda: tp.ode(lambda x: None),
    "an equation of another shape": lambda: tp.ode(shaped(lambda x: tp.stack([x[0], x[1], x[0]]), x=tp.Vec[2])),
    "a Lagrangian that is not quadratic": lambda: tp.lagrangian(lambda q, v: -tp.sqrt(1 - v**2) - q**2 / 2),
    "a Lagrangian without v": lambda: tp.lagrangian(lambda q, v: q**2),
    "a Lagrangian of degree 1": lambda: tp.lagrangian(lambda q, v: q * v),
    # --- sums of systems
    "a sum of two shapes": lambda: tp.compile(zoo.pendulum + zoo.kepler, dt=0.1),
    "a sum with a map": lambda: tp.compile(zoo.pendulum + systems.standard, dt=0.1),
    "a potential alone": lambda: tp.compile(arrays.trap, dt=0.1),
    "a wall of a wrong restitution": lambda: tp.wall(lambda q: q[1], restitution=1.5),
    "a wall that no state can reach": lambda: tp.compile(FREE + tp.wall(lambda q: 1 + q @ q, name="far"), dt=0.1),
    "a wall of momenta": lambda: tp.compile(FREE + tp.wall(lambda p: p[0], name="fast"), dt=0.1),
    "a start behind a wall": lambda: tp.compile(FREE + tp.wall(lambda q: q[0], name="left"), dt=0.1).evolve(
        q=[-1.0, 0.0], p=[0.0, 0.0], steps=1
    ),
    "an event that returns another name": lambda: tp.compile(
        FREE + tp.event(lambda q: q[0], lambda p: {"x": p}, name="kick"), dt=0.1
    ),
    "an event that returns another shape": lambda: tp.compile(
        FREE + tp.event(lambda q: q[0], lambda p: {"p": [p[0], p[1], p[0]]}, name="kick"), dt=0.1
    ),
    "a wall and a method of its own steps": lambda: tp.compile(
        FREE + tp.wall(lambda q: q[0], name="left"), method="taylor"
    ),
    "a constraint alone": lambda: tp.compile(ROD, dt=0.1),
    "a constraint of no position": lambda: tp.constraint(lambda q, k: k - 1.0),
    "a constraint that depends on t": lambda: tp.constraint(lambda q, t: q - t),
    "a constraint of another name": lambda: tp.compile(FREE + tp.constraint(lambda x: x - 1.0), dt=0.1),
    "one constraint twice": lambda: tp.compile(FREE + ROD + ROD, dt=0.1),
    "a constraint and a relativistic energy": lambda: tp.compile(FREE + ROD, dt=0.1, kinetics="relativistic"),
    "a constraint and a plain method": lambda: tp.compile(FREE + ROD, dt=0.1, method="leapfrog"),
    "friction of spins": lambda: tp.compile(SPIN, dt=0.1, friction=0.1),
    "a constraint and friction": lambda: tp.compile(FREE + ROD, dt=0.1, friction=0.1),
    "a start off a constraint": lambda: tp.compile(FREE + ROD, dt=0.1).evolve(q=[1.0, 0.1], p=[0.0, 0.0], steps=1),
    "momenta across a constraint": lambda: tp.compile(FREE + ROD, dt=0.1).evolve(q=[1.0, 0.0], p=[0.5, 0.0], steps=1),
    "consistent without constraints": lambda: tp.compile(FREE, dt=0.1).consistent(q=[1.0, 0.0], p=[0.0, 0.0]),
    "rattle without constraints": lambda: tp.compile(FREE, dt=0.1, method="rattle"),
    "rigid bonds of an energy": lambda: tp.rigid_bonds(FREE),
    "rigid bonds that are no squares": lambda: tp.rigid_bonds(tp.potential(lambda q: q**4)),
    "rigid bonds at no temperature": lambda: tp.rigid_bonds(tp.potential(lambda q: q**2), fixman=0.0),
    "fast of a number": lambda: tp.fast(3),
    "slow with rank 0": lambda: tp.compile(tp.fast(arrays.spring) + tp.slow(arrays.weak, rank=0), dt=0.1),
    "split of nothing": lambda: tp.split(),
    "paces without a slow part": lambda: tp.compile(tp.fast(arrays.spring) + arrays.weak, dt=0.1),
    # --- neighbours
    "a cutoff without pair_sum": lambda: tp.compile(H(shaped(lambda q, p: (p**2).sum() / 2 + tp.pair_distance2(q, cutoff=1.0).sum(),
                                                            q=tp.Array["n", 3], p=tp.Array["n", 3])), dt=0.1, sizes={"n": 4}),
    "pairs of a vector": lambda: tp.compile(H(shaped(lambda q, p: (p**2).sum() / 2 + tp.pair_sum(q), **LETTER)), dt=0.1, sizes={"n": 4}),
    "a box of four edges": lambda: tp.compile(H(shaped(lambda q, p, box: (p**2).sum() / 2 + tp.pair_sum(tp.pair_distance2(q, box=box, cutoff=1.0)),
                                                      q=tp.Array["n", 3], p=tp.Array["n", 3], box=tp.Vec[4])), dt=0.1, sizes={"n": 4}),
    "a stream that is negative": lambda: tp.compile(tp.map(lambda x: x + tp.random.normal(stream=-1))),
    "an operation without a name": lambda: tp.op("", lambda x: x),
}
# fmt: on
