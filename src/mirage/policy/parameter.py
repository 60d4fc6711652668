"""Parameters of a policy in its name: ``64``, or ``futures=64:tie=0``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from mirage.errors import ConfigurationError


class ParameterForm(NamedTuple):
    """The form of a parameter's value.

    Attributes:
        shown: How messages show it.
        read: Parses its text; raises ``ValueError`` where it cannot.
        last: Whether it takes the rest of the text, colons included, so that nothing can follow it.
    """

    shown: str
    read: Callable[[str], Any]
    last: bool = False


def read_parameters(policy: str, text: str, forms: Mapping[str, ParameterForm]) -> dict[str, Any]:
    """The values in the text after a policy's name; values not given are left out.

    Values are ``name=value``, separated by colons. The first may omit its name, and is then that of the first form.

    Args:
        policy: The policy's name, for messages.
        text: The text after the first colon; empty for nothing.
        forms: Name of a value → its form.

    Raises:
        ConfigurationError: A value has an unknown name, comes twice, or cannot be read.
    """
    values: dict[str, Any] = {}
    words = text.split(":") if text else []
    for place, word in enumerate(words):
        name, named, value = word.partition("=")
        if not named and place == 0:
            name, value = next(iter(forms)), word
        if named and name in forms and forms[name].last:
            value = ":".join([value, *words[place + 1 :]])
            del words[place + 1 :]
        try:
            if name not in forms or name in values:
                raise ValueError(word)
            values[name] = forms[name].read(value)
        except ValueError:
            known = ", ".join(f"{name}={form.shown}" for name, form in forms.items())
            among = ", separated by colons" if len(forms) > 1 else ""
            raise ConfigurationError(f"{policy} takes {known}{among}; got {word!r}") from None
    return values


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise ValueError(text)
    return int(text)


def _share(text: str) -> float:
    value = float(text)
    if not 0 <= value <= 1:
        raise ValueError(text)
    return value


def _yes_or_no(text: str) -> bool:
    if text not in ("yes", "no"):
        raise ValueError(text)
    return text == "yes"


def _named(text: str) -> str:
    if not text:
        raise ValueError(text)
    return text


COUNT = ParameterForm("NUMBER (at least 1)", _count)
SHARE = ParameterForm("SHARE (0 to 1)", _share)
YES_OR_NO = ParameterForm("yes|no", _yes_or_no)
MODEL = ParameterForm("MODEL", _named, last=True)
