"""Does this GPU compute the bits of a processor?  python3 launch.py: the driver and the standard library, nothing else.

Beside this file lie programs (programs/*.json: calls of the driver in their order), their kernels (ptx/), what they begin
from (data/, or numbers written out below) and expected.json. Each program is run, what it leaves is hashed, and the hash is
compared; a program that must differ is there, too: PTX in which sums of products round once instead of twice. The exit
status is 0 if all is as it should be.
"""

from __future__ import annotations

import argparse
import array
import ctypes
import functools
import hashlib
import json
import statistics
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
LIBRARY = "libcuda.so.1"
WARM = 100.0  # milliseconds that a timed program runs before its times count
RUNS = 7
CAPABILITY_MAJOR, CAPABILITY_MINOR = 75, 76  # numbers of cuda.h
INTEGERS = {8: ctypes.c_uint8, 16: ctypes.c_uint16, 32: ctypes.c_uint32, 64: ctypes.c_uint64}


@functools.lru_cache(maxsize=8)
def uniform(seed: int, low: float, high: float, count: int) -> array.array:
    """Knuth's 64-bit linear congruence, the upper 53 bits of each state."""
    x, out, width = seed, array.array("d"), high - low
    for _ in range(count):
        x = (x * 6364136223846793005 + 1442695040888963407) & (2**64 - 1)
        out.append((x >> 11) * 2.0**-53 * width + low)
    return out


def source(entry: dict, folder: Path) -> bytes:
    """The bytes of an upload."""
    if "file" in entry:
        return (folder / "data" / entry["file"]).read_bytes()
    data = array.array(entry["type"], uniform(*entry["uniform"]))
    if sys.byteorder == "big":
        data.byteswap()
    return data.tobytes()


def memory(data: bytes) -> ctypes.Array:
    return (ctypes.c_char * len(data)).from_buffer_copy(data)


def address(data: ctypes.Array) -> ctypes.c_void_p:
    return ctypes.c_void_p(ctypes.addressof(data))


class Driver:
    """The functions that are needed, every code looked at."""

    def __init__(self, library=None, number: int = 0) -> None:
        self.library = ctypes.CDLL(LIBRARY) if library is None else library
        self.stream = ctypes.c_void_p()
        device, count, context, version = ctypes.c_int(), ctypes.c_int(), ctypes.c_void_p(), ctypes.c_int()
        self("cuInit", 0)
        self("cuDriverGetVersion", ctypes.byref(version))
        self("cuDeviceGetCount", ctypes.byref(count))
        if not 0 <= number < count.value:
            raise SystemExit(f"there is no device {number}: the driver shows {count.value}")
        self("cuDeviceGet", ctypes.byref(device), number)
        name, parts = ctypes.create_string_buffer(256), []
        self("cuDeviceGetName", name, 256, device)
        for which in (CAPABILITY_MAJOR, CAPABILITY_MINOR):
            part = ctypes.c_int()
            self("cuDeviceGetAttribute", ctypes.byref(part), which, device)
            parts.append(part.value)
        self("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self("cuCtxSetCurrent", context)
        self("cuStreamCreate", ctypes.byref(self.stream), 0)
        self.name, self.capability = name.value.decode(), tuple(parts)
        self.version = f"{version.value // 1000}.{version.value % 1000 // 10}"

    def __call__(self, name: str, *args) -> None:
        code = getattr(self.library, name)(*args)
        if code:
            text = ctypes.c_char_p()
            known = not self.library.cuGetErrorString(code, ctypes.byref(text))
            raise RuntimeError(f"{name} failed: {(text.value or b'').decode() if known else ''} ({code})")

    def synchronise(self) -> None:
        self("cuStreamSynchronize", self.stream)

    def event(self) -> ctypes.c_void_p:
        out = ctypes.c_void_p()
        self("cuEventCreate", ctypes.byref(out), 0)
        return out


class Replay:
    """The calls of one program, which can be made again and again."""

    def __init__(self, driver: Driver, folder: Path, name: str) -> None:
        program = json.loads((folder / "programs" / f"{name}.json").read_text())
        self.driver, self.calls, self.results = driver, program["calls"], program["results"]
        self.data = [memory(source(entry, folder)) for entry in program["data"]]
        self.places: dict[int, tuple[int, int]] = {}  # (where it is here, bytes), by where it was
        self.events = {word: driver.event() for word in ("steps", "done")}
        began = time.perf_counter()
        self.modules, self.functions = [], {}
        for text in program["texts"]:
            module = ctypes.c_void_p()
            driver("cuModuleLoadData", ctypes.byref(module), (folder / "ptx" / text).read_bytes() + b"\0")
            self.modules.append(module)
        for call in self.calls:
            if call[0] == "launch" and (call[1], call[2]) not in self.functions:
                found = ctypes.c_void_p()
                driver("cuModuleGetFunction", ctypes.byref(found), self.modules[call[1]], call[2].encode())
                self.functions[call[1], call[2]] = found
        self.assembled = time.perf_counter() - began  # seconds of the driver's own compiler

    def place(self, was: int) -> int:
        """An address here, also of what lies inside of something."""
        if was in self.places:
            return self.places[was][0]
        for start, (here, size) in self.places.items():
            if start < was < start + size:
                return here + was - start
        raise ValueError(f"no memory was allocated at {was:#x}")

    def run(self) -> tuple[str, float]:
        """(the hash of what is read after the steps, milliseconds that the steps took on the device)."""
        d, done, reads = self.driver, False, []
        for what, *rest in self.calls:
            if what == "alloc":
                at, size = rest
                if at not in self.places:
                    here = ctypes.c_uint64()
                    d("cuMemAlloc_v2", ctypes.byref(here), ctypes.c_size_t(max(size, 1)))
                    self.places[at] = here.value, size
            elif what == "upload":
                at, size, which = rest
                assert len(self.data[which]) == size
                d(
                    "cuMemcpyHtoDAsync_v2",
                    ctypes.c_uint64(self.place(at)),
                    address(self.data[which]),
                    ctypes.c_size_t(size),
                    d.stream,
                )
                d.synchronise()
            elif what == "fill":
                at, value, size = rest
                d(
                    "cuMemsetD8Async",
                    ctypes.c_uint64(self.place(at)),
                    ctypes.c_ubyte(value),
                    ctypes.c_size_t(size),
                    d.stream,
                )
            elif what == "copy":
                to, at, size = rest
                d(
                    "cuMemcpyDtoDAsync_v2",
                    ctypes.c_uint64(self.place(to)),
                    ctypes.c_uint64(self.place(at)),
                    ctypes.c_size_t(size),
                    d.stream,
                )
            elif what == "launch":
                self.launch(*rest)
            elif what == "mark":
                done = rest[0] == "done"
                d("cuEventRecord", self.events[rest[0]], d.stream)
            elif what == "read":
                at, size = rest
                here = memory(bytes(size))
                d(
                    "cuMemcpyDtoHAsync_v2",
                    address(here),
                    ctypes.c_uint64(self.place(at)),
                    ctypes.c_size_t(size),
                    d.stream,
                )
                d.synchronise()
                if done:
                    reads.append(here)
            elif what != "free":  # what a run gave back is kept for the next one
                raise ValueError(f"this launcher does not know the call {what}")
        d.synchronise()
        ms = ctypes.c_float()
        d("cuEventElapsedTime", ctypes.byref(ms), self.events["steps"], self.events["done"])
        digest = hashlib.blake2b(digest_size=16)
        for read, offset, size in self.results:
            digest.update(memoryview(reads[read])[offset : offset + size])
        return digest.hexdigest(), ms.value

    def launch(
        self, module: int, name: str, blocks: list[int], threads: list[int], shared: int, args: list
    ) -> None:
        values = [ctypes.c_uint64(self.place(v)) if kind == "at" else INTEGERS[kind](v) for kind, v in args]
        pointers = (ctypes.c_void_p * len(values))(
            *[ctypes.cast(ctypes.pointer(v), ctypes.c_void_p) for v in values]
        )
        kernel = self.functions[module, name]
        self.driver("cuLaunchKernel", kernel, *blocks, *threads, shared, self.driver.stream, pointers, None)

    def close(self) -> None:
        for here, _ in self.places.values():
            self.driver("cuMemFree_v2", ctypes.c_uint64(here))
        for module in self.modules:
            self.driver("cuModuleUnload", module)


def timed(replay: Replay) -> float:
    """Median milliseconds of the steps, once the clocks of the device have risen."""
    spent, times = 0.0, []
    while len(times) < RUNS:
        ms = replay.run()[1]
        if spent >= WARM:
            times.append(ms)
        spent += max(ms, 1e-2)
    return statistics.median(times)


def examine(driver: Driver, folder: Path, entry: dict) -> dict:
    """What became of one program."""
    found = {"name": entry["name"], "differs": entry.get("differs", False)}
    try:
        replay = Replay(driver, folder, entry["name"])
        found["assembled_ms"] = 1e3 * replay.assembled
        found["hash"], again = replay.run()[0], replay.run()[0]
        equal = found["hash"] == entry["hash"]
        found["well"] = again == found["hash"] and equal != found["differs"]
        found["said"] = ("equal" if equal else "differs") + (
            "" if again == found["hash"] else ", and from run to run"
        )
        if entry.get("timed"):
            found["ps"] = 1e9 * timed(replay) / entry["work"]
            found["unit"] = entry["unit"]
        replay.close()
    except (RuntimeError, ValueError, OSError) as error:
        found |= {"well": False, "said": str(error)}
    return found


def line(entry: dict, found: dict) -> str:
    speed = f"{found['ps']:10.3f} ps per {found['unit']}" if "ps" in found else ""
    verdict = found["said"] + (" as it must" if found["differs"] and found["well"] else "")
    mark = "ok " if found["well"] else "BAD"
    return (
        f"{mark} {entry['name']:34s} {verdict:22s} {found.get('assembled_ms', 0):7.1f} ms to assemble {speed}"
    )


def main(arguments: list[str] | None = None, library=None, folder: Path = HERE) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="programs whose name contains this")
    parser.add_argument("--quick", action="store_true", help="leave out the programs that are timed")
    parser.add_argument("--device", type=int, default=0)
    parser.add_argument("--json", help="a file for the results")
    asked = parser.parse_args(arguments)
    try:
        driver = Driver(library, asked.device)
    except OSError as error:
        print(f"there is no NVIDIA driver here: {error}")
        return 2
    expected = json.loads((folder / "expected.json").read_text())
    print(
        f"{driver.name}, sm_{driver.capability[0]}{driver.capability[1]}, driver of CUDA {driver.version}; "
        f"bundle of {expected['made']}, tinyphysics {expected['tinyphysics']}, PTX for {expected['target']}"
    )
    results = []
    for entry in expected["programs"]:
        if asked.only in entry["name"] and not (asked.quick and entry.get("timed")):
            results.append(examine(driver, folder, entry))
            print(line(entry, results[-1]), flush=True)
    bad = [r["name"] for r in results if not r["well"]]
    controls = sum(r["differs"] and r["well"] for r in results)
    print(
        f"{len(results) - len(bad)} of {len(results)} as expected, {controls} of them controls that must differ"
        + (f"; not as expected: {', '.join(bad)}" if bad else "")
    )
    if asked.json:
        told = {
            "device": driver.name,
            "capability": driver.capability,
            "driver": driver.version,
            "programs": results,
        }
        Path(asked.json).write_text(json.dumps(told, indent=1) + "\n")
    return 1 if bad or not results else 0


if __name__ == "__main__":
    raise SystemExit(main())
