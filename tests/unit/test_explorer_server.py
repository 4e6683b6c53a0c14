"""The server of the explorer: which requests it refuses, and uploads over HTTP."""

from __future__ import annotations

import io
import socket
import sys

import numpy as np
import pytest
from explorer_server import serving

FOREIGN = ["evil.test", "evil.test:{port}", "127.0.0.1", "127.0.0.1:1", "127.0.0.1.evil.test:{port}", "localhost.:{port}",
           "evil@127.0.0.1:{port}", "127.0.0.1:{port},evil.test", "0.0.0.0:{port}", "192.168.1.5:{port}", "", "[::1",
           "é"]  # fmt: skip
CLOSED = [
    "/components/unittest.__main__/a/b/c", "/components/this/a/b/c", "/components/", "//components/this/a/b/c",
    "/components%2Fthis/a/b/c", "/autoload.js?bokeh-autoload-element=1", "/metadata", "/favicon.ico", "/liveness",
    "/rest/session_info", "/admin", "/login", "/logout", "/apple-touch-icon.png", "/__patchedroot/static/js/bokeh.min.js",
    "/static/", "/static/js/", "/static/js/../../server/server.py", "/static/extensions/other/x.js",
    "/static/extensions/panel/../../../etc/passwd", "/files/", "/upload/", "/index.html", "/ws/x", "http://evil.test/",
]  # fmt: skip


@pytest.fixture(scope="module")
def explorer(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("gate")) as running:
        yield running


@pytest.fixture(scope="module")
def token(explorer):
    return explorer.open_page()[0]


def gate(host="127.0.0.1", port=5006):
    from solspace.explorer.server import Gate

    return Gate(host, port)


@pytest.mark.parametrize("host", FOREIGN)
def test_other_hosts_are_refused(explorer, host):
    forged = host.format(port=explorer.port)
    status, _, body = explorer.request(headers={"Host": forged.encode("latin-1")})
    assert status in (400, 403)
    assert b"solspace explorer" not in body
    assert gate(port=explorer.port).serves(forged) is False


def test_names_of_this_machine_are_served(explorer):
    status, headers, body = explorer.request(headers={"Host": f"LocalHost:{explorer.port}"})
    assert status == 200
    assert b"solspace explorer" in body
    assert headers["Cache-Control"] == "no-store"
    assert headers["X-Frame-Options"] == "DENY"
    assert all(gate().serves(host) for host in ("127.0.0.1:5006", "localhost:5006", "[::1]:5006"))


@pytest.mark.parametrize("origin", ["http://evil.test", "null", "https://127.0.0.1:{port}", "http://127.0.0.1:1", ""])
def test_a_websocket_of_another_origin_is_refused(explorer, token, origin):
    status, link = explorer.websocket(token, Origin=origin.format(port=explorer.port))
    link.close()
    assert status == 403


def test_a_websocket_needs_the_right_host_and_origin_alone(explorer, token):
    for changes, expected in [({}, 101), ({"Origin": None}, 101), ({"Host": f"evil.test:{explorer.port}"}, 403),
                              ({"Host": "evil.test", "Origin": "http://evil.test"}, 403)]:  # fmt: skip
        status, link = explorer.websocket(token, **changes)
        link.close()
        assert status == expected


@pytest.mark.parametrize("path", CLOSED)
def test_what_the_page_does_not_need_is_closed(explorer, path):
    status, _, body = explorer.request(path=path)
    assert status in (403, 404)
    assert b"<script" not in body
    assert explorer.process.poll() is None


def test_the_page_finds_its_own_scripts(explorer):
    for path in ("/static/js/bokeh.min.js", "/static/extensions/panel/panel.min.js"):
        assert explorer.request(path=path)[0] == 200


@pytest.mark.parametrize(
    ("site", "mode", "to", "expected"),
    [
        ("none", "navigate", "document", None),  # typed into the address bar
        ("same-origin", "no-cors", "script", None),
        ("cross-site", "navigate", "document", None),  # a link was followed
        ("cross-site", "navigate", "iframe", 403),
        ("cross-site", "no-cors", "image", 403),
        ("same-site", "no-cors", "image", 403),  # another port of this machine
        ("same-site", "cors", "empty", 403),
    ],
)
def test_other_sites_may_link_to_the_page_and_no_more(explorer, site, mode, to, expected):
    said = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": mode, "Sec-Fetch-Dest": to}
    assert gate(port=explorer.port).refusal("GET", "/", {"Host": explorer.name, **said}) == expected
    assert explorer.request(path="/ws", headers=said)[0] == (400 if site in ("none", "same-origin") else 403)
    assert explorer.request("POST", headers=said)[0] == (405 if site in ("none", "same-origin") else 403)


def test_where_everybody_is_served_addresses_are_names_are_not():
    everywhere, here = gate("0.0.0.0"), gate("192.168.1.5")
    assert all(everywhere.serves(host) for host in ("192.168.1.5:5006", "[fe80::1]:5006", "localhost:5006"))
    assert not any(everywhere.serves(host) for host in ("evil.test:5006", "192.168.1.5.evil.test:5006", "192.168.1.5"))
    assert here.serves("192.168.1.5:5006")
    assert not here.serves("192.168.1.6:5006")
    assert gate(port=80).serves("localhost")


@pytest.mark.slow
def test_an_ipv6_address_is_served(tmp_path):
    if sys.platform == "win32":
        pytest.skip("needs a loopback of IPv6")
    try:
        with serving(tmp_path, "--host", "::1") as running:
            assert running.request(path="/static/js/bokeh.min.js")[0] == 200
            status, link = running.websocket("no.token")
            link.close()
            assert status == 101
    except AssertionError as failure:
        if "cannot listen" not in str(failure):
            raise
        pytest.skip("this machine has no IPv6")


def test_finished_runs_of_closed_pages_are_kept_within_limits(monkeypatch):
    from solspace.explorer import server
    from solspace.explorer.sample_card import FinishedRun
    from solspace.explorer.settings import Settings

    def run():
        return FinishedRun(Settings(), None, {"files": {"samples.npz": b"1" * 60}})

    monkeypatch.setattr(server, "MAX_KEPT", 150)
    service = server.Service()
    service.pages["open"] = None
    for token in ("open", "a", "b", "c"):
        service.keep(token, run())
    assert set(service.finished) == {"open", "c"}
    service.keep("reloaded", service.finished["c"])  # takes no more memory
    assert set(service.finished) == {"open", "c", "reloaded"}
    monkeypatch.setattr(server, "KEPT_FOR", -1.0)
    service.keep("d", run())
    assert set(service.finished) == {"open"}


def test_uploads_need_a_page_and_have_a_largest_size(explorer):
    secret = explorer.open_page()[1]
    file = io.BytesIO()
    np.save(file, np.ones((3, 5)))
    assert explorer.request("POST", f"/upload/{secret}", body=file.getvalue())[0] == 200
    assert explorer.request("POST", f"/upload/{'0' * 32}", body=b"1,2")[0] == 404
    with socket.create_connection((explorer.host, explorer.port), timeout=90) as link:
        link.sendall(
            f"POST /upload/{secret} HTTP/1.1\r\nHost: {explorer.name}\r\nContent-Length: 99999999\r\n\r\n".encode()
        )
        answer = link.recv(100)
    assert not answer or b" 200 " not in answer  # refused before it is sent
    secret = explorer.open_page()[1]  # a page that no browser holds open is soon forgotten
    assert explorer.request("POST", f"/upload/{secret}", body=b"not patterns")[0] == 200  # the page says why not
