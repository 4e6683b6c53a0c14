"""An option that cannot apply is refused in one sentence: every option of every verb, beside every setting of that kind.

`ANYWHERE` and `REFUSED` name every option of every verb; an option that is added must be put into one of them.
"""

from __future__ import annotations

import numpy as np
import pytest
from terminal import commands, invoke

RANDOM, OWN, IMAGES, FILE = [], ["--patterns", "X.npy"], ["--data", "digits"], ["--data", "table.csv", "--label", "y"]
TAU, SA, EXACT = (["--sampler", name] for name in ("tau", "sa", "exact"))
UNIFORM, BAND = ["--potential", "uniform"], ["--potential", "band(1.5)"]
MARGINS = ["--margins=-1:0:3"]
WIDTHS = ["--potential", "log_band", "--widths=0.5:1:3"]
COUNT = ["--count"]
STATUS, EXPORT, DRY = ["--status"], ["--export", "rows.csv"], ["--dry-run"]
SERIAL = ["--executor", "serial"]
CLUSTER = ["--executor", "dask", "--scheduler", "tcp://127.0.0.1:1"]

ANYWHERE = {
    "sample": "--sampler --samples --seed --alpha --ensemble --patterns --prior --margin --out --json",
    "solve": "--seed --alpha --patterns --count --potential --margin --out --json",
    "count": "--method --confidence --time-limit --seed --alpha --patterns --prior --potential --margin --out --json",
    "fit": "TABLE --label --index --levels --single --folds --balanced --seed --out --json",
    "classify": "MODEL TABLE --label --index --out --json",
    "predict": "--alpha --prior --potential --margin --times --no-thresholds --out --json --ensemble",
    "phase": "--prior --potential --margins --out --json",
    "reproduce": "--list --json",
    "sweep": "SPEC.toml --store --dry-run --json",
    "data": "",
    "data prepare": "NAMES --folder --split --json",
    "doctor": "--json",
    "explore": "--port --browser --host",
    "bench": "[PART]... --quick --out --json",
}
"""Options that apply beside any other, or whose refusals are in `REFUSED` below."""

REFUSED = {
    ("sample", "--accuracy fast"): [TAU, SA, EXACT],
    ("sample", "--denoiser amp"): [TAU, SA, EXACT],
    ("sample", "--damping 0.3"): [TAU, SA, EXACT, ["--denoiser", "ep"]],
    ("sample", "--prior spherical"): [EXACT],
    ("sample", "--precision float64"): [TAU, SA, EXACT],
    ("sample", "--sweeps 10"): [[], EXACT],
    ("sample", "--extra 10"): [[], EXACT],
    ("sample", "--exchange"): [[], SA, EXACT, TAU],
    ("sample", "--resume"): [EXACT],
    ("sample", "--device gpu"): [EXACT],
    ("sample", "--data digits"): [OWN],
    ("sample", "--data table.csv"): [OWN],
    ("sample", "--label y"): [RANDOM, OWN, IMAGES, ["--data", "table.csv", "--labels", "y.npy"]],
    ("sample", "--index a"): [RANDOM, OWN, IMAGES, ["--data", "both.npz"]],
    ("sample", "--scale norm"): [RANDOM, IMAGES, [*OWN, "--preprocess", "raw"], [*FILE, "--preprocess", "centred"]],
    ("sample", "--labels y.npy"): [RANDOM, IMAGES],
    ("sample", "--classes 3,8"): [RANDOM, OWN],
    ("sample", "--features 9"): [RANDOM],
    ("sample", "--preprocess raw"): [RANDOM],
    ("sample", "--n 11"): [OWN, IMAGES, FILE],
    ("sample", "--ensemble gaussian"): [OWN, IMAGES, FILE],
    ("sample", "--intercept 2"): [RANDOM, IMAGES, [*FILE, *EXACT]],
    ("sample", "--potential hinge"): [TAU],
    ("sample", "--potential tau(0.2)"): [TAU, SA],
    ("sample", "--potential log"): [SA],
    ("sample", "--temperature 0.7"): [SA, UNIFORM, BAND],
    ("sample", "--sampler solve"): [[]],
    ("solve", "--solutions 2"): [COUNT],
    ("solve", "--method tau"): [COUNT],
    ("solve", "--time-limit 5"): [COUNT],
    ("solve", "--device gpu"): [["--method", "exact"]],
    ("solve", "--data digits"): [OWN],
    ("solve", "--data table.csv"): [OWN],
    ("solve", "--label y"): [RANDOM, OWN, IMAGES, ["--data", "table.csv", "--labels", "y.npy"]],
    ("solve", "--index a"): [RANDOM, OWN, IMAGES, ["--data", "both.npz"]],
    ("solve", "--scale norm"): [RANDOM, IMAGES, [*OWN, "--preprocess", "raw"], [*FILE, "--preprocess", "centred"]],
    ("solve", "--labels y.npy"): [RANDOM, IMAGES],
    ("solve", "--classes 3,8"): [RANDOM, OWN],
    ("solve", "--features 9"): [RANDOM],
    ("solve", "--preprocess raw"): [RANDOM],
    ("solve", "--n 11"): [OWN, IMAGES, FILE],
    ("solve", "--ensemble gaussian"): [OWN, IMAGES, FILE],
    ("solve", "--intercept 2"): [RANDOM, IMAGES, FILE],
    ("count", "--data digits"): [OWN],
    ("count", "--data table.csv"): [OWN],
    ("count", "--label y"): [RANDOM, OWN, IMAGES, ["--data", "table.csv", "--labels", "y.npy"]],
    ("count", "--index a"): [RANDOM, OWN, IMAGES, ["--data", "both.npz"]],
    ("count", "--scale norm"): [RANDOM, IMAGES, [*OWN, "--preprocess", "raw"], [*FILE, "--preprocess", "centred"]],
    ("count", "--labels y.npy"): [RANDOM, IMAGES],
    ("count", "--classes 3,8"): [RANDOM, OWN],
    ("count", "--features 9"): [RANDOM],
    ("count", "--preprocess raw"): [RANDOM],
    ("count", "--n 11"): [OWN, IMAGES, FILE],
    ("count", "--intercept 2"): [RANDOM, IMAGES],
    ("count", "--ensemble gaussian"): [OWN, IMAGES, FILE],
    ("count", "--temperature 0.7"): [[], BAND],
    ("predict", "--temperature 0.7"): [UNIFORM, BAND],
    ("phase", "--temperature 0.7"): [UNIFORM, BAND],
    ("phase", "--alphas 0.1:0.2:2"): [MARGINS, WIDTHS],
    ("phase", "--ensemble planted"): [MARGINS, WIDTHS],
    ("phase", "--times 0:1:2"): [MARGINS, WIDTHS],
    ("phase", "--margins 0:1:3"): [WIDTHS],
    ("phase", "--widths 0.5:1:3"): [[], UNIFORM],
    ("phase", "--margin 0.1"): [MARGINS],
    ("reproduce", "edge"): [["--list"]],
    ("reproduce", "--size paper"): [[], ["--list"]],
    ("reproduce", "--set margin=0.2"): [[], ["--list"], ["all"]],
    ("reproduce", "--dry-run"): [[], ["--list"]],
    ("reproduce", "--store f.db"): [[], ["--list"]],
    ("reproduce", "--out figures"): [[], ["--list"]],
    ("reproduce", "--retry"): [[], ["--list"]],
    ("reproduce", "--executor serial"): [[], ["--list"]],
    ("reproduce", "--scheduler tcp://127.0.0.1:1"): [[], ["--list"], ["mnist"], ["mnist", *SERIAL]],
    ("reproduce", "--workers 2"): [[], ["--list"], ["mnist", *SERIAL], ["mnist", *CLUSTER]],
    ("reproduce", "--device cpu"): [[], ["--list"], ["mnist", *DRY], ["edge"]],
    ("sweep", "--status"): [DRY, EXPORT],
    ("sweep", "--export rows.csv"): [DRY],
    ("sweep", "--verify"): [DRY, STATUS, EXPORT],
    ("sweep", "--executor serial"): [STATUS, EXPORT],
    ("sweep", "--scheduler tcp://127.0.0.1:1"): [[], SERIAL, STATUS, EXPORT],
    ("sweep", "--workers 2"): [SERIAL, CLUSTER, STATUS, EXPORT],
    ("sweep", "--retry"): [STATUS, EXPORT],
    ("sweep", "--device cpu"): [[], DRY],
    ("data", "--folder ."): [["prepare", "digits"]],
    ("data", "--json"): [["prepare", "digits"]],
}
"""(Verb, option and value) -> the settings beside which it cannot apply."""

FIRST = {"sweep": ["exact.toml"]}
"""What a verb cannot do without: here a sweep whose one sampler has no choice of device."""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    np.save(tmp_path / "X.npy", np.ones((3, 9)))
    np.save(tmp_path / "y.npy", np.ones(3))
    np.savez(tmp_path / "both.npz", X=np.ones((3, 9)), y=np.ones(3))
    (tmp_path / "table.csv").write_text("a,b,y\n1,2,0\n3,4,1\n")
    (tmp_path / "exact.toml").write_text('n = 7\nalpha = 0.3\nsampler = "exact"\n')
    monkeypatch.chdir(tmp_path)
    return tmp_path


def every_command():
    for name, command in commands().items():
        yield name, command
        for inside, other in getattr(command, "commands", {}).items():
            yield f"{name} {inside}", other


@pytest.mark.parametrize(
    ("name", "command"), list(every_command()), ids=lambda value: value if isinstance(value, str) else ""
)
def test_every_option_is_in_the_table(name, command):
    spelled = [p.opts[0] if p.opts[0].startswith("-") else p.metavar or p.name.upper() for p in command.params]
    refused = {option.split()[0] for verb, option in REFUSED if verb == name} | {"ID|all"}
    assert {one for one in spelled if one != "--help"} <= set(ANYWHERE[name].split()) | refused


CASES = [
    pytest.param(verb, option.split(" ", 1), setting, marks=[pytest.mark.exhaustive] if shared else [])
    for (verb, option), settings in REFUSED.items()
    for shared in [verb == "solve" and ("sample", option) in REFUSED]  # the same rules of problems
    for setting in settings
]


@pytest.mark.parametrize(
    ("verb", "option", "setting"), CASES, ids=lambda value: value if isinstance(value, str) else " ".join(value)
)
def test_an_option_that_cannot_apply_is_one_sentence(folder, verb, option, setting):
    order = [*option, *setting] if verb == "data" else [*setting, *option]
    done = invoke(verb, *FIRST.get(verb, []), *order)
    assert done.exit_code == 2, done.output
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("solspace: ")
    assert option[0].removeprefix("edge") in done.stderr
    assert not done.stdout
    assert sorted(path.name for path in folder.iterdir()) == ["X.npy", "both.npz", "exact.toml", "table.csv", "y.npy"]


def test_defaults_break_no_rule_and_written_defaults_do(folder):
    fine = invoke("sample", *EXACT, "--n", "11", "--samples", "2", "--device", "auto")
    assert fine.exit_code == 0, fine.stderr
    same = invoke("sample", *EXACT, "--n", "5", "--accuracy", "auto")
    assert same.exit_code == 2
