"""What does an adapter round?  Its results on 65,536 triples of numbers, beside those of IEEE 754.

WGSL promises few bits: quotients and roots to some units in the last place, a fused operation that may be a product and a
sum, subnormal numbers that may be zeros. So every adapter is asked once, and what a run says of its bits rests on the answer.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from tinyphysics.device.host.arrays import fma32

VERSION = 1  # of the triples: with another, what was kept of an adapter is found out again
TRIPLES = 1 << 16
# rows of results, in the order of emit/scalar/shaders.py: PROBED, OURS
OWN = ("sum", "difference", "product", "quotient", "root", "fused", "survives", "apart", "negative")
OURS = ("our sum", "our difference", "our product", "our quotient", "our root", "our fused", "our survives", "our apart",
        "below", "at most", "same", "opposite", "from u32", "from i32")  # fmt: skip
ROWS = OWN + OURS
NEEDED = ("sum", "difference", "product", "survives", "apart")  # of the machine itself
WORDS = {
    "sum": "+", "difference": "−", "product": "×", "quotient": "÷", "root": "√", "fused": "fma",
    "survives": "(x+y)−x", "apart": "x·y+z in two roundings", "negative": "−x",
}  # fmt: skip
LEAST = np.float32(2.0**-126)


@dataclass(frozen=True)
class Probe:
    """How many of the results are wrong, by row: where normal numbers meet, and where a subnormal one takes part."""

    triples: int
    wrong: dict[str, int]
    subnormal: dict[str, int]

    def written(self) -> bytes:
        return json.dumps([self.triples, self.wrong, self.subnormal]).encode()

    @staticmethod
    def read(kept: bytes | None) -> Probe | None:
        """What was written; None of anything else."""
        try:
            triples, wrong, subnormal = json.loads(kept or b"")
            return Probe(int(triples), dict(wrong), dict(subnormal)) if {*ROWS} == {*wrong} else None
        except (ValueError, TypeError):
            return None

    @property
    def keeps_small(self) -> bool:
        """Does it compute with subnormal numbers?"""
        return not any(self.subnormal[row] for row in ("sum", "difference", "product", "root", "negative"))

    @property
    def switches(self) -> dict[str, bool]:
        """Which of its own operations a kernel may use (emit/scalar/shaders.py: SWITCHES)."""
        own = {f"OWN_{row.upper()}": not self.wrong[row] for row in ("fused", "quotient", "root")}
        if self.keeps_small:  # then no size of a number is looked at
            own = {k: v and not self.subnormal[k[4:].lower()] for k, v in own.items()}
        return own | {"KEEPS_SMALL": self.keeps_small}

    @property
    def why_not(self) -> str:
        """What a claim of bits fails at; empty if it does not."""
        bad = [r for r in NEEDED if self.wrong[r]]
        if bad:
            return ", ".join(f"{WORDS[r]} is wrong in {self.wrong[r]:,}" for r in bad)
        bad = [r for r in OURS if self.wrong[r] or self.subnormal[r]]
        return f"the kernel's own functions are wrong: {', '.join(bad)}" if bad else ""

    @property
    def claims_bits(self) -> bool:
        return not self.why_not

    def __str__(self) -> str:
        if not self.claims_bits:
            return f"a bound only: of {self.triples:,} triples {self.why_not}"
        whole = [WORDS[r] for r in ("fused", "quotient", "root") if not self.switches[f"OWN_{r.upper()}"]]
        told = f"; {', '.join(whole)} in whole numbers" if whole else ""
        small = (
            ""
            if self.keeps_small
            else "; it loses subnormal numbers, and members that meet one are done by this processor"
        )
        return f"the bits of float32 on {self.triples:,} triples{told}{small}"


SWITCHES = ("OWN_FUSED", "OWN_QUOTIENT", "OWN_ROOT", "KEEPS_SMALL")


def every_switch() -> Iterator[dict[str, bool]]:
    """All that can be found, for which kernels are written differently."""
    return (dict(zip(SWITCHES, on)) for on in product((False, True), repeat=len(SWITCHES)))


def triples() -> Any:
    """(3, TRIPLES) numbers: of any exponent, near each other, near the subnormal ones, and products that cancel."""
    n = np.arange(3 * TRIPLES, dtype=np.uint32)
    with np.errstate(over="ignore"):
        for factor, shift in ((0x85EBCA6B, 13), (0xC2B2AE35, 16), (0x27D4EB2F, 15)):
            n = (n ^ (n >> np.uint32(shift))) * np.uint32(factor)
        n ^= n >> np.uint32(16)
    bits = n.reshape(3, TRIPLES)
    kind = np.arange(TRIPLES, dtype=np.uint32) & np.uint32(3)
    field = (bits >> np.uint32(23)) & np.uint32(255)
    near = np.uint32(115) + field % np.uint32(24)
    field = np.where(kind == 1, np.uint32(1) + field % np.uint32(254), near)
    field = np.where(kind == 3, field % np.uint32(72), field)
    field = np.where((kind == 3) & (np.arange(TRIPLES) & 4 == 0), field & np.uint32(3), field)
    out = ((bits & np.uint32(0x807FFFFF)) | (field << np.uint32(23))).view(np.float32)
    with np.errstate(all="ignore"):
        out[2] = np.where(kind == 2, -(out[0] * out[1]), out[2])
    some = np.arange(TRIPLES) % 61
    for k in range(3):  # zeros of both signs, alone and together; equal numbers
        out[k] = np.where((some == k) | (some == 5), np.copysign(np.float32(0), out[k]), out[k])
    out[1] = np.where(some == 7, out[0], out[1])
    return np.ascontiguousarray(out)


def expected(x: Any, y: Any, z: Any) -> dict[str, Any]:
    with np.errstate(all="ignore"):
        fused, root, quotient = fma32(x, y, z), np.sqrt(np.abs(x)), x / y
        own = (x + y, x - y, x * y, quotient, root, fused, (x + y) - x, x * y + z, -x)
        whole = x.view(np.uint32).astype(np.float32), x.view(np.int32).astype(np.float32)
        ours = (
            x + y,
            x - y,
            x * y,
            quotient,
            root,
            fused,
            (x + y) - x,
            x * y + z,
            x < y,
            x <= y,
            x == y,
            -x,
            *whole,
        )
    return {n: np.asarray(a, np.float32) for n, a in zip(ROWS, (*own, *ours))}


def judged(given: Any, rows: Sequence[str], found: Any, marks: Any) -> Probe:
    """Of the results of an adapter on `triples`, a row each; a bit of a mark says that a result is not to be trusted."""
    want = expected(*given)
    with np.errstate(all="ignore"):
        rare = np.any(small(given), axis=0) | small(given[0] + given[1]) | small(given[0] * given[1])
    wrong, subnormal = {}, {}
    for k, row in enumerate(rows):
        a, b = want[row], np.asarray(found[k], np.float32)
        differs = (a.view(np.uint32) != b.view(np.uint32)) & ~(np.isnan(a) & np.isnan(b))
        far = ~np.isfinite(a)  # a run ends with it
        near = rare | small(a) | (a == 0)
        differs &= ~(near & (marks >> k & 1 == 1))
        wrong[row] = int(np.count_nonzero(differs & ~near & ~far))
        subnormal[row] = int(np.count_nonzero(differs & near & ~far))
    return Probe(given.shape[1], wrong, subnormal)


def small(x: Any) -> Any:
    return (x != 0) & (np.abs(x) < LEAST)
