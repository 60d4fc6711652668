"""Imports point down, heavy packages load late, effects have one home each."""

from __future__ import annotations

import ast
import runpy
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

import mirage
from mirage.cli import main
from mirage.policy.policy_registry import known_policies, policy_spec
from mirage.registry import load_entry
from mirage.sim.disciplines.discipline_registry import DISCIPLINES
from mirage.trace.read_trace import READERS

ROOT = Path(mirage.__file__).parent
MODULES = sorted(ROOT.rglob("*.py"))

ROOMS = runpy.run_path(str(Path(__file__).parents[1] / "scripts" / "rooms"))
FLOOR_OF = ROOMS["FLOOR_OF"]


def room_of(path: Path) -> str:
    """The package or module right below ``mirage``; empty for ``mirage`` itself."""
    first = path.relative_to(ROOT).parts[0]
    return first.removesuffix(".py").replace("__init__", "")


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """Line and full name of everything a module imports, at the top or inside functions."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: imports are absolute"
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


def test_the_layout_follows_its_rules() -> None:
    assert list(ROOMS["broken_rules"](ROOMS["edges_of"]())) == []


def test_a_public_class_name_has_one_meaning() -> None:
    found: dict[str, list[str]] = {}
    for path in MODULES:
        for node in tree_of(path).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found.setdefault(node.name, []).append(str(path.relative_to(ROOT)))
    assert {name: places for name, places in found.items() if len(places) > 1} == {}


@pytest.mark.parametrize(
    ("edges", "message"),
    [
        ({"mirage.sim.cluster": {"mirage.agent.model"}, "mirage.agent.model": set()}, "higher floor"),
        (
            {"mirage.sim.cluster": {"mirage.slurm.slurm_view"}, "mirage.slurm.slurm_view": set()},
            "must not know each other",
        ),
        ({"mirage.sim.a.x": {"mirage.sim.b"}, "mirage.sim.b": {"mirage.sim.a.y"}, "mirage.sim.a.y": set()}, "circle"),
        ({"mirage.attic": set()}, "has no floor"),
    ],
)
def test_a_broken_rule_of_the_layout_is_named(edges: dict[str, set[str]], message: str) -> None:
    (wrong,) = ROOMS["broken_rules"](edges)
    assert message in wrong


def test_the_layout_in_the_docs_is_the_layout_of_the_code() -> None:
    shown = ROOMS["PAGE"].read_text(encoding="utf-8").partition(ROOMS["BEGIN"])[2].partition(ROOMS["END"])[0].strip()
    assert shown == ROOMS["table"](ROOMS["edges_of"]()), "run scripts/rooms --write"


def test_the_package_itself_imports_nothing() -> None:
    public = {f"{module}.{name}" for name, module in mirage._HOMES.items()}
    rest = {name for _, name in imports(ROOT / "__init__.py")} - public
    assert rest == {"__future__.annotations", "importlib.import_module"}


HEAVY = ("numpy", "numba", "torch", "matplotlib", "sklearn", "xgboost", "gymnasium", "pyarrow", "fastapi")


@pytest.mark.parametrize("module", ["mirage", "mirage.cli"])
def test_importing_is_light(module: str) -> None:
    script = f"import sys, {module}; print(*[m for m in {HEAVY!r} if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert found.stdout.split() == []


def uses(path: Path, module: str, name: str) -> list[int]:
    """Lines on which a module contains ``module.name`` or imports the name from the module."""
    printed = [
        node.lineno
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Attribute)
        and node.attr == name
        and isinstance(node.value, ast.Name)
        and node.value.id == module
    ]
    return printed + [line for line, imported in imports(path) if imported == f"{module}.{name}"]


def test_processes_are_started_in_one_room_only() -> None:
    allowed = {"slurm", "lab", "agent", "emulate", "hooks.py"}  # the C compiler; a file that is copied next to scripts
    wrong = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in MODULES
        for line, name in imports(path)
        if name.split(".")[0] == "subprocess" and not allowed & set(path.relative_to(ROOT).parts)
    ]
    assert not wrong


@pytest.mark.parametrize(("module", "name"), [("time", "time"), ("datetime", "now")])
def test_no_module_reads_the_clock_without_its_callers_knowing(module: str, name: str) -> None:
    assert not [f"{path.relative_to(ROOT)}:{line}" for path in MODULES for line in uses(path, module, name)]


PICKLES = {"pickle", "_pickle", "cloudpickle", "dill", "joblib", "marshal", "shelve", "submitit"}


def unpickling(tree: ast.AST) -> list[int]:
    """Lines that name a module which loads pickles or code, or let numpy or torch unpickle."""
    found = []
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names) if PICKLES & {name.name.partition(".")[0] for name in names}:
                found.append(node.lineno)
            case ast.ImportFrom(module=str(module)) if module.partition(".")[0] in PICKLES:
                found.append(node.lineno)
            case ast.Constant(value=str(text)) if text in PICKLES:
                found.append(node.lineno)
            case ast.keyword(arg="allow_pickle" | "weights_only", value=value) if not isinstance(
                value, ast.Constant
            ) or value.value is (node.arg == "allow_pickle"):
                found.append(node.value.lineno)
            case ast.Attribute(value=ast.Name(id="torch"), attr="load"):
                found.append(node.lineno)
    return found


def test_nothing_is_unpickled() -> None:
    assert not [f"{path.relative_to(ROOT)}:{line}" for path in MODULES for line in unpickling(tree_of(path))]


@pytest.mark.parametrize(
    "code",
    [
        "import pickle",
        "import os, pickle as p",
        "from pickle import loads as f",
        "import cloudpickle.cloudpickle",
        "__import__('pickle').loads(b)",
        "importlib.import_module('_pickle')",
        "np.load(path, allow_pickle=True)",
        "np.load(path, allow_pickle=trusted)",
        "torch.load(path)",
    ],
)
def test_every_way_to_unpickle_is_found(code: str) -> None:
    assert unpickling(ast.parse(f"x = 1\n{code}")) == [2]
    assert not unpickling(ast.parse("np.load(path, allow_pickle=False)"))


def test_policies_and_the_simulator_draw_from_seeded_generators_only() -> None:
    below = [path for path in MODULES if FLOOR_OF.get(room_of(path), 99) <= FLOOR_OF["provision"]]
    wrong = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in below
        for line, name in imports(path)
        if name.split(".")[0] in ("random", "secrets") and room_of(path) != "slurm"  # a password, in effect
    ]
    assert not wrong


def test_no_module_is_named_after_nothing() -> None:
    vague = {"utils", "util", "helpers", "helper", "common", "misc", "manager", "tools", "base", "core"}
    shown = [path.relative_to(ROOT) for path in MODULES]
    assert not [str(path) for path in shown if {*path.parts, path.stem} & vague]


@pytest.mark.parametrize("name", sorted(DISCIPLINES))
def test_every_discipline_can_be_had(name: str) -> None:
    assert callable(DISCIPLINES[name].load())
    assert DISCIPLINES[name].summary


@pytest.mark.parametrize("name", sorted(known_policies()))
def test_every_policy_can_be_had(name: str) -> None:
    assert callable(policy_spec(name).load())
    assert policy_spec(name).summary


def test_every_trace_reader_is_one() -> None:
    assert all(callable(load_entry(spec.entry)) for spec in READERS.values())


def test_the_help_names_every_trace_reader_and_every_discipline(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--help"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert f"Format of the trace: {', '.join(READERS)}." in shown
    *names, last = DISCIPLINES
    assert f"Queue discipline: {', '.join(names)} or {last}." in shown


def test_every_script_and_entry_point_of_the_package_resolves() -> None:
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    groups = [project["scripts"], *project.get("entry-points", {}).values()]
    points = [value for group in groups for value in group.values()]
    assert points
    for point in points:
        module, _, name = point.partition(":")
        assert callable(getattr(import_module(module), name)), point
