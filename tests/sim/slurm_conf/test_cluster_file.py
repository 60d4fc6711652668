"""Cluster files: writing and reading yields the same cluster, and errors are named."""

from __future__ import annotations

import tomllib
from dataclasses import fields, replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mirage.duration import DAY_S, UNLIMITED_S
from mirage.errors import ConfigurationError
from mirage.sim.cluster import CapacityChange, Cluster, Limit, NodeGroup, Partition, Reservation
from mirage.sim.slurm_conf.cluster_file import ClusterFile, Users, cluster_toml, read_cluster_file, write_cluster_file
from mirage.sim.slurm_conf.slurm_settings import SlurmSettings
from tests.support.clusters import grouped, pools, shared, with_changes, with_limits, with_memory, with_reservations

KINDS = pools() | grouped() | shared()
CLUSTERS = KINDS | with_memory(shared()) | with_limits(KINDS) | with_changes(KINDS) | with_reservations(KINDS)
NAMES = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8)
MARCH_S = 1_678_773_600

FULL = ClusterFile(
    Cluster(
        (NodeGroup("a100", 76, 3, 128, 256_000), NodeGroup("größe \"x\" \\ #", 8, 2, 64)),
        (Partition("gpu", ("a100",), 2, 10.5, 2 * DAY_S, None, 2000), Partition("all")),
        True,
        {"normal": 1.0, "a.b": 10.0},
        {"a.b": ("normal",), "normal": ()},
        limits=(
            Limit(jobs=8), Limit("account", gpus=40, qos=("a.b",), partitions=("gpu",)),
            Limit(ageing=2, users=("ada", "größe"), accounts=("x",)),
        ),
        changes=(CapacityChange(MARCH_S, "a100", -2),),
        reservations=(Reservation(MARCH_S, MARCH_S + 36_000, "a100", 70, MARCH_S - DAY_S),),
    ),
    replace(SlurmSettings.lonestar6(), half_life_s=float(UNLIMITED_S), favor_small=True),
    {"group": "most nodes busy at once\nin jobs.csv", "calibration": "mirage calibrate jobs.csv"},
    {
        "trace": "jobs.csv",
        "fitted": {"from": datetime(2023, 1, 1, tzinfo=UTC), "until": date(2023, 2, 1), "weeks": [1, 2.5, "x"]},
        "rank correlation": 0.6,
        "rows": [{"class": "small", "n": 3}],
        "done": True,
    },
    Users(think_time_s=1200),
)  # fmt: skip


@st.composite
def qos(draw: st.DrawFn) -> dict[str, Any]:
    factors = draw(st.dictionaries(NAMES, st.floats(-1e6, 1e6), max_size=3))
    displaced = st.lists(st.sampled_from(sorted(factors)), max_size=2).map(tuple) if factors else st.nothing()
    preempts = draw(st.dictionaries(st.sampled_from(sorted(factors)), displaced)) if factors else {}
    return {"qos_factors": factors, "qos_preempts": preempts}


@st.composite
def schedulers(draw: st.DrawFn) -> SlurmSettings:
    """Any value that its type allows in every field."""
    kinds = {"int": st.integers(1, 2**40), "float": st.floats(1e-3, 2.0**40), "bool": st.booleans()}
    kinds |= {f"{kind} | None": st.none() | kinds[kind] for kind in ("float", "bool")}
    kinds["Literal['multifactor', 'wfp']"] = st.sampled_from(["multifactor", "wfp"])
    return SlurmSettings(**{f.name: draw(kinds[str(f.type).replace('"', "'")]) for f in fields(SlurmSettings)})


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    cluster=CLUSTERS,
    of_qos=qos(),
    scheduler=schedulers(),
    sources=st.dictionaries(NAMES | st.sampled_from(["cluster", "group", "change", "qos"]), st.text(max_size=20)),
    name=NAMES,
)
def test_what_is_written_is_read(
    tmp_path: Path,
    cluster: Cluster,
    of_qos: dict[str, Any],
    scheduler: SlurmSettings,
    sources: dict[str, str],
    name: str,
) -> None:
    of_qos["qos_factors"] |= cluster.qos_factors  # which limits may name
    file = ClusterFile(replace(cluster, **of_qos), scheduler, sources, {name: name, "inner": {name: [1, name]}})
    write_cluster_file(tmp_path / "cluster.toml", file)
    read = read_cluster_file(tmp_path / "cluster.toml")
    assert read == file
    assert list(read.cluster.qos_factors) == list(file.cluster.qos_factors), "their order is their numbers"


def test_the_file_is_one_that_people_can_read() -> None:
    text = cluster_toml(FULL)
    toml = tomllib.loads(text)
    assert toml["group"][1] == {"name": 'größe "x" \\ #', "count": 8, "gpus": 2, "cpus": 64}
    assert toml["group"][0]["memory_mib"] == 256_000
    assert toml["partition"][0]["default_memory_per_cpu_mib"] == 2000
    assert toml["partition"][0]["max_limit"] == "2-00:00:00"
    assert toml["partition"][1]["max_limit"] == "UNLIMITED"
    assert toml["qos"] == {
        "normal": {"factor": 1.0, "preempts": []},
        "a.b": {"factor": 10.0, "preempts": ["normal"]},
    }
    assert toml["change"] == [{"time": datetime(2023, 3, 14, 6, tzinfo=UTC), "group": "a100", "nodes": -2}]
    assert toml["reservation"][0]["announced"] == datetime(2023, 3, 13, 6, tzinfo=UTC)
    assert (toml["scheduler"]["bf_interval"], toml["scheduler"]["half_life"]) == ("00:00:10", "UNLIMITED")
    assert toml["cluster"] == {"shared_nodes": True}
    assert toml["limit"][0]["jobs"] == 8
    assert toml["limit"][2]["users"] == ["ada", "größe"]
    assert toml["limit"][1] == {"per": "account", "gpus": 40, "qos": ["a.b"], "partitions": ["gpu"]}
    assert toml["users"] == {"think_time": "00:20:00"}
    assert toml["calibration"] == FULL.calibration
    assert "# From: most nodes busy at once\n# From: in jobs.csv\n[[group]]" in text


def test_a_file_with_everything_is_read_back(tmp_path: Path) -> None:
    write_cluster_file(tmp_path / "full.toml", FULL)
    assert read_cluster_file(tmp_path / "full.toml") == FULL


def test_what_is_left_out_is_the_default(tmp_path: Path) -> None:
    (tmp_path / "small.toml").write_text('mirage_cluster = 1\n[[group]]\nname = "node"\ncount = 4\n')
    assert read_cluster_file(tmp_path / "small.toml") == ClusterFile(Cluster.pool(4), SlurmSettings())


def test_a_file_without_users_has_no_section_for_them() -> None:
    assert "users" not in tomllib.loads(cluster_toml(ClusterFile(Cluster.pool(4))))


def test_times_beyond_the_calendar_are_seconds(tmp_path: Path) -> None:
    cluster = replace(Cluster.pool(4), reservations=(Reservation(-5, UNLIMITED_S, "node", 4),))
    write_cluster_file(tmp_path / "long.toml", ClusterFile(cluster))
    assert read_cluster_file(tmp_path / "long.toml").cluster == cluster


@pytest.mark.parametrize(
    ("instant", "second"),
    [("2023-03-14T06:00:00Z", MARCH_S), ("2023-03-14 01:00:00-05:00", MARCH_S), (str(MARCH_S), MARCH_S)],
)
def test_instants_have_an_offset_or_are_seconds(tmp_path: Path, instant: str, second: int) -> None:
    (tmp_path / "c.toml").write_text(f'{SMALL}[[change]]\ntime = {instant}\ngroup = "node"\nnodes = -1\n')
    assert read_cluster_file(tmp_path / "c.toml").cluster.changes == (CapacityChange(second, "node", -1),)


SMALL = 'mirage_cluster = 1\n[[group]]\nname = "node"\ncount = 4\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a = [", "c.toml is not TOML: "),
        ("", "c.toml is not a cluster file; the first key of one that this version reads is mirage_cluster = 1"),
        ("mirage_cluster = 2\n", "c.toml has the format 2; the first key"),
        ("mirage_cluster = 1\n", "c.toml: it has no [[group]], and a cluster needs nodes"),
        ("mirage_cluster = 1\n[group]\n", "c.toml: group is not a list of tables; write each as [[group]]"),
        (
            f"{SMALL}colour = 1\n",
            "c.toml: [[group]] number 1: there is no key 'colour'; known are name, count, ",
        ),
        (f'{SMALL}[[group]]\nname = "b"\n', "c.toml: [[group]] number 2: the key 'count' is missing"),
        (f"{SMALL}gpus = -1\n", "c.toml: [[group]] number 1: gpus: -1 is negative"),
        (f"{SMALL}gpus = 1.5\n", "c.toml: [[group]] number 1: gpus: 1.5 is not a whole number"),
        (f"{SMALL}gpus = true\n", "c.toml: [[group]] number 1: gpus: True is not a whole number"),
        (f"{SMALL}gpus = 99999999999999999\n", "number 1: gpus: 99999999999999999 is out of range"),
        (f"{SMALL}[cluster]\nshared_nodes = 1\n", "c.toml: [cluster]: shared_nodes: 1 is not true or false"),
        (f"{SMALL}[cluster]\nchanges = 1\n", "c.toml: [cluster]: there is no key 'changes'; known are shared_nodes"),
        (f"{SMALL}[[partition]]\nname = 3\n", "c.toml: [[partition]] number 1: name: 3 is not text in quotes"),
        (
            f'{SMALL}[[partition]]\nname = "p"\ngroups = "node"\n',
            "c.toml: [[partition]] number 1: groups: 'node' is not a list; write [\"node\"]",
        ),
        (
            f'{SMALL}[[partition]]\nname = "p"\nmax_limit = 3600\n',
            "c.toml: [[partition]] number 1: max_limit: 3600 is no duration; write it as Slurm does",
        ),
        (
            f'{SMALL}[[partition]]\nname = "p"\ngroups = ["nodes"]\n',
            "c.toml: there is no node group 'nodes'; the groups are node",
        ),
        (f'{SMALL}[scheduler]\nbf_interval = "soon"\n', "c.toml: [scheduler]: bf_interval: 'soon' is no duration"),
        (f'{SMALL}[scheduler]\nbf_interval = "0"\n', "c.toml: [scheduler]: bf_interval must be more than 0"),
        (f"{SMALL}[scheduler]\nweight_age = -5\n", "c.toml: [scheduler]: weight_age is -5; it must be 0 or more"),
        (
            f"{SMALL}[scheduler]\nbf_interval_s = 30\n",
            "[scheduler]: there is no key 'bf_interval_s'; known are bf_interval",
        ),
        (
            f'{SMALL}[scheduler]\npriority = "fifo"\n',
            "c.toml: [scheduler]: priority: 'fifo' is none of 'multifactor', 'wfp'",
        ),
        (f"{SMALL}[scheduler]\nweight_age = nan\n", "c.toml: [scheduler]: weight_age: nan is out of range"),
        (
            f'{SMALL}[[change]]\ntime = 2023-03-14T06:00:00\ngroup = "node"\nnodes = -1\n',
            "c.toml: [[change]] number 1: time: '2023-03-14T06:00:00' is not a time; write date, time to the second",
        ),
        (
            f'{SMALL}[[change]]\ntime = "2023-03-14"\ngroup = "node"\nnodes = -1\n',
            "c.toml: [[change]] number 1: time: '2023-03-14' is not a time",
        ),
        (
            f'{SMALL}[[reservation]]\nstart = 5\nend = 5\ngroup = "node"\nnodes = 1\n',
            "c.toml: a reservation of group 'node' lasts from 1970-01-01T00:00:05Z to 1970-01-01T00:00:05Z",
        ),
        (f"{SMALL}[qos.a]\nfactor = 1\npreempts = ['b']\n", "c.toml: no QOS 'b' to preempt or be preempted"),
        (f"{SMALL}[qos]\na = 1\n", "c.toml: [qos.a]: 1 is not a table; write it as a section"),
        (
            f'{SMALL}[[limit]]\nper = "group"\njobs = 1\n',
            "c.toml: [[limit]] number 1: a limit is per user, account, all; got 'group'",
        ),
        (f"{SMALL}[weather]\n", "c.toml: there is no section 'weather'; known are cluster, group, partition"),
        ("mirage_cluster = 1\ncalibration = 1\n", "c.toml: calibration is not a table; write it as a section"),
        (f"{SMALL}[said_by]\ngroup = 1\n", "c.toml: [said_by]: group: 1 is not text in quotes"),
    ],
)
def test_what_is_wrong_is_named_with_file_section_and_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("c.toml").write_text(text)
    with pytest.raises(ConfigurationError) as refused:
        read_cluster_file("c.toml")
    assert message in str(refused.value)


def test_a_file_that_cannot_be_read_or_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"cannot read .*none\.toml: No such file"):
        read_cluster_file(tmp_path / "none.toml")
    with pytest.raises(ConfigurationError, match=r"cannot write .*none/c\.toml: No such file"):
        write_cluster_file(tmp_path / "none" / "c.toml", FULL)


def test_a_trace_name_that_is_no_utf_8_can_be_written(tmp_path: Path) -> None:
    write_cluster_file(tmp_path / "c.toml", replace(FULL, calibration={"trace": "ls\udcff.log"}))
    assert read_cluster_file(tmp_path / "c.toml").calibration == {"trace": "ls?.log"}


@pytest.mark.parametrize(("mode", "found"), [(None, 0o640), (0o600, 0o600)])
def test_a_file_retains_its_permissions_unless_others_are_given(tmp_path: Path, mode: int | None, found: int) -> None:
    path = tmp_path / "c.toml"
    path.touch()
    path.chmod(0o640)
    write_cluster_file(path, FULL, mode)
    assert path.stat().st_mode & 0o777 == found


def test_a_fact_that_toml_cannot_hold_is_refused_and_the_old_file_stays(tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    write_cluster_file(path, FULL)
    with pytest.raises(ConfigurationError, match="cannot hold None, a NoneType"):
        write_cluster_file(path, replace(FULL, calibration={"seen": None}))
    assert read_cluster_file(path) == FULL
