"""Nests that differ in their buffers and numbers alone are one function, called with other buffers and numbers."""

from collections import Counter

import numpy as np

import tinyphysics as tp
from tinyphysics.emit.modules.nests import MOST_WRITTEN_TWICE, module
from tinyphysics.emit.modules.same_nests import SameNests, form_of, looks_for
from tinyphysics.runtime.engines import searches
from tinyphysics.runtime.engines.array_curves import curve_program
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


@tp.ode
def field(u: tp.Array["n", "n"]):
    return np.roll(u, 1, 0) + np.roll(u, -1, 0) + np.roll(u, 1, 1) + np.roll(u, -1, 1) - 4 * u - u**3


def test_stages_that_differ_in_their_weights_are_written_once():
    """Twenty stages of a Chebyshev method: the numbers of each are a constant of the module."""
    kernel = build_loops(tp.compile(field, method="rkc", sizes={"n": 32}).tpir)
    nests = [n for s in kernel.sections.values() for n in s.nests]
    same = SameNests(kernel, nests)
    found = [s for n in nests if (s := same.shared(n)) is not None]
    largest = max(Counter(s.key for s in found if s.numbers).values(), default=0)
    assert largest >= 16
    text = module(kernel, False, 4, True)
    assert text.count("= internal constant [") >= 32  # of the step, and of the curve through it
    assert (
        text.count('.any"(ptr %buffers, ptr %uniform, ptr %flags, i64 %lo') < 16
    )  # functions and calls of them


def test_numbers_from_memory_give_the_bits_of_numbers_in_the_code():
    start = np.random.default_rng(3).normal(size=(34, 34))
    hashes = {
        tp.compile(field, method="rkc", tolerance=1e-5, backend=b).evolve(u=start, until=0.02).hash
        for b in ("llvm", "numpy")
    }
    assert len(hashes) == 1


def test_what_a_curve_is_made_of_is_not_computed_again_in_every_stage(monkeypatch):
    """Each stage of `rkc` is a sum of the two before it, so that the nests of the curve are of one length."""
    programs = []
    monkeypatch.setattr(
        searches, "curve_program", lambda *given: programs.append(curve_program(*given)) or programs[-1]
    )
    start = np.random.default_rng(3).normal(size=(36, 36))
    tp.compile(field, method="rkc", tolerance=1e-5, backend="llvm").evolve(u=start, until=0.1)
    work = [n.operations for n in build_loops(programs[0]).sections["init"].nests]
    assert len(work) >= 20 and max(work) < 60


def test_sections_share_the_memory_that_is_their_own():
    """Against every pair of buffers: the k-th of a kind in a section lies where the k-th of an earlier section does."""
    kernel = build_loops(tp.compile(heat, method="rodas", sizes={"n": 100}).tpir)

    def alike(name):
        b = kernel.buffers[name]
        return [
            n for n, o in kernel.buffers.items() if (o.planes, o.axes, o.dtype) == (b.planes, b.axes, b.dtype)
        ]

    moved = 0
    for name in kernel.buffers:
        section = name.partition(".")[0]
        expected = name
        if "." in name and section in kernel.sections:
            rank = [n for n in alike(name) if n.startswith(f"{section}.")].index(name)
            rows = [[n for n in alike(name) if n.startswith(f"{other}.")] for other in kernel.sections]
            expected = next(r[rank] for r in rows if len(r) > rank)
        assert kernel.place(name) == expected
        moved += expected != name
    assert moved


def test_small_kernels_are_left_as_they_are():
    @tp.map
    def shift(u: tp.Vec[64]):
        return np.roll(u, 1)

    assert not looks_for(build_loops(tp.compile(shift).tpir))


def test_a_long_solver_has_one_form_of_each_nest():
    """A second form, with known bounds, is for steps of few nests."""
    many = build_loops(tp.compile(heat, method="rodas", sizes={"n": 100}).tpir)
    few = build_loops(tp.compile(heat, method="dopri5", sizes={"n": 100}).tpir)
    assert len(many.sections["step"].nests) > MOST_WRITTEN_TWICE >= len(few.sections["step"].nests)
    assert '@"step.0.whole"' not in module(many, False, 4, True)
    assert '.whole"' in module(few, False, 4, True)


def test_the_careful_form_is_made_when_it_is_asked_for():
    """Half of all bodies: few runs have arguments that are too large for the fast paths of functions."""
    kernel = build_loops(tp.compile(field, method="rkc", sizes={"n": 32}).tpir)
    assert list(kernel.careful) == list(kernel.sections) and "made" not in vars(kernel.careful)
    module(kernel, False, 4, True)
    assert "made" not in vars(kernel.careful)
    assert [len(s.nests) for s in kernel.careful.values()] == [len(s.nests) for s in kernel.sections.values()]
