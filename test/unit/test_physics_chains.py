"""Chains: normal modes have their frequencies, FPUT comes back, Toda keeps as many invariants as particles."""

from __future__ import annotations

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.physics.chains import (
    fput,
    lax_matrix,
    mode_energies,
    mode_frequency,
    normal_mode,
    oscillators,
    toda,
    toda_invariants,
    toda_open,
)
from tinyphysics.physics.fields import leapfrog_frequency


# --- linear -----------------------------------------------------------------------------------------
def test_normal_modes_swing_with_their_own_frequencies():
    """Leapfrog keeps the shape of a mode and shifts its frequency by a known amount: right to rounding."""
    n, dt, k, s = 9, 0.2, 1.7, 0.3
    modes = [1, 4, 9]
    q = np.stack([normal_mode(n, mode)["q"] for mode in modes])
    out = tp.compile(oscillators, dt=dt).evolve(q=q, p=np.zeros_like(q), coupling=k, onsite=s, steps=500)
    for i, mode in enumerate(modes):
        omega = leapfrog_frequency(mode_frequency(n, mode, k, s), dt)
        assert out.final.q[i] == pytest.approx(q[i] * np.cos(omega * 100), abs=1e-12)


def test_two_oscillators_beat_at_the_difference_of_their_frequencies():
    """Started on one side only, the energy is on the other after half a beat."""
    slow, fast = mode_frequency(2, [1, 2], coupling=0.05, onsite=1.0)
    half = np.pi / (fast - slow)
    steps = round(half / 0.01)
    out = tp.compile(oscillators, dt=0.01).evolve(
        q=[1.0, 0.0], p=[0.0, 0.0], coupling=0.05, onsite=1.0, steps=steps
    )
    energy = (out.final.p**2 + out.final.q**2) / 2
    assert energy[0] < 1e-3 and energy[1] == pytest.approx(out.energy[0], rel=0.01)


def test_the_energies_of_the_modes_add_up_to_that_of_the_chain():
    rng = np.random.default_rng(1)
    q, p = rng.normal(size=(2, 11))
    out = tp.compile(oscillators, dt=0.1).evolve(q=q, p=p, steps=0)
    assert mode_energies(q, p).sum() == pytest.approx(out.energy[0], rel=1e-13)
    one = mode_energies(**normal_mode(11, 3))
    assert one[2] == pytest.approx(one.sum(), rel=1e-14)


# --- Fermi, Pasta, Ulam & Tsingou -------------------------------------------------------------------
def test_without_its_nonlinear_terms_fput_is_linear():
    start = normal_mode(5)
    runs = [
        tp.compile(oscillators, dt=0.1).evolve(**start, steps=50),
        tp.compile(fput, dt=0.1).evolve(**start, alpha=0.0, steps=50),
    ]
    assert runs[0].final.q == pytest.approx(runs[1].final.q, abs=1e-14)


def recurrence(dt, order):
    """(when mode 1 has most energy again, in its periods; how much; the least that it had before)."""
    n = 31  # N = 32 springs
    period = 2 * np.pi / mode_frequency(n, 1)
    sim = tp.compile(fput, dt=dt, order=order)
    out = sim.evolve(**normal_mode(n), steps=round(170 * period / dt), save_every=round(period / 8 / dt))
    share = mode_energies(out.q, out.p)[:, 0] / out.energy[0]
    t = out.t / period
    back = np.argmax(np.where(t > 100, share, 0.0))
    return t[back], share[back], share[:back].min()


def test_the_energy_of_1955_comes_back_after_157_periods():
    """Los Alamos report LA-1940, figure 1: alpha = 1/4, N = 32, a half sine of height 1, dt**2 = 1/8."""
    when, share, least = recurrence(np.sqrt(1 / 8), order=2)
    assert when == pytest.approx(157, abs=1) and 0.97 < share < 0.99 and least < 0.1


def test_with_a_short_step_it_comes_back_after_146():
    """The step of 1955 is long: it delays the recurrence by ten periods."""
    when, share, least = recurrence(0.25, order=4)
    assert when == pytest.approx(146.5, abs=1) and 0.97 < share < 0.99 and least < 0.1


# --- Toda -------------------------------------------------------------------------------------------
def ring(n=5):
    rng = np.random.default_rng(2)
    p = rng.normal(size=n) / 2
    return dict(q=rng.normal(size=n) / 2, p=p - p.mean())


def test_the_energy_and_the_momentum_are_the_first_invariants():
    start = ring()
    values = toda_invariants(**start)
    assert values.sum() == pytest.approx(start["p"].sum(), abs=1e-14)
    energy = tp.compile(toda, dt=0.1).evolve(**start, steps=0).energy[0]
    assert (values**2).sum() / 2 == pytest.approx(energy, rel=1e-13)
    assert np.allclose(lax_matrix(**start), lax_matrix(**start).T)


def test_toda_keeps_all_its_invariants_to_the_order_of_the_method():
    """Flaschka 1974: the spectrum of the Lax matrix. It is missed by dt**4, and in no direction."""
    start = ring()
    before = toda_invariants(**start)
    miss = []
    for dt in (0.08, 0.04):
        out = tp.compile(toda, dt=dt, order=4).evolve(**start, until=40.0, save_every=round(0.4 / dt))
        miss.append(max(np.abs(toda_invariants(q, p) - before).max() for q, p in zip(out.q, out.p)))
    assert miss[0] < 1e-4 and miss[0] / miss[1] == pytest.approx(16, rel=0.25)


def test_fput_keeps_no_such_invariants():
    """A control: FPUT is Toda to the third order in the stretch, and its Lax spectrum moves."""
    start = {k: 2 * v for k, v in normal_mode(5).items()}
    before = toda_invariants(**start, ring=False)
    out = tp.compile(fput, dt=0.02, order=4).evolve(**start, until=20.0, save_every=50)
    assert max(np.abs(toda_invariants(q, p, ring=False) - before).max() for q, p in zip(out.q, out.p)) > 0.1


def test_particles_of_an_open_chain_part_with_the_momenta_that_the_spectrum_foretells():
    """Moser 1975: in the end all fly freely, the fastest in front."""
    start = dict(q=[0.1, -0.2, 0.3, 0.0], p=[0.3, 0.2, -0.1, -0.4])
    foretold = toda_invariants(**start, ring=False)
    out = tp.compile(toda_open, dt=0.02, order=4).evolve(**start, until=60.0)
    assert out.final.p == pytest.approx(foretold, abs=1e-6)
