//! The program against a cluster of this test's, which answers as an API server does.

use assert_cmd::Command as Assert;
use frostline_testing::wait_until;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

const PROGRAM: &str = env!("CARGO_BIN_EXE_frostline-kubernetes");
const UIDS: [&str; 2] =
    ["0fa1c7f0-5b0e-4f5e-9a38-6f1f4a0f9d21", "7c9e6679-7425-40de-944b-e07fc1f90ae7"];
/// Longest that a watch is held.
const HELD: Duration = Duration::from_secs(60);

#[derive(Default)]
struct State {
    pods: Vec<Value>,
    version: u64,
    status: Option<u16>,
    /// First lines of requests, and their tokens.
    asked: Vec<(String, String)>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

/// The cluster.
struct Cluster {
    address: String,
    shared: Arc<Shared>,
}

trait Stream: Read + Write {}
impl<S: Read + Write> Stream for S {}

impl Cluster {
    fn start(tls: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let scheme = if tls { "https" } else { "http" };
        let address = format!("{scheme}://{}", listener.local_addr().unwrap());
        let shared = Arc::new(Shared::default());
        let config = tls.then(server_config);
        let served = Arc::clone(&shared);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (shared, config) = (Arc::clone(&served), config.clone());
                thread::spawn(move || match config {
                    Some(config) => {
                        let connection = ServerConnection::new(config).unwrap();
                        serve(&shared, StreamOwned::new(connection, stream));
                    }
                    None => serve(&shared, stream),
                });
            }
        });
        Self { address, shared }
    }

    fn set(&self, pods: &[Value]) {
        let mut state = self.shared.state.lock().unwrap();
        state.pods = pods.to_vec();
        state.version += 1;
        self.shared.changed.notify_all();
    }

    fn refuse(&self, status: u16) {
        self.shared.state.lock().unwrap().status = Some(status);
    }

    fn asked(&self) -> Vec<(String, String)> {
        self.shared.state.lock().unwrap().asked.clone()
    }
}

fn server_config() -> Arc<ServerConfig> {
    let folder = certificates();
    let chain = vec![CertificateDer::from_pem_file(folder.join("server.crt")).unwrap()];
    let key = PrivateKeyDer::from_pem_file(folder.join("server.key")).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config =
        ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    Arc::new(config.unwrap().with_no_client_auth().with_single_cert(chain, key).unwrap())
}

fn certificates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/certificates")
}

/// Answers one request: a watch once something changes.
fn serve(shared: &Shared, stream: impl Stream) {
    let mut stream = BufReader::new(stream);
    let (mut first, mut token) = (String::new(), String::new());
    if stream.read_line(&mut first).is_err() {
        return;
    }
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).unwrap_or(0) <= 2 {
            break;
        }
        if let Some(bearer) = line.to_lowercase().strip_prefix("authorization: bearer ") {
            token = bearer.trim().to_owned();
        }
    }
    let mut state = shared.state.lock().unwrap();
    state.asked.push((first.trim().to_owned(), token));
    if first.contains("watch=1") {
        let seen = state.version;
        let still = |state: &mut State| state.version == seen;
        state = shared.changed.wait_timeout_while(state, HELD, still).unwrap().0;
    }
    let status = state.status.unwrap_or(200);
    let list = json!({"kind": "PodList", "metadata": {"resourceVersion": state.version.to_string()}, "items": state.pods});
    let body = list.to_string();
    drop(state);
    let head = format!(
        "HTTP/1.1 {status} X\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    let stream = stream.get_mut();
    let _ = stream.write_all((head + &body).as_bytes()).and_then(|()| stream.flush());
}

/// A node's folder of control groups, a service account, and where the targets go.
struct Node {
    folder: tempfile::TempDir,
}

impl Node {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let node = Self { folder };
        fs::create_dir_all(node.path("groups/kubepods")).unwrap();
        fs::create_dir(node.path("account")).unwrap();
        fs::write(node.path("account/token"), "secret\n").unwrap();
        fs::copy(certificates().join("ca.crt"), node.path("account/ca.crt")).unwrap();
        node
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn begin(&self, uid: &str) {
        fs::create_dir_all(self.path(&format!("groups/kubepods/burstable/pod{uid}"))).unwrap();
    }

    fn words(&self, cluster: &Cluster) -> Vec<String> {
        let [groups, account] =
            ["groups", "account"].map(|name| self.path(name).display().to_string());
        ["--node", "node 1", "--api", &cluster.address, "--cgroups", &groups, "--account", &account]
            .map(String::from)
            .to_vec()
    }

    fn once(&self, cluster: &Cluster) -> (i32, String, String) {
        let output =
            Assert::new(PROGRAM).args(self.words(cluster)).arg("--dry-run").output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
    }

    fn start(&self, cluster: &Cluster) -> Running {
        let mut command = Command::new(PROGRAM);
        command.args(self.words(cluster)).arg("--output").arg(self.path("targets.toml"));
        Running(command.stderr(Stdio::piped()).spawn().unwrap())
    }

    fn written(&self) -> String {
        fs::read_to_string(self.path("targets.toml")).unwrap_or_default()
    }
}

struct Running(Child);

impl Running {
    /// Ends it as a container is ended; gives what it said.
    fn end(mut self) -> String {
        let pid = rustix::process::Pid::from_child(&self.0);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        let mut said = String::new();
        self.0.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert!(self.0.wait().unwrap().success(), "{said}");
        said
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn pod(name: &str, uid: &str, annotations: &Value) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "shop", "uid": uid, "annotations": annotations},
        "status": {"phase": "Running"}
    })
}

#[test]
fn pods_come_and_go_and_the_file_follows() {
    let (cluster, node) = (Cluster::start(false), Node::new());
    let asked = json!({"frostline.dev/max-slowdown": "2%"});
    cluster.set(&[pod("cart", UIDS[0], &asked)]);
    let running = node.start(&cluster);
    // Its control group comes later, and nothing else tells of it.
    wait_until("the file", || node.path("targets.toml").exists());
    assert!(!node.written().contains("cart"));
    node.begin(UIDS[0]);
    wait_until("the pod", || node.written().contains("name = \"shop/cart\""));
    assert!(node.written().contains("max_slowdown = \"2%\""));
    node.begin(UIDS[1]);
    // A watch is being held by now, and its answer brings the next list.
    wait_until("a watch", || {
        cluster.asked().iter().any(|(line, _)| line.contains("timeoutSeconds=240"))
    });
    let wrong = pod("wrong", UIDS[1], &json!({"frostline.dev/fast": "much"}));
    cluster.set(&[wrong, pod("cart", UIDS[0], &json!({"frostline.dev/fast": "1GiB"}))]);
    wait_until("another size", || node.written().contains("fast = \"1GiB\""));
    cluster.set(&[]);
    wait_until("no pods", || !node.written().contains("cart"));
    let said = running.end();
    assert!(said.contains("shop/wrong is not tiered: frostline.dev/fast"), "{said}");
    for (line, token) in cluster.asked() {
        assert!(
            line.starts_with("GET /api/v1/pods?fieldSelector=spec.nodeName%3Dnode%201&"),
            "{line}"
        );
        assert_eq!(token, "secret");
    }
}

#[test]
fn a_cluster_that_is_away_changes_nothing_and_is_told_once() {
    let (cluster, node) = (Cluster::start(false), Node::new());
    node.begin(UIDS[0]);
    cluster.set(&[pod("cart", UIDS[0], &json!({"frostline.dev/fast": "1GiB"}))]);
    let running = node.start(&cluster);
    wait_until("the pod", || node.written().contains("cart"));
    cluster.refuse(503);
    cluster.set(&[]);
    let before = cluster.asked().len();
    wait_until("two refusals", || cluster.asked().len() >= before + 3);
    assert!(node.written().contains("cart"));
    let said = running.end();
    assert_eq!(said.matches("answers 503").count(), 1, "{said}");
    assert!(said.contains("all goes on as before"), "{said}");
}

#[test]
fn a_dry_run_prints_the_file_and_writes_none() {
    let (cluster, node) = (Cluster::start(true), Node::new());
    node.begin(UIDS[0]);
    cluster.set(&[pod("cart", UIDS[0], &json!({"frostline.dev/policy": "memtis"}))]);
    let (code, text, notes) = node.once(&cluster);
    assert_eq!(code, 0, "{notes}");
    assert!(
        text.contains("policy = \"memtis\"") && text.contains(&format!("burstable/pod{}", UIDS[0])),
        "{text}"
    );
    assert!(!node.path("targets.toml").exists());
}

#[test]
fn a_cluster_that_another_authority_vouches_for_is_not_believed() {
    let (cluster, node) = (Cluster::start(true), Node::new());
    fs::copy(certificates().join("other.crt"), node.path("account/ca.crt")).unwrap();
    let (code, _, notes) = node.once(&cluster);
    assert_eq!(code, 1);
    assert!(
        notes.contains("does not answer") && notes.to_lowercase().contains("certificate"),
        "{notes}"
    );
    assert_eq!(cluster.asked(), [], "the token was sent");
}

#[test]
fn what_cannot_be_done_is_said_with_a_remedy() {
    let (cluster, node) = (Cluster::start(false), Node::new());
    cluster.refuse(403);
    let (code, _, notes) = node.once(&cluster);
    assert!(code == 1 && notes.contains("answers 403") && notes.contains("hint: "), "{notes}");
    cluster.refuse(200);
    cluster.set(&[json!({"metadata": 7})]);
    let (code, _, notes) = node.once(&cluster);
    assert!(code == 1 && notes.contains("no list of pods"), "{notes}");
    fs::remove_dir_all(node.path("groups")).unwrap();
    cluster.set(&[]);
    let (code, _, notes) = node.once(&cluster);
    assert!(code == 1 && notes.contains("cannot read") && notes.contains("groups"), "{notes}");
    fs::remove_file(node.path("account/token")).unwrap();
    let (code, _, notes) = node.once(&cluster);
    assert!(code == 1 && notes.contains("token"), "{notes}");
    let output = Assert::new(PROGRAM)
        .args(["--node", "n", "--dry-run"])
        .env_remove("KUBERNETES_SERVICE_HOST")
        .output();
    let notes = String::from_utf8(output.unwrap().stderr).unwrap();
    assert!(notes.contains("this runs in no cluster") && notes.contains("hint: "), "{notes}");
}
