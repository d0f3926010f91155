"""How is a run shown and kept?  One table with its legend, and one JSON line."""

from __future__ import annotations

import datetime
import json
import os
import platform
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from measure import Row
from peers import notes, versions
from rich.console import Console
from rich.table import Table

import tinyphysics as tp
from tinyphysics.device.host.cc import compiler
from tinyphysics.device.host.llvm import host_cpu

RESULTS = Path(__file__).parent / "results" / "results.jsonl"


def show(rows: Sequence[Row]) -> None:
    table = Table(
        "workload",
        "who",
        "cost",
        "x by hand",
        "port limit",
        "away",
        "setting",
        title="CPU time of one thread",
    )
    missing = {peer for peer, found in versions().items() if found is None}
    for row in rows:
        reference = row.cost.get("C by hand")
        heads = [row.workload, f"({row.unit})"]
        for name, cost in row.cost.items():
            head = heads.pop(0) if heads else ""
            if cost is None:
                table.add_row(head, name, "not installed" if name in missing else "–", "", "", "", "")
                continue
            ratio = f"{cost / reference:.2f}" if reference else ""
            away = f"{row.away[name]:.0e}" if name in row.away else ""
            limit = f"{row.limits[name]:.3g} ({row.limits[name] / cost:.0%})" if name in row.limits else ""
            table.add_row(head, name, f"{cost:.4g}", ratio, limit, away, row.settings.get(name, ""))
        table.add_section()
    console = Console(width=120)
    console.print(table)
    console.print(
        "cost: smallest of the repetitions; away: largest difference of a last position from the C by hand"
    )
    console.print(
        "port limit: the cost if the busiest port of this core were always busy, and how much of it is reached"
    )
    console.print(
        "–: the row makes no sense for that program", *notes(), sep="\n", highlight=False, soft_wrap=True
    )


def surroundings() -> dict[str, Any]:
    here = Path(__file__).parent
    git = ["git", "-C", str(here)]
    commit = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True).stdout.strip()
    changed = subprocess.run([*git, "status", "--porcelain"], capture_output=True, text=True).stdout.strip()
    gcc = subprocess.run([*compiler(), "--version"], capture_output=True, text=True).stdout.partition("\n")[0]
    cpu = host_cpu()
    return {
        "date": datetime.date.today().isoformat(),
        "commit": commit,
        "changed": bool(changed),
        "cpu": cpu.name,
        "width": cpu.width,
        "python": platform.python_version(),
        "compiler": gcc,
        "numpy": np.__version__,
        "tinyphysics": tp.__version__,
        "peers": versions(),
        "load": round(os.getloadavg()[0], 1),
    }


def keep(rows: Sequence[Row], entry: dict[str, Any]) -> None:
    RESULTS.parent.mkdir(exist_ok=True)
    with RESULTS.open("a") as file:
        file.write(json.dumps(entry | {"rows": [row.to_dict() for row in rows]}) + "\n")
    peers = ", ".join(f"{name} {number or 'not installed'}" for name, number in entry["peers"].items())
    print(
        f"{entry['cpu']}, vectors of {entry['width']} doubles, {entry['compiler']}, Python {entry['python']}"
    )
    print(f"tinyphysics {entry['tinyphysics']}, numpy {entry['numpy']}, {peers}")
    commit = entry["commit"][:12] + (" with changes" if entry["changed"] else "")
    print(f"commit {commit}; load {entry['load']} on {os.cpu_count()} processors; kept in {RESULTS}")
