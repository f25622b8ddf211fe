use serde_json::{Value, json};

use crate::harness::{Harness, rambles, says, tokenizer, tokens};

#[tokio::test]
async fn a_prompt_may_be_text_texts_tokens_or_token_lists() {
    let server = Harness::new([says(&["x"])]).await;
    let ids: Vec<u32> = tokens("Hello there").iter().map(|token| token.0).collect();
    for prompt in [
        json!("Hello there"),
        json!(["Hello there"]),
        json!(ids),
        json!([ids]),
    ] {
        let answer = server
            .complete(json!({"prompt": prompt}))
            .await
            .expect(200)
            .await;
        assert_eq!(answer["object"], "text_completion");
        assert!(answer["id"].as_str().unwrap().starts_with("cmpl-"));
        assert_eq!(answer["choices"][0]["text"], "x");
        assert_eq!(answer["usage"]["prompt_tokens"], ids.len());
    }
    let prompts = server.stage.log.read(|log| {
        log.started
            .iter()
            .map(|s| s.prompt.clone())
            .collect::<Vec<_>>()
    });
    assert!(prompts.iter().all(|prompt| prompt == &prompts[0]));
}

#[tokio::test]
async fn choices_are_ordered_by_prompt_and_then_by_answer() {
    let scripts = ["a", "b", "c", "d"].map(|text| says(&[text]));
    let server = Harness::new(scripts).await;
    let body = json!({"prompt": ["one", "two two"], "n": 2, "seed": 7});
    let answer = server.complete(body).await.expect(200).await;
    let told: Vec<(u64, &str)> = answer["choices"]
        .as_array()
        .unwrap()
        .iter()
        .map(|choice| {
            (
                choice["index"].as_u64().unwrap(),
                choice["text"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(told, [(0, "a"), (1, "b"), (2, "c"), (3, "d")]);
    let seeds = server.stage.log.read(|log| {
        log.started
            .iter()
            .map(|s| s.sampler.seed)
            .collect::<Vec<_>>()
    });
    assert_eq!(seeds, [7, 8, 7, 8]);
    let prompts = tokens("one").len() + tokens("two two").len();
    assert_eq!(answer["usage"]["prompt_tokens"], prompts);
}

#[tokio::test]
async fn without_a_limit_sixteen_tokens_are_given() {
    let server = Harness::new([rambles(&[
        "a b c d e f g h i j k l m n o p q r s t u v w x y z",
    ])])
    .await;
    let answer = server
        .complete(json!({"prompt": "x"}))
        .await
        .expect(200)
        .await;
    assert_eq!(answer["usage"]["completion_tokens"], 16);
}

#[tokio::test]
async fn echo_with_logprobs_scores_the_prompt_and_the_first_token_has_none() {
    let server = Harness::new([rambles(&[" and more"])]).await;
    let prompt = "It is caf\u{e9} time";
    let ids: Vec<u32> = tokens(prompt).iter().map(|token| token.0).collect();
    for (max_tokens, extra) in [(0, 0), (1, 1)] {
        let body = json!({"prompt": [ids], "echo": true, "max_tokens": max_tokens, "logprobs": 1, "temperature": 0, "seed": 1234});
        let answer = server.complete(body).await.expect(200).await;
        let choice = &answer["choices"][0];
        let logprobs = &choice["logprobs"];
        for list in ["tokens", "token_logprobs", "top_logprobs", "text_offset"] {
            assert_eq!(
                logprobs[list].as_array().unwrap().len(),
                ids.len() + extra,
                "{list}"
            );
        }
        assert_eq!(logprobs["token_logprobs"][0], Value::Null);
        assert_eq!(logprobs["top_logprobs"][0], Value::Null);
        assert_eq!(logprobs["text_offset"][0], 0);
        for place in 1..ids.len() + extra {
            let told = &logprobs["token_logprobs"][place];
            let top = logprobs["top_logprobs"][place].as_object().unwrap();
            let best = top
                .values()
                .map(|v| v.as_f64().unwrap())
                .fold(f64::MIN, f64::max);
            assert_eq!(
                told.as_f64().unwrap(),
                best,
                "the same number in both lists"
            );
        }
        let text = choice["text"].as_str().unwrap();
        assert!(text.starts_with(prompt), "{text}");
        assert_eq!(choice["finish_reason"], "length");
        assert_eq!(answer["usage"]["completion_tokens"], extra);
    }
}

#[tokio::test]
async fn text_offsets_count_characters_or_bytes_as_the_client_does() {
    let server = Harness::new([says(&["x"])]).await;
    let prompt = "d\u{e9}j\u{e0} vu \u{1F600} fin";
    let ids = tokens(prompt);
    let body = json!({"prompt": prompt, "echo": true, "max_tokens": 0, "logprobs": 0});
    let offsets = |answer: &Value| -> Vec<usize> {
        let list = answer["choices"][0]["logprobs"]["text_offset"]
            .as_array()
            .unwrap();
        list.iter()
            .map(|offset| usize::try_from(offset.as_u64().unwrap()).unwrap())
            .collect()
    };
    let starts: Vec<usize> = (0..ids.len())
        .map(|n| {
            let mut stream = qwen35_model::text::Utf8Stream::default();
            let mut text = String::new();
            for &id in &ids[..n] {
                stream.push(tokenizer().token_bytes(id).unwrap(), &mut text);
            }
            text.len()
        })
        .collect();
    let in_bytes = server
        .client
        .with("user-agent", "Go-http-client/1.1")
        .post("/v1/completions", &body)
        .await;
    let in_bytes = offsets(&in_bytes.expect(200).await);
    assert_eq!(in_bytes, starts);
    let in_chars = offsets(&server.complete(body.clone()).await.expect(200).await);
    let chars: Vec<usize> = starts
        .iter()
        .map(|&at| prompt[..at].chars().count())
        .collect();
    assert_eq!(in_chars, chars);
    assert_ne!(in_chars, in_bytes);
    let mut asked = body;
    asked["text_offset_unit"] = json!("bytes");
    assert_eq!(
        offsets(&server.complete(asked).await.expect(200).await),
        starts
    );
}

#[tokio::test]
async fn echo_without_logprobs_begins_with_the_prompt_in_both_modes() {
    let server = Harness::new([says(&[" b"])]).await;
    let body = json!({"prompt": "a", "echo": true});
    let answer = server.complete(body).await.expect(200).await;
    assert_eq!(answer["choices"][0]["text"], "a b");
    let chunks = server
        .complete(json!({"prompt": "a", "echo": true, "stream": true}))
        .await
        .chunks()
        .await;
    let text: String = chunks
        .iter()
        .filter_map(|c| c["choices"][0]["text"].as_str())
        .collect();
    assert_eq!(text, "a b");
}

#[tokio::test]
async fn a_streamed_completion_tells_the_same_logprobs_piece_by_piece() {
    let server = Harness::new([says(&["a b", " c"])]).await;
    let body = json!({"prompt": "x y", "echo": true, "logprobs": 2});
    let whole = server.complete(body.clone()).await.expect(200).await;
    let mut streamed = body;
    streamed["stream"] = json!(true);
    let chunks = server.complete(streamed).await.chunks().await;
    for list in ["tokens", "token_logprobs", "top_logprobs", "text_offset"] {
        let joined: Vec<Value> = chunks
            .iter()
            .filter_map(|chunk| chunk["choices"][0]["logprobs"][list].as_array())
            .flatten()
            .cloned()
            .collect();
        assert_eq!(
            Value::Array(joined),
            whole["choices"][0]["logprobs"][list],
            "{list}"
        );
    }
}

#[tokio::test]
async fn tokens_that_are_half_a_character_are_told_apart_in_logprobs() {
    let halves = tokens("\u{1F600}");
    let ids: Vec<u32> = halves.iter().map(|token| token.0).collect();
    let server = Harness::new([says(&[])]).await;
    let answer = server
        .complete(json!({"prompt": [ids], "echo": true, "max_tokens": 0, "logprobs": 0}))
        .await
        .expect(200)
        .await;
    let told = answer["choices"][0]["logprobs"]["tokens"]
        .as_array()
        .unwrap();
    assert!(
        told[0].as_str().unwrap().starts_with("bytes:\\xf0"),
        "{told:?}"
    );
}

#[tokio::test]
async fn an_empty_prompt_and_unknown_ids_are_refused() {
    let server = Harness::new([says(&["a"])]).await;
    for prompt in [
        json!(""),
        json!([]),
        json!([[]]),
        json!([""]),
        json!([2040]),
        json!([[1, 4_000_000_000_u32]]),
    ] {
        let error = server
            .complete(json!({"prompt": prompt}))
            .await
            .expect(400)
            .await;
        assert_eq!(error["error"]["param"], "prompt", "{prompt}");
    }
    let error = server.complete(json!({})).await.expect(400).await;
    assert_eq!(error["error"]["param"], "prompt");
    let error = server
        .complete(json!({"prompt": "a", "best_of": 3}))
        .await
        .expect(400)
        .await;
    assert_eq!(error["error"]["param"], "best_of");
    server
        .complete(json!({"prompt": "a", "best_of": 1}))
        .await
        .expect(200)
        .await;
}

#[tokio::test]
async fn control_tokens_of_a_raw_prompt_are_control_tokens() {
    let server = Harness::new([says(&["a"])]).await;
    server
        .complete(json!({"prompt": "<|im_start|>user\nHi<|im_end|>"}))
        .await
        .expect(200)
        .await;
    let prompt = server.stage.log.read(|log| log.started[0].prompt.clone());
    assert_eq!(
        prompt.first().copied(),
        tokenizer().control_id("<|im_start|>")
    );
    assert_eq!(prompt.last().copied(), tokenizer().control_id("<|im_end|>"));
}
