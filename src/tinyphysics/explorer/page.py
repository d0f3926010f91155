"""A window that is one file: texts, report and kernel in a page that asks nothing of a network or of Python."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

from tinyphysics.errors import InputError, StoreError
from tinyphysics.given import shown

ASSETS = Path(__file__).parent / "assets"
MOST = 2_000_000  # bytes of a page
# a page may compute, and may not load anything
POLICY = "default-src 'none'; script-src 'unsafe-inline' 'wasm-unsafe-eval'; style-src 'unsafe-inline'; img-src data:"


def asset(name: str) -> str:
    return (ASSETS / name).read_text(encoding="utf-8")


def page(state: Mapping[str, Any]) -> str:
    """The file, as text."""
    packed = base64.b64encode(
        gzip.compress(json.dumps(state, separators=(",", ":")).encode(), mtime=0)
    ).decode()
    parts = {
        "TITLE": escape(f"{state['name']}: {state['question']}" if state["question"] else str(state["name"])),
        "POLICY": POLICY,
        "STYLE": asset("page.css"),
        "DATA": packed,
        "SCRIPT": asset("machine.js") + asset("gpu.js") + asset("page.js"),
    }
    text = asset("page.html")
    for name, value in parts.items():
        text = text.replace("{{" + name + "}}", value)
    return text


def write(state: Mapping[str, Any], path: Any) -> Path:
    """Writes a page, and returns where it is."""
    if not isinstance(path, (str, Path)) or Path(path).suffix not in (".html", ".htm"):
        raise InputError(f"html={shown(path)} is not the name of a page", fix='Write html="run.html".')
    text = page(state)
    if len(text.encode()) > MOST:
        raise InputError(
            f"the page of `{state['name']}` would have {len(text) / 1e6:.1f} MB, more than {MOST / 1e6:.0f}",
            fix="Show a smaller system: fewer particles have the same equations.",
        )
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise StoreError(
            f"`{path}` could not be written: {error.strerror}", fix="Pass another path."
        ) from error
    return Path(path)
