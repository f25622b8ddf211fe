use serde_json::{Value, json};

use super::{ask, content, demo, question, said};

fn cached(answer: &Value) -> u64 {
    answer["usage"]["prompt_tokens_details"]["cached_tokens"]
        .as_u64()
        .unwrap()
}

#[tokio::test]
async fn the_turns_of_a_conversation_reuse_more_and_more_and_change_nothing() {
    let server = demo(&[]).await;
    let mut messages = vec![json!({"role": "user", "content": "What is 2 plus 2?"})];
    let mut last = 0;
    for next in [
        "What is the opposite of hot?",
        "What is the capital of France?",
        "What is 3 plus 4?",
    ] {
        let mut body = question("", json!({"logprobs": true}));
        body["messages"] = json!(messages);
        let warm = ask(&server, &body).await;
        body["cache_prompt"] = json!(false);
        let cold = ask(&server, &body).await;
        assert_eq!(cached(&cold), 0);
        assert_eq!(said(&warm), said(&cold), "a reused state is the state");
        assert!(warm["usage"]["completion_tokens"].as_u64().unwrap() > 1);
        if messages.len() > 1 {
            assert!(cached(&warm) > last, "{} after {last}", cached(&warm));
        }
        last = cached(&warm);
        messages.push(json!({"role": "assistant", "content": content(&warm)}));
        messages.push(json!({"role": "user", "content": next}));
    }
}

#[tokio::test]
async fn the_same_conversation_asked_twenty_times_is_answered_twenty_times() {
    let server = demo(&[]).await;
    let body = question("What is 7 plus 5?", json!({}));
    let first = said(&ask(&server, &body).await);
    for _ in 0..19 {
        let answer = ask(&server, &body).await;
        assert_eq!(said(&answer), first);
        assert!(cached(&answer) > 0);
        assert!(answer["usage"]["completion_tokens"].as_u64().unwrap() > 1);
    }
}

#[tokio::test]
async fn a_prompt_that_parts_from_an_earlier_one_sees_nothing_of_its_end() {
    let server = demo(&[]).await;
    let first: Vec<u32> = (0..60).map(|i| 300 + i * 7 % 900).collect();
    let mut second = first.clone();
    second[40] = 5;
    let score = |prompt: &[u32], cache: bool| json!({"prompt": prompt, "max_tokens": 8, "logprobs": 3, "temperature": 0, "cache_prompt": cache});
    let client = &server.client;
    client
        .post("/v1/completions", &score(&first, true))
        .await
        .expect(200)
        .await;
    let warm = client
        .post("/v1/completions", &score(&second, true))
        .await
        .expect(200)
        .await;
    let cold = client
        .post("/v1/completions", &score(&second, false))
        .await
        .expect(200)
        .await;
    assert_eq!(said(&warm), said(&cold));
    assert_eq!(cached(&warm), 0);
    let mut longer = second.clone();
    longer.extend([9, 10, 11]);
    let warm = client
        .post("/v1/completions", &score(&longer, true))
        .await
        .expect(200)
        .await;
    let cold = client
        .post("/v1/completions", &score(&longer, false))
        .await
        .expect(200)
        .await;
    assert_eq!(said(&warm), said(&cold));
    assert!(
        cached(&warm) >= second.len() as u64,
        "the end of a prompt is kept: {}",
        cached(&warm)
    );
}

#[tokio::test]
async fn without_room_for_states_nothing_is_reused() {
    let server = demo(&["--prefix-cache", "0"]).await;
    let body = question("What is 7 plus 5?", json!({}));
    for _ in 0..2 {
        assert_eq!(cached(&ask(&server, &body).await), 0);
    }
}

#[tokio::test]
async fn the_self_check_computes_reused_answers_again_and_finds_no_difference() {
    let server = demo(&["--check-prefix-cache"]).await;
    let fields = json!({"temperature": 1.0, "seed": 3, "max_tokens": 40, "stop": ["the"]});
    let body = question("Tell me about the sea", fields);
    let unchecked = said(&ask(&demo(&[]).await, &body).await);
    for _ in 0..3 {
        assert_eq!(
            said(&ask(&server, &body).await),
            unchecked,
            "the check shows in no answer"
        );
    }
    // The check comes after the answer; one more request comes after the check.
    ask(&server, &question("What is 7 plus 5?", json!({}))).await;
    let text = server.client.get("/metrics").await.text().await;
    let value = |name: &str| {
        let line = text.lines().find(|line| line.starts_with(name)).unwrap();
        line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()
    };
    assert!(value("qwen35:prefix_rechecks_total") >= 2);
    assert_eq!(value("qwen35:prefix_recheck_mismatches_total"), 0);
}
