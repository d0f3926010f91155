"""Does Ctrl-C end work in C, and does all else pass through?"""

from __future__ import annotations

import os
import signal
import threading

import pytest

from tinyphysics.device.host import llvm
from tinyphysics.device.host.interruptible import interruptible
from tinyphysics.device.host.processor import processor, runs


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
