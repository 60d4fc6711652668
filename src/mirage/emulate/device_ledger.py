"""The emulated devices of a node: their memory, its owners, and faults.

All of it is in one file of a node, which processes map into memory. Writers take a lock on the file. An owner is a
process ID with the start time of the process; what a dead owner held is free. ``nvml.c`` reads the same file.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import struct
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from mirage.emulate.out_of_memory import out_of_memory_text
from mirage.emulate.step_time import GpuCard
from mirage.errors import ConfigurationError, DeviceLost, OutOfDeviceMemory

MAGIC = b"MIRGPUS1"
HEADER = struct.Struct("<8sI52x")
"""Magic, number of devices."""

DEVICE = struct.Struct("<96s48s32sQQQQQII")
"""Name, UUID, bus ID, bytes of memory, last Xid, number of Xids, corrected and uncorrected ECC errors, lost, unused."""

OWNER = struct.Struct("<IIQQ")
"""Process ID, utilisation in percent, start time in clock ticks, bytes of memory."""

DEVICE_BYTES, OWNERS_AT, MAX_OWNERS = 2048, 256, 64
XID_AT, ECC_AT, LOST_AT = 96 + 48 + 32 + 8, 96 + 48 + 32 + 24, 96 + 48 + 32 + 40
MIB = 1 << 20

LOST_XID = 79
"""The Xid of a GPU that has fallen off the bus."""


@dataclass(frozen=True, slots=True)
class DeviceOwner:
    """A process that holds memory of a device.

    Attributes:
        pid: Its process ID.
        utilisation: Percent of the time in which it computes.
        start: Its start time, in clock ticks since the machine started.
        memory_mib: The memory that it holds.
    """

    pid: int
    utilisation: int
    start: int
    memory_mib: int


@dataclass(frozen=True, slots=True)
class EmulatedDevice:
    """A device as its file describes it; owners that have ended are left out."""

    name: str
    uuid: str
    memory_mib: int
    xid: int
    xids: int
    ecc_corrected: int
    ecc_uncorrected: int
    lost: bool
    owners: tuple[DeviceOwner, ...]


class DeviceLedger:
    """The devices of one node, in one mapped file.

    Args:
        path: The file; it is created if it does not exist.
        card: The card of all devices.
        count: Number of devices of a new file.

    Raises:
        ConfigurationError: The file cannot be used, or its devices are other cards.
    """

    def __init__(self, path: Path, card: GpuCard | None = None, count: int = 8) -> None:
        self.path = path
        try:
            self._file = os.open(path, os.O_RDWR | (os.O_CREAT if card else 0) | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise ConfigurationError(f"{path}: {error.strerror}; name the folder of the emulated devices") from error
        with self._locked():
            if card is not None and os.fstat(self._file).st_size == 0:
                os.pwrite(self._file, _new_file(path.stem, card, count), 0)
            size = os.fstat(self._file).st_size
            head = os.pread(self._file, HEADER.size, 0)
        magic, self.count = HEADER.unpack(head) if len(head) == HEADER.size else (b"", 0)
        if magic != MAGIC or size != HEADER.size + self.count * DEVICE_BYTES:
            os.close(self._file)
            raise ConfigurationError(f"{path}: it is no file of emulated devices; remove it, or name another folder")
        self._map = mmap.mmap(self._file, size)
        if card is not None and self.device(0).name != card.title:
            raise ConfigurationError(
                f"{path}: its devices are {self.device(0).name}, the job needs {card.title}; name another folder"
            )

    @contextmanager
    def _locked(self) -> Iterator[None]:
        fcntl.flock(self._file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(self._file, fcntl.LOCK_UN)

    def device(self, number: int) -> EmulatedDevice:
        """A device by its number."""
        name, uuid, _, memory, xid, xids, corrected, uncorrected, lost, _ = DEVICE.unpack_from(
            self._map, self._at(number)
        )
        return EmulatedDevice(
            _text(name), _text(uuid), memory // MIB, xid, xids, corrected, uncorrected, bool(lost),
            tuple(owner for _, owner in self._owners(number)),
        )  # fmt: skip

    def hold(self, devices: Sequence[int], memory_mib: int) -> None:
        """Takes memory for this process on each of some devices, or on none of them.

        Raises:
            ConfigurationError: There is no such device, or too many processes hold memory of it.
            OutOfDeviceMemory: A device has too little free memory.
        """
        with self._locked():
            slots = []
            for number in devices:
                owners = list(self._owners(number))
                total_mib = DEVICE.unpack_from(self._map, self._at(number))[3] // MIB
                held_mib = Counter[int]()
                for _, owner in owners:
                    held_mib[owner.pid] += owner.memory_mib
                if sum(held_mib.values()) + memory_mib > total_mib:
                    raise OutOfDeviceMemory(out_of_memory_text(memory_mib, number, total_mib, held_mib))
                free = next((k for k in range(MAX_OWNERS) if k not in {slot for slot, _ in owners}), None)
                if free is None:
                    raise ConfigurationError(f"{self.path}: {MAX_OWNERS} processes hold device {number}; end one")
                slots.append(free)
            for number, slot in zip(devices, slots):
                at = self._at(number) + OWNERS_AT + slot * OWNER.size
                OWNER.pack_into(self._map, at, os.getpid(), 0, start_ticks(os.getpid()), memory_mib * MIB)

    def release(self, devices: Sequence[int]) -> None:
        """Frees the memory of this process on some devices."""
        with self._locked():
            for number in devices:
                for slot, owner in self._owners(number):
                    if owner.pid == os.getpid():
                        OWNER.pack_into(self._map, self._at(number) + OWNERS_AT + slot * OWNER.size, 0, 0, 0, 0)

    def set_utilisation(self, percent: int) -> None:
        """Reports the share of time in which this process computes, on all its devices."""
        for number in range(self.count):
            for slot, owner in self._owners(number):
                if owner.pid == os.getpid() and owner.utilisation != percent:
                    struct.pack_into("<I", self._map, self._at(number) + OWNERS_AT + slot * OWNER.size + 4, percent)

    def sharing(self, devices: Sequence[int]) -> int:
        """Returns the largest number of processes on any of some devices.

        Raises:
            DeviceLost: One of the devices is lost.
        """
        for number in devices:
            if self.device(number).lost:
                raise DeviceLost(
                    f"GPU {number} of {self.path.stem} is lost (Xid {LOST_XID}): CUDA error: the device has fallen off "
                    "the bus; exclude this node and start the job again"
                )
        return max(len(list(self._owners(number))) for number in devices)

    def fault(self, number: int, *, xid: int = 0, corrected: int = 0, uncorrected: int = 0, lost: bool = False) -> None:
        """Injects faults into a device: an Xid, ECC errors, or the loss of the device.

        A lost device also reports Xid 79.
        """
        with self._locked():
            at, found = self._at(number), self.device(number)
            xid = xid or (LOST_XID if lost else 0)
            if xid:
                struct.pack_into("<QQ", self._map, at + XID_AT, xid, found.xids + 1)
            ecc = (found.ecc_corrected + corrected, found.ecc_uncorrected + uncorrected)
            struct.pack_into("<QQ", self._map, at + ECC_AT, *ecc)
            struct.pack_into("<I", self._map, at + LOST_AT, lost or found.lost)

    def restore(self, number: int) -> None:
        """Removes all faults of a device; its number of Xids is unchanged."""
        with self._locked():
            struct.pack_into("<Q", self._map, self._at(number) + XID_AT, 0)
            struct.pack_into("<QQ", self._map, self._at(number) + ECC_AT, 0, 0)
            struct.pack_into("<I", self._map, self._at(number) + LOST_AT, 0)

    def close(self) -> None:
        """Closes the file; what this process holds stays held."""
        self._map.close()
        os.close(self._file)

    def _at(self, number: int) -> int:
        if not 0 <= number < self.count:
            raise ConfigurationError(f"{self.path}: there is no device {number}; it has 0 to {self.count - 1}")
        return HEADER.size + number * DEVICE_BYTES

    def _owners(self, number: int) -> Iterator[tuple[int, DeviceOwner]]:
        """Slots and owners of a device that still run."""
        table = self._map[self._at(number) + OWNERS_AT :][: MAX_OWNERS * OWNER.size]
        for slot, (pid, utilisation, start, memory) in enumerate(OWNER.iter_unpack(table)):
            if pid and start_ticks(pid) == start:
                yield slot, DeviceOwner(pid, utilisation, start, memory // MIB)


def start_ticks(pid: int) -> int:
    """Returns the start time of a process in clock ticks; -1 if it has ended."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return -1
    return -1 if fields[0] in (b"Z", b"X") else int(fields[19])


def _new_file(node: str, card: GpuCard, count: int) -> bytes:
    devices = []
    for number in range(count):
        uuid = f"GPU-{os.urandom(4).hex()}-{os.urandom(2).hex()}-4{os.urandom(2).hex()[1:]}-8000-{os.urandom(6).hex()}"
        bus = f"00000000:{number + 1:02X}:00.0"
        fields = (card.title.encode(), uuid.encode(), bus.encode(), card.memory_mib * MIB, 0, 0, 0, 0, 0, 0)
        devices.append(DEVICE.pack(*fields).ljust(DEVICE_BYTES, b"\0"))
    return HEADER.pack(MAGIC, count) + b"".join(devices)


def _text(field: bytes) -> str:
    return field.rstrip(b"\0").decode()


@dataclass(frozen=True, slots=True)
class HeldDevices:
    """The devices of a job, on all its nodes.

    Attributes:
        on_nodes: The ledger of each node, with the numbers of the job's devices.
    """

    on_nodes: tuple[tuple[DeviceLedger, tuple[int, ...]], ...]

    @classmethod
    def take(
        cls, folder: Path, card: GpuCard, nodes: Sequence[str], gpus: int, numbers: Sequence[int], memory_mib: int
    ) -> HeldDevices:
        """Takes memory on the devices of a job, on all of them or on none.

        Args:
            folder: The folder with a file for each node.
            card: The card.
            nodes: Names of the job's nodes; the first ones hold one GPU more if the GPUs are not even.
            gpus: GPUs of the job.
            numbers: Numbers of the devices on each node, in their order.
            memory_mib: Memory of a worker.

        Raises:
            ConfigurationError: A file cannot be used, or a node has too few devices.
            OutOfDeviceMemory: A device has too little free memory.
        """
        taken: list[tuple[DeviceLedger, tuple[int, ...]]] = []
        held = cls(())
        try:
            for k, node in enumerate(nodes):
                here = gpus // len(nodes) + (k < gpus % len(nodes))
                if here > len(numbers):
                    raise ConfigurationError(
                        f"{here} GPUs on node {node}, and only {len(numbers)} visible (CUDA_VISIBLE_DEVICES); request "
                        "fewer GPUs or more nodes"
                    )
                ledger = DeviceLedger(folder / f"{node}.gpus", card, max(8, 1 + max(numbers[:here], default=0)))
                ledger.hold(numbers[:here], memory_mib)
                taken.append((ledger, tuple(numbers[:here])))
                held = cls(tuple(taken))
        except BaseException:
            held.release()
            raise
        return held

    def sharing(self) -> int:
        """Returns the number of jobs on the device with most of them.

        Raises:
            DeviceLost: One of the devices is lost.
        """
        return max(1, *(ledger.sharing(numbers) for ledger, numbers in self.on_nodes))

    def set_utilisation(self, percent: int) -> None:
        """Reports the share of the time in which the job computes."""
        for ledger, _ in self.on_nodes:
            ledger.set_utilisation(percent)

    def release(self) -> None:
        """Frees the memory of the job."""
        for ledger, numbers in self.on_nodes:
            ledger.release(numbers)
            ledger.close()
