"""Damage for the fuzz tests: what a disk, a broken download or a hostile hand does to a file; and bounds on what follows."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

SECONDS = 20
"""Time of the processor, all threads together, that one try may take."""
MEMORY = 1 << 30
"""Memory that one try may take, in bytes."""


class TooLate(BaseException):
    """A try takes too long; no handler of errors may take it for one of them."""


def mutated(content: bytes, random: np.random.Generator, other: bytes = b"") -> bytes:
    """Return `content` with one to four injuries, most of them near its beginning or its end, where headers are."""
    for _ in range(int(random.integers(1, 5))):
        content = _injured(content, random, other)
    return content


def _injured(content: bytes, random: np.random.Generator, other: bytes) -> bytes:
    size = len(content)
    if size == 0:
        return random.bytes(8)
    region = [min(size, 128), size, size][int(random.integers(3))]
    at = int(random.integers(region))
    at = size - 1 - at if random.random() < 0.3 else at
    length = int(random.integers(1, 1 + min(64, size - at)))
    kind = int(random.integers(8))
    if kind == 0:  # a bit flips
        return content[:at] + bytes([content[at] ^ (1 << int(random.integers(8)))]) + content[at + 1 :]
    if kind == 1:  # the end is lost
        return content[:at]
    if kind == 2:  # a part is lost
        return content[:at] + content[at + length :]
    if kind == 3:  # a part comes twice
        return content[: at + length] + content[at:]
    if kind == 4:  # something is in between
        return content[:at] + random.bytes(length) + content[at:]
    if kind == 5:  # a block reads as zeros, or as ones
        return content[:at] + (b"\0" if random.random() < 0.5 else b"\xff") * length + content[at + length :]
    if kind == 6:  # another file's block
        start = int(random.integers(max(1, len(other))))
        return content[:at] + other[start : start + length] + content[at + length :]
    number = [0, 1, 0x7F, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, 1 << 40, (1 << 63) - 1][
        int(random.integers(10))
    ]
    width = 8 if number > 0xFFFFFFFF else 4 if number > 0xFFFF else 2  # a size that lies
    return content[:at] + number.to_bytes(width, "little") + content[at + width :]


@contextmanager
def bounded() -> Iterator[None]:
    """Stop the block with an error when it takes more time or memory than a try may."""
    if sys.platform == "win32":
        yield
        return
    import resource

    def late(*_: object) -> None:
        raise TooLate(f"a try takes longer than {SECONDS} s of the processor, or six times that")

    before, most = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    # Time of the processor, so that a loaded machine changes nothing; and many times that on the clock, for what waits.
    handlers = {kind: signal.signal(kind, late) for kind in (signal.SIGPROF, signal.SIGALRM)}
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    signal.setitimer(signal.ITIMER_REAL, 6 * SECONDS)
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, most))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        for kind, handler in handlers.items():
            signal.signal(kind, handler)
        resource.setrlimit(resource.RLIMIT_AS, (before, most))


def check_sentence(error: BaseException, number: int = 0) -> None:
    """Check that an error is what a user can read: one line that ends as sentences do."""
    assert "\n" not in str(error), f"try {number}: {error!r}"
    assert str(error).endswith("."), f"try {number}: {error!r}"
