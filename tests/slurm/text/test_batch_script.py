"""The options in a batch script are those that sbatch finds there."""

from __future__ import annotations

import re
import subprocess

import pytest

from mirage.errors import ConfigurationError
from mirage.slurm.text.batch_script import _read, directives, ignored, without


def test_directives_count_up_to_the_first_command() -> None:
    script = b"""#!/bin/bash
#SBATCH -N 2   # two of them
#SBATCH --comment="for the paper"

# a remark
#SBATCH --time=1-0
module load x
#SBATCH --nodes=9
"""
    assert directives(script) == {"nodes": "2", "comment": "for the paper", "time": "1-0"}
    with pytest.raises(ConfigurationError, match="line 2 of the script"):
        directives(b"#!/bin/sh\n#SBATCH --nodez=1\n")


LINES = [
    ('--comment="a b"', ["--comment=a b"]),
    (" --comment='it\\'s'", ["--comment=it's"]),
    ("\t-N1 -t 3#remark --qos=x", ["-N1", "-t", "3"]),
    ("  -J a\\ b", ["-J", "a", "b"]),
    ('-J "a#b" # c', ["-J", "a#b"]),
    ('-J pre"mid dle"post', ["-J", "premid dlepost"]),
    ('-J "say \\"hi\\""', ["-J", 'say "hi"']),
    ("-t 3 \f-N 1\v", ["-t", "3", "-N", "1"]),
    (" -N2 \\", ["-N2"]),
    (" -J cut\\", ["-J", "cut"]),
    (" -N2 \\  ", ["-N2"]),
    (" -N2 \\ -t 9 # minutes", ["-N2"]),
    (" -t 4 '' -J rest", ["-t", "4"]),
    (" -J n#o \\", ["-J", "n"]),
    (" -J end\\\\", ["-J", "end\\"]),
]
"""What stands behind ``#SBATCH``, and its words."""


@pytest.mark.parametrize(("line", "words"), LINES)
def test_words_of_a_line(line: str, words: list[str]) -> None:
    assert [word for line in _read(f"#!/bin/sh\n#SBATCH{line}\n".encode()) for word in line.words] == words


def test_what_is_ignored_is_reported_with_its_line() -> None:
    script = b"#!/bin/sh\n" + b"".join(f"#SBATCH{line}\n".encode() for line, _ in LINES) + b"-t 5\n#SBATCH -t 6 \\\n"
    continues = "a backslash does not continue a #SBATCH line; the next line counts only if it begins with #SBATCH"
    first = 2 + [line for line, _ in LINES].index(" -N2 \\")
    assert ignored(script) == (
        f"line {first} of the script, '#SBATCH -N2 \\\\': {continues}",
        f"line {first + 1} of the script, '#SBATCH -J cut\\\\': {continues}",
        f"line {first + 2} of the script, '#SBATCH -N2 \\\\  ': {continues}",
        f"line {first + 3} of the script, '#SBATCH -N2 \\\\ -t 9 # minutes': sbatch stops reading at an empty "
        "word, and ignores '\\\\ -t 9 # minutes'",
        f"line {first + 4} of the script, \"#SBATCH -t 4 '' -J rest\": sbatch stops reading at an empty word, and "
        "ignores \"'' -J rest\"",
        f"line {len(LINES) + 3} of the script, '#SBATCH -t 6 \\\\': sbatch ignores it after the first command; "
        "move it up",
    )


@pytest.mark.parametrize(
    ("script", "late"),
    [
        ("set -e\n#SBATCH -t 5\n", [4]),
        ("#SBATCH -t 5\n# set -e\n#SBATCH -N 2\n", []),
        ("true\n#SBATCH is read by sbatch\n#SBATCH -N2\n", [5]),
        ("cat > job.sh <<END\n#SBATCH -t 5\nEND\n", []),
        ("true\n#SBATCH -t 5\ncat <<END\n#SBATCH -t 6\nEND\n", [4]),
    ],
)
def test_a_line_after_the_first_command_is_reported(script: str, late: list[int]) -> None:
    found = ignored(f"#!/bin/sh\n\n{script}".encode())
    assert [line.partition(" of the script")[0] for line in found] == [f"line {number}" for number in late]
    assert all(line.endswith(": sbatch ignores it after the first command; move it up") for line in found)


@pytest.mark.parametrize(
    "line", ["# SBATCH -t 10", "#sbatch -N 3", "#Sbatch\t--qos=x", " #SBATCH -t 10", "#  SBATCH -t 1"]
)
def test_a_line_in_another_spelling_is_reported(line: str) -> None:
    (found,) = ignored(f"#!/bin/sh\n{line}\n#SBATCH -J x\ntrue\n{line}\n".encode())
    assert found.startswith("line 2 of the script, ")
    assert found.endswith(": sbatch reads a line only if it begins with #SBATCH; write it so, or with ##SBATCH if it "
                          "is a comment")  # fmt: skip


@pytest.mark.parametrize("line", ["##SBATCH -t 10", "## SBATCH -t 5", "# sbatch -N 2 job.sh", "# SBATCH lines"])
def test_a_comment_is_not_reported(line: str) -> None:
    assert ignored(f"#!/bin/sh\n{line}\ntrue\n".encode()) == ()


def test_only_lines_that_begin_with_it_count() -> None:
    script = (
        b"#!/bin/sh\n #SBATCH --nodes=2\n##SBATCH -N3\n\t\n#SBATCH -t 3\n  # remark\n#SBATCH -J x\n :\n#SBATCH -J y\n"
    )
    assert directives(script) == {"time": "3", "job-name": "x"}


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("-t 3 word -J x", "line 2 .*: Invalid directive found in batch script: word"),
        ("X", "Invalid directive found in batch script: X"),
        (": -N1", "Unexpected `:`"),
        ('--comment="open', 'Unmatched `"`'),
        (" hetjob", "heterogeneous job"),
        (" packjob", "heterogeneous job"),
        (" --nodez=2", "unrecognized option '--nodez'"),
        (" --time", "option '--time' requires an argument"),
        ("-t 4h", "sbatch knows no units in --time=4h; write --time=04:00:00"),
        ("-N2 --time-min 1.5D", "sbatch knows no units in --time-min=1.5D; write --time-min=1-12:00:00"),
    ],
)
def test_lines_that_are_refused(line: str, problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        directives(b"#!/bin/sh\n#SBATCH" + line.encode() + b"\n")


def test_bytes_that_are_no_text_stay_as_they_are() -> None:
    script = b"#!/bin/sh\n# \xe9\n#SBATCH --comment=\xe9t\xe9 --begin=now\n"
    assert directives(script)["comment"] == "\udce9t\udce9"
    assert without(script, {"begin"}) == b'#!/bin/sh\n# \xe9\n#SBATCH "--comment=\xe9t\xe9"\n'


def test_options_are_taken_out_of_a_script() -> None:
    script = b"""#!/bin/sh
#SBATCH -t 3 --begin now+1hour -b 16:00 -J "a \\\\"b\\" # when
#SBATCH --deadline=tomorrow
#SBATCH --dependency afterok:1
#SBATCH   -N   2
echo
#SBATCH --begin=now
"""
    left = without(script, {"begin", "deadline", "dependency"})
    assert left.splitlines()[1:] == [
        b'#SBATCH --time=3 "--job-name=a \\\\b\\""',
        b"##SBATCH --deadline=tomorrow",
        b"##SBATCH --dependency afterok:1",
        b"#SBATCH   -N   2",
        b"echo",
        b"#SBATCH --begin=now",
    ]
    assert directives(left) == {"time": "3", "job-name": 'a \\b"', "nodes": "2"}
    assert without(left, {"begin"}) == left


@pytest.mark.real_slurm
@pytest.mark.slow
def test_the_real_sbatch_finds_the_same_words(private_cluster, tmp_path) -> None:
    cluster = private_cluster(nodes=1, gpus=0)
    script = tmp_path / "job.sh"
    text = "".join(f"#SBATCH{line}\n" for line, _ in LINES)
    script.write_text(f"#!/bin/sh\n {text.splitlines()[0]}\n# remark\n\n{text}echo\n{text}")
    done = subprocess.run(
        ["sbatch", "-vvv", "--test-only", script], env=cluster.environment, capture_output=True, text=True
    )
    assert re.findall(r'Found in script, argument "(.*)"$', done.stderr, re.MULTILINE) == [
        word for _, words in LINES for word in words
    ]
