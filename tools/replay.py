"""Has a bit, a word or a message moved?  Compares with the pins in test/replay/, and refuses what differs.

python tools/replay.py                            # everything; exits with 1 where something moved
python tools/replay.py --tier quick loops/ zoo/   # a part of it: of a tier, of groups and names
python tools/replay.py update --reason "..."      # writes the pins anew, with the reason beside them
python tools/replay.py time --against HEAD~1      # CPU time to import and to the first warm result, as ratios
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(1, str(Path(__file__).parents[1] / "src"))

from pins import book, check, kept, runs
from pins.everything import cases, chosen
from pins.timing import compare_times
from pins.unit import TIERS, Setting


def setting_of(args: argparse.Namespace) -> Setting:
    """What can be run here; what cannot is said."""
    why = runs.opencl_is_here()
    if why:
        print(f"left out: OpenCL ({why})")
    return Setting(opencl=not why, cuda=args.cuda)


def check_all(args: argparse.Namespace) -> int:
    setting = setting_of(args)
    units = chosen(args.tier, tuple(args.patterns))
    if not units:
        print(f"nothing is called {' or '.join(args.patterns)}")
        return 2
    found = check.computed([u.key for u in units], setting, args.jobs)
    failures = [f"{f.key}: {f.wrong}" for f in found if f.wrong]
    moved = check.moved({f.key: f.pins for f in found if not f.wrong})
    for f in sorted(found, key=lambda f: -f.cost)[: args.slowest]:
        print(f"{f.cost:8.2f} s of CPU  {f.key}")
    if args.slowest:
        print(f"{sum(f.cost for f in found):8.2f} s of CPU in all")
    gone = check.left_over() if args.tier == "all" and not args.patterns else []
    for line in [*map(str, moved), *failures, *(f"{key}: pinned, and not computed any more" for key in gone)]:
        print(line)
    if moved or failures or gone:
        kinds = sorted({m.kind for m in moved})
        print(f"\n{len(moved)} pins moved ({', '.join(kinds) or 'none'}), of {len(units)} runs and texts.")
        print(f"{len(failures)} could not be computed; {len(gone)} are left over.")
        print('If that is meant: make replay-update REASON="what changed, and why it may"')
        return 1
    if book.last_digest() != book.digest():
        print("the pins are not those of the last reason: run tools/replay.py update --reason ...")
        return 1
    known = {c.unit.key for c in cases()}
    print(
        f"nothing moved: {sum(u.key in known for u in units)} runs, {sum(u.key not in known for u in units)} other pins"
    )
    return 0


def update(args: argparse.Namespace) -> int:
    if not args.reason.strip():
        print('a pin changes for a reason: --reason "..."')
        return 2
    setting = setting_of(args)
    left_out = [
        *([] if setting.opencl else ["state on opencl"]),
        *(["state on cuda"] if setting.cuda == "no" else []),
    ]
    for kind in left_out:
        print(f"stays as it is: {kind}")
    new = kept.write_missing()
    units = chosen("all", tuple(args.patterns))
    found = check.computed([u.key for u in units], setting, args.jobs)
    pins = {f.key: f.pins for f in found}
    failures = [f"{f.key}: {f.wrong}" for f in found if f.wrong]
    if failures:
        print("\n".join(["nothing was written:", *failures]))
        return 1
    apart = [
        f"{key}: {kind} is {text}"
        for key, p in pins.items()
        for kind, text in p.items()
        if check.disagrees(kind, text)
    ]
    if apart:
        print("\n".join(["nothing was written, because backends disagree:", *apart]))
        return 1
    moved, gone = check.moved(pins), check.left_over()
    for group in {u.group for u in units}:
        old = book.read(group)
        names = {u.name for u in chosen("all") if u.group == group}
        block = {n: p for n, p in old.items() if n in names}
        for key, new_pins in pins.items():
            g, _, name = key.partition("/")
            if g == group:
                absent = {k: v for k, v in old.get(name, {}).items() if k in left_out}
                block[name] = {**absent, **new_pins}
        book.write(group, block)
    for group in book.groups():
        if group not in {u.group for u in chosen("all")}:
            book.file_of(group, book.FOLDER).unlink()
    if book.digest() == book.last_digest():
        print("no pin changed")
        return 0
    changed = [
        *(f"{m.key}: {m.kind}" for m in moved),
        *(f"{key}: gone" for key in gone),
        *(f"kept/{n}: new" for n in new),
    ]
    book.give_reason(args.reason, changed)
    print(f"{len(changed)} pins changed; the reason is in {book.FOLDER / book.REASONS}")
    return 0


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--tier", choices=TIERS, default="all")
    parser.add_argument(
        "--cuda",
        choices=("no", "fake", "device"),
        default="fake",
        help="20 runs by the fake driver, or all on a GPU",
    )
    parser.add_argument("--slowest", type=int, default=0, help="show so many, with what they cost")
    parser.add_argument("--reason", default="", help="of update")
    parser.add_argument("--against", default="HEAD", help="of time: a commit")
    parser.add_argument("--runs", type=int, default=15, help="of time: of each, at least")
    parser.add_argument("patterns", nargs="*", help="update, time, or parts of group/name")
    args = parser.parse_intermixed_args(argv)
    verb = args.patterns.pop(0) if args.patterns[:1] in (["check"], ["update"], ["time"]) else "check"
    if verb == "time":
        return compare_times(args.against, max(args.runs, 3))
    return update(args) if verb == "update" else check_all(args)


if __name__ == "__main__":
    sys.exit(main())
