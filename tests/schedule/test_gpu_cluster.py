"""GPU clusters: numbering of servers, built-in ones, and TOML."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mirage.errors import ClusterError, ConfigurationError, UnknownName
from mirage.schedule.gpu_cluster import BUILTIN, GpuCluster, ServerGroup, gpu_cluster, read_gpu_cluster

TOML = """
[[servers]]
name = "old"
gpu_type = "t4"
servers = 2
gpus_per_server = 4
pool = "inference"
speed = 0.5

[[servers]]
name = "new"
gpu_type = "a100"
servers = 1
gpus_per_server = 8
"""


def test_servers_are_numbered_in_the_order_of_groups(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text(TOML)
    cluster = gpu_cluster(str(tmp_path / "c.toml"))
    assert cluster.gpu_types == ("t4", "a100")
    assert cluster.pools == ("inference", "training")
    assert cluster.gpu_type_of.tolist() == [0, 0, 1]
    assert cluster.gpus_of.tolist() == [4, 4, 8]
    assert cluster.pool_of.tolist() == [0, 0, 1]
    assert cluster.server_names == ("old-1", "old-2", "new-1")
    assert cluster.gpus == 16
    assert cluster.type_speeds() == {"t4": 0.5, "a100": 1.0}


def test_built_in_clusters() -> None:
    sia = gpu_cluster("sia64")
    assert (sia.gpus, sia.gpu_types) == (64, ("aws", "dgx-ext", "rtx"))
    assert gpu_cluster("philly7704").gpus == 7704
    aryl = gpu_cluster("aryl7704")
    assert (aryl.gpus, aryl.pools) == (7704, ("training", "inference"))
    assert int(aryl.gpus_of[aryl.pool_of == 0].sum()) == 3544


KEYS = "name, gpu_type, servers, gpus_per_server, pool, speed, gpus_for_one"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "its keys are []; describe every server group in a table [[servers]]"),
        ("servers = []\n", "its keys are ['servers']; describe every server group in a table [[servers]]"),
        ("[servers]\nname = 'a'\n", "its keys are ['servers']; describe every server group in a table [[servers]]"),
        ("z = 1\n" + TOML, "its keys are ['servers', 'z']; describe every server group in a table [[servers]]"),
        ("servers = ['a']\n", "servers is 'a'; write [[servers]] with two brackets"),
        (
            "[[servers]]\nname = 'a'\n",
            f"server group 'a': unknown nothing, missing gpu_type, servers, gpus_per_server; the keys are {KEYS}",
        ),
        (TOML + "gpus = 3\n", f"server group 'new': unknown gpus, missing nothing; the keys are {KEYS}"),
        (
            "[[servers]]\ngpu_type = 'a'\nservers = 1\ngpus_per_server = 1\nz = 1\nx = 1\n",
            f"server group '?': unknown x, z, missing name; the keys are {KEYS}",
        ),
        (TOML + "speed = 'fast'\n", "server group 'new': speed is 'fast'; give a number"),
        (TOML + "speed = true\n", "server group 'new': speed is True; give a number"),
        (TOML + "pool = 1\n", "server group 'new': pool is 1; give a text"),
        (TOML.replace('"new"', "3"), "server group 3: name is 3; give a text"),
        (TOML.replace('"a100"', "3"), "server group 'new': gpu_type is 3; give a text"),
        (TOML.replace("servers = 2", "servers = 2.0"), "server group 'old': servers is 2.0; give a whole number"),
        (TOML.replace("servers = 2", "servers = true"), "server group 'old': servers is True; give a whole number"),
        (
            TOML.replace("_server = 4", "_server = 4.0"),
            "server group 'old': gpus_per_server is 4.0; give a whole number",
        ),
        (TOML.replace("servers = 2", "servers = 0"), "server group 'old': 0 servers of 4 GPUs; both are 1 or more"),
        (TOML.replace("_server = 4", "_server = 0"), "server group 'old': 2 servers of 0 GPUs; both are 1 or more"),
        (
            TOML.replace("servers = 2", "servers = 4_000_000_000"),
            "server group 'old': 4,000,000,000 servers of 4 GPUs; there are at most 1,000,000 servers of 1,000 GPUs",
        ),
        (
            TOML.replace("_server = 4", "_server = 1_001"),
            "server group 'old': 2 servers of 1,001 GPUs; there are at most 1,000,000 servers of 1,000 GPUs",
        ),
        (TOML.replace('"new"', '"old"'), "two server groups have the same name: old, old; rename one"),
        (TOML.replace('"new"', '""'), "server group '': name is empty; give a name"),
        (TOML.replace('"a100"', '""'), "server group 'new': gpu_type is empty; give a name"),
        (TOML.replace('"inference"', '""'), "server group 'old': pool is empty; give a name"),
        (TOML + "speed = 0\n", "server group 'new': speed is 0; give a number from 1e-09 to 1e+09"),
        (TOML + "speed = inf\n", "server group 'new': speed is inf; give a number from 1e-09 to 1e+09"),
        (TOML + "speed = 1e-20\n", "server group 'new': speed is 1e-20; give a number from 1e-09 to 1e+09"),
        (TOML + "speed = nan\n", "server group 'new': speed is nan; give a number from 1e-09 to 1e+09"),
    ],
)
def test_a_bad_file_is_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "c.toml").write_text(text)
    with pytest.raises(ClusterError) as refused:
        read_gpu_cluster(tmp_path / "c.toml")
    assert str(refused.value) == f"{tmp_path}/c.toml: {message}"


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"\xff", r"cannot read .*/c\.toml: it is not text in UTF-8: byte 1 is 0xff; give a TOML file or one of"),
        (b"[[", r"/c\.toml is not TOML: Invalid .*; correct it there$"),
    ],
)
def test_a_file_that_is_no_toml_is_refused(tmp_path: Path, content: bytes, why: str) -> None:
    (tmp_path / "c.toml").write_bytes(content)
    with pytest.raises(ConfigurationError, match=why):
        read_gpu_cluster(tmp_path / "c.toml")


def test_a_group_may_have_one_server_of_one_slow_gpu(tmp_path: Path) -> None:
    """Its speed may be a whole number, and its file may have any name."""
    assert GpuCluster((ServerGroup("a", "t4", 1, 1, speed=1e-9),)).gpus == 1
    text = "[[servers]]\nname = 'a'\ngpu_type = 'b'\nservers = 1\ngpus_per_server = 1\nspeed = 2\n"
    (tmp_path / "cluster").write_text(text)
    cluster = gpu_cluster(str(tmp_path / "cluster"))
    assert (cluster.type_speeds(), cluster.pools) == ({"b": 2}, ("training",))


def test_an_unknown_name_lists_the_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = ", ".join(BUILTIN)
    with pytest.raises(UnknownName) as unknown:
        gpu_cluster("sia")
    named = ", ".join(sorted([*BUILTIN, "FILE.toml"]))
    assert str(unknown.value) == f"unknown GPU cluster 'sia'. Did you mean 'sia64'? Known: {named}."
    for name in ("gone.toml", f"{tmp_path}/gone"):
        with pytest.raises(ConfigurationError) as gone:
            gpu_cluster(name)
        assert str(gone.value) == f"cannot read {name}: No such file or directory; give a TOML file or one of {known}"
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here").write_text(TOML)
    assert gpu_cluster("here").gpus == 16


def test_a_cluster_has_a_server() -> None:
    with pytest.raises(ClusterError) as empty:
        GpuCluster(())
    assert str(empty.value) == "a GPU cluster needs at least one group of servers; got none"


def test_one_type_has_one_speed() -> None:
    cluster = GpuCluster((ServerGroup("a", "t4", 1, 1), ServerGroup("b", "t4", 1, 1, speed=2.0)))
    with pytest.raises(ClusterError) as refused:
        cluster.type_speeds()
    assert str(refused.value) == (
        "GPU type 't4' has speed 1.0 in one group and 2.0 in group 'b'; give both groups the same, or another type"
    )
    same = GpuCluster((ServerGroup("a", "t4", 1, 1, speed=2.0), ServerGroup("b", "t4", 1, 1, speed=2.0)))
    assert same.type_speeds() == {"t4": 2.0}


def test_the_columns_of_servers_cannot_be_changed() -> None:
    cluster = GpuCluster((ServerGroup("a", "t4", 2, 4), ServerGroup("b", "a100", 1, 8, "inference")))
    for column in (cluster.gpu_type_of, cluster.gpus_of, cluster.pool_of):
        assert column.dtype == np.int64
        with pytest.raises(ValueError, match="read-only"):
            column[0] = 1
