"""Clusters out of ``slurm.conf``."""

import re
from pathlib import Path

import pytest

from mirage.duration import DAY_S, UNLIMITED_S
from mirage.errors import ClusterError, ConfigurationError
from mirage.sim.cluster import NodeGroup, Partition
from mirage.sim.slurm_conf.cluster_conf import cluster_from_slurm_conf
from mirage.sim.slurm_conf.cluster_file import ClusterFile, read_cluster_file, write_cluster_file
from mirage.sim.slurm_conf.slurm_settings import SlurmSettings
from mirage.sim.workload import other_partitions
from tests.support.made_up_site import table

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


def test_nodes_are_allocated_whole_where_the_file_declares_it(conf):
    assert not cluster_from_slurm_conf(conf(CONF.replace("cons_tres", "linear"))).shared_nodes
    everywhere = CONF.replace("PartitionName=DEFAULT", "PartitionName=DEFAULT OverSubscribe=EXCLUSIVE")
    assert not cluster_from_slurm_conf(conf(everywhere)).shared_nodes


def test_words_may_have_blanks_around_the_sign_and_quotes(conf):
    other = re.sub(r"(?m)(\w+)=(\S+)(?=\s|$)", r'\1 = "\2"', CONF)
    assert 'PartitionName = "gpu" Nodes = "g[1-5],g9"' in other
    assert cluster_from_slurm_conf(conf(other)) == cluster_from_slurm_conf(conf())


def test_includes_are_followed(conf, tmp_path):
    (tmp_path / "nodes.conf").write_text("NodeName=n[1-2] CPUs=8\nSchedulerParameters=bf_interval=45\n")
    path = conf("Include nodes.conf\nPartitionName=p Nodes=n1,n2\n")
    assert cluster_from_slurm_conf(path).nodes == 2
    assert SlurmSettings.from_slurm_conf(path).bf_interval_s == 45


MEMORY = """\
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU=2000
NodeName=n[1-2] CPUs=8 RealMemory=64000 MemSpecLimit=4000
NodeName=n3 CPUs=8 RealMemory=128000
NodeName=n4 CPUs=8
PartitionName=p Nodes=ALL
PartitionName=q Nodes=n3 DefMemPerNode=9000
PartitionName=r Nodes=n4 DefMemPerGPU=500
PartitionName=s Nodes=n1 DefMemPerNode=UNLIMITED
"""


def test_memory_of_nodes_that_jobs_share(conf):
    cluster = cluster_from_slurm_conf(conf(MEMORY))
    assert {g.name: (g.count, g.memory_mib) for g in cluster.groups} == {
        "n1": (1, 60_000), "n2": (1, 60_000), "n3": (1, 128_000), "n4": (1, None),
    }  # fmt: skip
    defaults = [
        (p.default_memory_mib, p.default_memory_per_cpu_mib, p.default_memory_per_gpu_mib) for p in cluster.partitions
    ]
    assert defaults == [(None, 2000, None), (9000, None, None), (None, None, 500), (None, None, None)]
    assert cluster.counts_memory


@pytest.mark.parametrize("parameters", ["CR_Core", "CR_CPU,CR_LLN", "CR_Socket"])
def test_memory_is_not_counted_where_it_is_not_consumed(conf, parameters):
    cluster = cluster_from_slurm_conf(conf(MEMORY.replace("CR_Core_Memory", parameters)))
    assert [(g.name, g.memory_mib) for g in cluster.groups] == [("n1", None), ("n2", None), ("n3", None), ("n4", None)]
    assert {p.default_memory_per_cpu_mib for p in cluster.partitions} == {None}
    assert not cluster.counts_memory


def test_memory_is_consumed_by_default(conf):
    assert cluster_from_slurm_conf(conf(MEMORY.replace("SelectTypeParameters=CR_Core_Memory\n", ""))).counts_memory
    assert cluster_from_slurm_conf(conf(MEMORY.replace("CR_Core_Memory", "cr_cpu_memory"))).counts_memory


def test_memory_does_not_part_nodes_that_are_given_out_whole(conf):
    text = "SelectType=select/linear\nNodeName=n1 RealMemory=10\nNodeName=n2 RealMemory=20\n"
    assert cluster_from_slurm_conf(conf(text)).groups == (NodeGroup("n1", 2, 0, 1),)


@pytest.mark.parametrize("name", ["fid1", "fid60"])
def test_a_file_of_a_real_cluster(shared_data, name):
    cluster = cluster_from_slurm_conf(shared_data / "slurm-fidelity/conf" / name / "slurm.conf")
    assert cluster.groups == (NodeGroup("n1", 16, 8, 64, 512_000),)
    assert cluster.partitions[0].default_memory_per_cpu_mib == 1000
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
        ("NodeName=n[1-\n", ConfigurationError, "is not a host list; correct it there"),
        (
            "NodeName=n1 RealMemory=4G\n",
            ConfigurationError,
            ": node 'n1': RealMemory='4G' is not a whole number of 0 or more; correct it there",
        ),
        (
            "NodeName=n1 CPUs=many\n",
            ConfigurationError,
            ": node 'n1': CPUs='many' is not a whole number of 0 or more; correct it there",
        ),
        ("NodeName=n1\nPartitionName=p Nodes=n1 MaxTime=soon\n", ConfigurationError, "'soon' is no duration"),
    ],
)
def test_complaints(conf, text, error, complaint):
    with pytest.raises(error, match="(?s)" + complaint.replace("[", r"\[")):
        cluster_from_slurm_conf(conf(text))


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ConfigurationError, match=r"cannot read .*no\.conf"):
        cluster_from_slurm_conf(tmp_path / "no.conf")


@pytest.mark.parametrize(
    ("text", "group"),
    [
        ("NodeName=n1", NodeGroup("n1", 1, 0, 1)),
        ("NodeName=n[1-3] CPUs=4", NodeGroup("n1", 3, 0, 4)),
        ("NodeName=n[1-3]\tCPUs=4\t Gres=gpu:2", NodeGroup("n1", 3, 2, 4)),
        ("NodeName=n1 Procs=6", NodeGroup("n1", 1, 0, 6)),
        ("NodeName=n1 Boards=2 SocketsPerBoard=3 CoresPerSocket=4", NodeGroup("n1", 1, 0, 24)),
        ("NodeName=n1 Sockets=2 Boards=9", NodeGroup("n1", 1, 0, 2)),
        ("NodeName=n1 ThreadsPerCore=2", NodeGroup("n1", 1, 0, 2)),
        ("NodeName=n1 Gres=gpu", NodeGroup("n1", 1, 1, 1)),
        ("NodeName=n1 Gres=gpu:a100", NodeGroup("n1", 1, 1, 1)),
        ("NodeName=n1 Gres=gpu:a100:2,nvme:8,gpu:v100:1(S:0)", NodeGroup("n1", 1, 3, 1)),
        ('NodeName=n1 Gres="gpu:8"', NodeGroup("n1", 1, 8, 1)),
        ("NodeName=n1 Gres=nvme:4", NodeGroup("n1", 1, 0, 1)),
        ("NodeName=DEFAULT CPUs=4\nNodeName=n1 CPUs=6\nNodeName=n1 Gres=gpu:1", NodeGroup("n1", 1, 1, 6)),
        ("NodeName=n1 CPUs=2\nNodeName=DEFAULT CPUs=4", NodeGroup("n1", 1, 0, 2)),
        ("NodeName=n[1-2]\nNodeName=d1 State=DOWN*\nNodeName=d2 State=Drained", NodeGroup("n1", 2, 0, 1)),
        ('NodeName=n[1-5]\nDownNodes=n1,n[4-5] State=DRAIN Reason="no power"', NodeGroup("n2", 2, 0, 1)),
        ("NodeName=n1 State=IDLE", NodeGroup("n1", 1, 0, 1)),
    ],
)
def test_a_node_has_what_its_line_declares(conf, text, group):
    cluster = cluster_from_slurm_conf(conf(f"{text}\n"))
    assert cluster.groups == (group,)
    one = Partition("batch", (group.name,), declared=False)
    assert cluster.partitions == (one,), "without a partition line there is one of all"


@pytest.mark.parametrize(("line", "others"), [("", {}), ("PartitionName=batch Nodes=n1\n", {"gpu": 1, "long": 2})])
def test_a_declared_partition_is_not_that_of_other_jobs_whatever_its_name(
    conf, line: str, others: dict[str, int], tmp_path: Path
) -> None:
    cluster = cluster_from_slurm_conf(conf(f"NodeName=n1 CPUs=2\n{line}"))
    jobs = table(*[("ada", 0.0, 0.0, 1.0, 1)] * 4, partition=["gpu", "batch", "long", "long"])
    assert other_partitions(jobs, cluster) == others
    write_cluster_file(tmp_path / "c.toml", ClusterFile(cluster))
    assert read_cluster_file(tmp_path / "c.toml").cluster == cluster


@pytest.mark.parametrize(
    ("line", "partition"),
    [
        ("Nodes=n1", Partition("p", ("n1",))),
        ("\tNodes=n1\tMaxTime=60", Partition("p", ("n1",), max_limit_s=3600)),
        ("Nodes=n1 MaxNodes=3", Partition("p", ("n1",), max_nodes=3)),
        ("Nodes=all", Partition("p", ("n1",))),
        ('Nodes="n1" PriorityTier=3 PriorityJobFactor=2.5', Partition("p", ("n1",), 3, 2.5)),
        ("Nodes=n1 Priority=10 PriorityTier=3", Partition("p", ("n1",), 10, 10.0)),
        ("Nodes=n1 MaxTime=unlimited", Partition("p", ("n1",), 1, 1.0, UNLIMITED_S)),
    ],
)
def test_a_partition_has_what_its_line_declares(conf, line, partition):
    assert cluster_from_slurm_conf(conf(f"NodeName=n1\nPartitionName=p {line}\n")).partitions == (partition,)


def test_a_partition_without_present_nodes_is_left_out(conf):
    text = (
        "NodeName=n1\nNodeName=d1 State=DOWN\nPartitionName=down Nodes=d1 Default=YES\nPartitionName=up Nodes=n1,d1\n"
    )
    assert cluster_from_slurm_conf(conf(text)).partitions == (Partition("up", ("n1",)),)


def test_nodes_are_whole_only_if_every_partition_gives_them_so(conf):
    lines = "NodeName=n1\nPartitionName=a Nodes=n1 OverSubscribe=EXCLUSIVE\nPartitionName=b Nodes=n1"
    assert cluster_from_slurm_conf(conf(lines)).shared_nodes
    assert not cluster_from_slurm_conf(conf(f"{lines} OverSubscribe=Exclusive")).shared_nodes
    assert not cluster_from_slurm_conf(conf(f"{lines} Shared=EXCLUSIVE")).shared_nodes
    assert cluster_from_slurm_conf(conf(f"{lines} Shared=EXCLUSIVE OverSubscribe=NO")).shared_nodes


def test_a_node_set_is_its_feature_and_its_nodes(conf):
    text = (
        "NodeName=n1 Features=ib\nNodeName=n2 Feature=eth CPUs=2\nNodeName=n3 CPUs=3\n"
        "NodeSet=fast Feature=ib Nodes=n3\nPartitionName=p Nodes=fast\nPartitionName=rest Nodes=n2\n"
    )
    assert [p.groups for p in cluster_from_slurm_conf(conf(text)).partitions] == [("n1", "n3"), ("n2",)]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("MaxTime=soon", "'soon' is no duration; write it as Slurm does (2-00:00:00, 48:00:00, 30:00) or with "
         "a unit (90m, 4h, 2d)"),
        ("PriorityTier=top", "PriorityTier='top' is not a whole number of 0 or more; correct it there"),
        ("PriorityJobFactor=half", "PriorityJobFactor='half' is not a number; correct it there"),
        ("PriorityJobFactor=nan", "PriorityJobFactor='nan' is not a number; correct it there"),
    ],
)  # fmt: skip
def test_a_value_of_a_partition_is_named_with_its_file_and_its_partition(conf, line, message):
    path = conf(f"NodeName=n1\nPartitionName=p Nodes=n1 {line}\n")
    with pytest.raises(ConfigurationError) as refused:
        cluster_from_slurm_conf(path)
    assert str(refused.value) == f"{path}: partition 'p': {message}"


def test_a_file_without_nodes_or_with_an_unknown_one_names_the_remedy(conf):
    path = conf("ClusterName=x\n")
    with pytest.raises(ClusterError) as refused:
        cluster_from_slurm_conf(path)
    assert str(refused.value) == (f"{path} has no NodeName line; name the slurm.conf of the controller, not a fragment")


def test_nodes_that_are_all_out_of_service_are_reported_as_such(conf):
    path = conf("NodeName=n[1-3] CPUs=4 State=DOWN\n")
    with pytest.raises(ClusterError) as refused:
        cluster_from_slurm_conf(path)
    assert str(refused.value) == (
        f"{path}: all its nodes are DOWN, DRAIN, FAIL or FUTURE; correct the State of some there"
    )


def test_a_negative_count_of_processors_is_refused(conf):
    with pytest.raises(ConfigurationError, match="node 'n1': CPUs='-4' is not a whole number of 0 or more"):
        cluster_from_slurm_conf(conf("NodeName=n1 CPUs=-4\n"))


@pytest.mark.parametrize(("most", "accepted"), [("-3", False), ("some", False), ("0", True), ("UNLIMITED", True)])
def test_a_wrong_number_of_nodes_of_a_partition_is_refused_as_by_slurmctld(conf, most, accepted):
    path = conf(f"NodeName=n1 CPUs=4\nPartitionName=p Nodes=n1 MaxNodes={most}\n")
    if accepted:
        assert cluster_from_slurm_conf(path).nodes == 1
        return
    with pytest.raises(ConfigurationError, match=f"partition 'p': MaxNodes='{most}' is not a whole number of 0 or"):
        cluster_from_slurm_conf(path)
