"""The server of the explorer: loopback unless told otherwise, and nothing from outside.

Every visitor gets a `Page`. They share two pools of worker processes for theory, one that answers at once and one in
the background; each run has a process of its own. When a tab closes, its page is closed within seconds and its run
with it. Downloads and uploads are plain HTTP under a secret token of the page. What may come in at all is up to `gate`.
"""

from __future__ import annotations

import logging
import os
import secrets
import socket
import time
import webbrowser
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING

import panel as pn
from bokeh.server.server import Server
from tornado.ioloop import IOLoop
from tornado.web import HTTPError, RequestHandler, stream_request_body

from solspace.explorer import gate
from solspace.explorer.pool import Pool
from solspace.explorer.state import Settings
from solspace.explorer.uploads import MAX_BYTES, Allowance, too_large

if TYPE_CHECKING:
    from solspace.explorer.page import Page
    from solspace.explorer.running import FinishedRun

KEPT_FOR = 24 * 3600.0
"""Seconds that the finished run of a closed page is kept for a reload."""
MAX_KEPT = 256 * 2**20
"""Bytes of finished runs above which those of closed pages are dropped."""
MAX_RUNS = 16
"""Runs under way at once, over all pages."""
LIFETIME = 12_000
"""Milliseconds that a page outlives its connection: as long as a slow machine needs to load it."""
MAX_MESSAGE = 2**20
"""Bytes of the largest message that a page's websocket takes; moving a slider needs a thousand."""
KINDS = {"npz": "application/octet-stream", "json": "application/json", "svg": "image/svg+xml", "png": "image/png",
         "py": "text/x-python"}  # fmt: skip


class Service:
    """What all pages share; they come from any thread."""

    loop: IOLoop
    """The server's own, once there is one."""

    def __init__(self) -> None:
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        self.theory = Pool(min(cores, 4), niceness=0, patience=20.0)
        self.background = Pool(min(max(cores - 1, 1), 4), niceness=10, patience=120.0)
        self.pages: dict[str, Page] = {}
        self.runs: OrderedDict[str, FinishedRun] = OrderedDict()
        self.allowance = Allowance()

    def register(self, page: Page) -> str:
        """Return the secret token under which `page` is known."""
        token = secrets.token_hex(16)
        self.pages[token] = page
        return token

    def forget(self, token: str) -> None:
        """Drop a page and its patterns; its finished run stays for a reload."""
        self.pages.pop(token, None)
        self.allowance.free(token)

    def keep(self, token: str, run: FinishedRun | None) -> None:
        """Keep the finished run of a page, for download and for a reload; None to drop it.

        Runs of closed pages are dropped, the oldest first, after `KEPT_FOR` seconds or when all take too much memory.
        """
        self.runs.pop(token, None)
        if run is not None:
            self.runs[token] = run
        for other, old in list(self.runs.items()):
            size = sum(
                kept.size for kept in set(self.runs.values())
            )  # a reloaded page shares the run of the one before
            if other not in self.pages and (size > MAX_KEPT or time.monotonic() - old.ended > KEPT_FOR):
                del self.runs[other]

    def may_run(self, page: Page) -> bool:
        """Tell whether another run may start."""
        return sum(other.running.busy for other in list(self.pages.values())) < MAX_RUNS

    def close(self) -> None:
        """End all processes."""
        for page in list(self.pages.values()):
            page.close()
        self.theory.close()
        self.background.close()


class _Handler(RequestHandler):
    def initialize(self, service: Service) -> None:
        self.service = service

    def set_default_headers(self) -> None:
        self.set_header("Cache-Control", "no-store")
        self.set_header("X-Content-Type-Options", "nosniff")


class Download(_Handler):
    """A file of the page's last run."""

    def get(self, token: str, name: str) -> None:
        """Send the file."""
        run = self.service.runs.get(token)
        if run is None or name not in run.files:
            raise HTTPError(404)
        self.set_header("Content-Type", KINDS[name.rpartition(".")[2]])
        self.set_header("Content-Disposition", f'attachment; filename="{name}"')
        self.finish(run.files[name])


@stream_request_body
class Upload(_Handler):
    """Patterns that a user sends to the page; kept in memory, never on the disk."""

    def prepare(self) -> None:
        """Decide before the file comes whether it will be kept."""
        token = self.path_args[0]
        if token not in self.service.pages:
            raise HTTPError(404)
        self.request.connection.set_max_body_size(MAX_BYTES)  # type: ignore[union-attr]
        self.parts: list[bytes] = []
        self.why_not = ""
        try:
            self.service.allowance.take(token, "file", self._said("Content-Length", MAX_BYTES))
        except ValueError as error:
            self.why_not = str(error)

    def _said(self, header: str, otherwise: int) -> int:
        number = self.request.headers.get(header, "")
        return int(number) if number.isdecimal() and len(number) < 16 else otherwise

    def data_received(self, chunk: bytes) -> None:
        """Keep a part; one that is refused is heard out, since a browser takes a broken connection for a fault."""
        if not self.why_not:
            self.parts.append(chunk)

    def on_connection_close(self) -> None:
        """Forget what came of a file that will not come whole."""
        self.service.allowance.free(self.path_args[0], "file")

    def post(self, token: str) -> None:
        """Have the content read by a worker and hand it to the page."""
        page = self.service.pages.get(token)
        if page is None:
            raise HTTPError(404)
        if "X-Refused-Size" in self.request.headers:
            self.why_not = too_large(self._said("X-Refused-Size", 0))
        if self.why_not:
            self.parts.clear()
            page.running.uploaded("failed", self.why_not)
        else:
            content = b"".join(self.parts)
            self.parts.clear()
            take = page.running.uploaded
            self.service.background.ask((token, "upload"), "upload", (content,), take, remember=False)
        self.finish()


def free_port(host: str, port: int) -> int:
    """Return `port` if it is free on `host`, any free one for 0; `ValueError` if it is taken."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise ValueError(
                f"cannot listen on {host}:{port}: {error.strerror or error}; choose another --port."
            ) from None
        return int(probe.getsockname()[1])


def make_server(service: Service, host: str, port: int) -> Server:
    """Return the server, not yet started, on a port that is free."""
    from solspace.explorer.page import make_page

    pn.extension(inline=True)
    logging.getLogger("bokeh.server.views.ws").setLevel(logging.ERROR)  # a tab that closes is nothing to warn of
    server = pn.serve(
        {"/": make_page(service)},
        port=port,
        address=host,
        show=False,
        start=False,
        verbose=False,
        title="solspace explorer",
        websocket_max_message_size=MAX_MESSAGE,
        http_server_kwargs={"max_body_size": MAX_MESSAGE},
        check_unused_sessions_milliseconds=1000,
        unused_session_lifetime_milliseconds=LIFETIME,
        extra_patterns=[
            (r"/files/([0-9a-f]{32})/([a-z]+\.[a-z]+)", Download, {"service": service}),
            (r"/upload/([0-9a-f]{32})", Upload, {"service": service}),
        ],
    )
    service.loop = server.io_loop
    gate.install(server._tornado, host, port)
    return server


def serve(host: str, port: int, browser: bool, say: Callable[[str], None]) -> None:
    """Serve the page until Ctrl-C."""
    port = free_port(host, port)
    service = Service()
    first = Settings()
    service.theory.start("curves", (first.target.to_json(), first.alpha, first.time))
    server = make_server(service, host, port)
    shown = "127.0.0.1" if host in gate.EVERYWHERE else host
    address = f"http://{f'[{shown}]' if ':' in shown else shown}:{port}/"
    say(f"solspace explorer: {address}  (Ctrl-C ends it)")
    if browser:
        webbrowser.open(address)
    try:
        server.run_until_shutdown()
    finally:
        service.close()
