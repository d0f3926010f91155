"""How is a run a layer of torch?  An nn.Module on four operators, each of which differentiates into the others.

A call packs what it passes into one row of numbers and the run is `tinyphysics::run` of it. Its backward is `pull`, that of
`pull` and `push` is `push`, `pull` and `curve`: second derivatives are exact. Third ones are refused.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from tinyphysics.errors import BackendError, InputError, PlanError
from tinyphysics.learn.layer import LAYERS, Layer, renumbered, size


# --- operators --------------------------------------------------------------------------------------
def computed(what: str, layer: int, names: str, rows: Sequence[torch.Tensor]) -> torch.Tensor:
    """A run of CUDA tensors stays on their GPU; its derivatives are computed from copies on the host."""
    own, device = LAYERS[layer], rows[0].device
    if device.type not in ("cpu", "cuda"):
        raise BackendError(f"tensors are on {device}", fix="Move them to the CPU, or to an NVIDIA GPU.")
    if what == "run" and device.type == "cuda" and rows[0].numel():
        return run_there(own, rows[0].detach(), told(names))
    found = own.batched(what, [row.detach().cpu().numpy() for row in rows], told(names))
    return torch.from_numpy(found).to(device)


def run_there(layer: Layer, x: torch.Tensor, names: tuple[str, ...]) -> torch.Tensor:
    """By DLPack, in and out: no state goes through the host."""
    batch, rows = x.shape[:-1], x.reshape(-1, x.shape[-1])
    members = len(rows)
    parts = torch.split(rows, [size(layer.shapes[n]) for n in names], -1)
    given: dict[str, Any] = dict(layer.fixed)
    for name in layer.states:
        if name in given:
            value = torch.as_tensor(np.asarray(given[name], float), device=x.device)
            given[name] = value.expand((members, *layer.shapes[name])).contiguous()
    for name, part in zip(names, parts):
        value = part.reshape((members, *layer.shapes[name])).contiguous()
        shared = name not in layer.states and bool(
            (part == part[:1]).all()
        )  # parameters are read by the host
        given[name] = value[0] if shared else value
    if members == 1:
        given |= {n: given[n][0].contiguous() for n in layer.states}
    found = layer.evolved(given)
    out = []
    for name, shape in layer.ends.items():
        v = found[name]
        if layer.save_every is not None and members > 1:
            v = v.movedim(1, 0)
        out.append(v.reshape(members, size(shape)))
    return torch.cat(out, -1).reshape((*batch, layer.size_out))


def told(names: str) -> tuple[str, ...]:
    return tuple(names.split(",")) if names else ()


def shaped(what: str, layer: int, names: str, x: torch.Tensor) -> torch.Tensor:
    """What it returns, without numbers."""
    own = LAYERS[layer]
    last = own.size_in(told(names)) if what in ("pull", "curve") else own.size_out
    return x.new_empty((*x.shape[:-1], last))


@torch.library.custom_op("tinyphysics::run", mutates_args=())
def run(x: torch.Tensor, layer: int, names: str) -> torch.Tensor:
    return computed("run", layer, names, [x])


@torch.library.custom_op("tinyphysics::pull", mutates_args=())
def pull(x: torch.Tensor, w: torch.Tensor, layer: int, names: str) -> torch.Tensor:
    return computed("pull", layer, names, [x, w])


@torch.library.custom_op("tinyphysics::push", mutates_args=())
def push(x: torch.Tensor, v: torch.Tensor, layer: int, names: str) -> torch.Tensor:
    return computed("push", layer, names, [x, v])


@torch.library.custom_op("tinyphysics::curve", mutates_args=())
def curve(x: torch.Tensor, w: torch.Tensor, v: torch.Tensor, layer: int, names: str) -> torch.Tensor:
    return computed("curve", layer, names, [x, w, v])


@run.register_fake
def _(x: Any, layer: int, names: str) -> Any:
    return shaped("run", layer, names, x)


@pull.register_fake
def _(x: Any, w: Any, layer: int, names: str) -> Any:
    return shaped("pull", layer, names, x)


@push.register_fake
def _(x: Any, v: Any, layer: int, names: str) -> Any:
    return shaped("push", layer, names, x)


@curve.register_fake
def _(x: Any, w: Any, v: Any, layer: int, names: str) -> Any:
    return shaped("curve", layer, names, x)


# --- derivatives ------------------------------------------------------------------------------------
def keep(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    *rows, ctx.layer, ctx.names = inputs
    ctx.kept = LAYERS.get(ctx.layer)  # a module may be gone when its graph is differentiated
    ctx.save_for_backward(*rows)
    ctx.save_for_forward(*rows)


def keep_rows(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    *rows, ctx.layer, ctx.names = inputs
    ctx.kept = LAYERS.get(ctx.layer)  # a module may be gone when its graph is differentiated
    ctx.save_for_backward(*rows)


def each_of(op: Any) -> Any:
    """The rule of vmap: rows may have any axes before their numbers."""

    def rule(info: Any, in_dims: tuple[Any, ...], *args: Any) -> tuple[Any, int]:
        *rows, layer, names = args
        first = [
            row.movedim(dim, 0) if dim is not None else row.expand(info.batch_size, *row.shape)
            for row, dim in zip(rows, in_dims)
        ]
        return op(*(row.contiguous() for row in first), layer, names), 0

    return rule


@dataclass(frozen=True)
class Rules:
    """How operators differentiate into each other: as operators of graphs, or as functions of torch.func."""

    pull: Any
    push: Any
    curve: Any

    def back_run(self, ctx: Any, w: Any) -> tuple[Any, ...]:
        (x,) = ctx.saved_tensors
        return self.pull(x, w.contiguous(), ctx.layer, ctx.names), None, None

    def back_pull(self, ctx: Any, u: Any) -> tuple[Any, ...]:
        """pull(x, w) . u = w . J u."""
        (x, w), own, u = ctx.saved_tensors, (ctx.layer, ctx.names), u.contiguous()
        by_x = self.curve(x, w, u, *own) if ctx.needs_input_grad[0] else None
        by_w = self.push(x, u, *own) if ctx.needs_input_grad[1] else None
        return by_x, by_w, None, None

    def back_push(self, ctx: Any, w: Any) -> tuple[Any, ...]:
        """push(x, v) . w = w . J v."""
        (x, v), own, w = ctx.saved_tensors, (ctx.layer, ctx.names), w.contiguous()
        by_x = self.curve(x, w, v, *own) if ctx.needs_input_grad[0] else None
        by_v = self.pull(x, w, *own) if ctx.needs_input_grad[1] else None
        return by_x, by_v, None, None


def no_third(*_: Any) -> Any:
    raise PlanError(
        "third derivatives of a run are not there", fix="Differentiate twice at most: create_graph=True once."
    )


GRAPHS = Rules(pull, push, curve)
run.register_autograd(GRAPHS.back_run, setup_context=keep_rows)
pull.register_autograd(GRAPHS.back_pull, setup_context=keep_rows)
push.register_autograd(GRAPHS.back_push, setup_context=keep_rows)
curve.register_autograd(no_third, setup_context=keep_rows)
for op in (run, pull, push, curve):
    op.register_vmap(each_of(op))


# --- the same for torch.func, which takes no operators of users -------------------------------------
class Function(torch.autograd.Function):
    """One of the operators."""

    setup_context = staticmethod(keep)

    @classmethod
    def vmap(cls, info: Any, in_dims: Any, *args: Any) -> Any:
        return each_of(cls.apply)(info, in_dims, *args)


class Run(Function):
    @staticmethod
    def forward(x: Any, layer: int, names: str) -> Any:
        return run(x, layer, names)

    @staticmethod
    def backward(ctx: Any, w: Any) -> Any:
        return EAGER.back_run(ctx, w)

    @staticmethod
    def jvp(ctx: Any, dx: Any, *_: Any) -> Any:
        (x,) = ctx.saved_tensors
        return Push.apply(x, dx.contiguous(), ctx.layer, ctx.names)


class Pull(Function):
    @staticmethod
    def forward(x: Any, w: Any, layer: int, names: str) -> Any:
        return pull(x, w, layer, names)

    @staticmethod
    def backward(ctx: Any, u: Any) -> Any:
        return EAGER.back_pull(ctx, u)

    @staticmethod
    def jvp(ctx: Any, dx: Any, dw: Any, *_: Any) -> Any:
        (x, w), own = ctx.saved_tensors, (ctx.layer, ctx.names)
        out = None if dw is None else Pull.apply(x, dw.contiguous(), *own)
        if dx is not None:
            more = Curve.apply(x, w, dx.contiguous(), *own)
            out = more if out is None else out + more
        return out


class Push(Function):
    @staticmethod
    def forward(x: Any, v: Any, layer: int, names: str) -> Any:
        return push(x, v, layer, names)

    @staticmethod
    def backward(ctx: Any, w: Any) -> Any:
        return EAGER.back_push(ctx, w)

    @staticmethod
    def jvp(ctx: Any, dx: Any, dv: Any, *_: Any) -> Any:
        (x, v), own = ctx.saved_tensors, (ctx.layer, ctx.names)
        out = None if dv is None else Push.apply(x, dv.contiguous(), *own)
        if dx is not None:
            more = Bend.apply(x, v, dx.contiguous(), *own)
            out = more if out is None else out + more
        return out


class Curve(Function):
    @staticmethod
    def forward(x: Any, w: Any, v: Any, layer: int, names: str) -> Any:
        return curve(x, w, v, layer, names)

    backward = jvp = staticmethod(no_third)


class Bend(Function):
    @staticmethod
    def forward(x: Any, v: Any, u: Any, layer: int, names: str) -> Any:
        return computed("bend", layer, names, [x, v, u])

    backward = jvp = staticmethod(no_third)


EAGER = Rules(Pull.apply, Push.apply, Curve.apply)


# --- the module -------------------------------------------------------------------------------------
class TorchModule(torch.nn.Module):
    """A run as a layer: `q, p = layer(q, p)`. Parameters that it learns are `layer.mu`."""

    def __init__(self, layer: Layer, learn: Sequence[str]) -> None:
        super().__init__()
        self.layer, self.number = layer, layer.number
        self.learnt = tuple(learn)
        for name in self.learnt:
            value = np.broadcast_to(np.asarray(first_value(layer, name), float), layer.shapes[name])
            self.register_parameter(name, torch.nn.Parameter(torch.tensor(value, dtype=torch.float64)))
        self.shapes, self.ends, self.wrt = layer.shapes, layer.ends, layer.wrt
        self.End = namedtuple("End", list(layer.ends), rename=True)  # type: ignore[misc]

    def forward(self, *args: Any, **named: Any) -> Any:
        """States in their order, or anything by name; axes before those of the system are a batch.

        The result has the states at the end by name and in order; with `save_every` those of the frames.
        """
        given = self.layer.ordered(args, named, self.learnt)
        for name in self.learnt:
            given[name] = getattr(self, name)
        batch: tuple[int, ...] = ()
        for name, value in given.items():
            batch = torch.broadcast_shapes(batch, self.checked(name, value))
        rows = [
            v.expand((*batch, *self.shapes[n])).reshape((*batch, size(self.shapes[n])))
            for n, v in given.items()
        ]
        how = run if torch.compiler.is_compiling() else Run.apply
        y = how(torch.cat(rows, -1), self.number, ",".join(given))
        parts = torch.split(y, [size(s) for s in self.ends.values()], -1)
        return self.End(*(v.reshape((*batch, *s)) for v, s in zip(parts, self.ends.values())))

    def checked(self, name: str, value: Any) -> tuple[int, ...]:
        """The axes of its batch."""
        if not isinstance(value, torch.Tensor):
            raise InputError(
                f"`{name}` is not a tensor", fix=f"Pass torch.as_tensor({name}, dtype=torch.float64)."
            )
        if value.dtype != torch.float64:
            raise InputError(
                f"`{name}` is {value.dtype}, and runs are computed in float64",
                fix=f"Pass {name}.double(), or call torch.set_default_dtype(torch.float64).",
            )
        if value.requires_grad and name not in self.wrt:
            raise InputError(
                f"`{name}` requires a gradient, and wrt= leaves it out",
                fix=f'Add "{name}" to wrt=, or pass {name}.detach().',
            )
        return self.layer.check_shape(name, tuple(value.shape))

    def __setstate__(self, state: Any) -> None:
        """A copy is a layer of its own: graphs know it by another number."""
        super().__setstate__(state)
        self.layer = renumbered(self.layer)
        self.number = self.layer.number

    def extra_repr(self) -> str:
        own = self.layer
        long = f"steps={own.steps}" if own.steps is not None else f"until={own.until}"
        learnt = f", learn={list(self.learnt)}" if self.learnt else ""
        return f"{own.sim.system.name}, {long}{learnt}"


def first_value(layer: Layer, name: str) -> Any:
    """Where learning begins: what was given, or the default of the system."""
    if name in layer.fixed:
        return layer.fixed[name]
    for p in layer.sim.system.parameters:
        if p.name == name and p.default is not None:
            return p.default
    raise InputError(f"learn has `{name}`, which has no first value", fix=f"Pass {name}=... to torch_module.")
