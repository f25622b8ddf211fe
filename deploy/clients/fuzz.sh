#!/bin/sh
# schemathesis against /openapi.json: no 5xx, no hang, no answer that its document does not describe.
#
# Usage: fuzz.sh BASE_URL [SECONDS]   (BASE_URL without /v1), with schemathesis on the PATH
set -eu
base=$1
seconds=${2:-600}
here=$(cd "$(dirname "$0")" && pwd)
end=$(($(date +%s) + seconds))
seed=1
while [ "$(date +%s)" -lt "$end" ]; do
    schemathesis --config-file "$here/schemathesis.toml" run "$base/openapi.json" --seed "$seed" \
        --checks not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance \
        --request-timeout 60 --workers 4 --max-examples 60 --suppress-health-check all
    seed=$((seed + 1))
done
echo "fuzz: ok, seeds 1 to $((seed - 1))"
