"""Ctrl-C while a kernel is loaded."""

from __future__ import annotations

import ctypes
import signal
import time

import pytest
from llvmlite.binding.executionengine import ExecutionEngine

from mirage.kernel.load_interrupts import _CALLED_FROM_C, interrupts_while_loading


def interrupted_in_a_callback() -> None:
    def _raw_object_cache_notify() -> None:
        signal.raise_signal(signal.SIGINT)

    ctypes.CFUNCTYPE(None)(_raw_object_cache_notify)()
    time.sleep(20)
    pytest.fail("not interrupted")


def interrupted() -> None:
    signal.raise_signal(signal.SIGINT)
    pytest.fail("not interrupted at once")


@pytest.mark.parametrize("body", [interrupted_in_a_callback, interrupted])
def test_an_interrupt_is_not_dropped(body) -> None:
    assert callable(getattr(ExecutionEngine, _CALLED_FROM_C))
    with pytest.raises(KeyboardInterrupt), interrupts_while_loading():
        body()
    assert signal.getsignal(signal.SIGINT) == signal.default_int_handler
