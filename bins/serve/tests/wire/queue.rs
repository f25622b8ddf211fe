use std::sync::Arc;

use serde_json::{Value, json};

use crate::harness::{Harness, asking, says, tokens};
use crate::scripted::{Gate, Round, Script, Stage};

#[tokio::test]
async fn one_request_too_many_gets_a_429_with_a_time_to_come_back() {
    let gate = Arc::new(Gate::default());
    let first = Script {
        rounds: [Round::Gated(Arc::clone(&gate), tokens("a"))].into(),
        ..Script::default()
    };
    let server = Harness::with(&["--max-queue", "1"], [first, says(&["b"])]).await;
    let running = server.chat(json!({"stream": true})).await;
    server.until(|log| log.steps == 1).await;
    let waiting = server.chat(json!({"stream": true})).await;
    let refused = server.chat(json!({"stream": true})).await;
    let seconds: u64 = refused.headers["retry-after"]
        .to_str()
        .unwrap()
        .parse()
        .unwrap();
    assert!((1..=60).contains(&seconds));
    let error = refused.expect(429).await;
    assert_eq!(error["error"]["type"], "rate_limit_error");
    gate.open(1);
    running.chunks().await;
    let chunks = waiting.chunks().await;
    assert_eq!(chunks[0]["choices"][0]["delta"]["content"], "b");
}

#[tokio::test]
async fn requests_are_answered_in_the_order_in_which_they_came() {
    let gate = Arc::new(Gate::default());
    let gated = Script {
        rounds: [Round::Gated(Arc::clone(&gate), tokens("a"))].into(),
        ..Script::default()
    };
    let server = Harness::new([gated]).await;
    let mut answers = Vec::new();
    for number in 0..4 {
        let messages = json!([{"role": "user", "content": format!("CODE-{number}")}]);
        answers.push(
            server
                .chat(json!({"messages": messages, "stream": true}))
                .await,
        );
        // The head of a stream is sent once the request has its place in the queue.
    }
    gate.open(4);
    for answer in answers {
        answer.chunks().await;
    }
    let prompts = server.stage.log.read(|log| {
        log.started
            .iter()
            .map(|s| s.prompt.clone())
            .collect::<Vec<_>>()
    });
    for (number, prompt) in prompts.iter().enumerate() {
        let text =
            crate::harness::tokenizer().decode(prompt, qwen35_model::text::SpecialTokens::Keep);
        assert!(text.contains(&format!("CODE-{number}")), "{text}");
    }
}

#[tokio::test]
async fn while_the_model_loads_requests_get_a_503_and_health_tells_how_far_it_is() {
    let (go_on, wait) = std::sync::mpsc::channel::<()>();
    let stage = Arc::new(Stage::default());
    stage.scripts.lock().unwrap().push_back(says(&["a"]));
    let engines = Arc::clone(&stage);
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/qwen35/tiny");
    let open: qwen35_serve::OpenEngine = Box::new(move |report| {
        report(qwen35_serve::generate::status::LoadProgress {
            phase: "verify".into(),
            done: 3,
            total: 7,
        });
        wait.recv()?;
        let engine = crate::scripted::ScriptedEngine::new(64, Arc::clone(&engines));
        let text = qwen35_serve::model::ModelText {
            tokenizer: Arc::clone(crate::harness::tokenizer()),
            template: qwen35_model::text::ChatTemplate::open(folder)?,
            generation: Default::default(),
            facts: Default::default(),
        };
        Ok(qwen35_serve::Opened {
            engine: Box::new(engine),
            text,
        })
    });
    let server = Harness::opening(&[], stage, open).await;
    let health = loop {
        let health = server.client.get("/health").await.expect(503).await;
        if health["loading"]["phase"] == "verify" {
            break health;
        }
    };
    assert_eq!(
        (&health["loading"]["done"], &health["loading"]["total"]),
        (&json!(3), &json!(7))
    );
    assert_eq!(health["error"]["code"], 503);
    assert_eq!(health["error"]["message"], "Loading model");
    assert_eq!(health["error"]["type"], "unavailable_error");
    let early = server.chat(json!({})).await;
    assert!(early.headers.contains_key("retry-after"));
    assert_eq!(
        early.expect(503).await["error"]["type"],
        "unavailable_error"
    );
    go_on.send(()).unwrap();
    server.until_ready().await;
    assert_eq!(
        server.client.get("/health").await.expect(200).await["status"],
        "ok"
    );
    server.chat(json!({})).await.expect(200).await;
}

#[tokio::test]
async fn a_package_that_cannot_be_opened_ends_the_server_with_the_reason() {
    let open: qwen35_serve::OpenEngine = Box::new(|_| Err("no such folder".into()));
    let server = Harness::opening(&[], Arc::default(), open).await;
    let error = server.stopped().await.unwrap_err();
    assert!(
        matches!(error, qwen35_serve::ServeError::Load { message } if message == "no such folder")
    );
}

#[tokio::test]
async fn concurrent_requests_get_their_own_answers() {
    let server = Harness::new([Script {
        rounds: [Round::Tokens(tokens("<|im_end|>"))].into(),
        ..Script::default()
    }])
    .await;
    let requests = (0..8).map(|number| {
        let client = server.client.clone();
        let body = asking(json!({"messages": [{"role": "user", "content": format!("n{number}")}], "return_token_ids": true}));
        tokio::spawn(async move { client.post("/v1/chat/completions", &body).await.expect(200).await })
    });
    for (number, request) in requests.collect::<Vec<_>>().into_iter().enumerate() {
        let answer: Value = request.await.unwrap();
        let ids: Vec<mtp_spec::TokenId> = answer["prompt_token_ids"]
            .as_array()
            .unwrap()
            .iter()
            .map(|id| mtp_spec::TokenId(u32::try_from(id.as_u64().unwrap()).unwrap()))
            .collect();
        let text =
            crate::harness::tokenizer().decode(&ids, qwen35_model::text::SpecialTokens::Keep);
        assert!(text.contains(&format!("n{number}<")), "{text}");
    }
}
