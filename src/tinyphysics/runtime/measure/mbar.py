"""What do several windows or temperatures say together?  Free energies by MBAR, and along a variable by it or by WHAM.

MBAR (Shirts & Chodera 2008) is that of pymbar; WHAM (Kumar and others 1992) is written here, on bins, with errors by leaving
out one block of each window after the other. Frames of a window that are alike are thinned by the correlation time first.
"""

from __future__ import annotations

import contextlib
import io
import logging
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tinyphysics.errors import BackendError, InputError
from tinyphysics.given import choice, number, shown, whole
from tinyphysics.options import heeds
from tinyphysics.physics.statistics import FEWEST, statistics
from tinyphysics.planner.systems.bias import SPRINGS
from tinyphysics.planner.systems.heat import parameter_of
from tinyphysics.runtime.measure.bias import FreeEnergy
from tinyphysics.runtime.stages.origin import Origin
from tinyphysics.runtime.stages.separated import potential_of
from tinyphysics.runtime.state.run import Run
from tinyphysics.trajectory import Trajectory

WAYS = ("mbar", "wham")
BLOCKS = 20  # of each window, that are left out in turn
OUT_OF_REACH = 600.0  # thermal energies
ROUNDS, SMALL = 100_000, 1e-10  # of WHAM: until no free energy moves by more


@dataclass(frozen=True, eq=False)
class Samples:
    """Frames of some windows: u[k, n] is the reduced energy of frame n in window k."""

    u: Any  # (windows, frames)
    count: Any  # of each window, in order
    s: Any  # (frames,) the collective variable; NaN without one
    kT: float  # of what is asked for
    target: Any  # (frames,) the reduced energy that is asked for: without a bias, at the first temperature
    block: Any  # (frames,) from 0 to BLOCKS - 1
    bias_at: Callable[[Any], Any] | None = None  # of places: (windows, places) reduced energies of windows


@dataclass(frozen=True, eq=False)
class Windows:
    """What tp.mbar returns: `f` and `error`, the reduced free energies of windows, the first 0; `free_energy(bins=40)`."""

    samples: Samples
    way: str
    effective: int  # frames that were used

    @cached_property
    def _mbar(self) -> Any:
        return solved(self.samples)

    @cached_property
    def f(self) -> Any:
        if self.way == "wham":
            return wham(self.samples, edges_of(self.samples, 100))[1]
        return np.array(self._mbar.f_k) - self._mbar.f_k[0]

    @cached_property
    def error(self) -> Any:
        if self.way == "wham":
            return jackknifed(self.samples, lambda x: wham(x, edges_of(self.samples, 100))[1])
        with quiet():
            found = self._mbar.compute_free_energy_differences()
        return np.array(found["dDelta_f"])[0]

    @property
    def weights(self) -> Any:
        """Of the frames that were used, for averages without bias at the first temperature; they sum to 1."""
        m, x = self._mbar, self.samples
        logs = m.f_k[:, None] - x.u + np.log(x.count)[:, None]
        top = logs.max(0)
        log = -x.target - (top + np.log(np.exp(logs - top).sum(0)))
        w = np.exp(log - log.max())
        return w / w.sum()

    def free_energy(self, bins: Any = 40) -> FreeEnergy:
        """F along the collective variable of the windows, in units of energy; `bins` are their number, or their edges.

        The error of each F is that of its difference from the lowest one.
        """
        x = self.samples
        if np.isnan(x.s).all():
            raise InputError(
                "free_energy() of temperatures: there is no collective variable", fix="Use .f and .weights."
            )
        edges = edges_of(x, bins)
        s = 0.5 * (edges[1:] + edges[:-1])
        if self.way == "wham":
            p, _ = wham(x, edges)
            with np.errstate(divide="ignore"):
                F = -np.log(p)
            low = int(np.argmin(F))
            return FreeEnergy(s, x.kT * (F - F[low]), x.kT * jackknifed(x, lambda y: of_wham(y, edges, low)))
        where = np.clip(np.digitize(x.s, edges) - 1, 0, len(s) - 1)
        full = np.unique(where)
        # a bin is a window that none was run in: the energy without bias inside, out of reach elsewhere
        apart = np.array([np.where(where == k, x.target, x.target + OUT_OF_REACH) for k in full])
        with quiet():
            found = self._mbar.compute_perturbed_free_energies(apart)
        f, errors = np.array(found["Delta_f"]), np.array(found["dDelta_f"])
        low = int(np.argmin(f[0]))
        F, error = np.full(len(s), np.inf), np.full(len(s), np.nan)
        F[full], error[full] = x.kT * f[low], x.kT * errors[low]
        return FreeEnergy(s, F, error)


@heeds("mbar", "tp.mbar(out)")
def mbar(runs: Any, *, method: str = "mbar") -> Windows:
    """Free energies from windows of an umbrella or from temperatures: `tp.mbar(out).free_energy(bins=40)`.

    runs    a run of an ensemble with bias=tp.umbrella(...) or with one temperature for each member, or several such runs
    method  "mbar", by pymbar; or "wham", on bins
    """
    choice("method", method, WAYS)
    many = list(runs) if isinstance(runs, (list, tuple)) else [runs]
    if not many or not all(isinstance(r, Trajectory) and isinstance(r.origin, Origin) for r in many):
        raise InputError(f"tp.mbar({shown(runs)}): these are no runs", fix="Pass what evolve returned.")
    x = together(many)
    if method == "wham" and x.bias_at is None:
        raise InputError("WHAM of temperatures is not available", fix='Pass method="mbar".')
    return Windows(x, method, int(np.sum(x.count)))


def together(runs: list[Trajectory]) -> Samples:
    """The frames of all windows of all runs, in one table."""
    cvs, energies, springs, temperatures = [], [], [], []
    umbrella = {
        bool(r.origin.run.system.biased_by) and r.origin.run.system.biased_by[0] == SPRINGS for r in runs
    }
    if len(umbrella) > 1:
        raise InputError("tp.mbar of runs with and without umbrella", fix="Pass runs of one kind.")
    known: dict[str, Any] = {}
    for out in runs:
        run = out.origin.run
        if run.system.heat:
            check_alike(run, known)
        bath = parameter_of(run.system)
        if bath is None:
            raise InputError(
                f"tp.mbar: `{run.system.name}` has no bath", fix="Compile it with temperature=1.0."
            )
        if run.across is not None:
            raise InputError(
                "tp.mbar of a run whose temperatures moved, or with hills",
                fix="Average over out.at(temperature=...) for each temperature, or use out.weights.",
            )
        n = run.given.members
        kT = np.broadcast_to(np.asarray(out.origin.looked({"kT": run.system.heat[0]})["kT"][0], float), (n,))
        temperatures += kT.tolist()
        if umbrella == {True}:
            names = run.system.biased_by[1]
            values = [
                np.broadcast_to(np.asarray(run.given.params[k], float).reshape(-1), (n,)) for k in names
            ]
            springs += list(zip(*values))
            s = np.asarray(out.origin.looked({"s": run.system.bias[2]})["s"], float)
            cvs += [s[:, k] for k in range(n)]
        U = np.asarray(out.origin.looked({"U": potential_of(run.system)})["U"], float)
        energies += [U[:, k] for k in range(n)]
    if len(temperatures) < 2:
        raise InputError("tp.mbar of one window", fix="Pass members with a centre or a temperature each.")
    rows = [thinned(cvs[k] if cvs else energies[k]) for k in range(len(energies))]
    kT = np.array(temperatures)
    U = np.concatenate([energies[k][r] for k, r in enumerate(rows)])
    block = np.concatenate([np.arange(len(r)) * BLOCKS // len(r) for r in rows])
    count = np.array([len(r) for r in rows])
    if not cvs:
        return Samples(U / kT[:, None], count, np.full(len(U), np.nan), float(kT[0]), U / kT[0], block)
    s = np.concatenate([cvs[k][r] for k, r in enumerate(rows)])
    period = runs[0].origin.run.system.biased_by[3]
    centre, k = np.array(springs).T

    def bias_at(places: Any) -> Any:
        away = np.asarray(places)[None] - centre[:, None]
        if period is not None:
            away = away - period * np.floor(away / period + 0.5)
        return 0.5 * k[:, None] * away**2 / kT[:, None]

    same = np.allclose(kT, kT[0])
    base = 0.0 if same else U / kT[:, None]
    target = np.zeros(len(U)) if same else U / kT[0]
    at = bias_at if same else None
    return Samples(bias_at(s) + base, count, s, float(kT[0]), target, block, at)


def check_alike(run: Run, known: dict[str, Any]) -> None:
    """An InputError where windows differ by more than their temperature or spring."""
    if run.system.barostat:
        raise InputError(
            "tp.mbar of boxes that change: PV is not in its weights", fix="Average over each run by itself."
        )
    kT = run.system.heat[0]
    if run.system.time is not None and run.system.time in kT.leaves:
        raise InputError(
            "tp.mbar of a temperature that depends on t: no law stays as it is",
            fix="Pass runs at fixed ones.",
        )
    own = potential_of(run.system).leaves
    for x in run.system.parameters:
        if x.var not in own or x.name not in run.given.params:
            continue
        value = np.asarray(run.given.params[x.name])
        first = known.setdefault(x.name, value[:1])
        if value.shape[1:] != first.shape[1:] or not (value == first).all():
            raise InputError(
                f"tp.mbar of windows whose potential differs by `{x.name}`",
                fix="Windows may differ by their springs or by their temperature, which is not in the energy.",
            )


def thinned(x: Any) -> Any:
    """The rows of a series that are independent of one another."""
    if len(x) < FEWEST:
        raise InputError(f"tp.mbar of {len(x)} frames", fix="Save more frames: save_every=10.")
    s = statistics(x)
    step = max(int(np.ceil(2.0 * s.tau)), 1)
    return np.arange(s.start, len(x), step)


def numbers(name: str, value: Any) -> Any:
    return np.array([number(name, x, f"{name}=np.linspace(-1, 1, 41)") for x in np.ravel(value)]).reshape(
        np.shape(value)
    )


def edges_of(x: Samples, bins: Any) -> Any:
    if np.ndim(bins):
        edges = numbers("bins", bins)
        if edges.ndim != 1 or len(edges) < 2 or not (np.diff(edges) > 0).all():
            raise InputError(
                f"bins={shown(bins)} are no edges of bins", fix="Pass bins=40, or edges that rise: np.linspace(-1, 1, 41)."
            )  # fmt: skip
        return edges
    return np.linspace(x.s.min(), x.s.max(), whole("bins", bins, 2) + 1)


# --- pymbar -----------------------------------------------------------------------------------------
def solved(x: Samples) -> Any:
    try:
        with quiet():
            os.environ.setdefault("PYMBAR_DISABLE_JAX", "TRUE")
            from pymbar import MBAR
    except ImportError:
        raise BackendError("tp.mbar needs pymbar", fix='pip install "tinyphysics[analysis]"') from None
    with quiet():
        return MBAR(x.u, x.count, accelerator="numpy") if accelerates() else MBAR(x.u, x.count)


def accelerates() -> bool:
    """Does this pymbar let itself be told to use NumPy?"""
    import inspect

    from pymbar import MBAR

    return "accelerator" in inspect.signature(MBAR.__init__).parameters


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Without what pymbar says about itself."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
            yield
    finally:
        logging.disable(before)


# --- WHAM -------------------------------------------------------------------------------------------
def wham(x: Samples, edges: Any) -> tuple[Any, Any]:
    """(probabilities of bins without bias, reduced free energies of windows, the first 0)."""
    assert x.bias_at is not None
    seen = np.histogram(x.s, edges)[0].astype(float)
    boltzmann = np.exp(-x.bias_at(0.5 * (edges[1:] + edges[:-1])))
    f = np.zeros(len(x.count))
    for count in range(ROUNDS + 1):
        if count == ROUNDS:
            raise InputError(
                f"WHAM has not come to rest after {ROUNDS:,} rounds: windows hardly overlap",
                fix='Place centres closer, or take softer springs, k=; or method="mbar".',
            )
        p = seen / np.maximum((x.count * np.exp(f)) @ boltzmann, 1e-300)
        p /= p.sum()
        new = -np.log(boltzmann @ p)
        new -= new[0]
        if np.abs(new - f).max() < SMALL:
            break
        f = new
    return p, new


def of_wham(x: Samples, edges: Any, low: int) -> Any:
    with np.errstate(divide="ignore"):
        F = -np.log(wham(x, edges)[0])
    return F - F[low]


def jackknifed(x: Samples, estimate: Callable[[Samples], Any]) -> Any:
    """The error of an estimate, by leaving out a block of each window after the other."""
    ends = np.cumsum([0, *x.count])
    found = []
    for b in range(BLOCKS):
        keep = x.block != b
        count = np.array([keep[i:j].sum() for i, j in zip(ends, ends[1:])])
        found.append(
            estimate(Samples(x.u[:, keep], count, x.s[keep], x.kT, x.target[keep], x.block[keep], x.bias_at))
        )
    values = np.array(found)
    with np.errstate(invalid="ignore"):
        return np.sqrt((BLOCKS - 1) * values.var(0))
