"""How is a wave with absorbing layers stepped?  By a leapfrog whose memories follow by exponentials.

Half a drift, then what the layers remember, a kick by what they leave, and half a drift. Where sigma is 0 that is leapfrog.
A memory m' = sigma*(g - m) is solved for the g of the middle of a step, and a kick takes the mean of old and new memories.
"""

from __future__ import annotations

from tinyphysics.flows.map import Map
from tinyphysics.ir import UOp, substitute
from tinyphysics.step import DT, Step
from tinyphysics.system import System


def absorbing_step(name: str, system: System) -> Step:
    _, *rest = system.absorbed
    rates = dict(zip((s.var for s in system.states), system.update))
    every = [s.var for s in system.states]
    fields = [u for u in every if any(u is x for x in rest)]
    sigmas = rest[len(fields) :]
    memories = every[len(every) - len(sigmas) :]
    moving = [u for u in every if not any(u is x for x in (*fields, *memories))]
    half = {q: q + 0.5 * DT * rates[q] for q in fields}
    known = dict(half)  # in the middle of a step
    new: dict[UOp, UOp] = {}
    for m, sigma in zip(memories, sigmas):
        (rate,) = substitute([rates[m]], known)
        damped = sigma * DT
        # (1 - exp(-x))/x, and 1 where x is 0
        share = damped.eq(0.0).where(1.0, -(-damped).expm1() / damped.eq(0.0).where(1.0, damped))
        new[m] = m + DT * share * rate
        known[m] = 0.5 * (m + new[m])
    kicks = substitute([rates[p] for p in moving], known)
    new |= {p: p + DT * k for p, k in zip(moving, kicks)}
    drifts = substitute([rates[q] for q in fields], {p: new[p] for p in moving})
    new |= {q: half[q] + 0.5 * DT * v for q, v in zip(fields, drifts)}
    values = tuple((u, new[u].expand(u.shape)) for u in every)
    return Step.of(system, name, (), (), 1, body=(Map(values, declares_dt=True),))
