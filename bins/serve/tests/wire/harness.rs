//! A server on a free port of the loopback, over a scripted engine.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use clap::Parser;
use mtp_spec::TokenId;
use qwen35_model::text::{ChatTemplate, GenerationConfig, Tokenizer};
use qwen35_serve::model::ModelText;
use qwen35_serve::{Args, Config, OpenEngine, Opened, ServeError, Server};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::client::Client;
use crate::scripted::{Round, Script, ScriptedEngine, Stage};

/// Tokens of the context of the scripted engine.
pub(crate) const CONTEXT: usize = 1024;

#[derive(Debug)]
pub(crate) struct Harness {
    pub(crate) client: Client,
    pub(crate) stage: Arc<Stage>,
    stop: Option<oneshot::Sender<()>>,
    server: Option<JoinHandle<Result<(), ServeError>>>,
}

pub(crate) fn tokenizer() -> &'static Arc<Tokenizer> {
    static TOKENIZER: OnceLock<Arc<Tokenizer>> = OnceLock::new();
    TOKENIZER.get_or_init(|| Arc::new(Tokenizer::open(folder()).unwrap()))
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../testdata/qwen35/tiny")
}

fn text() -> ModelText {
    ModelText {
        tokenizer: Arc::clone(tokenizer()),
        template: ChatTemplate::open(folder()).unwrap(),
        generation: GenerationConfig::default(),
        facts: Default::default(),
    }
}

/// Tokens of a text, control tokens by their names.
pub(crate) fn tokens(text: &str) -> Vec<TokenId> {
    tokenizer().encode_with_controls(text).unwrap()
}

/// A script that says each of these texts in one round, and then ends its turn.
pub(crate) fn says(rounds: &[&str]) -> Script {
    let mut script = rambles(rounds);
    script.rounds.push_back(Round::Tokens(tokens("<|im_end|>")));
    script
}

/// A script that says each of these texts in one round, and does not end its turn.
pub(crate) fn rambles(rounds: &[&str]) -> Script {
    Script {
        rounds: rounds
            .iter()
            .map(|text| Round::Tokens(tokens(text)))
            .collect(),
        ..Script::default()
    }
}

/// A script that says a text for ever, a token at a time.
pub(crate) fn for_ever(text: &str) -> Script {
    Script {
        repeat: Some(Round::Tokens(tokens(text))),
        ..Script::default()
    }
}

/// A stage with these scripts, and what opens its engine.
pub(crate) fn scripted(
    context: usize,
    scripts: impl IntoIterator<Item = Script>,
) -> (Arc<Stage>, OpenEngine) {
    let stage = Arc::new(Stage::default());
    stage.scripts.lock().unwrap().extend(scripts);
    let engines = Arc::clone(&stage);
    let open: OpenEngine = Box::new(move |_| {
        let engine = ScriptedEngine::new(context, Arc::clone(&engines));
        Ok(Opened {
            engine: Box::new(engine),
            text: text(),
        })
    });
    (stage, open)
}

impl Harness {
    /// A server with default settings that plays `scripts`.
    pub(crate) async fn new(scripts: impl IntoIterator<Item = Script>) -> Self {
        Self::with(&[], scripts).await
    }

    /// A server with these arguments that plays `scripts`.
    pub(crate) async fn with(args: &[&str], scripts: impl IntoIterator<Item = Script>) -> Self {
        Self::with_context(CONTEXT, args, scripts).await
    }

    /// The same with another context.
    pub(crate) async fn with_context(
        context: usize,
        args: &[&str],
        scripts: impl IntoIterator<Item = Script>,
    ) -> Self {
        let (stage, open) = scripted(context, scripts);
        let harness = Self::opening(args, stage, open).await;
        harness.until_ready().await;
        harness
    }

    /// A server whose engine is opened by `open`.
    pub(crate) async fn opening(args: &[&str], stage: Arc<Stage>, open: OpenEngine) -> Self {
        let args = [&["qwen35-serve", "--port", "0"], args].concat();
        let config = Config::from_args(&Args::try_parse_from(args).unwrap()).unwrap();
        Self::configured(config, stage, open).await
    }

    /// A server with this configuration.
    pub(crate) async fn configured(config: Config, stage: Arc<Stage>, open: OpenEngine) -> Self {
        let server = Server::bind(config).await.unwrap();
        let client = Client::new(server.address());
        let (stop, stopped) = oneshot::channel();
        let server = tokio::spawn(server.run(open, async move { drop(stopped.await) }));
        Self {
            client,
            stage,
            stop: Some(stop),
            server: Some(server),
        }
    }

    pub(crate) async fn until_ready(&self) {
        while self.client.get("/health").await.status != 200 {
            tokio::task::yield_now().await;
        }
    }

    pub(crate) async fn until(
        &self,
        done: impl Fn(&crate::scripted::LogState) -> bool + Send + 'static,
    ) {
        let stage = Arc::clone(&self.stage);
        tokio::task::spawn_blocking(move || stage.log.wait(done))
            .await
            .unwrap();
    }

    /// Tells the server to stop, as a signal does.
    pub(crate) fn stop(&mut self) {
        drop(self.stop.take());
    }

    /// Waits until the server has stopped.
    pub(crate) async fn stopped(mut self) -> Result<(), ServeError> {
        self.server.take().unwrap().await.unwrap()
    }

    /// Plays this from now on.
    pub(crate) fn play(&self, script: Script) {
        let mut scripts = self.stage.scripts.lock().unwrap();
        scripts.clear();
        scripts.push_back(script);
    }

    pub(crate) async fn chat(&self, body: Value) -> crate::client::Answer {
        self.client
            .post("/v1/chat/completions", &asking(body))
            .await
    }

    pub(crate) async fn complete(&self, body: Value) -> crate::client::Answer {
        self.client.post("/v1/completions", &body).await
    }
}

/// A chat request without thinking, with these fields.
pub(crate) fn asking(fields: Value) -> Value {
    let mut body = json!({
        "messages": [{"role": "user", "content": "Hi"}],
        "chat_template_kwargs": {"enable_thinking": false},
    });
    for (name, value) in fields.as_object().unwrap() {
        body[name] = value.clone();
    }
    body
}

/// All the text that a chat stream brought to one choice.
pub(crate) fn streamed_text(chunks: &[Value], field: &str) -> String {
    let deltas = chunks
        .iter()
        .filter_map(|chunk| chunk["choices"][0]["delta"][field].as_str());
    deltas.collect()
}
