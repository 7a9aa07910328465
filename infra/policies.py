"""Roles as IAM policy documents: what the stacks attach and the tests read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from infra.resources import KEY, Names
from infra.roles import Conditions, Role, Statement

_KEY_ACTIONS: Final = {
    "dynamodb:": ("kms:Decrypt",),
    "sqs:SendMessage": ("kms:Decrypt", "kms:GenerateDataKey"),
    "sqs:ReceiveMessage": ("kms:Decrypt",),
    "s3:GetObject": ("kms:Decrypt",),
    "s3:PutObject": ("kms:GenerateDataKey",),
}
"""What the key of an encrypted table, queue or bucket is asked for in the caller's name, by how actions begin.

DynamoDB decrypts the table's key in the name of whoever reads or writes
(https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/encryption.usagenotes.html); SQS and S3 do as said at
https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-key-management.html and
https://docs.aws.amazon.com/AmazonS3/latest/userguide/UsingKMSEncryption.html.
"""


def document(role: Role, names: Names) -> dict[str, Any]:
    """The policy document of a role in an installation."""
    return {"Version": "2012-10-17", "Statement": [rendered(one, names) for one in statements(role, names)]}


def statements(role: Role, names: Names) -> tuple[Statement, ...]:
    """The statements of a role, and what they need of the key where there is one."""
    if names.key is None:
        return role.statements
    actions = key_actions(role.statements)
    return (*role.statements, Statement(actions=actions, resources=(KEY,))) if actions else role.statements


def key_actions(granted: Sequence[Statement]) -> tuple[str, ...]:
    """What whoever may do this must be allowed to ask of the key."""
    actions = {action for statement in granted for action in statement.actions}
    return tuple(sorted({need for begin, needs in _KEY_ACTIONS.items() for need in needs if any(one.startswith(begin) for one in actions)}))


def rendered(statement: Statement, names: Names) -> dict[str, Any]:
    """One statement of a policy document."""
    found: dict[str, Any] = {
        "Effect": "Allow",
        "Action": list(statement.actions),
        "Resource": [arn for resource in statement.resources for arn in names.arns(resource)],
    }
    if statement.conditions:
        found["Condition"] = conditions(statement.conditions, names)
    return found


def conditions(wanted: Conditions, names: Names) -> dict[str, dict[str, str | list[str]]]:
    """Conditions with the regions put in."""
    return {operator: {key: _value(value, names) for key, value in keys.items()} for operator, keys in wanted.items()}


def _value(value: str | tuple[str, ...], names: Names) -> str | list[str]:
    if isinstance(value, str):
        return value
    found: list[str] = []
    for one in value:
        found += names.regions if one == "{regions}" else [one.replace("{region}", names.own_region or "")]
    return found
