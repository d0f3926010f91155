"""Is a layer of torch on a GPU the run on that GPU?  Tensors go in and out by DLPack, on torch's stream, with the CPU's bits."""

from __future__ import annotations

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.runtime.engines.backend import transferred
from tinyphysics.target import BUILT

MEMBERS, STEPS = 4_096, 200


@tp.hamiltonian
def kepler(q: tp.Vec[2], p: tp.Vec[2], mu: float = 1.0):
    return p @ p / 2 - mu / tp.norm(q)


def start(torch, device):
    angle = torch.linspace(0.0, 3.0, MEMBERS, dtype=torch.float64)
    q = torch.stack([torch.cos(angle), torch.sin(angle)], -1)
    p = 1.1 * torch.stack([-torch.sin(angle), torch.cos(angle)], -1)
    return q.to(device), p.to(device)


@pytest.mark.parametrize("how", [{}, {"save_every": 50}], ids=["end", "frames"])
def test_a_run_moves_no_state_through_the_host_and_has_the_bits_of_the_cpu(other_library, how):
    torch = other_library("torch")
    layer = tp.torch_module(tp.compile(kepler, dt=0.01, method="leapfrog"), steps=STEPS, learn=["mu"], **how)
    q, p = start(torch, "cuda")
    here = layer(*start(torch, "cpu"))
    layer = layer.to("cuda")
    layer(q, p)  # compiled
    before = transferred(BUILT["cuda"])["bytes_moved"]
    end = layer(q, p)
    moved = transferred(BUILT["cuda"])["bytes_moved"] - before
    assert end.q.device.type == "cuda" and moved < 1_000 < q.numel() * 8
    assert torch.equal(end.q.cpu(), here.q) and torch.equal(end.p.cpu(), here.p)


def test_gradients_on_the_gpu_are_those_of_the_cpu(other_library):
    torch = other_library("torch")
    layer = tp.torch_module(tp.compile(kepler, dt=0.01, method="leapfrog"), steps=STEPS)
    found = []
    for device in ("cpu", "cuda"):
        q, p = (x.requires_grad_() for x in start(torch, device))
        mu = torch.ones((), dtype=torch.float64, device=device, requires_grad=True)
        (layer(q, p, mu=mu).q ** 2).sum().backward()
        found.append([x.grad.cpu().numpy() for x in (q, p, mu)])
    assert np.array_equal(found[0][0], found[1][0]) and np.array_equal(found[0][1], found[1][1])
    assert np.isclose(found[0][2], found[1][2], rtol=1e-13)


def test_work_that_waits_on_a_stream_of_torch_is_waited_for(other_library):
    torch = other_library("torch")
    layer = tp.torch_module(tp.compile(kepler, dt=0.01, method="leapfrog"), steps=STEPS)
    q, p = start(torch, "cuda")
    want = layer(q, p).q.cpu()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        slow = torch.randn(4_000, 4_000, dtype=torch.float64, device="cuda")
        for _ in range(10):
            slow = slow @ slow / 4_000
        moved = q + 0 * slow[0, 0].nan_to_num()
        end = layer(moved, p).q
        again = end.clone()
    side.synchronize()
    assert torch.equal(again.cpu(), want)


def test_batches_of_none_and_of_one(other_library):
    torch = other_library("torch")
    layer = tp.torch_module(tp.compile(kepler, dt=0.01, method="leapfrog"), steps=10, save_every=5)
    q, p = start(torch, "cuda")
    assert layer(q[:0], p[:0]).q.shape == (0, 3, 2)
    assert torch.equal(layer(q[0], p[0]).q, layer(q, p).q[0])
    assert torch.equal(torch.vmap(lambda a: layer(a, p[0]).q)(q[:3])[1], layer(q[1], p[0]).q)
