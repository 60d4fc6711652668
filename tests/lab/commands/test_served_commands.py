"""The server of the commands on PATH, and the scripts that replace them."""

from __future__ import annotations

import io
import os
import stat
from pathlib import Path

import pytest

from mirage.errors import ConfigurationError
from mirage.lab.commands import command_client
from mirage.lab.commands.server import COMMANDS, CommandExecutor, environment, place_commands, served_slurm
from tests.support.small_slurm import BEGIN_S, small_slurm


def request(site: CommandExecutor, name: str, *words: str, **more: object) -> dict[str, object]:
    return site.answer({"name": name, "words": list(words), "directory": str(site.spool), "environment": {}, **more})


@pytest.mark.parametrize(
    ("words", "answer", "later_s"),
    [
        (["now"], {"out": f"{BEGIN_S}\n", "err": "", "status": 0}, 0),
        (["advance", "90"], {"out": f"{BEGIN_S + 90}\n", "err": "", "status": 0}, 90),
        (["advance", "1:30"], {"out": f"{BEGIN_S + 90}\n", "err": "", "status": 0}, 90),
        (["advance", "2h"], {"out": f"{BEGIN_S + 7200}\n", "err": "", "status": 0}, 7200),
        (["advance"], {"out": "", "err": "usage: fake-slurm now | advance TIME\n", "status": 2}, 0),
        ([], {"out": "", "err": "usage: fake-slurm now | advance TIME\n", "status": 2}, 0),
    ],
)
def test_time_passes_on_command(tmp_path: Path, words: list[str], answer: dict[str, object], later_s: int) -> None:
    site = CommandExecutor(small_slurm(), tmp_path)
    assert request(site, "fake-slurm", *words) == answer
    assert site.slurm.now_s == BEGIN_S + later_s


def test_a_time_that_is_none(tmp_path: Path) -> None:
    answer = request(CommandExecutor(small_slurm(), tmp_path), "fake-slurm", "advance", "soon")
    assert (answer["out"], answer["status"]) == ("", 1)
    assert str(answer["err"]).startswith("fake-slurm: 'soon' is no duration")


def test_sbatch_requests_its_script_and_takes_it_with_the_second_question(tmp_path: Path) -> None:
    site = CommandExecutor(small_slurm(), tmp_path)
    assert request(site, "sbatch", "-N", "2") == {"wants_script": True}
    assert site.slurm.own == {}
    answer = request(site, "sbatch", "-N", "2", script="#!/bin/sh\n")
    assert answer == {"out": "Submitted batch job 1\n", "err": "", "status": 0}


def test_a_folder_of_commands(tmp_path: Path) -> None:
    place_commands(tmp_path)
    place_commands(tmp_path)
    assert {file.name for file in (tmp_path / "bin").iterdir()} == {*COMMANDS, "fake-slurm"}
    script = (tmp_path / "bin" / "squeue").read_text().splitlines()
    assert script[0] == "#!/bin/sh"
    assert script[1].endswith(f'command_client.py {tmp_path}/slurm.sock squeue "$@"')
    assert stat.S_IMODE((tmp_path / "bin" / "squeue").stat().st_mode) == 0o755
    assert environment(tmp_path)["PATH"].split(os.pathsep)[0] == f"{tmp_path}/bin"
    with pytest.raises(ConfigurationError, match=r"is too long a path for a Unix socket, by \d+ bytes; choose"):
        place_commands(tmp_path / ("x" * 100))


def test_a_client_prints_answers_and_their_absence(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setattr("sys.stdin", io.StringIO("#!/bin/sh\n#SBATCH -N 3\n"))
    monkeypatch.setenv("SBATCH_COMMENT", "said")
    monkeypatch.setenv("NOTHING_OF_SLURM", "x")
    with served_slurm(small_slurm()) as served:
        path = str(served.directory / "slurm.sock")
        assert command_client.main(path, "sbatch", ["--parsable"]) == 0
        assert command_client.main(path, "sbatch", ["-t", "soon", "job.sh"]) == 1
        made = served.slurm.own[1]
        assert (made.request.nodes, made.comment, made.submission.directory) == (3, "said", str(folder))
        assert "NOTHING_OF_SLURM" not in made.submission.environment
    assert command_client.main(path, "squeue", []) == 1
    printed = capsys.readouterr()
    assert printed.out == "1\n"
    assert printed.err == (
        "sbatch: error: Invalid --time specification\n"
        "slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n"
    )
    assert not served.directory.exists()
