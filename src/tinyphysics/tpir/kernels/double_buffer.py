"""Where does a new value go?  In place of the old one, unless that is still read: then two buffers take turns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tinyphysics.ir.ops import Ops
from tinyphysics.ir.uop import UOp, substitute, toposort
from tinyphysics.tpir.kernels.nests import Nest, Store


def assign_buffers(
    nests: Sequence[Nest], target: dict[str, str]
) -> tuple[list[Nest], list[tuple[str, str]], dict[str, str]]:
    """The nests with versions made buffers: in place where the old value is not read any more."""
    reads = [{u.arg[0] for u in n.loads()} for n in nests]
    writes = [{s.buffer for p in n.pieces for s in p.stores} for n in nests]
    physical: dict[str, str] = {}
    holds: dict[str, str] = {}  # buffer -> the version in it
    for version, name in target.items():
        k = next(k for k, w in enumerate(writes) if version in w)
        for place in (name + "'" * n for n in range(len(target) + 1)):
            old = holds.get(place, place if place == name else "")
            if old and (any(old in r for r in reads[k + 1 :]) or not identical(nests[k], old, version)):
                continue
            physical[version] = place
            holds[place] = version
            break
    last = {name: version for version, name in target.items()}
    swaps = [(name, physical[v]) for name, v in last.items() if physical[v] != name]
    return [renamed(n, physical) for n in nests], swaps, physical


def identical(nest: Nest, old: str, new: str) -> bool:
    """Is the old value read only at the index at which the new one is stored?"""
    for p in nest.pieces:
        at = {s.index for s in p.stores if s.buffer == new}
        read = {u.src for u in toposort(p.roots) if u.op is Ops.LOAD and u.arg[0] == old}
        if read and (nest.kind != "map" or not read <= at or len(at) > 1):
            return False
    return True


def shifts(s: Store) -> tuple[UOp, ...]:
    return () if s.shift is None else (s.shift,)


def renamed(nest: Nest, physical: dict[str, str]) -> Nest:
    pieces = []
    for p in nest.pieces:
        loads = [u for u in toposort(p.roots) if u.op is Ops.LOAD and u.arg[0] in physical]
        table = {u: UOp(Ops.LOAD, u.dtype, (), u.src, (physical[u.arg[0]], u.arg[1])) for u in loads}
        # what stores have in common is renamed once
        new = iter(substitute([u for s in p.stores for u in (s.value, *s.index, *shifts(s))], table))
        stores = tuple(
            replace(
                s,
                buffer=physical.get(s.buffer, s.buffer),
                value=next(new),
                index=tuple(next(new) for _ in s.index),
                shift=next(new) if shifts(s) else None,
            )
            for s in p.stores
        )
        pieces.append(replace(p, stores=stores))
    return replace(nest, pieces=tuple(pieces))
