"""How is a run a function of JAX?  Five primitives, each with rules that lead to the others.

`run` has `push` as its jvp. `push` and `pull` are linear in their last argument and are each other's transpose, so that grad
and jvp need no rule more. Second derivatives are `curve` and `bend`; third ones are refused. All rules of vmap are one: a row
may have any axes before its numbers. Numbers are computed on the host (jax_calls.py).
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from tinyphysics.errors import InputError, PlanError
from tinyphysics.learn.jax_calls import call, handler
from tinyphysics.learn.layer import Layer, size

X64 = 'Call jax.config.update("jax_enable_x64", True) before anything else, or set JAX_ENABLE_X64=1.'


# --- primitives -------------------------------------------------------------------------------------
def last_axis(what: str, layer: Layer, names: tuple[str, ...]) -> int:
    return layer.size_in(names) if what in ("pull", "curve") else layer.size_out


def primitive(what: str) -> Primitive:
    """One of the five, evaluated by the run itself; params are the layer and the names of its row."""
    p = Primitive(f"tinyphysics_{what}")

    def shaped(*rows: Any, layer: Layer, names: tuple[str, ...]) -> Any:
        return jax.core.ShapedArray((*rows[0].shape[:-1], last_axis(what, layer, names)), np.dtype(float))

    def called(*rows: Any, layer: Layer, names: tuple[str, ...]) -> Any:
        def there(*arrays: Any) -> Any:
            return layer.batched(what, arrays, names)

        shape = (*rows[0].shape[:-1], last_axis(what, layer, names))
        return jax.pure_callback(there, jax.ShapeDtypeStruct(shape, np.dtype(float)), *rows)

    def straight(*rows: Any, layer: Layer, names: tuple[str, ...]) -> Any:
        if not handler():
            return called(*rows, layer=layer, names=names)
        return call(what, layer, names, (*rows[0].shape[:-1], last_axis(what, layer, names)), rows)

    def direct(*rows: Any, layer: Layer, names: tuple[str, ...]) -> Any:
        return jnp.asarray(layer.batched(what, rows, names))

    def each(rows: Any, dims: Any, **params: Any) -> Any:
        count = next(r.shape[d] for r, d in zip(rows, dims) if d is not None)
        first = [
            jnp.broadcast_to(r, (count, *r.shape)) if d is None else jnp.moveaxis(r, d, 0)
            for r, d in zip(rows, dims)
        ]
        return p.bind(*first, **params), 0

    p.def_impl(direct)
    p.def_abstract_eval(shaped)
    mlir.register_lowering(p, mlir.lower_fun(called, multiple_results=False))
    mlir.register_lowering(p, mlir.lower_fun(straight, multiple_results=False), platform="cpu")
    batching.primitive_batchers[p] = each
    return p


run, pull, push, curve, bend = (primitive(what) for what in ("run", "pull", "push", "curve", "bend"))


# --- their rules ------------------------------------------------------------------------------------
Tangents = list[Callable[[Any], Any]]  # of each argument, a linear function of its tangent


def moves(p: Primitive, rules: Callable[..., Tangents]) -> None:
    """The jvp: the sum of what each tangent does."""

    def rule(rows: Any, tangents: Any, **params: Any) -> Any:
        parts = [f(t) for f, t in zip(rules(*rows, **params), tangents) if not isinstance(t, ad.Zero)]
        return p.bind(*rows, **params), sum(parts[1:], parts[0])

    ad.primitive_jvps[p] = rule


def turns(p: Primitive, rules: Callable[..., Tangents]) -> None:
    """The transpose by arguments that it is linear in."""

    def rule(bar: Any, *rows: Any, **params: Any) -> Any:
        return [f(bar) if ad.is_undefined_primal(r) else None for f, r in zip(rules(*rows, **params), rows)]

    ad.primitive_transposes[p] = rule


def no_third(*_: Any, **__: Any) -> Any:
    raise PlanError("third derivatives of a run are not there", fix="Differentiate twice at most.")


moves(run, lambda x, **o: [lambda dx: push.bind(x, dx, **o)])
moves(push, lambda x, v, **o: [lambda dx: bend.bind(x, v, dx, **o), lambda dv: push.bind(x, dv, **o)])
moves(pull, lambda x, w, **o: [lambda dx: curve.bind(x, w, dx, **o), lambda dw: pull.bind(x, dw, **o)])
moves(
    curve,
    lambda x, w, v, **o: [
        no_third,
        lambda dw: curve.bind(x, dw, v, **o),
        lambda dv: curve.bind(x, w, dv, **o),
    ],
)
moves(
    bend,
    lambda x, v, u, **o: [no_third, lambda dv: bend.bind(x, dv, u, **o), lambda du: bend.bind(x, v, du, **o)],
)
turns(push, lambda x, v, **o: [no_third, lambda bar: pull.bind(x, bar, **o)])
turns(pull, lambda x, w, **o: [no_third, lambda bar: push.bind(x, bar, **o)])
# curve(x, w, v) . u = w . D2F[u, v]
turns(
    curve,
    lambda x, w, v, **o: [
        no_third,
        lambda bar: bend.bind(x, v, bar, **o),
        lambda bar: curve.bind(x, w, bar, **o),
    ],
)
turns(
    bend,
    lambda x, v, u, **o: [
        no_third,
        lambda bar: curve.bind(x, bar, u, **o),
        lambda bar: curve.bind(x, bar, v, **o),
    ],
)


# --- the function -----------------------------------------------------------------------------------
@jax.custom_jvp
def held(value: Any) -> Any:
    """A value that no derivative may be asked of."""
    return value


@held.defjvp
def _(values: Any, tangents: Any) -> Any:
    raise InputError(
        "a derivative is asked by an argument that wrt= leaves out",
        fix="Add its name to wrt=, or pass jax.lax.stop_gradient(...) of it.",
    )


def function_of(layer: Layer) -> Callable[..., Any]:
    end = namedtuple("End", list(layer.ends), rename=True)  # type: ignore[misc]

    def function(*args: Any, **named: Any) -> Any:
        if not jax.config.jax_enable_x64:
            raise InputError("runs are computed in float64, which JAX has turned off", fix=X64)
        given = layer.ordered(args, named)
        batch: tuple[int, ...] = ()
        rows = {}
        for name, value in given.items():
            if isinstance(value, jax.Array) and value.dtype != np.dtype(float):
                raise InputError(
                    f"`{name}` is {value.dtype}, and runs are computed in float64",
                    fix=f"Pass {name}.astype(float).",
                )
            rows[name] = jnp.asarray(value, float)
            batch = jnp.broadcast_shapes(batch, layer.check_shape(name, rows[name].shape))
        parts = []
        for name, v in rows.items():
            own = v if name in layer.wrt else held(v)
            wide = jnp.broadcast_to(own, (*batch, *layer.shapes[name]))
            parts.append(wide.reshape(*batch, size(layer.shapes[name])))
        y = run.bind(jnp.concatenate(parts, axis=-1), layer=layer, names=tuple(rows))
        out, at = [], 0
        for shape in layer.ends.values():
            out.append(y[..., at : at + size(shape)].reshape(*batch, *shape))
            at += size(shape)
        return end(*out)

    function.__name__ = layer.sim.system.name
    function.__doc__ = f"{layer.sim.system.name} after its run: states in their order, parameters by name."
    return function
