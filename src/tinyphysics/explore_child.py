"""The process that runs what is in the editor of `tp explore`: a text comes in, what windows show of it goes out.

It is started by explorer/worker.py, talks in lines of JSON over two pipes of its own, and may be killed at any moment:
nothing is lost, since the text is in the page.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

MEMORY = 4 << 30  # bytes of addresses


def limited() -> None:
    try:
        import resource
    except ImportError:  # not on Windows; the time limit of the parent holds there too
        return
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def answer(request: dict[str, Any], folder: Path) -> dict[str, Any]:
    """What the text defines, compiled and run, as explorer/state.py has it; or what is wrong, and where."""
    from tinyphysics.errors import TinyPhysicsError
    from tinyphysics.explorer.state import state_of
    from tinyphysics.user_file import load, settings, simulation_of  # without what only a command needs

    file = folder / Path(request["file"]).name
    file.write_text(request["text"], encoding="utf-8")
    name = f":{request['name']}" if request.get("name") else ""
    try:
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            loaded = load(f"{file}{name}")
            if needs := [n for n in ("start", "dt", "steps") if n in loaded.left_out]:
                del needs
                loaded = load(f"{file}{name}", whole=True)
            sim = simulation_of(loaded, request.get("options") or {})
            state = state_of(
                sim,
                {**loaded.start, **settings("--set", request.get("set") or [])},
                request.get("steps") or 600,
            )
        return {"state": {**state, "warnings": [str(w.message) for w in said][:3]}}
    except TinyPhysicsError as error:
        line = error.site.line if error.site is not None and Path(error.site.file) == file else None
        return {"error": {"what": error.what, "fix": error.fix or "", "line": line}}
    except MemoryError:
        return {
            "error": {
                "what": "this needs more memory than the explorer gives",
                "fix": "Try a smaller system.",
                "line": None,
            }
        }
    except Exception as error:
        trace, line = error.__traceback__, None
        while trace is not None:
            line = trace.tb_lineno if trace.tb_frame.f_code.co_filename == str(file) else line
            trace = trace.tb_next
        return {"error": {"what": f"{type(error).__name__}: {error}", "fix": "", "line": line}}


def main() -> int:
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what the user's code prints is no answer
    limited()
    if len(sys.argv) > 1:
        sys.path.insert(0, sys.argv[1])  # neighbours of the file
    with tempfile.TemporaryDirectory(prefix="tp-explore-") as folder:
        out.write(json.dumps({"ready": os.getpid()}) + "\n")
        out.flush()
        for line in sys.stdin:
            request = json.loads(line)
            out.write(json.dumps({"id": request["id"], **answer(request, Path(folder))}) + "\n")
            out.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
