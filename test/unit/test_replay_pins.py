"""Does the replay check refuse what it should?  Pins without a reason, and planted changes of each kind."""

from __future__ import annotations

import inspect
import sys

import pytest

from pins import book, check
from pins.everything import units
from pins.unit import Setting, neutral

pytestmark = pytest.mark.quick


def test_the_pins_are_those_of_the_last_reason():
    """A pin that is edited by hand, or without `make replay-update`, has another digest."""
    assert book.digest() == book.last_digest(), 'make replay-update REASON="..." writes both'


def test_an_edited_pin_has_another_digest(tmp_path):
    book.write("zoo", {"kepler": {"program": "12"}}, tmp_path)
    book.give_reason("the first", ["zoo/kepler: program"], tmp_path)
    assert book.digest(tmp_path) == book.last_digest(tmp_path)
    book.write("zoo", {"kepler": {"program": "13"}}, tmp_path)
    assert book.digest(tmp_path) != book.last_digest(tmp_path)
    book.give_reason("the second", ["zoo/kepler: program"], tmp_path)
    assert book.digest(tmp_path) == book.last_digest(tmp_path)
    text = (tmp_path / book.REASONS).read_text()
    assert text.index("the first") < text.index("the second") and "- zoo/kepler: program" in text


def test_a_file_of_pins_reads_back():
    pins = {
        "b": {"explain": "a\n  b\n\n[c]  d", "program": "12"},
        "a: c d": {"refused": "PlanError: no\n  fix"},
        "e": {"x": ""},
    }
    assert book.parsed(book.written(pins)) == pins
    assert list(book.parsed(book.written(pins))) == sorted(pins)


def test_places_are_neutral():
    assert neutral("`q < 0` (kepler.py:7).") == neutral("`q < 0` (/home/me/other.py:12).")
    assert neutral("<function f at 0x7f12ab>") == "<function f at 0x0>"
    assert neutral("d/dq[0] of p/2 and 1/2") == "d/dq[0] of p/2 and 1/2"


def test_a_driver_that_is_not_here_is_left_alone_and_one_that_is_must_agree():
    pinned = {"state": "12", "state on opencl": "the same"}
    assert check.compared("a/b", pinned, {"state": "12"}) == []
    assert check.compared("a/b", pinned, {"state": "12", "state on cuda": "the same"}) == []
    (moved,) = check.compared("a/b", pinned, {"state": "12", "state on cuda": "13"})
    assert (moved.kind, moved.old, moved.new) == ("state on cuda", "the same", "13")


def test_a_pin_of_a_backend_with_other_bits_is_never_written():
    assert check.disagrees("state on numpy", "0123456789abcdef")
    assert not check.disagrees("state on numpy", "the same") and not check.disagrees(
        "state", "0123456789abcdef"
    )
    for group in book.groups():
        for name, pins in book.read(group).items():
            assert not [kind for kind, text in pins.items() if check.disagrees(kind, text)], name


# --- planted changes: each is refused, by the kind of pin that it is about --------------------------------
def forget():
    """Nothing that was compiled in this process is found again."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "tinyphysics":
            for value in list(vars(module).values()):
                if callable(clear := getattr(value, "cache_clear", None)):
                    clear()


@pytest.fixture
def planted(tmp_path, monkeypatch):
    """moved(key, plant): the kinds of pins that move in a unit when `plant` is done; before, nothing does."""
    from tinyphysics.runtime.engines import plans

    monkeypatch.setenv("TINYPHYSICS_CACHE", str(tmp_path))
    tmp_path.chmod(0o700)
    monkeypatch.setattr(plans, "sources", lambda: None)  # plans are neither looked up nor kept

    def moved(key, plant):
        forget()
        assert check.checked(units()[key], Setting()) == []
        forget()
        plant()
        return {m.kind for m in check.checked(units()[key], Setting())}

    yield moved
    monkeypatch.undo()
    forget()


def test_a_weight_that_is_an_ulp_off_is_refused(planted, monkeypatch):
    """All backends move together, which comparing them with each other does not show."""
    from math import nextafter

    from tinyphysics.synth.coefficients.coefficients import COMPOSITION

    first, *rest = COMPOSITION["yoshida4"]
    nudged = type(COMPOSITION["yoshida4"])((nextafter(first, 2.0), *rest))
    found = planted(
        "methods/yoshida4-henon_heiles", lambda: monkeypatch.setitem(COMPOSITION, "yoshida4", nudged)
    )
    assert found == {"program", "state", "frames"}


def test_a_product_and_a_sum_in_the_place_of_a_fused_one_is_refused(planted, monkeypatch):
    """The program has the same text: only its bits tell."""
    from tinyphysics.ir.uop import UOp

    found = planted(
        "methods/rk4-kepler", lambda: monkeypatch.setattr(UOp, "fma", lambda self, b, c: self * b + c)
    )
    assert "state" in found and "frames" in found


def test_an_interpreter_that_rounds_twice_is_refused(planted, monkeypatch):
    from tinyphysics.ir.ops import Ops
    from tinyphysics.ir.value import FLOAT

    found = planted(
        "methods/rk4-kepler", lambda: monkeypatch.setitem(FLOAT, Ops.FMA, lambda a, b, c: a * b + c)
    )
    assert found == {"state on python"}


def test_a_changed_word_of_a_certificate_is_refused(planted, monkeypatch):
    from tinyphysics.tpir.proof import weights
    from tinyphysics.tpir.proof.certificate import Verdict

    def other(holds, because):
        return Verdict(holds, because.replace("palindrome", "mirror image"))

    found = planted("methods/yoshida4-henon_heiles", lambda: monkeypatch.setattr(weights, "Verdict", other))
    assert found == {"explain"}


def test_a_claim_that_is_shown_no_more_is_refused(planted, monkeypatch):
    from tinyphysics.tpir.proof.certificate import Verdict
    from tinyphysics.tpir.proof.readers.shears import ShearReader

    no = Verdict(False, "not looked at")
    found = planted(
        "methods/yoshida4-henon_heiles",
        lambda: monkeypatch.setattr(ShearReader, "reversible", lambda self, s: no),
    )
    assert found == {"certificate", "explain"}


def test_a_changed_message_is_refused(planted, monkeypatch):
    from tinyphysics.runtime.api import compile as module

    key = "messages/compile: an unknown scale"
    assert planted(key, lambda: monkeypatch.setattr(module, "one_of", " or ".join)) == {"message"}


def test_a_wrong_call_that_passes_is_refused(planted, monkeypatch):
    from tinyphysics.runtime.api import compile as module

    key = "messages/compile: an unknown scale"
    assert planted(key, lambda: monkeypatch.setattr(module, "SCALES", ("off", "auto", "on"))) == {"message"}


def test_a_changed_default_is_refused(planted, monkeypatch):
    import tinyphysics as tp

    def plant():
        monkeypatch.setitem(inspect.unwrap(tp.compile).__kwdefaults__, "precision", "float32")

    assert planted("signatures/tp", plant) == {"compile"}


def test_another_method_by_default_is_refused(planted, monkeypatch):
    from tinyphysics.planner.methods import catalog

    key = "defaults/kepler"
    assert planted(key, lambda: monkeypatch.setitem(catalog.FIRST, 2, "leapfrog_dkd")) == {"method"}


def test_names_that_are_numbered_differently_are_no_change_of_a_kernel():
    from pins.kernels import C_NAMES, LLVM_NAMES, renamed

    def llvm(text):
        return renamed(text, LLVM_NAMES)

    assert llvm("%v1 = fadd double %v0, %x.3") == llvm("%v7 = fadd double %v2, %x.4")
    assert llvm("%v1 = fadd double %v0, %v0") != llvm("%v1 = fadd double %v0, %v1")
    assert llvm("%v1 = call double @llvm.fma.f64(double %a)") != llvm(
        "%v1 = call double @llvm.fmuladd.f64(double %a)"
    )
    assert llvm("%v1 = add i64 %a, 1") != llvm("%v1 = add i32 %a, 1")
    assert llvm("loop:\n br label %loop") == llvm("again:\n br label %again")
    assert renamed("const double v3 = v1 * v2;", C_NAMES) == renamed("const double v13 = v11 * v12;", C_NAMES)
    assert renamed("f64_to_i64(v1)", C_NAMES) != renamed("f32_to_i64(v1)", C_NAMES)
