"""Is every wrong call answered by one of our errors, with the line to write?  The table is `wrong_calls.txt`.

Each entry there is a call and its whole message. `python test/unit/test_wrong_calls.py` writes the messages of today into
the table, to be read before they are committed; what is not refused, or refused by a bare exception, it reports.
"""

from __future__ import annotations

import datetime
import math
import os
import re
import sys
import tempfile
from collections import Counter
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tinyphysics as tp

TABLE = Path(__file__).with_name("wrong_calls.txt")
HERE = re.compile(r"\(test_wrong_calls\.py:\d+\)")


# --- what the calls speak of ------------------------------------------------------------------------
@tp.hamiltonian
def spring(q, p, k: float = 1.0):
    return p**2 / 2 + k * q**2 / 2


@tp.hamiltonian
def spring_with_another_mass(q, p):
    return p**2 / 4


@tp.hamiltonian
def hanging(q, p, g):
    return p**2 / 2 + g * q


@tp.hamiltonian
def kepler(q: tp.Vec[2], p: tp.Vec[2]):
    return p @ p / 2 - 1 / tp.norm(q)


@tp.hamiltonian
def chain(q: tp.Vec["n"], p: tp.Vec["n"]):
    return p @ p / 2 + ((q[1:] - q[:-1]) ** 2).sum() / 2


@tp.hamiltonian
def melt(q: tp.Array[2, 3], p: tp.Array[2, 3], L: float):
    return (p**2).sum() / 2 + tp.pair_sum(1 / np.sqrt(tp.pair_distance2(q, box=L)))


two_ions = {"q": [[0.0, 0.0, 0.0], [1.0, 0.0, 0.0]], "p": np.zeros((2, 3))}


def melt_of(box):
    return tp.hamiltonian(lambda q, p: p**2 / 2 + tp.pair_distance2(np.stack([np.stack([q, q, q])]), box=box))


def potential_of(**options):
    return tp.map(potential(options))


def potential(options):
    def cooled(u: tp.Vec[96]):
        return tp.poisson(u, **options)

    return cooled


@tp.hamiltonian
def fluid(psi: tp.Complex[4]):
    return (abs(psi) ** 4).sum() + (abs(np.roll(psi, 1) - psi) ** 2).sum()


def rolled_by_tp(psi: tp.Complex[4]):
    return (abs(tp.roll(psi, 1)) ** 2).sum()


@tp.hamiltonian
def saddle(q: tp.Vec[2], p: tp.Vec[2]):
    return p[0] ** 2 / 2 - p[1] ** 2 / 2 + q @ q


@tp.hamiltonian
def weighed(q, p, m: float = 1.0):
    return p**2 / (2 * m) + q**2


@tp.ode
def turning(z: complex):
    return 1j * z


@tp.potential
def trap(q, stiffness=1.0):
    return stiffness * q**2


@tp.forces
def push(q):
    return -q


@tp.map
def logistic(x, r=3.7):
    return r * x * (1 - x)


@tp.ode
def decay(x, rate=1.0):
    return -rate * x


class Well(tp.PhysicsSystem):
    depth = 2.0

    def energy(self, q, p):
        return p**2 / 2 + self.depth * q**4


class Sprung(tp.PhysicsSystem):
    def __init__(self, k):
        self.k = k

    def energy(self, q, p):
        return p**2 / 2 + self.k * q**2 / 2


def timed_by_an_array(q, p, t: tp.Vec[3]):
    return p**2 / 2 + t[0] * q**2


class Quantity:
    """A number with a unit, with the names that pint gives to its parts; the others with those of astropy and unyt."""

    def __init__(self, value, unit):
        self.magnitude, self.units = value, unit

    def m_as(self, unit):
        return self.magnitude

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.magnitude, dtype)

    def __float__(self):
        return float(self.magnitude)

    def __repr__(self):
        return f"<Quantity({self.magnitude}, '{self.units}')>"


class Astropy(np.ndarray):
    def __new__(cls, value, unit):
        self = np.asarray(value, float).view(cls)
        self.unit = unit
        return self

    def to_value(self, unit):
        return np.asarray(self)

    def __repr__(self):
        return f"<Quantity {float(self)} {self.unit}>"


class Unyt(np.ndarray):
    def __new__(cls, value, unit):
        self = np.asarray(value, float).view(cls)
        self.units = unit
        return self

    def to_value(self, unit):
        return np.asarray(self)

    def __repr__(self):
        return f"unyt_quantity({float(self)}, '{self.units}')"


@lru_cache(maxsize=1)
def names() -> dict[str, Any]:
    """What stands ready for the calls; compiled once."""
    sim = tp.compile(spring, dt=0.1, propagator="loop")
    watching = tp.compile(spring, dt=0.1)
    watching.monitor(lambda q: q)
    return {
        **globals(),
        "sim": sim,
        "loop": sim,
        "watching": watching,
        "out": sim.evolve(q=1.0, p=0.0, steps=3),
        "orbit": tp.compile(kepler, dt=0.01),
        "beads": tp.compile(chain, dt=0.1),
        "hung": tp.compile(hanging, dt=0.1),
        "single": tp.compile(spring, dt=0.1, precision="float32"),
        "turns": tp.compile(logistic),
        "math": math,
        "datetime": datetime,
    }


# --- the table --------------------------------------------------------------------------------------
def entries(text: str) -> list[tuple[str, str]]:
    """(call, message) of every entry; lines that begin with # are headings."""
    out: list[tuple[str, str]] = []
    for line in text.splitlines():
        if line.startswith(">>> "):
            out.append((line[4:], ""))
        elif line.strip() and not line.startswith("#"):
            call, message = out.pop()
            out.append((call, f"{message}\n{line}" if message else line))
    return out


def message_of(call: str) -> str:
    """The kind and the whole text of the error that a call raises."""
    try:
        exec(compile(call, "call", "exec"), dict(names()))
    except tp.TinyPhysicsError as error:
        return HERE.sub("(here)", f"{type(error).__name__}: {error}")
    except AttributeError as error:  # what Python itself asks for: hasattr(out, "x") has to be False
        return f"AttributeError: {error}"
    except Exception as error:
        return f"BARE {type(error).__name__}: {error}"
    return "NOT REFUSED"


@pytest.fixture(autouse=True)
def somewhere_empty(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("call, message", entries(TABLE.read_text()))
def test_a_wrong_call_says_what_to_write(call, message):
    assert message_of(call) == message
    assert os.listdir() == []  # and leaves nothing behind


def test_the_table_is_long_and_has_no_call_twice():
    calls = Counter(call for call, _ in entries(TABLE.read_text()))
    assert len(calls) >= 300
    assert [call for call, n in calls.items() if n > 1] == []


def test_every_message_is_one_of_ours_and_has_a_remedy():
    for call, message in entries(TABLE.read_text()):
        kind, _, text = message.partition(": ")
        assert kind == "AttributeError" or kind in {e.__name__ for e in tp.errors.ERRORS}, call
        if kind != "AttributeError":
            assert "\n  " in text, f"{call} is refused, and nothing is said about what to write"


def test_every_option_that_is_to_come_is_in_the_table():
    text = TABLE.read_text()
    missing = [name for name in tp.options.COMING if f"{name}=" not in text]
    assert missing == []


def rewritten(text: str) -> str:
    out = []
    for line in text.splitlines():
        if line.startswith("#"):
            out += ["", line] if out else [line]
        elif line.startswith(">>> "):
            out += [line, message_of(line[4:])]
    return "\n".join(out) + "\n"


if __name__ == "__main__":
    found = Path(sys.argv[1]) if len(sys.argv) > 1 else TABLE
    source = found.read_text()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        new = rewritten(source)
    TABLE.write_text(new)
    for call, message in entries(new):
        if message.startswith(("BARE", "NOT")):
            print(call, "\n   ", message)
