#!/usr/bin/env bash
# A tour of the GCO door: each of its 37 operations by curl, with a look at what it answers. `make api-tour` starts a fleet and runs it;
# against one that runs already (`gpufleet up`):
#
#     GPUFLEET_API=http://127.0.0.1:8080 AWS_ENDPOINT_URL=... docs/api-tour.sh
#
# It needs curl and python3; for the message on the queue, a python3 that has boto3 and the AWS_ variables that `gpufleet up` prints.
# GPUFLEET_KEY is sent where it is set. What it makes is called tour-... and is taken away again.
set -euo pipefail

API=${GPUFLEET_API:-http://127.0.0.1:8080}
NS=${TOUR_NAMESPACE:-gco-jobs}
RUN=$(date +%s)
OPERATIONS=0
FOLDER=$(mktemp -d)
trap 'rm -rf "$FOLDER"' EXIT

command -v curl >/dev/null || { echo "curl is missing" >&2; exit 2; }

# ask STATUS METHOD PATH [curl's arguments]: one request, whose status must be STATUS (several: 200|201). The body is kept in $FOLDER/body.
ask() {
  local expected=$1 method=$2 path=$3 status
  shift 3
  status=$(curl -sS --globoff -o "$FOLDER/body" -w '%{http_code}' -X "$method" ${GPUFLEET_KEY:+-H "Authorization: Bearer $GPUFLEET_KEY"} "$API$path" "$@")
  if [[ ! "$status" =~ ^($expected)$ ]]; then
    echo "FAILED  $method $path: $status instead of $expected" >&2
    cat "$FOLDER/body" >&2
    exit 1
  fi
}

# send STATUS METHOD PATH JSON [curl's arguments]: the same with a body.
send() {
  local expected=$1 method=$2 path=$3 body=$4
  shift 4
  ask "$expected" "$method" "$path" -H 'Content-Type: application/json' --data-binary "$body" "$@"
}

# see TEXT EXPRESSION: an expression of Python over the answer `a` that must hold. The first one after a request counts its operation.
see() {
  python3 - "$FOLDER/body" "$1" "$2" <<'PY'
import json, sys
with open(sys.argv[1]) as body:
    a = json.load(body)
if not eval(sys.argv[3]):
    sys.exit(f"FAILED  {sys.argv[2]}: {sys.argv[3]} does not hold of {json.dumps(a)[:2000]}")
PY
  OPERATIONS=$((OPERATIONS + 1))
  printf '%2d  %s\n' "$OPERATIONS" "$1"
}

# value EXPRESSION: something out of the answer.
value() {
  python3 -c 'import json, sys; a = json.load(open(sys.argv[1])); print(eval(sys.argv[2]))' "$FOLDER/body" "$1"
}

# until EXPRESSION METHOD PATH: ask again until something holds of the answer, for half a minute.
until_true() {
  local expression=$1 path=$2
  for _ in $(seq 150); do
    ask 200 GET "$path"
    [[ $(value "$expression") == True ]] && return
    sleep 0.2
  done
  echo "FAILED  $path: $expression did not come true" >&2
  exit 1
}

# job NAME SECONDS [IMAGE]: a Job whose pod runs for so long on a simulated cluster.
job() {
  cat <<JSON
{"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "$1", "labels": {"tour": "$RUN"}}, "spec": {"backoffLimit": 0, "template": {
  "metadata": {"annotations": {"simulation.gpufleet.io/duration": "$2", "simulation.gpufleet.io/logs": "one\ntwo\nthree"}},
  "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "${3:-pytorch/pytorch:2.7.0}", "command": ["python", "-c", "print(1)"],
    "resources": {"limits": {"cpu": "500m", "memory": "256Mi"}}}]}}}}
JSON
}

echo "What it is, and whether it is well"
ask 200 GET /
see "GET /" 'a["service"] == "gpufleet" and a["status"] == "running" and "submit_job" in str(a["endpoints"])'
ask 200 GET /healthz
see "GET /healthz" 'a == {"status": "ok"}'
ask 200 GET /readyz
see "GET /readyz" 'a == {"status": "ready"}'
ask 200 GET /api/v1/health
see "GET /api/v1/health" 'a["status"] == "healthy" and a["region"]'
ask 200 GET /api/v1/status
see "GET /api/v1/status" 'a["validation_enabled"] is True and "'"$NS"'" in a["allowed_namespaces"]'
REGION=$(value 'a["region"]')
ask 200 GET /api/v1/policy
see "GET /api/v1/policy" 'a["policy"]["manifest_caps"]["max_gpu_count"] >= 0 and a["cluster_enforcement"]["'"$NS"'"]["status"] == "ok"'

echo "Manifests"
send 200 POST /api/v1/manifests/validate "{\"manifests\": [$(job "tour-$RUN" 1), {\"kind\": \"Job\"}]}"
see "POST /api/v1/manifests/validate" 'a["valid"] is False and [r["valid"] for r in a["results"]] == [True, False]'
send 200 POST /api/v1/manifests "{\"dry_run\": true, \"manifests\": [$(job "tour-$RUN" 1)]}"
CONFIG='{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "tour-'$RUN'"}, "data": {"lr": "0.1"}}'
send 200 POST /api/v1/manifests "{\"namespace\": \"$NS\", \"manifests\": [$CONFIG, $(job "tour-$RUN" 1), $(job "tour-long-$RUN" 600)]}"
see "POST /api/v1/manifests" 'a["success"] and a["summary"]["created"] == 3'
ask 200 GET "/api/v1/manifests/$NS/tour-$RUN?api_version=v1&kind=ConfigMap"
see "GET /api/v1/manifests/{namespace}/{name}" 'a["resource"]["exists"] and a["resource"]["data"] == {"lr": "0.1"}'
ask 200 DELETE "/api/v1/manifests/$NS/tour-$RUN?api_version=v1&kind=ConfigMap"
see "DELETE /api/v1/manifests/{namespace}/{name}" 'a["success"] and a["resource"]["status"] == "deleted"'
ask 404 GET "/api/v1/manifests/$NS/tour-$RUN?api_version=v1&kind=ConfigMap"

echo "Jobs of the cluster"
until_true 'a["computed_status"] == "running"' "/api/v1/jobs/$NS/tour-long-$RUN"
UID_LONG=$(value 'a["metadata"]["uid"]')
see "GET /api/v1/jobs/{namespace}/{name}" 'a["scheduling"]["node_name"] and a["status"]["active"] == 1'
ask 200 GET "/api/v1/jobs?namespace=$NS&label_selector=tour%3D$RUN&sort=name:asc&limit=1"
see "GET /api/v1/jobs" 'a["total"] == 2 and a["count"] == 1 and a["has_more"] and a["jobs"][0]["metadata"]["name"] == "tour-'"$RUN"'"'
ask 200 GET "/api/v1/jobs/$NS/tour-long-$RUN/events"
see "GET /api/v1/jobs/{namespace}/{name}/events" '"SuccessfulCreate" in [e["reason"] for e in a["events"]]'
ask 200 GET "/api/v1/jobs/$NS/tour-long-$RUN/pods"
see "GET /api/v1/jobs/{namespace}/{name}/pods" 'a["count"] == 1 and a["pods"][0]["status"]["phase"] == "Running" and a["pods"][0]["node"]["instance_type"]'
POD=$(value 'a["pods"][0]["metadata"]["name"]')
ask 200 GET "/api/v1/jobs/$NS/tour-long-$RUN/metrics"
see "GET /api/v1/jobs/{namespace}/{name}/metrics" 'a["available"] and a["summary"]["pod_count"] == 1'
until_true 'a["computed_status"] == "succeeded"' "/api/v1/jobs/$NS/tour-$RUN"
ask 200 GET "/api/v1/jobs/$NS/tour-$RUN/logs?tail=2"
see "GET /api/v1/jobs/{namespace}/{name}/logs" 'a["logs"] == "two\nthree\n" and a["container"] == "main"'
curl -sSN ${GPUFLEET_KEY:+-H "Authorization: Bearer $GPUFLEET_KEY"} "$API/api/v1/jobs/$NS/tour-$RUN/logs?follow=true" >"$FOLDER/events"
[[ $(grep -c '^data: .*"line"' "$FOLDER/events") == 3 ]] && grep -q '^event: end' "$FOLDER/events" || { cat "$FOLDER/events" >&2; exit 1; }
ask 200 GET "/api/v1/jobs/$NS/tour-long-$RUN/pods/$POD/logs"
see "GET /api/v1/jobs/{namespace}/{name}/pods/{pod_name}/logs" 'a["pod_name"] == "'"$POD"'" and a["logs"].startswith("one\n")'
ask 409 POST "/api/v1/jobs/$NS/tour-long-$RUN/retry"
ask 201 POST "/api/v1/jobs/$NS/tour-$RUN/retry"
see "POST /api/v1/jobs/{namespace}/{name}/retry" 'a["success"] and a["new_job"].startswith("tour-'"$RUN"'-retry-")'
ask 409 DELETE "/api/v1/jobs/$NS/tour-long-$RUN?expected_uid=another"
ask 200 DELETE "/api/v1/jobs/$NS/tour-long-$RUN?expected_uid=$UID_LONG"
see "DELETE /api/v1/jobs/{namespace}/{name}" 'a["status"] == "deleted" and a["uid"] == "'"$UID_LONG"'"'
send 422 DELETE /api/v1/jobs '{}'
send 200 DELETE /api/v1/jobs "{\"namespace\": \"$NS\", \"label_selector\": \"tour=$RUN\", \"dry_run\": true}"
send 200 DELETE /api/v1/jobs "{\"namespace\": \"$NS\", \"label_selector\": \"tour=$RUN\"}"
see "DELETE /api/v1/jobs" 'a["total_matched"] >= 2 and a["deleted_count"] == a["total_matched"] and a["failed_count"] == 0'

echo "Templates"
FILLED=$(job '{{name}}' '{{seconds}}')
send 201 POST /api/v1/templates "{\"name\": \"tour-$RUN\", \"description\": \"of the tour\", \"manifest\": $FILLED, \"parameters\": {\"seconds\": 1}}"
see "POST /api/v1/templates" 'a["template"]["name"] == "tour-'"$RUN"'" and a["template"]["parameters"] == {"seconds": 1}'
ask 200 GET /api/v1/templates
see "GET /api/v1/templates" '"tour-'"$RUN"'" in [t["name"] for t in a["templates"]]'
ask 200 GET "/api/v1/templates/tour-$RUN"
see "GET /api/v1/templates/{name}" 'a["template"]["description"] == "of the tour"'
send 422 POST "/api/v1/jobs/from-template/tour-$RUN" '{"name": "tour-made", "parameters": {"minutes": 1}}'
send 201 POST "/api/v1/jobs/from-template/tour-$RUN" "{\"name\": \"tour-made-$RUN\", \"namespace\": \"$NS\", \"parameters\": {\"seconds\": 2}}"
see "POST /api/v1/jobs/from-template/{name}" 'a["success"] and a["job_name"] == "tour-made-'"$RUN"'" and a["parameters_applied"]["seconds"] == 2'
ask 200 DELETE "/api/v1/templates/tour-$RUN"
see "DELETE /api/v1/templates/{name}" '"tour-'"$RUN"'" in a["message"]'
ask 404 GET "/api/v1/templates/tour-$RUN"

echo "Webhooks"
send 201 POST /api/v1/webhooks "{\"url\": \"https://1.1.1.1/hook\", \"events\": [\"job.completed\"], \"namespace\": \"$NS\", \"secret\": \"a secret of the tour\"}"
see "POST /api/v1/webhooks" 'a["webhook"]["id"] and "secret" not in a["webhook"]'
WEBHOOK=$(value 'a["webhook"]["id"]')
ask 200 GET "/api/v1/webhooks?namespace=$NS"
see "GET /api/v1/webhooks" '"'"$WEBHOOK"'" in [w["id"] for w in a["webhooks"]] and "a secret" not in str(a)'
ask 200 DELETE "/api/v1/webhooks/$WEBHOOK"
see "DELETE /api/v1/webhooks/{webhook_id}" 'a["message"]'
send 400 POST /api/v1/webhooks '{"url": "http://169.254.169.254/", "events": ["job.failed"]}'

echo "The job queue"
REQUEST="{\"manifest\": $(job "tour-queued-$RUN" 1), \"target_region\": \"$REGION\", \"namespace\": \"$NS\", \"priority\": 10}"
send 201 POST /api/v1/queue/jobs "$REQUEST" -H "Idempotency-Key: tour-$RUN"
see "POST /api/v1/queue/jobs" 'a["job"]["status"] == "queued" and a["job"]["priority"] == 10'
JOB=$(value 'a["job"]["job_id"]')
send 200 POST /api/v1/queue/jobs "$REQUEST" -H "Idempotency-Key: tour-$RUN"
[[ $(value 'a["job"]["job_id"]') == "$JOB" ]]
send 409 POST /api/v1/queue/jobs "${REQUEST/\"priority\": 10/\"priority\": 11}" -H "Idempotency-Key: tour-$RUN"
until_true 'a["job"]["status"] == "succeeded"' "/api/v1/queue/jobs/$JOB"
see "GET /api/v1/queue/jobs/{job_id}" '[h["status"] for h in a["job"]["status_history"]][-1] == "succeeded" and a["job"]["k8s_job_uid"]'
ask 200 GET "/api/v1/queue/jobs?namespace=$NS&status=completed&limit=5"
see "GET /api/v1/queue/jobs" '"'"$JOB"'" in [j["job_id"] for j in a["jobs"]]'
ask 409 DELETE "/api/v1/queue/jobs/$JOB"
send 201 POST /api/v1/queue/jobs "{\"manifest\": $(job "tour-cancelled-$RUN" 600), \"target_region\": \"$REGION\", \"namespace\": \"$NS\"}"
CANCELLED=$(value 'a["job"]["job_id"]')
ask 200 DELETE "/api/v1/queue/jobs/$CANCELLED?reason=the+tour+goes+on"
see "DELETE /api/v1/queue/jobs/{job_id}" '"'"$CANCELLED"'" in a["message"]'
until_true 'a["job"]["status"] == "cancelled"' "/api/v1/queue/jobs/$CANCELLED"
ask 200 GET /api/v1/queue/stats
see "GET /api/v1/queue/stats" 'a["summary"]["complete"] and a["by_region"]["'"$REGION"'"]["succeeded"] >= 1'
ask 200 POST '/api/v1/queue/poll?limit=1'
see "POST /api/v1/queue/poll" 'a["region"] == "'"$REGION"'" and a["jobs_polled"] <= 1'

echo "Cost"
ask 200 GET /api/v1/cost/status
see "GET /api/v1/cost/status" 'a["bucket"] and a["report_interval_minutes"] >= 5'
for _ in $(seq 60); do # a fleet that has just begun knows of no usage yet, and says so by 503
  send '201|503' POST /api/v1/cost/reports '{"window_hours": 1, "include_rows": true}'
  [[ $(value '"report" in a') == True ]] && break
  sleep 0.5
done
see "POST /api/v1/cost/reports" 'a["report"]["s3_key"].startswith("adhoc/") and len(a["rows"]) == a["report"]["row_count"]'
REPORT=$(value 'a["report"]["s3_key"]')
ask 200 GET '/api/v1/cost/reports?adhoc=true&limit=5'
see "GET /api/v1/cost/reports" '"'"$REPORT"'" in [r["key"] for r in a["reports"]]'

[[ $OPERATIONS == 37 ]] || { echo "$OPERATIONS of 37 operations" >&2; exit 1; }
echo "37 of 37 operations"

echo "One bad manifest, four ways in: the same answer"
BAD=$(job "tour-bad-$RUN" 1 evil/image:1)
# faults: pointer within the manifest, and rule, of every problem of the last answer; `lead` is the pointer of the manifest itself.
faults() {
  python3 - "$FOLDER/body" "$1" "$2" <<'PY'
import json, sys
with open(sys.argv[1]) as body:
    a = json.load(body)
problems = eval(sys.argv[3])
print(json.dumps(sorted([one["pointer"].removeprefix(sys.argv[2]), one.get("msg") or one.get("rule")] for one in problems)))
PY
}
send 422 POST /api/v1/queue/jobs "{\"manifest\": $BAD, \"target_region\": \"$REGION\"}"
QUEUE_API=$(faults /manifest 'a["detail"]')
send 422 POST /api/v1/manifests "{\"manifests\": [$BAD]}"
MANIFESTS=$(faults /manifests/0 'a["detail"]')
send 422 POST /api/v1/templates "{\"name\": \"tour-bad-$RUN\", \"manifest\": $BAD}"
TEMPLATE=$(faults /manifest 'a["detail"]')
if [[ -z ${AWS_ENDPOINT_URL:-} ]]; then
  echo "FAILED  the queue: AWS_ENDPOINT_URL is not set" >&2
  exit 1
fi
MESSAGE=$(python3 - "{\"manifest\": $BAD, \"target_region\": \"$REGION\", \"reference\": \"tour-$RUN\"}" <<'PY'
import sys, boto3
sqs = boto3.client("sqs")
url = sqs.get_queue_url(QueueName="gpufleet-submissions")["QueueUrl"]
print(sqs.send_message(QueueUrl=url, MessageBody=sys.argv[1])["MessageId"])
PY
)
until_true '"'"$MESSAGE"'" in [one["id"] for one in a["rejections"]]' "/fleet/v1/rejections?limit=20"
ask 200 GET "/fleet/v1/rejections/$MESSAGE"
QUEUE=$(faults /manifest 'a["problems"]')
[[ "$QUEUE" == "$QUEUE_API" && "$QUEUE" == "$MANIFESTS" && "$QUEUE" == "$TEMPLATE" ]] || {
  printf 'FAILED\n%s\n%s\n%s\n%s\n' "$QUEUE" "$QUEUE_API" "$MANIFESTS" "$TEMPLATE" >&2
  exit 1
}
echo "  $QUEUE"

send 200 DELETE /api/v1/jobs "{\"namespace\": \"$NS\", \"label_selector\": \"tour=$RUN\"}"
echo "done"
