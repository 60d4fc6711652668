"""URLs of http and https."""

from __future__ import annotations

import re
from urllib.parse import urlsplit


def is_web_url(text: str) -> bool:
    """Whether a text is a URL of http or https that names a host, and no impossible port."""
    try:
        parts = urlsplit(text)
        has_address = bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port above 65535, a bracket without its partner
        return False
    return parts.scheme in ("http", "https") and has_address and not re.search(r"\s", text)
