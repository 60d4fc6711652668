"""Fields of dataclasses as TOML: durations in Slurm's format, times as ISO in UTC."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import MISSING, fields
from datetime import UTC, date, datetime, time, timedelta
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from mirage.duration import UNLIMITED_S, format_duration, parse_duration_s
from mirage.errors import ConfigurationError, shown

INSTANTS = frozenset({"time_s", "start_s", "end_s", "announced_s"})
"""Fields that hold seconds since 1970; all other fields with a name that ends in ``_s`` hold durations."""

MAY_BE_NEGATIVE = frozenset({("CapacityChange", "nodes")})
"""(Dataclass, field) of whole numbers that may be below 0; all others are errors."""

LARGEST = 2**53
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LAST_S = 253_402_300_799
"""The end of the year 9999, beyond which a timestamp cannot be written."""

_SECONDS = re.compile(r"(\d+\.\d+(?:e[+-]?\d+)?)s", re.ASCII)
_BARE = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)


def key_of(field: str) -> str:
    """The key of a field: ``half_life`` for ``half_life_s``, as the value contains its unit."""
    return field.removesuffix("_s")


def hints_of(kind: type[Any]) -> dict[str, Any]:
    """The types of a dataclass's fields."""
    return get_type_hints(kind)


# -- writing ----------------------------------------------------------------------------------------------------------


def written(field: str, value: Any) -> Any:
    """The value of a field in the file's form."""
    if value is None or not field.endswith("_s"):
        return list(value) if isinstance(value, tuple) else value
    if field in INSTANTS:
        return _EPOCH + timedelta(seconds=value) if 0 <= value <= _LAST_S else value
    if isinstance(value, float) and value < UNLIMITED_S and not value.is_integer():
        return f"{value!r}s"
    return format_duration(UNLIMITED_S if value >= UNLIMITED_S else int(value))


def toml(value: Any) -> str:
    """A value in TOML, on one line.

    Raises:
        ConfigurationError: TOML has no such value.
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else str(value)
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{toml_key(key)} = {toml(one)}' for key, one in value.items())}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(toml, value))}]"
    raise ConfigurationError(
        f"a cluster file cannot hold {shown(value)}, a {type(value).__name__}; "
        "give it text, numbers, dates, lists and tables"
    )


def toml_key(key: object) -> str:
    """A key in TOML, in quotes where it needs them."""
    return key if isinstance(key, str) and _BARE.fullmatch(key) else toml(str(key))


# -- reading ----------------------------------------------------------------------------------------------------------


def read_table(kind: type[Any], table: Any, place: str, only: frozenset[str] | None = None) -> dict[str, Any]:
    """The fields of a dataclass in a table of TOML.

    Args:
        kind: The dataclass.
        place: File and section, for messages.
        only: The fields in this table, by default all.

    Raises:
        ConfigurationError: A key is unknown or missing, or its value has another type or is out of range.
    """
    if not isinstance(table, dict):
        raise ConfigurationError(f"{place}: {shown(table)} is not a table; write it as a section of key = value lines")
    own = {key_of(f.name): f for f in fields(kind) if only is None or f.name in only}
    unknown = [key for key in table if key not in own]
    if unknown:
        raise ConfigurationError(f"{place}: there is no key {shown(unknown[0])}; known are {', '.join(own)}")
    hints, found = hints_of(kind), {}
    for key, field in own.items():
        if key in table:
            found[field.name] = _read(kind, field.name, hints[field.name], table[key], f"{place}: {key}")
        elif field.default is MISSING and field.default_factory is MISSING:
            raise ConfigurationError(f"{place}: the key {key!r} is missing")
    return found


def _read(kind: type[Any], field: str, hint: Any, value: Any, place: str) -> Any:
    if get_origin(hint) in (Union, UnionType):
        hint = next(one for one in get_args(hint) if one is not NoneType)
    if field in INSTANTS:
        return _instant_s(value, place)
    if field.endswith("_s"):
        return hint(_duration_s(value, place))
    if get_origin(hint) is Literal:
        if value not in get_args(hint):
            raise ConfigurationError(f"{place}: {shown(value)} is none of {', '.join(map(repr, get_args(hint)))}")
        return value
    if get_origin(hint) is tuple:
        if not isinstance(value, list):
            raise ConfigurationError(f"{place}: {shown(value)} is not a list; write [{toml(value)}]")
        return tuple(_plain(get_args(hint)[0], one, place) for one in value)
    found = _plain(hint, value, place)
    if hint is int and found < 0 and (kind.__name__, field) not in MAY_BE_NEGATIVE:
        raise ConfigurationError(f"{place}: {found} is negative; leave the key out for none")
    return found


_WORDS = {int: "whole number", float: "number", bool: "true or false", str: "text in quotes"}


def _plain(hint: Any, value: Any, place: str) -> Any:
    """A value of one of TOML's own types; a whole number is accepted for any number."""
    fits = isinstance(value, (int, float) if hint is float else hint)
    if not fits or (isinstance(value, bool) and hint is not bool):
        raise ConfigurationError(f"{place}: {shown(value)} is not {_article(_WORDS[hint])}")
    if isinstance(value, int | float) and not -LARGEST <= value <= LARGEST:
        raise ConfigurationError(f"{place}: {shown(value)} is out of range; numbers run to 2**53")
    return hint(value)


def _article(word: str) -> str:
    return word if word.startswith(("true", "text")) else f"a {word}"


def _duration_s(value: Any, place: str) -> int | float:
    if not isinstance(value, str):
        raise ConfigurationError(
            f'{place}: {shown(value)} is no duration; write it as Slurm does, "2-00:00:00", or with a unit, "90m"'
        )
    if exact := _SECONDS.fullmatch(value):
        return float(exact[1])
    try:
        return parse_duration_s(value)
    except ConfigurationError as error:
        raise ConfigurationError(f"{place}: {error}") from None


def _instant_s(value: Any, place: str) -> int:
    """Seconds since 1970 of a timestamp with its offset from UTC, or of a whole number."""
    if isinstance(value, datetime) and value.tzinfo is not None and value.microsecond == 0:
        return round((value - _EPOCH).total_seconds())
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) <= LARGEST:
        return value
    text = value.isoformat() if isinstance(value, date | time) else value
    raise ConfigurationError(
        f"{place}: {shown(text)} is not a time; write date, time to the second and offset without quotes, "
        "2023-03-14T06:00:00Z, or seconds since 1970"
    )
