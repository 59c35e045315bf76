# SPDX-License-Identifier: Apache-2.0
"""A message about a nightly run, sent to a webhook: in Slack's format, or as JSON for any program."""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

from roofreport.text import printable

SCHEMA = "roofbench-night-1"
SCHEMES = ("http", "https")
TIMEOUT_S = 20.0
_MOST_FINDINGS = 20
_LONGEST_ANSWER = 200
_SLACK = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}

Steps = Sequence[Mapping[str, str]]  # step, state, reason
Gate = Mapping[str, Any]  # the gate's JSON; empty: it did not judge


def as_json(started: datetime, steps: Steps, gate: Gate) -> dict[str, Any]:
    return {"schema": SCHEMA, "night": started.isoformat(), "steps": list(steps), "gate": gate or None}


def as_slack(started: datetime, steps: Steps, gate: Gate) -> dict[str, Any]:
    """https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks: other chat programs take it, too."""
    lines = [f"*roofbench*, nightly run of {started:%Y-%m-%d %H:%M} UTC"]
    lines += [f"{one['step']}: *{one['state']}* {one['reason']}".rstrip() for one in steps if one["state"] != "ok"]
    for night in gate.get("nights", ()):
        found = night["found"]
        lines.append(f"{night['machine']}, commit {night['revision'][:12] or 'unknown'}, {night['cases']} cases")
        lines += [f"note: {note}" for note in night["notes"]]
        lines += [f"• *{one['kind'].upper()}* {one['case']}: {one['text']}" for one in found[:_MOST_FINDINGS]]
        if len(found) > _MOST_FINDINGS:
            lines.append(f"and {len(found) - _MOST_FINDINGS} more findings")
    text = "\n".join(printable(line, 500) for line in lines)
    return {"text": "".join(_SLACK.get(character, character) for character in text)}


FORMATS: Mapping[str, Callable[[datetime, Steps, Gate], dict[str, Any]]] = {"slack": as_slack, "json": as_json}


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirected POST would become a GET, which delivers nothing."""

    def redirect_request(self, *_: Any) -> None:
        return None


def send(url: str, body: Mapping[str, Any]) -> str:
    """Why it was not delivered; empty: it was. The address stays secret but for its host: it is a password to a
    channel.
    """
    headers = {"Content-Type": "application/json", "User-Agent": "roofbench"}
    try:
        host = urlsplit(url).netloc.rpartition("@")[2]
        request = urllib.request.Request(url, json.dumps(body).encode(), headers, method="POST")
        with urllib.request.build_opener(_NoRedirect).open(request, timeout=TIMEOUT_S) as answer:
            answer.read(_LONGEST_ANSWER)
    except urllib.error.HTTPError as error:
        with error:
            said = printable(error.read(_LONGEST_ANSWER).decode("utf-8", "replace").strip(), _LONGEST_ANSWER)
        return f"{printable(host)} answered {error.code} {printable(str(error.reason), 80)}{': ' if said else ''}{said}"
    except urllib.error.URLError as error:
        return f"{printable(host)}: {printable(str(error.reason), 200)}"
    except (OSError, http.client.HTTPException) as error:
        return f"{printable(host)}: {printable(str(error) or type(error).__name__, 200)}"
    except ValueError:
        return "its URL is invalid"
    return ""
