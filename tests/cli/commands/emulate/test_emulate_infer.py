"""``mirage emulate infer``: what it refuses before it listens."""

from __future__ import annotations

import pytest

from mirage.cli import main


def test_a_model_without_a_name_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["emulate", "infer", "--model", "", "--port", "0"]) == 2
    assert capsys.readouterr().err.splitlines()[-1] == "Error: --model is empty; name a model"
