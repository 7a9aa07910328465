"""The table: the shape that `gpufleet bootstrap` asks for (`shared.store.bootstrap`), encrypted, recoverable to any second of 35 days.

A table can't be restored in place, only as a new one, and without its stream, expiry, recovery and protection
(https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_RestoreTableToPointInTime.html). So the stack can go over to a table
that is there already; the one that it had leaves the stack and stays, where `removal` is `retain`.
"""

from __future__ import annotations

from typing import Any

from aws_cdk import RemovalPolicy
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_kms as kms
from constructs import Construct

from infra.cdk.settings import ExistingTable
from shared.store.bootstrap import EXPIRES, table_shape


class FleetTable(Construct):
    """The one table: made by the stack, or one that is there already, in the stack where it is imported.

    `made` is what has to be there before whoever uses the table; nothing of one that is there already.
    """

    def __init__(
        self, scope: Construct, construct_id: str, *, name: str, key: kms.IKey, removal: RemovalPolicy, existing: ExistingTable | None
    ) -> None:
        super().__init__(scope, construct_id)
        if existing is None:
            resource = self._resource(name, key, removal)
            self.name, self.stream_arn, self.made = str(resource.ref), str(resource.attr_stream_arn), [resource]
        else:
            if existing.imported:
                self._resource(name, key, removal)
            self.name, self.stream_arn, self.made = existing.name, existing.stream_arn, []

    def _resource(self, name: str, key: kms.IKey, removal: RemovalPolicy) -> dynamodb.CfnTable:
        shape = table_shape(name)
        resource = dynamodb.CfnTable(
            self,
            "Resource",
            table_name=shape["TableName"],
            billing_mode=shape["BillingMode"],
            key_schema=_key_schema(shape),
            attribute_definitions=[
                dynamodb.CfnTable.AttributeDefinitionProperty(attribute_name=one["AttributeName"], attribute_type=one["AttributeType"])
                for one in shape["AttributeDefinitions"]
            ],
            global_secondary_indexes=[_index(one) for one in shape["GlobalSecondaryIndexes"]],
            stream_specification=dynamodb.CfnTable.StreamSpecificationProperty(
                stream_view_type=shape["StreamSpecification"]["StreamViewType"]
            ),
            time_to_live_specification=dynamodb.CfnTable.TimeToLiveSpecificationProperty(attribute_name=EXPIRES, enabled=True),
            point_in_time_recovery_specification=dynamodb.CfnTable.PointInTimeRecoverySpecificationProperty(
                point_in_time_recovery_enabled=True
            ),
            sse_specification=dynamodb.CfnTable.SSESpecificationProperty(sse_enabled=True, sse_type="KMS", kms_master_key_id=key.key_arn),
            deletion_protection_enabled=removal is RemovalPolicy.RETAIN,
        )
        resource.apply_removal_policy(removal)
        return resource


def _key_schema(shape: dict[str, Any]) -> list[dynamodb.CfnTable.KeySchemaProperty]:
    return [dynamodb.CfnTable.KeySchemaProperty(attribute_name=one["AttributeName"], key_type=one["KeyType"]) for one in shape["KeySchema"]]


def _index(shape: dict[str, Any]) -> dynamodb.CfnTable.GlobalSecondaryIndexProperty:
    projection = shape["Projection"]
    return dynamodb.CfnTable.GlobalSecondaryIndexProperty(
        index_name=shape["IndexName"],
        key_schema=_key_schema(shape),
        projection=dynamodb.CfnTable.ProjectionProperty(
            projection_type=projection["ProjectionType"], non_key_attributes=projection.get("NonKeyAttributes")
        ),
    )
