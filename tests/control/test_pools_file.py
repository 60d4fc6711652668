"""The file of pools: what it means, and what is wrong with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from mirage.control.pools_file import read_pools
from mirage.errors import ConfigurationError

GOOD = """
scheduler = "aryl"
poll = "75s"
[owner]
nodes = ["inf[1-2]", "inf9"]
partitions = ["inference"]
promise = "02:00:00"
[borrower]
nodes = ["gpu[1-3]"]
partition = "train"
[jobs]
comment = "mirage-control"
accounts = ["vision"]
signal = "SIGUSR2"
grace = "90s"
progress = "/scratch/{user}/{job}.json"
[rates]
requests_per_minute = 5
evictions_per_hour = 3
[costs]
restart = "2m"
[gpu_speeds]
t4 = 0.33
"""


def read(folder: Path, text: str):
    path = folder / "pools.toml"
    path.write_text(text)
    return read_pools(path)


def test_every_value_arrives(tmp_path: Path) -> None:
    pools = read(tmp_path, GOOD)
    assert pools.nodes == ("gpu1", "gpu2", "gpu3", "inf1", "inf2", "inf9")
    assert (pools.poll_s, pools.promise_s, pools.grace_s, pools.restart_s, pools.save_s) == (75, 7200, 90, 120, 30)
    assert (pools.evictions_per_hour, pools.evictions_per_job_hour, pools.signal) == (3, 1, "USR2")
    assert (pools.gpu_speeds, pools.scheduler) == ({"t4": 0.33}, "aryl")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('poll = "75s"', 'poll = "20s"', r"20s needs more than 5 requests a minute; poll every 60s"),
        ('poll = "75s"', "poll = 2026-01-01", r"poll = 2026-01-01: a duration is a text"),
        ("[owner]", "[[owner]]", r"owner is one table; write \[owner\]"),
        ('poll = "75s"', 'poll = "75"', r'poll = .75.: it has no unit; write "75s" or "75m"'),
        ('promise = "02:00:00"', 'promise = "2h30"', r"\(2-00:00:00, 48:00:00, 30:00\) or with a unit \(90m, 4h, 2d\)"),
        ('poll = "75s"', "poll = 75", r"poll = 75: a duration is a text"),
        ('poll = "75s"', 'pol = "75s"', r"unknown key pol\. Known: scheduler, poll, and the tables owner"),
        ('"gpu[1-3]"', '"gpu[1-3]", "inf1"', r"node inf1 is in both pools"),
        ('"gpu[1-3]"', '"gpu[3-1]"', r"\[borrower\] nodes = .*descending"),
        ('partition = "train"', 'partition = "inference"', r"inference belongs to both pools"),
        ('partition = "train"', 'name = "train"', r"unknown key \[borrower\] name\. Known: nodes, partition\."),
        ('comment = "mirage-control"\naccounts = ["vision"]', "", r"no job takes part"),
        ('"mirage-control"', '"gpus=2-8"', r"comment = 'gpus=2-8': a word with = declares a size"),
        ('signal = "SIGUSR2"', 'signal = "KILL"', r"signal = 'KILL': it is one of USR1"),
        ("/scratch/{user}/{job}.json", "scratch/{job}.json", r"give a path from / with \{job\} in it"),
        (
            "/scratch/{user}/{job}.json",
            "/scratch/{usr}/{job}.json",
            r"progress: unknown \{usr\}; use \{job\} and \{user\}",
        ),
        ("requests_per_minute = 5", "requests_per_minute = 61", r"from 5 to 60"),
        ("t4 = 0.33", "t4 = 0", r"\[gpu_speeds\] t4 = 0: it is a number above 0"),
        ('nodes = ["inf[1-2]", "inf9"]', "", r"\[owner\] nodes is missing"),
        ('nodes = ["inf[1-2]", "inf9"]', "nodes = []", r"it is a list of nodes"),
        ("[owner]", '[owner]\nusers = ["bob"]\naccounts = ["serve"]', r"\[owner\] has users and accounts"),
        ("[owner]", "[owner", r"is not TOML"),
    ],
)
def test_a_wrong_value_is_named_with_the_file(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in GOOD
    with pytest.raises(ConfigurationError, match=message) as error:
        read(tmp_path, GOOD.replace(old, new, 1))
    assert "pools.toml" in str(error.value)


def test_an_absent_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"No such file.*--config"):
        read_pools(tmp_path / "absent.toml")
