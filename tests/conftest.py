"""What all tests share."""

from __future__ import annotations

import os
import signal

# A shell that starts the tests in the background lets them ignore Ctrl-C, which some of them press.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# One thread each: the test runner already uses all cores, and results must not depend on the number of threads.
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("solspace", deadline=None, max_examples=60, suppress_health_check=list(HealthCheck))
settings.load_profile("solspace")


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20250216)
