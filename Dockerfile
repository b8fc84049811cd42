# The image is what hack/image/assemble.py puts into a folder: Python, the controller, git, ssh and helm, without a shell, a
# package manager, a login or a root user. tests/integration/test_image.py carries out the same steps without a container
# runtime.
#
#   docker build -t rukpak:0.1.0 --build-arg BASE=python:3.11.7-slim-bookworm@sha256:… .
#
# BASE only builds; what of it ends in the image are Python, git, ssh and their libraries. Given with its digest, the image
# can be built again bit by bit for as long as Debian serves the same git and ssh (a mirror of snapshot.debian.org always
# does): SOURCE_DATE_EPOCH and --output rewrite-timestamp=true do the rest.
ARG BASE=python:3.11.7-slim-bookworm

FROM ${BASE} AS build
RUN apt-get update \
 && apt-get install --yes --no-install-recommends ca-certificates git openssh-client util-linux \
 && rm -rf /var/lib/apt/lists/*
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY api/ api/
COPY controller/ controller/
COPY hack/image/ hack/image/
RUN ["python", "hack/image/assemble.py", "/image"]

FROM scratch
COPY --from=build /image/ /
ENV PATH=/usr/local/bin:/usr/bin \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt
USER 65532:65532
EXPOSE 8081 8443
ENTRYPOINT ["python", "-m", "controller"]
CMD ["run"]
