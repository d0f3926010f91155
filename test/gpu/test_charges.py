"""Do charges in magnetic fields, friction and contact energies have the bits of this processor on a real GPU?"""

from __future__ import annotations

import pytest

import tinyphysics as tp
from bits_there import same
from test_friction import henon_heiles
from test_magnetic import SPACE, START, decay, plane, space
from test_parity import ensemble
from tinyphysics import plasma

CASES = {
    "boris": (space, dict(method="boris"), SPACE),
    "boris_exact": (space, dict(method="boris_exact"), SPACE),
    "axes": (plane, dict(method="axes"), START),
    "fast": (plasma.System(), dict(kinetics="relativistic"), SPACE),
    "dipole": (plasma.System(B_field=plasma.dipole(60.0)), {}, dict(q=[3.0, 0.1, 0.2], p=[0.0, 0.45, 0.3])),
    "contact": (decay, dict(method="contact"), dict(q=2.0, p=0.0, s=0.0)),
    "friction": (henon_heiles, dict(friction=0.1, order=4), dict(q=[0.1, 0.2], p=[0.3, -0.1])),
}


@pytest.mark.parametrize("precision", ["float64", "float32", "dd"])
@pytest.mark.parametrize("name", CASES)
def test_every_number_is_that_of_a_run_here(gpu, name, precision):
    system, options, start = CASES[name]
    options = dict(dt=0.05, precision=precision) | options
    try:
        tp.compile(system, **options)
    except tp.PlanError as error:
        pytest.skip(str(error.what))
    same(system, options, ensemble(start, gpu.members(1000)), steps=gpu.steps(40), hash_every=4, save_every=2)
