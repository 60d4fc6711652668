"""Prediction of a wait from accounting alone, by a model of queue waits, and its output."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from mirage.duration import DAY_S
from mirage.job_state import MISSING

if TYPE_CHECKING:
    from mirage.cli.commands.predict.cluster_now import ClusterNow
    from mirage.cli.commands.predict.requested_job import RequestedJob
    from mirage.predict.waits.wait_model_registry import WaitPredictor
    from mirage.slurm.text.requested_size import RequestedSize
    from mirage.trace.table import JobTable

READ_BACK_S = 7 * DAY_S
"""Period of accounting to read, in seconds: the slowest feature of a model has a half-life of three days."""


@dataclass(frozen=True, slots=True)
class WaitsByAccounts:
    """The wait that a model predicts.

    Attributes:
        model: The model as requested: a file, or a name.
        waits_s: Shape (levels,), quantiles of the wait.
    """

    model: str
    waits_s: tuple[float, ...]

    def record(self) -> dict[str, Any]:
        """Returns a JSON object, with waits in seconds."""
        from mirage.cli.commands.predict.reported_prediction import ranges_record

        return {"model": self.model, **ranges_record(self.waits_s)}

    def line(self) -> str:
        """Returns a readable line."""
        from mirage.predict.start.quantile_levels import MEDIAN, ends
        from mirage.report.terminal.prediction_text import wait_text

        middle, low, high = (wait_text(self.waits_s[k]) for k in (MEDIAN, *ends(0.8)))
        return f"  {'accounts':<8} in {middle}, 80 % {low} ... {high}   by {self.model}, without the queue"


@dataclass(frozen=True, slots=True)
class AccountsModel:
    """A model of queue waits and its name, or its file."""

    path: str
    model: WaitPredictor

    @classmethod
    def of(cls, path: str) -> Self:
        """Makes the model of a name, or loads that of a file.

        Raises:
            UnknownName: There is no such model.
            ConfigurationError: The model cannot be used, or the extra ``predict`` is not installed.
            ModelFileError: The file is absent, damaged, foreign, of another kind or newer.
        """
        from mirage.predict.waits.wait_model_registry import make_wait_model

        return cls(path, make_wait_model(path))

    def waits(self, now: ClusterNow, requested: RequestedJob, size: RequestedSize) -> WaitsByAccounts:
        """Returns the wait of a job submitted now.

        Raises:
            SlurmError: Accounting gave no answer, or refused it.
        """
        from mirage.predict.start.quantile_levels import LEVELS
        from mirage.slurm_words.timestamps import LocalClock
        from mirage.trace.formats.read_report import ReadTally
        from mirage.trace.formats.sacct_text import read_sacct

        now_s = now.queue.time_s
        text = now.client.history(now_s - READ_BACK_S, now_s)
        accounts = read_sacct(text.encode(), ReadTally("sacct", "skip"), LocalClock("UTC"), None)
        waits_s = self.model.waits_of_next_s(accounts, _as_row(accounts, now, requested, size), LEVELS)
        waits_s = waits_s + now.delay_s(size)
        return WaitsByAccounts(self.path, tuple(waits_s.round().tolist()))


def _as_row(accounts: JobTable, now: ClusterNow, requested: RequestedJob, size: RequestedSize) -> JobTable:
    """Returns the job as an accounting row; missing fields are those of the user's last job."""
    from mirage.trace.table import JobTable

    user = now.client.user
    own = accounts[np.array([name == user for name in accounts.user.values()], dtype=bool)].sorted_by_submit()
    last = {name: getattr(own, name).values()[-1] if len(own) else "" for name in ("account", "qos")}
    here = [node for node in now.machine.nodes if size.partitions[0] in node.partitions]
    cpus = size.cpus if size.cpus >= 0 else max((node.cpus for node in here), default=MISSING)
    gpus = size.gpus if size.gpus >= 0 else max((node.gpus for node in here), default=MISSING)
    return JobTable.build(
        ["next"], submit_s=[now.queue.time_s], limit_s=[size.limit_s], nodes=[size.nodes],
        cpus=[cpus * size.nodes], gpus=[gpus * size.nodes], user=[user], partition=[size.partitions[0]],
        account=[requested.given.get("account") or last["account"]], qos=[requested.given.get("qos") or last["qos"]],
    )  # fmt: skip
