//! The access token, kept out of sight.

use std::fmt;

use reqwest::header::HeaderValue;

use crate::error::FetchError;

/// A Hub access token. Never shown by `Debug`, never logged, sent only to the endpoint's own origin.
#[derive(Clone)]
pub struct Token(HeaderValue);

impl Token {
    /// Takes the token as read from a setting or a file; surrounding white space is dropped.
    ///
    /// # Errors
    ///
    /// [`FetchError::Setting`] when it is empty or cannot stand in an HTTP header. The text does not repeat it.
    pub fn new(text: &str) -> Result<Self, FetchError> {
        let refuse = |reason: &str| FetchError::Setting {
            setting: "token",
            reason: reason.to_owned(),
        };
        let text = text.trim();
        if text.is_empty() {
            return Err(refuse("it is empty"));
        }
        let mut value = HeaderValue::from_str(&format!("Bearer {text}"))
            .map_err(|_| refuse("it holds characters that no HTTP header can carry"))?;
        value.set_sensitive(true);
        Ok(Self(value))
    }

    pub(crate) fn header(&self) -> HeaderValue {
        self.0.clone()
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(hidden)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_form_of_output_shows_the_token() {
        let token = Token::new(" hf_secret\n").unwrap();
        assert_eq!(format!("{token:?}"), "Token(hidden)");
        assert!(!format!("{:?}", token.header()).contains("secret"));
        let error = Token::new("hf_se\ncret").unwrap_err();
        assert!(!error.to_string().contains("hf_se"));
        assert!(Token::new("  ").is_err());
    }
}
