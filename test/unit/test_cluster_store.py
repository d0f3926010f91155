"""Blocks fill one store and leave one checkpoint: those of a run in one process, however often a block is written."""

import warnings
from pathlib import Path

import numpy as np
import pytest
from in_process import InProcess
from test_cluster import CASES, henon_heiles, pair, same

import tinyphysics as tp
from tinyphysics.cluster.machines import Spread
from tinyphysics.errors import PlanError, StoreError
from tinyphysics.runtime.storage.block_rows import BlockRows
from tinyphysics.runtime.storage.run_store import open_store


def spread(blocks=5, pool=None, **how):
    return Spread(lambda: (pool or InProcess)(**how), blocks)


def contents(path):
    store = open_store(Path(path))
    about = {k: v for k, v in store.attributes.items() if k != "simulation"}
    return about, {name: store.read(name) for name in store.layouts}


def files(path):
    return {
        p.relative_to(path).as_posix(): p.read_bytes() for p in sorted(Path(path).rglob("*")) if p.is_file()
    }


def same_store(a, b):
    one, two = contents(a), contents(b)
    assert one[0] == two[0]
    assert list(one[1]) == list(two[1])
    for name, v in one[1].items():
        assert v.dtype == two[1][name].dtype and np.array_equal(
            v, two[1][name], equal_nan=v.dtype.kind == "f"
        ), name


class Dead(Exception):
    """The client is gone."""


class Dying(InProcess):
    """The client dies after some answers."""

    def __init__(self, after=3, **how):
        super().__init__(**how)
        self.after = after

    def answers(self):
        for k, a in enumerate(super().answers()):
            if k == self.after:
                raise Dead
            yield a


@pytest.mark.parametrize("case", [c for c in CASES if c not in ("another time",)])
def test_blocks_fill_the_store_of_one_process(case, tmp_path):
    system, options, given, call = CASES[case]
    sim = tp.compile(system, **options)
    whole = sim.evolve(**given, **call, save=tmp_path / "a.zarr", checkpoint=tmp_path / "a.ck")
    parts = sim.evolve(**given, **call, save=tmp_path / "b.zarr", checkpoint=tmp_path / "b.ck", on=spread())
    same(whole, parts)
    same_store(tmp_path / "a.zarr", tmp_path / "b.zarr")
    assert (tmp_path / "a.ck").read_bytes() == (tmp_path / "b.ck").read_bytes()
    assert not (tmp_path / "b.ck.blocks").exists()
    assert not [p for p in files(tmp_path / "b.zarr") if "/." in f"/{p}"]


def test_what_comes_through_the_client_has_the_same_bytes(tmp_path, monkeypatch):
    sim, given = tp.compile(henon_heiles, dt=0.05), pair(2)
    call = {"steps": 60, "save_every": 7, "observe": {"r": lambda q: q @ q}}
    sim.evolve(**given, **call, save=tmp_path / "a.zarr", on=spread(4))
    monkeypatch.setattr(BlockRows, "reachable", property(lambda rows: False))
    sim.evolve(**given, **call, save=tmp_path / "b.zarr", on=spread(9, seed=5))
    assert files(tmp_path / "a.zarr") == files(tmp_path / "b.zarr")


@pytest.mark.parametrize("bad", [[3, 4, 5, 6, 11], range(23)])
def test_members_that_fail_are_in_the_store_as_they_are_alone(bad, tmp_path):
    sim, given = tp.compile(henon_heiles, dt=0.05, checks="off"), pair(2)
    given["q"][list(bad)] = np.array([5.0, 9.0]) + 0.1 * np.arange(len(bad))[:, None]
    call = {"steps": 90, "save_every": 4, "hash_every": 30, "observe": {"r": lambda q: q @ q}}
    whole = sim.evolve(**given, **call, save=tmp_path / "a.zarr", checkpoint=tmp_path / "a.ck")
    parts = sim.evolve(**given, **call, save=tmp_path / "b.zarr", checkpoint=tmp_path / "b.ck", on=spread(6))
    assert len(whole.stops) == len(bad)
    same(whole, parts)
    same_store(tmp_path / "a.zarr", tmp_path / "b.zarr")
    if len(bad) < 23:
        on = [sim.evolve(resume=tmp_path / f"{n}.ck", steps=30) for n in "ab"]
        same(*on)


@pytest.mark.parametrize("shared", [True, False])
def test_after_the_client_died_resume_goes_on(shared, tmp_path, monkeypatch):
    if not shared:
        monkeypatch.setattr(BlockRows, "reachable", property(lambda rows: False))
    sim, given = tp.compile(henon_heiles, dt=0.05), pair(2)
    call = {"steps": 60, "save_every": 7, "hash_every": 20, "observe": {"r": lambda q: q @ q}}
    whole = sim.evolve(**given, **call, save=tmp_path / "a.zarr", checkpoint=tmp_path / "a.ck", on=spread(8))
    here = {"save": tmp_path / "b.zarr", "checkpoint": tmp_path / "b.ck"}
    with pytest.raises(Dead):
        sim.evolve(**given, **call, **here, on=spread(8, Dying))
    assert not open_store(here["save"]).frames  # nothing counts yet
    with pytest.raises(StoreError, match="resume"):
        sim.evolve(**given, **call, **here, on=spread(8))
    parts = sim.evolve(**call, **here, resume=here["checkpoint"], on=spread(8))
    same(whole, parts)
    assert parts.metrics["cluster"]["kept"] == 3 and parts.metrics["cluster"]["computed"] == 5
    assert files(tmp_path / "a.zarr") == files(tmp_path / "b.zarr")
    assert (tmp_path / "a.ck").read_bytes() == (tmp_path / "b.ck").read_bytes()


def test_a_damaged_chunk_is_computed_again(tmp_path):
    sim, given, call = tp.compile(henon_heiles, dt=0.05), pair(2), {"steps": 60, "save_every": 7}
    here = {"save": tmp_path / "b.zarr", "checkpoint": tmp_path / "b.ck"}
    whole = sim.evolve(**given, **call)
    with pytest.raises(Dead):
        sim.evolve(**given, **call, **here, on=spread(8, Dying))
    chunk = next(
        p for p in (tmp_path / "b.zarr" / "q" / "c").rglob("*") if p.is_file() and not p.name.startswith(".")
    )
    chunk.write_bytes(bytes(len(chunk.read_bytes())))
    parts = sim.evolve(**call, **here, resume=here["checkpoint"], on=spread(8))
    same(whole, parts)
    assert parts.metrics["cluster"]["kept"] == 2


@pytest.mark.parametrize("first, then", [(None, 5), (5, None), (5, 3)])
def test_a_run_goes_on_wherever_it_was_begun(first, then, tmp_path):
    sim, given = tp.compile(henon_heiles, dt=0.05), pair(2)
    call, on = (
        {"save_every": 7, "observe": {"r": lambda q: q @ q}},
        lambda n: None if n is None else spread(n),
    )
    whole = sim.evolve(**given, **call, steps=100, save=tmp_path / "a.zarr")
    here = {"save": tmp_path / "b.zarr", "checkpoint": tmp_path / "b.ck"}
    sim.evolve(**given, **call, **here, steps=45, on=on(first))
    out = sim.evolve(resume=here["checkpoint"], **call, **here, steps=55, on=on(then))
    assert out.hash == whole.hash
    same_store(tmp_path / "a.zarr", tmp_path / "b.zarr")


def test_a_store_begun_in_the_middle_survives_its_client_too(tmp_path):
    sim, given, call = tp.compile(henon_heiles, dt=0.05), pair(2), {"save_every": 7}
    sim.evolve(**given, **call, steps=42, checkpoint=tmp_path / "c")
    sim.evolve(resume=tmp_path / "c", **call, steps=40, save=tmp_path / "a.zarr", on=spread(8))
    here = {"save": tmp_path / "b.zarr", "checkpoint": tmp_path / "b"}
    with pytest.raises(Dead):
        sim.evolve(resume=tmp_path / "c", **call, **here, steps=40, on=spread(8, Dying))
    sim.evolve(resume=tmp_path / "b", **call, **here, steps=40, on=spread(8))
    assert files(tmp_path / "a.zarr") == files(tmp_path / "b.zarr")


def test_a_wrong_worker_leaves_nothing_in_the_store(tmp_path):
    sim, given, call = tp.compile(henon_heiles, dt=0.05), pair(2), {"steps": 60, "save_every": 7}
    sim.evolve(**given, **call, save=tmp_path / "a.zarr", on=spread(8))
    out = sim.evolve(
        **given, **call, save=tmp_path / "b.zarr", on=spread(8, names="abcd", wrong="b"), verify=1
    )
    assert out.metrics["cluster"]["liars"] == ["b"]
    assert files(tmp_path / "a.zarr") == files(tmp_path / "b.zarr")


def test_members_that_are_lost_are_computed_when_it_goes_on(tmp_path):
    sim, given, call = tp.compile(henon_heiles, dt=0.05), pair(2), {"steps": 60, "save_every": 7}
    whole = sim.evolve(**given, **call, save=tmp_path / "a.zarr", checkpoint=tmp_path / "a.ck", on=spread(8))
    here = {"save": tmp_path / "b.zarr", "checkpoint": tmp_path / "b.ck"}
    out = sim.evolve(**given, **call, **here, on=spread(8, names="abc", dying="c"))
    gone = [s.member for s in out.stops]
    assert gone and {s.cause for s in out.stops} == {"worker"}
    assert np.isnan(out.q[1:, gone]).all() and np.array_equal(out.q[0], given["q"])
    again = sim.evolve(resume=here["checkpoint"], **call, **here, on=spread(8))
    same(whole, again)
    assert files(tmp_path / "a.zarr") == files(tmp_path / "b.zarr")


def test_the_store_is_zarr(tmp_path):
    xarray = pytest.importorskip("xarray")
    pytest.importorskip("zarr")
    sim, given = tp.compile(henon_heiles, dt=0.05), pair(2)
    out = sim.evolve(**given, steps=60, save_every=7, save=tmp_path / "a.zarr", on=spread(4))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        data = xarray.open_zarr(tmp_path / "a.zarr")
        assert np.array_equal(data.q.values, np.asarray(out.q)) and data.q.dims[1] == "member"


def test_one_run_has_its_store_too(tmp_path):
    sim = tp.compile(henon_heiles, dt=0.05)
    call = {"q": [0.1, 0.0], "p": [0.0, 0.2], "steps": 60, "save_every": 7}
    whole = sim.evolve(**call, save=tmp_path / "a.zarr", checkpoint=tmp_path / "a.ck")
    same(whole, sim.evolve(**call, save=tmp_path / "b.zarr", checkpoint=tmp_path / "b.ck", on=spread()))
    same_store(tmp_path / "a.zarr", tmp_path / "b.zarr")


def test_checkpoints_in_the_middle_are_refused(tmp_path):
    sim = tp.compile(henon_heiles, dt=0.05)
    with pytest.raises(PlanError, match="checkpoint_every"):
        sim.evolve(**pair(2), steps=60, checkpoint=tmp_path / "c", checkpoint_every=10, on=spread())


def test_where_no_cluster_is_nothing_is_left(tmp_path):
    def nothing():
        raise StoreError("no machines", fix="")

    sim = tp.compile(henon_heiles, dt=0.05)
    with pytest.raises(StoreError, match="no machines"):
        sim.evolve(**pair(2), steps=6, save=tmp_path / "a.zarr", on=Spread(nothing))
    assert not (tmp_path / "a.zarr").exists()
