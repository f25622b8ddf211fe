use crate::math::ln;
use crate::sampler::{Candidate, argmax, largest, mass};
use crate::{Distribution, LogitRows, RowError, TokenId};

/// The log-probability of a token and of the most likely ones, natural logarithm.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TokenLogprobs {
    /// Of the token itself. Equal, bit for bit, to its entry in `top` when it has one.
    pub logprob: f32,
    /// The most likely tokens, most likely first, lowest id first on ties.
    pub top: Vec<(TokenId, f32)>,
}

impl TokenLogprobs {
    /// From the log-softmax of a row of logits as the model gave it, in f64, rounded once to f32. A token that the row does not have gets minus infinity.
    ///
    /// # Errors
    /// A logit that is NaN or plus infinity; no logit above minus infinity.
    pub fn of_row(row: &[f32], token: TokenId, top: usize) -> Result<Self, RowError> {
        let peak = argmax(row)?.logit;
        let log_mass = ln(mass(row, peak, 1.0));
        let logprob = |logit: f32| single((f64::from(logit) - f64::from(peak)) - log_mass);
        let mut most_likely = Vec::new();
        largest(row, top, &mut Vec::new(), &mut most_likely);
        Ok(Self {
            logprob: row
                .get(token.index())
                .map_or(f32::NEG_INFINITY, |&logit| logprob(logit)),
            top: most_likely
                .into_iter()
                .map(|Candidate { token, logit }| (token, logprob(logit)))
                .collect(),
        })
    }

    /// From a distribution that the sampler chain made. A token that cannot be drawn gets minus infinity and is not listed.
    #[must_use]
    pub fn of_distribution(distribution: &mut Distribution, token: TokenId, top: usize) -> Self {
        Self {
            logprob: single(distribution.log_probability(token)),
            top: distribution
                .top(top)
                .into_iter()
                .map(|token| (token, single(distribution.log_probability(token))))
                .collect(),
        }
    }

    /// Those of the tokens that follow each row: `rows.row(i)` predicts `following[i]`. Rows beyond `following` are left out.
    pub(crate) fn extend_prompt(
        out: &mut Vec<Self>,
        rows: &LogitRows,
        following: &[TokenId],
        top: usize,
    ) -> Result<(), (usize, RowError)> {
        for (i, &token) in following.iter().enumerate().take(rows.rows()) {
            out.push(Self::of_row(rows.row(i), token, top).map_err(|source| (i, source))?);
        }
        Ok(())
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "the one rounding to f32 that is meant"
)]
fn single(logprob: f64) -> f32 {
    logprob as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_softmax_is_that_of_the_row() {
        let row = [1.0_f32, 3.0, -2.0, 3.0, f32::NEG_INFINITY];
        let total: f64 = row.iter().map(|&x| f64::from(x).exp()).sum();
        let logprobs = TokenLogprobs::of_row(&row, TokenId(2), 3).unwrap();
        assert!((f64::from(logprobs.logprob) - (-2.0 - total.ln())).abs() < 1e-6);
        let listed: Vec<u32> = logprobs.top.iter().map(|&(token, _)| token.0).collect();
        assert_eq!(listed, [1, 3, 0]);
        for &(token, logprob) in &logprobs.top {
            let own = TokenLogprobs::of_row(&row, token, 0).unwrap();
            assert_eq!(own.logprob.to_bits(), logprob.to_bits());
            assert!(own.top.is_empty());
        }
        assert_eq!(
            TokenLogprobs::of_row(&row, TokenId(4), 0).unwrap().logprob,
            f32::NEG_INFINITY
        );
        assert_eq!(
            TokenLogprobs::of_row(&row, TokenId(9), 9)
                .unwrap()
                .top
                .len(),
            4
        );
    }

    #[test]
    fn a_logprob_is_zero_only_for_certainty() {
        let certain = TokenLogprobs::of_row(&[5.0, f32::NEG_INFINITY], TokenId(0), 0).unwrap();
        assert_eq!(certain.logprob.to_bits(), 0.0_f32.to_bits());
        let nearly = TokenLogprobs::of_row(&[5.0, -8.0], TokenId(0), 0).unwrap();
        assert!(nearly.logprob < 0.0, "{}", nearly.logprob);
    }
}
