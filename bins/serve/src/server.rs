//! The server itself: sockets, connections, and how it stops.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use crate::app::App;
use crate::config::Config;
use crate::generate::engine_thread::{EngineSeat, OpenEngine, spawn};
use crate::generate::status::Status;
use crate::routes::router;

/// Why a server did not start, or ended otherwise than it was told to.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The address cannot be listened on.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        source: std::io::Error,
    },
    /// No thread for the engine.
    #[error("cannot start the engine thread")]
    Thread {
        /// What the system said.
        source: std::io::Error,
    },
    /// The package could not be opened.
    #[error("the package cannot be opened: {message}")]
    Load {
        /// Why.
        message: String,
    },
}

/// A server that listens and does not answer yet.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    app: Arc<App>,
}

/// Time to read the head of a request, from its first byte or from the opening of a connection.
const HEAD_TIME: Duration = Duration::from_secs(30);

impl Server {
    /// Takes the port.
    ///
    /// # Errors
    /// [`ServeError::Listen`].
    pub async fn bind(config: Config) -> Result<Self, ServeError> {
        let failed = |source| ServeError::Listen {
            address: config.listen,
            source,
        };
        let listener = TcpListener::bind(config.listen).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let seat = Arc::new(EngineSeat::new(
            config.limits.queue,
            config.check_prefix_cache,
        ));
        Ok(Self {
            listener,
            address,
            app: Arc::new(App::new(config, seat)),
        })
    }

    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// What the handlers see.
    #[must_use]
    pub const fn app(&self) -> &Arc<App> {
        &self.app
    }

    /// Opens the package on the engine thread and answers requests (with 503 until it is open) until `stop` is done.
    ///
    /// Then it takes no more requests, lets those that run and wait end within the grace of the config, and ends the
    /// others with an error.
    ///
    /// # Errors
    /// A package that cannot be opened; no thread for the engine.
    pub async fn run(
        self,
        open: OpenEngine,
        stop: impl Future<Output = ()>,
    ) -> Result<(), ServeError> {
        let seat = Arc::clone(&self.app.seat);
        let engine =
            spawn(open, Arc::clone(&seat)).map_err(|source| ServeError::Thread { source })?;
        let connections = GracefulShutdown::new();
        let mut status = seat.watch();
        let outcome = tokio::select! {
            () = stop => Ok(()),
            failed = status.wait_for(|status| matches!(status, Status::Failed(_))) => {
                match failed.map(|status| status.clone()) {
                    Ok(Status::Failed(message)) => Err(ServeError::Load { message }),
                    _ => Ok(()),
                }
            }
            () = accept(&self.listener, &self.app, &connections) => Ok(()),
        };
        drop(self.listener);
        seat.close();
        let grace = match &outcome {
            Ok(()) => self.app.config.limits.grace,
            Err(_) => Duration::ZERO,
        };
        shut_down(connections, engine, &seat, grace).await;
        outcome
    }
}

async fn accept(listener: &TcpListener, app: &Arc<App>, connections: &GracefulShutdown) {
    let service = router(Arc::clone(app));
    let places = Arc::new(Semaphore::new(app.config.limits.connections));
    loop {
        // Beyond the limit clients wait in the system's backlog.
        let Ok(place) = Arc::clone(&places).acquire_owned().await else {
            return;
        };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                // Out of file descriptors, most likely: others will close theirs.
                tracing::warn!(error = %error, "a connection could not be accepted");
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        // Frames are small and each is awaited.
        drop(stream.set_nodelay(true));
        let connection = hyper::server::conn::http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_TIME)
            .serve_connection(
                TokioIo::new(stream),
                TowerToHyperService::new(service.clone()),
            );
        let connection = connections.watch(connection);
        tokio::spawn(async move {
            // A client that breaks off is no event of ours.
            if let Err(error) = connection.await {
                tracing::debug!(error = %error, "a connection broke");
            }
            drop(place);
        });
    }
}

async fn shut_down(
    connections: GracefulShutdown,
    engine: thread::JoinHandle<()>,
    seat: &EngineSeat,
    grace: Duration,
) {
    let mut closing = std::pin::pin!(connections.shutdown());
    if tokio::time::timeout(grace, &mut closing).await.is_err() {
        seat.abort();
        // What was told to end needs a moment to say so. A client that does not read is not waited for.
        drop(tokio::time::timeout(ABORT_TIME, &mut closing).await);
    }
    seat.abort();
    // The engine thread looks at the flag after each chunk; the device must be closed before the process ends.
    drop(tokio::task::spawn_blocking(move || engine.join()).await);
}

/// Time for error frames to go out after the grace.
const ABORT_TIME: Duration = Duration::from_secs(5);
