"""``mirage doctor``: what it prints of what it finds."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest

from mirage.agent.store.sql_store import open_store
from mirage.cli import cli_context as cluster
from mirage.cli import main
from mirage.slurm.survey import Finding
from tests.support.read_only import full_disk, read_only

FINDINGS = [
    Finding("ok", "version", "25.11"),
    Finding("warn", "MinJobAge", "60 s", "jobs are forgotten soon"),
    Finding("fail", "controller", "no answer", "is it up?"),
]


@pytest.fixture(autouse=True)
def _own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MIRAGE_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("MIRAGE_STORE", raising=False)


@pytest.mark.parametrize(("count", "status"), [(1, 0), (2, 0), (3, 1)])
def test_a_line_for_each_finding_and_its_advice_below(
    count: int, status: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("mirage.slurm.survey.survey", lambda slurm: FINDINGS[:count])
    assert main(["doctor"]) == status
    lines = [
        "ok    version        25.11",
        "note  MinJobAge      60 s",
        "                     jobs are forgotten soon",
        "FAIL  controller     no answer",
        "                     is it up?",
    ]
    assert capsys.readouterr().out.splitlines() == lines[: 2 * count - 1]


def test_json_has_every_field_and_the_same_status(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("mirage.slurm.survey.survey", lambda slurm: FINDINGS)
    assert main(["doctor", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)[1:] == [
        {"level": "warn", "what": "MinJobAge", "value": "60 s", "advice": "jobs are forgotten soon"},
        {"level": "fail", "what": "controller", "value": "no answer", "advice": "is it up?"},
    ]


def test_where_there_is_no_slurm_it_reports_what_to_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("MIRAGE_QUEUE", raising=False)
    assert main(["doctor"]) == 1
    first, advice = capsys.readouterr().out.splitlines()
    assert first == "FAIL  controller     no answer"
    assert advice.strip().startswith("cannot run s")
    assert advice.endswith("is Slurm's bin folder on PATH?")


def test_a_source_of_the_queue_that_there_is_not_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MIRAGE_QUEUE", "sqeue")
    assert main(["doctor"]) == 1
    assert capsys.readouterr().err == (
        "mirage: error: unknown source of the queue in MIRAGE_QUEUE, 'sqeue'. Did you mean 'squeue'? "
        "Known: http://HOST:PORT of slurmrestd, scontrol, squeue.\n"
    )


@pytest.fixture
def doctor(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[[Path], str]:
    """Returns the advice of the finding on the agent's folder, empty for none."""
    monkeypatch.setattr("mirage.slurm.survey.survey", lambda slurm: [])

    def advice(home: Path) -> str:
        monkeypatch.setenv("MIRAGE_HOME", str(home))
        status = main(["doctor", "--json"])
        found = json.loads(capsys.readouterr().out)
        assert [(one["level"], one["what"]) for one in found] == [("fail", "folder")] * status
        assert main(["doctor"]) == status
        out = capsys.readouterr().out
        assert not found or out.splitlines()[0] == "FAIL  folder         cannot be used; no chain is submitted"
        return found[0]["advice"] if found else ""

    return advice


def test_patterns_of_the_user_that_are_not_valid_are_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("mirage.slurm.survey.survey", lambda slurm: [])
    monkeypatch.setenv("MIRAGE_HOME", str(tmp_path))
    (tmp_path / "log-patterns.toml").write_text("licence = 3")
    assert main(["doctor", "--json"]) == 1
    (finding,) = json.loads(capsys.readouterr().out)
    assert (finding["level"], finding["what"]) == ("fail", "log patterns")
    assert "'licence' is not a table" in finding["advice"]


def test_a_folder_that_can_be_made_is_not_made(doctor: Callable[[Path], str], tmp_path: Path) -> None:
    assert doctor(tmp_path / "new" / "home") == ""
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_made_is_a_failure(doctor: Callable[[Path], str], tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path / "nothing")
    for home in (Path("/proc/nohome"), tmp_path / "file", tmp_path / "file" / "home", tmp_path / "link"):
        advice = doctor(home)
        assert advice.startswith(f"cannot make {home}: ")
        assert advice.endswith("; name another folder with MIRAGE_HOME")
        assert main(["agent", "status"]) == 1


def test_a_folder_that_cannot_be_written_is_a_failure(doctor: Callable[[Path], str], tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    assert doctor(tmp_path / "home") == ""
    with read_only(tmp_path / "home", tmp_path / "mounted") as home:
        fails = "Read-only file system; name another folder with MIRAGE_HOME"
        assert doctor(home) == f"cannot write {home}: {fails}"
        assert doctor(home / "below") == f"cannot make {home}/below: {fails}"
    with full_disk(tmp_path / "home", tmp_path / "full") as home:
        assert "No space left on device" in doctor(home)
    assert list((tmp_path / "home").iterdir()) == []


def test_a_store_that_cannot_be_written_is_a_failure(
    doctor: Callable[[Path], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
    home.mkdir()
    elsewhere.mkdir()
    open_store(f"sqlite:///{home}/store.db").close()
    assert doctor(home) == ""
    (home / "store.db").write_text("not a database" * 99)
    assert f"{home}/store.db cannot be used: file is not a database" in doctor(home)
    (home / "store.db").rename(home / "store.db.backup-1")
    assert f"the store {home}/store.db is gone, but its backups" in doctor(home)
    with read_only(elsewhere, tmp_path / "mounted") as mounted:
        monkeypatch.setenv("MIRAGE_STORE", f"sqlite:///{mounted}/store.db")
        fails = "Read-only file system; name another with MIRAGE_STORE"
        assert doctor(home) == f"cannot open the store {mounted}/store.db: {fails}"
        open_store(f"sqlite:///{elsewhere}/store.db").close()
        assert doctor(home) == f"cannot open the store {mounted}/store.db: {fails}"


def test_the_chains_of_another_cluster_are_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    slurm = SimpleNamespace(configuration=lambda: {"clustername": "c1", "slurmctldhost[0]": "head"})
    monkeypatch.setattr(cluster, "client", lambda *_: slurm)
    monkeypatch.setattr("mirage.slurm.survey.survey", lambda slurm: [Finding("ok", "cluster", "c1")])
    for bound, status in (("c1@head:", 0), ("other@head:", 1)):
        (tmp_path / "home").mkdir(exist_ok=True)
        with closing(open_store(f"sqlite:///{tmp_path}/home/store.db")) as store:
            store.rebind(bound)
        assert main(["doctor"]) == status
        assert ("FAIL  chains         of another cluster\n" in capsys.readouterr().out) is bool(status)


def test_a_trial_that_is_refused_is_a_failure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr("mirage.slurm.survey.survey", lambda slurm: [Finding("ok", "cluster", "c1")])
    for refusal, value in (
        ("srun: error: invalid partition specified: nopart", "not tried: Slurm takes no partition nopart"),
        ("srun: error: Access denied", "does not work: sbatch or srun refused"),
    ):
        (tmp_path / "srun").write_text(f"#!/bin/sh\necho {refusal} >&2\nexit 1\n")
        (tmp_path / "srun").chmod(0o755)
        assert main(["doctor", "--in-job", "-p", "nopart"]) == 1
        assert f"FAIL  agent in a job {value}" in capsys.readouterr().out
