# SPDX-License-Identifier: Apache-2.0
"""The packaged contract: it matches the program's current output, and families outside the contract work."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import builders
import pytest
from reports import Report
from roofreport.io import contract
from roofreport.io.contract import Better
from roofreport.io.load import load
from roofreport.io.schemas import violation

_PROGRAM = builders.ROOT / "build/release/bin/roofbench"


@pytest.fixture(scope="module")
def described() -> dict[str, Any]:
    """The program's description of itself."""
    if not _PROGRAM.exists():
        pytest.skip(f"{_PROGRAM.name} is not built (build/release)")
    done = subprocess.run([_PROGRAM, "--describe=json"], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip("the program does not know --describe")
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def test_the_program_keeps_the_schema(described: dict[str, Any]) -> None:
    assert violation(described, "contract") is None


def test_the_packaged_contract_is_the_programs(described: dict[str, Any]) -> None:
    assert contract.PACKAGED.read_text(encoding="utf-8") == contract.reduced_text(described)


def test_the_packaged_contract_is_in_its_form_and_keeps_the_schema() -> None:
    text = contract.PACKAGED.read_text(encoding="utf-8")
    assert contract.reduced_text(json.loads(text)) == text
    assert violation(json.loads(text), "contract") is None


def test_the_most_special_pattern_names_a_counter() -> None:
    names = ("<phase>_ms", "mean_ms", "<part>_mem", "predicted_<part>_mem", "<ref>_flop_util", "flop_util")
    rows = [{"name": name, "unit": "B", "better": "lower", "threshold": 0.1, "noisy": True} for name in names]
    described = contract.parse(builders.contract(counters=rows))
    for name, row in (
        ("a100_80gb_flop_util", "<ref>_flop_util"),
        ("forward_ms", "<phase>_ms"),
        ("mean_ms", "mean_ms"),
        ("flop_util", "flop_util"),
        ("activation_mem", "<part>_mem"),
        ("predicted_activation_mem", "predicted_<part>_mem"),
        ("_ms", None),
        ("nonsense", None),
        ("time", "time"),
    ):
        found = described.metric(name)
        assert (found and found.name) == row


@pytest.mark.parametrize(
    ("pattern", "name", "fits"),
    [
        ("<ref>_flop_util", "a100_flop_util", True),
        ("<ref>_flop_util", "_flop_util", False),
        ("<phase>_mean_ms", "forward_mean_ms_", False),
        ("a<b>c<d>e", "a-c-e", True),
        ("a<b>c<d>e", "acce", False),
        ("a<b>c<d>e", "acccee", True),
        ("<a><b>", "x", False),
        ("<a><b>", "xy", True),
        ("ab<c>ba", "aba", False),
        ("<a>x" * 60 + "y", "x" * 300, False),  # a regular expression would not finish
    ],
)
def test_names_with_parts(pattern: str, name: str, fits: bool) -> None:
    assert contract._pattern(pattern).matches(name) is fits


def test_every_metric_with_a_direction_has_its_sign_and_a_threshold() -> None:
    for row in contract.packaged().counters:
        assert row.practical >= 0
        if row.better is not Better.NEITHER:
            assert row.worse(row.sign), row.name
            assert row.practical > 0 or not row.noisy, row.name


def _foreign() -> dict[str, Any]:
    """A contract of a third-party program: its own family, words and counter."""
    counter = {"name": "frobs/s", "unit": "frobs/s", "better": "higher", "threshold": 0.05, "noisy": False}
    return builders.contract(
        builders.family(
            "frobnicate",
            builders.axis("via", default="plain", role="impl"),
            builders.axis("width"),
            growth={"width": 2.0},
        ),
        counters=[{**counter, "meaning": "frobs over the median", "absent": ""}],
    )


def _frobs(factor: float = 1.0) -> list[dict[str, Any]]:
    return [
        builders.row(f"frobnicate{via}/width:{width}", speed * width**2 * factor) | {"frobs/s": 1e6 / (width * factor)}
        for width in (8, 16, 32, 64)
        for via, speed in (("", 2.0), ("/via:fast", 1.0))
    ]


@pytest.fixture(params=["json", "journal"])
def foreign(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / "foreign"
    if request.param == "json":
        return builders.write_json(path, _frobs(), contract=json.dumps(_foreign()))
    lines = [
        builders.line(
            row["run_name"].removesuffix("/manual_time"), row["real_time"], counters={"frobs/s": row["frobs/s"]}
        )
        for row in _frobs()
    ]
    path.write_text(builders.journal_text(builders.header() | {"contract": _foreign()}, *lines))
    return path


def test_a_foreign_family_is_tabled(foreign: Path, report: Report) -> None:
    rows = report.rows("table", foreign, "--columns=case,median,frobs/s")
    assert len(rows) == 8
    assert float(rows[0]["frobs/s"]) == pytest.approx(1e6 / 8)


def test_a_foreign_family_is_compared(foreign: Path, tmp_path: Path, report: Report) -> None:
    for factor, verdict, status in ((1.02, "8 SAME", 0), (1.2, "8 SLOWER", 1), (0.8, "8 FASTER", 0)):
        new = builders.write_json(tmp_path / "new.json", _frobs(factor), contract=json.dumps(_foreign()))
        assert verdict in report("compare", foreign, new, "--metric=frobs/s", status=status)
    assert "there are time, frobs/s" in report.refused("compare", foreign, new, "--metric=roof")


def test_a_foreign_family_is_fitted_and_summarized(foreign: Path, report: Report) -> None:
    assert "frobnicate/via:fast: width^2.00 (2.00 to 2.00), expected width^2" in report("scaling", foreign)
    out = report("summary", foreign)
    assert "Growth of time" in out
    (fastest,) = [line for line in out.splitlines() if "frobnicate/width:8 " in line]
    assert "fast" in fastest and "2.00x plain" in fastest


@pytest.mark.parametrize(
    ("damaged", "word"),
    [
        ("{", "contract is damaged"),
        ('{"schema": "roofbench-contract-9"}', "roofbench-contract-9"),
        ('{"schema": "roofbench-contract-1", "version": "x"}', "does not fit the schema"),
        ("[]", "schema"),
    ],
)
def test_a_damaged_contract_is_refused(damaged: str, word: str, tmp_path: Path, report: Report) -> None:
    path = builders.write_json(tmp_path / "a.json", contract=damaged)
    assert word in report.refused("table", path)


def test_a_contract_in_a_file_is_used(foreign: Path) -> None:
    result = load(foreign)
    assert list(result.contract.families) == ["frobnicate"]
    assert [row.name for row in result.contract.counters] == ["frobs/s"]
    assert not result.notes
    assert "contract" not in result.context
