"""Are the derivatives of a system stiff at the first state of a run?  Then `auto` chooses a method for that.

The eigenvalue of the Jacobian with the largest size, times the length of the run, says how many steps stability alone
asks of an explicit method, if that part decays. What oscillates has to be followed, and what grows is the solution.
The limits below are where methods were measured to take equally long (bench/ode_arrays.py). Where dt is given, every method
stops after each dt: then that length decides, so that a run is the beginning of every longer one.
"""

from __future__ import annotations

import cmath
import math
from collections.abc import Sequence

from tinyphysics.ir.reduction import FEW
from tinyphysics.plan import Alternative, Goal, Spectrum
from tinyphysics.planner.methods.families.embedded import MOST_SOLVED
from tinyphysics.report import Row
from tinyphysics.system import System

FEW_NUMBERS = 64  # of a state whose Taylor series are written out
FEW_DIGITS = 1e-4  # a tolerance from which order 2 is cheaper than order 4
BY_SLOPES = "rkc", "rock4"  # explicit, for diffusion; of orders 2 and 4
DECAYS = 0.5  # of an eigenvalue, that its real part is at least: what oscillates more is followed
REAL = 0.2  # of an eigenvalue, that its imaginary part is at most where long steps are for diffusion alone
REACTS = 0.3  # of an eigenvalue, that uniform states change by at most where diffusion is stiff: edges of a field lose 1/4
SADDLE = 0.5  # of what decays, that something grows by: then the solution moves as fast
SETTLED = 1e-5  # the tolerance at which the limits were measured; explicit methods gain digits for less
# decay times in a run, from which on a method for stiff systems is faster
TO_ROUNDING, TO_ROUNDING_IN_LOOPS = 1e6, 5e4  # than Taylor series whose tolerance was not chosen
SOLVED, DIFFUSED = 5e3, 2e3  # than slopes alone, by linear systems and by Chebyshev's stages
LONG = 2e5  # and from which on linear systems of fields are cheaper than 40 stages of Chebyshev's
INTERVALS = 100  # steps of a stiff method in such a run: between two looks it makes at least one


def stiff_method(
    system: System,
    goal: Goal,
    value: complex,
    span: float,
    default: str,
    each: bool = False,
    uniform: float = 0.0,
) -> str:
    """The method for a run in which this eigenvalue is the largest; the default where nothing speaks against it.

    `span` is its length, or (`each`) the time from one look to the next. `uniform` is how fast states change that are 1 or
    less all over: by reactions, or whatever else is not diffusion.
    """
    size = abs(value)
    times = size * span * (INTERVALS if each else 1)
    if not math.isfinite(times) or not times or -value.real < DECAYS * size:
        return default
    numbers = sum(s.var.size for s in system.states)
    real = abs(value.imag) <= REAL * size
    if default == "taylor" and goal.tolerance is None:
        least = TO_ROUNDING if numbers <= FEW_NUMBERS else TO_ROUNDING_IN_LOOPS
    else:
        least = SOLVED * digits(goal)
    spreads = real and uniform <= REACTS * size and times <= LONG * digits(goal)
    able = [m for m in candidates(system, goal, numbers, real, spreads) if m not in goal.forbid]
    if able and able[0] in BY_SLOPES and goal.tolerance is not None:
        least = DIFFUSED
    return able[0] if able and times >= least else default


def digits(goal: Goal) -> float:
    """How many more steps a method of order 4 takes than at the tolerance at which limits were measured."""
    return max(1.0, math.sqrt(math.sqrt(SETTLED / (goal.tolerance or SETTLED))))


def candidates(system: System, goal: Goal, numbers: int, real: bool, spreads: bool) -> list[str]:
    """The best first; `spreads` where it is known that diffusion is stiff, and not too stiff for many stages."""
    if numbers <= MOST_SOLVED:
        return ["radau"]
    shapes = {s.var.shape for s in system.states}
    solves = len(shapes) == 1 and max(*next(iter(shapes)), 0) > FEW
    few = (goal.tolerance or 0.0) >= FEW_DIGITS
    line = all(len(shape) == 1 for shape in shapes)
    by_slopes = list(BY_SLOPES if few else reversed(BY_SLOPES)) if real else []
    by_solving = ["rodas"] if solves else []
    return [*by_slopes, *by_solving] if (few or spreads) and not line else [*by_solving, *by_slopes]


def shown(x: float) -> str:
    return f"{x:.3g}"


def told(s: Spectrum) -> str:
    """What was measured, as a sentence."""
    if not s.size:
        return "at the first state the Jacobian is 0"
    if not math.isfinite(s.size):
        return "the Jacobian is not finite at the first state"
    real, imaginary = (shown(x) for x in (s.real, s.imaginary))
    value = f"{real} ± {imaginary}i" if s.imaginary else real
    return f"the Jacobian at the first state has the eigenvalue {value}, its largest"


def because(s: Spectrum) -> str:
    return f"stiff: {told(s)}; {s.of} is {shown(s.size * s.span)} of its decay times long"


def spectrum_row(s: Spectrum) -> Row:
    """What explain() says after the first run."""
    if s.method and not s.span:
        return Row("stiff", "yes", f"{s.method} is the method of the checkpoint that the run went on from")
    if s.method:
        return Row("stiff", "yes", because(s).removeprefix("stiff: "))
    found = told(s)
    if s.size and math.isfinite(s.size):
        way = (
            "decays" if -s.real >= DECAYS * s.size else "oscillates" if abs(s.real) < s.size / 2 else "grows"
        )
        found = f"{found}: it {way}, and {s.of} is {shown(s.size * s.span)} of its times long"
    return Row("stiff", "not shown", f"{found}; {s.default} stays")


def instead_of(default: str, chosen: str) -> tuple[Alternative, ...]:
    """Why the explicit method, and others for stiff systems, were not chosen."""
    short = Alternative(default, "stability would keep its steps short")
    others = {
        "radau": "writes out its elimination: 14 numbers at most",
        "rodas": "solves linear systems; by name, or with a smaller tolerance",
        "rkc": "explicit, for diffusion; by name, where few digits are enough",
        "rock4": "explicit, for diffusion; by name, where the run is no more than some 10⁵ decay times long",
    }
    rest = [m for m in ("rodas", *BY_SLOPES) if m != chosen and chosen != "radau"]
    return short, *(Alternative(m, others[m]) for m in rest)


def fitted(aa: float, ab: float, bb: float, ac: float, bc: float) -> complex:
    """The larger root z of z**2 = x z + y, where J**2 v = x J v + y v as nearly as may be.

    Of the products of a = v, b = J v and c = J**2 v.
    """
    if not all(map(math.isfinite, (aa, ab, bb, ac, bc))):
        return complex(math.nan)
    if aa <= 0.0:
        return 0j
    rest = aa * bb - ab * ab
    if rest <= 1e-10 * aa * bb:  # v is an eigenvector
        return complex(ab / aa)
    x, y = (aa * bc - ab * ac) / rest, (bb * ac - ab * bc) / rest
    root = cmath.sqrt(0.25 * x * x + y)
    up, down = 0.5 * x + root, 0.5 * x - root
    if up.real > SADDLE * abs(down):  # what runs away is the solution, however fast the rest decays
        return up
    return max(up, down, key=abs)


def worst(values: Sequence[complex]) -> complex:
    """Of members: the one that decays fastest, or if none does the largest."""
    if not values:
        return 0j
    return max(values, key=lambda z: (-z.real >= DECAYS * abs(z), abs(z)) if z == z else (True, math.inf))
