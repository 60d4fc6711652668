"""A policy that follows a file, or changes at every call; installed like a package."""

from __future__ import annotations

from pathlib import Path

import pytest

from mirage.job_state import MISSING
from mirage.policy.contract import PolicySpec
from mirage.policy.plan import Action, Hold, Plan, Postpone, Release, Shorten, Submit, Wait, Withdraw
from mirage.policy.view import ChainView, QueuedLink, View

ALWAYS_NEW = "soak"
WHIMS = ("hold", "release", "withdraw", "postpone", "shorten", "withdraw", "hold", "release")


class Fickle:
    """Does what the first word of a file requests, to a queued link; without one it waits.

    A link that is not queued is submitted at once, unless the file says ``leave``.

    Args:
        parameter: Path of the file; ``soak`` for a thought that differs from one second to the next.
    """

    def __init__(self, parameter: str) -> None:
        self.file = Path(parameter)

    def decide(self, view: View) -> Plan:
        assert view.chain is not None
        word = self._word(view.now_s)
        if view.chain.queued is None:
            return Plan((Wait(reason="left"),) if word == "leave" else (Submit(reason="at-once"),))
        return Plan(
            (revision(word, view.chain, view.chain.queued, view.now_s),), {"held": float(view.chain.queued.held)}
        )

    def _word(self, now_s: int) -> str:
        if str(self.file) == ALWAYS_NEW:
            return WHIMS[now_s * 2_654_435_761 // 65_536 % len(WHIMS)]
        return self.file.read_text() if self.file.exists() else "wait"


def revision(word: str, chain: ChainView, queued: QueuedLink, now_s: int) -> Action:
    """The action of a word: half the limit, the middle of the rest of the running link."""
    if word == "hold" and queued.accrues_s != MISSING:
        return Hold(reason="changed-its-mind")
    if word == "postpone":
        return Postpone((now_s + chain.started_s + chain.limit_s) // 2, reason="not-before-half")
    if word == "shorten" and queued.limit_s >= 240:
        return Shorten(queued.limit_s // 2, reason="fits-the-gap")
    plain = {"release": Release, "withdraw": Withdraw}
    return plain[word](reason="whim") if word in plain else Wait(reason="as-it-is")


SPEC = PolicySpec(
    "tests.support.fickle:Fickle", "Changes its mind as it is told.", "the file that tells", revises_queued_link=True
)


def install(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Install the policy ``fickle`` for this process and its children; its ``fickle:FILE``."""
    installed = folder / "site" / "fickle-1.0.dist-info"
    installed.mkdir(parents=True)
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: fickle\nVersion: 1.0\n")
    (installed / "entry_points.txt").write_text("[mirage.policies]\nfickle = tests.support.fickle:SPEC\n")
    for place in (Path(__file__).parents[2], installed.parent):
        monkeypatch.syspath_prepend(place)
        monkeypatch.setenv("PYTHONPATH", str(place), prepend=":")
    return folder / "word"
