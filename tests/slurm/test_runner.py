"""Running Slurm's commands: their environment, and failures to run them."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path
from threading import Event
from threading import enumerate as enumerate_threads

import pytest

from mirage.errors import RequestNotSent, SlurmRefused, SlurmUnreachable
from mirage.slurm.client import SlurmClient
from mirage.slurm.records import Submission
from mirage.slurm.runner import Completed, SystemRunner, soft_limits
from mirage.slurm.survey import detect
from tests.support.waiting import until


def environment_of(done: Completed) -> dict[str, str]:
    return dict(line.split("=", 1) for line in done.stdout.splitlines())


def test_a_command_that_is_read_speaks_plainly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SQUEUE_FORMAT", "%i")
    monkeypatch.setenv("LC_ALL", "de_DE")
    environment = environment_of(SystemRunner({"SLURM_CONF": "/x"}).run(["env"]))
    assert (environment["LC_ALL"], environment["SLURM_TIME_FORMAT"], environment["SLURM_CONF"]) == ("C", "%s", "/x")
    assert "SQUEUE_FORMAT" not in environment


def test_a_submission_has_the_user_s_environment_and_nothing_else() -> None:
    mine = {"PATH": "/usr/bin:/bin", "SQUEUE_FORMAT": "%i", "LC_ALL": "de_DE"}
    assert environment_of(SystemRunner().run(["env"], environment=mine)) == mine
    assert environment_of(SystemRunner({"SLURM_CONF": "/x"}).run(["env"], environment=mine)) == {
        **mine,
        "SLURM_CONF": "/x",
    }


@pytest.mark.parametrize("kind", ["gone", "file"])
def test_a_directory_that_cannot_be_entered_is_the_command_s_own_trouble(tmp_path: Path, kind: str) -> None:
    place = tmp_path / "work"
    if kind == "file":
        place.write_text("")
    with pytest.raises(SlurmRefused, match=f"cannot run true in {place}: No(t a| such)"):
        SystemRunner().run(["true"], directory=str(place))


def test_a_command_without_an_answer_is_reported_while_it_runs() -> None:
    reported = Event()
    SystemRunner(on_slow=reported.set, slow_s=0.2).run(["sh", "-c", "sleep 1"])
    assert reported.is_set()


def test_a_command_with_an_answer_is_not_reported_later() -> None:
    interval_s = 3607.0
    SystemRunner(on_slow=lambda: None, slow_s=interval_s).run(["true"])
    until(
        lambda: all(getattr(thread, "interval", None) != interval_s for thread in enumerate_threads()),
        5,
        "the timer has ended",
    )


def test_words_too_long_are_the_command_s_own_trouble() -> None:
    with pytest.raises(SlurmRefused, match="Argument list too long"):
        SystemRunner().run(["true", "x" * 200_000])
    with pytest.raises(SlurmRefused, match="Argument list too long"):
        SystemRunner().run(["true"], environment={"PATH": "/usr/bin:/bin", "X": "x" * 200_000})


def test_a_missing_program_raises_request_not_sent(tmp_path: Path) -> None:
    with pytest.raises(RequestNotSent, match=r"cannot run sbatch: .*; is Slurm's bin folder on PATH\?"):
        SystemRunner().run(["sbatch"], environment={"PATH": str(tmp_path)}, directory=str(tmp_path))


@pytest.mark.parametrize("argv", [["sbatch"], ["scancel", "7"], ["scontrol", "update", "JobId=7"]])
def test_a_command_that_changes_something_ends_with_the_process_that_runs_it(tmp_path: Path, argv: list[str]) -> None:
    program = tmp_path / argv[0]
    program.write_text("#!/bin/sh\necho $$ > pid\nexec sleep 60\n")
    program.chmod(0o755)
    code = f"from mirage.slurm.runner import SystemRunner\nSystemRunner().run({argv})"
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    with subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path, env=environment) as process:
        until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text() != "", 20, "the command runs")
        pid = int((tmp_path / "pid").read_text())
        process.kill()
    until(lambda: not Path(f"/proc/{pid}").exists(), 10, "the command has ended")


def test_a_command_inherits_the_limits_that_it_is_given() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limits_command = ["bash", "-c", "ulimit -Sn; ulimit -Hn"]
    assert SystemRunner().run(limits_command, limits={"NOFILE": 77}).stdout.split()[0] == "77"
    beyond = SystemRunner().run(limits_command, limits={"NOFILE": resource.RLIM_INFINITY}).stdout.split()
    assert beyond[0] == beyond[1] == str(hard)
    assert SystemRunner().run(limits_command).stdout.split()[0] == str(soft)
    assert soft_limits()["NOFILE"] == soft


@pytest.mark.parametrize(
    ("message", "status", "error"),
    [
        ("Batch job submission failed: Unable to contact slurm controller (connect failure)", 1, RequestNotSent),
        ("Batch job submission failed: Unable to contact slurm controller (receive failure)", 1, SlurmUnreachable),
        ("Batch job submission failed: Socket timed out on send/recv operation", 1, SlurmUnreachable),
        ("Batch job submission failed: Invalid partition name specified", 1, SlurmRefused),
    ],
)
def test_meaning_of_what_sbatch_prints(tmp_path: Path, message: str, status: int, error: type[Exception]) -> None:
    program = tmp_path / "sbatch"
    program.write_text(f"#!/bin/sh\necho 'sbatch: error: {message}' >&2\nexit {status}\n")
    program.chmod(0o700)
    with pytest.raises(error) as raised:
        SlurmClient(SystemRunner({"PATH": f"{tmp_path}:/usr/bin:/bin"})).submit(Submission("job.sh"))
    assert type(raised.value) is error


def test_sbatch_s_remarks_are_retained(tmp_path: Path) -> None:
    program = tmp_path / "sbatch"
    program.write_text("#!/bin/sh\necho 'sbatch: Your project has 3 hours left.' >&2\necho \"17\"\n")
    program.chmod(0o700)
    client = SlurmClient(SystemRunner({"PATH": f"{tmp_path}:/usr/bin:/bin"}))
    assert client.submit(Submission("job.sh", directory=str(tmp_path))) == 17
    assert client.remarks == "sbatch: Your project has 3 hours left.\n"


NO_CLUSTER = """sinfo: error: resolve_ctls_from_dns_srv: res_nsearch error: Unknown host
sinfo: error: fetch_config: DNS SRV lookup failed
sinfo: error: _establish_config_source: failed to fetch config
sinfo: fatal: Could not establish a configuration source
"""
NO_FILE = """sinfo: error: s_p_parse_file: cannot stat file /x/slurm.conf: No such file or directory, retrying in 1sec
sinfo: error: ClusterName needs to be specified
sinfo: fatal: Unable to process configuration file
"""


class Unconfigured:
    def __init__(self, stderr: str) -> None:
        self.stderr = stderr

    def run(self, argv: list[str], **_: object) -> Completed:
        return Completed(1, "", self.stderr)


@pytest.mark.parametrize("stderr", [NO_CLUSTER, NO_FILE])
def test_commands_without_a_cluster_name_where_to_run_them(stderr: str) -> None:
    slurm = SlurmClient(Unconfigured(stderr))
    for query in (slurm.configuration, slurm.observe, lambda: detect(slurm.runner)):
        with pytest.raises(RequestNotSent, match="found no cluster; run this where `sinfo` answers") as error:
            query()
        assert error.value.stderr == stderr.strip()


@pytest.mark.real_slurm
@pytest.mark.skipif(Path("/etc/slurm/slurm.conf").exists(), reason="this machine is part of a cluster")
def test_a_machine_without_a_cluster_differs_from_one_with_its_controller_down(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLURM_CONF", raising=False)
    with pytest.raises(RequestNotSent, match="found no cluster"):
        detect(SystemRunner())


def test_a_configuration_without_a_cluster_is_no_answer(tmp_path: Path) -> None:
    program = tmp_path / "scontrol"
    program.write_text("#!/bin/sh\necho 'SLURM_VERSION = 22.05.8'\n")
    program.chmod(0o700)
    client = SlurmClient(SystemRunner({"PATH": f"{tmp_path}:/usr/bin:/bin"}))
    with pytest.raises(SlurmUnreachable, match="neither ClusterName nor SlurmctldHost; check that the scontrol on"):
        client.configuration()
    program.write_text("#!/bin/sh\necho 'ClusterName = tundra'\n")
    assert client.configuration() == {"clustername": "tundra"}


def test_a_working_directory_that_is_gone_is_no_job_in_another_one(tmp_path: Path) -> None:
    (tmp_path / "sbatch").write_text('#!/bin/sh\necho "$@" > words\necho 7\n')
    (tmp_path / "sbatch").chmod(0o700)
    slurm = SlurmClient(SystemRunner({"PATH": f"{tmp_path}:{os.environ['PATH']}"}))
    job = Submission(f"{tmp_path}/job.sh", {"chdir": "work"}, environment={"A": "1"}, directory=str(tmp_path))
    with pytest.raises(SlurmRefused, match=f"sbatch was not run: there is no folder {tmp_path}/work"):
        slurm.submit(job)
    (tmp_path / "work").mkdir()
    assert slurm.submit(job) == 7
    assert "--chdir=work" in (tmp_path / "words").read_text(), "and SLURM_SUBMIT_DIR is that of the submission"
