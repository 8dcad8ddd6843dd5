# Runs a server that must not outlive its starter, who holds the other end of standard input.
# Arguments: the signal that stops it, a folder to remove at the end (or ""), the command.
signal=$1 remove=$2
shift 2
exec 3<&0
"$@" 3<&- </dev/null &
server=$!
exec >/dev/null 2>&1 # the starter may be gone: a word to its pipe would kill this shell
# Until it is gone: a signal that comes before the server has its handlers would be lost.
{ read -r _ <&3; while kill -s "$signal" "$server"; do sleep 1; done; } &
watch=$!
wait "$server"
code=$?
kill "$watch"
[ -z "$remove" ] || rm -rf "$remove"
exit "$code"
