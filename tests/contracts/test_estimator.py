"""The classifiers are scikit-learn estimators: the whole conformance suite, with no check skipped or excused."""

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
from solspace import learn

warnings.simplefilter("error")
warnings.simplefilter("ignore", ConvergenceWarning)
outcome = {}
for name, options in json.loads(sys.argv[1]):
    checks = check_estimator(getattr(learn, name)(**options), on_fail=None)
    failed = {c["check_name"]: f"{c['status']}: {c['exception']}" for c in checks if c["status"] != "passed"}
    outcome[f"{name} {options}"] = [len(checks), failed]
print(json.dumps(outcome))
"""
PERCEPTRON, LOW_BIT, INTEGER = "BinaryPerceptronClassifier", "LowBitClassifier", "IntegerClassifier"
PLAIN = [(PERCEPTRON, {}), (LOW_BIT, {}), (INTEGER, {})]
VARIANTS = [
    (PERCEPTRON, {"sampler": "temperature"}),
    (PERCEPTRON, {"sampler": "asl"}),
    (PERCEPTRON, {"n_solutions": 4, "n_jobs": 2}),
    (PERCEPTRON, {"preprocess": "raw"}),
    (PERCEPTRON, {"preprocess": "binarised"}),
    (PERCEPTRON, {"method": "solve"}),
    (PERCEPTRON, {"intercept": True, "standardise": True}),
    (LOW_BIT, {"levels": "binary", "calibrate": "folds"}),
    (LOW_BIT, {"levels": "5bit", "n_jobs": 2, "class_weight": "balanced"}),
    (INTEGER, {"levels": "ternary"}),
]


@pytest.mark.parametrize(
    "variants", [PLAIN, pytest.param(VARIANTS, marks=pytest.mark.exhaustive)], ids=["as it is", "others"]
)
def test_every_check_of_scikit_learn_passes(variants: list[tuple[str, dict[str, object]]]) -> None:
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
