"""What do users call to make a layer?  `tp.torch_module`, `tp.jax_function`; the first call imports their library."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from tinyphysics.errors import BackendError, InputError
from tinyphysics.learn.layer import layer_of
from tinyphysics.options import heeds


def library(module: str, extra: str, what: str) -> Any:
    """The file that needs a library of an extra."""
    try:
        return import_module(module)
    except ModuleNotFoundError as missing:
        if missing.name is None or missing.name.partition(".")[0] not in (extra, f"{extra}lib"):
            raise
        raise BackendError(what, fix=f'pip install "tinyphysics[{extra}]"') from None


@heeds("torch_module", "tp.torch_module(sim, steps=1000)")
def torch_module(
    sim: Any,
    *,
    steps: int | None = None,
    until: float | None = None,
    learn: Sequence[str] = (),
    wrt: Sequence[str] | None = None,
    save_every: int | None = None,
    t0: float = 0.0,
    seed: int = 0,
    past: str = "auto",
    memory: int | None = None,
    snapshots: int | None = None,
    **given: Any,
) -> Any:
    """Returns a run as an nn.Module: `layer = tp.torch_module(sim, learn=["mu"], steps=1000); q, p = layer(q, p)`.

    Axes of tensors before those of the system are a batch. Gradients are exact, and so are second derivatives.

    steps, until, t0, seed  how long it runs, as in evolve
    learn       names of parameters and states that become nn.Parameters
    wrt         names of what gradients may be asked of; by default all states and parameters
    save_every  steps between two frames; the result then has frames, with an axis of times after those of the batch
    past, memory, snapshots  how the past is known, as in value_and_grad
    given       first values of what is learnt, and states and parameters that no call passes
    """
    module = library("tinyphysics.learn.in_torch", "torch", "tp.torch_module needs PyTorch")
    layer = layer_of(
        "torch_module", sim, wrt, steps, until, save_every, t0, seed, past, memory, snapshots, given
    )
    names = [learn] if isinstance(learn, str) else list(learn)
    for name in names:
        if name not in layer.shapes:
            known = ", ".join(layer.shapes)
            raise InputError(
                f"learn has `{name}`, which `{sim.system.name}` does not have", fix=f"It has {known}."
            )
        if name not in layer.wrt:
            raise InputError(f"learn has `{name}`, and wrt= leaves it out", fix=f'Add "{name}" to wrt=.')
    return module.TorchModule(layer, names)


@heeds("jax_function", "tp.jax_function(sim, steps=1000)")
def jax_function(
    sim: Any,
    *,
    steps: int | None = None,
    until: float | None = None,
    wrt: Sequence[str] | None = None,
    save_every: int | None = None,
    t0: float = 0.0,
    seed: int = 0,
    past: str = "auto",
    memory: int | None = None,
    snapshots: int | None = None,
    **given: Any,
) -> Any:
    """Returns a run as a function of JAX: `f = tp.jax_function(sim, steps=1000); jax.grad(lambda q: f(q, p).q[0])(q)`.

    grad, jvp, jacfwd, jacrev, hessian, vmap and jit work. Axes of arrays before those of the system are a batch.

    steps, until, t0, seed  how long it runs, as in evolve
    wrt         names of what derivatives may be asked of; by default all states and parameters
    save_every  steps between two frames; the result then has frames, with an axis of times after those of the batch
    past, memory, snapshots  how the past is known, as in value_and_grad
    given       states and parameters that no call passes
    """
    module = library("tinyphysics.learn.in_jax", "jax", "tp.jax_function needs JAX")
    layer = layer_of(
        "jax_function", sim, wrt, steps, until, save_every, t0, seed, past, memory, snapshots, given
    )
    return module.function_of(layer)
