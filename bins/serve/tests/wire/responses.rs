use serde_json::{Value, json};

use crate::client::Answer;
use crate::harness::{Harness, rambles, says};
use crate::scripted::Round;

const PATH: &str = "/v1/responses";

/// The events of a stream, each with its name.
async fn events(mut answer: Answer) -> Vec<(String, Value)> {
    assert_eq!(answer.status, 200);
    let mut events = Vec::new();
    while let Some(frame) = answer.frame().await {
        let (name, data) = frame.split_once('\n').unwrap_or_else(|| panic!("{frame}"));
        let data: Value = serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap();
        let name = name.strip_prefix("event: ").unwrap().to_owned();
        assert_eq!(data["type"], name.as_str());
        assert_eq!(data["sequence_number"], events.len());
        events.push((name, data));
    }
    events
}

fn request(fields: Value) -> Value {
    let mut body = json!({"input": "Hi", "reasoning": {"effort": "none"}});
    for (name, value) in fields.as_object().unwrap() {
        body[name] = value.clone();
    }
    body
}

#[tokio::test]
async fn a_response_is_a_list_of_items_with_usage() {
    let server = Harness::new([says(&["The", " answer"])]).await;
    let body = request(json!({"instructions": "Be brief", "metadata": {"k": "v"}, "store": false}));
    let response = server.client.post(PATH, &body).await.expect(200).await;
    assert_eq!(response["object"], "response");
    assert_eq!(response["status"], "completed");
    assert!(response["id"].as_str().unwrap().starts_with("resp_"));
    assert_eq!(response["output"][0]["type"], "message");
    assert_eq!(response["output"][0]["content"][0]["text"], "The answer");
    assert_eq!(response["metadata"], json!({"k": "v"}));
    assert_eq!(response["error"], Value::Null);
    let usage = &response["usage"];
    assert_eq!(
        usage["total_tokens"],
        usage["input_tokens"].as_u64().unwrap() + usage["output_tokens"].as_u64().unwrap()
    );
    assert!(usage["input_tokens_details"]["cached_tokens"].is_number());
    assert!(usage["output_tokens_details"]["reasoning_tokens"].is_number());
}

#[tokio::test]
async fn it_asks_the_model_what_the_chat_route_would_ask() {
    let server = Harness::new([says(&["ok"])]).await;
    let body = json!({"input": "Hi", "instructions": "Be brief"});
    server.client.post(PATH, &body).await.expect(200).await;
    let chat = json!({"messages": [{"role": "system", "content": "Be brief"}, {"role": "user", "content": "Hi"}]});
    server
        .client
        .post("/v1/chat/completions", &chat)
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
}

#[tokio::test]
async fn a_stream_opens_and_closes_each_item_and_ends_once() {
    let script = says(&[
        "thought\n</think>\n\n",
        "Hello",
        " you\n\n",
        "<tool_call>\n<function=f>\n<parameter=a>\n1\n</parameter>\n</function>\n</tool_call>",
    ]);
    let server = Harness::new([script]).await;
    let tools = json!([{"type": "function", "name": "f", "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}}}]);
    let body = json!({"input": "Hi", "tools": tools});
    let whole = server.client.post(PATH, &body).await.expect(200).await;
    let mut streamed = body;
    streamed["stream"] = json!(true);
    let events = events(server.client.post(PATH, &streamed).await).await;
    let names: Vec<&str> = events.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names[..2], ["response.created", "response.in_progress"]);
    assert_eq!(*names.last().unwrap(), "response.completed");
    let terminal = |name: &&&str| {
        [
            "response.completed",
            "response.incomplete",
            "response.failed",
        ]
        .contains(*name)
    };
    assert_eq!(names.iter().filter(terminal).count(), 1);
    let count = |wanted: &str| names.iter().filter(|name| **name == wanted).count();
    assert_eq!(count("response.output_item.added"), 3);
    assert_eq!(count("response.output_item.done"), 3);
    assert_eq!(
        count("response.content_part.added"),
        count("response.content_part.done")
    );
    assert_eq!(count("response.function_call_arguments.done"), 1);
    let text: String = events
        .iter()
        .filter(|(name, _)| name == "response.output_text.delta")
        .map(|(_, data)| data["delta"].as_str().unwrap())
        .collect();
    assert_eq!(text.trim_end(), "Hello you");
    let shape = |response: &Value| -> Value {
        response["output"]
            .as_array()
            .unwrap()
            .iter()
            .map(|item| {
                json!([
                    item["type"],
                    item["content"],
                    item["name"],
                    item["arguments"],
                    item["status"]
                ])
            })
            .collect()
    };
    let last = &events.last().unwrap().1["response"];
    assert_eq!(shape(last), shape(&whole));
    let kinds: Vec<&Value> = whole["output"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| &item["type"])
        .collect();
    assert_eq!(kinds, ["reasoning", "message", "function_call"]);
    assert_eq!(whole["output"][2]["arguments"], "{\"a\":1}");
}

#[tokio::test]
async fn an_answer_at_its_limit_is_incomplete() {
    let server = Harness::new([rambles(&["one two three four five"])]).await;
    let response = server
        .client
        .post(PATH, &request(json!({"max_output_tokens": 2})))
        .await
        .expect(200)
        .await;
    assert_eq!(response["status"], "incomplete");
    assert_eq!(
        response["incomplete_details"]["reason"],
        "max_output_tokens"
    );
    assert_eq!(response["output"][0]["status"], "incomplete");
    let body = request(json!({"max_output_tokens": 2, "stream": true}));
    let events = events(server.client.post(PATH, &body).await).await;
    assert_eq!(events.last().unwrap().0, "response.incomplete");
}

#[tokio::test]
async fn a_failure_in_the_middle_is_the_terminal_event() {
    let mut script = rambles(&["a"]);
    script.rounds.push_back(Round::Fail);
    let server = Harness::new([script]).await;
    let events = events(
        server
            .client
            .post(PATH, &request(json!({"stream": true})))
            .await,
    )
    .await;
    let (name, data) = events.last().unwrap();
    assert_eq!(name, "response.failed");
    assert_eq!(data["response"]["status"], "failed");
    assert_eq!(data["response"]["error"]["code"], "internal_error");
}

#[tokio::test]
async fn what_needs_a_memory_is_refused() {
    let server = Harness::new([says(&["a"])]).await;
    for (fields, param) in [
        (json!({"store": true}), "store"),
        (
            json!({"previous_response_id": "resp_1"}),
            "previous_response_id",
        ),
        (json!({"background": true}), "background"),
        (json!({"input": []}), "input"),
        (json!({"input": 5}), "input"),
        (
            json!({"input": [{"role": "bard", "content": "x"}]}),
            "input",
        ),
        (json!({"input": [{"type": "computer_call"}]}), "input[0]"),
        (json!({"tools": [{"type": "web_search"}]}), "tools[0].type"),
        (json!({"truncation": "some"}), "truncation"),
    ] {
        let error = server
            .client
            .post(PATH, &request(fields.clone()))
            .await
            .expect(400)
            .await;
        assert_eq!(error["error"]["param"], param, "{fields}");
    }
}

#[tokio::test]
async fn a_schema_of_a_response_is_followed() {
    let server = Harness::new([crate::harness::for_ever("x")]).await;
    let format = json!({"type": "json_schema", "name": "n", "schema": {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"], "additionalProperties": false}});
    let response = server
        .client
        .post(PATH, &request(json!({"text": {"format": format}})))
        .await
        .expect(200)
        .await;
    let text = response["output"][0]["content"][0]["text"]
        .as_str()
        .unwrap();
    assert!(
        serde_json::from_str::<Value>(text).unwrap()["ok"].is_boolean(),
        "{text}"
    );
}
