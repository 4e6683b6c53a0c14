"""Pictures from Python: on given axes or new ones, in a style that leaves the user's alone and that journals take."""

from __future__ import annotations

import itertools
from typing import Any

import matplotlib
import numpy as np
import pytest
from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb

import solspace as ss
from solspace.diagnostics.report import Distance, Estimate, Report
from solspace.plots import diagrams
from solspace.plots.style import BLUE, DOUBLE, GREY, RED, REGIMES, SERIES, SINGLE, save
from solspace.theory.phases import PhaseDiagram

BLIND = {
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
    "none": np.eye(3).tolist(),
}
"""Linear RGB as seen without one kind of cones (Machado, Oliveira and Fernandes 2009)."""


@pytest.fixture(autouse=True)
def untouched():
    """No picture changes what the user has set, and none stays open."""
    before = dict(matplotlib.rcParams)
    yield
    assert dict(matplotlib.rcParams) == before
    pyplot.close("all")


@pytest.fixture(scope="module")
def things() -> dict[str, Any]:
    problem = ss.Perceptron.random(101, 0.3, rng=0)
    prediction = ss.predict(problem.target, 0.3)
    chains = ss.anneal(problem, 4, 20, n_extra=80, thin=5, rng=1)
    solved = ss.Samples.of(problem, chains.weights[:3])
    localized = ss.localize(problem, 4, rng=1)
    loads, ones = np.array([0.6, 0.66, 0.9]), np.array([True, True, False])
    lines = {
        "spinodal_low": [np.nan, 0.1, np.nan],
        "maxwell": [np.nan, 0.2, np.nan],
        "spinodal_high": [np.nan, 0.3, np.nan],
    }
    diagram = PhaseDiagram(
        problem.target, loads, np.array([0.0, 0.4]), np.full((2, 3), "green"), **{n: np.array(x) for n, x in lines.items()},
        samplable=ones, stable=ones, populated=ones, satisfiable=ones, entropy=np.ones(3),
    )  # fmt: skip
    return {
        "prediction": prediction, "chains": chains, "localized": localized, "own": solved, "diagram": diagram,
        "map": ss.sampling_map(ss.Target("spherical", "uniform"), [-1.0, -0.5], progress=False),
        "by theory": ss.diagnose(localized, prediction), "by themselves": ss.diagnose(chains),
        "by chains": ss.diagnose(localized, reference=chains), "alone": ss.diagnose(solved),
    }  # fmt: skip


PICTURES = [
    *(("prediction", {"kind": kind}) for kind in ("free entropy", "localization", "path", "stabilities")),
    *(("localized", {"kind": kind}) for kind in ("stabilities", "overlaps", "path")),
    ("chains", {"kind": "energy"}), ("own", {}), ("diagram", {}), ("map", {}),
    ("by theory", {}), ("by themselves", {}), ("by chains", {}), ("alone", {}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "options"), PICTURES, ids=lambda value: value if isinstance(value, str) else str(*value.values())
)
def test_a_picture_is_a_column_wide_or_on_the_axes_that_are_given(things, name, options):
    ax = things[name].plot(**options)
    assert isinstance(ax, Axes)
    assert ax.figure.get_figwidth() * 25.4 == pytest.approx(86)
    assert pyplot.fignum_exists(ax.figure.number)  # notebooks show what pyplot knows
    _, given = pyplot.subplots()
    assert things[name].plot(**options, ax=given, alpha=0.7) is given
    assert given.get_xlabel() == ax.get_xlabel() != ""


@pytest.mark.parametrize(("name", "count"), [("prediction", 4), ("localized", 3), ("chains", 3), ("own", 2)])
def test_all_pictures_fill_two_columns(things, name, count):
    axes = things[name].plot("all")
    assert len(axes) == count
    assert axes[0].figure.get_figwidth() * 25.4 == pytest.approx(178)
    _, given = pyplot.subplots(2, 2)
    if count == 4:
        assert things[name].plot("all", ax=given)[3] is given[1, 1]
    else:
        with pytest.raises(ValueError, match=f"ax must hold {count} axes for this picture; got 4"):
            things[name].plot("all", ax=given)
    with pytest.raises(ValueError, match="give a kind with color"):
        things[name].plot("all", color="k")


def test_style_is_matplotlibs_in_long_and_short(things):
    (line,) = (
        line for line in things["prediction"].plot("stabilities", c="k", linewidth=3).lines if len(line.get_xdata()) > 2
    )
    assert (line.get_color(), line.get_linewidth()) == ("k", 3)
    bars = things["localized"].plot(fc="orange", histtype="step").patches
    assert bars[0].get_facecolor()[:3] == to_rgb("orange")


def test_theory_and_a_reference_are_drawn_beside_samples(things):
    ax = things["localized"].plot("overlaps", prediction=things["prediction"], reference=things["chains"])
    words = [text.get_text() for text in ax.get_legend().get_texts()]
    assert "chains" in words
    assert any(word.startswith("theory r = 0.5") for word in words)
    other = ss.Samples.of(ss.Perceptron.random(101, 0.3, rng=5), things["own"].weights)
    with pytest.raises(ValueError, match="reference must be samples of the same problem"):
        things["localized"].plot("overlaps", reference=other)


def test_wrong_kinds_are_a_sentence(things):
    with pytest.raises(ValueError, match="unknown kind of picture 'pth': did you mean 'path'"):
        things["prediction"].plot("pth")
    with pytest.raises(
        ValueError, match=r"unknown kind of picture 'energy'.* Known: 'all', 'overlaps', 'path', 'stabilities'"
    ):
        things["localized"].plot("energy")
    with pytest.raises(ValueError, match="there is no sample to draw"):
        things["localized"][:0].plot()


def test_a_sweep_draws_what_differs_in_it(tmp_path):
    spec = ss.Spec(n=[5, 7], alpha=[0.2, 0.4], temperature=[0.5, 1.0], sampler="exact", instances=2)
    results = ss.sweep(spec, tmp_path / "runs.db", executor="serial", show_progress=False)
    ax = results.plot()
    assert (ax.get_xlabel(), ax.get_ylabel()) == (r"load $\alpha$", "fraction solved")
    legend = [text.get_text() for text in ax.get_legend().get_texts()]
    assert legend == ["N = 5, T = 0.5", "N = 5, T = 1.0", "N = 7, T = 0.5", "N = 7, T = 1.0"]
    mine = results.plot("mean_stability", x="n", ax=pyplot.subplots()[1], ls="")
    assert mine.get_xlabel() == "weights $N$"
    with pytest.raises(ValueError, match="unknown value 'solved_fractoin': did you mean 'solved_fraction'"):
        results.plot("solved_fractoin")
    with pytest.raises(ValueError, match="unknown x 'alhpa': did you mean 'alpha'"):
        results.plot(x="alhpa")
    lone = ss.sweep(
        ss.Spec(n=5, alpha=0.2, sampler="exact"), tmp_path / "runs.db", executor="serial", show_progress=False
    )
    assert lone.plot().get_legend() is None


def test_deviations_pass_three_where_the_verdict_says_biased(things):
    fair = Report(8, 8, True, "fair", overlap=Estimate(0.52, 0.01, 0.5), w1=Distance(0.1, 0.05, 2.3))
    assert max(fair.deviations().values()) < 3
    off = Report(8, 8, False, "biased: x", overlap=Estimate(0.9, 0.01, 0.5), ks=Distance(0.2, 0.05))
    assert [value > 3 for value in off.deviations().values()] == [True, True]
    assert off.plot().get_xscale() == "symlog"
    assert things["alone"].deviations() == {}
    assert {"a chain remembers", "R-hat of energy"} & set(things["by themselves"].deviations())


def test_a_window_of_one_load_is_seen_and_loads_past_capacity_are_grey(things):
    ax = things["diagram"].plot()
    red = next(area for area in ax.collections if np.allclose(area.get_facecolor()[0][:3], to_rgb(REGIMES["red"])))
    assert red.get_paths()[0].get_extents().x0 == pytest.approx(0.63)
    grey = [patch for patch in ax.patches if np.allclose(patch.get_facecolor()[:3], 0.75)]
    assert [patch.get_x() for patch in grey] == [pytest.approx(0.78)]


def test_figures_are_saved_as_journals_take_them(things, tmp_path):
    figure = things["prediction"].plot("path").figure
    figure.savefig(tmp_path / "a.pdf")
    figure.savefig(tmp_path / "a.png")
    text = (tmp_path / "a.pdf").read_bytes()
    assert b"/Type3" not in text.replace(b" ", b"")
    assert b"/Subtype /Type3" not in text
    assert pyplot.imread(tmp_path / "a.png").shape[1] == int(300 * SINGLE)
    assert pytest.approx(178 / 86) == DOUBLE / SINGLE
    files = save(figure, tmp_path / "margin=-2.5", ["svg"])
    assert [file.name for file in files] == ["margin=-2.5.svg"]
    assert [file.name for file in save(figure, tmp_path / "c.png", ["raw"])] == ["c.raw"]
    assert "<text" in files[0].read_text(encoding="utf-8")  # text stays text


def lab(colour: str, seen: Any) -> np.ndarray:
    rgb = np.array(to_rgb(colour))
    linear = np.clip(seen @ np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4), 0, 1)
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    f = np.cbrt(np.maximum(to_xyz @ linear / [0.9505, 1, 1.089], 1e-4))
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("colours", [
    SERIES, tuple(REGIMES.values()), (BLUE, RED, GREY), [colour for _, colour, _ in diagrams.LINES.values()],
], ids=["series", "regimes", "data and theory", "thresholds"])  # fmt: skip
@pytest.mark.parametrize("sight", BLIND)
def test_colours_are_told_apart_by_everybody(colours, sight):
    """A difference of 10 is seen at a glance; with the colours of before, two series differed by 6."""
    seen = [lab(colour, np.array(BLIND[sight])) for colour in colours]
    assert min(np.linalg.norm(a - b) for a, b in itertools.combinations(seen, 2)) > 15
