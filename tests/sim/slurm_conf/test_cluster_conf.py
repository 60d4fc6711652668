"""Clusters out of ``slurm.conf``."""

import pytest

from mirage.duration import DAY_S, UNLIMITED_S
from mirage.errors import ClusterError, ConfigurationError
from mirage.sim.cluster import NodeGroup, Partition
from mirage.sim.slurm_conf.cluster_conf import cluster_from_slurm_conf
from mirage.sim.slurm_conf.settings import SlurmSettings

CONF = """\
ClusterName=test   # a comment
SelectType=select/cons_tres
NodeName=DEFAULT Sockets=2 CoresPerSocket=16 ThreadsPerCore=2
NodeName=c[01-04] State=UNKNOWN
NodeName=g[1-3] CPUs=48 Gres=gpu:a100:4(S:0-1),nvme:1 Feature=a100,ib
NodeName=g[4-5] CPUs=48 Gres=gpu:a100:4 Feature=a100
NodeName=g9 CPUs=48 Gres=gpu:a100:4 State=FUTURE
NodeSet=ibgpu Feature=ib
PartitionName=DEFAULT MaxTime=2-0 PriorityTier=2
PartitionName=gpu Nodes=g[1-5],g9
PartitionName=cpu Nodes=c[01-04] Default=YES MaxTime=INFINITE
PartitionName=fast Nodes=ibgpu PriorityTier=9 \\
    PriorityJobFactor=50
PartitionName=any Nodes=ALL
"""


@pytest.fixture
def conf(tmp_path):
    def write(text=CONF):
        path = tmp_path / "slurm.conf"
        path.write_text(text)
        return path

    return write


def test_nodes_that_are_alike_form_groups(conf):
    cluster = cluster_from_slurm_conf(conf())
    assert cluster.groups == (NodeGroup("c01", 4, 0, 64), NodeGroup("g1", 3, 4, 48), NodeGroup("g4", 2, 4, 48))
    assert cluster.shared_nodes


def test_the_default_partition_is_the_first(conf):
    assert cluster_from_slurm_conf(conf()).partitions == (
        Partition("cpu", ("c01",), 2, 1.0, UNLIMITED_S),
        Partition("gpu", ("g1", "g4"), 2, 1.0, 2 * DAY_S),
        Partition("fast", ("g1",), 9, 50.0, 2 * DAY_S),
        Partition("any", ("c01", "g1", "g4"), 2, 1.0, 2 * DAY_S),
    )


def test_nodes_are_given_out_whole_where_the_file_says_so(conf):
    assert not cluster_from_slurm_conf(conf(CONF.replace("cons_tres", "linear"))).shared_nodes
    everywhere = CONF.replace("PartitionName=DEFAULT", "PartitionName=DEFAULT OverSubscribe=EXCLUSIVE")
    assert not cluster_from_slurm_conf(conf(everywhere)).shared_nodes


def test_includes_are_followed(conf, tmp_path):
    (tmp_path / "nodes.conf").write_text("NodeName=n[1-2] CPUs=8\nSchedulerParameters=bf_interval=45\n")
    path = conf("Include nodes.conf\nPartitionName=p Nodes=n1,n2\n")
    assert cluster_from_slurm_conf(path).nodes == 2
    assert SlurmSettings.from_slurm_conf(path).bf_interval_s == 45


@pytest.mark.parametrize("name", ["fid1", "fid60"])
def test_a_file_of_a_real_cluster(shared_data, name):
    cluster = cluster_from_slurm_conf(shared_data / "slurm-fidelity/conf" / name / "slurm.conf")
    assert cluster.groups == (NodeGroup("n1", 16, 8, 64),)
    assert [(p.name, p.tier, p.job_factor) for p in cluster.partitions] == [
        ("train", 10, 10.0),
        ("infer", 20, 20.0),
        ("scav", 1, 1.0),
        ("hi", 100, 50.0),
    ]


@pytest.mark.parametrize(
    ("text", "error", "complaint"),
    [
        ("ClusterName=x\n", ClusterError, "has no NodeName line"),
        ("NodeName=n1\nPartitionName=p Nodes=n1,m7\n", ClusterError, "names node 'm7', which no NodeName line"),
        ("NodeName=n[1-\n", ConfigurationError, "is no host list"),
        ("NodeName=n1 CPUs=many\n", ConfigurationError, "'many' in a slurm.conf is not a whole number"),
        ("NodeName=n1\nPartitionName=p Nodes=n1 MaxTime=soon\n", ConfigurationError, "'soon' is no duration"),
    ],
)
def test_complaints(conf, text, error, complaint):
    with pytest.raises(error, match="(?s)" + complaint.replace("[", r"\[")):
        cluster_from_slurm_conf(conf(text))


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ConfigurationError, match=r"cannot read .*no\.conf"):
        cluster_from_slurm_conf(tmp_path / "no.conf")
