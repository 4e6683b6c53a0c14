"""The formats in which image sets are published: idx and the batches of CIFAR-10; .npz is read by `system.arrays`.

A file is read whole, unpacked where it is compressed, up to a limit, and then taken apart: what its header says of its
size must be true of the bytes that are there. Nothing in it is run, and nothing is unpacked to the disk.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import math
import re
import tarfile
import zlib
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from solspace.data.pickled import read_batch
from solspace.numerics.arrays import Array
from solspace.system.arrays import Damaged

LIMIT = 1 << 29
"""Bytes above which a file is refused, unless the reader is told otherwise."""
RECORD = 3073
"""Bytes of a picture in CIFAR's binary batches: the label, then 1024 values of red, green and blue each."""
_CHUNK = 1 << 20
_BATCHES = {"train": re.compile(r"data_batch_(\d+)(\.bin)?"), "test": re.compile(r"test_(batch)(\.bin)?")}


def contents(path: Path, limit: int) -> bytes:
    """Return what is in a plain or gzip-compressed file, told apart by its first bytes."""
    content = bytearray()
    with open(path, "rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
        file.seek(0)
        try:
            stream: Any = gzip.GzipFile(fileobj=file) if packed else file
            while chunk := stream.read(_CHUNK):
                content += chunk
                if len(content) > limit:
                    raise Damaged(path, f"it holds more than the {limit:,} bytes that this data set can have")
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise Damaged(path, f"it is truncated or corrupted ({error})") from None
    return bytes(content)


def idx_header(shape: tuple[int, ...]) -> bytes:
    """Return the bytes before those of a uint8 array in an idx file: 0, 0, the type 8, the sizes, highest byte first.

    >>> idx_header((2,)).hex()
    '0000080100000002'
    """
    return bytes((0, 0, 8, len(shape))) + np.array(shape, ">u4").tobytes()


def idx_sha256(array: Array) -> str:
    """Return the checksum that an uncompressed idx file of `array` has."""
    return hashlib.sha256(idx_header(array.shape) + np.ascontiguousarray(array, np.uint8).tobytes()).hexdigest()


def read_idx(path: Path, limit: int = LIMIT) -> Array:
    """Return the uint8 array in an idx file of MNIST or FashionMNIST, plain or gzip-compressed."""
    content = contents(path, limit + 20)
    start = 4 + 4 * (content[3] if len(content) > 3 else 0)
    if content[:3] != b"\0\0\x08" or not 8 <= start <= 20 or len(content) < start:
        raise Damaged(path, f"it begins with {content[:4].hex() or 'nothing'}, which is no idx file of unsigned bytes")
    shape = tuple(int(size) for size in np.frombuffer(content[4:start], ">u4"))
    if math.prod(shape) != len(content) - start:
        announced, there = f"{math.prod(shape):,}", f"{len(content) - start:,}"
        raise Damaged(path, f"it is truncated or too long: its header announces {announced} bytes, {there} follow")
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)


def batch_number(name: str, split: str) -> int | None:
    """Return where the batch of CIFAR-10 called `name` comes in its `split`; None for a file that is no batch of it.

    >>> batch_number("data_batch_3.bin", "train"), batch_number("test_batch", "test"), batch_number("notes", "test")
    (3, 0, None)
    """
    match = _BATCHES[split].fullmatch(name)
    return None if match is None else int(match[1]) if split == "train" else 0


def read_cifar(paths: Iterable[Path], limit: int = LIMIT) -> tuple[Array, Array]:
    """Return images (k, 3072) and labels (k,) of batches in the order given, pickles or `.bin` files."""
    return _joined([_batch(contents(path, limit), path, path.name) for path in paths])


def read_cifar_archive(path: Path, split: str, limit: int = LIMIT) -> tuple[Array, Array]:
    """Return images and labels of one split from `cifar-10-python.tar.gz` or `cifar-10-binary.tar.gz`."""
    try:
        batches = _members(contents(path, limit + (1 << 24)), path, split)
    except Damaged:
        raise
    except Exception as error:  # what tarfile raises for a damaged archive depends on its version
        raise Damaged(path, f"it is not a whole tar archive ({error})") from None
    if not batches:
        raise Damaged(path, "it has no batch of CIFAR-10 in it")
    return _joined([batches[number] for number in sorted(batches)])


def _members(content: bytes, path: Path, split: str) -> dict[int, tuple[Array, Array]]:
    """Return the batches of a tar archive by their numbers."""
    batches = {}
    # As a stream, which goes forward only: a member whose size is negative would be met again and again.
    with tarfile.open(fileobj=io.BytesIO(content), mode="r|") as archive:
        for member in archive:
            name = PurePosixPath(member.name).name
            number = batch_number(name, split)
            if number is not None and member.isreg() and not member.issparse():
                inside = content[member.offset_data : member.offset_data + max(0, member.size)]
                if len(inside) != member.size:
                    raise Damaged(path, f"it is truncated in {name}")
                batches[number] = _batch(inside, path, name)
    return batches


def _batch(content: bytes, path: Path, name: str) -> tuple[Array, Array]:
    """Return the images (k, 3072) and labels (k,) of a batch."""
    if name.endswith(".bin"):
        if not content or len(content) % RECORD:
            raise Damaged(path, f"its {len(content):,} bytes are no whole number of records of {RECORD}")
        records = np.frombuffer(content, np.uint8).reshape(-1, RECORD)
        images, labels = records[:, 1:], records[:, 0]
    else:
        try:
            images, labels = read_batch(content)
        except ValueError as error:
            raise Damaged(path, error) from None
    if images.shape != (len(labels), RECORD - 1) or labels.max(initial=0) > 9:
        raise Damaged(path, f"its images have the shape {images.shape}, or its labels are not from 0 to 9")
    return images, labels


def _joined(batches: list[tuple[Array, Array]]) -> tuple[Array, Array]:
    return np.concatenate([images for images, _ in batches]), np.concatenate([labels for _, labels in batches])
