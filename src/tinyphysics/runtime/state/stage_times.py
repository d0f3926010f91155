"""How long does each stage of a run take, counted once?  A stage that calls another stops counting meanwhile."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

now = time.perf_counter


class StageTimes:
    """Seconds by stage. Stages of several threads share the time in which any of them was in one, by what each took."""

    def __init__(self) -> None:
        self.own: dict[str, float] = {}  # summed over threads
        self.calls: dict[str, int] = {}
        self.busy = 0.0  # in which a thread was in a stage
        self._inside, self._since = 0, 0.0
        self._lock = threading.Lock()
        self._local = threading.local()

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        outer = getattr(self._local, "inner", None)
        began, self._local.inner = now(), [0.0]
        if outer is None:
            self._enter(began)
        try:
            yield
        finally:
            ended, inner = now(), self._local.inner[0]
            self._local.inner = outer
            if outer is None:
                self._leave(ended)
            else:
                outer[0] += ended - began
            with self._lock:
                self.own[name] = self.own.get(name, 0.0) + (ended - began - inner)
                self.calls[name] = self.calls.get(name, 0) + 1

    def leave_out(self, name: str, seconds: float) -> None:
        """So much of a stage was another one, which is counted elsewhere."""
        with self._lock:
            self.own[name] = self.own.get(name, 0.0) - seconds

    def timed(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def called(*args: Any, **options: Any) -> Any:
            with self.stage(name):
                return function(*args, **options)

        return called

    def _enter(self, at: float) -> None:
        with self._lock:
            self._inside += 1
            if self._inside == 1:
                self._since = at

    def _leave(self, at: float) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                self.busy += at - self._since

    def shares(self, elsewhere: float = 0.0) -> dict[str, float]:
        """Seconds by stage, which sum to the time in a stage less what is counted elsewhere."""
        whole = sum(self.own.values())
        scale = max(self.busy - elsewhere, 0.0) / whole if whole > 0 else 0.0
        return {name: max(seconds, 0.0) * scale for name, seconds in self.own.items()}
