"""Objects that run nothing: Services inside the cluster, and ConfigMaps."""

from __future__ import annotations

import re
from base64 import b64decode
from typing import Final

from shared.clusters.label_grammar import is_dns_subdomain
from shared.policy.fields import Field
from shared.policy.metadata import SERVICE_RULE, SUBDOMAIN_RULE, check_labels, check_name, is_service_name
from shared.policy.resources import Demand
from shared.policy.settings import Policy

_OUTWARD: Final = (
    "allocateLoadBalancerNodePorts",
    "externalIPs",
    "externalName",
    "externalTrafficPolicy",
    "healthCheckNodePort",
    "loadBalancerClass",
    "loadBalancerIP",
    "loadBalancerSourceRanges",
)
_DATA_KEY: Final = re.compile(r"[-._a-zA-Z0-9]{1,253}")
_MAX_DATA_BYTES: Final = 1024 * 1024
"""`MaxSecretSize` of Kubernetes, which bounds a ConfigMap's data too."""


def check_service(service: Field, _: Policy) -> Demand:
    """Check a Service, which is only reached from inside the cluster."""
    check_name(service["metadata"], is_service_name, SERVICE_RULE)
    spec = service["spec"]
    if spec["type"].value not in (None, "", "ClusterIP"):
        spec["type"].refuse("must be ClusterIP: a Service that is reached from outside the cluster is not permitted")
    for name in _OUTWARD:
        if spec[name].value not in (None, "", [], False):
            spec[name].refuse("must be left out: it belongs to a Service that is reached from outside the cluster")
    for port in spec["ports"].elements():
        if port["nodePort"].value not in (None, 0):
            port["nodePort"].refuse("must be left out: ports of the node are not permitted")
    if not any(True for _ in spec["ports"].elements()) and spec["clusterIP"].value != "None":
        spec["ports"].refuse('must hold at least one port, unless the Service is headless (clusterIP: "None")')
    check_labels(spec["selector"])
    return Demand()


def check_config_map(config: Field, _: Policy) -> Demand:
    """Check a ConfigMap."""
    check_name(config["metadata"], is_dns_subdomain, SUBDOMAIN_RULE)
    size = 0
    for part in ("data", "binaryData"):
        for key, value in config[part].items():
            if _DATA_KEY.fullmatch(key) is None or key in (".", "..") or key.startswith(".."):
                value.refuse("key must be at most 253 of letters, digits, '-', '_' and '.', not beginning with '..'")
            if part == "binaryData":
                _check_binary(value, also=config["data"][key])
            size += len(value.text.encode()) if part == "data" else len(value.text) * 3 // 4
    if size > _MAX_DATA_BYTES:
        config.refuse(f"must hold at most {_MAX_DATA_BYTES} bytes of data, and holds {size}")
    return Demand()


def _check_binary(value: Field, *, also: Field) -> None:
    if also.given:
        value.refuse("key must not stand in both data and binaryData")
    try:
        b64decode(value.text, validate=True)
    except ValueError:
        value.refuse("must be base64")
