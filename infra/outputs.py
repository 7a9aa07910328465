"""What the stacks made, as the environment that workers and people need: `python -m infra.outputs` reads the outputs of the control stack.

    eval "$(python -m infra.outputs)"
    gpufleet jobs

Which stack, and where, is what the settings of the stacks say (infra/cdk/settings.toml, or the file that GPUFLEET_INFRA_SETTINGS names),
unless it is said here. GPUFLEET_TOKENS_API is where callers with tokens go, where the settings have an issuer.
It needs `cloudformation:DescribeStacks`, and AWS credentials as usual.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

from botocore.exceptions import BotoCoreError, ClientError

from infra.cdk.settings import Installation
from shared.errors import InvalidError, NotFoundError, Problem, UnavailableError

CONTROL: Final = "gpufleet-control"
_VARIABLES: Final = {
    "GPUFLEET_CONTROL_REGION": "ControlRegion",
    "GPUFLEET_REGIONS": "Regions",
    "GPUFLEET_TABLE": "TableName",
    "GPUFLEET_BUCKET": "BucketName",
    "GPUFLEET_QUEUE_PREFIX": "QueuePrefix",
    "GPUFLEET_SECRETS_PREFIX": "SecretsPrefix",
}
"""Settings of every worker, and the outputs that they are."""
_FOR_PEOPLE: Final = {"GPUFLEET_API": "ApiUrl", "GPUFLEET_EKS_CLUSTERS": "EksClusters"}
_WHERE_THERE_IS_ONE: Final = {"GPUFLEET_TOKENS_API": "TokensApiUrl"}


def read(client: Any, stack: str = CONTROL) -> dict[str, str]:
    """The outputs of a stack. Raises NotFoundError where there is none, UnavailableError."""
    try:
        found = client.describe_stacks(StackName=stack)["Stacks"][0]
    except ClientError as error:
        if "does not exist" in str(error):
            raise NotFoundError("Stack", stack) from error
        raise UnavailableError(f"stack {stack}: {error}") from error
    except (BotoCoreError, OSError) as error:
        raise UnavailableError(f"stack {stack}: {error}") from error
    return {one["OutputKey"]: one["OutputValue"] for one in found.get("Outputs", ())}


def environment(outputs: Mapping[str, str]) -> dict[str, str]:
    """The settings of a worker that runs on what a control stack made. Raises InvalidError for outputs that are missing."""
    found = _named(outputs, _VARIABLES)
    return {**found, "AWS_REGION": found["GPUFLEET_CONTROL_REGION"]}


def for_people(outputs: Mapping[str, str]) -> dict[str, str]:
    """The same, where the API is, for callers that sign and for those with tokens, where it takes any, and which clusters there are."""
    found = environment(outputs) | _named(outputs, _FOR_PEOPLE)
    return found | {variable: outputs[name] for variable, name in _WHERE_THERE_IS_ONE.items() if outputs.get(name)}


def _named(outputs: Mapping[str, str], names: Mapping[str, str]) -> dict[str, str]:
    missing = [name for name in names.values() if not outputs.get(name)]
    if missing:
        raise InvalidError([Problem(pointer=f"/{name}", value=None, rule="must be an output of the control stack") for name in missing])
    return {variable: outputs[name] for variable, name in names.items()}


def choose(arguments: Sequence[str]) -> tuple[str, str]:
    """The region and the name of the control stack. Raises InvalidError where the settings are asked and are wrong."""
    parser = argparse.ArgumentParser(prog="python -m infra.outputs", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--region", help="the control region; AWS_REGION or the settings' unless said")
    parser.add_argument("--stack", help=f"the control stack; {CONTROL}, or by the settings' name, unless said")
    chosen = parser.parse_args(arguments)
    region, stack = chosen.region or os.environ.get("AWS_REGION"), chosen.stack
    if not region or not stack:
        installation = Installation.load()
        region, stack = region or installation.control_region, stack or f"{installation.name}-control"
    return region, stack


def main(arguments: Sequence[str]) -> int:
    """Print the variables as a shell reads them; 1 where the stack can't be read, 2 where the settings are wrong."""
    try:
        region, stack = choose(arguments)
    except InvalidError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    import boto3

    try:
        found = for_people(read(boto3.client("cloudformation", region_name=region), stack))
    except (NotFoundError, UnavailableError, InvalidError, BotoCoreError) as error:
        sys.stderr.write(f"{error} (in {region})\n")
        return 1
    for name, value in found.items():
        sys.stdout.write(f"export {name}={shlex.quote(value)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
