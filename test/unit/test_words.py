"""What if a state has more than one word?  Declared, printed and read back, run alike everywhere."""

from __future__ import annotations

import numpy as np
import pytest

from tinyphysics.runtime.engines.backend import lane_engine
from tinyphysics import tpir
from tinyphysics.device.host.arrays import ArraysLoader
from tinyphysics.errors import VerifyError
from tinyphysics.runtime.state.digest import state_hash
from tinyphysics.runtime.state.encoding import Encoding
from tinyphysics.runtime.engines.loaders import CLoader, LlvmLoader
from tinyphysics.tpir.precision.precision import Precision
from tinyphysics.ir import f32, f64

PAIR = Precision("pair", f32, f64, f32, f32)

ADDING = """program adding
state S0 q f32[2] field
state S1 q.low f32[2] error of S0
param $dt f64[]
init:
  LOAD S0:f32[2], &q
  LOAD S1:f32[2], &q.low
  ELEM T0:f32[], cast, $dt
  MOVE T1:f32[2], expand, T0
step:
  ELEM T2:f32[2], add, S1, T1
  ELEM T3:f32[2], add, S0, T2
  ELEM T4:f32[2], sub, T3, S0
  ELEM T5:f32[2], sub, T3, T4
  ELEM T6:f32[2], sub, S0, T5
  ELEM T7:f32[2], sub, T2, T4
  ELEM T8:f32[2], add, T6, T7
  MAP S0:f32[2], T3
  MAP S1:f32[2], T8
final:
  STORE &q, S0
  STORE &q.low, S1
"""


def test_error_words_print_and_read_back():
    program = tpir.parse(ADDING)
    assert str(program) == ADDING and tpir.parse(str(program)) == program
    assert (
        program.states[1].low_of == 0
        and program.states[1].role == "error"
        and program.states[1].conjugate is None
    )
    tpir.verify(program)


@pytest.mark.parametrize(
    "wrong, says",
    [
        ("error of S1", "does not stand after"),
        ("error", "does not stand after"),
        ("error of S7", "does not stand after"),
        ("f32[3] error of S0", "is f32[2], its error word"),
        ("f64[2] error of S0", "is f32[2], its error word"),
    ],
)
def test_an_error_word_follows_its_state_and_is_like_it(wrong, says):
    text = wrong if "[" in wrong else f"f32[2] {wrong}"
    with pytest.raises(VerifyError, match=says.replace("[", r"\[").replace("]", r"\]")):
        tpir.verify(tpir.parse(ADDING.replace("f32[2] error of S0", text)))


def test_words_run_alike_everywhere_and_keep_what_one_word_loses():
    program, x = tpir.parse(ADDING), np.array([1.0, 3e7])
    kept = Encoding(PAIR).stored("q", x)
    hashes = set()
    for loader in (LlvmLoader(), CLoader(), ArraysLoader()):
        engine = lane_engine(program, loader)
        m = engine.start({n: v[None] for n, v in kept.items()}, {}, 1, 1e-9, 0.0)
        engine.advance(m, 1000)
        hashes.add(state_hash({n: v[0] for n, v in engine.synchronised(m).items()}))
    end = tpir.vm.run(program, {n: v.tolist() for n, v in kept.items()}, 1000, dt=1e-9)
    assert hashes == {state_hash({n: np.array(v, np.float32) for n, v in end.items()})}
    value = Encoding(PAIR).shown("q", {n: np.array(v, np.float32) for n, v in end.items()})
    assert abs(value[0] - (1 + 1e-6)) < 1e-13 and np.float32(1.0) + np.float32(1e-9) == 1.0


# --- between the user's numbers and those that are kept ------------------------------------------------
def test_a_number_is_split_into_the_nearest_and_the_rest():
    rng = np.random.default_rng(0)
    x = rng.normal(size=1000) * 10.0 ** rng.integers(-6, 7, 1000)
    e = Encoding(PAIR)
    high, low = e.words("q", e.stored("q", x))
    assert high.dtype == low.dtype == np.float32 and np.array_equal(high, x.astype(np.float32))
    assert np.array_equal(low, (x - high.astype(float)).astype(np.float32))
    shown = e.shown("q", e.stored("q", x))
    assert shown.dtype == np.float64 and np.all(abs(shown - x) <= abs(x) * 2.0**-48)


def test_the_words_of_a_state_are_kept_after_it():
    kept = Encoding(PAIR).stored("q", np.ones(3)) | Encoding(PAIR).stored("p", np.ones(3))
    assert list(kept) == ["q", "q.low", "p", "p.low"]
    assert list(Encoding(PAIR).values(kept)) == ["q", "p"]
