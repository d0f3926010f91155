"""What does a program look like at each level?  From the graph as traced down to machine code, as text."""

from __future__ import annotations

from tinyphysics.errors import InputError, PlanError, TinyPhysicsError
from tinyphysics.ir import dump
from tinyphysics.pipeline import stepped
from tinyphysics.runtime.engines.listing import listing, series_listing
from tinyphysics.runtime.stages.setup import Setup
from tinyphysics.system import SizedFamily, System
from tinyphysics.util import one_of

LEVELS = ("uop", "tpir", "kernel", "llvm", "asm", "c", "opencl", "ptx", "cuda", "wasm", "wgsl")
COMMENT = {"kernel": ";", "llvm": ";", "asm": "#"}  # what a line of a level begins with, if it is not code
NO_LOOP = 'the loop was deleted, and runs jump: this is what propagator="loop" would run'


def text_at(sim: Setup, level: str) -> str:
    """What `sim.ir(level)` returns."""
    if level not in LEVELS:
        raise InputError(f"there is no level `{level}`", fix=f"Levels: {one_of(LEVELS)}.")
    if level == "tpir":
        return str(sim.built.program)
    if level != "uop" and sim.compiled.known.way != "loop":
        text = listing(stepped(sim.built).program, level)
        return f"{COMMENT.get(level, '//')} {NO_LOOP}\n{text}"
    if level in ("c", "cuda") and sim.compiled.adaptive:
        raise PlanError(
            f'ir("{level}") is a program with fixed steps of dt, and this method chooses its own steps',
            fix='See ir("llvm") or ir("kernel").',
        )
    if level != "uop" and sim.compiled.series is not None:
        return series_listing(sim.compiled.series, level)
    if level != "uop":
        return listing(sim.built.program, level)
    if sim._compiled is None and isinstance(sim.source, SizedFamily):
        sizes = sim.source.sample
        shown = f"; {sim.source.signature}; this is the graph for {', '.join(f'{k} = {n}' for k, n in sizes.items())}"
        try:
            return f"{shown}\n{traced_graph(sim.source.bind(sizes))}"
        except TinyPhysicsError as error:  # a system may have reasons to want other sizes
            return f"{shown}, but it cannot be traced with that: {error.what}\n; pass sizes= to compile"
    return traced_graph(sim.system)


def traced_graph(s: System) -> str:
    return dump(s.equations, s.sites)
