//! Tool calls, as the model writes them and as clients get them.

use qwen35_model::text::{OutputEnd, StopReason, Thinking};
use serde_json::{Value, json};

use super::{answer, call, options, read, tools, with_tools};

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
