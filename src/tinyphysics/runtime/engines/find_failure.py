"""At which step did a member fail?  Those that did are run again from the beginning of their block."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tinyphysics.runtime.engines.engine import Engine, States

STRIDE = 256  # steps between two looks, before the last ones are taken one by one


@dataclass(frozen=True)
class Failure:
    step: int  # the first bad one
    where: tuple[str, int]  # the state and the index of the first bad number
    before: States  # the last good state, synchronised
    after: States  # the bad one, if it was asked for


def locate(
    engine: Engine, before: Any, members: list[int], n: int, target: int, known: int, after: bool = False
) -> dict[int, Failure]:
    """The failures between step n, where the loop state was `before`, and the target.

    The first `known` steps are known to be good. `after` asks for the bad states too.
    """
    if engine.free_steps:
        return bisected(engine, before, members, n + known, target, after)
    found: dict[int, Failure] = {}
    group, left = engine.some(before, members), dict(enumerate(members))
    if known:
        engine.advance(group, known)
    n += known
    while left and n < target:
        count = min(STRIDE, target - n)
        start = engine.snapshot(group)
        engine.advance(group, count)
        if not left.keys().isdisjoint(engine.bad(group)):
            group = start
            for step in range(n + 1, n + count + 1):
                one(engine, group, step, left, found, after)
                if not left:
                    break
        n += count
    return found


def bisected(
    engine: Engine, before: Any, members: list[int], good: int, bad: int, after: bool
) -> dict[int, Failure]:
    """The same where a step costs nothing: what has run out of the floats does not come back."""
    found = {}
    for k in members:
        low, high = good, bad
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if engine.bad(at(engine, before, k, middle)) else (middle, high)
        last, first = at(engine, before, k, low), at(engine, before, k, high)
        place = engine.first_bad(first, 0)
        if place is not None:
            states = [
                {name: v[0].copy() for name, v in engine.synchronised(m).items()} for m in (last, first)
            ]
            found[k] = Failure(high, place, states[0], states[1] if after else {})
    return found


def at(engine: Engine, before: Any, k: int, step: int) -> Any:
    """One member, as it is at a step."""
    m = engine.some(before, [k])
    engine.advance(m, step - m.steps)
    return m


def one(
    engine: Engine, group: Any, step: int, left: dict[int, int], found: dict[int, Failure], after: bool
) -> None:
    """One step of a group; members that fail in it go from those that are left to those that are found."""
    good = engine.snapshot(group)
    engine.advance(group, 1)
    places = {j: engine.first_bad(group, j) for j in engine.bad(group) if j in left}
    fresh = {j: place for j, place in places.items() if place is not None}
    if not fresh:
        return
    states = engine.synchronised(engine.some(good, list(fresh)))
    bad = engine.synchronised(engine.some(group, list(fresh))) if after else {}
    for at, (j, place) in enumerate(fresh.items()):
        good_one, bad_one = ({name: v[at].copy() for name, v in s.items()} for s in (states, bad))
        found[left.pop(j)] = Failure(step, place, good_one, bad_one)
