//! Who may ask: host names, API keys, cross-origin pages, and the size of what they send.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use tower_http::cors::{AllowOrigin, CorsLayer};

use crate::app::App;
use crate::wire::error::ApiError;

/// Hosts under whose name the server may be reached.
///
/// A page of somebody else's site that makes its own name resolve to this machine (DNS rebinding) sends its own name as
/// Host, and is refused. An address can be no such name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllowedHosts {
    names: Vec<String>,
    addresses: AllowedAddresses,
    any: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AllowedAddresses {
    Loopback,
    Every,
}

impl AllowedHosts {
    /// `localhost`, the machine's own addresses and `named`, where `*` allows everything.
    #[must_use]
    pub fn new(listen: IpAddr, named: &[String]) -> Self {
        let addresses = if listen.is_loopback() {
            AllowedAddresses::Loopback
        } else {
            AllowedAddresses::Every
        };
        let mut names = vec!["localhost".to_owned()];
        names.extend(named.iter().map(|name| canonical_name(name)));
        Self {
            any: named.iter().any(|name| name == "*"),
            names,
            addresses,
        }
    }

    /// Whether a Host header may be answered. The port is not looked at.
    #[must_use]
    pub fn allows(&self, host: &str) -> bool {
        if self.any {
            return true;
        }
        let name = canonical_name(without_port(host));
        if self.names.contains(&name) {
            return true;
        }
        let address = match name.strip_prefix('[').and_then(|n| n.strip_suffix(']')) {
            Some(v6) => v6.parse::<Ipv6Addr>().ok().map(IpAddr::V6),
            None => name.parse().ok(),
        };
        match (address, self.addresses) {
            (None, _) => false,
            (Some(address), AllowedAddresses::Loopback) => address.is_loopback(),
            (Some(_), AllowedAddresses::Every) => true,
        }
    }
}

impl Default for AllowedHosts {
    fn default() -> Self {
        Self::new(IpAddr::from([127, 0, 0, 1]), &[])
    }
}

fn canonical_name(name: &str) -> String {
    name.trim_end_matches('.').to_ascii_lowercase()
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) && !name.ends_with(':') => {
            name
        }
        _ => host,
    }
}

/// API keys, kept as digests.
///
/// Comparing digests in constant time tells nothing about how much of a guess was right, nor about its length.
#[derive(Clone, Default)]
pub struct ApiKeys {
    digests: Arc<[[u8; 32]]>,
}

impl ApiKeys {
    /// Any of `keys` opens.
    #[must_use]
    pub fn new(keys: &[String]) -> Self {
        Self {
            digests: keys.iter().map(|key| digest(key)).collect(),
        }
    }

    /// Whether a request needs a key at all.
    #[must_use]
    pub fn are_required(&self) -> bool {
        !self.digests.is_empty()
    }

    /// Whether `key` is one of the keys.
    #[must_use]
    pub fn contains(&self, key: &str) -> bool {
        let asked = digest(key);
        let found = |found: subtle::Choice, known: &[u8; 32]| found | known.ct_eq(&asked);
        self.digests
            .iter()
            .fold(subtle::Choice::from(0), found)
            .into()
    }
}

impl std::fmt::Debug for ApiKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ApiKeys({})", self.digests.len())
    }
}

fn digest(key: &str) -> [u8; 32] {
    Sha256::digest(key.as_bytes()).into()
}

/// Refuses requests for other hosts and without a key. `/health` and its twins are open to whoever may reach the host.
pub async fn guard(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let boundary = &app.config.boundary;
    if let Err(refusal) = check_host(&boundary.hosts, &request) {
        return refusal.into_response();
    }
    let open = matches!(request.uri().path(), "/health" | "/v1/health" | "/ready");
    let preflight = request.method() == Method::OPTIONS;
    if boundary.keys.are_required() && !open && !preflight {
        match sent_key(request.headers()) {
            Some(key) if boundary.keys.contains(key) => {}
            _ => return ApiError::InvalidKey.into_response(),
        }
    }
    next.run(request).await
}

/// The layer that answers pages of the named origins; `None` when no origin is named.
#[must_use]
pub fn cors(origins: &[HeaderValue]) -> Option<CorsLayer> {
    if origins.is_empty() {
        return None;
    }
    let layer = CorsLayer::new()
        .allow_origin(AllowOrigin::list(origins.iter().cloned()))
        .allow_methods([Method::GET, Method::POST])
        .allow_headers([header::CONTENT_TYPE, header::AUTHORIZATION]);
    Some(layer)
}

fn check_host(hosts: &AllowedHosts, request: &Request) -> Result<(), ApiError> {
    // The target of a request to a proxy has an authority of its own, which wins over the header.
    let sent = match request.uri().authority() {
        Some(authority) => authority.as_str(),
        None => request
            .headers()
            .get(header::HOST)
            .and_then(|host| host.to_str().ok())
            .unwrap_or_default(),
    };
    if hosts.allows(sent) {
        Ok(())
    } else {
        Err(ApiError::HostRefused {
            host: sent.to_owned(),
        })
    }
}

fn sent_key(headers: &HeaderMap) -> Option<&str> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let bearer = text("authorization").and_then(|value| {
        let (scheme, key) = value.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then(|| key.trim())
    });
    bearer.or_else(|| text("x-api-key"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loopback_server_answers_to_loopback_names_only() {
        let hosts = AllowedHosts::default();
        for host in [
            "localhost",
            "LOCALHOST:8000",
            "127.0.0.1:80",
            "127.9.9.9",
            "[::1]:8000",
            "[::1]",
            "localhost.",
        ] {
            assert!(hosts.allows(host), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "localhost.evil.example",
            "192.0.2.1",
            "[2001:db8::1]",
            "127.0.0.1.evil.example:1",
            "::1",
        ] {
            let is_bare_loopback = host == "::1";
            assert_eq!(hosts.allows(host), is_bare_loopback, "{host}");
        }
    }

    #[test]
    fn a_server_on_a_public_address_answers_to_addresses_and_named_hosts() {
        let hosts = AllowedHosts::new(IpAddr::from([0, 0, 0, 0]), &["Models.Example".into()]);
        assert!(hosts.allows("192.0.2.1:8000") && hosts.allows("models.example"));
        assert!(!hosts.allows("evil.example"));
        assert!(
            AllowedHosts::new(IpAddr::from([0, 0, 0, 0]), &["*".into()]).allows("evil.example")
        );
    }

    #[test]
    fn a_key_must_be_equal_to_the_last_byte() {
        let keys = ApiKeys::new(&["secret".into(), "other".into()]);
        assert!(keys.contains("secret") && keys.contains("other"));
        for wrong in ["", "secre", "secret ", "secrets", "SECRET"] {
            assert!(!keys.contains(wrong), "{wrong:?}");
        }
        assert_eq!(format!("{keys:?}"), "ApiKeys(2)");
    }

    #[test]
    fn a_key_comes_as_bearer_or_in_a_header_of_its_own() {
        let key = |name: &'static str, value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(name, HeaderValue::from_static(value));
            sent_key(&headers).map(str::to_owned)
        };
        assert_eq!(key("authorization", "Bearer abc").as_deref(), Some("abc"));
        assert_eq!(key("authorization", "bearer  abc").as_deref(), Some("abc"));
        assert_eq!(key("x-api-key", "abc").as_deref(), Some("abc"));
        assert_eq!(key("authorization", "Basic abc"), None);
    }
}
