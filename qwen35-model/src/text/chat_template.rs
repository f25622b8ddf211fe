//! The chat template of a checkpoint, rendered as transformers renders it.

use std::error::Error as _;
use std::fs;
use std::path::Path;

use minijinja::syntax::SyntaxConfig;
use minijinja::{AutoEscape, Environment, ErrorKind, Value};
use serde_json::Map;

use super::conversation::{Conversation, Role, Turn};
use super::error::TextError;
use super::message::ToolDefinition;
use super::prompt::RenderedPrompt;
use super::provenance::Marks;
use super::python;
use super::template_methods::{Raised, register};
use super::template_values::Outside;

/// A compiled Jinja chat template.
///
/// ```
/// use qwen35_model::text::{ChatMessage, ChatTemplate, Conversation, RenderOptions, SystemMessages};
///
/// # fn main() -> Result<(), qwen35_model::text::TextError> {
/// let template = ChatTemplate::parse("{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content | trim }}<|im_end|>\n{% endfor %}")?;
/// let chat = Conversation::parse(vec![ChatMessage::new("user", " Hi ")], SystemMessages::OnlyFirst)?;
/// let prompt = template.render(&chat, &RenderOptions::default())?;
/// assert_eq!(prompt.text(), "<|im_start|>user\nHi<|im_end|>\n");
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct ChatTemplate {
    env: Environment<'static>,
    source: String,
    special_tokens: Vec<(String, String)>,
}

/// What to render besides the messages.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct RenderOptions {
    /// How the prompt ends.
    pub generation: GenerationPrompt,
    /// The functions the model may call.
    pub tools: Vec<ToolDefinition>,
    /// Further variables of the template (`chat_template_kwargs`), for example `enable_thinking`.
    pub variables: Map<String, serde_json::Value>,
}

/// How a prompt ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum GenerationPrompt {
    /// With the opening of an assistant turn.
    #[default]
    Assistant,
    /// After the last message's end.
    Nothing,
    /// Inside the last message, an assistant's, which the model goes on writing.
    ContinueFinal,
}

impl ChatTemplate {
    /// Compiles a template.
    ///
    /// # Errors
    ///
    /// [`TextError::TemplateSyntax`].
    pub fn parse(source: impl Into<String>) -> Result<Self, TextError> {
        let source = source.into();
        let syntax_error = |e: minijinja::Error| TextError::TemplateSyntax {
            source: Box::new(e),
        };
        let mut env = Environment::new();
        let syntax = SyntaxConfig::builder()
            .trim_blocks(true)
            .lstrip_blocks(true)
            .build()
            .map_err(syntax_error)?;
        env.set_syntax(syntax);
        env.set_auto_escape_callback(|_| AutoEscape::None);
        env.set_formatter(|out, _state, value| {
            out.write_str(&python::to_str(value))
                .map_err(|_| minijinja::Error::from(ErrorKind::WriteFailure))
        });
        register(&mut env, None);
        env.add_template_owned(NAME, source.clone())
            .map_err(syntax_error)?;
        Ok(Self {
            env,
            source,
            special_tokens: Vec::new(),
        })
    }

    /// Reads `chat_template.jinja` of a folder or, where that is absent, `chat_template` in its `tokenizer_config.json`.
    /// The names of special tokens in the latter become variables (`eos_token` and so on).
    ///
    /// # Errors
    ///
    /// A file that cannot be read, no template in either, and [`TextError::TemplateSyntax`].
    pub fn open(dir: impl AsRef<Path>) -> Result<Self, TextError> {
        let read = |name: &str| {
            let path = dir.as_ref().join(name);
            match fs::read(&path) {
                Ok(bytes) => Ok(Some(bytes)),
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
                Err(source) => Err(TextError::File { path, source }),
            }
        };
        let template = read("chat_template.jinja")?;
        let config = read("tokenizer_config.json")?;
        Self::from_files(template.as_deref(), config.as_deref())
    }

    /// As [`ChatTemplate::open`], from the contents of the two files.
    ///
    /// # Errors
    ///
    /// As [`ChatTemplate::open`].
    pub fn from_files(
        template: Option<&[u8]>,
        tokenizer_config: Option<&[u8]>,
    ) -> Result<Self, TextError> {
        let json_error = |source| TextError::Json {
            file: "tokenizer_config.json",
            source,
        };
        let config: Map<String, serde_json::Value> = tokenizer_config
            .map_or(Ok(Map::new()), |config| {
                serde_json::from_slice(config).map_err(json_error)
            })?;
        let source = match template {
            Some(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            None => match config
                .get("chat_template")
                .and_then(serde_json::Value::as_str)
            {
                Some(source) => source.to_owned(),
                None => return Err(TextError::NoTemplate),
            },
        };
        let mut template = Self::parse(source)?;
        for name in ["bos_token", "eos_token", "pad_token", "unk_token"] {
            let text = config
                .get(name)
                .and_then(|token| token.as_str().or_else(|| token.get("content")?.as_str()));
            template
                .special_tokens
                .extend(text.map(|text| (name.to_owned(), text.to_owned())));
        }
        Ok(template)
    }

    /// The template as it was read.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Renders a conversation, keeping the template's own text apart from everything else.
    ///
    /// The text equals that of transformers' `apply_chat_template`; a final message that is continued is cut right after
    /// its content.
    ///
    /// # Errors
    ///
    /// [`TextError::TemplateRaised`] with the template's own words, [`TextError::TemplateFailed`] for its faults,
    /// [`TextError::TemplateLosesOrigin`] if message text cannot be followed through it, [`TextError::CannotContinue`].
    pub fn render(
        &self,
        conversation: &Conversation,
        options: &RenderOptions,
    ) -> Result<RenderedPrompt, TextError> {
        let text = self.render_with(&self.env, conversation, options, Outside::Bare)?;

        let marks = self
            .free_marks(conversation, options)
            .ok_or(TextError::TemplateLosesOrigin)?;
        let mut marking = self.env.clone();
        register(&mut marking, Some(marks));
        // The messages were fine without marks, so an error now is the marks' doing.
        let marked = self
            .render_with(&marking, conversation, options, Outside::Marked(marks))
            .map_err(|_| TextError::TemplateLosesOrigin)?;
        let traced = marks.trace(&marked).ok_or(TextError::TemplateLosesOrigin)?;
        if traced.text != text {
            return Err(TextError::TemplateLosesOrigin);
        }
        let prompt = RenderedPrompt::new(traced.text, traced.outside);
        match options.generation {
            GenerationPrompt::ContinueFinal => continue_final(prompt, conversation),
            GenerationPrompt::Assistant | GenerationPrompt::Nothing => Ok(prompt),
        }
    }

    fn render_with(
        &self,
        env: &Environment<'_>,
        conversation: &Conversation,
        options: &RenderOptions,
        outside: Outside,
    ) -> Result<String, TextError> {
        let mut variables: Vec<(&str, Value)> = Vec::new();
        variables.extend(
            self.special_tokens
                .iter()
                .map(|(name, text)| (name.as_str(), Value::from(text.as_str()))),
        );
        variables.extend(
            options
                .variables
                .iter()
                .map(|(name, json)| (name.as_str(), outside.option(json))),
        );
        variables.push((
            "messages",
            conversation
                .turns()
                .iter()
                .map(|turn| outside.turn(turn))
                .collect(),
        ));
        variables.push((
            "add_generation_prompt",
            Value::from(options.generation == GenerationPrompt::Assistant),
        ));
        if !options.tools.is_empty() {
            variables.push((
                "tools",
                options
                    .tools
                    .iter()
                    .map(|tool| outside.schema(tool.json()))
                    .collect(),
            ));
        }
        let template = env.get_template(NAME).map_err(failure)?;
        template
            .render(Value::from_pairs(variables))
            .map_err(failure)
    }

    fn free_marks(&self, conversation: &Conversation, options: &RenderOptions) -> Option<Marks> {
        let mut texts = vec![self.source.as_str()];
        texts.extend(self.special_tokens.iter().map(|(_, text)| text.as_str()));
        for turn in conversation.turns() {
            turn_texts(turn, &mut texts);
        }
        for tool in &options.tools {
            json_texts(tool.json(), &mut texts);
        }
        for (name, json) in &options.variables {
            texts.push(name);
            json_texts(json, &mut texts);
        }
        Marks::absent_from(texts)
    }
}

const NAME: &str = "chat_template";

fn failure(error: minijinja::Error) -> TextError {
    let mut source = error.source();
    while let Some(cause) = source {
        if let Some(Raised(message)) = cause.downcast_ref() {
            return TextError::TemplateRaised {
                message: message.clone(),
            };
        }
        source = cause.source();
    }
    TextError::TemplateFailed {
        source: Box::new(error),
    }
}

fn continue_final(
    prompt: RenderedPrompt,
    conversation: &Conversation,
) -> Result<RenderedPrompt, TextError> {
    let refuse = |reason| Err(TextError::CannotContinue { reason });
    match conversation.turns().last() {
        Some(turn) if turn.role != Role::Assistant => refuse("it is not an assistant message"),
        Some(turn) if !turn.calls.is_empty() => refuse("it has tool calls"),
        Some(turn) if turn.content.trim_matches(python::is_space).is_empty() => {
            refuse("it has no content")
        }
        _ => prompt.cut_after_content().ok_or(TextError::CannotContinue {
            reason: "the template leaves it out",
        }),
    }
}

fn turn_texts<'t>(turn: &'t Turn, texts: &mut Vec<&'t str>) {
    texts.push(&turn.content);
    texts.extend(
        [&turn.reasoning, &turn.tool_call_id, &turn.name]
            .into_iter()
            .flatten()
            .map(String::as_str),
    );
    for call in &turn.calls {
        texts.push(&call.name);
        texts.extend(call.id.as_deref());
        for (name, json) in &call.arguments {
            texts.push(name);
            json_texts(json, texts);
        }
    }
}

fn json_texts<'t>(json: &'t serde_json::Value, texts: &mut Vec<&'t str>) {
    match json {
        serde_json::Value::String(text) => texts.push(text),
        serde_json::Value::Array(items) => items.iter().for_each(|item| json_texts(item, texts)),
        serde_json::Value::Object(entries) => {
            for (name, item) in entries {
                texts.push(name);
                json_texts(item, texts);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Conversations of this crate are text; the official example with an image shows that the template is understood whole.
    #[test]
    fn the_official_example_with_an_image_is_rendered() {
        let testdata = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata/text");
        let examples: serde_json::Value =
            serde_json::from_slice(&fs::read(testdata.join("examples.json")).unwrap()).unwrap();
        let example = examples
            .as_array()
            .unwrap()
            .iter()
            .find(|example| example["name"] == "content_parts")
            .unwrap();
        let template =
            ChatTemplate::parse(fs::read_to_string(testdata.join("qwen3.5.jinja")).unwrap())
                .unwrap();
        let fields = ["messages", "add_generation_prompt", "enable_thinking"];
        let variables = fields.map(|field| (field, Outside::Bare.schema(&example[field])));
        let rendered = template
            .env
            .get_template(NAME)
            .unwrap()
            .render(Value::from_pairs(variables))
            .unwrap();
        assert_eq!(rendered, example["rendered"].as_str().unwrap());
        assert!(rendered.contains("<|image_pad|>"));
    }
}
