"""The mark in the comment survives whatever users write beside it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirage.agent.chain.tag import NAME, Tag, chain_name, parse_tag, tag_in_line
from mirage.errors import ConfigurationError

names = st.from_regex(NAME, fullmatch=True).filter(lambda name: "\n" not in name)
tags = st.builds(Tag, names, st.integers(1, 10**9 - 1), st.booleans(), st.booleans(), st.text(max_size=80))


@given(tags)
def test_what_is_written_is_read_again(tag: Tag) -> None:
    assert parse_tag(str(tag)) == tag


@given(st.text(max_size=200))
def test_no_comment_breaks_it(comment: str) -> None:
    tag = parse_tag(comment)
    assert tag is None or str(tag).startswith("mirage:")


@given(tags)
def test_saying_more_keeps_what_was_said(tag: Tag) -> None:
    assert tag.saying(ready=True).saying(done=True) == tag.saying(ready=True, done=True)
    assert parse_tag(str(tag.saying(done=True))).done


@pytest.mark.parametrize("comment", ["", "(null)", "mirage:", "mirage:x", "mirage:x:y", "mirage:x:1 no", " mirage:x:1"])
def test_other_comments_are_nobody_s_link(comment: str) -> None:
    assert parse_tag(comment) is None


@pytest.mark.parametrize(
    "line",
    [
        "sbatch --parsable --comment=mirage:train-a1:7 -N 2 job.sh",
        "sbatch --comment 'mirage:train-a1:7 | for the paper' job.sh",
    ],
)
def test_a_command_line_tells_too(line: str) -> None:
    assert tag_in_line(line) == Tag("train-a1", 7)


@pytest.mark.parametrize("name", ["", "a:b", "-x", "a b", "ä", "x" * 64, "a\n"])
def test_a_name_that_a_comment_cannot_hold_is_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match="cannot name a chain"):
        chain_name(name)
