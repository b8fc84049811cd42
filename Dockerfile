# The image is what hack/image/assemble.py puts into a folder: Python, the controller, git, ssh, gpgv and helm, without a
# shell, a package manager, a login or a root user. tests/integration/test_image.py carries out the same steps without a container
# runtime.
#
#   docker build -t rukpak:0.1.0 --build-arg BASE=registry.example.com/python:3.14-slim-bookworm@sha256:… .
#
# GO and BASE only build; what of BASE ends in the image are Python, git, ssh and their libraries. Helm is compiled from its
# Go module, which Go's checksum database verifies: that needs no release server and works on every architecture. Given
# with their digests, the image can be built again bit by bit for as long as Debian serves the same git and ssh (a mirror of snapshot.debian.org always
# does): SOURCE_DATE_EPOCH and --output rewrite-timestamp=true do the rest.
# Renewed by hack/lock --base, with its copies in config/plugins and in what `rukpak plugin new` writes.
ARG BASE=python:3.14.10-slim-bookworm

ARG GO=golang:1.26-bookworm

FROM ${GO} AS helm
RUN CGO_ENABLED=0 GOBIN=/programs go install -trimpath \
      -ldflags "-s -w -X helm.sh/helm/v4/internal/version.version=v4.3.1" helm.sh/helm/v4/cmd/helm@v4.3.1

FROM ${BASE} AS build
RUN apt-get update \
 && apt-get install --yes --no-install-recommends ca-certificates git gpgv openssh-client util-linux \
 && rm -rf /var/lib/apt/lists/*
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY api/ api/
COPY controller/ controller/
COPY rukpak/ rukpak/
COPY config/install.yaml config/install-restricted.yaml config/
COPY hack/image/ hack/image/
COPY hack/packaging/metadata.py hack/packaging/
COPY hack/requirements.txt hack/
COPY --from=helm /programs/helm /programs/helm
RUN ["python", "hack/image/assemble.py", "/image", "/programs/helm"]

FROM scratch
COPY --from=build /image/ /
ENV PATH=/usr/local/bin:/usr/bin \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt
USER 65532:65532
EXPOSE 8081 8443
ENTRYPOINT ["python", "-m", "rukpak"]
CMD ["run"]
