"""Slurm's commands through ssh: words, scripts, and lost connections."""

from __future__ import annotations

from pathlib import Path

import pytest

from mirage.errors import ConfigurationError, RequestNotSent, SlurmRefused, SlurmUnreachable
from mirage.slurm.client import SlurmClient
from mirage.slurm.records import Submission
from mirage.slurm.ssh_runner import SshRunner
from tests.support.ssh_server import login_host

SBATCH = """#!/bin/sh
{ printf '[%s]' "$@"; echo; env; cat /dev/stdin; } > received
echo 17
"""


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a host with an sbatch that stores what it gets."""
    folder = login_host(tmp_path, monkeypatch)
    (folder / "there" / "sbatch").write_text(SBATCH)
    (folder / "there" / "sbatch").chmod(0o755)
    return folder


def runner(timeout_s: float = 20) -> SshRunner:
    return SshRunner("login1", Path("/tmp/m"), timeout_s)


def test_words_arrive_unchanged_and_output_can_be_read(host: Path) -> None:
    words = ["a b", "", "it's", '"$HOME"', "`id`", "*", "a\\nb", "two\nlines", "-n", "ünï", "!x", "~"]
    done = runner().run(["printf", "%s|", *words])
    assert (done.status, done.stdout) == (0, "".join(f"{word}|" for word in words))
    shown = runner().run(["sh", "-c", "echo $FROM,${SQUEUE_STATES-none},$SLURM_TIME_FORMAT,$LC_ALL"])
    assert shown.stdout == "login,none,%s,C\n"


def test_the_status_and_errors_of_a_command_are_its_own(host: Path) -> None:
    found = runner()
    done = found.run(["sh", "-c", "echo out; echo err >&2; exit 3"])
    assert (done.status, done.stdout, done.stderr) == (3, "out\n", "err\n")
    assert found.count == {"sh": 1}


def test_a_script_goes_to_sbatch_by_a_pipe_with_its_arguments_and_its_name(host: Path, tmp_path: Path) -> None:
    script = tmp_path / "my job.sh"
    script.write_text("#!/bin/bash\n#SBATCH -N 2\necho 'it is' $1\n")
    environment = {"MIRAGE_CHAIN": "it's", "HOME": "/home/here", "MIRAGE_HOME": "/here", "SBATCH_QOS": "low", "A": "1"}
    options: dict[str, str | None] = {"nodes": "2", "comment": "mirage:x | a 'b'", "contiguous": None}
    job = SlurmClient(runner()).submit(Submission(str(script), options, ("x y", "-z"), environment, "/nowhere"))
    assert job == 17
    received = (host / "home" / "received").read_text()
    assert received.splitlines()[0] == (
        "[--job-name=my job.sh][--parsable][--nodes=2][--comment=mirage:x | a 'b'][--contiguous][/dev/stdin][x y][-z]"
    )
    assert received.endswith(script.read_text())
    for line in ("MIRAGE_CHAIN=it's", "SBATCH_QOS=low", "FROM=login"):
        assert f"\n{line}\n" in received
    for name in ("MIRAGE_HOME", "A=1", "HOME=/home/here", "SLURM_TIME_FORMAT"):
        assert f"\n{name}" not in received, "what is from this machine, or for reading, is not the job's"


@pytest.mark.parametrize("given", ["option", "directive", "variable"])
def test_a_name_that_the_user_gave_counts(given: str, host: Path, tmp_path: Path) -> None:
    script = tmp_path / "job.sh"
    script.write_text(f"#!/bin/bash\n{'#SBATCH -J own' if given == 'directive' else ''}\n")
    options: dict[str, str | None] = {"job-name": "own"} if given == "option" else {}
    environment = {"SBATCH_JOB_NAME": "own"} if given == "variable" else {}
    SlurmClient(runner()).submit(Submission(str(script), options, (), environment))
    assert "--job-name=job.sh" not in (host / "home" / "received").read_text()


@pytest.mark.parametrize("arrived", [0, 12, 29])
def test_a_script_of_which_a_part_arrived_is_not_submitted(host: Path, tmp_path: Path, arrived: int) -> None:
    """A connection that is lost ends the input of the command on the host, which runs on."""
    script = tmp_path / "job.sh"
    script.write_text("#!/bin/bash\necho ünï\nrm -r x/y\n")
    cut = tmp_path / "cut.sh"
    cut.write_text(f'#!/bin/sh\nhead -c {arrived} | "$@"\n')
    (host / "cut").write_text(f"sh {cut}")
    submission = Submission(str(script), {}, (), {})
    with pytest.raises(SlurmUnreachable, match="whether sbatch ran is unknown"):
        SlurmClient(runner()).submit(submission)
    assert not (host / "home" / "received").exists()
    cut.write_text('#!/bin/sh\n"$@"\n')
    assert SlurmClient(runner()).submit(submission) == 17
    assert (host / "home" / "received").read_text().endswith(script.read_text())


def test_a_script_that_is_missing_here_is_refused(host: Path) -> None:
    with pytest.raises(SlurmRefused, match="cannot read the script /nowhere/job"):
        SlurmClient(runner()).submit(Submission("/nowhere/job.sh", environment={"A": "1"}))


@pytest.mark.parametrize(
    ("status", "error", "message"),
    [
        (255, SlurmUnreachable, "no connection to login1: whether squeue ran is unknown"),
        (124, SlurmUnreachable, "squeue on login1 did not end within 20 s"),
        (127, RequestNotSent, "login1 has no squeue on the PATH"),
    ],
)
def test_a_lost_connection_is_no_answer(status: int, error: type[Exception], message: str, host: Path) -> None:
    (host / "status").write_text(str(status))
    with pytest.raises(error, match=message) as caught:
        runner().run(["squeue"])
    assert "lost" in str(caught.value)


def test_a_command_that_is_late_is_ended_on_the_host_too(host: Path) -> None:
    with pytest.raises(SlurmUnreachable, match="did not end within 1 s"):
        runner(timeout_s=1).run(["sleep", "30"])


def test_one_master_serves_all_commands(host: Path) -> None:
    found = runner()
    for _ in range(2):
        found.run(["true"])
    calls = (host / "calls").read_text().splitlines()
    assert sum("-fN" in call for call in calls) == 1
    assert all("BatchMode=yes" in call for call in calls if "-T" in call), "no command waits for a password"
    assert all("ControlPath=/tmp/m/%C" in call for call in calls if "-G" not in call)
    assert found.login_name() == "eve"


def test_the_users_own_connection_is_used(host: Path) -> None:
    with (host / "configuration").open("a") as file:
        file.write("controlpath /home/ada/.ssh/cm-login1\n")
    runner().run(["true"])
    calls = (host / "calls").read_text()
    assert "ControlPath" not in calls
    assert "-fN" not in calls


@pytest.mark.parametrize("name", ["-oProxyCommand=x", "", "a b", "host;x", "ssh://-oX", "ssh://h/x"])
def test_what_is_no_host_is_refused(name: str, host: Path) -> None:
    with pytest.raises(ConfigurationError, match="is no host"):
        SshRunner(name, Path("/tmp/m"))


def test_a_path_that_is_too_long_for_a_socket_is_refused(host: Path) -> None:
    with pytest.raises(ConfigurationError, match="shorter folder with MIRAGE_HOME"):
        SshRunner("login1", Path("/tmp") / ("x" * 60))
