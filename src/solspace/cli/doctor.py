"""`solspace doctor`: versions, processor, device, caches, data sets and optional packages of this installation."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires, version

from solspace import __version__
from solspace.cli.options import AS_JSON, verb
from solspace.cli.output import Table, show
from solspace.system.plain import Values

EXTRAS = (
    "gpu",
    "gpu13",
    "cluster",
    "explorer",
    "arviz",
    "data",
    "pandas",
    "onnx",
)  # what users, not developers, install


@verb()
def doctor(as_json: bool = AS_JSON) -> None:
    """Show versions, cores, vector width, device, caches, data sets found and what optional packages are missing.

    For a look at a new machine, and to paste into a report of a defect.
    """
    report: Values = {
        "versions": {"solspace": __version__, "python": platform.python_version(), **dict(_versions())},
        "machine": {"system": platform.platform(), **_machine()},
        "folders": _folders(),
        "data": _data_sets(),
        "extras": dict(_extras()),
    }
    tables = [
        Table(title, [(str(name), _text(value)) for name, value in report[key].items()], ("", heading), justify="left")
        for key, title, heading in (
            ("versions", "Versions", "installed"), ("machine", "Machine", ""), ("folders", "Folders", ""),
            ("data", "Data sets", "where"), ("extras", "Optional packages", "missing"),
        )
    ]  # fmt: skip
    show(report, tables, as_json)


def _text(value: object) -> str:
    return ", ".join(map(str, value)) or "nothing" if isinstance(value, list) else str(value)


def _requirements() -> Iterator[tuple[str, str]]:
    """Yield the name of each requirement and the extra that it belongs to, "" for the core."""
    for line in requires("solspace") or ():
        extra = re.search(r"extra == ['\"]([^'\"]+)['\"]", line)
        name = re.match(r"[A-Za-z0-9._-]+", line)
        if name:
            yield name.group(), extra.group(1) if extra else ""


def _installed(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def _versions() -> Iterator[tuple[str, str]]:
    for name, extra in _requirements():
        if not extra:
            yield name, _installed(name) or "missing: install solspace again"


def _extras() -> Iterator[tuple[str, list[str]]]:
    """Yield the optional packages that each extra lacks."""
    wanted: dict[str, list[str]] = {}
    for name, extra in _requirements():
        wanted.setdefault(extra, []).append(name)
    for extra in EXTRAS:
        if extra in wanted:
            yield extra, [name for name in wanted[extra] if not _installed(name)]


def _machine() -> Values:
    from llvmlite import binding

    from solspace.samplers.device import missing

    features = binding.get_host_cpu_features()
    widths = {"avx512bw": 512, "avx2": 256, "sse2": 128, "neon": 128}
    width = next((bits for name, bits in widths.items() if features.get(name)), None)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    absent = missing()
    return {
        "processor": binding.get_host_cpu_name(),
        "cores": cores,
        "vector width": f"{width} bits" if width else "unknown",
        "device": f"none: {absent}" if absent else _device(),
    }


def _device() -> str:
    import cupy

    found = cupy.cuda.runtime.getDeviceProperties(0)
    count = cupy.cuda.runtime.getDeviceCount()
    name = found["name"].decode()
    return f"{name}, {found['totalGlobalMem'] / 2**30:.0f} GiB" + (f" (one of {count})" if count > 1 else "")


def _folders() -> Values:
    from solspace.data import download_folder
    from solspace.numerics.kernels import mixtures

    cache = getattr(mixtures, "_cache", None)
    return {
        "compiled code": getattr(cache, "cache_path", "not kept: no folder can be written"),
        "data": str(download_folder()),
    }


def _data_sets() -> Values:
    from solspace import data

    found: Values = {}
    for one in data.CATALOGUE.values():
        sources = data.find(one.name, None, "train") if one.downloads else ["scikit-learn"]
        found[one.name] = str(sources[0]) if sources else f"not found; solspace data prepare {one.name} fetches it"
    return found
