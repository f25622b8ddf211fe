"""What the server adds to the engine: templating, tokens, queue, HTTP and streaming.

The engine's own times come with each answer (`timings`). The rest of what the client waits is the server's, the client's own
Python and the loopback.

Usage: overhead.py BASE_URL [REPEATS]
"""

import http.client
import json
import statistics
import sys
import time
from urllib.parse import urlsplit

BASE = urlsplit(sys.argv[1])
REPEATS = int(sys.argv[2]) if len(sys.argv) > 2 else 40

body = json.dumps(
    {
        "messages": [{"role": "user", "content": "Tell me about the sea"}],
        "chat_template_kwargs": {"enable_thinking": False},
        "temperature": 0,
        "max_tokens": 256,
        "ignore_eos": True,
        "stream": True,
        "stream_options": {"include_usage": True},
        "cache_prompt": False,
    }
)
first, decode = [], []
connection = http.client.HTTPConnection(BASE.hostname, BASE.port, timeout=300)
for repeat in range(REPEATS + 3):
    began = time.perf_counter()
    connection.request("POST", BASE.path.rstrip("/") + "/chat/completions", body, {"content-type": "application/json"})
    response = connection.getresponse()
    arrived, timings = [], None
    while True:
        line = response.readline()
        if not line:
            break
        if line.startswith(b"data: {"):
            arrived.append(time.perf_counter())
            # Looked at afterwards: parsing JSON is the client's time.
            last = line
    timings = json.loads(last[6:])["timings"]
    if repeat < 3:
        continue
    # The first round of decoding is part of the time to the first token.
    rounds = len(arrived) - 2
    round_ms = timings["predicted_ms"] / rounds
    first.append((arrived[0] - began) * 1e3 - timings["prompt_ms"] - round_ms)
    decode.append((arrived[-2] - arrived[0]) * 1e3 / (timings["predicted_ms"] - round_ms) - 1)
print(f"{REPEATS} requests of {timings['prompt_n']} prompt tokens and {timings['predicted_n']} generated, "
      f"{timings['predicted_per_second']:.0f} tokens a second in the engine")
print(f"added to the first token: median {statistics.median(first):.3f} ms, worst {max(first):.3f} ms")
print(f"added to decoding: median {statistics.median(decode):+.2%}, worst {max(decode):+.2%}")
