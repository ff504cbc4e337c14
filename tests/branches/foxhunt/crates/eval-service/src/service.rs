//! Evaluation on a thread of its own; the memory is shared with whoever fills it.

use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use foxhunt_strategy::prelude::{DqnError, Experience, ReplayBufferType as Memory, SharedMemory};

use crate::Batch;
use crate::error::EvalError;
use crate::health::{self, MemoryHealth};
use crate::replay::{Counter, Sink};

type Reply<T> = Sender<Result<T, EvalError>>;

enum Command {
    Push(Vec<Experience>),
    Draw { n_rows: usize, reply: Reply<Counter> },
    Health { reply: Reply<MemoryHealth> },
}

/// Handle of the thread; it ends when the handle is dropped.
pub struct EvalService {
    commands: Option<Sender<Command>>,
    worker: Option<JoinHandle<usize>>,
    memory: Arc<Mutex<Memory>>,
}

impl EvalService {
    pub fn start(memory: Memory) -> Self {
        let memory: SharedMemory = Arc::new(Mutex::new(memory));
        let (commands, inbox) = mpsc::channel();
        let shared = Arc::clone(&memory);
        let worker = thread::spawn(move || Worker { memory: shared, counter: Counter::default() }.run(inbox));
        Self { commands: Some(commands), worker: Some(worker), memory }
    }

    pub fn push(&self, experiences: Vec<Experience>) -> Result<(), EvalError> {
        self.send(Command::Push(experiences))
    }

    /// What was drawn so far, after one more draw.
    pub fn draw(&self, n_rows: usize) -> Result<Counter, EvalError> {
        self.ask(|reply| Command::Draw { n_rows, reply })
    }

    pub fn health(&self) -> Result<MemoryHealth, EvalError> {
        self.ask(|reply| Command::Health { reply })
    }

    /// Looks without asking the thread.
    pub fn on_device(&self) -> bool {
        lock(&self.memory).is_gpu()
    }

    /// Stops; returns the number of commands that were served.
    pub fn stop(mut self) -> Result<usize, EvalError> {
        self.commands = None;
        let worker = self.worker.take().ok_or(EvalError::Stopped)?;
        worker.join().map_err(|_| EvalError::Stopped)
    }

    fn send(&self, command: Command) -> Result<(), EvalError> {
        let commands = self.commands.as_ref().ok_or(EvalError::Stopped)?;
        commands.send(command).map_err(|_| EvalError::Stopped)
    }

    fn ask<T>(&self, command: impl FnOnce(Reply<T>) -> Command) -> Result<T, EvalError> {
        let (reply, answer) = mpsc::channel();
        self.send(command(reply))?;
        answer.recv().map_err(|_| EvalError::Stopped)?
    }
}

struct Worker {
    memory: SharedMemory,
    counter: Counter,
}

impl Worker {
    fn run(mut self, inbox: Receiver<Command>) -> usize {
        let mut n_served = 0;
        for command in inbox {
            n_served += 1;
            match command {
                Command::Push(experiences) => {
                    if let Err(err) = push_all(&mut lock(&self.memory), &experiences) {
                        eprintln!("{} transitions were not kept: {err}", experiences.len());
                    }
                }
                Command::Draw { n_rows, reply } => {
                    let counted = self.draw(n_rows);
                    // Nobody waits any more: nothing to tell.
                    let _ = reply.send(counted);
                }
                Command::Health { reply } => {
                    let _ = reply.send(Ok(health::check(&lock(&self.memory))));
                }
            }
        }
        n_served
    }

    fn draw(&mut self, n_rows: usize) -> Result<Counter, EvalError> {
        let batch: Batch = lock(&self.memory).sample(n_rows)?;
        match &batch.gpu_batch {
            Some(_) => self.counter.take(&batch)?,
            None => self.count_on_host(batch.experiences.len()),
        }
        Ok(self.counter)
    }

    fn count_on_host(&mut self, n_rows: usize) {
        self.counter.n_batches += 1;
        self.counter.n_rows += n_rows;
    }
}

/// All at once where that is faster.
fn push_all(memory: &mut Memory, experiences: &[Experience]) -> Result<(), DqnError> {
    match memory {
        Memory::GpuPrioritized(gpu) => gpu.push_batch(experiences)?,
        host => {
            for experience in experiences {
                host.push(experience)?;
            }
        }
    }
    Ok(())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
