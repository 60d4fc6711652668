"""Causes of failures in realistic output of jobs, and files that cannot be read."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mirage.agent.failure.log_patterns import (
    TAIL_BYTES,
    Verdict,
    builtin_patterns,
    find_cause,
    parse_patterns,
    read_patterns,
    tail_of,
)
from mirage.errors import ConfigurationError
from mirage.lab.real.slurm_packages import faketime_library

EXCLUDE, STOP, CONTINUE = Verdict

TRACEBACK = """\
Traceback (most recent call last):
  File "/home/ada/gpt/train.py", line 211, in <module>
    main()
  File "/home/ada/gpt/train.py", line 187, in main
    loss = model(batch)
"""

ELASTIC = """\
W0612 04:11:09.310000 140213 torch/distributed/elastic/multiprocessing/api.py:897] Sending process 140281 SIGTERM
E0612 04:11:09.902000 140213 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: 1) local_rank: 3
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
  time      : 2026-06-12_04:11:09
  host      : n017
  rank      : 3 (local_rank: 3)
srun: error: n017: task 0: Exited with exit code 1
"""

WATCHDOG = (
    "[rank3]:[E612 04:41:09.408271257 ProcessGroupNCCL.cpp:607] [Rank 3] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=1580, OpType=ALLREDUCE, NumelIn=466119168, NumelOut=466119168, Timeout(ms)=600000) ran for 600060 "
    "milliseconds before timing out.\n"
)

LINES = [
    ("xid-hardware", "n017: [52013.3] NVRM: Xid (PCI:0000:3b:00): 74, pid='<unknown>', NVLink: fatal error on link 2"),
    ("xid-hardware", "NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', GPU has fallen off the bus."),
    (
        "gpu-lost",
        "Unable to determine the device handle for GPU 0000:3B:00.0: GPU is lost.  Reboot the system to recover",
    ),
    ("gpu-memory-fault", "RuntimeError: CUDA error: uncorrectable ECC error encountered"),
    ("gpu-missing", "RuntimeError: No CUDA GPUs are available"),
    ("gpu-driver-too-old", "cudaGetDeviceCount failed: CUDA driver version is insufficient for CUDA runtime version"),
    ("node-file-system", "OSError: [Errno 116] Stale file handle: '/scratch/ada/shard-0031.bin'"),
    (
        "gpu-out-of-memory",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 3 has 79.10 GiB",
    ),
    (
        "out-of-memory",
        "slurmstepd: error: Detected 1 oom_kill event in StepId=14604003.batch. Some tasks have been OOM Killed.",
    ),
    ("out-of-memory", "srun: error: n017: task 0: Out Of Memory"),
    (
        "shared-memory",
        "RuntimeError: DataLoader worker (pid 4031) is killed by signal: Bus error. It is possible that dataloader's "
        "workers are out of shared memory.",
    ),
    ("disk-full", "OSError: [Errno 28] No space left on device: '/scratch/ada/ckpt/step_9000.pt.part'"),
    ("import-error", "[rank0]: ModuleNotFoundError: No module named 'flash_attn'"),
    ("import-error", "3: ImportError: cannot import name 'PreTrainedModel' from 'transformers'"),
    ("syntax-error", "SyntaxError: invalid syntax (train.py, line 12)"),
    ("syntax-error", "/var/spool/slurmd/job17/slurm_script: line 9: syntax error near unexpected token `done'"),
    ("program-missing", "/var/spool/slurmd/job00017/slurm_script: line 8: torchrun: command not found"),
    ("program-missing", "python: can't open file '/home/ada/gpt/trian.py': [Errno 2] No such file or directory"),
    ("output-folder-missing", "there is no folder /scratch/ada/logs here, and Slurm makes none"),
    ("not-a-number", "{'loss': nan, 'grad_norm': nan, 'learning_rate': 0.0003, 'epoch': 0.41}"),
    ("not-a-number", "iteration     9210/  500000 | learning rate: 3.0E-04 | lm loss: nan | loss scale: 1.0 |"),
    ("not-a-number", "Loss is nan, stopping training"),
    (
        "checkpoint-damaged",
        "RuntimeError: PytorchStreamReader failed reading zip archive: failed finding central directory",
    ),
    ("checkpoint-mismatch", "RuntimeError: Error(s) in loading state_dict for GPT:"),
    ("access-denied", "requests.exceptions.HTTPError: 401 Client Error: Unauthorized for url: https://example.org/x"),
    ("nccl-time-out", WATCHDOG.strip()),
    ("xid-program", "NVRM: Xid (PCI:0000:3b:00): 31, pid=4031, name=python, Ch 00000008, intr 00000000. MMU Fault"),
    (
        "connection-lost",
        "RuntimeError: [2] is setting up NCCL communicator: recvValue failed: Connection reset by peer",
    ),
]


def test_the_table_has_21_patterns_and_each_names_its_source() -> None:
    table = builtin_patterns()
    assert len({pattern.name for pattern in table}) == 21
    assert all(pattern.source and pattern.meaning for pattern in table)
    assert {pattern.verdict for pattern in table} == set(Verdict)
    assert {name for name, _ in LINES} == {pattern.name for pattern in table}, "every pattern has an example here"


@pytest.mark.parametrize(("name", "line"), LINES)
def test_each_pattern_finds_its_line_in_an_output(name: str, line: str) -> None:
    cause = find_cause(f"step 41 loss 2.31\n{line}\n{ELASTIC}", builtin_patterns())
    assert cause is not None
    assert cause.line == line
    assert cause.pattern.name == name
    assert str(cause).endswith(f": {line}")


@pytest.mark.parametrize(
    ("output", "name", "verdict"),
    [
        (f"{TRACEBACK}torch.OutOfMemoryError: CUDA out of memory.\n{ELASTIC}", "gpu-out-of-memory", STOP),
        (f"step 9000\n{WATCHDOG}{ELASTIC}", "nccl-time-out", CONTINUE),
        (f"NVRM: Xid (PCI:0000:3b:00): 95, pid=4031, ECC error\n{WATCHDOG}{ELASTIC}", "xid-hardware", EXCLUDE),
        (f"{TRACEBACK}OSError: No space left on device\nConnection reset by peer\n{ELASTIC}", "disk-full", STOP),
        (f"{TRACEBACK}ModuleNotFoundError: No module named 'apex'\n{ELASTIC}", "import-error", STOP),
        (f"step 9000 loss: 2.1\nstep 9001 loss: nan\n{TRACEBACK}FloatingPointError\n", "not-a-number", STOP),
    ],
)  # fmt: skip
def test_the_cause_decides_and_not_what_follows_from_it(output: str, name: str, verdict: Verdict) -> None:
    cause = find_cause(output, builtin_patterns())
    assert cause is not None
    assert (cause.pattern.name, cause.pattern.verdict) == (name, verdict)


@pytest.mark.parametrize(
    "line",
    [
        "step 41 loss 2.31 nano 4",
        "number of nan iterations:   0 |",
        "financial loss banner",
        "warning: flash_attn raised ImportError, the slow path is used",
        "checkpoint saved: no space is wasted on the device",
        "Xid errors so far: 0",
        "2026-06-12 out of memory? no",
        "srun: error: n017: task 0: Exited with exit code 1",
        "",
    ],
)
def test_ordinary_lines_are_no_cause(line: str) -> None:
    assert find_cause(line, builtin_patterns()) is None


def test_the_last_line_decides_and_control_characters_are_dropped() -> None:
    output = "No space left on device\nok\n\x1b[31mCUDA out of memory.\x1b[0m\rstep 3\r"
    cause = find_cause(output, builtin_patterns())
    assert cause is not None
    assert (cause.pattern.name, cause.line) == ("gpu-out-of-memory", "CUDA out of memory.")


def test_a_message_has_the_begin_of_a_long_line() -> None:
    cause = find_cause("x" * 1_990 + " Broken pipe " + "y" * 9_999, builtin_patterns())
    assert cause is None, "the match is beyond the part of a line that is searched"
    cause = find_cause("Broken pipe " + "y" * 9_999, builtin_patterns())
    assert cause is not None
    assert str(cause).endswith("y…")
    assert len(str(cause)) < 400


def test_the_tail_of_a_file_is_read_whatever_its_bytes_and_nothing_else(tmp_path: Path) -> None:
    log = tmp_path / "slurm-17.out"
    log.write_bytes(
        b"ModuleNotFoundError: No module named 'x'\n" + b"\xff\x00" * TAIL_BYTES + b"\nDisk quota exceeded\n"
    )
    text = tail_of(log, 0)
    assert text is not None
    cause = find_cause(text, builtin_patterns())
    assert cause is not None
    assert cause.line == "Disk quota exceeded"
    os.truncate(log, log.stat().st_size - 21)
    assert find_cause(tail_of(log, 0) or "", builtin_patterns()) is None, "the first line is not in the tail"


def test_files_that_are_missing_old_or_no_files_have_no_tail(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    old = tmp_path / "old.out"
    old.write_text("No space left on device")
    os.utime(old, (1_000, 1_000))
    assert tail_of(old, 1_060) is not None
    assert tail_of(old, 1_061) is None, "the link began after it was written"
    for path in (tmp_path / "none", tmp_path, tmp_path / "pipe", Path("/dev/null"), Path("a\0b")):
        assert tail_of(path, 0) is None


READ_ON_A_FAST_CLOCK = """
import sys, time
from pathlib import Path
from mirage.agent.failure.log_patterns import tail_of
since_s = int(time.time())
Path("new.out").write_text("new")
print(time.time() - float(sys.argv[1]) > 3_000, tail_of(Path("new.out"), since_s), tail_of(Path("old.out"), since_s))
print(tail_of(Path("old.out"), since_s - 3_600))
"""


def test_the_age_of_a_file_counts_on_a_compressed_clock(tmp_path: Path) -> None:
    """The old file is ten real seconds old, which are 200 s of that clock."""
    library = faketime_library()
    if library is None:
        pytest.skip("there is no libfaketime; apt-get install libfaketime")
    (tmp_path / "old.out").write_text("old")
    written_s = (tmp_path / "old.out").stat().st_mtime
    os.utime(tmp_path / "old.out", (written_s - 10, written_s - 10))
    environment = {"LD_PRELOAD": str(library), "FAKETIME": "+1h x20", "PYTHONPATH": ":".join(sys.path)}
    words = [sys.executable, "-c", READ_ON_A_FAST_CLOCK, str(written_s)]
    done = subprocess.run(words, cwd=tmp_path, env=environment, check=True, timeout=60, capture_output=True, text=True)
    assert done.stdout == "True new None\nold\n"


def test_a_user_s_file_adds_patterns_and_replaces_those_of_its_names(tmp_path: Path) -> None:
    own = tmp_path / "log-patterns.toml"
    assert read_patterns(own) == builtin_patterns()
    own.write_text("[nccl-time-out]\nverdict = 'stop'\nregex = 'Watchdog'\n[own]\nverdict = 'exclude'\nregex = 'E42'\n")
    known = {pattern.name: pattern for pattern in read_patterns(own)}
    assert len(known) == len(builtin_patterns()) + 1
    assert (known["nccl-time-out"].verdict, known["own"].meaning) == (STOP, "own")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[", "p.toml is not TOML"),
        ("x = 3", "'x' is not a table with verdict, regex, meaning and source"),
        ("[x]\nverdict = 'stop'", "'x' is not a table"),
        ("[x]\nverdict = 'stop'\nregex = 'a'\ncolour = 'red'", "'x' is not a table"),
        ("[x]\nverdict = 'stop'\nregex = ''", "'x' has an empty value"),
        ("[x]\nverdict = 'halt'\nregex = 'a'", "'halt'; known: exclude, stop, continue"),
        ("[x]\nverdict = 'stop'\nregex = '('", "'x' has no valid regular expression"),
    ],
)
def test_a_wrong_pattern_is_refused_with_its_name(text: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message.replace("(", r"\(")):
        parse_patterns(text, "p.toml")


def test_a_user_s_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "bytes.toml").write_bytes(b"\xff")
    with pytest.raises(ConfigurationError, match=r"bytes\.toml: it is not text in UTF-8: byte 1 is 0xff"):
        read_patterns(tmp_path / "bytes.toml")
    with pytest.raises(ConfigurationError, match=r"cannot read .*: it is not a file; make it readable, or remove it"):
        read_patterns(tmp_path)
