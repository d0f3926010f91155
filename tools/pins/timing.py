"""How much CPU time do an import and a first warm result take, compared with another commit?

Children are run in turn, one of each tree, so that what else the machine does falls on both. Time is that of the child alone,
user and system; the first run of each fills its caches and is not counted.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from pins.imports import FIRST

ROOT = Path(__file__).parents[2]
ASKED = {"import tinyphysics": "import tinyphysics", "first warm result": FIRST}


def cpu_seconds(code: str, source: Path, cache: Path) -> float:
    env = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}  # as it is for users
    env |= {"PYTHONPATH": str(source / "src"), "TINYPHYSICS_CACHE": str(cache)}
    env["PYTHONPYCACHEPREFIX"] = str(cache / "bytes")
    child = subprocess.Popen([sys.executable, "-c", code], env=env, cwd=cache)
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise SystemExit(f"a child failed with {child.returncode} in {source}")
    return used.ru_utime + used.ru_stime


def compare_times(revision: str, runs: int) -> int:
    with tempfile.TemporaryDirectory() as name:
        other = Path(name) / "other"
        subprocess.run(
            ["git", "worktree", "add", "--quiet", "--detach", str(other), revision], cwd=ROOT, check=True
        )
        try:
            for what, code in ASKED.items():
                trees = {"now": ROOT, revision: other}
                caches = {tree: Path(name) / f"cache-{k}" for k, tree in enumerate(trees)}
                for folder in caches.values():
                    folder.mkdir(mode=0o700, exist_ok=True)
                times: dict[str, list[float]] = {tree: [] for tree in trees}
                for turn in range(runs + 2):  # the first two write byte code, plans and objects
                    for tree, source in trees.items():
                        used = cpu_seconds(code, source, caches[tree])
                        if turn > 1:
                            times[tree].append(used)
                now, then = (statistics.median(times[tree]) for tree in trees)
                ratio = statistics.median(a / b for a, b in zip(times["now"], times[revision]))
                print(
                    f"{what}: {1e3 * now:.0f} ms of CPU, {1e3 * then:.0f} ms at {revision}; ratio {ratio:.3f} (median of {runs})"
                )
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", str(other)], cwd=ROOT, check=True)
    return 0
