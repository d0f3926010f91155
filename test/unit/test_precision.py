"""What does a run in float32 mean?  Where numbers are rounded, what stays float64, and what is refused."""

from __future__ import annotations

import pickle
import re
import subprocess

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.runtime.engines.backend import lane_engine
from tinyphysics import tpir
from tinyphysics.device.host.arrays import ArraysLoader
from tinyphysics.device.host.cc import compiler
from tinyphysics.ir import f32, f64
from tinyphysics.ir.dtype import round_f32
from tinyphysics.runtime.state.digest import state_hash
from tinyphysics.runtime.engines.loaders import CLoader, LlvmLoader
from tinyphysics.runtime.measure.symplecticity import measure_symplectic
from tinyphysics.tpir.precision.precision import fits, in_reals, retyped
from tinyphysics.physics.zoo import kepler

BACKENDS = ("python", "llvm", "c", "numpy")


@tp.hamiltonian
def curved(q: tp.Vec[2], p: tp.Vec[2]):
    """Its derivatives have other constants than itself: 0.1, 0.3 and 0.7 round each in its own way."""
    return p @ p / 2 + 0.1 * q[0] ** 3 * q[1] + 0.7 * q[1] ** 4


@tp.hamiltonian
def driven(q, p, t, m: float = 2.0):
    return p**2 / (2 * m) + tp.cos(q) * (1 + 0.1 * tp.sin(t))


@tp.map
def counted(x, t):
    return x + 0 * t


START = dict(q=[1.0, 0.1], p=[0.05, 1.2])


def single(system=kepler, dt=0.02, **options):
    return tp.compile(system, dt=dt, precision="float32", **options)


# --- where numbers are rounded ------------------------------------------------------------------------
@pytest.mark.parametrize("backend", BACKENDS)
def test_inputs_are_rounded_once_also_without_a_step(backend):
    out = single(backend=backend).evolve(**START, steps=0)
    assert out.final.q.dtype == np.float32 and out.q.dtype == np.float32 and out.p.shape == (1, 2)
    rounded = {name: np.array(v, np.float32) for name, v in START.items()}
    assert np.array_equal(out.final.q, rounded["q"]) and np.array_equal(out.final.p, rounded["p"])
    assert out.hash == state_hash(rounded) != tp.compile(kepler, dt=0.02).evolve(**START, steps=0).hash


def test_one_step_is_one_float32_operation_for_each_of_the_program():
    """Leapfrog on an oscillator by hand, with numbers as wide as float32 after every operation."""

    @tp.hamiltonian
    def oscillator(q, p):
        return p**2 / 2 + 0.3 * q**2

    h, k = np.float32(0.1), np.float32(0.6)  # 0.3*2 is one constant of the step, rounded once
    q, p = np.float32(0.7), np.float32(-0.4)

    def shear(state, flow, step):
        """In float64 the product is exact; for numbers of this size the sum is too, and is rounded once."""
        exact = np.float64(flow) * np.float64(step) + np.float64(state)
        return np.float32(exact)

    p = shear(p, -(k * q), np.float32(0.5) * h)
    q = shear(q, p, h)
    p = shear(p, -(k * q), h)
    p = shear(p, -(k * q), np.float32(-0.5) * h)
    out = single(oscillator, dt=0.1).evolve(q=0.7, p=-0.4, steps=1)
    assert out.final.q == q and out.final.p == p


TIE = """program tie
state S0 q f32[] position
state S1 p f32[] momentum of S0
init:
  LOAD S0:f32[], &q
  LOAD S1:f32[], &p
step:
  GRAD_INIT G1:f32[], S1
  POISSON_J F0:f32[], G1, pass
  SYMP_STEP S0:f32[], F0, {h!r}
final:
  STORE &q, S0
  STORE &p, S1
"""


def test_a_shear_is_rounded_once():
    """2**32 + 1 = 641 * 6700417, so q + h*p is 2**-56 above the middle of two float32: float64 would lose that."""
    h, p = 641 * 2.0**-28, 6700417 * 2.0**-28
    assert h * p == 2.0**-24 + 2.0**-56 and round_f32(1.0 + h * p) == 1.0  # twice rounded, to even
    program = tpir.parse(TIE.format(h=h))
    ends = {"vm": tpir.vm.run(program, {"q": 1.0, "p": p}, 1)["q"]}
    for name, loader in (("llvm", LlvmLoader()), ("c", CLoader()), ("numpy", ArraysLoader())):
        engine = lane_engine(program, loader)
        m = engine.start({"q": np.ones(3), "p": np.full(3, p)}, {}, 3, 1.0, 0.0)
        engine.advance(m, 1)
        ends[name] = engine.synchronised(m)["q"][2]
    assert set(ends.values()) == {1.0 + 2.0**-23}, ends


def test_constants_are_written_in_full_and_rounded_where_they_are_read():
    text = single(curved).ir("tpir")
    assert "0.3" in text and "0.30000001" not in text and "f32[2]" in text and "f64" not in text
    assert "0.30000001192092896" in single(curved).ir("kernel")


def test_dt_is_a_parameter_like_any_other_and_time_is_not_made_of_it():
    out = single(dt=0.1).evolve(**START, steps=1000, save_every=100)
    assert out.t.dtype == np.float64 and out.t[-1] == 100.0 and out.final.t == 100.0
    exact = single(dt=float(np.float32(0.1))).evolve(**START, steps=1000)
    assert exact.hash == out.hash and exact.final.t == 1000 * float(np.float32(0.1)) != 100.0


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_clock_counts_in_float64_and_is_rounded_once(backend):
    @tp.map
    def clock(x, t):
        return 0 * x + t / 3

    @tp.hamiltonian
    def pushed(q, p, t):
        return p**2 / 2 - q * t

    counted_to = tp.compile(clock, precision="float32", backend=backend).evolve(x=0.0, steps=8).final.x
    assert counted_to == np.float32(7) / np.float32(3)
    sim = single(
        pushed, dt=0.1, backend=backend, method="symplectic_euler"
    )  # drifts, then kicks at the end of the step
    p = sim.evolve(q=0.0, p=0.0, steps=99, save_every=1).p
    t = np.float32(0.1 * np.arange(1, 100))
    sums = p[:-1].astype(float) + t.astype(float) * np.float32(0.1)
    assert np.array_equal(p[1:], sums.astype(np.float32))
    assert not np.array_equal(
        t, np.arange(1, 100, dtype=np.float32) * np.float32(0.1)
    )  # control: another time


# --- what stays float64 -----------------------------------------------------------------------------------
def test_energies_and_observables_are_float64_functions_of_the_float32_state():
    out = single().evolve(
        **START, steps=300, save_every=50, observe={"r": lambda q: tp.norm(q), "now": lambda t: t}
    )
    q, p = out.q.astype(float), out.p.astype(float)
    energy = (p * p).sum(axis=1) / 2 - 1 / np.sqrt((q * q).sum(axis=1))
    assert out.energy.dtype == np.float64 and np.allclose(out.energy, energy, rtol=1e-15)
    assert out["r"].dtype == np.float64 and np.allclose(
        out["r"][::50], np.sqrt((q * q).sum(axis=1)), rtol=1e-15
    )
    assert np.array_equal(out["now"], out.times("r")) and out["now"].dtype == np.float64
    t, energies, scale = out.every_step("energy")
    assert np.array_equal(energies[::50], out.energy) and energies.dtype == np.float64
    assert out.drift() == abs(energies - energies[0]).max() / scale


def test_the_drift_shows_the_run_and_not_the_rounding_of_the_energy():
    """From step to step the energy changes by less than the 3e-8 between two float32 numbers of its size."""
    _, energies, _ = single(dt=1 / 4096).evolve(q=[1.0, 0.0], p=[0.0, 1.0], steps=16).every_step()
    changes = np.abs(np.diff(energies))
    assert changes.min() < 1e-12 and abs(np.spacing(np.float32(energies[0]))) > 2.9e-8


def test_an_observable_changes_no_bit():
    plain = single().evolve(**START, steps=200)
    watched = single().evolve(
        **START, steps=200, observe={"E": "energy", "sin": lambda q: tp.sin(1e30 * q[0])}
    )
    assert watched.hash == plain.hash and np.isfinite(watched["sin"]).all()


# --- the program ------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "system, options",
    [
        (kepler, {}),
        (curved, dict(order=4)),
        (driven, dict(order=8)),
        (driven, dict(method="rk4")),
        (kepler, dict(method="euler")),
    ],
    ids=str,
)
def test_the_listing_carries_the_precision_reads_back_and_has_the_certificate_of_float64(system, options):
    sim, wide = single(system, **options), tp.compile(system, dt=0.02, **options)
    program = tpir.parse(sim.ir("tpir"))
    assert program == sim.tpir and program.hash == sim.tpir.hash != wide.tpir.hash
    assert str(tpir.verify(program)) == str(sim.certificate) == str(wide.certificate)
    assert in_reals(program) == wide.tpir == retyped(program, f32, f64)
    assert sim.explain("full").to_dict()["plan"]["precision"]["verdict"] == "float32"


def test_types_that_do_not_fit_are_refused_as_they_are_written():
    text = single().ir("tpir")
    mixed = text.replace("ELEM T14:f32[2], mul", "ELEM T14:f64[2], mul")
    assert mixed != text
    with pytest.raises(tp.VerifyError, match=r"T14:f64\[2\]"):
        tpir.verify(tpir.parse(mixed))
    with pytest.raises(tp.VerifyError, match="1e-50, which is out of the range"):
        tpir.verify(tpir.parse(text.replace("mul, 0.5, $dt", "mul, 1e-50, $dt")))
    with pytest.raises(tp.VerifyError, match="one type"):
        tpir.verify(tpir.parse(text.replace("state S1 p f32[2]", "state S1 p f64[2]")))


def test_a_certificate_is_refused_to_a_float32_program_too():
    text = single().ir("tpir")
    (half,) = re.findall(r"ELEM (T\d+):f32\[\], mul, 0.5, \$dt", text)
    program = tpir.parse(text.replace("SYMP_STEP S0:f32[2], F0, $dt", f"SYMP_STEP S0:f32[2], F0, {half}"))
    with pytest.raises(tp.VerifyError, match="total weight 0.5"):
        tpir.verify(program)


def test_what_is_measured_is_the_step_and_not_its_rounding():
    """Constants of float32 would show as a curl of 1e-9 here, those of float64 show as 1e-19."""
    assert measure_symplectic(single(), **START).symplectic
    assert not measure_symplectic(single(method="rk4"), **START).symplectic
    assert max(measure_symplectic(single(curved), q=[0.3, 0.4], p=[0.5, 0.2]).values) < 1e-18


@pytest.mark.parametrize(
    "system, words, start",
    [
        (kepler, ["1.3", "1.0", "0.1", "0.05", "1.2"], dict(mu=1.3, **START)),
        (driven, ["1.7", "0.4", "0.3"], dict(m=1.7, q=0.4, p=0.3)),
    ],
    ids=["kepler", "driven"],
)
def test_the_c_listing_prints_the_hash(system, words, start, tmp_path):
    sim = single(system)
    (tmp_path / "run.c").write_text(sim.ir("c"))
    flags = ["-O1", "-ffp-contract=off", "-fwrapv", "-Wall", "-Werror"]
    subprocess.run([*compiler(), *flags, "run.c", "-o", "run", "-lm"], cwd=tmp_path, check=True)
    for steps in (0, 25):
        text = subprocess.run(
            [tmp_path / "run", str(steps), "0.02", "0.5", *words], capture_output=True, text=True, check=True
        )
        assert text.stdout.splitlines()[-1] == sim.evolve(steps=steps, t0=0.5, **start).hash


def test_the_listings_hold_floats():
    sim = single()
    assert "x float>" in sim.ir("llvm") and "double>" not in sim.ir("llvm")
    assert "float v" in sim.ir("c") and "double v" not in sim.ir("c")
    assert "x double>" in tp.compile(kepler, dt=0.02).ir("llvm")  # control: the words are there to be found


# --- runs ---------------------------------------------------------------------------------------------------
def test_a_float32_simulation_is_saved_pickled_and_estimated(tmp_path):
    sim = single(order=4, backend="llvm")
    sim.save(tmp_path / "kepler")
    again = [tp.load(tmp_path / "kepler"), pickle.loads(pickle.dumps(sim))]
    runs = [s.evolve(**START, steps=20) for s in (sim, *again)]
    assert len({r.hash for r in runs}) == 1 and all(s.goal.precision == "float32" for s in again)
    assert np.array_equal(pickle.loads(pickle.dumps(runs[0])).q, runs[0].q)
    assert runs[0].metrics["precision"] == "float32"
    need = [s.estimate(steps=100, members=1000)["bytes"] for s in (sim, tp.compile(kepler, dt=0.02))]
    assert need[1] == 2 * need[0]


def test_a_file_of_before_is_float64(tmp_path):
    tp.compile(kepler, dt=0.02).save(tmp_path / "old")
    text = (tmp_path / "old").read_text()
    (tmp_path / "old").write_text(text.replace(',\n  "precision": "float64"', ""))
    assert "precision" not in (tmp_path / "old").read_text()
    assert tp.load(tmp_path / "old").evolve(**START, steps=1).q.dtype == np.float64


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_frame_is_the_end_of_a_shorter_run(backend):
    sim = single(backend=backend)
    out = sim.evolve(**START, steps=21, save_every=7)
    assert all(np.array_equal(out.q[k], sim.evolve(**START, steps=7 * k).final.q) for k in range(4))


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_member_that_leaves_the_range_of_float32_stops_alone(backend):
    @tp.hamiltonian
    def falls(q, p):
        return p**2 / 2 - q**4

    out = single(falls, dt=0.1, backend=backend).evolve(q=[0.0, 1.0, 2.0], p=[0.0, 1.0, 1.0], steps=40)
    assert sorted(s.member for s in out.stops) == [1, 2] and out.stopped.member == 2
    assert np.isfinite(out.final.q).all() and out.final.q.dtype == np.float32
    wide = tp.compile(falls, dt=0.1, backend=backend).evolve(q=[0.0, 1.0, 2.0], p=[0.0, 1.0, 1.0], steps=40)
    assert out.stopped.step < wide.stopped.step  # float64 reaches further


def test_control_float32_is_not_float64_rounded():
    short, wide = (
        tp.compile(kepler, dt=0.02, precision=x).evolve(**START, steps=50) for x in ("float32", "float64")
    )
    assert not np.array_equal(short.final.q, wide.final.q.astype(np.float32))
    assert np.allclose(short.final.q, wide.final.q, rtol=1e-5) and short.hash != wide.hash


# --- what is refused ------------------------------------------------------------------------------------------
def tiny(q, p):
    return p * p / 2 + 1e-50 * q**4


def sharp(q, p):
    return p * p / 2 + tp.where(abs(q) < 1e-50, 0.0, q**4)


# fmt: off
REFUSED = [
    (lambda: single(tp.hamiltonian(tiny)),                                 tp.PlanError,  "out of the range of float32"),
    (lambda: single(tp.hamiltonian(sharp)),                                tp.PlanError,  "out of the range of float32"),
    (lambda: single().evolve(q=[1e39, 0], p=[0, 1], steps=1),              tp.InputError, "`q` is not finite in float32"),
    (lambda: single().evolve(**START, mu=1e39, steps=1),                   tp.InputError, "`mu` is not finite in float32"),
    (lambda: single().evolve(**START, mu=1e-60, steps=1),                  tp.InputError, "`mu` is too small in float32"),
    (lambda: single().evolve(**START, mu=1.1e-40, steps=1),                tp.InputError, "`mu` is too small in float32"),
    (lambda: single().evolve(**START, dt=1e-60, steps=1),                  tp.InputError, "out of the range of float32"),
    (lambda: single(driven).evolve(q=1.0, p=0.0, steps=1, t0=1e6),         tp.InputError, "cannot distinguish t from t . dt"),
    (lambda: tp.compile(counted, precision="float32").evolve(x=0.0, steps=2**24 + 1), tp.InputError, "cannot distinguish t"),
]
# fmt: on


@pytest.mark.parametrize("attempt, kind, message", REFUSED, ids=[m for *_, m in REFUSED])
def test_what_float32_cannot_hold_is_refused(attempt, kind, message):
    with pytest.raises(kind, match=message):
        attempt()


def test_what_does_not_depend_on_time_may_run_for_as_long_as_it_likes():
    assert single().evolve(**START, steps=3, t0=1e12).final.t == 1e12 + 0.06


def test_a_number_fits_where_rounding_it_loses_no_more_than_a_rounding():
    assert (
        fits(0.1, f32)
        and fits(-3e38, f32)
        and fits(0.0, f32)
        and fits(float("inf"), f32)
        and fits(2.0**-149, f32)
    )
    assert not fits(1e39, f32) and not fits(1e-46, f32) and not fits(1.1e-40, f32)
    assert fits(1e-300, f64)
