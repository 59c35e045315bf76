# SPDX-License-Identifier: Apache-2.0
"""The contract that a result file brings along."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from roofreport.io import strict_json
from roofreport.io.contract import SCHEMA, Contract, packaged, parse
from roofreport.io.schemas import violation
from roofreport.io.source import refuse

KEY = "contract"


def unpacked(path: Path, text: str | None) -> Any:
    """Of the text in which Google Benchmark's context holds it."""
    if text is None:
        return None
    try:
        return strict_json.parse(text)
    except strict_json.StrictJsonError as error:
        raise refuse(path, f"its contract is damaged: {error}") from error


def read(path: Path, document: Any) -> Contract:
    """packaged() itself where the file has none."""
    if document is None:
        return packaged()
    schema = document.get("schema") if isinstance(document, dict) else None
    if schema != SCHEMA:
        raise refuse(path, f"its contract has the schema {str(schema)[:60]!r}; this program reads {SCHEMA!r}")
    wrong = violation(document, "contract")
    if wrong:
        raise refuse(path, f"its contract does not fit the schema: {wrong}")
    return parse(document)
