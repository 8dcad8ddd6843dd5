#!/usr/bin/env bash
# Makes a Docker image of nats-server from its static binary (make bin/nats-server), for tests
# where no image can be pulled:
#
#   testkit/images/nats-server.sh BINARY TAG
#
# There is nothing in it but the binary. It runs as a user without rights, so JetStream's folder
# has to be mounted: --tmpfs /data:uid=65532,mode=0700, or a volume, and -sd /data.
set -euo pipefail
binary=${1:?usage: nats-server.sh BINARY TAG}
tag=${2:?usage: nats-server.sh BINARY TAG}
if readelf -l "$binary" 2>/dev/null | grep -q INTERP; then
  echo "nats-server.sh: $binary is not static; build it with CGO_ENABLED=0" >&2
  exit 1
fi

old=$(docker image inspect -f '{{.Id}}' "$tag" 2>/dev/null) || true
tar -C "$(dirname "$binary")" --owner=0 --group=0 --mode=0755 -c "$(basename "$binary")" | docker import \
  -c "ENTRYPOINT [\"/$(basename "$binary")\"]" \
  -c 'USER 65532:65532' \
  -c 'EXPOSE 4222' \
  - "$tag" >/dev/null
[[ -z $old ]] || docker image rm "$old" >/dev/null 2>&1 || true # unless a container still uses it
docker image inspect -f "$tag: $("$binary" --version), {{.Size}} bytes" "$tag"
