"""The index that `/` answers with: every operation of this door, by a short name. A test holds it to the description of the API."""

from __future__ import annotations

from typing import Final

ENDPOINTS: Final = {
    "health": "GET /api/v1/health",
    "status": "GET /api/v1/status",
    "liveness": "GET /healthz",
    "readiness": "GET /readyz",
    "documentation": "GET /docs",
    "policy": "GET /api/v1/policy",
    "submit_manifests": "POST /api/v1/manifests",
    "validate_manifests": "POST /api/v1/manifests/validate",
    "get_resource": "GET /api/v1/manifests/{namespace}/{name}",
    "delete_resource": "DELETE /api/v1/manifests/{namespace}/{name}",
    "list_cluster_jobs": "GET /api/v1/jobs",
    "bulk_delete_jobs": "DELETE /api/v1/jobs",
    "get_cluster_job": "GET /api/v1/jobs/{namespace}/{name}",
    "delete_cluster_job": "DELETE /api/v1/jobs/{namespace}/{name}",
    "job_events": "GET /api/v1/jobs/{namespace}/{name}/events",
    "job_logs": "GET /api/v1/jobs/{namespace}/{name}/logs",
    "job_metrics": "GET /api/v1/jobs/{namespace}/{name}/metrics",
    "job_pods": "GET /api/v1/jobs/{namespace}/{name}/pods",
    "pod_logs": "GET /api/v1/jobs/{namespace}/{name}/pods/{pod_name}/logs",
    "retry_job": "POST /api/v1/jobs/{namespace}/{name}/retry",
    "list_templates": "GET /api/v1/templates",
    "create_template": "POST /api/v1/templates",
    "get_template": "GET /api/v1/templates/{name}",
    "update_template": "PUT /api/v1/templates/{name}",
    "delete_template": "DELETE /api/v1/templates/{name}",
    "create_job_from_template": "POST /api/v1/jobs/from-template/{name}",
    "list_webhooks": "GET /api/v1/webhooks",
    "create_webhook": "POST /api/v1/webhooks",
    "delete_webhook": "DELETE /api/v1/webhooks/{webhook_id}",
    "submit_job": "POST /api/v1/queue/jobs",
    "list_jobs": "GET /api/v1/queue/jobs",
    "get_job": "GET /api/v1/queue/jobs/{job_id}",
    "cancel_job": "DELETE /api/v1/queue/jobs/{job_id}",
    "queue_stats": "GET /api/v1/queue/stats",
    "poll_queue": "POST /api/v1/queue/poll",
    "cost_status": "GET /api/v1/cost/status",
    "list_cost_reports": "GET /api/v1/cost/reports",
    "generate_cost_report": "POST /api/v1/cost/reports",
}
"""Method and path by name."""
