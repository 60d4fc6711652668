"""Model files: arrays and boosted trees in one safetensors file, with a header card.

Nothing in such a file is unpickled or executed: it holds numbers, text in JSON, and trees in XGBoost's UBJ
(`mirage.predict.boosted_trees`) as an array of bytes. Other programs that read safetensors find the card under the key
``mirage`` of the file's metadata.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mirage.atomic_file import write_atomically
from mirage.errors import ConfigurationError, ModelFileError, reason, shown
from mirage.extras import install
from mirage.version import __version__

CARD = "mirage"
"""Key of the card in the metadata of the file."""

LAYOUT = 1
"""Version of the layout that this module writes around a model."""

Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True, slots=True)
class Feature:
    """A column that a model was trained on.

    Attributes:
        name: As the model's package calls it.
        unit: ``"s"``, ``"nodes"``, ``"1"`` for shares and flags, ``"label"`` for numbers that encode names.
    """

    name: str
    unit: str


@dataclass(frozen=True, slots=True)
class TrainedOn:
    """The slice of a trace that a model was trained on.

    Attributes:
        trace: Name of the trace or of the cluster.
        first_s: Earliest submission, seconds since 1970-01-01 UTC.
        until_s: Latest submission.
        rows: Jobs.
    """

    trace: str
    first_s: int
    until_s: int
    rows: int


@dataclass(frozen=True, slots=True)
class ModelCard:
    """Description of a model, in words and figures that a person can read.

    Attributes:
        kind: What it predicts: ``"waits"`` or ``"run-times"``; ``"provisioner"`` for a model that decides.
        schema: Version of the layout of this kind's arrays and settings.
        features: Its inputs, in the order of the columns.
        trained_on: The slice of the trace.
        figures: Validation figures by name, on jobs submitted after the training jobs.
        settings: What else its kind needs in order to predict; JSON values.
        package: Version of Mirage that wrote it.
    """

    kind: str
    schema: int
    features: tuple[Feature, ...]
    trained_on: TrainedOn
    figures: Mapping[str, float] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    package: str = __version__


@dataclass(frozen=True, slots=True)
class ModelFile:
    """Content of a model file.

    Attributes:
        card: The model's card.
        arrays: Its numbers by name.
    """

    card: ModelCard
    arrays: Arrays


def write_model_file(path: str | os.PathLike[str], card: ModelCard, arrays: Arrays) -> None:
    """Write a model in one step: the file is complete, or unchanged.

    Args:
        path: The file.
        card: What the model is.
        arrays: Its numbers: booleans, integers or floats, of any shape.

    Raises:
        ConfigurationError: The extra ``predict`` is not installed.
        ValueError: An array holds objects or text, or the card holds what JSON cannot express (such as NaN).
        OSError: The file cannot be written.
    """
    safetensors = _safetensors()
    whole = {name: np.ascontiguousarray(values).reshape(np.shape(values)) for name, values in arrays.items()}
    for name, values in whole.items():
        if values.dtype.kind not in "biuf":
            raise ValueError(f"array {name!r} holds {values.dtype}; a model file holds numbers only")
    header = {"layout": LAYOUT, "sha256": _digest(whole), "card": asdict(card)}
    card_text = json.dumps(header, allow_nan=False, sort_keys=True)
    write_atomically(path, safetensors.numpy.save(whole, metadata={CARD: card_text}))


def read_model_file(path: str | os.PathLike[str], kind: str, schema: int) -> ModelFile:
    """Returns the model that a file holds.

    Args:
        path: The file.
        kind: What it must predict.
        schema: The newest layout of that kind that the caller can read.

    Raises:
        ConfigurationError: The extra ``predict`` is not installed.
        ModelFileError: The file does not exist, is truncated or damaged, is not a model of Mirage, is of another kind,
            or is newer than this version.
    """
    card_text, arrays = _content(Path(path))
    header = _header(path, card_text)
    if header["layout"] > LAYOUT:
        raise _newer(path, header)
    try:
        card = _card(header["card"])
        expected = header["sha256"]
    except (KeyError, TypeError, ValueError) as error:
        cause = reason(error) if isinstance(error, KeyError) else "it has another form"
        raise ModelFileError(f"{path}: its card cannot be read ({cause}); train the model again") from error
    if card.kind != kind:
        raise ModelFileError(f"{path} predicts {card.kind}, not {kind}; give a model of {kind}")
    if card.schema > schema:
        raise _newer(path, header)
    if _digest(arrays) != expected:
        raise ModelFileError(f"{path} is damaged: its numbers do not match its checksum; copy it again, or train again")
    return ModelFile(card, arrays)


def _safetensors() -> Any:
    try:
        import safetensors
        import safetensors.numpy
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"model files need safetensors, which is not installed; run: {install('predict')}"
        ) from error
    return safetensors


def _content(path: Path) -> tuple[str | None, dict[str, NDArray[Any]]]:
    safetensors = _safetensors()
    if path.is_dir():
        raise ModelFileError(f"{path}: that is a folder, and a model is a file")
    if not path.is_file():
        raise ModelFileError(f"{path}: no such file; 'mirage train predict' makes one")
    try:
        with path.open("rb"):  # safe_open reports each reason as a missing file
            pass
        with safetensors.safe_open(path, framework="np") as file:
            card_text = (file.metadata() or {}).get(CARD)
            names = file.keys()
            return card_text, {name: file.get_tensor(name) for name in names}
    except OSError as error:
        raise ModelFileError(f"{path} cannot be read: {error.strerror or error}") from error
    except (safetensors.SafetensorError, TypeError, ValueError, AttributeError) as error:
        raise ModelFileError(
            f"{path} is no model file, or was cut short; name one that mirage train has written"
        ) from error


def _header(path: str | os.PathLike[str], card_text: str | None) -> dict[str, Any]:
    if card_text is None:
        raise ModelFileError(f"{path} is a safetensors file of another program: it has no Mirage card")
    try:
        header = json.loads(card_text)
    except ValueError as error:
        raise ModelFileError(f"{path}: its card is not JSON ({error}); train the model again") from error
    if not isinstance(header, dict) or not isinstance(header.get("layout"), int):
        raise ModelFileError(f"{path}: its card cannot be read ({shown(header)}); train the model again")
    return header


def _card(card: Mapping[str, Any]) -> ModelCard:
    """Returns a card from JSON; unknown entries are ignored."""
    return ModelCard(
        kind=str(card["kind"]),
        schema=int(card["schema"]),
        features=tuple(Feature(str(each["name"]), str(each["unit"])) for each in card["features"]),
        trained_on=TrainedOn(**{name: card["trained_on"][name] for name in TrainedOn.__dataclass_fields__}),
        figures=dict(card["figures"]),
        settings=dict(card["settings"]),
        package=str(card["package"]),
    )


def _newer(path: str | os.PathLike[str], header: Mapping[str, Any]) -> ModelFileError:
    card = header.get("card")
    made_by = card.get("package", "") if isinstance(card, dict) else ""
    return ModelFileError(
        f"{path} was written by a newer Mirage ({shown(made_by)}, this is {__version__}); update, or train again"
    )


def _digest(arrays: Arrays) -> str:
    """Returns the SHA-256 of names, types, shapes and numbers."""
    digest = hashlib.sha256()
    for name in sorted(arrays):
        values = arrays[name]
        digest.update(f"{name}\0{values.dtype.str}\0{values.shape}\0".encode())
        digest.update(np.ascontiguousarray(values).tobytes())
    return digest.hexdigest()
