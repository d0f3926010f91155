"""tinyphysics: write the energy; the compiler derives the forces, proves what is conserved, and runs it."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

import tinyphysics.front.dense  # noqa: F401  np.linalg.det, inv and solve on symbols
import tinyphysics.front.movement  # noqa: F401  np.pad, np.repeat, np.flip, ... on symbols
from tinyphysics import moved as _moved
from tinyphysics import system as _system
from tinyphysics.errors import BackendError as BackendError
from tinyphysics.errors import InputError as InputError
from tinyphysics.errors import PhysicsIntegrityError as PhysicsIntegrityError
from tinyphysics.errors import PhysicsWarning as PhysicsWarning
from tinyphysics.errors import PlanError as PlanError
from tinyphysics.errors import ShapeError as ShapeError
from tinyphysics.errors import StoreError as StoreError
from tinyphysics.errors import TinyPhysicsError as TinyPhysicsError
from tinyphysics.errors import TraceError as TraceError
from tinyphysics.errors import UnitError as UnitError
from tinyphysics.errors import VerifyError as VerifyError
from tinyphysics.front import random as random
from tinyphysics.front.functions import absolute as _absolute
from tinyphysics.front.functions import arccos as arccos
from tinyphysics.front.functions import arcsin as arcsin
from tinyphysics.front.functions import arctan as arctan
from tinyphysics.front.functions import arctan2 as arctan2
from tinyphysics.front.functions import cbrt as cbrt
from tinyphysics.front.functions import clip as clip
from tinyphysics.front.functions import concatenate as concatenate
from tinyphysics.front.functions import cos as cos
from tinyphysics.front.functions import cosh as cosh
from tinyphysics.front.functions import cross as cross
from tinyphysics.front.functions import diff as diff
from tinyphysics.front.functions import dot as dot
from tinyphysics.front.functions import einsum as einsum
from tinyphysics.front.functions import erf as erf
from tinyphysics.front.functions import exp as exp
from tinyphysics.front.functions import expm1 as expm1
from tinyphysics.front.functions import floor as floor
from tinyphysics.front.functions import hypot as hypot
from tinyphysics.front.functions import log as log
from tinyphysics.front.functions import log1p as log1p
from tinyphysics.front.functions import maximum as maximum
from tinyphysics.front.functions import mean as mean
from tinyphysics.front.functions import minimum as minimum
from tinyphysics.front.functions import norm as norm
from tinyphysics.front.functions import outer as outer
from tinyphysics.front.functions import prod as prod
from tinyphysics.front.functions import reshape as reshape
from tinyphysics.front.functions import roll as roll
from tinyphysics.front.functions import sign as sign
from tinyphysics.front.functions import sin as sin
from tinyphysics.front.functions import sinh as sinh
from tinyphysics.front.functions import sqrt as sqrt
from tinyphysics.front.functions import stack as stack
from tinyphysics.front.functions import take as take
from tinyphysics.front.functions import tan as tan
from tinyphysics.front.functions import tanh as tanh
from tinyphysics.front.functions import total as _total
from tinyphysics.front.functions import transpose as transpose
from tinyphysics.front.functions import where as where
from tinyphysics.front.lagrangian import lagrangian as lagrangian
from tinyphysics.front.neighbours import pair_distance2 as pair_distance2
from tinyphysics.front.neighbours import separation as separation
from tinyphysics.front.pairs import pair_sum as pair_sum
from tinyphysics.front.spaces import Array as Array
from tinyphysics.front.spaces import Vec as Vec
from tinyphysics.front.trace import PhysicsSystem as PhysicsSystem
from tinyphysics.front.trace import forces as forces
from tinyphysics.front.trace import hamiltonian as hamiltonian
from tinyphysics.front.trace import map_ as _map
from tinyphysics.front.trace import ode as ode
from tinyphysics.front.trace import potential as potential
from tinyphysics.report import Report as Report
from tinyphysics.rules.calculus.custom import op as op
from tinyphysics.system import System as System
from tinyphysics.system import fast as fast
from tinyphysics.system import slow as slow
from tinyphysics.system import split as split
from tinyphysics.trajectory import Stop as Stop
from tinyphysics.trajectory import Trajectory as Trajectory
from tinyphysics.util import did_you_mean as _did_you_mean
from tinyphysics.version import __version__ as __version__

if TYPE_CHECKING:
    from tinyphysics import kernel as kernel
    from tinyphysics import physics as physics
    from tinyphysics.compat import AutoLinearizer as AutoLinearizer
    from tinyphysics.compat import Compiler as Compiler
    from tinyphysics.compat import HamiltonianSystem as HamiltonianSystem
    from tinyphysics.compat import LagrangianSystem as LagrangianSystem
    from tinyphysics.runtime.api.compile import compile as compile
    from tinyphysics.runtime.api.simulation import Simulation as Simulation
    from tinyphysics.runtime.api.simulation_file import load as load
    from tinyphysics.runtime.measure.symplecticity import assert_symplectic as assert_symplectic
    from tinyphysics.runtime.measure.symplecticity import measure_symplectic as measure_symplectic

_moved.install()

# assigned, not imported under another name: type checkers take such imports as private
abs, map, sum = _absolute, _map, _total

# what runs needs NumPy and is imported when it is first used: without NumPy one can still trace, print and
# verify, and run TP-IR on lists
RUNTIME = {
    "compile": "tinyphysics.runtime.api.compile",
    "assert_symplectic": "tinyphysics.runtime.measure.symplecticity",
    "measure_symplectic": "tinyphysics.runtime.measure.symplecticity",
    "load": "tinyphysics.runtime.api.simulation_file",
    "save": "tinyphysics.runtime.api.simulation_file",
    "minimise": "tinyphysics.runtime.measure.minimise",
    "rewind": "tinyphysics.runtime.measure.rewind",
    "piloted": "tinyphysics.runtime.measure.accuracy",
    "rounding_row": "tinyphysics.runtime.measure.rounding",
    "step_of_run": "tinyphysics.runtime.measure.accuracy",
    "judged": "tinyphysics.runtime.measure.accuracy",
    "suggest_dt": "tinyphysics.runtime.measure.accuracy",
    "set_paces": "tinyphysics.runtime.measure.multirate",
    "resonance": "tinyphysics.runtime.measure.multirate",
    "pace_section": "tinyphysics.runtime.measure.multirate",
    "suggest_split": "tinyphysics.runtime.measure.multirate",
    "stability": "tinyphysics.runtime.measure.accuracy",
    "resonances": "tinyphysics.runtime.measure.resonance",
    "with_momenta": "tinyphysics.runtime.stages.momenta_of_velocities",
    "to_xarray": "tinyphysics.runtime.api.dataset",
    "Simulation": "tinyphysics.runtime.api.simulation",
    "AutoLinearizer": "tinyphysics.compat",
    "Compiler": "tinyphysics.compat",
    "HamiltonianSystem": "tinyphysics.compat",
    "LagrangianSystem": "tinyphysics.compat",
}
MODULES = ("physics", "kernel")  # imported when they are first used
# for users sim.save(path), sim.minimise(...), out.to_xarray(), sim.suggest_dt(...), and what evolve does with goals
METHODS = {
    "save",
    "minimise",
    "rewind",
    "to_xarray",
    "piloted",
    "rounding_row",
    "step_of_run",
    "judged",
    "suggest_dt",
    "stability",
    "set_paces",
    "resonance",
    "pace_section",
    "suggest_split",
    "resonances",
    "with_momenta",
}


def __getattr__(name: str) -> Any:
    if name in MODULES:
        return import_module(f"tinyphysics.{name}")
    if name not in RUNTIME:
        raise AttributeError(f"tinyphysics has no `{name}`. {_did_you_mean(name, __dir__())}".strip())
    value = getattr(import_module(RUNTIME[name]), name)
    if name not in METHODS:
        globals()[name] = value
    return value


def __dir__() -> list[str]:
    """What users write as tp.<name>: no files of the package, and nothing that this file imports for itself."""
    inside = {"Any", "TYPE_CHECKING", "import_module", "METHODS", "RUNTIME", "MODULES"} | METHODS
    modules = {name for name, value in globals().items() if type(value) is type(_moved)} - {
        "physics",
        "random",
    }
    return sorted({*globals(), *RUNTIME, *MODULES} - inside - modules)


_system.SLOTS["compile"] = lambda *args, **options: __getattr__("compile")(*args, **options)
_system.SLOTS["to_xarray"] = lambda *args: __getattr__("to_xarray")(*args)
_system.SLOTS["save"] = lambda *args: __getattr__("save")(*args)
_system.SLOTS["there"] = lambda: import_module(
    "tinyphysics.runtime.engines.caller_arrays"
)  # what is asked of arrays on a GPU
_system.SLOTS["rewind"] = lambda *args: __getattr__("rewind")(*args)
_system.SLOTS["minimise"] = lambda *args: __getattr__("minimise")(*args)
_system.SLOTS["piloted"] = lambda *args: __getattr__("piloted")(*args)
_system.SLOTS["rounding_row"] = lambda *args: __getattr__("rounding_row")(*args)
_system.SLOTS["step_of_run"] = lambda *args: __getattr__("step_of_run")(*args)
_system.SLOTS["judged"] = lambda *args: __getattr__("judged")(*args)
_system.SLOTS["stability"] = lambda *args: __getattr__("stability")(*args)
_system.SLOTS["resonances"] = lambda *args: __getattr__("resonances")(*args)
_system.SLOTS["with_momenta"] = lambda *args: __getattr__("with_momenta")(*args)
_system.SLOTS["suggest_dt"] = lambda *args: __getattr__("suggest_dt")(*args)
_system.SLOTS["set_paces"] = lambda *args: __getattr__("set_paces")(*args)
_system.SLOTS["resonance"] = lambda *args: __getattr__("resonance")(*args)
_system.SLOTS["pace_section"] = lambda *args: __getattr__("pace_section")(*args)
_system.SLOTS["suggest_split"] = lambda *args: __getattr__("suggest_split")(*args)


def _drawn(out: Trajectory) -> tuple[Trajectory, Any]:
    """The run with its frames on this machine, and what it is a run of."""
    if out.origin is None:
        raise PlanError(
            "this run was loaded without its program, so its system is not known", fix="Plot out.q yourself."
        )
    if getattr(out.t, "ndim", 1) > 1:
        raise PlanError(
            "the members of this run are at different times, and a picture has one time axis",
            fix="Plot out.t[:, k] and out.q[:, k] yourself, or run one member alone.",
        )
    return _system.SLOTS["there"]().on_this_machine(out), out.origin.run.system.seen


def _without_matplotlib(call: str, error: ImportError) -> BackendError:
    return BackendError(f"out.{call}() needs matplotlib: {error}", fix='pip install "tinyphysics[plot]"')


def _plot(out: Trajectory, *args: Any, **options: Any) -> Any:
    run, system = _drawn(out)
    try:
        figures = import_module("tinyphysics.view.figures")
    except ImportError as error:
        raise _without_matplotlib("plot", error) from None
    return figures.plot(run, system, *args, **options)


def _animate(out: Trajectory, path: Any = None, **options: Any) -> Any:
    run, system = _drawn(out)
    try:
        films = import_module("tinyphysics.view.films")
    except ImportError as error:
        raise _without_matplotlib("animate", error) from None
    return films.animate(run, system, path, **options)


_system.SLOTS["animate"] = _animate
_system.SLOTS["run_page"] = lambda *args: import_module("tinyphysics.view.page").run_page(*args)
_system.SLOTS["simulation_page"] = lambda *args: import_module("tinyphysics.view.page").simulation_page(*args)
_system.SLOTS["plot"] = _plot
