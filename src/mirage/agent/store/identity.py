"""Random letters that identify a store and its chains."""

from __future__ import annotations

import secrets

LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"
"""Letters and digits that are not easily confused."""

OF_STORE, OF_CHAIN = 12, 8
"""Number of letters that identify a store, and a chain in its store."""


def random_letters(count: int) -> str:
    """Letters that cannot be guessed."""
    return "".join(secrets.choice(LETTERS) for _ in range(count))
