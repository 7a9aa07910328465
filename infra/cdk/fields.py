"""What single settings may be. Each rule is one that AWS, Kubernetes or a worker would tell later, when a stack is deployed by half."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from ipaddress import IPv4Network
from typing import Annotated, Final, Literal

from botocore.session import Session
from pydantic import AfterValidator

from shared.errors import Problem
from shared.store.names import bucket_rule

Architecture = Literal["arm64", "x86_64"]


def _text(pattern: str, rule: str) -> AfterValidator:
    """A text that matches as a whole, or the rule in words."""
    compiled = re.compile(pattern)

    def check(value: str) -> str:
        if compiled.fullmatch(value) is None:
            raise ValueError(rule)
        return value

    return AfterValidator(check)


Name = Annotated[
    str,
    _text(
        r"[a-z][a-z0-9-]{1,18}[a-z0-9]",
        "must be 3 to 20 small letters, digits and hyphens, with a letter first and no hyphen last",
    ),
]
"""A prefix of physical names: the longest of them, a role with a region, must stay within IAM's 64 characters; a table's has 3 at least."""
PoolName = Annotated[
    str,
    _text(
        r"[a-z]([a-z0-9-]{0,18}[a-z0-9])?",
        "must be 1 to 20 small letters, digits and hyphens, with a letter first and no hyphen last",
    ),
]
InstanceType = Annotated[
    str, _text(r"[a-z][a-z0-9-]*\.[a-z0-9-]+", "must be a type of instance: a family, a dot and a size, such as g5.12xlarge")
]
RoleArn = Annotated[
    str,
    _text(
        r"arn:aws[a-z-]*:iam::[0-9]{12}:(role|user)/[\w+=,.@/-]+", "must be the ARN of a role or a user: arn:aws:iam::<account>:role/<name>"
    ),
]
TopicArn = Annotated[
    str,
    _text(
        r"arn:aws[a-z-]*:sns:[a-z0-9-]+:[0-9]{12}:[\w-]+",
        "must be the ARN of a standard topic: arn:aws:sns:<region>:<account>:<name>",
    ),
]
StreamArn = Annotated[
    str,
    _text(
        r"arn:aws[a-z-]*:dynamodb:[a-z0-9-]+:[0-9]{12}:table/[A-Za-z0-9_.-]{3,255}/stream/[0-9T:.-]+",
        "must be the ARN of a table's stream: arn:aws:dynamodb:<region>:<account>:table/<name>/stream/<time>",
    ),
]
"""`LatestStreamArn` of https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_TableDescription.html"""
Address = Annotated[str, _text(r"[^@\s]+@[^@\s]+\.[^@\s]+", "must be an e-mail address")]
Issuer = Annotated[
    str,
    _text(
        r"https://[^\s/?#@]+(/[^\s?#]*)?",
        "must be an address with https and without query and fragment, exactly as the tokens' `iss` has it",
    ),
]
"""API Gateway compares it with a token's `iss` as a text: a slash at the end belongs to it where the tokens have one, and only there.
What an issuer is: https://openid.net/specs/openid-connect-discovery-1_0.html#IssuerDiscovery"""
Audience = Annotated[str, _text(r"\S+", "must not be empty, and have no white space")]
Image = Annotated[
    str,
    _text(
        r"[a-z0-9][^\s@]*(:[\w][\w.-]{0,127}|@sha256:[0-9a-f]{64})",
        "must name an image in small letters with its tag or digest: <repository>:<tag> or <repository>@sha256:<64 hex digits>",
    ),
]
Repository = Annotated[str, _text(r"(https|oci)://[^\s]+", "must be an address that begins with https:// or oci://")]
ChartVersion = Annotated[str, _text(r"v?[0-9]+\.[0-9]+\.[0-9]+([-+][\w.-]+)?", "must be one version of three numbers, such as 1.2.3")]
Variable = Annotated[str, _text(r"GPUFLEET_[A-Z0-9_]+", "must be the name of a variable: GPUFLEET_ and capitals, digits and underscores")]

_LEAST_KUBERNETES: Final = 31


def _kubernetes(value: str) -> str:
    found = re.fullmatch(r"1\.([0-9]{2})", value)
    if found is None or int(found[1]) < _LEAST_KUBERNETES:
        raise ValueError(f"must be a version of Kubernetes from 1.{_LEAST_KUBERNETES} on, of two numbers, such as 1.36")
    return value


KubernetesVersion = Annotated[str, AfterValidator(_kubernetes)]


@cache
def _regions() -> frozenset[str]:
    session = Session()
    partitions = ("aws", "aws-cn", "aws-us-gov")
    return frozenset(name for one in partitions for name in session.get_available_regions("eks", partition_name=one))


def _region(value: str) -> str:
    if value not in _regions():
        raise ValueError("must be a region of AWS with EKS, such as us-east-1 (botocore, as installed, knows of none with this name)")
    return value


RegionName = Annotated[str, AfterValidator(_region)]


_PRIVATE: Final = tuple(map(IPv4Network, ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10")))
"""RFC 1918, and RFC 6598, which a VPC may have as well."""
_NOT_OUTSIDE: Final = (*_PRIVATE, *map(IPv4Network, ("127.0.0.0/8", "169.254.0.0/16", "224.0.0.0/3")))
"""Of these nobody comes from outside: private ones, a machine's own, a link's, multicast and what is kept for later."""


def _network(value: str) -> IPv4Network:
    try:
        if "/" in value:
            return IPv4Network(value)
    except ValueError as error:
        raise ValueError(f"must be a network of IPv4 whose address is its first, such as 10.0.0.0/16: {error}") from error
    raise ValueError("must be a network of IPv4 with the length of its prefix, such as 10.0.0.0/16")


def _private(value: str) -> str:
    found = _network(value)
    if not 16 <= found.prefixlen <= 20:
        raise ValueError("must be a network of /16 to /20, in which three zones have room")
    if not any(found.subnet_of(one) for one in _PRIVATE):
        raise ValueError(f"must be a private network: a part of {', '.join(map(str, _PRIVATE))}")
    return value


def _public(value: str) -> str:
    found = _network(value)
    if any(found.subnet_of(one) for one in _NOT_OUTSIDE):
        raise ValueError("must be a network of public addresses: nothing comes to an API server from outside with any other")
    return value


PrivateNetwork = Annotated[str, AfterValidator(_private)]
PublicNetwork = Annotated[str, AfterValidator(_public)]


_RESERVED_NAMESPACES: Final = ("default", "gpufleet", "kueue-system", "dcgm-exporter")
"""Kubernetes' own, the workers', and those of charts: what is made in a namespace of jobs would be theirs."""


def _namespace(value: str) -> str:
    if re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", value) is None:
        raise ValueError("must be 1 to 63 small letters, digits and hyphens, with no hyphen first or last")
    if value in _RESERVED_NAMESPACES or value.startswith("kube-"):
        raise ValueError(f"must not be {', '.join(_RESERVED_NAMESPACES)} or begin with kube-: jobs have namespaces of their own")
    return value


Namespace = Annotated[str, AfterValidator(_namespace)]


def _bucket(value: str) -> str:
    if (rule := bucket_rule(value)) is not None:
        raise ValueError(rule)
    return value


BucketName = Annotated[str, AfterValidator(_bucket)]


def architecture(instance_type: str) -> Architecture:
    """What the processors of a type of instance are, by its family's name: a `g` after the generation is Graviton, `-gb` NVIDIA's Grace.

    https://docs.aws.amazon.com/ec2/latest/instancetypes/instance-type-names.html
    """
    family = instance_type.partition(".")[0]
    found = re.match(r"([a-z]+)[0-9]+([a-z]*)", family)
    arm = found is not None and (found[1] == "a" or "g" in found[2])
    return "arm64" if arm or "-gb" in family else "x86_64"


def has_nvidia(instance_type: str) -> bool:
    """Whether a type of instance has GPUs of NVIDIA, by its family: `p` and `g`, but for g4ad, whose are AMD's.

    https://docs.aws.amazon.com/ec2/latest/instancetypes/ac.html
    """
    return re.match(r"(p|g|gr)[0-9]", instance_type) is not None and not instance_type.startswith("g4ad.")


def of_others(types: Iterable[str], wanted: Architecture, rule: str) -> Iterator[Problem]:
    """The types among `instance_types` that are of another architecture."""
    for number, one in enumerate(types):
        if architecture(one) != wanted:
            yield Problem(pointer=f"/instance_types/{number}", value=one, rule=rule)
