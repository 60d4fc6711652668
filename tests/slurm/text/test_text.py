"""Text of squeue, sacct and sinfo with any names, comments and newer columns."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mirage.duration import UNLIMITED_S
from mirage.job_state import MISSING, JobState
from mirage.slurm import slurm_json as json_values
from mirage.slurm.slurm_view import array_tasks
from mirage.slurm.text import machine as machine_text
from mirage.slurm.text import sacct as sacct_text
from mirage.slurm.text import scontrol as scontrol_text
from mirage.slurm.text import squeue as squeue_text
from mirage.slurm_words.states import state_of
from mirage.slurm_words.time_limits import limit_s
from mirage.slurm_words.timestamps import instant_s

CELLS = [
    "17", "RUNNING", "ada", "(null)", "gpu", "normal", "N/A", "None", "4031", "0", "2", "128",
    "2", "cpu=128,mem=1T,node=2,billing=128,gres/gpu=16", "gres:gpu:8", "N/A", "N/A", "NO", "2-00:00:00", "1795209000",
    "1795209000", "1795209001", "1795209060", "1795381860", "(null)", "0", "n[1-2]", "mirage:x:1 | a|b\nc",
    "train, again",
]  # fmt: skip


def record(*changed: tuple[int, str]) -> str:
    cells = list(CELLS)
    for k, cell in changed:
        cells[k] = cell
    return squeue_text.FIELD.join(cells) + squeue_text.RECORD + "\n"


def test_a_job_of_squeue() -> None:
    (job,), skipped = squeue_text.read_queue(record())
    assert skipped.count == 0
    assert (job.id, job.state, job.user, job.nodes, job.cpus, job.gpus) == (17, JobState.RUNNING, "ada", 2, 128, 16)
    assert (job.limit_s, job.start_s, job.end_s) == (172_800, 1795209060, 1795381860)
    assert job.whole_nodes
    assert (job.comment, job.name, job.account) == ("mirage:x:1 | a|b\nc", "train, again", "")


def test_exit_codes_are_wait_statuses() -> None:
    (job,), _ = squeue_text.read_queue(record((1, "FAILED"), (25, "768")))
    assert (job.exit_code, job.exit_signal) == (3, 0)
    (job,), _ = squeue_text.read_queue(record((1, "CANCELLED"), (25, "15")))
    assert (job.exit_code, job.exit_signal) == (0, 15)


def test_a_broken_record_is_skipped_and_stored_for_a_warning() -> None:
    jobs, skipped = squeue_text.read_queue(
        record() + "slurm_load_jobs warning" + squeue_text.RECORD + record((0, "18"))
    )
    assert [job.id for job in jobs] == [17, 18]
    assert (skipped.count, skipped.first) == (1, "slurm_load_jobs warning")


@pytest.mark.parametrize(
    ("word", "state"),
    [
        ("COMPLETING", JobState.RUNNING), ("CONFIGURING", JobState.RUNNING), ("SPECIAL_EXIT", JobState.PENDING),
        ("REQUEUE_HOLD", JobState.PENDING), ("OUT_OF_MEMORY", JobState.OUT_OF_MEMORY), ("EXPEDITING", JobState.UNKNOWN),
        ("", JobState.UNKNOWN),
    ],
)  # fmt: skip
def test_states(word: str, state: JobState) -> None:
    assert state_of(word) is state


def test_accounting_returns_the_last_attempt_and_survives_line_ends_in_comments() -> None:
    fields = (*sacct_text.FIELDS, *sacct_text.LATE_FIELDS)
    row = [
        "9",
        "FAILED",
        "ada",
        "lab",
        "gpu",
        "normal",
        "2",
        "24",
        "2880",
        "100",
        "100",
        "200",
        "300",
        "1:0",
        "train",
        "a",
        "sbatch x",
    ]
    output = sacct_text.DELIMITER.join(row) + "\nstray\n"
    (job,), _ = sacct_text.read_accounts(output, fields)
    assert (job.limit_s, job.start_s, job.end_s, job.exit_code, job.submit_line) == (
        *(172_800, 200, 300, 1),
        "sbatch x\nstray",  # a line end in the submit line, as sacct prints it
    )


def account(number: int, **changed: str) -> str:
    cells = ["FAILED", "ada", "lab", "gpu", "normal", "2", "24", "2880", "100", "100", "200", "300", "1:0", "train"]
    named = dict(zip(sacct_text.FIELDS[1:-1], cells)) | {"Comment": "", "SubmitLine": "sbatch x"} | changed
    return sacct_text.DELIMITER.join([str(number), *named.values()])


def test_line_ends_in_comments_and_submit_lines_cost_no_job() -> None:
    fields = (*sacct_text.FIELDS, *sacct_text.LATE_FIELDS)
    rows = [account(1, Comment="two\nlines\x0b\x1c"), account(2, SubmitLine="sbatch a\n3 b\n"), account(4), account(5)]
    jobs, skipped = sacct_text.read_accounts("\n".join(rows) + "\n", fields)
    assert ([job.id for job in jobs], skipped.count) == ([1, 2, 4, 5], 0)
    assert (jobs[0].comment, jobs[1].submit_line, jobs[2].submit_line) == (
        "two\nlines",
        "sbatch a\n3 b\n",
        "sbatch x",
    )


def test_rows_of_accounting_that_cannot_be_read_are_counted() -> None:
    fields = (*sacct_text.FIELDS, *sacct_text.LATE_FIELDS)
    short = sacct_text.DELIMITER.join(["7", "FAILED"])
    endless = account(1).replace("1", "9" * 5_000, 1)
    jobs, skipped = sacct_text.read_accounts("\n".join([account(1), short, account(2), endless, short]), fields)
    assert [job.id for job in jobs] == [1, 2]
    assert (skipped.count, skipped.first) == (3, short)


@pytest.mark.parametrize(
    ("raw", "seconds"),
    [
        ("2880", 172_800),
        ("UNLIMITED", UNLIMITED_S),
        ("Partition_Limit", MISSING),
        ("", MISSING),
        ("9" * 5_000, MISSING),
    ],
)
def test_limits_of_accounting_are_minutes(raw: str, seconds: int) -> None:
    fields = (*sacct_text.FIELDS, *sacct_text.LATE_FIELDS)
    (job,), _ = sacct_text.read_accounts(account(1, TimelimitRaw=raw), fields)
    assert job.limit_s == seconds


@pytest.mark.parametrize(
    ("state", "start", "end", "expected"),
    [
        ("CANCELLED by 5", "300", "300", (MISSING, 300)),
        ("CANCELLED", "200", "300", (200, 300)),
        ("COMPLETED", "300", "300", (300, 300)),
        ("RUNNING", "200", "300", (200, MISSING)),
        ("REQUEUED", "200", "300", (200, MISSING)),
        ("EXPEDITING", "200", "300", (200, MISSING)),
    ],
)
def test_starts_and_ends_of_accounting_in_text_and_json(
    state: str, start: str, end: str, expected: tuple[int, int]
) -> None:
    fields = (*sacct_text.FIELDS, *sacct_text.LATE_FIELDS)
    (text,), _ = sacct_text.read_accounts(account(1, State=state, Start=start, End=end), fields)
    times = {"start": int(start), "end": int(end)}
    json = json_values.accounted_job({"job_id": 1, "state": {"current": [state]}, "time": times})
    assert (text.start_s, text.end_s) == (json.start_s, json.end_s) == expected


def test_lines_of_sinfo_that_cannot_be_read_are_counted() -> None:
    line = machine_text.FIELD.join(["n1", "a*", "mixed", "64", "gpu:8", "infinite", "n/a", "NO", "10", "up"])
    machine, skipped = machine_text.read_machine(f"{line}\nsinfo: error: rubbish\n\nn2{machine_text.FIELD}a\n")
    assert [node.name for node in machine.nodes] == ["n1"]
    assert (skipped.count, skipped.first) == (2, "sinfo: error: rubbish")


def test_nodes_of_several_partitions_are_one() -> None:
    line = machine_text.FIELD.join
    rows = (
        ["n1", "a*", "mixed", "64", "gpu:h100:8(S:0-1)", "2-00:00:00", "1:00:00", "NO", "10", "up"],
        ["n1", "b", "mixed", "64", "gpu:h100:8", "infinite", "n/a", "EXCLUSIVE", "1", "up"],
        ["n2", "a*", "down*", "64", "(null)", "2-00:00:00", "1:00:00", "NO", "10", "up"],
        ["n3", "b", "drained", "64", "gpu:2,mps:100", "infinite", "n/a", "EXCLUSIVE", "1", "up"],
    )
    output = "\n".join(map(line, rows))
    machine, skipped = machine_text.read_machine(output)
    assert skipped.count == 0
    one, two, three = machine.nodes
    first, second = machine.partitions
    assert (first.name, first.default, first.max_time_s, first.default_time_s, first.whole_nodes) == (
        "a",
        True,
        172_800,
        3_600,
        False,
    )
    assert (second.max_time_s, second.nodes, second.whole_nodes) == (UNLIMITED_S, ("n1", "n3"), True)
    assert (one.partitions, one.gpus, one.usable) == (("a", "b"), 8, True)
    assert (two.usable, two.gpus, three.usable, three.gpus) == (False, 0, False, 2)


@pytest.mark.parametrize(
    ("array", "tasks"), [("4-9", 6), ("4-9%4", 4), ("1,3,5-7", 5), ("0-100:10", 11), ("0-99999", 1000)]
)
def test_array_tasks(array: str, tasks: int) -> None:
    assert array_tasks(array) == tasks


def test_times() -> None:
    assert instant_s("1795209000") == 1795209000
    assert instant_s("N/A") == instant_s("Unknown") == instant_s("rubbish") == instant_s("0") == MISSING
    assert limit_s("2-00:00:00") == 172_800
    assert limit_s("Partition_Limit") == limit_s("INVALID") == MISSING


garbage = st.text(max_size=300) | st.sampled_from(["²", "٣", "9" * 400, "-1", "1e400", "nan"])
"""Noise, and what looks like a number to one function and not to another."""


@example("", [(0, "0\n")])
@given(garbage, st.lists(st.tuples(st.integers(0, len(CELLS) - 1), garbage), max_size=6))
def test_no_text_breaks_a_reader_or_goes_unaccounted(noise: str, changed: list[tuple[int, str]]) -> None:
    for text in (noise, record(*changed)):
        jobs, skipped = squeue_text.read_queue(text)
        parts = [part for part in text.split(squeue_text.RECORD) if part.lstrip("\n")]
        assert len(jobs) + skipped.count == len(parts)
        assert all(isinstance(job.state, JobState) and job.nodes >= 0 for job in jobs)
    row = sacct_text.DELIMITER.join(["7", *[noise] * 14])
    for text in (noise, row):
        jobs, skipped = sacct_text.read_accounts(text, sacct_text.FIELDS)
        assert all(isinstance(job.state, JobState) for job in jobs)
        assert len(jobs) + skipped.count >= bool(text.strip())
    for node in machine_text.read_nodes(noise + "\n" + machine_text.FIELD.join(["n1", *[noise] * 8])):
        assert node.name
        assert node.gpus >= 0
    machine_text.read_partitions(noise + "\nPartitionName=x Nodes=" + noise)
    assert all(key == key.lower() for key in machine_text.read_config(noise))
    scontrol_text.read_jobs("JobId=1 " + noise)
    scontrol_text.read_nodes("NodeName=1 " + noise)


json_noise = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["set", "number", "infinite", "x"]), inner)
    ),
    max_leaves=8,
)


FIELDS = (
    *("job_state", "node_count", "exit_code", "time_limit", "priority", "state", "gres"),
    *("submit_time", "cpus", "comment", "nodes", "name", "partitions"),
)


@given(st.dictionaries(st.sampled_from(FIELDS), json_noise))
def test_no_json_breaks_a_reader(noise: dict) -> None:
    job = json_values.queued_job({"job_id": 1, **noise})
    assert job.id == 1
    assert isinstance(job.state, JobState)
    assert json_values.node({**noise, "name": "n1"}).name == "n1"
    few = {key: noise[key] for key in noise if key in ("name", "exit_code")}
    assert json_values.accounted_job({"job_id": 1, **few}).id == 1


ANY_FIELD = st.sampled_from(
    [
        *FIELDS,
        "job_id",
        "time",
        "state",
        "current",
        "association",
        "maximums",
        "defaults",
        "partition",
        "oversubscribe",
        "limit",
        "start",
        "end",
        "signal",
        "id",
        "return_code",
        "configured",
        "tier",
        "tres_per_node",
        "jobs",
        "flags",
    ]
)
any_json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(), max_size=8)
    | st.sampled_from([10**400, "\ud800", "n[1-", "9" * 5_000]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ANY_FIELD, inner, max_size=6),
    max_leaves=12,
)
READERS = (
    (json_values.queued_job, "job_id"), (json_values.accounted_job, "job_id"), (json_values.node, "name"),
    (json_values.partition, "name"),
)  # fmt: skip


@given(any_json, st.dictionaries(ANY_FIELD, any_json))
def test_any_json_is_records_read_or_skipped(listed: object, record: dict) -> None:
    for read, key in READERS:
        for given_ in (listed, [{**record, key: 5 if key == "job_id" else "n1"}, listed]):
            found, skipped = json_values.records(given_, read, key)
            expected = len(given_) if isinstance(given_, list) else given_ is not None
            assert len(found) + skipped.count == expected
            repr(found).encode()  # nothing that cannot be written down


def test_no_comment_passes_for_an_account():
    fields, mark = (*sacct_text.FIELDS, *sacct_text.LATE_FIELDS), "5ec7"
    forged = "\n" + account(424242, State="FAILED")
    cells = account(1).split(sacct_text.DELIMITER)
    cells[fields.index("Comment")] = forged
    (job,), skipped = sacct_text.read_accounts((sacct_text.DELIMITER + mark).join(cells) + "\n", fields, mark)
    assert (job.id, "424242" in job.comment, skipped.count) == (1, True, 0)
    assert sacct_text.command(0, True, fields, mark)[4] == f"--delimiter={sacct_text.DELIMITER}{mark}"
