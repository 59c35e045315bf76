# SPDX-License-Identifier: Apache-2.0
"""Runs shellcheck over the run: blocks of workflows.

python tools/isolated.py checks.workflow_scripts <workflow>…
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from ruamel.yaml import YAML


def scripts(workflow: Path) -> Iterator[tuple[str, str]]:
    """Name and text of each script. Expressions become an opaque word; zizmor checks their safety."""
    jobs = YAML(typ="safe").load(workflow)["jobs"]
    for name, job in jobs.items():
        for number, step in enumerate(job.get("steps", []), start=1):
            if "run" in step:
                yield f"{workflow}: {name}, step {number}", re.sub(r"\$\{\{.*?\}\}", "expression", step["run"])


def main(workflows: list[str]) -> int:
    status = 0
    for workflow in workflows:
        for name, script in scripts(Path(workflow)):
            done = subprocess.run(["shellcheck", "--shell=bash", "-"], input=script, text=True, check=False)
            if done.returncode:
                print(name)
                status = 1
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
