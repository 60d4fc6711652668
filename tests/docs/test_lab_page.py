"""The commands of docs/how-to/lab.md, typed in order into a shell on this machine."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from mirage.lab.real.lab_spec import LabSpec
from mirage.lab.real.slurm_packages import ADVICE, missing
from tests.support.documents import DOCS
from tests.support.user_shell import installed_mirage
from tests.support.waiting import until

pytestmark = [pytest.mark.real_slurm, pytest.mark.slow]

PAGE = DOCS / "how-to" / "lab.md"


@pytest.fixture
def shell(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An environment in which ``mirage`` is this tree's."""
    home = tmp_path_factory.mktemp("home")  # short: the path of a lab holds those of Unix sockets
    if lacking := missing(LabSpec(directory=home)):
        pytest.skip(f"a real Slurm needs {', '.join(lacking)}; {ADVICE}")
    return installed_mirage(home)


def test_the_commands_of_the_page_work_when_typed_in_order(shell: dict[str, str]) -> None:
    blocks = re.findall(r"^```sh\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    begin, later, end = [block for block in blocks if "mirage " in block and "lab run" not in block]
    assert f"{begin}{later}{end}".count("mirage ") == 6
    assert end == "mirage lab down --purge\n"
    folder = Path(shell["HOME"]) / "work"
    folder.mkdir()
    wait = "while [ ! -s service.log ]\ndo\n    sleep 0.2\ndone"
    watched = f"set -e\n{begin}\n{wait}\n{later}\n{end}"
    try:
        done = subprocess.run(
            ["bash", "-c", watched], env=shell, cwd=folder, capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert "Submitted batch job 1\n" in done.stdout
        assert re.search(r"^service +active +lead:0\.02", done.stdout, re.M)
        assert "link 1 is up\n" in done.stdout
        assert sorted(path.name for path in folder.iterdir()) == ["job.sh", "service.log"]
        until(lambda: processes_of(folder) == [], 10, lambda: str(processes_of(folder)))
    finally:
        if (folder / "mirage-lab").exists():
            subprocess.run(["mirage", "lab", "down", "--purge"], env=shell, cwd=folder, check=False)


def processes_of(folder: Path) -> list[str]:
    """Command lines of what runs with this folder in its environment or its words."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            printed = (entry / "environ").read_bytes() + (entry / "cmdline").read_bytes()
            if str(folder).encode() in printed and int(entry.name) != os.getpid():
                found.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            continue
    return [command for command in found if command]
