"""Where is a module that had another path?  Old paths work for one release, with a warning that shows the new line.

`import tinyphysics.rules.exact` gives the module tinyphysics.rules.identities.exact itself. A pickle that names an old
path is read without a warning. tools/rooms.py moved the files by the same table. As long as no old path is used, all of
this costs one look into the table for each module of the package that is imported.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder
from opcode import opname
from types import FrameType, ModuleType
from typing import TYPE_CHECKING, Any
from warnings import warn_explicit

if TYPE_CHECKING:
    from importlib.abc import Loader
else:  # what importlib.abc adds is not needed, and takes longer to import than all of this
    Loader = object

ROOT = "tinyphysics."
GONE = "0.3"  # the version without the old paths

MOVED = {  # old module: new module
    "ir.arc": "ir.harmonic",
    "ir.near": "ir.neighbours",
    "ir.turn": "ir.angle_reduction",
    "rules.scale": "flows.rescaled",
    "rules.exact": "rules.identities.exact",
    "rules.real": "rules.identities.real",
    "rules.quotients": "rules.identities.quotients",
    "rules.denominators": "rules.identities.denominators",
    "rules.fuse": "rules.identities.fuse",
    "rules.invariant": "rules.identities.invariant",
    "rules.fast_products": "rules.identities.fast_products",
    "rules.pair_roots": "rules.identities.pair_roots",
    "rules.coefficients": "rules.digits.coefficients",
    "rules.floats": "rules.digits.floats",
    "rules.wide": "rules.digits.double_double",
    "rules.wide_functions": "rules.digits.double_double_functions",
    "rules.wide_sums": "rules.digits.double_double_sums",
    "rules.partials": "rules.calculus.partials",
    "rules.vjp": "rules.calculus.vjp",
    "rules.jvp": "rules.calculus.jvp",
    "rules.jet": "rules.calculus.jet",
    "rules.series": "rules.calculus.series",
    "rules.linear": "rules.calculus.linear",
    "rules.matrices": "rules.calculus.matrices",
    "rules.custom": "rules.calculus.custom",
    "rules.solve": "rules.calculus.solve",
    "rules.unroll": "rules.calculus.unroll",
    "rules.affine": "rules.calculus.affine",
    "rules.degree": "rules.calculus.degree",
    "rules.hessian": "rules.calculus.hessian",
    "rules.legendre": "rules.calculus.legendre",
    "rules.brackets": "rules.calculus.brackets",
    "rules.normal": "rules.equality.normal",
    "rules.probe": "rules.equality.probe",
    "rules.poles": "rules.equality.poles",
    "rules.ranges": "rules.equality.ranges",
    "rules.pairs": "rules.equality.pairs",
    "rules.kepler": "rules.formulas.kepler",
    "rules.jacobi": "rules.formulas.jacobi",
    "rules.arc": "rules.formulas.harmonic",
    "rules.oscillators": "rules.formulas.oscillators",
    "rules.coupled": "rules.formulas.coupled",
    "rules.relativity": "rules.formulas.relativity",
    "rules.cutoffs": "rules.formulas.cutoffs",
    "rules.trig": "rules.functions.trig",
    "rules.turn": "rules.functions.angle_reduction",
    "rules.explog": "rules.functions.explog",
    "rules.power": "rules.functions.power",
    "rules.inverse": "rules.functions.inverse",
    "rules.random": "rules.functions.random",
    "rules.fast": "rules.functions.fast",
    "rules.transcendental": "rules.functions.transcendental",
    "rules.rounds": "rules.functions.rounds",
    "rules.widen": "rules.functions.widen",
    "front.near": "front.neighbours",
    "analysis.apart": "analysis.lone_potential",
    "analysis.facts_of": "analysis.analyse",
    "tpir.isa": "tpir.program.isa",
    "tpir.text": "tpir.program.text",
    "tpir.form": "tpir.program.form",
    "tpir.functions": "tpir.program.values",
    "tpir.symbolic": "tpir.program.symbolic",
    "tpir.lower": "tpir.program.lower",
    "tpir.vm": "tpir.program.vm",
    "tpir.propagate": "tpir.program.propagate",
    "tpir.kernel": "tpir.kernels.kernel",
    "tpir.stages": "tpir.kernels.stages",
    "tpir.outline": "tpir.kernels.outline",
    "tpir.pressure": "tpir.kernels.pressure",
    "tpir.nests": "tpir.kernels.nests",
    "tpir.loops": "tpir.kernels.loops",
    "tpir.schedule": "tpir.kernels.schedule",
    "tpir.pull": "tpir.kernels.at_index",
    "tpir.planes": "tpir.kernels.layout",
    "tpir.index": "tpir.kernels.index",
    "tpir.stored": "tpir.kernels.materialise",
    "tpir.settle": "tpir.kernels.double_buffer",
    "tpir.telling": "tpir.kernels.failure_sums",
    "tpir.lists": "tpir.kernels.neighbours",
    "tpir.tree": "tpir.kernels.tree",
    "tpir.wavefront": "tpir.kernels.wavefront",
    "tpir.precision": "tpir.precision.precision",
    "tpir.mixed": "tpir.precision.mixed",
    "tpir.compensated": "tpir.precision.compensated",
    "tpir.lattice": "tpir.precision.lattice",
    "tpir.wide": "tpir.precision.double_double",
    "tpir.linear": "tpir.precision.linear",
    "tpir.order_free": "tpir.precision.order_free",
    "tpir.exchange": "tpir.precision.antisymmetric",
    "tpir.flows": "tpir.precision.state_flows",
    "tpir.probe": "tpir.precision.probe",
    "tpir.blocks": "tpir.proof.blocks",
    "tpir.weights": "tpir.proof.weights",
    "tpir.certificate": "tpir.proof.certificate",
    "tpir.modified": "tpir.proof.force_gradient",
    "tpir.components": "tpir.proof.components",
    "tpir.units": "tpir.proof.units",
    "tpir.sizes": "tpir.proof.solutions",
    "tpir.jumps": "tpir.proof.walk",
    "tpir.tableau": "tpir.proof.tableau",
    "tpir.frames": "tpir.proof.readers.kepler",
    "tpir.rotations": "tpir.proof.readers.oscillators",
    "tpir.collocation": "tpir.proof.readers.collocation",
    "tpir.stationary": "tpir.proof.readers.variational",
    "tpir.copies": "tpir.proof.readers.doubled",
    "synth.lie": "synth.coefficients.lie",
    "synth.bch": "synth.coefficients.bch",
    "synth.conditions": "synth.coefficients.conditions",
    "synth.solve": "synth.coefficients.solve",
    "synth.schemes": "synth.coefficients.schemes",
    "synth.coefficients": "synth.coefficients.coefficients",
    "synth.quality": "synth.coefficients.quality",
    "synth.dormand_prince": "synth.coefficients.dormand_prince",
    "synth.timing": "synth.coefficients.clocks",
    "synth.derivative": "synth.methods.derivative",
    "synth.dop853": "synth.methods.explicit_pair",
    "synth.doubled": "synth.methods.extended_phase_space",
    "synth.embedded": "synth.methods.embedded",
    "synth.energy": "synth.methods.discrete_gradient",
    "synth.explicit": "synth.methods.as_written",
    "synth.gradients": "synth.methods.takahashi_imada",
    "synth.implicit": "synth.methods.implicit",
    "synth.interaction": "synth.methods.interaction",
    "synth.magnus": "synth.methods.magnus",
    "synth.multirate": "synth.methods.multirate",
    "synth.orbits": "synth.methods.wisdom_holman",
    "synth.project": "synth.methods.project",
    "synth.propagate": "synth.methods.propagate",
    "synth.radau": "synth.methods.radau",
    "synth.rates": "synth.methods.rates",
    "synth.rungekutta": "synth.methods.rungekutta",
    "synth.shears": "synth.methods.parts",
    "synth.splitting": "synth.methods.splitting",
    "synth.taylor": "synth.methods.taylor",
    "synth.variational": "synth.methods.variational",
    "synth.wide_taylor": "synth.methods.wide_taylor",
    "planner.cost": "planner.cost.cost",
    "planner.loops": "planner.cost.loops",
    "planner.machine": "planner.cost.machine",
    "planner.offload": "planner.cost.offload",
    "planner.target": "planner.cost.target",
    "planner.rounding": "planner.cost.rounding",
    "planner.fast": "planner.cost.fast",
    "planner.catalog": "planner.methods.catalog",
    "planner.families": "planner.methods.method",
    "planner.needs": "planner.methods.needs",
    "planner.stability": "planner.methods.stability",
    "planner.bibliography": "planner.methods.bibliography",
    "planner.cite": "planner.methods.cite",
    "planner.link": "planner.systems.link",
    "planner.clock": "planner.systems.time_transformation",
    "planner.kinetics": "planner.systems.kinetics",
    "planner.units": "planner.systems.scaling",
    "planner.routes": "planner.choice.routes",
    "planner.choose": "planner.choice.choose",
    "planner.goals": "planner.choice.goals",
    "planner.longest": "planner.choice.longest",
    "planner.lagrangian": "planner.choice.lagrangian",
    "planner.deletion": "planner.choice.deletion",
    "planner.propagator": "planner.choice.propagator",
    "planner.stiff": "planner.choice.stiff",
    "planner.paces": "planner.choice.multirate",
    "planner.turning": "planner.choice.oscillator_resonance",
    "planner.resonance": "planner.choice.multirate_resonance",
    "emit.writer": "emit.text.writer",
    "emit.lines": "emit.text.lines",
    "emit.ptx_code": "emit.text.ptx_code",
    "emit.seeds": "emit.text.seeds",
    "emit.solved": "emit.text.solved",
    "emit.llvm": "emit.scalar.llvm",
    "emit.packed": "emit.scalar.packed",
    "emit.packs": "emit.scalar.packs",
    "emit.c": "emit.scalar.c",
    "emit.opencl": "emit.scalar.opencl",
    "emit.cuda": "emit.scalar.cuda",
    "emit.ptx": "emit.scalar.ptx",
    "emit.cmain": "emit.scalar.cmain",
    "emit.ptx_tools": "emit.scalar.ptx_tools",
    "emit.ptx_moves": "emit.scalar.ptx_moves",
    "emit.ptx_leaves": "emit.scalar.ptx_leaves",
    "emit.nest_writer": "emit.loops.nest_writer",
    "emit.ptx_threads": "emit.loops.ptx_threads",
    "emit.nest_kinds": "emit.kinds.nest_kinds",
    "emit.nest_pairs": "emit.kinds.nest_pairs",
    "emit.nest_near": "emit.kinds.nest_near",
    "emit.nest_registers": "emit.kinds.nest_registers",
    "emit.ptx_pairs": "emit.kinds.ptx_pairs",
    "emit.ptx_near": "emit.kinds.ptx_near",
    "emit.ptx_rounded": "emit.kinds.ptx_rounded",
    "emit.ptx_estimates": "emit.kinds.ptx_estimates",
    "emit.cnests": "emit.kinds.cnests",
    "emit.list_builder": "emit.kinds.neighbours.list_builder",
    "emit.ptx_lists": "emit.kinds.neighbours.ptx_lists",
    "emit.ptx_order": "emit.kinds.neighbours.ptx_order",
    "emit.ptx_sort": "emit.kinds.neighbours.ptx_sort",
    "emit.tree_walk": "emit.kinds.trees.tree_walk",
    "emit.ptx_tree": "emit.kinds.trees.ptx_tree",
    "emit.ptx_tree_build": "emit.kinds.trees.ptx_tree_build",
    "emit.ptx_tree_sort": "emit.kinds.trees.ptx_tree_sort",
    "emit.ptx_tree_text": "emit.kinds.trees.ptx_tree_text",
    "emit.series": "emit.kinds.series.series",
    "emit.ptx_series": "emit.kinds.series.ptx_series",
    "emit.nests": "emit.modules.nests",
    "emit.ptx_nests": "emit.modules.ptx_nests",
    "emit.cuda_nests": "emit.modules.cuda_nests",
    "emit.cloops": "emit.modules.cloops",
    "device.llvm": "device.host.llvm",
    "device.cc": "device.host.cc",
    "device.arrays": "device.host.arrays",
    "device.nests": "device.host.nests",
    "device.near": "device.host.neighbours",
    "device.tree": "device.host.tree",
    "device.memory": "device.host.memory",
    "device.series_arrays": "device.host.series_arrays",
    "device.cuda": "device.cuda.driver",
    "device.nvptx": "device.cuda.nvptx",
    "device.cuda_near": "device.cuda.neighbours",
    "device.cuda_tree": "device.cuda.tree",
    "device.cuda_sort": "device.cuda.sort",
    "device.cuda_tuning": "device.cuda.tuning",
    "device.cuda_ahead": "device.cuda.ahead",
    "device.exchange": "device.cuda.dlpack",
    "device.opencl": "device.opencl.driver",
    "device.engine": "device.engines.engine",
    "device.loops": "device.engines.loops",
    "device.series": "device.engines.series",
    "device.cuda_lanes": "device.engines.cuda_lanes",
    "device.cuda_loops": "device.engines.cuda_loops",
    "device.cuda_series": "device.engines.cuda_series",
    "device.cuda_many": "device.engines.cuda_many",
    "device.pieces": "device.engines.pieces",
    "device.host": "device.engines.host",
    "device.dd": "device.linear.double_double",
    "device.eigen": "device.linear.eigen",
    "device.modes": "device.linear.modes",
    "device.normal_form": "device.linear.normal_form",
    "device.chebyshev": "device.linear.chebyshev",
    "device.spectral": "device.linear.spectral",
    "device.rank": "device.linear.rank",
    "runtime.workers": "runtime.state.workers",
    "runtime.digest": "runtime.state.digest",
    "runtime.encoding": "runtime.state.encoding",
    "runtime.ensemble": "runtime.state.ensemble",
    "runtime.indices": "runtime.state.indices",
    "runtime.schedule": "runtime.state.schedule",
    "runtime.record": "runtime.state.record",
    "runtime.tiles": "runtime.state.tiles",
    "runtime.windows": "runtime.state.windows",
    "runtime.checkpoint": "runtime.storage.checkpoint",
    "runtime.resume": "runtime.storage.resume",
    "runtime.zarr3": "runtime.storage.zarr3",
    "runtime.store": "runtime.storage.run_store",
    "runtime.stream": "runtime.storage.writer_thread",
    "runtime.saving": "runtime.storage.open_store",
    "runtime.plans": "runtime.engines.plans",
    "runtime.engine": "runtime.engines.engine",
    "runtime.backend": "runtime.engines.backend",
    "runtime.loaders": "runtime.engines.loaders",
    "runtime.cuda": "runtime.engines.cuda",
    "runtime.opencl": "runtime.engines.opencl",
    "runtime.estimates": "runtime.engines.estimates",
    "runtime.looked": "runtime.engines.on_demand",
    "runtime.adaptive": "runtime.engines.adaptive",
    "runtime.jump": "runtime.engines.jump",
    "runtime.means": "runtime.engines.propagators",
    "runtime.propagator": "runtime.engines.propagator",
    "runtime.events": "runtime.engines.events",
    "runtime.there": "runtime.engines.caller_arrays",
    "runtime.replay": "runtime.engines.find_failure",
    "runtime.meeting": "runtime.engines.collisions",
    "runtime.compiled": "runtime.stages.compiled",
    "runtime.decisions": "runtime.stages.pilot_cache",
    "runtime.description": "runtime.stages.description",
    "runtime.velocity": "runtime.stages.momenta_of_velocities",
    "runtime.hierarchy": "runtime.stages.order_bodies",
    "runtime.flows": "runtime.stages.flow_matrices",
    "runtime.invariants": "runtime.stages.invariants",
    "runtime.clock": "runtime.stages.own_time",
    "runtime.units": "runtime.stages.check_scaling",
    "runtime.execute": "runtime.stages.execute",
    "runtime.loop": "runtime.stages.loop",
    "runtime.progress": "runtime.stages.progress",
    "runtime.wander": "runtime.stages.energy_so_far",
    "runtime.outcome": "runtime.stages.outcome",
    "runtime.origin": "runtime.stages.origin",
    "runtime.accuracy": "runtime.measure.accuracy",
    "runtime.pilot": "runtime.measure.pilot",
    "runtime.frequency": "runtime.measure.frequency",
    "runtime.paces": "runtime.measure.multirate",
    "runtime.resonance": "runtime.measure.resonance",
    "runtime.commutators": "runtime.measure.commutators",
    "runtime.convergence": "runtime.measure.convergence",
    "runtime.solver": "runtime.measure.solver",
    "runtime.sanitize": "runtime.measure.symplecticity",
    "runtime.minimise": "runtime.measure.minimise",
    "runtime.descent": "runtime.measure.descent",
    "runtime.subject": "runtime.stages.subject",
    "runtime.rewind": "runtime.measure.rewind",
    "runtime.simulation": "runtime.api.simulation",
    "runtime.compile": "runtime.api.compile",
    "runtime.saved": "runtime.api.simulation_file",
    "runtime.recompute": "runtime.api.verify_store",
    "runtime.dataset": "runtime.api.dataset",
}
# of these modules some names are elsewhere now
PARTED = {
    "device.host": "device.numbers",
    "emit.opencl": "emit.modules.opencl_nests",
    "planner.families": "planner.methods.families.rates",
    "runtime.backend": "runtime.engines.listing",
    "runtime.loop": "runtime.stages.running",
    "runtime.plans": "runtime.state.run",
    "runtime.sanitize": "runtime.measure.precise",
    "runtime.saved": "runtime.stages.description",
    "runtime.simulation": "runtime.stages.resolve",
    "runtime.there": "runtime.state.device_arrays",
    "synth.splitting": "synth.coefficients.clocks",
    "tpir.propagate": "tpir.proof.readers.propagate",
}
# old modules whose path is a room now: the old names are found through the room
ROOMS = frozenset(
    ("device.cuda", "device.host", "device.opencl", "planner.cost", "synth.coefficients", "tpir.precision")
)
# classes that have another name, or another place, by their module; what an old pickle says of a step is not read
RENAMED = {
    "step": {
        "Shear": "flows.shears.Shear",
        "Shift": "flows.shears.ScaledShear",
        "Block": "flows.shears.ShearFlow",
        "Assign": "flows.map.Map",
        "Solve": "flows.implicit.ImplicitFlow",
        "Orbits": "flows.kepler.KeplerFlow",
        "Frame": "flows.kepler.JacobiCoordinates",
        "Turn": "flows.harmonic.HarmonicFlow",
        "Oscillator": "rules.formulas.oscillators.Oscillator",
        "Propagate": "flows.propagator.LinearPropagator",
        "Loops": "flows.series.TaylorSeries",
    },
    "device.engines.engine": {"KernelEngine": "device.engines.engine.LaneEngine"},
    "device.engines.host": {"Host": "device.engines.host.VmEngine"},
    "physics.io.xyz": {"Frame": "physics.io.xyz.XyzFrame"},
    "runtime.api.verify_store": {"Found": "runtime.api.verify_store.StoredBitsDiffer"},
}
FACE = "tpir"  # its public names are functions, one of them with the name of an old module
# instructions of Python that ask for a name; pickle calls a function
BY_HAND = {"IMPORT_NAME", "IMPORT_FROM", "LOAD_ATTR", "LOAD_METHOD"}


class Finder:
    """Looks old paths up in the table."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not name.startswith(ROOT):
            return None
        old = name[len(ROOT) :]
        if old in ROOMS or old in RENAMED or old == FACE:
            spec = PathFinder.find_spec(name, path)
            if spec is not None and spec.loader is not None:
                spec.loader = OldNames(old, spec.loader)
            return spec
        return ModuleSpec(name, Moved(old)) if old in MOVED else None


class Moved(Loader):
    """Gives the module that has the new path."""

    def __init__(self, old: str) -> None:
        self.old = old

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        new = import_module(ROOT + MOVED[self.old])
        if self.old in PARTED:
            vars(new).setdefault("__getattr__", names_of(self.old, [PARTED[self.old]]))
        sys.modules[ROOT + self.old] = new
        frame, called = sys._getframe(1), False
        while frame.f_back is not None and (name := frame.f_globals.get("__name__", "")).startswith(
            "importlib"
        ):
            called |= name == "importlib"  # import_module
            frame = frame.f_back
        if called or by_hand(frame):
            warn(frame, self.old, MOVED[self.old])


class OldNames(Loader):
    """Loads a package, and lets it find the names that its path had before."""

    def __init__(self, old: str, loader: Loader) -> None:
        self.old, self.loader = old, loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self.loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self.loader
        if module.__spec__ is not None:
            module.__spec__.loader = self.loader
        self.loader.exec_module(module)
        if self.old == FACE:  # an import of the old module would put it in the place of the function
            sys.modules[f"{ROOT}{FACE}.lower"] = sys.modules[f"{ROOT}{MOVED[f'{FACE}.lower']}"]
            return
        if self.old in RENAMED:
            vars(module)["__getattr__"] = classes_of(self.old)
            return
        places = [PARTED.get(self.old, ""), MOVED[self.old]]
        vars(module)["__getattr__"] = names_of(self.old, [place for place in places if place])


def names_of(old: str, places: Sequence[str]) -> Callable[[str], Any]:
    """The __getattr__ of a module: old names are in one of these places."""

    def __getattr__(name: str) -> Any:
        if not name.startswith("__") and f"{old}.{name}" not in MOVED.values():
            for place in places:
                module = import_module(ROOT + place)
                if name in vars(module) or name in RENAMED.get(place, {}):
                    if by_hand(frame := sys._getframe(1)):
                        warn(frame, old, place, name)
                    return getattr(module, name)
        raise AttributeError(f"module '{ROOT}{old}' has no attribute '{name}'")

    return __getattr__


def classes_of(old: str) -> Callable[[str], Any]:
    """The __getattr__ of a module whose classes have other names."""

    def __getattr__(name: str) -> Any:
        if name not in RENAMED[old]:
            raise AttributeError(f"module '{ROOT}{old}' has no attribute '{name}'")
        place, _, new = RENAMED[old][name].rpartition(".")
        if by_hand(frame := sys._getframe(1)):
            warn(frame, f"{old}.{name}", place, new)
        return getattr(import_module(ROOT + place), new)

    return __getattr__


def by_hand(frame: FrameType) -> bool:
    """Does a line of Python do this, and not pickle, which calls?"""
    return opname[frame.f_code.co_code[frame.f_lasti]] in BY_HAND


def warn(frame: FrameType, old: str, new: str, name: str = "...") -> None:
    line = f"from {ROOT}{new} import {name}"
    warn_explicit(
        f"{ROOT}{old} is now {ROOT}{new}: write `{line}`; the old path goes away in {GONE}",
        DeprecationWarning,
        frame.f_code.co_filename,
        frame.f_lineno,
        frame.f_globals.get("__name__", ""),
        frame.f_globals.setdefault("__warningregistry__", {}),
    )


def install() -> None:
    """From now on old paths are found; tinyphysics/__init__.py calls this before any room of ROOMS is imported."""
    sys.meta_path.insert(0, Finder())
