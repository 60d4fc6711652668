"""Shards of a data set, written whole or not at all, and the manifest of their folder."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from mirage.atomic_file import write_atomically
from mirage.errors import ConfigurationError, reason
from mirage.learn.dataset.recipe import SCHEMA, Recipe, Shard, digest_of
from mirage.learn.features.repeats import REPEATS
from mirage.learn.hand_overs import QUEUE_COLUMNS, ROW_COLUMNS, HandOvers

MANIFEST = "manifest.json"
SNAPSHOT_COLUMNS = tuple(f"c{k:02d}" for k in range(QUEUE_COLUMNS))
"""Columns of the queue, numbered as in ``mirage-2023``."""

_KEY = b"mirage"


class DataSetFolder:
    """The folder of a data set.

    Args:
        path: Its location; it need not exist.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def open_for(self, recipe: Recipe) -> str:
        """Creates the folder or checks its recipe; returns the digest that shards carry.

        Raises:
            ConfigurationError: It holds data of another recipe or other files, its name is not UTF-8, or it cannot be
                written.
        """
        manifest = recipe.manifest()
        try:
            str(self.path).encode()
        except UnicodeEncodeError as error:  # pyarrow takes no such name
            raise ConfigurationError(
                f"cannot store a data set in {self.path}: its name is not UTF-8; name another"
            ) from error
        if self.path.is_file():
            raise ConfigurationError(f"cannot store a data set in {self.path}: it is a file; name a folder")
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            if (self.path / MANIFEST).exists():
                self._refuse_another(manifest)
            elif any(not entry.name.startswith(".") for entry in self.path.iterdir()):
                raise ConfigurationError(f"{self.path} holds files and no data set; name an empty or a new folder")
            else:
                write_atomically(self.path / MANIFEST, (json.dumps(manifest, indent=2) + "\n").encode())
        except OSError as error:
            raise ConfigurationError(f"cannot store a data set in {self.path}: {error.strerror or error}") from error
        return digest_of(manifest)

    def manifest(self) -> dict[str, Any]:
        """The manifest: the recipe of the data.

        Raises:
            ConfigurationError: There is none, or it has another schema.
        """
        try:
            found: dict[str, Any] = json.loads((self.path / MANIFEST).read_text(encoding="utf-8"))
            schema = found["schema"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            if (self.path / MANIFEST).exists():
                raise ConfigurationError(
                    f"{self.path / MANIFEST} is damaged or cannot be read; remove {self.path}, and make the data set "
                    "again"
                ) from error
            raise ConfigurationError(
                f"{self.path} is not a data set: it has no {MANIFEST}; make one with mirage learn dataset"
            ) from error
        if schema != SCHEMA:
            raise ConfigurationError(
                f"{self.path} is a data set of schema {schema!r}, this version reads {SCHEMA}; make it again"
            )
        return found

    def _refuse_another(self, wanted: dict[str, Any]) -> None:
        found = self.manifest()
        differs = [name for name in wanted if found.get(name) != wanted[name]]
        if differs:
            changes = ", ".join(_change(name, found.get(name), wanted[name]) for name in differs)
            raise ConfigurationError(
                f"{self.path} holds a data set of another recipe ({changes}); name another folder, or remove this one"
            )

    def rows_path(self, number: int, shard_s: int) -> Path:
        """File of a shard's rows."""
        return self.path / f"rows-{_named(number, shard_s)}.parquet"

    def snapshots_path(self, number: int, shard_s: int) -> Path:
        """File of a shard's snapshots."""
        return self.path / f"snapshots-{_named(number, shard_s)}.parquet"

    def has(self, shard: Shard, shard_s: int, digest: str) -> bool:
        """Whether a shard is finished; its rows file is written last."""
        import pyarrow
        import pyarrow.parquet as parquet

        try:
            metadata = parquet.read_schema(self.rows_path(shard.number, shard_s)).metadata or {}
            return bool(json.loads(metadata.get(_KEY, b"{}")).get("digest") == digest)
        except (OSError, ValueError, pyarrow.ArrowException):
            return False

    def write(self, shard: Shard, shard_s: int, digest: str, rows: HandOvers) -> None:
        """Writes a shard.

        Raises:
            ConfigurationError: It cannot be written.
        """
        columns = {name: getattr(rows, name) for name in ROW_COLUMNS} | {"last": rows.last}
        columns |= {name: np.ascontiguousarray(rows.features[:, k]) for k, name in enumerate(rows.names)}
        if rows.repeats is not None:
            columns |= {name: np.ascontiguousarray(rows.repeats[:, k]) for k, name in enumerate(REPEATS)}
        snapshots = {name: np.ascontiguousarray(rows.snapshots[:, k]) for k, name in enumerate(SNAPSHOT_COLUMNS)}
        metadata = {"digest": digest, "windows": list(shard.windows), "features": list(rows.names)}
        try:
            write_atomically(self.snapshots_path(shard.number, shard_s), _parquet(snapshots, {"digest": digest}))
            write_atomically(self.rows_path(shard.number, shard_s), _parquet(columns, metadata))
        except OSError as error:
            raise ConfigurationError(f"cannot write to {self.path}: {error.strerror or error}") from error

    def read(self, number: int, shard_s: int) -> HandOvers:
        """The rows of a finished shard.

        Raises:
            ConfigurationError: The shard cannot be read.
        """
        import pyarrow
        import pyarrow.parquet as parquet

        path = self.rows_path(number, shard_s)
        try:
            table = parquet.read_table(path)
            names = tuple(json.loads(table.schema.metadata[_KEY])["features"])
            path = self.snapshots_path(number, shard_s)
            snapshots = parquet.read_table(path)
        except (OSError, ValueError, KeyError, TypeError, pyarrow.ArrowException) as error:
            raise ConfigurationError(
                f"cannot read {path}: {reason(error)}; remove it, and make the data set again"
            ) from error
        return HandOvers(
            **{name: table[name].to_numpy().astype(np.int64) for name in ROW_COLUMNS},  # link_nodes is a feature, too
            features=_matrix(table, names),
            names=names,
            snapshots=_matrix(snapshots, SNAPSHOT_COLUMNS),
            last=table["last"].to_numpy(),
            repeats=_matrix(table, REPEATS) if set(REPEATS) <= set(table.column_names) else None,
        )


def _matrix(table: Any, names: tuple[str, ...]) -> Any:
    """Selected columns as a float32 matrix."""
    found = np.empty((table.num_rows, len(names)), dtype=np.float32)
    for k, name in enumerate(names):
        found[:, k] = table[name].to_numpy()
    return found


def _parquet(columns: dict[str, Any], metadata: dict[str, Any]) -> bytes:
    """A Parquet file as bytes; equal columns give equal bytes."""
    import pyarrow
    import pyarrow.parquet as parquet

    content = pyarrow.BufferOutputStream()
    table = pyarrow.table(columns).replace_schema_metadata({_KEY: json.dumps(metadata)})
    parquet.write_table(table, content, compression="zstd")
    return bytes(content.getvalue())


def _named(number: int, shard_s: int) -> str:
    """The first moment of a shard's time span."""
    return f"{datetime.fromtimestamp(number * shard_s, UTC):%Y-%m-%dT%H%M}" if number >= 0 else f"{number * shard_s}s"


def _change(name: str, before: Any, now: Any) -> str:
    """Words for a change of a recipe, without digests."""
    if name in ("code", "trace", "cluster"):
        return "another version of the code" if name == "code" else f"another {name}"
    if name == "views":
        return "outcomes only (--labels-only), now not" if before is False else "features too, now --labels-only"
    return f"{name} {_short(before)}, now {_short(now)}"


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 40 else f"{text[:39]}…"
