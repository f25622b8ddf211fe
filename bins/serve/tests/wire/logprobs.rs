use serde_json::{Value, json};

use crate::harness::{Harness, rambles, says, tokens};

#[tokio::test]
async fn there_is_one_logprob_entry_for_each_token_in_order() {
    let server = Harness::new([rambles(&["a b c", " d", " e f"])]).await;
    let body = json!({"logprobs": true, "top_logprobs": 2});
    let answer = server.chat(body).await.expect(200).await;
    let entries = answer["choices"][0]["logprobs"]["content"]
        .as_array()
        .unwrap();
    assert_eq!(
        entries.len(),
        answer["usage"]["completion_tokens"].as_u64().unwrap() as usize
    );
    let joined: String = entries
        .iter()
        .map(|entry| entry["token"].as_str().unwrap())
        .collect();
    assert_eq!(
        joined,
        answer["choices"][0]["message"]["content"].as_str().unwrap()
    );
    for entry in entries {
        assert_eq!(entry["top_logprobs"].as_array().unwrap().len(), 2);
        assert_eq!(
            entry["logprob"], entry["top_logprobs"][0]["logprob"],
            "the same number in both places"
        );
        let bytes: Vec<u8> = serde_json::from_value(entry["bytes"].clone()).unwrap();
        assert_eq!(bytes, entry["token"].as_str().unwrap().as_bytes());
    }
}

#[tokio::test]
async fn a_stream_tells_the_same_logprobs_with_the_tokens_they_belong_to() {
    let server = Harness::new([says(&["a b", " c"])]).await;
    let whole = server
        .chat(json!({"logprobs": true, "top_logprobs": 1}))
        .await
        .expect(200)
        .await;
    let chunks = server
        .chat(json!({"logprobs": true, "top_logprobs": 1, "stream": true}))
        .await
        .chunks()
        .await;
    let streamed: Vec<Value> = chunks
        .iter()
        .filter_map(|chunk| chunk["choices"][0]["logprobs"]["content"].as_array())
        .flatten()
        .cloned()
        .collect();
    assert_eq!(
        Value::Array(streamed),
        whole["choices"][0]["logprobs"]["content"]
    );
}

#[tokio::test]
async fn no_alternatives_and_twenty_are_both_allowed() {
    let server = Harness::new([says(&["a"])]).await;
    for (top, told) in [(json!(0), 0), (json!(20), 20), (Value::Null, 0)] {
        let answer = server
            .chat(json!({"logprobs": true, "top_logprobs": top}))
            .await
            .expect(200)
            .await;
        let entries = &answer["choices"][0]["logprobs"]["content"];
        assert_eq!(entries[0]["top_logprobs"].as_array().unwrap().len(), told);
    }
    let answer = server
        .chat(json!({"logprobs": false, "top_logprobs": 0}))
        .await
        .expect(200)
        .await;
    assert_eq!(answer["choices"][0]["logprobs"], Value::Null);
}

#[tokio::test]
async fn tokens_that_a_stop_string_took_back_are_not_told() {
    let server = Harness::new([rambles(&["a b", " EN", "D", " c"])]).await;
    let body = json!({"logprobs": true, "stop": " END"});
    let answer = server.chat(body).await.expect(200).await;
    let entries = answer["choices"][0]["logprobs"]["content"]
        .as_array()
        .unwrap();
    assert_eq!(entries.len(), tokens("a b").len());
    assert_eq!(answer["usage"]["completion_tokens"], entries.len());
}
