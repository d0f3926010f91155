"""Nests that differ in their buffers alone are one function, called with other buffers."""

import numpy as np

import tinyphysics as tp
from tinyphysics.emit.modules.nests import module
from tinyphysics.emit.modules.same_nests import form_of, looks_for
from tinyphysics.tpir.kernels.loops import build_loops


@tp.ode
def heat(u: tp.Vec["n"]):
    return np.roll(u, 1) + np.roll(u, -1) - 2 * u


def test_levels_of_six_right_hand_sides_are_written_once():
    kernel = build_loops(tp.compile(heat, method="rodas", sizes={"n": 100}).tpir)
    nests = [n for s in kernel.sections.values() for n in s.nests]
    forms = [form_of(n, kernel) for n in nests]
    assert looks_for(kernel) and all(f is not None for f in forms)
    different = {f[0] for f in forms}
    assert len(different) < 0.6 * len(nests)
    text = module(kernel, False, 4, True)
    assert text.count("alloca [") >= len(nests) - len(
        different
    )  # the others are calls, in both forms if short


def test_a_nest_with_another_number_or_place_is_another():
    kernel = build_loops(tp.compile(heat, method="dopri5", sizes={"n": 5000}).tpir)
    nests = [n for s in kernel.sections.values() for n in s.nests if n.kind == "map" and n.sizes]
    kinds = {form_of(n, kernel)[0] for n in nests}
    assert len(kinds) > 6  # stages have weights of their own


def test_small_kernels_are_left_as_they_are():
    @tp.map
    def shift(u: tp.Vec[64]):
        return np.roll(u, 1)

    assert not looks_for(build_loops(tp.compile(shift).tpir))
