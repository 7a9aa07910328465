"""A Kubernetes cluster of the imagination, true on the wire: real clients talk to it, and its time and chance come from outside.

`SimulatedCluster` is the cluster without any input or output of its own; the embedded fleet serves it over HTTP (`server`), a
simulation calls it directly under virtual time.
"""

from workers.local.cluster.answers import Response, Stream
from workers.local.cluster.cluster import SimulatedCluster, Started
from workers.local.cluster.kinds import Kind
from workers.local.cluster.node_shapes import NodeShape, parse_shapes
from workers.local.cluster.world import Pace

__all__ = ["Kind", "NodeShape", "Pace", "Response", "SimulatedCluster", "Started", "Stream", "parse_shapes"]
