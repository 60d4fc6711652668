"""The submission of one link: the user's options and what the agent adds to them."""

from __future__ import annotations

from dataclasses import replace

from mirage.agent.chain.tag import Tag
from mirage.agent.model import Chain
from mirage.job_state import MISSING
from mirage.slurm.values import Submission

CHAIN, LINK, PREVIOUS_JOB, TAG = "MIRAGE_CHAIN", "MIRAGE_LINK", "MIRAGE_PREVIOUS_JOB", "MIRAGE_TAG"
FIRST_LINK_ONLY = ("dependency", "begin", "deadline")
"""Options that a user means for the beginning of the chain, not for each of its links."""

_NOTHING = frozenset({"none", "nil"})


def link_submission(chain: Chain, store: str, number: int, previous_job: int, hold: bool) -> Submission:
    """The submission of a link.

    Args:
        store: Identity of the chain's store.
        previous_job: ``MISSING`` for the first link.
        hold: Whether it is to wait for the end of the previous one.
    """
    asked = chain.spec.submission
    options = dict(asked.options)
    tag = Tag(chain.name, number, store, chain.key)
    own = {CHAIN: chain.name, LINK: str(number), TAG: str(tag)}
    if number > 1:
        for name in FIRST_LINK_ONLY:
            options.pop(name, None)
    if previous_job != MISSING:
        own[PREVIOUS_JOB] = str(previous_job)
    if hold:
        options["dependency"] = f"afterany:{previous_job}"
    options["comment"] = str(replace(tag, rest=options.get("comment") or ""))
    options |= _export(options.get("export") or asked.environment.get("SBATCH_EXPORT", ""), own)
    return replace(asked, options=options, environment={**asked.environment, **own})


def _export(wanted: str, own: dict[str, str]) -> dict[str, str | None]:
    """The ``--export`` option that hands our variables to the job beside the user's."""
    if not wanted or wanted.upper() == "ALL":
        return {}
    if wanted.lower() in _NOTHING:
        extra: dict[str, str | None] = {"get-user-env": None} if wanted.lower() == "none" else {}
        return {"export": ",".join(own), **extra}
    return {"export": ",".join([wanted, *own])}
