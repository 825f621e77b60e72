# The image of the release, built by a container engine: "make image" passes VERSION and REVISION. A test of .ci/oci compares both.
#
# Go has the minor version of go.mod. No digest: releases are built without this file, and so without a base image.
FROM --platform=$BUILDPLATFORM docker.io/library/golang:1.26 AS build
WORKDIR /src
COPY . .
ARG GOPROXY
# The CA certificates come from a Go module, not from the base image.
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    cd .ci/oci && go run -mod=readonly . certificates >/ca-certificates.crt
ARG VERSION=dev
ARG REVISION
ARG TARGETOS
ARG TARGETARCH
# The flags are those of "make build".
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH \
    go build -trimpath -buildvcs=false -ldflags "-s -w -X main.version=$VERSION -X main.revision=$REVISION" -o /warrantgate ./cmd/warrantgate

FROM scratch
ARG VERSION=dev
ARG REVISION
LABEL org.opencontainers.image.title="warrantgate" \
      org.opencontainers.image.description="Admission webhooks that keep the identities right that control planes act as" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.revision="$REVISION" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build --chmod=0644 /ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build --chmod=0755 /warrantgate /warrantgate
# By number, because runAsNonRoot cannot check a name.
USER 65532:65532
ENTRYPOINT ["/warrantgate"]
