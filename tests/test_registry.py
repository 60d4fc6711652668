"""Plug-ins of installed packages: how they are found, and how an unusable one is named."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from mirage.errors import ConfigurationError, UnknownName
from mirage.policy.policy_registry import known_policies, make_policy
from mirage.registry import call_entry, load_entry, plug_ins
from mirage.schedule.schedulers.gpu_scheduler_registry import GpuSchedulerSpec
from mirage.schedule.schedulers.gpu_scheduler_registry import make_scheduler as make_gpu_scheduler
from mirage.sim.disciplines.discipline_registry import DisciplineSpec

Install = Callable[..., None]

POLICY = """
from mirage.policy import Plan, PolicySpec

class Plain:
    def __init__(self, hours):
        pass

class Blind:
    pass

BLIND = PolicySpec("night_pkg:Blind", "has no decide")

def plain_function(situation):
    return 0

def scheduler():
    return 7
"""


def test_plug_ins_are_those_of_importlib_metadata(install_package: Install) -> None:
    points = {
        "mirage.policies": {"night-owl": "night_pkg:Plain", "plain.2": "night_pkg:Plain [extra]"},
        "console_scripts": {"night": "night_pkg:main"},
        "mirage.commands": {"stars": "night_pkg.stars:show"},
    }
    install_package("night-sky", "night_pkg", POLICY, points)
    for group in ("mirage.policies", "mirage.commands"):
        expected = {(point.name, f"{point.module}:{point.attr}") for point in entry_points(group=group)}
        assert {(point.name, point.value) for point in plug_ins(group)} == expected
    mine = [point for point in plug_ins() if point.package == "night-sky"]
    assert [(point.group, point.name) for point in mine] == [
        ("mirage.policies", "night-owl"), ("mirage.policies", "plain.2"), ("mirage.commands", "stars")
    ]  # fmt: skip
    assert {point.summary for point in mine} == {"All about night_pkg."}


def test_the_first_of_two_copies_of_a_package_counts(
    install_package: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_package("night-sky", "night_pkg", POLICY, {"mirage.policies": {"owl": "night_pkg:Plain"}})
    monkeypatch.syspath_prepend(str(tmp_path / "other"))
    assert [point.name for point in plug_ins("mirage.policies") if point.package == "night-sky"] == ["owl"]
    older = tmp_path / "other" / "night_sky-0.9.dist-info"
    older.mkdir(parents=True)
    (older / "entry_points.txt").write_text("[mirage.policies]\nold-owl = night_pkg:Plain\n")
    assert [point.name for point in plug_ins("mirage.policies")] == ["old-owl"]


@pytest.mark.parametrize(
    ("text", "value", "complaint"),
    [
        (POLICY, "night_pkg:Plain", r"night_pkg:Plain is called with \(\), and does not take that: .*'hours'; fix or"),
        (POLICY, "night_pkg:BLIND", r"night_pkg:Blind makes .*, which has no method decide\(view\); fix or "),
        (
            "raise RuntimeError('no night')",
            "night_pkg:Plain",
            "'owl' cannot be loaded from night_pkg:Plain: no night; ",
        ),
        ("exit(3)", "night_pkg:Plain", r"'owl' cannot be loaded from night_pkg:Plain: it calls sys.exit\(3\); "),
        ("def half(:", "night_pkg:Plain", "'owl' cannot be loaded from night_pkg:Plain: invalid syntax"),
    ],
)
def test_a_policy_that_cannot_be_made_is_blamed_on_its_package(
    install_package: Install, text: str, value: str, complaint: str
) -> None:
    install_package("night-sky", "night_pkg", text, {"mirage.policies": {"owl": value}})
    with pytest.raises(ConfigurationError, match=f"{complaint}.*uninstall the package night-sky$"):
        make_policy("owl")
    make_policy("reactive")


@pytest.mark.parametrize("name", ["night,owl", "night:owl"])
def test_a_name_that_a_list_cannot_have_is_refused(install_package: Install, name: str) -> None:
    install_package("night-sky", "night_pkg", POLICY, {"mirage.policies": {name: "night_pkg:Plain"}})
    assert name not in known_policies()
    with pytest.raises(ConfigurationError, match=f"the package night-sky names a policy '{name}'; a name has no comma"):
        make_policy(name)
    with pytest.raises(UnknownName):
        make_policy("owl")


def test_a_kernel_or_a_scheduler_of_another_kind_is_blamed_on_its_package(install_package: Install) -> None:
    install_package("night-sky", "night_pkg", POLICY, {"mirage.gpu_schedulers": {"owl": "night_pkg:scheduler"}})
    with pytest.raises(
        ConfigurationError, match=r"plain_function is <.*not a function compiled with @kernel.*night-sky"
    ):
        DisciplineSpec("night_pkg:plain_function", "").load()
    with pytest.raises(ConfigurationError, match=r"night_pkg:scheduler makes 7, which has no method decide.*night-sky"):
        GpuSchedulerSpec("night_pkg:scheduler", "").make()
    with pytest.raises(
        ConfigurationError, match=r"'owl': night_pkg:scheduler is .*, not a GpuSchedulerSpec; .*night-sky"
    ):
        make_gpu_scheduler("owl")
    with pytest.raises(ConfigurationError, match=r"math:pi is 3\.14.*, which cannot be called; .* the package math"):
        call_entry("math:pi")
    with pytest.raises(AttributeError):
        load_entry("mirage.registry:absent")


COMMAND = """
import click

@click.command()
@click.option("--depth", default=3)
def dig(depth):
    \"\"\"Dig a hole.\"\"\"
    click.echo(f"dug {depth}")
"""


def mirage(*words: str) -> tuple[int, str, str]:
    done = subprocess.run([sys.executable, "-m", "mirage", *words], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def test_commands_of_packages_are_listed_and_run_and_broken_ones_harm_no_other(install_package: Install) -> None:
    install_package("garden", "garden_pkg", COMMAND, {"mirage.commands": {"dig": "garden_pkg:dig"}})
    points = {"mow": "gone_pkg:mow", "submit": "swamp_pkg:COMMAND", "rake": "swamp_pkg:RAKE"}
    install_package("swamp", "swamp_pkg", "RAKE = 3", {"mirage.commands": points})
    _, printed, _ = mirage("--help")
    listed = [" ".join(line.split()) for line in printed.partition("Commands of installed packages:")[2].splitlines()]
    assert "dig All about garden_pkg. (package garden)" in listed
    assert "mow All about swamp_pkg. (package swamp)" in listed
    assert "is built in: rename the command in the package swamp, or uninstall it" in " ".join(listed)
    assert mirage("dig", "--depth", "5") == (0, "dug 5\n", "")
    for name, complaint in {
        "mow": "the command 'mow' cannot be loaded from gone_pkg:mow: No module named 'gone_pkg'; fix or uninstall",
        "rake": "the command 'rake': swamp_pkg:RAKE is 3, not a click command; fix or uninstall",
    }.items():
        assert mirage(name) == (1, "", f"mirage: error: {complaint} the package swamp\n")
    status, _, complaint = mirage("dgi")
    assert (status, complaint.splitlines()[-1]) == (2, "Error: No such command 'dgi'. Did you mean 'dig'?")
    status, printed, _ = mirage("submit", "--help")
    assert status == 0
    assert "Submit a batch script" in " ".join(printed.split())


@pytest.mark.parametrize(
    ("words", "group"),
    [
        (["evaluate"], "mirage.policies"),
        (["evaluate"], "mirage.disciplines"),
        (["compare"], "mirage.policies"),
        (["submit"], "mirage.policies"),
        (["simulate"], "mirage.disciplines"),
        (["simulate"], "mirage.trace_readers"),
        (["schedule", "run"], "mirage.gpu_schedulers"),
        (["schedule", "compare"], "mirage.gpu_schedulers"),
        (["dag", "compare"], "mirage.stage_schedulers"),
    ],
)
def test_the_help_of_an_option_lists_plug_ins(
    install_package: Install, capsys: pytest.CaptureFixture[str], words: list[str], group: str
) -> None:
    from mirage.cli import main

    name = f"own_{group.partition('.')[2]}"
    install_package("garden", "garden_pkg", COMMAND, {group: {name: "garden_pkg:dig"}})
    assert main([*words, "--help"]) == 0
    assert f"From installed packages: {name}." in " ".join(capsys.readouterr().out.split())


def test_help_with_plug_ins_imports_neither_them_nor_a_reader_of_metadata(install_package: Install) -> None:
    install_package("garden", "garden_pkg", COMMAND, {"mirage.commands": {"dig": "garden_pkg:dig"}})
    program = (
        "import sys\nfrom mirage.cli import main\nmain(['--help'])\n"
        "print([name for name in ('garden_pkg', 'importlib.metadata', 'numpy') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
    assert "(package garden)" in done.stdout
