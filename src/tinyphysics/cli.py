"""The command `tp`: run, explain, print and build the systems of a file, demonstrate, check the installation."""

from __future__ import annotations

import argparse
import inspect
import json
import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from tinyphysics import __version__
from tinyphysics.demo import listing, speed, what_next
from tinyphysics.doctor import examine
from tinyphysics.errors import InputError, StoreError
from tinyphysics.explore_command import add_serving, answered, explore_live
from tinyphysics.explorer.open import explore
from tinyphysics.physics.zoo import ZOO
from tinyphysics.planner.methods.catalog import is_adaptive
from tinyphysics.report import Report
from tinyphysics.runtime.api import perf_lines
from tinyphysics.runtime.api.compile import compile as compiled
from tinyphysics.runtime.api.executable import build as binary
from tinyphysics.runtime.api.levels import LEVELS
from tinyphysics.runtime.api.observers import OBSERVERS
from tinyphysics.runtime.api.simulation import Simulation
from tinyphysics.runtime.api.validate import validate
from tinyphysics.runtime.api.verify_store import replay as recomputed
from tinyphysics.runtime.api.watched import watch
from tinyphysics.runtime.engines.target_table import target_table
from tinyphysics.runtime.stages.observation import LEAN, METRICS
from tinyphysics.runtime.storage.checkpoint import read
from tinyphysics.system import System
from tinyphysics.target import TARGETS
from tinyphysics.tpir.precision.precision import PRECISIONS
from tinyphysics.trajectory import Stop, Trajectory
from tinyphysics.user_file import (
    LOOK_DT as LOOK_DT,
)
from tinyphysics.user_file import (
    Loaded as Loaded,
)
from tinyphysics.user_file import (
    bound as bound,
)
from tinyphysics.user_file import (
    load as load,
)
from tinyphysics.user_file import (
    rates_by_momentum as rates_by_momentum,
)
from tinyphysics.user_file import (
    settings as settings,
)
from tinyphysics.user_file import (
    simulation_of as simulation_of,
)
from tinyphysics.user_file import (
    systems as systems,
)
from tinyphysics.util import did_you_mean, plural
from tinyphysics.view.terminal import draw, draw_report

VALIDATED = 1000  # steps of a run that is validated
EXIT = "exit codes: 0 done; 1 a run stopped early, a replay differs or a self-test failed; 2 an error; 130 interrupted"


def simulation(args: argparse.Namespace, loaded: Loaded, system: System, default: float | None) -> Simulation:
    """Compiled as the file does it, but for what the command line says."""
    asked = {name: getattr(args, name) for name in ("method", "order", "backend", "precision")}
    options = {**loaded.options, **{name: value for name, value in asked.items() if value is not None}}
    dt = args.dt if args.dt is not None else loaded.dt
    if dt is None and system.kind != "map" and not {"error", "energy_drift"} & set(options):
        dt = default
    return compiled(system, dt, **options)


def begun(args: argparse.Namespace, needed: Sequence[str]) -> tuple[Loaded, dict[str, Any], System]:
    """The system of a file with where it begins; the file is run if that is where one of `needed` comes from."""
    loaded = load(args.file)
    if needs := [name for name in needed if name in loaded.left_out]:
        print(f"`{needs[0]}` comes from a run: running {loaded.file} first", file=sys.stderr)
        loaded = load(args.file, whole=True)
    given = {**loaded.start, **settings("--set", args.set)}
    system = bound(loaded, given, settings("--size", args.size))
    rates = rates_by_momentum(system)
    known = [*(s.name for s in system.states), *rates.values(), *(p.name for p in system.parameters)]
    for name in given:
        if name not in known:
            raise InputError(
                f"`{loaded.name}` has no state or parameter `{name}`",
                fix=f"{did_you_mean(name, known)}It has {', '.join(known)}.",
            )
    return loaded, given, system


# --- commands ---------------------------------------------------------------------------------
def run(args: argparse.Namespace) -> int:
    loaded, given, system = begun(args, ("start", "dt", "steps"))
    steps = args.steps if args.steps is not None or args.until is not None else loaded.steps
    complete(args, loaded, system, [*given], rates_by_momentum(system), steps)
    target = None if args.out is None else writable(Path(args.out))
    if target is not None and args.observer in LEAN:
        raise InputError(
            f"--out writes frames, and --observer {args.observer} hands out none",
            fix="Leave one of them out.",
        )
    if args.metrics_json is not None:
        perf_lines.check_writable(Path(args.metrics_json))
    sim = simulation(args, loaded, system, default=None)
    out = sim.evolve(
        **given,
        **going_on(args, steps),
        until=args.until,
        save_every=args.save_every,
        frames=args.frames,
        save=args.save,
        checkpoint=args.checkpoint,
        checkpoint_every=args.checkpoint_every,
        hash_every=args.hash_every,
        options={"observer": args.observer or "snapshots", **({"view": "terminal"} if args.view else {})},
    )
    print(
        f"{system.name}: {sim.compiled.known.method}, {plural(out.final.step, 'step')} to t = {out.final.t:g}"
    )
    for name, value in out.final.states.items():
        print(f"  {name} = {numbers(np.asarray(value), indent=len(name) + 5)}")
    if system.energy is not None and len(out.t):
        print(f"  {energies(out)}")
    if args.observer == METRICS:
        for name, (_, values) in out.observed.items():
            print(f"  {name} = {numbers(values[-1], len(name) + 5)}, {numbers(values[0], 0)} at the start")
    if target is not None:
        print(f"  wrote {target}: {write(target, out, system)}")
    for stop in out.stops[:5]:
        print(f"  stopped: {describe(stop)}")
    print(*perf_lines.lines(out, args.hash_every), sep="\n")
    if args.metrics_json is not None:
        print(perf_lines.write_metrics(Path(args.metrics_json), out))
    for line in perf_lines.warnings(out):
        print(line)
    if any(s.cause == "interrupted" for s in out.stops):
        return 130
    return 1 if out.stops else 0


def complete(
    args: argparse.Namespace,
    loaded: Loaded,
    system: System,
    given: Sequence[str],
    rates: Mapping[str, str],
    steps: int | None,
) -> None:
    """An InputError that names all that is missing for a run, and what to write or to pass for it."""
    missing = [] if continues(args) else states_missing(loaded, system, given, rates)
    method = args.method or loaded.options.get("method", "auto")
    needs_dt = system.kind != "map" and not is_adaptive(system.kind, method)
    has_dt = args.dt is not None or loaded.dt is not None or {"error", "energy_drift"} & set(loaded.options)
    if needs_dt and not has_dt:
        missing.append(
            (f"the step of `{loaded.name}`", f"Pass --dt 0.01, or write dt = 0.01 in {loaded.file}.")
        )
    if steps is None and args.until is None:
        missing.append(("how long to run", "Pass --steps 1000 or --until 10."))
    refuse_missing(missing)


def states_missing(
    loaded: Loaded, system: System, given: Sequence[str], rates: Mapping[str, str]
) -> list[tuple[str, str]]:
    """What of the initial state is not there, and what to pass for it."""
    missing = []
    for s in system.states:
        if s.name not in given and s.start is None and rates.get(s.name) not in given:
            example = ",".join(["1.0"] + ["0.0"] * (s.var.size - 1)) if s.var.ndim < 2 else '"[[...], ...]"'
            fix = f"Pass --set {s.name}={example}, or write start = dict({s.name}=...) in {loaded.file}."
            missing.append((f"the initial `{s.name}`", fix))
    return missing


def refuse_missing(missing: Sequence[tuple[str, str]]) -> None:
    """An InputError of things that are missing, each with what to write."""
    if not missing:
        return
    if len(missing) == 1:
        raise InputError(f"{missing[0][0]} is missing", fix=missing[0][1])
    what = ", ".join(name for name, _ in missing[:-1]) + f" and {missing[-1][0]}"
    raise InputError(f"{what} are missing", fix="\n  ".join(fix for _, fix in missing))


def continues(args: argparse.Namespace) -> bool:
    """Does the run continue from a checkpoint, which has the states?  The run itself reports a missing file."""
    return bool(args.resume) and (args.checkpoint is None or Path(args.checkpoint).exists())


def going_on(args: argparse.Namespace, steps: int | None) -> dict[str, Any]:
    """Where a run begins and how far it goes: the same command again finishes what it began."""
    if not args.resume:
        return {"steps": steps}
    if args.checkpoint is None:
        raise InputError(
            "--resume needs --checkpoint", fix="Name the checkpoint: --checkpoint run.checkpoint --resume."
        )
    path = Path(args.checkpoint)
    if not path.exists():
        print(f"`{path}` is not there yet: from the beginning", file=sys.stderr)
        return {"steps": steps}
    done = read(path).step
    print(f"from step {done:,}, where `{path}` is", file=sys.stderr)
    if steps is not None and steps < done:
        raise InputError(
            f"`{path}` is already at step {done:,}, beyond --steps {steps}",
            fix="--steps counts from the start of the run, including the steps before the checkpoint.",
        )
    return {"steps": None if steps is None else steps - done, "resume": path}


def replay(args: argparse.Namespace) -> int:
    found = recomputed(args.store, args.backend)
    if found.difference is None:
        print(
            f"{found.system}: all {plural(found.frames, 'frame')} to step {found.last:,} come out again, bit for bit"
        )
        return 0
    print(f"{found.system}: step {found.difference.step:,} differs: {found.difference.why}")
    return 1


def watching(args: argparse.Namespace) -> int:
    print(plural(watch(args.store), "frame"))
    return 0


def numbers(a: Any, indent: int) -> str:
    if a.ndim == 0:
        return f"{a:.9g}"
    return str(np.array2string(a, precision=9, threshold=24, prefix=" " * indent))


def describe(stop: Stop) -> str:
    member = f", member {stop.member}" if stop.member is not None else ""
    where = f": {stop.error}" if stop.cause == "store" else ""
    where = f": {stop.where[0]}[{stop.where[1]}]" if stop.where else where
    return f"{stop.cause} at step {stop.step} (t = {stop.t:g}){member}{where}"


def energies(out: Trajectory) -> str:
    e = np.asarray(out.energy)
    if e.ndim > 1:
        return f"energy of {plural(e.shape[1], 'member')}: from {e[-1].min():.9g} to {e[-1].max():.9g}"
    told = f"energy = {e[-1]:.12g}, {e[0]:.12g} at the start"
    if len(e) > 2:  # two frames say nothing about what happened between them
        change = np.abs(e - e[0]).max()
        relative = f", {change / abs(e[0]):.2g} of that at the start," if e[0] else ""
        told += f"; largest change {change:.2g}{relative} in {plural(len(e), 'frame')}"
    return told


def writable(path: Path) -> Path:
    """The path of an archive that can be written: said before a long run, not after it."""
    if path.suffix != ".npz":
        raise InputError(
            f"--out {path} is not a NumPy archive", fix=f"Write --out {path.with_suffix('.npz')}."
        )
    if not path.parent.is_dir() or not os.access(path.parent, os.W_OK):
        raise StoreError(f"`{path.parent}` is not a directory you can write to", fix="Pass another --out.")
    return path


def write(path: Path, out: Trajectory, system: System) -> str:
    arrays = {"t": out.t, "steps": out.steps, "hash": np.array(out.hash)}
    if system.energy is not None:
        arrays["energy"] = out.energy
    arrays |= out.frames
    partial = path.with_name(path.name + ".partial")
    try:
        with partial.open("wb") as file:
            np.savez(file, **arrays)
        partial.replace(path)  # a reader never sees half a file
    except OSError as error:
        raise StoreError(f"`{path}` could not be written: {error.strerror}") from error
    return f"{', '.join(arrays)}; {plural(len(out.t), 'frame')}"


def looked_at(args: argparse.Namespace) -> Simulation:
    loaded = load(args.file)
    return simulation(args, loaded, bound(loaded, loaded.start, settings("--size", args.size)), LOOK_DT)


def explain(args: argparse.Namespace) -> int:
    show(looked_at(args).explain("full" if args.full else "short"))
    return 0


def check(args: argparse.Namespace) -> int:
    """Looks for the causes of the catalogue before a run; 1 if one was found."""
    loaded, given, system = begun(args, ("start", "dt"))
    complete(args, loaded, system, [*given], rates_by_momentum(system), steps=1)
    found = simulation(args, loaded, system, default=None).lint(**given)
    if args.json:
        rows = [{**asdict(f), "line": line_in(f.term)} for f in found]
        print(
            json.dumps(
                {"file": str(loaded.file), "system": loaded.name, "clean": found.clean, "findings": rows}
            )
        )
    else:
        print(found)
    return 0 if found.clean else 1


def validate_(args: argparse.Namespace) -> int:
    """The items of a validation, as they are answered."""
    loaded, given, system = begun(args, ("start", "dt", "steps"))
    steps = args.steps if args.steps is not None else loaded.steps or VALIDATED
    complete(args, loaded, system, [*given], rates_by_momentum(system), steps)

    def compiled_for(backend: str | None) -> Simulation:
        named = args if backend is None else argparse.Namespace(**{**vars(args), "backend": backend})
        return simulation(named, loaded, system, default=None)

    passed = True
    for item in validate(compiled_for, given, steps):
        verdict = "skip" if item.passed is None else "pass" if item.passed else "FAIL"
        print(f"({item.letter}) {verdict}  {item.asks}: {item.saw}", flush=True)
        passed = passed and item.passed is not False
    return 0 if passed else 1


def targets(args: argparse.Namespace) -> int:
    """Where a kernel can go, and how far that is tried on this machine."""
    rows = [("target", "emitted", "compiled by", "executed by")]
    rows += [(r.name, r.emitted, r.compiled or "-", r.executed or r.missing or "-") for r in target_table()]
    wide = [max(len(row[k]) for row in rows) for k in range(3)]
    for row in rows:
        print("  ".join([*(word.ljust(w) for word, w in zip(row, wide)), row[3]]))
    return 0


def line_in(term: str) -> str | None:
    """kepler.py:7, of a term with its line."""
    at = re.search(r"\(([^()]+:\d+)\)$", term)
    return None if at is None else at.group(1)


def ir(args: argparse.Namespace) -> int:
    print(looked_at(args).ir(args.level), end="")
    return 0


def explore_(args: argparse.Namespace) -> int:
    """A page of a system and a run from its start; without --html one that compiles what is in its editor."""
    if args.html is None:
        return explore_live(args)
    if args.file is None:
        raise InputError("--html needs a system", fix="Write tp explore kepler.py --html kepler.html.")
    loaded, given, system = begun(args, ("start", "dt", "steps"))
    refuse_missing(states_missing(loaded, system, [*given], rates_by_momentum(system)))
    sim = simulation(args, loaded, system, default=LOOK_DT)
    made = explore(sim, given, args.html, args.steps)
    print(f"wrote {made}: {made.stat().st_size // 1024} KiB; open it in a browser, with or without a network")
    return 0


def build(args: argparse.Namespace) -> int:
    loaded = load(args.file)
    given = {**loaded.start, **settings("--set", args.set)}
    steps = loaded.steps if args.steps is None else args.steps
    if steps is None:
        raise InputError(
            "the number of steps for the binary is missing",
            fix=f"Pass --steps 1000, or write steps = 1000 in {loaded.file}.",
        )
    sim = simulation(args, loaded, bound(loaded, given, settings("--size", args.size)), default=None)
    made = binary(sim, given, steps, Path(args.output or loaded.file.stem), args.static)
    linked_how = "statically linked" if args.static else "linked to the libraries of this machine"
    whole = "" if made.checked == made.steps else f" (compared after {plural(made.checked, 'step')})"
    how = ' with propagator="loop"' if made.loop else ""
    print(f"wrote {made.path}: {made.bytes // 1024} KiB, {linked_how}")
    print(
        f"  it runs {plural(made.steps, 'step')}, or as many as it is told, and prints the state and its hash"
    )
    print(f"  the hash is that of the run in Python{how}{whole}: {made.hash}")
    return 0


def show(report: Report) -> None:
    if sys.stdout.isatty():
        Console(highlight=False).print(draw_report(report))
    else:
        print(report)


def demo(args: argparse.Namespace) -> int:
    """A system, its report, its pictures, how fast it runs, and what to type next."""
    if args.list:
        print("demos, each as tp demo NAME:", *listing(), sep="\n")
        return 0
    name = args.name or "kepler"
    if name not in ZOO:
        raise InputError(
            f"there is no demo `{name}`",
            fix=f"{did_you_mean(name, ZOO)}`tp demo --list` prints them: {', '.join(ZOO)}.",
        )
    if not 0 < args.seconds < 3600:
        raise InputError(f"--seconds {args.seconds:g} is not a time to measure for", fix="Write --seconds 1.")
    d = ZOO[name]
    console = Console(highlight=False)
    sim = compiled(
        d.system, d.dt, method=args.method, order=args.order, backend=args.backend, precision=args.precision
    )
    console.print(f"[bold]{name}[/]: {d.about}\n")
    assert sim.system.function is not None
    print(textwrap.indent(textwrap.dedent(inspect.getsource(sim.system.function)), "    "))
    console.print(draw_report(sim.explain()))
    out = sim.evolve(**d.start, steps=d.steps, save_every=1)
    ascii_only = not console.encoding.startswith("utf")
    console.print("", draw(out, sim.system.seen, console.width, ascii_only), "", sep="\n")
    if any(s.cause == "interrupted" for s in out.stops):
        return 130
    for line in speed(sim, d, args.seconds):
        print(line, flush=True)
    print("", *what_next(name), sep="\n")
    return 0


def bench(args: argparse.Namespace) -> int:
    """The program is part of the repository, beside the C that it compares with."""
    here = [root / "bench" / "run.py" for root in (Path.cwd(), Path(__file__).parents[2])]
    program = next((path for path in here if path.is_file()), None)
    if program is None:
        raise InputError("bench/run.py was not found", fix="Run `tp bench` in a clone of the repository.")
    return subprocess.run([sys.executable, str(program)]).returncode


# --- the command line -------------------------------------------------------------------------
def choices(**defaults: str) -> argparse.ArgumentParser:
    """The options of tp.compile that commands have in common."""
    p = argparse.ArgumentParser(add_help=False)
    p.add_argument("--method", metavar="NAME", help="auto, leapfrog, yoshida4, rk4, ...")
    p.add_argument("--order", type=int, help="order of a certified method")
    p.add_argument("--backend", metavar="NAME", help=f"auto, {', '.join(TARGETS)}")
    p.add_argument("--precision", metavar="NAME", help=" or ".join(PRECISIONS))
    p.set_defaults(**defaults)
    return p


def parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(
        prog="tp", epilog=EXIT, description="Write the energy; the compiler does the rest."
    )
    p.add_argument("--version", action="version", version=f"tinyphysics {__version__}")
    commands = p.add_subparsers(dest="command", metavar="COMMAND", required=True)

    choosing = choices(method="auto", backend="auto", precision="float64")
    # not given: what the file gives to tp.compile
    filed = argparse.ArgumentParser(add_help=False, parents=[choices()])
    filed.add_argument("file", metavar="FILE[:NAME]", help="a Python file, and the name of a system in it")
    filed.add_argument(
        "--dt", type=float, help="the time step; default: dt in the file, or the dt= of its tp.compile call"
    )
    filed_or_not = argparse.ArgumentParser(add_help=False, parents=[choices()])
    filed_or_not.add_argument(
        "file", metavar="FILE[:NAME]", nargs="?", help="a Python file; default: the gallery"
    )
    filed_or_not.add_argument("--dt", type=float, help="the time step; default: dt in the file")
    many: dict[str, Any] = {"action": "append", "default": []}
    filed_or_not.add_argument("--size", **many, metavar="n=16", help="a size that is given by a letter")
    filed.add_argument("--size", **many, metavar="n=16", help="the value of a size that is given by a letter")
    given = many | {"metavar": "NAME=VALUE"}
    given["help"] = "a state or a parameter, q=1,0 or mu=2; default: start in the file"

    r = commands.add_parser("run", parents=[filed], help="run a system from a file", epilog=EXIT)
    r.add_argument("--steps", type=int, help="default: steps in the file")
    r.add_argument("--until", type=float, metavar="T", help="run to this time, instead of --steps")
    r.add_argument("--save-every", type=int, metavar="N", help="save a frame every N steps")
    r.add_argument("--frames", type=int, metavar="N", help="save N evenly spaced frames")
    r.add_argument("--set", **given)
    r.add_argument("--out", metavar="FILE.npz", help="write the frames to a NumPy archive")
    r.add_argument("--save", metavar="DIR.zarr", help="write the frames to a zarr store during the run")
    r.add_argument("--view", action="store_true", help="watch the run in the terminal")
    r.add_argument(
        "--observer",
        metavar="NAME",
        help=f"what is handed out of the run: {', '.join(OBSERVERS)}; default: snapshots",
    )
    r.add_argument("--hash-every", type=int, metavar="N", help="a digest of the state every N steps")
    r.add_argument("--metrics-json", metavar="FILE", help="write what the run took, by stage, and its flags")
    r.add_argument(
        "--checkpoint", metavar="FILE", help="write the state to this file, so that the run can be continued"
    )
    r.add_argument(
        "--checkpoint-every",
        type=int,
        metavar="N",
        help="write a checkpoint every N steps; default: at the end",
    )
    r.add_argument(
        "--resume",
        action="store_true",
        help="continue from the checkpoint, if it exists; --steps includes the steps done before it",
    )
    r.set_defaults(command=run)
    e = commands.add_parser(
        "explain", parents=[filed], help="show what was found, chosen and proved; the file is not run"
    )
    e.add_argument(
        "--full", action="store_true", help="also show the evidence, the other methods and the machine"
    )
    e.set_defaults(command=explain)
    c = commands.add_parser(
        "check",
        parents=[filed],
        help="look for what would go wrong in a run; the file is not run",
        epilog="exit codes: 0 nothing found; 1 something found; 2 an error",
    )
    c.add_argument("--set", **given)
    c.add_argument("--json", action="store_true", help="print the findings as JSON")
    c.set_defaults(command=check, resume=False)
    v = commands.add_parser(
        "validate",
        parents=[filed],
        help="compare a backend with the virtual machine, and runs with each observer",
        epilog="exit codes: 0 all passed; 1 an item failed; 2 an error",
    )
    v.add_argument("--steps", type=int, help=f"default: steps in the file, or {VALIDATED}")
    v.add_argument("--set", **given)
    v.set_defaults(command=validate_, resume=False, until=None)
    i = commands.add_parser("ir", parents=[filed], help="print the program of a system; the file is not run")
    i.add_argument("--level", default="tpir", help=f"{' or '.join(LEVELS)}; default: tpir")
    i.set_defaults(command=ir)
    x = commands.add_parser(
        "explore",
        parents=[filed_or_not],
        help="show every level of the compiler for what is in an editor, or write that as one page",
    )
    x.add_argument(
        "--html", metavar="FILE.html", help="write a page: one file that needs neither a network nor Python"
    )
    add_serving(x)
    x.add_argument(
        "--steps", type=int, help="steps of the run in Python that the page compares with; default: 600"
    )
    x.add_argument("--set", **given)
    x.set_defaults(command=explore_)
    b = commands.add_parser(
        "build",
        parents=[filed],
        help="compile a run into an executable, with its initial state, dt and steps",
    )
    b.add_argument("--steps", type=int, help="default: steps in the file")
    b.add_argument("--set", **given)
    b.add_argument(
        "--static", action="store_true", help="link statically, so that it needs no libraries where it runs"
    )
    b.add_argument("-o", "--output", metavar="EXE", help="default: the name of the file, without .py")
    b.set_defaults(command=build)
    d = commands.add_parser("demo", parents=[choosing], help="explain, run, draw and time an example")
    d.add_argument("name", nargs="?", metavar="NAME", help=", ".join(ZOO))
    d.add_argument("--list", action="store_true", help="print the names of the demos")
    d.add_argument(
        "--seconds", type=float, default=1.0, metavar="S", help="seconds to measure for; default: 1"
    )
    d.set_defaults(command=demo)
    a = commands.add_parser(
        "replay", help="recompute a stored run and name the first step that differs", epilog=EXIT
    )
    a.add_argument("store", metavar="DIR.zarr", help="the store that was passed as save=")
    a.add_argument("--backend", metavar="NAME", help=f"replay on another backend: {', '.join(TARGETS)}")
    a.set_defaults(command=replay)
    w = commands.add_parser("watch", help="watch a stored run in the terminal, while it is written or later")
    w.add_argument("store", metavar="DIR.zarr", help="the store that was passed as save=")
    w.set_defaults(command=watching)
    commands.add_parser(
        "targets", help="print what a kernel is emitted as, compiled with and executed by on this machine"
    ).set_defaults(command=targets)
    commands.add_parser("doctor", help="check this installation").set_defaults(command=lambda args: examine())
    commands.add_parser(
        "bench", help="measure against C and the other libraries that are installed"
    ).set_defaults(command=bench)
    return p


def main(argv: Sequence[str] | None = None) -> int:
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal without UTF-8 shows ? and goes on
    args = parser().parse_args(argv)
    return answered(lambda: args.command(args))
