"""The tag in the comment survives any text that users add to it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirage.agent.chain.tag import NAME, Tag, chain_name, parse_tag, tag_in_line
from mirage.agent.store.identity import LETTERS
from mirage.errors import ConfigurationError
from mirage.job_state import MISSING

names = st.from_regex(NAME, fullmatch=True).filter(lambda name: "\n" not in name)
letters = st.text(LETTERS, min_size=1, max_size=32)
times = st.just(MISSING) | st.integers(0, 10**12 - 1)
tags = st.builds(
    Tag, names, st.integers(1, 10**9 - 1), letters, letters, times, st.booleans(), st.text(max_size=80)
)  # fmt: skip


@given(tags)
def test_what_is_written_is_read_again(tag: Tag) -> None:
    assert parse_tag(str(tag)) == tag


@given(st.text(max_size=200))
def test_no_comment_breaks_it(comment: str) -> None:
    tag = parse_tag(comment)
    assert tag is None or str(tag).startswith("mirage:")


@given(tags)
def test_more_marks_retain_the_earlier_ones(tag: Tag) -> None:
    assert tag.with_marks(ready_s=7).with_marks(done=True) == tag.with_marks(ready_s=7, done=True)
    assert parse_tag(str(tag.with_marks(done=True))) == replace(tag, done=True)


def test_the_last_word_about_readiness_counts() -> None:
    tag = Tag("train", 2, "safe", "deer").with_marks(ready_s=100).with_marks(ready_s=250).with_marks(done=True)
    assert str(tag) == "mirage:train:2:safe.deer ready@250 done"
    assert tag.with_marks().ready_s == 250


@pytest.mark.parametrize(
    "comment",
    [
        "",
        "(null)",
        "mirage:",
        "mirage:x",
        "mirage:x:1",
        "mirage:x:1:safe",
        "mirage:x:1:safe.",
        "mirage:x:y:safe.deer",
        "mirage:x:1:safe.deer no",
        "mirage:x:1:safe.deer ready",
        "mirage:x:1:safe.deer ready@soon",
        "mirage:x:1:SAFE.deer",
        " mirage:x:1:safe.deer",
    ],
)
def test_other_comments_are_of_no_link(comment: str) -> None:
    assert parse_tag(comment) is None


@pytest.mark.parametrize(
    "line",
    [
        "sbatch --parsable --comment=mirage:train-a1:7:safe.deer -N 2 job.sh",
        "sbatch --comment 'mirage:train-a1:7:safe.deer | for the paper' job.sh",
    ],
)
def test_a_command_line_reports_too(line: str) -> None:
    assert tag_in_line(line) == Tag("train-a1", 7, "safe", "deer")


@pytest.mark.parametrize(
    "line", ["", "sbatch job.sh mirage:x:1:safe.deer", "sbatch --comment=mirage:train-a1:7 job.sh"]
)
def test_a_command_line_without_a_tag_reports_nothing(line: str) -> None:
    assert tag_in_line(line) is None


@pytest.mark.parametrize("name", ["", "a:b", "-x", "a b", "ä", "x" * 64, "a\n"])
def test_a_name_that_a_comment_cannot_hold_is_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match="cannot name a chain"):
        chain_name(name)
