"""How fast is it on a GPU?  Ours beside CUDA by hand, torch.compile and JAX: ratios to the fastest CUDA by hand.

Every contender is a program that prints lines of JSON; one that fails or whose tool is missing says so and the others go on.
The table and all lines go to $OUT (gpu.md, gpu.json) if that is set, else to bench/results/.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from gpu_rows import ROWS, SMALL, UNITS

HERE = Path(__file__).resolve().parent
BY_HAND = {
    "ensembles.cu": ("systems", "steps"),
    "gravity.cu": ("bodies", "leaps"),
    "fluid.cu": ("side", "updates"),
}
PEERS = {
    "JAX": ("jax", "gpu_jax.py"),
    "torch.compile": ("torch", "gpu_torch.py"),
}  # the one that compiles longest is last
PATIENCE, TOGETHER = 150, 280  # seconds for a program, and for all
APART = {"float64": 1e-9, "float32": 1e-4}  # of sums, relative: roundings differ, physics must not
# what was asked for: (at most so many times, the number that was known for CUDA by hand); beside it is the fastest of ours
WANTED = {
    ("pendulum", "float64"): (1.15, 1.86),
    ("pendulum", "float32"): (1.0, 1.09),
    ("henon_heiles", "float64"): (1.15, 0.53),
    ("dipole", "float64"): (1.15, 3.80),
    ("gravity", "float32"): (2.0, 0.60),
    ("gravity", "float64"): (2.0, 1.57),
    ("d2q9", "float32"): (1 / 0.85, 52.5),  # of a copy of the same bytes, and not of the fluid by hand
}
FAST = {"gravity": 1.2}  # of math="fast"
BEGAN = time.perf_counter()
Line = dict[str, Any]


def lines_of(command: Sequence[str], name: str, env: Mapping[str, str] | None = None) -> list[Line]:
    """What a contender says; if it fails, why."""
    began, patience = time.perf_counter(), min(PATIENCE, TOGETHER - time.perf_counter() + BEGAN)
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=patience, env={**os.environ, **(env or {})}
        )
        said = done.stderr.strip().splitlines() or ["no reason given"]
        out, trouble = done.stdout, said[-1] if done.returncode else ""
    except subprocess.TimeoutExpired as late:
        out = late.stdout.decode() if isinstance(late.stdout, bytes) else late.stdout or ""
        trouble = f"not done after {patience:.0f} s"
    except OSError as error:
        out, trouble = "", str(error)
    found = [json.loads(line) | {"contender": name} for line in out.splitlines() if line.startswith("{")]
    if trouble:
        found.append({"contender": name, "failed": trouble})
    print(
        f"{name}: {len(found)} lines in {time.perf_counter() - began:.0f} s{': ' + trouble if trouble else ''}",
        flush=True,
    )
    return found


def by_hand(small: bool, architecture: str) -> list[Line]:
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        print("CUDA by hand: left out, there is no nvcc")
        return [{"contender": "CUDA by hand", "failed": "there is no nvcc"}]
    out: list[Line] = []
    with tempfile.TemporaryDirectory() as folder:
        made = {name: Path(folder, name).with_suffix("") for name in BY_HAND}
        jobs = {
            name: subprocess.Popen(
                [nvcc, "-O3", f"-arch={architecture}", "-o", str(at), str(HERE / "cuda" / name)],
                stderr=subprocess.PIPE,
                text=True,
            )
            for name, at in made.items()
        }
        for name, job in jobs.items():
            _, said = job.communicate()
            if job.returncode:
                out.append({"contender": "CUDA by hand", "failed": f"nvcc {name}: {said.strip()[-300:]}"})
                continue
            sizes = [str(getattr(SMALL, size)) for size in BY_HAND[name]] if small else []
            out += lines_of([str(made[name]), *sizes], "CUDA by hand")
    return out


def peer(name: str, small: bool) -> list[Line]:
    package, file = PEERS[name]
    if importlib.util.find_spec(package) is None:
        print(f"{name}: left out, {package} is not installed")
        return [{"contender": name, "failed": f"{package} is not installed"}]
    own = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}  # others need memory, too
    return lines_of([sys.executable, str(HERE / file), *(["--small"] if small else [])], name, own)


def ours(small: bool) -> list[Line]:
    path = os.pathsep.join([str(HERE.parent / "src"), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    command = [sys.executable, str(HERE / "gpu_ours.py"), *(["--small"] if small else [])]
    return lines_of(command, "ours", {"PYTHONPATH": path})


def better(row: str, values: Iterable[Line]) -> Line | None:
    there = [v for v in values if "value" in v]
    return (max if UNITS[row].endswith("a second") else min)(there, key=lambda v: v["value"], default=None)


def grouped(lines: Sequence[Line], row: str, precision: str) -> dict[str, Line]:
    """What each contender has for a row, under the name that the table has for it; the best of its variants."""
    out: dict[str, Line] = {}
    here = [x for x in lines if x.get("row") == row and x.get("precision") == precision]
    names = {"CUDA by hand": "CUDA by hand", "torch.compile": "torch.compile", "JAX": "JAX"}
    for contender, label in names.items():
        mine = [x for x in here if x["contender"] == contender and not copies(x)]
        if (best := better(row, [x for x in mine if "__sinf" not in x["variant"]])) is not None:
            out[label] = best
        if (quick := better(row, [x for x in mine if "__sinf" in x["variant"]])) is not None:
            out[f"{label}, __sinf"] = quick
        if (
            copied := better(row, [x for x in here if x["contender"] == contender and copies(x)])
        ) is not None:
            out["copy of the same bytes"] = copied
    for x in here:
        if x["contender"] == "ours":
            out[f"ours, {x['variant']}"] = x
    return out


def copies(line: Line) -> bool:
    return str(line.get("variant", "")).startswith("copy")


def ratio(row: str, value: float, limit: float) -> float:
    """How many times as long as the limit takes."""
    return limit / value if UNITS[row].endswith("a second") else value / limit


def table(lines: Sequence[Line]) -> str:
    """All rows as Markdown."""
    out = [
        "| workload | contender | measured | times CUDA by hand | asked for | remarks |",
        "|---|---|---|---|---|---|",
    ]
    for row, precision in ROWS:
        found = grouped(lines, row, precision)
        hand, copied = found.get("CUDA by hand"), found.get("copy of the same bytes")
        usual, known = WANTED.get((row, precision), (None, None))
        for label, x in found.items():
            most = FAST.get(row, usual) if label == "ours, fast" else usual
            words = [] if label.startswith("ours") else [x.get("variant", "")]
            times = asked = ""
            if "skipped" in x:
                words.append(x["skipped"])
            elif hand is not None:
                times = f"{ratio(row, x['value'], hand['value']):.2f}"
                if "sum" in x and not copies(x) and abs(x["sum"] / hand["sum"] - 1) > APART[precision]:
                    words.append(f"**sum {x['sum']:.12g} is not {hand['sum']:.12g}**")
            if copied is not None and "value" in x and x is not copied:
                words.append(f"{100 * x['value'] / copied['value']:.0f} % of the copy")
            if label.startswith("ours") and most is not None and "value" in x:
                against = copied["value"] if row == "d2q9" and copied is not None else known
                met = ratio(row, x["value"], against) <= most
                asked = f"{ratio(row, x['value'], known):.2f} x the known {known:g}; "
                asked += f"{'met' if met else 'not met'} (at most {most:.2f})"
            value = f"{x['value']:.4g} {UNITS[row]}" if "value" in x else "–"
            out.append(
                f"| {row}, {precision} | {label} | {value} | {times} | {asked} | {'; '.join(w for w in words if w)} |"
            )
    failed = [f"- {x['contender']}: {x['failed']}" for x in lines if "failed" in x]
    return "\n".join([*out, "", *failed]) + "\n"


def device() -> dict[str, str]:
    query = ["nvidia-smi", "--query-gpu=name,driver_version,clocks.max.sm", "--format=csv,noheader"]
    try:
        said = subprocess.run(query, capture_output=True, text=True, timeout=30).stdout.strip()
    except OSError:
        said = "no nvidia-smi"
    name = said.splitlines()[0] if said else "none"
    return {"date": datetime.date.today().isoformat(), "device": name, "python": sys.version.split()[0]}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="sizes of a test")
    parser.add_argument("--arch", default="sm_90", help="of nvcc")
    parser.add_argument(
        "--without", default="", help="contenders to leave out: ours, hand, peers; separated by commas"
    )
    asked = parser.parse_args()
    out, where, lines = asked.without.split(","), device(), []
    work = {
        "ours": lambda: ours(asked.small),
        "hand": lambda: by_hand(asked.small, asked.arch),
        **{name: partial(peer, name, asked.small) for name in PEERS},
    }
    for name, run in work.items():
        if name not in out and not (name in PEERS and "peers" in out):
            lines += run()
            text = keep(where, lines)  # at once: who comes next may not end in time
    print(text)
    return 0 if any(x["contender"] == "ours" and "value" in x for x in lines) or "ours" in out else 1


def keep(where: Mapping[str, str], lines: Sequence[Line]) -> str:
    text = f"{where['device']}, {where['date']}; medians of device events (JAX: the host's clock)\n\n{table(lines)}"
    folder = Path(os.environ.get("OUT") or HERE / "results")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "gpu.json").write_text(json.dumps({**where, "lines": lines}, indent=1) + "\n")
    (folder / "gpu.md").write_text(text)
    return text


if __name__ == "__main__":
    raise SystemExit(main())
