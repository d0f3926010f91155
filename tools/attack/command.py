"""tools/attack.py: many cases, in children; progress, a summary, and exit 1 on findings."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from attack.findings import Tally
from attack.minimise import minimised
from attack.one import LIMIT, SHARE
from attack.programs import case_of
from attack.workers import tallies

EVERY = 60.0  # seconds between lines of progress


def arguments(argv: list[str] | None) -> argparse.Namespace:
    p = argparse.ArgumentParser(prog="tools/attack.py", description=__doc__)
    p.add_argument("--cases", type=int, help="how many seeds, from --seed on")
    p.add_argument("--seed", type=int, default=0, help="the first seed; without --cases, the only one")
    p.add_argument("--jobs", type=int, default=1, help="how many processes")
    p.add_argument(
        "--resume", type=Path, metavar="FILE", help="one line a case; seeds that are in it are not done again"
    )
    p.add_argument(
        "--only", default="", help="checks, separated by commas: certificates,facts," + ",".join(SHARE)
    )
    p.add_argument("--limit", type=float, default=LIMIT, help="CPU seconds of a case")
    p.add_argument(
        "--minimise", type=int, metavar="SEED", help="shorten the case of a seed while its finding stays"
    )
    p.add_argument("--print", action="store_true", help="print the program of --seed and do nothing else")
    return p.parse_args(argv)


def one(seed: int, only: frozenset[str], limit: float) -> int:
    """A single case, with all checks, in this process."""
    from attack.one import attacked

    case = case_of(seed)
    print(case.file())
    t = attacked(case, only or frozenset({"certificates", "facts", *SHARE}), limit)
    print(t.summary())
    for f in t.findings:
        print(f)
    return int(bool(t.new))


def many(a: argparse.Namespace, only: frozenset[str]) -> int:
    total, done = Tally(), set()
    if a.resume and a.resume.exists():
        for line in a.resume.read_text().splitlines():
            seed, _, text = line.partition(" ")
            done.add(int(seed))
            total.add(Tally.of_json(text))
    seeds = [s for s in range(a.seed, a.seed + a.cases) if s not in done]
    began = told = time.monotonic()
    file = a.resume.open("a") if a.resume else None
    for count, (seed, t) in enumerate(tallies(seeds, a.jobs, only, a.limit), 1):
        total.add(t)
        if file:
            file.write(f"{seed} {t.to_json()}\n")
            file.flush()
        for f in t.findings:
            print(f, flush=True)
        if time.monotonic() - told > EVERY:
            told = time.monotonic()
            left = (told - began) / count * (len(seeds) - count)
            print(
                f"{count} of {len(seeds)} cases, {len(total.new)} new findings, {left / 60:.0f} min left",
                flush=True,
            )
    if file:
        file.close()
    shares = ", ".join(f"{name} of 1 in {n}" for name, n in SHARE.items())
    print(f"certificates and facts of all cases, {shares}")
    print(total.summary())
    return int(bool(total.new))


def main(argv: list[str] | None = None) -> int:
    a = arguments(argv)
    only = frozenset(filter(None, a.only.split(",")))
    if a.print:
        print(case_of(a.seed).file())
        return 0
    if a.minimise is not None:
        case, t = minimised(case_of(a.minimise), only, a.limit)
        print(case.file())
        for f in t.findings:
            print(f)
        return int(bool(t.findings))
    return many(a, only) if a.cases is not None else one(a.seed, only, a.limit)
