"""The database of a private cluster's accounting, where its creation fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from mirage.errors import SlurmUnreachable
from mirage.lab.real.accounting import _create_database
from mirage.lab.real.lab_spec import LabSpec


class Failing:
    """Programs of which the first some fail, and leave files of theirs."""

    def __init__(self, spec: LabSpec, failures: int) -> None:
        self.spec, self.failures, self.left = spec, failures, list[list[str]]()

    def daemon(self, *argv: str) -> None:
        folder = self.spec.state / "mysql"
        self.left.append(sorted(path.name for path in folder.glob("*")))
        folder.mkdir(exist_ok=True)
        (folder / "ibdata1").touch()
        lines = "Installing\n[ERROR] InnoDB: no memory\nVisit the list\n"
        (self.spec.log / f"{argv[0]}.start").write_text(lines)
        self.failures -= 1
        if self.failures >= 0:
            raise SlurmUnreachable(f"{argv[0]} did not start (status 1)", "Visit the list")


@pytest.fixture
def spec(tmp_path: Path) -> LabSpec:
    spec = LabSpec(directory=tmp_path)
    for folder in (spec.state, spec.log):
        folder.mkdir(parents=True, exist_ok=True)
    return spec


def test_it_is_created_once_more_from_nothing(spec: LabSpec) -> None:
    programs = Failing(spec, 1)
    _create_database(spec, programs)  # type: ignore[arg-type]
    assert programs.left == [[], []]


def test_a_second_failure_is_reported_with_its_cause(spec: LabSpec) -> None:
    with pytest.raises(SlurmUnreachable, match=r"did not start \(status 1\).*\[ERROR\] InnoDB: no memory"):
        _create_database(spec, Failing(spec, 2))  # type: ignore[arg-type]
