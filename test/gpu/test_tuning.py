"""Does a real GPU try how members lie best, keep what it found, and give the same bits in every form?"""

from __future__ import annotations

import pytest

import tinyphysics as tp
from test_parity import ensemble, henon_heiles, pendulum
from tinyphysics.context import CUDA_TUNE
from tinyphysics.device.cuda import driver as cuda
from tinyphysics.device.cuda import rows as cuda_rows
from tinyphysics.device.engines import cuda_lanes
from tinyphysics.device.cuda.tuning import BLOCKS, MEMBERS, ThreadLayout
from tinyphysics.runtime.engines import backend

CASES = [(pendulum, dict(q=1.0, p=0.3)), (henon_heiles, dict(q=[0.1, 0.2], p=[0.3, -0.1]))]


def members_of(most):
    """Enough that so many in a thread leave no processor without a block, and some that fill no thread."""
    return cuda.device().processors * cuda_rows.THREADS * most + 3


@pytest.mark.parametrize("system, start", CASES, ids=lambda x: getattr(x, "name", ""))
def test_what_was_fastest_is_kept_and_taken_again(gpu, tmp_path, monkeypatch, system, start):
    monkeypatch.setenv("TINYPHYSICS_CACHE", str(tmp_path))
    tmp_path.chmod(0o700)
    backend.engine_for.cache_clear()
    start, steps = ensemble(start, members_of(max(MEMBERS) if gpu.real else 2)), gpu.steps(200)

    def run(flag):
        with CUDA_TUNE(flag):
            return tp.compile(system, dt=0.05, backend="cuda").evolve(**start, steps=steps)

    estimated, tuned = run(1), run(2)
    backend.engine_for.cache_clear()  # as in another process
    cached, off = run(1), run(0)
    assert [x.metrics["shape"]["chosen"] for x in (estimated, tuned, cached, off)] == [
        "estimated",
        "tuned",
        "cached",
        "estimated",
    ]
    shape = cached.metrics["shape"]
    assert (
        shape["interleave"] in MEMBERS and shape["block"] in BLOCKS and len([*tmp_path.glob("*.form")]) == 1
    )
    assert {k: v for k, v in tuned.metrics["shape"].items() if k != "chosen"} == {
        k: v for k, v in shape.items() if k != "chosen"
    }
    assert {x.hash for x in (estimated, tuned, cached, off)} == {
        tp.compile(system, dt=0.05).evolve(**start, steps=steps).hash
    }


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("interleave", MEMBERS)
def test_every_form_has_the_same_bits(gpu, monkeypatch, interleave, block):
    system, start = CASES[0]
    start, steps = ensemble(start, members_of(4) if gpu.real else 37), gpu.steps(100)
    start["q"][[3, 4, 20]] = [1e12, -3e15, 1e22]
    monkeypatch.setattr(
        cuda_lanes.CudaEngine, "estimate", lambda self, members: ThreadLayout(interleave, block)
    )
    with CUDA_TUNE(0):
        out = tp.compile(system, dt=0.1, backend="cuda").evolve(**start, steps=steps)
    assert out.metrics["shape"] == {"interleave": interleave, "block": block, "chosen": "estimated"}
    assert out.hash == tp.compile(system, dt=0.1).evolve(**start, steps=steps).hash
