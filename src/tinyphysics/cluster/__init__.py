"""Runs on other machines: ensembles in blocks and slices of time, with the bits of one machine; what a scheduler can do."""

from typing import Any

__all__ = ["Parareal", "on", "simulate", "sweep"]
WHERE = {"Parareal": "parareal", "on": "machines", "simulate": "scheduler", "sweep": "sweeps"}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name not in WHERE:
        raise AttributeError(f"tinyphysics.cluster has no `{name}`: it has {', '.join(__all__)}")
    return getattr(import_module(f"tinyphysics.cluster.{WHERE[name]}"), name)
