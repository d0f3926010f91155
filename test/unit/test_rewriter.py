"""Is a precision one table of rules and one row?  And is an instruction that it has no rule for refused?"""

import pytest

import tinyphysics as tp
from tinyphysics.errors import PlanError
from tinyphysics.ir.dtype import f64
from tinyphysics.tpir import parse
from tinyphysics.tpir.precision import compensated, double_double, lattice, mixed
from tinyphysics.tpir.precision.precision import PRECISIONS, Precision, in_precision
from tinyphysics.tpir.precision.rewriter import Rewriter
from tinyphysics.tpir.program import isa, values

REWRITERS = (mixed.Mixed, compensated.Compensated, lattice.Lattice, double_double.DoubleDouble)


@tp.hamiltonian
def quartic(q, p):
    return p**2 / 2 + q**2 / 2 + q**4 / 4


@pytest.mark.parametrize("rewriter", REWRITERS)
def test_rules_are_found_by_words_of_the_table_of_instructions(rewriter):
    assert set(rewriter.rules) <= {row.numbers for row in isa.ISA.values()}


@pytest.mark.parametrize("precision", ["mixed", "compensated", "lattice", "dd"])
@pytest.mark.parametrize("kind", ["update", "value"])
def test_a_word_without_a_rule_is_refused(precision, kind, monkeypatch):
    writes = "S" if kind == "update" else "T"
    row = isa.InstructionRow(
        "s, value", writes, "s := value", "r", value=values.source, kind=kind, numbers="bent"
    )
    monkeypatch.setitem(isa.ISA, "NUDGE", row)
    text = tp.compile(quartic, dt=0.1, method="leapfrog").ir("tpir")
    program = parse(text.replace("step:\n", f"step:\n  NUDGE {writes}1, S0\n"))
    with pytest.raises(PlanError, match="NUDGE"):
        in_precision(program, precision)


class Copied(Rewriter):
    """Every line as it is."""

    name = "copied"
    rules = dict.fromkeys((row.numbers for row in isa.ISA.values()), Rewriter.put)


def copied(program, choices):
    return Copied(program).rewritten()


def test_a_new_precision_is_a_file_and_a_row(monkeypatch):
    own = Precision("copied", f64, f64, f64, rewrite=copied, note="float64, line by line")
    monkeypatch.setitem(PRECISIONS, "copied", own)
    sims = [tp.compile(quartic, dt=0.1, precision=name) for name in ("float64", "copied")]
    a, b = (sim.evolve(q=1.0, p=0.0, steps=32) for sim in sims)
    assert a.digest == b.digest if hasattr(a, "digest") else a.q[-1] == b.q[-1]
    assert "float64, line by line" in str(sims[1].explain("full"))
