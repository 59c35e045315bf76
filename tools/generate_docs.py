# SPDX-License-Identifier: Apache-2.0
"""Writes the generated sections of docs/: the table of counters, the families with their axes, and the atlas.

Replaces the text between `<!-- generated: NAME -->` and `<!-- end of generated: NAME -->`. The source is the output of
`roofbench --describe=json` (docs/contract.md), and for the atlas its records, results/atlas/.

Exit status: 0 success, 1 a page is stale (--check), 2 the program or a description is missing.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from roofreport.render import atlas

ROOT = Path(__file__).resolve().parents[1]
PROGRAM = ROOT / "build" / "release" / "bin" / "roofbench"
WIDTH = 118
Json = dict[str, Any]
DEVICES = {"cpu": "processors", "cuda": "GPUs"}


class DescriptionError(Exception):
    """The description or a page cannot be used."""


def described(program: Path) -> Json:
    try:
        done = subprocess.run([program, "--describe=json"], capture_output=True, text=True, check=False)
    except OSError as error:
        raise DescriptionError(f"cannot run {program}: {error.strerror}; tools/setup builds it") from error
    if done.returncode:
        raise DescriptionError(f"{program} --describe=json failed: {done.stderr.strip()}")
    contract: Json = json.loads(done.stdout)
    return contract


def item(text: str, level: int = 0) -> str:
    """A wrapped list item."""
    indent = "  " * level
    return textwrap.fill(
        text,
        WIDTH,
        initial_indent=f"{indent}- ",
        subsequent_indent=f"{indent}  ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def coded(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def prose(text: str) -> str:
    """A text as Markdown, which would read <phase> as a tag."""
    return text.replace("<", "&lt;")


def cell(text: str) -> str:
    return prose(text).replace("|", "\\|")


def counters_table(contract: Json) -> list[str]:
    lines = ["| counter | unit | better | matters from | meaning | absent |", "| --- | --- | --- | --- | --- | --- |"]
    for counter in contract["counters"]:
        matters = f"{100 * counter['threshold']:g} %" if counter["threshold"] else "any change"
        threshold = "" if counter["better"] == "neither" else matters
        follows = "" if counter["noisy"] or not threshold else ", exact"
        texts = (counter["unit"], counter["better"], threshold + follows, counter["meaning"], counter["absent"])
        row = " | ".join(["", f"`{counter['name']}`", *(cell(text or "") for text in texts), ""]).strip()
        lines.append(re.sub(r" +\|", " |", row))
    return lines


def shared_docs(contract: Json) -> dict[str, str]:
    """The common beginning of an axis' description in all its families, if there are three or more."""
    docs: dict[str, list[str]] = {}
    for family in contract["families"]:
        for axis in family["axes"]:
            docs.setdefault(axis["name"], []).append(axis["doc"])
    shared = {}
    for name, texts in docs.items():
        first = min(texts, key=len)
        if first and len(texts) >= 3 and all(text == first or text.startswith(f"{first}; ") for text in texts):
            shared[name] = first
    return shared


def axis_item(axis: Json, shared: dict[str, str]) -> str:
    values = coded(axis["values"])
    if axis["kind"] == "choices":
        values = f"any of {values}, joined by `+`"
    elif axis["kind"] != "choice":
        kind = "a whole number" if axis["kind"] == "number" else "any number from 0"
        values = f"{kind}, registered {values}" if values else kind
    default = "" if axis["default"] is None else f"; default `{axis['default']}`"
    common = shared.get(axis["name"], "")
    doc = axis["doc"] if not common else axis["doc"][len(common) :].removeprefix("; ")
    remark = f" ({prose(doc)})" if doc else ""
    return item(f"`{axis['name']}`: {values}{default}{remark}")


def implementation_item(one: Json) -> str:
    remarks = []
    if len(one["devices"]) == 1:
        remarks.append(f"on {DEVICES[one['devices'][0]]} alone")
    if one["dtypes"]:
        remarks.append(f"in {coded(one['dtypes'])}")
    remarks += [
        f"{proof} on {DEVICES[device]}" for device, proof in one["proof"].items() if proof in ("unverified", "emulated")
    ]
    remarks += [one["limits"]] if one["limits"] else []
    doc = f": {prose(one['doc'])}" if one["doc"] else ""
    remark = f" ({prose('; '.join(remarks))})" if remarks else ""
    return item(f"`{one['name']}`{doc}{remark}", level=1)


def families_lists(contract: Json) -> list[str]:
    shared = shared_docs(contract)
    lines = ["These axes mean the same in every family that has them, which says only what it adds:", ""]
    lines += [item(f"`{name}`: {prose(doc)}") for name, doc in shared.items()]
    if not shared:
        lines = []
    for family in contract["families"]:
        lines += ["", f"## {family['name']}", "", *textwrap.wrap(prose(family["doc"]), WIDTH), ""]
        for axis in family["axes"]:
            if axis["role"] != "impl":
                lines.append(axis_item(axis, shared))
                continue
            lines.append(item(f"`{axis['name']}`" + (f"; default `{axis['default']}`" if axis["default"] else "")))
            lines += [implementation_item(one) for one in family["implementations"]]
        growth = [f"{rule['axis']}^{rule['exponent']:g}" for rule in family["growth"]]
        if growth:
            lines.append(item(f"time is expected to grow as {', '.join(growth)}"))
    return lines


# Section, page and generator.
SECTIONS: tuple[tuple[str, str, Callable[[Json], list[str]]], ...] = (
    ("counters", "docs/counters.md", counters_table),
    ("families", "docs/families.md", families_lists),
    ("atlas", "docs/machine.md", lambda _: atlas.lines(ROOT / "results" / "atlas")),
)


def replaced(page: str, section: str, lines: list[str]) -> str:
    begin, end = f"<!-- generated: {section} -->", f"<!-- end of generated: {section} -->"
    before, found, rest = page.partition(begin)
    _, found_end, after = rest.partition(end)
    if not (found and found_end):
        raise DescriptionError(f"the page has no {begin} … {end}")
    body = "\n".join(lines).strip("\n")
    return f"{before}{begin}\n\n{body}\n\n{end}{after}"


def stale(contract: Json, root: Path, write: bool) -> list[str]:
    """The pages that differ from the program's description. `write` updates them."""
    pages = []
    for section, name, lines_of in SECTIONS:
        path = root / name
        old = path.read_text(encoding="utf-8")
        new = replaced(old, section, lines_of(contract))
        if new != old:
            pages.append(name)
            if write:
                path.write_text(new, encoding="utf-8")
    return pages


def main() -> int:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="tools/generate_docs", description=__doc__, formatter_class=raw)
    parser.add_argument("--check", action="store_true", help="write nothing, report stale pages")
    parser.add_argument("--program", type=Path, default=PROGRAM, help="the program to describe")
    parser.add_argument("--contract", type=Path, metavar="FILE", help="a description instead of the program")
    parser.add_argument("--root", type=Path, default=ROOT, help="the folder that contains docs/")
    arguments = parser.parse_args()
    try:
        contract = json.loads(arguments.contract.read_text()) if arguments.contract else described(arguments.program)
        pages = stale(contract, arguments.root, write=not arguments.check)
    except (DescriptionError, OSError, json.JSONDecodeError) as error:
        print(f"tools/generate_docs: {error}", file=sys.stderr)
        return 2
    for page in pages:
        print(f"{page}: stale; tools/generate_docs updates it" if arguments.check else f"{page}: written")
    return int(arguments.check and bool(pages))


if __name__ == "__main__":
    sys.exit(main())
