"""Does every kind of sub-flow do what it says of itself?  Its field against slopes in dt, its inverse, and who asks its kind."""

from __future__ import annotations

import ast
import sys
from dataclasses import fields, replace
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import mpmath
import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics import flows
from tinyphysics.flows import harmonic, series
from tinyphysics.ir.value import evaluate
from tinyphysics.runtime.engines import plans
from tinyphysics.rules.functions.transcendental import lower as minimal
from tinyphysics.pipeline import build
from tinyphysics.planner.systems.friction import with_friction
from tinyphysics.planner.systems.heat import with_bath
from tinyphysics.plan import Goal, Hierarchy
from tinyphysics.step import AS_GIVEN, Step, SubFlow
from tinyphysics.synth.methods import taylor
from tinyphysics.tpir import vm
from tinyphysics.tpir.program.isa import FLOW
from tinyphysics.tpir.program.lower import lower

SOURCE = Path(tp.__file__).parent
KINDS = {  # of every file, by their names
    c.__name__: c
    for file in iter_modules(flows.__path__)
    for m in [import_module(f"{flows.__name__}.{file.name}")]
    for c in vars(m).values()
    if isinstance(c, type) and SubFlow in c.__mro__ and not c.__subclasses__()
}


@tp.hamiltonian
def swing(q: tp.Vec[2], p: tp.Vec[2], k: float = 0.7):
    return p @ p / 2 + k * q[0] ** 2 + q[1] ** 2 + 0.3 * q[0] * q[1] ** 2


@tp.hamiltonian
def springs(q: tp.Vec[2], p: tp.Vec[2]):
    return p @ p / 2 + 3 * (q[0] - q[1]) ** 2 + 0.5 * q[0] ** 2 + 0.1 * q[1] ** 4


@tp.hamiltonian
def linear(q: tp.Vec[2], p: tp.Vec[2]):
    return p @ p / 2 + 3 * (q[0] - q[1]) ** 2 + 0.5 * q[0] ** 2


@tp.hamiltonian
def mixed(q, p):
    return p**2 * (1 + 0.1 * q**2) / 2 + tp.cos(q)


@tp.hamiltonian
def driven(q, p, t):
    return p**2 / 2 + q**2 * (1 + 0.2 * tp.sin(t)) / 2


@tp.lagrangian
def rod(q, v):
    return v**2 * (1 + 0.1 * q**2) / 2 - tp.cos(q)


@tp.ode
def decay(x, y):
    return y - x, -0.3 * x * y


@tp.map
def turn(x, y):
    return y, 0.9 * x - y**3


@tp.hamiltonian
def bodies(q: tp.Array[3, 3], p: tp.Array[3, 3], m: tp.Vec[3]):
    r = tp.sqrt(((q[:, None] - q[None, :]) ** 2).sum(-1))
    return ((p**2).sum(-1) / (2 * m)).sum() - tp.pair_sum(m[:, None] * m[None, :] / r)


@tp.hamiltonian(bracket="se3")
def top(L: tp.Vec[3], G: tp.Vec[3]):
    return L[0] ** 2 / 2 + L[1] ** 2 / 4 + L[2] ** 2 / 6 + G[2] + 0.3 * G[0] * G[1]


@tp.hamiltonian
def free(R: tp.Rotor, L: tp.Vec[3]):
    return L[0] ** 2 / 2 + L[1] ** 2 / 4 + L[2] ** 2 / 6


@tp.hamiltonian
def rotor(R: tp.Rotor, L: tp.Vec[3]):
    return L @ L / 2 + R[0] * R[1]


@tp.hamiltonian(bracket=tp.magnetic(lambda q: [q[1] * q[2], q[0] * q[2], 1.0 + q[0]]))
def charge(q: tp.Vec[3], p: tp.Vec[3]):
    return p @ p / 2 + q @ q / 2


MASSES = {"m": [1.0, 0.01, 0.02]}
STEPS = {  # a system, and what is asked for
    "kicks": (swing, {"method": "leapfrog"}),
    "force gradients": (swing, {"method": "chin4"}),
    "a tableau": (decay, {"method": "rk4"}),
    "other units": (swing, {"method": "leapfrog", "scale": "auto"}),
    "friction": (with_friction(swing.bind(), [0.3, 0.2]), {"method": "yoshida4"}),
    "a bath": (with_bath(swing.bind(), 0.7, None, 0.3, 1.0), {"method": "baoab"}),
    "a chain": (with_bath(swing.bind(), 0.7, "nose_hoover", None, 1.0), {"method": "baoab"}),
    "a memory": (with_bath(swing.bind(), 0.7, tp.gle(kernel=[(1.0, 0.5)]), None, 1.0), {"method": "baoab"}),
    "Brownian motion": (with_bath(swing.bind(), 0.7, "brownian", 0.3, 1.0), {"method": "brownian"}),
    "time": (driven, {"method": "leapfrog"}),
    "an exponential": (driven, {"method": "magnus4"}),
    "stages": (mixed, {"method": "gauss4"}),
    "a generating function": (mixed, {"method": "stormer_verlet_implicit"}),
    "velocities": (rod, {"method": "variational_midpoint"}),
    "a discrete gradient": (mixed, {"method": "gonzalez"}),
    "copies": (mixed, {"method": "extended_phase_space"}),
    "orbits": (bodies, {"method": "wisdom_holman", "hierarchy": Hierarchy((0, 1, 2))}),
    "oscillators": (swing, {"method": "interaction"}),
    "a matrix": (springs, {"method": "interaction"}),
    "a jump": (linear, {"propagator": "exact"}),
    "a free body": (free, {"propagator": "exact"}),
    "attempts": (decay, {"method": "dop853"}),
    "stiff attempts": (decay, {"method": "radau"}),
    "a map": (turn, {}),
    "a magnetic field": (charge, {"method": "boris_exact"}),
    "axes": (charge, {"method": "axes"}),
    "bodies that turn": (top, {"method": "rotations"}),
    "quaternions": (rotor, {"method": "rotations"}),
}


def step_of(name: str) -> Step:
    system, options = STEPS[name]
    return build(system.bind(), Goal(0.01, **{"propagator": "loop", **options}), "python").step


def start(step: Step) -> dict[str, object]:
    rng = np.random.default_rng(7)
    drawn = {s.name: np.asarray(rng.normal(size=s.var.shape)) for s in step.states}
    unit = {s.name for s in step.states if s.role == "rotor"}
    return {n: (x / np.linalg.norm(x) if n in unit else x).tolist() for n, x in drawn.items()}


def after(step: Step, flows: tuple[SubFlow, ...], z: dict[str, object], h: float) -> dict[str, object]:
    """The states after these flows and no more, in what the loop keeps."""
    jumps = flows[0] in step.final and "jumps" in flows[0].traits
    body, final = ((), flows) if jumps else (flows, ())
    program = lower(replace(step, init=(), body=body, final=final, claims=(), coordinates=AS_GIVEN))
    given = {p.name: MASSES.get(p.name, p.default) for p in step.parameters}
    times = dict.fromkeys(f.weight for f in flows if isinstance(f, harmonic.CoupledFlow))
    given |= {f"{FLOW}{k}": matrix(flows[0], w / flows[0].weight * h) for k, w in enumerate(times)}
    return vm.run(program, z, 1, given, dt=h)


def matrix(flow: harmonic.CoupledFlow, h: float) -> list[object]:
    """What a run hands in: exp(h A) and what is constant, in two words."""
    names, sizes, rates = [str(u.arg) for u in flow.writes()], [u.size for u in flow.writes()], flow.field()
    n = sum(sizes)

    def at(z: list[float]) -> np.ndarray:
        given = dict(zip(names, (x.tolist() for x in np.split(np.array(z), np.cumsum(sizes)[:-1]))))
        return np.concatenate(evaluate([rates[u] for u in flow.writes()], given))

    A = mpmath.matrix(n + 1, n + 1)
    for i, b in enumerate(at([0.0] * n)):
        A[i, n] = b
    for k in range(n):
        for i, x in enumerate(at(np.eye(n)[k].tolist())):
            A[i, k] = x - A[i, n]
    with mpmath.workdps(40):
        whole = mpmath.expm(A * h)
        high = [[float(whole[i, k]) for k in range(n + 1)] for i in range(n)]
        low = [[float(whole[i, k] - high[i][k]) for k in range(n + 1)] for i in range(n)]
    return [high, low]


def flat(values: dict[str, object], names: list[str]) -> np.ndarray:
    return np.concatenate([np.ravel(values[n]) for n in names])


def gap(step: Step, flow: SubFlow, z: dict[str, object], h: float) -> float:
    """How far a slope in dt is from the field."""
    names, found = [str(u.arg) for u in flow.writes()], flow.field()
    env = {n: np.ravel(v).tolist() if isinstance(v, list) else v for n, v in z.items()}
    env |= {p.name: MASSES.get(p.name, p.default) for p in step.parameters} | {"dt": h}
    if step.time is not None:
        env[str(step.time.arg)] = flow.clock * h
    rates = evaluate(minimal([found[u] for u in flow.writes()]), env)
    slope = (flat(after(step, (flow,), z, h), names) - flat(z, names)) / h
    return float(np.abs(slope - np.concatenate([np.ravel(v) for v in rates])).max())


@pytest.mark.parametrize("name", STEPS)
def test_the_field_of_a_flow_is_its_slope_in_dt(name):
    step = step_of(name)
    z = start(step)
    for flow in step.flows:
        if flow.field() is not None:
            coarse, fine = (gap(step, flow, z, h) for h in (2.0**-7, 2.0**-11))
            assert fine < max(coarse / 8, 1e-10), type(flow)


@pytest.mark.parametrize("name", STEPS)
def test_a_flow_and_its_inverse_lead_back(name):
    step = step_of(name)
    z, names = start(step), [s.name for s in step.states]
    for flow in step.body:
        back = flow.inverse()
        if back is not None:
            there = after(step, (flow, back), z, 0.1)
            assert np.allclose(flat(there, names), flat(z, names), rtol=0, atol=1e-12), type(flow)


def test_the_field_of_a_series_is_its_slope_in_dt(monkeypatch):
    monkeypatch.setattr(taylor, "WRITTEN", -1)
    monkeypatch.setattr(taylor, "LINEAR", -1)
    monkeypatch.setattr(plans, "sources", lambda: None)  # nothing is kept of it
    h, z = 2.0**-20, {"x": 0.4, "y": -1.1}
    sim = tp.compile(decay, dt=h, method="taylor", backend="numpy")
    flow = series.series_of(sim.built.step)
    rates = evaluate([flow.field()[u] for u in flow.writes()], z)
    out = sim.evolve(**z, steps=1).final
    assert np.allclose([(float(out[n]) - z[n]) / h for n in z], rates, rtol=0, atol=1e-5)


def test_every_kind_is_tested():
    seen = {type(f).__name__ for name in STEPS for f in step_of(name).flows}
    beside = {"Cotangents", "Stash", "Together"}  # of an adjoint: test_gradients.py
    beside |= {
        "OrbitSlopes",
        "CoupledAlong",
        "CoupledSlopes",
    }  # test_gradients_begun.py, test_gradients_catalog.py
    # of a step that meets walls, and of gradients through it: test_walls.py, test_walls_gradients.py
    cut = {"Rounds", "PlainRounds", "PulledRound"}
    beside |= {"Booked"}  # the books of baths along rods: test_heat_constraints.py
    touch = {"TouchFlow"}  # whose field is no function of the state alone: test_contacts.py
    assert seen | beside | cut | touch | {"TaylorSeries"} == set(KINDS)


def test_what_reads_the_states_that_it_moves_has_no_inverse():
    (flow,) = step_of("a tableau").body
    assert flow.reads() & {*flow.writes()} and flow.inverse() is None


@pytest.mark.parametrize("name", STEPS)
def test_a_flow_is_rebuilt_of_its_own_expressions(name):
    """By the same expressions it is the same, so that lowering may exchange them."""
    for flow in step_of(name).flows:
        own = (*flow.expressions(), *flow.private())
        again = flow.rebuilt({u: u for u in own})
        assert (*again.expressions(), *again.private()) == own
        assert again.traits == flow.traits and again.writes() == flow.writes()


# --- nobody asks for a kind, or adds a mode ------------------------------------------------------------------
def test_a_step_has_no_more_than_fourteen_fields():
    names = [f.name for f in fields(Step)]
    assert names == [
        *("name", "states", "parameters", "time", "terms", "claims", "init", "body", "final", "evaluations"),
        *("coordinates", "coefficients", "bracket", "tensor"),
    ]


def test_a_kind_is_tested_in_its_own_file_alone():
    """Neither among flows: what another kind is made of answers for itself."""
    files = {name: Path(sys.modules[c.__module__].__file__) for name, c in KINDS.items()}
    files |= {"Shear": files["ShearFlow"], "ScaledShear": files["ShearFlow"]}
    named = {*files, "Rescaled", "JacobiCoordinates"}
    outside = []
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            call = isinstance(node, ast.Call) and getattr(node.func, "id", "") == "isinstance"
            used = (
                {n.id for n in ast.walk(node.args[1]) if isinstance(n, ast.Name)} & named if call else set()
            )
            if any(path != files.get(name, path if path.parent.name == "flows" else None) for name in used):
                outside.append((path.name, node.lineno, used))
    assert outside == []
