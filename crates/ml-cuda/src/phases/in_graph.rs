//! Brackets inside of a captured graph.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use cudarc::driver::{CudaEvent, CudaStream, DriverError, sys};

use super::Phase;
use super::report::BatchSpans;
use super::timer::{Inner, State};
use crate::error::CudaError;
use crate::graph::{CapturedGraph, make_current};

/// Events that are nodes of a captured graph; from `PhaseTimer::graph_phases`.
///
/// A node's event holds the time of its last replay alone, and event nodes cost time in every replay. So
/// the same work is captured twice, once with brackets and once without, and [`launch`](Self::launch)
/// replays the one with brackets for every k-th batch, when the GPU has passed the last such replay.
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use ml_cuda::{CudaError, Phase, PhaseTimer, capture};
/// let (_context, stream) = ml_cuda::open(0)?;
/// let timer = PhaseTimer::new(&stream)?;
/// let mut phases = timer.graph_phases(&stream)?;
/// let work = || Ok::<_, CudaError>(/* enqueue kernels */ ());
/// let mut plain = capture(&stream, work)?;
/// let mut timed = capture(&stream, || {
///     phases.start(Phase::FwdBwd, &stream);
///     work()?;
///     phases.end(Phase::FwdBwd, &stream);
///     Ok::<_, CudaError>(())
/// })?;
/// for _batch in 0..178 {
///     phases.launch(&mut timed, &mut plain)?;
/// }
/// stream.synchronize()?;
/// timer.finish_epoch();
/// # Ok(()) }
/// ```
pub struct GraphPhases {
    timer: Arc<Inner>,
    nodes: Arc<Nodes>,
}

/// What the timer looks at when an epoch ends.
pub(super) struct Nodes {
    /// Start and end of each phase.
    events: Vec<CudaEvent>,
    state: Mutex<NodesState>,
}

#[derive(Default)]
struct NodesState {
    started: [bool; Phase::ALL.len()],
    ended: [bool; Phase::ALL.len()],
    /// Number of the batch whose replay has not been read.
    pending: Option<u64>,
}

impl GraphPhases {
    pub(super) fn new(timer: &Arc<Inner>, stream: &CudaStream) -> Result<Self, DriverError> {
        let context = stream.context();
        let event = |_| context.new_event(Some(sys::CUevent_flags::CU_EVENT_DEFAULT));
        let nodes = Arc::new(Nodes {
            events: (0..2 * Phase::ALL.len())
                .map(event)
                .collect::<Result<_, _>>()?,
            state: Mutex::default(),
        });
        timer.watch(&nodes);
        Ok(Self {
            timer: Arc::clone(timer),
            nodes,
        })
    }

    /// Adds a node that stamps the begin of a phase. Only while `stream` is captured; each phase once.
    pub fn start(&self, phase: Phase, stream: &CudaStream) {
        self.node(phase, false, stream);
    }

    /// Adds a node that stamps the end of a phase.
    pub fn end(&self, phase: Phase, stream: &CudaStream) {
        self.node(phase, true, stream);
    }

    /// Replays one of two graphs of the same work as one batch: `timed`, in which these phases were
    /// captured, or `plain`. Never waits.
    ///
    /// # Errors
    /// What the driver refused of the launch. Errors of the timing are kept for the report.
    pub fn launch(
        &mut self,
        timed: &mut CapturedGraph,
        plain: &mut CapturedGraph,
    ) -> Result<(), CudaError> {
        let chosen = {
            let mut state = self.timer.lock();
            let free = self.timer.read_nodes(&mut state, &self.nodes);
            let number = state.ledger.count_replay(Instant::now(), free);
            if number.is_some() {
                state.record_origin(&self.timer, timed.stream());
                lock(&self.nodes.state).pending = number;
            }
            number
        };
        if chosen.is_some() {
            timed.launch()
        } else {
            plain.launch()
        }
    }

    fn node(&self, phase: Phase, end: bool, stream: &CudaStream) {
        let event = &self.nodes.events[2 * phase as usize + usize::from(end)];
        let external = sys::CUevent_record_flags_enum::CU_EVENT_RECORD_EXTERNAL as u32;
        let added = make_current(stream).and_then(|()| {
            // SAFETY: event and stream are alive; outside of a capture the driver refuses the flag.
            unsafe {
                sys::cuEventRecordWithFlags(event.cu_event(), stream.cu_stream(), external).result()
            }
        });
        match added {
            Ok(()) if end => lock(&self.nodes.state).ended[phase as usize] = true,
            Ok(()) => lock(&self.nodes.state).started[phase as usize] = true,
            Err(error) => {
                self.timer.lock().error.get_or_insert(error);
            }
        }
    }
}

impl Drop for GraphPhases {
    /// The last timed replay still counts, where the GPU has passed it.
    fn drop(&mut self) {
        let mut state = self.timer.lock();
        self.timer.close_nodes(&mut state, &self.nodes);
    }
}

impl fmt::Debug for GraphPhases {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = lock(&self.nodes.state);
        f.debug_struct("GraphPhases")
            .field("pending", &state.pending)
            .finish_non_exhaustive()
    }
}

impl Inner {
    /// Reads the last timed replay, if the GPU has passed it. Whether the events are free again.
    pub(super) fn read_nodes(&self, state: &mut State, nodes: &Nodes) -> bool {
        let mut inside = lock(&nodes.state);
        let Some(batch) = inside.pending else {
            return true;
        };
        let complete =
            |phase: &Phase| inside.started[*phase as usize] && inside.ended[*phase as usize];
        let phases: Vec<Phase> = Phase::ALL.into_iter().filter(complete).collect();
        let mut phases_ms = [0.0; Phase::ALL.len()];
        let mut spans = Vec::with_capacity(phases.len());
        for phase in phases {
            let at = 2 * phase as usize;
            let (start, end) = (&nodes.events[at], &nodes.events[at + 1]);
            match self
                .passed(end)
                .and_then(|passed| passed.then(|| self.span(phase, start, end)).transpose())
            {
                Ok(Some(span)) => {
                    phases_ms[phase as usize] = span.duration_ms;
                    spans.push(span);
                }
                Ok(None) => return false,
                Err(error) => {
                    state.error.get_or_insert(error);
                }
            }
        }
        inside.pending = None;
        if spans.is_empty() {
            state.ledger.counts.not_timed += 1;
        } else {
            self.keep(state, BatchSpans { batch, spans }, &phases_ms);
        }
        true
    }

    /// At the end of an epoch: what the GPU has not passed is not timed.
    pub(super) fn close_nodes(&self, state: &mut State, nodes: &Nodes) {
        if !self.read_nodes(state, nodes) {
            lock(&nodes.state).pending = None;
            state.ledger.counts.not_timed += 1;
        }
    }
}

fn lock(state: &Mutex<NodesState>) -> MutexGuard<'_, NodesState> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
