"""Patience is in real seconds."""

import subprocess
import sys
import time

import pytest

from mirage.lab.real.slurm_packages import faketime_library
from mirage.real_time import on_this_clock_s, wait_until

WAIT = "from mirage.real_time import wait_until; assert not wait_until(lambda: False, 1.5)"


def test_a_condition_that_holds_is_not_waited_for():
    began_s = time.monotonic()
    assert wait_until(lambda: True, 0)
    assert time.monotonic() - began_s < 5


def test_a_condition_that_comes_true_ends_the_wait():
    tries = iter([False, False, True])
    assert wait_until(lambda: next(tries), 20)


@pytest.mark.slow
def test_a_compressed_clock_does_not_shorten_it():
    library = faketime_library()
    if library is None:
        pytest.skip("there is no libfaketime; apt-get install libfaketime")
    environment = {"LD_PRELOAD": str(library), "FAKETIME": "+0 x60", "PYTHONPATH": ":".join(sys.path)}
    began_s = time.monotonic()
    subprocess.run([sys.executable, "-c", WAIT], env=environment, check=True, timeout=60)
    assert time.monotonic() - began_s >= 1.4


def test_a_time_out_on_a_compressed_clock_is_so_much_longer(monkeypatch):
    library = "/lib/libfaketimeMT.so.1"
    for preload, rate, expected in (("", "+0 x60", 5), (library, "+0 x60", 300), (library, "-1h", 5)):
        monkeypatch.setenv("LD_PRELOAD", preload)
        monkeypatch.setenv("FAKETIME", rate)
        assert on_this_clock_s(5) == expected
