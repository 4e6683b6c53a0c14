"""The server of the explorer, for this machine alone by default, and its protection against pages of other sites.

Every visitor has a `Page`. All pages share two pools of worker processes for theory, one for what is moved and one for
the background; each run has a process of its own. When a tab closes, its page and its run are ended within seconds.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import socket
import time
import webbrowser
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from mimetypes import guess_type

import panel as pn
from bokeh.server.server import Server
from tornado.httputil import HTTPHeaders, HTTPServerRequest
from tornado.ioloop import IOLoop
from tornado.routing import Matcher, Rule
from tornado.web import ErrorHandler, HTTPError, OutputTransform, RequestHandler

from solspace.explorer.curves import curves
from solspace.explorer.page import Page, make_page
from solspace.explorer.runs import MAX_BYTES, read_patterns
from solspace.explorer.sample_card import FinishedRun
from solspace.explorer.settings import Settings
from solspace.explorer.workers import Failure, Pool
from solspace.system.plain import Values
from solspace.system.threads import child_environment

KEPT_FOR = 24 * 3600.0  # seconds that the finished run of a closed page is kept for a reload
MAX_KEPT = 256 * 2**20  # bytes of finished runs above which those of closed pages are dropped
MAX_RUNS = 16  # runs in progress at once, over all pages
LOOPBACK = ("127.0.0.1", "::1", "localhost")
EVERYWHERE = ("0.0.0.0", "::")
# arguments of `pn.serve`
LIMITS = {
    "websocket_max_message_size": 2**20,
    "check_unused_sessions_milliseconds": 1000,
    "unused_session_lifetime_milliseconds": 12_000,  # as long as a slow machine needs to load the page
    "http_server_kwargs": {"max_body_size": MAX_BYTES},
}
# what the page needs
PATHS = re.compile(
    r"/|/ws"
    r"|/files/[0-9a-f]{32}/[a-z]+\.[a-z]+|/upload/[0-9a-f]{32}"
    r"|/static/js/bokeh[a-z-]*\.min\.js"
    r"|/static/extensions/panel/[\w@%^.+/-]+\.(js|css|svg|woff2)"
)
HEADERS = {
    "Cache-Control": "no-store",  # going back must open a new page: the session of the old one has ended
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class Service:
    loop: IOLoop
    """The event loop of the server."""

    def __init__(self) -> None:
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        self.theory = Pool(min(cores, 4), niceness=0, limit=20.0)
        self.background = Pool(min(max(cores - 1, 1), 4), niceness=10, limit=120.0)
        self.runs = ThreadPoolExecutor(MAX_RUNS)
        self.pages: dict[str, Page] = {}
        self.finished: OrderedDict[str, FinishedRun] = OrderedDict()

    def keep(self, token: str, run: FinishedRun | None) -> None:
        """Keep the finished run of a page, for download and for a reload; None to drop it.

        Runs of closed pages are dropped, the oldest first, after `KEPT_FOR` seconds or when all take too much memory.
        """
        self.finished.pop(token, None)
        if run is not None:
            self.finished[token] = run
        for other, old in list(self.finished.items()):
            size = sum(kept.size for kept in set(self.finished.values()))  # a reloaded page shares the run before
            if other not in self.pages and (size > MAX_KEPT or time.monotonic() - old.ended > KEPT_FOR):
                del self.finished[other]

    def may_run(self) -> bool:
        return sum(page.sample.busy for page in self.pages.values()) < MAX_RUNS

    def close(self) -> None:
        for page in list(self.pages.values()):
            page.close()
        self.theory.close()
        self.background.close()
        self.runs.shutdown(wait=False)


class Gate(Matcher):
    """Matches requests that the user's own page cannot have sent, and those for what it does not need.

    Any page in the user's browser can send requests to this machine. Refused are names of the `Host` header under
    which this server is not known (DNS rebinding), an `Origin` other than the page itself, requests that the browser
    marks as coming from another site except a link to the page, and all paths but `PATHS`: Bokeh and Panel serve more,
    such as `/components/MODULE/…`, which imports a module, and `/autoload.js`, which embeds the page in others.
    """

    def __init__(self, host: str, port: int) -> None:
        names = {*LOOPBACK, host.lower()}
        addresses = ""
        if host in EVERYWHERE:  # a numeric address cannot be forged by a name server
            names |= {socket.gethostname().lower(), f"{socket.gethostname().lower()}.local"}
            addresses = r"|(\d{1,3}\.){3}\d{1,3}|\[[\da-f:.]*:[\da-f:.]*\]"
        known = "|".join(re.escape(f"[{name}]" if ":" in name else name) for name in names)
        self.hosts = re.compile(rf"({known}{addresses})(:{port}){'?' if port == 80 else ''}", re.ASCII)

    def serves(self, host: str) -> bool:
        """Return whether `host`, a name and a port, is this server."""
        return self.hosts.fullmatch(host.lower()) is not None

    def refusal(self, method: str, path: str, headers: HTTPHeaders) -> int | None:
        """Return the HTTP status with which a request is refused, or None."""
        host, origin = headers.get("Host", ""), headers.get("Origin", headers.get("Sec-Websocket-Origin"))
        if not self.serves(host) or (origin is not None and origin.lower() != f"http://{host.lower()}"):
            return 403
        kind = method, path, headers.get("Sec-Fetch-Mode"), headers.get("Sec-Fetch-Dest")
        foreign = headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin")
        if foreign and kind != ("GET", "/", "navigate", "document"):
            return 403
        return None if PATHS.fullmatch(path) else 404

    def match(self, request: HTTPServerRequest) -> Values | None:
        status = self.refusal(request.method or "", request.path or "", request.headers)
        return None if status is None else {"target_kwargs": {"status_code": status}}


class _Refused(ErrorHandler):
    def write_error(self, status_code: int, **options: object) -> None:
        self.set_header("Content-Type", "text/plain; charset=utf-8")
        names = "The explorer answers to its own page, under this machine's addresses and the name in --host.\n"
        self.finish(names if status_code == 403 else "There is nothing here.\n")


class _SafeHeaders(OutputTransform):
    def __init__(self, request: HTTPServerRequest) -> None:
        pass

    def transform_first_chunk(
        self, status_code: int, headers: HTTPHeaders, chunk: bytes, finishing: bool
    ) -> tuple[int, HTTPHeaders, bytes]:
        for name, value in HEADERS.items():
            headers.setdefault(name, value)
        return status_code, headers, chunk


class _Handler(RequestHandler):
    def initialize(self, service: Service) -> None:
        self.service = service


class Download(_Handler):
    def get(self, token: str, name: str) -> None:
        run = self.service.finished.get(token)
        if run is None or name not in run.files:
            raise HTTPError(404)
        self.set_header("Content-Type", guess_type(name)[0] or "application/octet-stream")
        self.set_header("Content-Disposition", f'attachment; filename="{name}"')
        self.finish(run.files[name])


class Upload(_Handler):
    """Patterns of the user: kept in memory, never written to disk."""

    async def post(self, token: str) -> None:
        page = self.service.pages.get(token)
        if page is None:
            raise HTTPError(404)
        try:
            patterns = await asyncio.wrap_future(self.service.background.submit(read_patterns, self.request.body))
            page.schedule(page.sample.take_upload, patterns)
        except Failure as error:
            page.schedule(page.sample.refuse_upload, str(error))


def make_server(service: Service, host: str, port: int) -> Server:
    """Return the server, not yet started, on any free port for 0; raise ValueError if the port is taken."""
    pn.extension(inline=True)
    logging.getLogger("bokeh.server.views.ws").setLevel(logging.ERROR)  # no warning for each tab that closes
    options: Values = {"show": False, "start": False, "verbose": False, "title": "solspace explorer"}
    handlers = {r"/files/([0-9a-f]{32})/([a-z]+\.[a-z]+)": Download, r"/upload/([0-9a-f]{32})": Upload}
    routes = [(path, handler, {"service": service}) for path, handler in handlers.items()]
    try:
        server = pn.serve(make_page(service), port=port, address=host, extra_patterns=routes, **options, **LIMITS)
    except OSError as error:
        raise ValueError(f"cannot listen on {host}:{port}: {error.strerror or error}; choose another --port.") from None
    service.loop, application = server.io_loop, server._tornado
    application.add_handlers(r".*", [Rule(Gate(host, server.port), _Refused)])
    application.add_transform(_SafeHeaders)
    # Bokeh's own check of websocket origins cannot read IPv6 addresses; the gate is stricter
    application.websocket_origins.add(f"*:{server.port}")
    return server


def serve(host: str, port: int, browser: bool, say: Callable[[str], None]) -> None:
    os.environ |= child_environment()
    service, first = Service(), Settings()
    server = make_server(service, host, port)
    for _ in range(service.theory.size):  # so that the first page need not wait
        service.theory.submit(curves, first.target.to_json(), first.alpha, first.time)
    shown = "127.0.0.1" if host in EVERYWHERE else host
    address = f"http://{f'[{shown}]' if ':' in shown else shown}:{server.port}/"
    say(f"solspace explorer: {address}  (Ctrl-C ends it)")
    if browser:
        webbrowser.open(address)
    try:
        server.run_until_shutdown()
    finally:
        service.close()
