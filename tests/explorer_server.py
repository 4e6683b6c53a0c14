"""A running `solspace explore` for tests, and raw requests to it."""

from __future__ import annotations

import base64
import http.client
import os
import re
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

PATIENCE = 90.0
"""Seconds that a loaded machine may take for anything."""


@dataclass
class Explorer:
    """The server's process, where it answers, and what it writes."""

    process: subprocess.Popen
    host: str
    port: int
    log: Path

    @property
    def name(self) -> str:
        """What a browser sends as Host."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def address(self) -> str:
        return f"http://{self.name}/"

    def request(self, method="GET", path="/", headers=None, body=None):
        """Return (status, headers, body) of one request; its Host is right unless given."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=PATIENCE)
        try:
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            given = {"Host": self.name, **(headers or {})}
            if body is not None:
                given.setdefault("Content-Length", str(len(body)))
            for name, value in given.items():
                if value is not None:
                    connection.putheader(name, value)
            connection.endheaders(body)
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()
        finally:
            connection.close()

    def open_page(self) -> tuple[str, str]:
        """Return the token with which a new page's websocket is opened, and the secret under which it takes files."""
        _, _, page = self.request()
        token, secret = rb'"token":"([\w.-]+)"', rb'data-href="upload/([0-9a-f]{32})"'
        return re.search(token, page)[1].decode(), re.search(secret, page)[1].decode()

    def websocket(self, token="", patience=PATIENCE, **headers) -> tuple[int, socket.socket]:
        """Return the status of a handshake and the open socket; headers such as `Origin` may be forged."""
        key = base64.b64encode(os.urandom(16)).decode()
        lines = {
            "Host": self.name, "Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": key, "Sec-WebSocket-Protocol": f"bokeh, {token}", "Origin": f"http://{self.name}",
            **headers,
        }  # fmt: skip
        link = socket.create_connection((self.host, self.port), timeout=patience)
        head = "".join(f"{name}: {value}\r\n" for name, value in lines.items() if value is not None)
        try:
            link.sendall(f"GET /ws HTTP/1.1\r\n{head}\r\n".encode())
            answer = b""
            # no byte beyond the handshake: what a server says next, at times in the same breath, is for the caller
            while not answer.endswith(b"\r\n\r\n") and (byte := link.recv(1)):
                answer += byte
        except OSError:
            link.close()
            raise
        return int(answer.split()[1]) if answer else 0, link


@contextmanager
def serving(folder: Path, *options: str):
    """Run `solspace explore` until the end of the block."""
    command = [sys.executable, "-c", "from solspace.cli import main; main()", "explore", "--no-browser", *options]
    log = folder / "server.log"
    with log.open("w") as sink, subprocess.Popen(command, stderr=sink, cwd=folder) as process:
        try:
            end = time.monotonic() + PATIENCE
            while not (address := re.search(r"http://(?:\[([\d:a-f]+)\]|([\w.]+)):(\d+)/", log.read_text())):
                assert process.poll() is None, log.read_text()
                assert time.monotonic() < end, log.read_text()
                time.sleep(0.05)
            yield Explorer(process, address[1] or address[2], int(address[3]), log)
        finally:
            process.terminate()
