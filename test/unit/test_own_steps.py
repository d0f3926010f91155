"""Is a step that a user writes as a map proved symplectic where it is, and never where it is not?"""

from __future__ import annotations

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.tpir.program.text import parse
from tinyphysics.tpir.verifier import verify


@tp.map(pairs=[("q", "p")])
def leapfrog(q, p, h=0.05):
    p = p - h / 2 * np.sin(q)
    q = q + h * p
    p = p - h / 2 * np.sin(q)
    return q, p


@tp.map(pairs=[("q", "p")])
def slip(q, p, h=0.05):
    half = p - h / 2 * np.sin(q)
    return q + h * half, half - h / 2 * np.sin(q)


def test_a_leapfrog_of_ones_own_is_proved_symplectic_though_half_of_h_is_computed_before_the_loop():
    sim = tp.compile(leapfrog)
    assert sim.certificate.symplectic and sim.certificate.volume_preserving
    assert any(i.op == "ELEM" for i in sim.tpir.init)


def test_a_kick_by_the_old_position_is_not():
    assert not tp.compile(slip).certificate.symplectic
    with pytest.raises(tp.TinyPhysicsError, match="not symplectic"):
        tp.assert_symplectic(slip, q=1.0, p=0.3)


def test_what_is_computed_before_the_loop_must_not_change_in_it():
    text = tp.compile(leapfrog).ir("tpir")
    line = next(i for i in tp.compile(leapfrog).tpir.init if i.op == "ELEM")
    changed = text.replace("final:", f"  ELEM {line.dst}, mul, S0, S0\nfinal:").replace(
        "claim symplectic\n", ""
    )
    assert changed != text
    try:
        shown = bool(verify(parse(changed)).symplectic)
    except tp.VerifyError:
        shown = False
    assert not shown
