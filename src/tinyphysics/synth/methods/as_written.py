"""How is an explicit map stepped?  As it is written."""

from __future__ import annotations

from tinyphysics.flows.map import Map
from tinyphysics.ir import graph_rewrite
from tinyphysics.rules.identities.real import products
from tinyphysics.step import Step
from tinyphysics.system import System


def explicit_map(system: System) -> Step:
    values = graph_rewrite(system.update, products)
    states = [s.var for s in system.states]
    claims = ("symplectic", "volume-preserving") if system.p else ()
    return Step.of(
        system, system.name, (), claims, 1, body=(Map(tuple(zip(states, values)), as_written=True),)
    )
