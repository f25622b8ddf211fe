//! The redirect rule: at most ten, never from https to http, and no token for strangers.

use reqwest::Url;

/// Redirects that one request may follow.
pub(crate) const MOST_REDIRECTS: usize = 10;

/// Where a request goes next, and whether it may still carry the token.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Hop {
    pub(crate) url: Url,
    /// False from the first change of origin (scheme, host or port) on, also when a later hop returns.
    pub(crate) trusted: bool,
}

/// Follows one `Location`, absolute or relative.
///
/// # Errors
///
/// The broken rule in words: an unreadable address, a scheme other than http and https, or https to http.
pub(crate) fn follow(from: &Hop, location: &str) -> Result<Hop, String> {
    let url = from
        .url
        .join(location)
        .map_err(|e| format!("the location cannot be read: {e}"))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(format!("the scheme {:?} is not followed", url.scheme()));
    }
    if from.url.scheme() == "https" && url.scheme() == "http" {
        return Err("from https to http".to_owned());
    }
    let trusted = from.trusted && from.url.origin() == url.origin();
    Ok(Hop { url, trusted })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hop(url: &str) -> Hop {
        Hop {
            url: Url::parse(url).unwrap(),
            trusted: true,
        }
    }

    #[test]
    fn a_relative_location_keeps_the_origin_and_the_token() {
        let next = follow(
            &hop("https://hub.example/a/resolve/x/b[1].bin"),
            "/c/b%5B1%5D.bin?x=1",
        )
        .unwrap();
        assert_eq!(next.url.as_str(), "https://hub.example/c/b%5B1%5D.bin?x=1");
        assert!(next.trusted);
    }

    #[test]
    fn the_token_is_dropped_when_scheme_host_or_port_changes() {
        for to in [
            "https://cdn.example/x",
            "https://hub.example:8443/x",
            "https://hub.example.evil/x",
        ] {
            assert!(
                !follow(&hop("https://hub.example/x"), to).unwrap().trusted,
                "{to}"
            );
        }
        assert!(
            !follow(&hop("http://hub.example/x"), "https://hub.example/x")
                .unwrap()
                .trusted
        );
        // The default port written out is the same origin.
        assert!(
            follow(&hop("https://hub.example/x"), "https://hub.example:443/y")
                .unwrap()
                .trusted
        );
    }

    #[test]
    fn the_token_does_not_come_back_when_the_origin_does() {
        let away = follow(&hop("https://hub.example/x"), "https://cdn.example/x").unwrap();
        let back = follow(&away, "https://hub.example/x").unwrap();
        assert!(!back.trusted);
    }

    #[test]
    fn https_never_becomes_http_and_odd_schemes_are_not_followed() {
        assert_eq!(
            follow(&hop("https://hub.example/x"), "http://hub.example/x").unwrap_err(),
            "from https to http"
        );
        for to in ["file:///etc/passwd", "ftp://x/y", "data:,x"] {
            assert!(follow(&hop("https://hub.example/x"), to).is_err(), "{to}");
        }
        assert!(follow(&hop("http://hub.example/x"), "http://cdn.example/x").is_ok());
    }
}
