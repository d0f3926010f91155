"""Pinned messages: wrong calls, with the whole text of what they raise."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from pins import wrong_compile, wrong_measures, wrong_run, wrong_systems
from pins.unit import Setting, Unit, message

TABLES = {
    "systems": wrong_systems.CALLS,
    "compile": wrong_compile.CALLS,
    "run": wrong_run.CALLS,
    "measures": wrong_measures.CALLS,
}


def raised(call: Callable[[], Any], setting: Setting) -> dict[str, str]:
    """What a call says; one that says nothing is no wrong call any more."""
    try:
        call()
    except Exception as error:
        return {"message": message(error)}
    return {"message": "(nothing was raised)"}


def units() -> list[Unit]:
    every = [(topic, name, call) for topic, table in TABLES.items() for name, call in table.items()]
    return [
        Unit("messages", f"{topic}: {name}", partial(raised, call), "quick" if k % 5 == 0 else "test")
        for k, (topic, name, call) in enumerate(every)
    ]
