"""How are lists of neighbours made where there is no LLVM?  By libraries compiled elsewhere, for the benchmark alone."""
from __future__ import annotations

import ctypes
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from tinyphysics.device import llvm
from tinyphysics.device.cc import compiler
from tinyphysics.emit import list_builder as emit_lists
from tinyphysics.emit import list_columns as emit_columns
from tinyphysics.runtime import backend, loaders
from tinyphysics.runtime import cuda as runtime_cuda

CPU, TRIPLE = "x86-64-v3", "x86_64-unknown-linux-gnu"  # what every machine with such a GPU has
BUILDERS = [(3, True, straight) for straight in (False, True)]  # of points in a periodic box


def name_of(d: int, periodic: bool, straight: bool) -> str:
    return f"lists_{d}{int(periodic)}{int(straight)}.so"


def pack(folder: Path) -> None:
    """The libraries of this benchmark."""
    ll = llvm.binding()
    machine = ll.Target.from_triple(TRIPLE).create_target_machine(cpu=CPU, opt=2, reloc="pic")
    texts = {name_of(*b): emit_lists.module(*b) for b in BUILDERS} | {"columns.so": emit_columns.TEXT}
    for name, text in texts.items():
        with tempfile.TemporaryDirectory() as scratch:
            code = Path(scratch, "lists.o")
            code.write_bytes(machine.emit_object(ll.parse_assembly(text)))
            subprocess.run([*compiler(), "-shared", "-o", str(folder / name), str(code)], check=True)


def use(folder: Path) -> None:
    """From now on lists are made by what was packed."""
    def builder(d: int, periodic: bool, straight: bool) -> Any:
        return loaders.LIST(("build", ctypes.CDLL(str(folder / name_of(d, periodic, straight)))))

    def columns() -> Any:
        return loaders.taking("ppiipppi")(("columns", ctypes.CDLL(str(folder / "columns.so"))))

    backend.list_builder = builder  # type: ignore[assignment]
    runtime_cuda.list_columns = columns  # type: ignore[assignment]
