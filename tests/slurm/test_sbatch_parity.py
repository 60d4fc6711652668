"""``mirage submit`` makes the job of sbatch: both run on a real slurmctld.

The table in docs/explanation/agent.md is made from what is seen: ``MIRAGE_WRITE_PARITY=1`` writes it.
"""

from __future__ import annotations

import contextlib
import getpass
import io
import os
import re
import resource
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

import pytest

from mirage.agent.chain.submission import link_submission
from mirage.agent.chain.tag import parse_tag
from mirage.cli import cli_context as cluster
from mirage.cli import main
from mirage.slurm.client import SlurmClient
from tests.support.sbatch_usages import BOTH_REFUSE, BUT, SAME, WE_REFUSE, Usage, script
from tests.support.waiting import until

pytestmark = [pytest.mark.real_slurm, pytest.mark.slow]

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "agent.md"
BEGIN, END = "<!-- parity: begin -->", "<!-- parity: end -->"

_OWN_FIELDS = """
    JobId Command Comment SubmitTime AccrueTime StartTime EndTime LastSchedEval RunTime Priority Reason Scheduler
    NodeList BatchHost ExitCode SchedNodeList PreemptEligibleTime PreemptTime
"""
OWN_FIELDS = frozenset(_OWN_FIELDS.split())
"""Fields of a job's record that are each job's own."""

_OWN_VARIABLES = """
    SLURM_JOB_ID SLURM_JOBID SLURM_TASK_PID SLURM_NODELIST SLURM_JOB_NODELIST SLURMD_NODENAME SLURM_TOPOLOGY_ADDR
    HOSTNAME ZE_AFFINITY_MASK CUDA_VISIBLE_DEVICES GPU_DEVICE_ORDINAL ROCR_VISIBLE_DEVICES SLURM_JOB_GPUS
"""
OWN_VARIABLES = frozenset(_OWN_VARIABLES.split())
"""Variables that are each job's own: its number, its process, its node, its GPU."""

LINK_VARIABLES = frozenset({"MIRAGE_CHAIN", "MIRAGE_LINK", "MIRAGE_TAG", "MIRAGE_READY_AFTER"})
"""Variables that the jobs of a chain have beside those of sbatch's."""

SLACK_S = 30
"""Two submissions of one usage are not further apart."""


@dataclass(frozen=True)
class Attempt:
    """One usage submitted one way.

    Attributes:
        job: Its number, 0 where it was refused.
    """

    folder: Path
    status: int
    out: str
    err: str

    @property
    def job(self) -> int:
        found = re.search(r"\d+", self.out) if self.status == 0 else None
        return int(found[0]) if found else 0

    def plain(self, text: str) -> str:
        """A text without what is this attempt's own."""
        return re.sub(rf"\b{self.job}\b", "JOB", text.replace(str(self.folder), "FOLDER"))


@pytest.fixture(scope="module")
def site(private_cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Variables of a site with partitions, licences, a reservation and a pending job."""
    slurm = private_cluster(
        nodes=3, gpus=32, min_job_age_s=3600,
        extra=("PartitionName=small Nodes=n1 MaxTime=60 DefaultTime=7", "Licenses=matlab:99", "FirstJobId=700001"),
    )  # fmt: skip
    slurm.run("scontrol", "create", "reservation", "ReservationName=ours", "StartTime=now", "Duration=60",
                f"Users={getpass.getuser()}", "Nodes=n3")  # fmt: skip
    blocker = slurm.run("sbatch", "--parsable", "-H", "--wrap=true").strip()
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith(("SBATCH_", "SLURM_", "MIRAGE_KEEP"))]:
            patch.delenv(name)
        for name, value in {**slurm.environment, "MIRAGE_HOME": str(home / "mirage"), "BLOCKER": blocker}.items():
            patch.setenv(name, value)
        yield slurm.environment


@contextlib.contextmanager
def circumstances(usage: Usage, folder: Path) -> Iterator[None]:
    """The process as the usage wants it: folder, variables, umask, limits."""
    umask, limits = os.umask(usage.umask), resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(folder)
            patch.setenv("PWD", str(folder))
            for name, value in usage.environment.items():
                patch.setenv(name, value)
            if usage.files:
                resource.setrlimit(resource.RLIMIT_NOFILE, (usage.files, limits[1]))
            yield
    finally:
        os.umask(umask)
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def prepared(usage: Usage, folder: Path) -> tuple[list[str], bytes | None]:
    """The folder with what the usage needs; the words, and what comes on standard input."""
    (folder / "sub").mkdir(parents=True)
    (folder / "vars").write_bytes(b"A=1\0PATH=/usr/bin:/bin\0")
    text = usage.script.replace(b"BLOCKER", os.environ["BLOCKER"].encode()) if usage.script is not None else None
    words = [word.replace("BLOCKER", os.environ["BLOCKER"]) for word in usage.words]
    if text is None:
        return words, None
    if not usage.name:
        return words, text
    (folder / usage.name).write_bytes(text)
    return [*words, usage.name, *usage.arguments], None


def by_sbatch(usage: Usage, folder: Path) -> Attempt:
    words, text = prepared(usage, folder)
    with circumstances(usage, folder):
        done = subprocess.run(["sbatch", *words], input=text or b"", capture_output=True, env=dict(os.environ))
    return Attempt(folder, done.returncode, done.stdout.decode(), done.stderr.decode(errors="replace"))


def by_mirage(usage: Usage, folder: Path) -> Attempt:
    words, text = prepared(usage, folder)
    out, err = io.StringIO(), io.StringIO()
    with (
        circumstances(usage, folder),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text or b"")))
        status = main(["submit", "--no-agent", *usage.ours, *words])
    return Attempt(folder, status, out.getvalue(), err.getvalue())


@pytest.fixture(scope="module")
def attempts(site: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Attempt, Attempt]]:
    """Every usage submitted both ways, and run to its end where it starts at all."""
    found, root = {}, tmp_path_factory.mktemp("parity")
    usages = [*SAME, *BUT, *BOTH_REFUSE, *WE_REFUSE]
    assert len({usage.title for usage in usages}) == len(usages), "each is shown in its own way"
    for k, usage in enumerate(usages):
        usage = replace(usage, environment={**usage.environment})
        theirs = by_sbatch(usage, root / "sbatch" / str(k)) if "-W" not in usage.words else refused_by_us_only(root, k)
        found[usage.title] = theirs, by_mirage(usage, root / "mirage" / str(k))
    wait_for([pair for usage in [*SAME, *BUT] if not usage.waits for pair in found[usage.title]])
    return found


def refused_by_us_only(root: Path, k: int) -> Attempt:
    """What need not be run to be known: sbatch would wait for the job."""
    return Attempt(root / "sbatch" / str(k), 0, "", "")


def wait_for(these: list[Attempt]) -> None:
    """Wait until these jobs have ended."""
    wanted = {str(attempt.job) for attempt in these if attempt.job}
    unended = lambda: wanted & set(shown("squeue", "-h", "-t", "PD,R,CG", "-o", "%i").split())  # noqa: E731
    until(lambda: not unended(), 30, lambda: shown("squeue", "-j", ",".join(unended())), 0.5)


def shown(*words: str) -> str:
    return subprocess.run(words, capture_output=True, text=True, check=True, errors="replace").stdout


def record(attempt: Attempt) -> dict[str, str]:
    """The job's record, field by field."""
    text = attempt.plain(shown("scontrol", "show", "job", "-o", str(attempt.job)).strip())
    return {
        name: value.strip() for name, value in re.findall(r"(?:^| )([A-Z][\w/:*]*)=(.*?)(?= [A-Z][\w/:*]*=|$)", text)
    }


def variables(attempt: Attempt) -> dict[str, str]:
    """The job's environment."""
    path = attempt.folder / "seen.env"
    if not path.exists():
        return {}
    lines = [attempt.plain(os.fsdecode(one)) for one in path.read_bytes().split(b"\0") if one]
    found = dict(line.split("=", 1) for line in lines)
    return {name: value for name, value in found.items() if name not in OWN_VARIABLES}


def files(attempt: Attempt) -> dict[str, str]:
    """Files that the job left, and their modes; without its environment."""
    found = {}
    for path in attempt.folder.rglob("*"):
        if path.is_file() and path.name != "seen.env":
            name = attempt.plain(str(path.relative_to(attempt.folder)))
            name = name.replace(str(attempt.job), "JOB")
            found[name] = f"{path.stat().st_mode:o} " + attempt.plain(os.fsdecode(path.read_bytes()))
    return found


def is_near(a: str, b: str) -> bool:
    """Whether two instants of records are those of two submissions in a row."""
    try:
        return abs((datetime.fromisoformat(a) - datetime.fromisoformat(b)).total_seconds()) <= SLACK_S
    except ValueError:
        return False


def differences(theirs: Attempt, ours: Attempt) -> dict[str, tuple[object, object]]:
    """Differences of two jobs: fields, variables, files, and output of the commands."""
    found: dict[str, tuple[object, object]] = {}
    for kind, read in (("field", record), ("env", variables), ("file", files)):
        a, b = read(theirs), read(ours)
        for name in sorted(a.keys() | b.keys()):
            if (kind == "field" and name in OWN_FIELDS) or (kind == "env" and name in LINK_VARIABLES):
                continue
            x, y = a.get(name), b.get(name)
            if x != y and not (kind == "field" and is_near(str(x), str(y))):
                found[f"{kind} {name}"] = x, y
    if theirs.plain(theirs.out) != ours.plain(ours.out):
        found["stdout"] = theirs.out, ours.out
    if lost := [line for line in theirs.err.splitlines() if line not in ours.err]:
        found["stderr"] = lost, ours.err
    return found


@pytest.mark.parametrize("usage", SAME, ids=lambda usage: usage.title)
def test_the_same_job(attempts: dict[str, tuple[Attempt, Attempt]], usage: Usage) -> None:
    theirs, ours = attempts[usage.title]
    assert theirs.job, theirs.err
    assert ours.job, ours.err
    assert differences(theirs, ours) == {}
    check_own(usage, theirs, ours)


@pytest.mark.parametrize("usage", BUT, ids=lambda usage: usage.title)
def test_the_job_has_only_the_differences_in_the_table(
    attempts: dict[str, tuple[Attempt, Attempt]], usage: Usage
) -> None:
    theirs, ours = attempts[usage.title]
    assert set(differences(theirs, ours)) == usage.differences
    check_own(usage, theirs, ours)


def check_own(usage: Usage, theirs: Attempt, ours: Attempt) -> None:
    """The chain's job has its tag before the comment, its script's name, and its variables."""
    a, b = record(theirs), record(ours)
    tag = parse_tag(b["Comment"])
    assert tag is not None
    assert (tag.link, tag.rest) == (1, a.get("Comment", ""))
    assert Path(b["Command"].split(" ")[0]).parent.parent.name == tag.chain
    if a["Command"] != "(null)":
        assert Path(a["Command"]).name.split(" ")[0] == Path(b["Command"]).name.split(" ")[0]
    env = variables(ours)
    if env and "--export-file=vars" not in usage.words:
        assert (env["MIRAGE_CHAIN"], env["MIRAGE_LINK"], env["MIRAGE_READY_AFTER"]) == (
            tag.chain,
            "1",
            "0",
        )


@pytest.mark.parametrize("usage", BOTH_REFUSE, ids=lambda usage: usage.title)
def test_both_refuse(attempts: dict[str, tuple[Attempt, Attempt]], usage: Usage) -> None:
    theirs, ours = attempts[usage.title]
    assert theirs.status != 0
    assert (ours.status, ours.out) == (1, ""), ours.err
    assert "Traceback" not in ours.err


@pytest.mark.parametrize("usage", WE_REFUSE, ids=lambda usage: usage.title)
def test_what_is_not_for_chains(attempts: dict[str, tuple[Attempt, Attempt]], usage: Usage) -> None:
    theirs, ours = attempts[usage.title]
    assert theirs.status == 0, theirs.err
    assert (ours.status, ours.out) == (1, ""), ours.err


def test_a_later_link_is_the_same_job_but_waits_for_nothing_of_the_first(
    site: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent submits it from another folder, with another umask, limits and environment."""
    waits = ("#SBATCH --begin=now+1hour -d afterany:BLOCKER", "#SBATCH --deadline=now+9hours")
    stays = "#SBATCH -J named --comment=mine -o log-%x-%j.txt -t 7"
    usage = Usage(
        script=script(stays), arguments=("a b",), umask=0o077, files=77,
        environment={"LC_ALL": "C.UTF-8", "SBATCH_SIGNAL": "USR1@45", "MINE": "1"},
    )  # fmt: skip
    theirs = by_sbatch(usage, tmp_path / "sbatch")
    first = by_mirage(replace(usage, script=script(*waits, stays)), tmp_path / "mirage")
    assert record(first)["Deadline"] != "N/A"
    with cluster.store() as store:
        chain, known = store.chains()[-1], store.identity().identity
    monkeypatch.chdir("/")
    monkeypatch.setenv("LC_ALL", "C")
    monkeypatch.delenv("BLOCKER")
    job = SlurmClient().submit(link_submission(chain, known, 2, first.job, hold=False))
    ours = Attempt(first.folder, 0, f"Submitted batch job {job}\n", "")
    wait_for([theirs, ours])
    assert set(differences(theirs, ours)) == {"file job.sh", "env MIRAGE_PREVIOUS_JOB"}
    assert variables(ours)["MIRAGE_LINK"] == "2"
    tag = parse_tag(record(ours)["Comment"])
    assert tag is not None
    assert (tag.chain, tag.link, tag.rest) == (chain.name, 2, "mine")


def test_what_sbatch_prints_of_itself_goes_through(site: dict[str, str], tmp_path: Path) -> None:
    for word in ("--version", "-V", "--usage"):
        usage = Usage((word,), script=None)
        theirs, ours = by_sbatch(usage, tmp_path / f"a{word}"), by_mirage(usage, tmp_path / f"b{word}")
        assert (theirs.status, theirs.out, theirs.err) == (ours.status, ours.out, ours.err)
        assert theirs.status == 0


def test_quiet_verbose_and_parsable(site: dict[str, str], tmp_path: Path) -> None:
    for k, (word, out, err) in enumerate(
        [("-Q", "^$", "^$"), ("--parsable", r"^\d+$", "^chain "), ("-v", "^Submitted", "sbatch: defined options")]
    ):
        usage = Usage((word,), script=b"#!/bin/sh\n")
        theirs, ours = by_sbatch(usage, tmp_path / f"a{k}"), by_mirage(usage, tmp_path / f"b{k}")
        assert re.search(out, theirs.out)
        assert re.search(out, ours.out)
        assert re.search(err, ours.err)


def test_the_table_in_the_docs_is_what_was_observed(attempts: dict[str, tuple[Attempt, Attempt]]) -> None:
    usages: dict[str, list[str]] = {}
    for usage in [*SAME, *BUT, *BOTH_REFUSE, *WE_REFUSE]:
        usages.setdefault(outcome(usage, *attempts[usage.title]), []).append(usage.title.replace("|", r"\|"))
    rows = [f"| {found} | {' · '.join(titles)} |" for found, titles in usages.items()]
    table = "\n".join(["| `mirage submit` | usages |", "|---|---|", *rows])
    head, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    published, _, tail = rest.partition(END)
    if os.environ.get("MIRAGE_WRITE_PARITY"):
        PAGE.write_text(f"{head}{BEGIN}\n{table}\n{END}{tail}", encoding="utf-8")
        return
    assert published.strip() == table, "run this test with MIRAGE_WRITE_PARITY=1"


def outcome(usage: Usage, theirs: Attempt, ours: Attempt) -> str:
    """The observed differences in words."""
    if not ours.job:
        return f"refused: {usage.because}" if theirs.status == 0 else "refused, as by sbatch"
    return f"the same job: {usage.because}" if usage.because else "the same job"
