"""Does a tampered listing verify?  Lines of TP-IR are dropped, doubled, swapped and changed.

A listing that the verifier rejects, or of which it shows nothing, is counted as refused. A yes is compared with the map
that the virtual machine then runs, and with the energy of the user's function: the section `energy` is left alone.
"""

from __future__ import annotations

import random
import re

import numpy as np

import tinyphysics as tp
from attack.case import Case
from attack.findings import Tally
from attack.subject import Subject, usable
from attack.truth import Unknown
from tinyphysics import tpir
from tinyphysics.tpir.proof.certificate import Certificate

VARIANTS = 8
CLAIMS = re.compile(r"^claim .*$", re.M)
NUMBER = re.compile(r"(?<![\w$.])\d+\.\d+(?:e-?\d+)?")


def sections(text: str) -> tuple[list[str], int]:
    """(lines, where the sections that run begin)."""
    lines = CLAIMS.sub("", text).splitlines()
    return lines, next((i for i, line in enumerate(lines) if line.startswith("init:")), len(lines))


def tampered(rng: random.Random, text: str) -> tuple[str, str]:
    """(another listing, what was done to it)."""
    lines, begin = sections(text)
    inside = [i for i in range(begin, len(lines)) if lines[i].startswith("  ")]
    if not inside:
        return "", ""
    i, kind = rng.choice(inside), rng.choice(["drop", "double", "swap", "number", "sign", "state", "move"])
    if kind == "drop":
        return "\n".join(lines[:i] + lines[i + 1 :]), f"without `{lines[i].strip()}`"
    if kind == "double":
        return "\n".join(lines[: i + 1] + lines[i:]), f"`{lines[i].strip()}` twice"
    if kind == "swap" and i + 1 in inside:
        lines[i], lines[i + 1] = lines[i + 1], lines[i]
        return "\n".join(lines), f"`{lines[i].strip()}` earlier"
    if kind == "move":
        j = rng.choice(inside)
        line = lines.pop(i)
        lines.insert(j, line)
        return "\n".join(lines), f"`{line.strip()}` moved"
    old = lines[i]
    if kind == "number" and (found := list(NUMBER.finditer(old))):
        m = rng.choice(found)
        new = repr(float(m[0]) * rng.choice([0.9, 2.0, -1.0, 1.001]))
        lines[i] = old[: m.start()] + new + old[m.end() :]
    elif kind == "sign":
        lines[i] = old.replace("negate", "pass") if "negate" in old else old.replace("pass", "negate")
    elif kind == "state" and (regs := re.findall(r"\b[SGFT]\d+\b", old)):
        one = rng.choice(regs)
        other = one[0] + str(max(0, int(one[1:]) + rng.choice([-1, 1])))
        lines[i] = re.sub(rf"\b{one}\b", other, old, count=rng.choice([0, 1]))
    if lines[i] == old:
        return "", ""
    return "\n".join(lines), f"`{old.strip()}` became `{lines[i].strip()}`"


class Machine:
    """The virtual machine on rows of states; it is made once for a program."""

    def __init__(self, case: Case, program: tpir.Program) -> None:
        self.case, self.machine = case, tpir.vm.Machine(program)
        self.params = {p.name: p.default for p in program.params} | case.params

    def ends(self, z: np.ndarray, dt: float, steps: int = 2, t0: float | None = None) -> np.ndarray:
        out = []
        for row in z:
            given = {k: v.tolist() for k, v in self.case.given(row).items()}
            loop = self.machine.start(given, self.params, dt, self.case.t0 if t0 is None else t0)
            self.machine.advance(loop, steps)
            end = self.machine.final(loop)
            out.append(np.concatenate([np.asarray(end[n], float).reshape(-1) for n, *_ in self.case.layout]))
        return np.array(out)

    def jacobian(self, z: np.ndarray, dt: float, h: float = 1e-3) -> np.ndarray:
        columns = []
        for j in range(len(z)):
            rows = np.repeat(z[None], 4, 0)
            rows[:, j] += np.array([h, -h, 2 * h, -2 * h])
            columns.append(np.array([8, -8, -1, 1]) @ self.ends(rows, dt) / (12 * h))
        return np.array(columns).T


def check(s: Subject, t: Tally) -> None:
    case = s.case
    if (
        s.precision != "float64"
        or s.truth.size > 8
        or s.is_map
        or case.kind == "ode"
        or "scale" in case.options
    ):
        return
    text, rng = str(s.sim.tpir), random.Random(f"listing {case.seed}")
    if len(text) > 12_000 or any(word in text for word in ("PROPAGATE", "SERIES", "NOISE")):
        return
    for _ in range(VARIANTS):
        new, what = tampered(rng, text)
        if not new:
            continue
        try:
            program = tpir.parse(new)
            certificate = tpir.verify(program)
        except tp.TinyPhysicsError as error:
            t.refused[f"listing: {type(error).__name__}"] += 1
            continue
        judge(s, t, program, certificate, what)


def judge(s: Subject, t: Tally, program: tpir.Program, c: Certificate, what: str) -> None:
    """Every yes of a tampered program, measured."""
    case, dt = s.case, abs(s.case.dt)
    z = case.start(2, salt=60) * 0.7
    if not any(bool(c[name]) for name in ("symplectic", "volume-preserving", "symmetric", "consistent")):
        t.refused["listing: nothing shown"] += 1
        return
    try:
        machine = Machine(case, program)
        after = machine.ends(z, dt)
    except tp.TinyPhysicsError:
        t.refused["listing: does not run"] += 1
        return
    if not usable(after).all():
        t.unclear["listing"] += 1
        return
    if c.symplectic or c.volume_preserving:
        m, half, omega = machine.jacobian(z[0], dt), machine.jacobian(z[0], dt, 5e-4), s.truth.omega()
        if np.isfinite(m).all() and np.abs(m).max() < 50 and np.abs(m - half).max() < 1e-7:
            if c.symplectic:
                off = float(np.abs(m.T @ omega @ m - omega).max())
                t.check(case.seed, "listing symplectic", off > 1e-5, what, f"|M'JM - J| = {off:.1e}")
            off = abs(abs(float(np.linalg.det(m))) - 1)
            t.check(case.seed, "listing volume-preserving", off > 1e-5, what, f"|det M| - 1 = {off:.1e}")
    if c.symmetric:
        off = float(np.abs(machine.ends(after, -dt, t0=case.t0 + 2 * dt) - z).max())
        t.check(case.seed, "listing symmetric", off > 1e-8, what, f"it comes back to {off:.1e}")
    if c.consistent and case.kind != "forces":  # a listing of forces declares no energy to compare with
        try:
            f = np.array([s.truth.rates(x, case.t0).astype(float) for x in z])
        except Unknown:
            return
        # a hundredth of the step has a hundredth of the error: steep energies, such as exp(13 q**2), need short ones
        offs = [float(np.abs((machine.ends(z, h, 1) - z) / h - f).max()) for h in (1e-4, 1e-6)]
        if not np.isfinite(offs).all():
            t.unclear["listing consistent"] += 1
            return
        false = offs[1] > 1e-5 * max(1.0, float(np.abs(f).max())) and offs[1] > 0.05 * offs[0]
        t.check(case.seed, "listing consistent", bool(false), what, f"slopes are off by {offs[-1]:.1e}")
