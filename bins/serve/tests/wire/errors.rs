use bytes::Bytes;
use hyper::Method;
use serde_json::{Value, json};

use crate::harness::{CONTEXT, Harness, says};

fn check(error: &Value) {
    let error = error["error"].as_object().expect("an error object");
    assert!(
        error["message"]
            .as_str()
            .is_some_and(|message| !message.is_empty())
    );
    assert!(error["type"].is_string());
    assert!(error.contains_key("param") && error.contains_key("code"));
}

#[tokio::test]
async fn every_refusal_has_the_openai_error_body() {
    let server = Harness::new([says(&["a"])]).await;
    let post = |path: &'static str, body: &'static str| {
        let client = server.client.clone();
        async move {
            client
                .send(
                    Method::POST,
                    path,
                    Some(Bytes::from_static(body.as_bytes())),
                )
                .await
        }
    };
    let chat = "/v1/chat/completions";
    for (answer, status) in [
        (server.client.get("/v1/nope").await, 404),
        (server.client.get("/").await, 404),
        (server.client.get(chat).await, 405),
        (
            server.client.send(Method::DELETE, "/v1/models", None).await,
            405,
        ),
        (post(chat, "{").await, 400),
        (post(chat, "").await, 400),
        (post(chat, "[]").await, 400),
        (post(chat, "\"x\"").await, 400),
        (
            post(
                chat,
                "{\"messages\": [{\"role\": \"user\", \"content\": \"\\ud800\"}]}",
            )
            .await,
            400,
        ),
        (
            server
                .client
                .with("content-type", "text/plain")
                .post(chat, &json!({}))
                .await,
            415,
        ),
        (
            server
                .client
                .with("content-type", "")
                .post(chat, &json!({}))
                .await,
            415,
        ),
    ] {
        let error = answer.expect(status).await;
        check(&error);
    }
}

#[tokio::test]
async fn messages_that_are_no_list_are_refused_by_name() {
    let server = Harness::new([says(&["a"])]).await;
    for messages in [
        json!("x"),
        json!(123),
        json!([]),
        json!({}),
        json!(null),
        json!([1]),
        json!(["x"]),
    ] {
        let body = json!({"messages": messages});
        let error = server
            .client
            .post("/v1/chat/completions", &body)
            .await
            .expect(400)
            .await;
        let param = error["error"]["param"]
            .as_str()
            .unwrap_or_else(|| panic!("{error}"));
        assert!(param.starts_with("messages"), "{error}");
    }
    let error = server
        .client
        .post("/v1/chat/completions", &json!({}))
        .await
        .expect(400)
        .await;
    assert_eq!(error["error"]["param"], "messages");
}

#[tokio::test]
async fn a_field_that_cannot_be_meant_is_refused_by_name() {
    let server = Harness::new([says(&["a"])]).await;
    for (body, param) in [
        (json!({"temperature": -0.1}), "temperature"),
        (json!({"temperature": 2.1}), "temperature"),
        (json!({"temperature": "hot"}), "temperature"),
        (json!({"top_p": 0}), "top_p"),
        (json!({"top_p": 1.5}), "top_p"),
        (json!({"top_k": -2}), "top_k"),
        (json!({"top_k": 1.5}), "top_k"),
        (json!({"min_p": 1.1}), "min_p"),
        (json!({"n": 0}), "n"),
        (json!({"n": 100_000}), "n"),
        (json!({"n": -1}), "n"),
        (json!({"max_tokens": -1}), "max_tokens"),
        (
            json!({"max_completion_tokens": -5}),
            "max_completion_tokens",
        ),
        (json!({"seed": "one"}), "seed"),
        (json!({"seed": 1e30}), "seed"),
        (json!({"stop": 5}), "stop"),
        (json!({"stop": [5]}), "stop[0]"),
        (json!({"presence_penalty": 2.5}), "presence_penalty"),
        (json!({"frequency_penalty": -2.5}), "frequency_penalty"),
        (json!({"repetition_penalty": 0}), "repetition_penalty"),
        (
            json!({"repetition_penalty": 1.5, "repeat_penalty": 1.2}),
            "repeat_penalty",
        ),
        (json!({"logit_bias": {"5": 101}}), "logit_bias"),
        (json!({"logit_bias": {"x": 1}}), "logit_bias"),
        (json!({"logit_bias": {"2048": 1}}), "logit_bias"),
        (json!({"logit_bias": {"5": 1, "05": 2}}), "logit_bias"),
        (json!({"stop_token_ids": [4096]}), "stop_token_ids"),
        (json!({"stream": "yes"}), "stream"),
        (json!({"top_logprobs": 3}), "top_logprobs"),
        (
            json!({"logprobs": true, "top_logprobs": 21}),
            "top_logprobs",
        ),
        (json!({"logprobs": 3}), "logprobs"),
        (
            json!({"truncate_prompt_tokens": 0}),
            "truncate_prompt_tokens",
        ),
        (json!({"reasoning_effort": "heroic"}), "reasoning_effort"),
        (
            json!({"response_format": {"type": "xml"}}),
            "response_format.type",
        ),
        (
            json!({"response_format": {"type": "json_schema"}}),
            "response_format.json_schema.schema",
        ),
        (json!({"response_format": "json"}), "response_format"),
        (json!({"tools": [{"type": "function"}]}), "tools"),
        (json!({"tools": {}}), "tools"),
        (json!({"tool_choice": "required"}), "tool_choice"),
        (json!({"tool_choice": "sometimes"}), "tool_choice"),
        (json!({"functions": [{"name": "f"}]}), "functions"),
        (json!({"use_beam_search": true}), "use_beam_search"),
        (
            json!({"messages": [{"role": "bard", "content": "a"}]}),
            "messages",
        ),
        (
            json!({"messages": [{"role": "user", "content": 5}]}),
            "messages[0].content",
        ),
        (json!({"chat_template_kwargs": []}), "chat_template_kwargs"),
    ] {
        let error = server.chat(body.clone()).await.expect(400).await;
        check(&error);
        assert_eq!(error["error"]["param"], param, "{body}: {error}");
        assert_eq!(error["error"]["type"], "invalid_request_error");
    }
    assert_eq!(
        server.stage.log.read(|log| log.started.len()),
        0,
        "none of them reached the engine"
    );
}

#[tokio::test]
async fn a_prompt_over_the_context_is_a_400_before_any_event() {
    let server = Harness::new([says(&["a"])]).await;
    let long = "word ".repeat(2 * CONTEXT);
    let messages = json!([{"role": "user", "content": long}]);
    for stream in [false, true] {
        let answer = server
            .chat(json!({"messages": messages, "stream": stream}))
            .await;
        assert_eq!(answer.headers["content-type"], "application/json");
        let error = answer.expect(400).await;
        assert_eq!(error["error"]["code"], "context_length_exceeded");
        assert_eq!(error["error"]["param"], "messages");
        assert_eq!(error["error"]["n_ctx"], CONTEXT);
        assert!(error["error"]["n_prompt_tokens"].as_u64().unwrap() > CONTEXT as u64);
    }
}

#[tokio::test]
async fn a_prompt_over_the_context_is_cut_only_when_the_request_says_so() {
    let server = Harness::new([says(&["a"])]).await;
    let ids: Vec<u32> = (0..2000).map(|i| i % 1000).collect();
    let body = json!({"prompt": ids, "max_tokens": 10, "truncate_prompt_tokens": -1});
    let answer = server.complete(body).await.expect(200).await;
    assert_eq!(answer["usage"]["prompt_tokens"], CONTEXT - 10);
    let body = json!({"prompt": ids, "max_tokens": 10, "truncate_prompt_tokens": 5});
    server.complete(body).await.expect(200).await;
    let prompt = server.stage.log.read(|log| log.started[1].prompt.clone());
    let end: Vec<u32> = prompt.iter().map(|token| token.0).collect();
    assert_eq!(end, ids[1995..], "the end is what is kept");
    server
        .complete(json!({"prompt": ids}))
        .await
        .expect(400)
        .await;
}

#[tokio::test]
async fn the_edges_of_the_context_are_exact() {
    let server = Harness::new([crate::harness::for_ever("a")]).await;
    let prompt = |tokens: usize| vec![5_u32; tokens];
    let fits = server
        .complete(json!({"prompt": prompt(CONTEXT - 1), "max_tokens": 50}))
        .await
        .expect(200)
        .await;
    assert_eq!(fits["usage"]["completion_tokens"], 1);
    assert_eq!(fits["choices"][0]["finish_reason"], "length");
    let full = server
        .complete(json!({"prompt": prompt(CONTEXT), "max_tokens": 1}))
        .await
        .expect(400)
        .await;
    assert_eq!(full["error"]["param"], "prompt");
    let scored = json!({"prompt": prompt(CONTEXT), "max_tokens": 0, "echo": true, "logprobs": 0});
    server.complete(scored).await.expect(200).await;
    server
        .complete(json!({"prompt": prompt(CONTEXT + 1), "max_tokens": 0, "echo": true}))
        .await
        .expect(400)
        .await;
}

#[tokio::test]
async fn a_body_over_the_limit_is_a_413() {
    let server = Harness::with(&["--max-body", "1"], [says(&["a"])]).await;
    let messages = json!([{"role": "user", "content": "x".repeat(2 << 20)}]);
    let error = server
        .chat(json!({"messages": messages}))
        .await
        .expect(413)
        .await;
    check(&error);
}

#[tokio::test]
async fn a_template_that_refuses_is_a_400() {
    let server = Harness::new([says(&["a"])]).await;
    let messages = json!([{"role": "assistant", "content": "no user turn"}]);
    let error = server
        .chat(json!({"messages": messages}))
        .await
        .expect(400)
        .await;
    assert_eq!(error["error"]["param"], "messages");
}

#[tokio::test]
async fn nothing_a_client_sends_is_a_server_error() {
    let server = Harness::new([says(&["a"])]).await;
    let values = [
        json!(true),
        json!(-1),
        json!(1.5),
        json!(1e300),
        json!(18_446_744_073_709_551_615_u64),
        json!(""),
        json!("\u{0}"),
        json!([]),
        json!([[]]),
        json!([null]),
        json!({}),
        json!({"type": 5}),
    ];
    let names = [
        "messages",
        "model",
        "stream",
        "stream_options",
        "temperature",
        "top_p",
        "top_k",
        "min_p",
        "n",
        "seed",
        "stop",
        "max_tokens",
        "logprobs",
        "top_logprobs",
        "logit_bias",
        "tools",
        "tool_choice",
        "response_format",
        "grammar",
        "json_schema",
        "structured_outputs",
        "guided_json",
        "guided_regex",
        "guided_choice",
        "guided_grammar",
        "stop_token_ids",
        "truncate_prompt_tokens",
        "chat_template_kwargs",
        "reasoning_effort",
        "thinking_token_budget",
        "min_tokens",
        "continue_final_message",
        "add_generation_prompt",
        "prompt",
        "echo",
        "best_of",
        "suffix",
    ];
    for name in names {
        for value in &values {
            let mut fields = json!({"max_tokens": 2});
            fields[name] = value.clone();
            let chat = server.chat(fields.clone()).await;
            assert!(chat.status.as_u16() < 500, "chat {fields}: {}", chat.status);
            if fields.get("prompt").is_none() {
                fields["prompt"] = json!("a");
            }
            let completion = server.complete(fields.clone()).await;
            assert!(
                completion.status.as_u16() < 500,
                "completion {fields}: {}",
                completion.status
            );
        }
    }
}
