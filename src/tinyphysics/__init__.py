"""tinyphysics: write the energy; the compiler derives the forces, proves what is conserved, and runs it."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

import tinyphysics.front.dense  # noqa: F401  np.linalg.det, inv and solve on symbols
import tinyphysics.front.movement  # noqa: F401  np.pad, np.repeat, np.flip, ... on symbols
from tinyphysics import moved as _moved
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
from tinyphysics.front.advection import advect as advect
from tinyphysics.front.baths import nose_hoover as nose_hoover
from tinyphysics.front.bodies import rotate as rotate
from tinyphysics.front.bodies import unrotate as unrotate
from tinyphysics.front.constraints import constraint as constraint
from tinyphysics.front.contacts import contact as contact
from tinyphysics.front.fields import magnetic as magnetic
from tinyphysics.front.fourier import dealias as dealias
from tinyphysics.front.fourier import dx as dx
from tinyphysics.front.functions import absolute as _absolute
from tinyphysics.front.functions import arccos as arccos
from tinyphysics.front.functions import arcsin as arcsin
from tinyphysics.front.functions import arctan as arctan
from tinyphysics.front.functions import arctan2 as arctan2
from tinyphysics.front.functions import cast as cast
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
from tinyphysics.front.poisson import poisson as poisson
from tinyphysics.front.rigid_bonds import rigid_bonds as rigid_bonds
from tinyphysics.front.spaces import Array as Array
from tinyphysics.front.spaces import Axis as Axis
from tinyphysics.front.spaces import Bool as Bool
from tinyphysics.front.spaces import Complex as Complex
from tinyphysics.front.spaces import Int8 as Int8
from tinyphysics.front.spaces import Int16 as Int16
from tinyphysics.front.spaces import Int32 as Int32
from tinyphysics.front.spaces import Int64 as Int64
from tinyphysics.front.spaces import Rotation as Rotation
from tinyphysics.front.spaces import Rotor as Rotor
from tinyphysics.front.spaces import Vec as Vec
from tinyphysics.front.trace import PhysicsSystem as PhysicsSystem
from tinyphysics.front.trace import forces as forces
from tinyphysics.front.trace import hamiltonian as hamiltonian
from tinyphysics.front.trace import map_ as _map
from tinyphysics.front.trace import ode as ode
from tinyphysics.front.trace import potential as potential
from tinyphysics.front.walls import event as event
from tinyphysics.front.walls import wall as wall
from tinyphysics.report import Report as Report
from tinyphysics.rules.calculus.custom import op as op
from tinyphysics.system import System as System
from tinyphysics.system import fast as fast
from tinyphysics.system import slow as slow
from tinyphysics.system import split as split
from tinyphysics.trajectory import Stop as Stop
from tinyphysics.trajectory import Trajectory as Trajectory
from tinyphysics.util import WITH_OTHERS as _WITH_OTHERS
from tinyphysics.util import did_you_mean as _did_you_mean
from tinyphysics.version import __version__ as __version__

if TYPE_CHECKING:
    from tinyphysics import chaos as chaos
    from tinyphysics import cluster as cluster
    from tinyphysics import compat as compat
    from tinyphysics import fft as fft
    from tinyphysics import kernel as kernel
    from tinyphysics import operators as operators
    from tinyphysics import physics as physics
    from tinyphysics import plasma as plasma
    from tinyphysics.cluster.machines import on as on
    from tinyphysics.cluster.parareal import Parareal as Parareal
    from tinyphysics.cluster.sweeps import sweep as sweep
    from tinyphysics.compat import AutoLinearizer as AutoLinearizer
    from tinyphysics.compat import Compiler as Compiler
    from tinyphysics.compat import HamiltonianSystem as HamiltonianSystem
    from tinyphysics.compat import LagrangianSystem as LagrangianSystem
    from tinyphysics.learn.calls import jax_function as jax_function
    from tinyphysics.learn.calls import torch_module as torch_module
    from tinyphysics.loss import Loss as Loss
    from tinyphysics.physics.statistics import statistics as statistics
    from tinyphysics.planner.systems.bias import metadynamics as metadynamics
    from tinyphysics.planner.systems.bias import umbrella as umbrella
    from tinyphysics.planner.systems.memory import gle as gle
    from tinyphysics.planner.systems.pressure import barostat as barostat
    from tinyphysics.runtime.api.compile import compile as compile
    from tinyphysics.runtime.api.sample import Draws as Draws
    from tinyphysics.runtime.api.sample import sample as sample
    from tinyphysics.runtime.api.simulation import Simulation as Simulation
    from tinyphysics.runtime.api.simulation_file import load as load
    from tinyphysics.runtime.api.stepper import Stepper as Stepper
    from tinyphysics.runtime.measure.fit import Fit as Fit
    from tinyphysics.runtime.measure.fit import fit as fit
    from tinyphysics.runtime.measure.ladder import ladder as ladder
    from tinyphysics.runtime.measure.mbar import mbar as mbar
    from tinyphysics.runtime.measure.symplecticity import assert_symplectic as assert_symplectic
    from tinyphysics.runtime.measure.symplecticity import measure_symplectic as measure_symplectic
    from tinyphysics.runtime.state.across import exchange as exchange
    from tinyphysics.runtime.state.acts import act as act
    from tinyphysics.runtime.state.acts import fault as fault

_moved.install()

# assigned, not imported under another name: type checkers take such imports as private
abs, map, sum = _absolute, _map, _total

# what runs needs NumPy and is imported when it is first used: without NumPy one can still trace, print and
# verify, and run TP-IR on lists
RUNTIME = {
    "Loss": "tinyphysics.loss",
    "compile": "tinyphysics.runtime.api.compile",
    "statistics": "tinyphysics.physics.statistics",
    "gle": "tinyphysics.planner.systems.memory",
    "barostat": "tinyphysics.planner.systems.pressure",
    "assert_symplectic": "tinyphysics.runtime.measure.symplecticity",
    "measure_symplectic": "tinyphysics.runtime.measure.symplecticity",
    "Fit": "tinyphysics.runtime.measure.fit",
    "ladder": "tinyphysics.runtime.measure.ladder",
    "mbar": "tinyphysics.runtime.measure.mbar",
    "fit": "tinyphysics.runtime.measure.fit",
    "jax_function": "tinyphysics.learn.calls",
    "torch_module": "tinyphysics.learn.calls",
    "load": "tinyphysics.runtime.api.simulation_file",
    "Draws": "tinyphysics.runtime.api.sample",
    "sample": "tinyphysics.runtime.api.sample",
    "act": "tinyphysics.runtime.state.acts",
    "exchange": "tinyphysics.runtime.state.across",
    "on": "tinyphysics.cluster.machines",
    "Parareal": "tinyphysics.cluster.parareal",
    "sweep": "tinyphysics.cluster.sweeps",
    "metadynamics": "tinyphysics.planner.systems.bias",
    "umbrella": "tinyphysics.planner.systems.bias",
    "fault": "tinyphysics.runtime.state.acts",
    "Simulation": "tinyphysics.runtime.api.simulation",
    "Stepper": "tinyphysics.runtime.api.stepper",
    "AutoLinearizer": "tinyphysics.compat",
    "Compiler": "tinyphysics.compat",
    "HamiltonianSystem": "tinyphysics.compat",
    "LagrangianSystem": "tinyphysics.compat",
}
MODULES = (
    "physics",
    "kernel",
    "chaos",
    "cluster",
    "plasma",
    "operators",
    "compat",
    "fft",
)  # imported when they are first used


def __getattr__(name: str) -> Any:
    if name in MODULES:
        return import_module(f"tinyphysics.{name}")
    if name not in RUNTIME:
        from tinyphysics.options import COMPILE

        if name in COMPILE:
            raise AttributeError(f"tinyphysics has no `{name}`: write tp.compile(system, {name}=...)")
        if name in _WITH_OTHERS:
            raise AttributeError(f"tinyphysics has no `{name}`: write {_WITH_OTHERS[name]}")
        raise AttributeError(f"tinyphysics has no `{name}`. {_did_you_mean(name, __dir__())}".strip())
    globals()[name] = value = getattr(import_module(RUNTIME[name]), name)
    return value


def __dir__() -> list[str]:
    """What users write as tp.<name>: no files of the package, and nothing that this file imports for itself."""
    inside = {"Any", "TYPE_CHECKING", "import_module", "RUNTIME", "MODULES"}
    modules = {name for name, value in globals().items() if type(value) is type(_moved)} - {
        "physics",
        "random",
    }
    return sorted({*globals(), *RUNTIME, *MODULES} - inside - modules)
