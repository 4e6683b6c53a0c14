"""The classifier is a scikit-learn estimator: the whole conformance suite, with no check skipped or excused."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

# In a process of its own: the check of array API input is skipped unless this variable is set before SciPy is imported.
CODE = """
import json, sys, warnings
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import check_estimator
from solspace.learn import BinaryPerceptronClassifier

warnings.simplefilter("error")
warnings.simplefilter("ignore", ConvergenceWarning)
outcome = {}
for options in json.loads(sys.argv[1]):
    checks = check_estimator(BinaryPerceptronClassifier(**options), on_fail=None)
    failed = {c["check_name"]: f"{c['status']}: {c['exception']}" for c in checks if c["status"] != "passed"}
    outcome[str(options)] = [len(checks), failed]
print(json.dumps(outcome))
"""
VARIANTS = [
    {},
    {"sampler": "temperature"},
    {"sampler": "asl"},
    {"n_solutions": 4, "n_jobs": 2},
    {"preprocess": "raw"},
    {"preprocess": "binarised"},
    {"method": "solve"},
]


@pytest.mark.parametrize(
    "variants", [VARIANTS[:1], pytest.param(VARIANTS[1:], marks=pytest.mark.exhaustive)], ids=["as it is", "others"]
)
def test_every_check_of_scikit_learn_passes(variants: list[dict[str, object]]) -> None:
    environment = {**os.environ, "SCIPY_ARRAY_API": "1"}
    done = subprocess.run(
        [sys.executable, "-c", CODE, json.dumps(variants)], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    outcome = json.loads(done.stdout.splitlines()[-1])
    assert len(outcome) == len(variants)
    for options, (count, failed) in outcome.items():
        assert count > 40, options
        assert not failed, options
