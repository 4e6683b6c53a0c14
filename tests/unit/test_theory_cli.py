"""`solspace predict` and `solspace phase` as a user meets them."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import solspace as ss
from solspace.cli import make_app

pytestmark = pytest.mark.slow


@pytest.fixture
def solspace(tmp_path, monkeypatch):
    """Run a verb in an empty folder: its exit code and what it printed, in one line of single spaces."""
    monkeypatch.chdir(tmp_path)
    app = make_app()

    def run(*arguments):
        done = CliRunner().invoke(app, arguments, env={"COLUMNS": "200"})
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        return done.exit_code, " ".join(done.output.split())

    return run


def test_cold_measures_are_predicted_and_colder_ones_refused(solspace):
    code, words = solspace("predict", "--temperature", "1e-3", "--no-thresholds")
    assert code == 0
    assert "0.998378" in words
    code, words = solspace("predict", "--temperature", "1e-6")
    assert code == 2
    assert "temperature must be at least 0.0001 for replica theory; got 1e-06" in words


def test_a_band_beside_the_origin_is_predicted(solspace):
    code, words = solspace(
        "predict", "--prior", "spherical", "--potential", "band(1)", "--margin=-1", "--no-thresholds"
    )
    assert code == 0
    assert "overlap r" in words


def test_past_zero_entropy_there_still_are_solutions(solspace):
    code, words = solspace("predict", "--alpha", "0.7")
    assert code == 0
    assert "typical samples of this measure end (zero entropy) │ 0.6832185 │ above" in words
    assert "the constraints stop having solutions (capacity) │ 0.8330786 │ below" in words
    assert "its typical samples end at a smaller load" in words
    assert "The constraints have solutions up to capacity (0.8331)." in words
    assert "past capacity" not in words
    code, words = solspace("predict", "--alpha", "0.84", "--json", "--no-thresholds")
    found = json.loads(words)
    assert (found["satisfiable"], found["populated"], round(found["capacity"], 4)) == (False, False, 0.8331)


def test_soft_measures_go_on_past_capacity(solspace):
    code, words = solspace("predict", "--potential", "hinge", "--alpha", "1.7", "--no-thresholds")
    assert code == 0
    assert "no weights meet all constraints, and samples of this soft measure miss some of them" in words
    assert "predicted to be fair" in words


def test_the_window_begins_at_the_cusp(solspace, monkeypatch):
    """The picture's areas start in the point where ASL stops; the table names both spinodals and rounds zero to zero."""
    from matplotlib.axes import Axes

    areas = []
    fill = Axes.fill_between
    monkeypatch.setattr(Axes, "fill_between", lambda ax, *a, **k: areas.append(a) or fill(ax, *a, **k))
    code, words = solspace("phase", "--temperature", "0.8", "--alphas", "0.65:0.796126532:12")
    assert code == 0
    assert "low spinodal Maxwell high spinodal" in words
    assert "e-2" not in words
    assert "before 0" in words
    assert " -0" not in words
    assert " -1" not in words
    limits = ss.thresholds(ss.Target(temperature=0.8))
    assert len(areas) == 2
    for alphas, low, high in areas:
        assert alphas[0] == limits.asl
        assert low[0] == high[0] == limits.cusp_time
    rows = list(csv.DictReader(Path("phase.csv").read_text().splitlines()))
    assert (rows[-2]["populated"], rows[-2]["satisfiable"]) == ("False", "True")
    assert float(rows[-2]["entropy"]) < 0 < float(rows[0]["entropy"])


def test_the_map_shows_where_typical_samples_end(solspace):
    code, words = solspace("phase", "--margins=0:0.2:2")
    assert code == 0
    assert "zero_entropy capacity" in words
    rows = list(csv.DictReader(Path("phase.csv").read_text().splitlines()))
    assert float(rows[0]["zero_entropy"]) < float(rows[0]["capacity"]) == pytest.approx(0.8330786)


@pytest.mark.parametrize(("potential", "low", "high"), [("band(1)", -1.0, 1.0), ("log", 0.0, None)])
def test_the_density_is_drawn_on_its_support(potential, low, high):
    from matplotlib.figure import Figure

    from solspace.plots.theory import stability_density

    p = ss.predict(ss.Target("binary", potential), 0.3)
    ax = Figure().add_subplot()
    stability_density(p, ax)
    s, density = ax.lines[0].get_data()
    assert abs(s[0] - low) < 0.5
    assert p.stability_range[0] == low
    assert p.stability_range[1] == high or high is None
    assert abs(s[-1] - p.stability_range[1]) < 0.1 * (p.stability_range[1] - low)
    assert np.diff(s) @ (density[1:] + density[:-1]) / 2 == pytest.approx(1.0, abs=5e-3)
