import gzip
import json

import pytest

from mirage.job_state import MISSING
from mirage.slurm_words.tres import (
    gpus_of,
    gres_gpus_per_node,
    memory_mib,
    requested_mib,
    tres_count,
    tres_gpus,
    tres_memory_mib,
)


@pytest.mark.parametrize(
    ("tres", "gpus"),
    [
        ("", MISSING),
        ("billing=1,cpu=1,mem=1000M,node=1", 0),
        ("cpu=16,mem=65536M,node=1,gres/gpu=2,gres/gpu:v100=2", 2),
        ("cpu=8,node=1,gres/gpu=4,gres/gpu:a100=2,gres/gpu:v100=2", 4),
        ("cpu=8,gres/gpu:a100=2,gres/gpu:v100=3", 5),
        ("gres/gpu:p100=1,mem=125G,node=1", 1),
        ("gres/gpumem=80G,gres/gpuutil=100,cpu=1", 0),
    ],
)
def test_gpus_of_tres(tres, gpus):
    assert tres_gpus(tres) == gpus


def test_gpus_as_xdmod_counts_them(shared_data):
    known = json.loads((shared_data / "sacct-fixtures/xdmod/unit/alloc-tres-gpu-count.json").read_text())
    assert [max(tres_gpus(tres), 0) for tres, _ in known] == [gpus for _, gpus in known]


@pytest.mark.parametrize(
    ("gres", "gpus"),
    [
        ("gpu:2", 2),
        ("gres:gpu:8", 8),
        ("gres/gpu:8", 8),
        ("gpu:tesla:2(S:0)", 2),
        ("craynetwork:1", 0),
        ("", 0),
    ],
)
def test_gpus_of_gres(gres, gpus):
    assert gres_gpus_per_node(gres) == gpus


def test_counts():
    assert tres_count("billing=256,cpu=256,mem=3000M,node=32", "node") == 32
    assert tres_count("billing=256,cpu=1.5K,node=32", "cpu") == 1536  # Slurm shortens by 1024
    assert tres_count("mem=3000M", "node") == MISSING
    assert tres_count("node=", "node") == MISSING


@pytest.mark.parametrize(
    ("tres", "name", "count"),
    [
        ("cpu=64", "cpu", 64),
        ("cpu=64,node=8", "mem", MISSING),
        ("", "cpu", MISSING),
        ("cpu", "cpu", MISSING),
        ("xcpu=3,cpu=4", "cpu", 4),
        ("cpu=4,cpu=5", "cpu", 4),
        ("cpu=2k", "cpu", 2048),
        ("cpu=1.25M", "cpu", 1_310_720),
        ("cpu=1G", "cpu", 2**30),
        ("cpu=K", "cpu", MISSING),
        ("cpu=1.2.3K", "cpu", MISSING),
        ("cpu=1234567890K", "cpu", MISSING),
        ("cpu=123456K", "cpu", 126_418_944),
        ("cpu=1.5", "cpu", MISSING),
        ("cpu=a=4", "cpu", MISSING),
    ],
)
def test_a_count_of_tres(tres, name, count):
    assert tres_count(tres, name) == count


@pytest.mark.parametrize(
    ("tres", "gpus"),
    [
        ("gres/gpu=many", 0),
        ("gres/gpu:a100=many,gres/gpu:v100=1", 1),
        ("gres/gpu=1K", 1024),
        ("gres/gpu:a100=1,gres/gpu=5,gres/gpu:v100=9", 5),
    ],
)
def test_odd_counts_of_gpus(tres, gpus):
    assert tres_gpus(tres) == gpus


@pytest.mark.parametrize(
    ("gres", "gpus"),
    [
        ("gpu:a100:2,gpu:v100:1", 3),
        ("gpu:2,mps:100", 2),
        ("gpu=4", 4),
        ("gpu", 1),
        ("gpu:a100", 1),
        ("gres/gpu:1g.5gb", 1),
        ("gpu:1g.5gb:3", 3),
        ("gpu:a100,mps:100,gres:gpu:v100:2", 3),
        ("gpu:a100:", 0),
        ("gpumem", 0),
        ("gpu:9999999999999999", 0),
        ("mygpu:2", 0),
        ("gpu:2(S:0),gpu:1(IDX:0-3)", 3),
    ],
)
def test_more_of_gres(gres, gpus):
    assert gres_gpus_per_node(gres) == gpus


@pytest.mark.parametrize(
    ("tres", "gres", "nodes", "gpus"),
    [
        ("gres/gpu=16", "gpu:4", 2, 16),
        ("cpu=4", "gpu:4", 2, 8),
        ("", "gres:gpu:4", 2, 8),
        ("", "gres/gpu:a100:4", 2, 8),
        ("", "gpu:4", 0, 4),
        ("", "", 2, 0),
        ("cpu=4,gres/gpu=0", "", 2, 0),
        ("gres/gpu=1", "", 1, 1),
    ],
)
def test_gpus_in_all(tres: str, gres: str, nodes: int, gpus: int) -> None:
    assert gpus_of(tres, nodes, 1, gres, "", "") == gpus


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("4000M", 4000),
        ("16G", 16_384),
        ("62.50G", 64_000),
        ("502.93G", 515_000),
        ("1T", 1024**2),
        ("2048K", 2),
        ("100K", 1),
        ("0", 0),
        ("500", 500),
        (" 16g ", 16_384),
        ("16Gn", MISSING),
        ("", MISSING),
        ("lots", MISSING),
        ("-5M", MISSING),
        ("999999999E", MISSING),
    ],
)
def test_sizes(text, size):
    assert memory_mib(text) == size


@pytest.mark.parametrize(
    ("tres", "size"),
    [
        ("billing=4,cpu=4,gres/gpu=8,mem=4000M,node=2", 4000),
        ("cpu=64,mem=62.50G,node=8", 64_000),
        ("mem=500", 500),
        ("cpu=8,node=1", MISSING),
        ("gres/gpumem=80G,cpu=1", MISSING),
        ("", MISSING),
    ],
)
def test_memory_of_tres(tres, size):
    assert tres_memory_mib(tres) == size


@pytest.mark.parametrize(
    ("text", "nodes", "cpus", "size"),
    [
        ("4Gn", 2, 8, 8192),
        ("2Gc", 2, 8, 16_384),
        ("16G", 2, 8, 16_384),
        ("0", 2, 8, 0),
        ("0n", 2, 8, 0),
        ("0c", 2, MISSING, 0),
        ("4Gn", MISSING, 8, MISSING),
        ("2Gc", 2, 0, MISSING),
        ("16G", MISSING, MISSING, 16_384),
        ("2147486448Mn", 1, 8, 22_400),
        ("Unknown", 1, 1, MISSING),
    ],
)
def test_requested_memory(text, nodes, cpus, size):
    assert requested_mib(text, nodes, cpus) == size


def test_reqmem_shows_what_was_allocated(shared_data):
    """In a real dump from before 21.08, with marks of memory per CPU printed as numbers."""
    judged = 0
    for name in ("phillips", "pozidriv"):
        lines = gzip.decompress((shared_data / f"sacct-fixtures/xdmod/{name}.log.gz").read_bytes()).decode().split("\n")
        for line in lines:
            cells = line.split("|")
            if len(cells) < 23 or "." in cells[0] or (given := tres_memory_mib(cells[22])) == MISSING:
                continue
            assert requested_mib(cells[20], int(cells[17]), int(cells[18])) == given, line
            judged += 1
    assert judged > 10_000
