//! What clients are told about a generation, whatever way it is cut into tokens.

#![expect(clippy::unwrap_used, reason = "a helper that fails fails its test")]

use std::path::Path;
use std::sync::{Arc, LazyLock};

use mtp_spec::TokenId;
use proptest::prelude::*;
use qwen35_model::text::{
    ArgumentSchemas, OutputEnd, OutputEvent, OutputOptions, OutputParser, SpecialTokens,
    StopReason, Thinking, Tokenizer, ToolDefinition, ToolParsing,
};
use serde_json::{Value, json};

fn tokenizer() -> Arc<Tokenizer> {
    static TINY: LazyLock<Arc<Tokenizer>> = LazyLock::new(|| {
        let testdata = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata/text");
        Arc::new(Tokenizer::open(testdata).unwrap())
    });
    Arc::clone(&TINY)
}

/// Everything a client knows at the end.
#[derive(Debug, Clone, PartialEq, Default)]
struct Answer {
    content: String,
    reasoning: String,
    // Id, name, arguments, whether complete.
    calls: Vec<(String, String, String, bool)>,
    stopped: Option<StopReason>,
}

impl Answer {
    fn of(events: Vec<OutputEvent>) -> Self {
        let mut answer = Self::default();
        for event in events {
            assert_eq!(answer.stopped, None, "nothing follows a stop");
            match event {
                OutputEvent::Content(text) => {
                    assert!(!text.is_empty());
                    answer.content.push_str(&text);
                }
                OutputEvent::Reasoning(text) => {
                    assert!(!text.is_empty());
                    answer.reasoning.push_str(&text);
                }
                OutputEvent::ToolCallStart { index, id, name } => {
                    assert_eq!(index, answer.calls.len());
                    answer.calls.push((id, name, String::new(), false));
                }
                OutputEvent::ToolArguments { index, delta } => {
                    assert_eq!(index + 1, answer.calls.len());
                    answer.calls[index].2.push_str(&delta);
                }
                OutputEvent::ToolCallEnd { index } => {
                    assert_eq!(index + 1, answer.calls.len());
                    answer.calls[index].3 = true;
                    let arguments: Value = serde_json::from_str(&answer.calls[index].2).unwrap();
                    assert!(arguments.is_object());
                }
                OutputEvent::Stopped { reason } => answer.stopped = Some(reason),
            }
        }
        answer
    }

    fn call(&self, index: usize) -> (&str, Value) {
        let (_, name, arguments, complete) = &self.calls[index];
        assert!(complete);
        (name, serde_json::from_str(arguments).unwrap())
    }
}

fn options(thinking: Thinking) -> OutputOptions {
    let mut options = OutputOptions::default();
    options.thinking = thinking;
    options
}

fn with_tools() -> OutputOptions {
    let mut options = options(Thinking::Closed);
    options.tools = tools(true);
    options
}

fn tools(parallel: bool) -> ToolParsing {
    let weather = json!({"type": "function", "function": {"name": "get_weather", "parameters": {
        "type": "object",
        "properties": {
            "city": {"type": "string"},
            "zip": {"type": "string"},
            "days": {"type": "integer"},
            "exact": {"type": "boolean"},
            "where": {"type": "object"},
            "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        },
    }}});
    let schemas = Arc::new(ArgumentSchemas::from_tools(&[ToolDefinition::parse(
        0, weather,
    )
    .unwrap()]));
    ToolParsing::On {
        schemas,
        id_prefix: "call_x".into(),
        parallel,
    }
}

// All events of a generation, token by token.
fn read_tokens(
    tokens: &[TokenId],
    options: &OutputOptions,
    end: OutputEnd,
) -> (Answer, OutputParser) {
    let mut events = Vec::new();
    let mut parser = OutputParser::new(tokenizer(), options.clone(), &mut events);
    for &token in tokens {
        // Events of each token on their own, as a stream sends them.
        let mut step = Vec::new();
        parser.push(token, &mut step);
        events.extend(step);
    }
    let mut last = Vec::new();
    parser.finish(end, &mut last);
    events.extend(last);
    (Answer::of(events), parser)
}

fn read(text: &str, options: &OutputOptions, end: OutputEnd) -> Answer {
    read_tokens(
        &tokenizer().encode_with_controls(text).unwrap(),
        options,
        end,
    )
    .0
}

fn answer(text: &str, options: &OutputOptions) -> Answer {
    read(text, options, OutputEnd::EndOfTurn)
}

fn call(name: &str, parameters: &[(&str, &str)]) -> String {
    let parameters: String = parameters
        .iter()
        .map(|(key, value)| format!("<parameter={key}>\n{value}\n</parameter>\n"))
        .collect();
    format!("<tool_call>\n<function={name}>\n{parameters}</function>\n</tool_call>")
}

#[test]
fn an_emoji_in_two_tokens_is_never_shown_as_replacement_characters() {
    let byte = |byte: u8| {
        (0..2000)
            .map(TokenId)
            .find(|&id| tokenizer().token_bytes(id) == Some(&[byte]))
            .unwrap()
    };
    let tokens: Vec<TokenId> = [0xF0, 0x9F, 0x98, 0x80].into_iter().map(byte).collect();
    let (whole, _) = read_tokens(&tokens, &options(Thinking::Closed), OutputEnd::EndOfTurn);
    assert_eq!(whole.content, "\u{1F600}");
    let (cut, parser) = read_tokens(&tokens[..1], &options(Thinking::Closed), OutputEnd::Cut);
    assert_eq!(cut.content, "\u{FFFD}");
    assert_eq!((parser.tokens(), parser.visible_tokens()), (1, 1));
}

#[test]
fn a_prompt_that_opened_thinking_makes_truncated_text_reasoning() {
    let cut = read("I should add", &options(Thinking::Open), OutputEnd::Cut);
    assert_eq!(
        (cut.content.as_str(), cut.reasoning.as_str()),
        ("", "I should add")
    );
}

#[test]
fn with_thinking_off_everything_is_content() {
    let text = "plain, </think> and <think> too";
    let plain = answer(text, &options(Thinking::Closed));
    assert_eq!(
        (plain.content.as_str(), plain.reasoning.as_str()),
        (text, "")
    );
}

#[test]
fn reasoning_ends_at_the_tag_and_loses_only_the_templates_newlines() {
    let both = answer("\nadd: 1\n\n2\n</think>\n\n3\n", &options(Thinking::Open));
    assert_eq!(
        (both.content.as_str(), both.reasoning.as_str()),
        ("3\n", "add: 1\n\n2")
    );
    let empty = answer("\n\n</think>\n\n3", &options(Thinking::Open));
    assert_eq!(
        (empty.content.as_str(), empty.reasoning.as_str()),
        ("3", "")
    );
    let twice = answer("a</think>b</think>c", &options(Thinking::Open));
    assert_eq!(
        (twice.content.as_str(), twice.reasoning.as_str()),
        ("b</think>c", "a")
    );
}

#[test]
fn a_model_that_opens_thinking_itself_is_understood() {
    for thinking in [Thinking::Open, Thinking::Unsaid] {
        let both = answer("\n<think>\nwhy\n</think>\n\nso", &options(thinking));
        assert_eq!(
            (both.content.as_str(), both.reasoning.as_str()),
            ("so", "why")
        );
    }
    let plain = answer(" <thin ice", &options(Thinking::Unsaid));
    assert_eq!(
        (plain.content.as_str(), plain.reasoning.as_str()),
        (" <thin ice", "")
    );
}

#[test]
fn reasoning_tokens_are_counted_up_to_the_tag() {
    let tokens = tokenizer()
        .encode_with_controls("a a</think>b b b")
        .unwrap();
    let end = tokens
        .iter()
        .position(|&id| Some(id) == tokenizer().control_id("</think>"))
        .unwrap();
    // The second stop string holds the tag back as text, long after it was seen as a token.
    for stop in [vec![], vec!["</think>b b b b".to_owned()]] {
        let mut options = options(Thinking::Open);
        options.stop = stop;
        let (_, parser) = read_tokens(&tokens, &options, OutputEnd::EndOfTurn);
        assert_eq!(parser.reasoning_tokens(), end + 1);
        assert!(!parser.is_reasoning());
    }
}

#[test]
fn one_call_is_told_piece_by_piece_and_content_stays_empty() {
    let text = call(
        "get_weather",
        &[("city", "Paris"), ("days", "5.0"), ("zip", "02134")],
    );
    let told = answer(&text, &with_tools());
    assert_eq!(told.content, "");
    assert_eq!(told.calls[0].0, "call_x0");
    assert_eq!(
        told.call(0),
        (
            "get_weather",
            json!({"city": "Paris", "days": 5, "zip": "02134"})
        )
    );
    assert_eq!(
        told.calls[0].2,
        r#"{"city":"Paris","days":5,"zip":"02134"}"#
    );
}

#[test]
fn content_before_a_call_keeps_its_text_and_loses_the_space_before_the_call() {
    let told = answer(
        &format!("I will look.\n\n{}", call("get_weather", &[])),
        &with_tools(),
    );
    assert_eq!(told.content, "I will look.");
    assert_eq!(told.call(0), ("get_weather", json!({})));
    let told = answer(
        &format!("\n\n{}\n", call("get_weather", &[])),
        &with_tools(),
    );
    assert_eq!(told.content, "");
}

#[test]
fn several_calls_each_get_complete_json() {
    let first = call("get_weather", &[("city", "Paris")]);
    let second = call("other", &[("x", "1"), ("y", "a\nb")]);
    for between in ["\n", "", "\n\n"] {
        let told = answer(&format!("{first}{between}{second}"), &with_tools());
        assert_eq!(told.call(0), ("get_weather", json!({"city": "Paris"})));
        assert_eq!(told.call(1), ("other", json!({"x": "1", "y": "a\nb"})));
        assert_eq!((told.calls.len(), told.content.as_str()), (2, ""));
        assert_ne!(told.calls[0].0, told.calls[1].0);
    }
}

#[test]
fn a_value_that_does_not_fit_its_type_is_kept_as_text_and_the_call_with_it() {
    let told = answer(
        &call(
            "get_weather",
            &[
                ("days", "2026-01-15"),
                ("exact", "True"),
                ("where", "{\"a\": [1]}"),
            ],
        ),
        &with_tools(),
    );
    assert_eq!(
        told.call(0).1,
        json!({"days": "2026-01-15", "exact": true, "where": {"a": [1]}})
    );
}

#[test]
fn a_nullable_text_is_null_only_if_it_says_so() {
    for (text, value) in [
        ("null", Value::Null),
        ("None", Value::Null),
        ("nullify", json!("nullify")),
        ("", json!("")),
        ("Nonet", json!("Nonet")),
    ] {
        let told = answer(&call("get_weather", &[("note", text)]), &with_tools());
        assert_eq!(told.call(0).1, json!({"note": value}));
    }
}

#[test]
fn values_keep_their_lines_quotes_and_look_alike_tags() {
    for value in [
        "a\n\n  b\n",
        "\"quoted\" \\ and \t tab",
        "if x < y: pass",
        "</parameter> is a tag",
        "<parameter=x>\n</parameter>\nand more",
        "</function> </tool_call",
        "<tool_call>",
        "é🤖\u{1}",
        "<",
        "",
    ] {
        let told = answer(
            &call("get_weather", &[("city", value), ("zip", "1")]),
            &with_tools(),
        );
        assert_eq!(
            told.call(0).1,
            json!({"city": value, "zip": "1"}),
            "{value:?}"
        );
    }
}

#[test]
fn a_json_call_is_taken_as_well() {
    for text in [
        r#"<tool_call>{"name": "f", "arguments": {"a": "</tool_call> }\" {", "b": [1, {}]}}</tool_call>"#,
        "<tool_call>\n{\"name\": \"f\", \"parameters\": \"{\\\"a\\\": \\\"</tool_call> }\\\\\\\" {\\\", \\\"b\\\": [1, {}]}\"}\n</tool_call>\n",
    ] {
        let told = answer(text, &with_tools());
        assert_eq!(
            told.call(0),
            ("f", json!({"a": "</tool_call> }\" {", "b": [1, {}]})),
            "{text}"
        );
        assert_eq!(told.content, "");
    }
}

#[test]
fn what_is_no_call_is_content_again_word_for_word() {
    for text in [
        "use <tool_call> like this",
        "a\n<tool_call>\n</tool_call>\nb",
        "<tool_call>{\"name\": 5}</tool_call>",
        "<tool_call>{\"name\": \"f\", \"arguments\": [1]}</tool_call>",
        "<tool_call>{\"unfinished\": ",
        "<tool_call>\n<function=",
        "<tool_call>\n<function=\nf>",
        "<tool_call>\n<functional=f>",
        "<tool_ca",
        "<tool_call>",
        "a \n ",
    ] {
        let told = answer(text, &with_tools());
        assert_eq!(
            (told.content.as_str(), told.calls.len()),
            (text, 0),
            "{text:?}"
        );
    }
}

#[test]
fn tags_the_model_forgot_at_its_end_are_closed_but_a_cut_call_stays_unfinished() {
    let whole = call("get_weather", &[("city", "Paris"), ("days", "3")]);
    for forgotten in [
        "</tool_call>",
        "\n</function>\n</tool_call>",
        "</parameter>\n</function>\n</tool_call>",
    ] {
        let text = whole.strip_suffix(forgotten).unwrap();
        assert_eq!(
            answer(text, &with_tools()).call(0).1,
            json!({"city": "Paris", "days": 3}),
            "{forgotten}"
        );
    }
    let cut = read(
        "<tool_call>\n<function=get_weather>\n<parameter=city>\nPar",
        &with_tools(),
        OutputEnd::Cut,
    );
    assert_eq!(cut.calls[0].2, r#"{"city":"Par"#.to_owned());
    assert!(!cut.calls[0].3);
}

#[test]
fn a_function_that_forgets_to_close_its_parameter_still_ends_with_its_call() {
    let text =
        "<tool_call>\n<function=get_weather>\n<parameter=city>\nParis\n</function>\n</tool_call>";
    assert_eq!(
        answer(text, &with_tools()).call(0).1,
        json!({"city": "Paris"})
    );
}

#[test]
fn two_functions_in_one_block_are_two_calls() {
    let text = "<tool_call>\n<function=a>\n</function>\n<function=b>\n<parameter=x>\n1\n</parameter>\n</function>\n</tool_call>";
    let told = answer(text, &with_tools());
    assert_eq!(
        (told.call(0), told.call(1)),
        (("a", json!({})), ("b", json!({"x": "1"})))
    );
}

#[test]
fn text_after_calls_is_content() {
    let told = answer(
        &format!("Before.\n\n{}\n\nAfter.", call("f", &[])),
        &with_tools(),
    );
    assert_eq!(
        (told.content.as_str(), told.calls.len()),
        ("Before.\n\nAfter.", 1)
    );
    let told = answer(&format!("{}\n\nAfter.", call("f", &[])), &with_tools());
    assert_eq!(told.content, "After.");
}

#[test]
fn without_parallel_calls_the_generation_stops_after_the_first() {
    let mut options = with_tools();
    options.tools = tools(false);
    let told = answer(&format!("{}\n{}", call("f", &[]), call("g", &[])), &options);
    assert_eq!(told.calls.len(), 1);
    assert_eq!(told.stopped, Some(StopReason::ToolCallLimit));
}

#[test]
fn without_tools_call_markup_is_content() {
    let text = call("f", &[("a", "1")]);
    assert_eq!(answer(&text, &options(Thinking::Closed)).content, text);
}

#[test]
fn calls_are_found_after_reasoning_and_never_in_it() {
    let mut options = with_tools();
    options.thinking = Thinking::Open;
    let markup = call("f", &[]);
    let told = answer(
        &format!("{markup}\n</think>\n\n{}", call("g", &[])),
        &options,
    );
    assert_eq!(
        (told.reasoning.as_str(), told.content.as_str()),
        (markup.as_str(), "")
    );
    assert_eq!(told.call(0).0, "g");
}

#[test]
fn a_forced_call_begins_in_the_prompt() {
    let mut options = with_tools();
    options.prefix = "<tool_call>\n<function=get_weather>\n".into();
    let told = answer(
        "<parameter=city>\nParis\n</parameter>\n</function>\n</tool_call>",
        &options,
    );
    assert_eq!(told.call(0), ("get_weather", json!({"city": "Paris"})));
}

#[test]
fn a_stop_string_wins_within_a_run_of_tokens_and_says_how_many_tokens_remain() {
    let tokens = tokenizer().encode_text("one two three").unwrap();
    let mut options = options(Thinking::Closed);
    options.stop = vec!["".into(), "two".into()];
    let (told, parser) = read_tokens(&tokens, &options, OutputEnd::EndOfTurn);
    assert_eq!(
        (told.content.as_str(), told.stopped),
        ("one ", Some(StopReason::StopString { index: 1 }))
    );
    assert!(parser.is_ended());
    let kept = tokenizer().decode(&tokens[..parser.visible_tokens()], SpecialTokens::Keep);
    assert!(
        kept.starts_with("one ")
            && !tokenizer()
                .decode(&tokens[..parser.visible_tokens() - 1], SpecialTokens::Keep)
                .starts_with("one ")
    );
    options.include_stop = true;
    assert_eq!(
        read_tokens(&tokens, &options, OutputEnd::EndOfTurn)
            .0
            .content,
        "one two"
    );
}

#[test]
fn held_back_tokens_become_visible_once_they_are_no_stop() {
    let mut options = options(Thinking::Closed);
    options.stop = vec!["abz".into()];
    let tokens = tokenizer().encode_text("ab").unwrap();
    let mut events = Vec::new();
    let mut parser = OutputParser::new(tokenizer(), options, &mut events);
    for &token in &tokens {
        parser.push(token, &mut events);
    }
    assert_eq!((events.len(), parser.visible_tokens()), (0, 0));
    parser.finish(OutputEnd::Cut, &mut events);
    assert_eq!(events, [OutputEvent::Content("ab".into())]);
    assert_eq!(parser.visible_tokens(), tokens.len());
}

#[test]
fn stop_strings_wait_for_the_minimum_number_of_tokens() {
    let tokens = tokenizer().encode_text("1212").unwrap();
    assert_eq!(tokens.len(), 4);
    let mut options = options(Thinking::Closed);
    options.stop = vec!["2".into()];
    options.min_tokens = 2;
    assert_eq!(
        read_tokens(&tokens, &options, OutputEnd::Cut).0.content,
        "121"
    );
}

#[test]
fn special_tokens_show_only_when_asked_for() {
    let mut options = options(Thinking::Closed);
    assert_eq!(answer("a<|im_end|>b", &options).content, "ab");
    options.special = SpecialTokens::Keep;
    assert_eq!(answer("a<|im_end|>b", &options).content, "a<|im_end|>b");
}

// Cuts text into tokens at random: not as the tokenizer does it, but into arbitrary tokens that spell the same bytes.
fn any_tokens(text: &str, choices: &[usize]) -> Vec<TokenId> {
    static BY_BYTES: LazyLock<std::collections::BTreeMap<Vec<u8>, TokenId>> = LazyLock::new(|| {
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
