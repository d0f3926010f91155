"""Listings that were changed by hand where a program cannot go wrong by itself: each of them loses its yes."""
import re

import pytest

import tinyphysics as tp
from tinyphysics import tpir
from tinyphysics.errors import VerifyError


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
    changed = text.replace("final:\n", f"  {line}\nfinal:\n") if "final:" in text else text.replace("energy:\n", f"  {line}\nenergy:\n")
    assert changed != text
    try:
        certificate = verdicts(changed)
    except VerifyError:
        return
    assert not certificate["symplectic"] or not certificate["consistent"]


@pytest.mark.parametrize("second, meets", [(lambda q: -1.0, False), (lambda q: q, False), (lambda q: 1 + q * q, True)])
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
