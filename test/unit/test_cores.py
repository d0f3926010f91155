"""How many threads a run takes: no more than the affinity and the control group of its process allow."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.device.host import cores
from tinyphysics.device.host.cores import available, quota


def machine(root: Path, groups: str, files: dict[str, str]) -> Path:
    """A folder with what Linux tells about control groups."""
    for name, text in {"proc/self/cgroup": groups, **files}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


V1 = "sys/fs/cgroup/cpu,cpuacct"


@pytest.mark.parametrize(
    ("groups", "files", "paid"),
    [
        ("0::/\n", {"sys/fs/cgroup/cpu.max": "150000 100000\n"}, 1.5),
        ("0::/\n", {"sys/fs/cgroup/cpu.max": "max 100000\n"}, None),
        ("0::/job/step\n", {"sys/fs/cgroup/job/cpu.max": "400000 100000\n"}, 4.0),
        (
            "0::/job/step\n",
            {"sys/fs/cgroup/job/cpu.max": "200000 100000", "sys/fs/cgroup/job/step/cpu.max": "max 100000"},
            2.0,
        ),
        ("0::/docker/of-the-machine-outside\n", {"sys/fs/cgroup/cpu.max": "50000 100000\n"}, 0.5),
        (
            "5:memory:/a\n4:cpu,cpuacct:/a\n",
            {f"{V1}/a/cpu.cfs_quota_us": "150000\n", f"{V1}/a/cpu.cfs_period_us": "100000\n"},
            1.5,
        ),
        (
            "4:cpu,cpuacct:/a\n",
            {f"{V1}/cpu.cfs_quota_us": "-1\n", f"{V1}/cpu.cfs_period_us": "100000\n"},
            None,
        ),
        ("0::/\n", {"sys/fs/cgroup/cpu.max": "nonsense\n"}, None),
        ("", {}, None),
    ],
)
def test_a_control_group_of_either_version_says_how_many_processors_it_pays_for(
    tmp_path: Path, groups: str, files: dict[str, str], paid: float | None
) -> None:
    assert quota(machine(tmp_path, groups, files)) == paid


def test_where_nothing_is_told_there_is_no_limit(tmp_path: Path) -> None:
    assert quota(tmp_path) is None


@pytest.mark.parametrize(
    ("seen", "limit", "threads"),
    [
        (1, None, 1),
        (64, None, 64),
        (64, "150000 100000", 2),
        (64, "50000 100000", 1),
        (2, "800000 100000", 2),
    ],
)
def test_threads_are_what_is_seen_and_paid_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seen: int, limit: str | None, threads: int
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(seen)), raising=False)
    files = {} if limit is None else {"sys/fs/cgroup/cpu.max": limit}
    assert available(machine(tmp_path, "0::/\n", files)) == threads


def test_a_run_takes_the_threads_of_its_machine_and_bits_do_not_depend_on_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from tinyphysics.runtime.engines.backend import engine_for

    @tp.hamiltonian
    def rotor(q, p):  # type: ignore[no-untyped-def]
        return p**2 / 2 + tp.cos(q)

    q, found = np.linspace(0.1, 1.0, 300), {}
    for seen in (1, 3, 64):
        monkeypatch.setattr(os, "sched_getaffinity", lambda pid, n=seen: set(range(n)), raising=False)
        monkeypatch.setattr(cores, "quota", lambda root: None)
        engine_for.cache_clear()
        sim = tp.compile(rotor, dt=0.01, backend="llvm")
        found[seen] = sim.evolve(q=q, p=q, steps=50).hash
        assert engine_for(sim.target, sim.compiled.program, None, None, False).threads == seen
    engine_for.cache_clear()
    assert len(set(found.values())) == 1
