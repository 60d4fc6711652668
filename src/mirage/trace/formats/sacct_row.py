"""Conversion of one row of ``sacct -P`` to one job, for any fields and version."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from mirage.duration import HOUR_S, UNLIMITED_S, parse_duration_s
from mirage.errors import ConfigurationError, LineError
from mirage.job_state import MISSING
from mirage.slurm_words.absent import is_absent
from mirage.slurm_words.hostlist import count_hosts
from mirage.slurm_words.numbers import count_or_missing
from mirage.slurm_words.states import UNHEARD_STATE, is_known_state, job_state, true_lifetime_s
from mirage.slurm_words.time_limits import is_no_limit, limit_in_minutes_s
from mirage.slurm_words.timestamps import LocalClock
from mirage.slurm_words.tres import gres_gpus_per_node, requested_mib, tres_count, tres_gpus, tres_memory_mib
from mirage.trace.formats.field_shapes import JOB_ID
from mirage.trace.formats.table_builder import JobRecord

HOSTS_DIFFER = "row whose node list and NNodes differ (NNodes kept)"
OVER_THE_HOUR = "job over the hour in which summer time begins or ends (its run time is Elapsed)"
UNSPLIT_ARRAY = "array of several tasks that is not yet split (read as one job)"
BAD_HOSTLIST = "row with a node list that cannot be read"


def names_tasks(job_id: str) -> bool:
    """Whether an identifier is that of several tasks of an array: ``123_[1-3]``."""
    return "[" in job_id and not {",", "-"}.isdisjoint(job_id)


class RowParser:
    """Converts the cells of a row to a record.

    Args:
        fields: The names of the columns, as in ``sacct -o``; a width (``JobName%50``) is ignored.
        clock: Reads local times.
        notes: Counts readable but unusual rows.

    Attributes:
        clusters: The clusters of the jobs that were converted; empty text where the field is absent.
    """

    def __init__(self, fields: Sequence[str], clock: LocalClock, notes: Counter[str]) -> None:
        self.names = [field.partition("%")[0].strip().lower() for field in fields]
        self.width = len(self.names)
        self.at = {name: column for column, name in reversed(list(enumerate(self.names)))}
        self.clusters: set[str] = set()
        self.id_column = self.at["jobid"] if "jobid" in self.at else self.at["jobidraw"]
        self._clock = clock
        self._notes = notes

    def is_step(self, cells: Sequence[str]) -> bool:
        """Whether the row is a step of a job (``123.batch``), not a job.

        Raises:
            LineError: The identifier is not one of Slurm's.
        """
        identifier = cells[self.id_column].strip()
        match = JOB_ID.fullmatch(identifier)
        if match is None:
            raise LineError("not a job id", repr(identifier), "expected 123, 123_4, 123_[1-3] or 123+0")
        return match["step"] is not None

    def job(self, cells: Sequence[str]) -> JobRecord:
        """Returns the job of a row.

        Raises:
            LineError: A time, a duration or a number cannot be read.
        """
        self.clusters.add(self._text(cells, "cluster").strip())
        state = job_state(self._text(cells, "state"))
        submit_s, eligible_s, start_s, end_s = (
            self._clock.seconds(self._text(cells, name)) for name in ("submit", "eligible", "start", "end")
        )
        elapsed_s = self._elapsed_s(cells)
        hosts = self._text(cells, "nodelist") if "nodelist" in self.at else None
        start_s, end_s = true_lifetime_s(state, start_s, end_s, elapsed_s, hosts, self._notes)
        if min(start_s, end_s) >= 0 < elapsed_s and abs(end_s - start_s - elapsed_s) == HOUR_S:
            start_s, end_s = self._clock.with_elapsed(start_s, end_s, elapsed_s)
            self._notes[OVER_THE_HOUR] += 1
        if not is_known_state(self._text(cells, "state")):
            self._notes[UNHEARD_STATE] += 1
        if names_tasks(job_id := cells[self.id_column].strip()):
            self._notes[UNSPLIT_ARRAY] += 1
        nodes, cpus = self._nodes(cells), self._cpus(cells)
        return JobRecord(
            job_id=job_id,
            submit_s=submit_s,
            eligible_s=eligible_s,
            start_s=start_s,
            end_s=end_s,
            elapsed_s=elapsed_s,
            limit_s=self._limit_s(cells),
            nodes=nodes,
            gpus=self._gpus(cells, nodes),
            cpus=cpus,
            memory_mib=self._memory_mib(cells, nodes, cpus),
            priority=self._number(cells, "priority"),
            state=state,
            user=self._text(cells, "user") or self._text(cells, "uid"),
            account=self._text(cells, "account"),
            partition=self._text(cells, "partition"),
            qos=self._text(cells, "qos"),
            name=self._text(cells, "jobname"),
            dependency=self._text(cells, "dependency"),
        )

    def _text(self, cells: Sequence[str], name: str) -> str:
        column = self.at.get(name)
        return "" if column is None else cells[column]

    def _number(self, cells: Sequence[str], *names: str) -> int:
        """Returns the first number in several fields; ``MISSING`` if there is none."""
        for name in names:
            text = self._text(cells, name).strip()
            if (number := count_or_missing(text)) != MISSING:
                return number
            if not is_absent(text):
                raise LineError("not a number", f"{name} is {text!r}", "check the fields and their order")
        return MISSING

    def _duration_s(self, text: str, name: str) -> int:
        try:
            seconds = parse_duration_s(text)
        except (ConfigurationError, ValueError, OverflowError):  # the last two for thousands of digits
            seconds = -1
        if not 0 <= seconds <= UNLIMITED_S:
            raise LineError("not a duration", f"{name} is {text!r}", "Slurm writes 2-00:00:00")
        return seconds

    def _elapsed_s(self, cells: Sequence[str]) -> int:
        seconds = self._number(cells, "elapsedraw")
        text = self._text(cells, "elapsed").strip()
        if seconds >= 0 or is_no_limit(text):
            return seconds
        return self._duration_s(text, "Elapsed")

    def _limit_s(self, cells: Sequence[str]) -> int:
        text = self._text(cells, "timelimit").strip()
        if not is_no_limit(text):
            return self._duration_s(text, "Timelimit")
        minutes = self._text(cells, "timelimitraw").strip()
        if is_no_limit(minutes):
            return MISSING
        if (limit_s := limit_in_minutes_s(minutes)) == MISSING:
            raise LineError("not a number", f"timelimitraw is {minutes!r}", "check the fields and their order")
        return limit_s

    def _nodes(self, cells: Sequence[str]) -> int:
        """``NNodes``, else the hosts of the node list, else the requested nodes."""
        reported = self._number(cells, "nnodes", "allocnodes")
        try:
            hosts = count_hosts(self._text(cells, "nodelist"))
        except ValueError:
            self._notes[BAD_HOSTLIST] += 1
            hosts = 0
        if reported > 0:
            self._notes.update([HOSTS_DIFFER] if hosts not in (0, reported) else [])
            return reported
        if hosts:
            return hosts
        listed = [tres_count(self._text(cells, name), "node") for name in ("alloctres", "reqtres")]
        return next((n for n in (*listed, self._number(cells, "reqnodes"), reported) if n >= 0), MISSING)

    def _cpus(self, cells: Sequence[str]) -> int:
        reported = self._number(cells, "ncpus", "alloccpus", "reqcpus")
        listed = [tres_count(self._text(cells, name), "cpu") for name in ("alloctres", "reqtres")]
        return reported if reported > 0 else next((n for n in (*listed, reported) if n >= 0), MISSING)

    def _memory_mib(self, cells: Sequence[str], nodes: int, cpus: int) -> int:
        """Memory of all nodes together, allocated or else requested."""
        listed = (tres_memory_mib(self._text(cells, name)) for name in ("alloctres", "reqtres"))
        reported = next((size for size in listed if size >= 0), MISSING)
        return reported if reported >= 0 else requested_mib(self._text(cells, "reqmem"), nodes, cpus)

    def _gpus(self, cells: Sequence[str], nodes: int) -> int:
        """GPUs allocated, else requested; the GRES fields of old versions count per node."""
        for name in ("alloctres", "reqtres"):
            if (gpus := tres_gpus(self._text(cells, name))) >= 0:
                return gpus
        for name in ("allocgres", "reqgres"):
            if gres := self._text(cells, name):
                return gres_gpus_per_node(gres) * max(nodes, 1)
        return MISSING
