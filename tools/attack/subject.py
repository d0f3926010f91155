"""A case as the compiler has it: compiled, and run as a map of states to states."""

from __future__ import annotations

import linecache
from functools import cached_property
from typing import Any

import numpy as np

import tinyphysics as tp
from attack.case import Case
from attack.truth import Truth

EPS = {"float64": 2.0**-52, "float32": 2.0**-23, "mixed": 2.0**-23, "compensated": 2.0**-23, "dd": 2.0**-52}
LATTICE = 2.0**-30
MANY = 1_000  # numbers of all members, beyond which Python takes minutes
BOUND = 30.0  # states beyond are not used: differences would not be accurate there


def built(case: Case) -> Any:
    """The system of a case."""
    file = f"<case {case.seed}>"
    linecache.cache[file] = (len(case.text), None, case.text.splitlines(True), file)
    scope: dict[str, Any] = {"tp": tp, "np": np}
    exec(compile(case.text, file, "exec"), scope)
    return scope["system"]


class Subject:
    """What is attacked, beside what is true."""

    def __init__(self, case: Case, **changes: Any) -> None:
        self.case, self.truth = case, Truth(case)
        self.system = built(case)
        self.options = {**case.options, **changes}
        self.open = self.sim = tp.compile(self.system, **self.options)
        if self.sim.system.levels and "inner" not in self.options:
            # how many fast kicks a step has is measured by every run at its first state: what is certified is one program,
            # and the way back, or a step of half the length, would be another
            self.sim.evolve(**case.given(case.start()), **case.params, t0=case.t0, steps=0, progress=False)
            self.options["inner"] = self.sim.goal.inner
            self.sim = tp.compile(self.system, **self.options)
        self.precision = str(self.options.get("precision", "float64"))
        self.eps = EPS.get(self.precision, LATTICE)
        self.report: dict[str, Any] | None = None
        self.is_map = "map" in case.kind

    @cached_property
    def compiled(self) -> Any:
        """The same program in compiled code, which has the same bits (backends.py looks at that)."""
        return tp.compile(self.system, **{**self.options, "backend": "llvm"})

    @property
    def certificate(self) -> Any:
        return self.sim.certificate

    def row(self, section: str, name: str) -> Any:
        """A row of the report, if it is there; the report is asked for once."""
        if self.report is None:
            self.report = self.sim.explain("full").to_dict()
        return self.report.get(section, {}).get(name)

    def says(self, section: str, name: str) -> bool:
        row = self.row(section, name)
        return isinstance(row, dict) and str(row.get("verdict", "")).startswith("yes")

    def decided(self, z: np.ndarray) -> Subject:
        """The same where nothing is left for a run to measure at its first state: one program there and back."""
        given = {**self.case.given(np.asarray(z, float)), **self.case.params}
        out = self.sim.evolve(**given, steps=1, t0=self.case.t0, progress=False)
        inner = out.metrics.get("paces", {}).get("inner")
        if inner is None:
            return self
        return Subject(self.case, **{**self.options, "inner": inner[0] if len(inner) == 1 else list(inner)})

    def run(
        self, z: np.ndarray, steps: int = 1, dt: float | None = None, t0: float | None = None
    ) -> np.ndarray:
        """The states after some steps, as rows; NaN where a run stopped."""
        given: dict[str, Any] = {**self.case.given(np.asarray(z, float)), **self.case.params}
        many = len(z) * self.truth.size > MANY and self.options.get("backend") == "python"
        sim = self.compiled if many else self.sim
        if dt is not None and not self.is_map:
            given["dt"] = dt
        out = sim.evolve(
            **given,
            steps=steps,
            t0=self.case.t0 if t0 is None else t0,
            save_every=steps,
            progress=False,
        )
        final = self.case.flat(out)
        stops = getattr(out, "stops", None) or ([out.stopped] if out.stopped else [])
        for stop in stops:
            if stop.member is None:
                final[...] = np.nan
            else:
                final[stop.member] = np.nan
        return final


def usable(z: np.ndarray) -> np.ndarray:
    """Which rows are finite and of ordinary size?"""
    with np.errstate(invalid="ignore"):
        return np.isfinite(z).all(-1) & (np.abs(np.nan_to_num(z, nan=1e300)) < BOUND).all(-1)
