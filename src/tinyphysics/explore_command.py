"""`tp explore` with an editor: a server that needs nothing of the compiler.  The process beside it compiles."""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from tinyphysics.errors import InputError, TinyPhysicsError
from tinyphysics.explorer.server import Session, serve

COMPILING = ("method", "order", "backend", "precision")  # options that the process beside the server is told


def add_serving(p: argparse.ArgumentParser) -> None:
    """The options of the server."""
    p.add_argument("--port", type=int, default=0, help="of this machine; default: a free one")
    p.add_argument("--no-browser", action="store_true", help="print the address, and open nothing")
    p.add_argument(
        "--seconds", type=float, default=20.0, help="how long the text in the editor may take; default: 20"
    )


def explore_live(args: argparse.Namespace) -> int:
    """The explorer with an editor, on this machine."""
    gallery = gallery_files()
    if args.file is None and not gallery:
        raise InputError("the gallery is not here", fix="Name a file: tp explore kepler.py.")
    where = str(gallery[0] if args.file is None else args.file)
    path, name = Path(where), ""
    if not path.is_file() and ":" in where:
        file, _, name = where.rpartition(":")
        path = Path(file)
    if not path.is_file():
        raise InputError(f"there is no file `{path}`", fix="Give a Python file: kepler.py or kepler.py:NAME.")
    if not 0 < args.seconds < math.inf:
        raise InputError(
            f"--seconds {args.seconds:g} is not a time for a compilation", fix="Write --seconds 20."
        )
    options = {n: getattr(args, n) for n in COMPILING if getattr(args, n, None) is not None}
    command = [sys.executable, "-m", "tinyphysics.explore_child", str(path.resolve().parent)]
    session = Session(path, name, options, () if args.file else gallery)
    serve(session, command, args.port, args.seconds, not args.no_browser)
    return 0


def gallery_files() -> list[Path]:
    """The systems of the gallery: part of the package, or of a clone."""
    here = Path(__file__).parent
    folders = [here / "explorer" / "gallery", here.parents[1] / "examples" / "explore"]
    found = next((f for f in folders if f.is_dir()), None)
    return [] if found is None else sorted(found.glob("*.py"), key=lambda f: (f.stem != "pendulum", f.stem))


def answered(command: Callable[[], int]) -> int:
    """The exit code of a command; what went wrong is told."""
    try:
        code = command()
        sys.stdout.flush()
        return code
    except TinyPhysicsError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # `tp ir file.py | head`: the reader has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def served(argv: Sequence[str]) -> int | None:
    """The exit code of `tp explore` with no other options than these; None of any other command, which needs the compiler."""
    if list(argv[:1]) != ["explore"]:
        return None
    p = argparse.ArgumentParser(prog="tp explore", add_help=False, allow_abbrev=False, exit_on_error=False)
    p.add_argument("file", nargs="?")
    add_serving(p)
    try:
        args, others = p.parse_known_args(argv[1:])
    except (argparse.ArgumentError, SystemExit):  # the whole command says what is wrong
        return None
    return None if others else answered(lambda: explore_live(args))
