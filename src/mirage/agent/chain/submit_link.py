"""The submission of one link: its intention in the store, sbatch, and sbatch's answer in the store."""

from __future__ import annotations

from typing import Any

from mirage.agent.chain.submission import link_submission
from mirage.agent.model import Chain, EventRecord, Link, LinkState
from mirage.agent.store.protocol import Store
from mirage.errors import SlurmNotAsked, SlurmRefused
from mirage.job_state import MISSING
from mirage.slurm.backend import Backend


def submit_link(store: Store, backend: Backend, chain: Chain, link: Link, previous: Link | None, now_s: int) -> int:
    """Submit a planned link; its job, or ``MISSING`` where somebody has tried already.

    Args:
        previous: The link it follows; where that one runs, the new one is held until its end.

    Raises:
        SlurmRefused: sbatch said no; the link is as before.
        SlurmNotAsked: sbatch did not reach Slurm; the link is as before.
        SlurmUnreachable: Nothing is known; the link is to be looked for.
    """
    if not store.attempt(chain.id, link.number, now_s):
        return MISSING
    hold = previous is not None and previous.state is LinkState.RUNNING
    submission = link_submission(
        chain.spec, chain.name, link.number, previous.job if previous is not None else MISSING, hold
    )
    try:
        job = backend.submit(submission)
    except (SlurmRefused, SlurmNotAsked):
        store.change_link(chain.id, link.number, attempted_s=MISSING)
        raise
    columns: dict[str, Any] = {"job": job, "submitted_s": now_s, "state": LinkState.HELD if hold else LinkState.QUEUED}
    if not hold:
        columns["released_s"] = now_s
    event = EventRecord(chain.id, link.number, now_s, "submitted", f"job {job}" + (", held" if hold else ""))
    store.change_link(chain.id, link.number, event, **columns)
    return job
