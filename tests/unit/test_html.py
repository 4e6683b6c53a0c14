"""What notebooks show of an object: a small table, well formed, whatever is in its strings, that reads in light and in dark."""

from __future__ import annotations

from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.colors import to_rgb

import solspace as ss
from solspace.diagnostics.report import Estimate, Report
from solspace.samplers.marginals.amp import Marginals, Status
from solspace.system.plain import COLOURS

PROBLEM = ss.Perceptron.random(51, 0.3, rng=0)
HOSTILE = "<script>alert('&')</script>"


class Named(ss.potentials.Log):
    """A potential with a name that no page should run."""

    def __str__(self) -> str:
        return HOSTILE


def shown(thing) -> str:
    """Return the text of a table, all of it, from well-formed HTML."""
    return "|".join(ElementTree.fromstring(thing._repr_html_()).itertext())


def test_a_target_and_a_problem_say_what_they_are():
    assert shown(ss.Target(margin=0.5)) == "Target|weights|binary|potential U|log|temperature T|0.5|margin κ|0.5"
    assert "temperature" not in shown(ss.Target(potential="uniform"))
    assert "load α = m/n|0.2941|patterns|random, binary (int8)|target|binary weights" in shown(PROBLEM)
    assert "patterns|given (float64)" in shown(ss.Perceptron([[0.5, 1.5]]))


def test_predictions_and_thresholds_are_tables_with_a_verdict():
    fine, stuck = ss.predict(ss.Target(), 0.3), ss.predict(ss.Target("binary", "uniform"), 0.3)
    assert "overlap r|0.51104685" in shown(fine)
    assert COLOURS["good"] in fine._repr_html_()
    assert COLOURS["bad"] in stuck._repr_html_()
    assert shown(stuck).endswith("not samplable by localization")
    limits = ss.thresholds(ss.Target("binary", "uniform"))
    assert "ASL|0|a maximum at q = 1 at every load" in shown(limits)
    assert "ASL             0 (a maximum at q = 1 at every load)" in repr(limits)


def test_samples_and_marginals_are_counted():
    chains = ss.anneal(PROBLEM, 3, 20, n_extra=20, thin=5, rng=0)
    assert "samples|12 draws of 3 chains|solved|12 of 12" in shown(chains)
    assert "samples|2|solved|2 of 2" in shown(ss.Samples.of(PROBLEM, chains.weights[:2]))
    one, many = ss.amp(PROBLEM), ss.amp(PROBLEM, np.zeros((3, 51)))
    assert shown(one).startswith("Marginals|means, variances|51|overlap |m|²/n|0.")
    assert shown(many).endswith("3 of 3 converged")
    slow = Marginals(np.zeros(5), np.ones(5), Status.SLOW, 9, "full")
    assert shown(slow).endswith("|not converged| stopped at the iteration limit while still changing a little; the "
                                "marginals are approximate")  # fmt: skip
    assert COLOURS["bad"] in slow._repr_html_()


@pytest.mark.parametrize(("fair", "tone"), [(True, "good"), (False, "bad"), (None, "open")])
def test_a_report_has_its_verdict_in_colour_and_its_notes(fair, tone):
    report = Report(8, 7, fair, "so so: in words.", overlap=Estimate(0.5, 0.1, 0.4), notes=("few samples.",))
    assert shown(report).endswith("|0.5000 ± 0.1000|0.4000|so so| in words.|few samples.")
    assert COLOURS[tone] in report._repr_html_()


def test_no_string_becomes_markup():
    target = ss.Target(potential=Named())
    samples = ss.Samples.of(PROBLEM.with_target(target), np.ones((1, 51), np.int8), {"sampler": HOSTILE})
    report = Report(1, 1, None, HOSTILE, notes=(HOSTILE,))
    for thing in (target, PROBLEM.with_target(target), samples, report):
        assert "<script" not in thing._repr_html_()
        assert HOSTILE in shown(thing)


def luminance(colour: str) -> float:
    rgb = np.array(to_rgb(colour))
    return float(np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4) @ [0.2126, 0.7152, 0.0722])


def test_verdicts_read_on_their_ground_and_take_no_colour_from_the_page():
    for colour in COLOURS.values():
        assert 1.05 / (luminance(colour) + 0.05) > 4.5
    text = ss.Target()._repr_html_()
    assert "color: inherit" in text
    assert "color: #" not in text
