"""Is a run a layer of torch?  Its gradients and second derivatives by torch's own checks, batches, vmap and compiled graphs."""

from __future__ import annotations

import copy
import sys

import numpy as np
import pytest

import tinyphysics as tp
from layer_cases import chain, kepler, lorenz, standard

torch = pytest.importorskip("torch", reason="torch is not installed")

pytestmark = pytest.mark.requirement("S2-13")


def tensor(a, grad=True):
    return torch.tensor(a, dtype=torch.float64, requires_grad=grad)


def cases():
    rng = np.random.default_rng(1)
    q, p, k = rng.normal(size=(3, 6))
    return {
        "kepler": (tp.compile(kepler, dt=0.01, method="leapfrog"), dict(q=[1.0, 0.1], p=[0.1, 1.2], mu=1.1)),
        "chain": (
            tp.compile(chain, dt=0.05, method="yoshida4", sizes={"n": 6}),
            dict(q=0.3 * q, p=p, k=1 + 0.1 * k, alpha=0.3),
        ),
        "lorenz": (tp.compile(lorenz, dt=0.01, method="rk4"), dict(x=[1.0, 2.0, 20.0], sigma=9.0)),
        "map": (tp.compile(standard), dict(theta=0.3, p=0.2, K=0.8)),
    }


def function(name, **how):
    """(a function of tensors, the tensors)."""
    sim, start = cases()[name]
    layer = tp.torch_module(sim, **{"steps": 20, **how})

    def run(*values):
        return tuple(layer(**dict(zip(start, values))))

    return run, tuple(tensor(v) for v in start.values())


def test_a_layer_has_the_bits_of_the_run_and_its_gradients():
    sim = tp.compile(kepler, dt=0.01, method="leapfrog")
    layer = tp.torch_module(sim, learn=["mu"], steps=100)
    q, p = tensor([1.0, 0.0]), tensor([0.0, 1.2])
    end = layer(q, p)
    (end.q @ end.q).backward()
    start = dict(q=[1.0, 0.0], p=[0.0, 1.2])
    value, grads = sim.value_and_grad(lambda out: out.final.q @ out.final.q, **start, steps=100)
    assert np.array_equal(end.q.detach(), sim.evolve(**start, steps=100).final.q)
    for mine, name in ((q.grad, "q"), (p.grad, "p"), (layer.mu.grad, "mu")):
        assert np.allclose(mine, grads[name], rtol=1e-13, atol=0)


@pytest.mark.all
@pytest.mark.parametrize("how", [{}, {"save_every": 5}], ids=["end", "frames"])
@pytest.mark.parametrize("name", ["kepler", "chain", "lorenz", "map"])
def test_gradcheck_and_gradgradcheck_pass(name, how):
    f, start = function(name, **how)
    assert torch.autograd.gradcheck(f, start, check_forward_ad=True, check_batched_grad=True)
    assert torch.autograd.gradgradcheck(f, start, check_fwd_over_rev=True)


@pytest.mark.all
def test_opcheck_passes_for_every_operator():
    from tinyphysics.learn import in_torch

    layer = tp.torch_module(tp.compile(kepler, dt=0.01, method="leapfrog"), steps=20)
    x, w, v = (
        tensor([1.0, 0.0, 0.0, 1.2, 1.0]),
        tensor([0.1, 0.2, 0.3, 0.4]),
        tensor([0.5, 0.4, 0.3, 0.2, 0.1]),
    )
    own = layer.number, "q,p,mu"
    torch.library.opcheck(in_torch.run, (x, *own))
    torch.library.opcheck(in_torch.pull, (x, w, *own))
    torch.library.opcheck(in_torch.push, (x, v, *own))
    torch.library.opcheck(in_torch.curve, (x.detach(), w.detach(), v.detach(), *own))


@pytest.mark.all
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_one_graph_compiles_with_its_backward(backend):
    torch._dynamo.reset()
    layer = tp.torch_module(tp.compile(kepler, dt=0.01, method="leapfrog"), learn=["mu"], steps=20)
    compiled = torch.compile(layer, fullgraph=True, backend=backend)
    for batch in (1, 3, 5):  # the second size makes the graph one of any size
        q = tensor(np.linspace([1.0, 0.0], [1.2, 0.1], batch))
        p = tensor(np.linspace([0.0, 1.2], [0.1, 1.0], batch))
        layer.zero_grad()
        (compiled(q, p).q ** 2).sum().backward()
        mine = q.grad.clone(), layer.mu.grad.clone()
        q.grad = None
        layer.zero_grad()
        (layer(q, p).q ** 2).sum().backward()
        assert torch.equal(mine[0], q.grad) and torch.allclose(mine[1], layer.mu.grad, rtol=1e-14)


@pytest.mark.all
def test_batches_vmap_and_single_runs_are_alike():
    layer = tp.torch_module(tp.compile(kepler, dt=0.01, method="leapfrog"), steps=30, save_every=10)
    q, p = tensor(np.linspace([1.0, 0.0], [1.5, 0.3], 6)), tensor([0.0, 1.1])
    mu = tensor(np.linspace(0.9, 1.1, 6))
    whole = layer(q, p, mu=mu).q
    assert whole.shape == (6, 4, 2)
    assert torch.equal(whole, torch.vmap(lambda q, mu: layer(q, p, mu=mu).q)(q, mu))
    assert torch.equal(whole, torch.stack([layer(a, p, mu=m).q for a, m in zip(q, mu)]))
    assert torch.equal(whole, layer(q.reshape(2, 3, 2), p, mu=mu.reshape(2, 3)).q.reshape(6, 4, 2))
    assert layer(q[:0], p).q.shape == (0, 4, 2)


@pytest.mark.all
def test_torch_func_agrees_with_the_jacobian_of_the_run():
    sim = tp.compile(kepler, dt=0.01, method="leapfrog")
    layer = tp.torch_module(sim, steps=40)
    q, p, mu = tensor([1.0, 0.1], False), tensor([0.1, 1.2], False), tensor(1.1, False)
    want = sim.jacobian(q=q.numpy(), p=p.numpy(), mu=1.1, steps=40)["q"]["mu"]
    for jacobian in (torch.func.jacrev, torch.func.jacfwd):
        assert np.allclose(jacobian(lambda m: layer(q, p, mu=m).q)(mu), want, rtol=1e-12)

    def loss(q):
        return (layer(q, p, mu=mu).q ** 2).sum()

    hvp = sim.hvp(
        lambda out: out.final.q @ out.final.q, {"q": [1.0, 0.0]}, q=q.numpy(), p=p.numpy(), mu=1.1, steps=40
    )
    rows = [torch.func.hessian(loss)(q)]
    rows += [
        f(g(loss))(q)
        for f in (torch.func.jacrev, torch.func.jacfwd)
        for g in (torch.func.jacrev, torch.func.jacfwd)
    ]
    for hessian in rows:
        assert np.allclose(hessian[0], hvp["q"], rtol=1e-11)


@pytest.mark.all
@pytest.mark.parametrize(
    "options", [dict(precision="lattice"), dict(propagator="exact")], ids=["lattice", "jump"]
)
def test_first_derivatives_where_there_are_no_tangents(options):
    @tp.hamiltonian
    def oscillator(q, p, k: float = 1.25):
        return p**2 / 2 + k * q**2 / 2

    sim = tp.compile(oscillator, dt=2**-7, **options)
    layer = tp.torch_module(sim, steps=1000)
    q, k = tensor(1.0), tensor(1.25)
    layer(q, tensor(0.25), k=k).q.backward()
    want = sim.vjp({"q": 1.0}, q=1.0, p=0.25, k=1.25, steps=1000)
    assert float(q.grad) == want["q"] and float(k.grad) == want["k"]
    with pytest.raises(tp.PlanError):
        torch.autograd.functional.hvp(lambda q: layer(q, tensor(0.25)).q ** 2, tensor(1.0))


@pytest.mark.all
def test_a_parameter_is_learnt_from_a_trajectory():
    sim = tp.compile(kepler, dt=0.01, method="leapfrog")
    start = dict(q=[1.0, 0.0], p=[0.0, 1.2])
    seen = tensor(sim.evolve(**start, steps=200, save_every=50).q, False)
    layer = tp.torch_module(
        sim, learn=["mu", "p"], steps=200, save_every=50, mu=0.9, **start | dict(p=[0.05, 1.1])
    )
    assert dict(layer.named_parameters()).keys() == {"mu", "p"} and "kepler" in repr(layer)
    how = torch.optim.LBFGS(
        layer.parameters(),
        line_search_fn="strong_wolfe",
        max_iter=60,
        tolerance_grad=1e-12,
        tolerance_change=0,
    )

    def closure():
        how.zero_grad()
        loss = ((layer().q - seen) ** 2).sum()
        loss.backward()
        return loss

    how.step(closure)
    assert abs(layer.mu.item() - 1.0) < 1e-6 and np.allclose(layer.p.detach(), start["p"], atol=1e-6)


@pytest.mark.all
def test_third_derivatives_are_refused():
    layer = tp.torch_module(tp.compile(kepler, dt=0.01, method="leapfrog"), steps=5)
    q, p = tensor([1.0, 0.0]), tensor([0.0, 1.2], False)
    y = (layer(q, p).q ** 3).sum()
    (one,) = torch.autograd.grad(y, q, create_graph=True)
    (two,) = torch.autograd.grad(one.sum(), q, create_graph=True)
    with pytest.raises(tp.PlanError, match="third derivatives"):
        torch.autograd.grad(two.sum(), q)


def test_a_copy_is_a_layer_of_its_own():
    layer = tp.torch_module(tp.compile(kepler, dt=0.01, method="leapfrog"), learn=["mu"], steps=20)
    other = copy.deepcopy(layer)
    q, p = tensor([1.0, 0.0], False), tensor([0.0, 1.2], False)
    want, number = layer(q, p).q.detach(), layer.number
    del layer
    assert other.number != number and torch.equal(other(q, p).q, want)


def test_wrong_calls_say_what_to_write():
    sim = tp.compile(kepler, dt=0.01, method="leapfrog")
    layer = tp.torch_module(sim, steps=10, learn=["mu"], wrt=["p", "mu"])
    q, p = tensor([1.0, 0.0], False), tensor([0.0, 1.2])
    wrong = [
        (lambda: tp.torch_module(kepler, steps=1), "takes a simulation"),
        (lambda: tp.torch_module(sim), "steps= or until="),
        (lambda: tp.torch_module(sim, steps=10, save_every=3), "does not divide"),
        (lambda: tp.torch_module(sim, steps=10, learn=["nu"]), "learn has `nu`"),
        (lambda: tp.torch_module(sim, steps=10, learn=["q"]), "no first value"),
        (lambda: tp.torch_module(sim, steps=10, wrt=["dt"]), "Leave dt out"),
        (lambda: tp.torch_module(sim, steps=10, r=1.0), "has no `r`"),
        (lambda: tp.torch_module(tp.compile(chain, dt=0.1), steps=10), "size n is unknown"),
        (lambda: layer(q), "`p` is missing"),
        (lambda: layer(q, p, q), "3 arguments"),
        (lambda: layer(q, p, mu=q), "`mu` is learnt"),
        (lambda: layer(q.float(), p), "torch.float32"),
        (lambda: layer([1.0, 0.0], p), "not a tensor"),
        (lambda: layer(q[:1], p), "declares"),
        (lambda: layer(q.requires_grad_(), p), "wrt= leaves it out"),
    ]
    for call, word in wrong:
        with pytest.raises(tp.TinyPhysicsError, match=word):
            call()


def test_without_torch_the_error_has_the_pip_line(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delitem(sys.modules, "tinyphysics.learn.in_torch", raising=False)
    with pytest.raises(tp.BackendError, match=r'pip install "tinyphysics\[torch\]"'):
        tp.torch_module(tp.compile(kepler, dt=0.01), steps=1)
