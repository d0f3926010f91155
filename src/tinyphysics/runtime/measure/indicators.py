"""Which observables tell regular motion from chaos?  MEGNO, SALI, GALI and FTLE, from directions beside the states."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from typing import Any

from tinyphysics.errors import InputError
from tinyphysics.front.measure import Measure, as_measure, measure
from tinyphysics.given import shown
from tinyphysics.ir import UOp
from tinyphysics.runtime.measure.tangents import MEANS, Beside, Wanted, orthonormal
from tinyphysics.runtime.stages.execute import clock_of
from tinyphysics.runtime.stages.subject import Observed
from tinyphysics.tpir.program.lower import ways_of


@dataclass(frozen=True, eq=False)
class Indicator(Measure):
    """A measure of directions beside the states: a run that observes one has them."""

    needs: Callable[[Mapping[str, Any]], Wanted] = lambda options: Wanted()

    @property
    def needs_directions(self) -> Wanted:
        return self.needs(self.options)


def beside(subject: Observed) -> Beside:
    own = Beside(subject.system, clock_of(subject.system))
    if not ways_of(own.own, subject.system.states):
        raise InputError(
            f"an indicator of chaos is observed in a run: `{subject.name}` has no directions here",
            fix='Pass it to evolve: sim.evolve(..., observe={"Y": tp.chaos.megno}).',
        )
    return own


def indicator(
    needs: Callable[[Mapping[str, Any]], Wanted],
) -> Callable[[Callable[..., Any]], Callable[..., Indicator]]:
    """From f(subject, options...) to a function of the options alone, whose result is an Indicator."""

    def made(function: Callable[..., Any]) -> Callable[..., Indicator]:
        plain = measure(function)

        @wraps(plain)
        def factory(*args: Any, **kwargs: Any) -> Indicator:
            m = plain(*args, **kwargs)
            needs(m.options)  # wrong options are told of here, not in a run
            return Indicator(m.factory, m.options, needs)

        factory.is_measure = True  # type: ignore[attr-defined]
        factory.needs_directions = True  # type: ignore[attr-defined]
        return factory

    return made


def wanted_of(function: Any) -> Wanted | None:
    """The directions that an observable needs; None of one that needs none."""
    if not hasattr(function, "needs_directions"):
        return None
    found = as_measure(function)
    assert isinstance(found, Indicator)
    return found.needs_directions


def since_start(b: Beside, first: UOp) -> UOp:
    """The time since the beginning; one at the beginning itself, where all that is divided by it is zero."""
    span = b.time - first
    return span.eq(UOp.const(0.0)).where(UOp.const(1.0), span)


@indicator(lambda options: Wanted(means=True))
def ftle(subject: Observed) -> UOp:
    """The finite-time Lyapunov exponent: the mean rate at which a random direction has grown since the run began."""
    b = beside(subject)
    _, R = orthonormal(b.vectors[:1])
    return b.grown(R)[0] / since_start(b, b.known[MEANS][3])


@indicator(lambda options: Wanted(means=True))
def megno(subject: Observed, mean: bool = True) -> UOp:
    """The mean exponential growth of nearby orbits: 2 where motion is regular, and lambda t/2 where it is chaotic.

    With mean=False it is Y(t) itself, which oscillates about 2, and about lambda t, instead of its mean over the time.
    """
    b = beside(subject)
    _, R = orthonormal(b.vectors[:1])
    _, of_y, y = b.means(b.grown(R)[0])
    return of_y / since_start(b, b.known[MEANS][3]) if mean else y


def volume(b: Beside, k: int) -> UOp:
    """Of the parallelepiped of k unit vectors, which are the directions as they were given."""
    _, R = orthonormal(b.vectors[:k])
    lengths, _ = b.mixed(R)
    grown = b.grown(R)
    return UOp.sum_of([g - x for g, x in zip(grown, lengths)]).exp()


@indicator(lambda options: Wanted(checked_count(options.get("k")), volumes=True))
def gali(subject: Observed, k: int) -> UOp:
    """The generalised alignment index of k directions: the volume that their unit vectors span.

    On a torus of N dimensions it is constant up to k = N and falls as t**-2(k - N) beyond; in chaos it falls exponentially.
    """
    return volume(beside(subject), checked_count(k))


@indicator(lambda options: Wanted(2, volumes=True))
def sali(subject: Observed) -> UOp:
    """The smaller alignment index: how far two directions are from being parallel, or antiparallel."""
    one, found = UOp.const(1.0), volume(beside(subject), 2)
    sine = (found < one).where(found, one)
    cosine = (one - sine * sine).sqrt()
    return (UOp.const(2.0) / (one + cosine)).sqrt() * sine


@measure
def growths(subject: Observed) -> UOp:
    """The logarithm of what each direction has grown by, beside those before it."""
    b = beside(subject)
    found = b.grown(orthonormal(b.vectors)[1])
    return UOp.stack(found, (len(found),))


def checked_count(k: Any) -> int:
    if isinstance(k, bool) or not isinstance(k, int) or k < 2:
        raise InputError(
            f"gali(k={shown(k)}) is not a number of directions", fix="Pass tp.chaos.gali(k=2), or more."
        )
    return k
