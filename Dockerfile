# One image for every program: `python -m workers.api`, `python -m workers.dispatcher --region R`, `gpufleet bootstrap`, and so on.
#
#     docker build -t gpufleet .
#     docker build -t gpufleet:local --build-arg EXTRAS=local .    # with the AWS emulator and the simulated clusters, for docker-compose.yml
#
# It runs as nobody in particular (10001), on a root file system that may be read-only: it writes to /tmp, and to /state where that is mounted.
ARG PYTHON=3.11-slim

FROM python:${PYTHON} AS build
ARG EXTRAS=
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore PYTHONDONTWRITEBYTECODE=
WORKDIR /source
# Without pip of its own: nothing is installed later.
RUN python -m venv --without-pip /opt/gpufleet
COPY pyproject.toml constraints.txt README.md ./
COPY examples examples
COPY shared shared
COPY workers workers
RUN --mount=type=cache,target=/root/.cache/pip \
    pip --python /opt/gpufleet/bin/python install --no-compile --constraint constraints.txt ".${EXTRAS:+[$EXTRAS]}"
# What nothing here reads is a third of the size: headers and tests, and the schemas of Kubernetes but those that the policy reads.
COPY infra/containers/slim.py /slim.py
RUN /opt/gpufleet/bin/python /slim.py && /opt/gpufleet/bin/python -m compileall -q /opt/gpufleet/lib

FROM python:${PYTHON}
LABEL org.opencontainers.image.title="gpufleet" \
      org.opencontainers.image.description="Workers, API and command of gpufleet"
RUN pip uninstall --yes --quiet --root-user-action=ignore pip \
    && groupadd --gid 10001 gpufleet \
    && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /tmp --shell /usr/sbin/nologin gpufleet \
    && install --directory --owner=10001 --group=10001 --mode=0750 /state
COPY --from=build /opt/gpufleet /opt/gpufleet
ENV PATH=/opt/gpufleet/bin:$PATH \
    HOME=/tmp \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    GPUFLEET_PROBE_PORT=9108
USER 10001:10001
WORKDIR /tmp
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 CMD ["python", "-m", "workers.probe"]
CMD ["gpufleet", "--help"]
