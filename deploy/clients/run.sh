#!/bin/sh
# Runs the clients of this folder against a server with the demo model.
#
# Usage: run.sh [PATH-TO-qwen35-serve]
set -eu
here=$(cd "$(dirname "$0")" && pwd)
server=${1:-}
if [ -z "$server" ]; then
    (cd "$here/../.." && cargo build --release -q -p qwen35-serve)
    server=$here/../../target/release/qwen35-serve
fi
venv=${CLIENTS_VENV:-${TMPDIR:-/tmp}/qwen35-clients-venv}
if [ ! -x "$venv/bin/python" ]; then
    python3 -m venv "$venv"
    "$venv/bin/pip" install -q -r "$here/requirements.txt"
fi

log=$(mktemp)
"$server" --port 0 >"$log" 2>"$log.err" &
pid=$!
trap 'kill "$pid" 2>/dev/null || true; wait "$pid" 2>/dev/null || true; rm -f "$log" "$log.err"' EXIT
tries=0
until grep -q '^ready:' "$log.err"; do
    tries=$((tries + 1))
    if [ "$tries" -gt 600 ] || ! kill -0 "$pid" 2>/dev/null; then
        cat "$log.err" >&2
        exit 1
    fi
    sleep 0.1
done
base=$(sed -n 's/^listening on //p' "$log")/v1

"$venv/bin/python" "$here/openai_sdk.py" "$base"
"$venv/bin/python" "$here/langchain_tools.py" "$base"
PATH=$venv/bin:$PATH "$here/lm_eval.sh" "$base"
