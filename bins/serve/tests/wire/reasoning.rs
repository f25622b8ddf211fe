use serde_json::{Value, json};

use crate::harness::{Harness, rambles, says, streamed_text, tokens};

fn thinking(fields: Value) -> Value {
    let mut body = json!({"messages": [{"role": "user", "content": "Hi"}]});
    for (name, value) in fields.as_object().unwrap() {
        body[name] = value.clone();
    }
    body
}

async fn ask(server: &Harness, fields: Value) -> Value {
    server
        .client
        .post("/v1/chat/completions", &thinking(fields))
        .await
        .expect(200)
        .await
}

#[tokio::test]
async fn reasoning_and_answer_are_told_apart_in_both_modes() {
    let server = Harness::new([says(&["I think", ".\n</think>\n\nThe", " answer"])]).await;
    let message = ask(&server, json!({})).await["choices"][0]["message"].clone();
    assert_eq!(message["reasoning_content"], "I think.");
    assert_eq!(message["content"], "The answer");
    let body = thinking(json!({"stream": true}));
    let chunks = server
        .client
        .post("/v1/chat/completions", &body)
        .await
        .chunks()
        .await;
    assert_eq!(
        streamed_text(&chunks, "reasoning_content").trim_end(),
        "I think."
    );
    assert_eq!(streamed_text(&chunks, "content"), "The answer");
    assert_eq!(chunks[0]["choices"][0]["delta"]["role"], "assistant");
}

#[tokio::test]
async fn a_thought_that_is_cut_off_is_reasoning_and_no_content_in_both_modes() {
    let server = Harness::new([rambles(&["one two three four five six"])]).await;
    let answer = ask(&server, json!({"max_tokens": 5})).await;
    let message = &answer["choices"][0]["message"];
    assert_eq!(message["content"], "");
    assert!(!message["reasoning_content"].as_str().unwrap().is_empty());
    assert_eq!(
        answer["usage"]["completion_tokens_details"]["reasoning_tokens"],
        5
    );
    let body = thinking(json!({"max_tokens": 5, "stream": true}));
    let chunks = server
        .client
        .post("/v1/chat/completions", &body)
        .await
        .chunks()
        .await;
    assert_eq!(streamed_text(&chunks, "content"), "");
    assert_eq!(
        streamed_text(&chunks, "reasoning_content"),
        message["reasoning_content"].as_str().unwrap()
    );
}

#[tokio::test]
async fn without_thinking_everything_is_content() {
    let server = Harness::new([says(&["plain"])]).await;
    for fields in [
        json!({"chat_template_kwargs": {"enable_thinking": false}}),
        json!({"reasoning_effort": "none"}),
        json!({"enable_thinking": false}),
        json!({"reasoning_effort": "high", "chat_template_kwargs": {"enable_thinking": false}}),
    ] {
        let answer = ask(&server, fields).await;
        assert_eq!(
            answer["choices"][0]["message"],
            json!({"role": "assistant", "content": "plain"})
        );
        assert_eq!(
            answer["usage"]["completion_tokens_details"]["reasoning_tokens"],
            0
        );
    }
    let kwargs_win =
        json!({"reasoning_effort": "none", "chat_template_kwargs": {"enable_thinking": true}});
    let answer = ask(&server, kwargs_win).await;
    assert_eq!(
        answer["choices"][0]["message"]["reasoning_content"],
        "plain"
    );
}

#[tokio::test]
async fn reasoning_is_left_out_where_it_is_not_wanted() {
    let server = Harness::new([says(&["thought\n</think>\n\nanswer"])]).await;
    let answer = ask(&server, json!({"include_reasoning": false})).await;
    assert_eq!(
        answer["choices"][0]["message"],
        json!({"role": "assistant", "content": "answer"})
    );
    let body = thinking(json!({"include_reasoning": false, "stream": true}));
    let chunks = server
        .client
        .post("/v1/chat/completions", &body)
        .await
        .chunks()
        .await;
    assert_eq!(streamed_text(&chunks, "reasoning_content"), "");
    assert_eq!(streamed_text(&chunks, "content"), "answer");
}

#[tokio::test]
async fn a_budget_ends_the_thought_cleanly() {
    let script = rambles(&["a", " b", " c", " d", "\n\n", "x", " y", "<|im_end|>"]);
    let server = Harness::new([script]).await;
    for name in [
        "thinking_token_budget",
        "thinking_budget",
        "reasoning_budget",
    ] {
        let answer = ask(&server, json!({name: 3})).await;
        let message = &answer["choices"][0]["message"];
        assert_eq!(message["reasoning_content"], "a b c");
        assert_eq!(message["content"], "x y");
        // The three, and the tag that ends them.
        assert_eq!(
            answer["usage"]["completion_tokens_details"]["reasoning_tokens"],
            4
        );
    }
    let answer = ask(&server, json!({"thinking_budget": 0})).await;
    assert!(
        answer["choices"][0]["message"]
            .get("reasoning_content")
            .is_none()
    );
    let masked = server
        .stage
        .log
        .read(|log| log.started.iter().all(|started| started.masked));
    assert!(masked);
}

#[tokio::test]
async fn a_prompt_is_saved_where_the_next_turn_will_part_from_it() {
    let server = Harness::new([says(&["ok"])]).await;
    let messages = json!([
        {"role": "system", "content": "Be brief"},
        {"role": "user", "content": "A"},
    ]);
    ask(&server, json!({"messages": messages})).await;
    let started = server.stage.log.read(|log| log.started[0].clone());
    let think = crate::harness::tokenizer().control_id("<think>").unwrap();
    let turn = tokens("<|im_start|>")[0];
    let second = started
        .prompt
        .iter()
        .enumerate()
        .filter(|(_, t)| **t == turn)
        .nth(1)
        .unwrap()
        .0;
    let opened = started
        .prompt
        .iter()
        .position(|&token| token == think)
        .unwrap();
    assert_eq!(started.checkpoints, [second, opened]);
}

#[tokio::test]
async fn reasoning_has_a_second_name_where_the_server_was_told_so() {
    let server = Harness::with(
        &["--reasoning-alias"],
        [says(&["thought\n</think>\n\nanswer"])],
    )
    .await;
    let message = ask(&server, json!({})).await["choices"][0]["message"].clone();
    assert_eq!(message["reasoning"], message["reasoning_content"]);
    let body = thinking(json!({"stream": true}));
    let chunks = server
        .client
        .post("/v1/chat/completions", &body)
        .await
        .chunks()
        .await;
    assert_eq!(
        streamed_text(&chunks, "reasoning"),
        streamed_text(&chunks, "reasoning_content")
    );
    let plain = Harness::new([says(&["thought\n</think>\n\nanswer"])]).await;
    assert!(
        ask(&plain, json!({})).await["choices"][0]["message"]
            .get("reasoning")
            .is_none()
    );
}
