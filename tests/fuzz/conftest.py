"""What the fuzz tests share: a budget (`--long` for the large one), and a tally of outcomes for `docs/reliability.md`.

Every try has a number, which is its seed: a failure names it, and the same try can be made again alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

import pytest


@pytest.fixture(scope="session")
def budget(request: pytest.FixtureRequest) -> Callable[[int, int], int]:
    """Return a function of the number of tries: (as a rule, with `--long`); a test with none is left out."""

    def tries(usual: int, long: int) -> int:
        if not (count := long if request.config.getoption("--long") else usual):
            pytest.skip("made with --long only")
        return count

    return tries


@pytest.fixture
def tally(request: pytest.FixtureRequest) -> Iterator[Counter[str]]:
    """Count outcomes; the counts are printed when all tests are through."""
    counts: Counter[str] = Counter()
    yield counts
    name = request.node.nodeid.rpartition("/")[2].removeprefix("test_").replace(".py::test_", ": ")
    words = ", ".join(f"{count:,} {outcome}" for outcome, count in sorted(counts.items()))
    request.node.user_properties.append(("fuzz", f"{name}: {counts.total():,} tries: {words}"))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reports = [report for reports in terminalreporter.stats.values() for report in reports]
    properties = [pair for report in reports for pair in getattr(report, "user_properties", ())]
    lines = [text for name, text in properties if name == "fuzz"]
    if lines:
        terminalreporter.section("outcomes of the fuzz tests")
        for line in sorted(set(lines)):
            terminalreporter.write_line(line)
