"""Files of a calibration: one attempt at a time, its outcome, and the last good file."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from mirage.atomic_file import write_atomically
from mirage.calibration.site.calibration_files import DONE, FAILED, REFUSED, CalibrationAttempt, CalibrationFiles
from mirage.errors import ConfigurationError, MirageError, SlurmUnreachable, TraceError

HERE = "polaris@ctl1:6817"


@pytest.fixture
def place(tmp_path: Path) -> CalibrationFiles:
    return CalibrationFiles(tmp_path / "calibration", HERE)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_nothing_is_made_before_the_first_attempt(place: CalibrationFiles) -> None:
    assert place.attempt() is None
    assert not place.folder.exists()


def test_clusters_have_files_of_their_own_inside_the_folder(place: CalibrationFiles, tmp_path: Path) -> None:
    assert place.file.name == "polaris@ctl1-6817.toml"
    others = [CalibrationFiles(tmp_path, name).file for name in (HERE, "a/b@../c:1", "@:", "")]
    assert {path.parent for path in others} == {tmp_path}
    assert len(set(others)) == 4


def test_an_attempt_notes_when_it_began_and_what_became_of_it(place: CalibrationFiles) -> None:
    times_s = iter((100.7, 250.2))
    with place.attempting(lambda: next(times_s)):
        assert place.attempt() == CalibrationAttempt(100)
    assert place.attempt() == CalibrationAttempt(100, 250, DONE, "")


@pytest.mark.parametrize(
    ("error", "outcome", "why"),
    [
        (ConfigurationError("only your own"), REFUSED, "only your own"),
        (TraceError("no job ran"), REFUSED, "no job ran"),
        (SlurmUnreachable("no answer", "down"), FAILED, "no answer: down"),
        (MemoryError(), FAILED, "MemoryError: "),
        (KeyboardInterrupt(), FAILED, "KeyboardInterrupt: "),
    ],
)
def test_a_refusal_is_distinguished_from_a_failure(
    place: CalibrationFiles, error: BaseException, outcome: str, why: str
) -> None:
    with pytest.raises(type(error)), place.attempting(lambda: 7):
        raise error
    assert place.attempt() == CalibrationAttempt(7, 7, outcome, why)


def test_only_its_owner_may_read(place: CalibrationFiles) -> None:
    before = os.umask(0)
    try:
        with place.attempting(lambda: 7):
            pass
    finally:
        os.umask(before)
    assert mode(place.folder) == 0o700
    assert {mode(path) for path in place.folder.iterdir()} == {0o600}


def test_a_second_attempt_is_refused_while_the_first_is_under_way_and_leaves_no_trace(place: CalibrationFiles) -> None:
    with place.attempting(lambda: 7):
        with pytest.raises(ConfigurationError, match="polaris@ctl1:6817 is being calibrated by another process"):
            place.attempting(lambda: 9).__enter__()
        assert place.attempt() == CalibrationAttempt(7)
        with CalibrationFiles(place.folder, "other@x:1").attempting(lambda: 8):
            pass
    with place.attempting(lambda: 10):
        pass


DYING = """
import os, signal, sys
from pathlib import Path
from mirage.calibration.site.calibration_files import CalibrationFiles
place = CalibrationFiles(Path(sys.argv[1]), {here!r})
with place.attempting(lambda: 1000):
    (place.folder / f".{{place.file.name}}.1.part").write_text("half a")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_kill_9_leaves_the_last_good_file_an_unended_attempt_and_no_lock(place: CalibrationFiles) -> None:
    place.folder.mkdir()
    write_atomically(place.file, b"good", 0o600)
    words = [sys.executable, "-c", textwrap.dedent(DYING.format(here=HERE)), str(place.folder)]
    assert subprocess.run(words, check=False).returncode == -signal.SIGKILL
    assert place.attempt() == CalibrationAttempt(1000)
    with place.attempting(lambda: 2000):
        assert place.file.read_bytes() == b"good"
        assert list(place.folder.glob("*.part")) == []
        assert list(place.folder.glob(".*.part")) == [], "what was half written is tidied away"


@pytest.mark.parametrize("text", ["", "{", "[]", '{"began": 1}', "\xff"])
def test_an_attempt_that_cannot_be_read_is_none(place: CalibrationFiles, text: str) -> None:
    with place.attempting(lambda: 7):
        pass
    (path,) = place.folder.glob("*.attempt.json")
    path.write_bytes(text.encode("latin-1"))
    assert place.attempt() is None


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(MirageError, match=r"cannot write in .*file/calibration.* with MIRAGE_HOME"):
        CalibrationFiles(tmp_path / "file" / "calibration", HERE).attempting(lambda: 7).__enter__()
