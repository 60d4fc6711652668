"""Mirage: long-running jobs kept alive on clusters run by batch schedulers.

The names in ``__all__`` are the public interface. Each is imported when it is first used, so that importing the package
costs almost nothing. All other modules are private and may change, apart from what the
examples of docs/how-to/extending.md import.
"""

from __future__ import annotations

TYPE_CHECKING = False  # typing would cost most of the import
if TYPE_CHECKING:
    from mirage.cli.check_command import check_command
    from mirage.dag.check_stage_scheduler import check_stage_scheduler
    from mirage.dag.environment import DagEnv
    from mirage.dag.simulator.dag_simulation import DagSimulation
    from mirage.errors import MirageError
    from mirage.forecast.forecaster import Forecaster
    from mirage.lab.real.lab_spec import LabSpec
    from mirage.lab.real.private_cluster import PrivateCluster
    from mirage.lab.virtual.virtual_slurm import VirtualSlurm
    from mirage.policy.check_policy import check_policy
    from mirage.policy.contract import Policy, PolicySpec
    from mirage.policy.cost import Cost
    from mirage.policy.plan import Hold, Plan, Release, Start, Submit, Wait
    from mirage.policy.policy_registry import known_policies, make_policy
    from mirage.policy.policy_settings import PolicySettings
    from mirage.policy.view import ChainView, View
    from mirage.predict.start.predictor import JobRequest, StartPredictor
    from mirage.predict.waits.check_wait_model import check_wait_model
    from mirage.predict.waits.wait_model import load_wait_model
    from mirage.provision.environment.chain_env import ChainEnv
    from mirage.provision.evaluation.episode import Scenario
    from mirage.provision.evaluation.evaluate import Evaluation, evaluate
    from mirage.provision.evaluation.evaluation_protocol import EvaluationProtocol
    from mirage.provision.link_size import LinkSize
    from mirage.schedule.check_gpu_scheduler import check_gpu_scheduler
    from mirage.schedule.engine.gpu_simulation import GpuSimulation
    from mirage.schedule.gpu_cluster import GpuCluster
    from mirage.sim.check_discipline import check_discipline
    from mirage.sim.cluster import Cluster, NodeGroup, Partition, Reservation
    from mirage.sim.disciplines.discipline_registry import DisciplineSpec, known_disciplines
    from mirage.sim.simulation import Simulation, simulate
    from mirage.sim.slurm_conf.slurm_settings import SlurmSettings
    from mirage.sim.workload import Workload, workload
    from mirage.slurm.records import Submission
    from mirage.study.executors.check_executor import check_executor
    from mirage.trace.check_trace_reader import check_trace_reader
    from mirage.trace.read_trace import read_trace
    from mirage.trace.table import JobTable
    from mirage.trace.workload.fit_workload import fit_workload
    from mirage.trace.workload.generate_workload import generate_workload
    from mirage.trace.workload.workload_json import builtin_model
    from mirage.trace.write_trace import write_trace
    from mirage.version import __version__

_MODULES = {
    "mirage.cli.check_command": "check_command",
    "mirage.dag.check_stage_scheduler": "check_stage_scheduler",
    "mirage.dag.environment": "DagEnv",
    "mirage.dag.simulator.dag_simulation": "DagSimulation",
    "mirage.errors": "MirageError",
    "mirage.study.executors.check_executor": "check_executor",
    "mirage.forecast.forecaster": "Forecaster",
    "mirage.lab.real.lab_spec": "LabSpec",
    "mirage.lab.real.private_cluster": "PrivateCluster",
    "mirage.lab.virtual.virtual_slurm": "VirtualSlurm",
    "mirage.policy.check_policy": "check_policy",
    "mirage.policy.contract": "Policy PolicySpec",
    "mirage.policy.cost": "Cost",
    "mirage.policy.plan": "Hold Plan Release Start Submit Wait",
    "mirage.policy.policy_registry": "known_policies make_policy",
    "mirage.policy.policy_settings": "PolicySettings",
    "mirage.policy.view": "ChainView View",
    "mirage.predict.start.predictor": "JobRequest StartPredictor",
    "mirage.predict.waits.check_wait_model": "check_wait_model",
    "mirage.predict.waits.wait_model": "load_wait_model",
    "mirage.provision.environment.chain_env": "ChainEnv",
    "mirage.provision.evaluation.episode": "Scenario",
    "mirage.provision.evaluation.evaluate": "Evaluation evaluate",
    "mirage.provision.evaluation.evaluation_protocol": "EvaluationProtocol",
    "mirage.provision.link_size": "LinkSize",
    "mirage.schedule.check_gpu_scheduler": "check_gpu_scheduler",
    "mirage.schedule.engine.gpu_simulation": "GpuSimulation",
    "mirage.schedule.gpu_cluster": "GpuCluster",
    "mirage.sim.check_discipline": "check_discipline",
    "mirage.sim.cluster": "Cluster NodeGroup Partition Reservation",
    "mirage.sim.disciplines.discipline_registry": "DisciplineSpec known_disciplines",
    "mirage.sim.simulation": "Simulation simulate",
    "mirage.sim.slurm_conf.slurm_settings": "SlurmSettings",
    "mirage.sim.workload": "Workload workload",
    "mirage.slurm.records": "Submission",
    "mirage.trace.check_trace_reader": "check_trace_reader",
    "mirage.trace.read_trace": "read_trace",
    "mirage.trace.table": "JobTable",
    "mirage.trace.workload.fit_workload": "fit_workload",
    "mirage.trace.workload.generate_workload": "generate_workload",
    "mirage.trace.workload.workload_json": "builtin_model",
    "mirage.trace.write_trace": "write_trace",
    "mirage.version": "__version__",
}
"""The public names of each module."""

_HOMES = {name: module for module, names in _MODULES.items() for name in names.split()}

__all__ = [
    "ChainEnv",
    "ChainView",
    "Cluster",
    "Cost",
    "DagEnv",
    "DagSimulation",
    "DisciplineSpec",
    "Evaluation",
    "EvaluationProtocol",
    "Forecaster",
    "GpuCluster",
    "GpuSimulation",
    "Hold",
    "JobRequest",
    "JobTable",
    "LabSpec",
    "LinkSize",
    "MirageError",
    "NodeGroup",
    "Partition",
    "Plan",
    "Policy",
    "PolicySettings",
    "PolicySpec",
    "PrivateCluster",
    "Release",
    "Reservation",
    "Scenario",
    "Simulation",
    "SlurmSettings",
    "Start",
    "StartPredictor",
    "Submission",
    "Submit",
    "View",
    "VirtualSlurm",
    "Wait",
    "Workload",
    "__version__",
    "builtin_model",
    "check_command",
    "check_discipline",
    "check_executor",
    "check_gpu_scheduler",
    "check_policy",
    "check_stage_scheduler",
    "check_trace_reader",
    "check_wait_model",
    "evaluate",
    "fit_workload",
    "generate_workload",
    "known_disciplines",
    "known_policies",
    "load_wait_model",
    "make_policy",
    "read_trace",
    "simulate",
    "workload",
    "write_trace",
]


def __getattr__(name: str) -> object:
    """Imports a public name when it is first used."""
    if name not in _HOMES:
        raise AttributeError(f"module 'mirage' has no public name {name!r}; see mirage.__all__")
    from importlib import import_module

    found: object = getattr(import_module(_HOMES[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
