"""Units: read from text, inferred through the energy, converted where quantities are passed, and gone from the program."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Annotated

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.rules.equality.measured_in import units_of
from tinyphysics.units import BASE, UNITS, unit


@tp.hamiltonian
def spring(
    q: Annotated[float, "m"], p: Annotated[float, "kg m/s"], m: Annotated[float, "kg"] = 2.0, k: float = 3.0
):
    return p**2 / (2 * m) + k * q**2 / 2


@tp.hamiltonian
def plain_spring(q, p, m: float = 2.0, k: float = 3.0):
    return p**2 / (2 * m) + k * q**2 / 2


# --- texts ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("text", "powers", "factor"),
    [
        ("m", {"m": 1}, 1.0),
        ("kg m/s", {"kg": 1, "m": 1, "s": -1}, 1.0),
        ("kg*m**2/s**2", {"kg": 1, "m": 2, "s": -2}, 1.0),
        ("m3/s2", {"m": 3, "s": -2}, 1.0),
        ("m³·s⁻²", {"m": 3, "s": -2}, 1.0),
        ("J/(mol K)", {"kg": 1, "m": 2, "s": -2, "mol": -1, "K": -1}, 1.0),
        ("km/h", {"m": 1, "s": -1}, 1000 / 3600),
        ("kilometers / hour", {"m": 1, "s": -1}, 1000 / 3600),
        ("1/s", {"s": -1}, 1.0),
        ("mm", {"m": 1}, 1e-3),
        ("min", {"s": 1}, 60.0),
        ("eV/Å^2", {"kg": 1, "s": -2}, 1.602176634e-19 / 1e-20),
        ("m**0.5", {"m": Fraction(1, 2)}, 1.0),
        ("", {}, 1.0),
        ("deg", {}, math.pi / 180),
    ],
)
def test_a_text_is_a_unit(text, powers, factor):
    found = unit(text)
    assert dict(zip(BASE, found.powers)) == {name: powers.get(name, 0) for name in BASE}
    assert found.factor == pytest.approx(factor, rel=1e-12)


@pytest.mark.parametrize("text", ["metr", "m/", "m**", "(m", "m)", "$", "-3 m", "kk"])
def test_what_is_no_unit_is_refused(text):
    with pytest.raises(tp.UnitError, match="cannot be read"):
        unit(text)


def test_every_unit_is_that_of_pint():
    pint = pytest.importorskip("pint")
    u = pint.UnitRegistry()
    for symbols, *_ in UNITS:
        for symbol in symbols.split():
            mine = unit(symbol)
            base = u.Quantity(1.0, mine.text).to_base_units()
            ours = "*".join(f"{n}**{x}" for n, x in zip(("m", "kg", "s", "A", "K", "mol", "cd"), mine.powers))
            assert base.m_as(ours) == pytest.approx(mine.factor, rel=1e-8), symbol


# --- inference -------------------------------------------------------------------------------------------
def known(system) -> dict[str, str]:
    return dict(units_of(system).rows())


@pytest.mark.requirement("S2-56")
def test_what_is_not_annotated_is_solved_for():
    assert known(spring) == {"q": "m", "p": "kg*m/s", "m": "kg", "k": "kg/s**2", "t": "s", "energy": "J"}


def test_the_unit_of_time_follows_from_the_scales():
    """q' = p/m: in m, kg m/s and g one second is a thousand of its units of time."""

    @tp.hamiltonian
    def light(q: Annotated[float, "m"], p: Annotated[float, "kg m/s"], m: Annotated[float, "g"] = 2.0):
        return p**2 / (2 * m)

    assert known(light)["t"] == "ms"


def test_nothing_annotated_is_nothing_known():
    assert units_of(plain_spring) is None


def test_other_kinds_of_systems():
    @tp.lagrangian
    def pendulum(
        a,
        v,
        m: Annotated[float, "kg"] = 1.0,
        L: Annotated[float, "m"] = 1.0,
        g: Annotated[float, "m/s2"] = 9.81,
    ):
        return m * L**2 * v**2 / 2 + m * g * L * tp.cos(a)

    @tp.ode
    def decay(x: Annotated[float, "kg"], rate: Annotated[float, "1/s"] = 1.0):
        return -rate * x

    @tp.forces
    def hooke(q: Annotated[float, "m"], k: Annotated[float, "N/m"] = 1.0, mass: Annotated[float, "kg"] = 1.0):
        return -k * q

    assert (known(pendulum)["v"], known(pendulum)["p"], known(pendulum)["t"]) == ("1/s", "kg*m**2/s", "s")
    assert known(decay)["t"] == known(hooke)["t"] == "s" and known(hooke)["p"] == "kg*m/s"


def test_arrays_of_any_size_pairs_and_cutoffs():
    @tp.hamiltonian
    def gas(
        q: Annotated[tp.Array["n", 3], "nm"],
        p: Annotated[tp.Array["n", 3], "Da nm/ps"],
        m: Annotated[float, "Da"] = 39.9,
        sigma: Annotated[float, "nm"] = 0.34,
        depth=1.0,
        box: Annotated[float, "nm"] = 3.0,
        reach: Annotated[float, "nm"] = 1.0,
    ):
        r2 = tp.pair_distance2(q, box=box, cutoff=reach)
        s = (sigma**2 / r2) ** 3
        return (p * p).sum() / (2 * m) + tp.pair_sum(4 * depth * (s * s - s))

    found = units_of(gas.bind({"n": 100}))
    assert found.unit("t").factor == pytest.approx(1e-12) and str(found.unit("t")) == "ps"
    assert found.unit("depth").factor == pytest.approx(found.unit("energy").factor)


def wrong(function) -> tp.UnitError:
    with pytest.raises(tp.UnitError) as found:
        tp.hamiltonian(function)
    return found.value


def test_terms_that_differ_are_named_with_their_lines():
    def tense(
        q: Annotated[float, "m"],
        p: Annotated[float, "kg m/s"],
        m: Annotated[float, "kg"] = 2.0,
        k: Annotated[float, "N/m"] = 3.0,
    ):
        kinetic = p**2 / (2 * m)
        potential = k * q
        return kinetic + potential

    error = wrong(tense)
    first = tense.__code__.co_firstlineno + 6
    assert f"`p**2/(2*m)` is in J and `k*q` is in N" in error.what  # noqa: F541
    assert f"test_units.py:{first} and test_units.py:{first + 1}" in error.what
    assert error.site.line == first + 2 and "quotient is in m" in error.fix


def test_the_same_dimension_in_another_size_is_a_factor():
    def far(q: Annotated[float, "m"], p, m=1.0, k=1.0, L: Annotated[float, "km"] = 3.0):
        return p**2 / (2 * m) + k * (q - L) ** 2

    assert "a factor of 0.001: write 0.001*(q)" in wrong(far).fix


@pytest.mark.requirement("S2-55")
def test_a_position_is_not_added_to_a_momentum():
    def mixed(q: Annotated[float, "m"], p: Annotated[float, "kg m/s"]):
        return (q + p) ** 2

    assert "`q` is in m and `p` is in kg*m/s, and they are added" in wrong(mixed).what


def test_arguments_of_functions_are_pure_numbers():
    def washboard(q: Annotated[float, "m"], p, m=1.0, depth=1.0):
        return p**2 / (2 * m) - depth * tp.cos(q)

    def well_scaled(q: Annotated[float, "m"], p, m=1.0, depth=1.0, a: Annotated[float, "m"] = 1.0):
        return p**2 / (2 * m) - depth * tp.cos(q / a)

    assert "`q` is in m, and cos() takes a pure number" in wrong(washboard).what
    assert tp.hamiltonian(well_scaled).states[0].unit == "m"


def test_a_number_is_pure_and_zero_has_any_unit():
    def offset(q: Annotated[float, "m"], p, k=1.0):
        return p**2 / 2 + k * (q - 1.5) ** 2

    def ramp(q: Annotated[float, "m"], p, k=1.0):
        return p**2 / 2 + k * tp.where(q > 0, q, 0.0)

    assert "Make 1.5 a parameter with a unit" in wrong(offset).fix
    assert tp.hamiltonian(ramp).name == "ramp"


def test_time_must_fit_too():
    def slow(
        q: Annotated[float, "m"],
        p: Annotated[float, "kg m/s"],
        t: Annotated[float, "min"],
        m: Annotated[float, "kg"] = 1.0,
    ):
        return p**2 / (2 * m)

    assert "[q][p] is in kg*m**2/s, and the energy times the time is in 60 kg*m**2/s" in wrong(slow).what


def test_a_sum_of_systems_is_checked_when_it_is_compiled():
    @tp.potential
    def trap(q: Annotated[float, "m"], stiffness: Annotated[float, "N"] = 1.0):
        return stiffness * q**2

    with pytest.raises(tp.UnitError, match="is in"):
        tp.compile(spring + trap, dt=0.1)


# --- explain ----------------------------------------------------------------------------------------------
def test_explain_lists_units_and_notes_a_sum_without_them():
    rows = {r.name: r for s in tp.compile(spring, dt=0.1).explain("full").sections for r in s.rows}
    assert rows["units"].verdict == "yes" and "k kg/s**2" in rows["units"].because

    @tp.hamiltonian
    def mixed(q, p):
        return (p - q) ** 2 / 2

    rows = {r.name: r for s in tp.compile(mixed, dt=0.1).explain("full").sections for r in s.rows}
    assert rows["units"].because.startswith("p - q adds a position to a momentum")
    plain = tp.compile(plain_spring, dt=0.1).explain("full")
    assert not any(r.name == "units" for s in plain.sections for r in s.rows)


# --- quantities -------------------------------------------------------------------------------------------
@pytest.fixture
def u():
    return pytest.importorskip("pint").get_application_registry()


def test_quantities_are_converted_and_the_program_is_that_without_units(u):
    sim = tp.compile(spring, dt=10 * u.ms, propagator="loop")
    assert sim.goal.dt == pytest.approx(0.01, rel=1e-15)
    start = {"q": 100 * u.cm, "p": 0 * u.kg * u.m / u.s, "m": 2000 * u.g, "k": 3 * u.N / u.m}
    out = sim.evolve(**start, until=1 * u.s)
    plain = tp.compile(plain_spring, dt=0.01, propagator="loop").evolve(q=1.0, p=0.0, m=2.0, k=3.0, until=1.0)
    assert out.hash == plain.hash and out.metrics["program"] == plain.metrics["program"]


def test_quantities_come_out(u):
    out = tp.compile(spring, dt=0.01).evolve(q=1.0, p=0.0, steps=100, observe={"v": lambda p, m: p / m})
    assert out.quantity("q").units == u.meter and out.quantity("p").units == u.kilogram * u.meter / u.second
    assert out.quantity("energy").m_as("J")[0] == pytest.approx(1.5)
    assert out.quantity("t").m_as("ms")[-1] == pytest.approx(1000.0)
    assert out.quantity("v").check("[length]/[time]")
    with pytest.raises(tp.InputError, match="no such quantity"):
        out.quantity("x")


def test_ensembles_lists_families_and_defaults_have_quantities(u):
    @tp.hamiltonian
    def chain(
        q: Annotated[tp.Vec["n"], "m"],
        p: Annotated[tp.Vec["n"], "kg m/s"],
        m: Annotated[float, "kg"] = 500 * u.g,
        k=1.0,
    ):
        return (p * p).sum() / (2 * m) + k * ((q[1:] - q[:-1]) ** 2).sum() / 2

    assert chain.bind({"n": 5}).parameters[0].default == 0.5
    sim = tp.compile(chain, dt=0.1)
    q = np.array([[0.0, 10.0, 20.0], [5.0, 0.0, 1.0]])
    out = sim.evolve(q=q * u.cm, p=np.zeros(3), k=[1 * u.N / u.m, 2000 * u.mN / u.m], steps=3)
    same = tp.compile(chain, dt=0.1).evolve(q=q / 100, p=np.zeros(3), k=[1.0, 2.0], steps=3)
    assert np.allclose(out.final.q, same.final.q, rtol=1e-14)


def test_quantities_of_the_wrong_dimension_or_without_a_unit_to_go_to_are_refused(u):
    sim = tp.compile(spring, dt=0.01)
    with pytest.raises(tp.UnitError, match="`q` is given in `kilogram`, which cannot be converted to m"):
        sim.evolve(q=1 * u.kg, p=0.0, steps=1)
    with pytest.raises(tp.UnitError, match="cannot be converted to s"):
        sim.evolve(q=1.0, p=0.0, until=1 * u.m)
    with pytest.raises(tp.InputError, match="a quantity in `meter`"):
        tp.compile(plain_spring, dt=0.01).evolve(q=1 * u.m, p=0.0, steps=1)

    @tp.hamiltonian
    def half_known(q: Annotated[float, "m"], p, a=1.0):
        return p**2 / 2 + a * q**2

    with pytest.raises(tp.UnitError, match="its unit in `half_known` is not known"):
        tp.compile(half_known, dt=0.01).evolve(q=1.0, p=1 * u.kg, steps=1)


def test_a_state_may_be_called_quantity():
    @tp.hamiltonian
    def named(quantity, p):
        return p**2 / 2 + quantity**2 / 2

    out = tp.compile(named, dt=0.1).evolve(quantity=1.0, p=0.0, steps=2)
    assert out["quantity"][0] == 1.0 and out.final.quantity == out["quantity"][-1]


def test_a_run_without_units_has_no_quantities():
    out = tp.compile(plain_spring, dt=0.01).evolve(q=1.0, p=0.0, steps=1)
    with pytest.raises(tp.PlanError, match="has no units"):
        out.quantity("q")


# --- what an attack found ------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("text", "powers", "factor"),
    [
        ("J/1 * m", {"kg": 1, "m": 3, "s": -2}, 1.0),  # it was J/m
        ("1e3 m", {"m": 1}, 1000.0),  # it was the charge of an electron, cubed
        ("2.5e-3 kg", {"kg": 1}, 2.5e-3),
        ("m/2", {"m": 1}, 0.5),
        ("m**(1/3)", {"m": Fraction(1, 3)}, 1.0),
        ("s**(-1)", {"s": -1}, 1.0),
        ("(m/s)**2 kg", {"kg": 1, "m": 2, "s": -2}, 1.0),
        ("m/kg s", {"m": 1, "kg": -1, "s": 1}, 1.0),
        ("kg/(m (s)^2)", {"kg": 1, "m": -1, "s": -2}, 1.0),
    ],
)
def test_a_text_is_read_as_pint_reads_it(text, powers, factor):
    test_a_text_is_a_unit(text, powers, factor)
    u = pytest.importorskip("pint").UnitRegistry()
    mine, theirs = unit(text), u.parse_expression(text).to_base_units()
    assert theirs.m == pytest.approx(mine.factor, rel=1e-12)


@pytest.mark.parametrize("text", ["m**(1/0)", "m**(2", "()", "m**(s)", "0 m", "m//s", "2**", "(" * 3000])
def test_more_that_is_no_unit_is_refused(text):
    with pytest.raises(tp.UnitError, match="cannot be read"):
        unit(text)


def test_a_unit_with_a_factor_converts_both_ways():
    u = pytest.importorskip("pint").get_application_registry()

    @tp.hamiltonian
    def tens(
        q: Annotated[float, "10 m"], p: Annotated[float, "kg m/s"], m: Annotated[float, "kg"] = 2.0, k=3.0
    ):
        return p**2 / (2 * m) + k * q**2 / 2

    out = tp.compile(tens, dt=0.01).evolve(q=50 * u.m, p=0.0, steps=1)
    assert out.q[0] == 5.0 and out.quantity("q")[0].m_as("m") == pytest.approx(50.0)


def test_the_velocity_of_a_lagrangian_has_the_unit_that_is_annotated():
    with pytest.raises(tp.UnitError, match="is in J and .* is in N"):

        @tp.lagrangian
        def fall(
            q: Annotated[float, "m"], v: Annotated[float, "m/s"], m: Annotated[float, "kg"] = 1.0, w=1.0
        ):
            f = w * m * v**2 / (w * q)
            return m * v**2 / 2 - f

    @tp.lagrangian
    def spring(q: Annotated[float, "m"], v: Annotated[float, "m/ms"], m: Annotated[float, "kg"] = 1.0, k=1.0):
        return m * v**2 / 2 - k * q**2 / 2

    assert known(spring)["t"] == "ms"


def test_an_angle_that_is_not_in_radians_says_the_factor():
    with pytest.raises(tp.UnitError, match="takes a pure number") as caught:

        @tp.hamiltonian
        def swing(q: Annotated[float, "deg"], p, k=1.0):
            return p**2 / 2 - k * tp.cos(q)

    assert "cos(0.0174532925*(q))" in caught.value.fix
