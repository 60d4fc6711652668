"""QOS as ``sacctmgr -P show qos`` prints them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from mirage.errors import ClusterError, ConfigurationError
from mirage.sim.cluster import Cluster, Limit
from mirage.sim.slurm_conf.qos import with_qos

HEAD = "Name|Priority|GraceTime|Preempt|MaxJobsPU\n"
POOL = Cluster.pool(4)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "qos.txt"


def test_priorities_and_preemption_between_qos(file: Path) -> None:
    file.write_text(f"{HEAD}normal|0|00:00:00||\nhigh|1000|00:00:00|normal,idle|8\nidle||00:00:00||\n")
    assert with_qos(POOL, file) == replace(
        POOL,
        qos_factors={"normal": 0.0, "high": 1000.0, "idle": 0.0},
        qos_preempts={"normal": (), "high": ("normal", "idle"), "idle": ()},
        limits=(Limit("user", jobs=8, qos=("high",)),),
    )


def test_limits_on_what_runs_at_once(file: Path) -> None:
    head = "Name|Priority|Preempt|GrpTRES|GrpJobs|MaxTRES|MaxTRESPU|MaxJobsPU|MaxSubmitPU|MaxTRESPA|MaxJobsPA\n"
    file.write_text(
        f"{head}a|0||cpu=9,node=12|||gres/gpu=16,node=2|3|9||\nb|0||||node=1|cpu=4|||gres/gpu:a100=4|5\nc|0|||7||||||\n"
    )
    before = replace(POOL, limits=(Limit(nodes=3),))
    assert with_qos(before, file).limits == (
        Limit(nodes=3),
        Limit("user", jobs=3, nodes=2, gpus=16, qos=("a",)),
        Limit("all", nodes=12, qos=("a",)),
        Limit("account", jobs=5, gpus=4, qos=("b",)),
        Limit("all", jobs=7, qos=("c",)),
    )


def test_what_a_real_sacctmgr_printed_has_no_limits(shared_data: Path) -> None:
    found = with_qos(POOL, shared_data / "slurm-fixtures" / "sacctmgr.qos.txt")
    assert (found.limits, found.qos_factors["high"]) == ((), 1000.0)


def test_the_columns_may_stand_in_any_order(file: Path) -> None:
    file.write_text("Preempt|Name|Priority\n|low|1\nlow|high|2\n")
    assert with_qos(POOL, str(file)).qos_preempts == {"low": (), "high": ("low",)}


@pytest.mark.parametrize(
    ("text", "lacking"),
    [
        ("", "Name, Priority, Preempt"),
        (HEAD, "Name, Priority, Preempt"),
        ("Name|Priority\nnormal|0\n", "Preempt"),
        ("      Name   Priority\n---- ----\nnormal 0\n", "Name, Priority, Preempt"),
    ],
)
def test_a_file_of_something_else_is_refused(file: Path, text: str, lacking: str) -> None:
    file.write_text(text)
    with pytest.raises(ConfigurationError) as refused:
        with_qos(POOL, file)
    assert str(refused.value) == f"{file} is not what `sacctmgr -P show qos` prints: no {lacking}"


def test_a_file_that_is_not_there_is_named_with_what_writes_it(file: Path) -> None:
    with pytest.raises(ConfigurationError) as refused:
        with_qos(POOL, file)
    assert str(refused.value) == f"cannot read {file}: No such file or directory; write `sacctmgr -P show qos` to it"


def test_a_qos_that_displaces_one_that_is_not_there_is_refused(file: Path) -> None:
    file.write_text(f"{HEAD}high|1000|00:00:00|normal|\n")
    with pytest.raises(ClusterError, match=r"^no QOS 'normal' to preempt or be preempted; "):
        with_qos(POOL, file)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (f"{HEAD}normal|0|00:00:00||\nhigh|much|00:00:00||\n", "line 3: Priority 'much' is not a number"),
        (f"{HEAD}normal|0\n", "line 2: 2 cells of 5"),
        (f"{HEAD}normal|nan|00:00:00||\n", "line 2: Priority 'nan' is not a number"),
        (f"{HEAD}normal|0|00:00:00||many\n", "line 2: MaxJobsPU 'many' is not a number"),
        ("Name|Priority|Preempt|GrpTRES\na|0||node=all\n", "line 2: GrpTRES 'node=all' has no number of nodes or GPUs"),
    ],
)
def test_a_row_that_cannot_be_read_is_named(file: Path, text: str, problem: str) -> None:
    file.write_text(text)
    with pytest.raises(ConfigurationError) as refused:
        with_qos(POOL, file)
    assert str(refused.value) == f"{file}: {problem}; write `sacctmgr -P show qos` to it again"


def test_a_name_in_another_encoding_is_read_as_far_as_it_can_be(file: Path) -> None:
    file.write_bytes(f"{HEAD}größe|3|00:00:00||\n".encode("latin-1"))
    assert with_qos(POOL, file).qos_factors == {"gr\ufffd\ufffde": 3.0}
