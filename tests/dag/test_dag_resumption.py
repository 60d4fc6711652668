"""Resumption of long work: what is kept is there again, and another plan is refused by what differs."""

import json

import pytest

from mirage.dag.resumption import Kept, check_plan
from mirage.errors import ConfigurationError


def test_what_is_kept_is_there_again_until_all_is_done(tmp_path):
    file, plan = tmp_path / "out.checkpoint", {"seed": 1, "settings": (1, 2)}
    first = Kept(file, plan)
    first.keep(done=3)
    first.keep(more=[1])
    again = Kept(file, plan)
    assert again.finished == {"done": 3, "more": [1]}
    again.remove()
    assert Kept(file, plan).finished == {}
    Kept(None, plan).keep(done=1)
    assert list(tmp_path.iterdir()) == []


def test_another_plan_is_refused_by_what_differs(tmp_path):
    Kept(tmp_path / "kept", {"seed": 1, "jobs": "a", "same": 0}).keep(done=1)
    with pytest.raises(ConfigurationError, match=r"seed was 1 and is 2; noise was not set and is 0.5; jobs was 'a'"):
        Kept(tmp_path / "kept", {"seed": 2, "noise": 0.5, "same": 0})
    check_plan(tmp_path, {"a": [1]}, {"a": (1,)})


@pytest.mark.parametrize("content", ["{", "3", json.dumps({"finished": 1}), "\x00"])
def test_a_damaged_file_is_told(tmp_path, content):
    (tmp_path / "kept").write_text(content)
    with pytest.raises(ConfigurationError, match=r"kept .*remove it"):
        Kept(tmp_path / "kept", {})
