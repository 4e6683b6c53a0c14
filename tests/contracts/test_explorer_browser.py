"""The explorer in a real browser, with the Panel that is installed: what a user does, and what other sites try.

Type, press Enter, drag, reload, open a second tab, go back, sample, download, upload, share, close. Two tests, so that
one server and one browser serve all of a story, whatever runs beside it.

Needs a Chromium of the system; skipped with a message where there is none.
"""

from __future__ import annotations

import io
import json
import os
import pickle
import re
import shutil
import subprocess
import threading
import time
from contextlib import contextmanager
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
from explorer_server import serving
from PIL import Image

import solspace as ss

BROWSER = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync", "--host-resolver-rules=MAP evil.test 127.0.0.1"]  # fmt: skip
WAIT = 300_000
HOLD_BACK = """
const send = WebSocket.prototype.send, held = [];
WebSocket.prototype.send = function (data) {
  this.sent = (this.sent || 0) + 1;
  if (this.sent <= 3 || window.free) send.call(this, data); else held.push([this, data]);
};
window.letGo = () => { window.free = true; for (const [socket, data] of held) send.call(socket, data); };
"""
"""The browser asks for the page and then says nothing more, not even that it has drawn it, before `letGo()`."""
HOLD_ENTER = """
const send = WebSocket.prototype.send, message = [];
window.late = []; window.heard = [];
WebSocket.prototype.send = function (frame) {
  if (!this.known) { this.known = true; this.addEventListener("message", (event) => heard.push(event.data)); }
  message.push(frame);
  if (message.length < 3) return;
  const whole = message.splice(0), go = () => whole.forEach((part) => send.call(this, part));
  if (whole[2].includes("enter-pressed")) late.push(go); else go();
};
"""
"""The browser tells of the key Enter when `late` is called only; `heard` is what the server says. Three frames a message."""

pytestmark = pytest.mark.skipif(BROWSER is None, reason="no Chromium is installed")


@pytest.fixture
def server(tmp_path):
    """Start `solspace explore`; whatever is done to it, nothing may fail in it."""
    with serving(tmp_path) as explorer:
        yield explorer
        assert explorer.process.poll() is None
    assert not re.search("Traceback|Error|ERROR", explorer.log.read_text()), explorer.log.read_text()


@pytest.fixture
def browser():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=BROWSER, args=FLAGS)
        yield chromium
        chromium.close()


@pytest.fixture
def visit(server, browser):
    """Return a function that opens the page with a query and returns what it requested from elsewhere and its errors."""
    contexts = []

    def open_page(query="", before="", beside=None, **options):
        if beside is None:
            context = browser.new_context(viewport={"width": 1200, "height": 900}, **options)
            contexts.append(context)
        else:
            context = beside.context
        page = context.new_page()
        page.set_default_timeout(WAIT)
        page.complaints = []
        page.on("pageerror", lambda error: page.complaints.append(str(error)))
        page.on("request", lambda request: page.complaints.extend(_foreign(request.url)))
        if before:
            page.add_init_script(before)
        page.goto(server.address + query)
        page.locator("td[data-name=overlap]").wait_for()
        return page

    yield open_page
    for context in contexts:
        assert [page.complaints for page in context.pages if page.complaints] == []
        context.close()


def _foreign(url):
    return [] if url.startswith(("http://127.0.0.1:", "ws://127.0.0.1:", "data:", "blob:", "about:")) else [url]


def give(page, field, text):
    box = page.locator(f".field-{field} input")
    box.fill(text)
    box.press("Enter")


def verdict(page, words):
    page.locator(".verdict", has_text=words).wait_for()
    return page.locator(".verdict").inner_text()


def number(page, name, expected):
    page.locator(f"td[data-name={name}]", has_text=re.compile(rf"^{re.escape(f'{expected:.6g}')}$")).wait_for()


def holds(page, temperature, margin):
    """Wait until thresholds and diagram of a log potential are there and are those of theory."""
    found = thresholds(temperature, margin)
    number(page, "asl", found.asl)
    number(page, "dat", found.dat)
    wait_until(lambda: painted(page, "diagram", (230, 189, 62)) > 30, "no second maximum in the diagram")


@cache
def thresholds(temperature, margin):
    return ss.thresholds(ss.Target(temperature=temperature, margin=margin))


def painted(page, chart, colour):
    """Return how many pixels of a chart have about this colour."""
    picture = Image.open(io.BytesIO(page.locator(f"#card-{chart}").screenshot())).convert("RGB")
    return (np.abs(np.asarray(picture, dtype=int) - colour).max(axis=-1) < 20).sum()


def wait_until(holds, otherwise):
    end = time.monotonic() + WAIT / 1000
    while not holds():
        assert time.monotonic() < end, otherwise
        time.sleep(0.3)


def finished(page, words="Download"):
    page.locator(".run", has_text=words).wait_for(timeout=4 * WAIT)  # the first run compiles
    return page.locator(".run", has_text=words).inner_text()


def move_and_refuse(visit):
    page = visit()
    verdict(page, "ASL works here for all t.")
    page.locator(".slider-alpha [role=slider]").focus()
    page.keyboard.press("ArrowRight")
    box = page.locator(".field-alpha input")
    wait_until(lambda: box.input_value() != "0.3", "the slider did not move")
    moved = ss.predict(ss.Target(), alpha=float(box.input_value()))
    for name in ("overlap", "entropy", "free_entropy", "replicon"):
        number(page, name, getattr(moved, name))
    give(page, "alpha", "0.66")
    sentence = verdict(page, "takes over")
    window = ss.predict(ss.Target(), alpha=0.66).windows[0]
    assert f"at t = {window.maxwell:.3g}: ASL fails." in sentence
    assert "alpha=0.66" in page.url
    give(page, "time", "0.26")
    verdict(page, "cannot reach is the higher one")

    give(page, "temperature", "0")
    page.locator(".refused", has_text="T must be at least 0.05; got 0.").wait_for()
    give(page, "temperature", "0.5")
    give(page, "alpha", "0.7")
    verdict(page, "typical samples end before α = 0.7")
    assert page.locator(".start button").is_enabled()
    give(page, "alpha", "0.9")
    verdict(page, "past capacity")
    assert page.locator(".start button").is_enabled()  # whatever theory thinks of it
    give(page, "alpha", "0.7")
    number(page, "overlap", ss.predict(ss.Target(), alpha=0.7).overlap)
    give(page, "n", "1e9")
    page.locator(".refused", has_text="N must be an integer").wait_for()
    page.locator("[role=slider][aria-label='load α = M/N'][aria-valuetext='0.7']").wait_for(state="attached")


def refused_values_are_no_values(visit):
    page = visit()
    give(page, "alpha", "7")  # theory has no solution there
    verdict(page, "no replica-symmetric solution at alpha = 7")
    page.locator("td[data-name=overlap]", has_text="–").wait_for()
    assert painted(page, "stabilities", (200, 55, 45)) == 0
    give(page, "alpha", "0.31")
    number(page, "overlap", ss.predict(ss.Target(), 0.31).overlap)
    assert painted(page, "stabilities", (200, 55, 45)) > 100
    for field, text in {"alpha": "99999", "temperature": "-1", "margin": "x", "time": "nan", "n": "1e9",
                        "samples": "0", "seed": "-1"}.items():  # fmt: skip
        refuse(page, field, text)
    refuse(visit("?potential=log_band(0.8)"), "parameter0", "-1")


def refuse(page, field, text):
    before = page.locator(f".field-{field} input").input_value()
    give(page, field, text)
    page.locator(".outdated", has_text=f"The page still shows {before}.").wait_for()
    wait_until(lambda: opacity(page) < 1, f"numbers and charts are not marked though {field} is refused")
    page.locator(".start button:disabled").wait_for()
    give(page, field, before)
    page.locator(".outdated").wait_for(state="detached")
    wait_until(lambda: opacity(page) == 1, "numbers and charts stay marked")
    page.locator(".start button:enabled").wait_for()


def opacity(page):
    return page.evaluate(
        "Math.max(...['.charts', '[aria-label=Numbers]'].map(s => getComputedStyle(document.querySelector(s)).opacity))"
    )


def reload_keeps_the_run(visit):
    page = visit("?n=101&samples=3&alpha=0.2&seed=2", accept_downloads=True)
    page.locator(".start button:enabled").click()
    seen = finished(page)
    page.reload()
    assert finished(page) == seen
    assert painted(page, "stabilities", (143, 172, 212)) > 100
    with page.expect_download() as download:
        page.locator("a[download='samples.npz']").click()
    assert len(ss.Samples.load(download.value.path())) == 3
    other = visit("?n=101&samples=4&alpha=0.2&seed=2", beside=page)  # every tab has its own run
    other.locator(".start button:enabled").click()
    second = finished(other)
    assert second != seen
    for tab, words in ((page, seen), (other, second)):
        tab.reload()
        assert finished(tab) == words
    give(page, "alpha", "0.25")
    page.locator(".outdated", has_text="α = 0.2").wait_for()
    page.reload()
    page.locator(".outdated", has_text="α = 0.2").wait_for()
    third = visit("?n=101&samples=3&alpha=0.2&seed=2", beside=page)
    number(third, "asl", thresholds(0.5, 0.0).asl)
    assert third.locator(".run", has_text="Download").count() == 0


def type_and_come_again(visit):
    page = visit()
    holds(page, 0.5, 0.0)
    give(page, "temperature", ".6")
    holds(page, 0.6, 0.0)
    give(page, "margin", "-.1")
    holds(page, 0.6, -0.1)
    wait_until(lambda: page.locator(".field-margin input").input_value() == "-0.1", "κ is not spelled as usual")

    page.reload()
    holds(page, 0.6, -0.1)
    again = visit("?" + page.url.partition("?")[2], beside=page)
    holds(again, 0.6, -0.1)
    give(again, "temperature", "0.5")
    give(again, "margin", "0")
    holds(again, 0.5, 0.0)
    number(page, "asl", thresholds(0.6, -0.1).asl)

    page.goto(page.url.partition("?")[0])
    holds(page, 0.5, 0.0)
    page.go_back()
    holds(page, 0.6, -0.1)
    assert page.locator(".field-temperature input").input_value() == "0.6"
    give(page, "alpha", "0.31")
    number(page, "overlap", ss.predict(ss.Target(temperature=0.6, margin=-0.1), 0.31).overlap)


def enter_brings_nothing_back(visit):
    page = visit(before=HOLD_ENTER)
    for text, spelled in ((".26", "0.26"), (".27", "0.27")):
        give(page, "alpha", text)
        wait_until(lambda value=spelled: page.locator(".field-alpha input").input_value() == value, "not as usual")
        wait_until(lambda: page.evaluate("late.length") == 1, "Enter was not reported")
        page.evaluate("late.pop()()")
    number(page, "overlap", ss.predict(ss.Target(), 0.27).overlap)
    assert not [frame for frame in page.evaluate("heard") if '".26"' in frame]


def answers_do_not_wait_to_be_drawn(visit):
    page = visit("?temperature=0.6&margin=-0.1", before=HOLD_BACK)  # all of it is known from before
    holds(page, 0.6, -0.1)
    page.evaluate("letGo()")
    give(page, "alpha", "0.32")
    number(page, "overlap", ss.predict(ss.Target(temperature=0.6, margin=-0.1), 0.32).overlap)


def read_off(visit):
    page = visit()
    holds(page, 0.5, 0.0)
    for name, words in {"free_entropy": "φₜ(q)", "localization": "maximum at t", "path": "time t",
                        "stabilities": "theory P(s)", "diagram": "takes over at t"}.items():  # fmt: skip
        card = page.locator(f"#card-{name}")
        card.scroll_into_view_if_needed()
        box = card.bounding_box()
        for x in (0.45, 0.5):
            page.mouse.move(box["x"] + x * box["width"], box["y"] + 0.55 * box["height"])
        page.locator(".bk-tooltip-row-label", has_text=words).first.wait_for()
        page.mouse.move(0, 0)


def share(visit):
    page = visit("?prior=spherical&potential=uniform&margin=-2.5&alpha=278&time=0.04&n=333&theme=dark&seed=x")
    verdict(page, "Not taken from the link: seed must be a number; got 'x'.")
    verdict(page, "A second maximum takes over at t = 0.0363: ASL fails.")
    assert page.locator(".field-n input").input_value() == "333"
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    give(page, "samples", "5")
    page.wait_for_function("location.search.includes('samples=5')")
    give(page, "time", "0.041")
    sentence = verdict(page, "t = 0.041")
    assert "link" not in sentence
    page.wait_for_function("location.search.includes('0.041')")
    again = visit("?" + page.url.partition("?")[2])
    assert verdict(again, "takes over") == sentence
    fields = ("margin", "alpha", "time", "n", "samples", "seed")
    values = [[p.locator(f".field-{name} input").input_value() for name in fields] for p in (page, again)]
    assert values[0] == values[1]
    assert again.locator(".field-prior select").evaluate("e => e.selectedOptions[0].label") == "spherical"


def sample_download_and_repeat(visit, tmp_path, monkeypatch):
    page = visit("?n=201&samples=4&alpha=0.2", accept_downloads=True)
    page.locator(".start button:enabled").click()
    assert "4/4" in finished(page)
    for name in ("samples.npz", "report.json", "picture.svg", "picture.png", "code.py"):
        with page.expect_download() as download:
            page.locator(f"a[download='{name}']").click()
        download.value.save_as(tmp_path / name)
    samples = ss.Samples.load(tmp_path / "samples.npz")
    assert samples.weights.shape == (4, 201)
    assert json.loads((tmp_path / "report.json").read_text())["diagnosis"]["n_solved"] == 4
    assert (tmp_path / "picture.png").read_bytes()[:4] == b"\x89PNG"
    assert b"<svg" in (tmp_path / "picture.svg").read_bytes()
    monkeypatch.chdir(tmp_path)
    (tmp_path / "samples.npz").unlink()
    exec((tmp_path / "code.py").read_text(), {})
    np.testing.assert_array_equal(ss.Samples.load(tmp_path / "samples.npz").weights, samples.weights)


def upload(visit, tmp_path):
    page = visit("?samples=3&sampler=tau&sweeps=50")
    np.save(tmp_path / "mine.npy", np.random.default_rng(0).choice([-1.0, 1.0], size=(20, 101)))
    (tmp_path / "bad.npy").write_bytes(pickle.dumps([1]))
    page.set_input_files("#patterns", tmp_path / "bad.npy")
    page.locator(".refused", has_text="the file cannot be read").wait_for()
    (tmp_path / "large.npy").write_bytes(bytes(33 * 2**20))
    page.set_input_files("#patterns", tmp_path / "large.npy")
    page.locator("#too-large", has_text="33 MiB; the limit is 32 MiB").wait_for()
    page.set_input_files("#patterns", tmp_path / "mine.npy")
    page.locator(".run", has_text="M = 20, N = 101, ±1, α = 0.198").wait_for()
    page.locator(".start button:enabled").click()
    assert "3/3" in finished(page)
    assert page.locator("#card-annealing").is_visible()
    assert painted(page, "overlaps", (143, 172, 212)) > 100
    back, card = page.locator("button", has_text="Back to random"), page.locator(".card[aria-label=Sample]")
    inner, outer = back.bounding_box(), card.bounding_box()
    assert outer["x"] < inner["x"]
    assert inner["x"] + inner["width"] < outer["x"] + outer["width"]
    back.click()
    page.locator(".field-n input").wait_for()


def stop_and_close(visit, server):
    page = visit("?sampler=tau&n=5001&alpha=0.5&sweeps=100000&samples=64")
    page.locator(".start button:enabled").click()
    finished(page, "sweep ")
    page.locator(".stop button:enabled").click()
    finished(page, "Stopped.")
    before = _children(server)
    page.locator(".start button:enabled").click()
    finished(page, "sweep ")
    started = _children(server) - before
    assert started
    page.close()
    return started


def _children(server):
    listed = subprocess.check_output(["ps", "-o", "pid=", "--ppid", str(server.process.pid)], text=True)
    return {child for child in listed.split() if os.path.exists(f"/proc/{child}")}


@pytest.mark.exhaustive  # a minute and a half
def test_a_visit(visit, server, tmp_path, monkeypatch):
    running = stop_and_close(visit, server)
    type_and_come_again(visit)
    enter_brings_nothing_back(visit)
    answers_do_not_wait_to_be_drawn(visit)
    share(visit)
    move_and_refuse(visit)
    refused_values_are_no_values(visit)
    read_off(visit)
    reload_keeps_the_run(visit)
    sample_download_and_repeat(visit, tmp_path, monkeypatch)
    upload(visit, tmp_path)
    wait_until(lambda: running - _children(server), "the run outlived its tab")


# ---- other sites

EVIL = """<!DOCTYPE html><title>evil</title><script>
const there = "ADDRESS", results = {};
const note = (name) => (value) => { results[name] = value; };
const load = (tag, path) => new Promise((done) => {
  const element = document.createElement(tag);
  element.onload = () => done("loaded"); element.onerror = () => done("failed");
  element.src = there + path; document.body.append(element);
});
const socket = () => new Promise((done) => {
  const link = new WebSocket(there.replace("http", "ws") + "ws", ["bokeh", "TOKEN"]);
  link.onopen = () => done("open"); link.onerror = () => done("refused");
});
const read = (path, how) => fetch(there + path, how).then((answer) => `${answer.type} ${answer.status}`, () => "failed");
addEventListener("load", async () => {
  note("import")(await load("img", "components/unittest.__main__/a/b/c"));
  note("import script")(await load("script", "components/this/a/b/c"));
  note("embed")(await load("script", "autoload.js?bokeh-autoload-element=x&bokeh-absolute-url=" + there));
  note("page as picture")(await load("img", ""));
  note("socket")(await socket());
  note("read")(await read("", {}));
  note("read without cors")(await read("", { mode: "no-cors" }));
  note("upload")(await read("upload/SECRET", { method: "POST", mode: "no-cors", body: "1,2" }));
  const frame = document.createElement("iframe");
  frame.src = there; document.body.append(frame);
  await new Promise((done) => setTimeout(done, 500));
  window.results = results;
});
</script><body>"""


@contextmanager
def evil_site(page):
    """Serve a page of HTML from another port of this machine; yields the port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(page.encode())

        def log_message(self, *args):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as site:
        thread = threading.Thread(target=site.serve_forever)
        thread.start()
        yield site.server_port
        site.shutdown()
        thread.join()


def test_other_sites_reach_nothing(server, browser):
    token, secret = server.open_page()
    script = EVIL.replace("ADDRESS", server.address).replace("TOKEN", token).replace("SECRET", secret)
    with evil_site(script) as port:
        for site in (f"http://evil.test:{port}/", f"http://127.0.0.1:{port}/"):
            page = browser.new_page()
            page.set_default_timeout(WAIT)
            page.goto(site)
            page.wait_for_function("window.results")
            results = page.evaluate("window.results")
            assert results == {
                "import": "failed", "import script": "failed", "embed": "failed", "page as picture": "failed",
                "socket": "refused", "read": "failed", "read without cors": "failed", "upload": "failed",
            }  # fmt: skip
            frame = page.frames[-1]
            assert "Measure" not in frame.content()
            page.close()
    rebound = f"http://evil.test:{server.port}/"
    page = browser.new_page()
    assert page.goto(rebound).status == 403
    assert page.goto(rebound + "ws").status == 403
    opened = page.evaluate(
        """([address, token]) => new Promise((done) => {
             const link = new WebSocket(address, ["bokeh", token]);
             link.onopen = () => done("open"); link.onerror = () => done("refused");
           })""",
        [rebound.replace("http", "ws") + "ws", token],
    )
    assert opened == "refused"
    assert server.request()[0] == 200
