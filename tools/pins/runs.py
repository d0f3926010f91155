"""A pinned run: its program, certificate, report, metrics and the hash of its state on every backend."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import tinyphysics as tp
from pins.unit import Setting, Unit, message, neutral, short

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, eq=False)
class Case:
    """A system, what is asked of it, and from where it runs."""

    group: str
    name: str
    system: Any
    options: Mapping[str, Any] = field(default_factory=dict)  # of tp.compile
    start: Mapping[str, Any] = field(default_factory=dict)  # states and parameters
    run: Mapping[str, Any] = field(default_factory=lambda: {"steps": 8})  # of sim.evolve
    via: Callable[[Any, Mapping[str, Any], Path], Any] | None = (
        None  # instead of one sim.evolve: (sim, given, folder)
    )
    comparable: bool = True  # False: its bits are those of one machine, so that no hash is pinned
    opencl: bool = False  # run there too
    fake_cuda: bool = False  # run behind the fake driver too

    @property
    def unit(self) -> Unit:
        from pins.tiers import tier_of

        return Unit(self.group, self.name, partial(compute, self), tier_of(self.group, self.name))


def evolved(case: Case, backend: str) -> tuple[Any, Any]:
    """(the simulation, what its run gave)."""
    sim = tp.compile(case.system, backend=backend, **case.options)
    given = {**case.start, **case.run, "progress": False}
    if "save_every" not in given:  # the first and the last frame are what is pinned
        given["frames"] = 2
    if case.via is None:
        return sim, sim.evolve(**given)
    with tempfile.TemporaryDirectory() as folder:
        return sim, case.via(sim, given, Path(folder))


def compute(case: Case, setting: Setting) -> dict[str, str]:
    pins: dict[str, str] = {}
    try:
        sim, out = evolved(case, "llvm")
    except tp.TinyPhysicsError as error:
        return {"refused": message(error)}
    pins["program"] = short(sim.ir("tpir"))
    pins["explain"] = neutral(str(sim.explain("full").portable()))
    pins["certificate"] = certificate(sim)
    pins["metrics"] = keys(out.metrics)
    if case.comparable:
        pins["state on llvm"] = out.hash[:16]
        pins["frames"] = seen(out)
        for backend in backends_of(case, setting):
            with driver(backend, setting):
                pins[f"state on {backend}"] = state(case, backend)
    return agreed(pins)


def backends_of(case: Case, setting: Setting) -> list[str]:
    out = [b for b in setting.backends if b != "llvm"]
    if setting.opencl and case.opencl:
        out.append("opencl")
    if setting.cuda == "device" or setting.cuda == "fake" and case.fake_cuda:
        out.append("cuda")
    return out


def state(case: Case, backend: str) -> str:
    """The hash of the last state, or why there is none."""
    try:
        return str(evolved(case, backend)[1].hash[:16])
    except tp.TinyPhysicsError as error:
        return message(error)


def agreed(pins: dict[str, str]) -> dict[str, str]:
    """One line for all backends that have the state of LLVM, one for each other."""
    of_llvm = pins.pop("state on llvm", None)
    if of_llvm is not None:
        pins["state"] = of_llvm
        for kind in [k for k in pins if k.startswith("state on ") and pins[k] == of_llvm]:
            pins[kind] = "the same"
    return pins


def certificate(sim: Any) -> str:
    """What was shown of the program, and what was not."""
    shown = [name for name, verdict in sim.certificate.items() if verdict]
    rest = [name for name, verdict in sim.certificate.items() if not verdict]
    return (
        f"{sim.certificate.level}: {', '.join(shown) or 'nothing'}; not shown: {', '.join(rest) or 'nothing'}"
    )


def keys(metrics: Any) -> str:
    """The names in out.metrics, those of dicts in it too; a star where a value is found when it is read."""
    names = []
    for name, value in metrics.items():
        inner = [str(k) for k in value] if isinstance(value, dict) and value else []
        names += [f"{name}.{k}" for k in inner] or [name]
    names += [f"{name}*" for name in getattr(metrics, "later", {}) if name not in metrics]
    return " ".join(sorted(names))


def seen(out: Any) -> str:
    """A hash of all that a run shows: times, frames, energies, observables, events, and where it stopped."""
    parts: list[Any] = [out.t, *out.frames.values()]
    if out.origin is not None and getattr(out.origin.run.system, "energy", None) is not None:
        parts.append(out.energy)
    for name in sorted(out.observed):
        parts += [*out.observed[name]]
    for name in sorted(out.found):
        found = out.found[name]
        parts += [found.t, np.asarray(found.rising)]
    text = [f"{np.asarray(a).dtype.str}{np.asarray(a).shape}{plain(a)}" for a in parts]
    stops = [(s.cause, s.step, repr(float(s.t)), s.member, str(s.where)) for s in out.stops]
    return short("\n".join([*text, repr(stops), repr(out.hashes)]))


def plain(a: Any) -> str:
    """The bytes of an array, with one kind of NaN."""
    a = np.ascontiguousarray(a)
    if a.dtype.kind == "f":
        a = np.where(np.isnan(a), np.array(np.nan, a.dtype), a)
    return short(a.tobytes())


# --- drivers ------------------------------------------------------------------------------------------
def opencl_is_here() -> str:
    """Why OpenCL cannot run; empty if it can."""
    try:
        tp.compile(tp.map(lambda x: x + 1.0), backend="opencl")
    except tp.BackendError as error:
        return str(error.what)
    return ""


@contextlib.contextmanager
def driver(backend: str, setting: Setting) -> Iterator[None]:
    """The fake driver of NVIDIA, with objects of its own, for the time of a run."""
    if backend != "cuda" or setting.cuda != "fake":
        yield
        return
    for folder in (ROOT / "test", ROOT / "test" / "unit"):
        if str(folder) not in sys.path:
            sys.path.append(str(folder))
    from fake_cuda import FakeDriver, installed  # type: ignore[import-not-found]

    before = os.environ.get("TINYPHYSICS_CACHE")
    with tempfile.TemporaryDirectory() as folder, installed(FakeDriver()):
        os.environ["TINYPHYSICS_CACHE"] = folder
        try:
            yield
        finally:
            if before is None:
                del os.environ["TINYPHYSICS_CACHE"]
            else:
                os.environ["TINYPHYSICS_CACHE"] = before
