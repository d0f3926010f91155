"""What can be carried to a GPU that has no network?  One folder: PTX, inputs, expected hashes, a launcher that needs Python.

    python tools/gpu_bundle.py OUT             # then, there: python3 OUT/launch.py
    python tools/gpu_bundle.py OUT --check     # there, with NumPy and our source: the same runs through backend="cuda"

What the launcher does is what the product does: its calls of the driver are written down while a driver that computes
nothing stands in (gpu_record.py). The hashes are those of backend="llvm" on this machine. OUT/cache has the PTX under the
names that the product looks for: with TINYPHYSICS_CACHE=OUT/cache no LLVM is needed there.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

import tinyphysics as tp
from gpu_programs import Packed, programs
from gpu_record import Recording, recorder
from tinyphysics.device.cuda import driver as cuda
from tinyphysics.device.cuda.nvptx import processor
from tinyphysics.errors import BackendError, PlanError, TinyPhysicsError
from tinyphysics.runtime.engines import cuda as runtime_cuda
from tinyphysics.runtime.engines.backend import engine_for
from tinyphysics.runtime.state.ensemble import inputs
from tinyphysics.util import digest

CAPABILITY = (9, 0)
SMALL = 4_096  # bytes: what is shorter is written even if it could be made
TYPES = {"f": np.float32, "d": np.float64}
ARITHMETIC = re.compile(r"\s*(mul|add)\.rn\.f64\s+(%\w+), ([^,]+), ([^,]+);")
WRITES = re.compile(r"\s*[\w.]+\s+(%\w+),")


def contracted(ptx: str) -> str:
    """Every float64 sum of a product as one operation, which rounds once: what a compiler does that is allowed to."""
    products: dict[
        str, tuple[str, str]
    ] = {}  # where the factors are kept, by the register of a product that still holds
    out, kept = [], 0
    for line in ptx.split("\n"):
        found = ARITHMETIC.fullmatch(line)
        if found and found[1] == "add":
            for of, other in ((found[3], found[4]), (found[4], found[3])):
                if of in products:
                    a, b = products[of]
                    line = f"\tfma.rn.f64 \t{found[2]}, {a}, {b}, {other};"
                    break
        if line.endswith(":") or "bra" in line:
            products.clear()
        elif written := WRITES.match(line):
            products.pop(written[1], None)
        if found and found[1] == "mul":  # a register of a factor may be written before the sum
            copies = f"%factor{kept}", f"%factor{kept + 1}"
            out += [f"\tmov.f64 \t{copy}, {factor};" for copy, factor in zip(copies, found.groups()[2:])]
            products[found[2]], kept = copies, kept + 2
        out.append(line)
    return "\n".join(out).replace("\n{\n", f"\n{{\n\t.reg .b64 \t%factor<{kept}>;\n") if kept else ptx


def run(packed: Packed, backend: str, mark: Any = lambda word: None) -> dict[str, Any]:
    """The states that a program ends with, by the engine of a backend."""
    sim = tp.compile(packed.system, backend=backend, **packed.options)
    given = inputs(sim.system, dict(packed.start), sim.compiled.encoding)
    engine = engine_for(sim.target, sim.tpir, None, None, sim.compiled.in_loops(given.members))
    dt = packed.options.get("dt", 1.0)
    m = engine.start(given.states, given.params, given.members, dt, 0.0)
    mark("steps")
    engine.advance(m, packed.steps)
    mark("done")
    out: dict[str, Any] = engine.synchronised(m)
    return out


def hashed(values: Iterable[Any]) -> str:
    whole = hashlib.blake2b(digest_size=16)
    for value in values:
        assert np.isfinite(value).all(), "numbers that are none have no hash of their own"
        whole.update(np.ascontiguousarray(value).tobytes())
    return whole.hexdigest()


def evolved(packed: Packed, backend: str) -> str:
    """The hashes of a run as users do them: of its frames and of a sum that is watched on the way, and of its last state."""
    sim = tp.compile(packed.system, backend=backend, **packed.options)
    names = [s.name for s in sim.system.states]
    space = {"total": lambda *states: sum(x.sum() if x.shape else x for x in states)}
    watched = eval(f"lambda {', '.join(names)}: total({', '.join(names)})", space)  # states are given by name
    every = max(packed.steps // 4, 1)
    out = sim.evolve(
        steps=packed.steps,
        save_every=every,
        observe={"total": watched},
        observe_every=every,
        progress=False,
        **packed.start,
    )
    return hashed([*(getattr(out, n) for n in names), out["total"]]) + " " + out.hash


def made_there(packed: Packed) -> dict[bytes, dict[str, Any]]:
    """How to make the arrays that a launcher can, by their bytes' digest."""
    out = {}
    for name, how in packed.uniform.items():
        flat = np.ravel(np.asarray(packed.start[name], float))
        for letter, dtype in TYPES.items():
            data = flat.astype(dtype).tobytes()
            if len(data) > SMALL:
                out[digest(data).encode()] = {"uniform": [*how, flat.size], "type": letter}
    return out


def write(packed: Packed, r: Recording, folder: Path) -> None:
    """A program, its kernels and its data; what several programs share is there once."""
    known, data, texts = made_there(packed), [], []
    for body in r.data:
        name = digest(body)
        if (how := known.get(name.encode())) is not None:
            data.append(how)
        else:
            (folder / "data" / name).write_bytes(body)
            data.append({"file": name})
    for text in r.texts:
        text = contracted(text) if packed.differs else text
        name = digest(text.encode()) + ".ptx"
        (folder / "ptx" / name).write_text(text)
        texts.append(name)
    program = {"texts": texts, "data": data, "calls": r.calls, "results": r.results}
    (folder / "programs" / f"{packed.name}.json").write_text(json.dumps(program))


def entry(packed: Packed) -> dict[str, Any]:
    out: dict[str, Any] = {"name": packed.name, "hash": hashed(run(packed, "llvm").values())}
    if packed.timed is None and not packed.differs:
        out["evolved"] = evolved(packed, "llvm")
    if packed.differs:
        out["differs"] = True
    if packed.timed is not None:
        out |= {"timed": True, "unit": packed.timed[0], "work": packed.timed[1]}
    return out


@contextlib.contextmanager
def kept_in(folder: Path) -> Iterator[None]:
    """The cache is a folder of its own; of what is left there, machine code of no machine is taken out."""
    before = os.environ.get("TINYPHYSICS_CACHE")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.environ["TINYPHYSICS_CACHE"] = str(folder)
    try:
        yield
    finally:
        for path in folder.iterdir():
            if path.suffix != ".ptx":
                path.unlink()
        del os.environ["TINYPHYSICS_CACHE"]
        if before is not None:
            os.environ["TINYPHYSICS_CACHE"] = before


def check(folder: Path, only: str) -> int:
    """Does backend="cuda" of this machine give the hashes?  The number of programs whose hash it does not."""
    try:
        print(f"on {cuda.device().name}")
    except BackendError as error:
        print(error)
        return 1
    about = json.loads((folder / "expected.json").read_text())
    known = {e["name"]: e for e in about["programs"]}
    bad = 0
    for packed in programs(with_large=False):
        e = known.get(packed.name)
        if e is None or packed.differs or only not in packed.name:
            continue
        try:
            same = (
                hashed(run(packed, "cuda").values()) == e["hash"] and evolved(packed, "cuda") == e["evolved"]
            )
            said = "equal" if same else "DIFFERS"
        except (TinyPhysicsError, AssertionError) as error:
            said = f"FAILED: {str(error).splitlines()[0]}"
        bad += said != "equal"
        print(f"{packed.name:34s} {said}", flush=True)
    print(f"{bad} not as expected" if bad else "all as expected")
    return bad


def never(device: Any) -> bool:
    """Nobody asks the device, where a bundle is unpacked, whether its estimates serve."""
    return False


def bundle(folder: Path, chosen: Sequence[Packed]) -> list[str]:
    """Packs programs; returns what was left out, with the reason."""
    for name in ("programs", "ptx", "data"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    left, entries = [], []
    for packed in chosen:
        try:
            with (
                kept_in(folder / "cache"),
                recorder(CAPABILITY) as r,
                mock.patch.object(runtime_cuda, "serve", never),
            ):
                recording = r.begin()
                recording.results = r.pieces(run(packed, "cuda", r.mark).values())
                if packed.timed is None and not packed.differs:
                    r.begin()
                    evolved(packed, "cuda")
        except (PlanError, BackendError) as why:
            left.append(f"{packed.name}: {str(why).splitlines()[0]}")
            continue
        entries.append(entry(packed))
        write(packed, recording, folder)
    about = {
        "made": datetime.date.today().isoformat(),
        "tinyphysics": tp.__version__,
        "target": processor(CAPABILITY),
        "left_out": left,
        "programs": entries,
    }
    (folder / "expected.json").write_text(json.dumps(about, indent=1) + "\n")
    shutil.copyfile(Path(__file__).with_name("gpu_launch.py"), folder / "launch.py")
    return left


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("--only", default="", help="programs whose name contains this")
    parser.add_argument("--small", action="store_true", help="leave out the large programs that are timed")
    parser.add_argument("--check", action="store_true", help="run what was packed on the GPU of this machine")
    asked = parser.parse_args()
    if asked.check:
        raise SystemExit(check(asked.out, asked.only) > 0)
    chosen = [p for p in programs(not asked.small) if asked.only in p.name]
    left = bundle(asked.out, chosen)
    size = sum(f.stat().st_size for f in asked.out.rglob("*") if f.is_file())
    print(f"{len(chosen) - len(left)} programs, {size / 2**20:.1f} MiB: python3 {asked.out / 'launch.py'}")
    for line in left:
        print(f"left out: {line}")


if __name__ == "__main__":
    main()
