"""Changes to a chain while it lives: its specification, from now on."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from mirage.agent.chain.create import store_new_chain, with_scripts
from mirage.agent.chain.request import FROM_ANY_SOURCE, Request, check_for_chain, with_slurms_limits
from mirage.agent.chain.spec_check import check_spec, least_limit_s, slurm_warning_s
from mirage.agent.chain.submission import FIRST_LINK_ONLY
from mirage.agent.model import Chain, ChainSpec, EventRecord
from mirage.agent.paths import Home
from mirage.agent.store.chain_file import folder_of_scripts, read_chain_file
from mirage.agent.store.protocol import Store
from mirage.duration import format_duration
from mirage.errors import ConfigurationError
from mirage.job_state import MISSING
from mirage.slurm.sbatch_options import Chosen, from_environment
from mirage.slurm.text.batch_script import directives

_NOT_REPORTED = (
    "submission",
    "later_script",
    "folder",
    "slurm_warning_s",
    "least_limit_s",
    "request_id",
    "to_batch_shell",
    "to_steps",
    "first_signal",
)


@dataclass(frozen=True, slots=True)
class JobEdit:
    """Changes to the job of all links that are submitted from now on.

    Attributes:
        options: Options of sbatch with their new values.
        unset: Options of the former command line that no longer apply.
        script: The new script and its name; None for the present one, with its arguments.
        arguments: Arguments of the new script.
    """

    options: Chosen = field(default_factory=dict)
    unset: Collection[str] = ()
    script: tuple[bytes, str] | None = None
    arguments: tuple[str, ...] = ()

    @property
    def changes_something(self) -> bool:
        """Whether anything differs from the present job."""
        return bool(self.options or self.unset or self.script)


def edited_job(chain: Chain, home: Home, edit: JobEdit) -> Request:
    """The job of a chain with changes.

    Working directory, environment and resource limits stay those of the submission.

    Raises:
        ConfigurationError: An option makes no sense here, or is not on the command line to be unset.
        ScriptGone: The copy of the script is missing.
    """
    for option in FIRST_LINK_ONLY:
        if option in edit.options:
            raise ConfigurationError(f"--{option} is for the first job of a chain, which has been submitted")
    check_for_chain({**directives(edit.script[0] if edit.script else b""), **edit.options}, {})
    submission = chain.spec.submission
    present = _present_script(chain, home)
    inherited = {**directives(present), **from_environment(submission.environment)}
    chosen = {
        name: value
        for name, value in submission.options.items()
        if not (name in FROM_ANY_SOURCE and name in inherited and inherited[name] == value)
    }
    for name in edit.unset:
        if name not in chosen:
            where = "in the script or in the environment" if name in inherited else "not among the options"
            raise ConfigurationError(
                f"--unset {name}: --{name} is {where} of the chain's jobs; only one of the command line can be unset"
            )
        del chosen[name]
    chosen |= with_slurms_limits(edit.options)
    text, script_name = edit.script or (present, Path(submission.script).name)
    given = {**directives(text), **from_environment(submission.environment), **chosen}
    chosen |= {name: given[name] for name in FROM_ANY_SOURCE if name in given}
    arguments = submission.arguments if edit.script is None else edit.arguments
    return Request(replace(submission, options=chosen, arguments=arguments), text, script_name, given)


def _present_script(chain: Chain, home: Home) -> bytes:
    script = chain.spec.submission.script
    folder = folder_of_scripts(chain, script, home.folder) if chain.spec.folder else Path()
    try:
        return (folder / script).read_bytes()
    except OSError as error:
        raise ConfigurationError(f"cannot read the chain's copy of the script {script}: {error.strerror}") from error


def checked_spec(spec: ChainSpec, job: Request, directory: Path | None, *, until_done: bool) -> ChainSpec:
    """A specification with the values that follow from its job, checked.

    Args:
        directory: The working directory of the submission; None where it is not checked.
        until_done: Whether the end of a job may be that of the chain, so that a job may run without a limit.

    Raises:
        ConfigurationError: The chain could not work with it.
        UnknownName: There is no such policy.
    """
    spec = replace(
        spec,
        submission=replace(job.submission, script=spec.submission.script),
        least_limit_s=least_limit_s(job.given),
        slurm_warning_s=slurm_warning_s(job.given, spec.signal, spec.grace_s),
    )
    has_end = spec.until_s != MISSING or bool(spec.links) or until_done
    check_spec(spec, job.given, directory, has_end=has_end)
    return spec


def edit_chain(
    store: Store, home: Home, chain: Chain, spec: ChainSpec, job: Request, *, new_script: bool, now_s: int
) -> None:
    """Store a new specification of a chain, for the agent's next cycle.

    Args:
        spec: As ``checked_spec`` returns it.
        job: The job of the links.
        new_script: Whether the script differs, so that the links need a new copy.

    Raises:
        ConfigurationError: Another command has edited or ended the chain since it was read.
        StoreError: A file cannot be written.
    """
    changed = differences(chain.spec, spec, job.script_name if new_script else "")
    detail = "; ".join(f"{name} {old} -> {new}" for name, (old, new) in changed.items())
    if new_script:
        spec = with_scripts(home, job, spec, chain.name, chain.edits + 1)
    store.change_spec(chain, spec, EventRecord(chain.id, 0, now_s, "edited", detail))
    if read_chain_file(home.chain_folder(chain.name)) is not None:  # else its folder is on another machine
        store_new_chain(home, replace(chain, spec=spec), store.identity())


def differences(old: ChainSpec, new: ChainSpec, new_script: str) -> dict[str, tuple[str, str]]:
    """What an edit changes, in words: old and new value by name.

    Args:
        new_script: Name of the new script, even where its name is that of the old one; empty for none.
    """
    before, after = asdict(old), asdict(new)
    found = {
        name.removesuffix("_s"): (_in_words(name, before[name]), _in_words(name, after[name]))
        for name in before
        if name not in _NOT_REPORTED and before[name] != after[name]
    }
    was, now = old.submission.options, new.submission.options
    for name in dict.fromkeys((*was, *now)):
        if was.get(name, "-") != now.get(name, "-"):
            found[f"--{name}"] = _option(was, name), _option(now, name)
    if new_script:
        found["script"] = Path(old.submission.script).name, new_script
    if old.submission.arguments != new.submission.arguments:
        found["arguments"] = " ".join(old.submission.arguments) or "-", " ".join(new.submission.arguments) or "-"
    return found


def _option(options: Mapping[str, str | None], name: str) -> str:
    return str(options[name] if options[name] is not None else "given") if name in options else "-"


def _in_words(name: str, value: object) -> str:
    if value is False or value in (MISSING, "") or (value == 0 and name.startswith(("links", "budget"))):
        return "-"
    if name == "until_s":
        return time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(int(str(value))))
    if name.endswith("_s"):
        return format_duration(int(str(value)))
    if isinstance(value, tuple):
        return ", ".join(value) or "-"
    return "yes" if value is True else f"{value:g}" if isinstance(value, float) else str(value)
