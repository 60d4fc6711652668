"""The result of a calibration: the fitted world, its fidelity, and its cluster file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from mirage.calibration.declared_settings import DeclaredSettings
from mirage.calibration.fidelity.judge_fidelity import Fidelity
from mirage.calibration.fit_mechanisms import OnTry, TraceSlice, counted, fit, replays_at_most
from mirage.calibration.held_back import HeldBackEffect, held_back_effects, replays_to_divide
from mirage.calibration.inferred.think_times import ThinkTimes
from mirage.calibration.mechanism_shares import ALL, MechanismFidelity, WaitCauseShares, shares, waits
from mirage.calibration.mechanisms import Mechanisms, Site
from mirage.sim.slurm_conf.cluster_file import ClusterFile, Users


@dataclass(frozen=True, slots=True)
class Calibration:
    """A cluster fitted to one slice of its trace and judged on the next.

    Attributes:
        trace: Name of the trace.
        declared: Declared settings of the cluster.
        site: Facts known about it otherwise.
        best: The fitted mechanisms.
        fitted: The slice that was fitted to.
        after: The slice that it is judged on.
        rows: The fidelity with nothing fitted, with all mechanisms, and without each.
        waited: Causes of waits of the jobs in the fitted slice and in the one after it.
        users: Number of jobs of the fitted slice that react to another job, and the number expected by chance.
        held_back: Effects of mechanisms on slices held back from the fitted slice; empty if it is too short to divide.
    """

    trace: str
    declared: DeclaredSettings
    site: Site
    best: Mechanisms
    fitted: TraceSlice
    after: TraceSlice
    rows: tuple[MechanismFidelity, ...]
    waited: tuple[WaitCauseShares, WaitCauseShares]
    users: ThinkTimes
    held_back: tuple[HeldBackEffect, ...] = ()

    @classmethod
    def of(
        cls,
        trace: str,
        declared: DeclaredSettings,
        site: Site,
        slices: tuple[TraceSlice, TraceSlice],
        on_try: OnTry | None = None,
    ) -> Calibration:
        """Fits a site to the first slice, and judges it on the second.

        Mechanisms that make slices worse that are held back from the first one are left out.

        Args:
            trace: Name of the trace.
            declared: Declared settings of the cluster.
            site: Facts known about it.
            slices: The slice to fit to, and the slice to judge on.
            on_try: See ``fit``.
        """
        before = replays_to_divide(site, slices[0])
        most = before + replays_at_most(site, slices[0])
        effects = held_back_effects(site, slices[0], counted(on_try, 0, most))
        left_out = [one.name for one in effects if one.left_out]
        best = fit(site, slices[0], counted(on_try, before, most), left_out=left_out)
        rows = tuple(shares(site, best, *slices))
        waited = (waits(site, best, slices[0]), waits(site, best, slices[1]))
        users = ThinkTimes.of(slices[0].within(site.jobs))
        return cls(trace, declared, site, best, *slices, rows, waited, users, effects)

    def row(self, name: str) -> MechanismFidelity:
        """Returns the fidelity of one choice of mechanisms."""
        return next(row for row in self.rows if row.name == name)

    @property
    def whole(self) -> MechanismFidelity:
        """The fidelity with all mechanisms."""
        return self.row(ALL)

    def to_json(self) -> dict[str, Any]:
        """Returns plain values, instants as ``datetime``, for JSON and for a cluster file."""
        chosen = {name: value for name, value in asdict(self.best).items() if value is not None}
        declared_by = {"scheduler": self.declared.by} | ({"qos": self.declared.qos_by} if self.declared.qos else {})
        declared_by |= {"associations": self.declared.associations_by} if self.declared.associations else {}
        return {
            "trace": self.trace,
            "declared_by": declared_by,
            "fitted_from": _instant(self.fitted.from_s),
            "fitted_until": _instant(self.fitted.until_s),
            "judged_until": _instant(self.after.until_s),
            "mechanisms": chosen,
            "answers": asdict(self.users),
            "held_back": {one.name: _known(asdict(one)) for one in self.held_back},
            "fidelity": {
                row.name: {which: _figures(getattr(row, which)) for which in ("fitted", "judged")} for row in self.rows
            },
            "waits": {
                which: {name: value for name, value in asdict(found).items() if value is not None}
                for which, found in zip(("fitted", "judged"), self.waited)
            },
        }

    def cluster_file(self, facts: Mapping[str, Any]) -> ClusterFile:
        """Returns the fitted world as a cluster file.

        Args:
            facts: Facts about the calibration, such as the result of ``to_json``.
        """
        sources = {
            "group": "nodes in use over time",
            "scheduler": f"{self.declared.by}; weights fitted",
            "calibration": "mirage calibrate",
        }
        if self.best.think_time_s:
            sources["users"] = "mirage calibrate, as replays came closer with it"
        if self.declared.qos is not None:
            sources["qos"] = sources["limit"] = self.declared.qos_by
        if self.site.age_limits:
            sources["limit"] = " and ".join(filter(None, (sources.get("limit"), self.declared.associations_by)))
        site, best = self.site, self.best
        return ClusterFile(site.cluster(best), site.scheduler(best), sources, facts, Users(best.think_time_s))


def _known(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None and name != "name"}


def _figures(found: Fidelity) -> dict[str, Any]:
    figures = {
        "jobs": found.counts.compared,
        "moving_average_mape": found.moving_average.mape,
        "rank_correlation": found.rank_correlation.value,
        "pearson": found.pearson.value,
        "recorded_mean_wait_s": found.recorded_wait_s.mean,
        "simulated_mean_wait_s": found.simulated_wait_s.mean,
    }
    return {name: value for name, value in figures.items() if value is not None}


def _instant(instant_s: int) -> datetime:
    return datetime.fromtimestamp(instant_s, UTC)
