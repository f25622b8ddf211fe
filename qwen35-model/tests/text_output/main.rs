//! What clients are told about a generation, whatever way it is cut into tokens.

#![expect(clippy::unwrap_used, reason = "a helper that fails fails its test")]

mod cuts;
mod tool_calls;

use std::path::Path;
use std::sync::{Arc, LazyLock};

use mtp_spec::TokenId;
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
