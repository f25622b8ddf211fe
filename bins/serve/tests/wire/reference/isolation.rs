use serde_json::json;

use super::{ask, demo, long, question, said};

#[tokio::test]
async fn a_short_request_after_a_long_one_is_as_on_a_fresh_server() {
    let short = question(
        "What is the opposite of hot?",
        json!({"logprobs": true, "top_logprobs": 3}),
    );
    let text = "the sea and the ship ".repeat(400);
    let long_body = question(&text, json!({"max_tokens": 32}));
    for args in [["--mtp", "off"], ["--mtp", "on"]] {
        let fresh = said(&ask(&demo(&args).await, &short).await);
        let server = demo(&args).await;
        let before = said(&ask(&server, &short).await);
        ask(&server, &long_body).await;
        let after = said(&ask(&server, &short).await);
        assert_eq!([&before, &after], [&fresh, &fresh]);
    }
}

#[tokio::test]
async fn a_request_that_was_cut_off_and_sent_again_gets_its_first_answer() {
    let body = question(
        "Tell me about the sea",
        json!({"max_tokens": 120, "temperature": 1.0, "seed": 4, "ignore_eos": true}),
    );
    for args in [["--mtp", "off"], ["--mtp", "on"]] {
        let server = demo(&args).await;
        let first = said(&ask(&server, &body).await);
        let mut streamed = body.clone();
        streamed["stream"] = json!(true);
        let mut answer = server.client.post("/v1/chat/completions", &streamed).await;
        for _ in 0..20 {
            answer.frame().await.unwrap();
        }
        drop(answer);
        assert_eq!(said(&ask(&server, &body).await), first);
    }
}

#[tokio::test]
async fn a_free_request_after_one_with_a_schema_is_as_on_a_fresh_server() {
    let free = question("What is the capital of France?", json!({}));
    let mut thinking = free.clone();
    thinking["chat_template_kwargs"] = json!({"enable_thinking": true});
    let fresh = said(&ask(&demo(&[]).await, &thinking).await);
    let server = demo(&[]).await;
    let mut form = free;
    form["guided_json"] =
        json!({"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"]});
    ask(&server, &form).await;
    assert_eq!(said(&ask(&server, &thinking).await), fresh);
}

#[tokio::test]
async fn concurrent_chats_get_the_answers_they_would_get_alone() {
    let questions: Vec<_> = ["hot", "big", "up", "day"]
        .iter()
        .map(|word| {
            question(
                &format!("What is the opposite of {word}?"),
                json!({"max_tokens": 24}),
            )
        })
        .collect();
    let alone = demo(&[]).await;
    let mut expected = Vec::new();
    for body in &questions {
        expected.push(said(&ask(&alone, body).await));
    }
    let server = demo(&[]).await;
    let mut running = Vec::new();
    for body in questions {
        let client = server.client.clone();
        running.push(tokio::spawn(async move {
            client
                .post("/v1/chat/completions", &body)
                .await
                .expect(200)
                .await
        }));
    }
    for (answer, expected) in running.into_iter().zip(expected) {
        assert_eq!(said(&answer.await.unwrap()), expected);
    }
}

#[tokio::test]
async fn a_needle_in_a_nearly_full_context_reaches_the_model_whole() {
    let server = long(8192).await;
    let ids: Vec<u32> = (0..7900_u32).map(|at| 100 + at * 37 % 1500).collect();
    let needle = 4000;
    let mut other = ids.clone();
    other[needle] = 77;
    let mut scored = Vec::new();
    for prompt in [&ids, &other] {
        let body = json!({"prompt": [prompt], "echo": true, "max_tokens": 1, "logprobs": 0, "temperature": 0});
        let answer = server
            .client
            .post("/v1/completions", &body)
            .await
            .expect(200)
            .await;
        assert_eq!(answer["usage"]["prompt_tokens"], 7900);
        scored.push(
            answer["choices"][0]["logprobs"]["token_logprobs"]
                .as_array()
                .unwrap()
                .clone(),
        );
    }
    assert_eq!(scored[0].len(), 7901);
    assert_eq!(
        scored[0][..needle],
        scored[1][..needle],
        "nothing before the needle knows of it"
    );
    let changed = (needle..7900)
        .filter(|&at| scored[0][at] != scored[1][at])
        .count();
    assert!(changed > 3000, "everything after it does: {changed}");
}

#[tokio::test]
async fn prompts_of_one_to_four_tokens_are_answered() {
    let server = demo(&[]).await;
    for length in 1..=4 {
        let ids: Vec<u32> = (0..length).map(|i| 300 + i).collect();
        let body = json!({"prompt": ids, "max_tokens": 4, "logprobs": 5, "temperature": 0});
        let answer = server
            .client
            .post("/v1/completions", &body)
            .await
            .expect(200)
            .await;
        let logprobs = answer["choices"][0]["logprobs"]["token_logprobs"]
            .as_array()
            .unwrap();
        assert!(
            logprobs
                .iter()
                .all(|value| value.as_f64().is_some_and(|v| v <= 0.0 && v > -20.0)),
            "{logprobs:?}"
        );
    }
}
