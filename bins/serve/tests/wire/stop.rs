use serde_json::json;

use crate::harness::{Harness, for_ever, rambles, says, streamed_text};

#[tokio::test]
async fn a_stop_string_ends_the_answer_and_is_not_part_of_it() {
    let server = Harness::new([rambles(&["one", " two", " three", " four"])]).await;
    let answer = server
        .chat(json!({"stop": " three"}))
        .await
        .expect(200)
        .await;
    let choice = &answer["choices"][0];
    assert_eq!(choice["message"]["content"], "one two");
    assert_eq!(choice["finish_reason"], "stop");
    assert_eq!(choice["stop_reason"], " three");
    let chunks = server
        .chat(json!({"stop": " three", "stream": true}))
        .await
        .chunks()
        .await;
    assert_eq!(streamed_text(&chunks, "content"), "one two");
}

#[tokio::test]
async fn a_stop_string_is_found_across_rounds_and_in_the_middle_of_one() {
    for rounds in [
        &["ab", "cd", "ef"][..],
        &["ab cd ef"],
        &["a", "b", "c", "d", "e", "f"],
    ] {
        let server = Harness::new([rambles(rounds)]).await;
        let whole = rounds.concat();
        let cut = whole.find("cd").unwrap();
        let answer = server.chat(json!({"stop": ["cd"]})).await.expect(200).await;
        assert_eq!(answer["choices"][0]["message"]["content"], whole[..cut]);
    }
}

#[tokio::test]
async fn a_stop_wins_over_the_limit_reached_in_the_same_round() {
    let server = Harness::new([rambles(&["a. b"])]).await;
    let tokens = crate::harness::tokens("a. b").len();
    let answer = server
        .chat(json!({"stop": ".", "max_tokens": tokens}))
        .await
        .expect(200)
        .await;
    assert_eq!(answer["choices"][0]["finish_reason"], "stop");
    assert_eq!(answer["choices"][0]["message"]["content"], "a");
}

#[tokio::test]
async fn what_follows_a_stop_in_its_round_leaves_no_trace_in_the_engine() {
    let server = Harness::new([rambles(&["a. b c"])]).await;
    server.chat(json!({"stop": "."})).await.expect(200).await;
    let kept = server.stage.log.read(|log| log.kept.clone());
    assert_eq!(kept, crate::harness::tokens("a."));
}

#[tokio::test]
async fn text_that_may_become_a_stop_is_held_back_and_no_other() {
    let server = Harness::new([says(&["x EN", "DX y"])]).await;
    let chunks = server
        .chat(json!({"stop": "ENDING", "stream": true}))
        .await
        .chunks()
        .await;
    let texts: Vec<_> = chunks
        .iter()
        .filter_map(|c| c["choices"][0]["delta"]["content"].as_str())
        .collect();
    assert_eq!(texts, ["x ", "ENDX y"]);
}

#[tokio::test]
async fn every_shape_of_stop_is_taken_and_the_empty_string_stops_nothing() {
    let server = Harness::new([says(&["a x b"])]).await;
    for (stop, text) in [
        (json!(null), "a x b"),
        (json!([]), "a x b"),
        (json!(""), "a x b"),
        (json!([""]), "a x b"),
        (json!("x"), "a "),
        (json!(["b", "x", "z", "w"]), "a "),
    ] {
        let answer = server.chat(json!({"stop": stop})).await.expect(200).await;
        assert_eq!(answer["choices"][0]["message"]["content"], text, "{stop}");
    }
    let many: Vec<String> = (0..100).map(|i| i.to_string()).collect();
    let error = server.chat(json!({"stop": many})).await.expect(400).await;
    assert_eq!(error["error"]["param"], "stop");
}

#[tokio::test]
async fn a_stop_token_of_the_request_ends_the_answer_and_is_told() {
    let server = Harness::new([for_ever(" a")]).await;
    let token = crate::harness::tokens(" a")[0].0;
    let answer = server
        .chat(json!({"stop_token_ids": [token]}))
        .await
        .expect(200)
        .await;
    assert_eq!(answer["choices"][0]["finish_reason"], "stop");
    assert_eq!(answer["choices"][0]["stop_reason"], token);
    assert_eq!(answer["usage"]["completion_tokens"], 1);
}

#[tokio::test]
async fn the_models_own_end_of_turn_is_no_stop_reason() {
    let server = Harness::new([says(&["a"])]).await;
    let answer = server.chat(json!({})).await.expect(200).await;
    assert!(answer["choices"][0]["stop_reason"].is_null());
}
