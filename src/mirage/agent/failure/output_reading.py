"""The files of ended links, read in threads: output of failed ones, and progress.

A file system that hangs must not delay the agent: a cycle waits for an output for a moment only, and a later cycle
uses it. In the output of a link's batch script, known patterns and a user's own ones are searched.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from mirage.agent.chain.submission import effective_options, script_of
from mirage.agent.cycle.context import CycleContext
from mirage.agent.cycle.retries import BROKEN, NO_FAULT, failed_soon, pause, way_on
from mirage.agent.cycle.transitions import AT_THE_LIMIT_S, SLURM_EARLY_S, is_last
from mirage.agent.failure.job_output import output_files
from mirage.agent.failure.log_patterns import (
    FailureCause,
    Verdict,
    builtin_patterns,
    find_cause,
    read_patterns,
    tail_of,
)
from mirage.agent.failure.node_exclusion import exclude
from mirage.agent.failure.training_progress import TrainingProgress, read_progress, stands_still
from mirage.agent.model import Chain, ChainState, Link
from mirage.agent.settings import AgentSettings
from mirage.daemon_threads import answer_in_thread, answer_of
from mirage.errors import ConfigurationError, MirageError
from mirage.job_state import MISSING, JobState
from mirage.slurm_words.hostlist import expand_hosts

OWN_PATTERNS = "log-patterns.toml"
"""Name of a user's patterns in the agent's folder."""

FOUND, UNKNOWN = "cause-found", "cause-unknown"
NO_PROGRESS, NO_PROGRESS_KNOWN = "no-progress", "progress-unknown"
"""Kinds of events."""

GIVE_UP_S = 60.0
"""Real seconds after which the output of a link is given up."""


@dataclass(frozen=True, slots=True)
class OutputSearch:
    """The result of a search in the output of a link.

    Attributes:
        cause: None where none is known.
        detail: Without a cause: where it was searched, or what prevented that.
        progress: The progress of the chain; None where it is not known.
    """

    cause: FailureCause | None = None
    detail: str = ""
    progress: TrainingProgress | None = None


@dataclass(slots=True)
class OutputReadings:
    """The outputs of failed links that are read at present.

    Attributes:
        folder: The agent's folder, with the user's own patterns.
        patience_s: Real time that a cycle waits for an output.
        at_once: Maximum number of outputs that are read at the same time.
        real_s: Clock of real seconds.
        under_way: By chain and link: the link, the begin in real seconds, and the answer.
    """

    folder: Path
    patience_s: float = 1.0
    at_once: int = 8
    real_s: Callable[[], float] = time.monotonic
    under_way: dict[tuple[int, int], tuple[Link, float, Future[OutputSearch]]] = field(default_factory=dict)

    def update(self, context: CycleContext, chain: Chain, ended: Sequence[Link]) -> Chain:
        """The chain after the outputs of its failed links were read, as far as they answer.

        Args:
            ended: Links that have ended since the last cycle.

        Raises:
            SlurmUnreachable: No answer about the waiting link.
        """
        for link in ended:
            if is_failure(chain, link, context.settings) or counts_for_progress(chain, link):
                self._begin(context, chain, link)
        for key in [key for key in self.under_way if key[0] == chain.id]:
            link, begun_s, answer = self.under_way[key]
            if answer.done():
                del self.under_way[key]
                chain = _follow(context, chain, link, answer.result())
            elif self.real_s() - begun_s >= GIVE_UP_S:
                del self.under_way[key]
                chain = _follow(context, chain, link, OutputSearch(detail=f"no answer within {GIVE_UP_S:g} s"))
        return chain

    def wait(self, patience_s: float) -> set[int]:
        """Wait some real seconds for the outputs under way; the chains with an answer."""
        wait([answer for _, _, answer in self.under_way.values()], patience_s)
        return {chain for (chain, _), (_, _, answer) in self.under_way.items() if answer.done()}

    def _begin(self, context: CycleContext, chain: Chain, link: Link) -> None:
        job = context.job_of(chain, link)
        name = job.name if job is not None else ""
        failed = is_failure(chain, link, context.settings)
        by_signal = failed_soon(link, context.settings) and not link.exit_code
        work = partial(
            read_files, chain, link, self.folder, context.backend.user, name, failed=failed, by_signal=by_signal
        )
        hangs = bool(self.under_way)
        if len(self.under_way) >= self.at_once:
            none = OutputSearch(detail=f"{self.at_once} other outputs do not answer")
            answer = answer_of(lambda: none)
        else:
            answer = answer_in_thread(partial(_answer, work), "output")
            wait([answer], 0.0 if hangs else self.patience_s)
        self.under_way[chain.id, link.number] = link, self.real_s(), answer


def _answer(work: Callable[[], OutputSearch]) -> OutputSearch:
    try:
        return work()
    except MirageError as error:
        return OutputSearch(detail=str(error))
    except OSError as error:
        return OutputSearch(detail=f"cannot read {error.filename}: {error.strerror}")
    except Exception as error:  # one chain's affair
        return OutputSearch(detail=f"a fault of Mirage: {type(error).__name__}: {error}")


def is_failure(chain: Chain, link: Link, settings: AgentSettings) -> bool:
    """Whether a link ended by itself before its time.

    It had a bad exit, or ended soon after its start.

    An exit close to the limit is a drain: the job may have had a signal from Slurm.
    """
    if link.finished or not MISSING == link.signalled_s == link.cancelled_s != link.started_s:
        return False
    drain_s = max(AT_THE_LIMIT_S, chain.spec.slurm_warning_s + SLURM_EARLY_S)
    soon = link.ended_s - link.started_s <= settings.early_end_s(link.limit_s)
    drained = link.ended_s >= link.limit_ends_s - drain_s
    if link.outcome is JobState.COMPLETED:
        return soon and not chain.spec.until_done
    return link.outcome in BROKEN and (soon or not drained)


def counts_for_progress(chain: Chain, link: Link) -> bool:
    """Whether a link that has ended should have made progress that can be read."""
    return bool(chain.spec.progress_file) and link.started_s != MISSING and link.outcome not in NO_FAULT


def read_files(
    chain: Chain, link: Link, folder: Path, user: str, name: str, *, failed: bool, by_signal: bool
) -> OutputSearch:
    """The progress after a link, and the cause of its end in the output of its batch script.

    Args:
        folder: The agent's folder.
        user: The user of the job.
        name: The name of the job; empty where it is not known.
        failed: Whether the link has failed, so that its output is searched.
        by_signal: Whether it failed soon and without an exit code, as where Slurm cannot open its output.

    Raises:
        ConfigurationError: The user's own patterns are not valid.
        ScriptGone: The copy of the script is missing.
        OSError: It cannot be read.
    """
    submission, progress = chain.spec.submission, None
    if counts_for_progress(chain, link):
        progress = read_progress(chain.spec.progress_file, submission.directory)
    if not failed:
        return OutputSearch(progress=progress)
    script = script_of(chain, link.number, folder)
    options = effective_options(submission, script.read_bytes())
    hosts = expand_hosts(link.nodelist)
    name = name or options.get("job-name") or script.name
    files = output_files(options, submission.directory, link.job, name=name, user=user, hosts=hosts)
    try:
        patterns, trouble = read_patterns(folder / OWN_PATTERNS), ""
    except ConfigurationError as error:
        patterns, trouble = builtin_patterns(), f"; only the built-in patterns count: {error}"
    tails = [tail for file in files if (tail := tail_of(file, link.started_s)) is not None]
    listed = " and ".join(map(str, files))
    missing = dict.fromkeys(file.parent for file in files if not file.parent.is_dir())
    absent = [f"there is no folder {folder} here, and Slurm makes none" for folder in missing]
    if by_signal:
        tails += absent
    if not tails:
        return OutputSearch(None, "; ".join([f"there is no output of it in {listed}", *absent]), progress)
    why = f"no line of {listed} matches a pattern{trouble}"
    return OutputSearch(find_cause("\n".join(tails), patterns), why, progress)


def _follow(context: CycleContext, chain: Chain, link: Link, found: OutputSearch) -> Chain:
    """The chain after the files of a link were read."""
    chain = _note_progress(context, chain, link, found)
    if not is_failure(chain, link, context.settings):
        return chain
    if found.cause is None:
        if link.outcome not in BROKEN:  # it has reported success
            return chain
        return context.change_chain(
            chain, context.event(chain.id, link.number, UNKNOWN, f"job {link.job}: {found.detail}")
        )
    cause = found.cause
    event = context.event(chain.id, link.number, FOUND, f"job {link.job}: {cause}")
    chain = context.change_chain(chain, event)
    if chain.state is not ChainState.ACTIVE or is_last(chain, link):
        return chain
    if cause.pattern.verdict is Verdict.STOP:
        why = f"job {link.job} (link {link.number}) failed, and another start cannot help: {cause}"
        return pause(context, chain, f"{why}; {way_on(chain)}")
    if cause.pattern.verdict is Verdict.EXCLUDE and link.nodelist:
        hosts = expand_hosts(link.nodelist)
        named = [host for host in hosts if host in _words(cause.line)]
        return exclude(context, chain, link, named if len(named) == 1 else hosts, str(cause))
    return chain


def _note_progress(context: CycleContext, chain: Chain, link: Link, found: OutputSearch) -> Chain:
    """The chain with the progress of a link, paused where the last links have made none."""
    if not counts_for_progress(chain, link):
        return chain
    if found.progress is None:
        detail = found.detail or f"nothing matches {chain.spec.progress_file}"
        return context.change_chain(chain, context.event(chain.id, link.number, NO_PROGRESS_KNOWN, detail))
    context.store.change_link(chain.id, link.number, progress=str(found.progress))
    chain = context.change_chain(chain, context.event(chain.id, link.number, "progress", str(found.progress)))
    links = [one for one in context.store.links(chain.id) if one.number <= link.number and one.progress]
    known = [progress for one in links if (progress := TrainingProgress.of(one.progress)) is not None]
    count = chain.spec.no_progress_links
    since_resume = [one for one in links if one.ended_s > chain.resumed_s]
    if chain.state is not ChainState.ACTIVE or len(since_resume) < count or not stands_still(known, count):
        return chain
    why = f"no progress over {count} links: {found.progress} in {chain.spec.progress_file}, as before them"
    if is_last(chain, link):
        return context.change_chain(chain, context.event(chain.id, link.number, NO_PROGRESS, why))
    return pause(context, chain, f"{why}; {way_on(chain)}")


def _words(line: str) -> set[str]:
    """The words of a line that can be the name of a host."""
    cleaned = "".join(letter if letter.isalnum() or letter in "-_." else " " for letter in line)
    return {word for host in cleaned.split() for word in (host, host.partition(".")[0])}
