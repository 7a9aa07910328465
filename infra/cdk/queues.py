"""A queue and its dead letters, as `gpufleet bootstrap` makes them, encrypted and reached by TLS only."""

from __future__ import annotations

from typing import Final

from aws_cdk import Duration, RemovalPolicy
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from shared.settings import dead_letter_queue
from shared.store.bootstrap import DEAD_LETTER_ATTRIBUTES, MAX_RECEIVES, QUEUE_ATTRIBUTES

_REUSE: Final = Duration.hours(24)
"""How long SQS uses a data key: the longest that it may, since each costs a request of KMS for each caller."""


class FleetQueue(Construct):
    """A queue with dead letters.

    `visibility_seconds` is at least as long as bootstrap says; where Lambda polls, it must be six times the function's timeout.
    """

    def __init__(
        self, scope: Construct, construct_id: str, *, name: str, key: kms.IKey, removal: RemovalPolicy, visibility_seconds: int = 0
    ) -> None:
        super().__init__(scope, construct_id)
        self.dead = _queue(self, "Dead", dead_letter_queue(name), DEAD_LETTER_ATTRIBUTES, key, removal)
        dead_letters = sqs.DeadLetterQueue(queue=self.dead, max_receive_count=MAX_RECEIVES)
        longest = max(visibility_seconds, int(QUEUE_ATTRIBUTES["VisibilityTimeout"]))
        attributes = QUEUE_ATTRIBUTES | {"VisibilityTimeout": str(longest)}
        self.queue = _queue(self, "Queue", name, attributes, key, removal, dead_letters)


def _queue(
    scope: Construct,
    construct_id: str,
    name: str,
    attributes: dict[str, str],
    key: kms.IKey,
    removal: RemovalPolicy,
    dead_letters: sqs.DeadLetterQueue | None = None,
) -> sqs.Queue:
    return sqs.Queue(
        scope,
        construct_id,
        queue_name=name,
        encryption=sqs.QueueEncryption.KMS,
        encryption_master_key=key,
        data_key_reuse=_REUSE,
        enforce_ssl=True,
        removal_policy=removal,
        dead_letter_queue=dead_letters,
        retention_period=Duration.seconds(int(attributes["MessageRetentionPeriod"])),
        visibility_timeout=_seconds(attributes.get("VisibilityTimeout")),
        receive_message_wait_time=_seconds(attributes.get("ReceiveMessageWaitTimeSeconds")),
    )


def _seconds(value: str | None) -> Duration | None:
    return None if value is None else Duration.seconds(int(value))
