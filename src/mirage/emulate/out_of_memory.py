"""The out-of-memory message of PyTorch, which programs that read logs search for."""

from __future__ import annotations

from collections.abc import Mapping


def out_of_memory_text(wanted_mib: int, device: int, total_mib: int, held_mib: Mapping[int, int]) -> str:
    """Returns the text of ``torch.OutOfMemoryError`` (PyTorch 2.5) for an allocation.

    Args:
        wanted_mib: Memory of the allocation.
        device: Number of the device.
        total_mib: Memory of the device.
        held_mib: Memory that other processes hold, by process ID.
    """
    free_mib = total_mib - sum(held_mib.values())
    others = "".join(f" Process {pid} has {_size(mib)} memory in use." for pid, mib in held_mib.items())
    return (
        f"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {_size(wanted_mib)}. GPU {device} has a total "
        f"capacity of {_size(total_mib)} of which {_size(free_mib)} is free.{others} Of the allocated memory 0 bytes "
        "is allocated by PyTorch, and 0 bytes is reserved by PyTorch but unallocated. If reserved but unallocated "
        "memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See "
        "documentation for Memory Management  (https://pytorch.org/docs/stable/notes/cuda.html#environment-variables)"
    )


def _size(mib: int) -> str:
    return f"{mib / 1024:.2f} GiB" if mib >= 1024 else f"{mib:.2f} MiB"
