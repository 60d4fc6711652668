"""Text that no file can hold."""

from __future__ import annotations

import pytest

from mirage.slurm_words.unicode import valid_unicode


@pytest.mark.parametrize(
    ("text", "valid"),
    [("train", "train"), ("größe ✓ 𝄞", "größe ✓ 𝄞"), ("a\ud800b\udfffc", "a\ufffdb\ufffdc"), ("", "")],
)
def test_lone_surrogates_become_replacement_characters(text: str, valid: str) -> None:
    assert valid_unicode(text) == valid
    assert valid.encode().decode() == valid
