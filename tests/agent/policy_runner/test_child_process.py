"""Policies in a child process: the same plans as here, and no harm from faulty ones."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mirage.agent.policy_runner import compilation
from mirage.agent.policy_runner.child_process import ChildProcess
from mirage.agent.policy_runner.in_process import InProcess
from mirage.agent.policy_runner.question import Answer, Question
from mirage.duration import HOUR_S
from mirage.lab.real.cluster_processes import lives
from mirage.policy.view import View
from mirage.real_time import real_s
from tests.support.waiting import until

Requested, Answered = Callable[..., Question], Callable[..., Answer]

WAITED_S = 20.0
"""A child that never reads would be waited for far longer."""


def large(view: View) -> View:
    """A view of many megabytes, which no pipe holds."""
    repeated = {field.name: np.repeat(getattr(view.pending, field.name)[:1], 200_000) for field in fields(view.pending)}
    return replace(view, pending=replace(view.pending, **repeated))


def test_a_plan_is_the_same_here_and_aside(question: Requested, answer: Answered, aside: ChildProcess) -> None:
    here = InProcess()
    for left_s in (HOUR_S, 4 * HOUR_S, 7 * HOUR_S):
        for policy, cost in (("what-if:8", 1.0), ("lead:2", 1.0), ("average", 3.0)):
            requested = question(policy, left_s=left_s, cost=cost)
            assert answer(here, requested) == answer(aside, requested)


def test_a_request_does_not_wait_for_a_child_that_does_not_read(
    question: Requested, observed: View, aside: ChildProcess, ponder: Path
) -> None:
    aside.request([question(f"ponder:{ponder}", 1)], {}, observed)
    until(ponder.with_suffix(".begun").exists, 60, "the policy is asked")
    begun_s = real_s()
    for chain in (2, 3):
        aside.request([question("reactive", chain)], {}, large(observed))
    assert aside.answers(0.0) == []
    assert real_s() - begun_s < WAITED_S
    ponder.touch()
    assert [found.chain for found in aside.answers(60) if found.plan is not None] == [1, 2, 3]


def test_a_child_that_does_not_read_is_ended_at_once(
    question: Requested, observed: View, aside: ChildProcess, ponder: Path
) -> None:
    aside.request([question(f"ponder:{ponder}", 1)], {}, observed)
    until(ponder.with_suffix(".begun").exists, 60, "the policy is asked")
    aside.request([question("reactive", 2)], {}, large(observed))
    child, sender, begun_s = aside._child.pid, aside._sender, real_s()  # type: ignore[union-attr]
    aside.close()
    assert real_s() - begun_s < WAITED_S
    assert not lives(child)  # type: ignore[arg-type]
    assert not sender.is_alive()  # type: ignore[union-attr]


def test_an_answer_to_an_earlier_question_is_dropped(
    question: Requested, observed: View, aside: ChildProcess, ponder: Path
) -> None:
    aside.request([question(f"ponder:{ponder}", 1, number=1)], {}, observed)
    aside.request([question("nonsense", 1, number=2)], {}, observed)
    ponder.touch()
    (found,) = aside.answers(60)
    assert (found.number, found.plan) == (2, None)


def test_what_a_policy_raises_is_reported_and_the_next_is_queried(
    question: Requested, answer: Answered, aside: ChildProcess
) -> None:
    assert "UnknownName: unknown policy 'nonsense'" in answer(aside, question("nonsense")).failure
    assert answer(aside, question("reactive")).plan is not None


def test_a_policy_that_dies_fails_and_the_others_are_queried_anew(
    question: Requested, observed: View, aside: ChildProcess, ponder: Path
) -> None:
    requested = [question("reactive", 1, 4), question(f"ponder:{ponder}", 2, 5), question("reactive", 3, 6)]
    aside.request(requested, {}, observed)
    until(ponder.with_suffix(".begun").exists, 60, "the policy is asked")
    aside._child.kill()  # type: ignore[union-attr]
    found = aside.answers(60)
    assert [(one.chain, one.number) for one in found] == [(1, 4), (2, 5), (3, 6)]
    assert [one.failure for one in found] == ["", "its process ended with status -9", ""]


def test_a_policy_that_stalls_fails_and_the_others_are_queried_anew(
    question: Requested, answer: Answered, observed: View, aside: ChildProcess, ponder: Path
) -> None:
    answer(aside, question("reactive"))
    aside.patience_s = 6.0  # a new child answers within it, also on a busy machine
    aside.request([question(f"ponder:{ponder}", 2), question("reactive", 3)], {}, observed)
    assert [(one.chain, one.failure) for one in aside.answers(60)] == [(2, "no answer within 6 s"), (3, "")]


def test_its_memory_is_given_back_when_there_is_nothing_to_decide(
    question: Requested, answer: Answered, aside: ChildProcess
) -> None:
    answer(aside, question("reactive"))
    number = aside._child.pid  # type: ignore[union-attr]
    aside.rest()
    with pytest.raises(ProcessLookupError):
        os.kill(number, 0)  # type: ignore[arg-type]
    aside.rest()


AGENT = """
    import sys
    import numpy as np
    from mirage.agent.policy_runner.child_process import ChildProcess
    from mirage.agent.policy_runner.question import PolicyRequest, Question
    from mirage.policy.view import ChainView, Ended, Nodes, QueueJobs, View

    if __name__ == "__main__":
        no_jobs = [np.zeros(0, np.int64)] * 17
        nodes = Nodes(True, np.zeros((1, 2), np.int64), np.zeros((1, 2), np.int64), np.ones((1, 1), bool))
        view = View(0, nodes, QueueJobs(*no_jobs), QueueJobs(*no_jobs), QueueJobs(*no_jobs), Ended.nothing())
        runner = ChildProcess()
        chain = ChainView(1, 60, -1, 0, 0, 60, 60)
        runner.request([Question(1, PolicyRequest(sys.argv[1], 1.0, 1.0), chain)], {}, view)
        print(runner._child.pid, flush=True)
        sys.stdin.readline()
"""


def test_the_child_dies_with_an_agent_that_is_killed(tmp_path: Path, ponder: Path) -> None:
    (tmp_path / "agent.py").write_text(textwrap.dedent(AGENT))
    words = [sys.executable, str(tmp_path / "agent.py"), f"ponder:{ponder}"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as agent:
        number = int(agent.stdout.readline())  # type: ignore[union-attr]
        try:
            until(ponder.with_suffix(".begun").exists, 60, "it thinks, and reads nothing")
            assert lives(number)
            agent.kill()
            agent.wait()
            until(lambda: not lives(number), 10, "it dies")
        finally:
            if lives(number):
                os.kill(number, signal.SIGKILL)


def test_only_questions_about_the_simulator_wait_for_its_compilation(
    question: Requested,
    observed: View,
    slurm: Any,
    aside: ChildProcess,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done = tmp_path / "compiled"
    monkeypatch.setattr(compilation, "COMMAND", ("sh", "-c", f"until test -e {done}; do sleep 0.02; done"))
    aside.prepare(["reactive", "nonsense"])
    assert aside.excuse() == ""
    aside.prepare(["reactive", "what-if:2"])
    assert aside.excuse().startswith("the simulator is being compiled, since ")
    aside.patience_s = 0.0
    aside.request([question("what-if:2", 1, 7), question("reactive", 2, 8)], slurm.configuration(), observed)
    found: list[Answer] = []
    until(lambda: bool(found.extend(aside.answers(0.0)) or found), 60, "an answer")
    assert [(one.chain, one.plan is not None) for one in found] == [(2, True)]
    assert aside.answers(0.1) == []
    aside.patience_s = 240.0
    done.touch()
    (last,) = aside.answers(120)
    assert (last.chain, last.number, last.plan is not None) == (1, 7, True)
    assert aside.excuse() == ""
