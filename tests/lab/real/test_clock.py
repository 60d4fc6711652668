"""The lock of an accelerated clock, taken by a process that was killed."""

from __future__ import annotations

import ctypes
import os
import pwd
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from mirage.lab.real import clock_lock
from mirage.lab.real.clock import clock_environment, forget_clock, shared_beginning, start_clock
from mirage.lab.real.clock_lock import SharedLock
from mirage.lab.real.lab_spec import LabSpec
from mirage.lab.real.private_cluster import PrivateCluster
from tests.support.second_user import OTHER
from tests.support.waiting import until

LIBC = ctypes.CDLL(None)
TAKE = """
import ctypes, os, signal, sys
libc = ctypes.CDLL(None)
libc.sem_open.restype = ctypes.c_void_p
semaphore = ctypes.c_void_p(libc.sem_open(sys.argv[1].encode(), 0))
libc.sem_wait(semaphore)
os.kill(os.getpid(), signal.SIGKILL)
"""
"""A program that is killed while it has a lock."""


@pytest.fixture
def name() -> Iterator[str]:
    """Name of a semaphore that is free."""
    name = f"/mirage-test-{os.getpid()}"
    LIBC.sem_open.restype = ctypes.c_void_p
    assert LIBC.sem_open(name.encode(), os.O_CREAT | os.O_EXCL, 0o600, 1)
    yield name
    LIBC.sem_unlink(name.encode())


@pytest.fixture
def keeper(name: str) -> Iterator[subprocess.Popen[bytes]]:
    """The process that frees the lock."""
    running = subprocess.Popen([sys.executable, "-I", clock_lock.__file__, name])
    yield running
    running.kill()
    running.wait()


def test_a_lock_of_a_killed_process_is_freed_once(name: str, keeper: subprocess.Popen[bytes]) -> None:
    lock = SharedLock(name)
    subprocess.run([sys.executable, "-I", "-c", TAKE, name], check=False)
    assert lock.value() == 0
    until(lambda: lock.value() == 1, 30, "it is free")
    time.sleep(2.5)
    assert lock.value() == 1, "it is freed once, not each second"
    assert keeper.poll() is None


def test_a_lock_that_changes_hands_is_left_alone(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lock, waits = SharedLock(name), count()
    LIBC.sem_wait(lock._semaphore)
    monkeypatch.setattr(clock_lock.time, "sleep", lambda _: lock.free() if next(waits) == 5 else None)
    assert not lock.is_abandoned()
    assert lock.value() == 1


def test_a_lock_that_does_not_exist_is_named() -> None:
    with pytest.raises(OSError, match="no semaphore /mirage-none"):
        SharedLock("/mirage-none")


@pytest.mark.parametrize(("other", "left"), [("", ""), ("/lib/other.so:", "/lib/other.so"), ("a.so ", "a.so")])
def test_a_cluster_at_normal_speed_leaves_the_fast_clock_of_a_shell(
    other: str, left: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = PrivateCluster(LabSpec(directory=tmp_path))
    monkeypatch.delenv("LD_PRELOAD", raising=False)
    assert "LD_PRELOAD" not in cluster.user_environment
    monkeypatch.setenv("LD_PRELOAD", f"{other}/usr/lib/faketime/libfaketimeMT.so.1")
    monkeypatch.setenv("FAKETIME", "+0 x20")
    off = {"LD_PRELOAD": left, "FAKETIME": "", "FAKETIME_SHARED": ""}
    assert cluster.user_environment.items() >= off.items() <= cluster.processes.environment().items()


@pytest.mark.real_slurm
def test_the_clock_of_a_cluster_survives_a_kill(tmp_path: Path) -> None:
    spec = LabSpec(directory=tmp_path, speed=20)
    spec.run.mkdir()
    assert start_clock(spec, 120)
    keeper = int((spec.run / "clock.pid").read_text())
    try:
        lock = shared_beginning(spec).read_text().split()[0]
        subprocess.run([sys.executable, "-I", "-c", TAKE, lock], check=False)
        environment = {**os.environ, **clock_environment(spec)}
        subprocess.run(["date", "+%s"], env=environment, timeout=30, check=True, stdout=subprocess.DEVNULL)
        os.kill(keeper, 0)
    finally:
        os.killpg(keeper, 15)
        forget_clock(spec)


@pytest.mark.real_slurm
@pytest.mark.skipif(os.geteuid() != 0, reason="becoming a second user needs root")
def test_another_user_has_the_same_clock_and_leaves_nothing_when_killed(tmp_path: Path) -> None:
    spec = LabSpec(directory=tmp_path, speed=60)
    spec.run.mkdir()
    other = pwd.getpwnam(OTHER)
    assert start_clock(spec, 120)
    try:
        before = set(os.listdir("/dev/shm"))
        time.sleep(2)
        environment = {**os.environ, **clock_environment(spec)}
        as_other = {"env": environment, "user": other.pw_uid, "group": other.pw_gid, "extra_groups": [], "cwd": "/"}
        begun_s = time.monotonic()
        theirs, mine = (
            int(subprocess.run(["date", "+%s"], stdout=subprocess.PIPE, timeout=30, check=True, **given).stdout)
            for given in (as_other, {"env": environment})
        )
        assert 0 <= mine - theirs <= 60 * (time.monotonic() - begun_s) + 1
        with subprocess.Popen(["sh", "-c", "echo; exec sleep 1e9"], stdout=subprocess.PIPE, **as_other) as killed:
            assert killed.stdout is not None
            killed.stdout.readline()
            left = {name for name in set(os.listdir("/dev/shm")) - before if Path("/dev/shm", name).stat().st_uid}
            killed.kill()
        assert not left
    finally:
        os.killpg(int((spec.run / "clock.pid").read_text()), 15)
        forget_clock(spec)


@pytest.mark.real_slurm
def test_a_clock_starts_where_killed_ones_have_left_their_shared_memory(tmp_path: Path) -> None:
    spec = LabSpec(directory=tmp_path, speed=20)
    spec.run.mkdir()
    with subprocess.Popen(["true"]) as last:
        numbers = range(last.pid + 1, last.pid + 40)
    left = [Path("/dev/shm") / f"sem.faketime_sem_{number}" for number in numbers]
    left = [path for path in left if not path.exists()]
    for path in left:
        path.write_bytes(b"")
    try:
        assert start_clock(spec, 120)
    finally:
        for path in left:
            path.unlink()
        os.killpg(int((spec.run / "clock.pid").read_text()), 15)
        forget_clock(spec)
    assert not shared_beginning(spec).exists()
