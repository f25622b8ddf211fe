use hyper::Method;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::harness::{CONTEXT, Harness, asking, says, scripted};

#[tokio::test]
async fn a_host_that_is_not_ours_is_refused() {
    let server = Harness::new([says(&["a"])]).await;
    for host in [
        "evil.example",
        "evil.example:8000",
        "192.0.2.1",
        "localhost.evil.example",
    ] {
        let error = server
            .client
            .with("host", host)
            .get("/v1/models")
            .await
            .expect(403)
            .await;
        assert_eq!(error["error"]["code"], "host_not_allowed");
    }
    for host in ["localhost", "localhost:1234", "127.0.0.1", "[::1]:8000"] {
        server
            .client
            .with("host", host)
            .get("/v1/models")
            .await
            .expect(200)
            .await;
    }
    let named = Harness::with(&["--allowed-host", "models.example"], [says(&["a"])]).await;
    named
        .client
        .with("host", "models.example")
        .get("/v1/models")
        .await
        .expect(200)
        .await;
}

#[tokio::test]
async fn a_key_is_asked_for_where_one_is_set_but_not_for_health() {
    let server = Harness::with(&["--api-key", "secret"], [says(&["a"])]).await;
    let body = asking(json!({}));
    let path = "/v1/chat/completions";
    for header in [
        "",
        "Bearer wrong",
        "Bearer ",
        "Basic secret",
        "Bearer secretx",
    ] {
        let error = server
            .client
            .with("authorization", header)
            .post(path, &body)
            .await
            .expect(401)
            .await;
        assert_eq!(error["error"]["code"], "invalid_api_key");
    }
    server
        .client
        .with("authorization", "Bearer secret")
        .post(path, &body)
        .await
        .expect(200)
        .await;
    server
        .client
        .with("x-api-key", "secret")
        .post(path, &body)
        .await
        .expect(200)
        .await;
    server.client.get("/v1/models").await.expect(401).await;
    assert_eq!(server.client.get("/metrics").await.status, 401);
    for path in ["/health", "/v1/health", "/ready"] {
        server.client.get(path).await.expect(200).await;
    }
}

#[tokio::test]
async fn an_empty_bearer_is_no_trouble_where_no_key_is_set() {
    let server = Harness::new([says(&["a"])]).await;
    let body = asking(json!({}));
    server
        .client
        .with("authorization", "Bearer ")
        .post("/v1/chat/completions", &body)
        .await
        .expect(200)
        .await;
}

#[tokio::test]
async fn no_origin_is_let_in_unless_it_is_named() {
    let evil = "https://evil.example";
    let server = Harness::new([says(&["a"])]).await;
    let answer = server.client.with("origin", evil).get("/v1/models").await;
    assert!(
        answer
            .headers
            .keys()
            .all(|name| !name.as_str().starts_with("access-control"))
    );
    let named = Harness::with(&["--cors-origin", "https://chat.example"], [says(&["a"])]).await;
    let answer = named.client.with("origin", evil).get("/v1/models").await;
    assert!(!answer.headers.contains_key("access-control-allow-origin"));
    let answer = named
        .client
        .with("origin", "https://chat.example")
        .get("/v1/models")
        .await;
    assert_eq!(
        answer.headers["access-control-allow-origin"],
        "https://chat.example"
    );
    assert!(
        !answer
            .headers
            .contains_key("access-control-allow-credentials")
    );
    let preflight = named
        .client
        .with("origin", "https://chat.example")
        .with("access-control-request-method", "POST")
        .with("access-control-request-headers", "content-type")
        .send(Method::OPTIONS, "/v1/chat/completions", None)
        .await;
    assert_eq!(preflight.status, 200);
    assert_eq!(
        preflight.headers["access-control-allow-origin"],
        "https://chat.example"
    );
}

#[tokio::test]
async fn a_body_that_breaks_off_leaves_the_server_well() {
    let server = Harness::new([says(&["a"])]).await;
    let address = server.client.address();
    for request in [
        "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{",
        "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{",
        "GET /v1/models",
        "\u{0}\u{1}\u{2}",
    ] {
        let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        stream.shutdown().await.unwrap();
        let mut rest = Vec::new();
        // Whatever the server has to say; it must come to an end.
        drop(stream.read_to_end(&mut rest).await);
    }
    server.chat(json!({})).await.expect(200).await;
}

#[tokio::test]
async fn a_connection_serves_several_requests() {
    let server = Harness::new([says(&["a"])]).await;
    let body = asking(json!({})).to_string();
    let request = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut stream = tokio::net::TcpStream::connect(server.client.address())
        .await
        .unwrap();
    for _ in 0..2 {
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut seen = String::new();
        let mut buffer = [0; 4096];
        while !seen.ends_with('}') {
            let read = stream.read(&mut buffer).await.unwrap();
            assert!(read > 0, "{seen}");
            seen.push_str(std::str::from_utf8(&buffer[..read]).unwrap());
        }
        assert!(seen.starts_with("HTTP/1.1 200"), "{seen}");
    }
}

#[tokio::test]
async fn a_body_that_does_not_come_is_not_waited_for() {
    use clap::Parser;
    let args = qwen35_serve::Args::try_parse_from(["qwen35-serve", "--port", "0"]).unwrap();
    let mut config = qwen35_serve::Config::from_args(&args).unwrap();
    config.limits.body_time = std::time::Duration::from_millis(50);
    let (stage, open) = scripted(CONTEXT, [says(&["a"])]);
    let server = Harness::configured(config, stage, open).await;
    let mut stream = tokio::net::TcpStream::connect(server.client.address())
        .await
        .unwrap();
    let head = "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{";
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut seen = Vec::new();
    stream.read_to_end(&mut seen).await.unwrap();
    assert!(
        seen.starts_with(b"HTTP/1.1 408"),
        "{}",
        String::from_utf8_lossy(&seen)
    );
}
