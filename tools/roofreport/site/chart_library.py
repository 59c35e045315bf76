# SPDX-License-Identifier: Apache-2.0
"""Bokeh's scripts, out of its installed package."""

from __future__ import annotations

import shutil
from importlib.util import find_spec
from pathlib import Path

from roofreport.errors import UnusableInputError

SCRIPTS = ("bokeh.min.js", "bokeh-api.min.js")


def _folder() -> Path:
    """Without importing the package, which takes a second."""
    spec = find_spec("bokeh")
    places = list(spec.submodule_search_locations or ()) if spec else []
    for place in places:
        scripts = Path(place) / "server" / "static" / "js"
        if all((scripts / name).is_file() for name in SCRIPTS):
            return scripts
    raise UnusableInputError("the charts need Bokeh: python -m pip install -r tools/requirements-history.txt")


def copy(to: Path) -> None:
    """With its licence, which each of the scripts begins with. Raises UnusableInputError, OSError."""
    folder = _folder()
    to.mkdir(parents=True, exist_ok=True)
    for name in SCRIPTS:
        shutil.copyfile(folder / name, to / name)
