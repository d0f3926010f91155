"""Heavy tops against C by hand, SciPy and MuJoCo: 65,536 of them, one thread each.

`python bench/tops.py` compiles bench/tops.c with gcc -O3 -march=native -ffast-math and runs both in turn; the smallest times
of CPU count. `evolve` is timed as a whole, with its first and last frame. SciPy solves one top to 1e-9. MuJoCo (pip install
mujoco; left out where it is not there) steps free bodies with its default integrator: each alone in a model, as its `rollout`
runs an ensemble, with all options left as they are and with contacts and constraints switched off, and 100 in one model.
"""

from __future__ import annotations

import argparse
import ctypes
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np

import tinyphysics as tp
from tinyphysics.physics import rigid

FLAGS = ("-O3", "-march=native", "-ffast-math", "-fopenmp-simd", "-shared", "-fPIC")
MOMENTS, MGL, DT = np.array([1.0, 1.0, 0.5]), 1.0, 0.02


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tops", type=int, default=65_536)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--times", type=int, default=5)
    asked = parser.parse_args()
    n, steps = asked.tops, asked.steps
    rng = np.random.default_rng(0)
    R = rng.normal(size=(n, 4))
    R /= np.linalg.norm(R, axis=1)[:, None]
    L = rng.normal(size=(n, 3))
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "tops.so"
        source = Path(__file__).with_suffix(".c")
        subprocess.run(["gcc", *FLAGS, "-o", str(made), str(source), "-lmvec", "-lm"], check=True)
        by_hand = ctypes.CDLL(str(made)).tops
    sim = tp.compile(rigid.heavy_top, dt=DT, checks="off")
    best = {"C by hand": np.inf, "tinyphysics": np.inf}
    for _ in range(asked.times):
        z = np.ascontiguousarray(np.concatenate([R, L], axis=1).T)
        began = time.process_time()
        by_hand(
            z.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(n), ctypes.c_long(steps), ctypes.c_double(DT),
            *(ctypes.c_double(1 / x) for x in MOMENTS), ctypes.c_double(MGL),
        )  # fmt: skip
        best["C by hand"] = min(best["C by hand"], time.process_time() - began)
        began = time.process_time()
        out = sim.evolve(R=R, L=L, steps=steps, frames=2, threads=1)
        best["tinyphysics"] = min(best["tinyphysics"], time.process_time() - began)
    off = np.abs(out.final.L - z[4:].T).max()
    for name, seconds in best.items():
        print(f"{name:12} {1e9 * seconds / (n * steps):7.2f} ns a top and step")
    print(f"ratio {best['tinyphysics'] / best['C by hand']:.2f}; momenta agree to {off:.0e}")
    ours = best["tinyphysics"] / (n * steps)
    seconds, count = by_scipy(R[0], L[0], steps * DT)
    print(
        f"SciPy, DOP853 to 1e-9: {1e9 * seconds / steps:.0f} ns for a time of {DT}, {count} evaluations in all"
    )
    for bodies, disabled in ((1, False), (1, True), (100, True)):
        found = by_mujoco(bodies, 20_000 // bodies, disabled)
        if found is None:
            print("MuJoCo is not installed: pip install mujoco")
            break
        version, each, gained = found
        model = "alone in its model" if bodies == 1 else f"of {bodies} in one model"
        options = "contacts and constraints off" if disabled else "default options"
        print(
            f"MuJoCo {version}, a free body {model}, {options}: {1e9 * each:.0f} ns a body and step, "
            f"{each / ours:.0f} times a heavy top here; its energy changed by {100 * gained:.1f} %"
        )


def by_scipy(R: np.ndarray, L: np.ndarray, end: float) -> tuple[float, int]:
    """(seconds, evaluations) of one heavy top."""
    from scipy.integrate import solve_ivp

    def rates(t: float, z: np.ndarray) -> list[float]:
        w, x, y, v, *own = z.tolist()
        a, b, c = own[0] / MOMENTS[0], own[1] / MOMENTS[1], own[2] / MOMENTS[2]
        up = (
            2 * (x * v - w * y),
            2 * (y * v + w * x),
            w * w - x * x - y * y + v * v,
        )  # the vertical, as the body sees it
        turn = (-x * a - y * b - v * c) / 2, (w * a + y * c - v * b) / 2, (w * b + v * a - x * c) / 2
        torque = MGL * up[1], -MGL * up[0]
        return [
            *turn, (w * c + x * b - y * a) / 2,
            own[1] * c - own[2] * b + torque[0], own[2] * a - own[0] * c + torque[1], own[0] * b - own[1] * a,
        ]  # fmt: skip

    began = time.process_time()
    found = solve_ivp(rates, (0.0, end), np.concatenate([R, L]), method="DOP853", rtol=1e-9, atol=1e-12)
    return time.process_time() - began, found.nfev


def by_mujoco(bodies: int, steps: int, disabled: bool) -> tuple[str, float, float] | None:
    """(version, seconds a body and step, what the energy gained) of free bodies; None where it is not installed."""
    try:
        import mujoco
    except ImportError:
        return None
    moments = np.array([1.0, 1.3, 1.6])
    inertia = '<inertial pos="0 0 0" mass="1" diaginertia="1 1.3 1.6"/>'
    world = "".join(f'<body pos="{3 * k} 0 0"><freejoint/>{inertia}</body>' for k in range(bodies))
    flags = '<flag contact="disable" constraint="disable"/>' if disabled else ""
    option = f'<option timestep="0.01" gravity="0 0 0">{flags}</option>'
    model = mujoco.MjModel.from_xml_string(f"<mujoco>{option}<worldbody>{world}</worldbody></mujoco>")
    data = mujoco.MjData(model)
    turning = data.qvel.reshape(bodies, 6)[:, 3:]
    turning[:] = np.random.default_rng(0).normal(size=(bodies, 3))
    first = (moments * turning**2).sum()
    began = time.process_time()
    mujoco.mj_step(model, data, steps)
    took = time.process_time() - began
    gained = float((moments * turning**2).sum() / first - 1)
    for _ in range(2):  # the least, as of the others
        began = time.process_time()
        mujoco.mj_step(model, data, steps)
        took = min(took, time.process_time() - began)
    return mujoco.__version__, took / (bodies * steps), gained


if __name__ == "__main__":
    main()
