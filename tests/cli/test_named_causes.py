"""Messages about files and folders that cannot be used: they name the cause."""

from __future__ import annotations

import codecs
import os
import re
from pathlib import Path

import pytest

from mirage.cli import main
from mirage.control.run_record import read_run
from mirage.dag.distilled.tree_policy import read_tree
from mirage.errors import ConfigurationError, StoreError, TraceError
from mirage.learn.dataset.shards import DataSetFolder
from mirage.learn.explain.tree_rule import tree_rule_of
from mirage.predict.start.promise_file import Promises
from mirage.report.judgement.results_page import check_results_folder
from mirage.sim.slurm_conf.cluster_file import read_cluster_file
from mirage.trace.workload.workload_json import is_model_file

OF_STAGES = "tree: 1\nfeatures:\n    executors: number\nvalues: number\n\n1\n"
OF_CHAINS = (
    "tree: 1\nfeatures:\n    remaining: duration\nanswers: wait, submit\nsettings:\n    policy: lead:2\n\n"
    "if remaining < 2h:\n    submit\nelse:\n    wait\n"
)


def test_a_file_that_cannot_be_opened_is_named_with_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "closed"
    file.touch()

    def closed(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", str(file))  # root may read anything

    monkeypatch.setattr("builtins.open", closed)
    monkeypatch.setattr(Path, "open", closed)
    with pytest.raises(TraceError, match="closed: cannot be read: Permission denied; check the path"):
        is_model_file(file)
    with pytest.raises(ConfigurationError, match="closed cannot be read: Permission denied; name a text file"):
        read_tree(file)


def test_a_folder_without_a_run_is_named_once_with_the_missing_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as refused:
        read_run(tmp_path)
    message = "no record of a run: run.json: No such file or directory; name a folder that mirage control run"
    assert message in str(refused.value)
    assert "Errno" not in str(refused.value)


def test_promises_that_are_a_folder_are_refused_in_words(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=f"promises in {re.escape(os.fspath(tmp_path))}: Is a directory; name another"):
        Promises(tmp_path).of("c1", "open")


def test_a_file_is_no_folder_of_results(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="pip install mirage-hpc[plot]")
    (tmp_path / "file").touch()
    with pytest.raises(ConfigurationError, match="file: it is a file; name a folder"):
        check_results_folder(tmp_path / "file")


def test_a_damaged_manifest_is_not_called_a_missing_one(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text('{"schema": 1, "vers')
    with pytest.raises(ConfigurationError, match=r"manifest\.json is damaged or cannot be read; remove "):
        DataSetFolder(tmp_path).manifest()
    with pytest.raises(ConfigurationError, match=r"is not a data set: it has no manifest\.json; make one"):
        DataSetFolder(tmp_path / "absent").manifest()


def test_a_byte_order_mark_before_toml_is_skipped(tmp_path: Path) -> None:
    path = tmp_path / "cluster.toml"
    path.write_bytes(codecs.BOM_UTF8 + b"nodes = 8\n")
    with pytest.raises(ConfigurationError, match="is not a cluster file; the first key"):
        read_cluster_file(path)


def test_the_trees_of_chains_and_of_stages_are_distinguished(tmp_path: Path) -> None:
    (tmp_path / "chains.txt").write_text(OF_CHAINS)
    with pytest.raises(ConfigurationError, match="it is a tree of mirage explain, for chains: mirage distill fit"):
        read_tree(tmp_path / "chains.txt")
    with pytest.raises(ConfigurationError, match=r"as those of mirage distill do, .*: mirage explain makes one"):
        tree_rule_of(OF_STAGES)


@pytest.mark.parametrize(
    "words",
    [
        "predict -t 1:00:00 --waits", "trace info t.csv --plot", "simulate t.csv --slurm-conf",
        "schedule speeds", "distill show", "control check --config", "emulate devices", "lab status",
        "chain report x -o", "schedule compare a.csv",
    ],
)  # fmt: skip
def test_an_empty_name_of_a_file_is_a_wrong_usage(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*words.split(), ""]) == 2
    assert re.search("the name of the (file|folder) is empty; name a (file|folder)\n$", capsys.readouterr().err)
