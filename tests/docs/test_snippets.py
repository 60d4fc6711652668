"""Snippets of README and docs: Python runs, TOML is read, commands parse, quick ones run."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

import click
import pytest

from mirage.agent.failure.log_patterns import parse_patterns
from mirage.agent.site_file import read_site_file
from mirage.cli import root
from mirage.control.pools_file import read_pools
from mirage.schedule.gpu_cluster import read_gpu_cluster
from mirage.sim.cluster import Limit
from mirage.sim.slurm_conf.cluster_file import read_cluster_file
from mirage.trace.formats.column_mapping import TARGETS
from tests.support.documents import DOCUMENTS
from tests.support.documents import ROOT as HOME

FENCE = re.compile(r"^```(\S*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
IN_FILE = re.compile(r"[Ii]n a file `(\w+)\.py`:\s*\Z")
INLINE = re.compile(r"`(mirage [^`\n]+)`")


@dataclass(frozen=True)
class Block:
    """A fenced block.

    Attributes:
        place: ``file:line``.
        file: Module that the text before the block says it is the content of; empty where it says none.
    """

    place: str
    language: str
    text: str
    file: str


def blocks(language: str) -> list[Block]:
    found = []
    for path in DOCUMENTS:
        text = path.read_text(encoding="utf-8")
        for match in FENCE.finditer(text):
            if match[1] == language:
                place = f"{path.relative_to(HOME)}:{text.count(chr(10), 0, match.start()) + 2}"
                named = IN_FILE.search(text[: match.start()])
                found.append(Block(place, language, match[2], named[1] if named else ""))
    return found


def commands() -> list[tuple[str, str]]:
    """(place, command line) of every ``mirage …`` in a shell block or between backticks."""
    found = []
    for block in blocks("sh"):
        for line in block.text.replace("\\\n", " ").splitlines():
            for part in re.split(r"\s\|\s|&&|;", line):
                words = shlex.split(part.partition(" > ")[0], comments=True)
                while words and re.match(r"\w+=", words[0]):
                    del words[0]
                if words and words[0] == "mirage":
                    found.append((block.place, shlex.join(words)))
                elif words and words[0].startswith("scripts/"):
                    assert os.access(HOME / words[0], os.X_OK), f"{block.place}: there is no {words[0]}"
    for path in DOCUMENTS:
        text = FENCE.sub("", path.read_text(encoding="utf-8"))
        found += [(path.name, match[1]) for match in INLINE.finditer(text)]
    return sorted(set(found))


PYTHON, SHELL = blocks("python"), commands()


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Modules and entry points of the documents, installed as pip would leave them."""
    site = tmp_path_factory.mktemp("site")
    for block in PYTHON:
        if block.file:
            (site / f"{block.file}.py").write_text(block.text, encoding="utf-8")
    groups: dict[str, list[str]] = {}
    for block in blocks("toml"):
        for group, points in tomllib.loads(block.text).get("project", {}).get("entry-points", {}).items():
            groups.setdefault(group, []).extend(f"{name} = {value}" for name, value in points.items())
    found = site / "documented-1.0.dist-info"
    found.mkdir()
    (found / "METADATA").write_text("Metadata-Version: 2.1\nName: documented\nVersion: 1.0\n")
    lines = [line for group, points in groups.items() for line in (f"[{group}]", *points, "")]
    (found / "entry_points.txt").write_text("\n".join(lines))
    path = os.pathsep.join([str(site), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**os.environ, "PYTHONPATH": path}


def run(environment: dict[str, str], *words: str, cwd: Path | None = None) -> str:
    done = subprocess.run(
        [sys.executable, *words], env=environment, cwd=cwd, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def mirage(environment: dict[str, str], line: str, cwd: Path) -> str:
    assert shlex.split(line)[0] == "mirage"
    return run(environment, "-m", "mirage", *shlex.split(line)[1:], cwd=cwd)


@pytest.mark.slow
@pytest.mark.parametrize("block", PYTHON, ids=lambda block: block.place)
def test_python_is_executed(block: Block, environment: dict[str, str], tmp_path: Path) -> None:
    run(environment, "-W", "error", "-c", f"import {block.file}" if block.file else block.text, cwd=tmp_path)


@pytest.mark.parametrize("block", blocks("toml"), ids=lambda block: block.place)
def test_toml_can_be_read_and_its_entry_points_resolve(
    block: Block, environment: dict[str, str], tmp_path: Path
) -> None:
    tables = tomllib.loads(block.text)
    if block.place.startswith("docs/how-to/traces.md"):
        assert set(tables) <= set(TARGETS), "names of columns; test_own_traces_page.py types its commands"
        return
    if block.place.startswith("docs/explanation/simulator.md"):
        (tmp_path / "cluster.toml").write_text(block.text, encoding="utf-8")
        assert read_cluster_file(tmp_path / "cluster.toml").cluster.reservations
        return
    if block.place.startswith("docs/reports/evaluation.md"):
        (tmp_path / "limits.toml").write_text(block.text, encoding="utf-8")
        assert read_cluster_file(tmp_path / "limits.toml").cluster.limits == (Limit("user", jobs=8),)
        return
    if block.place.startswith("docs/explanation/schedule.md"):
        (tmp_path / "gpus.toml").write_text(block.text, encoding="utf-8")
        assert read_gpu_cluster(tmp_path / "gpus.toml").pools == ("inference", "training")
        return
    if block.place.startswith("docs/how-to/administrators.md"):
        (tmp_path / "site.toml").write_text(block.text, encoding="utf-8")
        rules = read_site_file(tmp_path / "site.toml")
        assert len(rules.lines()) == len(tables), "every rule of the page has an effect"
        return
    if block.place.startswith("docs/explanation/agent.md"):
        assert [pattern.name for pattern in parse_patterns(block.text, block.place)] == list(tables)
        return
    if block.place.startswith("docs/how-to/control.md"):
        (tmp_path / "pools.toml").write_text(block.text, encoding="utf-8")
        pools = read_pools(tmp_path / "pools.toml")
        assert (len(pools.nodes), pools.scheduler, pools.gpu_speeds) == (16, "aryl", {"t4": 0.33})
        return
    if "build-system" in tables:
        assert set(tables["project"]) == {"name", "version", "description"}, "test_extending.py builds with it"
        return
    points = [value for group in tables["project"]["entry-points"].values() for value in group.values()]
    assert points
    for point in points:
        module, _, name = point.partition(":")
        run(environment, "-c", f"from {module} import {name}")


def test_there_is_something_of_every_kind() -> None:
    assert {block.place.split(":")[0] for block in PYTHON} >= {"README.md", "docs/how-to/extending.md"}
    assert len(SHELL) > 15
    assert {"my_package", "my_lead", "last_come"} <= {block.file for block in PYTHON}
    unknown = {match[1] for path in DOCUMENTS for match in FENCE.finditer(path.read_text(encoding="utf-8"))}
    assert unknown <= {"python", "sh", "toml", "{toctree}", "text", "", "json", "yaml", "diff", "{eval-rst}"}


def test_every_entry_point_group_is_in_the_table_of_extensions() -> None:
    sources = [path.read_text(encoding="utf-8") for path in (HOME / "src").rglob("*.py")]
    groups = {group for text in sources for group in re.findall(r'Registry\(\s*"[^"]+",\s*"(mirage\.\w+)"', text)}
    assert len(groups) > 3
    table = (HOME / "docs" / "how-to" / "extending.md").read_text(encoding="utf-8").partition("\n## ")[0]
    assert {group for group in groups if f"| `{group}` |" in table} == groups


@pytest.mark.parametrize(("place", "line"), SHELL, ids=[f"{place}: {line}" for place, line in SHELL])
def test_a_command_line_names_a_command_and_options_that_exist(
    place: str, line: str, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(environment["PYTHONPATH"].split(os.pathsep)[0])  # for plug-ins of the documents
    try:
        parse(root, "mirage", shlex.split(line)[1:], None)
    except click.MissingParameter:
        assert ":" not in place, "only a sentence may leave out what a command needs"


def parse(command: click.Command, name: str, words: list[str], parent: click.Context | None) -> None:
    """Let click read a command line, and run nothing."""
    if isinstance(command, click.Group):
        context = click.Context(command, info_name=name, parent=parent)
        if words and not words[0].startswith("-") and not words[0].isupper():  # mirage COMMAND
            found = command.get_command(context, words[0])
            assert found is not None, f"there is no {context.command_path} {words[0]}"
            parse(found, words[0], words[1:], context)
        return
    if not words:
        return  # the command alone, as it is named in a sentence
    try:
        command.make_context(name, list(words), parent=parent)
    except click.exceptions.Exit:
        assert "--help" in words


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a small trace."""
    import numpy as np

    from mirage.duration import DAY_S, HOUR_S
    from mirage.trace.table import JobTable
    from mirage.trace.write_trace import write_trace

    random, n = np.random.default_rng(3), 400
    run_s = random.integers(600, 8 * HOUR_S, n)
    columns = {"limit_s": run_s * 2, "nodes": random.choice([1, 2, 8, 16], n)}
    table = JobTable.build(
        range(n), submit_s=np.sort(random.integers(0, 20 * DAY_S, n)), elapsed_s=run_s, user=["ada"] * n, **columns
    )
    folder = tmp_path_factory.mktemp("trace")
    write_trace(table, folder / "trace.csv")
    return folder


@pytest.mark.slow
def test_the_documented_policies_are_found_and_judged(environment: dict[str, str], trace: Path) -> None:
    line = (
        "mirage evaluate trace.csv --nodes 16 --discipline easy --policies reactive,night-owl,costly-lead:2,oracle "
        "--interruption-cost 3 --windows 3 --workers 1 --json"
    )
    rows = {row["policy"]: row for row in json.loads(mirage(environment, line, trace))["rows"] if row["load"] == "all"}
    assert list(rows) == ["reactive", "night-owl", "costly-lead:2", "oracle"]
    assert rows["costly-lead:2"]["lead_h"] == pytest.approx(6, abs=0.5)
    assert 0 < rows["night-owl"]["lead_h"] <= 8
    assert rows["oracle"]["cost"] <= rows["night-owl"]["cost"]


@pytest.mark.slow
def test_the_documented_discipline_is_found_and_plays(environment: dict[str, str], trace: Path) -> None:
    (line,) = [line for _, line in SHELL if "last-come" in line]
    assert line == "mirage simulate trace.csv --nodes 16 --discipline last-come"
    ours = json.loads(mirage(environment, f"{line} --json", trace))
    fcfs = json.loads(mirage(environment, f"{line.replace('last-come', 'fcfs')} --json", trace))
    assert (ours["discipline"], ours["jobs"]) == ("last-come", 400)
    assert ours["mean_wait_s"] != fcfs["mean_wait_s"]
