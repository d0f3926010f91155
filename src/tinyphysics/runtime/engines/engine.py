"""What does the runtime ask of whatever runs a program?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

States = Mapping[str, Any]


class Engine(Protocol):
    """What the runtime asks of whatever runs a program. `m` is the engine's own loop state of some members."""

    launches: int
    compiling: float  # seconds spent so far
    made: int  # modules compiled so far
    found: int  # modules that were compiled before
    numbers: int  # carried round the loop for each member; 0 if only the engine can keep them
    room: int  # of those, in all members that run as one tile
    workers: int  # threads that may call at once

    def block(self, members: int) -> int: ...
    def rows(self, m: Any) -> int: ...
    def start(
        self, state: States, params: States, members: int, dt: float, t0: float, threads: int | None = None
    ) -> Any: ...
    def held(self, m: Any) -> Any: ...
    def resume(
        self, rows: Any, params: States, members: int, dt: float, t0: float, steps: int, threads: int | None
    ) -> Any: ...
    def registers(self, m: Any) -> dict[str, Any]: ...
    def restored(
        self,
        registers: States,
        params: States,
        members: int,
        dt: float,
        t0: float,
        steps: int,
        threads: int | None = None,
    ) -> Any: ...
    def snapshot(self, m: Any) -> Any: ...
    def some(self, m: Any, members: list[int]) -> Any: ...
    def overwrite(self, m: Any, members: list[int], well: int) -> None: ...
    def advance(self, m: Any, steps: int) -> None: ...
    def watch(self, m: Any, rows: int, stride: int) -> dict[str, Any]: ...
    def bad(self, m: Any) -> list[int]: ...
    def first_bad(self, m: Any, k: int) -> tuple[str, int] | None: ...
    def synchronised(self, m: Any) -> dict[str, Any]: ...


@runtime_checkable
class Distant(Protocol):
    """An engine whose states are on a GPU, where they can be left."""

    def synchronised_there(self, m: Any) -> dict[str, Any]: ...
