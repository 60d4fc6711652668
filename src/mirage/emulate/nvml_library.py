"""The library ``libnvidia-ml.so.1`` of emulated devices, built at its first use.

Programs that monitor GPUs load it in place of NVIDIA's, if its folder is first in ``LD_LIBRARY_PATH``.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

from mirage.cache_folder import cache_folder
from mirage.errors import ConfigurationError

SOURCE = Path(__file__).with_name("nvml.c")
NAME = "libnvidia-ml.so.1"


def nvml_folder() -> Path:
    """Returns the folder of the library; builds it there if it is not in the cache yet.

    Raises:
        ConfigurationError: There is no C compiler, the compiler failed, or the cache folder cannot be written.
    """
    source = SOURCE.read_bytes()
    folder = cache_folder() / "nvml" / hashlib.sha256(source).hexdigest()[:16]
    if (folder / NAME).exists():
        return folder
    compiler = shutil.which(os.environ.get("CC") or "cc") or shutil.which("gcc")
    if compiler is None:
        raise ConfigurationError(
            "no C compiler: the emulated NVML cannot be built; install gcc. Emulated jobs run without it, only "
            "programs that monitor GPUs find no devices"
        )
    part = folder / f".{NAME}.{os.getpid()}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        words = [compiler, "-shared", "-fPIC", "-O1", f"-Wl,-soname,{NAME}", "-o", str(part), str(SOURCE)]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode:
            raise ConfigurationError(
                f"{compiler} cannot build {SOURCE}: {done.stderr.strip()[:400]}; set CC to another"
            )
        os.replace(part, folder / NAME)
    except OSError as error:
        raise ConfigurationError(
            f"cannot write {folder}: {error.strerror}; set XDG_CACHE_HOME to another folder"
        ) from error
    finally:
        part.unlink(missing_ok=True)
    return folder
