"""Z = W z + b, 20,000 times, and nothing else: no grid, no transform.  What of a state is kept are energies of bands.

    python examples/operator_loop.py [STEPS]

It writes sheet_energy.npy, a row for every hundredth step and a column for each band, and draws it.
"""

import sys
from pathlib import Path
from tempfile import gettempdir

import numpy as np

import tinyphysics as tp

D, BANDS = 16, 4
rows = tp.operators.row_times.bind({"n": D})  # the map: a member is a row of W

# A rotation in eight planes, slowly damped, and a push.
w = np.zeros((D, D))
for k, a in enumerate(0.01 * np.arange(1, D // 2 + 1)):
    w[2 * k : 2 * k + 2, 2 * k : 2 * k + 2] = [[np.cos(a), -np.sin(a)], [np.sin(a), np.cos(a)]]
w *= 0.9995

start = dict(w=w, b=np.full(D, 1e-3), z_next=np.zeros(D), z_curr=np.ones(D))

if __name__ == "__main__":
    steps = int(sys.argv[1]) if sys.argv[1:] else 20_000
    step = tp.operators.REGISTRY["operator_step"].bind(D=D)
    feature = tp.operators.REGISTRY["qfeat_fp64"].bind(D=D, B=BANDS, band_size=D // BANDS)
    now, seen = step.new_buffers(), feature.new_buffers()
    now["w"][:], now["b"][:], now["z_curr"][:] = w, 1e-3, 1.0

    sheet = []
    for n in range(steps):
        step(now)
        now["z_curr"], now["z_next"] = now["z_next"], now["z_curr"]
        if n % 100 == 0:
            seen["z"][:] = now["z_curr"]
            feature(seen)
            sheet.append(seen["feat"].copy())

    path = Path(gettempdir()) / "sheet_energy.npy"
    np.save(path, np.array(sheet))
    print(f"{steps:,} steps of {step.operator.name} {step.operator.version}, kernel {step.hash[:12]}")
    print(f"wrote {path.name} {np.array(sheet).shape}: energy of each band over time")
    shades = np.array(list(" .:-=+*#%@"))
    scaled = np.log(np.array(sheet)[:: max(1, len(sheet) // 72)].T)
    scaled = (scaled - scaled.min()) / (np.ptp(scaled) or 1.0)
    for band in scaled:
        print("".join(shades[np.round(band * 9).astype(int)]))

    fixed = np.linalg.solve(np.eye(D) - w, now["b"])
    print(f"distance from the fixed point: {np.linalg.norm(now['z_curr'] - fixed):.2e}")
    assert np.linalg.norm(now["z_curr"] - fixed) < np.linalg.norm(1.0 - fixed)
