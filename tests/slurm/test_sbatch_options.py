"""``mirage submit`` reads what sbatch reads."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from mirage.errors import ConfigurationError
from mirage.slurm.sbatch_options import OPTIONS, VARIABLES, Value, from_environment, one_option, parse_sbatch, to_argv


@pytest.mark.parametrize(
    ("words", "options", "rest"),
    [
        ("-N 4 job.sh", {"nodes": "4"}, ("job.sh", ())),
        ("-N4 -t1-0 job.sh -N 9", {"nodes": "4", "time": "1-0"}, ("job.sh", ("-N", "9"))),
        ("--nodes=4 --exclusive job.sh a b", {"nodes": "4", "exclusive": None}, ("job.sh", ("a", "b"))),
        ("--nodes 4 --exclusive=user job.sh", {"nodes": "4", "exclusive": "user"}, ("job.sh", ())),
        ("-HQ job.sh", {"hold": None, "quiet": None}, ("job.sh", ())),
        ("-HN2 job.sh", {"hold": None, "nodes": "2"}, ("job.sh", ())),
        ("--partit gpu job.sh", {"partition": "gpu"}, ("job.sh", ())),
        ("-n 1 -n 2 job.sh", {"ntasks": "2"}, ("job.sh", ())),
        ("-N 1 -- --odd.sh x", {"nodes": "1"}, ("--odd.sh", ("x",))),
        ("--wrap=hostname", {"wrap": "hostname"}, (None, ())),
        ("--tasks-per-node=4 --tasks 8 job.sh", {"ntasks-per-node": "4", "ntasks": "8"}, ("job.sh", ())),
        ("--batch=big --context c job.sh", {"batch": "big", "context": "c"}, ("job.sh", ())),
        ("--nice job.sh", {"nice": None}, ("job.sh", ())),
        ("--signal=B:USR2@120 job.sh", {"signal": "B:USR2@120"}, ("job.sh", ())),
    ],
)
def test_words(words: str, options: dict, rest: tuple) -> None:
    assert parse_sbatch(words.split()) == (options, *rest)


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ("--nodez 4", "unrecognized option '--nodez'; did you mean --nodes"),
        ("--mem", "ambiguous|requires an argument"),
        ("--hold=yes", "doesn't allow an argument"),
        ("-N", "option '-N' requires an argument"),
        ("-y", "invalid option -- 'y'"),
        ("--time-", "'--time-' requires|requires an argument"),
    ],
)
def test_words_that_sbatch_would_refuse(words: str, problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        parse_sbatch(words.split())


def test_what_was_read_can_be_written_again() -> None:
    options = {"nodes": "2", "exclusive": None, "comment": "a b"}
    assert parse_sbatch([*to_argv(options), "x.sh"])[0] == options


def test_options_are_taken_one_by_one() -> None:
    assert one_option(["-t", "3", "-N1"]) == ({"time": "3"}, ["-N1"])
    assert one_option(["--exclusive", "user"]) == ({"exclusive": None}, ["user"])
    assert one_option(["-HN", "2", "x"]) == ({"hold": None, "nodes": "2"}, ["x"])


def test_variables_stand_for_options() -> None:
    environment = {
        "SBATCH_TIMELIMIT": "5",
        "SBATCH_ARRAY_INX": "1-2",
        "SLURM_CLUSTERS": "far",
        "SBATCH_JOB_NAME": "",
        "SBATCH_COMMENT": "sbatch knows no such variable",
        "SBATCH_MEM_PER_NODE": "1G",
    }
    assert from_environment(environment) == {"time": "5", "array": "1-2", "clusters": "far", "mem": "1G"}
    assert set(VARIABLES.values()) <= set(OPTIONS)


@pytest.mark.real_slurm
@pytest.mark.slow
def test_the_variables_are_those_that_the_real_sbatch_has() -> None:
    program = Path(shutil.which("sbatch") or "").read_bytes()
    names = {name.decode() for name in re.findall(rb"\0(SBATCH_[A-Z0-9_]+)(?=\0)", program)}
    assert names
    names = {name for name in names if not name.startswith(("SBATCH_MEM_BIND_", "SBATCH_BATCH", "SBATCH_WAIT4SWITCH"))}
    assert names == {name for name in VARIABLES if name.startswith("SBATCH_")}


@pytest.mark.real_slurm
@pytest.mark.slow
def test_the_options_are_those_of_the_real_sbatch(private_cluster) -> None:
    cluster = private_cluster(nodes=1, gpus=0)
    shown = cluster.run("sbatch", "--help")
    found = re.findall(r"^ {2}(?:-(\w),? +| {4})--([a-z-]+)(\[?=)?", shown, re.MULTILINE)
    assert len(found) > 70
    for letter, name, value in found:
        option = OPTIONS[name]
        assert option.letter == letter or not letter
        assert (option.value is Value.NONE) == (not value) or option.value is Value.OPTIONAL or name == "container", (
            name
        )
