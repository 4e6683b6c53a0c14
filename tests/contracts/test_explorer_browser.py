"""The explorer in a real browser: open, move a slider, read the verdict, sample, download, share, upload, close.

One test, so that one server and one browser serve all of it, whatever runs beside it.

Needs Panel, Playwright and a Chromium of the system; skipped with a message where one of them is missing.
"""

from __future__ import annotations

import json
import os
import pickle
import re
import shutil
import subprocess
import sys
import time
from importlib.util import find_spec

import numpy as np
import pytest

import solspace as ss

BROWSER = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)
MISSING = [name for name in ("panel", "bokeh", "playwright") if find_spec(name) is None]
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync"]  # fmt: skip
WAIT = 60_000

pytestmark = [
    pytest.mark.skipif(bool(MISSING), reason=f"the explorer's page needs {', '.join(MISSING)}"),
    pytest.mark.skipif(BROWSER is None, reason="no Chromium is installed"),
]


@pytest.fixture
def server(tmp_path):
    """Start `solspace explore`; return its process id and address."""
    command = [sys.executable, "-c", "from solspace.cli import main; main()", "explore", "--no-browser"]
    log = tmp_path / "server.log"
    with log.open("w") as sink, subprocess.Popen(command, stderr=sink) as process:
        try:
            end = time.monotonic() + WAIT / 1000
            while not (address := re.search(r"http://127\.0\.0\.1:\d+/", log.read_text())):
                assert process.poll() is None, log.read_text()
                assert time.monotonic() < end, log.read_text()
                time.sleep(0.1)
            yield process.pid, address.group()
        finally:
            process.terminate()


@pytest.fixture
def browser():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=BROWSER, args=FLAGS)
        yield chromium
        chromium.close()


@pytest.fixture
def visit(server, browser):
    """Return a function that opens the page with a query and says what it asked from elsewhere or complained about."""
    contexts = []

    def open_page(query="", **options):
        context = browser.new_context(viewport={"width": 1200, "height": 900}, **options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(WAIT)
        page.complaints = []
        page.on("pageerror", lambda error: page.complaints.append(str(error)))
        page.on("request", lambda request: page.complaints.extend(_foreign(request.url)))
        page.goto(server[1] + query)
        page.locator("td[data-name=overlap]").wait_for()
        return page

    yield open_page
    for context in contexts:
        assert [page.complaints for page in context.pages if page.complaints] == []
        context.close()


def _foreign(url):
    return [] if url.startswith(("http://127.0.0.1:", "ws://127.0.0.1:", "data:", "blob:")) else [url]


def give(page, field, text):
    box = page.locator(f".field-{field} input")
    box.fill(text)
    box.press("Enter")


def verdict(page, words):
    page.locator(".verdict", has_text=words).wait_for()
    return page.locator(".verdict").inner_text()


def number(page, name, expected):
    page.locator(f"td[data-name={name}]", has_text=re.compile(rf"^{re.escape(f'{expected:.6g}')}$")).wait_for()


def finished(page, words="Download"):
    page.locator(".run", has_text=words).wait_for()
    return page.locator(".run", has_text=words).inner_text()


def move_and_refuse(visit):
    page = visit()
    verdict(page, "ASL works here for all t.")
    page.locator(".slider-alpha [role=slider]").focus()
    page.keyboard.press("ArrowRight")
    box = page.locator(".field-alpha input")
    for _ in range(200):
        if box.input_value() != "0.3":
            break
        time.sleep(0.05)
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
    page.locator(".refused", has_text="T must lie between 0.05 and 20; got 0.").wait_for()
    give(page, "alpha", "0.7")
    verdict(page, "typical samples end before α = 0.7")
    assert page.locator(".refused", has_text="nothing to sample").count() == 0
    give(page, "alpha", "0.9")
    verdict(page, "past capacity")
    page.locator(".refused", has_text="nothing to sample").wait_for()
    assert page.locator(".start button").is_disabled()
    give(page, "n", "1e9")
    page.locator(".refused", has_text="N must lie between").wait_for()
    assert page.locator("[role=slider][aria-label^='load']").count() == 1


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
    page.locator(".refused", has_text="neither a NumPy .npy file nor text").wait_for()
    page.set_input_files("#patterns", tmp_path / "mine.npy")
    page.locator(".run", has_text="M = 20, N = 101, ±1, α = 0.198").wait_for()
    page.locator(".start button:enabled").click()
    assert "3/3" in finished(page)
    assert page.locator("#card-annealing").is_visible()


def stop_and_close(visit, server):
    page = visit("?sampler=tau&n=5001&alpha=0.5&sweeps=100000&samples=64")
    page.locator(".start button:enabled").click()
    finished(page, "sweep ")
    page.locator(".stop button:enabled").click()
    finished(page, "Stopped.")
    before = _children(server[0])
    page.locator(".start button:enabled").click()
    finished(page, "sweep ")
    assert _children(server[0]) == before
    page.close()
    return before


def _children(pid):
    listed = subprocess.check_output(["ps", "-o", "pid=", "--ppid", str(pid)], text=True)
    return [child for child in listed.split() if os.path.exists(f"/proc/{child}")]


def test_a_visit(visit, server, tmp_path, monkeypatch):
    running = stop_and_close(visit, server)
    share(visit)
    move_and_refuse(visit)
    sample_download_and_repeat(visit, tmp_path, monkeypatch)
    upload(visit, tmp_path)
    end = time.monotonic() + 30
    while set(running) <= set(_children(server[0])):
        assert time.monotonic() < end, "the run outlived its tab"
        time.sleep(0.2)
