"""Does Ctrl-C end work in C, and does all else pass through?"""

from __future__ import annotations

import os
import signal
import threading

import pytest

import tinyphysics as tp
from tinyphysics.device.host import llvm
from tinyphysics.device.host.interruptible import interruptible
from tinyphysics.device.host.processor import processor, runs
from tinyphysics.runtime.stages import loop


def test_ctrl_c_arrives_while_a_library_works():
    begun, end, ended = threading.Event(), threading.Event(), threading.Event()

    def long_work():
        begun.set()
        end.wait(60)
        ended.set()

    def ctrl_c():
        begun.wait(60)
        os.kill(os.getpid(), signal.SIGINT)

    keyboard = threading.Thread(target=ctrl_c)
    keyboard.start()
    with pytest.raises(KeyboardInterrupt):
        interruptible(long_work)
    assert not ended.is_set()
    end.set()
    keyboard.join()


def test_values_and_errors_come_through():
    assert interruptible(lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        interruptible(lambda: 1 // 0)


def test_other_threads_work_where_they_are():
    names: list[str] = []
    thread = threading.Thread(
        target=lambda: interruptible(lambda: names.append(threading.current_thread().name)), name="own"
    )
    thread.start()
    thread.join()
    assert names == ["own"]


def test_a_long_module_is_compiled_to_the_same_object(monkeypatch):
    text = "define double @f(double %x) {\n  %y = fadd double %x, 1.0\n  ret double %y\n}\n"
    plain = llvm.compile_text(text, runs(processor()))
    monkeypatch.setattr(llvm, "LONG", 0)
    assert llvm.compile_text(text, runs(processor())) == plain


@tp.hamiltonian
def well(q, p):
    return p**2 / 2 + q**4 / 4


def well_sim():
    return tp.compile(well, dt=0.1, method="leapfrog", backend="numpy")


@pytest.mark.parametrize(
    "measure",
    [
        pytest.param(lambda: well_sim().suggest_dt(q=1.0, p=0.0, error=1e-3), id="a step"),
        pytest.param(lambda: well_sim().lyapunov(q=1.0, p=0.0, steps=64), id="exponents"),
        pytest.param(lambda: tp.compile(well, error=1e-3, pilot={"q": 1.0, "p": 0.0}), id="a pilot"),
        pytest.param(lambda: tp.sample(well, q=0.0, draws=3, dt=0.1, steps=2), id="tuning"),
    ],
)
def test_ctrl_c_ends_a_measurement_and_not_only_the_run_inside_it(measure, monkeypatch):
    def pressed(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(loop, "advance_block", pressed)
    out = well_sim().evolve(q=1.0, p=0.0, steps=10)
    assert out.stopped.cause == "interrupted"  # what was asked for is handed out as far as it went
    with pytest.raises(KeyboardInterrupt):
        measure()
