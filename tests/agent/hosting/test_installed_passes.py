"""Entries of passes in a user's tables: what is written, preserved, refused and removed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mirage.agent.hosting import installed_passes as passes
from mirage.agent.paths import Home
from mirage.cli import main
from mirage.errors import ConfigurationError

OTHERS = b"MAILTO=ada@example.org\n# nightly  \n17 3 * * *\tbackup --all 'a b' 50\\%\n\n"

TABLE = """#!/bin/sh
case "$1" in
  -l) [ -f "{file}" ] && exec cat "{file}"; echo "no {name} for ada" >&2; exit 1 ;;
  -r) exec rm "{file}" ;;
  *) cat "$1" > "{file}"; echo >> "{file}.writes" ;;
esac
"""


@pytest.fixture(params=["crontab", "scrontab"])
def table(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program that stores a table in a file, as crontab and scrontab do."""
    bin_folder, file = tmp_path / "bin", tmp_path / "table"
    bin_folder.mkdir()
    program = bin_folder / request.param
    program.write_text(TABLE.format(file=file, name=request.param))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{bin_folder}:/usr/bin:/bin")
    monkeypatch.setenv("MIRAGE_HOME", str(tmp_path / "it's 50% home"))
    monkeypatch.delenv("MIRAGE_STORE", raising=False)
    return program


def way(table: Path) -> str:
    return "--cron" if table.name == "crontab" else "--scrontab"


def test_units_of_a_systemd_that_does_not_answer_are_undone_and_can_be_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    systemctl = tmp_path / "systemctl"
    systemctl.write_text("#!/bin/sh\nexit 0\n")
    systemctl.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("MIRAGE_HOME", str(tmp_path / "home"))

    def files() -> list[str]:
        ours = [*(tmp_path / "config").rglob("mirage*"), *(tmp_path / "home").glob("*.sh")]
        return sorted(path.name for path in ours)

    silent = "#!/bin/sh\necho Failed to connect to bus: No medium found >&2\nexit 1\n"
    systemctl.write_text(silent)
    assert main(["agent", "install", "--systemd"]) == 1
    assert "XDG_RUNTIME_DIR=/run/user/" in capsys.readouterr().err
    assert files() == []
    systemctl.write_text("#!/bin/sh\nexit 0\n")
    assert main(["agent", "install", "--systemd"]) == 0
    installed = files()
    assert installed == ["agent-once-systemd.sh", passes.PASS_UNIT, passes.PASS_TIMER]
    systemctl.write_text(silent)
    assert main(["agent", "install", "--systemd", "--every", "10m"]) == 1
    assert files() == installed
    assert "OnUnitActiveSec=300s" in (tmp_path / "config" / "systemd" / "user" / passes.PASS_TIMER).read_text()
    capsys.readouterr()
    capsys.readouterr()
    assert main(["agent", "install", "--systemd", "--remove", "--dry-run"]) == 0
    assert capsys.readouterr().err == "would be removed:\n"
    assert main(["agent", "install", "--systemd", "--remove"]) == 1
    assert "are removed, but a timer that runs goes on" in capsys.readouterr().err
    assert files() == []


def test_an_entry_is_installed_once_and_removed_and_others_stay_byte_for_byte(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "table"
    file.write_bytes(OTHERS)
    assert main(["agent", "install", way(table), "--dry-run"]) == 0
    printed = capsys.readouterr()
    assert file.read_bytes() == OTHERS
    assert main(["agent", "install", way(table)]) == 0
    assert capsys.readouterr().out == printed.out
    installed = file.read_bytes()
    assert installed == OTHERS + printed.out.encode()
    assert main(["agent", "install", way(table)]) == 0
    assert capsys.readouterr().err == "nothing to change\n"
    assert (tmp_path / "table.writes").read_text() == "\n"
    assert main(["agent", "install", way(table), "--every", "10m", "--json"]) == 0
    assert "*/10 * * * *" in json.loads(capsys.readouterr().out)["text"]
    assert file.read_bytes() == installed.replace(b"*/5", b"*/10")
    file.write_bytes(file.read_bytes() + b"# later\n")
    assert main(["agent", "install", way(table), "--remove"]) == 0
    assert file.read_bytes() == OTHERS + b"# later\n"
    assert main(["agent", "install", way(table), "--remove"]) == 0
    assert capsys.readouterr().err.endswith("nothing to remove\n")


@pytest.mark.parametrize(
    ("edited", "installed"),
    [("blfe", "Ef"), ("bflef", "Eff"), ("blf", "Ef"), ("fle", "fE"), ("flf", "fEf"), ("bfeblf", "Eff")],
)  # the entry's begin, line and end; a foreign line; a whole entry
def test_lines_of_others_stay_in_an_entry_that_was_edited(
    table: Path, tmp_path: Path, edited: str, installed: str
) -> None:
    file, install = tmp_path / "table", ["agent", "install", way(table)]
    assert main(install) == 0
    begin, *line, end = file.read_text().splitlines(keepends=True)
    foreign = f"5 5 * * * /bin/important {passes.pass_script(Home.of(os.environ), table.name)}\n"
    pieces = {"b": begin, "l": "".join(line), "e": end, "f": foreign, "E": file.read_text()}
    file.write_text("".join(pieces[piece] for piece in edited))
    assert main([*install, "--remove"]) == 0
    assert file.read_text() == foreign * edited.count("f")
    file.write_text("".join(pieces[piece] for piece in edited))
    assert main(install) == 0
    assert file.read_text() == "".join(pieces[piece] for piece in installed)


def test_the_line_runs_the_script_as_the_shell_of_cron_reads_it(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = tmp_path / "my python"
    python.write_text('#!/bin/sh\necho "$MIRAGE_HOME $*"\n')
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    assert main(["agent", "install", way(table)]) == 0
    line = next(line for line in (tmp_path / "table").read_text().splitlines() if line.startswith("*/5"))
    command = line.split(maxsplit=5)[5]
    if table.name == "crontab":
        command = command.replace("\\%", "%")
    subprocess.run(["/bin/sh", "-c", command], env={}, check=True)
    folder = tmp_path / "it's 50% home"
    assert (folder / "agent.log").read_text() == f"{folder} -m mirage agent once --every 300s --log-json\n"
    assert passes.pass_script(Home(folder, ""), table.name).stat().st_mode & 0o777 == 0o700


def test_a_refusal_of_the_tables_program_is_quoted(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table.write_text('#!/bin/sh\necho "You (ada) are not allowed to use this program" >&2\nexit 1\n')
    assert main(["agent", "install", way(table)]) == 1
    assert "refuses: You (ada) are not allowed to use this program; try another of" in capsys.readouterr().err
    table.unlink()
    assert main(["agent", "install", way(table)]) == 1
    assert f"there is no {table.name} on this host" in capsys.readouterr().err


def test_an_entry_that_slurm_has_commented_out_is_noticed(table: Path, tmp_path: Path) -> None:
    home = Home.of({"MIRAGE_HOME": str(tmp_path / "it's 50% home")})
    text = passes.entry_text(home, table.name, 300)
    entry = passes.installed_entry(home, table.name, OTHERS + text)
    assert entry is not None
    assert not entry.disabled
    disabled = text.replace(b"\n*/5", b"\n#DISABLED: */5")
    entry = passes.installed_entry(home, table.name, OTHERS + disabled)
    assert entry is not None
    assert entry.disabled
    assert passes.installed_entry(home, table.name, OTHERS) is None


@pytest.mark.parametrize(("every_s", "fields"), [(60, "* * * * *"), (600, "*/10 * * * *"), (3600, "0 * * * *")])
def test_an_interval_is_in_fields(every_s: int, fields: str) -> None:
    assert passes.schedule(every_s) == fields


@pytest.mark.parametrize("every_s", [0, 30, 90, 420, 7200])
def test_an_interval_that_cron_cannot_express_is_refused(every_s: int) -> None:
    with pytest.raises(ConfigurationError, match="minutes that divides an hour"):
        passes.schedule(every_s)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "give one of --cron, --scrontab, --systemd, --job\n"),
        (["--cron", "--job", "-t", "1-0"], "give one of --cron, --job, not both"),
        (["--job"], "need a time limit, such as -t 1-0"),
        (["--cron", "-p", "service"], "are for an agent that is a job: --job"),
        (["--job", "-t", "1-0", "--every", "10m"], "leave it out with --job and with --remove"),
        (["--cron", "--remove", "--every", "10m"], "leave it out with --job and with --remove"),
    ],
)
def test_wrong_usage(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["agent", "install", *words]) == 2
    assert message in capsys.readouterr().err
