"""URLs of http and https, and texts that only begin as one."""

from __future__ import annotations

import pytest

from mirage.web_url import is_web_url


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("http://localhost:8000/metrics", True),
        ("https://user@[::1]:65535?a=b", True),
        ("HTTP://monitor", True),
        ("http://", False),
        ("http:///path", False),
        ("http://host:99999/", False),
        ("http://host:0/", False),
        ("http://host:many/", False),
        ("http://[::1/metrics", False),
        ("http://two words/", False),
        ("ftp://host/", False),
        ("host:80", False),
        ("", False),
    ],
)
def test_a_url_needs_a_host_and_a_possible_port(text: str, is_one: bool) -> None:
    assert is_web_url(text) is is_one
