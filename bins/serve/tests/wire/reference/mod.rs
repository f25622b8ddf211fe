//! The demo model behind the server: behaviour that only a real engine shows, with drafting off and on.

mod behaviour;
mod clients;
mod isolation;
mod prefix;
mod soak;

use std::path::PathBuf;
use std::sync::Arc;

use clap::Parser;
use qwen35_model::engine::{Drafting, EngineAbout, EngineOptions, LocalEngine};
use qwen35_model::text::{ChatTemplate, GenerationConfig, Tokenizer};
use qwen35_model::trunk::{DraftWeights, LoadOptions};
use qwen35_model::weights::Checkpoint;
use qwen35_model::{Model, ModelConfig, SessionOptions};
use qwen35_serve::model::ModelText;
use qwen35_serve::{Args, Config, OpenEngine, Opened, open};
use serde_json::{Value, json};
use tt_device::Cpu;

use crate::harness::Harness;

/// A server of the demo package.
async fn demo(args: &[&str]) -> Harness {
    let typed = [&["qwen35-serve", "--threads", "1"], args].concat();
    let config = Config::from_args(&Args::try_parse_from(typed).unwrap()).unwrap();
    let server = Harness::opening(args, Arc::default(), open::opener(config.engine)).await;
    server.until_ready().await;
    server
}

/// A server of the same model, before it became a package, with a context that is longer than the model was made for.
async fn long(context: usize) -> Harness {
    let open: OpenEngine = Box::new(move |_| {
        let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../testdata/qwen35/tiny");
        let config = ModelConfig::parse(&std::fs::read(folder.join("config.json"))?)?;
        let device = Arc::new(Cpu::builder().open()?);
        let options = LoadOptions {
            mtp: true,
            draft_weights: DraftWeights::Stored,
        };
        let model = Model::load(device, config, &Checkpoint::open(&folder)?, options)?;
        let session = SessionOptions {
            context,
            ..SessionOptions::default()
        };
        let options = EngineOptions {
            session,
            drafting: Drafting::On,
            ..EngineOptions::default()
        };
        let engine = LocalEngine::new(Arc::new(model), EngineAbout::default(), options)?;
        let text = ModelText {
            tokenizer: Arc::new(Tokenizer::open(&folder)?),
            template: ChatTemplate::open(&folder)?,
            generation: GenerationConfig::default(),
            facts: Default::default(),
        };
        Ok(Opened {
            engine: Box::new(engine),
            text,
        })
    });
    let server = Harness::opening(&[], Arc::default(), open).await;
    server.until_ready().await;
    server
}

/// A greedy question without thinking, with further fields.
fn question(text: &str, fields: Value) -> Value {
    let mut body = json!({
        "messages": [{"role": "user", "content": text}],
        "chat_template_kwargs": {"enable_thinking": false},
        "temperature": 0,
    });
    for (name, value) in fields.as_object().unwrap() {
        body[name] = value.clone();
    }
    body
}

async fn ask(server: &Harness, body: &Value) -> Value {
    server
        .client
        .post("/v1/chat/completions", body)
        .await
        .expect(200)
        .await
}

/// What an answer says, without its ids, its time and what it cost.
fn said(answer: &Value) -> String {
    let mut choices = answer["choices"].clone();
    for choice in choices.as_array_mut().unwrap() {
        for call in choice["message"]["tool_calls"]
            .as_array_mut()
            .into_iter()
            .flatten()
        {
            call["id"] = Value::Null;
        }
    }
    choices.to_string()
}

fn content(answer: &Value) -> &str {
    answer["choices"][0]["message"]["content"].as_str().unwrap()
}
