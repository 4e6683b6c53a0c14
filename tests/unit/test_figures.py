"""Figures: their tasks are valid and distinct, and every picture can be drawn from a store of the right shape."""

from __future__ import annotations

import csv
import time
from pathlib import Path
from typing import Any

import pytest
from made_up import OURS, plausible

from solspace.experiments import figures
from solspace.experiments import reproduce as reproducing
from solspace.experiments.figures import Content, Figure, Picture
from solspace.experiments.images import ImageSpec
from solspace.experiments.reproduce import (
    TOGETHER,
    ReproduceConfig,
    _groups,
    _tasks,
    _theory,
    reproduce,
    reproduce_all,
)
from solspace.experiments.results import Results, write_csv
from solspace.experiments.runner import RunConfig
from solspace.experiments.spec import Spec
from solspace.experiments.tasks import KINDS, Task, finished
from solspace.plots import style, sweeps
from solspace.samplers.device import LostDevice
from solspace.store import Result, Store, StoreError

SERIAL = RunConfig(executor="serial")


@pytest.mark.parametrize("name", OURS)
def test_tasks_are_distinct_and_of_known_kinds(name: str) -> None:
    figure = figures.find(name)
    assert figure.name == name
    for size in figures.SIZES:
        tasks = list(figure.theory(size)) + [task for spec in figure.specs(size) for task in _first_instances(spec)]
        assert len({task.key for task in tasks}) == len(tasks)
        assert {task.values["kind"] for task in tasks} <= set(KINDS)
        assert figure.count(size) >= len(tasks) > 0
    assert figure.count("paper") >= figure.count("quick")


def _first_instances(spec: Spec) -> list[Task]:
    return [Task({**point, "instance": 0}) for point in spec.points()]


@pytest.mark.parametrize("name", OURS)
def test_every_picture_can_be_drawn(tmp_path: Path, name: str) -> None:
    figure = figures.find(name)
    path = tmp_path / "figures.db"
    with Store(path, write=True) as store:
        for task in figure.tasks("quick"):
            if task.values.get("instance", 0) < 2:
                store.add(finished(task, *plausible(task)))
    picture = figure.draw(Results(lambda: figure.tasks("quick"), path), "quick")
    (file,) = style.save(picture.drawing, tmp_path / name, ["svg"])
    assert "</svg>" in file.read_text()
    write_csv(lambda: picture.table, tmp_path / "table.csv")
    with open(tmp_path / "table.csv", encoding="utf-8") as text:
        assert len(list(csv.DictReader(text))) > 5


def test_a_run_counts_as_converged_if_every_call_did(tmp_path: Path) -> None:
    figure, path = figures.find("asl-success"), tmp_path / "figures.db"
    missed = [0.0, 0.02, 0.0, 0.0]
    with Store(path, write=True) as store:
        for task in figure.tasks("quick"):
            instance = task.values.get("instance", 0)
            values, arrays = plausible(task)
            if "n" in task.values and instance < len(missed):
                store.add(finished(task, {**values, "unconverged": missed[instance]}, arrays))
    table = figure.draw(Results(lambda: figure.tasks("quick"), path), "quick").table
    rows = [row for row in table if row["runs"] == "every call of AMP converged"]
    assert {(row["mean"], row["instances"]) for row in rows} == {(0.75, 4)}
    assert all(0.75 < row["high"] < 1 for row in rows)


def test_annealing_at_the_papers_size_fits_a_page_and_no_legend_hides_a_curve(tmp_path: Path) -> None:
    figure, path = figures.find("temperature-annealing"), tmp_path / "figures.db"
    tasks = [task for spec in figure.specs("paper") for task in _first_instances(spec)]
    with Store(path, write=True) as store:
        for task in tasks:
            store.add(finished(task, *plausible(task)))
    drawing = figure.draw(Results(lambda: tasks, path), "paper").drawing
    assert len(drawing.axes) == 4
    assert drawing.get_size_inches()[0] < 9
    assert not [ax for ax in drawing.axes if ax.get_legend()]
    (legend,) = drawing.legends
    assert [text.get_text() for text in legend.get_texts()] == [f"N = {n}" for n in (501, 1001, 2001, 5001, 10001)]


def _draw(results: Results) -> Picture:
    table = results.mean("solved_fraction", by=["n", "alpha"])
    with style.style():
        figure, ax = style.panels(1)
        sweeps.success(table, ax)
    return Picture(figure, table)


def test_from_spec_to_store_to_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    specs = [Spec(n=[5, 7], alpha=[0.2, 0.4], sampler="exact")]
    small = Figure("small", "", "a test", lambda size: Content(_draw, specs))
    monkeypatch.setattr(figures, "find", lambda name: small)
    config = ReproduceConfig(size="paper", store=tmp_path / "f.db", out=tmp_path / "out", run=SERIAL)
    first = reproduce("small", config)
    assert first.outcome.computed == 4
    assert [path.name for path in first.files] == ["small.png", "small.pdf", "small.svg", "small.csv"]
    before = {path.name: path.read_bytes() for path in first.files}
    assert before["small.png"][:4] == b"\x89PNG"
    assert before["small.pdf"][:4] == b"%PDF"
    again = reproduce("small", config)
    assert again.outcome.computed == 0
    assert {path.name: path.read_bytes() for path in again.files} == before


def test_a_figure_may_need_theory_and_samples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks of theory have no sampler, which a run looked for in every task: KeyError."""
    theory = Task({"kind": "thresholds", "target": Spec(n=5, alpha=0.2).target[0].to_dict()})
    specs = [Spec(n=5, alpha=0.2, sampler="exact")]
    mixed = Figure("mixed", "", "a test", lambda size: Content(_draw, specs, [theory]))
    monkeypatch.setattr(figures, "find", lambda name: mixed)
    config = ReproduceConfig(size="paper", store=tmp_path / "f.db", out=tmp_path, formats=["svg"], run=SERIAL)
    assert reproduce("mixed", config).outcome.computed == 2


def test_unknown_names() -> None:
    with pytest.raises(ValueError, match="unknown figure 'edg': did you mean 'edge'"):
        figures.find("edg")
    with pytest.raises(ValueError, match="unknown size 'papr': did you mean 'paper'"):
        ReproduceConfig(size="papr")


def _fill(path: Path, names: list[str], kinds: tuple[str, ...]) -> None:
    with Store(path, write=True) as store:
        for name in names:
            store.add(
                *(
                    finished(task, *plausible(task))
                    for task in figures.find(name).tasks("quick")
                    if task.values["kind"] in kinds
                )
            )


@pytest.mark.exhaustive
@pytest.mark.parametrize(("device", "lacking"), [(None, True), ("gpu", True), ("gpu", False)])
def test_several_figures_one_drawn_while_the_next_is_computed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, device: str | None, lacking: bool
) -> None:
    """In the order they are given, but for a GPU, which computes them together, and processors the theory of all beside it; one
    without its images stops no other."""
    monkeypatch.setattr("solspace.samplers.device.missing", lambda: "")  # what a device would do is in the store

    def absent(spec: ImageSpec) -> None:
        raise FileNotFoundError(f"{spec.data} is not on this machine")

    monkeypatch.setattr(ImageSpec, "tasks", absent)
    monkeypatch.setattr(Figure, "missing", lambda self, size: ["mnist"] * (self.name == "mnist" and lacking))
    path, names = tmp_path / "figures.db", ["spherical-free-entropy", "mnist", "mcmc-comparison"]
    _fill(path, names[2:], ("sample",))
    run = RunConfig(n_workers=1)
    config = ReproduceConfig(store=path, out=tmp_path / "out", device=device, formats=["svg"], run=run)
    made = list(reproduce_all(names, config))
    assert [one.name for one in made] == (names if device is None else [names[2], *names[:2]])
    assert [one.outcome.computed for one in made] == ([1, 0, 1] if device is None else [2, 0, 0])
    for one in made:
        assert ("mnist is not on this machine" in one.problem) == (one.name == "mnist")
        assert [file.name for file in one.files] == (
            [f"{one.name}-quick.{end}" for end in ("svg", "csv")] * (not one.problem)
        )
        assert all(file.stat().st_size for file in one.files)
        assert 0 <= one.seconds < 300
        assert one.together == (2 if device and lacking and one.name != "mnist" else 1)
    assert list(reproduce_all([])) == []


def test_a_figure_is_told_as_soon_as_it_is_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not only when the next one is computed: that may take minutes."""
    path, out = tmp_path / "figures.db", tmp_path / "out"
    _fill(path, ["edge"], ("edge",))

    def once_drawn(task: Task) -> Result:
        deadline = time.monotonic() + 60
        while not (out / "edge-quick.csv").exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(0.05)  # the process that drew it has yet to say so
        return finished(task, *plausible(task))

    monkeypatch.setattr("solspace.experiments.executors.run", once_drawn)
    config = ReproduceConfig(store=path, out=out, formats=["svg"], run=SERIAL)
    making = reproduce_all(["edge", "spherical-t-alpha"], config)
    assert next(making).name == "edge"
    with Store(path) as store:
        done = store.count()["done"]
    second = figures.find("spherical-t-alpha").count("quick")
    assert 6 < done < 6 + second
    (other,) = making
    assert (other.name, other.outcome.computed, other.problem) == ("spherical-t-alpha", second, "")


@pytest.mark.parametrize("error", [LostDevice("the GPU stopped answering"), StoreError("is the disk full?")])
def test_what_no_figure_can_do_without_ends_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: OSError
) -> None:
    """A lost device and a full disk are said once, not of every figure; what was computed before is drawn."""
    _fill(tmp_path / "figures.db", ["edge"], ("edge",))
    usual, labels = reproducing.running, []

    def failing(*arguments: Any) -> Any:
        labels.append(arguments[-1])
        if arguments[-1] != "edge":
            raise error
        return usual(*arguments)

    monkeypatch.setattr(reproducing, "running", failing)
    names = ["edge", "spherical-t-alpha", "binary-t-alpha"]
    config = ReproduceConfig(store=tmp_path / "figures.db", out=tmp_path, formats=["svg"], run=SERIAL)
    making = reproduce_all(names, config)
    assert next(making).name == "edge"
    with pytest.raises(type(error), match=str(error)[:-1]):
        next(making)
    assert labels == names[:2]


def test_figures_that_a_gpu_computes_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as pictures need not wait for, the one with most tasks first, and tasks that two of them share once."""
    monkeypatch.setattr(Figure, "missing", lambda self, size: [])
    every = [figures.find(name) for name in figures.FIGURES]
    groups = _groups(every, "paper")
    assert [figure.name for figure in groups[0]][:3] == ["tau-annealing", "spherical-free-entropy", "spherical-t-alpha"]
    assert sorted(figure.name for group in groups for figure in group) == sorted(figures.FIGURES)
    assert all(sum(figure.count("paper") for figure in group) <= TOGETHER for group in groups)
    assert [[figure.name for figure in group] for group in groups[3:]] == [
        ["mnist", "mnist-features"],
        ["fashion", "fashion-features"],
        ["cifar10", "fair-on-images", "mixing"],
    ]
    monkeypatch.setattr(Figure, "missing", lambda self, size: ["fashion"] * self.name.startswith("fashion"))
    assert [group for group in _groups(every, "paper") if group[0].name == "fashion"] == [[figures.find("fashion")]]
    assert _groups([], "paper") == []
    both = [figures.find(name) for name in ("mcmc-comparison", "tau-annealing")]
    keys = [task.key for task in _tasks(_theory(both, "quick"), both, "quick", None)]
    wanted = [{task.key for task in figure.tasks("quick")} for figure in both]
    assert len(keys) == len(set(keys)) < sum(map(len, wanted))
    assert set(keys) == set.union(*wanted)
