"""Entries that start passes: in crontab, in Slurm's scrontab, or as a systemd timer.

An entry is one line that runs a script in the agent's folder, between two comments that name the folder. Everything
else in the table is preserved byte for byte, also between the comments.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mirage.agent.paths import Home
from mirage.agent.service import install_units, needed_exports, quoted_in_unit, run_systemctl, user_units
from mirage.atomic_file import write_atomically
from mirage.duration import HOUR_S, MINUTE_S
from mirage.errors import ConfigurationError

CRON, SCRONTAB = "crontab", "scrontab"

PATIENCE_S = 60.0
"""Real seconds for a command that reads or writes a table."""

PASS_UNIT, PASS_TIMER = "mirage-agent-once.service", "mirage-agent-once.timer"

WANTS = "timers.target.wants"
"""Folder of the links by which systemd starts enabled timers, in the folder of the units."""

SCRIPT = """#!/bin/sh
# One pass of the agent, started by {table}: mirage agent install --help
{exports}
if [ ! -d {folder} ]; then
  echo "the agent's folder" {folder} "was moved or deleted: MIRAGE_HOME=FOLDER mirage agent install" >&2
  exit 1
fi
exec {python} -m mirage agent once --every {every_s}s --log-json >> {log} 2>&1
"""

_NONE_YET = re.compile(rb"no (s?crontab|crontab entry) for", re.IGNORECASE)
"""What the tables' programs print where the user has no table; scrontab prints nothing instead."""

_DISABLED = b"#DISABLED"
"""Prefix of a line of scrontab with a job that was cancelled (Slurm 21.08 and later)."""


@dataclass(frozen=True, slots=True)
class Entry:
    """The entry of the agent in a table.

    Attributes:
        table: ``crontab`` or ``scrontab``.
        line: The line that starts passes, as it is in the table.
        disabled: Whether Slurm has commented it out, because its job was cancelled.
    """

    table: str
    line: str
    disabled: bool = False


def pass_script(home: Home, table: str) -> Path:
    """Location of the script that an entry runs."""
    return home.folder / f"agent-once-{table}.sh"


def write_pass_script(home: Home, environment: Mapping[str, str], table: str, every_s: int) -> Path:
    """Write the script that an entry runs, with the environment of the agent.

    Raises:
        ConfigurationError: It cannot be written.
    """
    path = pass_script(home, table)
    text = SCRIPT.format(
        table=table,
        exports=needed_exports(environment),
        folder=shlex.quote(str(home.folder)),
        python=shlex.quote(sys.executable),
        every_s=every_s,
        log=shlex.quote(str(home.log)),
    )
    try:
        home.open_log().close()
        write_atomically(path, text.encode(), 0o700)
    except OSError as error:
        raise ConfigurationError(f"cannot write {path}: {error.strerror}") from error
    return path


def schedule(every_s: int) -> str:
    """The five fields of an entry for an interval.

    Raises:
        ConfigurationError: The interval cannot be expressed in whole minutes that divide an hour.
    """
    minutes, rest = divmod(every_s, MINUTE_S)
    if rest or not minutes or HOUR_S % every_s:
        raise ConfigurationError(
            f"an entry cannot start every {every_s} s; use a number of minutes that divides an hour, such as 5m or 10m"
        )
    return "0 * * * *" if minutes == 60 else "* * * * *" if minutes == 1 else f"*/{minutes} * * * *"


def entry_text(home: Home, table: str, every_s: int, options: Sequence[str] = ()) -> bytes:
    """The lines of the agent's entry.

    Args:
        options: Options of sbatch for the jobs of scrontab.
    """
    if "\n" in str(home.folder):
        raise ConfigurationError(f"{table} cannot run a program in {home.folder!s}: its name has a line break")
    begin, end = _marks(home)
    own = ["--job-name=mirage-agent", "--ntasks=1", "--output=/dev/null", *options] if table == SCRONTAB else []
    line = f"{schedule(every_s)} {_command(home, table)}"
    lines = [begin, *(["#SCRON " + shlex.join(own)] if own else []), line, end]
    return "".join(f"{line}\n" for line in lines).encode()


def installed_entry(home: Home, table: str, text: bytes) -> Entry | None:
    """The agent's entry in the text of a table; None for none."""
    for found in _own_lines(home, table).finditer(text):
        if line := found["line"]:
            return Entry(table, line.decode(errors="replace"), line.startswith(_DISABLED))
    return None


def entry_trouble(home: Home) -> str:
    """The problem of an installed entry as text; empty for none, and where none was installed.

    A table is read only where the agent's folder has the script of its entry.
    """
    for table, option in ((CRON, "--cron"), (SCRONTAB, "--scrontab")):
        if not pass_script(home, table).exists():
            continue
        again = f"mirage agent install {option}, or --remove"
        try:
            entry = installed_entry(home, table, read_table(table))
        except ConfigurationError as error:
            return f"the entry for passes cannot be read: {error}"
        if entry is None:
            return f"the entry for passes is not in {table} any more; {again}"
        if entry.disabled:
            return f"Slurm has disabled the entry for passes in {table}, because its job was cancelled; {again}"
    return ""


def with_entry(home: Home, table: str, text: bytes, entry: bytes) -> bytes:
    """The text of a table with an entry in place of the agent's earlier one, if any."""
    earlier = _own_lines(home, table).search(text)
    place = earlier.start() if earlier else len(text)
    before, after = text[:place], without_entry(home, table, text[place:])
    if before and not before.endswith(b"\n"):
        before += b"\n"
    return before + entry + after


def without_entry(home: Home, table: str, text: bytes) -> bytes:
    """The text of a table without the agent's entry."""
    return _own_lines(home, table).sub(b"", text)


def read_table(table: str) -> bytes:
    """The user's table; empty for none.

    Raises:
        ConfigurationError: There is no such program on this host, or this user may not use it.
    """
    done = _run(table, "-l")
    if done.returncode and not _NONE_YET.search(done.stderr + done.stdout):
        raise ConfigurationError(_refusal(table, done))
    return b"" if done.returncode or _NONE_YET.match(done.stdout) else done.stdout


def write_table(table: str, text: bytes) -> None:
    """Replace the user's table; an empty text removes it.

    Raises:
        ConfigurationError: The program refuses.
    """
    if not text:
        done = _run(table, "-r")
    else:
        with tempfile.NamedTemporaryFile(prefix="mirage-") as file:
            file.write(text)
            file.flush()
            done = _run(table, file.name)
    if done.returncode:
        raise ConfigurationError(_refusal(table, done))


def pass_units(home: Home, every_s: int) -> dict[str, str]:
    """The systemd user units of passes, by name: a service that runs once, and its timer."""
    script = quoted_in_unit(str(pass_script(home, "systemd")), "$")
    service = (
        "[Unit]\nDescription=One pass of Mirage\n\n[Service]\nType=oneshot\n"
        f'ExecStart=/bin/sh -c "exec \\"$$0\\"" {script}\n'
    )
    timer = (
        "[Unit]\nDescription=Passes of Mirage, which keeps chains of Slurm jobs alive\n\n[Timer]\n"
        f"OnActiveSec=1s\nOnUnitActiveSec={every_s}s\nAccuracySec=1s\n\n[Install]\nWantedBy=timers.target\n"
    )
    return {PASS_UNIT: service, PASS_TIMER: timer}


def install_timer(environment: Mapping[str, str], home: Home, every_s: int) -> Path:
    """Write the units of passes and start the timer; returns the timer's file.

    Raises:
        ConfigurationError: There is no systemd for users on this host; the units are then as they were before.
    """
    return install_units(environment, pass_units(home, every_s), PASS_TIMER)


def has_timer(environment: Mapping[str, str]) -> bool:
    """Whether the units of the timer are installed."""
    folder = user_units(environment)
    return any((folder / name).exists() for name in (PASS_TIMER, PASS_UNIT))


def remove_timer(environment: Mapping[str, str]) -> bool:
    """Stop the timer and remove the units; whether there were any.

    Raises:
        ConfigurationError: systemd does not answer; the units are removed, but a timer that runs goes on.
    """
    folder = user_units(environment)
    present = [folder / name for name in (PASS_TIMER, PASS_UNIT) if (folder / name).exists()]
    if not present:
        return False
    trouble = ""
    try:
        run_systemctl("disable", "--now", PASS_TIMER)
    except ConfigurationError as error:
        trouble = str(error)
    for path in (*present, folder / WANTS / PASS_TIMER):
        path.unlink(missing_ok=True)
    if trouble:
        raise ConfigurationError(f"the units in {folder} are removed, but a timer that runs goes on: {trouble}")
    run_systemctl("daemon-reload")
    return True


def _marks(home: Home) -> tuple[str, str]:
    folder = shlex.quote(str(home.folder))
    return f"# mirage agent of {folder} begins", f"# mirage agent of {folder} ends"


def _command(home: Home, table: str) -> str:
    """The command of the agent's line in a table."""
    command = shlex.quote(str(pass_script(home, table)))
    return command.replace("%", "\\%") if table == CRON else command  # crontab(5): an unescaped % ends the command


def _own_lines(home: Home, table: str) -> re.Pattern[bytes]:
    """A pattern of the agent's comments, and of its line with the options above it."""
    begin, end, command = (re.escape(words.encode()) for words in (*_marks(home), _command(home, table)))
    off, fields = rb"(?:" + _DISABLED + rb":? ?)?", rb"(?:@\w+|[^#\s]\S*(?:[ \t]+\S+){4})[ \t]+"
    line = rb"(?:" + off + rb"#SCRON[^\n]*\n)*(?P<line>" + off + fields + command + rb"(?:[ \t][^\n]*)?)"
    return re.compile(rb"^(?:" + begin + rb"|" + end + rb"|" + line + rb")(?:\n|\Z)", re.MULTILINE)


def _run(table: str, *words: str) -> subprocess.CompletedProcess[bytes]:
    if shutil.which(table) is None:
        raise ConfigurationError(f"there is no {table} on this host; {_ELSE}")
    try:
        return subprocess.run(
            [table, *words], capture_output=True, stdin=subprocess.DEVNULL, timeout=PATIENCE_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ConfigurationError(f"cannot run {table}: {error}") from error


_ELSE = "try another of --cron, --scrontab, --systemd and --job"


def _refusal(table: str, done: subprocess.CompletedProcess[bytes]) -> str:
    printed = " ".join((done.stderr or done.stdout).decode(errors="replace").split())
    return f"{table} refuses: {printed or f'status {done.returncode}'}; {_ELSE}"
