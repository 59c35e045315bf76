# SPDX-License-Identifier: Apache-2.0
"""tools/generate_docs: the sections that it writes, and that the pages are up to date."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import generate_docs
import pytest

ROOT = Path(__file__).resolve().parents[2]

DTYPE_DOC = "what tensors are stored in"


def axis(name: str, kind: str, values: list[str], default: str | None, doc: str = "", role: str = "") -> dict[str, Any]:
    return {"name": name, "doc": doc, "kind": kind, "values": values, "default": default, "role": role}


def implementation(name: str, doc: str, cuda: str, **more: Any) -> dict[str, Any]:
    known = {"name": name, "doc": doc, "devices": ["cpu", "cuda"], "dtypes": [], "limits": ""}
    return {**known, "proof": {"cpu": "checked", "cuda": cuda}, **more}


EAGER = implementation("eager", "LibTorch's", "checked")
NATIVE = implementation("native", "our own", "unverified", dtypes=["bf16"], limits="no fp32 kernel")


def family(name: str, more: str = "") -> dict[str, Any]:
    return {
        "name": name,
        "doc": f"y = {name}(x)",
        "cache_default": "cold",
        "axes": [
            axis("impl", "choice", ["eager", "native"], "eager", role="impl"),
            axis("dtype", "choice", ["fp32", "bf16"], None, DTYPE_DOC + more),
            axis("n", "number", ["16", "32"], "32", f"rows of {name}", role="size"),
        ],
        "implementations": [EAGER, NATIVE],
        "growth": [{"axis": "n", "exponent": 1.5}],
    }


COUNTER_FIELDS = ("name", "unit", "better", "threshold", "noisy", "meaning", "absent")
COUNTERS = (
    ("<phase>_ms", "ms", "lower", 0.01, True, "median of <phase> | its own", "no phases"),
    ("peak_mem", "B", "lower", 0.005, False, "peak bytes", ""),
    ("samples", "count", "neither", 0.0, True, "how many", None),
)
CONTRACT: dict[str, Any] = {
    "families": [family("gelu"), family("silu", "; not of weights"), family("relu")],
    "counters": [dict(zip(COUNTER_FIELDS, counter, strict=True)) for counter in COUNTERS],
}


def test_a_counter_is_a_row() -> None:
    assert generate_docs.counters_table(CONTRACT)[2:] == [
        "| `<phase>_ms` | ms | lower | 1 % | median of &lt;phase> \\| its own | no phases |",
        "| `peak_mem` | B | lower | 0.5 %, exact | peak bytes | |",
        "| `samples` | count | neither | | how many | |",
    ]


def test_a_family_is_a_section_with_its_additions() -> None:
    lines = generate_docs.families_lists(CONTRACT)
    assert "- `dtype`: what tensors are stored in" in lines
    assert lines[lines.index("## silu") :][:9] == [
        "## silu",
        "",
        "y = silu(x)",
        "",
        "- `impl`; default `eager`",
        "  - `eager`: LibTorch's",
        "  - `native`: our own (in `bf16`; unverified on GPUs; no fp32 kernel)",
        "- `dtype`: `fp32`, `bf16` (not of weights)",
        "- `n`: a whole number, registered `16`, `32`; default `32` (rows of silu)",
    ]
    assert "- time is expected to grow as n^1.5" in lines


def test_the_only_device_of_an_implementation_is_named() -> None:
    assert generate_docs.implementation_item(EAGER | {"devices": ["cuda"]}) == "  - `eager`: LibTorch's (on GPUs alone)"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for section, page, _ in generate_docs.SECTIONS:
        path = tmp_path / page
        path.parent.mkdir(exist_ok=True)
        path.write_text(
            f"before\n\n<!-- generated: {section} -->\nold\n<!-- end of generated: {section} -->\n\nafter\n"
        )
    (tmp_path / "contract.json").write_text(json.dumps(CONTRACT))
    return tmp_path


def generate(root: Path, *flags: str | Path) -> subprocess.CompletedProcess[str]:
    command = [ROOT / "tools" / "generate_docs", f"--root={root}", *flags]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_stale_pages_are_reported_and_then_written(root: Path) -> None:
    given = f"--contract={root / 'contract.json'}"
    stale = generate(root, given, "--check")
    assert stale.returncode == 1
    assert "docs/counters.md: stale; tools/generate_docs updates it" in stale.stdout
    assert "old" in (root / "docs/counters.md").read_text()
    assert generate(root, given).returncode == 0
    text = (root / "docs/counters.md").read_text()
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "peak_mem" in text
    assert "old" not in text
    again = generate(root, given, "--check")
    assert (again.returncode, again.stdout) == (0, "")


def test_unreadable_sources_are_errors(root: Path) -> None:
    missing = generate(root, f"--program={root / 'nothing'}")
    assert missing.returncode == 2
    assert "tools/setup" in missing.stderr
    (root / "docs/families.md").write_text("no markers\n")
    unmarked = generate(root, f"--contract={root / 'contract.json'}")
    assert unmarked.returncode == 2
    assert "generated: families" in unmarked.stderr


@pytest.mark.usefixtures("program")
def test_the_pages_are_up_to_date() -> None:
    done = subprocess.run([ROOT / "tools/generate_docs", "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"run tools/generate_docs\n{done.stdout}{done.stderr}"
