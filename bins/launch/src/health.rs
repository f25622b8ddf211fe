//! Waiting until a server answers.

use std::time::Duration;

use reqwest::Client;
use tokio::time::{Instant, sleep};

/// Time between two looks.
const LOOK: Duration = Duration::from_millis(250);
/// Silence after which a line says that there is still nothing.
const REMIND: Duration = Duration::from_secs(15);

/// What a server says about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Health {
    Ready,
    NotYet(String),
}

/// Looks until the server on loopback says that it is ready, or gives back the last thing it said.
pub(crate) async fn until_ready(port: u16, patience: Duration) -> Result<Duration, String> {
    let began = Instant::now();
    // No proxy of the environment may stand between this machine and itself.
    let client = Client::builder()
        .no_proxy()
        .timeout(Duration::from_secs(5))
        .build()
        .map_err(|e| e.to_string())?;
    let (mut told, mut told_at) = (String::new(), began);
    loop {
        let health = look(&client, port).await;
        let Health::NotYet(text) = health else {
            return Ok(began.elapsed());
        };
        if began.elapsed() >= patience {
            return Err(text);
        }
        if text != told || told_at.elapsed() >= REMIND {
            eprintln!(
                "waiting for the server, {} s: {text}",
                began.elapsed().as_secs()
            );
            (told, told_at) = (text, Instant::now());
        }
        sleep(LOOK).await;
    }
}

async fn look(client: &Client, port: u16) -> Health {
    let asked = client.get(format!("http://127.0.0.1:{port}/health"));
    let Ok(answer) = asked.send().await else {
        return Health::NotYet("no answer yet".to_owned());
    };
    let status = answer.status();
    if status.is_success() {
        return Health::Ready;
    }
    let body = answer.bytes().await.unwrap_or_default();
    Health::NotYet(phase(&body).unwrap_or_else(|| format!("status {status}")))
}

/// The phase and how far it is, as our own server says it, or the message of an OpenAI-style error.
fn phase(body: &[u8]) -> Option<String> {
    let body: serde_json::Value = serde_json::from_slice(body).ok()?;
    let text = |value: &serde_json::Value| {
        value
            .as_str()
            .map(|t| t.chars().take(200).collect::<String>())
    };
    let message = text(&body["error"]["message"]).or_else(|| text(&body["status"]));
    let loading = &body["loading"];
    let Some(phase) = text(&loading["phase"]) else {
        return message;
    };
    match (loading["done"].as_u64(), loading["total"].as_u64()) {
        (Some(done), Some(total)) if total > 0 => Some(format!("{phase} {done}/{total}")),
        _ => Some(phase),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_phase_is_told_before_the_message() {
        let said = |text: &str| phase(text.as_bytes());
        assert_eq!(
            said(r#"{"error":{"message":"Loading model"}}"#).as_deref(),
            Some("Loading model")
        );
        let with_progress =
            r#"{"error":{"message":"x"},"loading":{"phase":"verify","done":3,"total":9}}"#;
        assert_eq!(said(with_progress).as_deref(), Some("verify 3/9"));
        assert_eq!(said("<html>"), None);
    }
}
