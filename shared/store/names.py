"""The names under which an installation makes its table, bucket and queues, held against AWS's rules before anything is made."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from shared.errors import Problem
from shared.settings import Settings, dead_letter_queue

_TABLE: Final = re.compile(r"[A-Za-z0-9_.-]{3,255}")
"""https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/HowItWorks.NamingRulesDataTypes.html"""
_OF_QUEUES: Final = re.compile(r"[A-Za-z0-9_-]+")
_LONGEST_QUEUE: Final = 80
"""https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_CreateQueue.html"""
_BUCKET: Final = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_ADDRESS: Final = re.compile(r"[0-9]+(\.[0-9]+){3}")
_RESERVED_PREFIXES: Final = ("xn--", "sthree-", "amzn-s3-demo-")
_RESERVED_SUFFIXES: Final = ("-s3alias", "--ol-s3", ".mrap", "--x-s3", "--table-s3")
"""https://docs.aws.amazon.com/AmazonS3/latest/userguide/bucketnamingrules.html"""


def name_problems(settings: Settings) -> list[Problem]:
    """What AWS would refuse, by the settings' names in the environment."""
    problems = []
    if _TABLE.fullmatch(settings.table) is None:
        rule = "must be a name that DynamoDB takes: 3 to 255 letters, digits, dots, hyphens and underscores"
        problems.append(Problem(pointer="GPUFLEET_TABLE", value=settings.table, rule=rule))
    if (rule_broken := bucket_rule(settings.bucket)) is not None:
        problems.append(Problem(pointer="GPUFLEET_BUCKET", value=settings.bucket, rule=rule_broken))
    return [*problems, *_of_queues(settings)]


def bucket_rule(name: str) -> str | None:
    """The rule of S3 that a bucket's name breaks; None where it may be one."""
    if _BUCKET.fullmatch(name) is None:
        return (
            "must be a name that S3 takes: 3 to 63 small letters, digits, dots and hyphens, beginning and ending with a letter or a digit"
        )
    if ".." in name:
        return "must be a name that S3 takes: without two dots in a row"
    if _ADDRESS.fullmatch(name):
        return "must be a name that S3 takes: not the form of an IP address"
    for prefix in _RESERVED_PREFIXES:
        if name.startswith(prefix):
            return f"must be a name that S3 takes: not beginning with {prefix}, which it keeps for itself"
    for suffix in _RESERVED_SUFFIXES:
        if name.endswith(suffix):
            return f"must be a name that S3 takes: not ending with {suffix}, which it keeps for itself"
    return None


def _of_queues(settings: Settings) -> Iterator[Problem]:
    longest = max((dead_letter_queue(name) for name in settings.queues()), key=len)
    if _OF_QUEUES.fullmatch(settings.queue_prefix) is None:
        rule = "must be the beginning of names that SQS takes: letters, digits, hyphens and underscores"
        yield Problem(pointer="GPUFLEET_QUEUE_PREFIX", value=settings.queue_prefix, rule=rule)
    elif len(longest) > _LONGEST_QUEUE:
        rule = f"must leave every queue a name of at most {_LONGEST_QUEUE} characters, which SQS takes; {longest} has {len(longest)}"
        yield Problem(pointer="GPUFLEET_QUEUE_PREFIX", value=settings.queue_prefix, rule=rule)
    for region in settings.regions:
        if _OF_QUEUES.fullmatch(region) is None:
            rule = "must hold names of regions, of which those of queues are made: letters, digits, hyphens and underscores"
            yield Problem(pointer="GPUFLEET_REGIONS", value=region, rule=rule)
