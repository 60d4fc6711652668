"""The tag in a job's comment, by which the job of a link is recognised.

    mirage:CHAIN:NUMBER[ ready][ done][ | the user's own comment]

A job tells the agent that it is ready, or that the work is done, by adding the word to its own comment: slurmctld
carries the message, so no file system need be shared and no port be open.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from mirage.errors import ConfigurationError, shown

PREFIX = "mirage:"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_TAG = re.compile(rf"mirage:({NAME.pattern}):(\d{{1,9}})((?: ready| done)*)(?: \| (.*))?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Tag:
    """The chain and the link that a job is, and what the job said of itself."""

    chain: str
    link: int
    ready: bool = False
    done: bool = False
    rest: str = ""

    def __str__(self) -> str:
        words = " ready" * self.ready + " done" * self.done
        return f"{PREFIX}{self.chain}:{self.link}{words}" + (f" | {self.rest}" if self.rest else "")

    def saying(self, *, ready: bool = False, done: bool = False) -> Tag:
        """The tag with more words added."""
        return replace(self, ready=self.ready or ready, done=self.done or done)


def parse_tag(comment: str) -> Tag | None:
    """The tag in a comment, or None where the job is not one of ours."""
    if not comment.startswith(PREFIX):  # nearly every job of a large queue
        return None
    found = _TAG.fullmatch(comment)
    if found is None:
        return None
    chain, number, words, rest = found.groups()
    return Tag(chain, int(number), " ready" in words, " done" in words, rest or "")


def tag_in_line(submit_line: str) -> Tag | None:
    """The tag in the command line of an ``sbatch``, which accounting keeps."""
    found = re.search(rf"--comment[= ]'?\"?mirage:({NAME.pattern}):(\d{{1,9}})", submit_line)
    return Tag(found[1], int(found[2])) if found else None


def chain_name(text: str) -> str:
    """The text, if it can name a chain.

    Raises:
        ConfigurationError: It cannot.
    """
    if not NAME.fullmatch(text):
        raise ConfigurationError(
            f"{shown(text)} cannot name a chain: use up to 63 letters, digits, dots, dashes and underscores"
        )
    return text
