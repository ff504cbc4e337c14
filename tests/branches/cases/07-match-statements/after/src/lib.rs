//! Operations over whatever buffer the agent has.

use std::sync::{Arc, Mutex, PoisonError};

use ml_dqn::{DqnError, Experience, GpuReplayBuffer};

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Train,
    Eval,
}

pub struct Pool {
    pub active: Box<GpuReplayBuffer>,
    spares: Vec<GpuReplayBuffer>,
    shared: Arc<Mutex<GpuReplayBuffer>>,
    n_taken: usize,
}

/// A thing with a label.
pub struct Tagged<T>(pub T, pub &'static str);

pub enum Refused {
    Cpu(usize),
    TooSmall { have: usize },
    Dqn(DqnError),
}

impl From<DqnError> for Refused {
    fn from(err: DqnError) -> Self {
        Refused::Dqn(err)
    }
}

impl Pool {
    pub fn new(active: GpuReplayBuffer, shared: Arc<Mutex<GpuReplayBuffer>>) -> Self {
        Pool { active: Box::new(active), spares: vec![], shared, n_taken: 0 }
    }

    pub fn add(&mut self, spare: Tagged<GpuReplayBuffer>) {
        log(spare.1, self.spares.len());
        self.spares.push(spare.0);
    }

    pub fn adopt(&mut self, gpu: GpuReplayBuffer, other: GpuReplayBuffer) {
        self.spares.push(gpu);
        *self.active = other;
    }

    /// Takes the next spare out. Counts.
    fn take_next(&mut self) -> GpuReplayBuffer {
        self.n_taken += 1;
        self.spares.remove(0)
    }

    // ref on a place behind a Box
    pub fn active_len(&self) -> usize {
        self.active.len()
    }

    // scrutinee with a side effect, binding used twice
    pub fn take_ratio(&mut self) -> f32 {
        let gpu = self.take_next();
        gpu.len() as f32 / gpu.capacity() as f32
    }

    // scrutinee with a side effect, binding not used: the call has to stay
    pub fn skip_one(&mut self) -> usize {
        self.take_next();
        1
    }

    // temporaries: the guard lives to the end of the match
    pub fn shared_len(&self) -> usize {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    // labelled loop, three kinds of leaving it
    pub fn find_filled(&mut self, at_least: usize) -> Option<GpuReplayBuffer> {
        let found = 'search: loop {
            let gpu = match self.spares.pop() {
                Some(gpu) => gpu,
                None => break 'search None,
            };
            if gpu.len() >= at_least {
                break Some(gpu);
            }
        };
        log("left", self.spares.len());
        found
    }
}

// guards in several arms of the same variant, the CPU arm in the middle
pub fn admit(memory: &GpuReplayBuffer, n: usize) -> Result<&'static str, Refused> {
    Ok(if memory.len() >= 2 * n {
        "plenty"
    } else if memory.can_sample(n) {
        "enough"
    } else {
        return Err(Refused::TooSmall { have: memory.len() })
    })
}

// the wildcard also catches a guard that fails: it is not dead
pub fn checked(memory: &GpuReplayBuffer) -> Option<&GpuReplayBuffer> {
    if !memory.is_empty() {
        Some(memory)
    } else {
        None
    }
}

// by move; the binding has the scrutinee's name
pub fn into_inner(memory: GpuReplayBuffer) -> Result<GpuReplayBuffer, Refused> {
    Ok(memory)
}

// a block that declares a name which is used again after it
pub fn report(memory: &GpuReplayBuffer) -> usize {
    let total = memory.capacity();
    {
        let total = memory.len();
        log("filled", total);
    }
    total
}

// tuple with another enum
pub fn beta(memory: &mut GpuReplayBuffer, mode: Mode, beta: f32) -> Result<f32, DqnError> {
    let used = match mode {
        Mode::Train => {
            memory.set_beta(beta);
            beta
        }
        Mode::Eval => 1.0,
    };
    Ok(used)
}

// `?` inside the arm, an arm without braces, an expression argument
pub fn fill(memory: &mut GpuReplayBuffer, experiences: &[Experience]) -> Result<usize, DqnError> {
    log("filled", {
        memory.push_batch(experiences)?; memory.len()
    });
    Ok(memory.len())
}

// method call on the match
pub fn percent(tagged: &Tagged<GpuReplayBuffer>) -> String {
    (tagged.0.len() * 100 / tagged.0.capacity())
    .to_string()
        + tagged.1
}

fn log(what: &str, n: usize) {
    eprintln!("{what}: {n}");
}
