//! One request over the redirect rule, and small documents with retries.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use reqwest::header::{
    ACCEPT_ENCODING, AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderValue,
    LOCATION,
};
use reqwest::{Certificate, Client, NoProxy, Proxy, Response, StatusCode, Url, redirect};

use crate::endpoint::without_secrets;
use crate::error::FetchError;
use crate::options::{HubOptions, Proxies};
use crate::progress::{Event, Progress};
use crate::redirect::{Hop, MOST_REDIRECTS, follow};
use crate::retry::{Attempts, may_pass, retry_after};

/// A connection pool with the rules of a Hub.
#[derive(Debug)]
pub(crate) struct Http {
    client: Client,
    pub(crate) options: HubOptions,
}

/// Why an attempt failed, and whether another may help.
#[derive(Debug)]
pub(crate) enum Failure {
    /// May pass: tried again.
    Passing {
        error: Box<FetchError>,
        after: Option<Duration>,
    },
    /// Will not pass.
    Lasting(Box<FetchError>),
}

impl Failure {
    pub(crate) fn passing(error: FetchError) -> Self {
        Self::Passing {
            error: Box::new(error),
            after: None,
        }
    }

    pub(crate) fn lasting(error: FetchError) -> Self {
        Self::Lasting(Box::new(error))
    }

    pub(crate) fn into_error(self) -> FetchError {
        match self {
            Self::Passing { error, .. } | Self::Lasting(error) => *error,
        }
    }
}

impl Http {
    pub(crate) fn new(options: HubOptions) -> Result<Self, FetchError> {
        let mut headers = HeaderMap::new();
        // Ranges, lengths and digests are of the file itself, so nobody may compress it on the way.
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        let mut builder = Client::builder()
            .redirect(redirect::Policy::none())
            .referer(false)
            .no_proxy()
            .default_headers(headers)
            .user_agent(options.user_agent.as_str())
            .connect_timeout(options.connect_timeout)
            .tcp_nodelay(true);
        for proxy in proxies(&options.proxies)? {
            builder = builder.proxy(proxy);
        }
        if let Some(pem) = &options.root_certificates {
            let refuse = |reason: String| FetchError::Setting {
                setting: "root certificates",
                reason,
            };
            let certificates = Certificate::from_pem_bundle(pem).map_err(|e| refuse(chain(&e)))?;
            if certificates.is_empty() {
                return Err(refuse("no certificate in the file".to_owned()));
            }
            builder = builder.tls_certs_only(certificates);
        }
        let client = builder.build().map_err(|e| FetchError::Setting {
            setting: "HTTP client",
            reason: chain(&e),
        })?;
        Ok(Self { client, options })
    }

    /// Sends one GET, follows redirects, and hands back the first answer that is none.
    ///
    /// Connection failures and passing statuses are [`Failure::Passing`]; 2xx and 416 are answers.
    pub(crate) async fn open(&self, url: &Url, headers: HeaderMap) -> Result<Response, Failure> {
        let mut hop = Hop {
            url: url.clone(),
            trusted: true,
        };
        for _ in 0..=MOST_REDIRECTS {
            let mut request = self.client.get(hop.url.clone()).headers(headers.clone());
            if let Some(token) = self.options.token.as_ref().filter(|_| hop.trusted) {
                request = request.header(AUTHORIZATION, token.header());
            }
            let answer = tokio::time::timeout(self.options.answer_timeout, request.send()).await;
            let answer = match answer {
                Err(_) => {
                    let window = self.options.answer_timeout;
                    let url = without_secrets(&hop.url);
                    let error = FetchError::Stalled {
                        url,
                        received: 0,
                        floor: 1,
                        window,
                        attempts: 1,
                    };
                    return Err(Failure::passing(error));
                }
                Ok(Err(error)) => return Err(connection(&hop.url, error)),
                Ok(Ok(answer)) => answer,
            };
            let status = answer.status();
            if !status.is_redirection() {
                return self.judge(&hop, answer);
            }
            let refuse = |reason: String| {
                Failure::lasting(FetchError::Redirect {
                    url: without_secrets(&hop.url),
                    reason,
                })
            };
            let location = answer
                .headers()
                .get(LOCATION)
                .and_then(|v| v.to_str().ok())
                .ok_or_else(|| refuse(format!("status {status} without a readable location")))?;
            hop = follow(&hop, location).map_err(refuse)?;
        }
        Err(Failure::lasting(FetchError::Redirect {
            url: without_secrets(url),
            reason: format!("more than {MOST_REDIRECTS} redirects"),
        }))
    }

    fn judge(&self, hop: &Hop, answer: Response) -> Result<Response, Failure> {
        let status = answer.status();
        if status.is_success() || status == StatusCode::RANGE_NOT_SATISFIABLE {
            let encoding = answer
                .headers()
                .get(CONTENT_ENCODING)
                .map(HeaderValue::as_bytes);
            if encoding.is_some_and(|e| !e.is_empty() && !e.eq_ignore_ascii_case(b"identity")) {
                let encoding = String::from_utf8_lossy(encoding.unwrap_or_default()).into_owned();
                let reason = format!("encoded as {encoding:?} although identity was asked for");
                return Err(Failure::lasting(FetchError::Protocol {
                    url: without_secrets(&hop.url),
                    reason,
                }));
            }
            return Ok(answer);
        }
        let url = without_secrets(&hop.url);
        let error = FetchError::Status {
            url,
            status: status.as_u16(),
            hint: self.hint(status),
        };
        if may_pass(status) {
            let after = retry_after(answer.headers(), self.options.clock.now());
            return Err(Failure::Passing {
                error: Box::new(error),
                after,
            });
        }
        Err(Failure::lasting(error))
    }

    fn hint(&self, status: StatusCode) -> Option<String> {
        let text = match (status.as_u16(), self.options.token.is_some()) {
            (401 | 403, false) => "private or gated: give a token of an account that may read it",
            (401 | 403, true) => "the token may not read this repository",
            (404, false) => "no such repository, revision or file, or it is private",
            (404, true) => "no such repository, revision or file",
            (407, _) => "the proxy wants credentials",
            (429, _) => "too many requests",
            _ => return None,
        };
        Some(text.to_owned())
    }

    /// Waits as the policy says, or gives the failure back when it was the last attempt.
    pub(crate) async fn pause(
        &self,
        what: &str,
        attempts: &mut Attempts<'_>,
        failure: Failure,
        received: u64,
        progress: &dyn Progress,
    ) -> Result<(), FetchError> {
        let Failure::Passing { error, after } = failure else {
            return Err(failure.into_error());
        };
        let Some(pause) = attempts.fail(received, after) else {
            return Err(with_attempts(*error, attempts.failed()));
        };
        let reason = error.to_string();
        tracing::info!(
            what,
            failed = attempts.failed(),
            ?pause,
            reason,
            "trying again"
        );
        progress.report(&Event::Retrying {
            what,
            failed: attempts.failed(),
            pause,
            reason: &reason,
        });
        self.options.clock.sleep(pause).await;
        Ok(())
    }

    /// Fetches a document of at most `limit` bytes. `Ok(None)` for 404.
    pub(crate) async fn document(
        &self,
        what: &str,
        url: &Url,
        limit: usize,
        progress: &dyn Progress,
    ) -> Result<Option<(Bytes, HeaderMap)>, FetchError> {
        let mut attempts = Attempts::new(&self.options.retry);
        loop {
            let failure = match self.document_once(what, url, limit).await {
                Ok(document) => return Ok(Some(document)),
                Err(Failure::Lasting(error))
                    if matches!(*error, FetchError::Status { status: 404, .. }) =>
                {
                    return Ok(None);
                }
                Err(failure) => failure,
            };
            self.pause(what, &mut attempts, failure, 0, progress)
                .await?;
        }
    }

    async fn document_once(
        &self,
        what: &str,
        url: &Url,
        limit: usize,
    ) -> Result<(Bytes, HeaderMap), Failure> {
        let mut answer = self.open(url, HeaderMap::new()).await?;
        let headers = answer.headers().clone();
        let too_long = || {
            let reason = format!("longer than {limit} bytes");
            Failure::lasting(FetchError::Metadata {
                what: what.to_owned(),
                reason,
            })
        };
        if answer.status() != StatusCode::OK {
            let reason = format!("status {} to a plain request", answer.status());
            return Err(Failure::lasting(FetchError::Protocol {
                url: without_secrets(url),
                reason,
            }));
        }
        if answer.content_length().is_some_and(|n| n > limit as u64) {
            return Err(too_long());
        }
        let mut body = BytesMut::new();
        loop {
            let window = self.options.stall.window;
            let chunk = tokio::time::timeout(window, answer.chunk())
                .await
                .map_err(|_| {
                    Failure::passing(FetchError::Stalled {
                        url: without_secrets(url),
                        received: 0,
                        floor: self.options.stall.bytes,
                        window,
                        attempts: 1,
                    })
                })?;
            match chunk.map_err(|e| connection(url, e))? {
                None => return Ok((body.freeze(), headers)),
                Some(chunk) if body.len() + chunk.len() > limit => {
                    drop(chunk);
                    return Err(too_long());
                }
                Some(chunk) => body.extend_from_slice(&chunk),
            }
        }
    }
}

/// A failure of the connection, which may pass.
pub(crate) fn connection(url: &Url, error: reqwest::Error) -> Failure {
    let error = error.without_url();
    let error = FetchError::Connection {
        url: without_secrets(url),
        attempts: 1,
        reason: chain(&error),
    };
    Failure::passing(error)
}

/// True for an answer that is a web page by its own word.
pub(crate) fn web_page(headers: &HeaderMap) -> Option<String> {
    let content_type = headers.get(CONTENT_TYPE)?.to_str().ok()?;
    content_type
        .trim_start()
        .to_ascii_lowercase()
        .starts_with("text/html")
        .then(|| content_type.to_owned())
}

fn with_attempts(mut error: FetchError, failed: u32) -> FetchError {
    if let FetchError::Connection { attempts, .. } | FetchError::Stalled { attempts, .. } =
        &mut error
    {
        *attempts = failed;
    }
    error
}

/// An error with its sources in one line; reqwest's own text stops at "error sending request".
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}

fn proxies(settings: &Proxies) -> Result<Vec<Proxy>, FetchError> {
    let direct = settings.none_for.as_deref().and_then(NoProxy::from_string);
    let mut proxies = Vec::new();
    let given = [
        (
            "http proxy",
            &settings.http,
            Proxy::http as fn(Url) -> reqwest::Result<Proxy>,
        ),
        ("https proxy", &settings.https, Proxy::https),
        ("proxy", &settings.all, Proxy::all),
    ];
    for (setting, address, make) in given {
        let Some(address) = address else { continue };
        let refuse = |reason: &str| FetchError::Setting {
            setting,
            reason: reason.to_owned(),
        };
        // `proxy.example:3128` without a scheme is usual in the environment.
        let full = if address.contains("://") {
            address.clone()
        } else {
            format!("http://{address}")
        };
        let url = Url::parse(&full).map_err(|_| refuse("the address cannot be read"))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(refuse("only http and https proxies are possible"));
        }
        let proxy = make(url).map_err(|_| refuse("the address cannot be used"))?;
        proxies.push(proxy.no_proxy(direct.clone()));
    }
    Ok(proxies)
}
