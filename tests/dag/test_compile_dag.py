"""What is compiled ahead for jobs made of stages is all that their schedulers need."""

from __future__ import annotations

import pytest

from tests.support.compiled_ahead import further_kernels

PLAY = """
from importlib.util import find_spec
from mirage.dag.compare.makespan_bound import makespan_bound_s
from mirage.dag.schedulers.stage_schedulers import SCHEDULERS, make_scheduler
from mirage.dag.simulator.observation import observe
from mirage.dag.simulator.dag_simulation import DagSimulation
from mirage.dag.simulator.dag_world import DagCluster
from mirage.dag.workload.dag_arrivals import batch_arrivals
from mirage.dag.workload.generated import generated_templates
if find_spec("torch"):
    import mirage.dag.decima.training.rollouts
for name in SCHEDULERS:
    if "decima" in name and find_spec("safetensors") is None:
        continue
    scheduler = make_scheduler(name + ":own" if "decima" in name else name)
    simulation = DagSimulation(generated_templates(), batch_arrivals(2, 1), DagCluster(5))
    makespan_bound_s(simulation.world)
    simulation.advance()
    observe(simulation.world, simulation.state)
    simulation.run(scheduler.decider, scheduler.parameters_for(1))
"""


@pytest.mark.slow
def test_no_scheduler_needs_a_kernel_beyond_those_compiled_ahead() -> None:
    assert further_kernels("dag", PLAY) == "further kernels:"
