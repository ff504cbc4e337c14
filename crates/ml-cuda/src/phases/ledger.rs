//! Which event pair belongs to which phase of which batch; no CUDA in here.
//!
//! Pairs are numbered: set `s` owns `6 s .. 6 s + 6`, one for each phase, and spare pairs follow
//! behind the sets. A batch takes one set, and a spare for each phase that comes again.

use std::collections::VecDeque;
use std::time::Instant;

use super::Phase;

const PHASES: usize = Phase::ALL.len();

/// One bracket of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Bracket {
    pub phase: Phase,
    pub pair: usize,
    /// Its end came. What stays incomplete is never read.
    pub complete: bool,
}

/// A batch whose events are recorded and not read yet.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub number: u64,
    /// `None`: this batch records nothing.
    set: Option<usize>,
    pub brackets: Vec<Bracket>,
    /// Phases that are open and may still end.
    open: usize,
    any_ended: bool,
    /// A phase came again and no spare pair was left.
    overflowed: bool,
}

/// An open phase: of which batch, and at which place among its brackets if it is recorded.
#[derive(Debug, Clone, Copy)]
struct Open {
    batch: u64,
    bracket: Option<usize>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Counts {
    /// Batches in which a phase ended.
    pub batches: u64,
    /// Of them, left out by the stride.
    pub skipped: u64,
    /// Of them, meant to be timed and not: no set or spare pair was free, or the GPU had not passed.
    pub not_timed: u64,
    /// Phases started again while open or never ended, and ends without a start.
    pub dropped: u64,
}

#[derive(Debug)]
pub(super) struct Ledger {
    free_sets: VecDeque<usize>,
    free_spares: Vec<usize>,
    first_spare: usize,
    /// Oldest first. The current batch, if one is under way, is the last.
    batches: VecDeque<Batch>,
    current: bool,
    open: [Option<Open>; PHASES],
    /// Within the current batch.
    last_ended: Option<Phase>,
    next_number: u64,
    since_timed: u32,
    pub stride: u32,
    pub counts: Counts,
    /// When the first batch of the epoch began.
    pub epoch_began: Option<Instant>,
}

impl Ledger {
    pub fn new(sets: usize, spares: usize) -> Self {
        let first_spare = sets * PHASES;
        Self {
            free_sets: (0..sets).collect(),
            free_spares: (first_spare..first_spare + spares).collect(),
            first_spare,
            batches: VecDeque::with_capacity(sets + 1),
            current: false,
            open: [None; PHASES],
            last_ended: None,
            next_number: 0,
            since_timed: 0,
            stride: 1,
            counts: Counts::default(),
            epoch_began: None,
        }
    }

    /// Whether a start of `phase` now would begin a batch: it stands earlier in the order than the
    /// phase that ended last.
    pub fn begins_batch(&self, phase: Phase) -> bool {
        !self.current || self.last_ended.is_some_and(|last| phase < last)
    }

    /// Starts a phase. Returns the pair whose first event is to be recorded, if any.
    pub fn start(&mut self, phase: Phase, now: Instant) -> Option<usize> {
        if self.begins_batch(phase) {
            self.begin(now);
        }
        let reusable = self.drop_open(phase);
        let current = self.batches.back_mut()?;
        let bracket = if current.set.is_none() || current.overflowed {
            None
        } else if let Some(at) = reusable.filter(|(batch, _)| *batch == current.number) {
            // Started again in the same batch: the same pair, recorded anew.
            Some(at.1)
        } else {
            let own = current.set.map(|set| set * PHASES + phase as usize);
            let taken = |pair| current.brackets.iter().any(|bracket| bracket.pair == pair);
            let pair = own
                .filter(|own| !taken(*own))
                .or_else(|| self.free_spares.pop());
            match pair {
                Some(pair) => {
                    current.brackets.push(Bracket {
                        phase,
                        pair,
                        complete: false,
                    });
                    Some(current.brackets.len() - 1)
                }
                None => {
                    current.overflowed = true;
                    None
                }
            }
        };
        current.open += 1;
        self.open[phase as usize] = Some(Open {
            batch: current.number,
            bracket,
        });
        bracket.map(|at| current.brackets[at].pair)
    }

    /// Ends a phase. Returns the pair whose second event is to be recorded, if any.
    pub fn end(&mut self, phase: Phase) -> Option<usize> {
        let Some(open) = self.open[phase as usize].take() else {
            self.counts.dropped += 1;
            return None;
        };
        let newest = self.batches.back().map(|batch| batch.number);
        let batch = find(&mut self.batches, open.batch)?;
        batch.open -= 1;
        if !batch.any_ended {
            batch.any_ended = true;
            self.counts.batches += 1;
            // Counted here, so that a batch that never ended a phase counts nowhere.
            if batch.set.is_none() {
                self.counts.skipped += 1;
            }
        }
        if self.current && newest == Some(open.batch) {
            self.last_ended = Some(phase);
        }
        let bracket = &mut batch.brackets[open.bracket?];
        bracket.complete = true;
        Some(bracket.pair)
    }

    /// Counts a replay of a graph as a batch of its own. `free`: the events of its brackets were read.
    /// Returns the batch's number if it is to be timed.
    pub fn count_replay(&mut self, now: Instant, free: bool) -> Option<u64> {
        self.epoch_began.get_or_insert(now);
        self.counts.batches += 1;
        self.since_timed += 1;
        let number = self.counts.batches - 1;
        if number > 0 && self.since_timed < self.stride {
            self.counts.skipped += 1;
            return None;
        }
        if !free {
            self.counts.not_timed += 1;
            return None;
        }
        self.since_timed = 0;
        Some(number)
    }

    /// The oldest batch, if it is over and all its phases ended or were dropped.
    pub fn oldest_done(&mut self) -> Option<&Batch> {
        self.retire_silent();
        let batch = self.batches.front()?;
        (!self.is_current(batch) && batch.open == 0).then_some(batch)
    }

    /// Takes the oldest batch away and frees its pairs. `read`: its times were taken.
    pub fn retire_oldest(&mut self, read: bool) {
        let Some(batch) = self.batches.pop_front() else {
            return;
        };
        if !read && batch.any_ended {
            self.counts.not_timed += 1;
        }
        self.release(batch);
    }

    /// Ends the current batch, and drops what is open.
    pub fn close(&mut self) {
        for phase in Phase::ALL {
            self.drop_open(phase);
        }
        self.current = false;
        self.last_ended = None;
    }

    /// Starts counting anew; the stride stays.
    pub fn reset(&mut self) -> Counts {
        self.retire_silent();
        while !self.batches.is_empty() {
            self.retire_oldest(false);
            self.retire_silent();
        }
        self.epoch_began = None;
        self.next_number = 0;
        self.since_timed = 0;
        std::mem::take(&mut self.counts)
    }

    fn begin(&mut self, now: Instant) {
        self.epoch_began.get_or_insert(now);
        self.current = false;
        self.retire_silent();
        self.since_timed += 1;
        let wanted = self.next_number == 0 || self.since_timed >= self.stride;
        let set = wanted.then(|| self.free_sets.pop_front()).flatten();
        if set.is_some() {
            self.since_timed = 0;
        }
        self.batches.push_back(Batch {
            number: self.next_number,
            set,
            // Wanted, but every set is still in the GPU's queue.
            overflowed: wanted && set.is_none(),
            ..Batch::default()
        });
        self.next_number += 1;
        self.current = true;
        self.last_ended = None;
    }

    /// Drops the open start of a phase, if there is one: its batch and place among the brackets.
    fn drop_open(&mut self, phase: Phase) -> Option<(u64, usize)> {
        let open = self.open[phase as usize].take()?;
        self.counts.dropped += 1;
        let batch = find(&mut self.batches, open.batch)?;
        batch.open -= 1;
        Some((open.batch, open.bracket?))
    }

    /// Batches that have nothing to be read leave without being asked for.
    fn retire_silent(&mut self) {
        while let Some(batch) = self.batches.front() {
            let unread = batch.set.is_none() || batch.overflowed || !batch.any_ended;
            if self.is_current(batch) || batch.open > 0 || !unread {
                break;
            }
            let Some(batch) = self.batches.pop_front() else {
                break;
            };
            if batch.overflowed && batch.any_ended {
                self.counts.not_timed += 1;
                if batch.set.is_none() {
                    self.counts.skipped -= 1;
                }
            }
            self.release(batch);
        }
    }

    fn release(&mut self, batch: Batch) {
        self.free_sets.extend(batch.set);
        let pairs = batch.brackets.iter().map(|bracket| bracket.pair);
        self.free_spares
            .extend(pairs.filter(|pair| *pair >= self.first_spare));
    }

    fn is_current(&self, batch: &Batch) -> bool {
        self.current && self.batches.back().map(|last| last.number) == Some(batch.number)
    }
}

/// Numbers rise without gaps from the front on.
fn find(batches: &mut VecDeque<Batch>, number: u64) -> Option<&mut Batch> {
    let first = batches.front()?.number;
    batches.get_mut(usize::try_from(number.checked_sub(first)?).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use Phase::{Adam, FwdBwd, PerSample, PerScan, PerUpdate, Upload};

    fn ledger(sets: usize, spares: usize) -> Ledger {
        Ledger::new(sets, spares)
    }

    /// One whole batch: the pairs that it recorded.
    fn batch(ledger: &mut Ledger, phases: &[Phase]) -> Vec<usize> {
        let mut pairs = Vec::new();
        for phase in phases {
            pairs.extend(ledger.start(*phase, Instant::now()));
            ledger.end(*phase);
        }
        pairs
    }

    /// The phases of the batches that could be read, oldest first.
    fn read_all(ledger: &mut Ledger) -> Vec<Vec<Phase>> {
        let mut all = Vec::new();
        while let Some(batch) = ledger.oldest_done() {
            let complete = batch.brackets.iter().filter(|bracket| bracket.complete);
            all.push(complete.map(|bracket| bracket.phase).collect());
            ledger.retire_oldest(true);
        }
        all
    }

    #[test]
    fn a_batch_takes_one_set_and_gives_it_back() {
        let mut ledger = ledger(2, 0);
        assert_eq!(batch(&mut ledger, &Phase::ALL), [0, 1, 2, 3, 4, 5]);
        assert_eq!(batch(&mut ledger, &Phase::ALL), [6, 7, 8, 9, 10, 11]);
        assert_eq!(read_all(&mut ledger), [Phase::ALL]);
        assert_eq!(batch(&mut ledger, &Phase::ALL), [0, 1, 2, 3, 4, 5]);
        assert_eq!(ledger.counts.batches, 3);
        assert_eq!(ledger.counts.not_timed, 0);
    }

    #[test]
    fn a_batch_begins_where_a_phase_stands_before_the_one_that_ended_last() {
        let mut ledger = ledger(8, 8);
        batch(&mut ledger, &[PerScan, PerSample, FwdBwd, Adam]);
        // The same phase again, and a later one, belong to the same batch.
        batch(&mut ledger, &[Adam, PerUpdate]);
        assert_eq!(ledger.counts.batches, 1);
        // Without a scan, the next batch begins at whatever stands earlier.
        batch(&mut ledger, &[Upload, FwdBwd]);
        batch(&mut ledger, &[PerSample]);
        ledger.close();
        assert_eq!(
            read_all(&mut ledger),
            [
                vec![PerScan, PerSample, FwdBwd, Adam, Adam, PerUpdate],
                vec![Upload, FwdBwd],
                vec![PerSample],
            ]
        );
    }

    #[test]
    fn a_nested_phase_that_is_still_open_is_no_border() {
        let mut ledger = ledger(4, 4);
        ledger.start(FwdBwd, Instant::now());
        ledger.start(Upload, Instant::now());
        ledger.end(Upload);
        ledger.end(FwdBwd);
        assert_eq!(ledger.counts.batches, 1);
        ledger.close();
        assert_eq!(read_all(&mut ledger), [vec![FwdBwd, Upload]]);
    }

    #[test]
    fn a_start_that_never_ended_is_dropped_and_its_pair_used_again() {
        let mut ledger = ledger(2, 0);
        let first = ledger.start(FwdBwd, Instant::now());
        // An early return; then the phase comes again.
        assert_eq!(ledger.start(FwdBwd, Instant::now()), first);
        assert_eq!(ledger.end(FwdBwd), first);
        assert_eq!(ledger.counts.dropped, 1);
        ledger.close();
        assert_eq!(read_all(&mut ledger), [vec![FwdBwd]]);
    }

    #[test]
    fn a_lone_end_does_nothing() {
        let mut ledger = ledger(2, 0);
        assert_eq!(ledger.end(Adam), None);
        assert_eq!(ledger.counts.dropped, 1);
        assert_eq!(ledger.counts.batches, 0);
        assert!(ledger.begins_batch(PerUpdate));
        // Nor does it move the border.
        batch(&mut ledger, &[PerScan]);
        ledger.end(Adam);
        assert!(!ledger.begins_batch(PerScan));
    }

    #[test]
    fn what_is_open_at_the_end_of_the_epoch_is_dropped() {
        let mut ledger = ledger(2, 0);
        batch(&mut ledger, &[PerScan]);
        ledger.start(Adam, Instant::now());
        ledger.close();
        assert_eq!(ledger.counts.dropped, 1);
        assert_eq!(read_all(&mut ledger), [vec![PerScan]]);
        assert_eq!(ledger.end(Adam), None, "the epoch is over for it");
    }

    #[test]
    fn a_phase_that_ends_in_the_next_batch_counts_for_its_own() {
        let mut ledger = ledger(4, 0);
        batch(&mut ledger, &[PerScan, Adam]);
        ledger.start(PerUpdate, Instant::now());
        batch(&mut ledger, &[PerScan]);
        assert!(ledger.oldest_done().is_none(), "one of its phases is open");
        ledger.end(PerUpdate);
        assert!(
            !ledger.begins_batch(PerSample),
            "it ended for the older batch"
        );
        ledger.close();
        assert_eq!(
            read_all(&mut ledger),
            [vec![PerScan, Adam, PerUpdate], vec![PerScan]]
        );
        assert_eq!(ledger.counts.dropped, 0);
    }

    #[test]
    fn repeated_phases_take_spares_until_they_run_out() {
        let mut ledger = ledger(3, 2);
        assert_eq!(
            batch(&mut ledger, &[Upload, Upload, Upload]),
            [2, 18 + 1, 18]
        );
        batch(&mut ledger, &[PerScan, PerScan, Upload]);
        ledger.close();
        assert_eq!(read_all(&mut ledger), [vec![Upload; 3]]);
        assert_eq!(ledger.counts.not_timed, 1);
        assert_eq!(ledger.counts.batches, 2);
        // Given back.
        assert_eq!(batch(&mut ledger, &[Upload, Upload, Upload]).len(), 3);
    }

    #[test]
    fn a_full_ring_leaves_batches_untimed_and_says_so() {
        let mut ledger = ledger(2, 0);
        for _ in 0..5 {
            batch(&mut ledger, &[PerScan, Adam]);
        }
        ledger.close();
        assert_eq!(read_all(&mut ledger).len(), 2);
        assert!(ledger.oldest_done().is_none());
        assert_eq!(
            ledger.counts,
            Counts {
                batches: 5,
                skipped: 0,
                not_timed: 3,
                dropped: 0
            }
        );
    }

    #[test]
    fn the_stride_times_every_kth_batch_beginning_with_the_first() {
        let mut ledger = ledger(100, 0);
        ledger.stride = 10;
        let mut recorded = Vec::new();
        for number in 0..35 {
            if !batch(&mut ledger, &[PerScan, Adam]).is_empty() {
                recorded.push(number);
            }
        }
        ledger.close();
        assert_eq!(recorded, [0, 10, 20, 30]);
        assert_eq!(read_all(&mut ledger).len(), 4);
        assert_eq!(ledger.counts.batches, 35);
        assert_eq!(ledger.counts.skipped, 31);
        assert_eq!(ledger.counts.not_timed, 0);
    }

    #[test]
    fn replays_are_timed_by_the_stride_when_their_events_are_free() {
        let mut ledger = ledger(1, 0);
        ledger.stride = 3;
        let free = [true, true, true, false, true, true, true, true];
        let timed = free.map(|free| ledger.count_replay(Instant::now(), free));
        assert_eq!(
            timed,
            [Some(0), None, None, None, Some(4), None, None, Some(7)]
        );
        assert_eq!(
            ledger.counts,
            Counts {
                batches: 8,
                skipped: 4,
                not_timed: 1,
                dropped: 0
            }
        );
    }

    #[test]
    fn reset_begins_an_epoch_with_every_pair_free() {
        let mut ledger = ledger(2, 1);
        batch(&mut ledger, &[PerScan, PerScan]);
        batch(&mut ledger, &[Adam, PerScan]);
        ledger.close();
        // The GPU has passed none of them: not read.
        assert_eq!(ledger.reset().not_timed, 2);
        assert_eq!(ledger.counts, Counts::default());
        assert_eq!(batch(&mut ledger, &[PerScan, PerScan]).len(), 2);
    }
}
