use std::sync::Arc;

use hyper::StatusCode;
use serde_json::{Value, json};

use crate::harness::{Harness, for_ever, rambles, says, tokens};
use crate::scripted::{Gate, Round, Script};

#[tokio::test]
async fn a_client_that_leaves_a_stream_stops_the_generation() {
    let server = Harness::new([for_ever("a ")]).await;
    let mut answer = server.chat(json!({"stream": true})).await;
    for _ in 0..3 {
        answer.frame().await.unwrap();
    }
    drop(answer);
    server.until(|log| log.finished == 1).await;
    server.play(says(&["next"]));
    let next = server.chat(json!({})).await.expect(200).await;
    assert_eq!(next["choices"][0]["message"]["content"], "next");
}

#[tokio::test]
async fn a_client_that_leaves_before_a_whole_answer_stops_the_generation() {
    // Only a cancel can end this in a test's time.
    let server = Harness::with_context(usize::MAX >> 1, &[], [for_ever("a ")]).await;
    let client = server.client.clone();
    let body = crate::harness::asking(json!({}));
    let request = tokio::spawn(async move { client.post("/v1/chat/completions", &body).await });
    server.until(|log| log.steps > 1).await;
    request.abort();
    assert!(request.await.unwrap_err().is_cancelled());
    server.until(|log| log.finished == 1).await;
}

#[tokio::test]
async fn a_client_that_leaves_during_prefill_stops_it_between_two_chunks() {
    let script = Script {
        prefill_chunks: usize::MAX,
        ..says(&["never"])
    };
    let server = Harness::new([script]).await;
    let answer = server.chat(json!({"stream": true})).await;
    server.until(|log| log.prefills > 2).await;
    drop(answer);
    server.until(|log| log.finished == 1).await;
    assert_eq!(server.stage.log.read(|log| log.steps), 0);
}

#[tokio::test]
async fn a_client_that_leaves_the_queue_is_never_served() {
    let gate = Arc::new(Gate::default());
    let first = Script {
        rounds: [Round::Gated(Arc::clone(&gate), tokens("a"))].into(),
        ..Script::default()
    };
    let server = Harness::new([first, says(&["b"])]).await;
    let running = server.chat(json!({"stream": true})).await;
    server.until(|log| log.steps == 1).await;
    let waiting = server.chat(json!({"stream": true})).await;
    drop(waiting);
    until_waiting(&server, 0).await;
    gate.open(1);
    running.chunks().await;
    let answer = server.chat(json!({})).await.expect(200).await;
    assert_eq!(answer["choices"][0]["message"]["content"], "b");
    assert_eq!(server.stage.log.read(|log| log.started.len()), 2);
}

#[tokio::test]
async fn fifty_clients_that_leave_after_one_chunk_leave_the_server_idle() {
    let server = Harness::new([for_ever("a ")]).await;
    for _ in 0..50 {
        let mut answer = server.chat(json!({"stream": true})).await;
        answer.frame().await.unwrap();
    }
    server.until(|log| log.finished == 50).await;
    server.play(says(&["fine"]));
    server.chat(json!({})).await.expect(200).await;
    let health = server.client.get("/health").await.expect(200).await;
    assert_eq!(
        (&health["slots_processing"], &health["requests_deferred"]),
        (&json!(0), &json!(0))
    );
}

#[tokio::test]
async fn a_panic_is_a_500_with_an_id_and_the_engine_is_opened_anew() {
    let panics = Script {
        rounds: [Round::Panic].into(),
        ..Script::default()
    };
    let server = Harness::new([panics, says(&["fine"])]).await;
    let error = server.chat(json!({})).await.expect(500).await;
    let message = error["error"]["message"].as_str().unwrap();
    assert!(message.contains("chatcmpl-"), "{message}");
    assert!(!message.contains("script"), "what panicked is for the log");
    server.until(|log| log.opened == 2).await;
    server.until_ready().await;
    let answer = server.chat(json!({})).await.expect(200).await;
    assert_eq!(answer["choices"][0]["message"]["content"], "fine");
}

#[tokio::test]
async fn a_failed_request_is_a_500_and_the_next_one_is_answered() {
    let fails = Script {
        rounds: [Round::Fail].into(),
        ..Script::default()
    };
    let server = Harness::new([fails, says(&["fine"])]).await;
    let error = server.chat(json!({})).await.expect(500).await;
    assert_eq!(error["error"]["type"], "server_error");
    server.chat(json!({})).await.expect(200).await;
    assert_eq!(
        server.stage.log.read(|log| (log.opened, log.finished)),
        (1, 2)
    );
}

#[tokio::test]
async fn stopping_lets_running_requests_end_and_refuses_new_ones() {
    let gate = Arc::new(Gate::default());
    let mut script = rambles(&["a"]);
    script
        .rounds
        .push_back(Round::Gated(Arc::clone(&gate), tokens("b")));
    script.rounds.push_back(Round::Tokens(tokens("<|im_end|>")));
    let mut server = Harness::new([script]).await;
    let mut answer = server.chat(json!({"stream": true})).await;
    answer.frame().await.unwrap();
    server.stop();
    gate.open(1);
    let chunks = answer.chunks().await;
    assert_eq!(
        chunks.last().unwrap()["choices"][0]["finish_reason"],
        "stop"
    );
    server.stopped().await.unwrap();
}

#[tokio::test]
async fn stopping_ends_with_an_error_what_outlives_the_grace() {
    let mut server = Harness::with(&["--grace", "0"], [for_ever("a ")]).await;
    let mut answer = server
        .chat(json!({"stream": true, "max_tokens": 240}))
        .await;
    answer.frame().await.unwrap();
    // A second request waits behind it.
    let waiting = server.chat(json!({"stream": true})).await;
    server.stop();
    for mut stream in [answer, waiting] {
        let mut last = String::new();
        while let Some(frame) = stream.frame().await {
            last = frame;
        }
        if last != "data: [DONE]" {
            let error: Value = serde_json::from_str(last.strip_prefix("data: ").unwrap()).unwrap();
            assert_eq!(error["error"]["type"], "unavailable_error", "{error}");
        }
    }
    server.stopped().await.unwrap();
}

#[tokio::test]
async fn a_request_that_takes_too_long_is_ended_and_not_sent_again() {
    let script = Script {
        prefill_chunks: usize::MAX,
        ..Script::default()
    };
    let server = Harness::with(&["--request-timeout", "1"], [script]).await;
    let answer = server.chat(json!({})).await;
    assert_eq!(answer.status, StatusCode::GATEWAY_TIMEOUT);
    assert_eq!(answer.headers["x-should-retry"], "false");
}

async fn until_waiting(server: &Harness, waiting: usize) {
    loop {
        let health = server.client.get("/health").await.expect(200).await;
        if health["requests_deferred"] == waiting {
            return;
        }
        tokio::task::yield_now().await;
    }
}
