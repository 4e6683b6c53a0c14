"""Find images where users already have them, or download them once.

Folders are searched in this order: the one given, or `SOLSPACE_DATA` (several, separated as in `PATH`), our download folder,
`data` in the current folder (torchvision's examples), and those of Keras and Debian. Inside, files are in the layouts listed in
the catalogue.

Downloads are pooch's, with checksums verified and mirrors tried in turn. A download that breaks off is kept as `.part` and
resumed by the next one.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from solspace.data.catalogue import CATALOGUE, DataSet, Download, data_set
from solspace.data.formats import batch_number, idx_sha256, read_cifar, read_cifar_archive, read_idx
from solspace.numerics.arrays import Array
from solspace.system.arrays import Damaged, read_npz
from solspace.system.checks import install, one_of
from solspace.system.progress import progress

VARIABLE = "SOLSPACE_DATA"
SPLITS = ("train", "test")
_TIMEOUT = (10, 60)
_CHUNK = 1 << 16


@dataclass(frozen=True)
class Source:
    """Files that hold one split of a data set.

    Parameters
    ----------
    name : str
        Data set.
    split : {"train", "test"}
        Split.
    format : {"idx", "npz", "cifar batches", "cifar archive"}
        Format of the files.
    files : tuple of Path
        The files.
    """

    name: str
    split: str
    format: str
    files: tuple[Path, ...]

    def read(self) -> tuple[Array, Array]:
        """Read the files.

        Returns
        -------
        tuple of ndarray
            Images (k, pixels) and labels (k,), uint8.

        Raises
        ------
        ValueError
            If a file is damaged.
        """
        limit = CATALOGUE[self.name].limit
        if self.format == "idx":
            images, labels = (read_idx(path, limit) for path in self.files)
        elif self.format == "npz":
            images, labels = _from_npz(self.files[0], self.split, limit)
        elif self.format == "cifar batches":
            images, labels = read_cifar(self.files, limit)
        else:
            images, labels = read_cifar_archive(self.files[0], self.split, limit)
        return _checked(images, labels, self.files)

    def is_original(self, images: Array, labels: Array) -> bool | None:
        """Return whether the images are the published ones, bit for bit.

        Parameters
        ----------
        images, labels : ndarray
            As returned by `read`.

        Returns
        -------
        bool or None
            None where no checksum is known.
        """
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
    list of Source
        Empty if nothing was found.

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
        names = [[f"{stem}-{part}ubyte", f"{stem}-{part}ubyte.gz"] for part in ("images?idx3-", "labels?idx1-")]
        found = [[path for name in each for path in sorted(place.glob(name))][:1] for each in names]
        return (*found[0], *found[1]) if all(found) else ()
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
        If a file could not be downloaded; the message says which files to put where.

    Examples
    --------
    >>> fetch("digits")
    []
    """
    data = data_set(name)
    one_of(SPLITS)("split", split)
    place = (download_folder() if folder is None else Path(folder).expanduser()) / data.folder
    return [_retrieve(data, split, each, place) for each in data.downloads.get(split, ())]


def advice(data: DataSet, split: str, place: Path) -> str:
    """Return which files to put where, as the end of a sentence."""
    files = data.downloads[split]
    names = " and ".join(each.file for each in files)
    origin = files[0].urls[0].rpartition("/")[0]
    places = " or ".join(dict.fromkeys(pattern.format(split=split) for _, pattern in data.layouts))
    return f"put {names} (from {origin}/) into {place}, or set {VARIABLE} to a folder with {places}"


def _from_npz(path: Path, split: str, limit: int) -> tuple[Array, Array]:
    ours, keras = ("images", "labels"), (f"x_{split}", f"y_{split}")
    arrays = read_npz(path, (*ours, *keras), limit)
    for images, labels in (ours, keras):
        if images in arrays and labels in arrays:
            return arrays[images], arrays[labels]
    raise Damaged(path, f"it has neither {' and '.join(ours)} nor {' and '.join(keras)} in it")


def _checked(images: Array, labels: Array, files: tuple[Path, ...]) -> tuple[Array, Array]:
    if images.dtype != np.uint8 or images.ndim < 2 or images.size == 0:
        raise Damaged(files[0], f"its images are {images.dtype} of shape {images.shape} instead of unsigned bytes")
    if labels.shape != (len(images),):
        raise Damaged(files[0], f"it has {len(images)} images but labels of shape {labels.shape} come with them")
    if labels.dtype.kind not in "iu" or labels.min() < 0 or labels.max() > 255:
        raise Damaged(files[-1], f"its labels are {labels.dtype} instead of numbers from 0 to 255")
    return images.reshape(len(images), -1), labels.astype(np.uint8)


def _retrieve(data: DataSet, split: str, item: Download, place: Path) -> Path:
    try:
        import pooch
    except ImportError:
        raise FileNotFoundError(
            f"{data.name} is not on this machine and downloading it needs pooch: {install('data')}, "
            f"or {advice(data, split, place)}."
        ) from None
    pooch.get_logger().setLevel("WARNING")
    part, problems = place / f"{item.file}.part", []
    for url in item.urls:
        for last_try in (False, True):
            try:
                return Path(pooch.retrieve(url, item.checksum, item.file, place, downloader=_resuming(part)))
            except OSError as error:  # requests' errors are OSErrors
                problems.append(f"{url.split('/')[2]}: {type(error).__name__}")
                break
            except ValueError:  # the checksum: what was resumed may have been another file's beginning
                part.unlink(missing_ok=True)
                if last_try:
                    problems.append(f"{url.split('/')[2]}: what it sent has another checksum")
    raise FileNotFoundError(
        f"{data.name} is not on this machine and could not be downloaded ({'; '.join(problems)}): "
        f"{advice(data, split, place)}."
    )


def _resuming(part: Path) -> Any:
    """Return a downloader for pooch that keeps what arrives in the file `part` and requests only what is missing."""

    def download(url: str, output: Any, pooch: Any) -> None:
        import requests

        part.parent.mkdir(parents=True, exist_ok=True)
        if part.is_symlink() or part.is_fifo():  # not ours: the target of a link must not be written to
            part.unlink()
        have = part.stat().st_size if part.exists() else 0
        headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={have}-"} if have else {})
        with requests.get(url, headers=headers, stream=True, timeout=_TIMEOUT) as response:
            if response.status_code != 416:  # 416: nothing is missing; the checksum decides
                response.raise_for_status()
                _keep(response, part, have, url)
        os.replace(part, output)

    return download


def _keep(response: Any, part: Path, have: int, url: str) -> None:
    resumed = response.status_code == 206 and response.headers.get("Content-Range", "").startswith(f"bytes {have}-")
    length, arrived = int(response.headers.get("Content-Length", 0)), 0
    with open(part, "ab" if resumed else "wb") as file, progress(length, url.rpartition("/")[2]) as bar:
        for chunk in response.iter_content(_CHUNK):
            file.write(chunk)
            arrived += len(chunk)
            bar.advance(len(chunk))
    if arrived < length:
        raise ConnectionError(f"{url} broke off after {arrived} of {length} bytes")
