"""cdk-nag's AWS Solutions rules, and what is acknowledged of their findings: each by its id, at one construct, with the reason."""

from __future__ import annotations

from aws_cdk import Acknowledgment, App, Validations
from cdk_nag import AwsSolutionsChecks
from constructs import Construct, IConstruct


def acknowledge(construct: IConstruct, rule: str, reason: str, *findings: str) -> None:
    """Say why a rule's finding at a construct, or in it, is right; of a rule that has several (`Resource::…`), those that are named."""
    ids = [f"{rule}[{finding}]" for finding in findings] or [rule]
    Validations.of(construct).acknowledge(*(Acknowledgment(id=one, reason=reason) for one in ids))


def check(app: App) -> None:
    """Have the rules checked when the app is synthesized; what is acknowledged is written into the templates."""
    Validations.of(app).add_plugins(AwsSolutionsChecks(app, verbose=True, write_suppressions_to_cloud_formation=True))


def find(scope: Construct, path: str) -> IConstruct:
    """A construct below another, by the path that a finding names. Raises LookupError."""
    found: IConstruct = scope
    for step in path.split("/"):
        child = found.node.try_find_child(step)
        if child is None:
            raise LookupError(f"{found.node.path} has no {step}")
        found = child
    return found
