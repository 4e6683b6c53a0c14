"""The formats in which image sets are published: idx and the batches of CIFAR-10; .npz is read by `system.files`.

A file is read whole, unpacked if gzip compressed it, up to a limit. The size in its header must agree with the bytes that follow.
Nothing in it is executed, and nothing is unpacked to the disk.
"""

from __future__ import annotations

import hashlib
import io
import pickle
import re
import tarfile
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from solspace.numerics.arrays import Array
from solspace.system.files import Damaged, contents, explained

LIMIT = 1 << 29  # bytes above which a file is refused by default
RECORD = 3073  # bytes of a picture in CIFAR's binary batches: the label, then 1024 values of red, green and blue each
_BATCHES = {"train": re.compile(r"data_batch_(\d+)(\.bin)?"), "test": re.compile(r"test_batch()(\.bin)?")}


def idx_header(shape: tuple[int, ...]) -> bytes:
    """Return the header of a uint8 array in an idx file: 0, 0, the type 8, the sizes, highest byte first."""
    return bytes((0, 0, 8, len(shape))) + np.array(shape, ">u4").tobytes()


def idx_sha256(array: Array) -> str:
    """Return the checksum that an uncompressed idx file of `array` has."""
    return hashlib.sha256(idx_header(array.shape) + np.ascontiguousarray(array, np.uint8).tobytes()).hexdigest()


def read_idx(path: Path, limit: int = LIMIT) -> Array:
    """Return the uint8 array in an idx file of MNIST or FashionMNIST, plain or gzip-compressed."""
    content = contents(path, limit)
    with explained(path):
        if content[:3] != b"\0\0\x08":
            raise Damaged(path, "it does not begin as an idx file of unsigned bytes does")
        start = 4 + 4 * content[3]
        shape = np.frombuffer(content[4:start], ">u4").tolist()
        return np.frombuffer(content, np.uint8, offset=start).reshape(shape)


def batch_number(name: str, split: str) -> int | None:
    """Return the place of the batch of CIFAR-10 called `name` in its `split`; None for other files."""
    match = _BATCHES[split].fullmatch(name)
    return None if match is None else int(match[1] or 0)


def read_cifar(paths: Iterable[Path], split: str = "train", limit: int = LIMIT) -> tuple[Array, Array]:
    """Return images (k, 3072) and labels (k,): of batches, pickles or `.bin`, or of those of one split in an archive."""
    batches = [batch for path in paths for batch in _batches(path, split, limit)]
    return np.concatenate([images for images, _ in batches]), np.concatenate([labels for _, labels in batches])


def _batches(path: Path, split: str, limit: int) -> list[tuple[Array, Array]]:
    if ".tar" not in path.suffixes:
        return [_batch(contents(path, limit), path, path.name)]
    content = io.BytesIO(contents(path, limit + (1 << 24)))
    batches = {}
    # As a stream, which goes forward only: a damaged size cannot lead back to the same member.
    with explained(path), tarfile.open(fileobj=content, mode="r|") as archive:
        for member in archive:
            name = PurePosixPath(member.name).name
            number, file = batch_number(name, split), archive.extractfile(member)
            if number is not None and file is not None:
                batches[number] = _batch(file.read(), path, name)
    if not batches:
        raise Damaged(path, "it has no batch of CIFAR-10 in it")
    return [batches[number] for number in sorted(batches)]


def _batch(content: bytes, path: Path, name: str) -> tuple[Array, Array]:
    with explained(path):
        if name.endswith(".bin"):
            records = np.frombuffer(content, np.uint8).reshape(-1, RECORD)
            images, labels = records[:, 1:], records[:, 0]
        else:
            images, labels = read_batch(content)
        if not len(labels) or images.shape != (len(labels), RECORD - 1) or labels.max() > 9:
            raise Damaged(path, f"its images have the shape {images.shape}, or its labels are not from 0 to 9")
    return images, labels


def read_batch(content: bytes) -> tuple[Array, Array]:
    """Return the images (k, pixels) and labels (k,) of a pickled batch, without calling anything that it names."""
    batch = _Unpickler(io.BytesIO(content), encoding="latin1").load()
    _, shape, dtype, by_column, raw = batch["data"].state
    if dtype.arguments[0] != "u1" or by_column:
        raise ValueError("its data are no unsigned bytes in rows")
    raw = raw.encode("latin1") if isinstance(raw, str) else raw
    return np.frombuffer(raw, np.uint8).reshape(shape), np.array(batch["labels"], np.uint8)


class _Call:
    """Stands for the functions by which NumPy's arrays are pickled: keeps arguments and state, and calls nothing."""

    def __init__(self, *arguments: Any) -> None:
        self.arguments = arguments

    def __setstate__(self, state: Any) -> None:
        self.state = state


class _Unpickler(pickle.Unpickler):
    """Finds only the names in pickled arrays, and returns a stand-in for each."""

    def find_class(self, module: str, name: str) -> Any:
        if module.partition(".")[0] == "numpy" and name in ("_reconstruct", "ndarray", "dtype"):
            return _Call
        raise pickle.UnpicklingError(f"it asks for {module}.{name}, which is no array, and nothing in it was run")
