"""The files of tools/, which is not a package."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType


def tool(name: str) -> ModuleType:
    full = f"tinyphysics_tools_{name}"
    if full not in sys.modules:
        spec = importlib.util.spec_from_file_location(
            full, Path(__file__).parents[2] / "tools" / f"{name}.py"
        )
        assert spec is not None and spec.loader is not None
        sys.modules[full] = module = importlib.util.module_from_spec(
            spec
        )  # its dataclasses look for it there
        spec.loader.exec_module(module)
    return sys.modules[full]
