"""The role of a worker's pods on a cluster of EKS, as documents for IAM: `python -m infra.pods` prints its rights, or who may take it on.

The stacks make such roles (`infra.cdk.rights`); this is for clusters without them. Table, bucket, queues and regions are those of the
`GPUFLEET_...` settings, which `python -m infra.outputs` prints of a deployed fleet.

    python -m infra.pods rights dispatcher --account 123456789012 --region eu-west-1
    python -m infra.pods trust dispatcher --account 123456789012 --region eu-west-1 --cluster NAME
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import Any, Final

from infra.policies import document
from infra.resources import Names
from infra.roles import ROLES, role
from shared.errors import InvalidError, Problem
from shared.settings import Settings, load

NAMESPACE: Final = "gpufleet"
"""Where the workers are on a cluster (infra/kubernetes)."""
SERVICE: Final = "pods.eks.amazonaws.com"
"""Who takes on a role in the name of a pod."""
WORKERS: Final = tuple(one.worker for one in ROLES if one.pod)


def session_tags(*, cluster: str, namespace: str, account: str) -> dict[str, str]:
    """What EKS Pod Identity tags a session with: the ARN of the cluster, the namespace and the service account.

    Rule: https://docs.aws.amazon.com/eks/latest/userguide/pod-id-role.html
    """
    return {
        "aws:RequestTag/eks-cluster-arn": cluster,
        "aws:RequestTag/kubernetes-namespace": namespace,
        "aws:RequestTag/kubernetes-service-account": account,
    }


def trust(*, cluster: str, account: str, namespace: str = NAMESPACE) -> dict[str, Any]:
    """The trust policy of a role that the pods of one service account on one cluster take on, and nobody else."""
    statement = {
        "Effect": "Allow",
        "Principal": {"Service": SERVICE},
        "Action": ["sts:AssumeRole", "sts:TagSession"],
        "Condition": {"StringEquals": session_tags(cluster=cluster, namespace=namespace, account=account)},
    }
    return {"Version": "2012-10-17", "Statement": [statement]}


def rights(worker: str, settings: Settings, *, account: str, region: str, key: str | None, partition: str = "aws") -> dict[str, Any]:
    """The policy of a worker's pods in a region. `key` is the ARN of the key that encrypts table, bucket and queues.

    Raises InvalidError for a region that the settings don't have.
    """
    if region not in settings.regions:
        raise InvalidError(
            [Problem(pointer="/region", value=region, rule=f"must be one of GPUFLEET_REGIONS: {', '.join(settings.regions)}")]
        )
    names = Names(
        account=account,
        partition=partition,
        control_region=settings.control_region,
        regions=settings.regions,
        table=settings.table,
        bucket=settings.bucket,
        queue_prefix=settings.queue_prefix,
        clusters={},
        key=key,
        own_region=region,
    )
    return document(role(worker), names)


def main(arguments: Sequence[str]) -> int:
    """Print a document; 2 where the settings or the region are wrong."""
    parser = argparse.ArgumentParser(prog="python -m infra.pods", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("rights", "trust"))
    parser.add_argument("worker", choices=WORKERS)
    parser.add_argument("--account", required=True, help="the account's number")
    parser.add_argument("--region", required=True, help="the region of the cluster")
    parser.add_argument("--cluster", help="the name of the cluster, for trust")
    parser.add_argument("--key", help="for rights: the ARN of the key that encrypts table, bucket and queues, unless it is AWS's own")
    parser.add_argument("--partition", default="aws", help="aws unless said")
    chosen = parser.parse_args(arguments)
    if chosen.what == "trust" and not chosen.cluster:
        parser.error("trust needs --cluster")
    try:
        if chosen.what == "trust":
            cluster = f"arn:{chosen.partition}:eks:{chosen.region}:{chosen.account}:cluster/{chosen.cluster}"
            found = trust(cluster=cluster, account=chosen.worker)
        else:
            settings = load(Settings)
            found = rights(
                chosen.worker, settings, account=chosen.account, region=chosen.region, key=chosen.key, partition=chosen.partition
            )
    except InvalidError as error:
        sys.stderr.writelines(f"{problem}\n" for problem in error.problems)
        return 2
    sys.stdout.write(f"{json.dumps(found, indent=2)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
