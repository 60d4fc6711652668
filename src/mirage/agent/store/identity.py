"""Random letters by which a store and its chains are known."""

from __future__ import annotations

import secrets

LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"
"""Letters and digits that nobody misreads."""

OF_STORE, OF_CHAIN = 12, 8
"""How many tell a store, and a chain in its store, from all others."""


def random_letters(count: int) -> str:
    """Letters that nobody can guess."""
    return "".join(secrets.choice(LETTERS) for _ in range(count))
