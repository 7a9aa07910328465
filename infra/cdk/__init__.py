"""The stacks of an installation on AWS. `python -m infra.cdk` synthesizes them; no account is needed for that."""

from infra.cdk.node import prefer_packaged_node

prefer_packaged_node()
