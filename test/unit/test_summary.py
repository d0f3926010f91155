"""Does the short form of explain() say in plain words what the full one shows, and no more?"""

from __future__ import annotations

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.report import Report


@tp.hamiltonian
def pendulum(q: float, p: float, g: float = 9.81):
    return p**2 / 2 - g * np.cos(q)


@tp.hamiltonian
def spring(q: float, p: float):
    return p**2 / 2 + q**2 / 2


@tp.hamiltonian
def vee(q: float, p: float):
    return p**2 / 2 + abs(q)


@tp.hamiltonian
def driven(q: float, p: float, t: float):
    return p**2 / 2 + q**4 / 4 - q * np.cos(t)


@tp.ode
def lorenz(x: float, y: float, z: float):
    return 10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z


@tp.map
def standard(x: float, y: float):
    return x + y + np.sin(x), y + np.sin(x)


@tp.hamiltonian
def planets(q: tp.Array["n", 3], p: tp.Array["n", 3], m: tp.Vec["n"]):
    r2 = ((q[:, None] - q[None, :]) ** 2).sum(-1)
    return ((p**2).sum(-1) / (2 * m)).sum() - tp.pair_sum(m[:, None] * m[None, :] / np.sqrt(r2))


@tp.hamiltonian
def liquid(q: tp.Array["n", 3], p: tp.Array["n", 3], L: float = 10.0):
    s = 1 / tp.pair_distance2(q, box=L, cutoff=2.5) ** 3
    return (p**2).sum() / 2 + tp.pair_sum(4 * (s * s - s))


@tp.hamiltonian
def string(u: tp.Vec["n"], v: tp.Vec["n"]):
    return (v**2).sum() / 2 + ((tp.roll(u, -1) - u) ** 2).sum() / 2


def said(sim: tp.Simulation) -> dict[str, str]:
    return {r.name: r.verdict for r in sim.explain().brief.rows}


EVERY = {
    "pendulum": lambda: tp.compile(pendulum, dt=0.01),
    "jump": lambda: tp.compile(spring, dt=0.01, propagator="exact"),
    "energy kept": lambda: tp.compile(spring, dt=0.01, method="avf"),
    "not symplectic": lambda: tp.compile(pendulum, dt=0.01, method="rk4"),
    "lattice": lambda: tp.compile(pendulum, dt=0.01, precision="lattice"),
    "projected": lambda: tp.compile(pendulum, dt=0.01, project="energy"),
    "kink": lambda: tp.compile(vee, dt=0.01),
    "driven": lambda: tp.compile(driven, dt=0.01),
    "series": lambda: tp.compile(lorenz, dt=0.01),
    "map": lambda: tp.compile(standard),
    "bodies": lambda: tp.compile(planets, dt=0.01, sizes={"n": 3}),
}


@pytest.mark.parametrize("name", EVERY)
def test_the_short_form_is_short_and_the_full_one_is_behind_it(name):
    sim = EVERY[name]()
    short, full = sim.explain(), sim.explain("full")
    assert 7 <= len(str(short).splitlines()) <= 20 and max(map(len, str(short).splitlines()[1:])) <= 110
    assert short.to_dict() == full.to_dict() and type(full) is Report
    assert str(short).startswith(full.title) and 'explain("full")' in str(short)
    proved = {x for x in said(sim)["proved"].split(", ")}
    assert all((claim in proved) == bool(verdict) for claim, verdict in sim.certificate.items())


@pytest.mark.parametrize(
    "name, words",
    [
        ("pendulum", "an error of size dt**2 that stays bounded"),
        ("jump", "to rounding"),
        ("energy kept", "to the residual"),
        ("projected", "to the residual"),
        ("not symplectic", "nothing is claimed"),
        ("lattice", "rewound"),
        ("kink", "where H is smooth"),
        ("driven", "H depends on t"),
        ("series", "nothing is claimed"),
        ("map", "nothing is claimed"),
    ],
)
def test_what_is_conserved_is_said_only_as_far_as_it_is_shown(name, words):
    assert words in said(EVERY[name]())["conserved"]


def test_warnings_are_in_the_short_form_too():
    assert "abs(q) may have a kink" in said(tp.compile(vee, dt=0.01))["warning"]
    fast = tp.compile(spring, dt=3.0, method="leapfrog_kdk", pilot={"q": 1.0, "p": 0.0})
    assert "TOO LONG" not in str(fast.explain()) and "dt is too long: omega*dt = 3" in str(fast.explain())
    assert "symplectic" in said(EVERY["energy kept"]())["price"]


def test_same_bits_are_claimed_only_within_the_contract():
    assert "the same bits on every backend" in said(tp.compile(pendulum, dt=0.01))["runs on"]
    for sim in (
        tp.compile(string, dt=0.01, sizes={"n": 128}, propagator="exact"),
        tp.compile(pendulum, dt=0.01, math="fast"),
    ):
        assert "not in the contract" in str(sim.explain("full"))
        assert "same bits" not in said(sim)["runs on"]


def test_a_form_that_is_not_there_is_an_error():
    with pytest.raises(tp.InputError, match=r'explain\("brief"\)|brief'):
        tp.compile(pendulum, dt=0.01).explain("brief")


def test_a_notebook_shows_the_form_that_was_asked_for():
    sim = tp.compile(vee, dt=0.01)
    assert "not chosen" in sim.explain("full")._repr_html_()
    assert "not chosen" not in sim.explain()._repr_html_() and "conserved" in sim.explain()._repr_html_()


@pytest.mark.parametrize(
    "system, energy",
    [
        (planets, "sum_i |p[i]|**2/(2*m[i]) - sum_{i<j} m[i]*m[j]/|q[i] - q[j]|"),
        (liquid, "sum(p**2)/2 + sum_{near pairs} 4*(1/r2**3*(1/r2**3) - 1/r2**3)"),
        (string, "sum(v**2)/2 + sum((roll(u, -1) - u)**2)/2"),
    ],
)
def test_energies_of_many_bodies_read_as_a_person_writes_them(system, energy):
    sim = tp.compile(system, dt=0.01, sizes={"n": 40})
    assert sim.explain().title.endswith(f"H = {energy}")


def test_a_sum_of_terms_keeps_its_brackets():
    @tp.hamiltonian
    def pulled(q: tp.Array["n", 2], p: tp.Array["n", 2], m: tp.Vec["n"]):
        r2 = ((q[:, None] - q[None, :]) ** 2).sum(-1)
        return ((p**2).sum(-1) / m).sum() / 2 + tp.pair_sum(r2 - m[:, None] * m[None, :])

    title = tp.compile(pulled, dt=0.01, sizes={"n": 3}).explain().title
    assert title.endswith("H = (sum_i |p[i]|**2/m[i])/2 + sum_{i<j} (|q[i] - q[j]|**2 - m[i]*m[j])")


@pytest.mark.parametrize("bodies", [2, 3, 9, 20])
def test_a_double_sum_over_all_pairs_with_the_diagonal_is_printed(bodies):
    """Its diagonal is a sum of constants."""

    @tp.hamiltonian
    def softened(q: tp.Array["n", 3], p: tp.Array["n", 3]):
        d = q[:, None] - q[None, :]
        return tp.sum(p * p) / 2 - 0.5 * tp.sum(1 / tp.sqrt(tp.sum(d * d, axis=-1) + 0.01))

    assert "sqrt" in str(tp.compile(softened, 0.01, sizes={"n": bodies}).explain())


def test_pairs_within_a_cutoff_are_said_to_be_and_a_jump_is_the_reason():
    @tp.hamiltonian
    def liquid(q: tp.Array[6, 3], p: tp.Array[6, 3]):
        return tp.sum(p**2) / 2 + tp.pair_sum(1 / tp.pair_distance2(q, cutoff=2.5) ** 3)

    told = tp.compile(liquid, 0.005).explain()
    assert "+ sum_{i<j, |q[i] - q[j]| < 2.5} 1/(|q[i] - q[j]|**2)**3" in str(told)
    row = next(line for line in str(told).splitlines() if line.startswith("  conserved"))
    assert "may jump" in row and "derivatives" not in row


@pytest.mark.requirement("S2-15")
@pytest.mark.parametrize("form", [True, np.True_, "full"])
def test_compile_prints_the_report_where_it_is_asked_to(form, capsys):
    sim = tp.compile(pendulum, dt=0.01, explain=form)
    told = capsys.readouterr().out
    assert told == f"{sim.explain('full' if isinstance(form, str) else 'short')}\n"
    assert "leapfrog_kdk" in told and "the default where H" in told  # the route that was taken, and why


def test_compile_prints_nothing_of_itself(capsys):
    tp.compile(pendulum, dt=0.01, explain=False)
    assert capsys.readouterr().out == ""
    with pytest.raises(tp.InputError, match="is not True or False"):
        tp.compile(pendulum, dt=0.01, explain=np.ones(2))
