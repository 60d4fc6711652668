"""Keys of studies: they depend on all that determines the results, and no more."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import replace as replace_field
from pathlib import Path

import pytest

import mirage
from mirage.policy.cost import Cost
from mirage.provision.evaluation.candidate import Candidate, candidates
from mirage.provision.evaluation.episode import Scenario
from mirage.provision.evaluation.evaluation_protocol import EvaluationProtocol
from mirage.provision.evaluation.evaluation_study import Study, codes_of
from mirage.provision.link_size import LinkSize
from mirage.sim.cluster import Cluster, Limit
from mirage.sim.slurm_conf.slurm_settings import SlurmSettings
from mirage.sim.workload import workload
from mirage.trace.table import JobTable

SCRIPT = """
import sys
from mirage.policy.cost import Cost
from mirage.provision.link_size import LinkSize
from mirage.provision.evaluation.candidate import candidates
from mirage.provision.evaluation.episode import Scenario
from mirage.provision.evaluation.evaluation_protocol import EvaluationProtocol
from mirage.provision.evaluation.evaluation_study import Study
from mirage.sim.cluster import Cluster
from mirage.sim.workload import workload
from mirage.trace.table import JobTable

cluster = Cluster.pool(4)
table = JobTable.build([1], submit_s=[0], elapsed_s=[9], limit_s=[9], nodes=[1])
found = candidates(sys.argv[2].split(","), [Cost(1, 1)])
scenario = Scenario(cluster, workload(table, cluster), sys.argv[1])
print(Study(scenario, EvaluationProtocol.warm(0), (LinkSize(),), tuple(found)).key)
"""


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A copy of the package, to be changed."""
    return Path(
        shutil.copytree(Path(mirage.__file__).parent, tmp_path / "mirage", ignore=shutil.ignore_patterns("*.pyc"))
    )


def key(package: Path, discipline: str = "easy", policies: str = "average,lead:4") -> str:
    """A study's key, as a new process finds it."""
    changed = {"PYTHONPATH": str(package.parent), "NUMBA_DISABLE_JIT": "1", "XDG_CACHE_HOME": str(package.parent)}
    found = subprocess.run(
        [sys.executable, "-c", SCRIPT, discipline, policies],
        env=os.environ | changed, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert found.returncode == 0, found.stderr[-2000:]
    return found.stdout.strip()


def replace(file: Path, old: str, new: str) -> None:
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new), encoding="utf-8")


@pytest.mark.slow
def test_only_code_that_plays_a_part_changes_the_key(package: Path) -> None:
    before = key(package)
    assert len(before) == 16
    rules = package / "provision" / "policies" / "lead_rules.py"
    replace(rules, '"""Submits when the present link has ended', '"""Asks when the present link has ended')
    engine = package / "sim" / "kernel" / "event_loop.py"
    engine.write_text("# a comment\n" + engine.read_text(encoding="utf-8"), encoding="utf-8")
    replace(package / "sim" / "disciplines" / "conservative.py", "return 0", "return 1")
    replace(package / "provision" / "policies" / "what_if.py", "FUTURES = 64", "FUTURES = 32")
    assert key(package) == before
    replace(rules, "RECENT_STARTS = 100", "RECENT_STARTS = 99")
    assert key(package) != before


def test_which_jobs_are_called_alike_is_part_of_it() -> None:
    """As views show it: numbers in names do not count, and what the names are does not either."""
    cluster = Cluster.pool(4)

    def key_of(names: list[str], accounts: list[str]) -> str:
        table = JobTable.build(
            [1, 2], submit_s=[0, 1], elapsed_s=[9, 9], limit_s=[9, 9], nodes=[1, 1], name=names, account=accounts
        )
        return Study(Scenario(cluster, workload(table, cluster)), EvaluationProtocol.warm(0), (LinkSize(),), ()).key

    alike = key_of(["train-1", "train-2"], ["physics", "physics"])
    assert alike == key_of(["test-1", "test-1"], ["chemistry", "chemistry"])
    assert len({alike, key_of(["train", "test"], ["physics", "physics"]), key_of(["a", "a"], ["b", "c"])}) == 3


def test_recorded_priorities_are_part_of_it_where_they_order_the_queue() -> None:
    cluster = Cluster.pool(4)

    def key_of(priority: list[int], settings: SlurmSettings) -> str:
        table = JobTable.build(
            [1, 2], submit_s=[0, 1], elapsed_s=[9, 9], limit_s=[9, 9], nodes=[1, 1], priority=priority
        )
        scenario = Scenario(cluster, workload(table, cluster), "slurm", settings)
        return Study(scenario, EvaluationProtocol.warm(0), (LinkSize(),), ()).key

    recorded = SlurmSettings(recorded_priority=5.0)
    assert key_of([7, 8], recorded) != key_of([8, 7], recorded)
    assert key_of([7, 8], SlurmSettings()) == key_of([8, 7], SlurmSettings())


def test_names_are_part_of_it_where_they_select_users_or_accounts() -> None:
    def key_of(user: str, account: str, link_user: str = "newcomer", limits: tuple[Limit, ...] = ()) -> str:
        cluster = replace_field(Cluster.pool(4), limits=limits)
        table = JobTable.build(
            [1, 2], submit_s=[0, 1], elapsed_s=[9, 9], limit_s=[9, 9], nodes=[1, 1], user=[user, "eve"],
            account=[account, account],
        )  # fmt: skip
        protocol = EvaluationProtocol.warm(0, link_user=link_user)
        return Study(Scenario(cluster, workload(table, cluster)), protocol, (LinkSize(),), ()).key

    assert key_of("ada", "physics", "user:eve") != key_of("bob", "physics", "user:eve")
    limits = (Limit("all", ageing=1, accounts=("physics",)),)
    assert key_of("ada", "physics", limits=limits) != key_of("ada", "biology", limits=limits)
    assert key_of("ada", "physics") == key_of("bob", "biology"), "no name counts"


def test_the_file_that_a_policy_names_and_the_code_that_reads_it_are_part_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = Cluster.pool(4)
    table = JobTable.build([1], submit_s=[0], elapsed_s=[9], limit_s=[9], nodes=[1])
    model = tmp_path / "model"

    def key_of(content: bytes, policy: str) -> str:
        model.write_bytes(content)
        tried = tuple(candidates([policy], [Cost()]))
        return Study(Scenario(cluster, workload(table, cluster)), EvaluationProtocol.warm(0), (LinkSize(),), tried).key

    monkeypatch.setenv("HOME", str(tmp_path))
    for policy in (str(model), "~/model", f"holds:by={model}", "holds:by=~/model", f"holds:insure=2:by={model}"):
        assert key_of(b"one", policy) == key_of(b"one", policy) != key_of(b"another", policy)
    deciding = {
        "mirage.learn.policies.policy_file",
        "mirage.learn.regression.corrected_forecast",
        "mirage.learn.explain.tree_rule",
    }
    assert deciding <= set(codes_of(Candidate(f"holds:by={model}")))
    assert "mirage.learn.policies.policy_file" not in codes_of(Candidate("holds"))


@pytest.mark.slow
def test_the_discipline_and_the_policies_that_play_are_part_of_it(package: Path) -> None:
    before = key(package, "conservative", "what-if")
    replace(package / "forecast" / "use_history.py", "LEVELS = 64", "LEVELS = 32")
    with_other_levels = key(package, "conservative", "what-if")
    replace(package / "sim" / "disciplines" / "conservative.py", "return 0", "return 1")
    assert len({before, with_other_levels, key(package, "conservative", "what-if")}) == 3
