"""How to install an extra: from a copy of the repository, or by pip."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import mirage
from mirage.extras import install
from tests.support.documents import ROOT, SETUP
from tests.test_packaging import EXTRAS


def test_a_copy_of_the_repository_installs_by_its_script() -> None:
    assert install("learn") == f"{SETUP} learn"


def test_an_installed_package_installs_by_pip(tmp_path: Path) -> None:
    shutil.copy(Path(mirage.__file__).parent / "extras.py", tmp_path)
    program = "import extras; print(extras.install('learn'))"
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == 'pip install "mirage-hpc[learn]"\n'


def test_every_extra_that_a_message_names_exists() -> None:
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py")]
    named = {name for text in texts for name in re.findall(r"\{install\(['\"](\w+)['\"]\)\}", text)}
    assert len(named) > 6
    assert named <= EXTRAS.keys()
