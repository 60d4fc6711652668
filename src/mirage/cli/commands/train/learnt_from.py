"""The data set that a training command uses: an existing one, or one it makes first."""

from __future__ import annotations

import os
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mirage.cli.commands.train.learning_options import LearningOptions
from mirage.cli.machine_options import MachineOptions, SimulatedMachine
from mirage.cli.options import TraceOptions, given_options, is_given
from mirage.cli.study import ExecutorOptions, WindowOptions
from mirage.cli.trace_reading import read_named_trace
from mirage.errors import ConfigurationError, quantity

if TYPE_CHECKING:
    from mirage.learn.hand_overs import HandOvers
    from mirage.provision.evaluation.episode import Scenario
    from mirage.provision.evaluation.evaluation_protocol import EvaluationProtocol
    from mirage.provision.link_size import LinkSize
    from mirage.study.executors.executor import Executor


@dataclass(slots=True)
class LearntFrom:
    """A data set and the simulated world it was made from.

    Attributes:
        trace: File of the trace; empty without one.
        machine: Options of the cluster.
        windows: Options of the windows, if no data set is given.
        where: Options of the executor.
        learning: Options of learning.
        reading: Options for reading the trace.
    """

    trace: str
    machine: MachineOptions
    windows: WindowOptions
    where: ExecutorOptions
    learning: LearningOptions
    reading: TraceOptions
    _scenario: Scenario | None = None
    _machine: SimulatedMachine | None = None

    @property
    def folder(self) -> Path:
        """Folder of the data set."""
        return Path(self.learning.data or f"{self.learning.out}.data")

    @property
    def is_compared(self) -> bool:
        """Whether the trace is known to be that of the data set."""
        return bool(self.trace) and (self.learning.data is None or self.machine.given)

    @property
    def source(self) -> str:
        """Name of the trace, or of the data set where it is not compared with the trace."""
        return Path(self.trace).name if self.is_compared else self.folder.resolve().name

    @property
    def discipline(self) -> str:
        """The queue discipline: that of a given data set, else that of the options."""
        return self.windows.queue if self.learning.data is None else str(self.manifest()["discipline"])

    @property
    def executor(self) -> Executor:
        """The executor; the folder of array jobs is next to the output."""
        return self.where.made(Path(f"{self.learning.out}.slurm"), "learn")

    def data(self, *, features: bool = True) -> HandOvers:
        """Returns the data set, made first if none was given.

        A given one is compared with the trace and the cluster, if the options describe a cluster.

        Args:
            features: Whether the features are needed, and not only the outcomes.

        Raises:
            ConfigurationError: The data set cannot be read or made, was made with another trace, cluster or option, or
                has outcomes only.
            click.UsageError: The dates of the options leave nothing to learn from, or an option would not be used.
        """
        from mirage.learn.dataset.read_data_set import read_hand_overs

        if self.learning.data is None:
            self._make()
            return read_hand_overs(self.folder)
        self._refuse_other_options()
        sizes = self.windows.link_nodes if is_given("link_nodes") else None
        if features and self.manifest().get("views") is False:
            raise ConfigurationError(
                f"{self.folder} holds outcomes only, as it was made with --labels-only; make a data set without it"
            )
        if self.is_compared:
            self._refuse_another_world()
            return read_hand_overs(self.folder, link_nodes=sizes)
        self._refuse_unused_options()
        if self.trace and not os.access(self.trace, os.R_OK) and self.trace != "-":
            raise ConfigurationError(f"{self.trace}: there is no such trace that can be read; check the path")
        return read_hand_overs(self.folder, link_nodes=sizes)

    def manifest(self) -> dict[str, Any]:
        """Returns the manifest of the data set."""
        from mirage.learn.dataset.shards import DataSetFolder

        return DataSetFolder(self.folder).manifest()

    def protocol(self) -> EvaluationProtocol:
        """Returns the protocol of the data set's windows."""
        from mirage.provision.evaluation.evaluation_protocol import EvaluationProtocol

        manifest = self.manifest()
        changes = {name: int(manifest[name]) for name in ("windows", "every_s", "step_s", "lead_in_s")}
        return EvaluationProtocol.named(str(manifest["protocol"]), int(manifest["start_s"]), **changes)

    def links(self, data: HandOvers) -> list[LinkSize]:
        """Returns a link of each size in the data."""
        from mirage.provision.link_size import LinkSize

        limits_s = dict(zip(data.link_nodes.tolist(), data.link_limit_s.tolist()))
        return [LinkSize(int(nodes), int(limit_s)) for nodes, limit_s in sorted(limits_s.items())]

    def provenance(self) -> dict[str, Any]:
        """Returns the provenance of the data, with the keys of ``mirage evaluate --json``."""
        from mirage.trace.statistics.summary import iso_utc
        from mirage.version import __version__

        manifest = self.manifest()
        return {
            "trace": self.trace if self.is_compared else None,
            "nodes": manifest["nodes"],
            "discipline": manifest["discipline"],
            "protocol": manifest["protocol"],
            "start": iso_utc(int(manifest["start_s"])),
            "windows": manifest["windows"],
            "every_s": manifest["every_s"],
            "step_s": manifest["step_s"],
            "link_user": self.protocol().link_user,
            "hand_over": self.protocol().hand_over,
            "seed": self.windows.seed,
            "version": __version__,
            "command": shlex.join(["mirage", *sys.argv[1:]]),
        }

    def simulated(self) -> SimulatedMachine:
        """Returns the cluster that the options describe."""
        if self._machine is None:
            self._machine = self.machine.machine(self.discipline)
        return self._machine

    def scenario(self) -> Scenario:
        """Returns the scenario: the cluster, its queue and the trace."""
        if self._scenario is None:
            from mirage.provision.evaluation.episode import Scenario

            simulated = self.simulated()
            table = read_named_trace(self.trace, self.reading).table
            jobs = self.machine.workload(table, simulated.cluster, self.trace)
            self._scenario = Scenario(simulated.cluster, jobs, self.discipline, simulated.settings)
        return self._scenario

    def planned(self) -> EvaluationProtocol:
        """Returns the protocol of the windows that the data set has, or will have once it is made."""
        if self.learning.data is not None:
            return self.protocol()
        table = self.scenario().jobs.table
        return self.learning.windows(self.windows, table).plan(table)

    def _refuse_other_options(self) -> None:
        """Refuses options that a data set was not made with, as it defines the windows."""
        recorded, windows = self.manifest(), self.windows
        wanted = {
            "link_limit": [windows.link_limit] * len(recorded["link_limit_s"]),
            "start": windows.start,
            "windows": windows.windows,
            "every": windows.every,
            "step": windows.step,
            "protocol": windows.protocol,
            "discipline": windows.discipline,
            "futures": self.learning.futures,
        }
        differs = [
            f"--{name.replace('_', '-')}"
            for name, value in wanted.items()
            if is_given(name) and recorded.get(_RECORDED.get(name, name)) != value
        ]
        if differs:
            raise ConfigurationError(
                f"{self.folder} was made with other values of {', '.join(differs)}, and defines the windows; leave "
                f"{'it' if len(differs) == 1 else 'them'} out, or make another data set"
            )

    def _refuse_unused_options(self) -> None:
        """Refuses options of a trace and a cluster that are not compared with the data set."""
        if unused := given_options(self.machine, self.reading):
            raise click.UsageError(
                f"with --data, {', '.join(unused)} needs TRACE and its cluster (--nodes, --processors, --slurm-conf or "
                "--cluster), to compare the data set with them; give both, or leave it out"
            )

    def _refuse_another_world(self) -> None:
        """Refuses a data set that was made with another trace, cluster or queue."""
        from mirage.learn.dataset.recipe import Recipe
        from mirage.provision.evaluation.evaluation_study import Study

        recorded = self.manifest()
        played = Recipe(Study(self.scenario(), self.protocol(), (), ()), None).manifest()
        differs = [name for name in ("trace", "cluster", "nodes", "discipline") if recorded.get(name) != played[name]]
        if not _words(recorded.get("settings")) <= _words(played["settings"]):  # newer: more of them
            differs.append("settings")
        if differs:
            raise ConfigurationError(
                f"{self.folder} was made with other values of {' and '.join(differs)}; give the options that it was "
                "made with"
            )

    def _make(self) -> None:
        """Makes the data set, or its missing part."""
        from mirage.learn.dataset.make_data_set import make_data_set
        from mirage.learn.dataset.recipe import Recipe
        from mirage.provision.evaluation.evaluate import check_windows
        from mirage.provision.evaluation.evaluation_study import Study
        from mirage.report.terminal.progress import progress_bar

        scenario, windows = self.scenario(), self.windows
        study = Study(scenario, self.planned(), tuple(windows.links()), (), windows.seed)
        check_windows(scenario, study.protocol, study.links)
        self.learning.check_dates(study.protocol.submits_s(0), int(scenario.jobs.jobs.submit_s[-1]))
        with progress_bar("windows of the data set") as progress:
            made = make_data_set(Recipe(study, self.learning.futures), self.folder, self.executor, progress)
        if made.reused < made.shards:
            click.echo(
                f"mirage: a data set of {quantity(study.protocol.windows, 'window')} is in {self.folder}", err=True
            )


_RECORDED = {"link_limit": "link_limit_s", "start": "start_s", "every": "every_s", "step": "step_s"}
"""Options whose value has another name in the manifest of a data set."""


def _words(settings: Any) -> set[str]:
    """Returns the single settings of a settings text."""
    return set(str(settings).removesuffix(")").partition("(")[2].split(", "))
