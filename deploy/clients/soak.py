"""Mixed requests from eight threads: answered, cancelled, failing, streamed, with tools and with schemas.

At the end a reference request must be answered byte for byte as by a fresh process, and memory must not have grown by more
than 5 % after the first tenth.

Usage: soak.py PATH-TO-qwen35-serve [REQUESTS]
"""

import http.client
import json
import random
import re
import subprocess
import sys
import threading
import time

SERVER = sys.argv[1]
REQUESTS = int(sys.argv[2]) if len(sys.argv) > 2 else 2000
CLIENTS = 8
CHAT = "/v1/chat/completions"


class Server:
    def __init__(self):
        self.process = subprocess.Popen(
            [SERVER, "--port", "0", "--max-queue", "32"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={"RUST_LOG": "error"},
        )
        line = self.process.stdout.readline()
        self.port = int(re.search(r":(\d+)$", line.strip()).group(1))
        while not self.process.stderr.readline().startswith("ready:"):
            pass
        threading.Thread(target=self.process.stderr.read, daemon=True).start()

    def post(self, path, body):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=300)
        connection.request("POST", path, json.dumps(body), {"content-type": "application/json"})
        return connection, connection.getresponse()

    def whole(self, path, body):
        connection, response = self.post(path, body)
        text = response.read()
        connection.close()
        return response.status, text

    def memory(self):
        """Private memory in KiB: what is not a file."""
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as status:
            return int(re.search(r"RssAnon:\s+(\d+)", status.read()).group(1))

    def idle(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=300)
        connection.request("GET", "/health")
        health = json.loads(connection.getresponse().read())
        return health["slots_processing"] == 0 and health["requests_deferred"] == 0

    def stop(self):
        self.process.terminate()
        return self.process.wait(timeout=60)


def question(text, **fields):
    return {
        "messages": [{"role": "user", "content": text}],
        "chat_template_kwargs": {"enable_thinking": False},
        "temperature": 0,
        **fields,
    }


REFERENCE = question("What is the capital of France?", logprobs=True, top_logprobs=5, max_tokens=48)
TOOLS = [{"type": "function", "function": {"name": "add", "parameters": {"type": "object", "properties": {"a": {"type": "integer", "maximum": 99}}}}}]
SCHEMA = {"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"], "additionalProperties": False}


def reference(server):
    status, text = server.whole(CHAT, REFERENCE)
    assert status == 200, text
    return json.dumps(json.loads(text)["choices"])


def send(server, number, chance):
    text = f"Request {number}: " + "tell me about the sea and the ship. " * chance.randint(1, 20)
    kind = chance.randrange(9)
    if kind == 0:
        connection, response = server.post(CHAT, question(text, stream=True, max_tokens=400, ignore_eos=True))
        response.read(chance.randrange(2000))
        connection.close()
        return "left a stream"
    if kind == 1:
        status, _ = server.whole(CHAT, question(text, temperature=9))
        assert status == 400, status
        return "refused"
    if kind == 2:
        status, body = server.whole(CHAT, question(text, stream=True, max_tokens=chance.randint(1, 80)))
        assert status == 429 or body.endswith(b"data: [DONE]\n\n"), body[-200:]
        return "streamed"
    if kind == 3:
        status, _ = server.whole(CHAT, question(text, tools=TOOLS, tool_choice="required", max_tokens=60))
        assert status in (200, 429), status
        return "called a tool"
    if kind == 4:
        status, body = server.whole(CHAT, question(text, guided_json=SCHEMA, max_tokens=60))
        assert status == 429 or isinstance(json.loads(json.loads(body)["choices"][0]["message"]["content"])["a"], bool)
        return "followed a schema"
    if kind == 5:
        body = {"prompt": [text, "the sea"], "echo": True, "logprobs": 2, "max_tokens": 4, "n": 2}
        status, _ = server.whole("/v1/completions", body)
        assert status in (200, 429), status
        return "scored"
    if kind == 6:
        body = question(text, temperature=1.0, seed=number, max_tokens=60, stop=["the", "."])
        status, _ = server.whole(CHAT, body)
        assert status in (200, 429), status
        return "sampled"
    if kind == 7:
        body = {"input": text, "max_output_tokens": 24, "stream": number % 2 == 0}
        status, _ = server.whole("/v1/responses", body)
        assert status in (200, 429), status
        return "responded"
    connection, _ = None, None
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=300)
    connection.request("POST", CHAT, json.dumps(question(text, max_tokens=400, ignore_eos=True)), {"content-type": "application/json"})
    time.sleep(chance.random() * 0.02)
    connection.close()
    return "left before the answer"


def main():
    fresh = Server()
    expected = reference(fresh)
    assert fresh.stop() == 0
    server = Server()
    assert reference(server) == expected
    counts, failures, samples = {}, [], []
    lock = threading.Lock()
    numbers = iter(range(REQUESTS))

    def client(seed):
        chance = random.Random(seed)
        while True:
            with lock:
                number = next(numbers, None)
                if number is not None and number % (REQUESTS // 20) == 0:
                    samples.append(server.memory())
            if number is None:
                return
            try:
                done = send(server, number, chance)
                with lock:
                    counts[done] = counts.get(done, 0) + 1
            except Exception as error:  # one failure is enough to know, and names itself
                with lock:
                    failures.append(f"request {number}: {error!r}")
                return

    began = time.monotonic()
    threads = [threading.Thread(target=client, args=(seed,)) for seed in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took = time.monotonic() - began
    assert not failures, failures
    while not server.idle():
        time.sleep(0.05)
    samples.append(server.memory())
    after = reference(server)
    assert after == expected, "the reference request is answered otherwise than by a fresh process"
    assert server.stop() == 0
    settled, last = max(samples[1:3]), samples[-1]
    print(f"{REQUESTS} requests in {took:.1f} s: {dict(sorted(counts.items()))}")
    print(f"private memory in KiB: {samples}")
    growth = last / settled - 1
    assert growth <= 0.05, f"memory grew by {growth:.1%}"
    print(f"soak: ok, memory {growth:+.1%} since the first tenth")


main()
