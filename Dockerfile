# Built by "make image", which passes VERSION. Cross-builds run the compiler on the platform of the builder.
FROM --platform=$BUILDPLATFORM golang:1.26 AS build
WORKDIR /src

# The modules have a layer of their own, so that a change of the source does not download them again.
COPY go.mod go.sum ./
RUN go mod download

COPY . .
ARG VERSION=dev
ARG TARGETOS
ARG TARGETARCH
RUN CGO_ENABLED=0 GOOS=${TARGETOS} GOARCH=${TARGETARCH} \
    go build -trimpath -ldflags "-s -w -X main.version=${VERSION}" -o /out/warrantgate ./cmd/warrantgate

# No shell and no package manager: a static binary, certificate authorities and time zones.
FROM gcr.io/distroless/static:nonroot
ARG VERSION=dev
LABEL org.opencontainers.image.title="warrantgate" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /out/warrantgate /warrantgate
# By number, because runAsNonRoot cannot check a name.
USER 65532:65532
ENTRYPOINT ["/warrantgate"]
