//! Redirects, the token, and proxies.

use hf_fetch::{Endpoint, FetchError, Proxies, Token};
use misbehaving_hub::{COMMIT, Content, Fault, Hub, Repository};

use crate::harness::{REPO, Scene, noise, owned};

const FILE: &str = "w.tensorbin";

fn files() -> Vec<(&'static str, Content)> {
    vec![(FILE, noise(9_000))]
}

fn cdn() -> Hub {
    let cdn = Hub::start();
    cdn.put(Repository::package(REPO, COMMIT, owned(files())));
    cdn
}

/// I6: another port of the same host is another origin.
#[tokio::test]
async fn the_token_never_leaves_its_origin() {
    let mut scene = Scene::new(files());
    scene.hub_options.token = Some(Token::new("hf_secret").unwrap());
    let cdn = cdn();
    scene.hub.always(FILE, Fault::RedirectTo(cdn.url()));
    scene.fetch().await.unwrap();
    scene.assert_whole(&files());
    assert!(
        scene
            .hub
            .seen()
            .iter()
            .all(|s| s.header("authorization") == Some("Bearer hf_secret"))
    );
    assert!(!cdn.seen().is_empty());
    assert!(
        cdn.seen()
            .iter()
            .all(|s| s.header("authorization").is_none())
    );
    assert!(!format!("{:?}", scene.hub_options).contains("hf_secret"));
}

#[tokio::test]
async fn the_token_stays_away_when_a_redirect_comes_back() {
    let mut scene = Scene::new(files());
    scene.hub_options.token = Some(Token::new("hf_secret").unwrap());
    let cdn = cdn();
    cdn.fault(FILE, [Fault::RedirectTo(scene.hub.url())]);
    scene.hub.fault(FILE, [Fault::RedirectTo(cdn.url())]);
    scene.fetch().await.unwrap();
    let sent: Vec<_> = scene
        .hub
        .seen_for(FILE)
        .iter()
        .map(|s| s.header("authorization").is_some())
        .collect();
    assert_eq!(sent, [true, false]);
}

#[tokio::test]
async fn a_redirect_within_the_origin_keeps_the_token() {
    let mut scene = Scene::empty();
    let mut repository = Repository::package(REPO, COMMIT, owned(files()));
    repository.token = Some("hf_secret".to_owned());
    scene.hub.put(repository);
    scene.hub_options.token = Some(Token::new("hf_secret").unwrap());
    let target = format!("/{REPO}/resolve/{COMMIT}/{FILE}");
    scene.hub.fault(FILE, [Fault::Redirect(307, target)]);
    scene.fetch().await.unwrap();
    scene.assert_whole(&files());
}

#[tokio::test]
async fn a_private_repository_without_a_token_is_an_error_with_a_hint() {
    let scene = Scene::empty();
    let mut repository = Repository::package(REPO, COMMIT, owned(files()));
    repository.token = Some("hf_secret".to_owned());
    scene.hub.put(repository);
    let error = scene.fetch().await.unwrap_err();
    assert!(
        matches!(
            error,
            FetchError::Status {
                status: 401,
                hint: Some(_),
                ..
            }
        ),
        "{error}"
    );
}

#[tokio::test]
async fn redirects_end_and_odd_ones_are_refused() {
    let to_itself = format!("/{REPO}/resolve/{COMMIT}/{FILE}");
    for fault in [
        Fault::Redirect(302, to_itself),
        Fault::Redirect(302, "file:///etc/passwd".to_owned()),
        Fault::Redirect(308, "http://[".to_owned()),
        Fault::RedirectNowhere,
    ] {
        let scene = Scene::new(files());
        scene.hub.always(FILE, fault.clone());
        let error = scene.fetch().await.unwrap_err();
        assert!(
            matches!(error, FetchError::Redirect { .. }),
            "{fault:?}: {error}"
        );
        assert!(scene.hub.seen_for(FILE).len() <= 11);
        scene.assert_nothing_named(FILE);
    }
}

/// I17: both proxies are honoured, and hosts are kept out.
#[tokio::test]
async fn a_proxy_sees_the_requests() {
    let proxy = cdn();
    for proxies in [
        Proxies {
            http: Some(proxy.url()),
            ..Proxies::default()
        },
        Proxies {
            all: Some(proxy.url().replace("http://", "")),
            ..Proxies::default()
        },
    ] {
        let mut scene = Scene::new(files());
        proxy.forget();
        // A name that nobody resolves: only the proxy can answer.
        scene.hub_options.endpoint = Endpoint::parse("http://hub.invalid").unwrap();
        scene.hub_options.proxies = proxies;
        scene.fetch().await.unwrap();
        scene.assert_whole(&files());
        assert!(!proxy.seen().is_empty());
        assert!(
            proxy
                .seen()
                .iter()
                .all(|s| s.authority.as_deref() == Some("hub.invalid"))
        );
    }
}

#[tokio::test]
async fn an_https_request_asks_the_proxy_for_a_tunnel() {
    let proxy = Hub::start();
    let mut scene = Scene::new(files());
    scene.hub_options.endpoint = Endpoint::parse("https://hub.invalid").unwrap();
    scene.hub_options.proxies = Proxies {
        https: Some(proxy.url()),
        ..Proxies::default()
    };
    scene.hub_options.retry.attempts = 1;
    assert!(matches!(
        scene.fetch().await,
        Err(FetchError::Connection { .. })
    ));
    let seen = proxy.seen();
    assert_eq!(
        (seen[0].method.as_str(), seen[0].authority.as_deref()),
        ("CONNECT", Some("hub.invalid:443"))
    );
}

#[tokio::test]
async fn a_host_that_is_excepted_is_reached_directly() {
    let proxy = Hub::start();
    let mut scene = Scene::new(files());
    scene.hub_options.proxies = Proxies {
        all: Some(proxy.url()),
        none_for: Some("127.0.0.1".to_owned()),
        ..Proxies::default()
    };
    scene.fetch().await.unwrap();
    scene.assert_whole(&files());
    assert!(proxy.seen().is_empty());
}

#[test]
fn settings_that_cannot_work_are_refused_without_their_secrets() {
    let scene = Scene::empty();
    for proxy in ["socks5://user:secret@localhost:1", "http://user:secret@:x"] {
        let mut options = scene.hub_options.clone();
        options.proxies.all = Some(proxy.to_owned());
        let error = hf_fetch::Fetcher::new(options, scene.options.clone()).unwrap_err();
        assert!(matches!(error, FetchError::Setting { .. }), "{error}");
        assert!(!error.to_string().contains("secret"), "{error}");
    }
    let mut options = scene.hub_options.clone();
    options.root_certificates = Some(b"no certificate".to_vec());
    assert!(matches!(
        hf_fetch::Fetcher::new(options, scene.options.clone()),
        Err(FetchError::Setting { .. })
    ));
}
