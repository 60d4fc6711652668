"""Workload models as versioned, readable JSON, and the models that ship with Mirage."""

from __future__ import annotations

import codecs
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import fields
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from mirage.array_types import Floats, Ints
from mirage.atomic_file import write_atomically
from mirage.errors import TraceError, UnknownName, reason, shown
from mirage.trace.statistics.marginals import Marginals
from mirage.trace.workload.workload_model import UserClass, WorkloadModel

SCHEMA = "mirage-workload/1"
"""Kind and version, the first entry of a model file."""

_SIGNIFICANT_DIGITS = 4
_HEAD_BYTES = 1 << 22
"""More than any model has."""


def model_to_json(model: WorkloadModel) -> str:
    """Returns the model as JSON: numbers to four significant digits, one array per line."""
    return _dumps({"schema": SCHEMA, **_plain(model)}) + "\n"


def model_from_json(text: str, *, source: str = "model") -> WorkloadModel:
    """Read back what ``model_to_json`` wrote.

    Args:
        text: The JSON.
        source: Where it came from, for messages.

    Raises:
        TraceError: The text is not a workload model, or has another version.
    """
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        raise TraceError(
            f"{source}:{error.lineno}: not JSON: {error.msg}; the file is damaged or cut short, so fit the model again"
        ) from error
    except (ValueError, RecursionError) as error:
        raise TraceError(f"{source}:1: not a workload model: {reason(error)}") from error
    schema = document.pop("schema", None) if isinstance(document, dict) else None
    if schema != SCHEMA:
        raise TraceError(
            f"{source}:1: schema is {shown(schema)}, this version of Mirage reads {SCHEMA!r}; "
            "fit the model again with 'mirage trace fit'"
        )
    try:
        for habit in document["habits"]:
            _check_entries(UserClass, habit)
        _check_entries(Marginals, document["fitted_to"])
        document["habits"] = tuple(UserClass(**_typed(UserClass, habit)) for habit in document["habits"])
        document["fitted_to"] = Marginals(**_typed(Marginals, document["fitted_to"]))
        _check_entries(WorkloadModel, document)
        model = WorkloadModel(**_typed(WorkloadModel, document))
        _check_shapes(model)
        return model
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
        raise TraceError(f"{source}:1: not a complete workload model: {reason(error)}; fit the model again") from error


def write_model(model: WorkloadModel, path: str | os.PathLike[str]) -> None:
    """Write a model to a file.

    Raises:
        TraceError: The file cannot be written.
    """
    try:
        write_atomically(path, model_to_json(model).encode())
    except OSError as error:
        raise TraceError(f"{path}: cannot be written: {error.strerror}; choose another place") from error


def read_model(path: str | os.PathLike[str]) -> WorkloadModel:
    """Reads the model in a file.

    Raises:
        TraceError: The file cannot be read, or is not a workload model of this version.
    """
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise TraceError(
            f"{os.fspath(path)}:1: cannot be read: {reason(error)}; name a model that mirage trace fit has written"
        ) from error
    return model_from_json(text, source=os.fspath(path))


def is_model_file(path: str | os.PathLike[str]) -> bool:
    """Whether a file appears to be a workload model, of any version.

    Raises:
        TraceError: The file cannot be read.
    """
    if not Path(path).is_file():
        return False
    try:
        with open(path, "rb") as file:
            head = file.read(_HEAD_BYTES).removeprefix(codecs.BOM_UTF8).lstrip()
            return head.startswith(b"{") and b'"mirage-workload/' in head
    except OSError as error:
        raise TraceError(f"{os.fspath(path)}: cannot be read: {error.strerror}; check the path") from error


def builtin_models() -> tuple[str, ...]:
    """Names of the models that ship with the package."""
    names = [f.name for f in (resources.files("mirage.trace.workload") / "models").iterdir()]
    return tuple(sorted(n.removesuffix(".json") for n in names if n.endswith(".json")))


def builtin_model(name: str) -> WorkloadModel:
    """Returns a model that ships with the package, such as ``lonestar6-like``.

    Raises:
        UnknownName: The name is unknown.
    """
    if name not in builtin_models():
        raise UnknownName("workload model", name, builtin_models())
    text = (resources.files("mirage.trace.workload") / "models" / f"{name}.json").read_text(encoding="utf-8")
    return model_from_json(text, source=f"{name}.json")


def _plain(value: Any) -> Any:
    """Converts dataclasses to dicts, arrays to lists, floats to four significant digits."""
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if isinstance(value, float):
        return float(f"{value:.{_SIGNIFICANT_DIGITS}g}")
    if hasattr(value, "__dataclass_fields__"):
        return {f.name: _plain(getattr(value, f.name)) for f in fields(value)}
    return value


def _dumps(value: Any, indent: str = "") -> str:
    """Formats JSON with one key per line and arrays of scalars on one line."""
    deeper = indent + " "
    if isinstance(value, dict):
        rows = (f"{deeper}{json.dumps(k)}: {_dumps(v, deeper)}" for k, v in value.items())
        return "{\n" + ",\n".join(rows) + f"\n{indent}}}"
    if isinstance(value, list) and any(isinstance(v, dict | list) for v in value):
        return "[\n" + ",\n".join(deeper + _dumps(v, deeper) for v in value) + f"\n{indent}]"
    return json.dumps(value, separators=(",", ":"))


_READ: dict[str, Callable[[Any], Any]] = {
    "Ints": lambda v: np.array(v, dtype=np.int64),
    "Floats": lambda v: np.array(v, dtype=np.float64),
    "tuple[str, ...]": tuple,
    "int": int,
    "float": float,
    "str": str,
}


def _check_entries(kind: type, document: Mapping[str, Any]) -> None:
    """Refuse an absent entry by a ``KeyError``, an unknown one by a ``ValueError``."""
    names = [f.name for f in fields(kind)]
    for name in names:
        document[name]
    if unknown := sorted(set(document) - set(names)):
        raise ValueError(f"it has an unknown entry {unknown[0]!r}")


def _check_shapes(model: WorkloadModel) -> None:
    """Refuse arrays that do not fit together, and negative rates and probabilities."""
    _check_shape("hour_weight", model.hour_weight, (168,))
    _check_shape("gap_s", model.gap_s, (3, None))
    _check_shape("return_lag", model.return_lag, (None,))
    _check_shape("same_shape", model.same_shape, (2,))
    _check_shape("same_use", model.same_use, (2,))
    _check_shape("states", model.states, (2, 3))
    for name in ("week_sd", "pace", "return_share", "same_gap", "accounts"):
        if not 0 <= getattr(model, name) < np.inf:
            raise ValueError(f"{name} is {getattr(model, name):g}, not a number of 0 or more")
    if not model.habits:
        raise ValueError("habits is empty")
    for habit in model.habits:
        bursts, kinds = len(np.atleast_1d(habit.burst_size)), len(np.atleast_1d(habit.nodes))
        _check_shape("burst_size", habit.burst_size, (None,), least=1)
        _check_shape("burst_weight", habit.burst_weight, (bursts,))
        _check_shape("nodes", habit.nodes, (None,), least=1)
        _check_shape("limit_s", habit.limit_s, (kinds,))
        _check_shape("shape_weight", habit.shape_weight, (3, kinds))
        _check_shape("used_up", habit.used_up, (3,))
        _check_shape("use", habit.use, (3, None))
        _check_shape("partition", habit.partition + 1, (kinds,))
        if int(habit.partition.max()) >= len(model.partitions):
            raise ValueError(f"partition is {int(habit.partition.max())}, and there are {len(model.partitions)}")


def _check_shape(name: str, array: Ints | Floats, shape: tuple[int | None, ...], least: int = 2) -> None:
    """Refuse an array of another shape, or with a negative number.

    Args:
        name: Of the array, for the message.
        array: The array.
        shape: Its length in each dimension; None for any length from ``least`` on.
        least: The least such length.

    Raises:
        ValueError: The array does not fit.
    """
    fits = len(array.shape) == len(shape) and all(
        own >= least if wanted is None else own == wanted for own, wanted in zip(array.shape, shape, strict=True)
    )
    if not fits:
        wanted_words = " x ".join(f"{least} or more" if one is None else str(one) for one in shape)
        raise ValueError(f"{name} has {' x '.join(map(str, array.shape)) or 'one number'}, not {wanted_words} numbers")
    if not (np.isfinite(array).all() and array.min() >= 0):
        raise ValueError(f"{name} has a number below 0 or not finite")


def _typed(kind: type, document: Mapping[str, Any]) -> dict[str, Any]:
    """Converts the entries of a document to the types that the dataclass declares."""
    declared = {f.name: str(f.type) for f in fields(kind)}
    return {k: _READ.get(declared.get(k, ""), lambda v: v)(v) for k, v in document.items()}
