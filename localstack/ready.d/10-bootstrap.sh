#!/bin/sh
# Makes the table, the queues and the bucket once the AWS emulator answers; running it again changes nothing.
# LocalStack and ministack both run what they find in /etc/localstack/init/ready.d. `gpufleet` must be on the path there.
set -eu
export AWS_ACCESS_KEY_ID="${AWS_ACCESS_KEY_ID:-test}" AWS_SECRET_ACCESS_KEY="${AWS_SECRET_ACCESS_KEY:-test}"
exec gpufleet bootstrap --endpoint-url "${GPUFLEET_BOOTSTRAP_ENDPOINT:-http://127.0.0.1:${GATEWAY_PORT:-4566}}"
