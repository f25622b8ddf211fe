use serde_json::{Value, json};

use crate::harness::{Harness, rambles, says};
use crate::scripted::{Round, Script};

fn weather_tools() -> Value {
    json!([
        {"type": "function", "function": {
            "name": "weather",
            "description": "Weather of a place",
            "parameters": {"type": "object", "properties": {
                "zip": {"type": "string"},
                "days": {"type": "integer"},
                "units": {"type": "object", "properties": {"wind": {"type": "string"}}},
            }, "required": ["zip"]},
        }},
        {"type": "function", "function": {"name": "stop"}},
    ])
}

const CALL: &str = "<tool_call>\n<function=weather>\n<parameter=zip>\n02134\n</parameter>\n<parameter=days>\n5.0\n</parameter>\n</function>\n</tool_call>";
const OTHER_CALL: &str = "<tool_call>\n<function=stop>\n</function>\n</tool_call>";

/// What a stream said, put together as a client does it.
fn assembled(chunks: &[Value]) -> Value {
    let mut content = String::new();
    let mut calls: Vec<Value> = Vec::new();
    for chunk in chunks {
        let delta = &chunk["choices"][0]["delta"];
        content.push_str(delta["content"].as_str().unwrap_or_default());
        for call in delta["tool_calls"].as_array().into_iter().flatten() {
            let index = usize::try_from(call["index"].as_u64().unwrap()).unwrap();
            if call.get("id").is_some() {
                assert_eq!(index, calls.len(), "calls begin in order");
                calls.push(json!({"id": call["id"], "type": call["type"], "function": {"name": call["function"]["name"], "arguments": ""}}));
            }
            let so_far = calls[index]["function"]["arguments"]
                .as_str()
                .unwrap()
                .to_owned();
            let more = call["function"]["arguments"].as_str().unwrap_or_default();
            calls[index]["function"]["arguments"] = json!(so_far + more);
        }
    }
    json!({"content": content, "tool_calls": calls})
}

fn without_ids(calls: &Value) -> Value {
    let calls = calls.as_array().unwrap().iter();
    calls.map(|call| call["function"].clone()).collect()
}

#[tokio::test]
async fn a_call_is_told_as_a_call_with_arguments_typed_by_the_schema() {
    let server = Harness::new([says(&[CALL])]).await;
    let answer = server
        .chat(json!({"tools": weather_tools()}))
        .await
        .expect(200)
        .await;
    let choice = &answer["choices"][0];
    assert_eq!(choice["finish_reason"], "tool_calls");
    assert_eq!(choice["message"]["content"], Value::Null);
    let call = &choice["message"]["tool_calls"][0];
    assert_eq!(call["type"], "function");
    assert!(call["id"].as_str().unwrap().starts_with("call_"));
    assert_eq!(call["function"]["name"], "weather");
    let arguments: Value =
        serde_json::from_str(call["function"]["arguments"].as_str().unwrap()).unwrap();
    assert_eq!(arguments, json!({"zip": "02134", "days": 5}));
}

#[tokio::test]
async fn a_value_that_does_not_fit_its_type_stays_text_and_the_call_is_kept() {
    let call = CALL.replace("5.0", "2026-01-15");
    let server = Harness::new([says(&[&call])]).await;
    let answer = server
        .chat(json!({"tools": weather_tools()}))
        .await
        .expect(200)
        .await;
    let arguments = answer["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"]
        .as_str()
        .unwrap();
    assert_eq!(
        serde_json::from_str::<Value>(arguments).unwrap()["days"],
        "2026-01-15"
    );
}

#[tokio::test]
async fn a_stream_never_leaks_the_markup_however_the_text_is_cut() {
    let text = format!("Let me see.\n\n{CALL}\n{OTHER_CALL}");
    let tokens = crate::harness::tokens(&text);
    let mut expected = None;
    for size in [1, 2, 3, 5, 8, 13, tokens.len()] {
        let mut script = Script {
            rounds: tokens
                .chunks(size)
                .map(|c| Round::Tokens(c.to_vec()))
                .collect(),
            ..says(&[])
        };
        script
            .rounds
            .push_back(Round::Tokens(crate::harness::tokens("<|im_end|>")));
        let server = Harness::new([script]).await;
        let body = json!({"tools": weather_tools(), "stream": true});
        let chunks = server.chat(body).await.chunks().await;
        let last = &chunks.last().unwrap()["choices"][0];
        assert_eq!(last["finish_reason"], "tool_calls");
        let said = assembled(&chunks);
        assert_eq!(said["content"].as_str().unwrap().trim_end(), "Let me see.");
        let calls = without_ids(&said["tool_calls"]);
        let whole = server
            .chat(json!({"tools": weather_tools()}))
            .await
            .expect(200)
            .await;
        assert_eq!(
            without_ids(&whole["choices"][0]["message"]["tool_calls"]),
            calls
        );
        assert_eq!(*expected.get_or_insert_with(|| calls.clone()), calls);
    }
    let expected = expected.unwrap();
    assert_eq!(expected.as_array().unwrap().len(), 2);
    for call in expected.as_array().unwrap() {
        serde_json::from_str::<Value>(call["arguments"].as_str().unwrap()).unwrap();
    }
}

#[tokio::test]
async fn two_calls_have_different_ids_and_so_have_two_answers() {
    let server = Harness::new([says(&[CALL, "\n", OTHER_CALL])]).await;
    let mut ids = std::collections::BTreeSet::new();
    for _ in 0..2 {
        let answer = server
            .chat(json!({"tools": weather_tools()}))
            .await
            .expect(200)
            .await;
        for call in answer["choices"][0]["message"]["tool_calls"]
            .as_array()
            .unwrap()
        {
            ids.insert(call["id"].as_str().unwrap().to_owned());
        }
    }
    assert_eq!(ids.len(), 4);
}

#[tokio::test]
async fn without_parallel_calls_the_answer_ends_after_the_first() {
    let server = Harness::new([rambles(&[CALL, "\n", OTHER_CALL])]).await;
    let body = json!({"tools": weather_tools(), "parallel_tool_calls": false});
    let answer = server.chat(body).await.expect(200).await;
    let choice = &answer["choices"][0];
    assert_eq!(choice["message"]["tool_calls"].as_array().unwrap().len(), 1);
    assert_eq!(choice["finish_reason"], "tool_calls");
    assert_eq!(server.stage.log.read(|log| log.steps), 1);
}

#[tokio::test]
async fn json_inside_the_tags_is_a_call_as_well() {
    let json_call =
        "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"zip\": \"1\"}}\n</tool_call>";
    let server = Harness::new([says(&[json_call])]).await;
    let answer = server
        .chat(json!({"tools": weather_tools()}))
        .await
        .expect(200)
        .await;
    let function = &answer["choices"][0]["message"]["tool_calls"][0]["function"];
    assert_eq!(function["name"], "weather");
    assert_eq!(
        serde_json::from_str::<Value>(function["arguments"].as_str().unwrap()).unwrap(),
        json!({"zip": "1"})
    );
}

#[tokio::test]
async fn tool_choice_none_keeps_the_tools_from_the_model_and_its_text_as_it_is() {
    let server = Harness::new([says(&["ok"])]).await;
    server
        .chat(json!({"tools": weather_tools(), "tool_choice": "none"}))
        .await
        .expect(200)
        .await;
    server.chat(json!({})).await.expect(200).await;
    server
        .chat(json!({"tools": weather_tools(), "tool_choice": "auto"}))
        .await
        .expect(200)
        .await;
    let prompts = server.stage.log.read(|log| {
        log.started
            .iter()
            .map(|s| s.prompt.clone())
            .collect::<Vec<_>>()
    });
    assert_eq!(prompts[0], prompts[1]);
    assert!(prompts[2].len() > prompts[1].len());
}

/// A script whose every token the mask may replace: what comes out is what the constraint allows.
fn nonsense() -> Script {
    Script {
        repeat: Some(Round::Tokens(crate::harness::tokens("x"))),
        ..Script::default()
    }
}

#[tokio::test]
async fn required_and_named_choices_force_a_call() {
    let server = Harness::new([nonsense()]).await;
    for choice in [
        json!("required"),
        json!({"type": "function", "function": {"name": "stop"}}),
    ] {
        let body = json!({"tools": weather_tools(), "tool_choice": choice, "parallel_tool_calls": false, "max_tokens": 200});
        let answer = server.chat(body).await.expect(200).await;
        let message = &answer["choices"][0]["message"];
        let calls = message["tool_calls"]
            .as_array()
            .unwrap_or_else(|| panic!("{answer}"));
        if choice != "required" {
            assert_eq!(calls[0]["function"]["name"], "stop");
            assert_eq!(calls[0]["function"]["arguments"], "{}");
        }
        assert_eq!(message["content"], Value::Null);
    }
}

#[tokio::test]
async fn a_forced_call_waits_for_the_end_of_the_reasoning() {
    let mut script = rambles(&["hm", "</think>"]);
    script.repeat = nonsense().repeat;
    let server = Harness::new([script]).await;
    let body = json!({
        "messages": [{"role": "user", "content": "go"}],
        "tools": weather_tools(),
        "tool_choice": {"type": "function", "function": {"name": "stop"}},
        "parallel_tool_calls": false,
    });
    let answer = server
        .client
        .post("/v1/chat/completions", &body)
        .await
        .expect(200)
        .await;
    let message = &answer["choices"][0]["message"];
    assert_eq!(message["reasoning_content"], "hm");
    assert_eq!(message["tool_calls"][0]["function"]["name"], "stop");
}

#[tokio::test]
async fn a_named_tool_must_be_there() {
    let server = Harness::new([says(&["x"])]).await;
    let body = json!({"tools": weather_tools(), "tool_choice": {"type": "function", "function": {"name": "other"}}});
    let error = server.chat(body).await.expect(400).await;
    assert_eq!(error["error"]["param"], "tool_choice");
}
