//! When to try again, and after how long.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::{Duration, SystemTime};

use reqwest::StatusCode;
use reqwest::header::{HeaderMap, RETRY_AFTER};

/// How failures that may pass are met.
///
/// The pause before attempt `n` is drawn between half and all of `first * 2^(n-1)`, at most `most`; a `Retry-After`
/// longer than that wins, up to `longest_retry_after`. An attempt that brought [`RetryPolicy::progress`] bytes or more
/// starts the count again, so a long download survives any number of broken connections.
#[derive(Clone, Debug)]
pub struct RetryPolicy {
    /// Attempts in a row without progress, the first included.
    pub attempts: u32,
    /// Pause after the first failure.
    pub first: Duration,
    /// Longest pause of our own choice.
    pub most: Duration,
    /// Longest `Retry-After` that is obeyed; a longer one ends the fetch.
    pub longest_retry_after: Duration,
    /// Bytes of an attempt that count as progress.
    pub progress: u64,
    /// Times that a whole file is fetched anew when its digest or its entity tag turns out wrong.
    pub whole_file: u32,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            attempts: 5,
            first: Duration::from_secs(1),
            most: Duration::from_secs(8),
            longest_retry_after: Duration::from_secs(300),
            progress: 1 << 20,
            whole_file: 3,
        }
    }
}

/// Fewest bytes that must come within a window; a slower line is cut and tried again.
#[derive(Clone, Copy, Debug)]
pub struct StallFloor {
    /// Length of a window.
    pub window: Duration,
    /// Bytes that must come within it.
    pub bytes: u64,
}

impl Default for StallFloor {
    /// 30 KiB within 30 s.
    fn default() -> Self {
        Self {
            window: Duration::from_secs(30),
            bytes: 30 * 1024,
        }
    }
}

/// Whether the status is one that passes: 408, 429 and all of 5xx.
pub(crate) fn may_pass(status: StatusCode) -> bool {
    matches!(
        status,
        StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS
    ) || status.is_server_error()
}

/// The pause that `Retry-After` asks for, in either form: seconds, or an HTTP date.
pub(crate) fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse::<u64>() {
        return Some(Duration::from_secs(seconds));
    }
    let date = httpdate::parse_http_date(text).ok()?;
    Some(date.duration_since(now).unwrap_or(Duration::ZERO))
}

/// Counts attempts of one transfer.
#[derive(Debug)]
pub(crate) struct Attempts<'a> {
    policy: &'a RetryPolicy,
    failed: u32,
}

impl<'a> Attempts<'a> {
    pub(crate) fn new(policy: &'a RetryPolicy) -> Self {
        Self { policy, failed: 0 }
    }

    /// Attempts that failed in a row.
    pub(crate) fn failed(&self) -> u32 {
        self.failed
    }

    /// Takes note of a failure after `bytes` came. The pause before the next attempt, or `None` when it was the last.
    pub(crate) fn fail(&mut self, bytes: u64, asked: Option<Duration>) -> Option<Duration> {
        if bytes >= self.policy.progress {
            self.failed = 0;
        }
        self.failed += 1;
        if self.failed >= self.policy.attempts {
            return None;
        }
        if asked.is_some_and(|pause| pause > self.policy.longest_retry_after) {
            return None;
        }
        let doubled = self
            .policy
            .first
            .saturating_mul(1 << (self.failed - 1).min(16))
            .min(self.policy.most);
        let own = doubled.mul_f64(0.5 + 0.5 * jitter());
        Some(asked.map_or(own, |pause| pause.max(own)))
    }
}

/// A number in 0..1 that differs between processes and calls. Spreading needs no better randomness than the hash map's.
fn jitter() -> f64 {
    let bits = RandomState::new().build_hasher().finish();
    #[expect(clippy::cast_precision_loss, reason = "32 bits are exact in f64")]
    let unit = (bits >> 32) as f64 / 4_294_967_296.0;
    unit
}

#[cfg(test)]
mod tests {
    use super::*;
    use reqwest::header::HeaderValue;

    fn header(text: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(RETRY_AFTER, HeaderValue::from_str(text).unwrap());
        headers
    }

    #[test]
    fn retry_after_is_read_in_both_forms() {
        let now = httpdate::parse_http_date("Tue, 01 Dec 2026 10:00:00 GMT").unwrap();
        assert_eq!(retry_after(&header("7"), now), Some(Duration::from_secs(7)));
        assert_eq!(
            retry_after(&header("Tue, 01 Dec 2026 10:00:09 GMT"), now),
            Some(Duration::from_secs(9))
        );
        assert_eq!(
            retry_after(&header("Tue, 01 Dec 2026 09:00:00 GMT"), now),
            Some(Duration::ZERO)
        );
        for odd in ["soon", "-1", "1.5", ""] {
            assert_eq!(retry_after(&header(odd), now), None, "{odd}");
        }
    }

    #[test]
    fn pauses_double_to_a_bound_and_end() {
        let policy = RetryPolicy::default();
        let mut attempts = Attempts::new(&policy);
        for whole in [1.0, 2.0, 4.0, 8.0] {
            let pause = attempts.fail(0, None).unwrap().as_secs_f64();
            assert!(
                (whole * 0.5..=whole).contains(&pause),
                "{pause} for {whole}"
            );
        }
        assert_eq!(attempts.fail(0, None), None);
        assert_eq!(attempts.failed(), 5);
    }

    #[test]
    fn progress_starts_the_count_again() {
        let policy = RetryPolicy {
            attempts: 2,
            ..RetryPolicy::default()
        };
        let mut attempts = Attempts::new(&policy);
        for _ in 0..100 {
            assert!(attempts.fail(policy.progress, None).is_some());
        }
        assert!(attempts.fail(0, None).is_none());
    }

    #[test]
    fn a_longer_retry_after_is_obeyed_and_an_absurd_one_ends_it() {
        let policy = RetryPolicy::default();
        let mut attempts = Attempts::new(&policy);
        assert_eq!(
            attempts.fail(0, Some(Duration::from_secs(60))),
            Some(Duration::from_secs(60))
        );
        assert!(attempts.fail(0, Some(Duration::from_secs(1))).unwrap() >= Duration::from_secs(1));
        assert_eq!(attempts.fail(0, Some(Duration::from_secs(86_400))), None);
    }

    #[test]
    fn only_passing_statuses_are_tried_again() {
        for status in [408, 429, 500, 502, 503, 504, 520] {
            assert!(may_pass(StatusCode::from_u16(status).unwrap()), "{status}");
        }
        for status in [400, 401, 403, 404, 405, 410, 416, 451] {
            assert!(!may_pass(StatusCode::from_u16(status).unwrap()), "{status}");
        }
    }
}
