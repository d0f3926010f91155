"""The process beside the server that runs users' code: asked, waited for so long, killed by its number and started again."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

LONGEST = 64 << 20  # bytes of an answer


class Worker:
    """One question at a time; what takes longer than `seconds` ends the process, and the next question has a fresh one."""

    def __init__(self, command: Sequence[str], seconds: float) -> None:
        self.command, self.seconds = list(command), seconds
        self.process: asyncio.subprocess.Process | None = None
        self.count = 0
        self.lock = asyncio.Lock()  # of the pages that ask

    async def started(self) -> asyncio.subprocess.Process:
        if self.process is None or self.process.returncode is not None:
            self.process = await asyncio.create_subprocess_exec(
                *self.command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                limit=LONGEST,
            )
            await self._read(self.process)  # it is ready
        return self.process

    async def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """The answer, or an error that says why there is none; a second page waits for the first."""
        async with self.lock:
            return await self._answer(request)

    async def _answer(self, request: dict[str, Any]) -> dict[str, Any]:
        try:
            process = await self.started()
            self.count += 1
            assert process.stdin is not None
            process.stdin.write((json.dumps({**request, "id": self.count}) + "\n").encode())
            await process.stdin.drain()
            found = await asyncio.wait_for(self._read(process), self.seconds)
        except TimeoutError:
            await self.stop()
            return told(
                f"stopped after {self.seconds:g} s: the text, its compilation or its run takes longer",
                "Change it, or give it more time: tp explore --seconds 60.",
            )
        except (ConnectionError, EOFError, ValueError):
            await self.stop()
            return told("the process that ran this text was stopped", "Another one takes the next text.")
        except asyncio.CancelledError:
            await self.stop()
            raise
        return found

    @staticmethod
    async def _read(process: asyncio.subprocess.Process) -> dict[str, Any]:
        assert process.stdout is not None
        line = await process.stdout.readline()
        if not line:
            raise EOFError
        out: dict[str, Any] = json.loads(line)
        return out

    async def stop(self) -> None:
        """Ends this process, by its number, and no other."""
        process, self.process = self.process, None
        if process is not None and process.returncode is None:
            process.kill()
            await process.wait()


def told(what: str, fix: str) -> dict[str, Any]:
    return {"error": {"what": what, "fix": fix, "line": None}}
