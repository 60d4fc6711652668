"""Whole lives of chains by real command lines on the simulated Slurm."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from mirage.agent.agent import Agent
from mirage.agent.background.notifications import Deliveries, Notifications
from mirage.agent.cycle.readiness import SystemShell
from mirage.agent.hosting.pass_memory import PassMemory
from mirage.agent.settings import AgentSettings
from mirage.agent.store.sql_store import open_store
from mirage.cli import cli_context as cluster
from mirage.cli import main
from mirage.duration import DAY_S, HOUR_S
from mirage.lab.commands.server import Served, served_slurm
from mirage.sim.cluster import Cluster
from mirage.sim.simulation import Simulation
from mirage.sim.workload import workload
from mirage.slurm.client import SlurmClient, user_of_process
from mirage.slurm.runner import SystemRunner
from mirage.trace.table import JobTable
from tests.support.faulty_slurm import FaultySlurm

BEGIN_S = 1_790_000_000
NODES = 4


class Terminal:
    """A user's terminal, and an agent that runs for a given time."""

    def __init__(self, served: Served, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.served, self.folder, self.capsys = served, folder, capsys
        (folder / "serve.sh").write_text("#!/bin/bash\n#SBATCH -N 1\n#SBATCH --time=4:00:00\nserve\n")

    def type(self, *words: str, status: int = 0) -> str:
        done = main(list(words))
        printed = self.capsys.readouterr()
        assert done == status, printed
        self.stderr = printed.err
        return printed.out

    def live(self, seconds: float) -> None:
        """Runs the agent for a given time."""
        client = SlurmClient(SystemRunner(), clock=self.served.slurm.clock)
        with closing(open_store(cluster.home().store_url)) as store:
            agent = Agent(
                store, client, SystemShell(), clock=self.served.slurm.clock, monotonic=time.monotonic, holder="here",
                settings=AgentSettings(poll_s=600, busy_poll_s=60, lease_s=DAY_S),
                notifications=Notifications(Deliveries(SystemShell())),
            )  # fmt: skip
            end_s = self.served.slurm.clock() + seconds
            agent.run(self.served.slurm.sleep, lambda: self.served.slurm.clock() >= end_s)


@pytest.fixture
def terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Terminal]:
    machine = Cluster.pool(NODES)
    others = JobTable.build(
        range(1, 41),
        submit_s=[BEGIN_S + 1_800 * k for k in range(40)],
        elapsed_s=[3 * HOUR_S] * 40,
        limit_s=[4 * HOUR_S] * 40,
        nodes=[2] * 40,
    )
    slurm = FaultySlurm(Simulation(machine, workload(others, machine), "slurm"), user=user_of_process())
    slurm.sleep(BEGIN_S)
    with served_slurm(slurm) as served:
        monkeypatch.setenv("PATH", served.environment["PATH"])
        monkeypatch.setenv("MIRAGE_HOME", str(tmp_path / "home"))
        monkeypatch.setattr(cluster, "clock", slurm.clock)
        monkeypatch.chdir(tmp_path)
        yield Terminal(served, tmp_path, capsys)


@pytest.mark.slow
def test_a_chain_from_its_submission_to_its_report(terminal: Terminal) -> None:
    store_file = cluster.home().folder / "store.db"
    terminal.type("chain", "list")
    assert f"no active chain in {store_file}\n" in terminal.stderr
    assert not store_file.exists()
    printed = terminal.type(
        "submit",
        "--chain",
        "serve",
        "--policy",
        "lead:1.9",
        "--links",
        "3",
        "--time",
        "2:00:00",
        "--no-agent",
        "serve.sh",
    )
    assert printed.startswith("Submitted batch job ")
    assert "chain serve" in terminal.stderr
    terminal.live(10 * HOUR_S)
    (row,) = json.loads(terminal.type("chain", "list", "--json"))
    assert row["state"] == "done"
    terminal.type("chain", "list")
    assert f"no active chain in {store_file} (1 done: --all)\n" in terminal.stderr
    shown = json.loads(terminal.type("chain", "show", "serve", "--json"))
    assert [link["number"] for link in shown["links"]] == [1, 2, 3]
    assert {link["state"] for link in shown["links"]} == {"ended"}
    assert "lead-reached" in terminal.type("chain", "explain", "serve")
    log = terminal.type("chain", "log", "serve")
    for word in ("submitted", "started", "released", "signalled", "ended", "done"):
        assert word in log
    terminal.type("chain", "report", "serve", "-o", "serve.html")
    assert "Hand-overs" in Path("serve.html").read_text()
    terminal.served.slurm.sleep(DAY_S)
    terminal.type("chain", "report", "serve", "-o", "later.html")
    assert Path("later.html").read_text() == Path("serve.html").read_text(), "a finished chain has one report"


@pytest.mark.slow
def test_a_user_pauses_resumes_and_stops(terminal: Terminal) -> None:
    terminal.type("submit", "--chain", "serve", "--policy", "reactive", "--no-agent", "serve.sh")
    terminal.live(HOUR_S)
    terminal.type("chain", "pause", "serve")
    terminal.live(HOUR_S)
    assert [
        job.comment for job in terminal.served.slurm.observe().jobs if "serve:2" in job.comment and job.end_s < 0
    ] == []
    terminal.type("chain", "resume", "serve")
    terminal.live(HOUR_S)
    assert json.loads(terminal.type("chain", "list", "--json"))[0]["state"] == "active"
    terminal.type("chain", "stop", "serve")
    terminal.live(2 * HOUR_S)
    assert json.loads(terminal.type("chain", "list", "--json"))[0]["state"] == "done"
    assert not [own for own in terminal.served.slurm.own.values() if not own.over]


@pytest.mark.slow
def test_a_living_chain_takes_a_new_limit_script_and_policy_and_loses_no_link(terminal: Terminal) -> None:
    words = ("--chain", "serve", "--policy", "reactive", "--links", "3", "--time", "1:00:00", "--no-agent", "serve.sh")
    terminal.type("submit", "--notify", f"echo $MIRAGE_TEXT >> {terminal.folder}/messages", *words)
    terminal.live(HOUR_S / 4)
    before = set(terminal.served.slurm.own)
    Path("serve.sh").write_text("#!/bin/bash\n#SBATCH -N 1\nserve --faster\n")
    edit = "chain edit serve -t 1:30:00 --policy lead:0.5 --replace-waiting serve.sh --port=80"
    assert "policy: reactive -> lead:0.5" in terminal.type(*edit.split())
    terminal.type("chain", "pause", "serve")
    terminal.type("chain", "resume", "serve")
    terminal.live(6 * HOUR_S)
    links = json.loads(terminal.type("chain", "show", "serve", "--json"))["links"]
    ran = [link for link in links if link["started_s"] > 0]
    assert [link["limit_s"] for link in ran] == [HOUR_S, 1.5 * HOUR_S, 1.5 * HOUR_S], "three, of which one was old"
    assert json.loads(terminal.type("chain", "list", "--json"))[0]["state"] == "done"
    new = [own for job, own in terminal.served.slurm.own.items() if job not in before]
    assert {own.submission.arguments for own in new} == {("--port=80",)}
    assert all(Path(own.submission.script).read_text().endswith("serve --faster\n") for own in new)
    assert "lead-reached" in terminal.type("chain", "explain", "serve", "-n", "3")
    messages = Path("messages").read_text().splitlines()
    assert messages[0] == "chain serve: paused (paused by hand)"
    assert messages[-1] == "chain serve: done (all 3 links have run)"


def test_a_parsable_submission_prints_the_number_alone(terminal: Terminal) -> None:
    number = terminal.type(
        "submit", "--parsable", "--no-agent", "--comment", "mine", "serve.sh", "--port", "80"
    ).strip()
    own = terminal.served.slurm.own[int(number)]
    assert own.comment.endswith("| mine")
    assert own.submission.arguments == ("--port", "80")
    assert own.submission.options["nodes"] == "1", "from the script, for the store"


def test_a_refusal_comes_in_slurm_s_words_and_leaves_no_chain(terminal: Terminal) -> None:
    terminal.type("submit", "-p", "nowhere", "--no-agent", "serve.sh", status=1)
    assert "invalid partition specified" in terminal.stderr
    assert terminal.type("chain", "list", "--noheader") == ""


def test_a_budget_below_one_job_is_refused(terminal: Terminal) -> None:
    terminal.type("submit", "--budget", "7.9", "-N", "1-2", "--no-agent", "serve.sh", status=1)
    assert "--budget 7.9 is less than one job needs: 2 nodes for 04:00:00, that is 8 node-hours" in terminal.stderr
    terminal.type("submit", "--budget", "8", "-N", "2", "--no-agent", "serve.sh")


def test_a_link_that_could_never_be_ready_is_refused(terminal: Terminal) -> None:
    terminal.type("submit", "--warmup", "4h", "--no-agent", "serve.sh", status=1)
    assert "not shorter than the time limit 04:00:00" in terminal.stderr


def test_a_policy_in_a_file_is_stored_by_its_whole_path(terminal: Terminal) -> None:
    Path("tree.txt").write_text("tree: 1\nfeatures:\n    remaining: duration\nanswers: wait, submit\n\nsubmit\n")
    for given in ("./tree.txt", "tree.txt"):
        terminal.type("submit", "--policy", given, "--no-agent", "serve.sh")
    chains = json.loads(terminal.type("chain", "list", "--json"))
    assert [chain["policy"] for chain in chains] == [str(terminal.folder / "tree.txt")] * 2


def test_a_policy_in_a_file_that_cannot_be_read_is_refused(terminal: Terminal) -> None:
    Path("model").write_bytes(b"\x00 no model")
    refused = {"./nosuch": "nosuch: no such file", "model": "is no model file", "./serve.sh": "no policy begins so"}
    for name, words in refused.items():
        terminal.type("submit", "--policy", name, "--no-agent", "serve.sh", status=1)
        assert words in terminal.stderr
    assert terminal.type("chain", "list", "--all", "--noheader") == ""


def test_a_controller_that_was_not_reached_leaves_no_chain_and_the_next_try_makes_one(terminal: Terminal) -> None:
    terminal.served.slurm.restart_controller(600)
    words = ("submit", "--chain", "serve", "--policy", "reactive", "--no-agent", "serve.sh")
    assert terminal.type(*words, status=1) == ""
    assert "nothing was submitted, and there is no chain" in terminal.stderr
    assert "Unable to contact slurm controller" in terminal.stderr
    assert terminal.type("chain", "list", "--all", "--noheader") == ""
    assert not (terminal.folder / "home" / "chains" / "serve").exists()
    terminal.live(HOUR_S)
    assert terminal.served.slurm.own == {}
    terminal.type(*words)
    terminal.live(HOUR_S)
    assert json.loads(terminal.type("chain", "show", "serve", "--json"))["links"][0]["state"] == "running"


def test_ctrl_c_while_sbatch_runs_names_the_chain_that_exists(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> int:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("mirage.slurm.client.SlurmClient.submit", interrupted)
        terminal.type("submit", "--chain", "serve", "--no-agent", "serve.sh", status=130)
    assert "chain serve exists, and its job is or will be submitted: `mirage chain stop serve`" in terminal.stderr
    assert [row["chain"] for row in json.loads(terminal.type("chain", "list", "--json"))] == ["serve"]


def test_a_name_that_is_taken_leaves_the_chain_and_its_script_as_they_are(terminal: Terminal) -> None:
    terminal.type("submit", "--chain", "serve", "--no-agent", "serve.sh")
    Path("serve.sh").write_text("#!/bin/sh\nanother\n")
    terminal.type("submit", "--chain", "serve", "--no-agent", "serve.sh", status=1)
    assert "there is a chain 'serve' already" in terminal.stderr
    (stored,) = (terminal.folder / "home" / "chains" / "serve").rglob("serve.sh")
    assert "another" not in stored.read_text()


@pytest.mark.slow
def test_an_answer_that_was_lost_makes_no_second_job(terminal: Terminal) -> None:
    terminal.served.slurm.lose_answers = 1
    words = ("submit", "--policy", "reactive", "--no-agent", "--request-id", "r1", "serve.sh")
    assert terminal.type(*words, status=75) == ""
    assert "it is not known whether a job was submitted" in terminal.stderr
    assert terminal.type(*words, status=75) == ""
    assert "its job is not known yet" in terminal.stderr
    terminal.live(2 * HOUR_S)
    (job,) = (number for number, own in terminal.served.slurm.own.items() if ":1" in own.comment)
    assert terminal.type(*words) == f"Submitted batch job {job}\n"
    assert len(json.loads(terminal.type("chain", "list", "--json"))) == 1


def test_requests_with_other_keys_make_other_chains(terminal: Terminal) -> None:
    first, again, other = (
        json.loads(terminal.type("submit", "--json", "--no-agent", "--request-id", key, "serve.sh"))
        for key in ("one", "one", "two")
    )
    assert first == again
    assert first["job"] != other["job"]
    assert first["chain"] != other["chain"]


def test_a_repeated_request_that_differs_is_reported(terminal: Terminal) -> None:
    words = ("submit", "--no-agent", "--request-id", "one")
    terminal.type(*words, "serve.sh")
    (chain,) = terminal.served.slurm.own.values()
    Path("other.sh").write_text("#!/bin/sh\ntrue\n")
    terminal.type(*words, "-N", "2", "--chain", "two", "other.sh")
    name = chain.comment.split(":")[1]
    assert f"request one was submitted before, as chain {name} (active)\n" in terminal.stderr
    assert "mirage: warning: request one was another one, and nothing was submitted: " in terminal.stderr
    for change in ("--nodes 1 (now 2)", "script serve.sh (now other.sh)", f"name {name} (now two)"):
        assert change in terminal.stderr
    for dry in ([], ["--dry-run"]):
        assert terminal.type(*words, *dry, "serve.sh").startswith("Submitted batch job ")
        assert "warning" not in terminal.stderr
        assert "request one was submitted before" in terminal.stderr


@pytest.mark.parametrize(("limit", "rare"), [("3:59:00", True), ("4:00:00", False)])
def test_passes_that_are_too_rare_for_the_jobs_are_a_warning(terminal: Terminal, limit: str, rare: bool) -> None:
    now_s = int(terminal.served.slurm.clock())
    cluster.home().folder.mkdir(parents=True, exist_ok=True)
    PassMemory(begun_s=(now_s - 2 * HOUR_S, now_s)).write(cluster.home().pass_memory)
    terminal.type("submit", "-t", limit, "serve.sh")
    assert "passes every 02:00:00, the last one at" in terminal.stderr
    assert ("mirage: warning: passes every 02:00:00 are too rare for jobs of 03:59:00" in terminal.stderr) is rare


def test_a_request_that_was_refused_can_be_made_again(terminal: Terminal) -> None:
    words = ("submit", "--no-agent", "--request-id", "one", "--chain", "serve")
    terminal.type(*words, "-p", "nowhere", "serve.sh", status=1)
    assert terminal.type(*words, "serve.sh").startswith("Submitted batch job ")


@pytest.mark.parametrize("program", ["/bin/false", "/nowhere/python"])
@pytest.mark.parametrize("json_too", [[], ["--json"]])
def test_the_number_is_printed_whatever_becomes_of_the_agent(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, program: str, json_too: list[str]
) -> None:
    monkeypatch.setattr(sys, "executable", program)
    report = terminal.type("submit", *json_too, "serve.sh")
    assert json.loads(report)["job"] if json_too else report.startswith("Submitted batch job ")
    assert "mirage: warning: no agent was started" in terminal.stderr


def test_quiet_prints_nothing(terminal: Terminal) -> None:
    assert terminal.type("submit", "-Q", "--parsable", "--no-agent", "serve.sh") == ""
    assert terminal.stderr == ""
    assert len(terminal.served.slurm.own) == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--policy lead:abc", "lead takes hours, as in lead:4; got 'abc'"),
        ("--policy lead", "lead takes hours"),
        ("--policy lead:", "write the parameter after it"),
        ("--policy average:3", "takes no parameter"),
        ("--policy what-if:many", "what-if takes futures=NUMBER"),
        ("--policy lead:4", "leads by 4 h, which is not less than the time limit 04:00:00"),
        ("--signal-previous NOSUCH", "no such signal"),
        ("--signal-previous KILL", "--signal-previous 'KILL': no program can handle this signal"),
        ("--grace 4h", "--grace 04:00:00 is not shorter than the time limit 04:00:00"),
        (
            "--grace 2h --warmup 2h",
            "leave nothing of the time limit 04:00:00; shorten one of them, or lengthen the limit",
        ),
        ("--time soon", "--time: 'soon' is no duration"),
        ("--time 0", "the time limit 0 never ends"),
        ("-t UNLIMITED", "the time limit UNLIMITED never ends"),
        ("--chdir nowhere", "--chdir nowhere: there is no such folder"),
        ("--ready-command=", "--ready-command is empty"),
        ("--notify http://", "--notify 'http://' is no URL"),
        ("--chain a/b", "cannot name a chain"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_submitted(
    terminal: Terminal, words: str, message: str
) -> None:
    assert terminal.type("submit", "--no-agent", *words.split(), "serve.sh", status=1) == ""
    assert message in terminal.stderr
    assert terminal.served.slurm.own == {}
    assert terminal.type("chain", "list", "--all", "--noheader") == ""


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--chains serve", "unrecognized option '--chains'; did you mean --chain?"),
        ("--for UNLIMITED", "'UNLIMITED' never ends; give a time that does"),
        ("--warmup=-1", "'-1' is negative; give a time from 0 on"),
        ("--notify-gap 5m", "--notify-gap is for the messages of --notify; give a target, too"),
        ("--notify none --notify true", "--notify none sends no messages; leave it or the other targets out"),
        ("--ready-command true --ready-by-job", "--ready-command and --ready-by-job both define when a job is ready"),
        ("--progress-file=", "--progress-file is empty; name a file, or leave the option out"),
        ("--agentless --notify-gap 5m", "--notify-gap cannot be used with --agentless"),
    ],
)
def test_what_has_no_effect_is_a_wrong_usage(terminal: Terminal, words: str, message: str) -> None:
    assert terminal.type("submit", "--no-agent", *words.split(), "serve.sh", status=2) == ""
    assert message in " ".join(terminal.stderr.split())
    assert terminal.served.slurm.own == {}


@pytest.mark.parametrize(
    "words",
    ["-t 0 --links 2", "-t UNLIMITED --for 14d", "--time=0 --until-done", "-t 2 --policy average", "--policy lead:3.9"],
)
def test_what_makes_sense_is_submitted(terminal: Terminal, words: str) -> None:
    assert terminal.type("submit", "--no-agent", *words.split(), "serve.sh").startswith("Submitted batch job ")
    assert len(terminal.served.slurm.own) == 1


@pytest.mark.parametrize("option", ["--ready-command", "--notify"])
@pytest.mark.parametrize(
    ("command", "missing"),
    [
        ("cule -f http://$MIRAGE_HOST", "cule"),
        ("test -e up", ""),
        ("if true; then true; fi", ""),
        ("./later.sh", ""),
    ],
)
def test_a_command_of_a_missing_program_is_a_warning(
    terminal: Terminal, option: str, command: str, missing: str
) -> None:
    terminal.type("submit", "--no-agent", option, command, "serve.sh")
    assert (f"warning: {option} {command}: there is no program {missing} here" in terminal.stderr) == bool(missing)
    assert ("there is no program" in terminal.stderr) == bool(missing)


@pytest.mark.parametrize(("command", "missing"), [("/no/such/check --fast", "/no/such/check"), ("/bin/true 1", "")])
def test_a_missing_program_with_a_path_is_a_warning(terminal: Terminal, command: str, missing: str) -> None:
    ready = ("--ready-command", command)
    submit = ("submit", "--no-agent", "--chain", "serve", *ready, "serve.sh")
    for words in (submit, ("chain", "edit", "serve", "--links", "9", *ready)):
        terminal.type(*words)
        assert (f"--ready-command {command}: there is no program {missing} here" in terminal.stderr) == bool(missing)


def test_a_short_link_has_a_short_grace(terminal: Terminal) -> None:
    for limit, options, grace_s in (("4", [], 60), ("2:00:00", [], 120), ("4", ["--grace", "3m"], 180)):
        terminal.type("submit", "--no-agent", "-t", limit, *options, "serve.sh")
        with cluster.store() as store:
            assert store.chains()[-1].spec.grace_s == grace_s


def test_a_chain_without_an_end_explains_how_to_end_it(terminal: Terminal) -> None:
    job = terminal.type("submit", "--parsable", "--chain", "serve", "--no-agent", "serve.sh")
    assert job.strip().isdecimal()
    assert terminal.stderr.splitlines() == [
        "chain serve ends when a job exits with 0 well before its limit, or when you run `mirage "
        "chain stop serve`; --links, --for and --until set another end",
        "chain serve",
    ]
    terminal.type("submit", "--dry-run", "--chain", "other", "serve.sh")
    assert terminal.stderr.count("chain other ends when a job exits") == 1
    for end in (["--links", "2"], ["--for", "1d"], ["--until", "now+1day"], ["--until-done"], ["-Q"]):
        terminal.type("submit", *end, "--no-agent", "serve.sh")
        assert "ends when a job exits" not in terminal.stderr


@pytest.mark.parametrize("option", ["--request-id", "--chain"])
def test_an_empty_key_or_name_is_wrong_usage(terminal: Terminal, option: str) -> None:
    """``--request-id "$RUN"`` where RUN is not set must not submit at each repetition."""
    terminal.type("submit", "--no-agent", option, "", "serve.sh", status=2)
    assert "it is empty; give a text, or leave the option out" in terminal.stderr
    assert terminal.served.slurm.own == {}


def test_an_end_before_the_first_job_may_begin_is_refused(terminal: Terminal) -> None:
    for words in (["--dry-run"], ["--no-agent"]):
        terminal.type("submit", *words, "--begin", "now+2hours", "--for", "2h", "serve.sh", status=1)
        assert "the chain would end before its first job begins, at 2" in terminal.stderr
    assert terminal.served.slurm.own == {}


@pytest.mark.parametrize("option", ["--links=3", "--framework hf", "--policy=auto", "--until-done"])
def test_an_option_of_ours_in_the_script_is_named(terminal: Terminal, option: str) -> None:
    Path("ours.sh").write_text(f"#!/bin/sh\n#SBATCH {option}\ntrue\n")
    terminal.type("submit", "--no-agent", "ours.sh", status=1)
    name = option.split("=")[0].split()[0]
    end = "it is an option of mirage submit; give it on the command line, not in the script\n"
    assert f"unrecognized option '{name}': {end}" in terminal.stderr


def test_the_end_of_a_chain_is_printed_and_one_within_the_first_job_is_a_warning(terminal: Terminal) -> None:
    at = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(int(terminal.served.slurm.clock()) + DAY_S))
    for words in (["--dry-run"], ["--no-agent"]):
        terminal.type("submit", *words, "--chain", "serve", "--for", "1d", "serve.sh")
        assert f"\nchain serve ends at {at}, in 1-00:00:00\n" in f"\n{terminal.stderr}"
        terminal.type("submit", *words, "--for", "4d", "-t", "1", "--begin", "now+345590", "serve.sh")
        assert "the job that runs then is ended before its time limit" in terminal.stderr
        terminal.type("submit", *words, "--for", "4", "serve.sh")
        assert "mirage: warning: chain " in terminal.stderr
        assert (
            "in 00:04:00: the job that runs then is ended before its time limit; give a later end with --for"
            in terminal.stderr
        )


def test_a_dry_run_of_one_link_has_no_next_job_and_refuses_what_submit_refuses(terminal: Terminal) -> None:
    terminal.type("submit", "--no-agent", "--chain", "serve", "serve.sh")
    assert "then, as soon as" not in terminal.type("submit", "--dry-run", "--links", "1", "serve.sh")
    for key in ([], ["--request-id", "new"]):
        terminal.type("submit", "--dry-run", *key, "--chain", "serve", "serve.sh", status=1)
        assert "there is a chain 'serve' already" in terminal.stderr
    with cluster.store() as store:
        store.rebind("other@head:6817")
    assert terminal.type("submit", "--dry-run", "serve.sh", status=1) == ""
    assert "live on the cluster other@head:6817" in terminal.stderr


def test_an_output_in_a_missing_folder_submits_nothing(terminal: Terminal) -> None:
    (terminal.folder / "logs.sh").write_text("#!/bin/bash\n#SBATCH -t 4:00:00 -o logs/run.log\nserve\n")
    assert terminal.type("submit", "--no-agent", "logs.sh", status=1) == ""
    assert f"mkdir -p {terminal.folder}/logs" in terminal.stderr
    terminal.type("submit", "--no-agent", "-o", "/local/run.log", "logs.sh")
    assert "warning: --output /local/run.log: there is no folder /local, which Slurm does not make" in terminal.stderr


def test_a_dry_run_is_refused_by_the_rules_of_the_site(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(terminal.folder))
    (terminal.folder / "mirage").mkdir()
    (terminal.folder / "mirage" / "site.toml").write_text("most_chains = 0\n")
    assert terminal.type("submit", "--dry-run", "serve.sh", status=1) == ""
    assert "this site allows 0 chains of a user; alive: 0" in terminal.stderr


def test_a_chain_lives_until_a_date(terminal: Terminal) -> None:
    at_s = terminal.served.slurm.clock()
    noon = time.strftime("%Y-%m-%dT12:00", time.localtime(at_s + 2 * DAY_S))
    terminal.type("submit", "--until", noon, "--no-agent", "serve.sh")
    with cluster.store() as store:
        assert store.chains()[-1].spec.until_s == int(time.mktime(time.strptime(noon, "%Y-%m-%dT%H:%M")))
    terminal.type("submit", "--until", "now+3days", "--no-agent", "serve.sh")
    with cluster.store() as store:
        assert store.chains()[-1].spec.until_s == int(at_s) + 3 * DAY_S


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        ("--until 2001-02-03", 1, "--until 2001-02-03: 2001-02-03T00:00:00 has passed"),
        ("--until now", 1, "has passed; give a time in the future"),
        ("--until soon", 1, "--until 'soon' is not a time; write it as 2026-01-31T12:00"),
        ("--until tomorrow --for 2d", 2, "--for and --until both define the end of the chain; give one of them"),
    ],
)
def test_a_date_that_no_chain_can_live_until_is_refused(
    terminal: Terminal, words: str, status: int, message: str
) -> None:
    assert terminal.type("submit", "--no-agent", *words.split(), "serve.sh", status=status) == ""
    assert message in terminal.stderr
    assert terminal.served.slurm.own == {}


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ("--links 3", "--links after serve.sh goes"),
        ("a --policy=average -t 5 --time=5 -N2 -t", "--policy=average, -t, --time=5, -N2 after serve.sh go"),
        ("--epochs 90 -l - -1 --tim=5 t -Z -pretrained --links-of=2", ""),
        ("-- --links 3", ""),
        ("--epochs -- --links 3", ""),
    ],
)
def test_an_option_after_the_script_is_the_script_s_with_a_remark(
    terminal: Terminal, arguments: str, named: str
) -> None:
    words = ("submit", "--links", "2", "--no-agent", "--parsable")
    number = terminal.type(*words, "serve.sh", *arguments.split()).strip()
    remarks = [line for line in terminal.stderr.splitlines() if "serve.sh" in line]
    assert len(remarks) == bool(named)
    assert all(line.startswith(named) and "before serve.sh to give" in line for line in remarks)
    assert terminal.served.slurm.own[int(number)].submission.arguments == tuple(arguments.split())
    terminal.type(*words, "--", "serve.sh", *arguments.split())
    assert "serve.sh" not in terminal.stderr


def test_doctor_reads_the_simulated_site(terminal: Terminal) -> None:
    findings = {finding["what"]: finding["level"] for finding in json.loads(terminal.type("doctor", "--json"))}
    assert findings["version"] == "ok"


def test_slurm_s_own_commands_are_there(terminal: Terminal) -> None:
    def run(line: str) -> str:
        return subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=True).stdout

    number = run("sbatch --parsable -N 1 -t 10 --wrap 'sleep 1'").strip()
    run("fake-slurm advance 60")
    assert run(f"squeue -h -j {number} -o '%i %t %l'") == f"{number} R 10:00\n"
    run(f"scancel {number}")
    assert run(f"squeue -h -t all -j {number} -O state:20").strip() == "CANCELLED"
    assert f"JobId={number} " in run(f"scontrol show job {number} -o")
    assert "idle" in run("sinfo -h -o '%T %D'")
    assert number in run(f"sacct -X -n -P -j {number} -o JobID,State")


HF_SCRIPT = "#!/bin/bash\n#SBATCH -t 60 --requeue\ntorchrun train.py\n"


def test_a_preset_is_found_in_the_script_and_a_dry_run_shows_what_it_sets(terminal: Terminal) -> None:
    Path("train.py").write_text("from transformers import Trainer\n")
    Path("train.sh").write_text(HF_SCRIPT)
    shown = terminal.type("submit", "--dry-run", "--framework", "auto", "train.sh")
    assert "--signal=B:USR2@180" in shown
    assert "--no-requeue" not in shown.splitlines()[1], "the script requests a requeue"
    assert "preset: --grace 00:03:00: longest step + save + 3 s" in shown
    assert "preset: wrapper sends TERM to the processes that handle it" in shown
    assert "preset: --no-requeue: not set: you gave --requeue" in shown
    assert "framework hf: line 1 of train.py, from transformers import Trainer" in terminal.stderr
    record = json.loads(
        terminal.type("submit", "--dry-run", "--framework", "hf", "--grace", "5m", "--json", "train.sh")
    )
    assert {"setting": "--grace", "value": "", "why": "not set: you gave one"} in record["preset"]
    assert "--signal=B:USR2@300" in record["first"]
    assert record["script"].startswith(HF_SCRIPT.removesuffix("torchrun train.py\n"))


def test_a_preset_is_stored_with_the_chain(terminal: Terminal) -> None:
    Path("train.sh").write_text(HF_SCRIPT)
    terminal.type("submit", "--no-agent", "--framework", "hf", "train.sh")
    terminal.type("submit", "--no-agent", "train.sh")
    with cluster.store() as store:
        preset, plain = (chain.spec for chain in store.chains()[-2:])
        scripts = [(cluster.home().folder / spec.submission.script).read_text() for spec in (preset, plain)]
    assert (preset.to_batch_shell, preset.grace_s, plain.to_batch_shell, plain.grace_s) == (True, 180, False, 120)
    assert "exec bash -c" in scripts[0]
    assert scripts[1] == HF_SCRIPT


def test_without_the_option_a_framework_is_a_remark_and_nothing_found_is_an_error(terminal: Terminal) -> None:
    Path("serve-vllm.sh").write_text("#!/bin/bash\nexec vllm serve model\n")
    terminal.type("submit", "--no-agent", "serve-vllm.sh")
    assert "--framework vllm would pass the signal on to it" in terminal.stderr
    terminal.type("submit", "--no-agent", "--framework", "hf", "serve-vllm.sh")
    assert "warning: --framework hf is for a training, and the script shows vllm; see --framework v" in terminal.stderr
    terminal.type("submit", "--no-agent", "--framework", "auto", "serve.sh", status=1)
    assert "show a framework; name one of hf, lightning" in terminal.stderr


@pytest.mark.parametrize(("option", "value"), [("--grace", "1h"), ("--warmup", "1h"), ("--policy", "lead:1")])
def test_without_a_limit_that_of_the_partition_is_checked(terminal: Terminal, option: str, value: str) -> None:
    Path("bare.sh").write_text("#!/bin/sh\n")
    assert terminal.type("submit", "--no-agent", option, value, "bare.sh", status=1) == ""
    assert "the default time limit of partition batch, 01:00:00" in terminal.stderr
    assert terminal.served.slurm.own == {}
