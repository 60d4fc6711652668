"""``mirage submit --agentless``: options that need an agent are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from mirage.cli import main
from mirage.duration import UNLIMITED_S
from mirage.job_state import MISSING
from mirage.slurm.client import SlurmClient
from mirage.slurm.records import Machine, SlurmPartition


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (("--never-two",), 2, "--never-two cannot be used with --agentless: the next link may start before"),
        (("--ready-command", "true"), 2, "the script makes the file $MIRAGE_READY with --ready-by-job"),
        (("--links-a-day", "5"), 2, "--links-a-day cannot be used with --agentless: three links in a row"),
        (("--notify", "true"), 2, "--notify cannot be used with --agentless: no process sends messages"),
        (("--framework", "python"), 2, "--framework cannot be used with --agentless: the wrapper of a preset"),
        (("-p", "closed"), 1, "this site allows no chains in partition closed; choose another partition (site file"),
        ((), 1, "this site allows no chains in partition closed; choose another partition (site file"),
        (("--dry-run",), 1, "this site allows no chains in partition closed; choose another partition (site file"),
        (("--interruption-cost", "3"), 2, "--agentless weighs interruption and overlap alike; give a tree"),
        (("--policy", "lead:0.1"), 1, "--agentless decides by a tree in the job, not by lead:0.1"),
        (("--policy", "lead:99"), 1, "--agentless decides by a tree in the job, not by lead:99"),
        (("--policy", "shell-tree:tree=absent.txt"), 1, "cannot read absent.txt: No such file or directory; name a"),
        (("--policy", "shell-tree:tree=/dev/null"), 1, "cannot read /dev/null: it is a device, which may have no end"),
        (("--policy", "shell-tree:40"), 1, "shell-tree takes use=SHARE (above 0, at most 1: 0.4 for 40 %), tree=MODEL"),
        (("--signal", "B:USR1@60"), 1, "--signal cannot be used with --agentless; give --signal-previous and --grace"),
        (("--chain", "serve"), 1, "home/chains/serve; choose another name with --chain"),
        (("-t", "UNLIMITED"), 1, "the time limit UNLIMITED never ends"),
    ],
)
def test_it_is_refused_in_words(
    words: tuple[str, ...],
    status: int,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    sbatch = tmp_path / "sbatch"
    sbatch.write_text(f"#!/bin/sh\ntouch {tmp_path}/called\nexit 1\n")
    sbatch.chmod(0o755)
    partitions = [SlurmPartition(name, name == "closed", UNLIMITED_S, MISSING, ()) for name in ("open", "closed")]
    monkeypatch.setattr(SlurmClient, "machine", lambda _: Machine((), tuple(partitions)))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("MIRAGE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "mirage").mkdir()
    (tmp_path / "mirage" / "site.toml").write_text('no_chains_in_partitions = ["closed"]\n')
    (tmp_path / "home" / "chains" / "serve").mkdir(parents=True)
    (tmp_path / "train.sh").write_text("#!/bin/sh\n")
    monkeypatch.chdir(tmp_path)
    assert main(["submit", "--agentless", "-t", "1:00:00", *words, "train.sh"]) == status
    assert message in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "called").exists()
    assert not (tmp_path / "home" / "agentless").exists()


@pytest.mark.parametrize(
    ("given", "warns"), [(("-t", "6"), False), (("-t", "5"), True), (("-t", "5", "--links", "3"), False), ((), False)]
)
@pytest.mark.parametrize(
    ("why", "status", "message"),
    [
        ("(connect failure)", 1, "nothing was submitted, and there is no chain: try again"),
        ("Socket timed out", 75, "it is not known whether a job was submitted"),
    ],
)
def test_a_request_that_was_not_sent_is_no_lost_answer(
    why: str, status: int, message: str, given: tuple[str, ...], warns: bool, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    sbatch = tmp_path / "sbatch"
    sbatch.write_text(f"#!/bin/sh\necho 'sbatch: error: Unable to contact slurm controller {why}' >&2\nexit 1\n")
    sbatch.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("MIRAGE_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.sh").write_text("#!/bin/sh\n")
    assert main(["submit", "--agentless", *given, "--chain", "alone", "train.sh"]) == status
    printed = capsys.readouterr().err
    assert message in printed
    assert ("that end within 00:05:00 stop the chain, and with -t 5 every job does" in printed) is warns
    assert (tmp_path / "home" / "agentless" / "alone").exists() == (status == 75)


@pytest.mark.parametrize("given", [(), ("-D", "sub"), ("-D", "/")])
def test_every_job_runs_in_the_folder_of_the_first(
    given: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sbatch = tmp_path / "sbatch"
    sbatch.write_text("#!/bin/sh\nexit 1\n")
    sbatch.chmod(0o755)
    monkeypatch.setattr(SlurmClient, "machine", lambda _: Machine((), ()))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("MIRAGE_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sub").mkdir()
    (tmp_path / "train.sh").write_text("#!/bin/sh\n")
    assert main(["submit", "--agentless", "--dry-run", "-t", "1:00:00", *given, "train.sh"]) == 0
    assert f" --chdir={Path(tmp_path, *given[1:])} " in capsys.readouterr().out
