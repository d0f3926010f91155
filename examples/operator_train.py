"""Learn a matrix from what it does: 100 steps of gradient descent, each of them one map.

    python examples/operator_train.py

A pair (z, W* z) is shown to each member of the map at every step; the gradient of |W z - y|^2 / 2 is (W z - y) z^T.
The rows of W are learned side by side. It writes metrics.json and sheet_energy.npy, the energy of W z in four bands.
"""

import json
from pathlib import Path
from tempfile import gettempdir

import numpy as np

import tinyphysics as tp

D, BANDS, STEPS = 16, 4, 100


@tp.map
def descend(row: tp.Vec[16], y, loss, z: tp.Vec[16], rate: float = 1.0):
    error = row @ z - y
    return row - (rate / (z @ z)) * error * z, y, error * error / 2


start = dict(row=np.zeros((D, D)), y=np.ones(D), loss=np.zeros(D), z=np.ones(D))

if __name__ == "__main__":
    rng = np.random.default_rng(1)
    true = rng.normal(size=(D, D)) / np.sqrt(D)
    learned, losses, sheet = np.zeros((D, D)), [], []
    sim = tp.compile(descend)
    feature = tp.operators.REGISTRY["qfeat_fp64"].bind(D=D, B=BANDS, band_size=D // BANDS)
    seen = feature.new_buffers()

    for _ in range(STEPS):
        z = rng.normal(size=D)
        out = sim.evolve(row=learned, y=true @ z, loss=np.zeros(D), z=z, steps=1)
        learned = out.final.row
        losses.append(float(out.final.loss.sum()))
        seen["z"][:] = learned @ z
        feature(seen)
        sheet.append(seen["feat"].copy())

    folder = Path(gettempdir())
    np.save(folder / "sheet_energy.npy", np.array(sheet))
    off = float(np.linalg.norm(learned - true) / np.linalg.norm(true))
    (folder / "metrics.json").write_text(
        json.dumps({"steps": STEPS, "loss": losses, "off": off, "hash": out.hash})
    )
    first, last = np.mean(losses[:10]), np.mean(losses[-10:])
    print(f"loss {first:.3g} in the first ten steps, {last:.3g} in the last ten; W is off by {off:.2%}")
    print(f"wrote metrics.json and sheet_energy.npy {np.array(sheet).shape}")
    assert last < first / 10
