"""A chain's specification as JSON, in the store and in the file beside the chain's script."""

from __future__ import annotations

import dataclasses
from typing import Any

from mirage.agent.model import ChainSpec
from mirage.slurm.values import Submission


def spec_to_json(spec: ChainSpec) -> dict[str, Any]:
    """What the user asked for, field by field."""
    return dataclasses.asdict(spec)


def spec_from_json(text: dict[str, Any]) -> ChainSpec:
    """The specification; fields of other versions of Mirage are left out.

    Raises:
        KeyError: There is no submission, or a part of it is missing.
    """
    known = {field.name for field in dataclasses.fields(ChainSpec)}
    asked = text["submission"]
    submission = Submission(**{**asked, "arguments": tuple(asked["arguments"])})
    return ChainSpec(**{**{k: v for k, v in text.items() if k in known}, "submission": submission})
