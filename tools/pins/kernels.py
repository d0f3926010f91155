"""Pinned kernel text: LLVM, C, OpenCL, CUDA and LLVM for PTX, for vectors of 4 and of 8, whatever processor this is."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from typing import Any

import tinyphysics as tp
from pins import arrays, precisions, systems
from pins.tiers import tier_of
from pins.unit import Setting, Unit, message, short

WIDTHS = (4, 8)
# registers and labels of LLVM; in C what is a letter and a number. Types and functions keep their names
LLVM_NAMES = re.compile(r"%[\w.$-]+|^[\w.$-]+(?=:)", re.MULTILINE)
C_NAMES = re.compile(r"\b[a-z]\d+\b")
zoo = tp.physics.zoo

# fmt: off
CHOSEN: dict[str, tuple[Any, dict[str, Any]]] = {
    **{f"zoo-{name}": (demo.system, {"propagator": "loop", **({} if demo.dt is None else {"dt": 0.0625})})
       for name, demo in zoo.ZOO.items() if name != "galaxy"},
    **{f"pendulum-{p}": (zoo.pendulum, {"dt": 0.125, "precision": p}) for p in ("float32", "compensated", "mixed", "lattice")},
    "oscillator-dd": (zoo.oscillator, {"dt": 0.125, "precision": "dd", "propagator": "loop"}),
    **{f"method-{m}": (zoo.henon_heiles, {"dt": 0.125, "method": m}) for m in ("yoshida4", "nystrom6", "chin4", "takahashi_imada4", "rk4")},
    **{f"curved-{m}": (systems.curved, {"dt": 0.125, "method": m}) for m in ("implicit_midpoint", "gauss4", "kick_midpoint", "gonzalez")},
    "hoop": (systems.hoop, {"dt": 0.125}),
    "swing-interaction": (systems.swing, {"dt": 0.125, "method": "interaction"}),
    "trig": (systems.trig, {"dt": 0.125}),
    "growth": (systems.growth, {"dt": 0.125}),
    "powers": (systems.powers, {"dt": 0.125}),
    "noisy": (systems.noisy, {}),
    "logarithmic": (systems.kepler, {"dt": 0.125, "time": "logarithmic"}),
    "scaled": (zoo.henon_heiles, {"dt": 0.125, "scale": "auto"}),
    **{f"loops-{name}": (system, {"sizes": sizes, "propagator": "loop", **({} if name in ("shifted", "carried") else {"dt": 0.125})})
       for name, (system, sizes, _) in precisions.LOOPS.items()},
    "loops-cluster-float32": (arrays.cluster, {"dt": 0.125, "sizes": {"n": 34}, "precision": "float32"}),
    "loops-curved_row": (arrays.curved_row, {"dt": 0.125, "sizes": {"n": 34}}),
    "neighbours-liquid": (arrays.liquid, {"dt": 0.125, "sizes": {"n": 27}}),
    "neighbours-flat_liquid": (arrays.flat_liquid, {"dt": 0.125, "sizes": {"n": 27}}),
    "tree-gravity": (tp.physics.particles.gravity, {"dt": 0.125, "sizes": {"n": 70}, "approximate": 1e-3}),
    "series-bodies": (arrays.bodies, {"method": "taylor", "tolerance": 1e-6, "sizes": {"n": 34}}),
}
# fmt: on


def renamed(text: str, names: re.Pattern[str]) -> str:
    """The text with its names numbered anew: what only calls a register something else is no change."""
    known: dict[str, str] = {}

    def new(match: re.Match[str]) -> str:
        old = match.group().lstrip("%")
        return f"{match.group()[: -len(old)]}n{known.setdefault(old, str(len(known)))}"

    return names.sub(new, text)


def texts(sim: Any) -> Iterator[tuple[str, str]]:
    """(language and width, text).

    The one place that knows how text is made for a width that is not this machine's.
    """
    from tinyphysics.emit.kinds import cnests
    from tinyphysics.emit.kinds.series.ptx_series import PtxSeriesWriter
    from tinyphysics.emit.kinds.series.series import SeriesWriter
    from tinyphysics.emit.modules import cuda_nests, nests, opencl_nests, ptx_nests
    from tinyphysics.emit.scalar import c, cuda, llvm, opencl, ptx
    from tinyphysics.flows.series import series_of
    from tinyphysics.planner.cost.target import in_loops
    from tinyphysics.synth.methods.taylor import loop_parts, loop_plan
    from tinyphysics.target import PORTABLE, VectorShape
    from tinyphysics.tpir.kernels.kernel import build_kernel
    from tinyphysics.tpir.kernels.loops import build_loops

    series = sim.compiled.series
    if series is not None:
        plan = loop_plan(series_of(series))
        yield "llvm", SeriesWriter(plan, *loop_parts(plan)).module(True)
        yield "ptx", PtxSeriesWriter(plan, *loop_parts(plan)).module()
        return
    program = sim.tpir
    if in_loops(program, 1):
        kernel = build_loops(program, seed=PORTABLE)
        for width in WIDTHS:
            yield f"llvm {width}", nests.module(kernel, False, width, True)
        yield "c", cnests.module(kernel)
        yield "ptx", ptx_nests.nests_module(kernel).text
        if not kernel.lists and kernel.tree is None:
            yield "opencl", opencl_nests.nests_module(kernel)
            yield "cuda", cuda_nests.module(kernel)
        return
    built = build_kernel(program, PORTABLE)
    sections = [
        built.section(name) for name in ("init", "enter", "step", "leave", "final") if built.has(name)
    ]
    shared = (False,) * len(built.params)
    for width in WIDTHS:
        yield (
            f"llvm {width}",
            llvm.module([(f, VectorShape(width, 1)) for f in sections], built.params, shared, True),
        )
        yield f"c {width}", c.module([(f, VectorShape(width, 1)) for f in sections], built.params, shared)
    one = [(f, VectorShape(1, 1)) for f in sections]
    yield "opencl", opencl.module(one, built.params, shared)
    yield "cuda", cuda.module(one, built.params, shared)
    yield "ptx", ptx.module(one, built.params, shared)


def compute(name: str, setting: Setting) -> dict[str, str]:
    system, options = CHOSEN[name]
    try:
        found = texts(tp.compile(system, **options))
        return {
            what: short(renamed(text, LLVM_NAMES if what[:4] in ("llvm", "ptx") else C_NAMES))
            for what, text in found
        }
    except tp.TinyPhysicsError as error:
        return {"refused": message(error)}


def units() -> list[Unit]:
    return [Unit("kernels", name, partial(compute, name), tier_of("kernels", name)) for name in CHOSEN]
