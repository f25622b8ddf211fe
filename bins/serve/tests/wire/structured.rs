use serde_json::{Value, json};

use crate::harness::{Harness, rambles, says};
use crate::scripted::{Round, Script};

/// Says the same token for ever: whatever else comes out, the constraint has put in its place.
fn stubborn(text: &str) -> Script {
    Script {
        repeat: Some(Round::Tokens(crate::harness::tokens(text)[..1].to_vec())),
        ..Script::default()
    }
}

fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {"ok": {"type": "boolean"}, "n": {"enum": [1, 2]}},
        "required": ["ok", "n"],
        "additionalProperties": false,
    })
}

fn check(text: &str) {
    let value: Value = serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"));
    assert!(
        value["ok"].is_boolean() && (value["n"] == 1 || value["n"] == 2),
        "{value}"
    );
}

#[tokio::test]
async fn a_schema_is_followed_whatever_the_model_wants_to_say() {
    let server = Harness::new([stubborn("x")]).await;
    for field in [
        json!({"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": schema(), "strict": true}}}),
        json!({"response_format": {"type": "json_object", "schema": schema()}}),
        json!({"structured_outputs": {"json": schema()}}),
        json!({"guided_json": schema()}),
        json!({"guided_json": schema().to_string()}),
        json!({"json_schema": schema()}),
    ] {
        let answer = server.chat(field.clone()).await.expect(200).await;
        check(answer["choices"][0]["message"]["content"].as_str().unwrap());
        assert_eq!(answer["choices"][0]["finish_reason"], "stop", "{field}");
    }
}

#[tokio::test]
async fn the_form_begins_after_the_reasoning_and_holds_without_it_too() {
    let mut script = rambles(&["thinking {", " hard", "\n", "</think>"]);
    script.repeat = stubborn("x").repeat;
    let server = Harness::new([script]).await;
    let format = json!({"type": "json_schema", "json_schema": {"schema": schema()}});
    let thinking =
        json!({"messages": [{"role": "user", "content": "Hi"}], "response_format": format});
    let answer = server
        .client
        .post("/v1/chat/completions", &thinking)
        .await
        .expect(200)
        .await;
    let message = &answer["choices"][0]["message"];
    assert_eq!(
        message["reasoning_content"].as_str().unwrap().trim_end(),
        "thinking { hard"
    );
    check(message["content"].as_str().unwrap());
    server.play(stubborn("x"));
    let answer = server
        .chat(json!({"response_format": format}))
        .await
        .expect(200)
        .await;
    check(answer["choices"][0]["message"]["content"].as_str().unwrap());
}

#[tokio::test]
async fn a_thought_cannot_end_the_turn_while_a_form_is_owed() {
    let mut script = says(&["hm"]);
    script
        .rounds
        .push_back(Round::Tokens(crate::harness::tokens("</think>")));
    script.repeat = stubborn("x").repeat;
    let server = Harness::new([script]).await;
    let body = json!({
        "messages": [{"role": "user", "content": "Hi"}],
        "response_format": {"type": "json_schema", "json_schema": {"schema": schema()}},
    });
    let answer = server
        .client
        .post("/v1/chat/completions", &body)
        .await
        .expect(200)
        .await;
    check(answer["choices"][0]["message"]["content"].as_str().unwrap());
}

#[tokio::test]
async fn expressions_choices_and_grammars_are_followed() {
    let server = Harness::new([stubborn("x")]).await;
    let gbnf = "root ::= greeting \" \" [A-C]{2}\ngreeting ::= \"hey\" | \"hello\"";
    let is_greeting = |text: &str| {
        let rest = text
            .strip_prefix("hey ")
            .or_else(|| text.strip_prefix("hello "));
        rest.is_some_and(|rest| rest.len() == 2 && rest.bytes().all(|b| (b'A'..=b'C').contains(&b)))
    };
    let content = |answer: Value| {
        answer["choices"][0]["message"]["content"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    for field in [
        json!({"grammar": gbnf}),
        json!({"structured_outputs": {"grammar": gbnf}}),
        json!({"guided_grammar": gbnf}),
    ] {
        let text = content(server.chat(field).await.expect(200).await);
        assert!(is_greeting(&text), "{text}");
    }
    let text = content(
        server
            .chat(json!({"structured_outputs": {"regex": "[ab]{3}z"}}))
            .await
            .expect(200)
            .await,
    );
    assert!(text.len() == 4 && text.ends_with('z'), "{text}");
    let text = content(
        server
            .chat(json!({"guided_regex": "(yes|no)"}))
            .await
            .expect(200)
            .await,
    );
    assert!(["yes", "no"].contains(&text.as_str()), "{text}");
    let text = content(
        server
            .chat(json!({"guided_choice": ["left", "right \"quoted\""]}))
            .await
            .expect(200)
            .await,
    );
    assert!(
        ["left", "right \"quoted\""].contains(&text.as_str()),
        "{text}"
    );
    let lark = "start: \"A\" num\nnum: /[0-9]{2}/";
    let text = content(
        server
            .chat(json!({"grammar": lark}))
            .await
            .expect(200)
            .await,
    );
    assert!(text.len() == 3 && text.starts_with('A'), "{text}");
}

#[tokio::test]
async fn completions_take_a_form_as_well() {
    let server = Harness::new([stubborn("x")]).await;
    let body = json!({"prompt": "a", "guided_regex": "[0-9]{4}", "max_tokens": 20});
    let answer = server.complete(body).await.expect(200).await;
    let text = answer["choices"][0]["text"].as_str().unwrap();
    assert!(
        text.len() == 4 && text.bytes().all(|b| b.is_ascii_digit()),
        "{text}"
    );
}

#[tokio::test]
async fn a_form_beside_tools_allows_either() {
    let server = Harness::new([stubborn("x")]).await;
    let tools = json!([{"type": "function", "function": {"name": "f"}}]);
    let body = json!({"tools": tools, "response_format": {"type": "json_schema", "json_schema": {"schema": schema()}}});
    let answer = server.chat(body.clone()).await.expect(200).await;
    check(answer["choices"][0]["message"]["content"].as_str().unwrap());
    server.play(says(&[
        "<tool_call>\n<function=f>\n</function>\n</tool_call>",
    ]));
    let answer = server.chat(body).await.expect(200).await;
    assert_eq!(
        answer["choices"][0]["message"]["tool_calls"][0]["function"]["name"],
        "f"
    );
}

#[tokio::test]
async fn what_cannot_be_compiled_is_a_400_that_says_why() {
    let server = Harness::new([says(&["x"])]).await;
    for (body, param) in [
        (
            json!({"guided_json": {"type": "object", "unevaluatedItems": 1, "not": {"type": "null"}}}),
            "guided_json",
        ),
        (
            json!({"guided_json": {"$ref": "http://192.0.2.1/schema"}}),
            "guided_json",
        ),
        (json!({"guided_json": "{"}), "guided_json"),
        (json!({"guided_json": 5}), "guided_json"),
        (json!({"guided_regex": "("}), "guided_regex"),
        (json!({"guided_choice": []}), "guided_choice"),
        (json!({"grammar": "root ::= "}), "grammar"),
        (json!({"grammar": "root ::= missing"}), "grammar"),
        (json!({"grammar": "start: /a"}), "grammar"),
        (
            json!({"guided_regex": "a", "guided_json": {}}),
            "guided_regex",
        ),
        (
            json!({"guided_json": {"type": "object"}, "ignore_eos": true}),
            "ignore_eos",
        ),
        (
            json!({"guided_json": {"type": "object"}, "min_tokens": 5}),
            "min_tokens",
        ),
    ] {
        if body == json!({"grammar": "root ::= "}) {
            // An empty alternative is a grammar, of the empty text.
            server.chat(body).await.expect(200).await;
            continue;
        }
        let error = server.chat(body.clone()).await.expect(400).await;
        assert_eq!(error["error"]["param"], param, "{body}: {error}");
        assert!(!error["error"]["message"].as_str().unwrap().contains('\n'));
    }
    let keyword = json!({"guided_json": {"type": "array", "unevaluatedItems": false}});
    let error = server.chat(keyword).await.expect(400).await;
    assert!(
        error["error"]["message"]
            .as_str()
            .unwrap()
            .contains("unevaluatedItems"),
        "{error}"
    );
}

#[tokio::test]
async fn references_inside_a_schema_are_followed() {
    let server = Harness::new([stubborn("x")]).await;
    let schema = json!({
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/yes"}},
        "required": ["a"],
        "additionalProperties": false,
        "$defs": {"yes": {"const": "yes"}},
    });
    let answer = server
        .chat(json!({"guided_json": schema}))
        .await
        .expect(200)
        .await;
    let text = answer["choices"][0]["message"]["content"].as_str().unwrap();
    assert_eq!(
        serde_json::from_str::<Value>(text).unwrap(),
        json!({"a": "yes"})
    );
}

#[tokio::test]
async fn a_request_after_one_with_a_form_is_free() {
    let server = Harness::new([stubborn("x")]).await;
    server
        .chat(json!({"guided_json": schema()}))
        .await
        .expect(200)
        .await;
    server.play(says(&["free text"]));
    let answer = server.chat(json!({})).await.expect(200).await;
    assert_eq!(answer["choices"][0]["message"]["content"], "free text");
}
