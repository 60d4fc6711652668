"""Policies run in a child process that a policy may fill, stall or crash without harm to the agent.

A forecast needs a compiled simulator and two hundred megabytes; the agent, which lives for weeks on a login node, has
them only while there is something to decide. The agent never waits for the child: a thread sends the questions, and
answers are taken from the line when they are there.
"""

from __future__ import annotations

import multiprocessing
import os
import queue
import signal
import threading
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from mirage.agent.policy_runner.compilation import Compilation
from mirage.agent.policy_runner.in_process import InProcess
from mirage.agent.policy_runner.question import Answer, Question, simulates
from mirage.agent.policy_runner.site_limits import SiteLimits
from mirage.errors import MirageError
from mirage.patience import real_s, wait_until
from mirage.policy.view import View
from mirage.process import die_with

PATIENCE_S = 240.0
"""Real seconds without any answer after which a policy is given up."""

PAUSE_S = 0.02

LAST_WORDS_S = 5.0
"""The thread that sends sees at once that the child is gone; nothing else may get the number of its line before."""


class ChildProcess:
    """Runs policies in a process of its own, which ends when there is nothing to decide.

    Args:
        patience_s: Real seconds without any answer after which the process is ended.
        calibrations: The folder of what ``mirage calibrate --site`` has found; None where nobody looks.
    """

    def __init__(self, patience_s: float = PATIENCE_S, calibrations: Path | None = None) -> None:
        self.patience_s, self.calibrations = patience_s, calibrations
        self.compilation = Compilation(real_s)
        self._open: dict[int, Question] = {}
        self._batches: list[tuple[Sequence[Question], Mapping[str, str], View]] = []
        self._sent: list[tuple[Question, Mapping[str, str], View]] = []
        self._heard_s = real_s()
        self._child: BaseProcess | None = None
        self._line: Connection | None = None
        self._sender: threading.Thread | None = None
        self._outbox: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def ask(self, questions: Sequence[Question], options: Mapping[str, str], view: View) -> None:
        """As ``PolicyRunner`` says."""
        if not self._open:
            self._heard_s = real_s()
        self._open |= {question.chain: question for question in questions}
        self._batches.append((questions, dict(options), view))
        self._send()

    def answers(self, wait_s: float) -> list[Answer]:
        """As ``PolicyRunner`` says."""
        found: list[Answer] = []

        def settled() -> bool:
            found.extend(self._arrived())
            return not self._open

        wait_until(settled, wait_s, PAUSE_S)
        return found

    def prepare(self, policies: Sequence[str]) -> None:
        """Compile the simulator in the background if one of the policies runs it."""
        if any(_is_compiled(policy) for policy in policies):
            self.compilation.begin()

    def excuse(self) -> str:
        """As ``PolicyRunner`` says."""
        if self.compilation.is_under_way():
            return f"the simulator is being compiled, since {self.compilation.under_way_s():.0f} s"
        return ""

    def rest(self) -> None:
        """End the process, and forget open questions."""
        self._open.clear()
        self._batches.clear()
        self._sent.clear()
        self._end()

    def close(self) -> None:
        """End everything that was started."""
        self.rest()
        self.compilation.close()

    def _send(self) -> None:
        """Hand over the questions that wait, but for those that need what is still being compiled."""
        compiling = bool(self._batches) and self.compilation.is_under_way()
        batches, self._batches = self._batches, []
        for questions, options, view in batches:
            late = [question for question in questions if compiling and _is_compiled(question.request.policy)]
            if late:
                self._batches.append((late, options, view))
            if len(late) < len(questions):
                self._begin()
                ready = [question for question in questions if question not in late]
                self._outbox.put((ready, options, view))
                self._sent += [(question, options, view) for question in ready]
                self._heard_s = real_s()

    def _arrived(self) -> list[Answer]:
        """The answers on the line, and a failure where the child is gone or silent for long."""
        self._send()
        if self._line is None or not self._open:
            return []
        found: list[Answer] = []
        try:
            while self._line.poll(0):
                answer = self._line.recv()
                self._heard_s = real_s()
                self._sent = [one for one in self._sent if not _is_about(answer, one[0])]
                asked = self._open.get(answer.chain)
                if asked is not None and _is_about(answer, asked):
                    del self._open[answer.chain]
                    found.append(answer)
        except (OSError, EOFError):
            return found + self._give_up(f"its process ended with status {self._end()}")
        if self._open and not self._batches and real_s() - self._heard_s > self.patience_s:
            self._end()
            return found + self._give_up(f"no answer within {self.patience_s:g} s")
        return found

    def _give_up(self, why: str) -> list[Answer]:
        """The failure of the question that was being answered; the others are asked anew, of another process."""
        failed, others = [question for question, _, _ in self._sent[:1]], self._sent[1:]
        self._sent = []
        again = [one for one in others if self._open.get(one[0].chain) is one[0]]
        self._batches[:0] = [([question], options, view) for question, options, view in again]
        failed = [question for question in failed if self._open.get(question.chain) is question]
        for question in failed:
            del self._open[question.chain]
        return [Answer(question.chain, None, why, question.number) for question in failed]

    def _begin(self) -> None:
        if self._child is not None:
            return
        context = multiprocessing.get_context("spawn")
        self._line, theirs = context.Pipe()
        self._child = context.Process(target=answer_all, args=(theirs, os.getpid(), self.calibrations), daemon=True)
        self._child.start()
        theirs.close()
        self._outbox = queue.SimpleQueue()
        self._sender = threading.Thread(target=_send_all, args=(self._outbox, self._line), daemon=True)
        self._sender.start()

    def _end(self) -> int | None:
        """End the child; its status, None where there was none."""
        if self._child is None or self._line is None:
            return None
        self._outbox.put(None)
        if not wait_until(lambda: not _lives(self._child), 0.0):
            self._child.kill()
        self._child.join()
        if self._sender is not None:
            self._sender.join(LAST_WORDS_S)
        status = self._child.exitcode
        self._child.close()
        self._line.close()
        self._child = self._line = None
        return status


def _is_about(answer: Answer, question: Question) -> bool:
    return (answer.chain, answer.number) == (question.chain, question.number)


def _is_compiled(policy: str) -> bool:
    """Whether a policy runs the compiled simulator; an unknown one does not, which is told when it is asked."""
    try:
        return simulates(policy)
    except MirageError:
        return False


def _lives(child: BaseProcess | None) -> bool:
    return child is not None and child.is_alive()


def _send_all(outbox: queue.SimpleQueue[Any], line: Connection) -> None:
    """Send batches, each view once; a child that compiles reads late, and only this thread waits for it."""
    shown: View | None = None
    while (batch := outbox.get()) is not None:
        questions, options, view = batch
        try:
            line.send((questions, options, view if view is not shown else None))
        except (OSError, ValueError):
            return  # the child has gone, which whoever reads the line will see
        shown = view


def answer_all(line: Connection, parent: int, calibrations: Path | None) -> None:
    """The work of the child process: answer until its line is closed, or its parent is gone."""
    die_with(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the agent, which then ends us
    runner, view = InProcess(site=SiteLimits(calibrations)), None
    while True:
        try:
            questions, options, shown = line.recv()
        except (EOFError, OSError):
            return
        view = shown if shown is not None else view
        assert view is not None
        for question in questions:
            line.send(runner.answer(question, options, view))
