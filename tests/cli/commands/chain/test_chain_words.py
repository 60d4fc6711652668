"""What the commands that show chains print, word by word."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mirage.agent.chain.tag import Tag
from mirage.agent.model import ChainState, DecisionRecord, EventRecord, Link, LinkState
from mirage.agent.monitoring.outage import SLURM, STORE, OutageWatch
from mirage.agent.settings import AgentSettings
from mirage.agent.store.lease import holder_name
from mirage.agent.store.sql_store import SqlStore
from mirage.cli import cli_context as cluster
from mirage.duration import UNLIMITED_S
from mirage.errors import SlurmUnreachable
from mirage.job_state import JobState
from mirage.slurm.records import QueuedJob
from tests.support.read_only import read_only

Type = Callable[..., tuple[str, str]]

NOW_S = 1_790_000_000
"""2026-09-21T14:13:20 UTC: now, in the store of these tests."""


def test_list(type_: Type) -> None:
    out, err = type_("chain", "list")
    assert err == "not polled yet; no agent runs: mirage agent start\n"
    assert out.splitlines() == [
        "CHAIN  STATE   POLICY  LINK  JOB  LINK_STATE  LEFT      NEXT  INTERRUPTION  OVERLAP   UNSIGNALLED  WHY",
        "serve  active  lead:2  2     102  running     01:13:20  held  00:30:00      00:00:00  1",
        "train  active  lead:2  0     -    planned     -         -     00:00:00      00:00:00  0",
    ]


def test_an_answer_of_several_lines_is_one_cell(type_: Type, store: SqlStore) -> None:
    refused = "sbatch: error: invalid partition\nsbatch: error: Batch job submission failed\n"
    store.change_chain(1, EventRecord(1, 0, NOW_S, "refused", refused), trouble=refused)
    joined = "sbatch: error: invalid partition; sbatch: error: Batch job submission failed"
    assert type_("chain", "list", "-P", "-n", "-o", "chain,why")[0] == f"serve|{joined}\ntrain|\n"
    assert type_("chain", "list", "-n")[0].splitlines()[0].endswith(joined)
    assert type_("chain", "log", "serve")[0].splitlines()[-1].endswith(joined)
    assert joined in " ".join(type_("chain", "show", "serve")[0].split())


def test_list_reports_when_the_agent_last_polled(type_: Type, store: SqlStore) -> None:
    store.record_poll(NOW_S - 60)
    assert type_("chain", "list")[1] == "as of 2026-09-21T14:12:20; no agent runs: mirage agent start\n"
    store.take_lease(holder_name(), NOW_S, 300)
    assert type_("chain", "list")[1] == "as of 2026-09-21T14:12:20\n"
    assert type_("chain", "list", "-P")[1] == type_("chain", "list", "-n")[1] == ""
    listed = [(one["as_of"], one["agent"]) for one in json.loads(type_("chain", "list", "--json")[0])]
    assert listed == [(NOW_S - 60, True)] * 3


@pytest.mark.parametrize("words", [("chain", "list"), ("chain", "show", "serve")])
def test_an_outage_is_shown_with_its_beginning(type_: Type, store: SqlStore, words: tuple[str, ...]) -> None:
    store.record_poll(NOW_S - 240)
    store.take_lease(holder_name(), NOW_S - 240, 240)
    watched = OutageWatch(AgentSettings(), holder_name(), cluster.home().agent_state, lambda: 0.0)
    for source in (STORE, SLURM):
        watched.contact(source, NOW_S - 240)
    assert type_(*words)[1] == "as of 2026-09-21T14:09:20\n"
    watched.begin(SLURM, "squeue had no answer from Slurm", NOW_S - 200)
    outage = "no contact with slurmctld since 2026-09-21T14:09:20 (00:04:00 ago): squeue had no answer from Slurm"
    assert type_(*words)[1] == f"as of 2026-09-21T14:09:20; {outage}\n"
    shown = json.loads(type_(*words, "--json")[0])
    one = shown[0] if isinstance(shown, list) else shown
    assert (one["outage_since"], one["outage"], one["agent"]) == (NOW_S - 240, outage, True)


def test_list_reports_what_is_the_matter(type_: Type, store: SqlStore) -> None:
    store.change_link(1, 3, reason="ReqNodeNotAvail,_UnavailableNodes:n1")
    store.change_chain(2, trouble="sbatch refused", why="")
    assert type_("chain", "list", "-P", "-o", "chain,why", "-n", "--all")[0].splitlines() == [
        "serve|nodes that it needs are not available: down, drained, or reserved for maintenance "
        "(ReqNodeNotAvail,_UnavailableNodes:n1)",
        "train|sbatch refused",
        "train-old|3 links ran",
    ]


def test_list_names_the_dependency_of_the_first_job(type_: Type, store: SqlStore) -> None:
    store.change_link(2, 1, state=LinkState.HELD, job=201)
    assert type_("chain", "list", "-nP", "-o", "chain,why")[0].splitlines() == [
        "serve|", "train|it waits for its own --dependency",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("words", "lines"),
    [
        (["--all", "-no", "chain,state"], ["serve      active", "train      active", "train-old  done"]),
        (["-n", "-o", "job,chain"], ["102  serve", "-    train"]),
        (["-P", "-o", "chain,left"], ["CHAIN|LEFT", "serve|01:13:20", "train|-"]),
        (["-nP", "-o", "link"], ["2", "0"]),
    ],
)  # fmt: skip
def test_list_of_chosen_columns(type_: Type, words: list[str], lines: list[str]) -> None:
    assert type_("chain", "list", *words)[0].splitlines() == lines


@pytest.mark.parametrize(("ends_s", "left"), [(NOW_S + 5_000, "01:23:20"), (UNLIMITED_S, "-")])
def test_list_counts_to_the_end_that_a_suspension_has_moved(
    type_: Type, store: SqlStore, ends_s: int, left: str
) -> None:
    store.change_link(1, 2, ends_s=ends_s)
    assert type_("chain", "list", "-nP", "-o", "left")[0].splitlines() == [left, "-"]


def test_list_of_a_column_that_there_is_not(type_: Type) -> None:
    _, err = type_("chain", "list", "-o", "chain,node", status=2)
    assert err.splitlines()[-1] == (
        "Error: there is no column 'node'; there are chain, state, policy, link, job, link_state, left, next, "
        "interruption, overlap, unsignalled, why"
    )


@pytest.mark.parametrize("words", [["-o", "job"], ["-n"], ["-P"]])
def test_list_as_json_takes_no_option_of_the_table(type_: Type, words: list[str]) -> None:
    _, err = type_("chain", "list", "--json", *words, status=2)
    assert err.splitlines()[-1] == "Error: --json prints every column in its own form; leave -P, -n and -o out"


def test_list_as_json_has_every_chain_and_plain_seconds(type_: Type) -> None:
    serve, train, old = json.loads(type_("chain", "list", "--json")[0])
    assert serve == {
        "chain": "serve", "state": "active", "why": "", "policy": "lead:2", "link": 2, "job": 102,
        "link_state": "running", "left": 4_400, "next": "held", "interrupted": 1_800, "overlap": 0, "unsignalled": 1,
        "as_of": None, "agent": False, "outage_since": None, "outage": None, "excluded": [],
        "reserved": None, "shortened": [], "budget": None,
    }  # fmt: skip
    assert (train["job"], train["link_state"], train["left"], train["next"]) == (None, "planned", None, None)
    assert (old["chain"], old["state"], old["why"]) == ("train-old", "done", "3 links ran")


def test_of_several_waiting_links_the_next_one_is_listed(type_: Type, store: SqlStore) -> None:
    store.add_link(Link(1, 4, LinkState.QUEUED, job=104, submitted_s=NOW_S))
    serve = json.loads(type_("chain", "list", "--json")[0])[0]
    assert (serve["link"], serve["link_state"], serve["next"]) == (2, "running", "held")
    store.change_link(1, 3, state=LinkState.ENDED, ended_s=NOW_S)  # it was replaced
    assert json.loads(type_("chain", "list", "--json")[0])[0]["next"] == "queued"
    store.change_link(1, 3, state=LinkState.HELD)
    store.change_link(1, 2, state=LinkState.ENDED, ended_s=NOW_S)
    serve = json.loads(type_("chain", "list", "--json")[0])[0]
    assert (serve["link"], serve["link_state"], serve["next"]) == (3, "held", "queued")


@pytest.mark.parametrize("limit_s", [-1, UNLIMITED_S])
def test_a_link_without_a_limit_has_no_time_left_to_show(type_: Type, store: SqlStore, limit_s: int) -> None:
    store.change_link(1, 2, limit_s=limit_s)
    assert type_("chain", "list", "-n", "-o", "chain,left")[0].splitlines() == ["serve  -", "train  -"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("train-", "unknown chain 'train-'. Did you mean 'train'? Known: serve, train, train-old."),
        ("sevre", "unknown chain 'sevre'. Did you mean 'serve'? Known: serve, train, train-old."),
        ("", "unknown chain ''. Known: serve, train, train-old."),
        ("102", "unknown chain '102': this is a job of chain serve; give that name"),
    ],
)
@pytest.mark.parametrize("command", ["show", "log", "explain", "report", "pause", "resume", "stop", "rm"])
def test_a_name_that_is_not_clear_is_refused(type_: Type, command: str, name: str, message: str) -> None:
    assert type_("chain", command, name, status=1) == ("", f"mirage: error: {message}\n")


@pytest.mark.parametrize("end_file", ["stop", "done"])
@pytest.mark.parametrize("command", ["show", "stop", "rm"])
def test_how_a_chain_without_an_agent_ends_is_explained(type_: Type, command: str, end_file: str) -> None:
    folder = cluster.home().agentless_folder("it's mine")
    folder.mkdir(parents=True)
    (folder / "link.sh").touch()
    end = shlex.join(["touch", f"{folder}/stop"])
    message = f"chain it's mine has no agent, its jobs decide; their log is {folder}/log; to end it, {end}"
    assert type_("chain", command, "it's mine", status=1) == ("", f"mirage: error: {message}\n")
    (folder / end_file).touch()
    message = f"chain it's mine has no agent, and no further job follows; its log is {folder}/log; to remove it"
    assert message in type_("chain", command, "it's mine", status=1)[1]


def test_log(type_: Type) -> None:
    assert type_("chain", "log", "serve")[0].splitlines() == [
        "2026-09-21T08:40:00  chain     created          by ada",
        "2026-09-21T08:56:40  link 1    started          job 101 on n1",
        "2026-09-21T10:56:40  link 1    ended",
    ]
    lines = type_("chain", "log", "serve", "--json")[0].splitlines()
    assert json.loads(lines[0]) == {
        "chain": 1, "link": 0, "time_s": NOW_S - 20_000, "kind": "created", "detail": "by ada",
    }  # fmt: skip
    assert type_("chain", "log", "train")[0] == ""


def test_a_log_is_followed_until_the_chain_is_done(
    type_: Type, store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert type_("chain", "log", "-f", "train-old") == (
        "", "mirage: chain train-old is done: 3 links ran; no further event follows\n",
    )  # fmt: skip
    changes: list[Callable[[], object]] = [
        lambda: store.change_chain(1, EventRecord(1, 2, NOW_S, "ended", "job 102")),
        lambda: store.change_chain(1, EventRecord(1, 0, NOW_S, "done", "at last"), state=ChainState.DONE),
    ]
    monkeypatch.setattr(time, "sleep", lambda _: changes.pop(0)())
    store.take_lease(holder_name(), NOW_S, 300)
    out, err = type_("chain", "log", "-f", "serve")
    assert [line.split()[-1] for line in out.splitlines()[-2:]] == ["102", "last"]
    assert err == "mirage: chain serve is done; no further event follows\n"


def test_a_log_is_followed_until_the_chain_is_removed(
    type_: Type, store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def remove(_: float) -> None:
        store.change_chain(1, state=ChainState.DONE)
        store.remove_chain(1)

    monkeypatch.setattr(time, "sleep", remove)
    out, err = type_("chain", "log", "-f", "serve")
    assert len(out.splitlines()) == 3
    assert err.splitlines() == [
        "mirage: no agent runs, so no event follows: mirage agent start",
        "mirage: chain serve was removed; no further event follows",
    ]


@pytest.mark.parametrize("other", ["", "moved", "gone"])
def test_a_store_is_bound_to_another_name_of_the_cluster_that_has_its_jobs(
    type_: Type, store: SqlStore, slurm: Any, other: str
) -> None:
    store.rebind("lab@old:6817")
    tag = Tag("serve", 2, store=store.identity().identity, key=store.chain("serve").key)
    slurm.jobs = (QueuedJob(102, JobState.RUNNING, comment=str(tag) if other == "moved" else "x"),)
    if other:
        assert type_("agent", "rebind", *(["--force"] if other == "gone" else [])) == (
            "lab@old:6817 -> c1@head:6817\n", "",
        )  # fmt: skip
    else:
        refusal = "no job of the chains (102, 103) is in the queue of c1@head:6817, so it is probably another cluster"
        assert refusal in type_("agent", "rebind", status=1)[1]
    assert store.identity().cluster == ("c1@head:6817" if other else "lab@old:6817")


def test_explain_reports_the_last_decision_with_all_its_numbers(type_: Type) -> None:
    assert type_("chain", "explain", "serve")[0].splitlines() == [
        "2026-09-21T10:03:20  link 1: lead:2 let the next job compete (lead-reached:lead_s=7200)",
        "    observed  pending            12",
        "    observed  free_nodes         2.5",
        "    expected  wait_s             01:30:00",
        "    expected  chance             0.123",
        "    expected  forever_s          inf",
    ]


def test_explain_reports_the_requested_number_of_decisions_in_order(type_: Type) -> None:
    lines = type_("chain", "explain", "serve", "-n", "9")[0].splitlines()
    assert lines[0] == "2026-09-21T10:02:20  link 1: lead:2 waited (lead-not-reached:lead_s=7200)"
    assert lines[1].startswith("2026-09-21T10:03:20  link 1: ")
    assert type_("chain", "explain", "train")[0] == (
        "no decisions yet: the first is due once a job of the chain runs\n"
    )
    assert type_("chain", "explain", "train-old")[0] == (
        "there was no decision: no policy was called before the chain was done\n"
    )


@pytest.mark.parametrize("state", [ChainState.ACTIVE, ChainState.DONE])
def test_explain_promises_no_decision_where_slurm_alone_starts_the_links(
    type_: Type, store: SqlStore, state: ChainState
) -> None:
    spec = replace(store.chains()[0].spec, policy="dependency", never_two=True)
    store.change_chain(store.add_chain("pair", spec, NOW_S - 5).id, state=state)
    out, err = type_("chain", "explain", "pair")
    assert out == "no policy decides here (--never-two): Slurm starts the next job when the present one has ended\n"
    assert err == ""
    assert type_("chain", "explain", "pair", "--json")[0] == "[]\n"


def test_explain_as_json_is_json_even_where_a_number_is_infinite(type_: Type) -> None:
    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    (decision,) = json.loads(type_("chain", "explain", "serve", "--json")[0], parse_constant=refuse)
    assert decision == {
        "chain": 1, "link": 1, "time_s": NOW_S - 15_000, "policy": "lead:2", "submits": True,
        "reason": "lead-reached:lead_s=7200", "estimate": {"wait_s": 5_400.4, "chance": 0.123456, "forever_s": None},
        "observed": {"pending": 12.0, "free_nodes": 2.5}, "revision": "",
    }  # fmt: skip


@pytest.mark.parametrize("columns", ["80", "0"])
def test_show(type_: Type, monkeypatch: pytest.MonkeyPatch, columns: str) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    lines = type_("chain", "show", "serve")[0].splitlines()
    assert lines[0] == "serve  active, policy lead:2"
    assert [line[:22] for line in lines[1:4]] == [
        "link 1    job 101     ",
        "link 2    job 102     ",
        "link 3    job 103     ",
    ]
    assert lines[2].endswith(" +00:30:00")
    assert lines[3].endswith(" held")
    assert lines[-2:] == [
        "interruption 00:30:00, overlap 00:00:00, alive 90.53% of the time",
        "last decision 09-21T10:03: lead-reached:lead_s=7200",
    ]
    assert type_("chain", "show", "train")[0] == "train  active, policy lead:2\nno link has been submitted yet\n"


def test_a_reservation_and_a_shortened_link_are_shown(type_: Type, store: SqlStore, utc: None) -> None:
    store.change_chain(1, reserved="1795719176 1795722776 maint 1")
    store.change_link(1, 3, limit_s=5_400, shortened_from_s=86_400)
    text = "no job can run from 2026-11-26T18:52:56 to 2026-11-26T19:52:56: reservation maint 1"
    assert type_("chain", "list", "-nP", "-o", "why")[0].splitlines()[0] == text
    shown = type_("chain", "show", "serve")[0]
    assert f"active, policy lead:2: {text}\n" in shown
    assert "link 3 has a limit of 01:30:00 in place of 1-00:00:00, see its log\n" in shown
    row = json.loads(type_("chain", "show", "serve", "--json")[0])
    assert row["reserved"] == {"from_s": 1795719176, "until_s": 1795722776, "name": "maint 1"}
    assert row["shortened"] == [{"link": 3, "limit": 5_400, "usual": 86_400}]


def test_a_budget_is_shown(type_: Type, store: SqlStore, utc: None) -> None:
    spec = replace(store.chain("serve").spec, budget_node_h=500.0)
    store.change_spec(store.chain("serve"), spec)
    row = json.loads(type_("chain", "show", "serve", "--json")[0])["budget"]
    assert (row["node_h"], row["used"] + row["left"]) == (500, 500)
    assert row["used"] > 0
    day = time.strftime("%Y-%m-%d", time.gmtime(row["runs_out"]))
    text = f"budget: {row['used']:.1f} of 500 node-hours used, {row['left']:.1f} left; at the present rate it runs out"
    assert f"{text} on {day}\n" in type_("chain", "show", "serve")[0]


def test_excluded_nodes_are_shown_with_the_command_that_clears_them(type_: Type, store: SqlStore) -> None:
    assert json.loads(type_("chain", "show", "serve", "--json")[0])["excluded"] == []
    store.change_chain(1, excluded="n1,n2")
    shown = "excluded nodes: n1, n2; to use them again: mirage chain edit serve --clear-excluded\n"
    assert shown in type_("chain", "show", "serve")[0]
    assert json.loads(type_("chain", "show", "serve", "--json")[0])["excluded"] == ["n1", "n2"]


def test_show_as_json_has_every_link(type_: Type) -> None:
    shown = json.loads(type_("chain", "show", "serve", "--json")[0])
    assert (shown["decisions"], shown["left"]) == (2, 4_400)
    assert [(link["number"], link["state"], link["job"], link["outcome"]) for link in shown["links"]] == [
        (1, "ended", 101, "TIMEOUT"), (2, "running", 102, "UNKNOWN"), (3, "held", 103, "UNKNOWN"),
    ]  # fmt: skip


def test_report_is_named_after_the_chain(type_: Type, tmp_path: Path) -> None:
    assert type_("chain", "report", "serve")[0] == "serve.html\n"
    assert "lead-reached" in (tmp_path / "serve.html").read_text()
    assert type_("chain", "report", "serve", "-o", "no/x.html", status=1)[1] == (
        "mirage: error: cannot write no/x.html: there is no folder no; make it, or name another\n"
    )


def test_revisions_are_reported(type_: Type, store: SqlStore) -> None:
    known = ("lead:2", False)
    store.add_decisions(
        [
            DecisionRecord(1, 2, NOW_S - 90, *known, "quiet", revision="hold"),
            DecisionRecord(1, 2, NOW_S - 60, *known, "crowded:wait_s=900", revision="shorten,release"),
            DecisionRecord(1, 2, NOW_S - 30, *known, "as-it-is"),
        ]
    )
    explained = type_("chain", "explain", "serve", "-n", "3")[0].splitlines()
    assert explained[0].endswith("link 2: lead:2 revised the next job: held again (quiet)")
    assert explained[1].endswith("revised the next job: shortened, released again (crowded:wait_s=900)")
    assert explained[2].endswith("lead:2 waited (as-it-is)")
    shown = type_("chain", "show", "serve")[0].splitlines()
    assert shown[-1] == "next job shortened, released again 2026-09-21T14:12:20: crowded:wait_s=900"
    assert json.loads(type_("chain", "show", "serve", "--json")[0])["last_revision"]["revision"] == "shorten,release"


@pytest.mark.parametrize(
    ("words", "message"),
    [(["list"], "serve  active"), (["show", "serve"], "interruption 00:30:00"), (["log", "serve"], "job 101 on n1"),
     (["explain", "serve"], "lead-reached"), (["list", "--json"], '"chain": "train"')],
)  # fmt: skip
def test_chains_are_shown_where_nothing_can_be_written(
    type_: Type, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], message: str
) -> None:
    with read_only(tmp_path / "home", tmp_path / "seen") as home:
        monkeypatch.setenv("MIRAGE_HOME", str(home))
        out, err = type_("chain", *words)
        assert message in out
        line = err.splitlines()[0]
        assert line.startswith("mirage: warning: the store is opened read-only: cannot open the store")
        assert "Read-only file system" in line
        assert "Read-only file system" in type_("chain", "pause", "serve", status=1)[1]


@pytest.mark.parametrize("words", [[], ["--json"], ["-P"]])
def test_list_warns_where_slurm_s_commands_speak_to_another_cluster(
    type_: Type, store: SqlStore, slurm: Any, words: list[str]
) -> None:
    store.bind("c1@head:6817")
    assert "cluster" not in type_("chain", "list", *words)[1]
    store.rebind("lab@head:6817")
    out, err = type_("chain", "list", *words)
    assert "serve" in out
    (line,) = (line for line in err.splitlines() if "cluster" in line)
    assert line.startswith("mirage: warning: the chains of sqlite:///")
    assert "live on the cluster lab@head:6817, and Slurm's commands speak to c1@head:6817 here" in line
    slurm.trouble = SlurmUnreachable("no answer")
    assert "cluster" not in type_("chain", "list", *words)[1]
