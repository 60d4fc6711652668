"""Keys of trials."""

from __future__ import annotations

from pathlib import Path

import pytest

from mirage.study import trial
from mirage.study.trial import code_key, key_of


def test_equal_inputs_have_equal_keys_and_others_have_others() -> None:
    inputs = [("ab", "c"), ("a", "bc"), ("abc",), (b"ab", b"c"), (b"a", b"bc"), (1, 1.5), (1.5, 1), (None,), ()]
    keys = [key_of(*each) for each in inputs]
    assert len({*keys}) == len(inputs)
    assert keys == [key_of(*each) for each in inputs]
    assert {len(key) for key in keys} == {16}


def test_the_key_of_code_changes_with_code_and_versions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "halving_rule.py").write_text("SHARE = 2")
    (tmp_path / "tripling_rule.py").write_text("SHARE = 3")
    monkeypatch.syspath_prepend(tmp_path)
    modules = ["halving_rule"], ["tripling_rule"], ["halving_rule", "tripling_rule"]
    packages = (), ("numpy",), ("no-such-package",), ("scipy",), ("numpy", "scipy")
    keys = [code_key(of_code, *of_packages) for of_code in modules for of_packages in packages]
    assert len({*keys}) == len(keys) == 15
    assert code_key(reversed(modules[2]), "numpy", "scipy") == keys[-1]
    monkeypatch.setattr(trial, "_version", lambda package: "0")
    older = code_key(modules[2], "numpy", "scipy")
    monkeypatch.setattr("mirage.study.trial.__version__", "0")
    assert len({keys[-1], older, code_key(modules[2], "numpy", "scipy")}) == 3
    with pytest.raises(ModuleNotFoundError, match="no source file"):
        code_key(["no_such_rule"])
