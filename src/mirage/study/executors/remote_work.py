"""A shared folder through which remote jobs receive pieces of work and return results."""

from __future__ import annotations

import shlex
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from mirage.atomic_file import write_atomically
from mirage.errors import ConfigurationError, SlurmError
from mirage.study.executors.executor import Piece, Result, Setup, split_evenly
from mirage.study.executors.work_codec import decode, encode

POLL_S = 1.0
"""Interval between two polls for results."""

PATIENCE_S = 90.0
"""Time a result may take to appear: network file systems show new files late."""

GONE_S = 900.0
"""Time without a heartbeat after which the caller counts as gone: killed, or its machine lost."""

_CALL, _WORK, _WAITED_FOR, _BEGUN, _RESULT, _ENDED = "call-", "work", "waited-for", ".begun", ".result", ".ended"


@dataclass(frozen=True, slots=True)
class RemoteWork:
    """The remote work of one call of an executor.

    Attributes:
        folder: Folder of this call only.
        n: Number of pieces.
        sleep: Sleeps for a number of seconds.
        clock: A monotonic clock, in seconds.
    """

    folder: Path
    n: int
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic

    @classmethod
    def create(
        cls,
        around: Path,
        begin: Callable[[Setup], Callable[[Piece], Result]],
        setup: Setup,
        pieces: Sequence[Piece],
        sleep: Callable[[float], None],
        clock: Callable[[], float],
    ) -> Self:
        """Creates a new folder that holds the work of one call.

        Args:
            around: The folder in which the new one is created.
            begin: See ``Executor``.
            setup: See ``Executor``.
            pieces: See ``Executor``.
            sleep: Sleeps for a number of seconds.
            clock: A monotonic clock, in seconds.

        Raises:
            ConfigurationError: The folder cannot be written, or the work cannot be sent.
        """
        content = encode((begin, setup, list(pieces)))
        try:
            around.mkdir(parents=True, exist_ok=True)
            folder = Path(tempfile.mkdtemp(prefix=_CALL, dir=around)).resolve()
            write_atomically(folder / _WORK, content)
            (folder / _WAITED_FOR).touch()
        except OSError as error:
            raise ConfigurationError(f"cannot write the work to {around}: {error.strerror}") from error
        return cls(folder, len(pieces), sleep, clock)

    def results(self, all_over: Callable[[], bool]) -> Iterator[Any]:
        """Yields the result of each piece as it arrives.

        Args:
            all_over: Returns whether all jobs have ended; raises the error they failed with.

        Raises:
            SlurmError: The jobs failed, or ended without all results; results that had arrived were yielded before.
            ConfigurationError: The file of a result was damaged or changed.
        """
        awaited, over_s = set(range(self.n)), None
        while awaited:
            (self.folder / _WAITED_FOR).touch()
            failed: SlurmError | None = None
            try:
                is_over = all_over()  # before reading results: a job that has ended has written its results
            except SlurmError as error:
                failed, is_over = error, True
            for k in sorted(awaited & self._finished()):
                yield _read(self._result_path(k))
                awaited.remove(k)
            if failed is not None:
                raise failed
            if awaited and is_over:
                over_s = self.clock() if over_s is None else over_s
                if self.clock() - over_s > PATIENCE_S:
                    raise SlurmError(
                        f"all jobs or tasks have ended, but {len(awaited)} of {self.n} pieces have no result in "
                        f"{self.folder}: they were cancelled, or the folder is not shared with them. Run the same "
                        "command again: finished work is stored"
                    )
            if awaited:
                self.sleep(POLL_S)

    def abandon(self) -> None:
        """Removes the heartbeat: jobs of this call end before their next piece."""
        with suppress(OSError):
            (self.folder / _WAITED_FOR).unlink()

    def remove(self) -> None:
        """Removes the folder, and those of calls that have lost their caller."""
        now_s = _touched_s(self.folder / _WORK)
        shutil.rmtree(self.folder, ignore_errors=True)
        for other in self.folder.parent.glob(f"{_CALL}*"):
            if not _is_waited_for(other, now_s):
                shutil.rmtree(other, ignore_errors=True)
        with suppress(OSError):
            self.folder.parent.rmdir()

    def command(self, part: int, parts: int) -> list[str]:
        """The command of the job or task that does one of several parts."""
        return [sys.executable, "-m", __name__, str(self.folder), str(self.n), str(parts), str(part)]

    def array_command(self, parts: int) -> str:
        """The shell command of all jobs of an array; the index of a job is the number of its part."""
        return f'exec {shlex.join(self.command(0, parts)[:-1])} "$SLURM_ARRAY_TASK_ID"'

    def error_of(self, part: int) -> str | None:
        """The error of a job or task in one line.

        It is empty if the part was done, and None if the job or task has not ended by itself.
        """
        try:
            return (self.folder / f"{part}{_ENDED}").read_text(encoding="utf-8")
        except FileNotFoundError:
            return None

    def do_part(self, part: int, parts: int) -> None:
        """Does one of several parts of the pieces, and leaves an error for ``error_of``."""
        error_line = ""
        try:
            self.do(split_evenly(range(self.n), parts)[part])
        except BaseException as error:
            error_line = traceback.format_exception_only(error)[-1].splitlines()[0]
            raise
        finally:
            write_atomically(self.folder / f"{part}{_ENDED}", error_line.encode("utf-8", "replace"))

    def do(self, part: Sequence[int]) -> None:
        """Does some pieces, by number; pieces that have a result are skipped."""
        begin, setup, pieces = _read(self.folder / _WORK)
        do_piece: Callable[[Any], Any] | None = None
        for k in part:
            if self._result_path(k).exists():
                continue
            if not _is_waited_for(self.folder, _touched_s(self.folder / f"{k}{_BEGUN}")):
                return
            do_piece = do_piece or begin(setup)
            write_atomically(self._result_path(k), encode(do_piece(pieces[k])))

    def _result_path(self, k: int) -> Path:
        return self.folder / f"{k}{_RESULT}"

    def _finished(self) -> set[int]:
        """Numbers of the pieces that have a result."""
        return {int(path.stem) for path in self.folder.glob(f"[0-9]*{_RESULT}")}


def _touched_s(path: Path) -> float:
    """The present time of the file system; clocks of machines differ, and this one is shared."""
    path.touch()
    return path.stat().st_mtime


def _is_waited_for(folder: Path, now_s: float) -> bool:
    """Whether a caller still waits for the results in a folder."""
    try:
        return now_s - (folder / _WAITED_FOR).stat().st_mtime < GONE_S
    except FileNotFoundError:
        return False


def _read(path: Path) -> Any:
    return decode(path.read_bytes(), path)


if __name__ == "__main__":
    folder, n, parts, part = sys.argv[1:]
    RemoteWork(Path(folder), int(n)).do_part(int(part), int(parts))
