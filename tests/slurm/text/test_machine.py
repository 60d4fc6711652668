"""Nodes, partitions and options, cell by cell."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mirage.duration import UNLIMITED_S
from mirage.job_state import MISSING
from mirage.slurm.records import Machine, Node, SkippedRecords, SlurmPartition
from mirage.slurm.text.machine import (
    FIELD,
    pairs,
    private_data,
    read_config,
    read_machine,
    read_nodes,
    read_partitions,
    word_and_use,
)


def lines(*rows: str) -> str:
    """Rows with bars, which no cell of these holds, as sinfo separates them."""
    return "\n".join(row.replace("|", FIELD) for row in rows) + "\n"


@pytest.mark.parametrize(
    ("state", "word", "usable"),
    [
        ("idle", "idle", True),
        (" MIXED ", "mixed", True),
        ("allocated+", "allocated+", True),
        ("idle*", "idle", False),
        ("idle~", "idle", True),
        ("idle%", "idle", True),
        ("mixed-", "mixed", True),
        *((f"{word}{sign}", word, False) for word in ("mixed", "allocated") for sign in "$^"),
        ("mixed@", "mixed", True),
        ("MIXED+MAINTENANCE+RESERVED", "mixed+maintenance+reserved", False),
        ("ALLOCATED+DRAIN", "allocated+drain", False),
        ("MIXED+INVALID_REG", "mixed+invalid_reg", False),
        ("MIXED+REBOOT_ISSUED", "mixed+reboot_issued", False),
        ("MIXED+REBOOT_REQUESTED", "mixed+reboot_requested", True),
        ("IDLE+REBOOT_REQUESTED", "idle+reboot_requested", False),
        ("IDLE+DYNAMIC_FUTURE+REBOOT_CANCELED", "idle+dynamic_future+reboot_canceled", True),
        ("MIXED+COMPLETING+UNDRAIN", "mixed+completing+undrain", True),
        ("IDLE+CLOUD+POWERED_DOWN", "idle+cloud+powered_down", True),
        ("IDLE+POWER", "idle+power", True),
        ("MIXED+CLOUD+NOT_RESPONDING+POWERING_UP", "mixed+cloud+not_responding+powering_up", True),
        ("IDLE+NOT_RESPONDING", "idle+not_responding", False),
        ("DOWN+CLOUD+POWERED_DOWN", "down+cloud+powered_down", False),
        ("IDLE+DRAIN+POWERED_DOWN", "idle+drain+powered_down", False),
        *((word, word, False) for word in ("down", "draining", "failing", "error", "unknown", "maint", "reboot")),
        *((word, word, False) for word in ("reserved", "resv")),
        *((word, word, False) for word in ("powered_down", "future", "inval", "blocked", "idle+drain")),
    ],
)
def test_a_word_and_whether_jobs_can_run_there(state: str, word: str, usable: bool) -> None:
    assert word_and_use(state) == (word, usable)


def test_nodes_of_sinfo() -> None:
    output = lines(
        "n1|a*|mixed|64|gpu:h100:8(S:0-1)|2-00:00:00|1:00:00|NO|10|up",
        "a line of something else",
        "n2|b|idle*|128+|gres/gpu:2|infinite|n/a|EXCLUSIVE|1|up",
        "n1|b|mixed|64|gpu:h100:8|infinite|n/a|EXCLUSIVE|1|up",
        "n9|b|idle|64|(null)|infinite|n/a|EXCLUSIVE",
        "n3|c|idle|?|(null)|infinite|n/a|NO|1|up",
    )
    assert read_nodes(output) == (
        Node("n1", "mixed", True, 64, 8, ("a", "b")),
        Node("n2", "idle", False, 1, 2, ("b",)),
        Node("n3", "idle", True, 1, 0, ("c",)),
    )


def test_a_machine_of_sinfo() -> None:
    output = lines(
        "n1|a*|mixed|64|gpu:4|2-00:00:00|1:00:00|NO|10|up",
        "n1|b|mixed|64|gpu:4|infinite|n/a|EXCLUSIVE|?|inact",
        "n2|a*|idle|64|gpu:4|1:00|1:00|EXCLUSIVE|3|up",
        "junk|a",
        "n2|c|idle|64|gpu:4|n/a|n/a|exclusive|2|down",
    )
    one, two = Node("n1", "mixed", True, 64, 4, ("a", "b")), Node("n2", "idle", True, 64, 4, ("a", "c"))
    machine, skipped = read_machine(output)
    assert skipped == SkippedRecords(1, "junk\x1fa")
    assert machine == Machine(
        (one, two),
        (
            SlurmPartition("a", True, 172_800, 3_600, ("n1", "n2"), 10, False),
            SlurmPartition("b", False, UNLIMITED_S, MISSING, ("n1",), 1, True, True),
            SlurmPartition("c", False, UNLIMITED_S, MISSING, ("n2",), 2, True, True),
        ),
    )


PARTITION = (
    "PartitionName=gpu AllowGroups=ALL Default=YES DefaultTime=01:00:00 MaxTime=2-00:00:00 Nodes=n[1-2] "
    "OverSubscribe=EXCLUSIVE PriorityTier=7 State=UP TRES=cpu=128,node=2"
)
READ = SlurmPartition("gpu", True, 172_800, 3_600, ("n1", "n2"), 7, True)


@pytest.mark.parametrize(
    ("printed", "instead", "expected"),
    [
        ("", "", {}),
        ("Default=YES", "Default=NO", {"default": False}),
        ("Default=YES", "Default=yes", {}),
        (" Default=YES", "", {"default": False}),
        ("MaxTime=2-00:00:00", "MaxTime=UNLIMITED", {"max_time_s": UNLIMITED_S}),
        (" MaxTime=2-00:00:00", "", {"max_time_s": UNLIMITED_S}),
        ("MaxTime=2-00:00:00", "MaxTime=INVALID", {"max_time_s": UNLIMITED_S}),
        ("DefaultTime=01:00:00", "DefaultTime=NONE", {"default_time_s": MISSING}),
        (" DefaultTime=01:00:00", "", {"default_time_s": MISSING}),
        ("Nodes=n[1-2]", "Nodes=(null)", {"nodes": ()}),
        ("Nodes=n[1-2]", "Nodes=n[1-", {"nodes": ()}),
        (" Nodes=n[1-2]", "", {"nodes": ()}),
        (" PriorityTier=7", "", {"priority_tier": 1}),
        ("PriorityTier=7", "PriorityTier=?", {"priority_tier": 1}),
        ("EXCLUSIVE", "exclusive", {}),
        ("EXCLUSIVE", "FORCE:4", {"whole_nodes": False}),
        (" OverSubscribe=EXCLUSIVE", "", {"whole_nodes": False}),
        ("State=UP", "State=DOWN", {"down": True}),
        ("State=UP", "State=INACTIVE", {"down": True}),
        ("State=UP", "State=DRAIN", {}),
    ],
)
def test_a_partition_of_scontrol(printed: str, instead: str, expected: dict[str, object]) -> None:
    assert printed in PARTITION
    text = PARTITION.replace(printed, instead, 1) if printed else PARTITION
    assert read_partitions(f"a word before\n{text}\n") == (replace(READ, **expected),)


def test_pairs_of_a_line() -> None:
    assert pairs("A=1 B/C=x,y=z Gres:x= A=2 no pair (D)=3") == {"A": "2", "B/C": "x,y=z", "Gres:x": ""}


def test_options_of_a_configuration() -> None:
    output = """Configuration data as of 2026-11-21T10:00:00
AccountingStorageHost   = localhost
SchedulerParameters     = bf_window=4320,bf_continue
PriorityWeightAge       =  1000
SlurmctldPort           = 6817
Prolog                  = (null)
CommunicationParameters =
Cgroup/Plugin           = autodetect
"""
    assert read_config(output) == {
        "accountingstoragehost": "localhost",
        "schedulerparameters": "bf_window=4320,bf_continue",
        "priorityweightage": "1000",
        "slurmctldport": "6817",
        "cgroup/plugin": "autodetect",
    }


@pytest.mark.parametrize(
    ("printed", "words"),
    [
        ("PrivateData            = none\n", {"none"}),
        ("DbdPort = 1\nPrivateData = accounts,Jobs\nTCPTimeout = 2 secs\n", {"accounts", "jobs"}),
        ("DbdPort = 1\n", None),
        ("", None),
    ],
)
def test_private_data_of_an_accounting_daemon(printed: str, words: set[str] | None) -> None:
    assert private_data(printed) == words
