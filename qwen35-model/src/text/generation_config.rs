//! `generation_config.json`: what ends a generation, and how the model's makers sample.

use serde::Deserialize;

/// The fields of `generation_config.json` that a server needs; all are optional, unknown ones are ignored.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct GenerationConfig {
    /// Ids that end a generation; the file holds one number or a list.
    #[serde(deserialize_with = "one_or_many")]
    pub eos_token_id: Vec<u32>,
    /// Whether the makers sample at all; `false` means greedy.
    pub do_sample: Option<bool>,
    /// Softmax temperature.
    pub temperature: Option<f64>,
    /// Keep this many most likely tokens.
    pub top_k: Option<u32>,
    /// Keep the most likely tokens up to this probability mass.
    pub top_p: Option<f64>,
    /// Keep tokens of at least this fraction of the best token's probability.
    pub min_p: Option<f64>,
    /// Divisor (or factor, for negative logits) of the logits of tokens already seen.
    pub repetition_penalty: Option<f64>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMany {
    One(u32),
    Many(Vec<u32>),
}

fn one_or_many<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<u32>, D::Error> {
    Ok(match Option::<OneOrMany>::deserialize(deserializer)? {
        None => Vec::new(),
        Some(OneOrMany::One(id)) => vec![id],
        Some(OneOrMany::Many(ids)) => ids,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_id_a_list_of_ids_and_null_are_read_alike() {
        let eos = |json: &str| {
            serde_json::from_str::<GenerationConfig>(json)
                .unwrap()
                .eos_token_id
        };
        assert_eq!(eos(r#"{"eos_token_id": 5}"#), [5]);
        assert_eq!(eos(r#"{"eos_token_id": [5, 6], "unknown": {}}"#), [5, 6]);
        assert!(eos(r#"{"eos_token_id": null}"#).is_empty());
        assert!(eos("{}").is_empty());
    }
}
