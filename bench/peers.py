"""Whom do we measure ourselves with?  One file each, with_NAME.py, whose functions are named like the rows.

A file has what makes sense for its peer: pendulums, stars, one_pendulum, planets, gravity, chain, fluid, wave (each
gives contenders by label), solvers (functions of q, p and a setting), FIRST (a program that defines `once(c)`), NOTE.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
from importlib.metadata import version
from types import ModuleType

PEERS = {"numba": "numba", "jax": "jax", "heyoka": "heyoka", "REBOUND": "rebound", "diffrax": "diffrax"}


@functools.cache
def module_of(peer: str) -> ModuleType | None:
    """Its file here, or None if the peer is not installed."""
    package = PEERS[peer]
    return importlib.import_module(f"with_{package}") if importlib.util.find_spec(package) else None


def versions() -> dict[str, str | None]:
    return {peer: version(package) if module_of(peer) else None for peer, package in PEERS.items()}


def notes() -> list[str]:
    found = (getattr(module_of(peer), "NOTE", None) for peer in PEERS)
    return [note for note in found if note]
