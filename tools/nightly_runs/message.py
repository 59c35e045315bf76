# SPDX-License-Identifier: Apache-2.0
"""A message about a nightly run, sent to a webhook: in Slack's format, or as JSON for any program."""

from __future__ import annotations

import http.client
import json
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any
from urllib.parse import quote, urlsplit

from roofreport.text import printable
from roofreport.units import counted

SCHEMA = "roofbench-night-1"
SCHEMES = ("http", "https")
TIMEOUT_S = 20.0  # of the whole exchange
_MOST_FINDINGS = 20
_LONGEST_ANSWER = 200
_SLACK = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}

Steps = Sequence[Mapping[str, str]]  # step, state, reason
Gate = Mapping[str, Any]  # the gate's JSON; empty: it did not judge


def page_of(site: str, series: object) -> str:
    """The page of a case; empty where it is unknown."""
    return f"{site.rstrip('/')}/case.html#series={quote(series, safe='')}" if site and isinstance(series, str) else ""


def _escaped(text: str) -> str:
    return "".join(_SLACK.get(character, character) for character in printable(text, 500))


def _finding(one: Mapping[str, Any]) -> str:
    case = _escaped(one["case"])
    link = f"<{_escaped(one['page'])}|{case}>" if one["page"] else case
    return f"• *{_escaped(one['kind'].upper())}* {link}: {_escaped(one['text'])}"


def as_json(started: datetime, steps: Steps, gate: Gate) -> dict[str, Any]:
    return {"schema": SCHEMA, "night": started.isoformat(), "steps": list(steps), "gate": gate or None}


def as_slack(started: datetime, steps: Steps, gate: Gate) -> dict[str, Any]:
    """https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks: other chat programs take it, too."""
    lines = [f"*roofbench*, nightly run of {started:%Y-%m-%d %H:%M} UTC"]
    worth_saying = [one for one in steps if one["state"] != "ok"]
    lines += [_escaped(f"{one['step']}: *{one['state']}* {one['reason']}".rstrip()) for one in worth_saying]
    for night in gate.get("nights", ()):
        found, commit = night["found"], night["revision"][:12] or "unknown"
        lines.append(_escaped(f"{night['machine']}, commit {commit}, {counted(night['cases'], 'case')}"))
        lines += [_escaped(f"note: {note}") for note in night["notes"]]
        lines += map(_finding, found[:_MOST_FINDINGS])
        if len(found) > _MOST_FINDINGS:
            lines.append(f"and {len(found) - _MOST_FINDINGS} more findings")
    return {"text": "\n".join(lines)}


FORMATS: Mapping[str, Callable[[datetime, Steps, Gate], dict[str, Any]]] = {"slack": as_slack, "json": as_json}


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirected POST would become a GET, which delivers nothing."""

    def redirect_request(self, *_: Any) -> None:
        return None


def _exchange(url: str, body: bytes) -> None:
    """Raises HTTPError where the answer is no success."""
    headers = {"Content-Type": "application/json", "User-Agent": "roofbench"}
    request = urllib.request.Request(url, body, headers, method="POST")
    with urllib.request.build_opener(_NoRedirect).open(request, timeout=TIMEOUT_S):
        pass  # a success says no more


def _reason(error: Exception) -> str:
    if isinstance(error, urllib.error.HTTPError):
        said = b""
        with suppress(OSError, http.client.HTTPException), error:  # an answer that breaks off has a status all the same
            said = error.read(_LONGEST_ANSWER)
        text = printable(said.decode("utf-8", "replace").strip(), _LONGEST_ANSWER)
        return f" answered {error.code} {printable(str(error.reason), 80)}{': ' if text else ''}{text}"
    if isinstance(error, urllib.error.URLError):
        return f": {printable(str(error.reason), 200)}"
    if isinstance(error, (ValueError, http.client.InvalidURL)):  # their texts quote the URL
        return ": its URL is invalid"
    return f": {printable(str(error) or type(error).__name__, 200)}"


def send(url: str, body: Mapping[str, Any]) -> str:
    """Why it was not delivered; empty: it was. Never raises. The address is a password to a channel: all but its host
    stays secret.
    """
    found: list[str] = []

    def exchange() -> None:
        try:
            _exchange(url, json.dumps(body).encode())
            found.append("")
        except Exception as error:
            found.append(_reason(error))

    # Sockets limit the wait for a byte, and name servers have no limit. A thread that is left behind ends with us.
    thread = threading.Thread(target=exchange, daemon=True)
    thread.start()
    thread.join(TIMEOUT_S)
    lost = found[0] if found else f": no complete answer within {TIMEOUT_S:g} s"
    return f"{printable(_host(url))}{lost}" if lost else ""


def _host(url: str) -> str:
    try:
        return urlsplit(url).netloc.rpartition("@")[2]
    except ValueError:
        return "the webhook"
