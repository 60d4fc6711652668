"""Ahead-of-time compilation of the DAG kernels: engine, schedulers, networks, trees."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec

from mirage.dag.schedulers.stage_schedulers import SCHEDULERS, make_scheduler
from mirage.extras import install

TRAINING = "mirage.dag.decima.training.rollouts"


def left_out() -> str:
    """The kernels that are not compiled, with the reason; empty if all are."""
    return "" if find_spec("torch") else f"mirage train decima, which needs torch: {install('learn')}"


def use() -> None:
    """Compiles all kernels: imports their modules and runs a tiny episode."""
    modules = [spec.entry.partition(":")[0] for spec in SCHEDULERS.values()]
    for module in (*modules, "mirage.dag.decima.deciders", *(() if left_out() else (TRAINING,))):
        import_module(module)

    from mirage.dag.compare.makespan_bound import makespan_bound_s
    from mirage.dag.distilled.decisions import Teacher, decisions_of
    from mirage.dag.simulator.dag_simulation import DagSimulation
    from mirage.dag.simulator.dag_world import DagCluster
    from mirage.dag.simulator.observation import observe
    from mirage.dag.workload.dag_arrivals import batch_arrivals
    from mirage.dag.workload.generated import generated_templates

    templates, cluster = generated_templates(), DagCluster(2)
    simulation = DagSimulation(templates, batch_arrivals(1, 0), cluster)
    fifo, tree = make_scheduler("fifo"), make_scheduler("tree")
    observe(simulation.world, simulation.state)
    decisions_of(Teacher(fifo), [simulation.world], states_of=fifo, tree=tree)
    makespan_bound_s(simulation.world)
    simulation.run(fifo.decider, fifo.parameters)
