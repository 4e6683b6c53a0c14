"""The examples run from start to end, in less than a minute each once compiled, and leave their picture."""

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.py"))

pytestmark = pytest.mark.slow


def processor_time() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@pytest.mark.parametrize("script", EXAMPLES, ids=lambda script: script.stem)
def test_an_example_runs_and_leaves_a_picture(script, tmp_path):
    start = processor_time()
    subprocess.run([sys.executable, str(script)], cwd=tmp_path, env={**os.environ, "MPLBACKEND": "agg"}, check=True)
    assert processor_time() - start < 120  # a minute for the example, and one to compile what no cache holds yet
    assert (tmp_path / f"{script.stem}.png").stat().st_size > 5000
