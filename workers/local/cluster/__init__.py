"""A Kubernetes cluster of the imagination, true on the wire: real clients talk to it, and its time and chance come from outside.

`SimulatedCluster` is the cluster without any input or output of its own. `serve` puts it on HTTP for the embedded fleet and for tests
with the real client; `InProcessTransport` puts the fleet's client on it without a socket, for a simulation under virtual time.
"""

from workers.local.cluster.answers import Response, Stream
from workers.local.cluster.cluster import SimulatedCluster, Started
from workers.local.cluster.driver import Driver
from workers.local.cluster.faults import Fault, Faults
from workers.local.cluster.in_process import InProcessTransport
from workers.local.cluster.kinds import Kind
from workers.local.cluster.kubeconfig import write_kubeconfig
from workers.local.cluster.node_shapes import NodeShape, parse_shapes
from workers.local.cluster.server import ClusterServer, serve
from workers.local.cluster.world import Pace

__all__ = [
    "ClusterServer",
    "Driver",
    "Fault",
    "Faults",
    "InProcessTransport",
    "Kind",
    "NodeShape",
    "Pace",
    "Response",
    "SimulatedCluster",
    "Started",
    "Stream",
    "parse_shapes",
    "serve",
    "write_kubeconfig",
]
