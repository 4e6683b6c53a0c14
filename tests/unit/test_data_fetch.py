"""Downloads: verified, resumed after a break, tried from the next mirror, explained when there is no connection."""

from __future__ import annotations

import gzip
import hashlib
import http.server
import os
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import solspace as ss
from solspace.data import catalogue, fetch
from solspace.data.catalogue import idx_header

RANDOM = np.random.default_rng(0)
LABELS = np.arange(2000, dtype=np.uint8) % 10
PICTURES = RANDOM.integers(0, 256, (2000, 28, 28), dtype=np.uint8)
NAMES = ("train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz")
FILES = {
    f"/{name}": gzip.compress(idx_header(array.shape) + array.tobytes())
    for name, array in zip(NAMES, (PICTURES, LABELS))
}


class Server(http.server.BaseHTTPRequestHandler):
    """Serves FILES with ranges, and hangs up in the middle as often as configured."""

    breaks = 0
    served = 0
    ranges: tuple[str, ...] = ()

    def do_GET(self) -> None:
        if self.path not in FILES:
            self.send_error(404)
            return
        content, requested = FILES[self.path], self.headers.get("Range")
        start = int(requested[6:-1]) if requested else 0
        kind = type(self)
        kind.ranges += (requested,) if requested else ()
        if start >= len(content):
            self.send_error(416)
            return
        self.send_response(206 if requested else 200)
        if requested:
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        body = content[start:]
        if kind.breaks > 0:
            kind.breaks -= 1
            body = body[: len(body) // 2]
        kind.served += len(body)
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Server]]:
    kind = type("Fresh", (Server,), {})
    machine = http.server.ThreadingHTTPServer(("127.0.0.1", 0), kind)
    thread = threading.Thread(target=machine.serve_forever, daemon=True)
    thread.start()
    base = f"http://127.0.0.1:{machine.server_port}/"
    checksums = {name: f"sha256:{hashlib.sha256(FILES[f'/{name}']).hexdigest()}" for name in NAMES}
    published = replace(catalogue.MNIST, addresses=(base + "gone/", base), downloads={"train": checksums})
    monkeypatch.setitem(catalogue.CATALOGUE, "mnist", published)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("SOLSPACE_DATA", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    yield kind
    machine.shutdown()
    machine.server_close()
    thread.join()


def test_load_downloads_once_from_a_mirror_that_has_it(server: type[Server], tmp_path: Path) -> None:
    X, _ = ss.data.load("mnist", "all", "raw")
    np.testing.assert_allclose(X, PICTURES.reshape(2000, -1) / 255, rtol=1e-6)
    assert server.served == sum(map(len, FILES.values()))
    assert sorted(path.name for path in (tmp_path / "mnist").iterdir()) == sorted(NAMES)
    ss.data.load("mnist")
    assert server.served == sum(map(len, FILES.values()))


def test_a_broken_download_is_resumed(server: type[Server]) -> None:
    server.breaks = 1
    with pytest.raises(FileNotFoundError, match="could not be downloaded"):
        ss.data.fetch("mnist")
    assert server.ranges == ()
    ss.data.fetch("mnist")
    (requested,) = server.ranges
    half = len(FILES[f"/{NAMES[0]}"]) // 2
    assert half - 2**17 < int(requested[6:-1]) <= half
    assert server.served < sum(map(len, FILES.values())) + 2**17
    assert len(ss.data.load("mnist", "all").y) == 2000


def test_a_wrong_beginning_is_not_kept(server: type[Server], tmp_path: Path) -> None:
    (tmp_path / "mnist").mkdir()
    (tmp_path / "mnist" / f"{NAMES[0]}.part").write_bytes(b"something else")
    with pytest.raises(FileNotFoundError, match="another checksum"):
        ss.data.fetch("mnist")
    assert len(ss.data.load("mnist", "all").y) == 2000


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX only")
def test_a_download_is_not_written_through_a_link(server: type[Server], tmp_path: Path) -> None:
    (tmp_path / "mnist").mkdir()
    (tmp_path / "victim").write_bytes(b"precious")
    (tmp_path / "mnist" / f"{NAMES[0]}.part").symlink_to(tmp_path / "victim")
    os.mkfifo(tmp_path / "mnist" / f"{NAMES[1]}.part")  # opening it would wait for ever
    ss.data.fetch("mnist")
    assert (tmp_path / "victim").read_bytes() == b"precious"
    assert len(ss.data.load("mnist", "all").y) == 2000


def test_a_changed_file_is_refused(server: type[Server], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FILES, f"/{NAMES[0]}", FILES[f"/{NAMES[0]}"][:-1] + b"!")
    with pytest.raises(FileNotFoundError, match="another checksum"):
        ss.data.fetch("mnist")
    assert not list(tmp_path.glob("mnist/*"))


def test_offline_says_which_file_goes_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    downloads = {"train": {"cifar-10-python.tar.gz": "md5:0"}}
    unreachable = replace(catalogue.MNIST, addresses=("http://127.0.0.1:9/",), downloads=downloads)
    monkeypatch.setitem(catalogue.CATALOGUE, "mnist", unreachable)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with pytest.raises(FileNotFoundError, match=rf"put cifar-10-python.tar.gz .* into {tmp_path}.* SOLSPACE_DATA"):
        fetch("mnist", tmp_path)


def test_without_pooch_the_sentence_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(FileNotFoundError, match=r"pip install 'solspace\[data\]'.*train-images-idx3-ubyte.gz"):
        ss.data.fetch("mnist", tmp_path)
