"""Take the pictures of the explorer's page: ``python docs/screenshots.py`` (a minute or two, needs Chromium)."""

from __future__ import annotations

import io
import re
import shutil
import subprocess
import sys
from pathlib import Path

from PIL import Image
from playwright.sync_api import Locator, Page, sync_playwright

FOLDER = Path(__file__).parent / "images"
SIZE = {"width": 1440, "height": 1110}
FAILING = "?prior=spherical&potential=uniform&margin=-2.5&alpha=278&time=0.04&n=333&theme=dark"
ANNEALED = "?sampler=tau&n=1001&alpha=0.5&samples=32&sweeps=1001"
LOADS = """(count) => window.Bokeh?.documents.length && [...Bokeh.documents[0].all_models].some(
  (model) => model.type === "ColumnDataSource" && [...model.columns()].includes("maxwell")
             && model.get_array("maxwell").length >= count)"""


def works(page: Page, address: str) -> None:
    """Take a run where ASL works."""
    page.goto(address)
    page.wait_for_function(LOADS, arg=20)
    sample(page)
    page.mouse.wheel(0, -2000)
    page.wait_for_timeout(1000)
    keep(page, "explorer-light.png")
    keep(card(page, "Sample"), "explorer-run.png")


def fails(page: Page, address: str) -> None:
    """Take theory where a second maximum has taken over."""
    page.goto(address + FAILING)
    page.wait_for_function(LOADS, arg=36)
    page.wait_for_timeout(1000)
    keep(page, "explorer-dark.png")


def anneals(page: Page, address: str) -> None:
    """Take what a run of τ-annealing shows besides."""
    page.goto(address + ANNEALED)
    page.wait_for_function(LOADS, arg=20)
    sample(page)
    page.wait_for_timeout(1000)
    keep(page.locator("#card-annealing"), "explorer-annealing.png")


def sample(page: Page) -> None:
    """Make a run to its end."""
    page.locator(".start button:enabled").click()
    page.locator(".run", has_text="Download").wait_for()


def card(page: Page, name: str) -> Locator:
    """Return the part of the page with this heading."""
    return page.locator(f'section[aria-label="{name}"]')


def keep(part: Page | Locator, name: str) -> None:
    """Write a picture of the page, or of a part of it, with as many colours as it needs."""
    Image.open(io.BytesIO(part.screenshot())).convert("RGB").quantize(256).save(FOLDER / name, optimize=True)


def main() -> None:
    """Take all."""
    command = [sys.executable, "-c", "from solspace.cli import main; main()", "explore", "--no-browser"]
    server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        while not (found := re.search(r"http://[\d.]+:\d+/", server.stderr.readline())):
            pass
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
            for take in (works, fails, anneals):
                page = browser.new_page(viewport=SIZE)
                page.set_default_timeout(120_000)
                take(page, found.group())
                page.close()
            browser.close()
    finally:
        server.terminate()


if __name__ == "__main__":
    main()
