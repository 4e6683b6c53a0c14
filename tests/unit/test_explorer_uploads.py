"""Uploads: arrays or a sentence; nothing executed, nothing written, no memory for empty promises."""

from __future__ import annotations

import io
import pickle
import resource
import struct
from types import SimpleNamespace

import numpy as np
import pytest

from solspace.explorer import uploads
from solspace.explorer.uploads import Allowance, read_upload


def npy(array, **options):
    file = io.BytesIO()
    np.save(file, array, **options)
    return file.getvalue()


@pytest.mark.parametrize("dtype", ["int8", "int64", "float32", "float64"])
def test_npy_of_signs_becomes_int8(dtype, rng):
    matrix = rng.choice([-1, 1], size=(5, 7))
    read = read_upload(npy(matrix.astype(dtype)))
    assert read.dtype == np.int8
    np.testing.assert_array_equal(read, matrix)


def test_npy_and_csv_of_numbers(rng):
    matrix = rng.standard_normal((4, 3))
    np.testing.assert_array_equal(read_upload(npy(np.asfortranarray(matrix))), matrix)
    file = io.StringIO()
    np.savetxt(file, matrix, delimiter=",", fmt="%.17g", header="a,b,c", comments="")
    np.testing.assert_array_equal(read_upload(file.getvalue().encode()), matrix)
    np.testing.assert_array_equal(read_upload(("\ufeff" + file.getvalue()).encode()), matrix)


class Bomb:
    def __reduce__(self):
        return eval, ("open('pwned', 'w').close()",)


def promising(shape):
    header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}"
    header += " " * (-(len(header) + 11) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + b"\0" * 64


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "empty"),
        (pickle.dumps(Bomb()), "not text"),
        (npy(np.array([[Bomb()]], dtype=object), allow_pickle=True), "pickled"),
        (npy(np.array([["a"]])), "array of numbers"),
        (npy(np.ones(3)), r"shape \(m, n\)"),
        (npy(np.full((2, 2), np.nan)), "finite"),
        (npy(np.ones((3, 3)))[:-8], "announces 72 bytes"),
        (promising((10**6, 10**6)), "announces"),
        (promising((2**40, 2**40)), "announces"),
        (promising((0, 5)), "announces"),
        (b"\x93NUMPY\x09\x00nonsense", "not a NumPy array"),
        (b"a,b\nc,d\n", "text in columns"),
        (b"1,2\n3\n", "not a table of numbers"),
        (b"only words", "array of numbers"),
        (b"\xff\xfe\x00", "not text"),
    ],
)
def test_bad_files_get_a_sentence(content, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ValueError, match=words):
        read_upload(content)
    assert list(tmp_path.iterdir()) == []
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000


def test_the_size_limit_is_stated(monkeypatch):
    monkeypatch.setattr(uploads, "MAX_BYTES", 2**20)
    with pytest.raises(ValueError, match="has 2 MiB; the limit is 1 MiB"):
        read_upload(b"1" * 2**21)


def test_patterns_larger_in_memory_than_in_their_file_are_refused(monkeypatch):
    monkeypatch.setattr(uploads, "MAX_PATTERNS", 2**20)
    table = b"\n".join([b"1,2,3,4"] * 2**16)
    with pytest.raises(ValueError, match="take 2 MiB of memory; the limit is 1 MiB"):
        read_upload(table)


def test_all_pages_share_one_allowance():
    allowance = Allowance(limit=100)
    allowance.take("a", "file", 60)
    allowance.take("a", "patterns", 30)
    allowance.take("a", "file", 70)  # instead of the other file
    with pytest.raises(ValueError, match="close a tab"):
        allowance.take("b", "file", 1)
    allowance.free("a", "file")
    allowance.take("b", "file", 70)
    allowance.free("a")
    allowance.take("b", "patterns", 30)


def test_finished_runs_of_closed_pages_are_kept_within_limits(monkeypatch):
    from solspace.explorer import server
    from solspace.explorer.running import FinishedRun
    from solspace.explorer.state import Settings

    def run():
        return FinishedRun(Settings(), None, {"files": {"samples.npz": b"1" * 60}})

    monkeypatch.setattr(server, "MAX_KEPT", 150)
    service = server.Service()
    service.pages["open"] = None
    for token in ("open", "a", "b", "c"):
        service.keep(token, run())
    assert set(service.runs) == {"open", "c"}
    service.keep("reloaded", service.runs["c"])  # takes no more memory
    assert set(service.runs) == {"open", "c", "reloaded"}
    monkeypatch.setattr(server, "KEPT_FOR", -1.0)
    service.keep("d", run())
    assert set(service.runs) == {"open"}


class Page:
    """A page that keeps what it is told."""

    def __init__(self):
        self.running, self.told = self, []

    def uploaded(self, kind, value):
        self.told.append((kind, value))


@pytest.fixture
def sending():
    """Return a page, what workers were asked to read, an allowance, and a function that sends bytes to the page."""
    from tornado.httpclient import AsyncHTTPClient
    from tornado.httpserver import HTTPServer
    from tornado.ioloop import IOLoop
    from tornado.testing import bind_unused_port
    from tornado.web import Application

    from solspace.explorer import server

    page, asked, token = Page(), [], "0" * 32
    service = SimpleNamespace(
        pages={token: page},
        allowance=Allowance(limit=1000),
        background=SimpleNamespace(ask=lambda asker, job, args, answer, remember: asked.append(args[0])),
    )
    loop = IOLoop(make_current=False)
    listener, port = bind_unused_port()

    async def post(content, headers):
        application = Application([(r"/upload/([0-9a-f]{32})", server.Upload, {"service": service})])
        web = HTTPServer(application, max_body_size=100)
        web.add_socket(listener)
        try:
            answer = await AsyncHTTPClient().fetch(
                f"http://127.0.0.1:{port}/upload/{token}",
                method="POST",
                body=content,
                headers=headers,
                raise_error=False,
            )
        finally:
            web.stop()
        return answer.code

    def send(content, **headers):
        return loop.run_sync(lambda: post(content, headers))

    yield page, asked, service.allowance, send
    listener.close()
    loop.close(all_fds=True)


def test_a_file_within_the_allowance_is_read(sending):
    page, asked, _, send = sending
    assert send(b"1" * 900) == 200
    assert asked == [b"1" * 900]
    assert page.told == []


def test_a_file_beyond_it_is_heard_out_and_refused_in_a_sentence(sending):
    page, asked, allowance, send = sending
    allowance.take("another page", "patterns", 200)
    assert send(b"1" * 900) == 200
    assert asked == []
    ((kind, words),) = page.told
    assert kind == "failed"
    assert "the limit is" in words
    assert words.endswith("close a tab.")


@pytest.mark.parametrize(("said", "words"), [("41943040", "has 40 MiB"), ("9" * 400, "has 0 MiB"), ("-1", "has 0 MiB"),
                                             ("9" * 5000, "has 0 MiB")])  # fmt: skip
def test_a_file_that_the_browser_holds_back_is_named(sending, said, words):
    page, asked, _, send = sending
    assert send(b"", **{"X-Refused-Size": said}) == 200
    assert asked == []
    assert words in page.told[0][1]
