"""Conversion of values to rows of the store's tables, and of specifications to JSON."""

from __future__ import annotations

import dataclasses
import math
from enum import Enum
from pathlib import PurePath
from typing import Any

import sqlalchemy as sa

from mirage.agent.model import Chain, ChainSpec, ChainState, DecisionRecord, Link, LinkState
from mirage.errors import shown
from mirage.job_state import JobState
from mirage.slurm.records import Submission

COLUMNS = {"next_decision_s": "next_look_s", "observed": "saw", "revision": "thought"}
"""Columns that have another name than their field, by field."""

_FIELDS = {column: field for field, column in COLUMNS.items()}


def row_of(value: Any, *without: str) -> dict[str, Any]:
    """The columns of a value, except those named."""
    fields = (field.name for field in dataclasses.fields(value) if field.name not in without)
    return {COLUMNS.get(name, name): storable(getattr(value, name)) for name in fields}


def storable(value: Any) -> Any:
    """A value for both databases: without NUL, lone surrogates and infinity."""
    if isinstance(value, str):
        return value.replace("\0", "\ufffd").encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {name: float(v) if math.isfinite(v) else str(float(v)) for name, v in value.items()}
    return value


def decision_of(row: dict[str, Any]) -> DecisionRecord:
    """A decision; infinities are stored as words."""
    fields = {_FIELDS.get(column, column): value for column, value in row.items()}
    numbers = {name: {key: float(v) for key, v in fields[name].items()} for name in ("estimate", "observed")}
    return DecisionRecord(**{**fields, **numbers})


def settable(table: sa.Table, columns: dict[str, object]) -> dict[str, object]:
    """The columns as stored; those of a row's identity and the specification are refused."""
    known = {_FIELDS.get(column.name, column.name) for column in table.c if not column.primary_key} - {
        "name",
        "spec",
        "created_s",
        "key",
        "edits",
    }
    if unknown := columns.keys() - known:
        raise TypeError(
            f"{table.name} have no {', '.join(sorted(unknown))} to set; they have {', '.join(sorted(known))}"
        )
    return {COLUMNS.get(name, name): storable(value) for name, value in columns.items()}


def chain_of(row: dict[str, Any], spec: ChainSpec) -> Chain:
    """A chain."""
    fields = {_FIELDS.get(column, column): value for column, value in row.items()}
    state = _known(ChainState, row["state"], f"the state of chain {row['name']}")
    return Chain(**{**fields, "state": state}, spec=spec)


def link_of(row: Any) -> Link:
    """A link."""
    earlier = tuple(tuple(run) for run in row["earlier"])
    what = f"of link {row['number']} of chain number {row['chain']}"
    state, outcome = (
        _known(kind, row[name], f"the {name} {what}") for name, kind in (("state", LinkState), ("outcome", JobState))
    )
    return Link(**{**row, "state": state, "outcome": outcome, "earlier": earlier})


def _known(kind: type[Enum], value: Any, what: str) -> Any:
    """The member of an enumeration.

    Raises:
        ValueError: There is none of this value.
    """
    try:
        return kind(value)
    except ValueError:
        raise ValueError(f"{what} is {shown(value)}, and none of {', '.join(str(one.value) for one in kind)}") from None


def spec_to_json(spec: ChainSpec) -> dict[str, Any]:
    """The specification as JSON, field by field."""
    return dataclasses.asdict(spec)


def spec_from_json(text: dict[str, Any], chain: str) -> ChainSpec:
    """The specification; fields of other versions of Mirage are ignored.

    Earlier versions wrote the absolute paths of the scripts' copies: they become relative to the agent's folder at that
    time.

    Args:
        chain: Name of the chain.

    Raises:
        KeyError: The submission, or a part of it, is missing.
    """
    known = {field.name for field in dataclasses.fields(ChainSpec)}
    stored = text["submission"]
    submission = Submission(**{**stored, "arguments": tuple(stored["arguments"])})
    spec = ChainSpec(**{**{k: v for k, v in text.items() if k in known}, "submission": submission})
    spec = dataclasses.replace(spec, notify=tuple(spec.notify))
    return spec if spec.folder else _from_folder(spec, chain)


def _from_folder(spec: ChainSpec, chain: str) -> ChainSpec:
    """A specification with absolute paths in ``FOLDER/chains/NAME`` made relative to FOLDER."""
    parts = PurePath(spec.submission.script).parts
    ends = [k for k in range(1, len(parts) - 2) if parts[k : k + 2] == ("chains", chain)]
    if not ends or not PurePath(spec.submission.script).is_absolute():
        return spec
    folder = PurePath(*parts[: ends[-1]])
    later = PurePath(spec.later_script)
    if spec.later_script and not later.is_relative_to(folder):
        return spec
    submission = dataclasses.replace(spec.submission, script=str(PurePath(*parts[ends[-1] :])))
    later_script = str(later.relative_to(folder)) if spec.later_script else ""
    return dataclasses.replace(spec, submission=submission, later_script=later_script, folder=str(folder))
