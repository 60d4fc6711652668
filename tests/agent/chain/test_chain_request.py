"""What is read of the user's words, script and environment before anything is submitted."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest

from mirage.agent.chain import create
from mirage.agent.chain.create import name_for, with_scripts
from mirage.agent.chain.request import Caller, Request, read_request
from mirage.agent.chain.spec_check import check_output_folders, check_spec
from mirage.agent.chain.submission import link_submission
from mirage.agent.model import Chain, ChainSpec
from mirage.agent.paths import Home
from mirage.errors import ConfigurationError
from mirage.job_state import MISSING
from mirage.slurm.records import Submission
from mirage.slurm.sbatch_options import parse_sbatch
from tests.support.read_only import as_other_user


def read(tmp_path: Path, words: str = "job.sh", script: bytes = b"#!/bin/sh\n", **environment: str) -> Request:
    (tmp_path / "job.sh").write_bytes(script)
    return read_request(*parse_sbatch(words.split()), Caller(environment, tmp_path, 0o027))


@pytest.mark.parametrize(
    ("limit", "given"),
    [("90m", "01:30:00"), ("1.5d", "1-12:00:00"), ("90", "90"), ("2-0", "2-0"), ("UNLIMITED", "UNLIMITED")],
)
def test_a_limit_with_a_unit_reaches_sbatch_in_its_own_form(tmp_path: Path, limit: str, given: str) -> None:
    found = read(tmp_path, f"-t {limit} --time-min={limit} job.sh")
    assert [found.submission.options[name] for name in ("time", "time-min")] == [given, given]
    assert found.given["time"] == given


@pytest.mark.parametrize(
    ("words", "script", "environment", "output"),
    [
        ("-a 1-2 job.sh", b"#!/bin/sh\n", {}, "--array cannot be used with a chain"),
        ("job.sh", b"#!/bin/sh\n#SBATCH -a 1-2\n", {}, "--array cannot be used"),
        ("job.sh", b"#!/bin/sh\n", {"SBATCH_ARRAY_INX": "1-2"}, r"--array \(SBATCH_ARRAY_INX in the environment\)"),
        ("job.sh", b"#!/bin/sh\n", {"SLURM_CLUSTERS": "far"}, r"--clusters \(SLURM_CLUSTERS in the environment\)"),
        ("-t 5 job.sh", b"#!/bin/sh\n", {"SBATCH_TIMELIMIT": "4h"}, "units in SBATCH_TIMELIMIT=4h; write SBATCH_TI"),
        ("--wait job.sh", b"#!/bin/sh\n", {}, "--wait cannot be used with a chain: a chain continues"),
        ("job.sh", b"#!/bin/sh\n#SBATCH --wait\n", {}, "--wait cannot be used"),
        ("-H job.sh", b"#!/bin/sh\n", {}, "--hold cannot be used"),
        ("-N 0 job.sh", b"#!/bin/sh\n", {}, "--nodes=0: a job needs at least one node"),
        ("job.sh", b"#!/bin/sh\n#SBATCH -N 0-0\n", {}, "--nodes=0-0: a job needs at least one node"),
        ("-N1 : -N1 job.sh", b"#!/bin/sh\n", {}, "heterogeneous job"),
        ("job.sh", b"#!/bin/sh\n#SBATCH -N1\n#SBATCH hetjob\n", {}, "line 3 .*heterogeneous job"),
        ("job.sh", b"#!/bin/sh\r\necho\r\n", {}, r"Batch script contains DOS line breaks \(\\r\\n\)"),
        ("job.sh", b"", {}, "Batch script is empty!"),
        ("job.sh", b"\xef\xbb\xbf#!/bin/sh\n", {}, "job.sh begins with a byte order mark"),
        ("job.sh", "#!/bin/sh\n".encode("utf-16"), {}, "job.sh begins with a byte order mark"),
        (
            "job.sh",
            b"echo\n",
            {},
            "job.sh does not begin with #!, as sbatch requires of a batch script; add #!/bin/bash",
        ),
        ("none.sh", b"", {}, "cannot read the script none.sh: No such file"),
        (".", b"", {}, "cannot read the script .: Is a directory; name a file"),
        ("/dev/zero", b"", {}, "/dev/zero has more than 16 MiB, and Slurm accepts 4 MiB unless"),
        ("", b"", {}, "which script"),
        ("--wrap=x y.sh", b"", {}, "Script arguments not permitted with --wrap option"),
    ],
)
def test_what_cannot_be_a_chain_is_refused(
    tmp_path: Path, words: str, script: bytes, environment: dict[str, str], output: str
) -> None:
    with pytest.raises(ConfigurationError, match=output):
        read(tmp_path, words, script, **environment)


@pytest.mark.parametrize(
    ("name", "text", "remedy"),
    [
        ("train.py", b"import torch\n", "submit a script that runs python3 train.py, or add #!/usr/bin/env python3"),
        ("python3", b"\x7fELF\x02", "it is a program: submit a script that runs it"),
    ],
)
def test_what_is_no_shell_script_gets_advice_that_fits(tmp_path: Path, name: str, text: bytes, remedy: str) -> None:
    (tmp_path / name).write_bytes(text)
    with pytest.raises(ConfigurationError, match=f"as sbatch requires of a batch script; {remedy}$"):
        read(tmp_path, name, b"")


def test_a_variable_counts_over_the_script_and_under_the_command_line(tmp_path: Path) -> None:
    script = b"#!/bin/sh\n#SBATCH -t 3 -J script --export=A\n"
    environment = {"SBATCH_TIMELIMIT": "4", "SBATCH_JOB_NAME": "variable", "SBATCH_EXPORT": "B"}
    requested = read(tmp_path, "-t 5 job.sh", script, **environment)
    assert (requested.given["time"], requested.job_name, requested.given["export"]) == ("5", "variable", "B")
    assert requested.submission.options == {"time": "5", "export": "B"}


def test_a_chain_that_a_link_submits_inherits_nothing_that_mirage_has_set_for_the_link(tmp_path: Path) -> None:
    of_it = "CHAIN LINK TAG PREVIOUS_JOB READY_AFTER GRACE READY WRAPPED JOB_END_TIME OBSERVED REHEARSAL"
    variables = {f"MIRAGE_{name}": "1" for name in of_it.split()} | {"MIRAGE_STOP_FILE": "/x/.mirage-stop-77"}
    own = {"MIRAGE_HOME": "/home", "MIRAGE_LEAD_S": "60", "MIRAGE_PROGRESS_FILE": "steps"}
    requested = read(tmp_path, **variables, **own)
    assert requested.submission.environment == own | {"SLURM_UMASK": "0027"}
    requested = read(tmp_path, MIRAGE_STOP_FILE="/x/stop-77")
    assert requested.submission.environment["MIRAGE_STOP_FILE"] == "/x/stop-77", "the user's own"


def test_a_script_may_come_from_standard_input(tmp_path: Path) -> None:
    caller = Caller({}, tmp_path, 0o022, script=io.BytesIO(b"#!/bin/sh\n#SBATCH -N 2\n"))
    requested = read_request({}, None, (), caller)
    assert (requested.job_name, requested.given, requested.script) == (
        "sbatch",
        {"nodes": "2"},
        b"#!/bin/sh\n#SBATCH -N 2\n",
    )


def test_a_wrapped_command_is_the_script_that_sbatch_makes_of_it(tmp_path: Path) -> None:
    requested = read_request({"wrap": "echo 'a  b'"}, None, (), Caller({}, tmp_path, 0))
    assert requested.script == b"#!/bin/sh\n# This script was created by sbatch --wrap.\n\necho 'a  b'\n"
    assert (requested.job_name, requested.submission.options) == ("wrap", {})


def test_waiting_is_left_out_and_reported(tmp_path: Path) -> None:
    requested = read(tmp_path, SBATCH_WAIT="1")
    assert "SBATCH_WAIT" not in requested.submission.environment
    assert requested.remarks == (
        "SBATCH_WAIT has no effect: a chain continues after its command has ended; see `mirage chain show`",
    )


def test_a_script_that_starts_the_next_job_itself_is_reported(tmp_path: Path) -> None:
    (remark,) = read(tmp_path, script=b"#!/bin/sh\nsbatch job.sh\n").remarks
    assert remark == (
        "line 2 of the script, sbatch job.sh, starts the next job, and so does Mirage: the jobs would double with each "
        "link; remove it from the script"
    )


HERE = {
    "HOME": "/h",
    "PATH": "/bin",
    "A": "1",
    "B": "2",
    "AWS_KEY": "x",
    "SLURM_CONF": "/c",
    "MIRAGE_CHAIN": "outer",
    "MIRAGE_TAG": "outer",
    "MIRAGE_READY_AFTER": "60",
    "MIRAGE_GRACE": "600",
}


@pytest.mark.parametrize(
    ("words", "script", "further", "stored"),
    [
        ("job.sh", b"#!/bin/sh\n", {}, "A AWS_KEY B HOME PATH SLURM_CONF SLURM_UMASK"),
        ("--export=ALL,X=1 job.sh", b"#!/bin/sh\n", {}, "A AWS_KEY B HOME PATH SLURM_CONF SLURM_UMASK"),
        ("--export=NONE job.sh", b"#!/bin/sh\n", {}, "HOME PATH SLURM_CONF SLURM_UMASK"),
        ("--export=NIL job.sh", b"#!/bin/sh\n", {}, "HOME PATH SLURM_CONF SLURM_UMASK"),
        ("--export=B,C=3 job.sh", b"#!/bin/sh\n", {}, "B HOME PATH SLURM_CONF SLURM_UMASK"),
        ("job.sh", b"#!/bin/sh\n#SBATCH --export=A\n", {}, "A HOME PATH SLURM_CONF SLURM_UMASK"),
        ("job.sh", b"#!/bin/sh\n", {"SBATCH_EXPORT": "B"}, "B HOME PATH SBATCH_EXPORT SLURM_CONF SLURM_UMASK"),
        ("job.sh", b"#!/bin/sh\n", {"MIRAGE_KEEP_OUT": "AWS*,B"}, "A HOME MIRAGE_KEEP_OUT PATH SLURM_CONF SLURM_UMASK"),
        ("--export=A job.sh", b"#!/bin/sh\n", {"MIRAGE_KEEP_OUT": "A,PATH"}, "HOME SLURM_CONF SLURM_UMASK"),
        ("job.sh", b"#!/bin/sh\n", {"MIRAGE_KEEP_OUT": "*"}, "SLURM_CONF SLURM_UMASK"),
    ],
)  # fmt: skip
def test_only_what_sbatch_exports_and_the_user_allows_is_stored(
    tmp_path: Path, words: str, script: bytes, further: dict[str, str], stored: str
) -> None:
    requested = read(tmp_path, words, script, **HERE, **further)
    assert sorted(requested.submission.environment) == stored.split()
    assert requested.submission.environment["SLURM_UMASK"] == "0027"


def test_what_is_excluded_is_reported(tmp_path: Path) -> None:
    requested = read(tmp_path, **HERE, MIRAGE_KEEP_OUT="AWS_*,B,NOT_SET,SLURM*")
    assert requested.remarks == ("MIRAGE_KEEP_OUT excludes these from the jobs: AWS_KEY, B",)


def links(tmp_path: Path, requested: Request) -> list[tuple[dict[str, str | None], bytes]]:
    """Options and script of the first link and of the second."""
    spec = with_scripts(Home(tmp_path / "home", ""), requested, ChainSpec(requested.submission), "c")
    chain = Chain(1, "c", spec, 0, key="deer")
    made = [link_submission(chain, "safe", 1, MISSING, False), link_submission(chain, "safe", 2, 17, True)]
    assert {Path(link.script).name for link in made} == {requested.script_name}
    return [(dict(link.options), Path(link.script).read_bytes()) for link in made]


def test_what_the_script_waits_for_reaches_the_first_link_only(tmp_path: Path) -> None:
    script = b"#!/bin/sh\n#SBATCH --begin=now+1hour -t 5\n#SBATCH -d singleton\n#SBATCH --deadline=now+9hours\n# \xe9\n"
    (first, theirs), (later, ours) = links(tmp_path, read(tmp_path, script=script))
    assert theirs == script
    assert ours == b"#!/bin/sh\n#SBATCH --time=5\n##SBATCH -d singleton\n##SBATCH --deadline=now+9hours\n# \xe9\n"
    assert "dependency" not in first
    assert later["dependency"] == "afterany:17"


def test_a_script_that_waits_for_nothing_has_one_copy(tmp_path: Path) -> None:
    (_, theirs), (_, ours) = links(tmp_path, read(tmp_path, script=b"#!/bin/sh\n#SBATCH -N1\n"))
    assert theirs == ours
    assert len(list((tmp_path / "home").rglob("job.sh"))) == 1


def test_the_script_s_comment_and_export_are_stored_with_ours(tmp_path: Path) -> None:
    script = b'#!/bin/sh\n#SBATCH --comment="for \xe9" --export=NONE\n'
    for options, _ in links(tmp_path, read(tmp_path, script=script)):
        assert str(options["comment"]).endswith(f" | {os.fsdecode(b'for ' + bytes([0xE9]))}")
        assert str(options["export"]).startswith("MIRAGE_CHAIN,MIRAGE_LINK")
    commanded, _ = links(tmp_path, read(tmp_path, "--comment=mine job.sh", script))[0]
    assert str(commanded["comment"]).endswith(" | mine")


def test_names_of_requests_repeat_and_others_do_not() -> None:
    assert name_for("a b.sh", "one") == name_for("a b.sh", "one") != name_for("a b.sh", "two")
    assert name_for("a b.sh") != name_for("a b.sh")
    assert name_for("a b.sh", "one").startswith("a-b-")


def test_a_name_that_a_chain_has_is_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = iter(["k3f9", "k3f9", "q4pq"])
    monkeypatch.setattr(create, "random_letters", lambda count: next(drawn))
    assert name_for("train.sh", taken={"train-k3f9"}) == "train-q4pq"


def test_a_folder_that_the_user_may_not_enter_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "closed").mkdir()
    check_spec(ChainSpec(Submission("")), {"chdir": "closed"}, tmp_path, has_end=True)
    monkeypatch.setattr("os.access", lambda path, mode: Path(path).name != "closed")  # root may enter every folder
    with pytest.raises(ConfigurationError, match="--chdir closed: you may not enter this folder; name one that you"):
        check_spec(ChainSpec(Submission("")), {"chdir": "closed"}, tmp_path, has_end=True)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"output": "logs/run.log"}, "--output logs/run.log: there is no folder {}/logs, which .*; mkdir -p {}/logs$"),
        ({"output": "out", "error": "a b/e"}, "--error a b/e: there is no folder {}/a b, .*; mkdir -p '{}/a b'$"),
        ({"output": "logs/%x/%j.log"}, "there is no folder {}/logs,"),
        ({"output": "made/run.log", "chdir": "made"}, "there is no folder {}/made/made,"),
        ({"output": "made"}, "--output made: {}/made is a folder, and each job would fail at once; name a file in it$"),
        ({"output": "run.log", "error": "."}, "--error .: {} is a folder"),
        ({"output": "made/%j/out"}, "no folder has the number of a new job, and Slurm makes none, .*; put %j into the"),
        ({"output": "made/%x-%4A/out"}, "--output made/%x-%4A/out: no folder has the number of a new job"),
        ({"output": "logs/"}, "--output logs/: {}/logs is a folder"),
    ],
)
def test_an_output_that_no_job_can_open_is_refused(tmp_path: Path, given: dict[str, str | None], message: str) -> None:
    (tmp_path / "made").mkdir()
    with pytest.raises(ConfigurationError, match=message.replace("{}", str(tmp_path))):
        check_output_folders(given, tmp_path)


@pytest.mark.parametrize(
    "given",
    [{}, {"output": "run.log"}, {"output": "made/%j.log"}, {"output": "%x/run.log"}, {"output": "made/%%j/%j.log"},
     {"output": "lo\\gs.txt"}, {"output": "logs/run.log", "chdir": "gone"}, {"error": "/dev/null"}],
)  # fmt: skip
def test_an_output_that_may_be_opened_is_accepted(tmp_path: Path, given: dict[str, str | None]) -> None:
    (tmp_path / "made").mkdir()
    assert check_output_folders(given, tmp_path) == ()


def test_an_output_in_a_folder_that_only_compute_nodes_may_have_is_a_warning(tmp_path: Path) -> None:
    (warning,) = check_output_folders({"output": "/local/ada/%j.log"}, tmp_path)
    assert warning.startswith("warning: --output /local/ada/%j.log: there is no folder /local/ada, which Slurm does")
    assert warning.endswith("; if it is so on compute nodes too, each job fails at once: mkdir -p /local/ada")


def test_an_output_in_a_closed_folder_is_a_warning(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    with as_other_user():
        (warning,) = check_output_folders({"output": f"{tmp_path}/logs/%j.log"}, Path("/"))
    assert f"there is no folder {tmp_path}/logs, which Slurm does not make; if it is so" in warning


def test_an_output_that_the_user_may_not_write_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.log").write_text("")
    monkeypatch.setattr(os, "access", lambda path, mode: path == tmp_path / "mine.log")  # for a user who is not root
    given: dict[str, str | None]
    for given, file in (({}, "slurm-%j.out"), ({"output": "mine.log", "error": "%x.err"}, "%x.err")):
        with pytest.raises(ConfigurationError, match=f" {file}: you may not write {tmp_path}, and each job would fail"):
            check_output_folders(given, tmp_path)
    assert check_output_folders({"output": "mine.log"}, tmp_path) == ()
    (warning,) = check_output_folders({"output": f"{tmp_path}/run.log"}, tmp_path)
    assert f"you may not write {tmp_path}; if it is so on compute nodes too" in warning
