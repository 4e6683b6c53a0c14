"""The page on the paper and the gallery show every figure at its largest size, with tables from the numbers behind it."""

from __future__ import annotations

import math
import re
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

from solspace.experiments import figures

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "paper.md").read_text(encoding="utf-8")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def hook():
    return _module("paper")


def _module(name):
    spec = spec_from_file_location(f"docs_{name}", DOCS / "hooks" / f"{name}.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_figure_of_the_paper_is_there():
    shown = set(re.findall(r"\(gallery/([\w-]+)-quick\.png\)", PAGE))
    assert shown == {name for name in figures.FIGURES if re.match(r"Fig\.|appendix", figures.find(name).place)}


def test_tables_and_pictures_are_of_the_largest_size(hook, tmp_path, monkeypatch):
    monkeypatch.setattr(hook, "FOLDER", tmp_path)
    for size, middle in {"quick": 0.4, "paper": 0.25}.items():
        rows = "\n".join(f"101,{alpha},{mean},{mean},{mean}" for alpha, mean in ((0.2, 0.75), (0.6, 0.25), (0.9, 0.0)))
        if size == "paper":
            rows = "101,0.2,1.0,1.0,1.0\n101,0.3,0.0,0.0,0.0"
        (tmp_path / f"one-{size}.csv").write_text(f"n,alpha,mean,low,high\n{rows}\n", encoding="utf-8")
        (tmp_path / f"one-{size}.png").write_bytes(b"")
        text = hook.filled("![One](gallery/one-quick.png)\n\n<!-- half: one across n -->")
        assert f"gallery/one-{size}.png" in text
        assert f"reproduce one --size {size}`" in text
        assert f"| N = 101 |\n| --- |\n| {middle:.3f} ({middle:.3f}–{middle:.3f}) |" in text


def test_the_gallery_shows_the_largest_size_and_leads_to_the_others(tmp_path, monkeypatch):
    gallery = _module("gallery")
    monkeypatch.setattr(gallery, "FOLDER", tmp_path)
    captions = "\n".join(f'{name} = "What to see."' for name in figures.FIGURES)
    (tmp_path / "captions.toml").write_text(captions, encoding="utf-8")
    for file in ("edge-quick", "solvers-quick", "mnist-quick", "mnist-paper"):
        (tmp_path / f"{file}.png").write_bytes(b"")
    text = gallery.page()
    assert re.findall(r"!\[[^\]]+\]\(gallery/([\w-]+)\.png\)", text) == ["edge-quick", "solvers-quick", "mnist-paper"]
    assert re.findall(r"solspace reproduce (\S+ --size \w+)\n", text) == [
        "edge --size quick", "solvers --size quick", "mnist --size paper",
    ]  # fmt: skip
    assert re.findall(r"^\*(.+?)\.\* What", text, re.MULTILINE) == [
        "Appendix of the paper", "An extension of the paper", "Appendix of the paper",
    ]  # fmt: skip
    assert "[what `--size quick` draws](gallery/mnist-quick.png)" in text


@pytest.mark.skipif(not (DOCS / "gallery" / "mnist-quick.png").exists(), reason="an sdist has no gallery")
def test_the_page_is_filled(hook):
    text = hook.filled(PAGE)
    assert "<!--" not in text
    assert "mcmc-comparison-paper.png" in text
    for file in re.findall(r"\((gallery/[\w-]+\.(?:png|csv))\)", text):
        assert (DOCS / file).is_file()


def test_half_is_where_a_falling_curve_passes_it_last(hook):
    assert hook.crossing([(0.1, 1.0), (0.2, 0.4), (0.3, 0.6), (0.4, 0.4)]) == pytest.approx(0.35)
    assert hook.crossing([(0.1, 1.0), (0.2, 0.5)]) == math.inf
    assert hook.crossing([(0.1, 0.4), (0.2, 0.1)]) == -math.inf


def test_a_histogram_that_lies_on_theory_is_off_by_nothing(hook):
    rows = [{"alpha": "0.3", "count": "50", "density": "0.5", "theory": "0.5"}] * 2
    assert "| 0.3 | 100 | 0.0000 | 0.0564 |" in hook.histogram_table(rows)
