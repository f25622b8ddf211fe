use serde_json::{Value, json};

use super::{ask, demo, question, said};
use crate::client::Client;

/// Requests of the soak: enough here to meet every kind several times; `SOAK_REQUESTS` asks for more.
fn requests() -> usize {
    std::env::var("SOAK_REQUESTS")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(160)
}

const CLIENTS: usize = 8;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mixed_requests_leave_no_trace_in_answers_or_memory() {
    let reference = question(
        "What is the capital of France?",
        json!({"logprobs": true, "top_logprobs": 5, "max_tokens": 48}),
    );
    let fresh = said(&ask(&demo(&[]).await, &reference).await);
    let server = demo(&["--max-queue", "16"]).await;
    let total = requests();
    let mut clients = Vec::new();
    for number in 0..CLIENTS {
        let client = server.client.clone();
        clients.push(tokio::spawn(async move {
            for request in (number..total).step_by(CLIENTS) {
                send(&client, request).await;
            }
        }));
    }
    for client in clients {
        client.await.unwrap();
    }
    // Whatever was given up must have left the engine.
    loop {
        let health = server.client.get("/health").await.expect(200).await;
        if health["slots_processing"] == 0 && health["requests_deferred"] == 0 {
            break;
        }
        tokio::task::yield_now().await;
    }
    assert_eq!(said(&ask(&server, &reference).await), fresh);
}

/// One request of a kind that its number chooses.
async fn send(client: &Client, number: usize) {
    let text = format!(
        "Request {number}: what is {} plus {}?",
        number % 9,
        number % 7
    );
    let chat = "/v1/chat/completions";
    let acceptable = |status: u16| assert!(status < 500, "request {number}: {status}");
    match number % 8 {
        0 => {
            let mut answer = client
                .post(
                    chat,
                    &question(&text, json!({"stream": true, "max_tokens": 200})),
                )
                .await;
            acceptable(answer.status.as_u16());
            // Reads a little and leaves.
            for _ in 0..number % 5 {
                drop(answer.frame().await);
            }
        }
        1 => {
            let bad = question(&text, json!({"temperature": 9}));
            client.post(chat, &bad).await.expect(400).await;
        }
        2 => {
            let answer = client
                .post(
                    chat,
                    &question(&text, json!({"stream": true, "max_tokens": 24})),
                )
                .await;
            acceptable(answer.status.as_u16());
            answer.text().await;
        }
        3 => {
            let tools = json!([{"type": "function", "function": {"name": "add", "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}}}}]);
            let body = question(
                &text,
                json!({"tools": tools, "tool_choice": "required", "max_tokens": 60}),
            );
            acceptable(client.post(chat, &body).await.status.as_u16());
        }
        4 => {
            let schema = json!({"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"], "additionalProperties": false});
            let answer = client
                .post(
                    chat,
                    &question(&text, json!({"guided_json": schema, "max_tokens": 60})),
                )
                .await;
            acceptable(answer.status.as_u16());
            if answer.status == 200 {
                let answer = answer.json().await;
                let told: Value = serde_json::from_str(super::content(&answer)).unwrap();
                assert!(told["a"].is_boolean());
            }
        }
        5 => {
            let body = json!({"prompt": [text, "the sea"], "echo": true, "logprobs": 2, "max_tokens": 4, "n": 2});
            acceptable(client.post("/v1/completions", &body).await.status.as_u16());
        }
        6 => {
            let body = question(
                &text,
                json!({"temperature": 1.0, "seed": number, "max_tokens": 40, "stop": ["the", "."]}),
            );
            acceptable(client.post(chat, &body).await.status.as_u16());
        }
        _ => {
            let body =
                json!({"input": text, "max_output_tokens": 24, "stream": number.is_multiple_of(2)});
            acceptable(client.post("/v1/responses", &body).await.status.as_u16());
        }
    }
}
