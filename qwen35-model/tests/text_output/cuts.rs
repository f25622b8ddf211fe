//! No result depends on how the text is cut into tokens.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use mtp_spec::TokenId;
use proptest::prelude::*;
use qwen35_model::text::{OutputEnd, Thinking, ToolParsing};
use serde_json::{Value, json};

use super::{call, read_tokens, tokenizer, with_tools};

// Cuts text into tokens at random: not as the tokenizer does it, but into arbitrary tokens that spell the same bytes.
fn any_tokens(text: &str, choices: &[usize]) -> Vec<TokenId> {
    static BY_BYTES: LazyLock<BTreeMap<Vec<u8>, TokenId>> = LazyLock::new(|| {
        let ids = (0..2033)
            .map(TokenId)
            .filter(|&id| !tokenizer().is_special(id));
        ids.map(|id| (tokenizer().token_bytes(id).unwrap().to_vec(), id))
            .collect()
    });
    let mut rest = text.as_bytes();
    let mut tokens = Vec::new();
    for &choice in choices.iter().cycle() {
        let fitting: Vec<(usize, TokenId)> = (1..=rest.len().min(16))
            .filter_map(|n| Some((n, *BY_BYTES.get(&rest[..n])?)))
            .collect();
        let Some(&(length, token)) = fitting.get(choice % fitting.len().max(1)) else {
            break;
        };
        tokens.push(token);
        rest = &rest[length..];
    }
    assert!(rest.is_empty());
    tokens
}

const FRAGMENTS: &[&str] = &[
    "<tool_call>",
    "</tool_call>",
    "<function=get_weather>",
    "<function=f>",
    "</function>",
    "<parameter=city>",
    "<parameter=days>",
    "<parameter=note>",
    "</parameter>",
    "<think>",
    "</think>",
    "\n",
    "\n\n",
    " ",
    "Paris",
    "null",
    "5",
    "é🤖",
    "{\"name\": \"f\", ",
    "\"arguments\": {\"a\": 1}}",
    "{",
    "}",
    "\"",
    "\\",
    "<",
    "</",
    ">",
    "STOP",
    "ST",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn what_is_told_does_not_depend_on_how_the_text_is_cut(
        fragments in prop::collection::vec(prop_oneof![
            4 => prop::sample::select(FRAGMENTS).prop_map(str::to_owned),
            2 => prop::sample::select(&["get_weather", "f"][..]).prop_flat_map(|name| {
                prop::collection::vec((prop::sample::select(&["city", "days", "note"][..]), prop::sample::select(FRAGMENTS)), 0..3)
                    .prop_map(move |parameters| call(name, &parameters))
            }),
        ], 0..12),
        first in prop::collection::vec(0usize..16, 1..20),
        second in prop::collection::vec(0usize..16, 1..20),
        thinking in prop::sample::select(&[Thinking::Open, Thinking::Closed, Thinking::Unsaid][..]),
        stop in prop::sample::select(&["", "STOP", "\n\n", "</tool_call>"][..]),
        end in prop::sample::select(&[OutputEnd::EndOfTurn, OutputEnd::Cut][..]),
    ) {
        let text = fragments.concat();
        let mut options = with_tools();
        options.thinking = thinking;
        options.stop = vec![stop.to_owned()];
        let (one, _) = read_tokens(&any_tokens(&text, &first), &options, end);
        let (other, _) = read_tokens(&any_tokens(&text, &second), &options, end);
        prop_assert_eq!(&one, &other, "{:?}", text);
        // Without markup in it, nothing of the text is lost.
        options.tools = ToolParsing::Off;
        options.stop.clear();
        options.thinking = Thinking::Closed;
        prop_assert_eq!(read_tokens(&any_tokens(&text, &first), &options, end).0.content, text);
    }

    #[test]
    fn any_arguments_survive_the_round_trip(
        values in prop::collection::vec("[ -~\\n]{0,30}", 0..4),
        choices in prop::collection::vec(0usize..16, 1..20),
    ) {
        let values: Vec<(String, String)> =
            values.into_iter().enumerate().map(|(n, value)| (format!("key{n}"), value)).collect();
        let parameters: Vec<(&str, &str)> = values.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        let (told, _) = read_tokens(&any_tokens(&call("f", &parameters), &choices), &with_tools(), OutputEnd::EndOfTurn);
        let expected: serde_json::Map<String, Value> = values.iter().map(|(key, value)| (key.clone(), json!(value))).collect();
        prop_assert_eq!(told.call(0), ("f", Value::from(expected)));
    }
}
