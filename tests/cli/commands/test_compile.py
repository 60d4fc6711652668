"""``mirage compile``, and what other commands say when they must compile."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mirage.cli.first_compile import FirstCompilation

MIRAGE = [sys.executable, "-c", "import sys; from mirage.cli import main; sys.exit(main())"]
SWF = "; Version: 2.2\n1 100 20 60 4 -1 -1 4 600 -1 1 7 2 9 1 5 -1 -1\n"


def mirage(cache: Path, *words: str, text: str = "") -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")}
    environment["XDG_CACHE_HOME"] = str(cache)
    return subprocess.run([*MIRAGE, *words], env=environment, input=text, capture_output=True, text=True, check=False)


def test_check_says_that_there_is_something_to_compile_and_compiles_nothing(tmp_path: Path) -> None:
    found = mirage(tmp_path, "compile", "--check")
    assert found.returncode == 1
    assert found.stdout.startswith("not compiled: engine, what-if, ")
    assert found.stderr == ""
    assert not (tmp_path / "mirage" / "kernels").exists()


def test_an_unknown_discipline_is_refused_with_those_there_are(tmp_path: Path) -> None:
    found = mirage(tmp_path, "compile", "esay")
    assert found.returncode == 1
    assert "esay" in found.stderr
    assert "easy" in found.stderr


@pytest.mark.slow
def test_after_compiling_there_is_nothing_to_compile(tmp_path: Path) -> None:
    """One discipline only, as all of them take twice as long."""
    simulate = ("simulate", "-", "--format", "swf", "--processors", "4", "--discipline", "fcfs", "--json")
    done = mirage(tmp_path, "compile", "fcfs")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("compiled in ")
    assert str(tmp_path / "mirage" / "kernels") in done.stdout
    entries = set((tmp_path / "mirage" / "kernels").iterdir())
    assert mirage(tmp_path, "compile", "--check", "fcfs").returncode == 0
    found = mirage(tmp_path, *simulate, text=SWF)
    assert (found.returncode, found.stderr) == (0, "")
    assert set((tmp_path / "mirage" / "kernels").iterdir()) == entries


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_shows_how_far_it_is_and_is_left_clean() -> None:
    stream = Terminal()
    say = FirstCompilation(stream)
    say("mirage.sim.kernel.engine.advance")
    say("mirage.sim.kernel.engine.happen")
    assert stream.getvalue().split("\r")[-1].endswith(": 2 kernels")
    say(None)
    assert stream.getvalue().endswith("\r\033[K")


def test_elsewhere_one_line_is_enough() -> None:
    stream = io.StringIO()
    say = FirstCompilation(stream)
    for kernel in ("advance", "happen", None, "copy_state", None):
        say(kernel)
    assert stream.getvalue().count("\n") == 1
    assert stream.getvalue().startswith("mirage: compiling the simulator, once (about a minute")
