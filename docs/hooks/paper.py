"""Fill the page on the paper's figures when the site is built: the largest pictures there are, and tables of their numbers.

`paper.md` shows the quick pictures of `docs/gallery`; where one of paper size lies beside it, that one is shown instead. A
comment `<!-- half: ID [by COLUMNS] across COLUMN -->` becomes a table of the loads at which half of the instances are solved
(by `runs`: half of the runs are what the row says),
`<!-- histogram: ID -->` one of how far a histogram is off theory; both from the CSV of the size that is shown.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "gallery"
SIZES = ("paper", "quick")
_PICTURE = re.compile(r"!\[([^\]]+)\]\(gallery/([\w-]+)-quick\.png\)")
_HALF = re.compile(r"<!-- half: ([\w-]+)(?: by ([\w ]+))? across (\w+) -->")
_HISTOGRAM = re.compile(r"<!-- histogram: ([\w-]+) -->")
NAMES = {"n": "N", "sweeps": "sweeps", "n_sweeps": "sweeps", "preprocess": "pixels", "sampler": "annealing",
         "runs": "runs in which"}  # fmt: skip
METHODS = {"tau": "τ", "hinge": "T on −s", "errors": "T on errors", "temperature": "T on −s"}
Row = dict[str, str]


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Fill the page."""
    return filled(markdown) if page.file.src_uri == "paper.md" else markdown


def filled(markdown: str) -> str:
    """Return the page with pictures and tables of the largest size there is."""
    text = _PICTURE.sub(lambda found: _picture(found[1], found[2]), markdown)
    text = _HALF.sub(lambda found: half_table(numbers(found[1]), (found[2] or "").split(), found[3]), text)
    return _HISTOGRAM.sub(lambda found: histogram_table(numbers(found[1])), text)


def largest(name: str) -> str:
    """Return the largest size of which there is a picture of a figure."""
    return next(size for size in SIZES if (FOLDER / f"{name}-{size}.png").exists())


def numbers(name: str) -> list[Row]:
    """Return the rows of the table behind the picture that is shown."""
    with open(FOLDER / f"{name}-{largest(name)}.csv", encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _picture(title: str, name: str) -> str:
    size = largest(name)
    file = f"gallery/{name}-{size}"
    return (
        f"[![{title}]({file}.png){{ loading=lazy }}]({file}.png)\n\n"
        f"`solspace reproduce {name} --size {size}` · [the numbers]({file}.csv) (CSV)"
    )


def half_table(rows: Sequence[Row], by: Sequence[str], across: str) -> str:
    """Return a table of the loads at which half of the instances are solved, with the interval of their errors."""
    columns = list(dict.fromkeys(row[across] for row in rows))
    curves: dict[tuple[str, ...], dict[str, list[Row]]] = {}
    for row in rows:
        curves.setdefault(tuple(row[key] for key in by), {}).setdefault(row[across], []).append(row)
    head = [NAMES.get(key, key) for key in by]
    head += [METHODS.get(value, f"{NAMES.get(across, across)} = {value}") for value in columns]
    body = [[METHODS.get(value, value) for value in key] + [_half(curve.get(value, [])) for value in columns]
            for key, curve in curves.items()]  # fmt: skip
    heading = "Half of the runs at the load α =" if "runs" in by else "Half solved at the load α ="
    return "\n".join([heading, "", *_table(head, body)])


def _half(curve: Iterable[Row]) -> str:
    points = sorted((float(row["alpha"]), *(float(row[key]) for key in ("mean", "low", "high"))) for row in curve)
    if not points:
        return ""
    value, low, high = (crossing([(point[0], point[k]) for point in points]) for k in (1, 2, 3))
    if not math.isfinite(value):
        return f"above {points[-1][0]:g}" if value > 0 else f"below {points[0][0]:g}"
    return f"{value:.3f}" + (f" ({low:.3f}–{high:.3f})" if math.isfinite(low) and math.isfinite(high) else "")


def crossing(points: Sequence[tuple[float, float]]) -> float:
    """Return where a falling curve passes 1/2 for the last time: inf where it stays above, -inf where it begins below.

    >>> crossing([(0.1, 1.0), (0.2, 0.75), (0.3, 0.25)])
    0.25
    >>> crossing([(0.1, 1.0), (0.2, 0.75)])
    inf
    """
    found = math.inf if points[0][1] >= 0.5 else -math.inf
    for (a, above), (b, below) in pairwise(points):
        if above >= 0.5 > below:
            found = a + (above - 0.5) / (above - below) * (b - a)
    return round(found, 9)


def histogram_table(rows: Sequence[Row]) -> str:
    """Return a table of the distance between histogram and theory, and of the distance that independent draws have."""
    body = []
    for alpha in dict.fromkeys(row["alpha"] for row in rows):
        bars = [
            (int(row["count"]), float(row["density"]), float(row["theory"])) for row in rows if row["alpha"] == alpha
        ]
        total = sum(count for count, _, _ in bars)
        width = next(count / total / density for count, density, _ in bars if count)
        off = sum(abs(density - theory) for _, density, theory in bars) * width / 2
        noise = sum(math.sqrt(theory * width / total) for *_, theory in bars) / math.sqrt(2 * math.pi)
        body.append([f"{float(alpha):g}", f"{total:,}", f"{off:.4f}", f"{noise:.4f}"])
    return "\n".join(
        _table(["α", "stabilities", "histogram off theory by (total variation)", "independent draws"], body)
    )


def _table(head: Sequence[str], body: Iterable[Sequence[str]]) -> list[str]:
    return ["| " + " | ".join(cells) + " |" for cells in (head, ["---"] * len(head), *body)]
