"""Weights of priorities as ``sprio -w`` prints them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from mirage.errors import ConfigurationError
from mirage.sim.slurm_conf.priority_weights import with_priority_weights
from mirage.sim.slurm_conf.slurm_settings import SlurmSettings

HEAD = "  JOBID PARTITION   PRIORITY       SITE        AGE  FAIRSHARE  PARTITION        QOS                 TRES\n"
LONESTAR6 = SlurmSettings.lonestar6()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "weights.txt"


def test_what_a_real_sprio_printed(shared_data: Path) -> None:
    found = with_priority_weights(LONESTAR6, shared_data / "slurm-fixtures" / "sprio.w.txt")
    assert found == replace(
        LONESTAR6, weight_age=1000, weight_fairshare=2000, weight_size=100, weight_partition=5000, weight_qos=10000,
        weight_gpus=1000,
    )  # fmt: skip


def test_a_weight_that_is_not_printed_is_none(file: Path) -> None:
    row = f"Weights{700:>43}{4000:>22}{'CPU=10,Mem=5,GRES/gpu=2000':>32}\n"
    file.write_text(HEAD + row)
    assert len(row) >= len(HEAD)
    assert with_priority_weights(LONESTAR6, str(file)) == replace(
        LONESTAR6, weight_age=700, weight_fairshare=0, weight_size=0, weight_partition=4000, weight_qos=0,
        weight_gpus=2000, weight_cpus=10,
    )  # fmt: skip


def test_weights_that_sprio_may_have_cut_are_refused(file: Path) -> None:
    cut = "CPU=1000,GRES/gpu=10"
    file.write_text(f"{HEAD}Weights{cut:>{len(HEAD) - len('Weights') - 1}}\n")
    with pytest.raises(ConfigurationError) as refused:
        with_priority_weights(LONESTAR6, file)
    assert str(refused.value) == (
        f"{file}: the weights of TRES fill their column, so '{cut}' may be cut; write "
        '`sprio -w -o "%.9i %.10A %.10F %.10J %.10P %.10Q %.99T"` to it'
    )


def test_weights_in_wide_columns_are_read(file: Path) -> None:
    head = f"{'JOBID':>9}{'AGE':>11}{'FAIRSHARE':>11}{'JOBSIZE':>11}{'PARTITION':>11}{'QOS':>11}{'TRES':>100}\n"
    file.write_text(f"{head}{'Weights':>9}{700:>11}{0:>11}{0:>11}{4000:>11}{0:>11}{'CPU=1000,GRES/gpu=10':>100}\n")
    assert with_priority_weights(SlurmSettings(), file) == SlurmSettings(
        weight_age=700, weight_partition=4000, weight_cpus=1000, weight_gpus=10
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is not what `sprio -w` prints"),
        (HEAD, "is not what `sprio -w` prints"),
        (f"{HEAD}Weights{'many':>43}\n", "the weight 'many' of AGE is not a number"),
    ],
)
def test_what_cannot_be_read_is_reported(file: Path, text: str, message: str) -> None:
    file.write_text(text)
    with pytest.raises(ConfigurationError, match=message):
        with_priority_weights(LONESTAR6, file)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="write `sprio -w` to it"):
        with_priority_weights(LONESTAR6, tmp_path / "none")
