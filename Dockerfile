# Built by "make image", which passes VERSION and REVISION. Cross-builds run the compiler on the platform of the builder.
#
# The binary is the same, byte for byte, as that of "make build" with the same Go. For the same image, too, name the bases by
# digest, as in --build-arg BASE=gcr.io/distroless/static@sha256:… Which digests are current can be told by their registries only.
ARG BUILDER=golang:1.26
ARG BASE=gcr.io/distroless/static:nonroot

FROM --platform=$BUILDPLATFORM ${BUILDER} AS build
WORKDIR /src

# The modules have a layer of their own, so that a change of the source does not download them again.
COPY go.mod go.sum ./
RUN go mod download

COPY . .
ARG VERSION=dev
ARG REVISION=
ARG TARGETOS
ARG TARGETARCH
RUN CGO_ENABLED=0 GOOS=${TARGETOS} GOARCH=${TARGETARCH} \
    go build -trimpath -buildvcs=false -ldflags "-s -w -X main.version=${VERSION} -X main.revision=${REVISION}" \
    -o /out/warrantgate ./cmd/warrantgate

# No shell and no package manager: a static binary, certificate authorities and time zones.
FROM ${BASE}
ARG VERSION=dev
ARG REVISION=
# No date of the build, which would make each image another one.
LABEL org.opencontainers.image.title="warrantgate" \
      org.opencontainers.image.description="Admission webhooks that keep the identities right that control planes act as" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /out/warrantgate /warrantgate
# By number, because runAsNonRoot cannot check a name.
USER 65532:65532
ENTRYPOINT ["/warrantgate"]
