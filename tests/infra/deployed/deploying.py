"""Stacks on the emulator's CloudFormation: assets where templates expect them, stacks in their order, outputs."""

from __future__ import annotations

import json
import time
from typing import Any

from tests.infra.accounts import ACCOUNT
from tests.infra.deployed.assembly import Assembly, Json
from tests.infra.fleet import EnforcedFleet

_SECONDS = 180.0
_BOOTSTRAP_VERSION = "/cdk-bootstrap/hnb659fds/version"


class StackFailedError(Exception):
    """A stack was not created; says what failed first, and why."""


def prepare(fleet: EnforcedFleet, assembly: Assembly, stacks: dict[str, str]) -> None:
    """What `cdk bootstrap` makes in an account, as far as stacks ask for it, and the assets of `stacks` (name to region)."""
    for region in sorted(set(stacks.values())):
        with fleet.client("ssm", region) as ssm:
            ssm.put_parameter(Name=_BOOTSTRAP_VERSION, Value="30", Type="String")
    buckets: set[str] = set()
    for stack, region in stacks.items():
        with fleet.client("s3", region) as s3:
            for asset in assembly.assets(stack, region):
                if asset.bucket not in buckets:
                    place = {} if region == "us-east-1" else {"CreateBucketConfiguration": {"LocationConstraint": region}}
                    s3.create_bucket(Bucket=asset.bucket, **place)
                    buckets.add(asset.bucket)
                s3.upload_file(str(asset.file), asset.bucket, asset.key)


def deploy(fleet: EnforcedFleet, stack: str, template: Json, region: str) -> dict[str, str]:
    """Create a stack and wait for it; its outputs. Raises StackFailedError."""
    with fleet.client("cloudformation", region) as cloudformation:
        url = _uploaded(fleet, stack, template, region)
        cloudformation.create_stack(StackName=stack, TemplateURL=url, Capabilities=["CAPABILITY_NAMED_IAM"], OnFailure="DO_NOTHING")
        return _settled(cloudformation, stack, "CREATE")


def update(fleet: EnforcedFleet, stack: str, template: Json, region: str) -> dict[str, str]:
    """Give a stack another template and wait for it; its outputs. Raises StackFailedError."""
    with fleet.client("cloudformation", region) as cloudformation:
        url = _uploaded(fleet, stack, template, region)
        cloudformation.update_stack(StackName=stack, TemplateURL=url, Capabilities=["CAPABILITY_NAMED_IAM"])
        return _settled(cloudformation, stack, "UPDATE")


def _uploaded(fleet: EnforcedFleet, stack: str, template: Json, region: str) -> str:
    with fleet.client("s3", region) as s3:
        bucket = f"cdk-hnb659fds-assets-{ACCOUNT}-{region}"
        s3.put_object(Bucket=bucket, Key=f"{stack}.json", Body=json.dumps(template).encode())
        return f"{fleet.layout.aws_endpoint}/{bucket}/{stack}.json"


def _settled(cloudformation: Any, stack: str, what: str) -> dict[str, str]:
    deadline = time.monotonic() + _SECONDS
    while (found := cloudformation.describe_stacks(StackName=stack)["Stacks"][0])["StackStatus"].endswith("_IN_PROGRESS"):
        if time.monotonic() > deadline:
            raise StackFailedError(f"{stack} is not there after {_SECONDS:g} s")
        time.sleep(0.2)
    if found["StackStatus"] != f"{what}_COMPLETE":
        why = _failures(cloudformation, stack) or found.get("StackStatusReason")
        raise StackFailedError(f"{stack}: {found['StackStatus']}: {why}")
    return {one["OutputKey"]: one["OutputValue"] for one in found.get("Outputs", ())}


def _failures(cloudformation: Any, stack: str) -> str:
    events = cloudformation.describe_stack_events(StackName=stack)["StackEvents"]
    failed = [one for one in events if one["ResourceStatus"].endswith("_FAILED")]
    return "; ".join(f"{one['LogicalResourceId']} ({one['ResourceType']}): {one.get('ResourceStatusReason')}" for one in reversed(failed))
