//! The tokenizer against Hugging Face's, with and without control tokens.

#![expect(clippy::unwrap_used, reason = "a helper that fails fails its test")]

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use mtp_spec::TokenId;
use proptest::prelude::*;
use qwen35_model::text::{SpecialTokens, TextError, Tokenizer, TokenizerFiles};
use serde::Deserialize;
use serde_json::{Value, json};

fn testdata() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata/text")
}

fn file(name: &str) -> Vec<u8> {
    std::fs::read(testdata().join(name)).unwrap()
}

fn tiny() -> &'static Tokenizer {
    static TINY: LazyLock<Tokenizer> = LazyLock::new(|| Tokenizer::open(testdata()).unwrap());
    &TINY
}

fn ids(ids: &[u32]) -> Vec<TokenId> {
    ids.iter().copied().map(TokenId).collect()
}

#[test]
fn texts_have_the_ids_of_the_hugging_face_tokenizer() {
    #[derive(Deserialize)]
    struct Sample {
        text: String,
        ids: Vec<u32>,
        plain_ids: Vec<u32>,
    }
    let tokenizer = tiny();
    let samples: Vec<Sample> = serde_json::from_slice(&file("encodings.json")).unwrap();
    for sample in &samples {
        assert_eq!(
            tokenizer.encode_with_controls(&sample.text).unwrap(),
            ids(&sample.ids),
            "{:?}",
            sample.text
        );
        assert_eq!(
            tokenizer.encode_text(&sample.text).unwrap(),
            ids(&sample.plain_ids),
            "{:?}",
            sample.text
        );
    }
    assert!(samples.iter().any(|sample| sample.ids != sample.plain_ids));
    assert!(samples.len() > 200);
}

#[test]
fn text_is_composed_before_it_is_split() {
    let tokenizer = tiny();
    assert_eq!(
        tokenizer.encode_text("A\u{30A}").unwrap(),
        tokenizer.encode_text("\u{C5}").unwrap()
    );
    assert_eq!(
        tokenizer.encode_text("e\u{301}").unwrap(),
        tokenizer.encode_text("é").unwrap()
    );
    // Added tokens are found before normalisation, so a mark right behind one does not hide it.
    let think = tokenizer.control_id("<think>").unwrap();
    assert_eq!(
        tokenizer.encode_with_controls("<think>\u{338}").unwrap()[0],
        think
    );
}

#[test]
fn every_control_token_is_text_in_plain_encoding() {
    let tokenizer = tiny();
    for id in (0..2033)
        .map(TokenId)
        .filter(|&id| tokenizer.is_control(id))
    {
        let name = String::from_utf8(tokenizer.token_bytes(id).unwrap().to_vec()).unwrap();
        assert_eq!(tokenizer.encode_with_controls(&name).unwrap(), [id]);
        let plain = tokenizer.encode_text(&name).unwrap();
        assert!(plain.iter().all(|&id| !tokenizer.is_control(id)), "{name}");
        assert_eq!(tokenizer.decode(&plain, SpecialTokens::Skip), name);
    }
}

#[test]
fn tokens_of_the_config_are_known_where_tokenizer_json_lacks_them() {
    let mut json: Value = serde_json::from_slice(&file("tokenizer.json")).unwrap();
    json["added_tokens"].as_array_mut().unwrap().truncate(26);
    let short = serde_json::to_vec(&json).unwrap();
    let config = file("tokenizer_config.json");
    let generation = file("generation_config.json");
    let files = TokenizerFiles {
        tokenizer: &short,
        config: Some(&config),
        generation: Some(&generation),
    };
    let tokenizer = Tokenizer::from_files(files).unwrap();
    assert_eq!(tokenizer.vocab_size(), 2033);
    assert_eq!(tokenizer.control_id("<|audio_pad|>"), Some(TokenId(2032)));
    let alone = Tokenizer::from_files(TokenizerFiles {
        config: None,
        ..files
    })
    .unwrap();
    assert_eq!(alone.vocab_size(), 2026);
    assert_eq!(alone.control_id("<|audio_pad|>"), None);
}

#[test]
fn the_vocabulary_ends_before_the_padding() {
    let tokenizer = tiny();
    assert_eq!(tokenizer.vocab_size(), 2033);
    assert!(tokenizer.token_bytes(TokenId(2032)).is_some());
    for id in [2033, 2047, u32::MAX] {
        assert_eq!(tokenizer.token_bytes(TokenId(id)), None);
        assert_eq!(tokenizer.decode(&[TokenId(id)], SpecialTokens::Keep), "");
        assert!(!tokenizer.is_special(TokenId(id)));
    }
}

#[test]
fn special_tokens_can_be_left_out_of_text_but_think_and_tool_tags_stay() {
    let tokenizer = tiny();
    let ids = tokenizer
        .encode_with_controls("<|im_start|>a<think>b</think><tool_call><|im_end|>")
        .unwrap();
    assert_eq!(
        tokenizer.decode(&ids, SpecialTokens::Skip),
        "a<think>b</think><tool_call>"
    );
    assert_eq!(
        tokenizer.decode(&ids, SpecialTokens::Keep),
        "<|im_start|>a<think>b</think><tool_call><|im_end|>"
    );
}

#[test]
fn what_ends_a_generation_comes_from_the_generation_config_or_else_the_tokenizer_config() {
    assert_eq!(tiny().eos(), [TokenId(2002), TokenId(2000)]);
    assert_eq!(tiny().eos_token(), Some("<|im_end|>"));
    assert_eq!(tiny().bos_token(), None);
    assert_eq!(tiny().pad_token(), Some("<|endoftext|>"));
    let (tokenizer, config) = (file("tokenizer.json"), file("tokenizer_config.json"));
    let with = |config, generation| {
        Tokenizer::from_files(TokenizerFiles {
            tokenizer: &tokenizer,
            config,
            generation,
        })
    };
    assert_eq!(
        with(Some(config.as_slice()), None).unwrap().eos(),
        [TokenId(2002)]
    );
    assert_eq!(
        with(None, Some(br#"{"eos_token_id": 5}"#.as_slice()))
            .unwrap()
            .eos(),
        [TokenId(5)]
    );
    assert!(matches!(with(None, None), Err(TextError::NoEos)));
    let padding = with(None, Some(br#"{"eos_token_id": 2040}"#.as_slice()));
    assert!(matches!(
        padding,
        Err(TextError::UnknownToken {
            id: 2040,
            used: 2033
        })
    ));
}

#[test]
fn damaged_files_are_refused_by_name() {
    let (good, generation) = (file("tokenizer.json"), file("generation_config.json"));
    let load = |tokenizer: &[u8], config: Option<&[u8]>| {
        Tokenizer::from_files(TokenizerFiles {
            tokenizer,
            config,
            generation: Some(&generation),
        })
    };
    assert!(matches!(
        load(&good[..good.len() / 2], None),
        Err(TextError::Json {
            file: "tokenizer.json",
            ..
        })
    ));
    assert!(matches!(
        load(b"{}", None),
        Err(TextError::TokenizerRefused { .. })
    ));
    assert!(matches!(
        load(&good, Some(b"7")),
        Err(TextError::Json {
            file: "tokenizer_config.json",
            ..
        })
    ));
    let added = |id: &str| json!({"added_tokens_decoder": {id: {"content": "<new>"}}}).to_string();
    assert!(load(&good, Some(added("2033").as_bytes())).is_ok());
    assert!(matches!(
        load(&good, Some(added("4000000000").as_bytes())),
        Err(TextError::TokenIdTooLarge {
            id: 4_000_000_000,
            ..
        })
    ));
    assert!(matches!(
        load(&good, Some(added("2002").as_bytes())),
        Err(TextError::AddedTokenConflict { id: 2002, .. })
    ));
    assert!(matches!(
        load(&good, Some(added("5").as_bytes())),
        Err(TextError::AddedTokenConflict { id: 5, .. })
    ));
    assert!(matches!(
        Tokenizer::open("/nowhere"),
        Err(TextError::File { .. })
    ));
}

#[test]
fn very_long_runs_of_one_character_are_tokenised() {
    let tokenizer = tiny();
    for unit in [" ", "\n", "a", "1", "!", "\u{301}", "é", "\t \n"] {
        for tail in ["", "x", "\n"] {
            let text = unit.repeat(50_000) + tail;
            let ids = tokenizer.encode_text(&text).unwrap();
            assert_eq!(
                tokenizer.decode(&ids, SpecialTokens::Keep).len(),
                text.len(),
                "{unit:?} {tail:?}"
            );
        }
    }
}

#[test]
fn a_token_that_is_looked_for_after_normalisation_is_found_there() {
    let mut json: Value = serde_json::from_slice(&file("tokenizer.json")).unwrap();
    json["added_tokens"].as_array_mut().unwrap().push(json!({
        "id": 2033, "content": "<é>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": true, "special": false,
    }));
    let json = serde_json::to_vec(&json).unwrap();
    let generation = file("generation_config.json");
    let ours = Tokenizer::from_files(TokenizerFiles {
        tokenizer: &json,
        config: None,
        generation: Some(&generation),
    })
    .unwrap();
    let theirs = tokenizers::Tokenizer::from_bytes(&json).unwrap();
    for text in [
        "a<e\u{301}>b",
        "<é>",
        "<|im_end|><é><think>",
        "<e\u{301}\u{301}>",
    ] {
        assert_eq!(
            ours.encode_with_controls(text).unwrap(),
            ids(theirs.encode(text, false).unwrap().get_ids()),
            "{text:?}"
        );
    }
    assert!(
        ours.encode_with_controls("a<e\u{301}>b")
            .unwrap()
            .contains(&TokenId(2033))
    );
}

// Set to the tokenizer.json of a real Qwen3.5 checkpoint (12.8 MB, not part of this repository).
const REAL_TOKENIZER: &str = "QWEN35_TOKENIZER_JSON";

#[test]
fn the_real_tokenizer_gives_the_stored_ids() {
    let Some(path) = std::env::var_os(REAL_TOKENIZER) else {
        println!("skipped: {REAL_TOKENIZER} does not name a tokenizer.json");
        return;
    };
    let audio = [
        "<|audio_start|>",
        "<|audio_end|>",
        "<tts_pad>",
        "<tts_text_bos>",
        "<tts_text_eod>",
        "<tts_text_bos_single>",
        "<|audio_pad|>",
    ];
    let decoder: serde_json::Map<String, Value> = audio
        .iter()
        .zip(248_070..)
        .map(|(name, id): (_, u32)| (id.to_string(), json!({"content": name, "special": true})))
        .collect();
    let config = json!({"eos_token": "<|im_end|>", "added_tokens_decoder": decoder}).to_string();
    let json = std::fs::read(path).unwrap();
    let files = TokenizerFiles {
        tokenizer: &json,
        config: Some(config.as_bytes()),
        generation: None,
    };
    let tokenizer = Tokenizer::from_files(files).unwrap();
    assert_eq!(tokenizer.vocab_size(), 248_077);
    assert_eq!(tokenizer.eos(), [TokenId(248_046)]);
    assert_eq!(tokenizer.control_id("<think>"), Some(TokenId(248_068)));

    let samples: Value = serde_json::from_slice(&file("real-tokenizer-samples.json")).unwrap();
    let examples: Value = serde_json::from_slice(&file("examples.json")).unwrap();
    let samples = samples["samples"]
        .as_array()
        .unwrap()
        .iter()
        .map(|sample| (&sample["text"], &sample["ids"]));
    let examples = examples
        .as_array()
        .unwrap()
        .iter()
        .map(|example| (&example["rendered"], &example["real_tokenizer_ids"]));
    let mut compared = 0;
    for (text, expected) in samples.chain(examples).filter(|(text, _)| text.is_string()) {
        let expected: Vec<u32> = serde_json::from_value(expected.clone()).unwrap();
        let found = tokenizer
            .encode_with_controls(text.as_str().unwrap())
            .unwrap();
        assert_eq!(found, ids(&expected), "{text}");
        // The text comes back composed.
        let back = tokenizer.decode(&found, SpecialTokens::Keep);
        assert_eq!(tokenizer.encode_with_controls(&back).unwrap(), found);
        compared += 1;
    }
    assert_eq!(compared, 20);
}

proptest! {
    #[test]
    fn any_text_comes_back_from_its_tokens(text in "\\PC{0,40}|[ \\n\\t<>|a-z_/]{0,40}") {
        let tokenizer = tiny();
        let normal = tokenizer.decode(&tokenizer.encode_text(&text).unwrap(), SpecialTokens::Keep);
        let again = tokenizer.decode(&tokenizer.encode_text(&normal).unwrap(), SpecialTokens::Keep);
        prop_assert_eq!(&normal, &again);
        if text.is_ascii() {
            prop_assert_eq!(normal, text);
        }
    }
}
