"""Chains that are edited while they live."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mirage.agent.chain.create import store_new_chain
from mirage.agent.chain.tag import Tag
from mirage.agent.model import Chain, ChainState, LinkState
from mirage.agent.store.chain_file import read_chain_file
from mirage.agent.store.sql_store import SqlStore
from mirage.agentless.link_script import read_link_script
from mirage.cli import cli_context as cluster
from mirage.errors import InvalidOptions, SlurmRefused, SlurmUnreachable
from mirage.job_state import MISSING, JobState
from mirage.slurm.records import QueuedJob, Submission

Type = Callable[..., tuple[str, str]]

NOW_S = 1_790_000_000
"""2026-09-21T14:13:20 UTC: now, in the store of these tests."""

SCRIPT = "#!/bin/bash\n#SBATCH -N 2\n#SBATCH --partition=small\nserve\n"


@pytest.fixture
def chain(store: SqlStore, slurm: Any, tmp_path: Path) -> Callable[[], Chain]:
    """The chain serve as it is now, with its script; a running and a held job in the queue."""
    (tmp_path / "serve.sh").write_text(SCRIPT)
    submitted = store.chain("serve")
    job = replace(submitted.spec.submission, options={"nodes": "2"}, directory=str(tmp_path))
    store.change_spec(submitted, replace(submitted.spec, submission=job))
    cluster.home().chain_folder("serve").mkdir(parents=True)
    store_new_chain(cluster.home(), store.chain("serve"), store.identity())
    ours = {"store": store.identity().identity, "key": store.chain("serve").key}
    slurm.jobs = tuple(
        QueuedJob(number, state, user="ada", comment=str(Tag("serve", number - 100, **ours)))
        for number, state in ((102, JobState.RUNNING), (103, JobState.PENDING))
    )
    return lambda: store.chain("serve")


def test_policy_and_costs_apply_to_the_next_decision(type_: Type, store: SqlStore, chain: Callable[[], Chain]) -> None:
    store.change_chain(1, next_decision_s=NOW_S + 900, next_try_s=NOW_S + 900, refusals=2)
    assert type_("chain", "edit", "serve", "--policy", "what-if", "--overlap-cost", "0") == (
        "policy: lead:2 -> what-if\noverlap_cost: 1 -> 0\n", "",
    )  # fmt: skip
    assert (chain().spec.policy, chain().spec.interruption_cost, chain().spec.overlap_cost) == ("what-if", 1.0, 0.0)
    assert (chain().next_decision_s, chain().next_try_s, chain().refusals, chain().edits) == (0, 0, 0, 2)
    last = store.events(1)[-1]
    assert (last.kind, last.detail) == ("edited", "policy lead:2 -> what-if; overlap_cost 1 -> 0")


def test_a_recovery_finds_the_edited_specification(type_: Type, store: SqlStore, chain: Callable[[], Chain]) -> None:
    type_("chain", "edit", "serve", "--links", "9", "--for", "2d")
    stored = read_chain_file(cluster.home().chain_folder("serve"))
    assert stored is not None
    assert (stored.spec.links, stored.spec.until_s, stored.key) == (9, NOW_S + 172_800, chain().key)


@pytest.mark.parametrize("dry", [[], ["--dry-run"]])
def test_an_end_within_the_limit_of_the_running_job_is_a_warning(
    dry: list[str], type_: Type, store: SqlStore, chain: Callable[[], Chain]
) -> None:
    ends_s = max(link.started_s + link.limit_s for link in store.links(1) if link.state is LinkState.RUNNING)
    for seconds in (ends_s - NOW_S, ends_s - NOW_S - 60):
        _, printed = type_("chain", "edit", "serve", "--for", f"{seconds}s", *dry)
        assert printed.startswith("mirage: warning: chain serve ends at ") is (seconds < ends_s - NOW_S)
        assert ("the job that runs then is ended before its time limit" in printed) is (seconds < ends_s - NOW_S)


def test_an_option_that_sbatch_cannot_parse_is_refused(
    type_: Type, slurm: Any, chain: Callable[[], Chain], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(submission: Submission) -> str:
        raise InvalidOptions("sbatch failed with status 255", "sbatch: error: Invalid --mem specification")

    before = chain()
    monkeypatch.setattr(slurm, "test", refuse)
    _, err = type_("chain", "edit", "serve", "--mem=12Q", status=1)
    assert err.endswith("sbatch failed with status 255: sbatch: error: Invalid --mem specification\n")
    assert chain() == before


@pytest.mark.parametrize("dry", [[], ["--dry-run"]])
def test_an_option_that_slurm_refuses_is_a_warning(
    type_: Type, slurm: Any, chain: Callable[[], Chain], dry: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = []

    def refuse(submission: Submission) -> str:
        tried.append({**submission.options, "text": Path(submission.script).read_text()})
        raise SlurmRefused("sbatch failed with status 1", "sbatch: error: invalid partition specified: nopart")

    monkeypatch.setattr(slurm, "test", refuse)
    out, err = type_("chain", "edit", "serve", "-p", "nopart", *dry)
    assert out.startswith("--partition: - -> nopart")
    assert (
        "warning: Slurm would refuse the next job now: sbatch failed with status 1: sbatch: error: invalid part" in err
    )
    assert tried[0]["partition"] == "nopart"
    type_("chain", "edit", "serve", "--links", "9", *dry)
    assert len(tried) == 1  # no option of sbatch
    (tmp_path / "other.sh").write_text("#!/bin/bash\n#SBATCH -p nopart\n")
    assert "Slurm would refuse the next job now" in type_("chain", "edit", "serve", *dry, "other.sh")[1]
    assert "-p nopart" in str(tried[1]["text"])
    before = chain()
    _, err = type_("chain", "edit", "serve", "-p", "nopart", "--replace-waiting", *dry, status=1)
    assert err.endswith("give other options, or leave --replace-waiting out; nothing was changed\n")
    assert chain() == before


def test_an_edit_needs_no_answer_of_slurm(type_: Type, slurm: Any, chain: Callable[[], Chain]) -> None:
    slurm.trouble = SlurmUnreachable("sbatch did not answer")
    assert type_("chain", "edit", "serve", "-p", "gpu") == (
        "--partition: - -> gpu\n", "job 103 waits as it was submitted; --replace-waiting exchanges it\n"
    )  # fmt: skip


def test_options_of_sbatch_apply_to_the_next_jobs(
    type_: Type, slurm: Any, store: SqlStore, chain: Callable[[], Chain]
) -> None:
    out, err = type_("chain", "edit", "serve", "-t", "2-0", "-p", "gpu,long")
    assert out.splitlines() == ["--time: - -> 2-0", "--partition: - -> gpu,long"]
    assert err == "job 103 waits as it was submitted; --replace-waiting exchanges it\n"
    assert chain().spec.submission.options == {"time": "2-0", "partition": "gpu,long", "nodes": "2"}
    assert (slurm.calls, chain().spec.submission.script) == ([], "serve.sh")
    type_("chain", "edit", "serve", "--unset", "time", "-N4")
    assert chain().spec.submission.options == {"partition": "gpu,long", "nodes": "4"}


def test_the_waiting_job_is_exchanged_on_request_and_does_not_count(
    type_: Type, slurm: Any, store: SqlStore, chain: Callable[[], Chain]
) -> None:
    record = json.loads(type_("chain", "edit", "serve", "--replace-waiting", "--json", "-t", "1-0")[0])
    assert record == {"chain": "serve", "changed": {"--time": ["-", "1-0"]}, "waiting": [103], "replaced": [103]}
    assert slurm.calls == [("cancel", 103, "only pending")]
    waiting = store.links(1)[-1]
    assert (waiting.cancelled_s, waiting.withdrawn_s, waiting.started_s) == (NOW_S, NOW_S, MISSING)
    assert store.events(1)[-1].detail == "job 103, replaced by hand"


@pytest.mark.usefixtures("slurm", "chain")
def test_that_no_job_waits_to_be_replaced_is_reported(type_: Type, store: SqlStore) -> None:
    store.change_link(1, 3, state=LinkState.RUNNING)
    assert type_("chain", "edit", "serve", "--replace-waiting") == (
        "", "no job of chain serve waits: there is none to replace\n",
    )  # fmt: skip


def test_the_waiting_job_stays_where_slurm_does_not_answer(
    type_: Type, slurm: Any, store: SqlStore, chain: Callable[[], Chain]
) -> None:
    slurm.trouble = SlurmUnreachable("squeue: no answer")
    _, err = type_("chain", "edit", "serve", "--replace-waiting", "--policy", "reactive")
    assert "squeue: no answer; the waiting job stays; give --replace-waiting again when Slurm answers" in err
    assert (chain().spec.policy, store.links(1)[-1].cancelled_s) == ("reactive", MISSING)


def test_a_new_script_gets_a_copy_of_its_own_and_its_lines_count(
    type_: Type, chain: Callable[[], Chain], tmp_path: Path
) -> None:
    type_("chain", "edit", "serve", "-N", "3")
    (tmp_path / "train.sh").write_text("#!/bin/bash\n#SBATCH -N 8 --begin=now+1hour\nsbatch $0\ntrain\n")
    out, err = type_("chain", "edit", "serve", "train.sh", "--epochs", "90", "-t5")
    assert "script: serve.sh -> train.sh" in out
    assert "-t5 after train.sh goes to the script" in err
    assert "line 3 of the script, sbatch $0, starts the next job, and so does Mirage" in err
    assert "arguments: - -> --epochs 90" in out
    spec = chain().spec
    assert spec.submission.script == "chains/serve/script-3/train.sh", "the copies of earlier jobs stay"
    assert (spec.submission.options, spec.submission.arguments) == ({"nodes": "3"}, ("--epochs", "90", "-t5"))
    assert (cluster.home().folder / spec.submission.script).read_text().endswith("train\n")
    assert "--begin" not in (cluster.home().folder / spec.later_script).read_text()
    type_("chain", "edit", "serve", "--unset", "nodes")
    assert chain().spec.submission.options == {"nodes": "8"}, "the line of the script"


def test_a_new_script_gets_the_wrapper_of_the_chain_s_preset(
    type_: Type, store: SqlStore, chain: Callable[[], Chain], tmp_path: Path
) -> None:
    store.change_spec(chain(), replace(chain().spec, framework="python"))
    (tmp_path / "train.sh").write_text("#!/bin/bash\npython3 train.py\n")
    _, err = type_("chain", "edit", "serve", "train.sh")
    assert "preset python" in err
    assert chain().spec.to_batch_shell
    script = (cluster.home().folder / chain().spec.submission.script).read_text()
    assert "mirage_deliver" in script
    assert script.endswith("python3 train.py\n")
    _, err = type_("chain", "edit", "serve", "--grace", "5m")
    assert err == "the wrapper in the script still has the old grace; give the script too, to replace it\n"
    assert "give the script too" in type_("chain", "edit", "serve", "--framework", "hf", status=2)[1]


def test_a_new_script_with_a_trap_gets_the_signal_of_that_trap(
    type_: Type, store: SqlStore, chain: Callable[[], Chain], tmp_path: Path
) -> None:
    store.change_spec(chain(), replace(chain().spec, framework="python", signal="USR2"))
    (tmp_path / "train.sh").write_text("#!/bin/bash\ntrap 'kill -TERM $pid' USR1\npython3 train.py & pid=$!\nwait\n")
    type_("chain", "edit", "serve", "train.sh")
    assert (chain().spec.signal, chain().spec.to_batch_shell) == ("USR1", True)
    (tmp_path / "both.sh").write_text("#!/bin/bash\ntrap 'kill -TERM $pid' TERM USR1\npython3 x.py & pid=$!\nwait\n")
    type_("chain", "edit", "serve", "both.sh")
    assert chain().spec.signal == "USR1", "it has a trap for that one, too"


def test_a_new_script_of_a_chain_that_reports_itself_does_not_wait_before_its_report(
    type_: Type, store: SqlStore, chain: Callable[[], Chain], tmp_path: Path
) -> None:
    (tmp_path / "train.sh").write_text("#!/bin/bash\npython3 train.py\n")
    for by_job in (False, True):
        store.change_spec(chain(), replace(chain().spec, framework="python", ready_by_job=by_job))
        type_("chain", "edit", "serve", "train.sh", f"{by_job}")
        script = (cluster.home().folder / chain().spec.submission.script).read_text()
        assert ('while [ "1" = 1 ]' in script) is not by_job


def test_a_site_s_rules_count_for_an_edit(
    type_: Type, chain: Callable[[], Chain], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "mirage").mkdir()
    (tmp_path / "mirage" / "site.toml").write_text('no_chains_in_partitions = ["debug"]\n')
    before = chain()
    assert (
        "this site allows no chains in partition debug" in type_("chain", "edit", "serve", "-p", "debug", status=1)[1]
    )
    monkeypatch.setenv("MIRAGE_SSH", "login2")
    cluster.site_copy().parent.mkdir()
    cluster.site_copy().write_text('no_chains_in_partitions = ["long"]\n')
    monkeypatch.setenv("MIRAGE_SSH", "login1")
    cluster.site_copy().write_text('no_chains_in_partitions = ["long"]\n')
    monkeypatch.setenv("MIRAGE_SSH", "login1")
    for place in ("debug", "long"):
        refusal = type_("chain", "edit", "serve", "-p", place, status=1)[1]
        assert f"this site allows no chains in partition {place}" in refusal
    assert chain() == before


def test_more_waiting_links_than_the_site_allows_are_a_remark(
    type_: Type, chain: Callable[[], Chain], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "mirage").mkdir()
    (tmp_path / "mirage" / "site.toml").write_text("most_waiting_links = 2\n")
    _, remark = type_("chain", "edit", "serve", "--waiting-links", "4")
    assert remark.startswith("--waiting-links 4 counts as 2, the most that this site allows (site file ")
    assert chain().spec.waiting_links == 4


def test_a_limit_with_a_unit_is_stored_in_slurms_form(type_: Type, chain: Callable[[], Chain]) -> None:
    type_("chain", "edit", "serve", "-t", "36h")
    assert chain().spec.submission.options["time"] == "1-12:00:00"


@pytest.mark.parametrize(
    ("words", "remark"),
    [
        (("--grace", "2h"), "--grace 02:00:00 is longer than half of the time limit 03:00:00: each job gets its"),
        (("--grace", "0"), "--grace 0 ends a job as it gets its signal, before it can save; give a longer grace\n"),
        (("--links-a-day", "7"), "--links-a-day 7 is less than the 8 jobs of 03:00:00 that 1-00:00:00 can need"),
        (("--links-a-day", "8"), "job 103 waits"),
    ],
)
def test_a_grace_and_a_brake_that_do_not_fit_the_limit_are_a_remark(
    type_: Type, chain: Callable[[], Chain], words: tuple[str, ...], remark: str
) -> None:
    assert type_("chain", "edit", "serve", "--policy", "auto", "-t", "3:00:00", *words)[1].startswith(remark)


def test_a_dry_run_shows_the_next_job_and_changes_nothing(type_: Type, chain: Callable[[], Chain]) -> None:
    before = chain()
    out, _ = type_("chain", "edit", "serve", "--dry-run", "-t", "1-0", "--links", "8")
    next_job = out.splitlines()[-1]
    assert out.splitlines() == ["links: - -> 8", "--time: - -> 1-0", next_job]
    assert next_job.startswith("next job: sbatch --time=1-0 --nodes=2 --dependency=afterany:JOB")
    _, err = type_("chain", "edit", "serve", "--dry-run", "--replace-waiting", "-t", "1-0")
    assert err == "job 103 would be cancelled; the agent submits one with the changes in its place\n"
    assert chain() == before


@pytest.mark.parametrize(
    ("state", "cancelled", "edited"),
    [
        ("ending", "none follows", "chain serve is ending: no job follows the running one, whatever changes\n"),
        ("paused", "the agent submits one with the changes after `mirage chain resume`", ""),
    ],
)
def test_a_job_of_a_chain_that_submits_none_is_not_replaced(
    type_: Type, store: SqlStore, chain: Callable[[], Chain], state: str, cancelled: str, edited: str
) -> None:
    store.change_chain(1, state=ChainState(state))
    _, err = type_("chain", "edit", "serve", "--replace-waiting")
    assert err == f"{edited}job 103 is cancelled; {cancelled}\n"


def test_targets_of_messages_are_replaced_and_dropped(type_: Type, chain: Callable[[], Chain]) -> None:
    type_("chain", "edit", "serve", "--notify", "https://a.example/x", "--notify", "true", "--notify-gap", "10m")
    assert (chain().spec.notify, chain().spec.notify_gap_s) == (("https://a.example/x", "true"), 600)
    assert type_("chain", "edit", "serve", "--notify", "none")[0] == "notify: https://a.example/x, true -> -\n"
    assert chain().spec.notify == ()


def test_excluded_nodes_are_used_again_on_request(type_: Type, store: SqlStore, chain: Callable[[], Chain]) -> None:
    store.change_chain(1, excluded="n1,n2")
    out, _ = type_("chain", "edit", "serve", "--dry-run", "-x", "n7")
    assert "--exclude=n7,n1,n2" in out.splitlines()[-1]
    out, _ = type_("chain", "edit", "serve", "--dry-run", "--clear-excluded")
    assert out.splitlines()[0] == "excluded: n1,n2 -> -"
    assert "--exclude" not in out
    assert chain().excluded == "n1,n2"
    before = chain()
    printed = type_("chain", "edit", "serve", "--clear-excluded")
    assert printed == (
        "excluded: n1,n2 -> -\n", "job 103 waits as it was submitted; --replace-waiting exchanges it\n",
    )  # fmt: skip
    assert chain() == replace(before, excluded="")
    last = store.events(1)[-1]
    assert (last.kind, last.detail) == ("exclusion-cleared", "n1,n2")
    _, refused = type_("chain", "edit", "serve", "--clear-excluded", status=1)
    assert "is like that already" in refused


def test_the_shortest_link_is_changed(type_: Type, chain: Callable[[], Chain]) -> None:
    assert type_("chain", "edit", "serve", "--shortest-link", "2h")[0] == "shortest_link: - -> 02:00:00\n"
    assert chain().spec.shortest_link_s == 7_200


def test_a_budget_is_set_and_dropped(type_: Type, chain: Callable[[], Chain]) -> None:
    assert type_("chain", "edit", "serve", "--budget", "500")[0] == "budget_node_h: - -> 500\n"
    assert chain().spec.budget_node_h == 500
    assert type_("chain", "edit", "serve", "--budget", "0")[0] == "budget_node_h: 500 -> -\n"
    for option in ("--budget", "--least-life"):
        _, refused = type_("chain", "edit", "serve", option, "nan", status=2)
        assert f"Invalid value for '{option}': 'nan' is no finite number" in refused
    _, refused = type_("chain", "edit", "serve", "--budget", "5", "-t", "UNLIMITED", "--links", "9", status=1)
    assert "--budget 5: a job without a time limit can use any number of node-hours; give -t" in refused


def test_a_progress_file_is_set_and_dropped(type_: Type, chain: Callable[[], Chain]) -> None:
    _, refused = type_("chain", "edit", "serve", "--no-progress-links", "3", status=2)
    assert "--no-progress-links counts jobs by --progress-file; give it, too" in refused
    type_("chain", "edit", "serve", "--progress-file", "ckpt/step_*")
    printed = type_("chain", "edit", "serve", "--no-progress-links", "3")[0]
    assert printed == "no_progress_links: 2 -> 3\n"
    assert (chain().spec.progress_file, chain().spec.no_progress_links) == ("ckpt/step_*", 3)
    assert type_("chain", "edit", "serve", "--progress-file", "")[0] == "progress_file: ckpt/step_* -> -\n"
    assert chain().spec.progress_file == ""


def test_a_chain_without_an_end_retains_its_limit(type_: Type, chain: Callable[[], Chain]) -> None:
    type_("chain", "edit", "serve", "--no-end", "--links-a-day", "9")  # as a submission without --links, --for, --until
    before = chain()
    assert before.spec.until_done
    for words in (["-t", "0"], ["--time=UNLIMITED", "--policy", "reactive"]):
        refused = type_("chain", "edit", "serve", *words, status=1)[1]
        assert "never ends, so no job would hand over to a next one" in refused
    assert chain() == before


def test_a_job_without_a_limit_is_one_with_an_end_by_its_exit(type_: Type, chain: Callable[[], Chain]) -> None:
    remark = type_("chain", "edit", "serve", "-t", "0", "--until-done")[1]
    assert remark.startswith("the time limit 0 never ends, so no job hands over: a next one starts only after")
    assert chain().spec.submission.options["time"] == "0"
    type_("chain", "edit", "serve", "--links", "9")
    assert chain().spec.links == 9


def test_an_end_can_be_dropped(type_: Type, chain: Callable[[], Chain]) -> None:
    type_("chain", "edit", "serve", "--links", "5", "--until", "now+1day")
    type_("chain", "edit", "serve", "--no-end")
    assert (chain().spec.links, chain().spec.until_s, chain().spec.until_done) == (0, MISSING, True)


def test_a_chain_that_is_stopping_does_not_change(type_: Type, chain: Callable[[], Chain]) -> None:
    type_("chain", "stop", "serve")
    before = chain()
    _, err = type_("chain", "edit", "serve", "--links", "9", status=1)
    assert "chain serve is stopping, so nothing of it can change" in err
    assert chain() == before


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["serve", "--clear-excluded"], "chain serve is like that already"),
        (["serve", "--policy", "lead:2"], "chain serve is like that already"),
        (["train-old", "--links", "9"], "chain train-old is done, so nothing of it can change"),
        (["serf", "--links", "9"], "Did you mean 'serve'"),
        (["serve", "--policy", "leed:2"], "Did you mean 'lead'"),
        (["serve", "--links", "2"], "chain serve has 3 jobs already; give at least 3"),
        (["serve", "--begin", "now+1hour"], "--begin is for the first job of a chain"),
        (["serve", "--array", "1-4"], "--array cannot be used with a chain"),
        (["serve", "array.sh"], "--array cannot be used with a chain"),
        (["serve", "--unset", "nodes"], "--nodes is in the script or in the environment of the chain's jobs"),
        (["serve", "--unset", "qos"], "--qos is not among the options of the chain's jobs"),
        (["serve", "-t", "1:30:00", "--policy", "lead:4"], "leads by 4 h, which is not less than the time limit"),
        (["serve", "-t", "1", "--grace", "5m"], "--grace 00:05:00 is not shorter than the time limit 00:01:00"),
        (["serve", "-t", "0"], "the time limit 0 never ends, so no job would hand over to a next one"),
        (["serve", "--overlap-cost", "-1"], "cost"),
        (["serve", "gone.sh"], "cannot read the script gone.sh"),
        (["serve", "--ready-command", " "], "--ready-command is empty"),
        (["serve", "--until", "2020-01-01"], "has passed"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_changes(
    type_: Type, chain: Callable[[], Chain], words: list[str], message: str, tmp_path: Path
) -> None:
    before = chain()
    (tmp_path / "array.sh").write_text("#!/bin/bash\n#SBATCH --array=1-4\nserve\n")
    _, err = type_("chain", "edit", *words, status=1)
    assert message in err
    assert chain() == before


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "which change? give options of the chain or of sbatch, or a new script"),
        (["--dry-run"], "which change?"),
        (["--never-two"], "--never-two is an option of mirage submit, and this command does not take it"),
        (["--agentless", "--links", "9"], "--agentless goes with --policy shell-tree"),
        (["--agentless", "-t", "5"], "--agentless goes with --policy shell-tree"),
        (["--notify", "none", "--notify-gap", "5m"], "--notify-gap is for the messages of --notify; give a target"),
        (["--notify-gap", "5m"], "--notify-gap is for the messages of --notify; give a target, too"),
        (["--unset", ""], "--unset is empty; name an option of sbatch"),
    ],
)
def test_an_edit_without_a_change_is_a_wrong_usage(
    type_: Type, chain: Callable[[], Chain], words: list[str], message: str
) -> None:
    assert message in " ".join(type_("chain", "edit", "serve", *words, status=2)[1].split())


def test_a_chain_that_never_holds_two_takes_no_option_for_decisions(
    type_: Type, store: SqlStore, chain: Callable[[], Chain]
) -> None:
    store.change_spec(chain(), replace(chain().spec, never_two=True, policy="dependency"))
    _, error = type_("chain", "edit", "serve", "--interruption-cost", "5", status=2)
    assert "--interruption-cost has no effect with --never-two: Slurm alone starts" in " ".join(error.split())


def continued(type_: Type) -> Path:
    """The folder of the chain serve after ``chain edit --agentless``."""
    made = json.loads(type_("chain", "edit", "serve", "--agentless", "--policy", "shell-tree:0.5", "--json")[0])
    assert made["replaced"] == [103]
    return Path(made["folder"])


def test_its_next_job_continues_a_chain_without_an_agent(
    type_: Type, store: SqlStore, chain: Callable[[], Chain], slurm: Any
) -> None:
    store.change_spec(chain(), replace(chain().spec, links=5, grace_s=77, signal="TERM"))
    code = type_("chain", "edit", "serve", "--agentless", "--policy", "shell-tree:0.5", "--dry-run")[0]
    assert not chain().spec.agentless
    assert slurm.calls == []
    folder = continued(type_)
    assert (folder / "link.sh").read_text().splitlines()[5:] == code.splitlines()[5:], "but for the random key"
    rules = read_link_script((folder / "link.sh").read_text())
    assert (rules.chain, rules.links, rules.grace_s, rules.signal) == ("serve", 3, 77, "TERM")
    assert {"nodes": "2", "partition": "small", "job-name": "serve.sh"}.items() <= rules.options.items()
    assert (folder / "job.sh").read_text() == SCRIPT
    job = chain().spec.submission
    assert (cluster.home().folder / job.script).read_text() == (folder / "link.sh").read_text()
    assert job.arguments[:2] == ("1", "0")
    assert job.options["partition"] == "small"
    assert slurm.calls == [("cancel", 103, "only pending")]


def test_it_can_be_taken_back_until_a_job_decides(type_: Type, chain: Callable[[], Chain], tmp_path: Path) -> None:
    folder = continued(type_)
    for words in (["-t", "5"], ["--unset", "nodes"]):
        assert "give its script again" in type_("chain", "edit", "serve", *words, status=1)[1]
    type_("chain", "edit", "serve", "--policy", "reactive")
    assert chain().spec.agentless
    assert "continues without one from its next job on already" in type_(
        "chain", "edit", "serve", "--agentless", status=1
    )[1]  # fmt: skip
    type_("chain", "edit", "serve", str(tmp_path / "serve.sh"))
    assert not chain().spec.agentless
    assert not folder.exists()
    folder = continued(type_)
    (folder / "link.1").write_text("job=103 next= freed=0\n")
    for words in (["--policy", "what-if"], [str(tmp_path / "serve.sh")]):
        assert "continues without an agent: its jobs decide" in type_("chain", "edit", "serve", *words, status=1)[1]


def test_a_stop_ends_the_jobs_that_decide(type_: Type, store: SqlStore, chain: Callable[[], Chain]) -> None:
    folder = continued(type_)
    type_("chain", "stop", "serve")
    assert (folder / "stop").exists()
    (folder / "stop").unlink()
    store.change_chain(chain().id, state=ChainState.DONE)
    assert f"no job follows the running one; log: {folder}/log" in type_("chain", "stop", "serve")[1]
    assert (folder / "stop").exists()


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"never_two": True, "policy": "dependency"}, "two of its jobs must never run at once"),
        ({"framework": "hf"}, "the wrapper of its preset needs the signals of an agent"),
        ({"ready_command": "true"}, "no other process runs its --ready-command"),
        ({"to_steps": True}, "its signals go to the steps of its jobs"),
        ({"bank_age": True}, "only an agent holds a job to gather age"),
        ({"links": 2}, "no job follows the running one in chain serve: nothing to continue"),
    ],
)
def test_a_chain_that_needs_its_agent_is_not_continued_without(
    type_: Type, store: SqlStore, chain: Callable[[], Chain], spec: dict[str, Any], message: str
) -> None:
    store.change_spec(chain(), replace(chain().spec, **spec))
    before = chain()
    assert message in type_("chain", "edit", "serve", "--agentless", status=1)[1]
    assert chain() == before
    assert not cluster.home().agentless_folder("serve").exists()


def test_two_ends_at_once_are_a_wrong_usage(type_: Type, chain: Callable[[], Chain]) -> None:
    assert "give one of them" in type_("chain", "edit", "serve", "--no-end", "--links", "9", status=2)[1]


def test_an_edit_to_an_output_in_a_missing_folder_changes_nothing(
    type_: Type, chain: Callable[[], Chain], tmp_path: Path
) -> None:
    before = chain().spec
    _, error = type_("chain", "edit", "serve", "-o", "logs/run.log", status=1)
    assert f"there is no folder {tmp_path}/logs, which Slurm does not make" in error
    assert chain().spec == before


def test_a_folder_of_another_host_is_not_checked_here(
    type_: Type, store: SqlStore, chain: Callable[[], Chain], monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = chain().spec
    job = replace(spec.submission, options={"nodes": "2", "chdir": "/scratch/ada", "output": "logs/run.log"})
    store.change_spec(chain(), replace(spec, submission=job))
    type_("chain", "edit", "serve", "--links", "9")
    assert "--chdir /scratch/ada: there is no such folder" in type_("chain", "edit", "serve", "-t", "600", status=1)[1]
    monkeypatch.setenv("MIRAGE_SSH", "login1")
    type_("chain", "edit", "serve", "-t", "600")
    assert (chain().spec.links, chain().spec.submission.options["time"]) == (9, "600")


def test_a_chain_that_is_ready_by_its_jobs_gets_no_command_for_it(
    type_: Type, store: SqlStore, chain: Callable[[], Chain]
) -> None:
    store.change_spec(chain(), replace(chain().spec, ready_by_job=True))
    _, error = type_("chain", "edit", "serve", "--ready-command", "true", status=2)
    assert "--ready-command and --ready-by-job both define when a job is ready" in " ".join(error.split())
    assert chain().spec.ready_command == ""
