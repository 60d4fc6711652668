"""Resumption of long work: stored parts are read again, another plan is refused."""

import json

import pytest

from mirage.errors import ConfigurationError
from mirage.study.work_journal import WorkJournal, check_plan


def test_stored_work_is_read_again_until_it_is_removed(tmp_path):
    file, plan = tmp_path / "out.checkpoint", {"seed": 1, "settings": (1, 2)}
    first = WorkJournal(file, plan)
    first.store(done=3)
    first.store(more=[1])
    again = WorkJournal(file, plan)
    assert again.finished == {"done": 3, "more": [1]}
    again.remove()
    assert WorkJournal(file, plan).finished == {}
    WorkJournal(None, plan).store(done=1)
    assert list(tmp_path.iterdir()) == []


def test_another_plan_is_refused_by_what_differs(tmp_path):
    WorkJournal(tmp_path / "kept", {"seed": 1, "jobs": "a", "same": 0}).store(done=1)
    with pytest.raises(ConfigurationError, match=r"seed was 1 and is 2; noise was not set and is 0.5; jobs was 'a'"):
        WorkJournal(tmp_path / "kept", {"seed": 2, "noise": 0.5, "same": 0})
    check_plan(tmp_path, {"a": [1]}, {"a": (1,)})


@pytest.mark.parametrize("content", ["{", "3", json.dumps({"finished": 1}), "\x00"])
def test_a_damaged_file_is_refused(tmp_path, content):
    (tmp_path / "kept").write_text(content)
    with pytest.raises(ConfigurationError, match=r"kept .*remove it"):
        WorkJournal(tmp_path / "kept", {})
