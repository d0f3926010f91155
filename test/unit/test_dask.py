"""Ensembles on Dask workers: one hash over workers, blocks, deaths and lies. Workers are processes on this machine."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
import warnings

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.errors import BackendError, InputError

distributed = pytest.importorskip("distributed", reason="needs Dask: pip install 'tinyphysics[cluster]'")
dask = pytest.importorskip("dask")
pytestmark = [
    pytest.mark.all,
    pytest.mark.slow("processes of workers are started and killed"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:distributed"),
]
MEMBERS = 10_000


@tp.hamiltonian
def henon_heiles(q: tp.Vec[2], p: tp.Vec[2]):
    return p @ p / 2 + q @ q / 2 + q[0] ** 2 * q[1] - q[1] ** 3 / 3


@tp.map
def noisy(x: float, y: float):
    return 0.9 * x + 0.1 * tp.random.normal(), y + x


def start():
    rng = np.random.default_rng(0)
    return {"q": rng.uniform(-0.1, 0.1, (MEMBERS, 2)), "p": rng.uniform(-0.1, 0.1, (MEMBERS, 2))}


def workers(n, **more):
    return distributed.LocalCluster(
        n_workers=n, threads_per_worker=1, processes=True, dashboard_address=None, host="127.0.0.1",
        silence_logs=50, **more,
    )  # fmt: skip


@pytest.fixture(scope="module")
def cluster():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with workers(3) as cluster, distributed.Client(cluster, set_as_default=False) as client:
            yield client


@pytest.mark.parametrize("blocks", [7, 64, None])
def test_any_number_of_blocks_has_the_hash_of_this_process(cluster, blocks):
    sim, call = tp.compile(henon_heiles, dt=0.05), {"steps": 2000, "frames": 2, "hash_every": 1000}
    whole = sim.evolve(**start(), **call)
    parts = sim.evolve(**start(), **call, on=tp.on(cluster, blocks=blocks))
    assert parts.hash == whole.hash and parts.hashes == whole.hashes
    assert len(parts.metrics["cluster"]["workers"]) == 3


def test_noise_is_that_of_the_whole_ensemble(cluster):
    sim = tp.compile(noisy)
    given = {"x": np.linspace(0.0, 1.0, MEMBERS), "y": np.zeros(MEMBERS)}
    whole = sim.evolve(**given, steps=200, seed=7, frames=2)
    assert sim.evolve(**given, steps=200, seed=7, frames=2, on=tp.on(cluster, blocks=7)).hash == whole.hash


def test_a_worker_with_scalar_code_has_the_same_bits(cluster):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with workers(1, env={"TINYPHYSICS_PROCESSOR": "x86-64"}) as plain:
            sim = tp.compile(henon_heiles, dt=0.05)
            out = [sim.evolve(**start(), steps=100, frames=2, on=on).hash for on in (plain, cluster)]
    assert out == [sim.evolve(**start(), steps=100, frames=2).hash] * 2


def test_workers_that_are_killed_cost_their_blocks_and_no_bit(cluster):
    sim = tp.compile(henon_heiles, dt=0.05)
    whole = sim.evolve(**start(), steps=500_000, frames=2)
    stop, kills = threading.Event(), []

    def kill():
        rng = np.random.default_rng(3)
        while len(kills) < 10 and not stop.wait(0.3):
            there = [*cluster.run(os.getpid).values()]
            if there:
                pid = int(rng.choice(there))
                os.kill(pid, signal.SIGKILL)
                kills.append(pid)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        with distributed.Client(cluster.scheduler.address, set_as_default=False) as client:
            parts = sim.evolve(**start(), steps=500_000, frames=2, on=tp.on(client, blocks=40))
    finally:
        stop.set()
        killer.join()
    assert kills and {s.cause for s in parts.stops} <= {"worker"}
    gone = {s.member for s in parts.stops}
    rest = [k for k in range(MEMBERS) if k not in gone]
    assert len(rest) and np.array_equal(parts.final.q[rest], whole.final.q[rest])
    if not gone:
        assert parts.hash == whole.hash


CLIENT = """
import sys
import numpy as np
import tinyphysics as tp
from test_dask import henon_heiles, start
tp.compile(henon_heiles, dt=0.05).evolve(
    **start(), steps=200_000, frames=5, save=sys.argv[2] + "/b.zarr", checkpoint=sys.argv[2] + "/b.ck",
    on=tp.on(sys.argv[1], blocks=64),
)
"""
COUNTS = """
import os, time
from tinyphysics.cluster import dask_pool
run = dask_pool.run_block
def counted(parcel, block):
    file = os.open({file!r}, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, b"a block begins")
    os.close(file)
    time.sleep(0.4)  # long enough to be killed in
    return run(parcel, block)
def dask_setup(worker):
    dask_pool.run_block = counted
"""


def blocks_of(tasks):
    return sum(not key.endswith("-parcel") for key in [str(t.key) for t in list(tasks)])


def test_ten_workers_and_the_client_are_killed_and_the_store_is_the_same(tmp_path):
    """`kill -9` of ten workers, then of the client, then `resume=`: same hash and files, and no block too many.

    A block begins once, and once more for each time that a process that held it was killed.
    """
    sim, call = tp.compile(henon_heiles, dt=0.05), {"steps": 200_000, "frames": 5}
    count, preload = tmp_path / "begun", tmp_path / "counts.py"
    preload.write_text(COUNTS.format(file=str(count)))
    slow = {"distributed.deploy.lost-worker-timeout": "300s"}  # a worker may take a while to begin again
    with warnings.catch_warnings(), dask.config.set(slow):
        warnings.simplefilter("ignore")
        with workers(3, preload=[str(preload)]) as cluster, distributed.Client(
            cluster, set_as_default=False
        ) as client:  # fmt: skip
            a = {"save": tmp_path / "a.zarr", "checkpoint": tmp_path / "a.ck"}
            whole = sim.evolve(**start(), **call, **a, on=tp.on(client, blocks=64))
            assert whole.hash == sim.evolve(**start(), **call).hash
            assert count.stat().st_size == 64 * len("a block begins")
            count.unlink()
            blocks, scheduler = tmp_path / "b.ck.blocks", cluster.scheduler
            line = [sys.executable, "-c", CLIENT, cluster.scheduler_address, str(tmp_path)]
            path = os.pathsep.join([os.path.dirname(__file__), os.environ.get("PYTHONPATH", "")])
            job = subprocess.Popen(line, env={**os.environ, "PYTHONPATH": path}, stderr=subprocess.DEVNULL)
            rng, kills, held, then = np.random.default_rng(5), 0, 0, 0
            try:
                while (done := len(list(blocks.glob("*.npz")))) < 48 and job.poll() is None:
                    time.sleep(0.02)
                    if kills < 10 and done >= then + 4:
                        alive = [n for n in cluster.workers.values() if n.worker_address in scheduler.workers]
                        nanny = rng.choice(alive) if alive else None
                        known = scheduler.workers.get(nanny.worker_address) if alive else None
                        if known is not None and nanny.pid is not None:
                            held += blocks_of(known.processing) + blocks_of(known.has_what)
                            os.kill(nanny.pid, signal.SIGKILL)
                            kills, then = kills + 1, done
                assert job.poll() is None, f"it ended before it was killed, after {kills} deaths of workers"
                held += sum(
                    blocks_of(w.processing) + blocks_of(w.has_what) for w in [*scheduler.workers.values()]
                )
            finally:
                job.kill()
                job.wait(30)
            found = len(list(blocks.glob("*.npz")))
            assert found >= 48 and kills == 10
            b = {"save": tmp_path / "b.zarr", "checkpoint": tmp_path / "b.ck"}
            out = sim.evolve(resume=tmp_path / "b.ck", **call, **b, on=tp.on(client, blocks=64))
    assert out.hash == whole.hash and not out.stops
    told = out.metrics["cluster"]
    assert told["kept"] >= found - 1 and told["kept"] + told["computed"] == told["blocks"]
    begun = count.stat().st_size // len("a block begins")
    print(f"{begun} blocks begun for 64, {held} held at {kills} deaths of workers and one of the client")
    assert 64 < begun <= 64 + held
    files = [
        {p.relative_to(root).as_posix(): p.read_bytes() for p in root.rglob("*") if p.is_file()}
        for root in (tmp_path / "a.zarr", tmp_path / "b.zarr")
    ]
    assert files[0] == files[1]
    assert (tmp_path / "a.ck").read_bytes() == (tmp_path / "b.ck").read_bytes()


def test_a_worker_that_flips_a_bit_is_found(tmp_path):
    liar = tmp_path / "liar.py"
    liar.write_text(
        textwrap.dedent("""
        from dataclasses import replace
        from tinyphysics.cluster import dask_pool, worker
        true = worker.run_block
        def wrong(parcel, block):
            done = true(parcel, block)
            for arrays in (done.record.final, done.record.frames):
                arrays["q"] = arrays["q"].copy()
                arrays["q"].reshape(-1).view("u1")[-8] ^= 1
            return replace(done, digest=worker.digest_of(done.record))
        def dask_setup(worker):
            dask_pool.run_block = wrong
    """)
    )
    sim = tp.compile(henon_heiles, dt=0.05)
    whole = sim.evolve(**start(), steps=100, frames=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with workers(2) as cluster, distributed.Client(cluster, set_as_default=False) as client:
            honest = set(client.scheduler_info()["workers"])
            line = [sys.executable, "-m", "distributed.cli.dask_worker", cluster.scheduler_address]
            line += [
                "--nthreads",
                "1",
                "--no-nanny",
                "--no-dashboard",
                "--host",
                "127.0.0.1",
                "--preload",
                str(liar),
            ]
            bad = subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            try:
                client.wait_for_workers(3, timeout=60)
                third = set(client.scheduler_info()["workers"]) - honest
                out = sim.evolve(**start(), steps=100, frames=2, on=tp.on(client, blocks=30), verify=1)
            finally:
                bad.terminate()
                bad.wait(30)
    assert out.hash == whole.hash
    assert set(out.metrics["cluster"]["liars"]) == third


def test_a_closed_client_and_an_address_where_nothing_is_are_said(cluster):
    sim = tp.compile(henon_heiles, dt=0.05)
    with distributed.Client(cluster.scheduler.address, set_as_default=False) as client:
        pass
    with pytest.raises(InputError, match="closed"):
        sim.evolve(**start(), steps=5, on=client)
    began = time.perf_counter()
    with pytest.raises(BackendError, match="no Dask scheduler"):
        sim.evolve(**start(), steps=5, on="tcp://127.0.0.1:9")
    assert time.perf_counter() - began < 60


def started(what, *words):
    line = [
        sys.executable,
        "-m",
        f"distributed.cli.dask_{what}",
        *words,
        "--no-dashboard",
        "--host",
        "127.0.0.1",
    ]
    return subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def test_a_lost_scheduler_is_said_and_what_was_computed_is_kept(tmp_path):
    sim, file = tp.compile(henon_heiles, dt=0.05), tmp_path / "scheduler.json"
    whole = sim.evolve(**start(), steps=300_000, frames=2)
    scheduler = started("scheduler", "--port", "0", "--scheduler-file", str(file))
    worker = started("worker", "--scheduler-file", str(file), "--nthreads", "1", "--no-nanny")
    try:
        with distributed.Client(scheduler_file=str(file), set_as_default=False, timeout=60) as client:
            client.wait_for_workers(1, timeout=60)
            address = client.scheduler.address

            def kill():
                while len(list(tmp_path.glob("blocks/*.npz"))) < 3:
                    time.sleep(0.02)
                scheduler.kill()

            threading.Thread(target=kill, daemon=True).start()
            on = tp.on(client, blocks=40, keep=tmp_path / "blocks")
            out = sim.evolve(**start(), steps=300_000, frames=2, on=on)
    finally:
        for process in (scheduler, worker):
            process.kill()
            process.wait(30)
    assert {s.cause for s in out.stops} == {"device"} and "scheduler" in str(out.stops[0].error)
    gone = {s.member for s in out.stops}
    rest = [k for k in range(MEMBERS) if k not in gone]
    assert len(rest) >= 500 and np.array_equal(out.final.q[rest], whole.final.q[rest])
    with pytest.raises(BackendError, match="no Dask scheduler"):
        sim.evolve(**start(), steps=5, on=address)


def test_slices_of_time_run_on_workers(cluster):
    sim = tp.compile(henon_heiles, dt=0.01)
    call = {"q": [0.1, 0.0], "p": [0.0, 0.3], "steps": 400, "parallel": tp.Parareal(slices=4, tolerance=0)}
    assert sim.evolve(**call, on=cluster).hash == sim.evolve(**call).hash
