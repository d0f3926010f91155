"""Is a run sooner done on a GPU than here?  Two estimates, from operations, members and steps.

The rates are round numbers, half of what was measured on an H200 and on one core of Zen 3; they decide where a run is done,
which changes no bit of it.
"""

from __future__ import annotations

from dataclasses import dataclass

LANE_RATE = 2e9  # operations a second of one lane of a vector, on a core of this machine
PROCESSOR_RATE = 4.5e10  # of one multiprocessor of a GPU that has enough to do
LATENCY = 5e-9  # seconds from an operation to one that waits for it there
LAUNCH = 0.1  # seconds until the first result: a kernel is made
CONTEXT = 0.5  # more, where the device was not used before
LEAST = 10**7  # steps of all members together, and
FEWEST = 512  # members: below, a GPU is not looked for, since looking takes time and memory
COPY_RATE = 5e9  # bytes a second, between here and there


@dataclass(frozen=True)
class Work:
    operations: int  # of a step of one member
    members: int
    steps: int
    numbers: int  # of the state of a member

    @property
    def all(self) -> float:
        return float(self.operations) * self.members * self.steps


def worth_a_look(members: int, steps: int) -> bool:
    return members >= FEWEST and members * steps >= LEAST


def here(w: Work, lanes: int, cores: int) -> float:
    """Seconds on this machine."""
    return w.all / (LANE_RATE * min(lanes, w.members) * cores)


def there(w: Work, processors: int, used: bool = True) -> float:
    """Seconds on a GPU; `used`: it has a context already."""
    busy = w.all / (PROCESSOR_RATE * processors)
    waiting = LATENCY * w.operations * w.steps
    return (
        LAUNCH + (0.0 if used else CONTEXT) + max(busy, waiting) + 2 * 8.0 * w.numbers * w.members / COPY_RATE
    )
