"""A folder through which work elsewhere is told of and answered, piece by piece; one that all machines see."""

from __future__ import annotations

import pickle  # noqa: TID251 – what this command itself has written, or had written
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from mirage.errors import ConfigurationError, SlurmError
from mirage.executors.executor import Made, Piece, Result
from mirage.whole_file import write_whole

POLL_S = 1.0
"""How often answers are looked for."""

PATIENCE_S = 90.0
"""How long an answer may be on its way: file systems of networks show new files late."""

GONE_S = 900.0
"""After how long without a sign whoever waits is taken to be gone: killed, or its machine lost."""

_CALL, _TOLD, _WAITED_FOR, _BEGUN, _ANSWER = "call-", "told", "waited-for", ".begun", ".answer"


@dataclass(frozen=True, slots=True)
class Answers:
    """What is done elsewhere for one call of an executor.

    Attributes:
        folder: Of this call alone.
        n: How many pieces there are.
        sleep: Passes some seconds.
        clock: Seconds that only grow.
    """

    folder: Path
    n: int
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic

    @classmethod
    def asked(
        cls,
        around: Path,
        begin: Callable[[Made], Callable[[Piece], Result]],
        made_of: Made,
        pieces: Sequence[Piece],
        sleep: Callable[[float], None],
        clock: Callable[[], float],
    ) -> Self:
        """A new folder that says what is to be done.

        Args:
            around: The folder in which it is made.
            begin: As ``Executor`` says.
            made_of: The same.
            pieces: The same.
            sleep: Passes some seconds.
            clock: Seconds that only grow.

        Raises:
            ConfigurationError: It cannot be written.
        """
        try:
            around.mkdir(parents=True, exist_ok=True)
            folder = Path(tempfile.mkdtemp(prefix=_CALL, dir=around)).resolve()
            write_whole(folder / _TOLD, pickle.dumps((begin, made_of, list(pieces))))
            (folder / _WAITED_FOR).touch()
        except OSError as error:
            raise ConfigurationError(f"cannot write what is to be done into {around}: {error.strerror}") from error
        return cls(folder, len(pieces), sleep, clock)

    def gathered(self, all_over: Callable[[], bool]) -> Iterator[Any]:
        """The result of each piece, as it is answered.

        Args:
            all_over: Looks whether all who do the work have ended; raises what they failed with.

        Raises:
            SlurmError: They failed, or ended without all answers; those that had come were handed over before.
        """
        awaited, over_s = set(range(self.n)), None
        while awaited:
            (self.folder / _WAITED_FOR).touch()
            failed: SlurmError | None = None
            try:
                is_over = all_over()  # before a look at the answers: who has ended has answered
            except SlurmError as error:
                failed, is_over = error, True
            for k in sorted(awaited & self._answered()):
                yield pickle.loads(self._answer(k).read_bytes())
                awaited.remove(k)
            if failed is not None:
                raise failed
            if awaited and is_over:
                over_s = self.clock() if over_s is None else over_s
                if self.clock() - over_s > PATIENCE_S:
                    raise SlurmError(
                        f"all have ended, but {len(awaited)} of {self.n} pieces are not answered in {self.folder}: "
                        "they were cancelled, or that folder is not the same there. Run the same command again: what "
                        "is finished is kept"
                    )
            if awaited:
                self.sleep(POLL_S)

    def abandon(self) -> None:
        """Nobody waits any more: who works for this ends before the next piece."""
        with suppress(OSError):
            (self.folder / _WAITED_FOR).unlink()

    def remove(self) -> None:
        """Remove the folder, and beside it those of calls that nobody waits for any more."""
        now_s = _touched_s(self.folder / _TOLD)
        shutil.rmtree(self.folder, ignore_errors=True)
        for other in self.folder.parent.glob(f"{_CALL}*"):
            if not _is_waited_for(other, now_s):
                shutil.rmtree(other, ignore_errors=True)
        with suppress(OSError):
            self.folder.parent.rmdir()

    def answer(self, part: Sequence[int]) -> None:
        """Do some pieces, by number, elsewhere; those that are answered already are not done again."""
        begin, made_of, pieces = pickle.loads((self.folder / _TOLD).read_bytes())
        work: Callable[[Any], Any] | None = None
        for k in part:
            if self._answer(k).exists():
                continue
            if not _is_waited_for(self.folder, _touched_s(self.folder / f"{k}{_BEGUN}")):
                return
            work = work or begin(made_of)
            write_whole(self._answer(k), pickle.dumps(work(pieces[k])))

    def _answer(self, k: int) -> Path:
        return self.folder / f"{k}{_ANSWER}"

    def _answered(self) -> set[int]:
        """Numbers of the pieces that are answered."""
        return {int(path.stem) for path in self.folder.glob(f"[0-9]*{_ANSWER}")}


def _touched_s(path: Path) -> float:
    """Now, as the file system tells it: clocks of machines differ, and that is one for all."""
    path.touch()
    return path.stat().st_mtime


def _is_waited_for(folder: Path, now_s: float) -> bool:
    """Whether somebody waits for the answers in a folder."""
    try:
        return now_s - (folder / _WAITED_FOR).stat().st_mtime < GONE_S
    except FileNotFoundError:
        return False


def answer_part(folder: str, part: Sequence[int]) -> None:
    """Do some pieces of a call: what a job or a task runs."""
    Answers(Path(folder), 0).answer(part)
