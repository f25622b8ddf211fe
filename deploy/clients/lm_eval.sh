#!/bin/sh
# lm-eval against a server: loglikelihood and generation over completions, generation over chat, without any
# tokenizer but the server's.
#
# Usage: lm_eval.sh BASE_URL   (for example http://127.0.0.1:8000/v1), with lm_eval on the PATH
set -eu
base=$1
here=$(cd "$(dirname "$0")" && pwd)
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
export HF_HUB_OFFLINE=1 HF_DATASETS_OFFLINE=1 HF_HOME="$out/home"
cd "$here/lm_eval_task"

run() {
    lm_eval run --model "$1" --model_args "$2" --tasks "$3" --include_path . --output_path "$out/$3" $4
}

run local-completions "model=qwen3.5-tiny-demo,base_url=$base/completions,num_concurrent=1" facts_choice ""
run local-completions "model=qwen3.5-tiny-demo,base_url=$base/completions,num_concurrent=2" facts_write ""
run local-chat-completions "model=qwen3.5-tiny-demo,base_url=$base/chat/completions,num_concurrent=1" facts_chat --apply_chat_template

python3 - "$out" <<'PY'
import json, pathlib, sys
wanted = {"facts_choice": "acc,none", "facts_write": "exact_match,last-word", "facts_chat": "exact_match,last-word"}
for task, metric in wanted.items():
    [path] = pathlib.Path(sys.argv[1], task).rglob("results_*.json")
    score = json.loads(path.read_text())["results"][task][metric]
    print(f"{task}: {metric} {score}")
    if score < 0.66:
        sys.exit(f"lm_eval: {task} scores {score}; the demo model knows these")
PY
echo "lm_eval: ok"
