use serde_json::{Value, json};

use super::{ask, content, demo, question, said};
use crate::harness::streamed_text;

/// Asks a server that drafts and one that does not; both must say the same.
async fn both(body: &Value) -> Value {
    let plain = ask(&demo(&["--mtp", "off"]).await, body).await;
    let drafting = ask(&demo(&["--mtp", "on"]).await, body).await;
    assert_eq!(
        said(&plain),
        said(&drafting),
        "drafting never changes the answer"
    );
    assert_eq!(
        plain["usage"]["completion_tokens"],
        drafting["usage"]["completion_tokens"]
    );
    drafting
}

#[tokio::test]
async fn a_plain_question_is_answered() {
    let answer = both(&question("What is 7 plus 5?", json!({}))).await;
    assert_eq!(content(&answer), "7 plus 5 is 12.");
    assert_eq!(answer["choices"][0]["finish_reason"], "stop");
    let usage = &answer["usage"]["completion_tokens_details"];
    assert!(
        usage["accepted_prediction_tokens"].as_u64().unwrap() > 0,
        "drafts were made and taken"
    );
}

#[tokio::test]
async fn a_streamed_answer_is_the_plain_one_with_thinking_and_without() {
    for server in [demo(&["--mtp", "off"]).await, demo(&["--mtp", "on"]).await] {
        for thinking in [false, true] {
            let mut body = question("What is the capital of France?", json!({}));
            body["chat_template_kwargs"] = json!({"enable_thinking": thinking});
            let whole = ask(&server, &body).await;
            body["stream"] = json!(true);
            let chunks = server
                .client
                .post("/v1/chat/completions", &body)
                .await
                .chunks()
                .await;
            let message = &whole["choices"][0]["message"];
            assert_eq!(streamed_text(&chunks, "content"), content(&whole));
            assert!(content(&whole).contains("Paris"));
            let reasoning = message["reasoning_content"].as_str().unwrap_or_default();
            assert_eq!(
                streamed_text(&chunks, "reasoning_content").trim_end(),
                reasoning.trim_end()
            );
            assert_eq!(!reasoning.is_empty(), thinking);
        }
    }
}

#[tokio::test]
async fn a_conversation_goes_on() {
    let mut body = question("", json!({}));
    body["messages"] = json!([
        {"role": "user", "content": "What is 2 plus 2?"},
        {"role": "assistant", "content": "2 plus 2 is 4."},
        {"role": "user", "content": "What is the opposite of hot?"},
    ]);
    assert!(content(&both(&body).await).contains("cold"));
}

#[tokio::test]
async fn a_system_message_is_heard() {
    let mut body = question("", json!({"max_tokens": 24}));
    body["messages"] = json!([
        {"role": "system", "content": "You are a helpful assistant."},
        {"role": "user", "content": "What is 3 plus 4?"},
    ]);
    let with = both(&body).await;
    let without = both(&question("What is 3 plus 4?", json!({"max_tokens": 24}))).await;
    assert!(with["usage"]["prompt_tokens"].as_u64() > without["usage"]["prompt_tokens"].as_u64());
}

#[tokio::test]
async fn a_stop_string_inside_an_accepted_run_ends_the_answer() {
    for stop in [" is", "5", " plus 5", "1", "12."] {
        let answer = both(&question("What is 7 plus 5?", json!({"stop": stop}))).await;
        let whole = "7 plus 5 is 12.";
        assert_eq!(
            content(&answer),
            &whole[..whole.find(stop).unwrap()],
            "{stop:?}"
        );
        assert_eq!(answer["choices"][0]["finish_reason"], "stop");
    }
}

#[tokio::test]
async fn a_limit_of_tokens_is_exact() {
    for limit in 1..8 {
        let answer = both(&question("What is 7 plus 5?", json!({"max_tokens": limit}))).await;
        assert_eq!(answer["usage"]["completion_tokens"], limit);
        assert_eq!(answer["choices"][0]["finish_reason"], "length");
    }
}

#[tokio::test]
async fn a_seed_repeats_its_answer_and_another_seed_gives_another() {
    let told = |seed: u64| {
        question(
            "Tell me about the sea",
            json!({"temperature": 1.0, "top_k": 0, "seed": seed, "max_tokens": 40}),
        )
    };
    let server = demo(&[]).await;
    let first = said(&both(&told(7)).await);
    assert_eq!(said(&ask(&server, &told(7)).await), first);
    assert_eq!(
        said(&ask(&server, &told(7)).await),
        first,
        "a saved prefix changes nothing"
    );
    assert_ne!(said(&ask(&server, &told(8)).await), first);
}

#[tokio::test]
async fn the_choices_of_n_are_those_of_single_requests_with_their_seeds() {
    let server = demo(&[]).await;
    let fields =
        |seed: u64, n: usize| json!({"temperature": 1.0, "seed": seed, "n": n, "max_tokens": 16});
    let three = ask(&server, &question("Tell me about the sea", fields(5, 3))).await;
    for (index, seed) in (5..8).enumerate() {
        let one = ask(&server, &question("Tell me about the sea", fields(seed, 1))).await;
        assert_eq!(
            three["choices"][index]["message"],
            one["choices"][0]["message"]
        );
    }
}

#[tokio::test]
async fn logprobs_are_those_of_the_model_for_every_token() {
    let body = question(
        "Tell me about the sea",
        json!({"logprobs": true, "top_logprobs": 5, "max_tokens": 64}),
    );
    let answer = both(&body).await;
    let entries = answer["choices"][0]["logprobs"]["content"]
        .as_array()
        .unwrap();
    assert_eq!(
        entries.len(),
        answer["usage"]["completion_tokens"].as_u64().unwrap() as usize
    );
    for entry in entries {
        let logprob = entry["logprob"].as_f64().unwrap();
        let top = entry["top_logprobs"].as_array().unwrap();
        assert_eq!(top.len(), 5);
        assert_eq!(
            top[0]["logprob"], entry["logprob"],
            "greedy takes the likeliest"
        );
        let rest: f64 = top[1..]
            .iter()
            .map(|other| other["logprob"].as_f64().unwrap().exp())
            .sum();
        assert!(logprob.exp() + rest <= 1.0 + 1e-5);
        assert!(logprob < 0.0 || rest < 1e-6, "zero is certainty");
    }
}

#[tokio::test]
async fn sampling_with_every_knob_is_the_same_with_drafts() {
    let fields = json!({
        "temperature": 0.9, "top_p": 0.95, "top_k": 40, "min_p": 0.02, "repetition_penalty": 1.2, "presence_penalty": 0.5,
        "frequency_penalty": 0.5, "seed": 11, "max_tokens": 64, "min_tokens": 8,
    });
    both(&question("Write about a ship", fields)).await;
}

#[tokio::test]
async fn a_repetition_penalty_is_the_same_with_drafts() {
    let fields = json!({"repetition_penalty": 1.3, "max_tokens": 64, "seed": 1});
    both(&question("Write ten sentences about the sea", fields)).await;
}

#[tokio::test]
async fn a_banned_token_never_comes_and_the_next_best_does() {
    let server = demo(&[]).await;
    let body = question(
        "Tell me about the sea",
        json!({"max_tokens": 32, "return_token_ids": true}),
    );
    let free = ask(&server, &body).await;
    let first = free["choices"][0]["token_ids"][0].as_u64().unwrap();
    let mut banned = body.clone();
    banned["logit_bias"] = json!({first.to_string(): -100});
    let answer = both(&banned).await;
    let ids = answer["choices"][0]["token_ids"].as_array().unwrap();
    assert!(ids.iter().all(|id| id.as_u64() != Some(first)));
    assert_ne!(said(&answer), said(&free));
}

#[tokio::test]
async fn a_frequency_penalty_is_honoured_while_drafting() {
    let fields =
        |penalty: f64| json!({"frequency_penalty": penalty, "max_tokens": 48, "ignore_eos": true});
    let less = both(&question("Repeat hello", fields(2.0))).await;
    let more = both(&question("Repeat hello", fields(-2.0))).await;
    assert_ne!(said(&less), said(&more));
}

#[tokio::test]
async fn an_error_has_the_same_shape_either_way() {
    for args in [["--mtp", "off"], ["--mtp", "on"]] {
        let server = demo(&args).await;
        let error = server
            .client
            .post("/v1/chat/completions", &json!({"messages": []}))
            .await
            .expect(400)
            .await;
        assert_eq!(error["error"]["type"], "invalid_request_error");
        assert_eq!(error["error"]["param"], "messages");
    }
}

#[tokio::test]
async fn a_schema_is_followed_with_drafts_as_without() {
    let schema = json!({
        "type": "object",
        "properties": {"name": {"type": "string", "maxLength": 12}, "n": {"type": "integer", "minimum": 0, "maximum": 9}},
        "required": ["name", "n"],
        "additionalProperties": false,
    });
    for (thinking, temperature) in [(false, 0.0), (true, 0.0), (false, 1.0)] {
        let mut body = question(
            "What is 7 plus 5?",
            json!({
                "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}},
                "temperature": temperature, "seed": 3, "max_tokens": 200,
            }),
        );
        body["chat_template_kwargs"] = json!({"enable_thinking": thinking});
        let answer = both(&body).await;
        let value: Value = serde_json::from_str(content(&answer))
            .unwrap_or_else(|error| panic!("{error}: {answer}"));
        assert!(value["name"].is_string() && value["n"].is_u64(), "{value}");
        assert_eq!(
            answer["choices"][0]["message"]
                .get("reasoning_content")
                .is_some(),
            thinking
        );
    }
}

#[tokio::test]
async fn a_forced_tool_is_called_with_drafts_as_without() {
    let tools = json!([{"type": "function", "function": {"name": "add", "parameters": {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}, "note": {"type": "string"}},
        "required": ["a", "b"],
    }}}]);
    let fields = json!({"tools": tools, "tool_choice": "required", "parallel_tool_calls": false, "max_tokens": 300,
                        "logit_bias": {}});
    let answer = both(&question("What is 7 plus 5?", fields)).await;
    let call = &answer["choices"][0]["message"]["tool_calls"][0];
    assert_eq!(call["function"]["name"], "add", "{answer}");
    if answer["choices"][0]["finish_reason"] == "tool_calls" {
        let arguments: Value =
            serde_json::from_str(call["function"]["arguments"].as_str().unwrap()).unwrap();
        assert!(
            arguments["a"].is_i64() && arguments["b"].is_i64(),
            "{arguments}"
        );
    }
}

#[tokio::test]
async fn a_request_may_switch_drafting_off() {
    let server = demo(&["--mtp", "on"]).await;
    let answer = ask(
        &server,
        &question("What is 7 plus 5?", json!({"speculative": false})),
    )
    .await;
    assert_eq!(answer["timings"]["draft_n"], 0);
    assert_eq!(content(&answer), "7 plus 5 is 12.");
}
