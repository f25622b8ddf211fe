#!/bin/sh
# schemathesis against /openapi.json: no 5xx, no hang, no answer that its document does not describe.
#
# The server should run with --ignore-model-name: invented names of models would be all that is tested otherwise.
#
# Usage: fuzz.sh BASE_URL [SECONDS]   (BASE_URL without /v1), with schemathesis on the PATH
set -eu
base=$1
seconds=${2:-600}
here=$(cd "$(dirname "$0")" && pwd)
log=$(mktemp)
trap 'rm -f "$log"' EXIT
end=$(($(date +%s) + seconds))
seed=1
cases=0
own_errors=0
while [ "$(date +%s)" -lt "$end" ]; do
    if ! schemathesis --config-file "$here/schemathesis.toml" run "$base/openapi.json" --seed "$seed" \
        --checks not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance \
        --request-timeout 60 --workers 4 --max-examples 60 --suppress-health-check all >"$log" 2>&1; then
        # An error without a failure is the fuzzer's own.
        if grep -q '^Failures:' "$log" || ! grep -q '^Errors:' "$log"; then
            cat "$log"
            echo "fuzz: failed with seed $seed"
            exit 1
        fi
        own_errors=$((own_errors + 1))
    fi
    cases=$((cases + $(sed -n 's/^ *\([0-9]*\) generated.*/\1/p' "$log")))
    seed=$((seed + 1))
done
echo "fuzz: ok, $cases cases, seeds 1 to $((seed - 1)), $own_errors runs with errors of the fuzzer itself"
