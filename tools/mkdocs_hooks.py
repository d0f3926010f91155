"""mkdocs calls this: every page has the version below it, and the tables that are printed from the code."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any


def load(name: str) -> ModuleType:
    path = Path(__file__).with_name(f"{name}.py")
    spec = importlib.util.spec_from_file_location(f"tinyphysics_{name}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up there
    spec.loader.exec_module(module)
    return module


docs, explorer = load("docs"), load("explorer_pages")


def on_config(config: Any) -> Any:
    """The version of the package that the pages were built from stands at the end of each of them."""
    config["copyright"] = f"tinyphysics {docs.__version__}, MIT licence"
    return config


def on_page_markdown(markdown: str, **_: Any) -> str:
    text = str(docs.fill(markdown))
    return text.replace(explorer.MARK, explorer.listing()) if explorer.MARK in text else text


def on_post_build(config: Any) -> None:
    """The explorer's gallery: pages that compute in the browser, made now and kept nowhere else."""
    explorer.write(Path(config["site_dir"]) / explorer.HERE)
