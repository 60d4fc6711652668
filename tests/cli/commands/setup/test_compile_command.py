"""``mirage compile``, and what other commands print when they must compile."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest
from click.testing import CliRunner

from mirage.cache_folder import cache_folder
from mirage.cli import FirstCompilation, main
from mirage.cli.commands.setup.compile_command import compile_kernels
from mirage.duration import DAY_S
from mirage.extras import install

MIRAGE = [sys.executable, "-c", "import sys; from mirage.cli import main; sys.exit(main())"]
SWF = "; Version: 2.2\n1 100 20 60 4 -1 -1 4 600 -1 1 7 2 9 1 5 -1 -1\n"


def mirage(cache: Path, *words: str, text: str = "") -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")}
    environment["XDG_CACHE_HOME"] = str(cache)
    return subprocess.run([*MIRAGE, *words], env=environment, input=text, capture_output=True, text=True, check=False)


def test_check_reports_that_there_is_something_to_compile_and_compiles_nothing(tmp_path: Path) -> None:
    found = mirage(tmp_path, "compile", "--check")
    assert found.returncode == 1
    assert found.stdout.startswith("not compiled: engine, schedule, dag, what-if, ")
    assert found.stderr == ""
    assert not (tmp_path / "mirage" / "kernels").exists()


def test_a_cache_that_cannot_be_written_is_refused_before_anything_is_compiled(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    found = mirage(tmp_path / "file", "compile", "fcfs")
    assert (found.returncode, found.stdout) == (1, "")
    assert found.stderr.startswith("mirage: error: compiled kernels cannot be stored in ")
    assert f"{tmp_path}/file/mirage/kernels; set NUMBA_CACHE_DIR" in found.stderr


def test_an_unknown_part_is_refused_with_those_there_are(tmp_path: Path) -> None:
    found = mirage(tmp_path, "compile", "esay")
    assert found.returncode == 1
    assert "unknown part 'esay'. Did you mean 'easy'?" in found.stderr
    assert "schedule" in found.stderr


@pytest.mark.parametrize(
    ("room", "package", "reported"),
    [
        ("schedule", "scipy", f"schedule: without sia, sia-plus, gavel, which need scipy: {install('schedule')}"),
        ("dag", "torch", f"dag: without mirage train decima, which needs torch: {install('learn')}"),
    ],
)
def test_what_needs_a_package_that_is_not_there_is_left_out_and_reported(
    room: str, package: str, reported: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ahead = import_module(f"mirage.{room}.compile_{room}")
    used: list[str] = []
    monkeypatch.setattr(ahead, "find_spec", lambda name: None if name == package else find_spec(name))
    monkeypatch.setattr(ahead, "use", lambda: used.append(ahead.left_out()))
    done = CliRunner().invoke(compile_kernels, [room])
    assert (done.exit_code, len(used)) == (0, 1)
    assert done.stderr.startswith(reported)
    monkeypatch.undo()
    assert ahead.left_out() == "" or find_spec(package) is None


@pytest.fixture
def partly_filled(tmp_path: Path) -> Path:
    """A cache, a day old, of what fcfs needs but for its own kernels; all would take a minute."""
    (tmp_path / "before").touch()
    before_ns = (tmp_path / "before").stat().st_mtime_ns
    mirage(cache_folder().parent, "compile", "fcfs")
    folder = tmp_path / "mirage" / "kernels"
    folder.mkdir(parents=True)
    for entry in (cache_folder() / "kernels").glob("*.nb[ic]"):
        if entry.stat().st_mtime_ns >= before_ns and "disciplines.fcfs" not in entry.name:
            shutil.copy(entry, folder)
            os.utime(folder / entry.name, ns=(before_ns - DAY_S * 10**9,) * 2)
    return tmp_path


@pytest.mark.slow
def test_after_compiling_there_is_nothing_to_compile(partly_filled: Path) -> None:
    """Only what the command compiled or loaded remains for the simulation."""
    folder = partly_filled / "mirage" / "kernels"
    simulate = ("simulate", "-", "--format", "swf", "--processors", "4", "--discipline", "fcfs", "--json")
    assert mirage(partly_filled, "compile", "--check", "fcfs").returncode == 1
    done = mirage(partly_filled, "compile", "fcfs")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("compiled in ")
    assert str(folder) in done.stdout
    for entry in folder.iterdir():
        if entry.stat().st_mtime_ns < (partly_filled / "before").stat().st_mtime_ns:
            entry.unlink()
    entries = set(folder.iterdir())
    assert mirage(partly_filled, "compile", "--check", "fcfs").returncode == 0
    found = mirage(partly_filled, *simulate, text=SWF)
    assert (found.returncode, found.stderr) == (0, "")
    assert set(folder.iterdir()) == entries


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_shows_how_far_it_is_and_is_left_clean() -> None:
    stream = Terminal()
    report = FirstCompilation(stream)
    report("mirage.sim.kernel.event_loop.advance")
    report("mirage.sim.kernel.event_loop.happen")
    assert stream.getvalue().split("\r")[-1].endswith(": 2 kernels")
    report(None)
    assert stream.getvalue().endswith("\r\033[K")


def test_elsewhere_one_line_is_enough() -> None:
    stream = io.StringIO()
    report = FirstCompilation(stream)
    for kernel in ("advance", "happen", None, "copy_state", None):
        report(kernel)
    assert stream.getvalue().count("\n") == 1
    assert stream.getvalue().startswith("mirage: compiling, once (up to a minute")


def test_an_installation_that_cannot_be_written_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "prefix", "/proc/nowhere")
    assert main(["compile", "--shared", "easy"]) == 1
    printed = capsys.readouterr().err
    assert "/proc/nowhere/share/mirage/kernels cannot be made" in printed
    assert printed.endswith("run this as the owner of the installation\n")
