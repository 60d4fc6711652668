"""The output of failed links: what is read, what follows from it, and files that hang."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mirage.agent.failure import output_reading
from mirage.agent.failure.output_reading import GIVE_UP_S, OutputReadings, is_failure
from mirage.agent.model import ChainSpec, ChainState, Link
from mirage.agent.settings import AgentSettings
from mirage.job_state import MISSING, JobState
from mirage.slurm.records import Submission
from tests.support.one_chain import MACHINE, OneChain, ended


def failed(**known: Any) -> Link:
    return replace(ended(1, JobState.FAILED, started_s=5_000, ended_s=5_004), **{"nodelist": "n1", **known})


class Readings:
    """A chain with a failed link, its files, and the agent's folder."""

    def __init__(self, folder: Path, link: Link | None = None, options: dict[str, str | None] | None = None) -> None:
        (folder / "home").mkdir()
        (folder / "job.sh").write_text("#!/bin/sh\n#SBATCH --output=%x-%j.log\n")
        submission = Submission(str(folder / "job.sh"), options or {}, directory=str(folder))
        self.folder, self.link = folder, link or failed()
        self.world = OneChain(self.link, submission=submission)
        self.world.context.machine = MACHINE
        self.readings = OutputReadings(folder / "home")

    def write(self, text: str, name: str = "job.sh-101.log") -> None:
        (self.folder / name).write_text(text)

    def update(self, *more: Link) -> list[tuple[int, str, str]]:
        chain = self.readings.update(self.world.context, self.world.chain, [self.link, *more])
        assert chain == self.world.chain
        return self.world.events


def test_a_cause_that_a_restart_cannot_mend_pauses_the_chain_and_quotes_the_line(tmp_path: Path) -> None:
    case = Readings(tmp_path)
    case.write("Traceback\nModuleNotFoundError: No module named 'apex'\n")
    found = "import-error (Python cannot import a module): ModuleNotFoundError: No module named 'apex'"
    why = (
        f"job 101 (link 1) failed, and another start cannot help: {found}; mend the cause (links run a "
        "copy of the script: `mirage chain edit train SCRIPT` replaces it), then "
        "`mirage chain resume train`"
    )
    assert case.update() == [(1, "cause-found", f"job 101: {found}"), (0, "paused", why)]
    assert (case.world.chain.state, case.world.chain.why) == (ChainState.PAUSED, why)


def test_a_cause_that_a_restart_mends_is_logged_and_nothing_else(tmp_path: Path) -> None:
    case = Readings(tmp_path)
    case.write("Watchdog caught collective operation timeout: WorkNCCL(SeqNum=5)\n")
    [(link, kind, detail)] = case.update()
    assert (link, kind) == (1, "cause-found")
    assert detail.startswith("job 101: nccl-time-out")
    assert (case.world.chain.state, case.world.chain.excluded) == (ChainState.ACTIVE, "")


@pytest.mark.parametrize(
    ("nodelist", "line", "excluded"),
    [
        ("n1", "CUDA error: uncorrectable ECC error encountered", "n1"),
        ("n[1-2]", "n2: NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.", "n2"),
        ("n[1-2]", "n2.site.org:4031: Stale file handle", "n2"),
        ("n[1-2]", "n22: NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.", ""),
        ("n[1-2]", "n1 to n2: Stale file handle", ""),
        ("", "CUDA error: uncorrectable ECC error encountered", ""),
    ],
)
def test_a_fault_of_the_node_excludes_the_one_that_is_known(
    tmp_path: Path, nodelist: str, line: str, excluded: str
) -> None:
    case = Readings(tmp_path, failed(nodelist=nodelist))
    case.world.context.machine = replace(MACHINE, nodes=tuple(replace(node, usable=True) for node in MACHINE.nodes))
    case.write(f"step 3\n{line}\n")
    kinds = [kind for _, kind, _ in case.update()]
    assert case.world.chain.excluded == excluded
    more = ["node-excluded"] if excluded else ["node-not-excluded"] if nodelist else []
    assert kinds == ["cause-found", *more]
    assert case.world.chain.state is ChainState.ACTIVE


def test_without_a_cause_the_log_names_what_was_searched(tmp_path: Path) -> None:
    case = Readings(tmp_path)
    case.write("step 3\n")
    expected = f"job 101: no line of {tmp_path}/job.sh-101.log matches a pattern"
    assert case.update() == [(1, "cause-unknown", expected)]


def test_output_that_cannot_be_read_is_named_and_nothing_stops(tmp_path: Path) -> None:
    case = Readings(tmp_path, options={"error": "/dev/null"})
    expected = f"job 101: there is no output of it in {tmp_path}/job.sh-101.log and /dev/null"
    assert case.update() == [(1, "cause-unknown", expected)]
    (tmp_path / "job.sh").unlink()
    assert case.update()[1] == (
        1, "cause-unknown",
        f"job 101: cannot read {tmp_path}/job.sh: No such file or directory",
    )  # fmt: skip


@pytest.mark.parametrize("known", [{"exit_code": 1}, {"ended_s": 6_000}])
def test_a_missing_folder_of_the_output_is_named(tmp_path: Path, known: dict[str, Any]) -> None:
    case = Readings(tmp_path, failed(**known), options={"output": "logs/run.log", "error": "logs/run.err"})
    expected = f"there is no output of it in {tmp_path}/logs/run.log and {tmp_path}/logs/run.err"
    missing = f"there is no folder {tmp_path}/logs here, and Slurm makes none"
    assert case.update() == [(1, "cause-unknown", f"job 101: {expected}; {missing}")]


@pytest.mark.parametrize("options", [{"output": "logs/run.log"}, {"error": "logs/run.err"}])
def test_a_job_that_slurm_ends_without_a_folder_for_its_output_pauses_the_chain(
    tmp_path: Path, options: dict[str, str | None]
) -> None:
    case = Readings(tmp_path, options=options)
    if "output" not in options:
        case.write("")
    kinds = [kind for _, kind, _ in case.update()]
    assert (kinds, case.world.chain.excluded) == (["cause-found", "paused"], "")
    assert f": there is no folder {tmp_path}/logs here, and Slurm makes none; mend the cause" in case.world.chain.why


def test_the_user_s_own_patterns_count_from_the_next_failure_on(tmp_path: Path) -> None:
    case = Readings(tmp_path)
    case.write("E42: licence server\n")
    assert [kind for _, kind, _ in case.update()] == ["cause-unknown"]
    own = tmp_path / "home" / "log-patterns.toml"
    own.write_text("[licence]\nverdict = 'stop'\nregex = 'E42'\n")
    assert [kind for _, kind, _ in case.update()] == ["cause-unknown", "cause-found", "paused"]
    own.write_text("licence = 3")
    assert f"; only the built-in patterns count: {own}: 'licence' is not a table" in case.update()[-1][2]
    case.write("train.py: line 3: torchrun: command not found\n")
    assert case.update()[-1][1] == "cause-found"


def test_a_link_that_reported_success_has_no_unknown_cause(tmp_path: Path) -> None:
    case = Readings(tmp_path, failed(outcome=JobState.COMPLETED))
    case.write("step 3\n")
    assert case.update() == []
    case.write("train.py: line 3: torchrun: command not found\ndone\n")
    assert [kind for _, kind, _ in case.update()] == ["cause-found", "paused"], "its script hid the exit code"


def in_life(tmp_path: Path, *steps: int | None, links: int = 0, **chain: Any) -> OneChain:
    """A chain after links that each left a saved step, None for no file."""
    submission = Submission(str(tmp_path / "job.sh"), directory=str(tmp_path))
    world = OneChain(submission=submission, progress_file="progress.jsonl", links=links, chain=chain)
    readings = OutputReadings(tmp_path)
    for number, step in enumerate(steps, 1):
        if step is not None:
            (tmp_path / "progress.jsonl").write_text(f'{{"time_s": 1.0, "saved": {step}}}\n')
        link = ended(number, JobState.TIMEOUT, started_s=1_000 * number, ended_s=1_000 * number + 900)
        world.context.add_link(link)
        readings.update(world.context, world.chain, [link])
        world.context.links[1] = world.store.links(1)
    return world


def test_without_progress_over_two_links_the_chain_is_paused(tmp_path: Path) -> None:
    world = in_life(tmp_path, 40, 40)
    assert world.chain.state is ChainState.ACTIVE
    assert [link.progress for link in world.links] == ["saved 40", "saved 40"]
    world = in_life(tmp_path, 40, 40, 40)
    assert world.chain.why == (
        "no progress over 2 links: saved 40 in progress.jsonl, as before them; mend the cause (links run a "
        "copy of the script: `mirage chain edit train SCRIPT` replaces it), then "
        "`mirage chain resume train`"
    )
    assert world.events[-2:] == [(3, "progress", "saved 40"), (0, "paused", world.chain.why)]
    assert in_life(tmp_path, 40, 40, 41, 41, 50).chain.state is ChainState.ACTIVE


def test_without_progress_the_last_link_ends_its_chain(tmp_path: Path) -> None:
    world = in_life(tmp_path, 40, 40, 40, links=3)
    assert world.chain.state is ChainState.ACTIVE, "all its links have run"
    assert world.events[-1] == (
        3,
        "no-progress",
        "no progress over 2 links: saved 40 in progress.jsonl, as before them",
    )


def test_after_a_resume_as_many_links_may_make_no_progress_again(tmp_path: Path) -> None:
    assert in_life(tmp_path, 40, 40, 40, resumed_s=2_900).chain.state is ChainState.ACTIVE
    assert in_life(tmp_path, 40, 40, 40, 40, resumed_s=2_900).chain.state is ChainState.PAUSED


def test_unknown_progress_pauses_nothing_and_is_logged(tmp_path: Path) -> None:
    world = in_life(tmp_path, None, None, None)
    assert world.chain.state is ChainState.ACTIVE
    assert set(world.events) == {(number, "progress-unknown", "nothing matches progress.jsonl") for number in (1, 2, 3)}


def test_without_a_progress_file_nothing_is_read(tmp_path: Path) -> None:
    case = Readings(tmp_path, ended(1, JobState.TIMEOUT))
    assert case.update() == []
    assert case.readings.under_way == {}


@pytest.mark.parametrize(
    ("known", "read"),
    [
        ({}, True),
        ({"ended_s": 8_000}, True),  # late, and bad
        ({"ended_s": 8_500}, False),  # at its limit: a drain
        ({"outcome": JobState.OUT_OF_MEMORY, "ended_s": 7_000}, True),
        ({"outcome": JobState.TIMEOUT, "ended_s": 8_600}, False),
        ({"outcome": JobState.COMPLETED}, True),
        ({"outcome": JobState.COMPLETED, "ended_s": 8_000}, False),
        ({"outcome": JobState.PREEMPTED}, False),
        ({"signalled_s": 5_001}, False),
        ({"cancelled_s": 5_001}, False),
        ({"finished": True}, False),
        ({"started_s": MISSING}, False),
        ({"limit_s": MISSING, "ended_s": 9_000}, True),
    ],
)
def test_which_ends_are_failures(known: dict[str, Any], read: bool) -> None:
    world = OneChain()
    assert is_failure(world.chain, failed(**known), AgentSettings()) is read
    done = replace(world.chain, spec=ChainSpec(Submission("job.sh"), until_done=True))
    assert is_failure(done, failed(**known), AgentSettings()) is (
        read and known.get("outcome") is not JobState.COMPLETED
    ), "exit 0 ends such a chain"


@pytest.fixture
def hanging(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """A file system that does not answer until the event is set."""
    answers, read = threading.Event(), output_reading.tail_of

    def slow(path: Path, since_s: int) -> str | None:
        answers.wait(30)
        return read(path, since_s)

    monkeypatch.setattr(output_reading, "tail_of", slow)
    yield answers
    answers.set()


def test_a_file_system_that_hangs_delays_no_cycle_and_its_answer_is_used_later(
    tmp_path: Path, hanging: threading.Event
) -> None:
    case = Readings(tmp_path)
    case.write("No space left on device\n")
    case.readings.patience_s = 0.01
    assert case.update() == []
    assert case.readings.wait(0.0) == set()
    hanging.set()
    assert case.readings.wait(10.0) == {1}
    case.readings.update(case.world.context, case.world.chain, [])
    assert [kind for _, kind, _ in case.world.events] == ["cause-found", "paused"]
    assert case.readings.under_way == {}


def test_a_file_that_never_answers_is_given_up(tmp_path: Path, hanging: threading.Event) -> None:
    case = Readings(tmp_path)
    now_s = [0.0]
    case.readings = OutputReadings(tmp_path / "home", 0.0, at_once=2, real_s=lambda: now_s[0])
    more = [replace(case.link, number=number) for number in (2, 3)]
    assert case.update(*more) == [(3, "cause-unknown", "job 101: 2 other outputs do not answer")]
    now_s[0] = GIVE_UP_S - 0.1
    case.readings.update(case.world.context, case.world.chain, [])
    assert len(case.world.events) == 1
    now_s[0] = GIVE_UP_S
    case.readings.update(case.world.context, case.world.chain, [])
    assert case.world.events[1:] == [(number, "cause-unknown", "job 101: no answer within 60 s") for number in (1, 2)]
