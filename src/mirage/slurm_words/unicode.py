"""Text that UTF-8 can encode, without the lone surrogates that JSON may contain."""

from __future__ import annotations

import re

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


def valid_unicode(text: str) -> str:
    r"""The text with U+FFFD for every lone surrogate (``"\ud800"`` in JSON)."""
    return text if text.isascii() else _LONE_SURROGATE.sub("\ufffd", text)
