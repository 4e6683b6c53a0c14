"""`solspace predict` and `solspace phase` as a user meets them."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from solspace.cli import phase, predict
from solspace.cli.app import make_app


@pytest.fixture
def solspace(tmp_path, monkeypatch):
    """Run a verb in an empty folder: its exit code and what it printed, in one line of single spaces."""
    monkeypatch.chdir(tmp_path)
    app = make_app()
    for module in (predict, phase):
        module.register(app)

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
