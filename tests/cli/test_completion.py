"""Completion in bash itself: a terminal in which the Tab key is pressed."""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from mirage.agent.paths import Home
from mirage.agent.store.sql_store import open_store
from mirage.cli import main
from tests.support.agent_store import SPEC
from tests.support.user_shell import installed_mirage
from tests.support.waiting import SLOWNESS


class Terminal:
    """An interactive bash in a folder, in which mirage completes."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.unread = ""
        self.ours, theirs = pty.openpty()
        own = {"PS1": "ready>", "TERM": "dumb", "LC_ALL": "C.UTF-8", "INPUTRC": "/dev/null"}
        self.bash = subprocess.Popen(
            ["bash", "--norc", "--noprofile", "-i"],
            stdin=theirs, stdout=theirs, stderr=theirs, cwd=folder, env=environment | own, start_new_session=True,
        )  # fmt: skip
        os.close(theirs)
        self.read("ready>")
        self.write("bind 'set bell-style none'; bind 'set enable-bracketed-paste off'\n")
        self.read("ready>")
        self.write("words() { printf '(%s %s)' $(printf 'word %s ' \"$@\"); echo '(end'')'; }\n")
        self.read("ready>")
        self.write('eval "$(_MIRAGE_COMPLETE=bash_source mirage)"\n')
        self.read("ready>")

    def write(self, text: str) -> None:
        os.write(self.ours, text.encode())

    def read(self, until: str) -> str:
        """What the terminal shows until a text appears."""
        end_s = time.monotonic() + 20 * SLOWNESS
        while until not in self.unread:
            left_s = end_s - time.monotonic()
            assert left_s > 0, f"no {until!r} in {self.unread!r}"
            if select.select([self.ours], [], [], left_s)[0]:
                self.unread += os.read(self.ours, 4096).decode()
        shown, _, self.unread = self.unread.partition(until)
        return shown

    def completed(self, typed: str) -> str:
        """The line that a Tab makes of what is typed."""
        self.write(f"{typed}\t")
        self.write("\x01words \n")  # at the beginning of the line
        shown = self.read("(end)")
        self.read("ready>")
        return " ".join(re.findall(r"\(word ([^)]*)\)", shown))


@pytest.fixture(scope="module")
def terminal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    if shutil.which("bash") is None or os.name != "posix":
        pytest.skip("bash is not installed")
    home = tmp_path_factory.mktemp("home")
    folder = home / "work"
    (folder / "results").mkdir(parents=True)
    for name in ("jobs-2025.csv", "gpus.toml", "my model"):
        (folder / name).write_text("")
    environment = installed_mirage(home)
    with closing(open_store(Home.of(environment).store_url)) as store:
        store.add_chain("training", SPEC, 0)
    opened = Terminal(folder, environment)
    yield opened
    opened.bash.kill()
    opened.bash.wait()
    os.close(opened.ours)


@pytest.mark.parametrize(
    ("typed", "line"),
    [
        ("mirage eva", "mirage evaluate"),
        ("mirage trace conv", "mirage trace convert"),
        ("mirage evaluate --link-no", "mirage evaluate --link-nodes"),
        ("mirage evaluate --link-user hea", "mirage evaluate --link-user heavy"),
        ("mirage trace info jo", "mirage trace info jobs-2025.csv"),
        ("mirage trace info jobs-2025.csv --plot gp", "mirage trace info jobs-2025.csv --plot gpus.toml"),
        ("mirage evaluate jobs-2025.csv --resume re", "mirage evaluate jobs-2025.csv --resume results/"),
        ("mirage evaluate jobs-2025.csv --discipline conse", "mirage evaluate jobs-2025.csv --discipline conservative"),
        ("mirage evaluate jobs-2025.csv --policies reactive,slurm-e",
         "mirage evaluate jobs-2025.csv --policies reactive,slurm-estimate"),
        ("mirage submit --policy gp", "mirage submit --policy gpus.toml"),
        ("mirage submit -t 48:00:00 jo", "mirage submit -t 48:00:00 jobs-2025.csv"),
        ("mirage submit --until-d", "mirage submit --until-done"),
        ("mirage chain show tra", "mirage chain show training"),
        ("mirage chain show gpu", "mirage chain show gpu"),
        ("mirage schedule run jo", "mirage schedule run jobs-2025.csv"),
        ("mirage compile conserv", "mirage compile conserv"),
    ],
)  # fmt: skip
def test_the_tab_key_completes(typed: str, line: str, terminal: Terminal) -> None:
    assert terminal.completed(typed) == line


def test_the_tab_key_prints_no_error(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("MIRAGE_HOME", "/dev/null")
    words = {"COMP_WORDS": "mirage chain show ", "COMP_CWORD": "3", "_MIRAGE_COMPLETE": "bash_complete"}
    for name, value in words.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit) as ended:
        main([])
    assert (ended.value.code, *capfd.readouterr()) == (0, "\n", "")


@pytest.mark.parametrize(
    "variables",
    [
        {"_MIRAGE_COMPLETE": "bash_complete"},
        {"_MIRAGE_COMPLETE": "zsh_complete", "COMP_WORDS": "mirage tr", "COMP_CWORD": "x"},
        {"_MIRAGE_COMPLETE": "fish_complete", "COMP_WORDS": "mirage tr"},
        {"_MIRAGE_COMPLETE": "csh_source"},
    ],
)
def test_an_incomplete_request_is_refused_with_the_remedy(
    variables: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert main([]) == 1
    assert "is for a shell's completion; unset it, or give bash_source" in capsys.readouterr().err


def test_the_completion_of_fish_names_the_word(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = {"COMP_WORDS": "mirage trace co", "COMP_CWORD": "co", "_MIRAGE_COMPLETE": "fish_complete"}
    for name, value in words.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit):
        main([])
    assert capsys.readouterr().out.startswith("plain,convert")
