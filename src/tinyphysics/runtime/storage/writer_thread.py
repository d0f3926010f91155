"""Who writes the frames while a run goes on?  A thread that takes windows of them; a few wait, the run waits then.

What could not be written is not lost: it stays in memory, and whoever reads the frames finds it behind the others.
"""

from __future__ import annotations

import queue
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tinyphysics.errors import StoreError
from tinyphysics.runtime.state.windows import Window
from tinyphysics.runtime.storage.run_store import RunStore

WAITING = 2  # windows


class Stream:
    def __init__(self, store: RunStore) -> None:
        self.store = store
        self.error: StoreError | None = None
        self.left: list[Window] = []  # not written
        self._queue: queue.Queue[tuple[Window, Mapping[str, Any]] | None] = queue.Queue(WAITING)
        self._thread: threading.Thread | None = None

    def put(self, window: Window, attributes: Mapping[str, Any]) -> None:
        """To be written soon; raises what went wrong with an earlier one, and keeps this one in memory then."""
        if self.error is not None:
            self._queue.join()  # what was put before it is left before it
            self.left.append(window)
            raise self.error
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="tinyphysics store", daemon=True)
            self._thread.start()
        self._queue.put((window, attributes))

    def settle(self) -> None:
        """All that was put is on the disk, or an error is raised."""
        self._queue.join()
        if self.error is not None:
            raise self.error

    def close(self) -> None:
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join()
            self._thread = None

    def _work(self) -> None:
        while (item := self._queue.get()) is not None:
            window, attributes = item
            if self.error is None:
                try:
                    self.store.append(window, attributes)
                except StoreError as error:
                    self.error = error
                except BaseException as error:  # whatever it is, the run has to hear of it
                    self.error = StoreError(f"`{self.store.root}` could not be written: {error!r}")
            if self.error is not None:
                self.left.append(window)
            self._queue.task_done()
        self._queue.task_done()

    def reading(self, name: str, lift: bool = False) -> Stored:
        """An array of the store, with what could not be written behind it."""
        m = self.store.layouts[name]
        own = {
            "time": "times",
            "step": "steps",
            "observed_time": "observed_times",
            "observed_step": "observed_steps",
        }
        tail = []
        for w in self.left:
            found = getattr(w, own[name]) if name in own else w.frames.get(name, w.observed.get(name))
            tail.append(np.asarray(found, m.dtype))
        return Stored(self.store, name, self.store.length(m), np.concatenate(tail) if tail else None, lift)


class Reading(np.lib.mixins.NDArrayOperatorsMixin, ABC):
    """An array elsewhere: what is asked for is read; as a whole it is a NumPy array like any other."""

    shape: tuple[int, ...]
    dtype: Any

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def nbytes(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64)) * int(self.dtype.itemsize)

    def __len__(self) -> int:
        return self.shape[0]

    @abstractmethod
    def read(self, at: int, end: int) -> Any:
        """Rows from one number to another."""

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        out = self.read(0, len(self)) if len(self) else np.empty(self.shape, self.dtype)
        return out if dtype is None else out.astype(dtype)

    def __getitem__(self, key: Any) -> Any:
        first, *rest = key if isinstance(key, tuple) else (key,)
        if isinstance(first, (int, np.integer)) and not isinstance(first, bool):
            k = int(first) + (len(self) if first < 0 else 0)
            if not 0 <= k < len(self):
                raise IndexError(f"frame {first} of {len(self)}")
            return self.read(k, k + 1)[(0, *rest)]
        if isinstance(first, slice):
            rows = range(*first.indices(len(self)))
            if not len(rows):
                return np.empty((0, *self.shape[1:]), self.dtype)[(slice(None), *rest)]
            low, high = min(rows[0], rows[-1]), max(rows[0], rows[-1])
            return self.read(low, high + 1)[:: 1 if rows.step > 0 else -1][
                (slice(None, None, abs(rows.step)), *rest)
            ]
        return np.asarray(self)[key]

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        return getattr(ufunc, method)(
            *(np.asarray(x) if isinstance(x, Reading) else x for x in inputs), **options
        )

    def __getattr__(self, name: str) -> Any:
        """Whatever else an array can do, done by the whole of it."""
        if name.startswith("_") or name in ("store", "shape", "words"):
            raise AttributeError(name)
        return getattr(np.asarray(self), name)


class Stored(Reading):
    """An array in a store."""

    def __init__(self, store: RunStore, name: str, length: int, tail: Any = None, lift: bool = False) -> None:
        self.store, self.name, self.written, self.tail, self.lift = store, name, length, tail, lift
        m = store.layouts[name]
        self.dtype = np.dtype(m.dtype).newbyteorder("=")
        extra = 0 if tail is None else len(tail)
        self.shape = (length + extra, 1, *m.row) if lift else (length + extra, *m.row)

    def read(self, at: int, end: int) -> Any:
        parts = []
        if at < self.written:
            parts.append(self.store.read(self.name, at, min(end, self.written)))
        if end > self.written and self.tail is not None:
            parts.append(self.tail[max(at - self.written, 0) : end - self.written])
        out = np.concatenate(parts) if len(parts) != 1 else parts[0]
        out = out.astype(self.dtype, copy=False)
        return out[:, None] if self.lift else out

    def __repr__(self) -> str:
        return f"<{self.name} {self.shape} {self.dtype} in {self.store.root}>"


class Value(Reading):
    """A state in a store, of which several words are kept there."""

    def __init__(
        self, name: str, words: Sequence[Stored], shown: Callable[[str, Mapping[str, Any]], Any]
    ) -> None:
        self.name, self.words, self.shown = name, tuple(words), shown
        self.shape, self.dtype = (
            words[0].shape,
            shown(name, {w.name: np.zeros((), w.dtype) for w in words}).dtype,
        )

    def read(self, at: int, end: int) -> Any:
        return self.shown(self.name, {w.name: w.read(at, end) for w in self.words})

    def __repr__(self) -> str:
        return f"<{self.name} {self.shape} {self.dtype} in {self.words[0].store.root}>"
