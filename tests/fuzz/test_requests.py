"""Hostile requests to the explorer's page: it must answer afterwards, and must have imported nothing that they named."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import socket
import string
import time
from urllib.parse import quote

import pytest
from explorer_server import PATIENCE, serving

MOMENT = 0.2
"""Seconds in which an answer comes, if one is due; on a loaded machine the attacker just misses it."""
MODULES = [
    "canary", "canary", "canary.x", "unittest.__main__", "antigravity", "solspace.cli.__main__", "os", "..canary",
    "",
]  # fmt: skip
METHODS = ["GET", "POST", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "CONNECT", "get", "\u0000", "G" * 9000]
PATHS = [
    "/", "/ws", "/autoload.js", "/metadata", "/favicon.ico", "/static/js/bokeh.min.js", "/static/js/%s", "/static/%s",
    "/static/extensions/panel/%s", "/static/extensions/%s", "/components/%s/a/b/c", "/components/%s/__file__/x.js",
    "//components/%s/a/b/c", "/./components/%s/a/b", "/components%%2f%s/a/b/c", "/files/%s/samples.npz", "/upload/%s",
    "/?%s", "/?bokeh-session-id=%s", "/rest/%s", "/admin", "http://evil.test/%s", "*", "", "/%s", "/" + "a/" * 3000,
]  # fmt: skip
SUCCEEDED = ["/components/canary/a/b/c", "/components/unittest.__main__/a/b/c", "/autoload.js?bokeh-autoload-element=x"]
"""What imported a module, ended the server, or made a page for other sites, once."""
FIELDS = [
    "prior", "potential", "temperature", "margin", "alpha", "time", "sampler", "n", "samples", "seed", "theme", "x",
]  # fmt: skip
VALUES = ["nan", "inf", "-1", "0", "1e999", "1/0", "__import__('canary')", "<script>", "../..", "log(9)", "band(-1)",
          "tau(0)", "%00", "\u2028", "9" * 400, "0.5", "spherical", "log_quadratic(1,2)"]  # fmt: skip
HEADERS = {
    "Host": ["evil.test", "127.0.0.1", "", "a" * 5000, "127.0.0.1:%d", "127.0.0.1:%d, evil.test"],
    "Origin": ["null", "http://evil.test", "http://127.0.0.1:%d", "file://"],
    "Content-Length": ["-1", "99999999999999999999", "5", "abc", "0x10", "1, 1"],
    "Transfer-Encoding": ["chunked", "gzip", "chunked, chunked"],
    "Upgrade": ["websocket", "h2c"],
    "Cookie": ["user=canary; x=\x01", "a" * 9000],
    "Bokeh-Session-Id": ["x", "../../canary"],
    "X-Refused-Size": ["9" * 400, "-1", "1e9", "²"],
    "Sec-Fetch-Site": ["cross-site", "same-site", "none", "x"],
    "X-Forwarded-Host": ["evil.test"],
    "Range": ["bytes=-1", "bytes=0-99999999999", "x"],
    "Expect": ["100-continue"],
}
MESSAGES = ["PULL-DOC-REQ", "PATCH-DOC", "PUSH-DOC", "SERVER-INFO-REQ", "OK", "ERROR", "ACK", "NONSENSE", None]
CHANGES = [
    {"kind": "ModelChanged", "model": {"id": "p1001"}, "attr": "value", "new": "canary"},
    {"kind": "ModelChanged", "model": {"id": "p1002"}, "attr": "__class__", "new": {"type": "object", "name": "canary.X"}},
    {"kind": "RootAdded", "model": {"type": "object", "name": "canary.X", "id": "x", "attributes": {}}},
    {"kind": "RootAdded", "model": {"type": "object", "name": "panel.models.esm.ReactiveESM", "id": "y"}},
    {"kind": "MessageSent", "msg_type": "bokeh_event", "msg_data": {"type": "event", "name": "tap", "values": {}}},
    {"kind": "MessageSent", "msg_type": "canary", "msg_data": None},
    {"kind": "TitleChanged", "title": 5},
    {"kind": "ColumnsStreamed", "model": {"id": "p1003"}, "attr": "data", "data": {"x": [1]}, "rollover": -1},
    {"kind": "ModelChanged", "model": {"id": "p1"}, "attr": "data", "new": {"type": "ndarray", "shape": [10**12],
     "dtype": "float64", "order": "little", "array": {"type": "bytes", "data": "AAAA"}}},
]  # fmt: skip


class Attacker:
    """Makes one hostile request a try."""

    def __init__(self, explorer):
        self.explorer, self.link = explorer, None
        self.kinds = [self.http, self.http, self.raw, self.upload, self.websocket]

    def open_page(self) -> None:
        """Get the secrets of a page of its own, and keep it alive by a websocket."""
        self.close()
        self.session, self.secret = self.explorer.open_page()
        _, self.link = self.explorer.websocket(self.session)

    def close(self) -> None:
        if self.link is not None:
            self.link.close()

    def attack(self, number: int) -> str:
        """Return what came of try `number`: a status, or how the connection ended."""
        if number % 500 == 0:
            self.open_page()
        self.rng = random.Random(number)
        if number < len(SUCCEEDED):
            return f"status {self.explorer.request(path=SUCCEEDED[number])[0]}"
        try:  # a page costs half a second
            return self.query() if number % 50 == 49 else self.rng.choice(self.kinds)()
        except TimeoutError:
            return "no answer, as none was due"
        except OSError:
            return "connection ended"

    def _word(self) -> str:
        junk = "".join(self.rng.choices(string.printable + "é\u0000\u202e", k=self.rng.randrange(30)))
        return self.rng.choice([*MODULES, *MODULES, *VALUES, "../../../etc/passwd", "%2e%2e/%2e%2e", junk, self.secret])

    def _send(self, data: bytes) -> str:
        with socket.create_connection((self.explorer.host, self.explorer.port), timeout=MOMENT) as link:
            link.sendall(data)
            answer = link.recv(4096)
        return f"status {answer.split()[1].decode()}" if answer.startswith(b"HTTP/") else "connection ended"

    def _head(self, method: str, path: str, headers: dict[str, str]) -> bytes:
        lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
        return ("\r\n".join(lines) + "\r\n\r\n").encode("utf-8", "replace")

    def _headers(self, many: int) -> dict[str, str]:
        chosen = {name: self.rng.choice(HEADERS[name]) for name in self.rng.sample(list(HEADERS), many)}
        port = self.explorer.port
        return {"Host": self.explorer.name, **{k: v % port if "%d" in v else v for k, v in chosen.items()}}

    def http(self) -> str:
        path = self.rng.choice(PATHS)
        path = path % self._word() if "%s" in path else path
        method = self.rng.choice(["GET", "GET", self.rng.choice(METHODS)])
        body = self.rng.randbytes(self.rng.choice([0, 0, 10, 5000]))
        return self._send(self._head(method, path, self._headers(self.rng.randrange(4))) + body)

    def raw(self) -> str:
        good = self._head("GET", "/", {"Host": self.explorer.name})
        cut = self.rng.randrange(len(good))
        return self._send(self.rng.choice([
            self.rng.randbytes(self.rng.randrange(1, 3000)), good[:cut] + self.rng.randbytes(3) + good[cut:],
            good.replace(b"\r\n", b"\n"), good.replace(b" ", b"\t"), b"\r\n" * 5000, b"\x16\x03\x01" + good,
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"A: " + b"b" * 100_000,
        ]))  # fmt: skip

    def query(self) -> str:
        pairs = [f"{self.rng.choice(FIELDS)}={self._word().split('#')[0]}" for _ in range(self.rng.randrange(4))]
        status, _, _ = self.explorer.request(path="/?" + quote("&".join(pairs), safe="=&%+()/"))
        return f"status {status}"

    def upload(self) -> str:
        content = self.rng.choice([b"", b"1,2\n3", b"\x93NUMPY\x01\x00" + self.rng.randbytes(200), b"\x80\x04ccanary\nx\n.",
                                   self.rng.randbytes(3000), b"," * 5000])  # fmt: skip
        token = self.rng.choice([self.secret, self.secret, "0" * 32, self._word()])
        headers = self._headers(self.rng.randrange(3))
        if self.rng.random() < 0.2:
            headers["X-Refused-Size"] = self.rng.choice(HEADERS["X-Refused-Size"])
        if self.rng.random() < 0.7:
            headers.setdefault("Content-Length", str(len(content)))
        return self._send(self._head("POST", f"/upload/{token}", headers) + content)

    def websocket(self) -> str:
        forged = self._headers(1) if self.rng.random() < 0.3 else {}
        token = self.rng.choice([self.session, self.session, self.session, "", "a.b.c", self._word().strip()])
        status, link = self.explorer.websocket("".join(filter(str.isprintable, token)) or "x", MOMENT, **forged)
        with link:
            if status != 101:
                return f"status {status}"
            with contextlib.suppress(TimeoutError):
                link.recv(65536)
            for _ in range(self.rng.randrange(1, 5)):
                link.sendall(self._frames())
            with contextlib.suppress(TimeoutError):
                link.recv(65536)
        return "websocket"

    def _frames(self) -> bytes:
        if self.rng.random() < 0.3:
            return self.rng.choice([
                self.rng.randbytes(self.rng.randrange(1, 200)), b"\x81\x05hello", frame(b"\xff\xfe"), frame(b"", opcode=8),
                frame(b"x" * 200, opcode=9), frame(b"x", opcode=5), frame(b"x", opcode=0), b"\x81\xff" + b"\xff" * 12,
                frame(b"[" * 50_000), frame(self.rng.randbytes(100), opcode=2), frame(b"x" * 3, final=False),
            ])  # fmt: skip
        kind, name = self.rng.choice(MESSAGES), self.rng.choice(["1", None, {}, "é"])
        header = {
            "msgid": name,
            "msgtype": kind,
            **({"num_buffers": self.rng.choice([1, -1, 10**9])} if kind is None else {}),
        }
        content = self.rng.choice([
            {}, {"events": self.rng.choices(CHANGES, k=2)}, {"events": 5}, {"doc": {"roots": CHANGES, "version": "x"}},
            {"doc": {"title": "t", "defs": [{"type": "model", "name": "canary.X"}], "roots": []}}, [], None,
        ])  # fmt: skip
        return b"".join(frame(json.dumps(part).encode()) for part in (header, {}, content))


def frame(data: bytes, opcode: int = 1, final: bool = True) -> bytes:
    """Return a masked websocket frame."""
    size = len(data)
    length = (
        bytes([0x80 | size])
        if size < 126
        else b"\xfe" + size.to_bytes(2)
        if size < 2**16
        else b"\xff" + size.to_bytes(8)
    )
    return bytes([opcode | 0x80 * final]) + length + b"\0\0\0\0" + data


@pytest.fixture
def explorer(tmp_path, monkeypatch):
    """A server beside a module that tells when it is imported."""
    mark = tmp_path / "imported"
    (tmp_path / "canary.py").write_text(f"open({str(mark)!r}, 'w').close()\nX = 1\n")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")])))
    with serving(tmp_path) as running:
        yield running
        assert not mark.exists(), "a request had a module imported"


@pytest.mark.slow
def test_hostile_requests(explorer, budget, tally):
    attacker = Attacker(explorer)
    for number in range(budget(100, 5_000)):
        tally[attacker.attack(number)] += 1
        assert explorer.process.poll() is None, f"try {number} ended the server"
    attacker.close()
    status, _, page = explorer.request()
    assert status == 200
    assert b"solspace explorer" in page
    status, link = explorer.websocket(explorer.open_page()[0])
    with link:
        assert status == 101
        seen, end = b"", time.monotonic() + PATIENCE
        while b"ACK" not in seen:
            more = link.recv(65536)
            assert more, "a websocket opens no more"
            assert time.monotonic() < end, "a websocket says nothing but that it is there"
            seen += more
    faults = re.findall(r"File .*solspace/explorer/(?!server.py., line \d+, in serve\n).*", explorer.log.read_text())
    assert not faults, faults  # of Bokeh's own it has some to tell
