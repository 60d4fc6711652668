"""Contents and metadata of the distributions."""

import os
import re
import runpy
import shutil
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path

import pytest

from mirage.cli import main
from mirage.version import __version__

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]


def test_all_is_every_extra_that_a_user_may_want():
    (every,) = EXTRAS["all"]
    assert set(re.fullmatch(r"mirage-hpc\[(.*)\]", every)[1].split(",")) == EXTRAS.keys() - {
        "all",
        "docs",
        "mutation",
        "test",
    }


def test_every_python_that_is_named_is_searched_for():
    named = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
    assert f">={named[0]}" == PROJECT["requires-python"]
    setup = (ROOT / "scripts" / "setup").read_text()
    assert [version for version in named if f"python{version}" not in setup] == []


@pytest.mark.parametrize(
    ("words", "python", "status", "message"),
    [
        (["plot,lern"], "", 2, "There is no extra 'lern'; there are plot, parquet, "),
        (["learn", "test"], "", 2, "takes the extras as one word: scripts/setup learn,test\n"),
        ([], "/nowhere/python3", 1, "Python 3.11 or newer; PYTHON=/nowhere/python3 is none. Install one"),
    ],
)
def test_a_setup_that_cannot_be_is_refused_before_anything_is_installed(words, python, status, message):
    environment = {**os.environ, "PYTHON": python}
    done = subprocess.run(["scripts/setup", *words], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == status
    assert message in done.stderr
    assert "Installing" not in done.stderr


@pytest.mark.parametrize(
    ("made_in", "pip", "status", "message"),
    [
        ("{here}", "", 0, ""),
        ("/old clone", "", 0, "Making .venv again, as it belongs to another folder\nInstalling Mirage into .venv "),
        ("/old clone", "raise ImportError", 1, ".venv has no pip: remove .venv, and install the package of Python's"),
    ],
)
def test_a_setup_mends_what_was_moved_and_names_what_is_missing(made_in, pip, status, message, tmp_path):
    clone, modules = tmp_path / "new clone", tmp_path / "modules"
    (clone / "scripts").mkdir(parents=True)
    for name in ("scripts/setup", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, clone / name)
    (clone / "scripts" / "install").write_text("")
    (clone / ".venv").mkdir()
    (clone / ".venv" / "pyvenv.cfg").write_text(f"command = python3 -m venv {made_in.format(here=clone)}/.venv\n")
    (clone / ".venv" / "installed-plot").touch()
    modules.mkdir()
    make = "import os, sys; os.makedirs('.venv/bin'); os.symlink(sys.executable, '.venv/bin/python')"
    for name, text in {"venv": make, "pip": pip, "ensurepip": "raise SystemExit(1)"}.items():
        (modules / f"{name}.py").write_text(text)
    environment = {**os.environ, "PYTHON": sys.executable, "PYTHONPATH": str(modules)}
    done = subprocess.run([clone / "scripts" / "setup"], env=environment, capture_output=True, text=True)
    assert done.returncode == status, done.stderr
    assert message in done.stderr
    assert bool(message) == bool(done.stderr)


def test_every_dependency_is_pinned():
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pinned = {re.sub(r"[-_.]+", "-", line.partition("==")[0]).lower() for line in lines}
    named = [re.split(r"[><=\[ ]", line)[0].lower() for group in EXTRAS.values() for line in group]
    assert {name for name in named if name != "mirage-hpc"} <= pinned


def test_the_source_distribution_holds_what_is_needed_and_no_workplace(tmp_path):
    hatchling = pytest.importorskip("hatchling.build", reason="hatchling is not installed; pip install hatchling")
    command = "import sys; from hatchling.build import build_sdist; print(build_sdist(sys.argv[1]))"
    done = subprocess.run(
        [sys.executable, "-c", command, tmp_path], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert hatchling
    with tarfile.open(tmp_path / done.stdout.split()[-1]) as archive:
        tops = {name.split("/")[1] for name in archive.getnames()}
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert tops == {
        ".gitignore", "CHANGELOG.md", "LICENSE", "PKG-INFO", "README.md", "benchmarks", "constraints.txt", "docs",
        "examples", "pyproject.toml", "scripts", "src", "tests",
    }  # fmt: skip
    assert {"src/mirage/py.typed", "src/mirage/trace/workload/models/lonestar6-like.json", "scripts/test"} <= names
    assert not [name for name in names if "/_build/" in name or "__pycache__" in name]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_shell_completes_commands(shell, monkeypatch, capsys):
    monkeypatch.setenv("_MIRAGE_COMPLETE", f"{shell}_source")
    if shell == "bash":
        monkeypatch.setattr("click.shell_completion.BashComplete._check_version", lambda *_: None)
    with pytest.raises(SystemExit) as end:
        main([])
    assert end.value.code == 0
    assert "_MIRAGE_COMPLETE" in capsys.readouterr().out


def test_what_is_completed_are_the_commands(monkeypatch, capsys):
    monkeypatch.setenv("_MIRAGE_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", "mirage trace co")
    monkeypatch.setenv("COMP_CWORD", "2")
    with pytest.raises(SystemExit) as end:
        main([])
    assert end.value.code == 0
    assert capsys.readouterr().out.split() == ["plain,convert"]


def test_the_workflows_run_scripts_that_exist_and_the_hooks_are_the_checks_of_the_gate():
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed; pip install PyYAML")
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "test.yml").read_text())["jobs"]
    programs = [step["run"].split()[0] for job in jobs.values() for step in job["steps"] if "run" in step]
    assert sorted(set(programs)) == [".ci/run", "pip", "scripts/lowest"]
    assert all(os.access(ROOT / name, os.X_OK) for name in programs if "/" in name)
    gate = (ROOT / "scripts" / "test").read_text() + (ROOT / "tests" / "test_architecture.py").read_text()
    for hook in yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"][0]["hooks"]:
        command = hook["entry"].split(" --check")[0].removeprefix(".venv/bin/").removeprefix("python ")
        assert command.split("/")[-1] in gate, f"{hook['id']}: the gate does not run {command}"
    for form in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"):
        assert {"name", "description", "body"} <= yaml.safe_load(form.read_text()).keys()


def test_the_citation_names_this_version():
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed; pip install PyYAML")
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert (citation["version"], citation["license"]) == (__version__, PROJECT["license"])


INSTALL = runpy.run_path(str(ROOT / "scripts" / "install"))


def test_the_settings_of_pip_are_those_that_it_would_follow(tmp_path, monkeypatch):
    """A variable comes before a setting of install, that before a global one; no others count."""
    printed = [
        "[global]",
        "find-links = /srv/a /srv/b",
        "timeout = 9",
        "retries = 3",
        "[install]",
        "timeout = 8",
        "[list]",
    ]
    (tmp_path / "pip.conf").write_text("\n".join([*printed, "format = json"]))
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    monkeypatch.setenv("PIP_RETRIES", "5")
    output = INSTALL["settings_of_pip"]()
    assert {key: output.get(key) for key in ("find-links", "timeout", "retries", "format")} == {
        "find-links": "/srv/a /srv/b", "timeout": "8", "retries": "5", "format": None,
    }  # fmt: skip


def test_uv_searches_where_pip_does():
    options, variables = INSTALL["for_uv"](
        {"index-url": "https://m/simple", "extra-index-url": "file:///a\nfile:///b", "find-links": "/c", "timeout": "9",
         "constraint": "/etc/pip/versions.txt"}
    )  # fmt: skip
    assert options[2:] == [
        "--default-index", "https://m/simple", "--index", "file:///a", "--index", "file:///b", "--find-links", "/c",
        "--constraint", "/etc/pip/versions.txt",
    ]  # fmt: skip
    assert variables == {"UV_HTTP_TIMEOUT": "9"}


def test_what_uv_has_no_setting_for_is_left_to_pip():
    assert INSTALL["for_uv"]({"quiet": "1", "proxy": "http://p:3128"}) is None
