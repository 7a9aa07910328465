"""Webhooks and deliveries for people."""

from __future__ import annotations

from typing import Any

from workers.cli import output


def show(webhook: dict[str, Any]) -> None:
    """Write a webhook, how its endpoint fares, what was done to it."""
    health = webhook["health"]
    names = ("id", "url", "events", "namespace", "state", "disabled_reason", "signed", "created_by")
    known = [(name.replace("_", " "), webhook.get(name)) for name in names]
    known += [
        (name.replace("_", " "), output.moment(webhook[name])) for name in ("created_at", "rotated_at", "disabled_at") if webhook.get(name)
    ]
    known += [("failures in a row", health.get("failures") or None), ("last failure", health.get("last_failure"))]
    times = ("failing_since", "last_failure_at", "last_success_at", "paused_until")
    known += [(name.replace("_", " "), output.moment(health[name])) for name in times if health.get(name)]
    output.pairs(known)
    history = [
        (output.moment(one.get("at")), one.get("change"), one.get("by") or "the fleet", one.get("reason"))
        for one in webhook.get("history") or ()
    ]
    if history:
        output.write("")
        output.table(("AT", "CHANGE", "BY", "REASON"), history, empty="")


def show_delivery(delivery: dict[str, Any]) -> None:
    """Write a delivery and its latest attempts."""
    names = ("message_id", "event", "namespace", "state", "reason", "attempts")
    known = [(name.replace("_", " "), delivery.get(name)) for name in names]
    times = ("at", "next_attempt_at", "deadline", "finished_at")
    output.pairs([*known, *((name.replace("_", " "), output.moment(delivery[name])) for name in times if delivery.get(name))])
    attempts = [(output.moment(one.get("at")), outcome(one), one.get("latency_ms"), one.get("text")) for one in delivery["latest_attempts"]]
    if attempts:
        output.write("")
        output.table(("AT", "ANSWER", "MS", "TEXT"), attempts, empty="")


def row(one: dict[str, Any]) -> tuple[Any, ...]:
    """A delivery as a row: id, event, state, attempts, last answer, its milliseconds, when it happened, when it is tried next, why."""
    last = one.get("last_attempt")
    return (
        one.get("message_id"),
        one.get("event"),
        one.get("state"),
        one.get("attempts"),
        outcome(last) if last else None,
        last.get("latency_ms") if last else None,
        output.moment(one.get("at")),
        output.moment(one.get("next_attempt_at")),
        one.get("reason"),
    )


def outcome(attempt: dict[str, Any]) -> str:
    """What came of an attempt, in a word."""
    return str(attempt.get("status") or attempt.get("failure") or "no answer")


def text(attempt: dict[str, Any]) -> str:
    """What an answer says, behind a colon."""
    return f": {attempt['text']}" if attempt.get("text") else ""
