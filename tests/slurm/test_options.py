"""``mirage submit`` reads what sbatch reads."""

from __future__ import annotations

import re

import pytest

from mirage.errors import ConfigurationError
from mirage.slurm.options import OPTIONS, Value, directives, parse_sbatch, to_argv


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
        ("--nice job.sh", {"nice": None}, ("job.sh", ())),
        ("--signal=B:USR2@120 job.sh", {"signal": "B:USR2@120"}, ("job.sh", ())),
    ],
)
def test_words(words: str, options: dict, rest: tuple) -> None:
    assert parse_sbatch(words.split()) == (options, *rest)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--nodez 4", "unrecognized option '--nodez'; did you mean --nodes"),
        ("--mem", "ambiguous|requires an argument"),
        ("--hold=yes", "doesn't allow an argument"),
        ("-N", "option '-N' requires an argument"),
        ("-y", "invalid option -- 'y'"),
        ("--time-", "'--time-' requires|requires an argument"),
    ],
)
def test_words_that_sbatch_would_refuse(words: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        parse_sbatch(words.split())


def test_directives_count_up_to_the_first_command() -> None:
    script = """#!/bin/bash
#SBATCH -N 2   # two of them
#SBATCH --comment="for the paper"

# a remark
#SBATCH --time=1-0
module load x
#SBATCH --nodes=9
"""
    assert directives(script) == {"nodes": "2", "comment": "for the paper", "time": "1-0"}
    with pytest.raises(ConfigurationError, match="line 2 of the script"):
        directives("#!/bin/sh\n#SBATCH --nodez=1\n")


def test_what_was_read_can_be_said_again() -> None:
    options = {"nodes": "2", "exclusive": None, "comment": "a b"}
    assert parse_sbatch([*to_argv(options), "x.sh"])[0] == options


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
