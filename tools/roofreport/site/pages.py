# SPDX-License-Identifier: Apache-2.0
"""The pages out of their templates. Whatever goes into one is text, unless it is marked as markup of our own."""

from __future__ import annotations

import math
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from roofreport.render import markup
from roofreport.site import chart_library

_HERE = Path(__file__).parent
_BASE = ("data.js", "units.js", "dom.js", "link.js", "table.js")
_CHARTS = (*chart_library.SCRIPTS, *_BASE, "charts.js")
# The scripts of each page, in the order in which they run.
PAGES = {
    "index": (*_BASE, "overview.js"),
    "case": (*_CHARTS, "history_chart.js", "night.js", "case.js"),
    "compare": (*_BASE, "compare.js"),
    "roofline": (*_CHARTS, "roofline.js"),
}
# Nothing comes from another host, and no script or address that a name smuggles in runs. Bokeh styles its elements.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'"
)


def _html(value: markup.Markup) -> Markup:
    """What markup.py has checked already."""
    return Markup(value.html)


def _sortable(value: float) -> str:
    """What a script sorts by; empty where there is no figure."""
    return f"{value:.9g}" if math.isfinite(value) else ""


def environment() -> Environment:
    made = Environment(
        loader=PackageLoader("roofreport.site"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["html"] = _html
    made.filters["sortable"] = _sortable
    return made


def write(folder: Path, facts: Mapping[str, Any]) -> None:
    made = environment()
    for name, scripts in PAGES.items():
        page = made.get_template(f"{name}.html").render(page=name, scripts=scripts, policy=_POLICY, **facts)
        (folder / f"{name}.html").write_text(page, encoding="utf-8", errors="backslashreplace")
    shutil.copytree(_HERE / "assets", folder / "assets", dirs_exist_ok=True)
