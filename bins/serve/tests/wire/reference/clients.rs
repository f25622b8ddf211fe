//! The sequences of real clients, as their sources send them.

use serde_json::{Value, json};

use super::{demo, question};

/// LocalMaxxing's `lmx`: speed test, context sweep, exact-match and loglikelihood shards.
#[tokio::test]
async fn the_requests_of_lmx_are_answered_as_it_reads_them() {
    let server = demo(&[]).await;
    let client = server.client.with("user-agent", "Go-http-client/1.1");
    let models = client.get("/v1/models").await.expect(200).await;
    let model = models["data"][0]["id"].as_str().unwrap().to_owned();
    let props = client.get("/props").await.expect(200).await;
    assert!(
        props["engineName"].is_string() && props["quantization"] == "bfp8_b+bfp4_b",
        "{}",
        props["quantization"]
    );
    client.get("/hardware").await.expect(200).await;

    // Speed test: one warm-up and three timed runs, each with a nonce.
    for run in 0..4 {
        let body = json!({
            "model": model,
            "messages": [{"role": "user", "content": format!("[{run}] Count to ten.")}],
            "temperature": 0, "max_tokens": 64, "stream": true, "stream_options": {"include_usage": true},
        });
        let chunks = client
            .post("/v1/chat/completions", &body)
            .await
            .chunks()
            .await;
        let pieces = chunks.iter().filter(|chunk| {
            let delta = &chunk["choices"][0]["delta"];
            delta["content"].is_string() || delta["reasoning_content"].is_string()
        });
        assert!(pieces.count() > 1, "a rate needs more than one piece");
        let usage = &chunks.last().unwrap()["usage"];
        assert!(usage["completion_tokens"].as_u64().unwrap() > 1);
    }

    // Context sweep: a warm-up whose last message is the assistant's, a look at the slot, the probe.
    let history = json!([
        {"role": "user", "content": "word ".repeat(200)},
        {"role": "assistant", "content": "Noted."},
    ]);
    let warm = json!({"model": model, "messages": history, "max_tokens": 1, "stream": false});
    client
        .post("/v1/chat/completions", &warm)
        .await
        .expect(200)
        .await;
    let slots = client.get("/slots").await.expect(200).await;
    assert!(slots[0]["n_prompt_tokens_cache"].is_number());
    let mut messages = history.as_array().unwrap().clone();
    messages.push(json!({"role": "user", "content": "What is 2 plus 2?"}));
    let probe = json!({"model": model, "messages": messages, "max_tokens": 16, "stream": true, "stream_options": {"include_usage": true}});
    let chunks = client
        .post("/v1/chat/completions", &probe)
        .await
        .chunks()
        .await;
    let cached = &chunks.last().unwrap()["usage"]["prompt_tokens_details"]["cached_tokens"];
    assert!(
        cached.as_u64().unwrap() > 200,
        "the warm-up was of use: {cached}"
    );

    // Exact match: the last number of the content.
    let answer = client
        .post(
            "/v1/chat/completions",
            &question("What is 7 plus 5?", json!({"top_p": 1, "max_tokens": 64})),
        )
        .await;
    let answer = answer.expect(200).await;
    let text = answer["choices"][0]["message"]["content"].as_str().unwrap();
    assert!(text.contains("12"), "{text}");

    // Loglikelihood: the tokens from the end of the context on, counted in bytes.
    let context = "Frage: Wie hei\u{df}t das Gegenteil von \u{201e}hei\u{df}\u{201c}?\nAntwort:";
    let prompts = [format!("{context} cold"), format!("{context} house")];
    let body =
        json!({"model": model, "prompt": prompts, "echo": true, "max_tokens": 0, "logprobs": 1});
    let answer = client
        .post("/v1/completions", &body)
        .await
        .expect(200)
        .await;
    for (choice, prompt) in answer["choices"].as_array().unwrap().iter().zip(&prompts) {
        let offsets = choice["logprobs"]["text_offset"].as_array().unwrap();
        let logprobs = choice["logprobs"]["token_logprobs"].as_array().unwrap();
        assert_eq!(offsets.len(), logprobs.len());
        let from = offsets
            .iter()
            .position(|at| at.as_u64().unwrap() >= context.len() as u64)
            .unwrap();
        assert_eq!(
            offsets[from],
            context.len(),
            "a token begins where the context ends"
        );
        assert!(logprobs[from..].iter().all(Value::is_number));
        assert_eq!(choice["text"], prompt.as_str());
    }
}

/// lm-eval's `local-completions` with its remote tokenizer.
#[tokio::test]
async fn the_requests_of_lm_eval_are_answered_as_it_reads_them() {
    let server = demo(&[]).await;
    let client = server.client.with("authorization", "Bearer ");
    let info = client.get("/tokenizer_info").await.expect(200).await;
    assert!(info["eos_token"].is_string());
    let encode = |text: &'static str| {
        let client = client.clone();
        async move {
            let body = json!({"prompt": text, "add_special_tokens": false});
            client.post("/tokenize", &body).await.expect(200).await["tokens"]
                .as_array()
                .unwrap()
                .clone()
        }
    };
    let context = encode("What is 7 plus 5? 7 plus 5 is").await;
    let continuation = encode(" 12.").await;
    let ids: Vec<Value> = context.iter().chain(&continuation).cloned().collect();
    let body = json!({"model": "qwen3.5-tiny-demo", "prompt": [ids], "temperature": 0, "max_tokens": 1, "logprobs": 1, "seed": 1234, "echo": true});
    let answer = client
        .post("/v1/completions", &body)
        .await
        .expect(200)
        .await;
    let logprobs = &answer["choices"][0]["logprobs"];
    let told = logprobs["token_logprobs"].as_array().unwrap();
    assert_eq!(
        told.len(),
        ids.len() + 1,
        "the generated token's entry is the one that is cut off"
    );
    let scored = &told[context.len()..told.len() - 1];
    assert_eq!(scored.len(), continuation.len());
    assert!(scored.iter().all(|value| value.as_f64().unwrap() <= 0.0));
    let tops = &logprobs["top_logprobs"].as_array().unwrap()[context.len()..told.len() - 1];
    for (value, top) in scored.iter().zip(tops) {
        let best = top
            .as_object()
            .unwrap()
            .values()
            .map(|v| v.as_f64().unwrap())
            .fold(f64::MIN, f64::max);
        assert!(value.as_f64().unwrap() <= best);
    }
}

/// `vllm bench serve` and llama-benchy.
#[tokio::test]
async fn the_requests_of_benchmarks_run_to_the_length_they_ask_for() {
    let server = demo(&[]).await;
    let content = json!([{"type": "text", "text": "Once upon a time"}]);
    let chat = json!({
        "model": "qwen3.5-tiny-demo", "messages": [{"role": "user", "content": content}], "temperature": 0.0,
        "max_completion_tokens": 40, "stream": true, "stream_options": {"include_usage": true}, "ignore_eos": true,
        "repetition_penalty": 1.0,
    });
    let client = server.client.with("x-request-id", "bench-1");
    let chunks = client
        .post("/v1/chat/completions", &chat)
        .await
        .chunks()
        .await;
    assert_eq!(chunks.last().unwrap()["usage"]["completion_tokens"], 40);
    let completion = json!({
        "model": "qwen3.5-tiny-demo", "prompt": "Once upon a time", "temperature": 0.0, "max_tokens": 40, "logprobs": null,
        "repetition_penalty": 1.0, "ignore_eos": true, "stream": true, "stream_options": {"include_usage": true},
    });
    let chunks = client
        .post("/v1/completions", &completion)
        .await
        .chunks()
        .await;
    assert_eq!(chunks.last().unwrap()["usage"]["completion_tokens"], 40);
    let benchy = json!({
        "model": "qwen3.5-tiny-demo", "messages": [{"role": "user", "content": "Tell me about the sea"}], "stream": true,
        "stream_options": {"include_usage": true}, "return_token_ids": true, "min_tokens": 32, "max_tokens": 32,
        "ignore_eos": true, "cache_prompt": false,
    });
    let chunks = client
        .post("/v1/chat/completions", &benchy)
        .await
        .chunks()
        .await;
    let counted: usize = chunks
        .iter()
        .filter_map(|c| c["choices"][0]["token_ids"].as_array())
        .map(Vec::len)
        .sum();
    assert_eq!(counted, 32);
}
