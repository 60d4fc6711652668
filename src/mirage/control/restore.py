"""The restoration of Slurm after a controller: loans, nice values, fence and lease."""

from __future__ import annotations

from collections.abc import Iterator

from mirage.control.plan_executor import PlanExecutor, read_journal, verb_from_json
from mirage.control.verbs import FENCE, LEASE, LOAN, Verb, lost_loan
from mirage.errors import SlurmRefused
from mirage.job_state import JobState
from mirage.slurm.gpu_snapshot import all_reservations


def restore(executor: PlanExecutor) -> list[str]:
    """End all loans and undo the rest of the journal; returns what Slurm refused.

    Jobs that run on lent nodes go on there, outside of the loan: none is evicted. The loans are those that Slurm has.
    Nice values are restored from the journal, also of jobs that run: they may be requeued. Jobs that wait get their
    former size; jobs that run retain the present one, as Slurm cannot change it. The fence is removed if the
    controller made it.

    Raises:
        SlurmUnreachable: Slurm does not answer, or its answer cannot be read; run it again.
    """
    refused = []
    for verb in _undoing(executor):
        try:
            executor.send(verb)
        except SlurmRefused as error:
            refused.append(str(error))
    return refused


def _undoing(executor: PlanExecutor) -> Iterator[Verb]:
    names = {one.name for one in all_reservations(executor.slurm)}
    jobs = {one.job.id: one for one in executor.jobs()}
    for one in jobs.values():
        if one.reservation.startswith(LOAN):
            yield Verb("leave", one.job.id, one.job.submit_s)
        elif lost_loan(one.job.reason, executor.pools.owner_nodes):
            yield Verb("unhold", one.job.id, one.job.submit_s)
    for node in executor.pools.owner_nodes:
        if LOAN + node in names:
            yield Verb("return", node=node)
    rows = read_journal(executor.journal)
    restored: set[tuple[str, int]] = set()
    for row in rows:
        verb = verb_from_json(row["verb"])
        if verb.name not in ("nice", "size") or not row.get("undo") or (verb.name, verb.job) in restored:
            continue
        present = jobs.get(verb.job)
        if present is None or (present.job.submit_s != verb.submit_s and not present.restarts):
            continue  # it has ended, and perhaps its id was given to another job since
        restored.add((verb.name, verb.job))
        undo = verb_from_json(row["undo"])
        waits = present.job.state is JobState.PENDING
        if verb.name == "nice" and present.job.nice != undo.nice:
            yield undo
        if verb.name == "size" and waits and present.gpus_per_job and present.job.gpus != undo.gpus:
            yield undo
    fences = [row["verb"]["name"] for row in rows if row["verb"]["name"] in ("fence", "unfence")]
    if FENCE in names and fences[-1:] == ["fence"]:
        yield Verb("unfence")
    if LEASE in names:
        yield Verb("unlease")
