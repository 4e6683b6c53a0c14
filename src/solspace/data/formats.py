"""The formats in which image sets are published: idx and the batches of CIFAR-10; .npz is read by `system.arrays`.

A file is read whole, unpacked if gzip compressed it, up to a limit. The size in its header must agree with the bytes that follow.
Nothing in it is executed, and nothing is unpacked to the disk.
"""

from __future__ import annotations

import hashlib
import io
import math
import pickle
import re
import tarfile
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from solspace.numerics.arrays import Array
from solspace.system.arrays import Damaged, contents, explained

LIMIT = 1 << 29  # bytes above which a file is refused by default
RECORD = 3073  # bytes of a picture in CIFAR's binary batches: the label, then 1024 values of red, green and blue each
_BATCHES = {"train": re.compile(r"data_batch_(\d+)(\.bin)?"), "test": re.compile(r"test_(batch)(\.bin)?")}


def idx_header(shape: tuple[int, ...]) -> bytes:
    """Return the header of a uint8 array in an idx file: 0, 0, the type 8, the sizes, highest byte first."""
    return bytes((0, 0, 8, len(shape))) + np.array(shape, ">u4").tobytes()


def idx_sha256(array: Array) -> str:
    """Return the checksum that an uncompressed idx file of `array` has."""
    return hashlib.sha256(idx_header(array.shape) + np.ascontiguousarray(array, np.uint8).tobytes()).hexdigest()


def read_idx(path: Path, limit: int = LIMIT) -> Array:
    """Return the uint8 array in an idx file of MNIST or FashionMNIST, plain or gzip-compressed."""
    content = contents(path, limit)
    start = 4 + 4 * (content[3] if len(content) > 3 else 0)
    if content[:3] != b"\0\0\x08" or not 8 <= start <= 20 or len(content) < start:
        raise Damaged(path, f"it begins with {content[:4].hex() or 'nothing'}, which is no idx file of unsigned bytes")
    shape = tuple(int(size) for size in np.frombuffer(content[4:start], ">u4"))
    announced, found = math.prod(shape), len(content) - start
    if announced != found:
        raise Damaged(path, f"its header announces {announced:,} bytes, but {found:,} follow")
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)


def batch_number(name: str, split: str) -> int | None:
    """Return the place of the batch of CIFAR-10 called `name` in its `split`; None for other files."""
    match = _BATCHES[split].fullmatch(name)
    return None if match is None else int(match[1]) if split == "train" else 0


def read_cifar(paths: Iterable[Path], limit: int = LIMIT) -> tuple[Array, Array]:
    """Return images (k, 3072) and labels (k,) of batches in the order of `paths`, pickles or `.bin` files."""
    return _joined([_batch(contents(path, limit), path, path.name) for path in paths])


def read_cifar_archive(path: Path, split: str, limit: int = LIMIT) -> tuple[Array, Array]:
    """Return images and labels of one split from `cifar-10-python.tar.gz` or `cifar-10-binary.tar.gz`."""
    content = io.BytesIO(contents(path, limit + (1 << 24)))
    batches = {}
    # As a stream, which goes forward only: a damaged size cannot lead back to the same member.
    with explained(path), tarfile.open(fileobj=content, mode="r|") as archive:
        for member in archive:
            name = PurePosixPath(member.name).name
            number = batch_number(name, split)
            file = None if number is None else archive.extractfile(member)
            if number is not None and file is not None:
                batches[number] = _batch(file.read(), path, name)
    if not batches:
        raise Damaged(path, "it has no batch of CIFAR-10 in it")
    return _joined([batches[number] for number in sorted(batches)])


def _batch(content: bytes, path: Path, name: str) -> tuple[Array, Array]:
    """Return the images (k, 3072) and labels (k,) of a batch."""
    if name.endswith(".bin"):
        if not content or len(content) % RECORD:
            raise Damaged(path, f"its {len(content):,} bytes are no whole number of records of {RECORD}")
        records = np.frombuffer(content, np.uint8).reshape(-1, RECORD)
        images, labels = records[:, 1:], records[:, 0]
    else:
        with explained(path):
            images, labels = read_batch(content)
    if images.shape != (len(labels), RECORD - 1) or labels.max(initial=0) > 9:
        raise Damaged(path, f"its images have the shape {images.shape}, or its labels are not from 0 to 9")
    return images, labels


def _joined(batches: list[tuple[Array, Array]]) -> tuple[Array, Array]:
    return np.concatenate([images for images, _ in batches]), np.concatenate([labels for _, labels in batches])


def read_batch(content: bytes) -> tuple[Array, Array]:
    """Return the images (k, pixels) and labels (k,) of a pickled batch, without calling anything that it names."""
    batch = _Unpickler(io.BytesIO(content), encoding="latin1").load()
    data, labels = (batch.get(name, batch.get(name.encode())) for name in ("data", "labels"))
    if not isinstance(data, _Call) or not isinstance(labels, list):
        raise ValueError("it holds no array of data and list of labels")
    return data.array(), np.array(labels, np.uint8)


class _Call:
    """Stands for the functions by which NumPy's arrays are pickled: keeps arguments and state, and calls nothing."""

    def __init__(self, *arguments: Any) -> None:
        self.parts = arguments

    def __setstate__(self, state: Any) -> None:
        if self.parts[:1] != ("u1",):  # the state of a type says nothing more
            _, shape, dtype, order, raw = state
            self.parts = (raw, dtype, shape, order)

    def array(self) -> Array:
        raw, dtype, shape, order = self.parts
        if dtype.parts[0] != "u1" or order not in (False, "C"):
            raise ValueError("its data are no unsigned bytes in rows")
        raw = raw.encode("latin1") if isinstance(raw, str) else raw
        return np.frombuffer(raw, np.uint8).reshape(shape)


class _Unpickler(pickle.Unpickler):
    """Finds only the names in pickled arrays, and returns a stand-in for each."""

    def find_class(self, module: str, name: str) -> Any:
        if module.partition(".")[0] == "numpy" and name in ("_reconstruct", "ndarray", "dtype", "_frombuffer"):
            return _Call
        if (module, name) == ("_codecs", "encode"):
            return lambda text, _: text.encode("latin1")
        raise pickle.UnpicklingError(f"it asks for {module}.{name}, which is no array, and nothing in it was run")
