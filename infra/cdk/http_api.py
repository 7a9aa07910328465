"""The HTTP API in front of the API's function: who calls is known by IAM, or by tokens; how often he may is bounded; each call is logged.

A route of an HTTP API has one authorizer. So callers with tokens have an API of their own, over the same function and the same paths; it is
there where an issuer is set. Whether the API is alive may be asked by anybody, five times a second in all.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from aws_cdk import Duration, RemovalPolicy
from aws_cdk import aws_apigatewayv2 as gateway
from aws_cdk import aws_apigatewayv2_authorizers as authorizers
from aws_cdk import aws_apigatewayv2_integrations as integrations
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from constructs import Construct

from infra.cdk.nag import acknowledge
from infra.cdk.settings import Api

OPEN: Final = ("/healthz", "/readyz", "/api/v1/health")
_OPEN_RATE: Final = 5
_ACCESS_LOG: Final = json.dumps(
    {
        "at": "$context.requestTime",
        "request_id": "$context.requestId",
        "route": "$context.routeKey",
        "path": "$context.path",
        "status": "$context.status",
        "milliseconds": "$context.responseLatency",
        "integration_error": "$context.integrationErrorMessage",
        "authorizer_error": "$context.authorizer.error",
        "caller": "$context.identity.userArn",
        "address": "$context.identity.sourceIp",
    }
)
"""Nothing of a body or a header. What there is: https://docs.aws.amazon.com/apigateway/latest/developerguide/http-api-logging-variables.html"""


class FleetApi(Construct):
    """One HTTP API: every path goes to the function, but for those under the prefixes of the functions `apart`.

    Callers are known by IAM or, with `tokens`, by those of the settings' issuer.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        name: str,
        function: lambda_.IFunction,
        apart: Mapping[str, lambda_.IFunction],
        settings: Api,
        tokens: bool,
        key: kms.IKey,
        retention_days: int,
        removal: RemovalPolicy,
    ) -> None:
        super().__init__(scope, construct_id)
        self.api = gateway.HttpApi(self, "Api", api_name=name, create_default_stage=False, description=f"{name}: the API of the fleet")
        self.integration = integrations.HttpLambdaIntegration("Function", function, timeout=Duration.seconds(29))
        known = _authorizer(settings, tokens=tokens)
        routes = [
            *self.api.add_routes(path="/", methods=[gateway.HttpMethod.ANY], integration=self.integration, authorizer=known),
            *self.api.add_routes(path="/{proxy+}", methods=[gateway.HttpMethod.ANY], integration=self.integration, authorizer=known),
        ]
        for number, (prefix, other) in enumerate(apart.items()):
            behind = integrations.HttpLambdaIntegration(f"Apart{number}", other, timeout=Duration.seconds(29))
            for path in (prefix, f"{prefix}/{{proxy+}}"):
                routes += self.api.add_routes(path=path, methods=[gateway.HttpMethod.ANY], integration=behind, authorizer=known)
        for path in OPEN:
            found = self.api.add_routes(path=path, methods=[gateway.HttpMethod.GET], integration=self.integration)
            acknowledge(found[0], "AwsSolutions-APIG4", "whether the API is alive may be asked by anybody, five times a second")
            routes += found
        self.stage = self._stage(settings, key, retention_days, removal)
        for route in routes:
            # The limits of a route name it, so it must be there before.
            self.stage.node.add_dependency(route)

    @property
    def url(self) -> str:
        """Its address, without a slash at the end."""
        return str(self.api.api_endpoint)

    def _stage(self, settings: Api, key: kms.IKey, retention_days: int, removal: RemovalPolicy) -> gateway.CfnStage:
        name = f"/aws/http-api/{self.api.http_api_name}"
        log_group = logs.CfnLogGroup(self, "Accesses", log_group_name=name, retention_in_days=retention_days, kms_key_id=key.key_arn)
        log_group.apply_removal_policy(removal)
        limit = {"ThrottlingRateLimit": _OPEN_RATE, "ThrottlingBurstLimit": _OPEN_RATE}
        return gateway.CfnStage(
            self,
            "Stage",
            api_id=self.api.api_id,
            stage_name="$default",
            auto_deploy=True,
            access_log_settings=gateway.CfnStage.AccessLogSettingsProperty(destination_arn=log_group.attr_arn, format=_ACCESS_LOG),
            default_route_settings=gateway.CfnStage.RouteSettingsProperty(
                throttling_rate_limit=settings.rate, throttling_burst_limit=settings.burst
            ),
            route_settings={f"GET {path}": limit for path in OPEN},
        )


def _authorizer(settings: Api, *, tokens: bool) -> gateway.IHttpRouteAuthorizer:
    if not tokens:
        return authorizers.HttpIamAuthorizer()
    assert settings.jwt is not None
    return authorizers.HttpJwtAuthorizer("Tokens", settings.jwt.issuer, jwt_audience=list(settings.jwt.audience))
