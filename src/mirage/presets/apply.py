"""Application of a preset to a request: only where the user gave nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mirage.duration import format_duration
from mirage.errors import ConfigurationError
from mirage.presets.detect import ScriptShape
from mirage.presets.preset import NOTHING, Preset, SourcedValue, launchers
from mirage.presets.wrapper import LONGEST_WAIT_S, is_shell_script, waiting_for_previous, wrapped


@dataclass(frozen=True, slots=True)
class PresetChange:
    """A setting that a preset made, or left to the user.

    Attributes:
        setting: The option or variable.
        value: Its value; empty where the user's own counts.
        why: The source of the value and what it was tried with, or what the user gave.
    """

    setting: str
    value: str
    why: str

    def __str__(self) -> str:
        return f"{self.setting} {self.value}".strip() + f": {self.why}"


@dataclass(frozen=True, slots=True)
class AppliedPreset:
    """The result of a preset.

    Attributes:
        script: The script, with the wrapper where one was added, or with a wait for the job before it.
        has_wrapper: Whether the wrapper was added.
        options: Options of sbatch to add.
        grace_s: The grace; None where the user's own counts.
        signal: The signal for the batch shell; empty where the default or the user's own counts.
        to_batch_shell: Whether only the batch shell may get the signal: the wrapper, or a trap of the script.
        changes: All of this in words.
    """

    script: bytes
    has_wrapper: bool
    options: Mapping[str, str | None]
    grace_s: int | None
    signal: str
    to_batch_shell: bool
    changes: tuple[PresetChange, ...]


def apply_preset(
    preset: Preset, shape: ScriptShape, script: bytes, given: Mapping[str, str | None], limit_s: int | None,
    *, grace_s: int | None, signal_given: bool, ready_by_job: bool = False, never_two: bool = False,
) -> AppliedPreset:  # fmt: skip
    """Apply a preset to a batch script.

    The command line comes first, then the ``#SBATCH`` lines of the script, then the preset.

    Args:
        given: The user's options of sbatch, from the command line, the environment and the script.
        limit_s: The time limit; None where the partition decides.
        grace_s: The user's own grace, which is then the lead of the wrapper, too; None for none.
        signal_given: Whether the user gave a signal for the previous job.
        ready_by_job: Whether the job reports that it is ready, and waits for the previous one itself.
        never_two: Whether a job starts only after the previous one has ended.

    Raises:
        ConfigurationError: Two trainings could run at once.
    """
    changes: list[PresetChange] = []
    options: dict[str, str | None] = {}
    for option, value, source in (
        ("no-requeue", None, preset.requeue),
        ("open-mode", "append", SourcedValue("", "without it a requeued job truncates its output", "Slurm 22.05.8")),
    ):
        own = next((name for name in (option, "requeue") if name in given and option in (name, "no-requeue")), "")
        if own:
            changes.append(PresetChange(f"--{option}", "", f"not set: you gave --{own}"))
        elif option != "no-requeue" or preset.requeue.value == "no":
            options[option] = value
            changes.append(PresetChange(f"--{option}", value or "", _why(source)))
    if "no-requeue" in options:
        lost = "after the failure of a node the job is not requeued: the next link takes over"
        changes.append(PresetChange("--requeue=expedite", "", f"given up by --no-requeue: {lost}"))
    lead_s = preset.lead_s if limit_s is None else min(preset.lead_s, limit_s // 4)
    if grace_s is not None:
        lead_s = grace_s
        changes.append(PresetChange("--grace", "", "not set: you gave one"))
    else:
        shorter = (
            f" (a quarter of the time limit: the preset has {preset.lead.value})" if lead_s < preset.lead_s else ""
        )
        changes.append(PresetChange("--grace", format_duration(lead_s), _why(preset.lead) + shorter))
    new, signal, to_batch = _delivery(
        preset, shape, script, lead_s, limit_s, changes, signal_given=signal_given, ready_by_job=ready_by_job,
        never_two=never_two,
    )  # fmt: skip
    if (own_signal := given.get("signal")) is not None:
        reaches = "the batch shell" if "B" in own_signal.rpartition(":")[0] else "steps only, not the batch shell"
        changes.append(PresetChange("--signal", "", f"not set: you gave {own_signal}, which reaches {reaches}"))
    changes += [PresetChange("needs", need, "check your script") for need in preset.needs]
    traps = (*preset.traps, *launchers()[shape.launcher].traps)
    changes += [PresetChange("trap", trap, "known of this framework or launcher") for trap in traps]
    has_wrapper = new != script and not shape.traps
    return AppliedPreset(
        new, has_wrapper, options, lead_s if grace_s is None else None, signal, to_batch, tuple(changes)
    )


def _delivery(
    preset: Preset, shape: ScriptShape, script: bytes, lead_s: int, limit_s: int | None, changes: list[PresetChange],
    *, signal_given: bool, ready_by_job: bool, never_two: bool,
) -> tuple[bytes, str, bool]:  # fmt: skip
    """The script, the signal for the batch shell, and whether it is for that shell only."""
    may_meet = not (preset.server or ready_by_job or never_two)
    if may_meet and not is_shell_script(script):
        raise ConfigurationError(
            "the script is not one of a shell, so the next job could not wait in it until the training of the previous "
            "job has ended: start the training from a script with #!/bin/bash"
        )
    if shape.traps:
        changes.append(PresetChange("wrapper", "", f"not added: the script has a trap for {', '.join(shape.traps)}"))
        if may_meet:
            script = waiting_for_previous(script, max(lead_s + 60, LONGEST_WAIT_S))
            changes.append(PresetChange("wait", "in the script", "the previous job saves and ends first"))
        if signal_given:
            return script, "", True
        changes.append(PresetChange("--signal-previous", shape.traps[0], "the script has a trap for it"))
        return script, shape.traps[0], True
    if not is_shell_script(script):
        changes.append(PresetChange("wrapper", "", "not added: the script is not one of a shell (#!/bin/bash)"))
        return script, "", False
    launcher = launchers()[shape.launcher]
    variables = {name: source.value.replace("LEAD", str(lead_s)) for name, source in launcher.environment.items()}
    changes += [PresetChange(n, v, _why(launcher.environment[n])) for n, v in variables.items()]
    to = {"file": "creates MIRAGE_STOP_FILE", NOTHING: "sends nothing"}.get(
        preset.signal.value,
        f"sends {preset.signal.value} to the processes that handle it, and creates MIRAGE_STOP_FILE",
    )
    changes.append(PresetChange("wrapper", to, _why(preset.signal)))
    if ready_by_job and not preset.server:
        changes.append(PresetChange("needs", "mirage link takeover in the script, before it trains", "--ready-by-job"))
    text = wrapped(
        script,
        preset.signal.value,
        lead_s,
        limit_s or 0,
        variables,
        server=preset.server,
        ready_by_job=ready_by_job,
    )
    return text, "", True


def _why(source: SourcedValue) -> str:
    return f"{source.source} [tried: {source.tried}]"
