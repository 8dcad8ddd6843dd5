#!/bin/sh
# The entry point of the image that postgres.sh makes. It understands what the official image
# does of the same settings: POSTGRES_PASSWORD, POSTGRES_HOST_AUTH_METHOD, POSTGRES_INITDB_ARGS,
# PGDATA, and server settings as arguments (-c name=value). With any other command it runs that.
set -eu
case "${1:-postgres}" in
  postgres) [ $# -eq 0 ] || shift ;;
  -*) ;;
  *) exec "$@" ;;
esac

if [ ! -s "$PGDATA/PG_VERSION" ]; then
  how=${POSTGRES_HOST_AUTH_METHOD:-scram-sha-256}
  if [ -z "${POSTGRES_PASSWORD:-}" ] && [ "$how" != trust ]; then
    echo "set POSTGRES_PASSWORD, or POSTGRES_HOST_AUTH_METHOD=trust" >&2
    exit 1
  fi
  password=$(mktemp)
  printf '%s\n' "${POSTGRES_PASSWORD:-unused}" >"$password"
  # shellcheck disable=SC2086 # several arguments in one variable
  initdb -D "$PGDATA" -U postgres -E UTF8 --locale=C.UTF-8 --no-sync --no-instructions \
    -A trust --pwfile="$password" ${POSTGRES_INITDB_ARGS:-}
  rm "$password"
  echo "host all all all $how" >>"$PGDATA/pg_hba.conf"
fi
exec postgres -D "$PGDATA" -c listen_addresses='*' "$@"
