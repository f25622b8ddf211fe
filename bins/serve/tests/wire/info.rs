use serde_json::{Value, json};

use crate::harness::{CONTEXT, Harness, asking, says, tokens};
use crate::scripted::Script;

fn ids(text: &str) -> Value {
    json!(tokens(text).iter().map(|token| token.0).collect::<Vec<_>>())
}

#[tokio::test]
async fn text_is_tokenised_in_both_dialects_and_back() {
    let server = Harness::new([]).await;
    let text = "Hi <|im_end|> caf\u{e9}";
    for body in [
        json!({"content": text}),
        json!({"prompt": text, "add_special_tokens": false}),
        json!({"content": text, "add_special": true, "parse_special": true}),
    ] {
        let answer = server
            .client
            .post("/tokenize", &body)
            .await
            .expect(200)
            .await;
        assert_eq!(answer["tokens"], ids(text));
        assert_eq!(answer["count"], answer["tokens"].as_array().unwrap().len());
        assert_eq!(answer["max_model_len"], CONTEXT);
    }
    let plain = server
        .client
        .post(
            "/tokenize",
            &json!({"content": text, "parse_special": false}),
        )
        .await;
    assert!(plain.expect(200).await["count"].as_u64().unwrap() > tokens(text).len() as u64);
    let back = server
        .client
        .post("/detokenize", &json!({"tokens": ids(text)}))
        .await
        .expect(200)
        .await;
    assert_eq!(back, json!({"content": text, "prompt": text}));
}

#[tokio::test]
async fn tokens_are_told_with_their_texts_where_asked_for() {
    let server = Harness::new([]).await;
    let body = json!({"content": "a\u{1F600}", "with_pieces": true, "return_token_strs": true});
    let answer = server
        .client
        .post("/tokenize", &body)
        .await
        .expect(200)
        .await;
    let pieces = answer["tokens"].as_array().unwrap();
    assert_eq!(pieces[0]["piece"], "a");
    let bytes: Vec<u8> = pieces[1..]
        .iter()
        .flat_map(|piece| match &piece["piece"] {
            Value::String(text) => text.as_bytes().to_vec(),
            bytes => serde_json::from_value(bytes.clone()).unwrap(),
        })
        .collect();
    assert_eq!(bytes, "\u{1F600}".as_bytes());
    assert_eq!(answer["token_strs"].as_array().unwrap().len(), pieces.len());
}

#[tokio::test]
async fn a_conversation_is_rendered_and_tokenised_as_its_request_would_be() {
    let server = Harness::new([says(&["ok"])]).await;
    let body = asking(json!({}));
    let rendered = server
        .client
        .post("/apply-template", &body)
        .await
        .expect(200)
        .await;
    assert!(
        rendered["prompt"]
            .as_str()
            .unwrap()
            .starts_with("<|im_start|>user\nHi<|im_end|>")
    );
    let tokenised = server
        .client
        .post("/tokenize", &body)
        .await
        .expect(200)
        .await;
    assert_eq!(tokenised["tokens"], rendered["token_ids"]);
    server.chat(json!({})).await.expect(200).await;
    let prompt = server.stage.log.read(|log| log.started[0].prompt.clone());
    assert_eq!(
        json!(prompt.iter().map(|t| t.0).collect::<Vec<_>>()),
        rendered["token_ids"]
    );
}

#[tokio::test]
async fn bad_tokenizer_requests_are_refused_by_name() {
    let server = Harness::new([]).await;
    for (path, body, param) in [
        ("/tokenize", json!({}), "content"),
        ("/tokenize", json!({"content": 5}), "content"),
        (
            "/tokenize",
            json!({"content": "a", "prompt": "b"}),
            "content",
        ),
        ("/detokenize", json!({}), "tokens"),
        ("/detokenize", json!({"tokens": [5000]}), "tokens"),
        ("/detokenize", json!({"tokens": "a"}), "tokens"),
        ("/apply-template", json!({}), "messages"),
    ] {
        let error = server.client.post(path, &body).await.expect(400).await;
        assert_eq!(error["error"]["param"], param, "{path} {body}");
    }
}

#[tokio::test]
async fn the_tokenizer_tells_its_special_tokens_and_template() {
    let server = Harness::new([]).await;
    let info = server.client.get("/tokenizer_info").await.expect(200).await;
    assert_eq!(info["eos_token"], "<|im_end|>");
    assert_eq!(info["eos_token_ids"], json!([2002, 2000]));
    assert!(
        info["chat_template"]
            .as_str()
            .unwrap()
            .contains("add_generation_prompt")
    );
}

#[tokio::test]
async fn props_tell_the_server_the_model_and_the_machine() {
    let server = Harness::new([]).await;
    let props = server.client.get("/props").await.expect(200).await;
    assert_eq!(props["total_slots"], 1);
    assert_eq!(props["default_generation_settings"]["n_ctx"], CONTEXT);
    assert_eq!(props["engineName"], "qwen35-serve");
    for field in [
        "engineVersion",
        "cpu",
        "os",
        "gpuName",
        "quantization",
        "chat_template",
        "model_path",
        "build_info",
    ] {
        assert!(props[field].is_string(), "{field}");
    }
    for field in ["ramGb", "gpuCount", "vramGb"] {
        assert!(props[field].is_number(), "{field}");
    }
}

#[tokio::test]
async fn the_slot_tells_what_runs_and_what_was_cached() {
    let script = Script {
        cached: 7,
        prefill_chunks: usize::MAX,
        ..says(&["x"])
    };
    let server = Harness::new([script]).await;
    let idle = server.client.get("/slots").await.expect(200).await;
    assert_eq!(
        (&idle[0]["is_processing"], &idle[0]["id_task"]),
        (&json!(false), &json!(-1))
    );
    let answer = server.chat(json!({"stream": true})).await;
    server.until(|log| log.prefills > 0).await;
    let busy = server.client.get("/slots").await.expect(200).await;
    assert_eq!(busy[0]["is_processing"], true);
    assert_eq!(busy[0]["n_prompt_tokens_cache"], 7);
    assert_eq!(busy[0]["speculative"], true);
    let refused = server
        .client
        .get("/slots?fail_on_no_slot=1")
        .await
        .expect(503)
        .await;
    assert_eq!(refused["error"]["type"], "unavailable_error");
    drop(answer);
    server.until(|log| log.finished == 1).await;
    server.play(Script {
        cached: 9,
        ..says(&["x"])
    });
    let usage = server.chat(json!({})).await.expect(200).await["usage"].clone();
    assert_eq!(usage["prompt_tokens_details"]["cached_tokens"], 9);
    let after = server
        .client
        .get("/slots?fail_on_no_slot=1")
        .await
        .expect(200)
        .await;
    assert_eq!(after[0]["is_processing"], false);
    assert_eq!(after[0]["n_prompt_tokens_cache"], 9);
    let error = server
        .client
        .get("/slots?fail_on_no_slot=x")
        .await
        .expect(400)
        .await;
    assert_eq!(error["error"]["param"], "fail_on_no_slot");
}

#[tokio::test]
async fn metrics_count_requests_tokens_and_drafts() {
    let server = Harness::new([says(&["a b c", " d e"])]).await;
    server.chat(json!({})).await.expect(200).await;
    let answer = server.client.get("/metrics").await;
    assert_eq!(
        answer.headers["content-type"],
        "text/plain; version=0.0.4; charset=utf-8"
    );
    let text = answer.text().await;
    let value = |name: &str| {
        let line = text
            .lines()
            .find(|line| line.starts_with(name))
            .unwrap_or_else(|| panic!("{name}\n{text}"));
        line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()
    };
    let emitted = (tokens("a b c").len() + tokens(" d e").len() + 1) as f64;
    assert_eq!(value("vllm:generation_tokens_total"), emitted);
    assert_eq!(value("llamacpp:tokens_predicted_total"), emitted);
    assert_eq!(value("vllm:request_success_total"), 1.0);
    assert!(value("vllm:spec_decode_num_draft_tokens_total") > 0.0);
    assert_eq!(
        value("vllm:spec_decode_num_accepted_tokens_total"),
        value("llamacpp:spec_decode_num_accepted_tokens_total")
    );
    assert_eq!(value("vllm:num_requests_running"), 0.0);
    assert_eq!(value("vllm:time_to_first_token_seconds_count"), 1.0);
}

#[tokio::test]
async fn the_document_describes_every_route() {
    let server = Harness::new([]).await;
    let document = server.client.get("/openapi.json").await.expect(200).await;
    assert!(document["openapi"].as_str().unwrap().starts_with("3.1"));
    for path in [
        "/v1/chat/completions",
        "/v1/completions",
        "/v1/responses",
        "/v1/models",
        "/v1/models/{id}",
        "/tokenize",
        "/detokenize",
        "/tokenizer_info",
        "/apply-template",
        "/health",
        "/metrics",
        "/props",
        "/slots",
    ] {
        assert!(document["paths"].get(path).is_some(), "{path}");
    }
    let text = document.to_string();
    for reference in text.split("\"#/components/schemas/").skip(1) {
        let name = reference.split('"').next().unwrap();
        assert!(
            document["components"]["schemas"].get(name).is_some(),
            "{name} is referred to and not there"
        );
    }
}

#[tokio::test]
async fn drafts_are_told_in_usage_and_timings() {
    let server = Harness::new([says(&["a b c"])]).await;
    let answer = server.chat(json!({})).await.expect(200).await;
    let details = &answer["usage"]["completion_tokens_details"];
    let drafted = details["accepted_prediction_tokens"].as_u64().unwrap()
        + details["rejected_prediction_tokens"].as_u64().unwrap();
    assert_eq!(answer["timings"]["draft_n"], drafted);
    assert_eq!(
        answer["timings"]["draft_n_accepted"],
        details["accepted_prediction_tokens"]
    );
    assert!(drafted > 0);
}

#[tokio::test]
async fn composed_and_decomposed_characters_have_the_same_tokens() {
    let server = Harness::new([]).await;
    let tokens = |text: &'static str| {
        let client = server.client.clone();
        async move {
            client
                .post("/tokenize", &json!({"content": text}))
                .await
                .expect(200)
                .await["tokens"]
                .clone()
        }
    };
    assert_eq!(tokens("A\u{30A}").await, tokens("\u{C5}").await);
    assert_eq!(tokens("e\u{301}").await, tokens("\u{E9}").await);
}
