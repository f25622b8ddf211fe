//! Opens a native package, asks it something, and prints the answer as it comes.
//!
//! ```text
//! cargo run --release --example generate -- [PACKAGE] [QUESTION]
//! ```
//!
//! Without arguments: the demo package of this repository, a 3.7 M parameter model that knows a few sums, capitals and
//! opposites.

use std::io::Write as _;
use std::path::PathBuf;

use anyhow::Result;
use mtp_spec::SamplerConfig;
use native_manifest::{Snapshot, VerifyOptions};
use qwen35_model::engine::{Engine as _, Generation};
use qwen35_model::package::{self, CpuOptions};
use qwen35_model::text::{Conversation, RenderOptions, SystemMessages, Utf8Stream};

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let folder = args.next().map_or_else(demo_package, PathBuf::from);
    let question = args
        .next()
        .unwrap_or_else(|| "What is 7 plus 5?".to_owned());

    // Every byte is checked before a weight is used.
    let (package, _) = Snapshot::open(folder)?.verify(&VerifyOptions::default(), &())?;
    let mut opened = package::open(&package, CpuOptions::default())?;
    println!(
        "{} on {}",
        opened.engine.about().model,
        opened.engine.about().device
    );

    let message =
        serde_json::from_value(serde_json::json!({ "role": "user", "content": question }))?;
    let conversation = Conversation::parse(vec![message], SystemMessages::default())?;
    let mut options = RenderOptions::default();
    options
        .variables
        .insert("enable_thinking".to_owned(), false.into());
    let prompt = opened
        .tokenizer
        .encode_prompt(&opened.template.render(&conversation, &options)?)?;

    opened.engine.start(Generation {
        prompt,
        sampler: SamplerConfig {
            stop_tokens: opened.tokenizer.eos().to_vec(),
            ..SamplerConfig::greedy()
        },
        max_tokens: 128,
        top_logprobs: None,
        prompt_logprobs: None,
        speculative: true,
        cache_prompt: false,
        checkpoints: Vec::new(),
        mask: None,
    })?;
    while {
        let progress = opened.engine.prefill()?;
        progress.done < progress.total
    } {}
    let (mut utf8, mut text) = (Utf8Stream::default(), String::new());
    let mut finish = None;
    while finish.is_none() {
        let tokenizer = &opened.tokenizer;
        finish = opened.engine.step(&mut |tokens| {
            for emitted in tokens
                .iter()
                .filter(|emitted| !tokenizer.is_special(emitted.token))
            {
                utf8.push(
                    tokenizer.token_bytes(emitted.token).unwrap_or_default(),
                    &mut text,
                );
            }
            tokens.len()
        })?;
        print!("{text}");
        text.clear();
        std::io::stdout().flush()?;
    }
    let drafted = opened.engine.statistics();
    println!(
        "\n[{} of {} drafts accepted]",
        drafted.accepted, drafted.drafted
    );
    Ok(())
}

fn demo_package() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("assets/demo-package")
}
