"""Steps of a Lagrangian are certified from their equations alone; whoever changes one of them loses the yes."""

import re

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics import tpir
from tinyphysics.errors import VerifyError

METHODS = ("variational_midpoint", "variational_trapezoidal", "galerkin4", "galerkin6")
J = np.block([[np.zeros((2, 2)), np.eye(2)], [-np.eye(2), np.zeros((2, 2))]])
Z = np.array([1.0, 0.5, 0.7, -0.4])


@tp.lagrangian
def arms(q: tp.Vec[2], v: tp.Vec[2], g: float = 9.8):
    a, b = q
    return v[0] ** 2 + v[1] ** 2 / 2 + v[0] * v[1] * tp.cos(a - b) + 2 * g * tp.cos(a) + g * tp.cos(b)


@tp.lagrangian
def charged(q: tp.Vec[2], v: tp.Vec[2], B: float = 0.7):
    """Momenta that are not even, and a mass that depends on the place."""
    return (1 + q[0] ** 2) * (v @ v) / 2 + B * (q[0] * v[1] - q[1] * v[0]) / 2 - q @ q / 2


@tp.lagrangian
def driven(q, v, t):
    return v**2 / 2 + tp.cos(q) + 0.1 * q * tp.sin(t)


def listing(system, method):
    return re.sub("claim.*\n", "", str(tp.compile(system, dt=0.1, method=method).tpir))


def verdicts(text):
    return tpir.verify(tpir.parse(text))


@pytest.mark.parametrize("method", METHODS)
def test_every_method_of_a_lagrangian_is_certified(method):
    certificate = tp.compile(arms, dt=0.01, method=method).certificate
    assert all(
        certificate[name]
        for name in ("symplectic", "volume-preserving", "symmetric", "reversible", "consistent")
    )
    assert "differential of an action" in certificate.symplectic.because


@pytest.mark.parametrize("method", METHODS)
def test_a_magnetic_field_is_not_reversed_by_momenta(method):
    certificate = tp.compile(charged, dt=0.01, method=method).certificate
    assert (
        certificate.symplectic
        and certificate.symmetric
        and certificate.consistent
        and not certificate.reversible
    )


@pytest.mark.parametrize("method", METHODS)
def test_explicit_time_is_seen_at_the_stages(method):
    certificate = tp.compile(driven, dt=0.01, method=method).certificate
    assert (
        certificate.symplectic
        and certificate.symmetric
        and certificate.consistent
        and not certificate.reversible
    )


def test_the_certificate_changes_no_program():
    """What is shown is not claimed: listings and their hashes are what they were."""
    assert not tp.compile(arms, dt=0.01, method="galerkin4").tpir.claims


# --- changed by hand --------------------------------------------------------------------------------
def after(text, mark, pattern, new):
    """The text with the first match of a pattern behind a mark replaced."""
    head, sep, tail = text.partition(mark)
    changed = re.sub(pattern, new, tail, count=1)
    assert sep and changed != tail, pattern
    return head + sep + changed


EDITS = {  # what is changed, behind which mark
    "a longer kick": ("UNTIL", r"SYMP_STEP (S1\S*), F1(\S*), \S+", r"SYMP_STEP \1, F1\2, 0.2"),
    "no kick": ("UNTIL", r"  SYMP_STEP S1.*\n", ""),
    "no drift": ("UNTIL", r"  SYMP_STEP S0.*\n", ""),
    "another force": ("UNTIL", ", sin,", ", cos,"),
    "another mass at one place": ("SOLVE", ", cos,", ", sin,"),
    "a force of other equations": ("SOLVE", ", sin,", ", cos,"),
    "a stage elsewhere": ("SOLVE", r"FMA (T\d+), 0\.[1-9]\d*, ", r"FMA \1, 0.61, "),
}


@pytest.mark.parametrize("edit", EDITS)
@pytest.mark.parametrize("method", ["variational_midpoint", "galerkin4"])
def test_a_changed_listing_loses_its_yes(method, edit):
    text = listing(arms, method)
    assert verdicts(text)["symplectic"]
    changed = after(text, *EDITS[edit])
    try:
        certificate = verdicts(changed)
    except VerifyError:
        return
    assert not certificate["symplectic"], edit


def test_another_mass_is_symplectic_and_not_that_of_the_energy():
    text = listing(arms, "variational_midpoint")
    certificate = verdicts(after(text, "SOLVE", r"FMA (T\d+), 2\.0, ", r"FMA \1, 2.5, "))
    assert certificate["symplectic"] and not certificate["consistent"]
    assert "momenta" in certificate["consistent"].because


@pytest.mark.parametrize("scale", ["0.0", "1.0"])
def test_rounds_that_may_end_anywhere_are_not_certified(scale):
    text = listing(arms, "galerkin4")
    found = re.search(r"  UNTIL (.*), (T\d+), (\(\d+,\))\n", text)
    changed = text.replace(
        found[0], f"  MOVE T9000:f64[4], expand, {scale}\n  UNTIL {found[1]}, T9000, {found[3]}\n"
    )
    assert not verdicts(changed)["symplectic"]


# --- whatever is changed ----------------------------------------------------------------------------
def stepped(program, z, dt):
    end = tpir.vm.run(program, {"q": z[:2].tolist(), "p": z[2:].tolist()}, 1, dt=dt)
    return np.concatenate([end["q"], end["p"]]).astype(float)


def defect(program):
    """By how much a step is not symplectic."""
    columns = [(stepped(program, Z + d, 0.1) - stepped(program, Z - d, 0.1)) / 2e-5 for d in 1e-5 * np.eye(4)]
    M = np.array(columns).T
    return np.abs(M.T @ J @ M - J).max() / max(1.0, np.abs(M).max() ** 2)


@pytest.mark.parametrize("method", ["variational_midpoint", "variational_trapezoidal"])
def test_no_change_of_a_number_or_a_function_is_certified_wrongly(method):
    text = listing(arms, method)
    lines, found, rng = text.splitlines(), [], np.random.default_rng(7)
    first = next(k for k, line in enumerate(lines) if "SOLVE" in line)
    for k in range(first, len(lines)):
        for m in re.finditer(r"(?<![\w.\[])(-?\d+\.\d+)", lines[k]):
            found.append((k, m, repr(float(m[1]) * 1.1)))
        for m in re.finditer(r"(?<=, )(sin|cos|mul|add|sub)(?=,)", lines[k]):
            found.append((k, m, {"sin": "cos", "cos": "sin", "mul": "add", "add": "sub", "sub": "add"}[m[1]]))
    lost = 0
    for pick in rng.permutation(len(found))[:12]:
        k, m, new = found[pick]
        line = lines[k][: m.start()] + new + lines[k][m.end() :]
        try:
            program = tpir.parse("\n".join([*lines[:k], line, *lines[k + 1 :]]) + "\n")
            certificate = tpir.verify(program)
        except VerifyError:
            lost += 1
            continue
        lost += not certificate["symplectic"]
        if certificate["symplectic"]:
            assert not defect(program) > 1e-7, (
                line
            )  # NaN where its equations have no solution: a run stops there
    assert lost > 6
