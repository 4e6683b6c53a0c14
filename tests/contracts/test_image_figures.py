"""The figures on images: their grids, their tasks, their pictures; on scikit-learn's digits, which are always there."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from solspace.experiments import figures, images
from solspace.experiments.figures import Figure
from solspace.experiments.figures import images as shown
from solspace.experiments.figures.random_patterns import steps
from solspace.experiments.images import ImageSpec
from solspace.experiments.results import Results
from solspace.experiments.runner import RunConfig, run_tasks
from solspace.experiments.tasks import Task, run

SERIAL = RunConfig(executor="serial", show_progress=False)
NAMES = ("mnist", "mnist-features", "fashion", "fashion-features", "cifar10")


@pytest.mark.parametrize("name", NAMES)
def test_figures_have_the_papers_panels(name: str) -> None:
    figure = figures.find(name)
    points = [point for spec in figure.specs("paper") for point in spec.points()]
    assert figure.count("quick") < figure.count("paper") == 100 * len(points)
    assert {point["method"] for point in points} == {"tau", "errors", "hinge"}
    assert {point["preprocess"] for point in points} == {"centred", "raw"}
    panels = {(point["n"], point["options"]["n_sweeps"]) for point in points}
    if "features" in name:
        assert panels == {(32, 32), (64, 64), (1024, 1024), (2048, 2048)}
    else:
        assert panels == ({(3072, 1000), (3072, 3000)} if name == "cifar10" else {(784, 100), (784, 784)})
    assert {tuple(point["classes"]) for point in points} == {(5, 7) if "fashion" in name else (3, 8)}


@pytest.mark.parametrize("features", [False, True])
def test_a_figure_from_tasks_to_picture(tmp_path: Path, features: bool) -> None:
    sizes = {"quick": {20: (steps(0.2, 0.6, 0.2), 3), 30: (steps(0.2, 0.6, 0.4), 2)}}
    figure = Figure("digits", "", "", partial(shown.success, "digits", sizes, features))
    store = tmp_path / "figures.db"
    outcome = run_tasks(lambda: figure.tasks("quick"), store, SERIAL)
    assert (outcome.computed, outcome.failed) == (figure.count("quick"), 0) == (6 * (9 + 4), 0)
    assert run_tasks(lambda: figure.tasks("quick"), store, SERIAL).computed == 0
    picture = figure.draw(Results(lambda: figure.tasks("quick"), store), "quick")
    assert len(picture.drawing.axes) == 4
    assert len(picture.table) == 6 * 5
    assert all(0 <= point["low"] <= point["mean"] <= point["high"] <= 1 for point in picture.table)
    easy = [p["mean"] for p in picture.table if p["alpha"] == 0.2 and p["method"] == "tau" and p["n_sweeps"] == 30]
    assert min(easy) == 1


def test_a_pool_is_read_once_whatever_order_tasks_come_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures on several data sets are computed together: to read a pool again for each task would keep a device waiting."""
    read: list[str] = []
    digits = images.data.load("digits", (3, 8), "raw")
    monkeypatch.setattr(images.data, "load", lambda name, classes, how: read.append(name) or digits)
    images._pools.cache_clear()
    names = ("mnist", "fashion", "cifar10")
    for name in 3 * names:
        for how in ("centred", "raw"):
            X, y = images._pool({"data": name, "classes": [3, 8], "preprocess": how})
            assert len(X) == len(y) == len(digits.y)
    images._pools.cache_clear()
    assert read == list(names)


def test_mixing_from_tasks_to_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    panels = (shown.Panel("digits", (0.2, 0.4)), shown.Panel("digits", (0.3,), features=41, exchange=False))
    monkeypatch.setitem(shown.MIXING, "quick", panels)
    monkeypatch.setitem(shown.MIXING_SWEEPS, "quick", (40, 80))
    figure, store = figures.find("mixing"), tmp_path / "figures.db"
    outcome = run_tasks(lambda: figure.tasks("quick"), store, SERIAL)
    assert (outcome.computed, outcome.failed) == (5, 0)
    picture = figure.draw(Results(lambda: figure.tasks("quick"), store), "quick")
    assert len(picture.drawing.axes) == 2
    assert [line["exchange"] for line in picture.table] == [False, False, False, True, True]
    for line in picture.table:
        assert line["self_overlap"] - line["cross_overlap"] == pytest.approx(line["memory"], abs=1e-6)
        assert line["lag"] == 40
        assert (line["rungs"] is not None) == line["exchange"]
    assert len(picture.drawing.legends[0].get_texts()) == 4


def test_mixing_is_shown_for_all_data_sets() -> None:
    figure = figures.find("mixing")
    for size in figures.SIZES:
        points = [point for spec in figure.specs(size) for point in spec.points()]
        assert {point["data"] for point in points} == {"mnist", "fashion", "cifar10"}
        assert {point["options"].get("exchange", False) for point in points} == {False, True}
    assert figure.count("quick") == 20


def test_methods_and_preprocessings_share_their_images() -> None:
    spec = ImageSpec("digits", (0.4,), (10,), preprocess=("centred", "raw"), instances=2)
    seeds = [task.seed_from("seed", "data", "features", "alpha", "instance") for task in spec.tasks()]
    assert len(spec) == len(seeds) == 12
    assert len(set(seeds[:6])) == len(set(seeds[6:])) == 1
    assert seeds[0] != seeds[6]


def test_results_repeat_and_tell_the_accuracy_on_unseen_images() -> None:
    task = next(ImageSpec("digits", (0.5,), (60,), methods=("tau",)).tasks())
    first, second = run(task), run(Task(dict(task.values)))
    assert first.status == "done", first.error
    assert first.values == second.values
    assert first.values["accuracy"] > 0.75
    gpu = next(ImageSpec("digits", (0.5,), (60,), methods=("tau",)).with_options(device="cpu").tasks())
    assert gpu.values["options"] == {"n_sweeps": 60, "device": "cpu"}
