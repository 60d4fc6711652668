"""Traces brought to another size of cluster."""

from fractions import Fraction

import pytest

from mirage.errors import ConfigurationError
from mirage.job_state import MISSING
from mirage.trace.scale import scaled_nodes
from mirage.trace.table import JobTable


def test_nodes_go_to_the_nearest_and_never_below_one_and_the_rest_goes_with_them():
    table = JobTable.build(
        range(4), nodes=[128, 1024, 10, MISSING], cpus=[8192, 1024, MISSING, 5], gpus=[0, 2048, 10, 5]
    )
    found = scaled_nodes(table, Fraction(76, 4360))
    assert found.nodes.tolist() == [2, 18, 1, MISSING]  # 2.23, 17.85, 0.17
    assert found.cpus.tolist() == [128, 18, MISSING, 5]
    assert found.gpus.tolist() == [0, 36, 1, 5]
    assert scaled_nodes(table, Fraction(1)).nodes.tolist() == table.nodes.tolist()
    assert scaled_nodes(JobTable.build([0], nodes=[3]), Fraction(1, 2)).nodes.tolist() == [2]


def test_any_fraction_is_exact_and_what_no_cluster_has_is_refused():
    table = JobTable.build([0, 1], nodes=[3, 10], memory_mib=[0, 10**5])
    assert scaled_nodes(table, Fraction("1e-300")).nodes.tolist() == [1, 1]
    assert scaled_nodes(table, Fraction(1_000_000)).nodes.tolist() == [3_000_000, 10_000_000]
    for factor in (Fraction(1_000_001), Fraction("1e300")):
        with pytest.raises(ConfigurationError, match="are more than a cluster has; give the nodes of the new"):
            scaled_nodes(table, factor)
    with pytest.raises(ConfigurationError, match="are more than a cluster has"):
        scaled_nodes(JobTable.build([0], nodes=[1], memory_mib=[10**9]), Fraction(101))
