"""What stands in an emulator, without an API or a key: the queues with what waits in them, and the jobs of each region by their state.

    python localstack/status.py                      # on localhost:4566, or where AWS_ENDPOINT_URL or LOCALSTACK_HOST says

It needs `pip install localstack-client`, and works on LocalStack and ministack alike. Ends with 1 where there is no fleet.
"""

import argparse
import sys
from collections.abc import Iterable

import localstack_client.session
from botocore.exceptions import BotoCoreError, ClientError

REGION = "us-east-1"
STATES = ("queued", "claimed", "pending", "running", "succeeded", "failed", "cancelled")
ENDED = ("succeeded", "failed", "cancelled")
DEPTHS = {"waiting": "ApproximateNumberOfMessages", "in flight": "ApproximateNumberOfMessagesNotVisible"}


def client(service: str):
    """A client of the emulator; the credentials are no secret, it takes any."""
    return localstack_client.session.Session(region_name=REGION).client(service)


def queues(prefix: str) -> dict[str, dict[str, int]]:
    """The depths of every queue whose name begins so, by its name."""
    sqs = client("sqs")
    found = {}
    for url in sqs.list_queues(QueueNamePrefix=f"{prefix}-").get("QueueUrls", []):
        told = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=list(DEPTHS.values()))["Attributes"]
        found[url.rpartition("/")[2]] = {name: int(told[attribute]) for name, attribute in DEPTHS.items()}
    return found


def jobs(table: str, regions: Iterable[str]) -> dict[str, dict[str, int]]:
    """How many jobs of each region are in which state, counted in the index."""
    pages = client("dynamodb").get_paginator("query")
    counted: dict[str, dict[str, int]] = {}
    for region in regions:
        counted[region] = {}
        for state in STATES:
            asked = pages.paginate(
                TableName=table,
                IndexName="by_state",
                Select="COUNT",
                KeyConditionExpression="state_pk = :state",
                ExpressionAttributeValues={":state": {"S": f"STATE#{region}#{state}"}},
            )
            counted[region][state] = sum(page["Count"] for page in asked)
    return counted


def main() -> int:
    """The program; returns its exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--prefix", default="gpufleet", help="of the names of the queues")
    parser.add_argument("--table", default="gpufleet")
    parser.add_argument("--regions", default="us-east-1,eu-west-1")
    chosen = parser.parse_args()
    try:
        depths, counted = queues(chosen.prefix), jobs(chosen.table, chosen.regions.split(","))
    except (ClientError, BotoCoreError) as error:
        sys.stderr.write(f"no fleet here: {error}\n")
        return 1
    for name, depth in sorted(depths.items()):
        print(f"{name:<40}", *(f"{count:>6} {what}" for what, count in depth.items()))
    for region, states in counted.items():
        print(f"{region:<40}", *(f"{count:>6} {state}" for state, count in states.items() if count))
    return 0


if __name__ == "__main__":
    sys.exit(main())
