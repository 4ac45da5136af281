//! Questions to the cluster: pods of one node, and whether they change.

use crate::pods::List;
use anyhow::Context;
use frostline_terminal::errors::failure;
use std::env;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};
use ureq::{Agent, Body, http::Response};

/// To be connected, and for the first byte of an answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// For a whole list.
const LIST: Duration = Duration::from_secs(30);
/// Longest list. A node has some hundred pods, each described by some kilobytes.
const LONGEST: u64 = 64 << 20;

/// The cluster's API.
#[derive(Debug)]
pub struct Api {
    agent: Agent,
    address: String,
    token: PathBuf,
}

impl Api {
    /// At `address`, or that of the cluster that this runs in, with the token and the certificate of a service account.
    ///
    /// # Errors
    /// Where this runs in no cluster, and where the certificate cannot be read.
    pub fn new(address: Option<&str>, account: &Path) -> anyhow::Result<Self> {
        let address = match address {
            Some(address) => address.trim_end_matches('/').to_owned(),
            None => in_cluster()?,
        };
        let mut config = Agent::config_builder()
            .http_status_as_error(false)
            .proxy(None)
            .max_redirects(0)
            .timeout_connect(Some(PATIENCE))
            .timeout_recv_response(Some(PATIENCE))
            .user_agent(concat!("frostline-kubernetes/", env!("CARGO_PKG_VERSION")));
        if address.starts_with("https:") {
            config = config.tls_config(trusting(&account.join("ca.crt"))?);
        }
        Ok(Self { agent: config.build().into(), address, token: account.join("token") })
    }

    /// Pods of a node.
    ///
    /// # Errors
    /// Where the cluster does not answer, or refuses.
    pub fn pods(&self, node: &str) -> anyhow::Result<List> {
        let mut answer = self.ask(node, &[("resourceVersion", "0")], LIST)?;
        let status = answer.status();
        let body = answer.body_mut().with_config().limit(LONGEST).read_to_vec();
        let body = body.with_context(|| format!("{} broke off", self.address))?;
        if !status.is_success() {
            let hint = match status.as_u16() {
                401 | 403 => "the service account needs list and watch of pods",
                _ => "look into the log of the API server",
            };
            return Err(failure(format!("{} answers {status}", self.address), hint));
        }
        serde_json::from_slice(&body)
            .with_context(|| format!("{} answers with no list of pods", self.address))
    }

    /// Waits until something of the node's pods is another than at `version`, for `longest` at most.
    ///
    /// # Errors
    /// Where the cluster does not answer.
    pub fn changes(&self, node: &str, version: &str, longest: Duration) -> anyhow::Result<()> {
        let seconds = longest.as_secs().to_string();
        let what = [("watch", "1"), ("resourceVersion", version), ("timeoutSeconds", &seconds)];
        let mut answer = self.ask(node, &what, longest)?;
        // Whatever comes, or that nothing will: the list says what it is.
        let _ = answer.body_mut().as_reader().read(&mut [0]);
        Ok(())
    }

    fn ask(
        &self,
        node: &str,
        what: &[(&str, &str)],
        longest: Duration,
    ) -> anyhow::Result<Response<Body>> {
        // It is replaced every hour.
        let token = fs::read_to_string(&self.token);
        let token = token.with_context(|| format!("cannot read {}", self.token.display()))?;
        self.agent
            .get(format!("{}/api/v1/pods", self.address))
            .query("fieldSelector", format!("spec.nodeName={node}"))
            .query_pairs(what.iter().copied())
            .header("Authorization", format!("Bearer {}", token.trim()))
            .header("Accept", "application/json")
            .config()
            .timeout_recv_body(Some(longest))
            .build()
            .call()
            .with_context(|| format!("{} does not answer", self.address))
    }
}

/// Address that each container of a cluster is told.
fn in_cluster() -> anyhow::Result<String> {
    let [host, port] = ["KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"].map(env::var);
    let (Ok(host), Ok(port)) = (host, port) else {
        return Err(failure(
            "this runs in no cluster",
            "name the API's address: --api https://...",
        ));
    };
    let host = if host.contains(':') { format!("[{host}]") } else { host };
    Ok(format!("https://{host}:{port}"))
}

/// Certificates that are trusted: those of this file and no other.
fn trusting(path: &Path) -> anyhow::Result<TlsConfig> {
    let pem = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let roots: Vec<Certificate<'static>> = parse_pem(&pem)
        .filter_map(|item| match item {
            Ok(PemItem::Certificate(certificate)) => Some(certificate),
            _ => None,
        })
        .collect();
    if roots.is_empty() {
        return Err(failure(
            format!("{} has no certificate", path.display()),
            "name the service account's folder",
        ));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = TlsConfig::builder().root_certs(RootCerts::Specific(Arc::new(roots)));
    Ok(config.unversioned_rustls_crypto_provider(provider).build())
}
