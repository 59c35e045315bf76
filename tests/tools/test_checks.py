# SPDX-License-Identifier: Apache-2.0
"""Requirements on the workflows that no linter checks."""

from __future__ import annotations

from pathlib import Path

import pytest
from nightly_runs.config import read
from ruamel.yaml import YAML

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.y*ml"))


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_are_read_only_limited_and_without_scripts(workflow: Path) -> None:
    """zizmor checks that actions are pinned, and shellcheck the files in .ci."""
    content = YAML(typ="safe").load(workflow.read_text())
    assert content["permissions"] == {"contents": "read"}
    for name, job in content["jobs"].items():
        assert "permissions" not in job, name
        assert "timeout-minutes" in job, name
        for run in (step["run"] for step in job["steps"] if "run" in step):
            assert "\n" not in run.strip() and "${{" not in run, "move it to a script in .ci"


def test_the_gate_waits_for_every_job() -> None:
    jobs = YAML(typ="safe").load(ROOT / ".github" / "workflows" / "ci.yml")["jobs"]
    assert set(jobs["gate"]["needs"]) == set(jobs) - {"gate"}
    assert jobs["gate"]["if"] == "always()"


def test_nightly_runs_only_the_default_branch() -> None:
    content = YAML(typ="safe").load(WORKFLOWS[0].with_name("nightly.yml").read_text())
    assert set(content["on"]) == {"schedule", "workflow_dispatch"}
    assert content["on"]["workflow_dispatch"] is None, "it takes no input"


@pytest.mark.parametrize("machine", ["cpu", "gpu"])
def test_nightly_has_its_configuration(machine: str) -> None:
    assert read(ROOT / f".github/nightly/{machine}.toml").suite_flags
