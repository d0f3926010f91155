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
    return {p.relative_to(path).as_posix(): p.read_bytes() for p in sorted(Path(path).rglob("*")) if p.is_file()}


def same_store(a, b):
    one, two = contents(a), contents(b)
    assert one[0] == two[0]
    assert list(one[1]) == list(two[1])
    for name, v in one[1].items():
        assert v.dtype == two[1][name].dtype and np.array_equal(v, two[1][name], equal_nan=v.dtype.kind == "f"), name


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
