//! Runs a program with a time limit, and hands out its lines as they come.

use std::io::{self, BufRead, BufReader, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

/// How a program ended.
#[derive(Debug)]
pub struct Ended {
    /// None where it was stopped at its limit.
    pub exit: Option<ExitStatus>,
    pub seconds: f64,
}

/// Runs `command` for at most `limit`; standard output and error come line by line to `on_line`.
///
/// # Errors
/// Where it cannot be started or waited for.
pub fn run(
    command: &mut Command,
    limit: Duration,
    mut on_line: impl FnMut(&str),
) -> io::Result<Ended> {
    let started = Instant::now();
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    // A group of its own, so that what the program starts (a sanitizer starts the test) can be stopped with it.
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(command, 0);
    let mut child = command.spawn()?;
    let (lines, received) = mpsc::channel();
    if let Some(out) = child.stdout.take() {
        send_lines(out, lines.clone());
    }
    if let Some(err) = child.stderr.take() {
        send_lines(err, lines.clone());
    }
    drop(lines);
    let mut in_time = true;
    loop {
        match received.recv_timeout(limit.saturating_sub(started.elapsed())) {
            Ok(line) => on_line(&line),
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                stop(&mut child)?;
                in_time = false;
                break;
            }
        }
    }
    // Both pipes are closed, which a program may do long before it ends.
    while in_time && child.try_wait()?.is_none() {
        if started.elapsed() > limit {
            stop(&mut child)?;
            in_time = false;
        }
        thread::sleep(Duration::from_millis(5));
    }
    let status = child.wait()?;
    Ok(Ended {
        exit: in_time.then_some(status),
        seconds: (started.elapsed().as_secs_f64() * 100.0).round() / 100.0,
    })
}

fn send_lines(stream: impl Read + Send + 'static, lines: Sender<String>) {
    thread::spawn(move || {
        let mut reader = BufReader::new(stream);
        let mut bytes = Vec::new();
        while reader.read_until(b'\n', &mut bytes).is_ok_and(|n| n > 0) {
            let line = String::from_utf8_lossy(&bytes)
                .trim_end_matches(['\n', '\r'])
                .to_owned();
            bytes.clear();
            if lines.send(line).is_err() {
                return;
            }
        }
    });
}

fn stop(child: &mut Child) -> io::Result<()> {
    // The standard library kills one process, not its group.
    if cfg!(unix) {
        let _ = Command::new("bash")
            .args(["-c", &format!("kill -KILL -- -{}", child.id())])
            .status();
    }
    child.kill()
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    fn bash(script: &str, limit: Duration) -> (Ended, Vec<String>) {
        let mut lines = Vec::new();
        let mut command = Command::new("bash");
        let ended = run(command.args(["-c", script]), limit, |line| {
            lines.push(line.to_owned())
        })
        .unwrap();
        (ended, lines)
    }

    #[test]
    fn lines_of_both_streams_and_the_exit_code_arrive() {
        let (ended, mut lines) = bash(
            "echo out; echo err >&2; printf unfinished; exit 3",
            Duration::from_secs(60),
        );
        lines.sort();
        assert_eq!(lines, ["err", "out", "unfinished"]);
        assert_eq!(ended.exit.unwrap().code(), Some(3));
    }

    #[test]
    fn a_program_that_takes_too_long_is_stopped_with_what_it_started() {
        let (ended, lines) = bash(
            "echo begun; bash -c 'sleep 600' & wait",
            Duration::from_millis(300),
        );
        assert!(ended.exit.is_none());
        assert!(ended.seconds < 60.0);
        assert_eq!(lines, ["begun"]);
    }

    #[test]
    fn a_program_that_closes_its_output_is_waited_for() {
        let (ended, _) = bash("exec >&- 2>&-; sleep 0.2; exit 5", Duration::from_secs(60));
        assert_eq!(ended.exit.unwrap().code(), Some(5));
        let (ended, _) = bash("exec >&- 2>&-; sleep 600", Duration::from_millis(200));
        assert!(ended.exit.is_none());
    }
}
