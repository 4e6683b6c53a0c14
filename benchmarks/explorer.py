"""How fast the explorer's page follows a slider, alone and beside nine other visitors.

    python benchmarks/explorer.py

Starts `solspace explore`, opens its page in the system's Chromium and presses arrow keys on sliders. The time of a move
runs in the page, from the key to the first frame in which the new numbers stand. `beside runs` repeats it while nine
other pages have a run under way; `beside visitors` while nine others move a slider of their own twice a second.
Needs `pip install playwright` and Chromium.
"""

from __future__ import annotations

import os
import queue
import re
import shutil
import subprocess
import sys
import threading
import time
from contextlib import suppress

import numpy as np
from playwright.sync_api import sync_playwright

from solspace.explorer.runs import sample
from solspace.explorer.settings import Settings
from solspace.explorer.workers import Stopped, Worker, child_environment

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync"]  # fmt: skip
FIND = """
window.seen = () => {
  const deep = (root, selector) => {
    const hit = root.querySelector(selector);
    if (hit) return hit;
    for (const node of root.querySelectorAll("*")) {
      const inner = node.shadowRoot && deep(node.shadowRoot, selector);
      if (inner) return inner;
    }
  };
  window.panes = window.panes || [".verdict", "td[data-name=overlap]"].map((s) => [deep(document, s).getRootNode(), s]);
  return window.panes.map(([root, s]) => (root.querySelector(s) || {}).textContent).join("|");
};
window.addEventListener("keydown", () => {
  const start = performance.now(), before = window.seen();
  window.took = null;
  const look = () => {
    if (window.seen() !== before) requestAnimationFrame(() => { window.took = performance.now() - start; });
    else requestAnimationFrame(look);
  };
  look();
}, true);
"""


def moves(page, name: str, count: int = 12) -> list[float]:
    """Return the seconds of some moves of one slider."""
    page.locator(f".slider-{name} [role=slider]").focus()
    times = []
    for k in range(count):
        page.keyboard.press("ArrowRight" if k % 4 < 2 else "PageUp")
        page.wait_for_function("window.took !== null", timeout=60_000)
        times.append(page.evaluate("window.took") / 1000)
        time.sleep(0.1)
    return times


def tell(what: str, page, names=("alpha", "margin", "temperature", "time")) -> None:
    """Print the median and the slowest move of each slider."""
    for name in names:
        t = moves(page, name)
        print(f"{what:<18} {name:<12} median {np.median(t):.3f} s, slowest {max(t):.3f} s of {len(t)}", flush=True)


def wander(address: str, stop: threading.Event) -> None:
    """Be another visitor: a session without a browser whose slider moves twice a second."""
    import panel  # noqa: F401  its models must be known
    from bokeh.client import pull_session

    session = pull_session(url=address)
    slider = next(m for m in session.document.models if "slider-alpha" in (getattr(m, "css_classes", None) or []))
    rng = np.random.default_rng()
    while not stop.wait(0.5):
        slider.value = float(rng.uniform(0.1, 0.6))
    session.close()


def keep_busy(worker: Worker, run: Settings, news: queue.Queue) -> None:
    """Run until stopped; `news` gets the updates."""
    with suppress(Stopped):
        worker.call(sample, run, None, on_update=news.put)


def main() -> None:
    """Measure."""
    command = [sys.executable, "-c", "from solspace.cli import main; main()", "explore", "--no-browser"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server, sync_playwright() as playwright:
        address = None
        while address is None:
            address = re.search(r"http://[\d.]+:\d+/", server.stderr.readline())
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        start = time.perf_counter()
        page.goto(address.group())
        page.locator("td[data-name=overlap]").wait_for(timeout=60_000)
        print(f"opened in {time.perf_counter() - start:.2f} s", flush=True)
        page.locator("td[data-name=capacity]", has_text=re.compile(r"\d")).wait_for(timeout=60_000)
        time.sleep(15)
        page.evaluate(FIND)
        tell("alone", page)

        os.environ |= child_environment()
        workers, news = [Worker() for _ in range(9)], queue.Queue()
        for k, worker in enumerate(workers):
            run = Settings(sampler="tau", n=2001, alpha=0.5, sweeps=100_000, seed=k)
            threading.Thread(target=keep_busy, args=(worker, run, news)).start()
        for _ in workers:
            news.get(timeout=300)
        tell("beside runs", page, ("alpha",))
        for worker in workers:
            worker.stop()

        stop = threading.Event()
        others = [threading.Thread(target=wander, args=(address.group(), stop)) for _ in range(9)]
        for other in others:
            other.start()
        time.sleep(30)
        tell("beside visitors", page, ("alpha",))
        stop.set()
        for other in others:
            other.join()
        browser.close()
        server.terminate()


if __name__ == "__main__":
    main()
