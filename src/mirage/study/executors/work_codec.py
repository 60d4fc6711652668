"""Work and results as bytes without code: values, arrays, names of Mirage's classes.

A shared folder may be written by others. Unpickling one of its files would call whatever the file names; decoding calls
only constructors of dataclasses and enums, and finds only functions that were written to be sent. Each class and
function must be defined at the top of the module that is named, in ``mirage`` or in an installed package that extends
it.

The bytes are a line that names the format, the length of a JSON text, that text, and the bytes of all arrays. In the
text a JSON array is a tagged value, as in ``["tuple", 1, ["object", "mirage.policy.cost:Cost", 2.0, 1.0]]``.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import fields
from enum import Enum
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np

from mirage.errors import ConfigurationError, shown
from mirage.registry import extending_packages

Function = TypeVar("Function", bound=Callable[..., Any])

_FORMAT = b"Mirage's work, format 1\n"
_LENGTH_BYTES = 8
_PLAIN = frozenset({type(None), bool, int, float, str})
_SEQUENCES: dict[str, Callable[[list[Any]], Any]] = {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset}
_MANY = 16
"""Floats that are stored as an array, which is faster."""

_SENT = "__sent_to_jobs__"


def sent_to_jobs(function: Function) -> Function:
    """Marks a function that a file may name for a job to call."""
    setattr(function, _SENT, True)
    return function


def encode(value: object) -> bytes:
    """Returns a value as bytes.

    Raises:
        ConfigurationError: A part of it has a type that cannot be sent, or is defined where no other process finds it.
    """
    arrays = _Arrays()
    tree = _to_json(value, arrays)
    text = json.dumps([arrays.headers, tree], separators=(",", ":")).encode("ascii")
    return b"".join((_FORMAT, len(text).to_bytes(_LENGTH_BYTES, "big"), text, *arrays.contents))


def decode(content: bytes, path: Path) -> Any:
    """Returns the value of ``encode``; arrays own their memory and can be written.

    Args:
        content: The bytes.
        path: The file that held them, for the message.

    Raises:
        ConfigurationError: The bytes are damaged, or name what may not be sent.
    """
    try:
        if not content.startswith(_FORMAT):
            raise ValueError("it does not begin as such a file does")
        begin = len(_FORMAT) + _LENGTH_BYTES
        end = begin + int.from_bytes(content[len(_FORMAT) : begin], "big")
        headers, tree = json.loads(content[begin:end])
        return _from_json(tree, _arrays_of(headers, memoryview(content)[end:]))
    except Exception as error:  # a constructor raises whatever it likes about values that are not its own
        raise ConfigurationError(
            f"{path} is not a file of work or results as this version of Mirage writes them: "
            f"{type(error).__name__}: {error}; it was damaged or changed. Remove its folder, and run the command again"
        ) from error


class _Arrays:
    """Headers and contents of the arrays of a value, each of them once."""

    def __init__(self) -> None:
        self.headers: list[list[Any]] = []
        self.contents: list[bytes] = []
        self._numbers: dict[int, tuple[int, object]] = {}  # with the array itself: no other gets its id

    def add(self, array: np.ndarray[Any, Any]) -> int:
        """Adds an array and returns its number."""
        if type(array) not in (np.ndarray, np.recarray) or array.dtype.hasobject:
            raise ConfigurationError(f"an array of {array.dtype} cannot be sent to a job")
        if id(array) not in self._numbers:
            order: Literal["F", "C"] = "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"
            self._numbers[id(array)] = len(self.headers), array
            is_records = type(array) is np.recarray
            self.headers.append([_described(array.dtype), list(array.shape), order, is_records])
            self.contents.append(array.tobytes(order))
        return self._numbers[id(array)][0]


def _arrays_of(headers: list[list[Any]], content: memoryview) -> list[np.ndarray[Any, Any]]:
    found, begin = [], 0
    for description, shape, order, is_records in headers:
        dtype = _dtype(description)
        if dtype.hasobject:
            raise ValueError("an array of objects")
        end = begin + math.prod(shape) * dtype.itemsize
        if min(shape, default=0) < 0 or end > len(content):
            raise ValueError(f"it ends within an array of shape {shown(tuple(shape))}")
        array: np.ndarray[Any, Any] = np.ndarray(tuple(shape), dtype, content[begin:end], order=order).copy(order)
        found.append(array.view(np.recarray) if is_records else array)
        begin = end
    if begin != len(content):
        raise ValueError(f"{len(content) - begin} bytes behind its last array")
    return found


def _described(dtype: np.dtype[Any]) -> Any:
    """A data type as JSON, with its layout: compiled functions distinguish layouts."""
    if dtype.subdtype is not None:
        return [_described(dtype.subdtype[0]), list(dtype.subdtype[1])]
    if dtype.fields is None or dtype.names is None:
        return dtype.str
    parts = [dtype.fields[name] for name in dtype.names]
    formats, offsets = [_described(part[0]) for part in parts], [part[1] for part in parts]
    layout = {"names": list(dtype.names), "formats": formats, "offsets": offsets, "itemsize": dtype.itemsize}
    return {**layout, "aligned": dtype.isalignedstruct, "record": dtype.type is np.record}


def _dtype(description: Any) -> np.dtype[Any]:
    if isinstance(description, str):
        return np.dtype(description)
    if isinstance(description, list):
        return np.dtype((_dtype(description[0]), tuple(description[1])))
    layout = {name: description[name] for name in ("names", "offsets", "itemsize", "aligned")}
    spec: Any = {**layout, "formats": [_dtype(one) for one in description["formats"]]}
    found: np.dtype[Any] = np.dtype(spec)
    return np.dtype((np.record, found)) if description["record"] else found


def _to_json(value: Any, arrays: _Arrays) -> Any:
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind.__name__ in _SEQUENCES and kind.__module__ == "builtins":
        if len(value) >= _MANY and set(map(type, value)) == {float}:
            return ["floats", kind.__name__, arrays.add(np.array([*value]))]
        return [kind.__name__, *_each(value, arrays)]
    if kind is dict:
        return ["dict", ["list", *_each(value.keys(), arrays)], ["list", *_each(value.values(), arrays)]]
    if isinstance(value, np.ndarray):
        return ["array", arrays.add(value)]
    if isinstance(value, np.generic):
        return ["scalar", arrays.add(np.array(value))]
    if isinstance(value, Path):
        return ["path", str(value)]
    if kind is range:
        return ["range", value.start, value.stop, value.step]
    if isinstance(value, Enum):
        return ["enum", _name_of(kind), value.name]
    if _is_data(kind):
        return ["object", _name_of(kind), *_each([getattr(value, name) for name in _fields_of(kind)], arrays)]
    if callable(value):
        return ["function", _name_of(value)]
    raise ConfigurationError(f"{shown(value)} cannot be sent to a job: its type is {kind.__module__}.{kind.__name__}")


def _each(values: Any, arrays: _Arrays) -> list[Any]:
    if _PLAIN.issuperset(map(type, values)):
        return list(values)
    return [_to_json(value, arrays) for value in values]


def _from_json(tree: Any, arrays: list[np.ndarray[Any, Any]]) -> Any:
    if not isinstance(tree, list):
        if isinstance(tree, dict):
            raise ValueError("a value without a tag")
        return tree
    tag, *parts = tree
    if not _PLAIN.issuperset(map(type, parts)):
        parts = [_from_json(part, arrays) for part in parts]
    if tag in _SEQUENCES:
        return _SEQUENCES[tag](parts)
    if tag == "floats":
        return _SEQUENCES[parts[0]](arrays[parts[1]].tolist())
    if tag == "dict":
        return dict(zip(*parts, strict=True))
    if tag == "array":
        return arrays[parts[0]]
    if tag == "scalar":
        return arrays[parts[0]][()]
    if tag == "path":
        return Path(*parts)
    if tag == "range":
        return range(*parts)
    found = _named(parts[0])
    if tag == "enum" and _is_enum(found):
        return found[parts[1]]
    if tag == "object" and _is_data(found):
        return found(**dict(zip(_fields_of(found), parts[1:], strict=True)))
    if tag == "function" and _is_sent(found):
        return found
    raise ValueError(f"{shown(parts[0])} cannot be sent as {shown(tag)}")


def _fields_of(kind: Any) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind) if field.init)


def _name_of(thing: Any) -> str:
    """``module:name`` of a class or a function, for ``_named``."""
    reference = f"{getattr(thing, '__module__', None)}:{getattr(thing, '__qualname__', shown(thing))}"
    try:
        found = _named(reference)
    except (ImportError, ValueError) as error:
        raise ConfigurationError(f"{reference} cannot be sent to a job: {error}") from error
    if found is not thing or not (_is_enum(found) or _is_data(found) or _is_sent(found)):
        raise ConfigurationError(
            f"{reference} cannot be sent to a job; only dataclasses, enums, kernels and functions marked with "
            "@sent_to_jobs can, defined at the top of a module"
        )
    return reference


@lru_cache(maxsize=1000)
def _named(reference: str) -> Any:
    """The object that a module defines under a name.

    Objects that a module imported, attributes of objects, and modules of other packages are not found.

    Raises:
        ValueError: There is none, or it may not be named.
    """
    module_name, _, name = reference.partition(":")
    package = module_name.partition(".")[0]
    if package != "mirage" and package not in extending_packages():
        raise ValueError(f"{shown(package)} is not Mirage, nor a package with an entry point of Mirage")
    if any(not part.isidentifier() or part.startswith("__") for part in [*module_name.split("."), name]):
        raise ValueError(f"{shown(reference)} is no module:name")
    found = vars(import_module(module_name)).get(name)
    if getattr(found, "__module__", None) != module_name or getattr(found, "__qualname__", None) != name:
        raise ValueError(f"{module_name} defines no {name}")
    return found


def _is_enum(found: Any) -> bool:
    return isinstance(found, type) and issubclass(found, Enum)


def _is_data(found: Any) -> bool:
    return isinstance(found, type) and "__dataclass_fields__" in vars(found)


def _is_sent(found: Any) -> bool:
    """Whether a function was marked, or is a kernel, which only computes on its arrays."""
    from numba.core.dispatcher import Dispatcher  # here, as most work holds no kernel

    return isinstance(found, Dispatcher) or (not isinstance(found, type) and vars(found).get(_SENT) is True)
