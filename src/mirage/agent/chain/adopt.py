"""The adoption of a job as the first link of a chain.

The job gets its tag first, and the chain is stored in one transaction afterwards. A process that is killed in between
leaves a tagged job without a chain: a second adoption takes the name and the key from the tag.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath

from mirage.agent.chain.create import check_folder, store_new_chain, with_scripts
from mirage.agent.chain.job_to_adopt import JobToAdopt
from mirage.agent.chain.recover import FoundJob, link_from
from mirage.agent.chain.tag import Tag, parse_tag, written_before
from mirage.agent.model import ALL, SHELL, STEPS, Chain, ChainSpec, EventRecord, Link, LinkState
from mirage.agent.paths import Home
from mirage.agent.store.identity import OF_CHAIN, random_letters
from mirage.agent.store.protocol import Store
from mirage.errors import ConfigurationError, RequestNotSent, SlurmRefused
from mirage.job_state import MISSING
from mirage.presets.detect import ScriptShape
from mirage.slurm.backend import Backend
from mirage.slurm.job_reader import SIGNALS, JobProcess, batch_process
from mirage.slurm_words.states import ALIVE


@dataclass(frozen=True, slots=True)
class Delivery:
    """The signal of an adopted job at its hand-over.

    Attributes:
        signal: Its name; empty for none.
        receivers: ``shell``, ``steps`` or ``all``.
        why: The reason, in words.
    """

    signal: str
    receivers: str
    why: str

    @property
    def text(self) -> str:
        """The form of ``ChainSpec.first_signal``."""
        return f"{self.receivers}:{self.signal}" if self.signal else "none"


def read_delivery(text: str) -> Delivery:
    """A delivery in the words of a user: ``steps:USR1``, ``all:TERM``, ``none``.

    Raises:
        ConfigurationError: It is none of these.
    """
    receivers, _, name = text.partition(":")
    if text == "none":
        return Delivery("", ALL, "you gave none")
    name = name.upper().removeprefix("SIG")
    if receivers not in (SHELL, STEPS, ALL) or name not in SIGNALS:
        raise ConfigurationError(
            f"--first-signal {text}: give RECEIVERS:SIGNAL with {SHELL}, {STEPS} or {ALL} and one of "
            f"{', '.join(SIGNALS)}; or none"
        )
    return Delivery(name, receivers, "you gave it")


def chosen_delivery(processes: Sequence[JobProcess], shape: ScriptShape, signals: Sequence[str]) -> Delivery:
    """The signal that a job handles, and the receivers that it does not end.

    Args:
        processes: The processes of the job; empty where they are unknown.
        signals: The signals to consider, the best first.
    """
    shell = batch_process(processes)
    if shell is None:
        return _by_text(shape, signals)
    no_srun = [p for p in processes if PurePath(p.words[0] if p.words else "").name != "srun"]
    others = [p for p in no_srun if p is not shell]
    for name in signals:
        handlers = [p for p in others if name in p.catches]
        in_steps = [p for p in handlers if p.in_step]
        if name in shell.catches and shell in no_srun:
            deadly = [p for p in others if name not in p.catches | p.ignores]
            receivers = ALL if handlers and not deadly else SHELL
            return Delivery(name, receivers, f"its batch process {shell.pid} handles {name}")
        if in_steps:
            return Delivery(
                name, STEPS, f"process {in_steps[0].pid} of a step handles {name}, its batch process does not"
            )
    return Delivery("", ALL, f"neither its batch process nor a process of its steps handles {', '.join(signals)}")


def _by_text(shape: ScriptShape, signals: Sequence[str]) -> Delivery:
    """The delivery that the text of a script shows."""
    if shape.traps:
        return Delivery(shape.traps[0], SHELL, f"the script has a trap for {shape.traps[0]}")
    if shape.by_srun and shape.framework not in ("", "python"):
        return Delivery(
            signals[0], STEPS, f"{shape.framework} handles {signals[0]}, by its preset; it was not observed"
        )
    return Delivery("", ALL, "the script has no trap, and its processes were not observed")


def adopted_spec(spec: ChainSpec, delivery: Delivery, *, has_wrapper: bool) -> ChainSpec:
    """The specification with the signal of the adopted job.

    Later links run the same script: the same processes handle the same signal.

    Args:
        has_wrapper: Whether a preset delivers the signal of later links, and only the first one differs.
    """
    spec = replace(spec, first_signal=delivery.text)
    if has_wrapper or spec.signal != delivery.signal:
        return spec
    return replace(spec, to_batch_shell=delivery.receivers == SHELL, to_steps=delivery.receivers == STEPS)


def adopt_job(
    store: Store, slurm: Backend, home: Home, job: JobToAdopt, spec: ChainSpec, name: str, now_s: int,
    *, left: Tag | None, no_requeue: bool,
) -> Chain:  # fmt: skip
    """Make a job the first link of a new chain.

    Args:
        spec: The checked specification; its submission and scripts are filled in here.
        left: The tag of an interrupted adoption, of which name and key are taken.
        no_requeue: Whether the job must not be requeued: a framework that requeues itself would run twice.

    Raises:
        ConfigurationError: The name is taken, or the job has ended or become a link in the meantime.
        SlurmRefused: Slurm refused the tag; there is no chain.
        SlurmUnreachable: No answer; a second adoption completes the first.
        StoreError: A file or the store cannot be written.
    """
    identity = store.identity()
    name, key = (left.chain, left.key) if left is not None else (name, random_letters(OF_CHAIN))
    store.check_name(name)
    check_folder(home, name, identity)
    chain = Chain(0, name, with_scripts(home, job.request, spec, name), now_s, key=key)
    tag = left or Tag(name, 1, identity.identity, key)
    comment = str(tag) if left is not None else written_before(job.queued.comment, tag)
    try:
        store_new_chain(home, chain, identity)
        slurm.update(job.queued.id, {"Comment": comment} | ({"Requeue": "0"} if no_requeue else {}))
    except (SlurmRefused, RequestNotSent):
        home.forget(name)
        raise
    present = next((one for one in slurm.observe().jobs if one.id == job.queued.id), None)
    if present is None or present.state not in ALIVE or present.submit_s != job.queued.submit_s:
        home.forget(name)
        raise ConfigurationError(f"job {job.queued.id} has ended in the meantime; there is no chain")
    link = link_from(Link(0, 1), FoundJob(parse_tag(present.comment) or tag, present), now_s)
    if link.state is LinkState.RUNNING and spec.ready_by_job:
        link = replace(link, ready_s=link.started_s if link.ready_s == MISSING else link.ready_s)
    event = EventRecord(0, 1, now_s, "adopted", f"job {present.id}, {link.state.value}")
    try:
        return store.add_adopted_chain(chain, link, event)
    except ConfigurationError:
        _restore_tag(store, slurm, present.id, job.queued.comment)
        home.forget(name)
        raise


def _restore_tag(store: Store, slurm: Backend, job: int, comment: str) -> None:
    """Restore the tag of the chain that was quicker to adopt a job, or its comment."""
    identity = store.identity().identity
    for chain in store.chains(alive=True):
        for link in store.links(chain.id):
            if link.job == job:
                comment = written_before(comment, Tag(chain.name, link.number, identity, chain.key))
    slurm.update(job, {"Comment": comment})
