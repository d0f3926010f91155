"""Files of particles: what is written comes back, and what is wrong in a file is named with its line."""

from __future__ import annotations

import os
import sys
from dataclasses import replace

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.physics.io import Frames, read_gsd, read_xyz, write_gsd, write_xyz
from tinyphysics.physics.particles import gravity, plummer

TRICLINIC = [[3.0, 0.0, 0.0], [0.3, 4.2, 0.0], [0.2, -0.4, 5.9]]


@pytest.fixture(scope="module")
def out():
    return tp.compile(gravity, 0.01).evolve(**plummer(5, seed=1), softening=0.1, steps=20, save_every=8)


@pytest.fixture(scope="module")
def members():
    start = plummer(3, seed=1)
    both = {name: np.stack([start[name], 2 * start[name]]) for name in "qp"}
    return tp.compile(gravity, 0.01).evolve(**both, m=start["m"], softening=0.1, steps=2)


# --- extended XYZ -------------------------------------------------------------------------------------
@pytest.mark.parametrize("box", [None, 4.0, [3.0, 4.0, 5.0], TRICLINIC])
def test_xyz_comes_back_to_the_bit(out, tmp_path, box):
    write_xyz(tmp_path / "run.xyz", out, species=["Ar", "Ar", "Kr", "Kr", "X"], box=box)
    back = read_xyz(tmp_path / "run.xyz")
    assert np.array_equal(back.q, out.q) and np.array_equal(back["momenta"], out.p)
    assert back.species == ("Ar", "Ar", "Kr", "Kr", "X") and len(back) == 4
    assert np.array_equal(back.said("energy"), out.energy) and np.array_equal(back.said("time"), out.t)
    assert back.said("step").tolist() == [0, 8, 16, 20]
    assert back.pbc == (box is not None,) * 3 and (back.box is None) == (box is None)
    write_xyz(tmp_path / "again.xyz", back)
    assert (tmp_path / "again.xyz").read_bytes() == (tmp_path / "run.xyz").read_bytes()


def test_xyz_looks_as_its_specification_says(out, tmp_path):
    write_xyz(tmp_path / "run.xyz", out, species="Ar", box=[3.0, 4.0, 5.0])
    lines = (tmp_path / "run.xyz").read_text().splitlines()
    assert lines[0] == "5" and len(lines) == 4 * 7
    assert lines[1].startswith(
        'Lattice="3.0 0.0 0.0 0.0 4.0 0.0 0.0 0.0 5.0" Properties=species:S:1:pos:R:3:momenta:R:3 pbc="T T T" step=0 time=0.0 energy='
    )
    assert lines[2].split()[:2] == ["Ar", repr(float(out.q[0, 0, 0]))]


def test_a_plane_is_written_in_space(tmp_path):
    @tp.hamiltonian
    def plane(q: tp.Array[3, 2], p: tp.Array[3, 2]):
        return (p**2).sum() / 2 + (q**2).sum()

    run = tp.compile(plane, 0.1).evolve(q=np.ones((3, 2)), p=np.zeros((3, 2)), steps=2)
    write_xyz(tmp_path / "p.xyz", run, box=[4.0, 5.0])
    back = read_xyz(tmp_path / "p.xyz")
    assert np.array_equal(back.q[:, :, :2], run.q) and not back.q[:, :, 2].any()
    assert back.pbc == (True, True, False) and np.diag(back.box[0]).tolist() == [4, 5, 1]


def test_other_columns_and_words_come_back(tmp_path):
    r = np.random.default_rng(0)
    f = Frames(
        r.normal(size=(2, 3, 3)) * 10.0 ** r.integers(-300, 300, size=(2, 3, 3)),
        ("A", "B", "C"),
        {
            "charge": r.normal(size=(2, 3)),
            "id": np.arange(6).reshape(2, 3),
            "on": np.array([[True, False, True]] * 2),
            "force": r.normal(size=(2, 3, 3)),
            "tag": np.array([["a", "b", "c"]] * 2),
        },
        info=(
            {"note": 'he said "no"', "n": 3, "x": 0.1, "ok": True, "v": np.array([1.5, 2.5])},
            {"note": "two words"},
        ),
    )
    write_xyz(tmp_path / "f.xyz", f)
    back = read_xyz(tmp_path / "f.xyz")
    assert np.array_equal(back.q, f.q)
    for name, v in f.columns.items():
        assert np.array_equal(back[name], v) and back[name].dtype.kind == np.asarray(v).dtype.kind
    assert back.info[0]["note"] == 'he said "no"' and back.info[0]["n"] == 3 and back.info[0]["ok"] is True
    assert back.info[0]["v"].tolist() == [1.5, 2.5] and back.info[1]["note"] == "two words"


def test_plain_xyz_as_others_write_it_is_read(tmp_path):
    (tmp_path / "w.xyz").write_text("3\nwater, by hand = no\r\nO 0 0 0.5\n H  0.1\t0 -1e-1\nH 0 0 0\n\n\n")
    back = read_xyz(tmp_path / "w.xyz")
    assert back.species == ("O", "H", "H") and back.q[0, 1].tolist() == [0.1, 0, -0.1] and back.box is None


GOOD = '2\nProperties=species:S:1:pos:R:3:id:I:1 pbc="F F F"\nA 0 0 0 1\nB 1 1 1 2\n'


@pytest.mark.parametrize(
    "text, line, told",
    [
        ("", None, "holds no frame"),
        ("two\n\n", 1, "not a number of particles"),
        ("-2\n\n", 1, "not a number of particles"),
        ("0\n\n", 1, "not a number of particles"),
        ("2\n", 1, "the file ends here: the frame at line 1 has 0 of 2"),
        (GOOD + GOOD[:-10], 7, "the frame at line 5 has 1 of 2"),
        (GOOD.replace("1 1 1 2", "1 nan 1 2"), 4, "`nan` in the column `pos` is not a finite number"),
        (GOOD.replace("0 0 0 1", "inf 0 0 1"), 3, "not a finite number"),
        (GOOD.replace("1 1 1 2", "1 1 1e999 2"), 4, "not a finite number"),
        (GOOD.replace("1 1 1 2", "1 x 1 2"), 4, "`x` in the column `pos`"),
        (GOOD.replace("1 1 1 2", "1 1 1 2.5"), 4, "not a whole number"),
        (GOOD.replace("1 1 1 2", f"1 1 1 {2**70}"), 4, "not a whole number of 64 bits"),
        (GOOD.replace("1 1 1 2", "1 1 1"), 4, "4 columns where Properties says 5"),
        (GOOD.replace("0 0 0 1", "0 0 0 1 9"), 3, "6 columns where"),
        (GOOD.replace("id:I:1", "id:Q:1"), 2, "Types are S, R, I and L"),
        (GOOD.replace("id:I:1", "pos:I:1"), 2, "each name once"),
        (GOOD.replace("id:I:1", "id:I"), 2, "name:type:width"),
        (GOOD.replace("pos", "where"), 2, "pos:R:3"),
        (GOOD.replace("F F F", "F F"), 2, "three of T and F"),
        (GOOD.replace("pbc=", 'Lattice="1 0 0 0 1 0 0 0" pbc='), 2, "nine numbers"),
        (GOOD.replace("pbc=", 'Lattice="1 0 0 0 1 0 0 0 nan" pbc='), 2, "not finite"),
        (GOOD.replace("pbc=", 'Lattice="1 0 0 1 0 0 0 0 1" pbc='), 2, "flat"),
        (GOOD.replace("pbc=", 'Lattice="0 1 0 1 0 0 0 0 1" pbc='), 2, "left-handed"),
        (GOOD + GOOD.replace("B 1", "C 1"), 6, "other particles"),
        (GOOD + GOOD.replace("pbc=", 'Lattice="1 0 0 0 1 0 0 0 1" pbc='), 6, "another kind of box"),
    ],
)
def test_what_is_wrong_in_a_file_is_named_with_its_line(tmp_path, text, line, told):
    path = tmp_path / "bad.xyz"
    path.write_text(text)
    with pytest.raises(tp.StoreError) as caught:
        read_xyz(path)
    assert told in str(caught.value)
    if line is not None:
        assert f"bad.xyz:{line}:" in str(caught.value)


def test_a_file_cut_anywhere_is_refused_or_read_up_to_a_frame(out, tmp_path):
    write_xyz(tmp_path / "run.xyz", out)
    data = (tmp_path / "run.xyz").read_bytes()
    whole, r = read_xyz(tmp_path / "run.xyz"), np.random.default_rng(7)
    for at in r.integers(0, len(data), 60).tolist():
        (tmp_path / "cut.xyz").write_bytes(data[:at])
        try:
            got = read_xyz(tmp_path / "cut.xyz")
        except tp.StoreError:
            continue
        n = len(got)  # every frame but a last number that lost digits is as it was
        assert np.array_equal(got.q[:, :-1], whole.q[:n, :-1])


# --- GSD ----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("box", [4.0, [3.0, 4.0, 5.0], TRICLINIC])
def test_gsd_comes_back_unwrapped_to_seven_digits(out, tmp_path, box):
    pytest.importorskip("gsd.hoomd")
    far = replace_frames(out, q=out.q + [100.0, -50.0, 7.0])
    write_gsd(
        tmp_path / "run.gsd", far, species=["Ar", "Kr", "Ar", "Ar", "Kr"], box=box, mass=[1, 2, 3, 4, 5]
    )
    back = read_gsd(tmp_path / "run.gsd")
    assert back.species == ("Ar", "Kr", "Ar", "Ar", "Kr") and back.pbc == (True, True, True)
    assert back.q == pytest.approx(
        far.q, rel=1e-6, abs=1e-4
    )  # the box has seven digits too, and they are 30 boxes away
    assert back["velocity"] == pytest.approx(out.p / np.arange(1, 6)[:, None], rel=1e-6) and back["mass"][
        0
    ].tolist() == [1, 2, 3, 4, 5]
    assert back.said("step").tolist() == [0, 8, 16, 20] and np.array_equal(back.said("energy"), out.energy)


def test_gsd_in_double_comes_back_to_the_bit_without_a_box(out, tmp_path):
    gsd = pytest.importorskip("gsd.version")
    if int(gsd.version.split(".")[0]) < 5:
        pytest.skip("double needs gsd 5")
    write_gsd(tmp_path / "run.gsd", out, precision="double")
    back = read_gsd(tmp_path / "run.gsd")
    assert np.array_equal(back.q, out.q) and back.box is None and back.pbc == (False, False, False)


def test_gsd_can_be_opened_by_its_own_package(out, tmp_path):
    hoomd = pytest.importorskip("gsd.hoomd")
    write_gsd(tmp_path / "run.gsd", out, species="Ar", box=4.0, mass=1.0)
    with hoomd.open(str(tmp_path / "run.gsd"), "r") as file:
        assert len(file) == 4 and file[1].particles.types == ["Ar"] and file[1].configuration.step == 8
        assert np.abs(file[0].particles.position).max() <= 2.0  # inside the box, as HOOMD wants it
        file[3].validate()


def test_a_damaged_gsd_file_is_refused(out, tmp_path):
    hoomd = pytest.importorskip("gsd.hoomd")
    write_gsd(tmp_path / "run.gsd", out, box=4.0)
    data = (tmp_path / "run.gsd").read_bytes()
    for at in (0, 10, 100, 300, len(data) // 4):
        (tmp_path / "cut.gsd").write_bytes(data[:at])
        with pytest.raises(tp.StoreError):
            read_gsd(tmp_path / "cut.gsd")
    for name, told, change in (
        (
            "nan",
            "particle 1: the position is not finite",
            {"position": np.array([[0, 0, 0], [0, np.nan, 0]], np.float32)},
        ),
        ("type", "has the type 3; there are 1", {"typeid": [0, 3]}),
    ):
        f = hoomd.Frame()
        f.particles.N, f.particles.types, f.configuration.box = 2, ["A"], [1, 1, 1, 0, 0, 0]
        for key, value in change.items():
            setattr(f.particles, key, value)
        with hoomd.open(str(tmp_path / f"{name}.gsd"), "w") as file:
            file.append(f)
        with pytest.raises(tp.StoreError, match=told):
            read_gsd(tmp_path / f"{name}.gsd")


def test_gsd_refuses_a_box_that_does_not_lie_as_hoomd_wants(out, tmp_path):
    pytest.importorskip("gsd.hoomd")
    with pytest.raises(tp.InputError, match="first edge along x"):
        write_gsd(tmp_path / "run.gsd", out, box=np.array(TRICLINIC)[[1, 2, 0]])
    with pytest.raises(tp.InputError, match="mass of shape"):
        write_gsd(tmp_path / "run.gsd", out, mass=[1.0, 2.0])
    assert list(tmp_path.iterdir()) == []


def test_without_the_package_gsd_one_is_told_what_to_install(out, tmp_path, monkeypatch):
    (tmp_path / "a.gsd").write_bytes(b"x")
    monkeypatch.setitem(sys.modules, "gsd", None)
    monkeypatch.setitem(sys.modules, "gsd.hoomd", None)
    for call in (lambda: write_gsd(tmp_path / "b.gsd", out), lambda: read_gsd(tmp_path / "a.gsd")):
        with pytest.raises(tp.StoreError, match=r"tinyphysics\[io\]"):
            call()


# --- both ---------------------------------------------------------------------------------------------
def replace_frames(out, **states):
    return replace(out, frames={**out.frames, **states})


def test_mistakes_in_writing_are_told_and_nothing_is_left_behind(out, members, tmp_path):
    path = tmp_path / "x.xyz"
    for told, call in (
        ("2 words for 5", lambda: write_xyz(path, out, species=["A", "B"])),
        ("not a word", lambda: write_xyz(path, out, species="a b")),
        ("flat", lambda: write_xyz(path, out, box=np.zeros((3, 3)))),
        ("no state `x`", lambda: write_xyz(path, out, positions="x")),
        ("Pass member=0", lambda: write_xyz(path, members)),
        ("member=7", lambda: write_xyz(path, members, member=7)),
        (
            "frame 2, particle 1",
            lambda: write_xyz(
                path,
                replace_frames(
                    out,
                    q=np.where(
                        np.arange(4)[:, None, None] == 2,
                        np.where(np.arange(5)[None, :, None] == 1, np.nan, out.q),
                        out.q,
                    ),
                ),
            ),
        ),
    ):
        with pytest.raises(tp.InputError, match=told):
            call()
    assert list(tmp_path.iterdir()) == []
    write_xyz(path, members, member=1)
    assert np.array_equal(read_xyz(path).q, members.q[:, 1])
    assert read_xyz(path).said("energy").tolist() == members.energy[:, 1].tolist()


def test_a_file_is_replaced_whole_or_not_at_all(out, tmp_path, monkeypatch):
    path = tmp_path / "run.xyz"
    path.write_text("old")
    bad = Frames(np.zeros((2, 1, 3)), ("A",), {"x": np.array([[1.0], [np.nan]])})
    with pytest.raises(tp.InputError, match="not finite"):
        write_xyz(path, bad)  # the first frame is written by then
    assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(tp.StoreError, match="No space left"):
        write_xyz(path, out)
    assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]


def test_what_cannot_be_opened_is_told(out, tmp_path):
    for call in (
        lambda: write_xyz(tmp_path / "no" / "x.xyz", out),
        lambda: read_xyz(tmp_path / "no.xyz"),
        lambda: read_xyz(tmp_path),
        lambda: read_gsd(tmp_path / "no.gsd"),
    ):
        with pytest.raises(tp.StoreError):
            call()
    (tmp_path / "b.xyz").write_bytes(b"\xff\xfe\x00\x80")
    with pytest.raises(tp.StoreError, match="not text"):
        read_xyz(tmp_path / "b.xyz")
