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

# where modules went from their package, by room; old=new where the name is another too
INTO_ROOMS = {
    "rules.identities": "exact real quotients denominators fuse invariant fast_products pair_roots",
    "rules.digits": (
        "coefficients floats wide=double_double wide_functions=double_double_functions "
        "wide_sums=double_double_sums"
    ),
    "rules.calculus": (
        "partials vjp jvp jet series linear matrices custom solve unroll affine degree hessian legendre "
        "brackets"
    ),
    "rules.equality": "normal probe poles ranges pairs",
    "rules.formulas": "kepler jacobi oscillators coupled relativity cutoffs arc=harmonic",
    "rules.functions": (
        "trig explog power inverse random fast transcendental rounds widen turn=angle_reduction"
    ),
    "tpir.program": "isa text form symbolic lower vm propagate functions=values",
    "tpir.kernels": (
        "kernel stages outline pressure nests loops schedule index tree wavefront pull=at_index "
        "planes=layout stored=materialise settle=double_buffer telling=failure_sums lists=neighbours"
    ),
    "tpir.precision": (
        "precision mixed compensated lattice linear order_free probe wide=double_double "
        "exchange=antisymmetric flows=state_flows"
    ),
    "tpir.proof": (
        "blocks weights certificate components units tableau modified=force_gradient sizes=solutions "
        "jumps=walk"
    ),
    "tpir.proof.readers": (
        "collocation frames=kepler rotations=oscillators stationary=variational copies=doubled"
    ),
    "synth.coefficients": (
        "lie bch conditions solve schemes coefficients quality dormand_prince timing=clocks"
    ),
    "synth.methods": (
        "derivative dop853=explicit_pair embedded implicit interaction magnus multirate project propagate radau rates "
        "rungekutta splitting taylor variational wide_taylor doubled=extended_phase_space "
        "energy=discrete_gradient explicit=as_written gradients=takahashi_imada orbits=wisdom_holman "
        "shears=parts"
    ),
    "planner.cost": "cost loops machine offload target rounding fast",
    "planner.methods": "catalog needs stability bibliography cite families=method",
    "planner.systems": "link kinetics clock=time_transformation units=scaling",
    "planner.choice": (
        "routes choose goals longest lagrangian deletion propagator stiff paces=multirate "
        "turning=oscillator_resonance resonance=multirate_resonance"
    ),
    "emit.text": "writer ptx_code=code seeds solved",
    "emit.scalar": "llvm packed packs c opencl cuda ptx cmain ptx_tools ptx_moves ptx_leaves",
    "emit.loops": "nest_writer ptx_threads",
    "emit.kinds": (
        "nest_kinds nest_pairs nest_near nest_registers ptx_pairs ptx_near ptx_rounded ptx_estimates cnests"
    ),
    "emit.kinds.neighbours": "list_builder ptx_lists ptx_order ptx_sort",
    "emit.kinds.trees": "tree_walk ptx_tree ptx_tree_build ptx_tree_sort ptx_tree_text",
    "emit.kinds.series": "series ptx_series",
    "emit.modules": "nests ptx_nests cuda_nests cloops",
    "device.host": "llvm cc arrays nests tree memory series_arrays near=neighbours",
    "device.cuda": (
        "nvptx cuda=driver cuda_near=neighbours cuda_tree=tree cuda_sort=sort cuda_tuning=tuning "
        "cuda_ahead=ahead exchange=dlpack"
    ),
    "device.engines": "engine loops series cuda_lanes cuda_loops cuda_series cuda_many pieces host",
    "device.linear": "eigen modes normal_form chebyshev spectral rank dd=double_double",
    "runtime.state": "workers digest encoding ensemble indices schedule record tiles windows",
    "runtime.storage": "checkpoint resume zarr3 store=run_store stream=writer_thread saving=open_store",
    "runtime.engines": (
        "plans engine backend loaders cuda opencl estimates adaptive jump propagator events looked=on_demand "
        "means=propagators there=caller_arrays replay=find_failure meeting=collisions"
    ),
    "runtime.stages": (
        "compiled description invariants execute loop progress outcome origin subject decisions=pilot_cache "
        "velocity=momenta_of_velocities hierarchy=order_bodies flows=flow_matrices clock=own_time "
        "units=check_scaling wander=energy_so_far"
    ),
    "runtime.measure": (
        "accuracy pilot frequency resonance commutators convergence solver minimise descent rewind "
        "paces=multirate sanitize=symplecticity"
    ),
    "runtime.api": "simulation compile dataset saved=simulation_file recompute=verify_store",
    "ir": "arc=harmonic near=neighbours turn=angle_reduction",
    "front": "near=neighbours",
    "analysis": "apart=lone_potential facts_of=analyse",
    "device.opencl": "opencl=driver",
}
MOVED = {  # old module: new module
    f"{room.partition('.')[0]}.{old}": f"{room}.{new or old}"
    for room, names in INTO_ROOMS.items()
    for old, _, new in (name.partition("=") for name in names.split())
}
MOVED |= {"rules.scale": "flows.rescaled"}
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
# what has another name, or another place, by its module; what an old pickle says of a step is not read
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
    "runtime.engines.plans": {"Known": "runtime.engines.plans.PlanSummary"},
    "runtime.engines.on_demand": {"LookedAt": "runtime.engines.on_demand.OnDemandEngine"},
    "runtime.stages.execute": {
        "chosen": "runtime.stages.execute.choose_engine",
        "looking": "runtime.stages.execute.observe_states",
        "watcher": "runtime.stages.execute.observer_program",
    },
    "runtime.stages.origin": {"Asked": "runtime.stages.origin.CompileRecord"},
    "runtime.state.run": {"Recipe": "runtime.state.run.LazyProgram"},
    "system": {"Family": "system.SizedFamily"},
    "tpir.program.isa": {"Row": "tpir.program.isa.InstructionRow"},
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
        parted = [PARTED[old] for old in PARTED if self.old in (old, MOVED[old])]
        places = [*parted, MOVED[self.old]] if self.old in MOVED else parted
        vars(module)["__getattr__"] = names_of(self.old, places)


def names_of(old: str, places: Sequence[str]) -> Callable[[str], Any]:
    """The __getattr__ of a module: some classes have another name, other old names are in one of these places."""

    def __getattr__(name: str) -> Any:
        if name in RENAMED.get(old, {}):
            place, _, new = RENAMED[old][name].rpartition(".")
            if by_hand(frame := sys._getframe(1)):
                warn(frame, f"{old}.{name}", place, new)
            return getattr(import_module(ROOT + place), new)
        if not name.startswith("__") and f"{old}.{name}" not in MOVED.values():
            for place in places:
                module = import_module(ROOT + place)
                if name in vars(module) or name in RENAMED.get(place, {}):
                    if by_hand(frame := sys._getframe(1)):
                        warn(frame, old, place, name)
                    return getattr(module, name)
        raise AttributeError(f"module '{ROOT}{old}' has no attribute '{name}'")

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
    for old in RENAMED:
        if (module := sys.modules.get(ROOT + old)) is not None:  # imported already
            vars(module)["__getattr__"] = names_of(old, [])
