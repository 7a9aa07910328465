"""`gpufleet webhooks …`: endpoints that are told of jobs, how they fare, what they were told, and what to do about it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import typer

from workers.cli import output, webhook_views
from workers.cli.durations import seconds_of
from workers.cli.failures import CommandError, ExitCode
from workers.cli.options import API, Api, AsJson, Cursor, Key, Limit

app = typer.Typer(help="Endpoints that are told of jobs.", no_args_is_help=True)

Id = Annotated[str, typer.Argument(metavar="ID", help="The webhook's id.")]
Message = Annotated[str | None, typer.Argument(metavar="[DELIVERY]", help="A delivery's id, as `webhooks deliveries ID` shows it.")]
Secret = Annotated[
    str | None,
    typer.Option(
        "--secret", envvar="GPUFLEET_WEBHOOK_SECRET", help="Its secret; made and shown once, unless given. Better in the environment."
    ),
]


@app.command("list")
def list_all(
    namespace: Annotated[str | None, typer.Option("--namespace", "-n", help="Those of this namespace.")] = None,
    api: Api = API,
    key: Key = None,
    limit: Limit = 100,
    cursor: Cursor = None,
    as_json: AsJson = False,
) -> None:
    """List webhooks, newest first."""
    from workers.cli.webhook_client import WebhookClient

    with WebhookClient(api, key) as client:
        answer = client.webhooks(namespace=namespace, limit=limit, cursor=cursor)
    if as_json:
        output.write_json(answer)
        return
    rows = [
        (one.get("id"), one.get("state"), one.get("namespace") or "(all)", one.get("events"), one.get("signed"), one.get("url"))
        for one in answer["webhooks"]
    ]
    output.table(("ID", "STATE", "NAMESPACE", "EVENTS", "SIGNED", "URL"), rows, empty="no webhooks")
    _tell_cursor(answer)


@app.command()
def create(
    context: typer.Context,
    url: Annotated[str, typer.Argument(metavar="URL", help="Where events are sent: https.")],
    events: Annotated[list[str], typer.Option("--event", "-e", help="What it is told of, such as job.failed; may be given several times.")],
    namespace: Annotated[str | None, typer.Option("--namespace", "-n", help="Whose jobs; those of all namespaces, unless said.")] = None,
    secret: Secret = None,
    unsigned: Annotated[bool, typer.Option("--unsigned", help="Without a secret.")] = False,
    api: Api = API,
    key: Key = None,
    as_json: AsJson = False,
) -> None:
    """Register a webhook; a secret that is made for it is printed once, and kept nowhere that it could be read from."""
    from workers.cli.webhook_client import WebhookClient

    source = context.get_parameter_source("secret")
    if unsigned and source is not None and source.name == "COMMANDLINE":  # one of the environment is for all that are made there
        raise CommandError.at("--unsigned", None, "must be without --secret")
    made = None
    if unsigned:
        secret = None
    elif not secret:
        from shared.webhooks.signing import new_secret

        secret = made = new_secret()
    wanted: dict[str, Any] = {"url": url, "events": events, "namespace": namespace} | ({"secret": secret} if secret else {})
    with WebhookClient(api, key) as client:
        webhook = client.create_webhook({name: value for name, value in wanted.items() if value is not None})["webhook"]
    if as_json:
        output.write_json({"webhook": webhook, "secret": made})
        return
    output.say(f"webhook {webhook.get('id')} for {webhook.get('url')}")
    _tell_secret(made)


@app.command()
def show(webhook_id: Id, api: Api = API, key: Key = None, as_json: AsJson = False) -> None:
    """Show a webhook, how its endpoint fares, and what was done to it."""
    from workers.cli.webhook_client import WebhookClient

    with WebhookClient(api, key) as client:
        answer = client.webhook(webhook_id)
    if as_json:
        output.write_json(answer)
        return
    webhook_views.show(answer)


@app.command("test")
def send_test(webhook_id: Id, api: Api = API, key: Key = None, as_json: AsJson = False) -> int:
    """Send a webhook a signed test now, and show what it answers. Exit code 1 where it doesn't take it."""
    from workers.cli.webhook_client import WebhookClient

    with WebhookClient(api, key) as client:
        answer = client.test_webhook(webhook_id)
    if as_json:
        output.write_json(answer)
    else:
        taken = "taken" if answer["delivered"] else "not taken"
        output.write(f"{taken}: {webhook_views.outcome(answer)} in {answer.get('latency_ms')} ms{webhook_views.text(answer)}")
    return ExitCode.OK if answer["delivered"] else ExitCode.FAILED


@app.command()
def deliveries(
    webhook_id: Id,
    message_id: Message = None,
    state: Annotated[str | None, typer.Option("--state", help="pending, held, delivered or failed.")] = None,
    api: Api = API,
    key: Key = None,
    limit: Limit = 100,
    cursor: Cursor = None,
    as_json: AsJson = False,
) -> None:
    """List what a webhook was told, newest events first, or show one delivery with its attempts."""
    from workers.cli.webhook_client import WebhookClient

    with WebhookClient(api, key) as client:
        if message_id is not None:
            answer = client.delivery(webhook_id, message_id)
        else:
            answer = client.deliveries(webhook_id, state=state, limit=limit, cursor=cursor)
    if as_json:
        output.write_json(answer)
    elif message_id is not None:
        webhook_views.show_delivery(answer)
    else:
        output.table(
            ("ID", "EVENT", "STATE", "ATTEMPTS", "LAST ANSWER", "MS", "AT", "NEXT", "REASON"),
            [webhook_views.row(one) for one in answer["deliveries"]],
            empty="no deliveries",
        )
        _tell_cursor(answer)


@app.command()
def redeliver(
    webhook_id: Id,
    message_id: Message = None,
    failed: Annotated[bool, typer.Option("--failed", help="All that have failed.")] = False,
    since: Annotated[
        str | None, typer.Option("--since", metavar="TIME", help="Of events since then: 6h, 2d, or a time as 2026-01-02T03:04:05Z.")
    ] = None,
    api: Api = API,
    key: Key = None,
    as_json: AsJson = False,
) -> None:
    """Send a delivery again, or all that have failed; under the same ids, and tried for another 24 hours."""
    from workers.cli.webhook_client import WebhookClient

    if failed == (message_id is not None):
        raise CommandError("either a delivery's id or --failed must be given", code=ExitCode.USAGE)
    if since is not None and not failed:
        raise CommandError.at("--since", since, "must be given with --failed only")
    moment = _moment(since) if since is not None else None
    with WebhookClient(api, key) as client:
        if message_id is not None:
            answer = client.redeliver(webhook_id, message_id)
        else:
            answer = {"count": 0, "more": True}
            while answer["more"]:
                found = client.redeliver_failed(webhook_id, since=moment)
                # Where a call moves nothing, others are moving them; to ask on and on would help nobody.
                answer = {"count": answer["count"] + found["count"], "more": found["more"] and found["count"] > 0}
    if as_json:
        output.write_json(answer)
    elif message_id is not None:
        output.write(f"{answer.get('message_id')} is sent again")
    else:
        output.write(f"{answer['count']} deliver{'y is' if answer['count'] == 1 else 'ies are'} sent again")


@app.command()
def enable(webhook_id: Id, api: Api = API, key: Key = None, as_json: AsJson = False) -> None:
    """Send to a webhook again. What has failed meanwhile is sent by `redeliver --failed`."""
    from workers.cli.webhook_client import WebhookClient

    with WebhookClient(api, key) as client:
        answer = client.enable_webhook(webhook_id)
    _tell_state(answer, as_json=as_json)


@app.command()
def disable(
    webhook_id: Id,
    reason: Annotated[str | None, typer.Option("--reason", help="Why, for the record.")] = None,
    api: Api = API,
    key: Key = None,
    as_json: AsJson = False,
) -> None:
    """Send nothing more to a webhook; what it would have been told of can be sent again for 30 days."""
    from workers.cli.webhook_client import WebhookClient

    with WebhookClient(api, key) as client:
        answer = client.disable_webhook(webhook_id, reason=reason)
    _tell_state(answer, as_json=as_json)


@app.command()
def rotate(
    webhook_id: Id,
    overlap: Annotated[
        str, typer.Option("--overlap", metavar="TIME", help="How long the secret before it signs too: 24h, 7d at most, or 0.")
    ] = "24h",
    secret: Secret = None,
    api: Api = API,
    key: Key = None,
    as_json: AsJson = False,
) -> None:
    """Give a webhook a new secret, and print it: it is shown this once."""
    from shared.webhooks.rotation import MAX_OVERLAP
    from workers.cli.webhook_client import WebhookClient

    none = overlap in {"0", "0s", "0m", "0h", "0d"}
    wanted: dict[str, Any] = {"overlap_seconds": 0 if none else seconds_of(overlap, field="--overlap", most=MAX_OVERLAP)}
    if secret:
        wanted["secret"] = secret
    with WebhookClient(api, key) as client:
        answer = client.rotate_secret(webhook_id, wanted)
    if as_json:
        output.write_json(answer)
        return
    until = answer.get("overlap_until")
    output.say(f"webhook {webhook_id} has a new secret" + (f"; the one before it signs too until {output.moment(until)}" if until else ""))
    _tell_secret(answer.get("secret"))


@app.command()
def delete(webhook_id: Id, api: Api = API, key: Key = None, as_json: AsJson = False) -> None:
    """Delete a webhook and its secret."""
    from workers.cli.webhook_client import WebhookClient

    with WebhookClient(api, key) as client:
        answer = client.delete_webhook(webhook_id)
    if as_json:
        output.write_json(answer)
    else:
        output.write(f"webhook {webhook_id} is deleted")


def _moment(text: str) -> str:
    """A time as the API takes it, from one, or from how long ago it was."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = datetime.now(UTC) - timedelta(seconds=seconds_of(text, field="--since"))
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).isoformat()


def _tell_state(webhook: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        output.write_json(webhook)
    else:
        output.write(f"webhook {webhook.get('id')} is {webhook['state']}")


def _tell_secret(secret: str | None) -> None:
    if secret:
        output.say("its secret; keep it, it is not shown again:")
        output.write(secret)


def _tell_cursor(answer: dict[str, Any]) -> None:
    if answer.get("next_cursor"):
        output.say(f"there is more: --cursor {answer['next_cursor']}")
