"""Does `tp` read a file without running it, and say all that is missing before it runs?"""

import re

import pytest

import tinyphysics as tp
from tinyphysics.cli import main
from tinyphysics.options import HELD
from tinyphysics.script import look

KEPLER = '''"""A planet."""
from __future__ import annotations

import sys, time

import numpy as np
import tinyphysics as tp

marks = []

@tp.hamiltonian
def kepler(q: tp.Vec[2], p: tp.Vec[2], mu: float = 1.0):
    return p @ p / 2 - mu / tp.norm(q)

marks.append("defined")
'''
RUNS = """
sim = tp.compile(kepler, dt=0.03125, method="yoshida4")
out = sim.evolve(q=[1.0, 0.0], p=[0.0, 1.2], steps=10**15)
print("never printed", out.final.q)
last = out.final.q[0]
if last > 0:
    sign = 1

def main():
    raise SystemExit("main ran")

main()
time.sleep(1000)
marks.append("end")

@tp.hamiltonian
def spring(q, p, k=2.0):
    return p**2/2 + k*q**2/2

trap = spring + spring.rename(k="k2")
"""


@pytest.fixture
def file(tmp_path):
    def write(text, name="planet.py"):
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


def tp_(capsys, *argv):
    code = main([str(a) for a in argv])
    out, err = capsys.readouterr()
    assert "Traceback" not in err
    return code, out, err


def test_a_file_is_read_without_what_it_runs(file):
    script = look(file(KEPLER + RUNS))
    assert script.module.marks == ["defined", "end"]
    assert set(script.left_out) == {"sim", "out", "last", "sign"}
    assert script.left_out["out"].text.startswith("out = sim.evolve(")
    assert isinstance(script.module.spring, tp.System)
    asked = script.of(script.module.kepler)
    assert (asked.dt, dict(asked.options)) == (0.03125, {"method": "yoshida4"})
    assert HELD.get() is None, "runs go on as usual afterwards"


def test_explain_and_ir_do_not_run_the_file(capsys, file):
    path = file(KEPLER + RUNS)
    for command in ("explain", "ir"):
        code, out, err = tp_(capsys, command, f"{path}:kepler")
        assert (code, err) == (0, "") and "yoshida4" in out
    assert "yoshida4" in tp_(capsys, "explain", f"{path}:kepler")[1], "the method that the file compiles with"
    assert "0.03125" in tp_(capsys, "explain", f"{path}:kepler")[1], "and its step"
    code, out, _ = tp_(capsys, "explain", f"{path}:kepler", "--dt", "0.25", "--method", "leapfrog")
    assert code == 0 and re.search(r"method +leapfrog_kdk", out) and re.search(r"dt +0.25\b", out)


def test_a_system_that_needs_a_run_is_named_with_its_line(capsys, file):
    text = KEPLER + "out = tp.compile(kepler, 0.1).evolve(q=[1.0, 0.0], p=[0.0, 1.0], steps=3)\n"
    text += "K = float(out.final.q[0])\n@tp.hamiltonian\ndef spring(q, p):\n    return p**2/2 + K*q**2/2\n"
    path = file(text)
    assert tp_(capsys, "explain", f"{path}")[0] == 0, "the other one is there"
    code, _, err = tp_(capsys, "explain", f"{path}:spring")
    assert (
        code == 2
        and "is executable code" in err
        and "planet.py:" in err
        and "does not execute the file" in err
    )


def test_run_says_all_that_is_missing_and_runs_nothing(capsys, file):
    code, out, err = tp_(capsys, "run", file(KEPLER + "raise_if_run = tp.compile(kepler, method='auto')\n"))
    assert (code, out) == (2, "")
    assert "the initial `q`, the initial `p`, the step of `kepler` and how long to run are missing" in err
    for line in ("--set q=1.0,0.0", "--set p=1.0,0.0", "--dt 0.01", "--steps 1000 or --until 10"):
        assert line in err


def test_run_takes_the_step_that_the_file_compiles_with(capsys, file):
    code, out, err = tp_(
        capsys, "run", f"{file(KEPLER + RUNS)}:kepler", "--set", "q=1,0", "--set", "p=0,1.2", "--until", 1
    )
    assert (code, err) == (0, "") and "kepler: yoshida4, 32 steps to t = 1" in out


def test_a_start_that_comes_from_a_run_is_made_by_running_the_file(capsys, file):
    text = KEPLER + "dt = 0.1\nsteps = 3\n"
    text += "start = dict(tp.compile(kepler, dt).evolve(q=[1.0, 0.0], p=[0.0, 1.0], steps=4).final.states)\n"
    code, out, err = tp_(capsys, "run", file(text))
    assert code == 0 and "`start` comes from a run" in err and "3 steps" in out


def test_what_fails_in_the_file_is_still_said(capsys, file):
    code, _, err = tp_(capsys, "explain", file(KEPLER + "x = 1/0\n"))
    assert code == 2 and "ZeroDivisionError" in err and "planet.py:" in err
    code, _, err = tp_(capsys, "explain", file(KEPLER + "y = nowhere + 1\n"))
    assert code == 2 and "NameError" in err, "a name that no line made"
