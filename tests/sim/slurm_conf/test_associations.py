"""Associations as ``sacctmgr -P show assoc`` prints them; see also test_age_limits."""

from __future__ import annotations

from pathlib import Path

import pytest

from mirage.errors import ConfigurationError
from mirage.sim.slurm_conf.associations import Association, read_associations

HEAD = "Cluster|Account|ParentName|User|Partition|GrpJobsAccrue|MaxJobsAccrue\n"
COMMAND = f"sacctmgr -P show assoc format={HEAD.strip().replace('|', ',')}"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "assoc.txt"


def test_accounts_within_accounts_and_their_users(file: Path) -> None:
    file.write_text(f"{HEAD}lab|root||||7|\nlab|deep|root|||2|3\nlab|deep||ada|||3\nlab|deep||ada|gpu||9\n")
    assert read_associations(file) == (
        Association("root", group=7), Association("deep", "root", most=3, group=2), Association("deep", "", "ada", 3),
    ), "that of one partition is left out"  # fmt: skip


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", f"is not what `{COMMAND}` prints: no Cluster, Account, ParentName, User, Partition, GrpJobsAccrue, "),
        ("Cluster|Account|User\nlab|root|\n", "no ParentName, Partition, GrpJobsAccrue, MaxJobsAccrue"),
        (f"{HEAD}lab|root||||many|\n", f"line 2: GrpJobsAccrue 'many' is not a number; write `{COMMAND}` to it again"),
        (f"{HEAD}lab|root||||\n", "line 2: MaxJobsAccrue is missing"),
        (f"{HEAD}two|root|||||\none|root|||||\n", f"clusters one, two; write `{COMMAND} cluster=NAME` to it"),
    ],
)
def test_what_cannot_be_read_is_named(file: Path, text: str, problem: str) -> None:
    file.write_text(text)
    with pytest.raises(ConfigurationError) as refused:
        read_associations(file)
    assert problem in str(refused.value)
    assert str(file) in str(refused.value)


def test_a_file_that_is_not_there_is_named_with_what_writes_it(file: Path) -> None:
    with pytest.raises(ConfigurationError) as refused:
        read_associations(file)
    assert str(refused.value) == f"cannot read {file}: No such file or directory; write `{COMMAND}` to it"


def test_what_sacctmgr_prints_by_default_lacks_the_limits(shared_data: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"no ParentName, GrpJobsAccrue, MaxJobsAccrue$"):
        read_associations(shared_data / "slurm-fixtures" / "sacctmgr.assoc.txt")
