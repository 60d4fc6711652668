"""Metrics, read as Prometheus reads them."""

from __future__ import annotations

import urllib.request
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest
from prometheus_client.parser import text_string_to_metric_families

from mirage.agent.model import ChainSpec, ChainState, Cycle, DecisionRecord, EventRecord, Link, LinkState
from mirage.agent.monitoring.metrics import Metrics
from mirage.agent.store.sql_store import SqlStore
from mirage.errors import ConfigurationError
from mirage.slurm.records import Submission
from tests.support.postgres import free_port

SPEC = ChainSpec(Submission("job.sh", {"nodes": "2"}))
NOW_S = 10_000


@pytest.fixture
def metrics(store: SqlStore) -> Metrics:
    return Metrics(store, SimpleNamespace(count=Counter(squeue=3)), lambda: NOW_S, "me")


def read(text: str) -> dict[str, float]:
    """``name{label="value"}`` → value."""
    return {
        sample.name + "".join(f",{value}" for _, value in sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def live(store: SqlStore, name: str) -> int:
    """A chain that was without a link for 100 s, and then held two for 50 s."""
    chain = store.add_chain(name, SPEC, 0).id
    ended = {"state": LinkState.ENDED, "submitted_s": 0, "limit_s": 1000}
    store.change_link(chain, 1, **ended, started_s=0, ended_s=1000)
    store.add_link(Link(chain, 2, **ended, started_s=1100, ended_s=2100))
    store.add_link(Link(chain, 3, LinkState.RUNNING, submitted_s=0, started_s=2050, limit_s=20_000))
    return chain


def test_the_figures_of_the_store_are_reported(store: SqlStore, metrics: Metrics) -> None:
    chain = live(store, "train")
    store.take_lease("me", NOW_S, 60)
    waits = DecisionRecord(chain, 1, 5, "what-if", False, "waiting-costs-less:by 3")
    store.add_decisions([waits, waits, DecisionRecord(chain, 1, 6, "what-if", True, "")])
    store.change_chain(chain, EventRecord(chain, 1, 1, "refused"), EventRecord(chain, 1, 2, "started"))
    metrics.record_cycle(Cycle(chains=1, late_answers=2), 0.25)
    reported = read(metrics.text())
    assert {name: reported[f"mirage_{name}"] for name in (
        "chains,active", "chains,paused", "links,ended", "links,running", "links,held", "lease_held",
        "interruption_seconds_total,train", "overlap_seconds_total,train", "wasted_node_seconds_total,train",
        "live_link,train", "link_ends_timestamp_seconds,train", "decisions_total,wait,waiting-costs-less",
        "decisions_total,submit,none", "submissions_refused_total", "slurm_commands_total,squeue", "cycle_seconds",
        "last_cycle_timestamp_seconds", "decisions_put_off_total", "troubles_total",
    )} == {
        "chains,active": 1, "chains,paused": 0, "links,ended": 2, "links,running": 1, "links,held": 0, "lease_held": 1,
        "interruption_seconds_total,train": 100, "overlap_seconds_total,train": 50,
        "wasted_node_seconds_total,train": 100, "live_link,train": 3, "link_ends_timestamp_seconds,train": 22_050,
        "decisions_total,wait,waiting-costs-less": 2, "decisions_total,submit,none": 1, "submissions_refused_total": 1,
        "slurm_commands_total,squeue": 3, "cycle_seconds": 0.25, "last_cycle_timestamp_seconds": NOW_S,
        "decisions_put_off_total": 2, "troubles_total": 0,
    }  # fmt: skip


def test_totals_grow_and_survive_a_restart(store: SqlStore, metrics: Metrics) -> None:
    chain = live(store, "train")
    name = "mirage_decisions_total,wait,lead-not-reached"
    for count in (1, 2):
        store.add_decisions([DecisionRecord(chain, 3, count, "lead:4", False, "lead-not-reached")])
        metrics.record_cycle(Cycle(), 0.1)
        assert read(metrics.text())[name] == count
    after = Metrics(store, metrics.runner, metrics.clock)
    after.record_cycle(Cycle(), 0.1)
    assert read(after.text())[name] == 2


def test_what_is_the_problem_is_reported(store: SqlStore, metrics: Metrics) -> None:
    chain = live(store, "train")
    for number, reason in ((4, "PartitionDown"), (5, "Priority")):
        store.add_link(Link(chain, number, LinkState.QUEUED, submitted_s=0, reason=reason))
    metrics.record_cycle(Cycle(), 0.1)
    reported = read(metrics.text())
    assert reported["mirage_chain_trouble,train"] == 0
    assert {name: value for name, value in reported.items() if "blocked" in name} == {
        "mirage_link_blocked,train,PartitionDown": 1
    }
    store.change_chain(chain, trouble="sbatch refused")
    metrics.record_cycle(Cycle(), 0.1)
    assert read(metrics.text())["mirage_chain_trouble,train"] == 1


def test_a_chain_that_is_done_leaves_no_label(store: SqlStore, metrics: Metrics) -> None:
    chain = live(store, "train")
    metrics.record_cycle(Cycle(), 0.1)
    store.change_chain(chain, state=ChainState.DONE)
    metrics.record_cycle(Cycle(), 0.1)
    reported = read(metrics.text())
    assert not [name for name in reported if name.endswith(",train")]
    assert (reported["mirage_chains,active"], reported["mirage_chains,done"]) == (0, 1)


def test_trouble_leaves_what_was_known(store: SqlStore, metrics: Metrics) -> None:
    live(store, "train")
    metrics.record_cycle(Cycle(), 0.1)
    before = read(metrics.text())
    metrics.record_cycle(Cycle(trouble="no answer"), 9.0)
    store.engine.dispose()
    Path(store.engine.url.database).unlink()
    Path(store.engine.url.database).mkdir()  # a store that is gone is trouble too, and ends nobody
    metrics.record_cycle(Cycle(), 9.0)
    changed = {name for name, value in read(metrics.text()).items() if before[name] != value}
    assert changed == {"mirage_troubles_total", "mirage_cycle_seconds", "mirage_longest_cycle_seconds"}
    assert read(metrics.text())["mirage_troubles_total"] == 2


def test_an_outage_is_timed_from_the_last_contact(store: SqlStore, metrics: Metrics) -> None:
    for cycle, outage_s in ((Cycle(), 0), (Cycle(trouble="no answer", outage_since_s=NOW_S - 250), 250), (Cycle(), 0)):
        metrics.record_cycle(cycle, 0.1)
        assert read(metrics.text())["mirage_outage_seconds"] == outage_s


def test_a_lease_of_another_or_of_the_past_is_not_held(store: SqlStore, metrics: Metrics) -> None:
    for holder, begun_s, held in (("you", NOW_S, 0), ("me", NOW_S, 1), ("me", NOW_S - 100, 0)):
        if store.lease():
            store.drop_lease(store.lease()[0])
        store.take_lease(holder, begun_s, 60)
        metrics.record_cycle(Cycle(), 0.1)
        assert read(metrics.text())["mirage_lease_held"] == held


def test_it_is_served_and_written_to_a_file(store: SqlStore, metrics: Metrics, tmp_path: Path) -> None:
    live(store, "train")
    metrics.record_cycle(Cycle(), 0.1)
    port = free_port()
    stop = metrics.serve(port)
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            assert read(answer.read().decode()) == read(metrics.text())
        with pytest.raises(ConfigurationError, match=f"{port}.*name another port"):
            metrics.serve(port)
    finally:
        stop()
    metrics.write(tmp_path / "mirage.prom")
    assert (tmp_path / "mirage.prom").read_text() == metrics.text()
    with pytest.raises(ConfigurationError, match="cannot write metrics"):
        metrics.write(tmp_path / "nowhere" / "mirage.prom")
