# capacity-sidecar as an image: Python, the packages of the lock, and nothing else.
#
#   docker build --tag capacity-sidecar .
#   podman build --format docker --tag capacity-sidecar .
#
# Any base does that has Python from 3.10 on with its venv module, and a C library of
# the GNU kind: the official Python images, Debian with python3 and python3-venv.
ARG BASE=python:3.13-slim

FROM ${BASE} AS build
# base leaves Google's client out: a third of the image.
ARG EXTRA=gcp
WORKDIR /build
COPY packaging/requirements packaging/requirements
RUN python3 -m venv /venv \
 && install="/venv/bin/python -m pip install --no-cache-dir --no-compile" \
 && locked="--require-hashes --only-binary=:all: --requirement packaging/requirements" \
 && $install $locked/build.txt \
 && $install $locked/${EXTRA}.txt --target /packages
COPY pyproject.toml README.md LICENSE ./
COPY sidecar sidecar
RUN /venv/bin/python -m pip install --no-cache-dir --no-compile --no-index --no-deps \
    --no-build-isolation --target /packages .
COPY packaging/image packaging/image
RUN python3 packaging/image/assemble.py /packages /image

FROM scratch
ARG VERSION=0.1.0
ARG REVISION=
ARG CREATED=
ARG SOURCE=
LABEL org.opencontainers.image.title="capacity-sidecar" \
      org.opencontainers.image.description="Tells an autoscaler how many requests per second an LLM worker can sustain" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.created="${CREATED}" \
      org.opencontainers.image.source="${SOURCE}"
COPY --from=build /image /
ENV PATH=/usr/local/bin:/usr/bin \
    SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt \
    GRPC_DEFAULT_SSL_ROOTS_FILE_PATH=/etc/ssl/certs/ca-certificates.crt \
    SIDECAR_LISTEN=0.0.0.0:9846
USER 65532:65532
EXPOSE 9846
HEALTHCHECK --interval=30s --timeout=5s --start-period=30s \
    CMD ["/usr/bin/capacity-sidecar", "healthy"]
ENTRYPOINT ["/usr/bin/capacity-sidecar"]
CMD ["run"]
