"""Commands of learning where a package is missing report it before they read anything."""

import pytest

from mirage.cli import main
from mirage.extras import install


@pytest.mark.parametrize(
    ("arguments", "missing", "message"),
    [
        (["train", "correction"], {"xgboost", "safetensors"}, "training needs safetensors, XGBoost, which are"),
        (["train", "forest"], {"sklearn", "torch"}, "training needs scikit-learn, which is"),
        (["train", "best"], {"xgboost"}, "training needs XGBoost, which is"),
        (["compare", "--months", "2024-01"], {"torch"}, "training needs PyTorch, which is"),
        (["compare", "--months", "2024-01", "--methods", "none"], {"pyarrow"}, "a data set needs pyarrow, which is"),
        (["explain", "what-if"], {"sklearn"}, "a tree needs scikit-learn, which is"),
    ],
)
def test_what_is_missing_is_reported_before_the_work(monkeypatch, tmp_path, capsys, arguments, missing, message):
    monkeypatch.setattr("mirage.learn.required_packages.find_spec", lambda name: None if name in missing else object())
    assert main([*arguments, "nosuch.csv", "--nodes", "8", "-o", str(tmp_path / "out")]) == 1
    assert capsys.readouterr().err == f"mirage: error: {message} not installed; run: {install('learn')}\n"
    assert not list(tmp_path.iterdir())


def test_a_model_of_waits_needs_another_extra(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(
        "mirage.learn.required_packages.find_spec", lambda name: None if name == "xgboost" else object()
    )
    assert main(["train", "predict", "nosuch.csv", "-o", str(tmp_path / "out")]) == 1
    message = "training needs XGBoost, which is not installed"
    assert capsys.readouterr().err == f"mirage: error: {message}; run: {install('predict')}\n"
