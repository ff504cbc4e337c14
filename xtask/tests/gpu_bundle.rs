//! A bundle at work, on a machine that only pretends to have a GPU: `run.sh` and the runner are real, `nvidia-smi`,
//! `compute-sanitizer` and the bundle's programs are small scripts.

#![cfg(unix)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::{Value, json};

/// A bundle, and a folder of tools for the path.
struct Machine {
    folder: tempfile::TempDir,
}

impl Machine {
    fn new() -> Self {
        let machine = Self {
            folder: tempfile::tempdir().expect("a temporary folder"),
        };
        fs::create_dir_all(machine.path("bundle/bin")).expect("folders");
        fs::create_dir_all(machine.path("tools")).expect("folders");
        fs::copy(
            env!("CARGO_BIN_EXE_xtask"),
            machine.path("bundle/bin/xtask"),
        )
        .expect("the runner");
        let run_sh = concat!(env!("CARGO_MANIFEST_DIR"), "/src/gpu_bundle/run.sh");
        fs::copy(run_sh, machine.path("bundle/run.sh")).expect("run.sh");
        // The machine that the test runs on may have a GPU; this one has none.
        machine.script("tools/nvidia-smi", "exit 9");
        machine.manifest(json!([]), json!([]));
        machine
    }

    fn path(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    fn script(&self, path: &str, text: &str) {
        let path = self.path(path);
        fs::write(&path, format!("#!/usr/bin/env bash\n{text}\n")).expect("a script");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("permissions");
    }

    fn with_gpu(self) -> Self {
        self.script(
            "tools/nvidia-smi",
            "case \"$*\" in *query*) echo 'NVIDIA H200, 9.0, 143771 MiB, 580.159.03';; \
             *) echo '| Driver Version: 580.159.03   CUDA Version: 13.0 |';; esac",
        );
        self
    }

    fn manifest(&self, sanitize: Value, train: Value) {
        let program = |kind: &str, name: &str| json!({"name": format!("ml/{kind}/{name}"), "kind": kind, "file": format!("bin/{kind}")});
        let manifest = json!({
            "commit": "0123abcd",
            "fingerprint": {"sha256": "f".repeat(64), "files": {"kernels/a.cu": "0"}},
            "plan": {"tests": {"limit_s": 60}, "bench": {"limit_s": 60}, "sanitize": sanitize, "train": train},
            "programs": [program("test", "gpu"), program("bench", "speed"), program("example", "cartpole")],
        });
        fs::write(self.path("bundle/manifest.json"), manifest.to_string()).expect("the manifest");
    }

    /// Starts `run.sh` with only the tools of this machine and those of the system on its path.
    fn run(&self, arguments: &[&str]) -> (Output, Value) {
        let report = self.path("report");
        let output = Command::new("bash")
            .arg(self.path("bundle/run.sh"))
            .args(arguments)
            .arg("--report")
            .arg(&report)
            .env(
                "PATH",
                format!("{}:/usr/bin:/bin", self.path("tools").display()),
            )
            .env("CUDA_HOME", self.path("no-toolkit"))
            .env_remove("FOXHUNT_REQUIRE_GPU")
            .output()
            .expect("bash");
        let json = fs::read_to_string(report.join("report.json")).unwrap_or_default();
        (output, serde_json::from_str(&json).unwrap_or_default())
    }

    fn read(&self, path: &str) -> String {
        let path = self.path(path);
        fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
    }
}

/// The exit code, with everything printed where it is another.
#[track_caller]
fn assert_code(output: &Output, code: i32) {
    let text = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    assert_eq!(output.status.code(), Some(code), "{text}");
}

const PASSING_TESTS: &str = "echo 'running 2 tests'
echo \"test args ... ok\"
echo \"$* require=${FOXHUNT_REQUIRE_GPU:-no} entries=${MOST_ENTRIES:-all}\" >&2
echo 'figure: per_sample = 17.9 us | batch 16,384'
echo 'test needs_more ... ignored, needs 8 GPUs'";

#[test]
fn a_full_run_is_reported_in_both_forms() {
    let machine = Machine::new().with_gpu();
    machine.script("bundle/bin/test", PASSING_TESTS);
    machine.script(
        "bundle/bin/bench",
        "echo 'figure: step = 165.25 us'; echo \"a table, require=$FOXHUNT_REQUIRE_GPU\"",
    );
    machine.script(
        "bundle/bin/example",
        "echo curve >\"$4/curve.svg\"; [ \"$4\" = \"$FOXHUNT_REPORT_DIR\" ] && echo \"seed $2\"",
    );
    // Runs what stands behind its own options, as the real one does.
    machine.script("tools/compute-sanitizer", "while [ \"${1#/}\" = \"$1\" ]; do shift; done; \"$@\"; echo '==== ERROR SUMMARY: 0 errors'");
    machine.manifest(
        json!([{"tool": "racecheck", "programs": ["ml/test/"], "skip": ["soak"], "environment": {"MOST_ENTRIES": "1000000"}, "limit_s": 60}]),
        json!([{"program": "ml/example/cartpole", "arguments": ["--seed", "7", "--out", "{report}"], "limit_s": 60}]),
    );
    let (output, report) = machine.run(&["all"]);
    assert_code(&output, 0);

    assert_eq!(report["device"]["name"], "NVIDIA H200");
    assert_eq!(report["device"]["cuda"], "13.0");
    assert_eq!(report["fingerprint"]["sha256"], "f".repeat(64));
    let tests = &report["tests"][0];
    assert_eq!(tests["tests"][0]["outcome"], "ok");
    assert_eq!(tests["tests"][1]["message"], "needs 8 GPUs");
    assert_eq!(tests["figures"][0]["value"], 17.9);
    assert_eq!(report["sanitizer"][0]["with"], "racecheck");
    assert_eq!(report["sanitizer"][0]["outcome"], "ok");
    assert_eq!(report["bench"][0]["figures"][0]["value"], 165.25);
    assert_eq!(report["bench"][0]["output"][1], "a table, require=1");
    assert_eq!(report["train"][0]["with"], "--seed 7 --out {report}");

    let log = machine.read("report/output.log");
    assert!(
        log.contains("--test-threads=1 --color=never require=1 entries=all"),
        "{log}"
    );
    assert!(
        log.contains("--test-threads=1 --color=never --skip soak require=1 entries=1000000"),
        "{log}"
    );
    assert!(log.contains("seed 7"), "{log}");
    let text = machine.read("report/report.md");
    assert!(
        text.contains("| per_sample | 17.9 | us | batch 16,384 |"),
        "{text}"
    );
    assert!(
        text.contains("[ml-example-cartpole/curve.svg](ml-example-cartpole/curve.svg)"),
        "{text}"
    );
    // Folders in which nothing was left are gone.
    assert!(!machine.path("report/ml-test-gpu").exists());
}

#[test]
fn peers_are_shown_beside_ours_and_may_be_missing() {
    let machine = Machine::new().with_gpu();
    machine.script(
        "bundle/bin/bench",
        "echo 'figure: per_scan 24.7M x 16384 by foxhunt = 10 us'",
    );
    // Stands for Python: says what it was given, and measures or finds nothing installed.
    machine.script(
        "tools/python3",
        "case \"$3\" in */peers/missing.py) echo 'skipped: jax is not installed';; \
         *) echo \"given ${*:4}\"; echo 'figure: per_scan 24.7M by CUB = 80 us'; \
         echo 'figure: copy 100M by floor = 4000 GB/s';; esac",
    );
    let path = machine.path("bundle/manifest.json");
    let mut manifest: Value =
        serde_json::from_str(&machine.read("bundle/manifest.json")).expect("a manifest");
    manifest["plan"]["peers"] = json!([
        {"script": "scan.py", "arguments": ["--slots", "24.7M"], "limit_s": 60},
        {"script": "missing.py", "limit_s": 60},
    ]);
    fs::write(path, manifest.to_string()).expect("the manifest");
    let (output, report) = machine.run(&["bench"]);
    assert_code(&output, 0);

    let bench = &report["bench"];
    assert_eq!(bench[1]["program"], "peer/scan");
    assert_eq!(bench[1]["outcome"], "ok");
    assert_eq!(bench[1]["output"][0], "given --slots 24.7M");
    assert_eq!(bench[2]["outcome"], "ignored");
    assert_eq!(bench[2]["note"], "jax is not installed");
    let text = machine.read("report/report.md");
    assert!(text.contains("## Side by side"), "{text}");
    assert!(text.contains("ignored in"), "{text}");
    assert!(!text.contains("## Failures"), "{text}");
    // The console ends with the table as well.
    let console = String::from_utf8_lossy(&output.stdout);
    for shown in [text.as_str(), &console] {
        assert!(shown.contains("80.0 (8.0×)"), "{shown}");
    }

    let (output, report) = machine.run(&["bench", "--only", "peer/scan"]);
    assert_code(&output, 0);
    assert_eq!(report["bench"].as_array().map(Vec::len), Some(1));
}

#[test]
fn failures_give_code_1_and_are_told() {
    let machine = Machine::new().with_gpu();
    machine.script(
        "bundle/bin/test",
        "printf 'test a ... FAILED\\n\\nfailures:\\n\\n---- a ----\\nindex 3: 1 is not 2\\n\\nfailures:\\n    a\\n'; exit 101",
    );
    let (output, report) = machine.run(&["tests"]);
    assert_code(&output, 1);
    assert_eq!(report["tests"][0]["outcome"], "failed");
    assert_eq!(
        report["tests"][0]["tests"][0]["message"],
        "index 3: 1 is not 2"
    );
    assert!(machine.read("report/report.md").contains("## Failures"));
}

#[test]
fn what_a_sanitizer_finds_is_a_failure() {
    let machine = Machine::new().with_gpu();
    machine.script("bundle/bin/test", PASSING_TESTS);
    machine.script(
        "tools/compute-sanitizer",
        "echo '==== Invalid __global__ write of size 4 bytes'; exit 99",
    );
    machine.manifest(
        json!([{"tool": "memcheck", "programs": ["ml/test/gpu"], "limit_s": 60}]),
        json!([]),
    );
    let (output, report) = machine.run(&["sanitize"]);
    assert_code(&output, 1);
    let note = report["sanitizer"][0]["note"].as_str().unwrap_or_default();
    assert!(
        note.contains("99") && note.contains("Invalid __global__ write"),
        "{note}"
    );
}

#[test]
fn where_there_is_a_gpu_programs_that_ask_for_none_run_if_named() {
    for (machine, in_all) in [(Machine::new().with_gpu(), 1), (Machine::new(), 2)] {
        machine.script("bundle/bin/test", PASSING_TESTS);
        let manifest = machine.read("bundle/manifest.json");
        let mut manifest: Value = serde_json::from_str(&manifest).expect("JSON");
        manifest["plan"]["tests"]["without_gpu"] = json!(["/test/cpu"]);
        let mut programs = manifest["programs"].as_array().expect("programs").clone();
        programs.push(json!({"name": "ml/test/cpu", "kind": "test", "file": "bin/test"}));
        manifest["programs"] = json!(programs);
        fs::write(machine.path("bundle/manifest.json"), manifest.to_string())
            .expect("the manifest");
        let (output, report) = machine.run(&["tests"]);
        assert_code(&output, 0);
        let ran = report["tests"].as_array().map_or(0, Vec::len);
        assert_eq!(ran, in_all);
        let told = String::from_utf8_lossy(&output.stdout).contains("`--only ml/test/cpu` runs it");
        assert_eq!(told, in_all == 1);
        let (output, report) = machine.run(&["tests", "--only", "ml/test/cpu"]);
        assert_code(&output, 0);
        assert_eq!(report["tests"].as_array().map_or(0, Vec::len), 1);
    }
}

#[test]
fn a_program_that_hangs_is_stopped_and_the_rest_goes_on() {
    let machine = Machine::new().with_gpu();
    machine.script("bundle/bin/test", "echo 'test a ... ok'; sleep 600");
    machine.script("bundle/bin/bench", "echo done");
    let (output, report) = machine.run(&["all", "--limit", "1", "--only", "test"]);
    assert_code(&output, 1);
    assert_eq!(report["tests"][0]["outcome"], "timed_out");
    assert_eq!(report["tests"][0]["tests"][0]["outcome"], "ok");
    assert_eq!(report["restricted_by"], "--only test");
    assert_eq!(report["bench"], json!([]));
}

#[test]
fn without_a_gpu_nothing_is_required_and_the_sanitizer_rests() {
    let machine = Machine::new();
    machine.script("bundle/bin/test", PASSING_TESTS);
    machine.script("tools/compute-sanitizer", "echo never; exit 99");
    machine.manifest(
        json!([{"tool": "memcheck", "programs": ["ml/test/gpu"], "limit_s": 60}]),
        json!([]),
    );
    let (output, report) = machine.run(&["tests"]);
    assert_code(&output, 0);
    assert_eq!(report["has_gpu"], false);
    assert!(machine.read("report/output.log").contains("require=no"));
    let (output, report) = machine.run(&["sanitize"]);
    assert_code(&output, 0);
    assert_eq!(report["sanitizer"], json!([]));
}

#[test]
fn a_folder_without_a_manifest_and_no_command_are_refused() {
    let machine = Machine::new();
    fs::remove_file(machine.path("bundle/manifest.json")).expect("a manifest");
    let (output, _) = machine.run(&["tests"]);
    assert_code(&output, 3);
    assert!(String::from_utf8_lossy(&output.stderr).contains("manifest.json"));
    let usage = Command::new("bash")
        .arg(machine.path("bundle/run.sh"))
        .output()
        .expect("bash");
    assert_code(&usage, 3);
    assert!(
        String::from_utf8_lossy(&usage.stdout).contains("tests | sanitize | bench | train | all")
    );
}
