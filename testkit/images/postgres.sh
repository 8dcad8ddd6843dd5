#!/usr/bin/env bash
# Makes a Docker image of the PostgreSQL that is installed on this machine, for tests where no
# image can be pulled:
#
#   testkit/images/postgres.sh TAG
#
# The image has the programs and extensions of the newest /usr/lib/postgresql/*, every library
# that they need, time zones, the locale C.UTF-8, sh and coreutils. It is used like the official
# one (postgres-entrypoint.sh tells what is understood). The JIT compiler stays out: it would
# double the size, and tests do not use it. Nothing is written on this machine but the image.
set -euo pipefail
tag=${1:?usage: postgres.sh TAG}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

server=$(printf '%s\n' /usr/lib/postgresql/*/bin/postgres | sort -V | tail -1)
[[ -x $server ]] || {
  echo "postgres.sh: no server in /usr/lib/postgresql: install the distribution's package postgresql" >&2
  exit 1
}
lib=${server%/bin/postgres} # such as /usr/lib/postgresql/15
version=${lib##*/}

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT

# add copies files to the same place below the root. Links are followed: half of Debian's shared
# files are links into other packages.
add() { tar -C / -ch --exclude='llvmjit*' --exclude=bitcode --exclude=pgxs "${@#/}" | tar -C "$root" -x; }

# libraries lists every library that the given programs and libraries are linked with.
libraries() { ldd "$@" 2>/dev/null | awk '$2 == "=>" && $3 ~ /^\// {print $3} $1 ~ /^\// && NF == 2 {print $1}' | sort -u; }

tools=()
for name in sh locale cat chmod chown date echo env id kill ls mkdir mktemp rm sleep test true false head tail tr; do
  # Of a tool that the shell has built in there may be no file.
  path=$(type -P "$name") && tools+=("$path")
done
mapfile -t programs < <(find -L "$lib/bin" -type f)
mapfile -t modules < <(find "$lib/lib" -name '*.so' ! -name 'llvmjit*')
mapfile -t needed < <(libraries "${programs[@]}" "${modules[@]}" "${tools[@]}")

mkdir -p "$root"/{bin,etc,tmp,usr/bin,usr/local/bin,var/lib/postgresql/data,run/postgresql}
add "$lib" "/usr/share/postgresql/$version" /usr/share/zoneinfo /usr/lib/locale/C.utf8 "${tools[@]}" "${needed[@]}"
ln -sf ../run "$root/var/run"
[[ -e $root/bin/sh ]] || cp -L /bin/sh "$root/bin/sh" # /bin may be a link to /usr/bin
for program in "$lib"/bin/*; do ln -s "$program" "$root/usr/local/bin/"; done
install -m 755 "$here/postgres-entrypoint.sh" "$root/usr/local/bin/docker-entrypoint.sh"
printf 'root:x:0:0::/root:/bin/sh\npostgres:x:999:999::/var/lib/postgresql:/bin/sh\n' >"$root/etc/passwd"
printf 'root:x:0:\npostgres:x:999:\n' >"$root/etc/group"
chmod 1777 "$root/tmp"
chmod 0777 "$root/run/postgresql" "$root/var/lib/postgresql/data"

old=$(docker image inspect -f '{{.Id}}' "$tag" 2>/dev/null) || true
tar -C "$root" --owner=0 --group=0 -c . | docker import \
  -c 'ENTRYPOINT ["docker-entrypoint.sh"]' \
  -c 'CMD ["postgres"]' \
  -c 'USER 999:999' \
  -c 'ENV PATH=/usr/local/bin:/usr/bin:/bin PGDATA=/var/lib/postgresql/data LANG=C.UTF-8' \
  -c 'EXPOSE 5432' \
  - "$tag" >/dev/null
[[ -z $old ]] || docker image rm "$old" >/dev/null 2>&1 || true # unless a container still uses it
docker image inspect -f "$tag: PostgreSQL $version, {{.Size}} bytes" "$tag"
