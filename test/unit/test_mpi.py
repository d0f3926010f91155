"""One system on the processes of mpiexec, on this machine: one hash for 1, 2 and 3 of them, and bytes that are counted."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mpi4py", reason="needs MPI: pip install 'tinyphysics[mpi]'")
MPIEXEC = shutil.which(
    "mpiexec", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
)
pytestmark = [
    pytest.mark.all,
    pytest.mark.slow("processes are started"),
    pytest.mark.skipif(MPIEXEC is None, reason="needs mpiexec: pip install 'tinyphysics[mpi]'"),
]
SYSTEMS = """
import json, sys
import numpy as np
import tinyphysics as tp

@tp.hamiltonian
def wave(q: tp.Array["n", "m"], p: tp.Array["n", "m"]):
    return ((p**2).sum() + sum(((np.roll(q, -1, axis) - q) ** 2).sum() for axis in (0, 1))) / 2

@tp.hamiltonian
def gravity(q: tp.Array["n", 3], p: tp.Array["n", 3], eps: float = 0.05):
    d = q[:, None] - q[None, :]
    return (p**2).sum() / 2 - tp.pair_sum(1 / np.sqrt((d**2).sum(-1) + eps**2)) / 1000

rng = np.random.default_rng(0)
"""
RUN = (
    SYSTEMS
    + """
made = {"wave": (wave, (512, 512), {"propagator": "loop"}), "gravity": (gravity, (1500, 3), {})}
system, shape, more = made[sys.argv[1]]
sim = tp.compile(system, dt=0.01, **more)
out = sim.evolve(q=rng.normal(size=shape), p=rng.normal(size=shape), steps=20, frames=3, hash_every=7, on=sys.argv[2])
told = out.metrics.get("cluster", {"rank": 0})
with open(f"{sys.argv[3]}/{told['rank']}", "w") as file:
    json.dump([out.hash, out.hashes, told], file)
"""
)


def started(text, ranks, *words):
    """The lines that so many processes print."""
    line = [MPIEXEC, "-n", str(ranks), sys.executable, "-c", text, *words]
    done = subprocess.run(line, capture_output=True, text=True, timeout=300)
    return done.returncode, done.stdout.splitlines(), done.stderr


@pytest.mark.parametrize("system", ["wave", "gravity"])
def test_any_number_of_processes_gives_one_hash(system, tmp_path):
    code, _, error = started(RUN.replace(", on=sys.argv[2]", ""), 1, system, "", str(tmp_path))
    assert code == 0, error
    want = json.loads((tmp_path / "0").read_text())[:2]
    for ranks in (1, 2, 3):
        code, _, error = started(RUN, ranks, system, "mpi", str(tmp_path))
        assert code == 0, error
        found = [json.loads((tmp_path / str(k)).read_text()) for k in range(ranks)]
        assert all(x[:2] == want for x in found)
        told = [x[2] for x in found]
        assert sorted(t["rank"] for t in told) == list(range(ranks)) and {t["ranks"] for t in told} == {ranks}
        assert (sum(t["bytes"] for t in told) > 0) == (ranks > 1)


def test_processes_with_other_states_are_refused():
    text = RUN.replace("default_rng(0)", "default_rng()").replace("out = sim", "try:\n  out = sim") + (
        "\nexcept tp.TinyPhysicsError as error:\n  print(error)"
    )
    text = text[: text.index("told =")] + text[text.index("\nexcept") :]
    _, lines, error = started(text, 2, "wave", "mpi")
    assert "default_rng(0)" in " ".join(lines), error
