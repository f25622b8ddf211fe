//! Counters and histograms, under the names that vLLM's and llama.cpp's users scrape.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use mtp_spec::Statistics;
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::generate::job::Cost;

/// What ran so far.
#[derive(Debug)]
pub struct Metrics {
    requests: Family<OutcomeLabel, Counter>,
    prompt_tokens: Counter,
    cached_tokens: Counter,
    generation_tokens: Counter,
    prompt_seconds: Counter<f64, AtomicU64>,
    decode_seconds: Counter<f64, AtomicU64>,
    rounds: Counter,
    drafted_rounds: Counter,
    draft_tokens: Counter,
    accepted_tokens: Counter,
    accepted_by_place: Family<PlaceLabel, Counter>,
    rechecks: Counter,
    recheck_mismatches: Counter,
    first_token: Histogram,
    token: Histogram,
    whole: Histogram,
    queue: Histogram,
    prefill: Histogram,
    decode: Histogram,
    prompt_length: Histogram,
    answer_length: Histogram,
    // The last generation's rates, in tokens a second, as the bits of an f64.
    prompt_rate: AtomicU64,
    decode_rate: AtomicU64,
    longest: AtomicU64,
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Outcome {
    /// With its whole answer.
    Answered,
    /// With an answer cut off at a limit.
    Limited,
    /// Because nobody wanted it any more.
    Cancelled,
    /// With an error.
    Failed,
}

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
    /// Time from a request's arrival to its first token.
    pub fn first_token(&self, time: Duration) {
        self.first_token.observe(time.as_secs_f64());
    }

    /// A round of `tokens` tokens that took so long.
    pub fn round(&self, time: Duration, tokens: usize) {
        for _ in 0..tokens {
            self.token.observe(time.as_secs_f64() / tokens as f64);
        }
    }

    /// Time that a request waited.
    pub fn queued(&self, time: Duration) {
        self.queue.observe(time.as_secs_f64());
    }

    /// What drafting brought in a generation.
    pub fn drafts(&self, statistics: &Statistics) {
        self.rounds.inc_by(statistics.rounds);
        self.drafted_rounds.inc_by(statistics.drafted_rounds);
        self.draft_tokens.inc_by(statistics.drafted);
        self.accepted_tokens.inc_by(statistics.accepted);
        for (position, place) in statistics.by_place.iter().enumerate() {
            let label = PlaceLabel {
                position: position as u64,
            };
            self.accepted_by_place
                .get_or_create(&label)
                .inc_by(place.accepted);
        }
    }

    /// A generation from a saved prefix was compared with one from nothing.
    pub fn rechecked(&self, agrees: bool) {
        self.rechecks.inc();
        if !agrees {
            self.recheck_mismatches.inc();
        }
    }

    /// A generation came to its end.
    pub fn generation(&self, cost: &Cost) {
        let computed = cost.prompt_tokens - cost.cached_tokens.min(cost.prompt_tokens);
        self.prompt_tokens.inc_by(cost.prompt_tokens as u64);
        self.cached_tokens.inc_by(cost.cached_tokens as u64);
        self.generation_tokens.inc_by(cost.emitted_tokens as u64);
        self.prompt_seconds.inc_by(cost.prefill.as_secs_f64());
        self.decode_seconds.inc_by(cost.decode.as_secs_f64());
        self.prefill.observe(cost.prefill.as_secs_f64());
        self.decode.observe(cost.decode.as_secs_f64());
        self.prompt_length.observe(cost.prompt_tokens as f64);
        self.answer_length.observe(cost.emitted_tokens as f64);
        store(&self.prompt_rate, rate(computed, cost.prefill));
        store(&self.decode_rate, rate(cost.emitted_tokens, cost.decode));
        let length = (cost.prompt_tokens + cost.emitted_tokens) as u64;
        self.longest.fetch_max(length, Ordering::Relaxed);
    }

    /// A request ended.
    pub fn ended(&self, outcome: Outcome) {
        self.requests
            .get_or_create(&OutcomeLabel {
                finished_reason: outcome,
            })
            .inc();
    }

    /// Time from a request's arrival to the end of its answer.
    pub fn request(&self, time: Duration) {
        self.whole.observe(time.as_secs_f64());
    }

    /// Everything as text.
    ///
    /// # Errors
    /// When the text cannot be written, which a string cannot cause.
    pub fn render(
        &self,
        model: &str,
        gauges: Gauges,
        exposition: Exposition,
    ) -> Result<String, std::fmt::Error> {
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

impl Default for Metrics {
    fn default() -> Self {
        // Bucket bounds in seconds: vLLM's, with finer ones below for a small model.
        let seconds = || {
            Histogram::new([
                0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
                60.0, 120.0, 300.0, 600.0,
            ])
        };
        let tokens = || {
            Histogram::new([
                1.0, 4.0, 16.0, 64.0, 256.0, 1024.0, 4096.0, 16384.0, 65536.0, 262_144.0,
            ])
        };
        Self {
            requests: Family::default(),
            prompt_tokens: Counter::default(),
            cached_tokens: Counter::default(),
            generation_tokens: Counter::default(),
            prompt_seconds: Counter::default(),
            decode_seconds: Counter::default(),
            rounds: Counter::default(),
            drafted_rounds: Counter::default(),
            draft_tokens: Counter::default(),
            accepted_tokens: Counter::default(),
            accepted_by_place: Family::default(),
            rechecks: Counter::default(),
            recheck_mismatches: Counter::default(),
            first_token: seconds(),
            token: seconds(),
            whole: seconds(),
            queue: seconds(),
            prefill: seconds(),
            decode: seconds(),
            prompt_length: tokens(),
            answer_length: tokens(),
            prompt_rate: AtomicU64::new(0),
            decode_rate: AtomicU64::new(0),
            longest: AtomicU64::new(0),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabel {
    finished_reason: Outcome,
}

/// vLLM's words.
impl EncodeLabelValue for Outcome {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), std::fmt::Error> {
        let word = match self {
            Self::Answered => "stop",
            Self::Limited => "length",
            Self::Cancelled => "abort",
            Self::Failed => "error",
        };
        EncodeLabelValue::encode(&word, encoder)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PlaceLabel {
    position: u64,
}

/// Tokens a second; 0 when no time passed.
#[must_use]
pub fn rate(tokens: usize, time: Duration) -> f64 {
    if time.is_zero() {
        0.0
    } else {
        tokens as f64 / time.as_secs_f64()
    }
}

fn store(place: &AtomicU64, value: f64) {
    place.store(value.to_bits(), Ordering::Relaxed);
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
    use super::*;

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
