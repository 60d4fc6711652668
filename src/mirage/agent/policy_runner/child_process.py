"""Policies in a child process: one that hangs or crashes cannot harm the agent.

A forecast needs a compiled simulator and two hundred megabytes; the agent, which runs for weeks on a login node, uses
them only while there is something to decide. The agent never waits for the child: a thread sends the questions, and
answers are taken from the connection when they are there.
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
from mirage.agent.policy_runner.site_knowledge import SiteKnowledge
from mirage.errors import MirageError
from mirage.policy.view import View
from mirage.process import die_with
from mirage.real_time import real_s, wait_until

PATIENCE_S = 240.0
"""Real seconds without any answer after which a policy call counts as failed."""

PAUSE_S = 0.02

NICE = 5
"""Other work of a shared host goes first; an answer must still come in time."""

SENDER_S = 5.0
"""The sending thread notices at once that the child is gone; nothing else may reuse the connection's number before."""


class ChildProcess:
    """Runs policies in a separate process, which ends when there is nothing to decide.

    Args:
        patience_s: Real seconds without any answer after which the process is ended.
        calibrations: The folder with the results of ``mirage calibrate --site``; None for none.
        compiles_first: Whether the simulator is compiled in advance by a process of its own; otherwise the first
            question that needs it compiles what is missing.
        forbidden: Why nothing may be compiled on this host; empty where it may.
    """

    def __init__(
        self,
        patience_s: float = PATIENCE_S,
        calibrations: Path | None = None,
        *,
        compiles_first: bool = True,
        forbidden: str = "",
    ) -> None:
        self.patience_s, self.calibrations, self.compiles_first = patience_s, calibrations, compiles_first
        self.compilation = Compilation(real_s, forbidden)
        self._open: dict[int, Question] = {}
        self._batches: list[tuple[Sequence[Question], Mapping[str, str], View]] = []
        self._sent: list[tuple[Question, Mapping[str, str], View]] = []
        self._last_answer_s = real_s()
        self._child: BaseProcess | None = None
        self._connection: Connection | None = None
        self._sender: threading.Thread | None = None
        self._outbox: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def request(self, questions: Sequence[Question], options: Mapping[str, str], view: View) -> None:
        """Send questions in the background; see ``PolicyRunner``."""
        if self.compilation.forbidden and any(_is_compiled(question.request.policy) for question in questions):
            self.compilation.begin()
        if not self._open:
            self._last_answer_s = real_s()
        self._open |= {question.chain: question for question in questions}
        self._batches.append((questions, dict(options), view))
        self._send()

    def answers(self, wait_s: float) -> list[Answer]:
        """The answers that have arrived; see ``PolicyRunner``."""
        found: list[Answer] = []

        def settled() -> bool:
            found.extend(self._arrived())
            return not self._open

        wait_until(settled, wait_s, PAUSE_S)
        return found

    def prepare(self, policies: Sequence[str]) -> None:
        """Compile the simulator in the background if one of the policies runs it."""
        if self.compiles_first and any(_is_compiled(policy) for policy in policies):
            self.compilation.begin()

    def excuse(self) -> str:
        """The compilation, if it is under way; see ``PolicyRunner``."""
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

    def _not_compiled(self) -> list[Answer]:
        """The failure of questions that need what may not be compiled on this host."""
        if not self.compilation.missing:
            return []
        failed = [
            question
            for questions, _, _ in self._batches
            for question in questions
            if _is_compiled(question.request.policy) and self._open.pop(question.chain, None) is not None
        ]
        self._batches = [
            ([question for question in questions if question not in failed], options, view)
            for questions, options, view in self._batches
        ]
        return [Answer(question.chain, None, self.compilation.forbidden, question.number) for question in failed]

    def _send(self) -> None:
        """Send the questions that wait, except those that need a compilation under way."""
        compiling = bool(self._batches) and (self.compilation.is_under_way() or self.compilation.missing)
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
                self._last_answer_s = real_s()

    def _arrived(self) -> list[Answer]:
        """The answers on the connection, and a failure where the child is gone or silent."""
        found = self._not_compiled()
        self._send()
        if self._connection is None or not self._open:
            return found
        try:
            while self._connection.poll(0):
                answer = self._connection.recv()
                self._last_answer_s = real_s()
                self._sent = [one for one in self._sent if not _is_about(answer, one[0])]
                question = self._open.get(answer.chain)
                if question is not None and _is_about(answer, question):
                    del self._open[answer.chain]
                    found.append(answer)
        except (OSError, EOFError):
            return found + self._give_up(f"its process ended with status {self._end()}")
        if self._open and not self._batches and real_s() - self._last_answer_s > self.patience_s:
            self._end()
            return found + self._give_up(f"no answer within {self.patience_s:g} s")
        return found

    def _give_up(self, why: str) -> list[Answer]:
        """The failure of the question in progress; the others go to another process."""
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
        self._connection, theirs = context.Pipe()
        self._child = context.Process(target=answer_all, args=(theirs, os.getpid(), self.calibrations), daemon=True)
        self._child.start()
        theirs.close()
        self._outbox = queue.SimpleQueue()
        self._sender = threading.Thread(target=_send_all, args=(self._outbox, self._connection), daemon=True)
        self._sender.start()

    def _end(self) -> int | None:
        """End the child; its status, None where there was none."""
        if self._child is None or self._connection is None:
            return None
        self._outbox.put(None)
        if not wait_until(lambda: not _lives(self._child), 0.0):
            self._child.kill()
        self._child.join()
        if self._sender is not None:
            self._sender.join(SENDER_S)
        status = self._child.exitcode
        self._child.close()
        self._connection.close()
        self._child = self._connection = None
        return status


def _is_about(answer: Answer, question: Question) -> bool:
    return (answer.chain, answer.number) == (question.chain, question.number)


def _is_compiled(policy: str) -> bool:
    """Whether a policy runs the compiled simulator; False for an unknown one."""
    try:
        return simulates(policy)
    except MirageError:
        return False


def _lives(child: BaseProcess | None) -> bool:
    return child is not None and child.is_alive()


def _send_all(outbox: queue.SimpleQueue[Any], connection: Connection) -> None:
    """Send batches, each view once; only this thread waits for a child that compiles."""
    shown: View | None = None
    while (batch := outbox.get()) is not None:
        questions, options, view = batch
        try:
            connection.send((questions, options, view if view is not shown else None))
        except (OSError, ValueError):
            return  # the child is gone, which the reader of the connection will notice
        shown = view


def answer_all(connection: Connection, parent: int, calibrations: Path | None) -> None:
    """The child process: answers until its connection is closed, or its parent is gone."""
    die_with(parent)
    os.nice(NICE)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the agent, which then ends us
    runner, view = InProcess(site=SiteKnowledge(calibrations)), None
    while True:
        try:
            questions, options, shown = connection.recv()
        except (EOFError, OSError):
            return
        view = shown if shown is not None else view
        assert view is not None
        for question in questions:
            connection.send(runner.answer(question, options, view))
