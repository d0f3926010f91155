"""Do the tables of options and conflicts say what the calls do?"""

from __future__ import annotations

import inspect
import re

import pytest

import tinyphysics as tp
from tinyphysics.options import CALLS
from tinyphysics.runtime.state.from_frame import BEGINS

FUNCTIONS = {"compile": tp.compile, "evolve": tp.Simulation.evolve}
BESIDE = {"compile": {"system"}, "evolve": {"self", "given"}}  # arguments that are no options


@pytest.mark.parametrize("call", CALLS)
def test_the_table_has_the_options_of_the_signature_with_their_defaults(call):
    signature = inspect.signature(FUNCTIONS[call]).parameters
    defaults = {name: p.default for name, p in signature.items() if name not in BESIDE[call]}
    defaults = {name: 0.0 if value is BEGINS else value for name, value in defaults.items()}
    assert {name: option.default for name, option in CALLS[call].items()} == defaults


@pytest.mark.parametrize("call", CALLS)
def test_the_table_has_the_sentences_of_the_docstring(call):
    lines = re.findall(r"(?m)^([a-zA-Z_0-9]+)  +(\S.*)$", inspect.getdoc(FUNCTIONS[call]))
    said = {name: sentence for name, sentence in lines if name not in BESIDE[call]}
    assert {n: o.sentence for n, o in CALLS[call].items() if n != "target_order"} == said
