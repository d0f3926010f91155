"""How does a user add an operation of their own, with its derivative?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tinyphysics.errors import InputError
from tinyphysics.ir.ops import Ops
from tinyphysics.ir.uop import UOp, as_uop, broadcast_shape, toposort
from tinyphysics.ir.value import CUSTOM
from tinyphysics.options import heeds
from tinyphysics.rules.calculus.partials import CUSTOM_PARTIALS, CUSTOM_SITES
from tinyphysics.util import user_site


@heeds("op", 'tp.op("square", lambda x: x * x)')
def op(
    name: str,
    definition: Callable[..., UOp],
    derivative: Callable[..., tuple[UOp, ...]] | None = None,
) -> Callable[..., UOp]:
    """Defines an element-wise operation of your own by an expression, with the rule by which it is differentiated.

    `name` is how it prints. `definition(x, ...)` returns its value as an expression.
    `derivative(x, ...)` returns one partial derivative per argument; without it, differentiating
    raises and names the operation. The definition decides the value on every backend.

    >>> softplus = op("softplus", lambda x: (x.exp()).log1p(), lambda x: (1 / (1 + (-x).exp()),))
    >>> softplus(UOp.var("q"))
    softplus(q)
    """
    if not name.isidentifier() or name in Ops._value2member_map_:
        raise InputError(f"`{name}` cannot be the name of an operation", fix="Choose a new identifier.")
    CUSTOM[name] = definition
    CUSTOM_PARTIALS.pop(name, None)
    if (site := user_site()) is not None:
        CUSTOM_SITES[name] = site
    if derivative is not None:
        CUSTOM_PARTIALS[name] = derivative

    def call(*arguments: Any) -> UOp:
        src = [as_uop(a) for a in arguments]
        shape = broadcast_shape(*(s.shape for s in src))
        return UOp(Ops.CUSTOM, src[0].dtype, shape, tuple(s.expand(shape) for s in src), name)

    call.__name__ = name
    return call


def inline(roots: Sequence[UOp]) -> list[UOp]:
    """The roots with every user operation replaced by its definition."""
    new: dict[UOp, UOp] = {}
    order = toposort(roots)
    if all(u.op is not Ops.CUSTOM for u in order):
        return list(roots)
    for u in order:
        src = tuple(new[s] for s in u.src)
        new[u] = inline([CUSTOM[u.arg](*src)])[0] if u.op is Ops.CUSTOM else u.replace(src)
    return [new[r] for r in roots]
