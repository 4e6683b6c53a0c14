"""CIFAR-10's two formats, from a folder or straight from the published archive (nothing is unpacked to disk).

*python*: each batch is a pickle of a dictionary with `data` (k, 3072) uint8 and `labels`. *binary*: each batch is a
run of records of 3073 bytes, the label first. A picture is 1024 values of red, then green, then blue.
"""

from __future__ import annotations

import re
import tarfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from solspace.data.formats import pickled
from solspace.data.formats.stream import LIMIT, Limited, damaged, opened, take

Array = NDArray[Any]
RECORD = 3073
TRAIN = re.compile(r"data_batch_(\d+)(\.bin)?")
TEST = re.compile(r"test_batch(\.bin)?")


def batch_number(name: str, split: str) -> int | None:
    """Return where the batch called `name` comes in its `split`; None for a file that is no batch of it.

    >>> batch_number("data_batch_3.bin", "train"), batch_number("test_batch", "test"), batch_number("notes", "test")
    (3, 0, None)
    """
    match = (TRAIN if split == "train" else TEST).fullmatch(name)
    if match is None:
        return None
    return int(match.group(1)) if split == "train" else 0


def read_cifar(paths: Iterable[Path], limit: int = LIMIT) -> tuple[Array, Array]:
    """Return images (k, 3072) and labels (k,) of batches in the order given, pickles or `.bin` files."""
    batches = []
    for path in paths:
        with opened(path) as stream:
            content = Limited(stream, limit, path).read()
        limit -= len(content)
        batches.append(_parse(content, path, path.name))
    return _joined(batches)


def read_cifar_archive(path: Path, split: str, limit: int = LIMIT) -> tuple[Array, Array]:
    """Return images and labels of one split from `cifar-10-python.tar.gz` or `cifar-10-binary.tar.gz`."""
    try:
        batches = dict(_members(path, split, limit))
    except tarfile.TarError as error:
        raise damaged(path, f"it is not a whole tar archive ({error})") from None
    if not batches:
        raise damaged(path, "it has no batch of CIFAR-10 in it")
    return _joined([batches[number] for number in sorted(batches)])


def _members(path: Path, split: str, limit: int) -> Iterator[tuple[int, tuple[Array, Array]]]:
    with opened(path) as stream:
        # tarfile believes the sizes in its headers; the limit on the stream holds for them too.
        bounded = cast(Any, Limited(stream, limit + (1 << 24), path))
        with tarfile.open(fileobj=bounded, mode="r|") as archive:
            for member in archive:
                name = PurePosixPath(member.name).name
                number = batch_number(name, split)
                if number is None or not member.isreg() or member.issparse():
                    continue
                content = archive.extractfile(member)
                assert content is not None
                yield number, _parse(take(cast(Any, content), member.size, path), path, name)
        while bounded.read(1 << 20):  # to the end, where the checksum of the compression is
            pass


def _parse(content: bytes | bytearray, path: Path, name: str) -> tuple[Array, Array]:
    parse: Callable[..., tuple[Array, Array]] = _binary if name.endswith(".bin") else _python
    images, labels = parse(content, path)
    if labels.size and not 0 <= labels.min() <= labels.max() <= 9:
        raise damaged(path, f"it holds the label {labels.max()}; CIFAR-10's go from 0 to 9")
    return images, labels.astype(np.uint8)


def _binary(content: bytes | bytearray, path: Path) -> tuple[Array, Array]:
    if not content or len(content) % RECORD:
        raise damaged(path, f"its {len(content):,} bytes are no whole number of records of {RECORD}")
    records = np.frombuffer(content, np.uint8).reshape(-1, RECORD)
    return records[:, 1:], records[:, 0]


def _python(content: bytes | bytearray, path: Path) -> tuple[Array, Array]:
    try:
        batch = pickled.loads(content)
    except ValueError as error:
        raise damaged(path, str(error)) from None
    if not isinstance(batch, dict):
        raise damaged(path, "it holds no dictionary of data and labels")
    named = {key.decode("ascii", "replace") if isinstance(key, bytes) else key: value for key, value in batch.items()}
    images, labels = named.get("data"), named.get("labels")
    if not isinstance(images, np.ndarray) or images.dtype != np.uint8 or images.ndim < 2:
        raise damaged(path, "its entry 'data' is no array of unsigned bytes")
    if isinstance(labels, list) and all(type(label) is int for label in labels):
        labels = np.clip(np.array(labels, dtype=object), -1, 255).astype(np.int64)
    if not isinstance(labels, np.ndarray) or labels.dtype.kind not in "iu" or labels.shape != (len(images),):
        raise damaged(path, "its entry 'labels' does not give a number for each image")
    return images.reshape(len(images), -1), labels


def _joined(batches: list[tuple[Array, Array]]) -> tuple[Array, Array]:
    if len({images.shape[1] for images, _ in batches}) > 1:
        raise ValueError("the batches of CIFAR-10 hold pictures of different sizes.")
    return np.concatenate([images for images, _ in batches]), np.concatenate([labels for _, labels in batches])
