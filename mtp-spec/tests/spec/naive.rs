//! The sampler chain once more, the slow way: dense vectors, whole sorts, the platform's exp. The judge of the fast one.

use mtp_spec::{SamplerConfig, TokenId};

/// The probability of every token of the vocabulary, or `None` when none can be drawn.
pub(crate) fn distribution(
    config: &SamplerConfig,
    logits: &[f32],
    prompt: &[TokenId],
    output: &[TokenId],
    allowed: impl Fn(TokenId) -> bool,
) -> Option<Vec<f64>> {
    let id = |index: usize| TokenId(u32::try_from(index).unwrap());
    let mut logits = logits.to_vec();
    for (index, logit) in logits.iter_mut().enumerate() {
        let token = id(index);
        for &(biased, bias) in &config.logit_bias {
            if biased == token {
                *logit = if bias == -100.0 {
                    f32::NEG_INFINITY
                } else {
                    *logit + bias
                };
            }
        }
        let stop_too_early =
            output.len() < config.min_tokens && config.stop_tokens.contains(&token);
        let outside = config.vocab_limit.is_some_and(|limit| token.0 >= limit);
        if !allowed(token) || config.banned.contains(&token) || stop_too_early || outside {
            *logit = f32::NEG_INFINITY;
        }
        let times = output.iter().filter(|&&other| other == token).count();
        if times > 0 || prompt.contains(&token) {
            *logit = if *logit > 0.0 {
                *logit / config.repetition_penalty
            } else {
                *logit * config.repetition_penalty
            };
        }
        *logit -= config.frequency_penalty * times as f32;
        if times > 0 {
            *logit -= config.presence_penalty;
        }
    }
    let mut order: Vec<usize> = (0..logits.len())
        .filter(|&i| logits[i] > f32::NEG_INFINITY)
        .collect();
    order.sort_by(|&a, &b| logits[b].partial_cmp(&logits[a]).unwrap().then(a.cmp(&b)));
    let peak = f64::from(logits[*order.first()?]);
    let temperature = f64::from(config.temperature);
    if config.temperature == 0.0 {
        order.truncate(1);
    }
    if config.top_k > 0 {
        order.truncate(config.top_k);
    }
    let weight = |i: usize| {
        if config.temperature == 0.0 {
            1.0
        } else {
            ((f64::from(logits[i]) - peak) / temperature).exp()
        }
    };
    let total: f64 = order.iter().map(|&i| weight(i)).sum();
    if config.top_p < 1.0 {
        let mut reached = 0.0;
        let kept = order.iter().position(|&i| {
            reached += weight(i) / total;
            reached >= f64::from(config.top_p)
        });
        order.truncate(kept.map_or(order.len(), |kept| kept + 1));
    }
    order.retain(|&i| weight(i) >= f64::from(config.min_p));
    let total: f64 = order.iter().map(|&i| weight(i)).sum();
    let mut out = vec![0.0; logits.len()];
    for i in order {
        out[i] = weight(i) / total;
    }
    Some(out)
}
