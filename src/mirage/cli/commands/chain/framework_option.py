"""``--framework``: the preset of a training framework or a server, applied to a request."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from mirage.errors import ConfigurationError

if TYPE_CHECKING:
    from mirage.agent.chain.request import Request
    from mirage.presets.apply import AppliedPreset
    from mirage.presets.preset import Preset

AUTO = "auto"
"""The framework that the script shows."""

NAMES = (
    "hf lightning nemo automodel megatron torchtitan composer axolotl submitit vllm sglang tgi triton llama-cpp python"
)
"""The presets, as ``--help`` lists them; reading them would cost every command a file."""


def framework_option(help_text: str) -> Callable[[Any], Any]:
    """Returns ``--framework`` with the help of a command."""
    names = click.Choice([AUTO, *NAMES.split()])
    return click.option("--framework", type=names, metavar="NAME", help=help_text)


def with_preset(
    ctx: click.Context, words: dict[str, Any], request: Request
) -> tuple[Request, AppliedPreset | None, Sequence[str]]:
    """Returns a request with its preset, and remarks for the user.

    The words get the values of options that the user has not given.

    Raises:
        ConfigurationError: The script shows no framework, or two trainings could run at once.
    """
    from mirage.agent.chain.spec_check import limit_s
    from mirage.duration import UNLIMITED_S
    from mirage.presets.apply import apply_preset
    from mirage.presets.detect import shape_of

    preset, reasons = chosen_preset(words["framework"], request)
    if words["framework"] is None or preset is None:
        return request, None, reasons
    limit = limit_s(request.given)
    given = ctx.get_parameter_source("signal_previous") not in (None, ParameterSource.DEFAULT)
    applied = apply_preset(
        preset,
        shape_of(request.script, _directory(request)),
        request.script,
        request.given,
        None if limit is None or limit >= UNLIMITED_S else limit,
        grace_s=words.get("grace"),
        signal_given=given,
        ready_by_job=words.get("ready_by_job", False),
        never_two=words.get("never_two", False),
    )
    if applied.grace_s is not None:
        words["grace"] = applied.grace_s
    if applied.signal and not given:
        words["signal_previous"] = applied.signal
    words |= {"to_batch_shell": applied.to_batch_shell, "framework": preset.name}
    options = {**request.submission.options, **applied.options}
    new = replace(
        request,
        script=applied.script,
        given={**request.given, **applied.options},
        submission=replace(request.submission, options=options),
    )
    return new, applied, (f"preset {preset.name} ({preset.title})", *reasons)


def chosen_preset(named: str | None, request: Request) -> tuple[Preset | None, Sequence[str]]:
    """Returns the preset of a request, and the lines of the script that show it.

    Without a name there is none, and a remark where the script shows a framework.

    Raises:
        ConfigurationError: ``auto``, and the script shows no framework.
    """
    from mirage.presets.detect import shape_of
    from mirage.presets.preset import preset_named

    shape = shape_of(request.script, _directory(request))
    if named is None:
        if shape.framework in ("", "python") or shape.traps:
            return None, ()
        return None, (
            f"{shape.reasons[-1]}: --framework {shape.framework} would pass the signal on to it; "
            f"see mirage submit --framework {shape.framework} --dry-run",
        )
    if named != AUTO:
        preset = preset_named(named)
        if shape.framework and preset_named(shape.framework).server != preset.server:
            kind = "a server" if preset.server else "a training"
            other = f"mirage: warning: --framework {named} is for {kind}, and the script shows {shape.framework}"
            return preset, (*shape.reasons, f"{other}; see --framework {shape.framework} --dry-run")
        return preset, shape.reasons
    if not shape.framework:
        raise ConfigurationError(
            f"--framework auto: neither the script nor the Python files that it names show a framework; name one of "
            f"{', '.join(NAMES.split())}"
        )
    return preset_named(shape.framework), shape.reasons


def _directory(request: Request) -> Path:
    return Path(request.submission.directory)
