"""Does every level of the tower compute the same thing?  Each is run by its own interpreter and compared."""

from __future__ import annotations

import hashlib
import random
import subprocess

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics import tpir
from tinyphysics.device.host.cc import compiler
from tinyphysics.ir import UOp, evaluate, parse
from tinyphysics.rules.calculus.vjp import gradient
from tinyphysics.tpir.kernels.kernel import build_kernel


@tp.hamiltonian
def rotor(q: tp.Vec[2], p: tp.Vec[2], m: float = 1.5):
    return p @ p / (2 * m) - tp.cos(q[0] - q[1]) + tp.exp(-(q[0] ** 2))


START = dict(q=[0.4, 1.1], p=[0.5, -0.2])
STEPS, DT = 7, 0.05


@pytest.fixture(scope="module")
def sim():
    return tp.compile(rotor, dt=DT)


@pytest.fixture(scope="module")
def out(sim):
    return sim.evolve(**START, steps=STEPS)


@pytest.mark.requirement("S0-22", "S0-21", "S0-30")
def test_the_graph_stepped_by_hand_agrees_to_rounding(sim, out):
    """Level uop: the traced energy, read back from its text, differentiated and stepped as a textbook would."""
    (energy,) = parse(sim.ir("uop"))
    q, p = UOp.var("q", (2,)), UOp.var("p", (2,))
    slopes = gradient(energy, [q, p])
    x, v = np.array(START["q"]), np.array(START["p"])
    for _ in range(STEPS):
        for kick in (0.5, None, 0.5):
            dq, dp = (np.array(s) for s in evaluate(slopes, {"q": x.tolist(), "p": v.tolist(), "m": 1.5}))
            x, v = (x + DT * dp, v) if kick is None else (x, v - kick * DT * dq)
    assert np.allclose(x, out.final.q, rtol=1e-14) and np.allclose(v, out.final.p, rtol=1e-13)


@pytest.mark.requirement("S0-22", "S3-01", "S3-02")
def test_the_listing_run_on_the_virtual_machine_agrees_to_the_bit(sim, out):
    program = tpir.parse(sim.ir("tpir"))
    state = tpir.vm.run(program, START, STEPS)
    assert state == {"q": out.final.q.tolist(), "p": out.final.p.tolist()}


@pytest.mark.requirement("S0-22", "S0-23")
def test_the_kernel_evaluated_operation_by_operation_agrees_to_the_bit(sim, out):
    """Level kernel: scalar graphs of the minimal set, by ir/value.py."""
    k = build_kernel(sim.tpir)
    given = {"$m": 1.5, "$dt": DT, "$t0": 0.0, "n": 0.0}
    numbers = START["q"] + START["p"]

    def run(name, values):
        s = k.section(name)
        env = given | dict(zip((str(v.arg) for v in s.loads), values))
        env |= dict(zip((str(c.arg) for c in s.invariants), evaluate(list(s.invariants.values()), env)))
        return evaluate(list(s.roots), env)

    carried = run("init", numbers)
    for _ in range(STEPS):
        carried = run("step", carried)
    assert run("final", carried) == [*out.final.q, *out.final.p]


@pytest.mark.requirement("S0-22", "S0-08")
def test_the_c_listing_is_a_program_that_prints_the_hash(sim, out, tmp_path):
    (tmp_path / "rotor.c").write_text(sim.ir("c"))
    flags = ["-O1", "-ffp-contract=off", "-fwrapv", "-Wall", "-Werror"]
    subprocess.run([*compiler(), *flags, "rotor.c", "-o", "rotor", "-lm"], cwd=tmp_path, check=True)
    words = [str(STEPS), str(DT), "0", "1.5", *map(str, START["q"] + START["p"])]
    text = subprocess.run([tmp_path / "rotor", *words], capture_output=True, text=True, check=True).stdout
    assert text.splitlines()[-1] == out.hash
    assert subprocess.run([tmp_path / "rotor"], capture_output=True).returncode == 2


def test_machine_code_and_llvm_can_be_read(sim):
    assert "define void @step" in sim.ir("llvm") and "step:" in sim.ir("asm")
    assert "fma" in sim.ir("kernel")


# --- the Poisson tensor ------------------------------------------------------------------------------
def poisson(pairs: int) -> np.ndarray:
    """The matrix that POISSON_J is, read off the machine: flows of unit gradients."""
    n = 2 * pairs
    header = "\n".join(
        f"state S{2 * k} q{k} position\nstate S{2 * k + 1} p{k} momentum of S{2 * k}" for k in range(pairs)
    )
    loads = "\n".join(f"LOAD S{k}, &{'qp'[k % 2]}{k // 2}" for k in range(n))
    columns = []
    for j in range(n):
        body = [f"GRAD_INIT G{k}, {float(k == j)}" for k in range(n)]
        body += [f"POISSON_J F{k}, G{k ^ 1}, {'negate' if k % 2 else 'pass'}" for k in range(n)]
        body += [f"SYMP_STEP S{k}, F{k}, 1.0" for k in range(n)]
        stores = "\n".join(f"STORE &{'qp'[k % 2]}{k // 2}, S{k}" for k in range(n))
        text = f"program j\n{header}\ninit:\n{loads}\nstep:\n" + "\n".join(body) + f"\nfinal:\n{stores}"
        zero = {f"{'qp'[k % 2]}{k // 2}": 0.0 for k in range(n)}
        columns.append(list(tpir.vm.run(tpir.parse(text), zero, 1).values()))
    return np.array(columns).T


@pytest.mark.requirement("S3-13")
@pytest.mark.parametrize("pairs", [1, 2, 3])
def test_the_poisson_tensor_is_antisymmetric_and_squares_to_minus_one(pairs):
    """It is constant, so that antisymmetry is all that the Jacobi identity asks of it."""
    J = poisson(pairs)
    assert np.array_equal(J.T, -J) and np.array_equal(J @ J, -np.eye(2 * pairs))


@pytest.mark.requirement("S3-13")
def test_energy_does_not_change_along_its_own_flow():
    rng = random.Random(0)
    q, p = UOp.var("q", (2,)), UOp.var("p", (2,))
    slopes = gradient(rotor.energy, [q, p])
    J = poisson(2)
    for _ in range(50):
        env = {"q": [rng.gauss(0, 1) for _ in "xy"], "p": [rng.gauss(0, 1) for _ in "xy"], "m": 1.5}
        dq, dp = evaluate(slopes, env)
        g = np.array([dq[0], dp[0], dq[1], dp[1]])
        assert abs(g @ J @ g) < 1e-14


# --- what a run counts -------------------------------------------------------------------------------
@pytest.mark.requirement("S2-30", "S2-71")
def test_a_run_is_three_launches_and_observables_add_none_to_the_loop():
    """One to load, one that holds the whole time loop, one to synchronise; watching changes the loop, not their number."""
    sim = tp.compile(rotor, dt=DT, backend="llvm")
    plain = sim.evolve(**START, steps=1000, save_every=1000)
    assert plain.metrics["launches"] == 3
    sim.monitor(lambda p: (p**2).mean(), name="heat")
    watched = sim.evolve(**START, steps=1000, save_every=1000)
    assert watched.metrics["launches"] == 3 and watched.hash == plain.hash
    frames = sim.evolve(**START, steps=1000, save_every=1)
    assert np.allclose(watched["heat"], (frames.p**2).mean(axis=1), rtol=1e-15)
    assert watched["heat"].shape == (1001,) and watched.q.shape == (2, 2)


@pytest.mark.requirement("S1-47")
def test_the_hash_of_a_known_state_is_known(sim):
    start = sim.evolve(q=[1.0, 2.0], p=[3.0, 4.0], steps=0)
    outer = hashlib.blake2b(digest_size=16)
    for numbers in ([1.0, 2.0], [3.0, 4.0]):
        data = np.array(numbers, "<f8").tobytes()
        outer.update(b"<f8(2,)" + hashlib.blake2b(data, digest_size=16).digest())
    assert start.hash == outer.hexdigest() == "d1be46c3f235cfdb25009647c4ea97fc"


@pytest.mark.requirement("S1-48")
def test_members_that_blow_up_are_counted():
    @tp.hamiltonian
    def falls(q, p):
        return p**2 / 2 - q**4

    out = tp.compile(falls, dt=0.1).evolve(q=[0.0, 1.0, 2.0], p=[0.0, 1.0, 1.0], steps=100)
    assert out.metrics["not_finite"] == len(out.stops) == 2
