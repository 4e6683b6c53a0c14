"""Image data sets and random features as perceptron problems.

`load` finds a data set where the user already has it, else downloads it once; `Perceptron.from_data` draws a random instance from
it. Folders are searched in this order: `folder`, or those of `SOLSPACE_DATA` (several, separated as in `PATH`), our download
folder, `data` in the current folder (torchvision's examples), and those of Keras and Debian. Inside, files are in the layouts
listed in the catalogue. Downloads are pooch's, with checksums verified and mirrors tried in turn.

>>> import solspace as ss
>>> X, y = ss.data.load("digits", classes=(3, 8))
>>> ss.Perceptron.from_data(X, y, alpha=0.5, rng=0)
Perceptron(n=64, m=32, patterns float32, binary weights, log potential, T = 0.5, margin 0)
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from solspace.data.catalogue import (
    CATALOGUE,
    LIMIT,
    DataSet,
    batch_number,
    data_set,
    idx_sha256,
    read_cifar,
    read_idx,
)
from solspace.data.instances import PREPROCESSING, Preprocessing, random_features, subset
from solspace.numerics.arrays import Array
from solspace.system.checks import install, one_of
from solspace.system.files import Damaged, read_npz
from solspace.system.progress import progress

__all__ = [
    "CATALOGUE",
    "PREPROCESSING",
    "Images",
    "Preprocessing",
    "download_folder",
    "fetch",
    "find",
    "load",
    "random_features",
    "subset",
]

VARIABLE = "SOLSPACE_DATA"
SPLITS = ("train", "test")
_TIMEOUT = (10, 60)
_CHUNK = 1 << 16


class Images(NamedTuple):
    """Images and labels.

    Parameters
    ----------
    X : ndarray
        (k, d) pixels or patterns.
    y : ndarray
        (k,) labels.
    """

    X: Array
    y: Array


def load(
    name: str,
    classes: tuple[int, int] | str | None = None,
    preprocess: str = "centred",
    *,
    split: str = "train",
    folder: str | os.PathLike[str] | None = None,
    download: bool = True,
) -> Images:
    """Load an image data set.

    Parameters
    ----------
    name : {"mnist", "fashion", "cifar10", "digits"}
        The data set; "digits" comes with scikit-learn.
    classes : (int, int) or "all", optional
        Classes to keep, labelled -1 and +1 in this order; by default (3, 8), for "fashion" (5, 7). "all" keeps every class
        with its own number as label.
    preprocess : {"centred", "raw", "binarised"}, default "centred"
        Pixels/255 minus their mean over these images with rows rescaled to norm √d, pixels/255, or the sign of the centred
        pixel.
    split : {"train", "test"}, default "train"
        Split of the data set.
    folder : str or path-like, optional
        Folder to search instead of `SOLSPACE_DATA` and the usual places.
    download : bool, default True
        Whether to download what is not found; never into `folder`.

    Returns
    -------
    Images
        (X, y): images (k, d) and labels (k,), in the original order.

    Raises
    ------
    FileNotFoundError
        If the data set is neither found nor downloaded.

    Examples
    --------
    >>> X, y = load("digits", classes=(3, 8), preprocess="raw")
    >>> X.shape, float(X.max()), np.unique(y)
    ((357, 64), 1.0, array([-1,  1], dtype=int8))
    """
    data = data_set(name)
    one_of(PREPROCESSING)("preprocess", preprocess)
    one_of(SPLITS)("split", split)
    kept = _numbers(data.classes if classes is None else classes)
    X, labels = _digits(split) if data.name == "digits" else _read(data, kept, split, folder, download)
    if len(kept) == 10:
        y = labels.astype(np.int64)
    else:
        chosen = np.isin(labels, kept)
        X, y = X[chosen], np.where(labels[chosen] == kept[1], np.int8(1), np.int8(-1))
    return Images(Preprocessing.learn(preprocess, X)(X), y)


def _numbers(classes: tuple[int, int] | str) -> tuple[int, ...]:
    if isinstance(classes, str) and classes == "all":
        return tuple(range(10))
    try:
        first, second = map(int, classes)
        if first == second or not {first, second} <= set(range(10)):
            raise ValueError
    except (TypeError, ValueError):
        raise ValueError(
            f"classes must be two different numbers from 0 to 9, 'all' or None; got {classes!r}."
        ) from None
    return first, second


def _read(
    data: DataSet, classes: tuple[int, ...], split: str, folder: str | os.PathLike[str] | None, download: bool
) -> tuple[Array, Array]:
    incomplete = []
    for source in find(data.name, folder, split):
        images, labels = source.read()
        found = np.unique(labels).tolist()
        if set(found).issuperset(classes):
            return images, labels
        incomplete.append(f"{source} has only the classes {', '.join(map(str, found))}")
    if folder is None and download:
        fetch(data.name, split=split)
        return _read(data, classes, split, download_folder(), False)
    missing = "; ".join(incomplete) or f"{data.name} ({split}) was not found" + (f" in {folder}" if folder else "")
    raise FileNotFoundError(f"{missing}: {_advice(data, split, folder)}.")


def _digits(split: str) -> tuple[Array, Array]:
    if split != "train":
        raise ValueError("digits has no test split; hold out a part of it.")
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    return (images / 16).astype(np.float32), labels


@dataclass(frozen=True)
class Source:
    """Files that hold one split of a data set, in the format "idx", "npz", "cifar batches" or "cifar archive"."""

    name: str
    split: str
    format: str
    files: tuple[Path, ...]

    def read(self) -> tuple[Array, Array]:
        """Return images (k, pixels) and labels (k,), uint8; raise ValueError if a file is damaged."""
        if self.format == "idx":
            images, labels = map(read_idx, self.files)
        elif self.format == "npz":
            names = ("images", "labels", f"x_{self.split}", f"y_{self.split}")  # ours, or those of Keras
            arrays = read_npz(self.files[0], names, LIMIT)
            if len(arrays) != 2:
                raise Damaged(self.files[0], f"it must hold two of {', '.join(names)}")
            images, labels = (arrays[name] for name in sorted(arrays))
        else:
            images, labels = read_cifar(self.files, self.split)
        if images.dtype != np.uint8 or labels.shape != images.shape[:1] or (labels != labels.astype(np.uint8)).any():
            kinds = " and ".join(f"{each.dtype} of shape {each.shape}" for each in (images, labels))
            raise Damaged(self.files[0], f"its images and labels are {kinds}; both must be bytes")
        return images.reshape(len(images), -1), labels.astype(np.uint8)

    def is_original(self, images: Array, labels: Array) -> bool | None:
        """Return whether the images are the published ones, bit for bit; None where no checksum is known."""
        published = CATALOGUE[self.name].sha256
        if published is None or self.split != "train" or images.shape != (60_000, 784):
            return None
        return (idx_sha256(images.reshape(-1, 28, 28)), idx_sha256(labels)) == published

    def __str__(self) -> str:
        if len(self.files) == 1:
            return str(self.files[0])
        return f"{self.files[0].parent} ({len(self.files)} files)"


def find(name: str, folder: str | os.PathLike[str] | None = None, split: str = "train") -> list[Source]:
    """Return the places where a data set was found, in the order in which `load` tries them.

    Parameters
    ----------
    name : str
        Data set.
    folder : str or path-like, optional
        Folder to search instead of `SOLSPACE_DATA` and the usual places.
    split : {"train", "test"}, default "train"
        Split of the data set.

    Returns
    -------
    list
        Objects with the `files` and their `format`; empty if nothing was found.

    Examples
    --------
    >>> find("digits")
    []
    """
    data = data_set(name)
    one_of(SPLITS)("split", split)
    return [
        Source(data.name, split, kind, files)
        for root in _folders(folder)
        for kind, pattern in data.layouts
        for place in sorted(root.glob(pattern.format(split=split)))
        if (files := _files(kind, place, split))
    ]


def _folders(folder: str | os.PathLike[str] | None) -> list[Path]:
    """Return the folders to search, which may not exist."""
    if folder is not None:
        return [Path(folder).expanduser()]
    usual = [download_folder(), Path("data"), Path.home() / ".keras/datasets", Path("/usr/share/datasets")]
    return list(dict.fromkeys(path.absolute() for path in [*_named(), *usual]))


def _named() -> list[Path]:
    return [Path(text).expanduser() for text in os.environ.get(VARIABLE, "").split(os.pathsep) if text]


def _files(kind: str, place: Path, split: str) -> tuple[Path, ...]:
    """Return the files of a split at `place`, a folder or a file; none if some are missing."""
    if kind == "idx":
        stem = "train" if split == "train" else "t10k"
        patterns = [[f"{stem}-{part}?idx?-ubyte", f"{stem}-{part}?idx?-ubyte.gz"] for part in ("images", "labels")]
        found = [[path for pattern in each for path in sorted(place.glob(pattern))] for each in patterns]
        return tuple(paths[0] for paths in found) if all(found) else ()
    if kind == "cifar batches":
        numbered = [(batch_number(path.name, split), path) for path in place.glob("*_batch*")]
        return tuple(path for _, path in sorted(pair for pair in numbered if pair[0] is not None))
    return (place,) if os.path.isfile(place) else ()


def download_folder() -> Path:
    """Return the folder for downloads.

    Returns
    -------
    Path
        The first writable folder in `SOLSPACE_DATA`, else the user's cache.
    """
    from platformdirs import user_cache_path

    writable = [root for root in _named() if root.is_dir() and os.access(root, os.W_OK)]
    return writable[0] if writable else user_cache_path("solspace") / "data"


def fetch(name: str, folder: str | os.PathLike[str] | None = None, split: str = "train") -> list[Path]:
    """Return the files of a data set; those that are not there are downloaded.

    Parameters
    ----------
    name : str
        Data set.
    folder : str or path-like, optional
        Folder for the files. If None, `download_folder`.
    split : {"train", "test"}, default "train"
        Split of the data set.

    Returns
    -------
    list of Path
        The files; none for a data set that comes with scikit-learn.

    Raises
    ------
    FileNotFoundError
        If a file could not be downloaded; the message names the files and where to put them.

    Examples
    --------
    >>> fetch("digits")
    []
    """
    data = data_set(name)
    one_of(SPLITS)("split", split)
    files = data.downloads.get(split, {}).items()
    try:
        return [_retrieve(file, checksum, data.addresses, _place(data, folder)) for file, checksum in files]
    except (ImportError, OSError) as error:
        reason = f"downloading it needs pooch: {install('data')}" if isinstance(error, ImportError) else error
        words = f"{data.name} is not on this machine; {reason}; {_advice(data, split, folder)}."
        raise FileNotFoundError(words) from error


def _place(data: DataSet, folder: str | os.PathLike[str] | None) -> Path:
    return (download_folder() if folder is None else Path(folder).expanduser()) / data.folder


def _advice(data: DataSet, split: str, folder: str | os.PathLike[str] | None) -> str:
    """Return which files to put where, as the end of a sentence."""
    files = " and ".join(data.downloads[split])
    places = " or ".join(dict.fromkeys(pattern.format(split=split) for _, pattern in data.layouts))
    origin, place = data.addresses[0], _place(data, folder)
    return f"put {files} (from {origin}) into {place}, or set {VARIABLE} to a folder with {places}"


def _retrieve(name: str, checksum: str, addresses: Iterable[str], place: Path) -> Path:
    import pooch

    pooch.get_logger().setLevel("WARNING")
    download, problems = partial(_download, place / f"{name}.part"), []
    for address in addresses:
        try:
            return Path(pooch.retrieve(address + name, checksum, name, place, downloader=download))
        except (OSError, ValueError) as error:  # requests' errors are OSErrors
            problem = type(error).__name__ if isinstance(error, OSError) else "what it sent has another checksum"
            problems.append(f"{address.split('/')[2]}: {problem}")
    raise OSError(f"{name} could not be downloaded ({'; '.join(problems)})")


def _download(part: Path, url: str, output: str, pooch: object) -> None:
    """Download for pooch to `output`, by way of the file `part`: what an earlier download left there is not sent again."""
    import requests

    part.parent.mkdir(parents=True, exist_ok=True)
    if part.is_symlink() or part.is_fifo():  # not ours: the target of a link must not be written to
        part.unlink()
    have = part.stat().st_size if part.exists() else 0
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={have}-"} if have else {})
    with requests.get(url, headers=headers, stream=True, timeout=_TIMEOUT) as response:
        if response.status_code != 416:  # 416: nothing is missing; the checksum decides
            response.raise_for_status()
            mode, length = "ab" if response.status_code == 206 else "wb", int(response.headers.get("Content-Length", 0))
            with open(part, mode) as file, progress(length, part.stem) as bar:
                for chunk in response.iter_content(_CHUNK):
                    bar.advance(file.write(chunk))
    os.replace(part, output)
