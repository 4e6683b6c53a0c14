"""The gate of the explorer's server: a request comes in only if the user's own page can have sent it.

Any page that the user's browser shows, from anywhere, can send requests to this machine. Four questions are asked
before Panel and Bokeh hear of a request.

* *Host:* is it a name under which the user asked to serve? A foreign name that was made to point at this machine (DNS
  rebinding) is not, and gets 403.
* *Origin:* where a request says which page sent it, as websockets and uploads do, was it a page of that same host?
* *Sec-Fetch-Site:* a browser tells which requests came from another site. Of those only a link that is followed to the
  page is taken; pictures, frames and scripts of other sites are not.
* *Path:* does the page need it? Panel and Bokeh offer more: `/components/MODULE/…` imports the module it names,
  `/autoload.js` makes a page for other sites to embed. All that is not in `PATHS` gets 404.
"""

from __future__ import annotations

import re
import socket
from ipaddress import ip_address

from bokeh.server.tornado import BokehTornado
from tornado.httputil import HTTPHeaders, HTTPServerRequest
from tornado.routing import Matcher, Rule
from tornado.web import OutputTransform, RequestHandler

from solspace.system.plain import Values

PATHS = re.compile(
    r"/|/ws"
    r"|/files/[0-9a-f]{32}/[a-z]+\.[a-z]+|/upload/[0-9a-f]{32}"
    r"|/static/js/bokeh[a-z-]*\.min\.js"
    r"|/static/extensions/panel/[\w@%^.+/-]+\.(js|css|svg|woff2)"
)
"""What the page needs."""
LOOPBACK = ("127.0.0.1", "::1", "localhost")
EVERYWHERE = ("0.0.0.0", "::")
_NAME = re.compile(r"(?:\[([0-9a-f:.]+)\]|([a-z0-9._-]+))(?::([0-9]{1,5}))?")
_HEADERS = {
    "Cache-Control": "no-store",  # a page that is gone back to must be a new one: the old one's session has ended
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_WORDS = {
    403: "The explorer answers to its own page, under this machine's addresses and what --host was given.\n",
    404: "There is nothing here.\n",
}


def install(application: BokehTornado, host: str, port: int) -> None:
    """Put the gate before everything else that `application` serves on `host` and `port`."""
    application.add_handlers(r".*", [Rule(_Refusing(Gate(host, port)), _Refusal)])
    application.add_transform(_Careful)
    # Bokeh asks about origins once more, of websockets; it cannot read IPv6 addresses, and the gate is stricter
    application.websocket_origins.add(f"*:{port}")


class Gate:
    """Decides which requests come in.

    Parameters
    ----------
    host
        The address that is listened on.
    port
        Its port.

    >>> gate = Gate("127.0.0.1", 5006)
    >>> gate.serves("localhost:5006"), gate.serves("[::1]:5006"), gate.serves("evil.test:5006"), gate.serves("localhost")
    (True, True, False, False)
    """

    def __init__(self, host: str, port: int) -> None:
        self.port = port
        self.everywhere = host in EVERYWHERE
        self.names = {*LOOPBACK, host.lower()}
        if self.everywhere:
            self.names |= {socket.gethostname().lower(), f"{socket.gethostname().lower()}.local"}

    def serves(self, host: str) -> bool:
        """Tell whether `host`, as a request's header gives it, is a name and port of this server."""
        found = _NAME.fullmatch(host.lower())
        if found is None or int(found[3] or 80) != self.port:
            return False
        name = found[1] or found[2]
        return name in self.names or (self.everywhere and _is_address(name))  # an address needs no DNS to lie about it

    def refusal(self, method: str, path: str, headers: HTTPHeaders) -> int | None:
        """Return the status with which a request is refused, or None."""
        host, origin = headers.get("Host", ""), headers.get("Origin", headers.get("Sec-Websocket-Origin"))
        if not self.serves(host) or (origin is not None and origin.lower() != f"http://{host.lower()}"):
            return 403
        if headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin") and not _is_link(method, path, headers):
            return 403
        return None if PATHS.fullmatch(path) else 404


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def _is_link(method: str, path: str, headers: HTTPHeaders) -> bool:
    to = headers.get("Sec-Fetch-Mode"), headers.get("Sec-Fetch-Dest")
    return method == "GET" and path == "/" and to == ("navigate", "document")


class _Refusing(Matcher):
    """Matches what the gate refuses."""

    def __init__(self, gate: Gate) -> None:
        self.gate = gate

    def match(self, request: HTTPServerRequest) -> Values | None:
        status = self.gate.refusal(request.method or "", request.path or "", request.headers)
        return None if status is None else {"target_kwargs": {"status": status}}


class _Refusal(RequestHandler):
    """Says no, to every method."""

    def initialize(self, status: int) -> None:
        self.status = status

    def prepare(self) -> None:
        self.set_status(self.status)
        self.set_header("Content-Type", "text/plain; charset=utf-8")
        self.finish(_WORDS[self.status])


class _Careful(OutputTransform):
    """Tells the browser to keep no page, to guess no types, and to show nothing inside of other sites."""

    def __init__(self, request: HTTPServerRequest) -> None:
        pass

    def transform_first_chunk(
        self, status_code: int, headers: HTTPHeaders, chunk: bytes, finishing: bool
    ) -> tuple[int, HTTPHeaders, bytes]:
        for name, value in _HEADERS.items():
            headers.setdefault(name, value)
        return status_code, headers, chunk
