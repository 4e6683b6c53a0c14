"""Download a data set once, with pooch: checksums verified, broken downloads resumed, mirrors tried in turn.

What has arrived of a file waits beside its place as `.part`; the next try asks the server for the rest only. Without
a connection, or without pooch, the error says which files to put where.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from solspace.data.catalogue import DataSet, Download, data_set
from solspace.data.search import SPLITS, VARIABLE, download_folder
from solspace.system.extras import install
from solspace.system.names import unknown
from solspace.system.progress import progress

_TIMEOUT = (10, 60)
_CHUNK = 1 << 16


def fetch(name: str, folder: str | os.PathLike[str] | None = None, split: str = "train") -> list[Path]:
    """Return the files of a data set, downloading those that are not in `folder` (ours unless given).

    >>> fetch("digits")
    []
    """
    data = data_set(name)
    if split not in SPLITS:
        raise unknown("split", split, SPLITS)
    if not data.downloads:
        return []
    place = (download_folder() if folder is None else Path(folder).expanduser()) / data.folder
    return [_retrieve(data, split, each, place) for each in data.downloads[split]]


def advice(data: DataSet, split: str, place: Path) -> str:
    """Return which files to put where, as the end of a sentence."""
    files = data.downloads[split]
    names = " and ".join(each.file for each in files)
    origin = files[0].urls[0].rpartition("/")[0]
    return f"put {names} (from {origin}/) into {place}, or set {VARIABLE} to a folder that has them"


def _retrieve(data: DataSet, split: str, item: Download, place: Path) -> Path:
    try:
        import pooch
    except ImportError:
        raise FileNotFoundError(
            f"{data.name} is not on this machine and downloading it needs pooch: {install('data')}, "
            f"or {advice(data, split, place)}."
        ) from None
    pooch.get_logger().setLevel("WARNING")
    problems = []
    for url in item.urls:
        for attempt in ("resumed", "anew"):
            try:
                return Path(
                    pooch.retrieve(url, item.checksum, item.file, place, downloader=_Resuming(place, item.file))
                )
            except OSError as error:  # requests' errors are OSErrors
                problems.append(f"{url.split('/')[2]}: {type(error).__name__}")
                break
            except ValueError:  # the checksum: what was resumed may have been another file's beginning
                (place / f"{item.file}.part").unlink(missing_ok=True)
                if attempt == "anew":
                    problems.append(f"{url.split('/')[2]}: what it sent has another checksum")
    raise FileNotFoundError(
        f"{data.name} is not on this machine and could not be downloaded ({'; '.join(problems)}): "
        f"{advice(data, split, place)}."
    )


class _Resuming:
    """A pooch downloader that keeps what arrives in a `.part` file and asks only for what is missing."""

    def __init__(self, place: Path, name: str) -> None:
        self.part = place / f"{name}.part"

    def __call__(self, url: str, output: Any, pooch: Any) -> None:
        import requests

        self.part.parent.mkdir(parents=True, exist_ok=True)
        if self.part.is_symlink() or self.part.is_fifo():  # none of ours: its target is not ours to write to
            self.part.unlink()
        have = self.part.stat().st_size if self.part.exists() else 0
        wanted = {"Range": f"bytes={have}-", "Accept-Encoding": "identity"} if have else {"Accept-Encoding": "identity"}
        with requests.get(url, headers=wanted, stream=True, timeout=_TIMEOUT) as answer:
            if answer.status_code != 416:  # 416: nothing is missing; the checksum decides
                answer.raise_for_status()
                self._keep(answer, have, url)
        os.replace(self.part, output)

    def _keep(self, answer: Any, have: int, url: str) -> None:
        resumed = answer.status_code == 206 and answer.headers.get("Content-Range", "").startswith(f"bytes {have}-")
        length = int(answer.headers.get("Content-Length", 0))
        arrived = 0
        with open(self.part, "ab" if resumed else "wb") as file, progress(length, url.rpartition("/")[2]) as bar:
            for chunk in answer.iter_content(_CHUNK):
                file.write(chunk)
                arrived += len(chunk)
                bar.advance(len(chunk))
        if arrived < length:
            raise ConnectionError(f"{url} broke off after {arrived} of {length} bytes")
