"""The submission of one link: the user's options and what the agent adds to them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from mirage.agent.chain.stored_chain import folder_of_scripts
from mirage.agent.chain.tag import Tag
from mirage.agent.model import Chain
from mirage.job_state import MISSING
from mirage.slurm.records import Submission

CHAIN, LINK, PREVIOUS_JOB, TAG = "MIRAGE_CHAIN", "MIRAGE_LINK", "MIRAGE_PREVIOUS_JOB", "MIRAGE_TAG"
READY_AFTER = "MIRAGE_READY_AFTER"
"""Seconds after a job's start from which on its ready mark does not count; not set where it always counts."""

HOME = "MIRAGE_HOME"
FIRST_LINK_ONLY = ("dependency", "begin", "deadline")
"""Options that a user means for the beginning of the chain, not for each of its links.

In a script they are taken out of the copy that the later links run: sbatch has no value for ``--deadline`` that would
mean none.
"""

_NOTHING = frozenset({"none", "nil"})


def link_submission(
    chain: Chain, store: str, number: int, previous_job: int, hold: bool, folder: Path | None = None
) -> Submission:
    """The submission of a link.

    Args:
        store: Identity of the chain's store.
        previous_job: ``MISSING`` for the first link.
        hold: Whether it waits for the end of the previous one.
        folder: The agent's folder now; None for that of the chain's submission.

    Raises:
        ScriptGone: The copy of the script is missing.
    """
    spec, submission = chain.spec, chain.spec.submission
    options, script = dict(submission.options), submission.script
    tag = Tag(chain.name, number, store, chain.key)
    own = {CHAIN: chain.name, LINK: str(number), TAG: str(tag)}
    if not (spec.ready_by_job or spec.ready_command):
        own[READY_AFTER] = str(spec.warmup_s)
    if number > 1:
        script = spec.later_script or script
        for name in (*FIRST_LINK_ONLY, "verbose"):
            options.pop(name, None)
    if spec.folder:
        found = folder_of_scripts(chain, script, folder)
        script = str(found / script)
        if Path(submission.environment.get(HOME, "")) == Path(spec.folder):
            own[HOME] = str(found)
    if previous_job != MISSING:
        own[PREVIOUS_JOB] = str(previous_job)
    if hold:
        options["dependency"] = f"afterany:{previous_job}"
    if spec.slurm_warning_s:
        options["signal"] = f"B:{spec.signal}@{spec.slurm_warning_s}"
    options["comment"] = str(replace(tag, rest=options.get("comment") or ""))
    exported = {name: value for name, value in own.items() if name != HOME}
    options |= _export(options.get("export") or submission.environment.get("SBATCH_EXPORT", ""), exported)
    return replace(submission, script=script, options=options, environment={**submission.environment, **own})


def _export(wanted: str, own: dict[str, str]) -> dict[str, str | None]:
    """The ``--export`` option that passes our variables to the job with the user's.

    A list of names loads the user's environment on the node as NONE does; ``--get-user-env`` in addition would make the
    job lose the limits of the submitting shell (22.05).
    """
    if not wanted or wanted.upper() == "ALL":
        return {}
    return {"export": ",".join(own if wanted.lower() in _NOTHING else [wanted, *own])}
