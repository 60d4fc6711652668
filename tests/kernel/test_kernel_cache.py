"""Another process finds compiled kernels as long as their source is unchanged."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import mirage
from mirage.kernel.cache import UNUSED_S
from tests.support.read_only import read_only

SCALE = '"""How much."""\n\nFACTOR = 3\n'
KERNELS = '''
"""Kernels."""

from mirage.kernel.compile import kernel
from tiny.scale import FACTOR


@kernel()
def scaled(x):
    """X times the factor."""
    return x * FACTOR


@kernel("int64(int64)")
def scaled_twice(x):
    """X times the factor, twice."""
    return scaled(scaled(x))
'''
USE = """
import json
from tiny.kernels import scaled, scaled_twice
answers = [int(scaled_twice(2)), int(scaled(2)), float(scaled(0.5))]
misses = sum(sum(kernel.stats.cache_misses.values()) for kernel in (scaled, scaled_twice))
print(json.dumps([answers, misses]))
"""
ALL = 3  # entries: ``scaled_twice``, and ``scaled`` of an integer and of a float
FILES = 2 * (ALL + 1)  # with ``scaled`` as ``scaled_twice`` calls it, which Python cannot call


class Package:
    """A package of two tiny kernels and a constant that they import, used by new processes."""

    def __init__(self, folder: Path, cache: Path) -> None:
        self.folder, self.cache = folder, cache
        self.write("scale", SCALE)
        self.write("kernels", KERNELS)

    def write(self, module: str, source: str) -> None:
        (self.folder / "tiny").mkdir(parents=True, exist_ok=True)
        (self.folder / "tiny" / f"{module}.py").write_text(source)

    def start(self, python: str | Path = sys.executable, **variables: str) -> subprocess.Popen[str]:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")} | variables
        environment["PYTHONPATH"] = os.pathsep.join([str(self.folder), *sys.path])
        environment["XDG_CACHE_HOME"] = str(self.cache)
        # Python takes a source of the same size, written within the same second, for unchanged.
        environment["PYTHONDONTWRITEBYTECODE"] = "1"
        command = [python, "-W", "error", "-c", USE]
        return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def used(self) -> tuple[list[float], int]:
        """The kernels' results for 2, 2 and 0.5, and the number of them that were compiled."""
        return result_of(self.start())

    @property
    def entries(self) -> list[Path]:
        return sorted((self.cache / "mirage" / "kernels").iterdir())


def result_of(process: subprocess.Popen[str], stderr: str = r"") -> tuple[list[float], int]:
    out, errors = process.communicate()
    assert process.returncode == 0, errors
    assert re.fullmatch(stderr, errors), errors
    answers, misses = json.loads(out)
    return answers, misses


@pytest.fixture
def package(tmp_path: Path) -> Package:
    (tmp_path / "source" / "tiny").mkdir(parents=True)
    (tmp_path / "source" / "tiny" / "__init__.py").write_text("")
    return Package(tmp_path / "source", tmp_path / "cache")


@pytest.mark.slow
def test_the_next_process_compiles_nothing(package: Package) -> None:
    assert package.used() == ([18, 6, 1.5], ALL)
    assert package.used() == ([18, 6, 1.5], 0)
    assert len(package.entries) == FILES


@pytest.mark.slow
def test_a_changed_docstring_recompiles_nothing(package: Package) -> None:
    package.used()
    package.write("kernels", KERNELS.replace('"""Kernels."""', '"""Kernels.\n\nSome lines\nlonger.\n"""  # and more'))
    package.write("scale", SCALE.replace("How much", "By how much"))
    assert package.used() == ([18, 6, 1.5], 0)


@pytest.mark.slow
def test_a_constant_changed_in_an_imported_module_recompiles(package: Package) -> None:
    package.used()
    package.write("scale", SCALE.replace("3", "5"))
    assert package.used() == ([50, 10, 2.5], ALL)
    package.write("scale", SCALE)
    assert package.used() == ([18, 6, 1.5], 0), "the entries of the other version are still there"


@pytest.mark.slow
def test_processes_of_two_versions_may_compile_at_once(package: Package, tmp_path: Path) -> None:
    shutil.copytree(package.folder, tmp_path / "other")
    other = Package(tmp_path / "other", package.cache)
    other.write("scale", SCALE.replace("3", "5"))
    running = [(each, each.start()) for each in (package, other) * 2]
    for each, process in running:
        assert result_of(process)[0] == ([18, 6, 1.5] if each is package else [50, 10, 2.5])
    assert package.used() == ([18, 6, 1.5], 0)
    assert other.used() == ([50, 10, 2.5], 0)


@pytest.mark.slow
def test_entries_not_used_for_long_are_deleted_when_something_is_compiled(package: Package) -> None:
    package.used()
    unused, used = package.entries[:2], package.entries[2:]
    now_s = used[0].stat().st_mtime
    for file in package.entries:
        os.utime(file, (now_s - UNUSED_S + (3600 if file in used else -60),) * 2)
    package.write("scale", SCALE.replace("3", "5"))
    package.used()
    assert not [file for file in unused if file.exists()]
    assert all(file.exists() for file in used)


@pytest.mark.slow
def test_loading_an_entry_prevents_its_deletion(package: Package) -> None:
    package.used()
    for file in package.entries:
        os.utime(file, (0, 0))
    assert package.used()[1] == 0
    unused = [file.name for file in package.entries if not file.stat().st_mtime]
    assert len(unused) == FILES - 2 * ALL
    assert all("scaled-called" in name for name in unused)


@pytest.mark.slow
def test_a_damaged_entry_costs_compiling_only(package: Package) -> None:
    package.used()
    for file in package.entries:
        file.write_bytes(file.read_bytes()[:20])
    assert package.used() == ([18, 6, 1.5], ALL)
    assert package.used() == ([18, 6, 1.5], 0)


@pytest.mark.slow
def test_kernels_without_a_source_file_are_compiled_anew(package: Package) -> None:
    source = "from mirage.kernel.compile import kernel\n@kernel()\ndef twice(x): return 2 * x\nprint(twice(4))"
    environment = os.environ | {"XDG_CACHE_HOME": str(package.cache)}
    command = [sys.executable, "-W", "error", "-c", source]
    found = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "8"
    assert not (package.cache / "mirage" / "kernels").exists()


@pytest.mark.slow
def test_a_folder_that_cannot_be_written_costs_compiling_only(package: Package) -> None:
    package.cache = package.folder / "tiny" / "scale.py"
    once = rf"Mirage's compiled kernels cannot be stored in {package.cache}/mirage/kernels \(Not a directory\).*\n"
    assert result_of(package.start(), once) == ([18, 6, 1.5], ALL)


@pytest.mark.slow
def test_a_folder_that_can_only_be_read_is_used(package: Package, tmp_path: Path) -> None:
    package.used()
    with read_only(package.cache, tmp_path / "mounted") as package.cache:
        assert package.used() == ([18, 6, 1.5], 0)


@pytest.mark.slow
def test_all_users_of_an_installation_find_what_its_owner_compiled(package: Package, tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "installed"], check=True)
    python = tmp_path / "installed" / "bin" / "python"
    by_owner = package.start(python, NUMBA_CACHE_DIR=str(tmp_path / "installed" / "share"))
    assert result_of(by_owner) == ([18, 6, 1.5], ALL)
    shared = tmp_path / "installed" / "share" / "mirage" / "kernels"
    assert len(list(shared.iterdir())) == FILES
    with read_only(tmp_path / "installed", tmp_path / "mounted") as installed:
        assert result_of(package.start(installed / "bin" / "python")) == ([18, 6, 1.5], 0)
    package.write("scale", SCALE.replace("3", "5"))
    assert result_of(package.start(python)) == ([50, 10, 2.5], ALL), "of this version nothing is there"
    assert len(list(shared.iterdir())) == FILES, "a user writes into a folder of their own"


@pytest.mark.slow
def test_a_docstring_of_the_simulator_is_part_of_no_kernel(tmp_path: Path) -> None:
    """With the package itself: by digests, as compiling it all would take a minute."""
    source = tmp_path / "source"
    shutil.copytree(Path(mirage.__file__).parent, source / "mirage", ignore=shutil.ignore_patterns("__pycache__"))
    before = _digests(source, tmp_path / "cache")
    lifecycle = source / "mirage" / "sim" / "kernel" / "job_lifecycle.py"
    original = lifecycle.read_text()
    lifecycle.write_text('"""New words.\n\nAnd more of them.\n"""\n' + original)
    assert _digests(source, tmp_path / "cache") == before
    lifecycle.write_text(original + "\nMORE = 1\n")
    after = _digests(source, tmp_path / "cache")
    assert [module for module in before if after[module] == before[module]] == ["mirage.sim.kernel.resources.holding"]


def _digests(source: Path, cache: Path) -> dict[str, str]:
    modules = [
        f"mirage.{name}"
        for name in ("sim.kernel.event_loop", "sim.disciplines.slurm", "sim.kernel.allocate",
                     "sim.kernel.resources.holding", "forecast.rollout_kernel")
    ]  # fmt: skip
    script = (
        "import json, sys; from mirage.source_digest import source_digest; "
        "print(json.dumps({module: source_digest([module]) for module in sys.argv[1:]}))"
    )
    environment = os.environ | {"PYTHONPATH": str(source), "XDG_CACHE_HOME": str(cache)}
    command = [sys.executable, "-c", script, *modules]
    found = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return dict(json.loads(found.stdout))
