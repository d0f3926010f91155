"""Pinned cost of starting: how much is imported by `import tinyphysics`, and by a first result from a warm cache."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

import tinyphysics as tp
from pins.unit import Setting, Unit

FIRST = """
import tinyphysics as tp
@tp.hamiltonian
def pendulum(q, p):
    return p**2 / 2 - tp.cos(q)
out = tp.compile(pendulum, dt=0.0625).evolve(q=1.0, p=0.0, steps=10, progress=False)
"""
COUNT = """
import sys
ours = [m for m in sys.modules if m.partition('.')[0] == 'tinyphysics']
others = [m for m in ('numpy', 'llvmlite', 'rich', 'scipy', 'matplotlib', 'mpmath', 'pyopencl') if m in sys.modules]
print(len(ours), 'modules of tinyphysics;', ', '.join(others) or 'no other package')
"""


def environment(folder: str) -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(Path(tp.__file__).parents[1]), "TINYPHYSICS_CACHE": folder}


def counted(code: str, warm: bool, setting: Setting) -> dict[str, str]:
    with tempfile.TemporaryDirectory() as folder:
        for text in ([code] if warm else []) + [code + COUNT]:
            done = subprocess.run(
                [sys.executable, "-c", text],
                env=environment(folder),
                capture_output=True,
                text=True,
                check=True,
            )
    return {"imported": done.stdout.strip()}


def units() -> list[Unit]:
    return [
        Unit("imports", "import", partial(counted, "import tinyphysics\n", False), "quick"),
        Unit("imports", "first-warm-result", partial(counted, FIRST, True)),
    ]
