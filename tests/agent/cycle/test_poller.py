"""The agent's queries of Slurm besides the queue: most urgent first, never blocked."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from mirage.agent.chain.tag import Tag
from mirage.agent.cycle import poller as module
from mirage.agent.cycle.poller import Poller, Snapshot
from mirage.agent.settings import AgentSettings
from mirage.duration import DAY_S, HOUR_S, MINUTE_S
from mirage.errors import SlurmUnreachable
from mirage.forecast.past_arrivals import PAST_DAYS
from mirage.job_state import MISSING, JobState
from mirage.slurm.records import AccountedJob, Machine, Queue, QueuedJob, SlurmReservation

BEGIN_S = 100 * DAY_S


class Cluster:
    """A cluster on which a job ends every so often; what is down does not answer."""

    user = "ada"

    def __init__(self, apart_s: int = HOUR_S, *down: str) -> None:
        self.now_s, self.apart_s, self.down = BEGIN_S, apart_s, set(down)
        self.requested: list[Any] = []

    def _answer(self, what: str, *detail: int) -> None:
        self.requested.append((what, *detail))
        if what in self.down:
            raise SlurmUnreachable(f"{what}: Connection refused")

    def observe(self) -> Queue:
        return Queue(self.now_s, ())

    def configuration(self) -> dict[str, str]:
        self._answer("options")
        return {"clustername": "polaris"}

    def machine(self) -> Machine:
        self._answer("machine")
        return Machine((), ())

    def reservations(self) -> tuple[SlurmReservation, ...]:
        self._answer("reservations")
        return (SlurmReservation("maint", self.now_s, self.now_s + HOUR_S, ("n1",), ("MAINT",)),)

    def accounting(self, since_s: int) -> tuple[AccountedJob, ...]:
        self._answer("accounting", self.now_s - since_s)
        ends_s = range(self.now_s // self.apart_s * self.apart_s, since_s, -self.apart_s)
        return tuple(self.job(end_s) for end_s in ends_s)

    def job(self, end_s: int) -> AccountedJob:
        return AccountedJob(end_s // self.apart_s, JobState.COMPLETED, user="eve", start_s=end_s - 60, end_s=end_s)


def polled(
    cluster: Cluster,
    times: int,
    poller: Poller | None = None,
    missing_since_s: int | None = None,
    every_s: int = MINUTE_S,
) -> Poller:
    poller = poller or Poller(cluster, AgentSettings())
    for _ in range(times):
        found = poller.poll(cluster.now_s, "store", missing_since_s=missing_since_s)
        assert isinstance(found, Snapshot)
        cluster.now_s += every_s
    return poller


def test_one_more_command_a_poll_in_the_order_of_need() -> None:
    cluster = Cluster()
    poller = polled(cluster, 2)
    assert not poller.complete, "without ended jobs, every job seems to run until its limit"
    polled(cluster, 1, poller)
    assert cluster.requested == [("options",), ("machine",), ("accounting", 2 * DAY_S)]
    assert poller.complete
    assert not poller.has_whole_history
    polled(cluster, 4, poller)
    assert poller.has_whole_history


def test_a_link_that_accounting_has_shown_is_known_at_every_later_poll(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster()
    ours = replace(cluster.job(BEGIN_S), user=cluster.user, comment=str(Tag("train", 2, "safe", "deer")))
    # as sacct shows a request for too much memory, which sbatch reports as refused
    refused = replace(ours, id=9, state=JobState.FAILED, submit_s=BEGIN_S, start_s=BEGIN_S, end_s=BEGIN_S)
    shown = (ours, refused)
    monkeypatch.setattr(cluster, "accounting", lambda since_s: shown if cluster.now_s < BEGIN_S + 300 else ())
    poller, known = Poller(cluster, AgentSettings()), []
    for _ in range(12):
        known.append(poller.poll(cluster.now_s, "safe", missing_since_s=None).accounted_tags.get(("deer", 2)))
        cluster.now_s += MINUTE_S
    assert known[0] is None
    assert known[2:] == [ours] * 10


def test_accounting_is_read_back_as_far_as_forecasts_draw_days_from() -> None:
    cluster = Cluster()
    poller = polled(cluster, 9)
    assert AgentSettings().longest_history_s == PAST_DAYS * DAY_S
    assert cluster.requested.pop(3) == ("reservations",)
    assert cluster.requested[2:] == [("accounting", days * DAY_S) for days in (2, 4, 8, 14)]
    assert len(poller.ended) >= 14 * 24 - 1
    assert min(job.end_s for job in poller.ended.values()) <= BEGIN_S - 13 * DAY_S


def sources(requested: list[Any]) -> list[str]:
    """Sources of queries; ``history`` is accounting further back than before."""
    furthest_s, found = 2 * DAY_S, []
    for source, *since_s in requested:
        further = source == "accounting" and since_s[0] > furthest_s
        furthest_s = max(furthest_s, *since_s, 0)
        found.append("history" if further else source)
    return found


@pytest.mark.parametrize("missing_since_s", [None, BEGIN_S - HOUR_S])
def test_every_query_has_its_turn_where_polls_are_rare(missing_since_s: int | None) -> None:
    cluster = Cluster()
    poller = polled(cluster, 24, missing_since_s=missing_since_s, every_s=5 * MINUTE_S)
    found = Counter(sources(cluster.requested))
    assert found["history"] == 3
    assert min(job.end_s for job in poller.ended.values()) <= BEGIN_S - 13 * DAY_S
    assert min(found["machine"], found["accounting"], found["reservations"]) >= 3
    assert len(cluster.requested) == 24, "one a poll"


def test_a_later_process_continues_the_turns() -> None:
    cluster, alone = Cluster(), Cluster()
    polled(alone, 24, every_s=5 * MINUTE_S)
    poller = Poller(cluster, AgentSettings())
    for _ in range(24):
        polled(cluster, 1, poller, every_s=5 * MINUTE_S)
        memory, poller = json.loads(json.dumps(poller.memory())), Poller(cluster, AgentSettings())
        poller.recall(memory)
    assert cluster.requested == alone.requested


def test_the_memory_of_a_version_without_cpus_is_recalled() -> None:
    poller = polled(Cluster(), 3)
    memory = json.loads(json.dumps(poller.memory()))
    memory["ended"] = [row[:-1] for row in memory["ended"]]
    later = Poller(Cluster(), AgentSettings())
    later.recall(memory)
    assert later.ended == poller.ended != {}


def test_reservations_are_queried_every_ten_minutes_and_remembered() -> None:
    cluster = Cluster()
    poller = polled(cluster, 31)
    assert [requested[0] for requested in cluster.requested].count("reservations") == 3
    later = Poller(cluster, AgentSettings())
    later.recall(json.loads(json.dumps(poller.memory())))
    assert later.reservations == poller.reservations != ()
    cluster.requested.clear()
    polled(cluster, 1, later)
    assert ("reservations",) not in cluster.requested


def test_no_further_than_policies_are_shown_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_ENDED", 60)
    cluster = Cluster()
    poller = polled(cluster, 9)
    assert cluster.requested[2:] == [("accounting", 2 * DAY_S), ("reservations",), ("accounting", 4 * DAY_S)]
    assert sorted(job.end_s for job in poller.ended.values()) == [
        BEGIN_S - hours * HOUR_S for hours in range(59, -1, -1)
    ], "the latest ones, in whatever order they were read"


def test_jobs_that_never_started_are_no_jobs_that_ran(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster()
    ran = cluster.job(BEGIN_S)
    monkeypatch.setattr(cluster, "accounting", lambda since_s: (ran, replace(ran, id=7, start_s=MISSING)))
    assert polled(cluster, 3).ended == {ran.id: ran}


@pytest.mark.parametrize("down", ["accounting", "machine", "reservations"])
def test_what_does_not_answer_is_queried_later_and_delays_none(down: str, caplog: pytest.LogCaptureFixture) -> None:
    cluster = Cluster(HOUR_S, down)
    poller = polled(cluster, 10)
    tries = [requested for requested in cluster.requested if requested[0] == down]
    assert len(tries) == 1
    assert len(cluster.requested) >= 3, "the others are requested"
    assert "Connection refused" in caplog.records[0].detail
    assert poller.complete == (down != "machine")
    cluster.down.clear()
    polled(cluster, 6, poller)
    assert [requested for requested in cluster.requested if requested[0] == down][1:]
    assert poller.complete
    assert poller.ended


def test_a_missing_link_is_searched_again_when_accounting_answers() -> None:
    cluster = Cluster(HOUR_S, "accounting")
    poller = polled(cluster, 2)
    missing_s = BEGIN_S - HOUR_S
    polled(cluster, 5, poller, missing_s)
    assert [requested[0] for requested in cluster.requested].count("accounting") == 1
    cluster.down.clear()
    polled(cluster, 12, poller, missing_s)
    assert [requested[0] for requested in cluster.requested].count("accounting") > 1


def test_without_options_the_cluster_is_unknown() -> None:
    with pytest.raises(SlurmUnreachable):
        polled(Cluster(HOUR_S, "options"), 1)
    cluster = Cluster()
    poller = polled(cluster, 4)
    cluster.down.add("options")
    cluster.now_s += 2 * HOUR_S
    polled(cluster, 3, poller)
    assert poller.options == {"clustername": "polaris"}


def test_the_same_ended_jobs_are_no_change(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, requested = Cluster(), list[int]()
    ran = cluster.job(BEGIN_S)
    found = [ran]
    monkeypatch.setattr(cluster, "accounting", lambda since_s: requested.append(since_s) or tuple(found))
    poller = polled(cluster, 4)
    assert poller.ended_changed
    for change, changed in (([], False), ([replace(ran, end_s=ran.end_s + 5)], True)):
        poller.ended_changed, before = False, len(requested)
        found += change
        cluster.now_s += HOUR_S
        polled(cluster, 4, poller)
        assert len(requested) > before
        assert poller.ended_changed == changed


def test_a_job_that_has_just_ended_counts_before_accounting_reports_it(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster()
    poller = polled(cluster, 3)
    known, poller.ended_changed = dict(poller.ended), False
    begin_s = cluster.now_s
    ended = QueuedJob(900, JobState.COMPLETED, user="ada", nodes=4, limit_s=7200, start_s=begin_s - 60, end_s=begin_s)
    others = (
        replace(ended, id=901, state=JobState.RUNNING, end_s=begin_s + HOUR_S),
        replace(ended, id=902, start_s=MISSING),
        replace(ended, id=904, state=JobState.UNKNOWN, end_s=begin_s + HOUR_S),
        replace(ended, id=903, state=JobState.CANCELLED, start_s=begin_s),
    )
    monkeypatch.setattr(cluster, "observe", lambda: Queue(cluster.now_s, (ended, *others)))
    polled(cluster, 1, poller)
    assert poller.ended.keys() - known.keys() == {900}
    assert poller.ended_changed
    found = poller.ended[900]
    assert (found.user, found.nodes, found.limit_s, found.end_s - found.start_s) == ("ada", 4, 7200, 60)
    polled(cluster, 1, poller)
    assert poller.ended[900] is found, "the same job again is no change"
    ended = replace(ended, start_s=begin_s, end_s=begin_s + MINUTE_S)  # requeued, and ended again
    polled(cluster, 1, poller)
    assert poller.ended[900].end_s == begin_s + MINUTE_S
