"""Workload models as versioned, readable JSON, and the models that ship with Mirage."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import fields
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from mirage.atomic_file import write_atomically
from mirage.errors import TraceError, UnknownName, reason, shown
from mirage.trace.statistics.marginals import Marginals
from mirage.trace.workload.workload_model import UserClass, WorkloadModel

SCHEMA = "mirage-workload/1"
"""Kind and version, the first entry of a model file."""

_SIGNIFICANT_DIGITS = 4


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
        raise TraceError(f"{source}:{error.lineno}: not JSON: {error.msg}") from error
    except (ValueError, RecursionError) as error:
        raise TraceError(f"{source}:1: not a workload model: {reason(error)}") from error
    schema = document.pop("schema", None) if isinstance(document, dict) else None
    if schema != SCHEMA:
        raise TraceError(
            f"{source}:1: schema is {shown(schema)}, this version of Mirage reads {SCHEMA!r}; "
            "fit the model again with 'mirage trace fit'"
        )
    try:
        document["habits"] = tuple(UserClass(**_typed(UserClass, habit)) for habit in document["habits"])
        document["fitted_to"] = Marginals(**_typed(Marginals, document["fitted_to"]))
        return WorkloadModel(**_typed(WorkloadModel, document))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
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
        text = Path(path).read_text(encoding="utf-8")
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
            return b'"schema": "mirage-workload/' in file.read(100)
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


def _typed(kind: type, document: Mapping[str, Any]) -> dict[str, Any]:
    """Converts the entries of a document to the types that the dataclass declares."""
    declared = {f.name: str(f.type) for f in fields(kind)}
    return {k: _READ.get(declared.get(k, ""), lambda v: v)(v) for k, v in document.items()}
