"""Jobs that become the first link of a chain: checks, signals, and failures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from mirage.agent.chain.adopt import (
    Delivery,
    adopt_job,
    adopted_spec,
    chosen_delivery,
    read_delivery,
)
from mirage.agent.chain.job_to_adopt import JobToAdopt, check_job, check_tag, describe_job
from mirage.agent.chain.recover import recover
from mirage.agent.chain.request import Caller, Request
from mirage.agent.chain.submission import link_submission
from mirage.agent.chain.tag import parse_tag
from mirage.agent.model import Chain, ChainSpec, LinkState
from mirage.agent.paths import Home, stop_agentless
from mirage.agent.store.engine import make_engine
from mirage.agent.store.sql_store import SqlStore, open_store
from mirage.agentless.link_script import AgentlessSpec, link_script
from mirage.agentless.shell_tree import default_tree
from mirage.errors import ConfigurationError, SlurmRefused, SlurmUnreachable, StoreError
from mirage.job_state import JobState
from mirage.presets.detect import ScriptShape, shape_of
from mirage.slurm.backend import Backend
from mirage.slurm.job_reader import JobProcess, JobReader, StoredSubmission
from mirage.slurm.records import Queue, QueuedJob, Submission
from mirage.slurm.text.job_details import JobDetails, read_job_details

NOW_S, POLL_S = 10_000, 60
RUNS = QueuedJob(
    41, JobState.RUNNING, "train", "ada", submit_s=9_000, eligible_s=9_000, start_s=9_100, end_s=20_000,
    limit_s=10_900, comment="mine",
)  # fmt: skip
TEXT = """JobId=41 JobName=train
   UserId=ada(1000) JobState=RUNNING BatchFlag=1 Requeue=1 TimeLimit=00:10:00 BatchHost=n1 NumNodes=1 NumTasks=3
   OverSubscribe=OK
   Command={folder}/train.sh a b
   WorkDir={folder}
   StdErr={folder}/slurm-41.out
   StdIn=/dev/null
   StdOut={folder}/slurm-41.out
"""
SCRIPT = b"#!/bin/bash\n#SBATCH -t 10\nsrun python train.py $SLURM_JOB_ID\n"


def details(folder: str = "/", **fields: str) -> JobDetails:
    job = read_job_details(TEXT.format(folder=folder))
    return replace(job, row={**job.row, **fields})


# -- which jobs may ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "queued", "why"),
    [
        ({"UserId": "eve(2)"}, {}, "job 41 belongs to eve, not to ada"),
        ({"ArrayJobId": "40"}, {}, "task of the array 40"),
        ({"HetJobId": "41"}, {}, "heterogeneous"),
        ({"BatchFlag": "0"}, {}, "has no batch script: srun or salloc started it"),
        ({"JobState": "SUSPENDED"}, {"state": JobState.SUSPENDED}, "job 41 is SUSPENDED: only a pending or running"),
        ({}, {"completing": True}, "only a pending or running"),
        ({}, {"end_s": NOW_S + 59}, "reaches its limit in 59 s, and an agent polls every 00:01:00"),
        ({}, {"state": JobState.PENDING, "reason": "JobHeldUser"}, "scontrol release 41"),
    ],
)
def test_a_job_that_cannot_be_a_chain_is_refused(fields: dict[str, str], queued: dict[str, Any], why: str) -> None:
    assert check_job(details(), RUNS, "ada", NOW_S, POLL_S) == RUNS
    with pytest.raises(ConfigurationError, match=why):
        check_job(details(**fields), replace(RUNS, **queued), "ada", NOW_S, POLL_S)


def test_a_job_that_left_the_queue_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="job 41 is COMPLETED"):
        check_job(details(JobState="COMPLETED"), None, "ada", NOW_S, POLL_S)


def test_a_link_is_refused_and_a_tag_without_a_chain_is_taken_up() -> None:
    tagged = replace(RUNS, comment="mirage:train:1:safestre.deer | mine")
    assert check_tag(RUNS, "safestre", {}) is None
    left = check_tag(tagged, "safestre", {"boar": "other"})
    assert left is not None
    assert (left.chain, left.key, left.rest) == ("train", "deer", "mine")
    with pytest.raises(ConfigurationError, match="job 41 is link 1 of chain train already"):
        check_tag(tagged, "safestre", {"deer": "train"})
    with pytest.raises(ConfigurationError, match="of another store; name the folder of its agent with MIRAGE_HOME"):
        check_tag(tagged, "third", {})


# -- its description ---------------------------------------------------------------------------------------


class Sources:
    """A reader with the given answers."""

    def __init__(
        self, stored: StoredSubmission = StoredSubmission(), processes: Sequence[JobProcess] | None = None,  # noqa: B008
        script: bytes | None = SCRIPT,
    ) -> None:  # fmt: skip
        self.of_accounting, self.own, self.script = stored, processes, script

    def stored(self, job: int) -> StoredSubmission:
        return self.of_accounting

    def batch_script(self, job: int) -> bytes:
        if self.script is None:
            raise SlurmRefused("scontrol write failed with status 1", "Access/permission denied")
        return self.script

    def processes(self, job: int, host: str, cluster: str) -> Sequence[JobProcess]:
        if self.own is None:
            raise SlurmRefused("srun --overlap failed with status 1", "Unable to create step")
        return self.own


def shell_with(*catches: str, **environment: str) -> JobProcess:
    words = ("/bin/bash", "/spool/slurm_script", "a b")
    return JobProcess(70, 1, words, {"SLURM_JOB_ID": "41", **environment}, frozenset(catches), umask="0077")


def described(
    sources: Sources, folder: Path, source: str = "", queued: QueuedJob = RUNS, command: str = "", **variables: str
) -> JobToAdopt:
    caller = Caller({"FROM": "here", "SLURM_JOB_ID": "9", **variables}, folder, 0o022, {"NOFILE": 7})
    reader = cast(JobReader, sources)
    job = details(str(folder))
    job = replace(job, command=command or job.command)
    return describe_job(reader, job, queued, "alpha", {"time": "20"}, caller, source)


def test_a_running_job_is_described_by_itself(tmp_path: Path) -> None:
    found = described(Sources(processes=[shell_with(FROM="job", SLURM_EXPORT_ENV="ALL")]), tmp_path)
    submission = found.request.submission
    assert submission.arguments == ("a b",), "exactly, unlike in the queue"
    assert submission.environment == {"FROM": "job", "SLURM_UMASK": "0077"}
    assert submission.options == {"job-name": "train", "export": "ALL", "time": "20"}, "no tasks: none were requested"
    assert (submission.directory, submission.limits) == (str(tmp_path), {"NOFILE": 7})
    assert (found.request.script, found.request.script_name) == (SCRIPT, "train.sh")
    assert "srun --jobid=41 --overlap" in " ".join(map(str, found.findings))
    assert "line 3 of the script" in found.warnings[0], found.warnings
    assert "--signal" in found.unknown[0]


@pytest.mark.parametrize(
    ("line", "warned"),
    [
        ("", ["each job writes a log of its own"]),
        ("-o train.log", ["--output=train.log: all jobs write this file"]),
        ("-o train.log --open-mode=append", []),
        ("-o train-%4j.log -e /dev/null", []),
    ],
)
def test_the_output_of_later_jobs_is_that_of_the_command_line(tmp_path: Path, line: str, warned: list[str]) -> None:
    stored = StoredSubmission("", {"FROM": "accounting"}, f"sbatch {line} {tmp_path}/train.sh a b")
    found = described(Sources(stored, [shell_with()], script=b"#!/bin/bash\n#SBATCH -o %x-%j.out\na.out\n"), tmp_path)
    assert len(found.warnings) == len(warned)
    assert all(map(str.__contains__, found.warnings, warned))


def test_without_a_command_line_the_output_of_later_jobs_is_that_of_the_queue(tmp_path: Path) -> None:
    script = b"#!/bin/bash\n#SBATCH -o train-%j.out -e slurm-%j.out\na.out\n"
    found = described(Sources(processes=[shell_with()], script=script), tmp_path)
    assert found.request.given["output"] == f"{tmp_path}/slurm-%j.out"
    assert found.request.given["error"] == "slurm-%j.out"


def test_the_patterns_of_the_job_and_of_the_caller_exclude_variables(tmp_path: Path) -> None:
    sources = Sources(processes=[shell_with(HF_TOKEN="x", AWS_KEY="y", MIRAGE_KEEP_OUT="AWS_*")])
    found = described(sources, tmp_path, MIRAGE_KEEP_OUT="*TOKEN*")
    assert found.request.submission.environment == {"MIRAGE_KEEP_OUT": "AWS_*,*TOKEN*", "SLURM_UMASK": "0077"}
    assert "MIRAGE_KEEP_OUT excludes these from the jobs: AWS_KEY, HF_TOKEN" in found.warnings


def test_a_program_that_has_replaced_the_batch_shell_describes_the_job(tmp_path: Path) -> None:
    program = replace(shell_with(FROM="job"), words=("python3", "train.py"))
    found = described(Sources(processes=[program, SRUN, step()]), tmp_path)
    assert found.request.submission.environment["FROM"] == "job"
    assert found.request.submission.arguments == ("a", "b"), "those of the queue"
    assert "the queue" in next(str(one) for one in found.findings if one.what == "arguments")
    other = described(Sources(processes=[program, replace(program, pid=80)]), tmp_path)
    assert other.request.submission.environment["FROM"] == "here", "two programs could be it"


def test_accounting_is_the_best_source(tmp_path: Path) -> None:
    limits = {"SLURM_RLIMIT_CORE": "0", "SLURM_RLIMIT_AS": str(2**64 - 1)}
    variables = {"FROM": "accounting", "LINES": "a", "b": "c", "SLURM_NTASKS": "3", **limits}
    stored = StoredSubmission("", variables, f"sbatch -n 3 --signal=USR1@60 --begin=now+5 {tmp_path}/train.sh a b")
    found = described(Sources(stored, [shell_with(FROM="job", LINES="a\nb=c")]), tmp_path)
    submission = found.request.submission
    assert submission.environment["FROM"] == "accounting"
    assert submission.environment["LINES"] == "a\nb=c", "whole, as the process has it"
    assert "b" not in submission.environment
    assert submission.options == {"ntasks": "3", "signal": "USR1@60", "job-name": "train", "time": "20"}
    assert submission.limits == {"CORE": 0, "AS": -1}
    assert not found.unknown
    assert described(Sources(stored, [shell_with(FROM="job")]), tmp_path, "job").request.submission.environment[
        "FROM"
    ] == "job"  # fmt: skip


def test_a_link_of_a_chain_without_an_agent_is_described_by_the_rules_of_that_chain(tmp_path: Path) -> None:
    options = {"nodes": "3", "time": "20", "signal": "B:USR2@90", "job-name": "serve", "comment": "of ada"}
    rules = AgentlessSpec("serve", "k", str(tmp_path), "job.sh", options, ("a b", "c"), links=9, signal="TERM")
    sources, command = Sources(script=link_script(rules, default_tree()).encode()), f"{tmp_path}/link.sh 3 77 a b c"
    with pytest.raises(ConfigurationError, match=f"cannot read the script of job 41, {tmp_path}/job.sh: No such file"):
        described(sources, tmp_path, command=command)
    (tmp_path / "job.sh").write_bytes(SCRIPT)
    found = described(sources, tmp_path, command=command)
    assert found.rules == replace(rules, links=7), "this one, and six after it"
    assert found.request.script == SCRIPT
    assert found.request.submission.arguments == ("a b", "c")
    assert found.request.given == {name: value for name, value in options.items() if name != "signal"}
    assert not any("an argument with a space" in warning for warning in found.warnings)
    with pytest.raises(ConfigurationError, match="waits in the chain without an agent serve: adopt the running job"):
        described(sources, tmp_path, queued=replace(RUNS, state=JobState.PENDING))
    stop_agentless(tmp_path)
    assert (tmp_path / "stop").exists()
    with pytest.raises(StoreError, match="make this file, or the job submits another one, too"):
        stop_agentless(tmp_path / "gone")


def test_what_no_source_shows_is_named(tmp_path: Path) -> None:
    found = described(Sources(), tmp_path)
    assert "Unable to create step" in found.unknown[0]
    assert found.request.submission.environment["FROM"] == "here"
    assert "SLURM_JOB_ID" not in found.request.submission.environment
    assert any("later links get that of this shell" in warning for warning in found.warnings)
    assert found.request.submission.arguments == ("a", "b")
    assert any("an argument with a space was split" in warning for warning in found.warnings)
    with pytest.raises(ConfigurationError, match="--variables-from job: this source does not show the environment"):
        described(Sources(), tmp_path, "job")
    with pytest.raises(ConfigurationError, match=r"batch script of job 41 cannot be read.*permission denied"):
        described(Sources(script=None), tmp_path)
    with pytest.raises(ConfigurationError, match="is not there; run this where it is mounted"):
        described(Sources(), tmp_path / "gone")


# -- its signal --------------------------------------------------------------------------------------------


def step(*catches: str, pid: int = 72, program: str = "python3") -> JobProcess:
    return JobProcess(pid, 70, (program,), {"SLURM_STEP_ID": "0"}, frozenset(catches))


SRUN = JobProcess(71, 70, ("/usr/bin/srun", "x"), {}, frozenset({"INT", "TERM"}))


@pytest.mark.parametrize(
    ("processes", "text"),
    [
        ([shell_with("USR2"), SRUN, step()], "shell:USR2"),
        ([shell_with("USR2"), SRUN, step("USR2")], "all:USR2"),
        ([shell_with(), SRUN, step("USR1")], "steps:USR1"),
        ([shell_with(), JobProcess(72, 70, ("python3",), {}, frozenset({"USR1"}))], "none"),
        ([shell_with(), SRUN, step("INT")], "none"),
        ([shell_with()], "none"),
        ([replace(shell_with("USR2"), words=("python3",)), step()], "shell:USR2"),
        ([replace(shell_with("USR2"), words=("srun", "x")), step("USR1")], "steps:USR1"),
    ],
)
def test_no_process_without_a_handler_gets_a_signal_that_ends_it(processes: list[JobProcess], text: str) -> None:
    shape = shape_of(SCRIPT, Path("/"))
    assert chosen_delivery(processes, shape, ["USR2", "USR1"]).text == text


def test_an_unobserved_job_is_judged_by_its_script() -> None:
    def of(script: bytes) -> str:
        return chosen_delivery([], shape_of(script, Path("/")), ["USR2", "USR1"]).text

    assert of(b"#!/bin/sh\ntrap 'save' TERM\nrun & wait\n") == "shell:TERM"
    assert of(b"#!/bin/sh\nsrun python -m submitit.core._submit x\n") == "steps:USR2"
    assert of(SCRIPT) == "none"


def test_a_delivery_in_words() -> None:
    assert read_delivery("steps:sigusr1").text == "steps:USR1"
    assert read_delivery("none").signal == ""
    for wrong in ("USR1", "steps:", "steps:KILL", "some:USR1", ""):
        with pytest.raises(ConfigurationError, match=r"--first-signal .*: give RECEIVERS:SIGNAL"):
            read_delivery(wrong)


def test_later_links_get_the_signal_of_the_first_unless_a_wrapper_delivers_theirs() -> None:
    spec = ChainSpec(Submission("x.sh"), signal="USR2", to_batch_shell=True, slurm_warning_s=60)
    steps = Delivery("USR1", "steps", "")
    plain = adopted_spec(replace(spec, signal="USR1", to_batch_shell=False), steps, has_wrapper=False)
    assert plain.signal_to(1) == plain.signal_to(2) == ("USR1", "steps")
    wrapped = adopted_spec(spec, steps, has_wrapper=True)
    assert (wrapped.signal_to(1), wrapped.signal_to(2)) == (("USR1", "steps"), ("USR2", "shell"))
    silent = adopted_spec(spec, Delivery("", "all", ""), has_wrapper=True)
    assert silent.signal_to(1)[0] == ""
    named = adopted_spec(replace(spec, to_batch_shell=False), Delivery("", "all", ""), has_wrapper=False)
    assert (named.signal_to(1)[0], named.signal_to(2)) == ("", ("USR2", "all")), "the user has named it for later links"
    assert (named.slurm_warning_of(1), named.slurm_warning_of(2), spec.slurm_warning_of(1)) == (0, 60, 60)
    options = [link_submission(Chain(1, "c", one, 0), "s", 2, 1, False).options["signal"] for one in (plain, wrapped)]
    assert options == ["USR1@60", "B:USR2@60"]


# -- the adoption ------------------------------------------------------------------------------------------


class Controller:
    """Holds one job, and its comment."""

    user = "ada"

    def __init__(self) -> None:
        self.job: QueuedJob | None = RUNS
        self.fails: Exception | None = None
        self.changes: list[dict[str, str]] = []

    def update(self, job: int, changes: dict[str, str]) -> None:
        if self.fails is not None:
            raise self.fails
        self.changes.append(changes)
        assert self.job is not None
        assert self.job.id == job
        self.job = replace(self.job, comment=changes["Comment"])

    def observe(self) -> Queue:
        return Queue(NOW_S, (self.job,) if self.job is not None else ())

    def configuration(self) -> dict[str, str]:
        return {"clustername": "alpha", "slurmctldhost[0]": "head", "slurmctldport": "1"}

    def accounting(self, since_s: int) -> tuple[()]:
        return ()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqlStore]:
    with closing(open_store(f"sqlite:///{tmp_path}/store.db")) as opened:
        yield opened


SHAPE: ScriptShape = shape_of(SCRIPT, Path("/"))


def adopted(store: SqlStore, slurm: Controller, home: Path, name: str = "train", **words: Any) -> Chain:
    submission = Submission("", {"time": "10"}, directory="/")
    queued = slurm.job or RUNS
    job = JobToAdopt(queued, Request(submission, SCRIPT, "train.sh", {"time": "10"}), (), (), (), ())
    words = {"left": None, "no_requeue": False, **words}
    spec = ChainSpec(submission)
    return adopt_job(
        store, cast(Backend, slurm), Home(home, f"sqlite:///{home}/store.db"), job, spec, name, NOW_S, **words
    )


def test_the_job_is_link_1_and_bears_the_tag(store: SqlStore, tmp_path: Path) -> None:
    slurm = Controller()
    chain = adopted(store, slurm, tmp_path, no_requeue=True)
    (link,) = store.links(chain.id)
    assert (link.number, link.job, link.state, link.started_s, link.submitted_s) == (
        1,
        41,
        LinkState.RUNNING,
        9_100,
        9_000,
    )
    (change,) = slurm.changes
    tag = parse_tag(change["Comment"])
    assert tag is not None
    assert (tag.chain, tag.link, tag.key, tag.rest) == ("train", 1, chain.key, "mine")
    assert (tag.store, change["Requeue"]) == (store.identity().identity, "0")
    assert [event.kind for event in store.events(chain.id)] == ["adopted"]
    assert (tmp_path / store.chains()[0].spec.submission.script).read_bytes() == SCRIPT


def test_a_refused_tag_leaves_nothing(store: SqlStore, tmp_path: Path) -> None:
    slurm = Controller()
    slurm.fails = SlurmRefused("scontrol update failed with status 1", "Access denied")
    with pytest.raises(SlurmRefused):
        adopted(store, slurm, tmp_path)
    assert store.chains() == []
    assert not (tmp_path / "chains" / "train").exists()


def test_a_lost_answer_stores_no_chain_and_a_second_adoption_completes_it(store: SqlStore, tmp_path: Path) -> None:
    slurm = Controller()
    slurm.fails = SlurmUnreachable("scontrol update had no answer")
    with pytest.raises(SlurmUnreachable):
        adopted(store, slurm, tmp_path)
    assert store.chains() == []
    slurm.fails = None
    assert adopted(store, slurm, tmp_path).name == "train"


def test_an_interrupted_adoption_is_completed_under_its_tag(store: SqlStore, tmp_path: Path) -> None:
    slurm = Controller()
    comment = f"mirage:torn:1:{store.identity().identity}.deer | mine"
    slurm.job = replace(RUNS, comment=comment)
    chain = adopted(store, slurm, tmp_path, left=parse_tag(comment))
    assert (chain.name, chain.key) == ("torn", "deer")
    assert slurm.job.comment == comment


def test_of_two_adoptions_at_once_one_wins_and_the_job_bears_its_tag(store: SqlStore, tmp_path: Path) -> None:
    slurm = Controller()
    first = adopted(store, slurm, tmp_path, "first")
    slurm.job = RUNS  # the second has read the job before the first has tagged it
    with pytest.raises(ConfigurationError, match="job 41 is link 1 of chain first already"):
        adopted(store, slurm, tmp_path, "second")
    assert [chain.name for chain in store.chains()] == ["first"]
    tag = parse_tag(slurm.job.comment)
    assert tag is not None
    assert (tag.key, tag.rest) == (first.key, "mine")
    assert not (tmp_path / "chains" / "second").exists()


def test_a_store_that_is_lost_after_the_tag_is_recovered_with_the_chain(tmp_path: Path) -> None:
    class Torn(SqlStore):
        def add_adopted_chain(self, *_: Any) -> Any:
            raise KeyboardInterrupt

    slurm, path = Controller(), tmp_path / "store.db"
    open_store(f"sqlite:///{path}").close()
    with closing(Torn(make_engine(f"sqlite:///{path}"))) as torn:
        torn.bind("alpha@head:1")
        with pytest.raises(KeyboardInterrupt):
            adopted(torn, slurm, tmp_path)
    path.write_bytes(b"damaged")
    recovery = recover(Home(tmp_path, f"sqlite:///{path}"), cast(Backend, slurm), NOW_S)
    (chain,) = recovery.chains
    assert (chain.chain.name, [link.job for link in chain.links][:1]) == ("train", [41])
    assert chain.links[0].state is LinkState.RUNNING


def test_a_job_that_ends_meanwhile_makes_no_chain(store: SqlStore, tmp_path: Path) -> None:
    class Ending(Controller):
        def observe(self) -> Queue:
            ended = replace(RUNS, state=JobState.COMPLETED)
            return Queue(NOW_S, (ended,) if self.changes else ())

    with pytest.raises(ConfigurationError, match="job 41 has ended in the meantime; there is no chain"):
        adopted(store, Ending(), tmp_path)
    assert store.chains() == []
    adopted(store, Controller(), tmp_path, "other")
    with pytest.raises(ConfigurationError, match="there is a chain 'other' already"):
        adopted(store, Controller(), tmp_path, "other")
