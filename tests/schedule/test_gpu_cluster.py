"""GPU clusters: numbering of servers, built-in ones, and TOML."""

from __future__ import annotations

from pathlib import Path

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


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"describe every server group in a table \[\[servers\]\]"),
        ("[servers]\nname = 'a'\n", r"\[\[servers\]\]"),
        ("[[servers]]\nname = 'a'\n", "missing gpu_type, servers, gpus_per_server"),
        (TOML + "gpus = 3\n", "unknown gpus"),
        (TOML + "speed = 'fast'\n", "speed is 'fast'; give a float"),
        (TOML.replace("servers = 2", "servers = 0"), "0 servers of 4 GPUs"),
        (TOML.replace("servers = 2", "servers = true"), "servers is True; give a int"),
        (TOML.replace('"new"', '"old"'), "two server groups have the same name"),
        (TOML + "speed = -1.0\n", "speed is -1.0"),
        ("[[", "describe the cluster in TOML"),
    ],
)
def test_a_bad_file_is_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "c.toml").write_text(text)
    with pytest.raises(ClusterError, match=rf"c\.toml: .*{message}"):
        read_gpu_cluster(tmp_path / "c.toml")


def test_an_unknown_name_lists_the_known() -> None:
    with pytest.raises(UnknownName, match=r"unknown GPU cluster 'sia'\. Did you mean 'sia64'"):
        gpu_cluster("sia")
    with pytest.raises(ConfigurationError) as gone:
        gpu_cluster("gone.toml")
    known = ", ".join(BUILTIN)
    assert str(gone.value) == f"gone.toml: No such file or directory; give a TOML file or one of {known}"


def test_a_cluster_has_a_server() -> None:
    with pytest.raises(ClusterError) as empty:
        GpuCluster(())
    assert str(empty.value) == "a GPU cluster needs at least one group of servers; got none"


def test_one_type_has_one_speed() -> None:
    cluster = GpuCluster((ServerGroup("a", "t4", 1, 1), ServerGroup("b", "t4", 1, 1, speed=2.0)))
    with pytest.raises(ClusterError, match=r"GPU type 't4' has speed 1\.0 in one group and 2\.0 in group 'b'"):
        cluster.type_speeds()
