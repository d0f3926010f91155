"""Which processor is machine code made for?  The host; or one that is named, whose code runs if the host has all it uses.

>>> from tinyphysics.context import PROCESSOR
>>> with PROCESSOR("x86-64-v3"):
...     processor().width, seed_for(processor()).name
(4, 'rsqrtps')
"""

from __future__ import annotations

from functools import lru_cache

from tinyphysics.context import PROCESSOR
from tinyphysics.device.host.llvm import Cpu, host_cpu
from tinyphysics.errors import BackendError, InputError
from tinyphysics.target import PORTABLE, PROCESSORS, RSQRT14, RSQRTPS, SSE_RSQRTPS, Seed
from tinyphysics.util import one_of

GENERIC = "generic"  # LLVM's name for a processor of which only the instruction set is known


def processor() -> Cpu:
    """The one that code is made for now."""
    return named(PROCESSOR.value) if PROCESSOR.value else host_cpu()


@lru_cache(maxsize=8)
def named(name: str) -> Cpu:
    """The processor with a name in the table; text can be made for all of them."""
    if name not in PROCESSORS:
        raise InputError(
            f"there is no processor `{name}`",
            fix=f"TINYPHYSICS_PROCESSOR is one of {one_of(list(PROCESSORS))}.",
        )
    p, host = PROCESSORS[name], host_cpu()
    own = host.triple.startswith(p.machine)
    features = ",".join(f"+{f}" for f in p.features)
    return Cpu(
        p.name if p.machine == "x86_64" else GENERIC,
        features,
        host.triple if own else f"{p.machine}-unknown-linux-gnu",
    )


@lru_cache(maxsize=16)
def missing(cpu: Cpu) -> tuple[str, ...]:
    """What code for a processor uses and the host does not have."""
    host = host_cpu()
    if cpu.triple != host.triple:
        return (cpu.triple.partition("-")[0],)
    here = set(host.features.split(","))
    return tuple(f[1:] for f in cpu.features.split(",") if f.startswith("+") and f not in here)


def runs(cpu: Cpu) -> Cpu:
    """The processor itself, if the host can execute its code."""
    if not (lacking := missing(cpu)):
        return cpu
    able = [name for name in PROCESSORS if not missing(named(name))]
    raise BackendError(
        f"code for `{PROCESSOR.value or cpu.name}` does not run on this processor ({host_cpu().name}), "
        f"which lacks {', '.join(lacking)}",
        fix=f"Unset TINYPHYSICS_PROCESSOR, or set it to {one_of(able)}. "
        'Text needs no such processor: sim.ir("llvm"), sim.ir("asm").',
    )


def seed_for(cpu: Cpu) -> Seed:
    """What a processor has for 1/sqrt x: the same for every width, so that lanes do not decide bits."""
    on = cpu.features.split(",")
    if not cpu.x86:
        return PORTABLE
    if "+avx512f" in on and "+avx512vl" in on:
        return RSQRT14
    return RSQRTPS if "+avx" in on else SSE_RSQRTPS
