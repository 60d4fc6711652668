"""Files that commands write."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mirage.cli import main
from mirage.cli.output import as_policy, check_output, check_page
from mirage.errors import ConfigurationError


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("folder", "cannot write folder: it is a folder; name a file"),
        ("-", "cannot write -: standard output is /dev/stdout, and a file of this name is ./-"),
        ("absent/x.html", "cannot write absent/x.html: there is no folder absent; make it, or name another"),
        ("file/x.html", "cannot write file/x.html: there is no folder file; make it, or name another"),
    ],
)
def test_a_place_that_cannot_be_written_is_refused_before_the_work(
    name: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigurationError) as refused:
        check_output(name)
    assert str(refused.value) == message


def test_a_closed_folder_is_refused_with_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "old.html").touch()
    requested = []

    def closed(path: Path, mode: int) -> bool:
        requested.append((path, mode))
        return path == tmp_path / "old.html"

    monkeypatch.setattr(os, "access", closed)
    for name in ("new.html", "old.html"):
        with pytest.raises(ConfigurationError) as refused:
            check_output(tmp_path / name)
        assert str(refused.value) == f"cannot write {tmp_path}/{name}: permission denied; name another place"
    folder, file = (tmp_path.resolve(), os.W_OK), (tmp_path / "old.html", os.W_OK)
    assert requested == [folder, file, folder], "a file is replaced, so its folder must be open"


def test_a_file_that_its_owner_protected_is_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "old.csv"
    file.touch(0o444)
    monkeypatch.setattr(os, "access", lambda path, _: path != file)  # root may write anything
    with pytest.raises(ConfigurationError, match="the file is read-only; make it writable, or name"):
        check_output(file)


def test_a_place_that_can_be_written_is_left_as_it_is(tmp_path: Path) -> None:
    check_output(tmp_path / "new.html")
    check_output("/dev/null")
    assert list(tmp_path.iterdir()) == []


def test_a_page_has_the_name_of_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for allowed in ("a.HTML", "/dev/null"):
        check_page(allowed)
    for name, message in (("a.svg", "must end in .html"), ("gone/a.html", "there is no folder gone")):
        with pytest.raises(ConfigurationError, match=message):
            check_page(name)


@pytest.mark.parametrize(
    ("written", "named"), [("model", "./model"), ("models/m", "models/m"), ("../m", "../m"), ("/tmp/m", "/tmp/m")]
)
def test_a_policy_s_file_is_named_so_that_it_is_found(written: str, named: str) -> None:
    assert as_policy(written) == named


def test_a_file_that_is_read_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "jobs.csv").touch()
    (tmp_path / "link.csv").symlink_to("jobs.csv")
    for name in ("jobs.csv", "./jobs.csv", "link.csv"):
        with pytest.raises(ConfigurationError, match="it is the file that is read; name another"):
            check_output(name, "other.csv", "jobs.csv")
    check_output("new.csv", "jobs.csv", "-", "")
    check_output("/dev/null", "/dev/null")


def test_a_loop_of_links_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "one").symlink_to("other")
    (tmp_path / "other").symlink_to("one")
    with pytest.raises(ConfigurationError, match="Too many levels of symbolic links"):
        check_output(tmp_path / "one")
    assert main(["lab", "up", str(tmp_path / "one")]) == 1
    assert "Too many levels of symbolic links; name another place" in capsys.readouterr().err


def test_an_empty_name_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="the name of the file to write is empty"):
        check_output("")


CSV = "job_id,submit_s,elapsed_s,limit_s,nodes\n1,0,60,120,1\n2,90000,60,120,1\n"


@pytest.mark.parametrize(
    "words",
    [
        "trace convert FILE FILE", "trace fit FILE -o FILE", "trace generate --like FILE -o FILE --days 1",
        "trace info FILE --plot FILE", "trace fidelity FILE OTHER --plot FILE", "trace fidelity OTHER FILE --plot FILE",
        "simulate FILE --nodes 1 -o FILE", "evaluate FILE --nodes 1 --parquet FILE", "calibrate FILE -o FILE",
        "simulate OTHER --cluster FILE -o FILE", "simulate OTHER --slurm-conf FILE -o FILE",
        "calibrate OTHER --slurm-conf FILE -o FILE", "calibrate OTHER --qos FILE -o FILE",
        "calibrate OTHER --associations FILE -o FILE", "calibrate OTHER --sprio FILE -o FILE",
        "evaluate OTHER --cluster FILE --plot FILE", "evaluate OTHER --cluster FILE --chain-length 1d --plot FILE",
        "evaluate OTHER --nodes 1 --policies reactive,FILE --plot FILE",
        "train forest OTHER --cluster FILE -o FILE", "explain reactive OTHER --cluster FILE -o FILE",
        "distill fit --teacher tree:FILE -o FILE", "distill fit --teacher FILE -o OTHER --plot FILE",
        "distill fit --teacher fair --rule FILE -o FILE", "distill fit --teacher fair --profiles FILE -o FILE",
        "train decima --profiles FILE -o FILE", "train decima --profiles FILE --resume FILE -o OTHER",
        "distill tune tree --profiles FILE -o FILE", "distill mend tree --profiles FILE --report FILE",
        "train predict FILE -o FILE", "train forest FILE --nodes 1 -o FILE",
        "explain reactive FILE --nodes 1 -o FILE", "explain FILE OTHER --nodes 1 -o FILE",
        "schedule run FILE --scheduler fifo --report FILE", "schedule compare OTHER FILE --report FILE",
    ],
)  # fmt: skip
def test_no_command_writes_over_a_file_that_it_reads(
    words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, other = tmp_path / "jobs.svg", tmp_path / "other.csv"
    file.write_text(CSV)
    other.write_text(CSV)
    named = words.replace("FILE", str(file)).replace("OTHER", str(other)).split()
    assert main(named) == 1
    assert "it is the file that is read; name another" in capsys.readouterr().err
    assert file.read_text() == CSV


@pytest.mark.parametrize(
    "words",
    [
        "learn dataset x.csv -N 1 -o", "compare x.csv -N 1 --months 2023-01 -o", "evaluate x.csv -N 1 --resume",
        "train best x.csv -o m --resume", "train forest x.csv -o m --data", "train forest x.csv -o m --report",
        "dag compare --resume", "schedule compare x.csv --resume", "schedule sensitivity x.csv --resume",
    ],
)  # fmt: skip
def test_an_empty_name_of_a_folder_is_not_the_current_one(
    words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main([*words.split(), ""]) == 2
    assert "the name of the folder is empty; name a folder" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
@pytest.mark.parametrize(
    ("target", "why"), [("> /dev/full", "No space left on device"), ("| exec 0<&-", "Broken pipe")]
)
@pytest.mark.parametrize(
    "report",
    [
        "submit_command import _report; _report({'as_json': False, 'parsable': True, 'quiet': False}, 'c', 7)",
        "submit_command import _report; _report({'as_json': True, 'quiet': False}, 'c', 7)",
        "adopt_command import echo_outcome; echo_outcome('7')",
    ],
)
def test_a_job_that_is_submitted_is_reported_even_where_the_output_cannot_be_written(
    report: str, target: str, why: str
) -> None:
    code = f"import time; time.sleep(0.2); from mirage.cli.commands.chain.{report}"
    run = subprocess.run(
        ["bash", "-c", f'"$0" -c "$1" {target}; exit ${{PIPESTATUS[0]}}', sys.executable, code],
        capture_output=True,
        text=True,
    )
    warning = run.stderr.splitlines()[0]
    assert warning.startswith(f"mirage: warning: cannot write the output: {why}; it is done: ")
    assert "7" in warning
    assert run.returncode == 0


@pytest.mark.parametrize(
    "words",
    [
        ["evaluate", "jobs.csv", "-N", "4", "--plot", "a.svg", "--parquet", "folder/../a.svg"],
        ["distill", "fit", "--teacher", "fair", "-o", "a.svg", "--plot", "./a.svg"],
        ["calibrate", "jobs.csv", "-o", "a.html", "--report", "a.html"],
        ["evaluate", "jobs.csv", "-N", "4", "--resume", "a", "--parquet", "a"],
        ["train", "forest", "jobs.csv", "-N", "4", "--report", "a", "-o", "a"],
        ["train", "best", "jobs.csv", "-N", "4", "--resume", "a", "-o", "a"],
        ["train", "decima", "--resume", "a", "-o", "a"],
    ],
)
def test_two_outputs_of_a_command_are_two_files(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "jobs.csv").touch()
    monkeypatch.chdir(tmp_path)
    assert main(words) == 1
    assert "cannot write two outputs to " in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ["trace", "info", "/dev/zero"],
        ["simulate", "/dev/zero", "--nodes", "4"],
        ["schedule", "compare", "/dev/zero"],
        ["evaluate", "trace.csv", "--slurm-conf", "/dev/zero"],
        ["distill", "combine", "/dev/zero", "/dev/zero", "-o", "both.txt"],
    ],
)
def test_no_device_is_read(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    assert "/dev/zero is a device, which may have no end; name a file" in " ".join(capsys.readouterr().err.split())


def test_a_device_may_be_written(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trace", "generate", "--days", "1", "--to", "csv", "-o", "/dev/null"]) == 0, capsys.readouterr().err
