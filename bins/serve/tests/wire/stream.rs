use serde_json::{Value, json};

use crate::harness::{Harness, rambles, says, streamed_text, tokenizer, tokens};
use crate::scripted::{Round, Script};

#[tokio::test]
async fn a_stream_is_role_with_the_first_token_then_text_then_the_reason() {
    let server = Harness::new([says(&["The", " answer"])]).await;
    let answer = server.chat(json!({"stream": true})).await;
    assert_eq!(
        answer.headers["content-type"],
        "text/event-stream; charset=utf-8"
    );
    let chunks = answer.chunks().await;
    let deltas: Vec<&Value> = chunks
        .iter()
        .map(|chunk| &chunk["choices"][0]["delta"])
        .collect();
    assert_eq!(deltas[0], &json!({"role": "assistant", "content": "The"}));
    assert_eq!(deltas[1], &json!({"content": " answer"}));
    assert_eq!(deltas[2], &json!({}));
    assert_eq!(chunks.len(), 3);
    assert_eq!(chunks[2]["choices"][0]["finish_reason"], "stop");
    assert_eq!(chunks[1]["choices"][0]["finish_reason"], Value::Null);
    let ids: Vec<&Value> = chunks.iter().map(|chunk| &chunk["id"]).collect();
    assert!(ids.iter().all(|id| id == &ids[0]), "one id for all chunks");
    assert!(
        chunks
            .iter()
            .all(|chunk| chunk["object"] == "chat.completion.chunk")
    );
}

#[tokio::test]
async fn without_being_asked_every_chunk_has_one_choice_and_no_usage() {
    let server = Harness::new([says(&["a", "b"])]).await;
    for body in [
        json!({"stream": true}),
        json!({"stream": true, "stream_options": {"include_usage": false}}),
    ] {
        let chunks = server.chat(body).await.chunks().await;
        for chunk in chunks {
            assert_eq!(chunk["choices"].as_array().unwrap().len(), 1);
            assert!(chunk.get("usage").is_none());
        }
    }
}

#[tokio::test]
async fn the_usage_comes_in_a_chunk_of_its_own_after_the_others_said_null() {
    let server = Harness::new([says(&["a", "b"])]).await;
    let body = json!({"stream": true, "stream_options": {"include_usage": true}});
    let chunks = server.chat(body).await.chunks().await;
    let (last, others) = chunks.split_last().unwrap();
    assert_eq!(last["choices"], json!([]));
    assert_eq!(last["usage"]["completion_tokens"], 3);
    assert!(last["timings"]["predicted_n"].is_number());
    for chunk in others {
        assert_eq!(chunk["usage"], Value::Null);
        assert!(chunk.get("usage").is_some());
    }
}

#[tokio::test]
async fn stream_options_are_for_streams() {
    let server = Harness::new([says(&["a"])]).await;
    for body in [
        json!({"stream_options": {"include_usage": true}}),
        json!({"stream": false, "stream_options": {"include_usage": true}}),
    ] {
        let error = server.chat(body).await.expect(400).await;
        assert_eq!(error["error"]["param"], "stream_options");
    }
    let error = server
        .chat(json!({"stream": true, "stream_options": {"include_usage": "yes"}}))
        .await
        .expect(400)
        .await;
    assert_eq!(error["error"]["param"], "stream_options.include_usage");
}

#[tokio::test]
async fn a_character_cut_between_tokens_arrives_whole() {
    let halves: Vec<_> = tokens("\u{1F600}");
    assert!(
        halves.len() > 1,
        "the test needs a character of several tokens"
    );
    let script = Script {
        rounds: halves.iter().map(|&t| Round::Tokens(vec![t])).collect(),
        ..says(&[])
    };
    let server = Harness::new([script]).await;
    let chunks = server.chat(json!({"stream": true})).await.chunks().await;
    assert_eq!(streamed_text(&chunks, "content"), "\u{1F600}");
    let answer = server.chat(json!({})).await.expect(200).await;
    assert_eq!(answer["choices"][0]["message"]["content"], "\u{1F600}");
}

#[tokio::test]
async fn half_a_character_at_the_limit_is_shown_once_and_the_limit_holds() {
    let halves = tokens("\u{1F600}");
    let script = Script {
        rounds: [Round::Tokens(halves)].into(),
        ..Script::default()
    };
    let server = Harness::new([script]).await;
    let answer = server
        .chat(json!({"max_tokens": 1}))
        .await
        .expect(200)
        .await;
    assert_eq!(answer["choices"][0]["message"]["content"], "\u{FFFD}");
    assert_eq!(answer["usage"]["completion_tokens"], 1);
    assert_eq!(answer["choices"][0]["finish_reason"], "length");
}

#[tokio::test]
async fn a_streamed_answer_is_the_whole_answer() {
    let server = Harness::new([says(&["a b", " c\u{e9}", "\n\nd", " <b>"])]).await;
    let whole = server.chat(json!({})).await.expect(200).await;
    let chunks = server.chat(json!({"stream": true})).await.chunks().await;
    assert_eq!(
        whole["choices"][0]["message"]["content"],
        streamed_text(&chunks, "content")
    );
}

#[tokio::test]
async fn an_answer_without_text_still_has_a_chunk_with_its_role() {
    let server = Harness::new([says(&[])]).await;
    let chunks = server.chat(json!({"stream": true})).await.chunks().await;
    assert_eq!(chunks.len(), 1);
    assert_eq!(
        chunks[0]["choices"][0]["delta"],
        json!({"role": "assistant", "content": ""})
    );
    assert_eq!(chunks[0]["choices"][0]["finish_reason"], "stop");
}

#[tokio::test]
async fn one_round_is_one_chunk() {
    let server = Harness::new([rambles(&["a b", "c d", "e f"])]).await;
    let chunks = server.chat(json!({"stream": true})).await.chunks().await;
    let texts: Vec<_> = chunks
        .iter()
        .filter_map(|c| c["choices"][0]["delta"]["content"].as_str())
        .collect();
    assert_eq!(texts, ["a b", "c d", "e f"]);
}

#[tokio::test]
async fn a_failure_in_the_middle_is_an_event_and_no_done_follows() {
    let mut script = rambles(&["a"]);
    script.rounds.push_back(Round::Fail);
    let server = Harness::new([script]).await;
    let mut answer = server.chat(json!({"stream": true})).await;
    assert_eq!(answer.status, 200);
    let first = answer.frame().await.unwrap();
    assert!(first.contains("\"a\""));
    let error = answer.frame().await.unwrap();
    let error: Value = serde_json::from_str(error.strip_prefix("data: ").unwrap()).unwrap();
    assert_eq!(error["error"]["type"], "server_error");
    assert_eq!(answer.frame().await, None);
}

#[tokio::test]
async fn token_ids_are_told_where_asked_for() {
    let server = Harness::new([says(&["a b", " c"])]).await;
    let body = json!({"stream": true, "return_token_ids": true});
    let chunks = server.chat(body).await.chunks().await;
    let prompt = server.stage.log.read(|log| log.started[0].prompt.clone());
    let ids = |tokens: &[mtp_spec::TokenId]| tokens.iter().map(|t| t.0).collect::<Vec<_>>();
    assert_eq!(chunks[0]["prompt_token_ids"], json!(ids(&prompt)));
    assert_eq!(
        chunks[0]["choices"][0]["token_ids"],
        json!(ids(&tokens("a b")))
    );
    assert_eq!(
        chunks[1]["choices"][0]["token_ids"],
        json!(ids(&tokens(" c")))
    );
    assert!(chunks[1].get("prompt_token_ids").is_none());
    let whole = server
        .chat(json!({"return_token_ids": true}))
        .await
        .expect(200)
        .await;
    assert_eq!(
        whole["choices"][0]["token_ids"],
        json!(ids(
            &[tokens("a b"), tokens(" c"), tokens("<|im_end|>")].concat()
        ))
    );
    let unasked = server.chat(json!({})).await.expect(200).await;
    assert!(unasked.get("prompt_token_ids").is_none());
    assert!(tokenizer().vocab_size() > 0);
}

#[tokio::test]
async fn a_long_prefill_is_bridged_by_comments() {
    let script = Script {
        prefill_chunks: usize::MAX,
        ..Script::default()
    };
    let server = Harness::with(&["--ping", "1"], [script]).await;
    let mut answer = server.chat(json!({"stream": true})).await;
    assert_eq!(answer.frame().await.as_deref(), Some(": ping"));
}
