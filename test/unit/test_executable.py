"""Is a run that was made a program of its own the run in Python, to the last bit?"""

from __future__ import annotations

import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from tinyphysics.cli import main

from here import missing

SPRING = """
import tinyphysics as tp

@tp.hamiltonian
def spring(q, p, k=1.0):
    return p**2/2 + k*q**2/2

start = dict(q=1.0, p=0.0)
dt = 0.1
steps = 20
"""
CHAIN = """
import numpy as np
import tinyphysics as tp

@tp.hamiltonian
def chain(q: tp.Vec["n"], p: tp.Vec["n"], m: tp.Vec["n"], k=1.0):
    return (p**2/m).sum()/2 + k*(np.diff(q)**4).sum()/2

start = dict(q=np.linspace(0.0, 1.0, 300)**2, p=np.zeros(300), m=np.full(300, 2.0))
dt = 0.1
steps = 10
"""
if why := missing("c"):
    pytest.skip(why, allow_module_level=True)


def static_libraries(folder: Path) -> bool:
    """Has this machine what a static program is linked to?"""
    (folder / "no.c").write_text(
        "#include <math.h>\nint main(int n, char **x) { return (int)fma(n, 1.0, -1.0); }\n"
    )
    command = ["cc", "-static", "no.c", "-o", "no", "-lm"]
    return (
        shutil.which("cc") is not None
        and not subprocess.run(command, cwd=folder, capture_output=True).returncode
    )


def asks_for_a_loader(elf: bytes) -> bool:
    """Has an ELF file a segment PT_INTERP, which names the program that loads its libraries?"""
    (at,), (size, count) = struct.unpack_from("<Q", elf, 32), struct.unpack_from("<HH", elf, 54)
    return any(struct.unpack_from("<I", elf, at + k * size)[0] == 3 for k in range(count))


def printed(command: list[str], capsys) -> str:
    assert main(command) == 0
    return capsys.readouterr().out


def built(tmp_path, capsys, text: str, *options: str) -> tuple[str, list[str]]:
    """(the hash of the run in Python, the lines that the program prints)."""
    file, made = tmp_path / "file.py", tmp_path / "made"
    file.write_text(text)
    of_python = (
        printed(["run", str(file), *(x for x in options if x != "--static")], capsys)
        .rpartition("hash=")[2]
        .split()[0]
    )
    told = printed(["build", str(file), "-o", str(made), *options], capsys)
    assert of_python.strip() in told
    return of_python.strip(), subprocess.run(
        [made], capture_output=True, text=True, check=True
    ).stdout.splitlines()


@pytest.mark.requirement("S0-09")
def test_a_static_binary_prints_the_hash_of_the_python_run(tmp_path, capsys):
    if not static_libraries(tmp_path):
        pytest.skip("this machine has no static C library")
    of_python, lines = built(tmp_path, capsys, SPRING.replace("q**2/2", "q**4/4"), "--static")
    assert lines[-1] == of_python and lines[0].startswith("q = ")
    assert not asks_for_a_loader((tmp_path / "made").read_bytes())
    assert subprocess.run([tmp_path / "made", "1", "2"], capture_output=True).returncode == 2


@pytest.mark.all
@pytest.mark.parametrize("precision", ["float32", "compensated", "mixed", "dd", "lattice"])
def test_every_precision_can_be_built(tmp_path, capsys, precision):
    of_python, lines = built(tmp_path, capsys, SPRING.replace("q**2/2", "q**4/4"), "--precision", precision)
    assert lines[-1] == of_python


@pytest.mark.all
def test_arrays_and_their_parameters_are_in_the_program(tmp_path, capsys):
    of_python, lines = built(tmp_path, capsys, CHAIN)
    assert lines == [of_python]


@pytest.mark.parametrize(
    "options, told",
    [
        (["--method", "dop853"], "a binary has steps of dt"),
        (["--set", "q=1,2"], "a binary runs one member"),
        (["-o", "/"], "is a directory"),
    ],
)
def test_what_cannot_be_built_says_why(tmp_path, capsys, options, told):
    (tmp_path / "spring.py").write_text(SPRING)
    assert main(["build", str(tmp_path / "spring.py"), "-o", str(tmp_path / "made"), *options]) == 2
    assert told in capsys.readouterr().err


def test_a_file_without_steps_is_asked_for_them(tmp_path, capsys):
    (tmp_path / "spring.py").write_text(SPRING.replace("steps = 20", ""))
    assert main(["build", str(tmp_path / "spring.py")]) == 2
    assert "Pass --steps 1000" in capsys.readouterr().err
