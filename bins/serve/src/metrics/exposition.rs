//! The counters as text, under the names of vLLM and of llama.cpp.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use prometheus_client::encoding::text;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

use super::Metrics;

/// What stands beside the counters at the moment of a scrape.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gauges {
    /// Requests that run.
    pub running: usize,
    /// Requests that wait.
    pub waiting: usize,
    /// Tokens of context in use.
    pub context_used: usize,
    /// Tokens that the context holds.
    pub context: usize,
}

/// Which text format a scraper reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Exposition {
    /// Prometheus text format 0.0.4.
    Prometheus,
    /// OpenMetrics 1.0.0.
    OpenMetrics,
}

impl Exposition {
    /// The content type of the format.
    #[must_use]
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

impl Metrics {
    /// Everything as text.
    ///
    /// # Errors
    /// When the text cannot be written, which a string cannot cause.
    pub fn render(
        &self,
        model: &str,
        gauges: Gauges,
        exposition: Exposition,
    ) -> Result<String, fmt::Error> {
        let mut registry =
            Registry::with_labels([("model_name".into(), model.to_owned().into())].into_iter());
        self.register_vllm(&mut registry, gauges);
        self.register_llama(&mut registry, gauges);
        registry.register(
            "qwen35:prefix_rechecks",
            "Answers from a saved prefix that were computed again",
            self.rechecks.clone(),
        );
        registry.register(
            "qwen35:prefix_recheck_mismatches",
            "Of those, the ones that came out otherwise",
            self.recheck_mismatches.clone(),
        );
        let mut openmetrics = String::new();
        text::encode(&mut openmetrics, &registry)?;
        Ok(match exposition {
            Exposition::OpenMetrics => openmetrics,
            Exposition::Prometheus => to_prometheus(&openmetrics),
        })
    }

    fn register_vllm(&self, registry: &mut Registry, gauges: Gauges) {
        let now = |value: usize| ConstGauge::new(value as u64);
        registry.register(
            "vllm:num_requests_running",
            "Requests that run",
            now(gauges.running),
        );
        registry.register(
            "vllm:num_requests_waiting",
            "Requests that wait",
            now(gauges.waiting),
        );
        let used = gauges.context_used as f64 / gauges.context.max(1) as f64;
        for name in ["vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"] {
            registry.register(
                name,
                "Share of the context in use, 0 to 1",
                ConstGauge::new(used),
            );
        }
        registry.register(
            "vllm:request_success",
            "Requests by how they ended",
            self.requests.clone(),
        );
        registry.register(
            "vllm:prompt_tokens",
            "Tokens of prompts",
            self.prompt_tokens.clone(),
        );
        registry.register(
            "vllm:generation_tokens",
            "Tokens generated",
            self.generation_tokens.clone(),
        );
        registry.register(
            "vllm:prefix_cache_queries",
            "Prompt tokens looked up",
            self.prompt_tokens.clone(),
        );
        registry.register(
            "vllm:prefix_cache_hits",
            "Prompt tokens whose state was still there",
            self.cached_tokens.clone(),
        );
        registry.register(
            "vllm:spec_decode_num_drafts",
            "Rounds with drafts",
            self.drafted_rounds.clone(),
        );
        registry.register(
            "vllm:spec_decode_num_draft_tokens",
            "Tokens drafted",
            self.draft_tokens.clone(),
        );
        registry.register(
            "vllm:spec_decode_num_accepted_tokens",
            "Drafted tokens that became output",
            self.accepted_tokens.clone(),
        );
        registry.register(
            "vllm:spec_decode_num_accepted_tokens_per_pos",
            "Drafted tokens that became output, by place in the draft",
            self.accepted_by_place.clone(),
        );
        for (name, help, histogram) in [
            (
                "vllm:time_to_first_token_seconds",
                "From arrival to first token",
                &self.first_token,
            ),
            (
                "vllm:inter_token_latency_seconds",
                "Between two tokens",
                &self.token,
            ),
            (
                "vllm:time_per_output_token_seconds",
                "Between two tokens",
                &self.token,
            ),
            (
                "vllm:e2e_request_latency_seconds",
                "From arrival to end",
                &self.whole,
            ),
            ("vllm:request_queue_time_seconds", "Waiting", &self.queue),
            (
                "vllm:request_prefill_time_seconds",
                "Reading the prompt",
                &self.prefill,
            ),
            (
                "vllm:request_decode_time_seconds",
                "Writing the answer",
                &self.decode,
            ),
            (
                "vllm:request_prompt_tokens",
                "Tokens of a prompt",
                &self.prompt_length,
            ),
            (
                "vllm:request_generation_tokens",
                "Tokens of an answer",
                &self.answer_length,
            ),
        ] {
            registry.register(name, help, histogram.clone());
        }
    }

    fn register_llama(&self, registry: &mut Registry, gauges: Gauges) {
        registry.register(
            "llamacpp:prompt_tokens",
            "Tokens of prompts",
            self.prompt_tokens.clone(),
        );
        registry.register(
            "llamacpp:prompt_seconds",
            "Time reading prompts",
            self.prompt_seconds.clone(),
        );
        registry.register(
            "llamacpp:tokens_predicted",
            "Tokens generated",
            self.generation_tokens.clone(),
        );
        registry.register(
            "llamacpp:tokens_predicted_seconds",
            "Time generating",
            self.decode_seconds.clone(),
        );
        registry.register(
            "llamacpp:n_decode",
            "Passes of the model that generated",
            self.rounds.clone(),
        );
        registry.register(
            "llamacpp:spec_decode_num_drafts",
            "Rounds with drafts",
            self.drafted_rounds.clone(),
        );
        registry.register(
            "llamacpp:spec_decode_num_draft_tokens",
            "Tokens drafted",
            self.draft_tokens.clone(),
        );
        registry.register(
            "llamacpp:spec_decode_num_accepted_tokens",
            "Drafted tokens that became output",
            self.accepted_tokens.clone(),
        );
        registry.register(
            "llamacpp:spec_decode_num_accepted_tokens_per_pos",
            "Drafted tokens that became output, by place in the draft",
            self.accepted_by_place.clone(),
        );
        let longest = self.longest.load(Ordering::Relaxed);
        registry.register(
            "llamacpp:n_tokens_max",
            "Longest sequence seen",
            ConstGauge::new(longest),
        );
        let last = |bits: &AtomicU64| ConstGauge::new(f64::from_bits(bits.load(Ordering::Relaxed)));
        registry.register(
            "llamacpp:prompt_tokens_seconds",
            "Prompt tokens a second, last request",
            last(&self.prompt_rate),
        );
        registry.register(
            "llamacpp:predicted_tokens_seconds",
            "Tokens generated a second, last request",
            last(&self.decode_rate),
        );
        let now = |value: usize| ConstGauge::new(value as u64);
        registry.register(
            "llamacpp:requests_processing",
            "Requests that run",
            now(gauges.running),
        );
        registry.register(
            "llamacpp:requests_deferred",
            "Requests that wait",
            now(gauges.waiting),
        );
    }
}

/// OpenMetrics as Prometheus text format 0.0.4, in which a counter is announced under the name of its sample
/// (`x_total`), and nothing marks the end.
fn to_prometheus(openmetrics: &str) -> String {
    let mut counters: Vec<&str> = Vec::new();
    for line in openmetrics.lines() {
        if let Some(counter) = line
            .strip_prefix("# TYPE ")
            .and_then(|rest| rest.strip_suffix(" counter"))
        {
            counters.push(counter);
        }
    }
    let mut text = String::with_capacity(openmetrics.len());
    for line in openmetrics.lines() {
        let mut words = line.splitn(4, ' ');
        match (words.next(), words.next(), words.next(), words.next()) {
            (Some("#"), Some("EOF"), ..) | (Some("#"), Some("UNIT"), ..) => continue,
            (Some("#"), Some(keyword), Some(name), Some(rest)) if counters.contains(&name) => {
                text.push_str(&format!("# {keyword} {name}_total {rest}"));
            }
            _ => text.push_str(line),
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use mtp_spec::Statistics;

    use super::*;
    use crate::metrics::Outcome;

    fn rendered(exposition: Exposition) -> String {
        let metrics = Metrics::default();
        let mut statistics = Statistics {
            rounds: 5,
            drafted_rounds: 4,
            drafted: 4,
            accepted: 3,
            ..Statistics::default()
        };
        statistics.by_place.push(mtp_spec::PlaceCount {
            drafted: 4,
            accepted: 3,
        });
        metrics.drafts(&statistics);
        metrics.ended(Outcome::Answered);
        metrics.first_token(Duration::from_millis(3));
        metrics.round(Duration::from_millis(4), 2);
        metrics
            .render("m\"1", Gauges::default(), exposition)
            .unwrap()
    }

    #[test]
    fn drafting_is_counted_under_the_names_of_both_servers() {
        let text = rendered(Exposition::Prometheus);
        for line in [
            "vllm:spec_decode_num_drafts_total{model_name=\"m\\\"1\"} 4",
            "vllm:spec_decode_num_draft_tokens_total{model_name=\"m\\\"1\"} 4",
            "vllm:spec_decode_num_accepted_tokens_total{model_name=\"m\\\"1\"} 3",
            "vllm:spec_decode_num_accepted_tokens_per_pos_total{model_name=\"m\\\"1\",position=\"0\"} 3",
            "llamacpp:spec_decode_num_draft_tokens_total{model_name=\"m\\\"1\"} 4",
            "llamacpp:n_decode_total{model_name=\"m\\\"1\"} 5",
            "vllm:inter_token_latency_seconds_count{model_name=\"m\\\"1\"} 2",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
    }

    #[test]
    fn the_prometheus_format_announces_each_counter_by_the_name_of_its_sample() {
        let text = rendered(Exposition::Prometheus);
        assert!(text.contains("# TYPE vllm:prompt_tokens_total counter\n"));
        assert!(!text.contains("# EOF") && !text.contains("# UNIT"));
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let name = line.split(['{', ' ']).next().unwrap();
            let base = ["_bucket", "_count", "_sum"]
                .iter()
                .find_map(|s| name.strip_suffix(s))
                .unwrap_or(name);
            assert!(
                text.contains(&format!("# TYPE {base} "))
                    || text.contains(&format!("# TYPE {name} ")),
                "{line}"
            );
        }
        assert!(rendered(Exposition::OpenMetrics).ends_with("# EOF\n"));
    }
}
