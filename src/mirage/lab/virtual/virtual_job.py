"""A job submitted to the simulated Slurm, with data that the simulator does not store."""

from __future__ import annotations

from dataclasses import dataclass, field

from mirage.job_state import MISSING, JobState
from mirage.lab.virtual.batch_request import BatchRequest, StartCondition
from mirage.lab.virtual.program import Program
from mirage.slurm.records import Submission
from mirage.slurm.sbatch_options import to_argv


@dataclass(slots=True)
class VirtualJob:
    """A job submitted to the simulated Slurm.

    Attributes:
        number: Slurm's number; the simulator counts from 0.
        limit_s: Its present limit.
        why_held: The reason that squeue shows while it is held.
        exits: Exit code and signal with which it ends, if it ends by itself.
        leaves: Whether it has been signalled to leave.
        outcome: ``UNKNOWN`` until it has ended.
        signals: Signals that it received, and their times.
        words_added: Number of its program's words that it has added.
    """

    number: int
    request: BatchRequest
    submission: Submission
    program: Program
    name: str
    comment: str
    partition: int
    limit_s: int
    submit_s: int
    wait: StartCondition
    held: bool
    why_held: str = "JobHeldUser"
    exits: tuple[int, int] = (0, 0)
    leaves: bool = False
    start_s: int = MISSING
    end_s: int = MISSING
    nodelist: str = ""
    outcome: JobState = JobState.UNKNOWN
    restarts: int = 0
    signals: list[tuple[int, str]] = field(default_factory=list)
    words_added: int = 0

    @property
    def over(self) -> bool:
        """Whether it has ended."""
        return self.outcome is not JobState.UNKNOWN

    @property
    def submit_line(self) -> str:
        """The sbatch command line that submitted it, as accounting stores it."""
        job = self.submission
        return " ".join(["sbatch", "--parsable", *to_argv(job.options), job.script, *job.arguments])

    def add_words(self, words: str) -> None:
        """Add words to its comment, as ``mirage link`` does."""
        head, bar, rest = self.comment.partition(" | ")
        self.comment = f"{head} {words}{bar}{rest}"

    def speak(self, now_s: int) -> None:
        """Add the words that its program has produced by now."""
        for after_s, words in self.program.words[self.words_added :]:
            if self.start_s == MISSING or self.start_s + after_s > min(now_s, now_s if not self.over else self.end_s):
                return
            self.words_added += 1
            self.add_words(words)

    def end(self, outcome: JobState, at_s: int, exits: tuple[int, int] = (0, 0)) -> None:
        """Record its end."""
        self.outcome, self.end_s, self.exits = outcome, at_s, exits
        self.wait, self.held = StartCondition(), False
