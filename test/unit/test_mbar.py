"""Free energies of windows and temperatures by MBAR and WHAM, against closed forms, with errors that are true."""

from __future__ import annotations

import numpy as np
import pytest

import tinyphysics as tp

pytest.importorskip("pymbar")


@tp.hamiltonian
def double_well(q, p):
    return p**2 / 2 + 10 * (q**2 - 1) ** 2


def exact(edges):
    x = np.linspace(-2.5, 2.5, 100_001)
    p = np.histogram(x, edges, weights=np.exp(-10 * (x**2 - 1) ** 2))[0]
    return -np.log(p) + np.log(p.max())


def windows(steps, seed=1, n=21):
    c = np.linspace(-1.5, 1.5, n)
    sim = tp.compile(double_well, dt=0.02, temperature=1.0, bias=tp.umbrella(lambda q: q, c, 80.0))
    return sim.evolve(q=c, p=0 * c, steps=steps, save_every=20, seed=seed)


def test_windows_of_an_umbrella_give_the_barrier_with_its_error():
    out, edges = windows(6_000), np.linspace(-1.5, 1.5, 31)
    for how in ("mbar", "wham"):
        s, F, error = tp.mbar(out, method=how).free_energy(bins=edges)
        seen = (np.abs(s) < 1.2) & (
            error > 0
        )  # the lowest one has no error: it is what others are compared with
        off = np.abs(F - exact(edges))[seen]
        assert off.max() < 0.8 and 0.05 < error[15] < 0.6 and (off / error[seen]).mean() < 2.5


@pytest.mark.all("21 windows of 200,000 steps, three times")
@pytest.mark.requirement("S2-70")
def test_the_row_of_the_table():
    edges = np.linspace(-1.5, 1.5, 61)
    for seed in range(3):
        s, F, error = tp.mbar(windows(200_000, seed)).free_energy(bins=edges)
        assert F[30] == pytest.approx(10.0, abs=0.1) and abs(F[30] - exact(edges)[30]) < 3 * error[30] < 0.2


@pytest.mark.all("12 s, most of them pymbar's import")
def test_temperatures_have_the_ratios_of_their_partition_functions():
    T = [1.0, 1.5, 2.0, 3.0]
    out = tp.compile(double_well, dt=0.02, temperature=1.0).evolve(
        q=np.ones(4), p=np.zeros(4), temperature=T, steps=20_000, save_every=20, seed=1
    )
    m = tp.mbar(out)
    x = np.linspace(-3, 3, 20_001)
    want = [-np.log(np.exp(-10 * (x**2 - 1) ** 2 / t).sum()) for t in T]
    assert np.abs(m.f - (np.array(want) - want[0])).max() < 0.08 and (m.error[1:] > 1e-3).all()
    assert m.weights.sum() == pytest.approx(1.0)


def test_windows_whose_energies_are_not_alike_are_refused():
    @tp.hamiltonian
    def springs(q, p, k: float = 1.0):
        return p**2 / 2 + k * q**2 / 2

    start = dict(q=np.zeros(2), p=np.zeros(2), steps=2000, save_every=10)
    out = tp.compile(springs, 0.1, temperature=1.0).evolve(**start, k=[1.0, 2.0], temperature=[1.0, 2.0])
    with pytest.raises(tp.InputError, match="differs by `k`"):
        tp.mbar(out)
    named = tp.compile(springs, 0.1, temperature="k").evolve(**start, k=[1.0, 2.0])
    with pytest.raises(tp.InputError, match="differs by `k`"):
        tp.mbar(named)
    timed = tp.compile(springs, 0.1, temperature=lambda t: 1 + t).evolve(**start)
    with pytest.raises(tp.InputError, match="depends on t"):
        tp.mbar(timed)


def test_what_is_no_set_of_windows_is_refused():
    out = tp.compile(double_well, dt=0.02, temperature=1.0).evolve(q=0.0, p=0.0, steps=2000)
    with pytest.raises(tp.InputError, match="one window"):
        tp.mbar(out)
    with pytest.raises(tp.InputError, match="no runs"):
        tp.mbar(3)
    with pytest.raises(tp.InputError, match="method"):
        tp.mbar(out, method="tram")
