"""`solspace reproduce FIGURE --set NAME=NUMBER`: figures with other parameters, under other keys and names, and they say so."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from made_up import OURS, plausible
from terminal import invoke

from solspace.experiments import figures
from solspace.experiments.figures import Figure
from solspace.experiments.figures import random_patterns as loads
from solspace.experiments.images import ImageSpec
from solspace.experiments.results import Results
from solspace.experiments.tasks import Task, finished
from solspace.measure import Target
from solspace.store import Store
from solspace.theory.thresholds import Thresholds

OTHERS = {"temperature": 0.61, "margin": -0.37, "alpha": 0.43, "width": 0.83}
FIXED = {
    "spherical-alpha-kappa",
    "symmetric-threshold",
    "planted",
    "planted-t-alpha",
    "levels-success",
    "calibration-ranks",
    "counts",
    "counting-reach",
    "sphere-wall",
}
"""Figures whose axes are the parameters, or that have several targets, or none."""
ADJUSTABLE = [name for name in figures.FIGURES if name not in FIXED]


@pytest.fixture
def quick_theory(monkeypatch):
    """Theory that answers at once, with numbers of the right size."""
    monkeypatch.setattr(loads, "limits", lambda target: Thresholds(
        target, 0.7, "cusp", 0.9, 0.75, 0.8, 0.95, 1.0, cusp_overlap=0.8, cusp_time=0.3))  # fmt: skip
    monkeypatch.setattr(loads, "_capacity", lambda target: 0.83 if target.margin == 0 else 1.2)
    monkeypatch.setattr(loads, "telling_times", lambda target, alpha: (0.0, 0.5))


def changed(name: str) -> tuple[Figure, dict[str, float]]:
    figure = figures.find(name)
    values = {one: OTHERS[one] for one in figure.parameters}
    return figure.with_parameters(values), values


def firsts(figure: Figure) -> list[Task]:
    """Return the tasks of theory, and the first instances of the others."""
    points = [point for spec in figure.specs("quick") for point in spec.points()]
    return [*figure.theory("quick"), *(Task({**point, "instance": 0}) for point in points)]


@pytest.mark.parametrize("name", [name for name in ADJUSTABLE if name in OURS])
def test_a_changed_figure_has_tasks_of_its_own_and_says_its_parameters(name, quick_theory, tmp_path):
    figure, values = changed(name)
    tasks = firsts(figure)
    shared = {task.key for task in tasks} & {task.key for task in firsts(figures.find(name))}
    assert len(shared) == (sum("band" in str(task.values) for task in tasks) if name == "solvers" else 0)
    with Store(tmp_path / "f.db", write=True) as store:
        for task in tasks:
            store.add(finished(task, *plausible(task)))
    drawing = figure.draw(Results(lambda: tasks, tmp_path / "f.db"), "quick").drawing
    titles = " ".join(
        [ax.get_title() for ax in drawing.axes]
        + [text.get_text() for text in drawing.texts]
        + [legend.get_title().get_text() for legend in drawing.legends]
        + [drawing.get_suptitle()]
    )
    for value in values.values():
        assert f"{value:g}".replace("-", "−") in titles, titles
    assert figure.stem("paper") == "-".join([name, *(f"{one}={value:g}" for one, value in values.items())])


@pytest.mark.parametrize("name", [name for name in ADJUSTABLE if name not in OURS])
def test_images_are_sampled_under_the_changed_target(name):
    figure, values = changed(name)
    for size in figures.SIZES:
        specs = figure.specs(size)
        assert specs
        for spec in specs:
            assert isinstance(spec, ImageSpec)
            for point in spec.points():
                heat = values["temperature"] if point["target"]["potential"]["name"] == "log" else 1.0
                assert (point["target"]["temperature"], point["target"]["margin"]) == (heat, values["margin"])


def test_the_papers_values_change_nothing():
    figure = figures.find("binary-t-alpha")
    same = figure.with_parameters({"temperature": 0.5, "margin": 0.0})
    assert same.stem("quick") == "binary-t-alpha-quick"
    assert [task.key for task in same.theory("quick")] == [task.key for task in figure.theory("quick")]
    assert figure.parameters == {"temperature": 0.5, "margin": 0.0}
    assert {name for name in figures.FIGURES if not figures.find(name).parameters} == FIXED


def test_loads_follow_the_constraints(monkeypatch):
    assert loads.rescaled([0.4], Target(temperature=0.9), Target()) == (0.4,)
    found = Thresholds(Target(), 270.0, "cusp", 328.0, 280.0, None, None, 500.0, cusp_overlap=0.8, cusp_time=0.3)
    with monkeypatch.context() as made_up:
        made_up.setattr(loads, "limits", lambda target: found)
        columns = loads.around(Target(), 5)
        made_up.setattr(loads, "limits", lambda target: replace(found, asl=0.0, asl_by="edge", cusp_time=None))
        edge = loads.around(Target(), 4)
    assert 230 < columns[0] < 270 < columns[1] < 270.1 < columns[-1] < 328
    assert edge == sorted(edge)
    assert 0 < edge[0] < edge[-1] < 328


@pytest.mark.parametrize(("words", "sentence"), [
    ("binary-t-alpha --set temprature=0.7", "did you mean 'temperature'? Known: 'margin', 'temperature'."),
    ("binary-t-alpha --set temperature", "--set must be NAME=NUMBER, as in temperature=0.7; got 'temperature'."),
    ("binary-t-alpha --set temperature=warm", "--set must be NAME=NUMBER, as in temperature=0.7; got 'temperature=warm'."),
    ("binary-t-alpha --set temperature=-1", "temperature must be a positive number; got -1.0."),
    ("edge --set margin=nan", "margin must be a number; got nan."),
    ("edge --set alpha=1 --set alpha=2", "--set gives alpha twice."),
    ("symmetric-threshold --set margin=1", "symmetric-threshold has no parameters to set."),
    ("asl-success --set temperature=2", "it samples at no load."),
])  # fmt: skip
def test_nonsense_is_one_sentence_and_exit_code_2(words, sentence, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = invoke("reproduce", *words.split(), "--executor", "serial")
    assert done.exit_code == 2
    assert done.stderr.startswith("solspace: ")
    assert done.stderr.endswith(f"{sentence}\n")
    assert done.stderr.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_from_the_command_line_to_files_with_the_parameters_in_their_names(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = invoke(
        "reproduce", "spherical-free-entropy", "--set", "margin=-1.5", "--set", "alpha=20.5", "--executor", "serial"
    )
    assert done.exit_code == 0, done.stderr
    stem = "spherical-free-entropy-quick-margin=-1.5-alpha=20.5"
    assert sorted(path.name for path in Path("figures").iterdir()) == [
        f"{stem}.{kind}" for kind in ("csv", "pdf", "png", "svg")
    ]
    assert "κ = −1.5, α = 20.5" in Path("figures", f"{stem}.svg").read_text(encoding="utf-8")
    again = invoke(
        "reproduce", "spherical-free-entropy", "--set", "alpha=20.5", "--set", "margin=-1.5", "--dry-run", "--json"
    )
    assert '"theory_tasks": 0' in again.stdout
    lacking = invoke("reproduce", "edge", "--set", "alpha=40", "--executor", "serial")
    assert lacking.exit_code == 2
    assert "edge cannot be drawn: 6 of its tasks failed, the first with: " in lacking.stderr
