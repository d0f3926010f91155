"""Is a stored run what its program computes?  Recomputed, compared, and the first step that differs is named."""

import json

import numpy as np
import pytest

import tinyphysics as tp
from here import HERE
from tinyphysics.cli import main
from tinyphysics.errors import StoreError
from tinyphysics.runtime.api import verify_store as recompute
from tinyphysics.runtime.state import windows
from tinyphysics.runtime.api.verify_store import replay
from tinyphysics.runtime.storage.run_store import open_store


@tp.hamiltonian
def kepler(q: tp.Vec[2], p: tp.Vec[2], mu: float = 1.0):
    return p @ p / 2 - mu / tp.norm(q)


@tp.hamiltonian
def driven(q: tp.Vec["n"], p: tp.Vec["n"], t, k: tp.Vec["n"] = 1.0):
    return tp.sum(p**2) / 2 + tp.sum(k * q**2) / 2 + tp.sum((tp.roll(q, 1) - q) ** 4) * tp.cos(t)


@tp.hamiltonian
def steep(q, p):
    return p**2 / 2 - q**4 / 4


@tp.map
def standard(x, y, k=0.9):
    new = y + k * tp.sin(x)
    return x + new, new


START = dict(q=[1.0, 0.0], p=[0.0, 1.2], mu=1.1)


@pytest.fixture
def stored(tmp_path, monkeypatch):
    monkeypatch.setattr(windows, "BYTES", 512)
    tp.compile(kepler, dt=0.02).evolve(**START, steps=100, save_every=7, t0=2.0, save=tmp_path / "run.zarr")
    return tmp_path / "run.zarr"


@pytest.mark.requirement("S4-10")
@pytest.mark.parametrize("backend", HERE)
def test_a_stored_run_comes_out_again_on_every_backend(stored, backend):
    assert replay(stored, backend) == recompute.Replayed("kepler", 16, 100, None)


@pytest.mark.parametrize("case", ["array", "ensemble", "float32", "map", "stopped", "resumed", "nothing"])
def test_every_kind_of_run_can_be_replayed(tmp_path, case):
    path, c = tmp_path / "run.zarr", tmp_path / "c"
    options = dict(steps=60, save_every=8, save=path)
    match case:
        case "array":
            tp.compile(driven, dt=0.01).evolve(
                q=np.sin(np.arange(40.0)), p=np.zeros(40), k=np.linspace(1, 2, 40), t0=0.3, **options
            )
        case "ensemble":
            tp.compile(kepler, dt=0.02).evolve(
                q=np.linspace(1, 2, 12).reshape(6, 2), p=[0.0, 1.0], mu=np.linspace(1, 2, 6), **options
            )
        case "float32":
            tp.compile(kepler, dt=0.02, precision="float32", scale="auto", method="yoshida4").evolve(
                **START, **options
            )
        case "map":
            tp.compile(standard).evolve(x=0.3, y=0.2, **options)
        case "stopped":
            assert len(tp.compile(steep, dt=0.1).evolve(q=[2.0, 0.01, 3.0], p=0.0, **options).stops) == 2
        case "resumed":
            sim = tp.compile(kepler, dt=0.02)
            sim.evolve(**START, steps=30, checkpoint=c, save_every=8)
            assert sim.evolve(resume=c, **options).steps.tolist() == [0, 32, 40, 48, 56, 64, 72, 80, 88, 90]
        case "nothing":
            tp.compile(kepler, dt=0.02).evolve(**START, steps=0, save=path)
    assert replay(path).difference is None


@pytest.mark.requirement("S4-10")
@pytest.mark.parametrize("frame", [1, 2, 9, 15])
@pytest.mark.parametrize(
    "name, why",
    [
        ("q", "altered after it was written"),
        ("p", "altered after it was written"),
        ("hash", "the hash was altered"),
    ],
)
def test_one_bit_is_found_and_its_step_named(stored, capsys, frame, name, why):
    s = open_store(stored)
    rows = s.read(name, frame, frame + 1)
    rows.view(np.uint8).reshape(-1)[3] ^= 16
    s.rows(name).write(frame, rows, lambda handle: None)
    step = int(s.read("step")[frame])
    assert main(["replay", str(stored)]) == 1
    told = capsys.readouterr().out
    assert f"step {step} differs" in told and why in told


def test_a_start_or_a_parameter_that_was_altered_is_found_at_the_first_step_that_it_changes(stored, capsys):
    s = open_store(stored)
    s.commit(s.frames, s.observed, {"parameters": json.dumps({"mu": 1.1000000000000003})})
    found = replay(stored).difference
    assert found.step == 7 and "what is computed again is another" in found.why
    s.commit(s.frames, s.observed, {"parameters": json.dumps({"mu": 1.1})})
    s.rows("q").write(0, np.array([[1.0, 1e-300]]), lambda handle: None)
    assert replay(stored).difference.step == 0


def test_a_replay_that_agrees_says_so(stored, capsys):
    assert main(["replay", str(stored)]) == 0
    assert capsys.readouterr().out == "kepler: all 16 frames to step 100 come out again, bit for bit\n"


def test_what_cannot_be_replayed_says_why(stored, tmp_path, monkeypatch, capsys):
    assert (
        main(["replay", str(tmp_path / "none.zarr")]) == 2 and "there is no store" in capsys.readouterr().err
    )
    monkeypatch.setattr(recompute, "BITS", 99)
    with pytest.raises(StoreError, match=f"version {tp.__version__}, whose runs give different bits"):
        replay(stored)
    monkeypatch.undo()
    s = open_store(stored)
    s.commit(s.frames, s.observed, {"program": "0" * 32})
    with pytest.raises(StoreError, match="to another program"):
        replay(stored)
    s.commit(s.frames, s.observed, {"simulation": "{"})
    with pytest.raises(StoreError, match="its simulation could not be read"):
        replay(stored)
