"""A busy simulated Slurm of four nodes, its view, and a policy that waits for a release."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from mirage.agent.policy_runner.child_process import ChildProcess
from mirage.agent.policy_runner.question import Answer, PolicyRequest, PolicyRunner, Question
from mirage.duration import DAY_S, HOUR_S
from mirage.lab.virtual.virtual_slurm import VirtualSlurm
from mirage.policy.view import ChainView, View
from mirage.sim.cluster import Cluster
from mirage.sim.simulation import Simulation
from mirage.sim.workload import workload
from mirage.slurm.slurm_view import Names, ended_of, view_of
from mirage.trace.table import JobTable

PONDER = '''
import time
from pathlib import Path
from mirage.policy.policy_registry import POLICIES
from mirage.policy.contract import PolicySpec


class Ponder:
    """Thinks until there is a file."""

    def __init__(self, file):
        self.file = Path(file)

    def decide(self, view):
        self.file.with_suffix(".begun").touch()
        while not self.file.exists():
            time.sleep(0.01)
        return POLICIES["reactive"].make("", None).decide(view)


SPEC = PolicySpec("ponder:Ponder", "Thinks until there is a file.", "the file")
'''


@pytest.fixture(scope="session")
def slurm() -> VirtualSlurm:
    cluster = Cluster.pool(4)
    rng = np.random.default_rng(1)
    columns = {"elapsed_s": rng.integers(600, 6 * HOUR_S, 60), "nodes": rng.integers(1, 4, 60)}
    table = JobTable.build(range(60), submit_s=np.arange(60) * 1800, limit_s=[8 * HOUR_S] * 60, **columns)
    slurm = VirtualSlurm(Simulation(cluster, workload(table, cluster), "slurm"))
    slurm.sleep(DAY_S)
    return slurm


@pytest.fixture
def observed(slurm: VirtualSlurm) -> View:
    names = Names()
    return view_of(slurm.observe(), slurm.machine(), ended_of(slurm.accounting(0), names), names)


@pytest.fixture
def aside() -> Iterator[ChildProcess]:
    runner = ChildProcess()
    yield runner
    runner.close()


@pytest.fixture
def ponder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that the policy ``ponder:FILE`` waits for; its package is installed."""
    (tmp_path / "ponder.py").write_text(PONDER)
    installed = tmp_path / "ponder-1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: ponder\nVersion: 1.0\n")
    (installed / "entry_points.txt").write_text("[mirage.policies]\nponder = ponder:SPEC\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    return tmp_path / "go-on"


def form(view: View, left_s: int = HOUR_S) -> ChainView:
    """A chain with a link of eight hours that has a given time left."""
    started_s = view.now_s + left_s - 8 * HOUR_S
    return ChainView(1, 8 * HOUR_S, -1, started_s, started_s, view.now_s + left_s, 300)


@pytest.fixture
def question(observed: View) -> Callable[..., Question]:
    def requested(policy: str, chain: int = 1, number: int = 0, left_s: int = HOUR_S, cost: float = 1.0) -> Question:
        return Question(chain, PolicyRequest(policy, cost, 1.0), form(observed, left_s), number)

    return requested


@pytest.fixture
def answer(slurm: VirtualSlurm, observed: View) -> Callable[..., Answer]:
    """Sends one question, and waits for its answer."""

    def answered(runner: PolicyRunner, question: Question, **options: str) -> Answer:
        runner.request([question], {**slurm.configuration(), **options}, observed)
        (found,) = runner.answers(120)
        assert (found.chain, found.number) == (question.chain, question.number)
        return found

    return answered
