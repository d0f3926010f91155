"""Listings that were changed by hand where a program cannot go wrong by itself: each of them loses its yes."""

import re

import pytest

import tinyphysics as tp
from tinyphysics import tpir
from tinyphysics.errors import VerifyError
from tinyphysics.tpir import vm


@tp.hamiltonian
def curved(q, p):
    return 0.5 * p * p * (1 + q * q) + 0.5 * q * q


@tp.hamiltonian
def trap(q, p):
    return 0.5 * p * p + 4.5 * q * q + 0.1 * q**4


@tp.hamiltonian
def driven(q, p, t):
    return 0.5 * p * p + q**4 * tp.sin(t)


def listing(system, method):
    return re.sub("claim.*\n", "", str(tp.compile(system, dt=0.1, method=method).tpir))


def verdicts(text):
    return tpir.verify(tpir.parse(text))


def test_an_honest_listing_keeps_its_yes():
    for system, method in ((curved, "implicit_midpoint"), (trap, "interaction"), (driven, "leapfrog")):
        certificate = verdicts(listing(system, method))
        assert certificate["symplectic"] and certificate["consistent"], method


@pytest.mark.parametrize("scale", ["0.0", "1e-300", "1.0"])
@pytest.mark.parametrize("method", ["implicit_midpoint", "gauss4", "extended_phase_space"])
def test_rounds_that_may_end_anywhere(method, scale):
    """The scale of the equations says when a root is found: with 0 every start is one."""
    text = listing(curved, method)
    found = re.search(r"  UNTIL (.*), (T\d+)(:\S+)?, (\(\d+,\))\n", text)
    shape = found[3] or ""
    size = re.search(r"f64\[(\d+)\]", shape or found[1])[1]
    filled = f"  MOVE T9000:f64[{size}], expand, {scale}\n"
    changed = text.replace(found[0], f"{filled}  UNTIL {found[1]}, T9000, {found[4]}\n")
    certificate = verdicts(changed)
    assert not certificate["symplectic"] and not certificate["symmetric"]


def test_a_time_of_two_words_whose_second_is_large():
    text = listing(driven, "leapfrog")
    changed = re.sub(r"(step:[\s\S]*?TIME T\d+, [\d.]+)", r"\1, 0.25, high", text, count=1)
    assert changed != text
    with pytest.raises(VerifyError, match="two words"):
        verdicts(changed)


@pytest.mark.parametrize("line", ["SERIES S0, S1, S0, (4,)", "ROTATE S0, S1"])
@pytest.mark.parametrize("system, method", [(curved, "implicit_midpoint"), (trap, "interaction")])
def test_instructions_that_do_not_go_together(system, method, line):
    """Refused or not shown, never a yes, and never a crash."""
    text = listing(system, method)
    changed = (
        text.replace("final:\n", f"  {line}\nfinal:\n")
        if "final:" in text
        else text.replace("energy:\n", f"  {line}\nenergy:\n")
    )
    assert changed != text
    try:
        certificate = verdicts(changed)
    except VerifyError:
        return
    assert not certificate["symplectic"] or not certificate["consistent"]


@pytest.mark.parametrize(
    "second, meets", [(lambda q: -1.0, False), (lambda q: q, False), (lambda q: 1 + q * q, True)]
)
def test_an_angle_jumps_where_its_second_argument_may_be_negative(second, meets):
    @tp.hamiltonian
    def turning(q, p):
        return 0.5 * p * p + 0.5 * tp.arctan2(q, second(q))

    assert bool(tp.compile(turning, dt=0.01).certificate["consistent"]) is meets


def neighbours(**ends):
    @tp.hamiltonian
    def fluid(q: tp.Array["n", 3], p: tp.Array["n", 3], rc: float = 2.5, L: float = 12.0):
        r2 = tp.pair_distance2(q, box=L, cutoff=rc, exclude=[(0, 1)], **ends)
        s6 = 1 / (r2 * r2 * r2)
        return (p * p).sum() / 2 + tp.pair_sum(4 * (s6 * s6 - s6))

    return re.sub("claim.*\n", "", str(tp.compile(fluid, dt=0.001, sizes={"n": 40}).tpir))


@pytest.mark.parametrize("ends, true", [({}, None), ({"shift": True}, "2"), ({"switch": 2.0}, "3")])
def test_how_a_sum_over_neighbours_ends_is_seen_and_not_believed(ends, true):
    text = neighbours(**ends)
    for tag in "123":
        changed = re.sub(r"(PAIRS.*\(0,1,)\d\)", rf"\g<1>{tag})", text)
        assert bool(verdicts(changed)["consistent"]) is (tag == true)


def turned(w, h, s):
    """The exact flow of p*p/2 + w q*q/2 for a time h, as three shears; registers from T{s}0 on."""
    return f"""  ELEM T{s}0, arc_drift, 1.0, {w}, {h}
  ELEM T{s}1, arc_kick, 1.0, {w}, {h}
  ELEM T{s}2, mul, T{s}1, {w}
  ELEM T{s}3, neg, T{s}2
  ELEM T{s}4, arc_sign, 1.0, {w}, {h}
  ELEM T{s}5, mul, T{s}4, S1
  ELEM T{s}6, mul, T{s}4, S0
  FMA T{s}7, T{s}0, T{s}5, T{s}6
  FMA T{s}8, T{s}3, T{s}7, T{s}5
  FMA T{s}9, T{s}0, T{s}8, T{s}7
  ROTATE S0, T{s}9
  ROTATE S1, T{s}8
"""


def kicked(w, s):
    """Half a kick by 0.1 q**4 at the mean of q that an oscillator of w has over dt."""
    return f"""  ELEM T{s}0, arc_lag, 1.0, {w}, $dt
  ELEM T{s}1, neg, {w}
  ELEM T{s}2, mul, T{s}0, S0
  FMA T{s}3, T{s}1, T{s}2, S0
  ELEM T{s}4, mul, T{s}3, T{s}3
  ELEM T{s}5, mul, T{s}4, T{s}3
  ELEM T{s}6, mul, T{s}0, T{s}5
  ELEM T{s}7, mul, 0.4, T{s}5
  ELEM T{s}8, mul, {-0.4 * w}, T{s}6
  ELEM T{s}9, add, T{s}8, T{s}7
  GRAD_INIT G0, T{s}9
  POISSON_J F1, G0, negate
  SYMP_STEP S1, F1, T5
"""


def two_oscillators(first, last):
    """Both are turned, in a palindrome; the kicks see means of these."""
    return f"""program x
state S0 q f64[] position
state S1 p f64[] momentum of S0
param $dt f64[] = 0.1
energy:
  ELEM T0, mul, 4.5, S0
  ELEM T1, mul, 0.5, S1
  ELEM T2, mul, T1, S1
  FMA E0, T0, S0, T2
  ELEM T0, mul, 50.0, S0
  FMA E1, T0, S0, T2
  ELEM T3, mul, S0, S0
  ELEM T4, mul, T3, T3
  ELEM E2, mul, 0.1, T4
init:
  LOAD S0, &q
  LOAD S1, &p
  ELEM T5, mul, 0.5, $dt
step:
{kicked(first, 10)}{turned(9.0, "T5", 20)}{turned(100.0, "$dt", 30)}{turned(9.0, "T5", 40)}{kicked(last, 50)}final:
  STORE &q, S0
  STORE &p, S1
"""


@pytest.mark.parametrize("first, last", [(9.0, 100.0), (100.0, 9.0), (9.0, 9.0), (100.0, 100.0)])
def test_kicks_at_means_of_two_oscillators_are_two_kicks(first, last):
    """A step whose first kick sees the means of one and whose last those of another is no palindrome: there and back misses."""
    text = two_oscillators(first, last)

    def flow(q, p, dt):
        out = vm.run(tpir.parse(text), {"q": q, "p": p}, 1, dt=dt)
        return float(out["q"]), float(out["p"])

    back = flow(*flow(0.7, 0.4, 0.1), -0.1)
    returns = abs(back[0] - 0.7) + abs(back[1] - 0.4) < 1e-12
    certificate = verdicts(text)
    assert returns is (first == last)
    assert bool(certificate["symmetric"]) is returns and bool(certificate["reversible"]) is returns
