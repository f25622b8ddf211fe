//! What the environment says, read once and in one place: the library that fetches reads none of it.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hf_fetch::{Endpoint, FetchError, FetchOptions, HubOptions, Proxies, Token};

use crate::args::FetchArgs;

/// A setting that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SettingError {
    /// A file that a variable names cannot be read.
    #[error("{variable}: {path}: {source}", path = path.display())]
    File {
        /// The variable.
        variable: &'static str,
        /// The file it names.
        path: PathBuf,
        /// The operating system's words.
        source: std::io::Error,
    },
    /// A variable that should be a number of seconds.
    #[error("{variable}={value:?} is no number of seconds above 0")]
    Seconds {
        /// The variable.
        variable: &'static str,
        /// Its value.
        value: String,
    },
    /// No folder for the cache.
    #[error("no home folder is known; give --cache-root")]
    NoHome,
    /// An option of the fetch that is refused.
    #[error(transparent)]
    Fetch(#[from] FetchError),
}

/// The variables of the process, as far as they are text.
#[derive(Clone, Debug, Default)]
pub struct Environment(HashMap<String, String>);

impl Environment {
    /// Reads the environment of this process.
    pub fn read() -> Self {
        let text = |value: OsString| value.into_string().ok();
        Self(
            std::env::vars_os()
                .filter_map(|(name, value)| Some((text(name)?, text(value)?)))
                .collect(),
        )
    }

    /// An environment of its own, for tests.
    pub fn of<'a>(variables: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        Self(
            variables
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .collect(),
        )
    }

    /// How to reach the Hub. `endpoint` is what was typed, if anything was.
    ///
    /// # Errors
    ///
    /// [`SettingError`] for a variable or a file that cannot be used. The text never holds a token or a proxy's password.
    pub fn hub_options(&self, endpoint: Option<&str>) -> Result<HubOptions, SettingError> {
        let address = endpoint
            .or_else(|| self.text("HF_ENDPOINT"))
            .unwrap_or(Endpoint::PUBLIC);
        let mut options = HubOptions::new(Endpoint::parse(address)?);
        options.user_agent = concat!("qwen35-fetch/", env!("CARGO_PKG_VERSION")).to_owned();
        options.token = self.token()?;
        options.proxies = self.proxies();
        if let Some(path) = self.text("SSL_CERT_FILE") {
            options.root_certificates = Some(read("SSL_CERT_FILE", Path::new(path))?);
        }
        if let Some(time) = self.seconds("HF_HUB_DOWNLOAD_TIMEOUT")? {
            options.stall.window = time;
        }
        if let Some(time) = self.seconds("HF_HUB_ETAG_TIMEOUT")? {
            options.answer_timeout = time;
        }
        Ok(options)
    }

    /// Where files go.
    ///
    /// # Errors
    ///
    /// [`SettingError::NoHome`] when neither an argument nor a variable names a folder.
    pub fn fetch_options(&self, args: &FetchArgs) -> Result<FetchOptions, SettingError> {
        let cache_root = match &args.cache_root {
            Some(folder) => folder.clone(),
            None => self
                .cache_home()
                .ok_or(SettingError::NoHome)?
                .join("qwen35-native"),
        };
        // A relative folder would mean another one after a change of the working folder.
        let cache_root = std::path::absolute(&cache_root).unwrap_or(cache_root);
        let mut options = FetchOptions::new(cache_root);
        options.hf_cache = if args.no_hf_cache {
            None
        } else {
            self.hf_cache()
        };
        options.offline = args.offline || self.is_on("HF_HUB_OFFLINE");
        options.jobs = usize::from(args.jobs);
        options.range_bytes = args.range_size << 20;
        options.reverify = args.reverify;
        options.lock_wait = Duration::from_secs(args.lock_wait);
        Ok(options)
    }

    /// Whether bars are unwanted.
    pub fn disables_bars(&self) -> bool {
        self.is_on("HF_HUB_DISABLE_PROGRESS_BARS")
    }

    /// What the log shows: `RUST_LOG`, or everything under `HF_DEBUG`, or warnings.
    pub fn log_filter(&self) -> String {
        let otherwise = if self.is_on("HF_DEBUG") {
            "debug"
        } else {
            "warn"
        };
        self.text("RUST_LOG").unwrap_or(otherwise).to_owned()
    }

    /// The proxies in use, without credentials, one line each.
    pub fn proxies_shown(&self) -> Vec<String> {
        let proxies = self.proxies();
        let named = [
            ("http", proxies.http),
            ("https", proxies.https),
            ("all", proxies.all),
        ];
        named
            .into_iter()
            .filter_map(|(of, proxy)| Some(format!("{of} proxy {}", without_credentials(&proxy?))))
            .collect()
    }

    fn token(&self) -> Result<Option<Token>, SettingError> {
        if self.is_on("HF_HUB_DISABLE_IMPLICIT_TOKEN") {
            return Ok(None);
        }
        if let Some(token) = self.text("HF_TOKEN") {
            return Ok(Some(Token::new(token)?));
        }
        let Some(path) = self.text("HF_TOKEN_PATH") else {
            return Ok(None);
        };
        let text = read("HF_TOKEN_PATH", Path::new(path))?;
        Ok(Some(Token::new(&String::from_utf8_lossy(&text))?))
    }

    /// Both cases of letters are usual; the small one wins, as in curl.
    fn proxies(&self) -> Proxies {
        let either = |small: &str, large: &str| {
            self.text(small)
                .or_else(|| self.text(large))
                .map(str::to_owned)
        };
        Proxies {
            http: either("http_proxy", "HTTP_PROXY"),
            https: either("https_proxy", "HTTPS_PROXY"),
            all: either("all_proxy", "ALL_PROXY"),
            none_for: either("no_proxy", "NO_PROXY"),
        }
    }

    /// The `hub` folder of a Hugging Face cache, when it exists.
    fn hf_cache(&self) -> Option<PathBuf> {
        let named = self.text("HF_HUB_CACHE").map(PathBuf::from);
        let home = || self.text("HF_HOME").map(|home| Path::new(home).join("hub"));
        let usual = || Some(self.cache_home()?.join("huggingface/hub"));
        named
            .or_else(home)
            .or_else(usual)
            .filter(|folder| folder.is_dir())
    }

    fn cache_home(&self) -> Option<PathBuf> {
        let named = self
            .text("XDG_CACHE_HOME")
            .map(PathBuf::from)
            .filter(|folder| folder.is_absolute());
        named.or_else(|| Some(Path::new(self.text("HOME")?).join(".cache")))
    }

    fn seconds(&self, variable: &'static str) -> Result<Option<Duration>, SettingError> {
        let Some(value) = self.text(variable) else {
            return Ok(None);
        };
        let time = value
            .parse::<f64>()
            .ok()
            .and_then(|s| Duration::try_from_secs_f64(s).ok());
        match time.filter(|time| !time.is_zero()) {
            Some(time) => Ok(Some(time)),
            None => Err(SettingError::Seconds {
                variable,
                value: value.to_owned(),
            }),
        }
    }

    /// True for the values that Hugging Face's client takes for true.
    fn is_on(&self, variable: &str) -> bool {
        self.text(variable)
            .is_some_and(|v| matches!(v.to_ascii_uppercase().as_str(), "1" | "ON" | "YES" | "TRUE"))
    }

    /// A variable that is set and not empty.
    fn text(&self, variable: &str) -> Option<&str> {
        self.0
            .get(variable)
            .map(String::as_str)
            .filter(|value| !value.is_empty())
    }
}

fn read(variable: &'static str, path: &Path) -> Result<Vec<u8>, SettingError> {
    fs::read(path).map_err(|source| SettingError::File {
        variable,
        path: path.to_owned(),
        source,
    })
}

fn without_credentials(address: &str) -> String {
    let (scheme, rest) = address.split_once("://").unwrap_or(("http", address));
    let host = rest.split('/').next().unwrap_or_default();
    format!("{scheme}://{}", host.rsplit('@').next().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_set_is_anonymous_and_direct() {
        let options = Environment::of([("HOME", "/home/u")])
            .hub_options(None)
            .unwrap();
        assert_eq!(options.endpoint.to_string(), "https://huggingface.co");
        assert!(options.token.is_none() && options.root_certificates.is_none());
        assert!(
            options.proxies.http.is_none()
                && options.proxies.https.is_none()
                && options.proxies.all.is_none()
        );
    }

    #[test]
    fn the_usual_variables_are_honoured() {
        let folder = tempfile::tempdir().unwrap();
        let token = folder.path().join("token");
        fs::write(&token, "hf_secret\n").unwrap();
        let environment = Environment::of([
            ("HF_ENDPOINT", "https://mirror.example/hf"),
            ("HF_TOKEN_PATH", token.to_str().unwrap()),
            ("HF_HUB_DOWNLOAD_TIMEOUT", "7"),
            ("HF_HUB_OFFLINE", "true"),
            ("HF_HUB_CACHE", folder.path().to_str().unwrap()),
            ("XDG_CACHE_HOME", "/var/cache"),
            ("HTTPS_PROXY", "http://one:1"),
            ("https_proxy", "http://user:pass@two:2"),
            ("ALL_PROXY", "three:3"),
            ("NO_PROXY", "localhost"),
        ]);
        let hub = environment.hub_options(None).unwrap();
        assert_eq!(hub.endpoint.to_string(), "https://mirror.example/hf");
        assert!(hub.token.is_some());
        assert_eq!(hub.stall.window, Duration::from_secs(7));
        assert_eq!(hub.proxies.https.as_deref(), Some("http://user:pass@two:2"));
        assert_eq!(hub.proxies.none_for.as_deref(), Some("localhost"));
        assert_eq!(
            environment.proxies_shown(),
            ["https proxy http://two:2", "all proxy http://three:3"]
        );
        let fetch = environment.fetch_options(&FetchArgs::default()).unwrap();
        assert!(fetch.offline);
        assert_eq!(fetch.cache_root, Path::new("/var/cache/qwen35-native"));
        assert_eq!(fetch.hf_cache.as_deref(), Some(folder.path()));
        // What was typed wins.
        let typed = environment.hub_options(Some("http://127.0.0.1:1")).unwrap();
        assert_eq!(typed.endpoint.to_string(), "http://127.0.0.1:1");
    }

    #[test]
    fn an_implicit_token_can_be_switched_off() {
        let on = Environment::of([("HF_TOKEN", "hf_secret")]);
        assert!(on.hub_options(None).unwrap().token.is_some());
        let off = Environment::of([
            ("HF_TOKEN", "hf_secret"),
            ("HF_HUB_DISABLE_IMPLICIT_TOKEN", "1"),
        ]);
        assert!(off.hub_options(None).unwrap().token.is_none());
    }

    #[test]
    fn settings_that_cannot_be_used_are_named_and_secrets_are_not() {
        let refused = |name, value| {
            Environment::of([(name, value)])
                .hub_options(None)
                .unwrap_err()
                .to_string()
        };
        assert!(refused("HF_TOKEN_PATH", "/nonexistent").contains("HF_TOKEN_PATH"));
        assert!(refused("SSL_CERT_FILE", "/nonexistent").contains("SSL_CERT_FILE"));
        assert!(refused("HF_HUB_DOWNLOAD_TIMEOUT", "soon").contains("soon"));
        assert!(refused("HF_HUB_ETAG_TIMEOUT", "-1").contains("-1"));
        assert!(!refused("HF_TOKEN", "hf_se\ncret").contains("hf_se"));
        let nowhere = Environment::default().fetch_options(&FetchArgs::default());
        assert!(matches!(nowhere, Err(SettingError::NoHome)));
    }
}
