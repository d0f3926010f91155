"""Is every certificate true?  Attacks on the verifier, each yes checked on numbers.

The numbers come from an interpreter of its own (`Dual`: values with their derivatives, in NumPy), so
that a mistake that the VM and the verifier share cannot hide.
"""

import contextlib
import random
import re
from dataclasses import dataclass

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.errors import VerifyError
from tinyphysics.tpir import parse, verify, vm
from tinyphysics.tpir.program.isa import Param, Register
from tinyphysics.physics.zoo import henon_heiles, kepler, pendulum

STRUCTURES = ("symplectic", "volume-preserving", "symmetric", "reversible", "consistent")


# --- programs on numbers with their derivatives ---------------------------------------------------
@dataclass
class Dual:
    v: np.ndarray  # the value
    d: np.ndarray  # its derivatives, one more axis in front

    def linear(self, f):
        return Dual(np.asarray(f(self.v)), np.stack([f(x) for x in self.d]))


UNARY = {
    "neg": (np.negative, lambda x, y: -np.ones_like(x)),
    "sin": (np.sin, lambda x, y: np.cos(x)),
    "cos": (np.cos, lambda x, y: -np.sin(x)),
    "exp": (np.exp, lambda x, y: y),
    "log": (np.log, lambda x, y: 1 / x),
    "sqrt": (np.sqrt, lambda x, y: 0.5 / y),
    "tanh": (np.tanh, lambda x, y: 1 - y * y),
    "abs": (np.abs, lambda x, y: np.sign(x)),
    "sq": (np.square, lambda x, y: 2 * x),
}
BINARY = {
    "add": (np.add, lambda a, b: (1.0, 1.0)),
    "sub": (np.subtract, lambda a, b: (1.0, -1.0)),
    "mul": (np.multiply, lambda a, b: (b, a)),
    "div": (np.divide, lambda a, b: (1 / b, -a / b**2)),
}


def elementwise(name, xs):
    if len(xs) == 1:
        f, slope = UNARY[name]
        y = f(xs[0].v)
        return Dual(y, slope(xs[0].v, y) * xs[0].d)
    f, slopes = BINARY[name]
    a, b = xs
    da, db = slopes(a.v, b.v)
    return Dual(f(a.v, b.v), da * a.d + db * b.d)


def moved(name, xs, arg, shape):
    one = xs[0]
    match name:
        case "flip":
            return one.linear(lambda x: np.flip(x, arg))
        case "expand":
            return one.linear(lambda x: np.broadcast_to(x, shape))
        case "reshape":
            return one.linear(lambda x: np.reshape(x, shape))
        case "permute":
            return one.linear(lambda x: np.transpose(x, arg))
        case "slice":
            return one.linear(lambda x: x[tuple(slice(*b) for b in arg)])
        case "pad":
            assert all(between == 0 for *_, between in arg)
            return one.linear(lambda x: np.pad(x, [(lo, hi) for lo, hi, _ in arg]))
        case "element":
            return one.linear(lambda x: np.ravel(x)[arg[0]])
        case "concat":
            return Dual(
                np.concatenate([x.v for x in xs], arg[0]), np.concatenate([x.d for x in xs], arg[0] + 1)
            )
        case "stack":
            return Dual(
                np.reshape([x.v for x in xs], shape), np.reshape(np.stack([x.d for x in xs], 1), (-1, *shape))
            )
    raise AssertionError(name)


def run_dual(program, z, steps, dt, params=(), t0=0.0, energies=False):
    """(final states flat, Jacobian), or the gradients of the declared energies."""
    params = {"dt": dt, **dict(params)}
    size = sum(int(np.prod(s.type.shape)) for s in program.states)
    memory, env, at = {}, {}, 0
    for s in program.states:
        n = int(np.prod(s.type.shape))
        d = np.zeros((size, n))
        d[at : at + n] = np.eye(n)
        memory[s.name] = Dual(np.reshape(z[at : at + n], s.type.shape), d.reshape(size, *s.type.shape))
        at += n

    def constant(x, shape):
        return Dual(np.broadcast_to(np.asarray(x, float), shape), np.zeros((size, *shape)))

    def read(x, shape):
        if isinstance(x, float):
            return constant(x, shape)
        if isinstance(x, Param):
            value = np.asarray(params[x.name], float)
            return constant(value, value.shape)
        return env[x]

    def do(i, now):
        shape = i.type.shape
        match i.op:
            case "LOAD":
                env[i.dst] = memory[i.args[0].name]
            case "STORE":
                memory[i.dst.name] = env[i.args[0]]
            case "ELEM":
                env[i.dst] = elementwise(i.args[0].text, [read(x, shape) for x in i.args[1:]])
            case "MOVE":
                *src, arg = i.args[1:] if isinstance(i.args[-1], tuple) else (*i.args[1:], None)
                inner = () if i.args[0].text == "stack" else shape
                env[i.dst] = moved(i.args[0].text, [read(x, inner) for x in src], arg, shape)
            case "FMA":
                a, b, c = (read(x, shape) for x in i.args)
                env[i.dst] = Dual(a.v * b.v + c.v, a.d * b.v + a.v * b.d + c.d)
            case "SUM":
                env[i.dst] = read(i.args[0], shape).linear(lambda x: x.sum(i.args[1]))
            case "GRAD_INIT" | "SHIFT":
                env[i.dst] = read(i.args[0], shape)
            case "SCALE":
                factor = read(i.args[1], ()).v
                by = factor if i.args[0].text == "times" else 1 / factor
                env[i.dst] = env[i.dst].linear(lambda x: x * by)
            case "POISSON_J":
                g = read(i.args[0], shape)
                env[i.dst] = elementwise("neg", [g]) if i.args[1].text == "negate" else g
            case "SYMP_STEP":
                s, f, h = env[i.dst], env[i.args[0]], read(i.args[1], ())
                slope = h.d.reshape(size, *([1] * len(shape)))
                env[i.dst] = Dual(s.v + h.v * f.v, s.d + h.v * f.d + slope * f.v)
            case "TIME":
                env[i.dst] = constant(t0 + (now + i.args[0]) * dt, ())
            case _:
                raise AssertionError(i.op)

    if energies:
        for k, s in enumerate(program.states):
            env[Register("S", k)] = memory[s.name]
        for i in program.energy:
            do(i, 0)
        return [env[i.dst].d for i in program.energy if i.dst.kind == "E"]
    for i in program.init:
        do(i, 0)
    for n in range(steps):
        for i in program.step:
            do(i, n)
    for i in program.final:
        do(i, steps)
    final = [memory[s.name] for s in program.states]
    flat = np.concatenate([np.ravel(x.v) for x in final])
    return flat, np.concatenate([x.d.reshape(size, -1) for x in final], 1).T


def poisson(program):
    """J of the declared pairs, and the sign with which p -> -p acts on each component."""
    starts, at = [], 0
    for s in program.states:
        starts.append(at)
        at += int(np.prod(s.type.shape))
    J, mirror = np.zeros((at, at)), np.ones(at)
    for k, s in enumerate(program.states):
        if s.conjugate is not None:
            for i in range(int(np.prod(s.type.shape))):
                q, p = starts[s.conjugate] + i, starts[k] + i
                J[q, p], J[p, q] = 1.0, -1.0
                mirror[p] = -1.0
    return J, mirror


def negated(program):
    """The program with every literal step negated: what dt -> -dt is for a step written as a number."""

    def turn(i):
        if i.op != "SYMP_STEP" or not isinstance(i.args[1], float):
            return i
        return type(i)(i.op, (*i.operands[:2], -i.args[1]), i.type)

    return type(program)(
        program.name,
        (),
        program.states,
        program.params,
        program.energy,
        *(tuple(map(turn, program.section(s))) for s in ("init", "step", "final")),
    )


def defects(program, z, dt, params=(), t0=0.3):
    """By how much each certificate misses on numbers."""
    J, mirror = poisson(program)
    out = dict.fromkeys(STRUCTURES, 0.0)
    for steps in (1, 3):
        end, M = run_dual(program, z, steps, dt, params, t0)
        worst = {
            "symplectic": abs(M.T @ J @ M - J).max(),
            "volume-preserving": abs(np.linalg.det(M) - 1),
            "symmetric": abs(
                run_dual(negated(program), end, steps, -dt, params, t0 + steps * dt)[0] - z
            ).max(),
            "reversible": abs(mirror * run_dual(program, mirror * end, steps, dt, params, t0)[0] - z).max(),
        }
        out = {name: max(out[name], worst.get(name, 0.0)) for name in out}
    forced = any(i.op == "POISSON_J" and i.args[1].text == "force" for i in program.step)
    if program.energy and not forced:
        # a consistent step of length h differs from h*J*grad H by O(h**2)
        h = 1e-5
        for steps in (1, 2):
            end, _ = run_dual(program, z, steps, h, params, t0)
            slope = sum(g.reshape(-1) for g in run_dual(program, z, 0, h, params, t0, energies=True))
            miss = abs((end - z) / (steps * h) - J @ slope).max()
            out["consistent"] = max(out["consistent"], miss if miss > 100 * h else 0.0)
    return out


def symplectic_defect(program, z, dt):
    """|MtJM - J| of one step."""
    J, _ = poisson(program)
    _, M = run_dual(program, np.asarray(z, float), 1, dt)
    return abs(M.T @ J @ M - J).max()


def assert_true(program, z, dt=0.05, params=(), literal=False):
    """Whatever the certificate says yes to holds on numbers."""
    certificate = verify(program)
    assert parse(str(program)) == program
    found = defects(program, np.asarray(z, float), dt, params)
    for name in STRUCTURES:
        if certificate[name] and not (literal and name == "consistent"):
            assert found[name] < 1e-10, f"{name} is certified, and misses by {found[name]:.1e}\n{program}"
    return certificate, found


# --- listings -------------------------------------------------------------------------------------
def listing(step, *, init="", final="", energy="", pairs=1, claim="", params="param $dt"):
    """A listing with its states declared, loaded and stored."""
    names = ["q", "p"] if pairs == 1 else [f"{x}{k}" for k in range(1, pairs + 1) for x in "qp"]
    states = [
        f"state S{k} {n} " + ("position" if k % 2 == 0 else f"momentum of S{k - 1}")
        for k, n in enumerate(names)
    ]
    loads = [f"LOAD S{k}, &{n}" for k, n in enumerate(names)]
    stores = [f"STORE &{n}, S{k}" for k, n in enumerate(names)]
    return "\n".join(
        [
            "program listing",
            f"claim {claim}",
            *states,
            params,
            "energy:",
            energy,
            "init:",
            *loads,
            init,
            "step:",
            step,
            "final:",
            final,
            *stores,
        ]
    )


HARMONIC = "ELEM T90, sq, S1\nELEM E0, mul, T90, 0.5\nELEM T91, sq, S0\nELEM E1, mul, T91, 0.5"
DRIFT = "GRAD_INIT G1, S1\nPOISSON_J F0, G1, pass\nSYMP_STEP S0, F0, {h}"
KICK = "GRAD_INIT G0, S0\nPOISSON_J F1, G0, negate\nSYMP_STEP S1, F1, {h}"


def drift(h="$dt"):
    return DRIFT.format(h=h)


def kick(h="$dt"):
    return KICK.format(h=h)


OFTEN_PRINTED = """
program oscillator
claim symplectic
state S0 q position
state S1 p momentum of S0
init:
  LOAD S0, &q
  LOAD S1, &p
step:
  ELEM T0, sq, S0
  ELEM T1, sq, S1
  FMA E0, T0, 0.5, 0.0
  FMA E1, T1, 0.5, E0
  GRAD_INIT G1, 0.0
  FMA G1, S1, 1.0, G1
  GRAD_INIT G0, 0.0
  FMA G0, S0, 1.0, G0
  POISSON_J F0, G1, pass
  POISSON_J F1, G0, negate
  SYMP_STEP S0, F0, 0.01
  SYMP_STEP S1, F1, 0.01
final:
  STORE &q, S0
  STORE &p, S1
"""


def rejected(text, match=None):
    """The error of a listing that must not verify."""
    with pytest.raises(VerifyError, match=match) as caught:
        verify(parse(text))
    assert caught.value.fix, f"no remedy in: {caught.value}"
    return str(caught.value)


# --- the classic mistake --------------------------------------------------------------------------
@pytest.mark.requirement("S3-14", "S3-15", "S2-57")
def test_the_often_printed_oscillator_is_rejected_with_the_remedy():
    assert len([i for _, _, i in parse(OFTEN_PRINTED).numbered()]) == 16
    assert rejected(OFTEN_PRINTED) == (
        "step 14 `SYMP_STEP S1, F1, 0.01` uses F1, computed from S0@0; S0 is now S0@1.\n"
        "  Recompute dH/dq after the drift (symplectic Euler), or split the kick in two (leapfrog)."
    )


@pytest.mark.requirement("S3-14")
def test_the_often_printed_oscillator_really_gains_energy_as_explicit_euler_does():
    out = vm.run(parse(OFTEN_PRINTED), {"q": 1.0, "p": 0.0}, steps=1000)
    assert out["q"] ** 2 + out["p"] ** 2 == pytest.approx((1 + 0.01**2) ** 1000, rel=1e-12)
    assert symplectic_defect(parse(OFTEN_PRINTED), [1.0, 0.5], 0.01) == pytest.approx(1e-4, rel=1e-9)


def test_without_its_claim_the_often_printed_oscillator_is_a_program_that_conserves_nothing():
    certificate = verify(parse(OFTEN_PRINTED.replace("claim symplectic", "")))
    assert certificate.level == "none"


@pytest.mark.requirement("S3-14")
def test_recomputing_the_force_after_the_drift_mends_it():
    lines = OFTEN_PRINTED.strip().splitlines()
    force = [x for x in lines if "G0" in x or "F1" in x]
    mended = [x for x in lines if x not in force]
    at = next(k for k, x in enumerate(mended) if "SYMP_STEP S0" in x) + 1
    program = parse("\n".join([*mended[:at], *force, *mended[at:]]))
    certificate, found = assert_true(program, [0.7, -0.4], literal=True)
    assert certificate.symplectic and found["symplectic"] < 1e-12
    assert certificate.level == "symplectic"


# --- what freshness alone would accept (numerics.md, 1) --------------------------------------------
CURL = """
ELEM T0, mul, S2, 0.1
ELEM T1, add, S0, T0
GRAD_INIT G0, T1
POISSON_J F1, G0, negate
ELEM T2, mul, S0, 0.1
ELEM T3, sub, S2, T2
GRAD_INIT G2, T3
POISSON_J F3, G2, negate
SYMP_STEP S1, F1, $dt
SYMP_STEP S3, F3, $dt
"""


def test_a_curl_force_is_volume_preserving_and_not_symplectic():
    """F = -q + c(-q1, q0) with h = c = 0.1: |MtJM - J| = 0.0199 in numerics.md, 2*h*c."""
    program = parse(listing(CURL, pairs=2))
    certificate, found = assert_true(program, [0.3, 0.1, -0.2, 0.4], dt=0.1)
    assert certificate.volume_preserving and not certificate.symplectic
    assert "curl" in certificate.symplectic.because
    both = parse(
        listing(
            CURL + "GRAD_INIT G1, S1\nPOISSON_J F0, G1, pass\nGRAD_INIT G3, S3\n"
            "POISSON_J F2, G3, pass\nSYMP_STEP S0, F0, $dt\nSYMP_STEP S2, F2, $dt",
            pairs=2,
        )
    )
    assert symplectic_defect(both, np.zeros(4), 0.1) == pytest.approx(0.0199, rel=0.01)
    assert not verify(both).symplectic
    rejected(listing(CURL, pairs=2, claim="symplectic"), "curl")


def test_moving_a_position_by_another_position_is_not_symplectic():
    """q1 += h*q2: a fresh shear, |MtJM - J| = h."""
    text = "GRAD_INIT G1, S2\nPOISSON_J F0, G1, pass\nSYMP_STEP S0, F0, $dt"
    program = parse(listing(text, pairs=2))
    certificate, _ = assert_true(program, [0.3, 0.1, -0.2, 0.4], dt=0.1)
    assert certificate.volume_preserving and not certificate.symplectic
    assert symplectic_defect(program, [0.3, 0.1, -0.2, 0.4], 0.1) == pytest.approx(0.1, rel=1e-9)
    rejected(listing(text, pairs=2, claim="symplectic"), "S3 must be updated in the same block")


def test_rows_of_a_coupled_kinetic_energy_do_not_take_turns_with_a_kick():
    """T = p1**2/2 + p2**2/2 + p1*p2/2: drift q1, kick, drift q2."""
    row = "FMA T{k}, S{other}, 0.5, S{own}\nGRAD_INIT G{own}, T{k}\nPOISSON_J F{q}, G{own}, pass\nSYMP_STEP S{q}, F{q}, $dt"
    one, two = row.format(k=0, own=1, other=3, q=0), row.format(k=1, own=3, other=1, q=2)
    force = (
        "GRAD_INIT G0, S0\nPOISSON_J F1, G0, negate\nGRAD_INIT G2, S2\nPOISSON_J F3, G2, negate\n"
        "SYMP_STEP S1, F1, $dt\nSYMP_STEP S3, F3, $dt"
    )
    torn = parse(listing("\n".join([one, force, two]), pairs=2))
    certificate, found = assert_true(torn, [0.3, 0.1, -0.2, 0.4], dt=0.1)
    assert found["symplectic"] > 0.004 and not certificate.symplectic
    flows = [line for part in (one, two) for line in part.splitlines() if not line.startswith("SYMP")]
    whole = parse(
        listing("\n".join([*flows, "SYMP_STEP S0, F0, $dt", "SYMP_STEP S2, F2, $dt", force]), pairs=2)
    )
    certificate, found = assert_true(whole, [0.3, 0.1, -0.2, 0.4], dt=0.1)
    assert certificate.symplectic and found["symplectic"] < 1e-15


HENON_HEILES = {  # covector of each momentum's kick, in T registers from k on
    1: "ELEM T{k}, mul, S0, S2\nFMA T{n}, T{k}, 2.0, S0\nGRAD_INIT G0, T{n}\nPOISSON_J F1, G0, negate",
    3: "ELEM T{k}, sq, S0\nELEM T{m}, sq, S2\nELEM T{n}, sub, T{k}, T{m}\nELEM T{o}, add, S2, T{n}\n"
    "GRAD_INIT G2, T{o}\nPOISSON_J F3, G2, negate",
}


def henon_force(p, k=10):
    return HENON_HEILES[p].format(k=k, n=k + 1, m=k + 2, o=k + 3)


def test_henon_heiles_one_pair_after_the_other_is_all_fresh_shears_and_not_symplectic():
    """Kick p1, drift q1, kick p2, drift q2: escapes in a run (numerics.md, 1)."""
    turns = [
        henon_force(1),
        "SYMP_STEP S1, F1, $dt",
        "GRAD_INIT G1, S1\nPOISSON_J F0, G1, pass\nSYMP_STEP S0, F0, $dt",
        henon_force(3, 20),
        "SYMP_STEP S3, F3, $dt",
        "GRAD_INIT G3, S3\nPOISSON_J F2, G3, pass\nSYMP_STEP S2, F2, $dt",
    ]
    text = "\n".join(turns)
    certificate, found = assert_true(parse(listing(text, pairs=2)), [0.1, 0.35, -0.2, 0.3], dt=0.1)
    assert certificate.volume_preserving and not certificate.symplectic
    assert found["symplectic"] > 1e-3
    rejected(
        listing(text, pairs=2, claim="symplectic"), "S3 must be updated in the same block with the same h"
    )
    kicks = [turns[0], turns[3], turns[1], turns[4]]
    certificate, _ = assert_true(
        parse(listing("\n".join([*kicks, turns[2], turns[5]]), pairs=2)), [0.1, 0.35, -0.2, 0.3]
    )
    assert certificate.symplectic


def test_an_incomplete_kick_is_rejected():
    text = henon_force(1) + "\nSYMP_STEP S1, F1, $dt"
    rejected(listing(text, pairs=2, claim="symplectic"), "so S3 must be updated")
    assert_true(parse(listing(text, pairs=2)), [0.1, 0.35, -0.2, 0.3])


def test_two_lengths_in_one_kick_are_rejected():
    text = "\n".join(
        [
            henon_force(1),
            henon_force(3, 20),
            "SYMP_STEP S1, F1, $dt",
            "ELEM T40, mul, $dt, 0.9",
            "SYMP_STEP S3, F3, T40",
        ]
    )
    certificate, found = assert_true(parse(listing(text, pairs=2)), [0.1, 0.35, -0.2, 0.3])
    assert not certificate.symplectic and found["symplectic"] > 1e-4


def test_a_length_computed_from_the_state_is_rejected():
    text = "ELEM T0, mul, $dt, S1\n" + drift("T0")
    certificate, found = assert_true(parse(listing(text)), [0.3, 0.7])
    assert certificate.symplectic or "h depends on the state" in certificate.symplectic.because
    assert not certificate.volume_preserving and not certificate.symplectic
    rejected(listing("ELEM T0, mul, $dt, S0\n" + drift("T0"), claim="symplectic"), "h depends on the state")


def test_one_length_per_component_is_rejected():
    """h is one number: with one per component a kick is no gradient."""
    text = """
program twisted
state S0 q f64[2] position
state S1 p f64[2] momentum of S0
param $h f64[2]
init:
LOAD S0:f64[2], &q
LOAD S1:f64[2], &p
step:
MOVE T0:f64[2], flip, S0, (0,)
GRAD_INIT G0:f64[2], T0
POISSON_J F1:f64[2], G0, negate
SYMP_STEP S1:f64[2], F1, $h
final:
STORE &q, S0
STORE &p, S1
"""
    rejected(text, "h of shape")


def test_a_parameter_computed_from_the_state_is_state():
    """k = 1 + p**2 looks like a spring constant to the kick; it is the momentum that the kick moves."""
    text = "ELEM T0, sq, S1\nELEM T1, add, T0, 1.0\nELEM T2, mul, T1, S0\nGRAD_INIT G0, T2\nPOISSON_J F1, G0, negate\nSYMP_STEP S1, F1, $dt"
    certificate, found = assert_true(parse(listing(text)), [0.3, 0.7])
    assert not certificate.symplectic and not certificate.volume_preserving and found["symplectic"] > 1e-3
    rejected(listing(text, claim="symplectic"), "depends on S1, which it updates")


@pytest.mark.requirement("S2-55")
@pytest.mark.parametrize("line", ["ELEM T0, add, S0, S1", "ELEM T0, sub, S1, S0", "FMA T0, S0, 2.0, S1"])
def test_adding_a_position_to_a_momentum_is_a_type_error_that_names_both(line):
    message = rejected(listing(line + "\n" + drift(), claim="symplectic"))
    assert "position S0" in message and "momentum S1" in message and "h*dH/dp" in message


@pytest.mark.requirement("S2-55")
def test_a_position_plus_its_flow_type_checks():
    assert verify(parse(listing(drift(), claim="symplectic"))).symplectic


# --- registers (S3-03 to S3-05) --------------------------------------------------------------------
# fmt: off
WRONG_REGISTERS = [
    ("ELEM G0, sin, S0",                                             "writes G0",            "GRAD_INIT"),
    ("ELEM F0, sin, S1",                                             "writes F0",            "POISSON_J"),
    ("ELEM S0, sin, S1",                                             "writes S0",            "SYMP_STEP"),
    ("GRAD_INIT T0, S1",                                             "writes T0",            "ELEM"),
    ("POISSON_J G0, G1, pass",                                       "writes G0",            "GRAD_INIT"),
    ("SYMP_STEP T0, F0, $dt",                                        "writes T0",            "ELEM"),
    ("GRAD_INIT G1, S1\nSYMP_STEP S0, G1, $dt",                      "adds G1 to a state",   "flow register F"),
    ("ELEM T0, sin, S1\nPOISSON_J F0, T0, pass",                     "reads T0",             "gradient register G"),
    ("GRAD_INIT G1, S1\nPOISSON_J F0, G1, pass\nSYMP_STEP S1, F0, $dt", "adds the flow of position `q` to momentum `p`", "S1 moves by F1"),
    ("GRAD_INIT G0, S0\nPOISSON_J F0, G0, pass",                     "from G0 by pass",      "pass of G1"),
    ("GRAD_INIT G0, S0\nPOISSON_J F1, G0, pass",                     "from G0 by pass",      "negate of G0"),
    ("GRAD_INIT G1, S1\nPOISSON_J F0, G1, negate",                   "from G1 by negate",    "pass of G1"),
    ("ELEM T0, mul, S1, 2.0\nPOISSON_J F0, T0, force",               "reads T0",             "gradient register G"),
    ("GRAD_INIT G1, S1\nPOISSON_J F0, G1, sideways",                 "type `sideways`",      "`pass`, `negate`, `bracket` or `force`"),
    ("ELEM T0, sin, T7",                                             "reads `T7`",           "written before they are read"),
    ("SYMP_STEP S0, F0, $dt",                                        "reads `F0`",           "written before they are read"),
    ("ELEM T0, sin, S4",                                             "no state S4",          "Declare it"),
    ("GRAD_INIT G7, 0.0",                                            "no state S7",          "Declare it"),
    ("ELEM T0, mul, $mu, S0",                                        "reads $mu",            "param $mu"),
    ("ELEM T0, sine, S0",                                            "unknown function `sine`", "Did you mean `sin`"),
    ("ELEM T0, S0, sq",                                              "wrong operands",       "dst, func, src"),
    ("FMA G1, S1, 1.0",                                              "wrong operands",       "dst, a, b, c"),
    ("ELEM T0, mul, S0",                                             "gives `mul` 1 source", "takes 2"),
    ("ELEM T0, reduce, S0",                                          "unknown function",     "ELEM knows"),
    ("ELEM T0, custom.nothing, S0",                                  "unknown function",     "ELEM knows"),
    ("ELEM T0:f64[2], sin, S0",                                      "from f64[]",           "expand"),
    ("GRAD_INIT G0:f64[2], 1.0",                                     "has type f64[2]",      "GRAD_INIT G0:f64[]"),
    ("MOVE T0:f64[2], expand, S0\nMOVE T1, element, T0, (2,)",       "no such element",      "expand"),
    ("MOVE T0:f64[2], expand, S0\nMOVE T1:f64[2], slice, T0, ((1,3,1),)", "do not fit",      "expand"),
    ("MOVE T0:f64[2], expand, S0\nMOVE T1:f64[2], slice, T0, (1,)",  "do not fit",           "expand"),
    ("MOVE T0:f64[2], expand, S0\nSUM T1, T0, (1,)",                 "T1",                   "expand"),
    ("LOAD S0, &q",                                                  "back to where it began", "`init:`"),
    ("STORE &q, S0",                                                 "stands in `step:`",    "`final:`"),
    ("OBSERVE &q, S1",                                               "writes over the state", "another name"),
    ("MAP S0, T3",                                                   "reads `T3`",           "written before they are read"),
    ("ACC_GRAD G0, 1.0, sin, 1, S0",                                 "source 1 of 1",        "from 0"),
    ("ACC_GRAD G0, 1.0, sin, 0, S0",                                 "reads `G0`",           "written before they are read"),
]
# fmt: on


@pytest.mark.requirement("S3-03", "S3-04", "S3-05", "S3-08", "S3-09")
@pytest.mark.parametrize("line, what, fix", WRONG_REGISTERS, ids=[w for w, _, _ in WRONG_REGISTERS])
def test_only_the_right_instructions_write_each_register_and_the_error_says_which(line, what, fix):
    message = rejected(listing(line))
    assert what in message and fix in message.partition("\n")[2]


def test_a_state_that_is_not_loaded_cannot_be_used():
    """Also where the energy section has read it: that section is not part of a run."""
    text = listing(drift() + "\n" + kick(), energy=HARMONIC)
    rejected(text.replace("LOAD S1, &p\n", ""), "S1 is not loaded")


def test_what_the_energy_section_computed_is_not_there_in_a_run():
    text = listing("GRAD_INIT G0, T90\nPOISSON_J F1, G0, negate\nSYMP_STEP S1, F1, $dt", energy=HARMONIC)
    rejected(text, "reads `T90`, which nothing has written")


# fmt: off
WRONG_MEMORY = [
    (("STORE &q, S0\nSTORE &p, S1", "STORE &q, S1\nSTORE &p, S0"),  "`q` is not given back: S1"),
    (("LOAD S0, &q\nLOAD S1, &p", "LOAD S0, &p\nLOAD S1, &q"),      "from the memory of &p"),
    (("LOAD S1, &p", "LOAD S1, &p\nLOAD S1, &p"),                   "a second time"),
    (("STORE &p, S1", ""),                                          "`p` is not given back: nothing"),
    (("STORE &p, S1", "ELEM T0, mul, S1, 2.0\nSTORE &p, T0"),       "`p` is not given back: T0"),
    (("STORE &p, S1", "STORE &p, S1\nSTORE &z, S1"),                "stores into no state"),
    (("STORE &p, S1", "STORE &p, S1\n" + kick()),                   "changes S1 after it was stored"),
]
# fmt: on


@pytest.mark.requirement("S3-06", "S3-07")
@pytest.mark.parametrize("change, what", WRONG_MEMORY, ids=[w for _, w in WRONG_MEMORY])
def test_states_come_from_and_go_back_to_their_own_memory(change, what):
    """A swap of q and p on the way out would turn a symplectic program into an antisymplectic one."""
    text = listing(drift() + "\n" + kick(), energy=HARMONIC, claim="symplectic")
    verify(parse(text))
    assert change[0] in text
    rejected(text.replace(*change), what)


# fmt: off
WRONG_DECLARATIONS = [
    ("state S0 q position\nstate S1 p momentum of S0\nstate S2 r momentum of S0", "two momenta"),
    ("state S0 a momentum of S1\nstate S1 b momentum of S0",                      "has no position"),
    ("state S0 a momentum of S0",                                                 "has no position"),
    ("state S0 q position\nstate S1 p momentum of S9",                            "has no position"),
    ("state S0 q position\nstate S1 p momentum",                                  "has no position"),
    ("state S0 q position of S1\nstate S1 p momentum of S0",                      "is a position of S1"),
    ("state S0 q f64[2] position\nstate S1 p momentum of S0",                     "its momentum `p` is f64[]"),
    ("state S0 q banana",                                                         "is a `banana`"),
    ("state S0 q position\nstate S1 q momentum of S0",                            "declared twice"),
    ("state S0 q position\nstate S1 p momentum of S0\nparam $a\nparam $a",        "declared twice"),
]
# fmt: on


@pytest.mark.parametrize("states, what", WRONG_DECLARATIONS, ids=[w for _, w in WRONG_DECLARATIONS])
def test_a_canonical_structure_must_be_one(states, what):
    rejected(f"program p\n{states}\nstep:\n", re.escape(what))


def test_two_momenta_of_each_other_are_no_canonical_pair():
    """a' = -dH/db, b' = -dH/da is a gradient flow; declared as a pair it would pass every local test."""
    text = (
        "program p\nstate S0 a momentum of S1\nstate S1 b momentum of S0\nparam $dt\ninit:\nLOAD S0, &a\nLOAD S1, &b\n"
        "step:\nGRAD_INIT G1, S1\nPOISSON_J F0, G1, negate\nSYMP_STEP S0, F0, $dt\nfinal:\nSTORE &a, S0\nSTORE &b, S1"
    )
    rejected(text, "has no position")


# --- what goes round the loop (numerics.md, 4) -------------------------------------------------------
def test_a_flow_that_init_computed_is_stale_in_the_second_step():
    """In the first step it is fresh; a verifier that reads one step only would say yes."""
    init = "GRAD_INIT G0, S0\nPOISSON_J F1, G0, negate"
    text = listing("SYMP_STEP S1, F1, $dt\n" + drift(), init=init, energy=HARMONIC)
    certificate, found = assert_true(parse(text), [0.3, 0.7], dt=0.1)
    assert found["symplectic"] > 1e-3
    assert not (certificate.symplectic or certificate.volume_preserving or certificate.consistent)
    assert "F1 is carried from step to step" in certificate.symplectic.because


def test_a_value_that_is_handed_on_twice_is_not_fresh():
    init = "ELEM T0, mul, 0.0, 0.0\nELEM T1, mul, 0.0, 0.0\nELEM T2, mul, 0.0, 0.0"
    step = (
        "GRAD_INIT G0, T2\nPOISSON_J F1, G0, negate\nSYMP_STEP S1, F1, $dt\n"
        + drift()
        + "\nELEM T2, mul, T1, 1.0\nELEM T1, mul, T0, 1.0\nELEM T0, mul, S0, 1.0"
    )
    program = parse(listing(step, init=init))
    _, M = run_dual(program, np.array([0.3, 0.7]), 6, 0.1)
    J, _ = poisson(program)
    assert abs(M.T @ J @ M - J).max() > 1e-3
    assert not verify(program).volume_preserving


def test_a_force_carried_over_from_the_last_kick_is_fresh():
    """Velocity Verlet with one evaluation: the flow is the same function of the state in every step."""
    init = "GRAD_INIT G0, S0\nPOISSON_J F1, G0, negate\nELEM T0, mul, 0.5, $dt"
    step = (
        "SYMP_STEP S1, F1, T0\n"
        + drift()
        + "\nGRAD_INIT G0, S0\nPOISSON_J F1, G0, negate\nSYMP_STEP S1, F1, T0"
    )
    program = parse(
        listing(step, init=init, energy=HARMONIC, claim="symplectic symmetric reversible consistent")
    )
    certificate, found = assert_true(program, [0.3, 0.7])
    assert max(found.values()) < 1e-12


def test_init_and_final_that_do_not_cancel_are_not_a_method():
    """Half a kick before and after all the drifts: one step is leapfrog, two steps are not."""
    half = "ELEM T0, mul, 0.5, $dt\n" + kick("T0")
    text = listing(drift(), init=half, final=half.replace("T0", "T1"), energy=HARMONIC)
    certificate, found = assert_true(parse(text), [0.3, 0.7])
    assert certificate.symplectic and not certificate.consistent and not certificate.symmetric
    assert found["consistent"] > 0.1
    assert "n steps are not n times one step" in certificate.consistent.because


def test_a_processed_method_whose_final_undoes_its_init_keeps_its_certificate():
    before, after = "ELEM T0, mul, 0.3, $dt\n" + kick("T0"), "ELEM T1, mul, -0.3, $dt\n" + kick("T1")
    text = listing(drift() + "\n" + kick(), init=before, final=after, energy=HARMONIC)
    certificate, _ = assert_true(parse(text), [0.3, 0.7])
    assert certificate.symplectic and certificate.consistent and not certificate.symmetric


# --- consistency (numerics.md, 3) --------------------------------------------------------------------
@pytest.mark.parametrize(
    "change, weight",
    [
        ("ELEM T0, neg, S0\nGRAD_INIT G0, T0", -1),
        ("ELEM T0, mul, S0, 0.9\nGRAD_INIT G0, T0", 0.9),
        ("ELEM T0, mul, S0, 2.0\nGRAD_INIT G0, T0", 2),
    ],
)
def test_a_wrong_sign_or_weight_is_symplectic_and_not_consistent(change, weight):
    text = listing(drift() + "\n" + kick().replace("GRAD_INIT G0, S0", change), energy=HARMONIC)
    certificate, found = assert_true(parse(text), [0.3, 0.7])
    assert certificate.symplectic and found["consistent"] > 1e-3
    assert f"total weight {weight} instead of 1" in certificate.consistent.because
    rejected(text.replace("claim ", "claim symplectic consistent"), "moves `p` enters with total weight")


def test_a_term_that_is_left_out_is_missed_even_if_another_fills_its_place():
    """H = T + V1 + V2, and only V1 kicks, with weight 1."""
    energy = HARMONIC + "\nELEM T92, cos, S0\nELEM E2, neg, T92"
    certificate, found = assert_true(parse(listing(drift() + "\n" + kick(), energy=energy)), [0.3, 0.7])
    assert certificate.symplectic and found["consistent"] > 0.1
    assert not certificate.consistent


def test_terms_may_kick_one_after_the_other():
    energy = HARMONIC + "\nELEM T92, cos, S0\nELEM E2, neg, T92"
    second = "ELEM T0, sin, S0\nGRAD_INIT G0.1, T0\nPOISSON_J F1.1, G0.1, negate\nSYMP_STEP S1, F1.1, $dt"
    certificate, found = assert_true(
        parse(listing("\n".join([drift(), kick(), second]), energy=energy)), [0.3, 0.7]
    )
    assert certificate.symplectic and certificate.consistent


def test_a_state_that_nothing_moves_is_not_consistent_with_an_energy_that_would():
    certificate, _ = assert_true(parse(listing(kick(), energy=HARMONIC)), [0.3, 0.7])
    assert certificate.symplectic and "`q` enters with total weight 0" in certificate.consistent.because


def test_a_literal_step_among_steps_of_dt_is_not_consistent():
    certificate, found = assert_true(
        parse(listing(drift() + "\n" + kick("1.0"), energy=HARMONIC)), [0.3, 0.7]
    )
    assert certificate.symplectic and not certificate.consistent and not certificate.symmetric
    assert found["consistent"] > 0.1


def test_a_program_whose_step_is_a_number_agrees_with_itself():
    both = verify(parse(listing(drift("0.1") + "\n" + kick("0.1"), energy=HARMONIC)))
    one = verify(parse(listing(drift("0.1") + "\n" + kick("0.2"), energy=HARMONIC)))
    back = verify(parse(listing(drift("-0.1") + "\n" + kick("-0.1"), energy=HARMONIC)))
    assert both.consistent and not one.consistent and not back.consistent
    assert "backwards in time" in back.consistent.because


def test_a_length_that_is_not_a_multiple_of_dt_is_not_consistent():
    text = listing("ELEM T0, sq, $dt\n" + drift("T0") + "\n" + kick("T0"), energy=HARMONIC)
    certificate, _ = assert_true(parse(text), [0.3, 0.7])
    assert certificate.symplectic and not certificate.consistent and not certificate.symmetric


def test_a_force_that_is_not_the_declared_energys_is_not_consistent():
    """`force` is for what no energy is known of; here one is declared, and it says something else."""
    other = "ELEM T0, sin, S0\nELEM T1, neg, T0\nPOISSON_J F1, T1, force\nSYMP_STEP S1, F1, $dt"
    certificate, found = assert_true(parse(listing(drift() + "\n" + other, energy=HARMONIC)), [0.3, 0.7])
    assert certificate.symplectic and not certificate.consistent


def test_two_different_forces_are_not_one_force_of_weight_one():
    half = "ELEM T9, mul, 0.5, $dt"
    first = "ELEM T0, sin, S0\nPOISSON_J F1, T0, force\nSYMP_STEP S1, F1, T9"
    second = "ELEM T1, cos, S0\nPOISSON_J F1.1, T1, force\nSYMP_STEP S1, F1.1, T9"
    kinetic = "ELEM T90, sq, S1\nELEM E0, mul, T90, 0.5"
    torn = parse(listing("\n".join([half, first, drift(), second]), energy=kinetic))
    certificate, found = assert_true(torn, [0.3, 0.7])
    assert not certificate.symmetric and found["symmetric"] > 1e-3
    assert not certificate.consistent
    whole = parse(listing("\n".join([half, first, drift(), first.replace("T0", "T1")]), energy=kinetic))
    certificate = verify(whole)
    assert (
        certificate.symmetric
        and certificate.consistent
        and defects(whole, np.array([0.3, 0.7]), 0.05)["symmetric"] < 1e-14
    )


# --- symmetric and reversible (numerics.md, 5) -------------------------------------------------------
def test_symplectic_euler_is_not_symmetric_and_leapfrog_is():
    euler, found = assert_true(parse(listing(drift() + "\n" + kick(), energy=HARMONIC)), [0.3, 0.7])
    assert not euler.symmetric and not euler.reversible and found["symmetric"] > 1e-4
    half = "ELEM T0, mul, 0.5, $dt\n" + kick("T0")
    leapfrog, _ = assert_true(
        parse(listing("\n".join([half, drift(), kick("T0")]), energy=HARMONIC)), [0.3, 0.7]
    )
    assert leapfrog.symmetric and leapfrog.reversible


def test_a_palindrome_of_weights_with_different_terms_is_not_symmetric():
    """V1 (1/2), T, V2 (1/2): the weights read the same backwards, the sub-flows do not."""
    energy = HARMONIC + "\nELEM T92, cos, S0\nELEM E2, neg, T92"
    half = "ELEM T9, mul, 0.5, $dt"
    second = "ELEM T0, sin, S0\nGRAD_INIT G0.1, T0\nPOISSON_J F1.1, G0.1, negate\nSYMP_STEP S1, F1.1, T9"
    program = parse(listing("\n".join([half, kick("T9"), drift(), second]), energy=energy))
    certificate, found = assert_true(program, [0.3, 0.7])
    assert certificate.symplectic and not certificate.symmetric and found["symmetric"] > 1e-4


def test_a_flow_that_depends_on_dt_is_not_symmetric():
    """(1 + dt)*q is another force at -dt; the palindrome hides it."""
    energy = (
        "ELEM T90, sq, S1\nELEM E0, mul, T90, 0.5\nELEM T91, sq, S0\nELEM T92, add, $dt, 1.0\n"
        "ELEM T93, mul, T91, T92\nELEM E1, mul, T93, 0.5"
    )
    force = "ELEM T1, add, $dt, 1.0\nELEM T2, mul, T1, S0\nGRAD_INIT G0, T2\nPOISSON_J F1, G0, negate\nSYMP_STEP S1, F1, T0"
    program = parse(listing("\n".join(["ELEM T0, mul, 0.5, $dt", force, drift(), force]), energy=energy))
    certificate, found = assert_true(program, [0.3, 0.7])
    assert certificate.symplectic and not certificate.symmetric and found["symmetric"] > 1e-5


def test_a_kinetic_energy_that_is_odd_in_p_is_symmetric_and_not_reversible():
    @tp.hamiltonian
    def skew(q, p):
        return p**2 / 2 + p**3 / 5 + q**2 / 2

    sim = tp.compile(skew, dt=0.05)
    certificate, found = assert_true(sim.tpir, [0.3, 0.7])
    assert certificate.symplectic and certificate.symmetric and not certificate.reversible
    assert found["reversible"] > 1e-3 and "odd in the momenta" in certificate.reversible.because


FIELDS = """
program fields
state S0 x field
state S1 y field
param $dt
init:
LOAD S0, &x
LOAD S1, &y
step:
ELEM T0, mul, 0.5, $dt
ELEM T1, mul, S1, 1.0
POISSON_J F0, T1, force
SYMP_STEP S0, F0, T0
ELEM T2, mul, S0, 1.0
POISSON_J F1, T2, force
SYMP_STEP S1, F1, $dt
ELEM T3, mul, S1, 1.0
POISSON_J F0.1, T3, force
SYMP_STEP S0, F0.1, T0
final:
STORE &x, S0
STORE &y, S1
"""


def test_without_momenta_nothing_is_reversed_by_negating_them():
    certificate, found = assert_true(parse(FIELDS), [0.3, 0.7])
    assert certificate.symmetric and not certificate.reversible and found["reversible"] > 1e-3
    assert certificate.volume_preserving and not certificate.symplectic


# --- explicit time (numerics.md, 13) ------------------------------------------------------------------
def driven(first, second, h="T9"):
    """Leapfrog with the force q*cos(t), whose kicks see the times `first` and `second`."""
    force = (
        "TIME T{a}, {c}\nELEM T{b}, cos, T{a}\nELEM T{d}, mul, S0, T{b}\nGRAD_INIT G0.{v}, T{d}\n"
        "POISSON_J F1.{v}, G0.{v}, negate\nSYMP_STEP S1, F1.{v}, " + h
    )
    energy = (
        "ELEM T90, sq, S1\nELEM E0, mul, T90, 0.5\nTIME T91, 0.0\nELEM T92, cos, T91\nELEM T93, sq, S0\n"
        "ELEM T94, mul, T93, T92\nELEM E1, mul, T94, 0.5"
    )
    return listing(
        "\n".join(
            [
                "ELEM T9, mul, 0.5, $dt",
                force.format(a=10, b=11, d=12, v=1, c=first),
                drift(),
                force.format(a=20, b=21, d=22, v=2, c=second),
            ]
        ),
        energy=energy,
    )


def test_time_advances_inside_exactly_one_sub_flow():
    certificate, found = assert_true(parse(driven(0.0, 1.0)), [0.3, 0.7])
    assert certificate.symplectic and certificate.symmetric and certificate.consistent
    assert not certificate.reversible and found["reversible"] > 1e-4


@pytest.mark.parametrize("first, second", [(0.0, 0.0), (1.0, 1.0), (0.5, 0.5), (1.0, 0.0)])
def test_a_frozen_clock_is_not_symmetric(first, second):
    certificate, found = assert_true(parse(driven(first, second)), [0.3, 0.7])
    assert certificate.symplectic  # at every fixed time
    assert not certificate.symmetric and "sees the time" in certificate.symmetric.because
    if (first, second) == (0.0, 0.0):
        assert found["symmetric"] > 1e-5
        rejected(driven(first, second).replace("claim ", "claim symmetric"), "sees the time 0 steps in")


def test_a_flow_that_reads_two_times_is_neither_symmetric_nor_reversible():
    force = (
        "TIME T{a}, 0.0\nTIME T{b}, 1.0\nELEM T{c}, mul, T{a}, S0\nELEM T{d}, mul, T{b}, 0.5\nELEM T{e}, add, T{c}, T{d}\n"
        "POISSON_J F1.{v}, T{e}, force\nSYMP_STEP S1, F1.{v}, T9"
    )
    kinetic = "ELEM T90, sq, S1\nELEM E0, mul, T90, 0.5"
    names = [dict(zip("abcde", range(n, n + 5)), v=v) for v, n in ((1, 10), (2, 20))]
    text = listing(
        "\n".join(["ELEM T9, mul, 0.5, $dt", force.format(**names[0]), drift(), force.format(**names[1])]),
        energy=kinetic,
    )
    certificate, found = assert_true(parse(text), [0.3, 0.7])
    assert found["symmetric"] > 1e-4
    assert not certificate.symmetric and not certificate.reversible


@pytest.mark.parametrize("method", ["symplectic_euler", "leapfrog", "leapfrog_dkd", "yoshida4"])
@pytest.mark.parametrize("part", ["T", "V"])
def test_several_pairs_share_one_clock(method, part):
    """The clock of a kick is the weight of the drifts, not that of a neighbouring kick."""

    @tp.hamiltonian(pairs=[("x", "px"), ("y", "py")])
    def driven(x, px, y, py, t):
        push = tp.cos(t)
        if part == "V":
            return px**2 / 2 + py**2 / 2 + x**2 * y * push + y**2 / 2
        return (px**2 + px * py) * (2 + push) + py**2 / 2 + x**2 * y + y**2 / 2

    sim = tp.compile(driven, dt=0.05, method=method)
    certificate, found = assert_true(sim.tpir, [0.3, 0.7, -0.2, 0.4])
    assert certificate.symplectic and certificate.consistent and not certificate.reversible
    assert bool(certificate.symmetric) == (method != "symplectic_euler")


# --- forces (numerics.md, 4) -------------------------------------------------------------------------
@pytest.mark.parametrize("twist", [0.0, 0.3])
def test_forces_are_volume_preserving_unless_shown_to_be_a_gradient(twist):
    @tp.forces
    def field(q: tp.Vec[2]):
        return tp.stack([-q[0] - twist * q[1] - q[0] * q[1] ** 2, -q[1] + twist * q[0] - q[0] ** 2 * q[1]])

    certificate, found = assert_true(tp.compile(field, dt=0.05).tpir, [0.3, -0.4, 0.2, 0.6])
    assert certificate.volume_preserving and certificate.symmetric and certificate.reversible
    assert bool(certificate.symplectic) == (twist == 0)
    if twist:
        assert found["symplectic"] > 1e-3 and "curl" in certificate.symplectic.because
        assert "q[0]" in certificate.symplectic.because and "q[1]" in certificate.symplectic.because


def test_a_force_without_a_derivative_is_volume_preserving():
    bump = tp.op("verifier_bump", lambda x: x * x * x)

    @tp.forces
    def field(q: tp.Vec[2]):
        return -bump(q)

    certificate = tp.compile(field, dt=0.1).certificate
    assert certificate.volume_preserving and not certificate.symplectic
    assert "could not be differentiated" in certificate.symplectic.because


def test_forces_on_many_bodies_are_not_tested_for_a_curl():
    @tp.forces
    def field(q: tp.Array[20, 3]):
        return -q

    certificate = tp.compile(field, dt=0.1).certificate
    assert certificate.volume_preserving and not certificate.symplectic
    assert "60 components are too many" in certificate.symplectic.because


# --- Runge–Kutta -------------------------------------------------------------------------------------
@pytest.mark.requirement("S2-57")
@pytest.mark.parametrize("method", ["euler", "midpoint", "rk4"])
def test_runge_kutta_methods_are_never_certified(method):
    """Not even where the defect is 1e-14, as for rk4 on an oscillator at dt = 0.01."""

    @tp.hamiltonian
    def oscillator(q, p):
        return p**2 / 2 + q**2 / 2

    @tp.hamiltonian
    def free(q, p):
        return p**2 / 2

    for system in (oscillator, free):
        certificate = tp.compile(system, dt=0.01, method=method).certificate
        assert system is free or certificate.level == "none", certificate
    assert run_dual(tp.compile(oscillator, dt=0.01, method="rk4").tpir, np.ones(2), 1, 0.01) is not None


def test_the_defect_of_rk4_on_an_oscillator_is_small_and_real():
    @tp.hamiltonian
    def oscillator(q, p):
        return p**2 / 2 + q**2 / 2

    program = tp.compile(oscillator, dt=0.01, method="rk4").tpir
    found = {h: symplectic_defect(program, [1.0, 0.3], h) for h in (0.5, 0.25)}
    assert np.log2(found[0.5] / found[0.25]) == pytest.approx(6, abs=0.3)


# --- systems: every yes on numbers ---------------------------------------------------------------------
@tp.hamiltonian
def oscillator(q, p, k=1.3):
    return p**2 / 2 + k * q**2 / 2


@tp.hamiltonian
def coupled(q: tp.Vec[2], p: tp.Vec[2]):
    return (p @ p + p[0] * p[1]) / 2 + q[0] ** 2 * q[1] ** 2 + q @ q


@tp.hamiltonian
def relativistic(q: tp.Vec[2], p: tp.Vec[2]):
    return tp.sqrt(1 + p @ p) + tp.exp(q[0] - q[1]) + q @ q / 2


@tp.hamiltonian
def chain(q: tp.Vec[4], p: tp.Vec[4], m: tp.Vec[4] = (1.0, 2.0, 1.0, 3.0)):
    bond = tp.diff(q, prepend=0.0, append=0.0)
    return (p**2 / (2 * m)).sum() + (bond**2).sum() / 2 + (bond**4).sum() / 4


@tp.hamiltonian
def three_bodies(q: tp.Array[3, 2], p: tp.Array[3, 2]):
    pull = sum(1 / tp.sqrt(((q[i] - q[j]) ** 2).sum() + 0.1) for i in range(3) for j in range(i))
    return (p**2).sum() / 2 - pull


@tp.hamiltonian(pairs=[("x", "px"), ("y", "py")])
def two_pairs(x, px, y: tp.Vec[2], py: tp.Vec[2]):
    return px**2 / 2 + py @ py / 2 + x * (y @ y) + x**2


@tp.hamiltonian
def driven_pendulum(q, p, t, a=0.4):
    return p**2 / 2 - tp.cos(q) - a * q * tp.cos(1.3 * t)


@tp.hamiltonian
def breathing(q, p, t):
    return p**2 / (2 + tp.cos(t)) + q**4 / 4


@tp.forces
def spring(q: tp.Vec[2], mass=2.0):
    return -q * (q @ q)


SYSTEMS = [
    oscillator,
    pendulum,
    kepler,
    henon_heiles,
    coupled,
    relativistic,
    chain,
    three_bodies,
    two_pairs,
    driven_pendulum,
    breathing,
    spring,
]


@pytest.mark.requirement("S2-42", "S3-14", "S2-57")
@pytest.mark.parametrize("method", ["symplectic_euler", "leapfrog_kdk", "leapfrog_dkd", "yoshida4"])
@pytest.mark.parametrize("system", SYSTEMS, ids=lambda s: s.name)
def test_every_splitting_of_every_system_is_what_its_certificate_says(system, method):
    sim = tp.compile(system, dt=0.05, method=method)
    params = {p.name: p.default for p in system.parameters}
    z = 0.4 + 0.3 * np.cos(np.arange(sum(s.var.size for s in system.states)) * 1.7)
    certificate, found = assert_true(sim.tpir, z, params=params)
    assert certificate.symplectic and certificate.volume_preserving and certificate.consistent
    assert bool(certificate.symmetric) == (method != "symplectic_euler")
    timed = system.time is not None
    assert bool(certificate.reversible) == (method != "symplectic_euler" and not timed)


@pytest.mark.requirement("S2-42", "S3-14")
@pytest.mark.parametrize("method", ["symplectic_euler", "leapfrog", "yoshida4"])
def test_the_named_methods_are_symplectic_to_1e_12(method):
    program = tp.compile(henon_heiles, dt=0.05, method=method).tpir
    assert defects(program, np.array([0.1, 0.2, 0.3, -0.1]), 0.05)["symplectic"] < 1e-12


def test_doubled_roundings_of_a_coefficient_are_not_a_reason_to_say_no():
    """1/3 written as a number is not the rational; its rounding must not cost the certificate."""

    @tp.hamiltonian
    def third(q: tp.Vec[2], p: tp.Vec[2]):
        return p @ p / 6 + (q[0] * q[1] / 3) ** 2 + q[0] ** 2 / 7

    assert tp.compile(third, dt=0.1).certificate.symplectic


# --- random programs: zero wrong yeses ------------------------------------------------------------------
class Writer:
    """Shears as text, with registers of their own."""

    def __init__(self, rng):
        self.rng, self.lines, self.count, self.versions = rng, [], 100, 0

    def value(self, e):
        """The operand that holds a nested expression, ("mul", a, b)."""
        if isinstance(e, str):
            return e
        name, *src = e
        operands = [self.value(s) for s in src]
        self.count += 1
        op = (
            f"TIME T{self.count}, {operands[0]}"
            if name == "time"
            else f"ELEM T{self.count}, {name}, {', '.join(operands)}"
        )
        self.lines.append(op)
        return f"T{self.count}"

    def flow(self, state, e, kind):
        self.versions += 1
        f, pair = f"F{state}.{self.versions}", state ^ 1
        value = self.value(e)
        if kind == "force":
            if not value.startswith("T"):
                value = self.value(("mul", value, "1.0"))
            self.lines.append(f"POISSON_J {f}, {value}, force")
        else:
            g = f"G{pair}.{self.versions}"
            self.lines += [f"GRAD_INIT {g}, {value}", f"POISSON_J {f}, {g}, {kind}"]
        return f


def times(c, e):
    return ("mul", str(float(c)), e)


Q1, P1, Q2, P2 = "S0", "S1", "S2", "S3"
V1 = {1: ("add", Q1, times(2, ("mul", Q1, Q2))), 3: ("add", Q2, ("sub", ("mul", Q1, Q1), ("mul", Q2, Q2)))}
V2 = {1: ("sin", Q1), 3: times(0, Q2)}
TWISTED = {1: ("add", Q1, times(0.3, Q2)), 3: ("sub", Q2, times(0.3, Q1))}
KINETIC = {0: ("add", P1, times(0.5, P2)), 2: ("add", P2, times(0.5, P1))}
ENERGY = """
ELEM T50, add, S3, S1
ELEM T51, mul, S1, T50
ELEM T52, mul, S3, S3
ELEM T53, add, T51, T52
ELEM E0, mul, T53, 0.5
ELEM T54, mul, S0, S0
ELEM T55, mul, S2, S2
ELEM T56, add, T54, T55
ELEM T57, mul, T56, 0.5
ELEM T58, mul, T54, S2
ELEM T59, mul, T55, S2
ELEM T60, div, T59, 3.0
ELEM T61, sub, T58, T60
ELEM E1, add, T57, T61
ELEM T62, cos, S0
ELEM E2, neg, T62
"""
TIMED_ENERGY = ENERGY.replace(
    "ELEM E2, neg, T62", "TIME T63, 0.0\nELEM T64, cos, T63\nELEM T65, mul, T62, T64\nELEM E2, neg, T65"
)


def random_block(rng, timed):
    """(covectors by state, kind of momentum flow): right ones often, wrong ones of every sort."""
    roll = rng.random()
    if roll < 0.4:
        return dict(KINETIC)
    if roll < 0.78:
        both = rng.random()
        clock = rng.choice(["0.0", "0.0", "0.5", "1.0", "1.0"])
        push = ("mul", V2[1], ("cos", ("time", clock))) if timed else V2[1]
        if both < 0.8:
            return {1: ("add", V1[1], push), 3: V1[3]}
        return dict(V1) if both < 0.85 else {1: push}
    wrong = [
        dict(TWISTED),  # a curl
        {0: Q2},
        {0: KINETIC[0]},
        {2: KINETIC[2]},  # a row alone
        {1: V1[1]},
        {3: V1[3]},  # an incomplete kick
        {k: times(-1, e) for k, e in V1.items()},  # the wrong sign
        {k: times(0.9, e) for k, e in V1.items()},
        {1: V1[1], 3: times(0.9, V1[3])},  # not one scalar
        {1: ("mul", P1, Q1)},
        {1: ("mul", P2, Q1)},  # holds momenta
        {0: P1, 3: Q2},
        {0: P1, 1: Q1},  # halves of two flows
        {0: ("mul", P1, Q2), 3: times(0.5, ("mul", P1, P1))},  # the flow of p1**2*q2/2: right, and not of H
        {0: ("mul", P1, Q2), 3: ("mul", P1, P1)},
        {k: ("mul", ("add", "$dt", "1.0"), e) for k, e in V1.items()},
    ]
    return rng.choice(wrong)


def random_program(rng):
    timed = rng.random() < 0.25
    w = Writer(rng)
    blocks = []
    if rng.random() < 0.25:  # a method, which what follows may spoil
        push = ("mul", V2[1], ("cos", ("time", rng.choice(["0.0", "0.5", "1.0"])))) if timed else V2[1]
        blocks = [(dict(KINETIC), 1), ({1: ("add", V1[1], push), 3: V1[3]}, 1)]
        rng.shuffle(blocks)
    for _ in range(0 if blocks else rng.choice([1, 2, 2, 2, 3, 4])):
        blocks.append((random_block(rng, timed), rng.choice([1, 1, 1, 1, 0.5, -0.5, 2])))
    if rng.random() < 0.5:  # a palindrome of whatever they are
        blocks = [
            *((b, w / 2) for b, w in blocks[:-1]),
            blocks[-1],
            *((b, w / 2) for b, w in reversed(blocks[:-1])),
        ]
    kind = "force" if rng.random() < 0.15 else "negate"

    def flows_of(covectors):
        out = []
        for s, e in covectors.items():
            sign = ("neg", e) if kind == "force" and s % 2 else e
            out.append((s, w.flow(s, sign, "pass" if s % 2 == 0 else kind)))
        return out

    def lengths(weight):
        roll = rng.random()
        if roll < 0.04:
            return times(weight, ("mul", "$dt", rng.choice([Q1, P2])))
        if roll < 0.08:
            return str(0.05 * weight)
        if roll < 0.12:
            return times(weight, ("mul", "$dt", "$dt"))
        return "$dt" if weight == 1 else times(weight, "$dt")

    def section(parts):
        w.lines = []
        early = None
        for k, (covectors, weight) in enumerate(parts):
            flows = early if early is not None else flows_of(covectors)
            early = flows_of(parts[k + 1][0]) if k + 1 < len(parts) and rng.random() < 0.08 else None
            h = lengths(weight)
            one = w.value(h)
            for s, f in flows:
                step = w.value(h) if rng.random() < 0.03 else one
                w.lines.append(f"SYMP_STEP S{s}, {f}, {step}")
        return "\n".join(w.lines)

    init, final = "", ""
    if rng.random() < 0.3:
        first = rng.choice(blocks)[0]
        amount = rng.choice([0.5, 0.25])
        init, final = (
            section([(first, amount)]),
            section([(first, -amount if rng.random() < 0.7 else amount)]),
        )
        if rng.random() < 0.5:
            blocks = [*blocks, (first, 2 * amount)]
    text = listing(section(blocks), init=init, final=final, energy=TIMED_ENERGY if timed else ENERGY, pairs=2)
    if rng.random() < 0.1 and init:  # a flow of init used in the step
        lines = text.splitlines()
        early = [x.split(", ")[1] for x in lines[: lines.index("step:")] if x.startswith("SYMP_STEP")]
        at = [k for k, x in enumerate(lines) if k > lines.index("step:") and x.startswith("SYMP_STEP")]
        k = rng.choice(at)
        s = lines[k].split()[1].strip(",")
        same = [f for f in early if f.startswith("F" + s[1:] + ".")]
        if same:
            lines[k] = ", ".join([f"SYMP_STEP {s}", same[0], lines[k].split(", ")[2]])
        text = "\n".join(lines)
    return parse(text)


@pytest.mark.slow("a wrong yes costs physics")
def test_no_random_program_is_certified_wrongly():
    """Right and wrong shears in random order: whatever is certified holds on numbers, for 1 and 3 steps."""
    rng = random.Random(20)
    yes = dict.fromkeys(STRUCTURES, 0)
    held = dict.fromkeys(STRUCTURES, 0)
    z = np.array([0.31, -0.42, 0.23, 0.57])
    for _ in range(250):
        program = random_program(rng)
        literal = "$dt" not in str(program.step)
        certificate, found = assert_true(program, z, literal=literal)
        for name in STRUCTURES:
            yes[name] += bool(certificate[name])
            held[name] += found[name] < 1e-10
    assert all(n > 10 for n in yes.values()), yes  # the test means something
    assert yes["symplectic"] > 0.5 * held["symplectic"], (yes, held)  # and the verifier is not just a no


@pytest.mark.parametrize("scale", ["off", "auto"])
def test_a_line_taken_out_or_doubled_or_swapped_is_never_certified_wrongly(scale):
    """Mutations of a compiled program: they fail, lose a claim, or keep it rightly."""

    @tp.hamiltonian(pairs=[("x", "px"), ("y", "py")])
    def system(x, px, y, py):
        return px**2 / 2 + py**2 / 2 + x**2 * y + x**2

    lines = str(tp.compile(system, dt=0.05, scale=scale).tpir).splitlines()
    lines = [x for x in lines if not x.startswith("claim")]
    assert any("SCALE" in x for x in lines) == (scale == "auto")
    lost = 0
    for k in range(lines.index("init:"), len(lines)):
        for changed in (
            [*lines[:k], *lines[k + 1 :]],
            [*lines[: k + 1], *lines[k:]],
            [*lines[:k], *reversed(lines[k : k + 2]), *lines[k + 2 :]],
        ):
            try:
                certificate, _ = assert_true(parse("\n".join(changed)), [0.4, -0.3, 0.2, 0.6])
                lost += not (certificate.symplectic and certificate.consistent)
            except VerifyError:
                lost += 1
    assert lost > 40


def mutated(rng, lines, begin):
    """A listing with one operand exchanged for another that is written there, or one word or number changed."""
    k = rng.choice(
        [k for k in range(begin, len(lines)) if lines[k].startswith("  ") and "OAD" not in lines[k]]
    )
    op, *operands = re.split(r"(?<=[A-Z]) |, ", lines[k].partition("  ;")[0].strip(), maxsplit=1)
    operands = operands[0].split(", ")
    n = rng.randrange(1, len(operands))
    words = {"add": "sub", "sub": "add", "mul": "add", "times": "over", "over": "times", "neg": "abs"}
    known = sorted({x for line in lines[begin:] for x in re.findall(r"(?<= )(?:[ST]\d+|\$\w+)(?=,|$)", line)})
    if operands[n] in words:
        operands[n] = words[operands[n]]
    elif re.fullmatch(r"[ST]\d+|\$\w+", operands[n]):
        operands[n] = rng.choice([*known, "0.5", "1.0", "-1.0"])
    elif re.fullmatch(r"-?\d+\.\d+", operands[n]):
        operands[n] = rng.choice(["1.0", "-1.0", "0.5", "2.0", *known])
    return [*lines[:k], f"  {op} {', '.join(operands)}", *lines[k + 1 :]]


@pytest.mark.parametrize("method", ["leapfrog", "symplectic_euler"])
def test_a_scaled_program_with_another_operand_is_never_certified_wrongly(method):
    """Factors forgotten, doubled, undone by another: refused, or right in the user's variables."""

    @tp.hamiltonian(pairs=[("x", "px"), ("y", "py")])
    def system(x, px, y, py, m: float = 1.0):
        return (px**2 + py**2) / (2 * m) + x**2 / 2 + y**2 / 2 + x**2 * y

    lines = str(tp.compile(system, dt=0.05, method=method, scale="auto").tpir).splitlines()
    lines = [x for x in lines if not x.startswith("claim")]
    rng, begin = random.Random(7), lines.index("init:")
    refused = wrong = right = 0
    for _ in range(120):
        try:
            program = parse("\n".join(mutated(rng, lines, begin)))
            certificate, _ = assert_true(program, [0.4, -0.3, 0.2, 0.6], params={"m": 1.3})
        except VerifyError:
            refused += 1
        else:
            wrong += not (certificate.symplectic and certificate.consistent)
            right += bool(certificate.symplectic and certificate.consistent)
    assert refused > 20 and wrong > 40 and right > 0, (refused, wrong, right)


# --- no honest energy is refused -------------------------------------------------------------------------
V = {
    "nothing": lambda q: 0.0,
    "cyclic": lambda q: q[0] ** 2,
    "yukawa": lambda q: -tp.exp(-tp.norm(q)) / tp.norm(q),
    "plummer": lambda q: -1 / (1 + q @ q) ** 0.5,
    "odd power": lambda q: (q @ q) ** 1.5,
    "power": lambda q: (1 + q @ q) ** 0.7,
    "deep power": lambda q: (1 + q @ q) ** -2.5,
    "inverse cube": lambda q: (q[0] ** 2 + 0.1) ** -3 + q[1],
    "Lennard-Jones": lambda q: 4 * (1 / (q @ q) ** 6 - 1 / (q @ q) ** 3),
    "Lennard-Jones in r": lambda q: 4 * ((1 / tp.norm(q)) ** 12 - (1 / tp.norm(q)) ** 6),
    "Morse": lambda q: (1 - tp.exp(-q[0])) ** 2,
    "where": lambda q: tp.where(q[0] < 0, q[0] ** 2 * q[1], q[0] ** 4),
    "where of a vector": lambda q: tp.where(q < 0, q**2, q**4).sum(),
    "abs": lambda q: abs(q[0]) ** 3,
    "min": lambda q: tp.minimum(q[0] ** 2, q[1] ** 2),
    "log": lambda q: tp.log(1 + q[0] ** 2 + q[1] ** 2 / 0.7**2) / 2,
    "tanh": lambda q: tp.tanh(q[0] * q[1]) + tp.sinh(q[0]) * tp.cosh(q[1]),
    "angle": lambda q: tp.arctan2(q[1], q[0]) ** 2,
    "Toda": lambda q: tp.sum(tp.exp(q - tp.roll(q, 1))),
    "product": lambda q: tp.prod(tp.sin(q)),
    "matrix": lambda q: q @ (np.arange(9.0).reshape(3, 3) @ q),
    "largest": lambda q: np.max(q) ** 2,
    "ratio": lambda q: (q[0] + q[1]) / (q[0] * q[0] + q[1] * q[1] + 1),
    "nested roots": lambda q: tp.sqrt(1 + tp.sqrt(1 + q @ q)) / (2 + tp.sin(q[0])),
    "cbrt": lambda q: tp.cbrt(1 + q @ q),
    "thirds": lambda q: (q[0] / 3 + q[1] / 7) ** 2 * 0.1,
    "clip": lambda q: np.clip(q, -1, 1).sum() + np.mean(q**2),
    "high power": lambda q: (q[0] + 2 * q[1] + q[2]) ** 20,
    "walls": lambda q: (tp.diff(q, prepend=0, append=0) ** 2).sum(),
}


@pytest.mark.parametrize("name", V)
def test_no_honest_energy_is_refused(name):
    """A missed yes here would be an energy that cannot be compiled at all."""

    @tp.hamiltonian
    def system(q: tp.Vec[3], p: tp.Vec[3]):
        return p @ p / 2 + V[name](q)

    certificate = tp.compile(system, dt=0.01, backend="python").certificate
    missing = {claim: verdict.because for claim, verdict in certificate.items() if not verdict}
    if name == "angle":  # it jumps by 2 pi
        assert "may jump" in missing.pop("consistent")
    assert not missing


@pytest.mark.parametrize("V", [np.sign, np.floor, lambda q: tp.where(q > 0, 1.0, 0.0)])
def test_a_jump_of_the_energy_is_not_certified_as_consistent(V):
    """It has no force, so that the energy jumps in a run: a drift of 0.67 with every other verdict yes."""

    @tp.hamiltonian
    def step(q, p):
        return p * p / 2 + V(q) + q * q / 2

    sim = tp.compile(step, dt=0.01)
    assert sim.certificate.symplectic and "exerts no force" in sim.certificate.consistent.because
    assert not sim.certificate.consistent and "where H is smooth" in str(sim.explain("full"))


@pytest.mark.parametrize("method", ["leapfrog", "yoshida4"])
def test_forces_that_jump_are_followed_where_they_are_continuous(method):
    """What moves the state is the user's field, also beside a jump; an energy would have a force on it as well."""

    @tp.forces
    def pushed(q: tp.Vec[2]):
        return -q + np.stack([0.0 * q[0], tp.where(q[0] > 0, 0.2, -0.2)])

    @tp.forces
    def spring(q: tp.Vec[2]):
        return -q

    found = tp.compile(pushed, dt=0.01, method=method).certificate
    assert found.consistent and "where it is continuous: " in found.consistent.because
    assert not found.symplectic and "may jump" in found.symplectic.because
    smooth = tp.compile(spring, dt=0.01, method=method).certificate
    assert smooth.consistent and smooth.symplectic and "continuous" not in smooth.consistent.because


def test_a_choice_between_two_forces_is_not_taken_for_one_of_them():
    """where(c, a, b) is c*a + (1 - c)*b, and c is not 1."""
    energy = (
        "ELEM T90, sq, S1\nELEM E0, mul, T90, 0.5\nELEM T91:bool[], lt, S0, 0.0\nELEM T92, sq, S0\nELEM T93, mul, T92, S0\n"
        "ELEM E1, where, T91, T92, T93"
    )
    both = "ELEM T0:bool[], lt, S0, {c}\nELEM T1, mul, S0, 2.0\nELEM T2, sq, S0\nELEM T3, mul, T2, {k}\nELEM T4, where, T0, T1, T3"
    force = "\nGRAD_INIT G0, T4\nPOISSON_J F1, G0, negate\nSYMP_STEP S1, F1, $dt"

    def consistent(c, k):
        certificate = verify(parse(listing(drift() + "\n" + both.format(c=c, k=k) + force, energy=energy)))
        return certificate.consistent.holds

    assert consistent("0.0", "3.0") and not consistent("1.0", "3.0") and not consistent("0.0", "2.0")


WANDERING = """program wandering
state S0 q f64[] position
state S1 p f64[] momentum of S0
param $dt f64[] = 0.1
energy:
  ELEM T0, mul, S1, S1
  ELEM E0, mul, T0, 0.5
  TIME T1, 0.0
  ELEM T2, sin, T1
  ELEM E1, mul, S0, T2
  ELEM T3, mul, S0, S0
  ELEM E2, mul, T3, 0.5
init:
  LOAD S0, &q
  LOAD S1, &p
  ELEM T9, mul, 0.5, $dt
  ELEM T20, mul, 0.25, $dt
  ELEM T21, mul, 0.75, $dt
step:
  GRAD_INIT G1, S1
  POISSON_J F0, G1, pass
  SYMP_STEP S0, F0, T9
  TIME T11, 0.0
  ELEM T12, sin, T11
  GRAD_INIT G0.1, T12
  POISSON_J F1.1, G0.1, negate
  SYMP_STEP S1, F1.1, T20
  GRAD_INIT G0.2, S0
  POISSON_J F1.2, G0.2, negate
  SYMP_STEP S1, F1.2, $dt
  TIME T13, 1.0
  ELEM T14, sin, T13
  GRAD_INIT G0.3, T14
  POISSON_J F1.3, G0.3, negate
  SYMP_STEP S1, F1.3, T21
  GRAD_INIT G1.1, S1
  POISSON_J F0.1, G1.1, pass
  SYMP_STEP S0, F0.1, T9
final:
  STORE &q, S0
  STORE &p, S1
"""


def test_a_clocked_kick_does_not_wander_past_what_it_commutes_with():
    """A quarter of a kick at the beginning and three at the end: the adjoint has them the other way round. Its slope is 1."""
    certificate = verify(parse(WANDERING))
    assert certificate.symplectic and certificate.consistent
    assert not certificate.symmetric and "palindrome" in certificate.symmetric.because
    even = WANDERING.replace("0.25, $dt", "0.5, $dt").replace("0.75, $dt", "0.5, $dt")
    assert verify(parse(even)).symmetric


def shortened(sim, op):
    """The listing with each operand of the first such line left out, and with all from there on."""
    lines = str(sim.tpir).splitlines()
    k = next(k for k, line in enumerate(lines) if op in line)
    parts = lines[k].split(",")
    for j in range(1, len(parts)):
        for kept in (parts[:j], parts[:j] + parts[j + 1 :]):
            yield "\n".join([*lines[:k], ",".join(kept), *lines[k + 1 :]])


@pytest.mark.parametrize("op", ["THERMO", "GYRATE", "SYMP_STEP", "ELEM"])
def test_a_line_with_too_few_operands_is_named(op):
    """An IndexError inside of a reader was what a malformed line gave."""

    @tp.hamiltonian
    def swing(q, p):
        return p * p / 2 - tp.cos(q)

    @tp.hamiltonian
    def turning(q: tp.Vec[3], p: tp.Vec[3]):
        a = np.stack([-q[1], q[0], 0.0]) / 2
        return (p - a) @ (p - a) / 2 + q @ q / 2

    how = dict(bath="bussi", temperature=1.0) if op == "THERMO" else {}
    sim = tp.compile(turning if op == "GYRATE" else swing, dt=0.1, **how)
    if op == "GYRATE" and op not in str(sim.tpir):
        sim = tp.compile(turning, dt=0.1, method="boris")
    assert verify(parse(str(sim.tpir)))
    for text in shortened(sim, op):
        with contextlib.suppress(tp.TinyPhysicsError):
            verify(parse(text))
