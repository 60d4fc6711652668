"""The checks of a chain before it is submitted; whole command lines are in the tests of ``mirage submit``."""

from __future__ import annotations

import signal
import subprocess

import pytest

from mirage.agent.chain.spec_check import SIGNALS, default_grace_s, limit_s, signal_name
from mirage.duration import UNLIMITED_S
from mirage.errors import ConfigurationError


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("USR2", "USR2"), ("sigterm", "TERM"), ("none", ""), ("12", "12"), ("RTMIN", str(int(signal.SIGRTMIN))),
        ("SIGRTMIN+3", str(signal.SIGRTMIN + 3)), ("rtmax-1", str(signal.SIGRTMAX - 1)),
    ],
)  # fmt: skip
def test_signals(text: str, name: str) -> None:
    assert signal_name(text) == name


@pytest.mark.parametrize("text", ["NOSUCH", "", "0", "65", "-1", "RTMIN-1", "RTMAX+1", "WINCH", "USR2 TERM", "１"])
def test_signals_that_there_are_not(text: str) -> None:
    with pytest.raises(ConfigurationError, match="no such signal"):
        signal_name(text)


@pytest.mark.real_slurm
@pytest.mark.slow
def test_the_signals_are_those_of_the_real_scancel(private_cluster) -> None:
    environment = private_cluster(nodes=1, gpus=0).environment

    def is_known(name: str) -> bool:
        done = subprocess.run(["scancel", "-s", name, "1"], env=environment, capture_output=True, text=True)
        assert ("Unknown job signal" in done.stderr) != ("Invalid job id" in done.stderr), done.stderr
        return "Invalid job id" in done.stderr

    names = {sign.name.removeprefix("SIG") for sign in signal.Signals} - {"RTMIN", "RTMAX"}
    assert {name for name in names if is_known(name)} == set(SIGNALS)
    assert is_known(signal_name("RTMIN+1"))
    assert is_known(signal_name("64"))


@pytest.mark.parametrize(
    ("time", "seconds"),
    [(None, None), ("5", 300), ("0:30", 60), ("1:30", 120), ("0", UNLIMITED_S), ("INFINITE", UNLIMITED_S)],
)
def test_limits_are_read_as_sbatch_reads_them(time: str | None, seconds: int | None) -> None:
    assert limit_s({} if time is None else {"time": time}) == seconds


def test_the_grace_is_a_quarter_of_a_short_limit() -> None:
    assert [default_grace_s(limit) for limit in (None, 60, 480, 481, UNLIMITED_S)] == [120, 15, 120, 120, 120]
