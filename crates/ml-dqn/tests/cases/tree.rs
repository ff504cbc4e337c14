//! The buffers of one replay buffer, as the kernels see them, and the launches that every case needs.

use ml_dqn::launch::per::{
    EnvCursor, EpisodePlace, GROUP, PerState, RecordLayout, SUPER, SUPER_SLOTS, TILE, shape,
};

use super::{Argument, Buffer, Program, address, fields, null, value};

/// Largest batch of a case.
pub const MAX_BATCH: usize = 4096;

/// What `PerMemory` is on the host's side of a buffer.
pub struct Tree {
    pub program: Program,
    pub capacity: usize,
    pub layout: RecordLayout,
    pub state: Buffer<PerState>,
    pub priority: Buffer<f32>,
    pub tile_sum: Buffer<f64>,
    pub tile_end: Buffer<f64>,
    pub group_sum: Buffer<f64>,
    pub group_end: Buffer<f64>,
    pub super_sum: Buffer<f64>,
    pub super_end: Buffer<f64>,
    pub touched: Buffer<i32>,
    pub records: Buffer<u32>,
    pub cursors: Buffer<EnvCursor>,
    pub n_envs: usize,
    pub places: Buffer<EpisodePlace>,
    pub ends: Buffer<u64>,
}

/// New rows as a case writes them.
#[derive(Clone, Debug, Default)]
pub struct Rows {
    pub states: Vec<f32>,
    pub next_states: Vec<f32>,
    pub actions: Vec<u32>,
    pub rewards: Vec<f32>,
    pub terminated: Vec<u8>,
    pub truncated: Vec<u8>,
    pub env_ids: Vec<u32>,
}

impl Tree {
    /// With these priorities in the first slots, and nothing summed yet.
    pub fn new(capacity: usize, priorities: &[f32]) -> Self {
        Self::with_states(capacity, priorities, 1, false, 1)
    }

    pub fn with_states(
        capacity: usize,
        priorities: &[f32],
        state_dim: usize,
        bf16: bool,
        n_envs: usize,
    ) -> Self {
        let mut program = Program::default();
        let supers = capacity.div_ceil(SUPER_SLOTS);
        let mut padded = vec![0.0f32; capacity.next_multiple_of(TILE)];
        padded[..priorities.len()].copy_from_slice(priorities);
        let largest = priorities.iter().copied().fold(1.0, f32::max);
        let state = PerState {
            size: priorities.len() as u64,
            written: priorities.len() as u64,
            seed: 0x1234_5678_9abc_def0,
            beta: 0.4,
            max_priority: largest.to_bits(),
            min_drawn: f32::INFINITY.to_bits(),
            ..PerState::default()
        };
        let layout = RecordLayout::new(capacity, state_dim, bf16);
        Self {
            capacity,
            layout,
            state: program.buffer(&[state]),
            priority: program.buffer(&padded),
            tile_sum: program.buffer(&vec![0.0f64; supers * GROUP * SUPER]),
            tile_end: program.unwritten(supers * GROUP * SUPER),
            group_sum: program.unwritten(supers * SUPER),
            group_end: program.unwritten(supers * SUPER),
            super_sum: program.unwritten(supers),
            super_end: program.unwritten(supers),
            touched: program.unwritten(MAX_BATCH),
            records: program.buffer(&vec![0u32; capacity * layout.record_words as usize]),
            cursors: program.buffer(&vec![EnvCursor::default(); n_envs]),
            n_envs,
            places: program.buffer(&vec![EpisodePlace::default(); capacity]),
            ends: program.buffer(&vec![0u64; capacity]),
            program,
        }
    }

    pub fn state(&self) -> PerState {
        self.program.read(self.state)[0]
    }

    pub fn set_state(&mut self, change: impl FnOnce(&mut PerState)) {
        let mut state = self.state();
        change(&mut state);
        self.program.write(self.state, &[state]);
    }

    /// Magnitudes: what a priority is, mark or not.
    pub fn priorities(&self) -> Vec<f32> {
        let padded = self.program.read(self.priority);
        padded[..self.capacity].iter().map(|p| p.abs()).collect()
    }

    pub fn layout_argument(&self) -> Argument {
        let RecordLayout {
            capacity,
            state_dim,
            state_words,
            record_words,
            dtype,
        } = self.layout;
        fields([
            value(capacity),
            value(state_dim),
            value(state_words),
            value(record_words),
            value(dtype),
        ])
    }

    /// Sums of all tiles, then of everything above.
    pub fn rebuild(&mut self) {
        let n_tiles = self.capacity.div_ceil(TILE);
        self.program.launch(
            "per_all_tiles",
            shape::all_tiles(n_tiles),
            vec![
                address(self.priority),
                address(self.tile_sum),
                value(n_tiles as u64),
            ],
        );
        self.scan_above();
    }

    /// Sums of touched tiles, then of everything above.
    pub fn scan(&mut self) {
        self.scan_for_a_draw();
        self.total();
    }

    /// The same, but for the total, which `sample_batch` finds by itself.
    pub fn scan_for_a_draw(&mut self) {
        self.program.launch(
            "per_touched_tiles",
            // Fewer warps than entries: the kernel must stride.
            shape::touched_tiles(100),
            vec![
                address(self.state),
                address(self.touched),
                value(MAX_BATCH as u32),
                address(self.priority),
                address(self.tile_sum),
            ],
        );
        self.prefix_scan();
    }

    pub fn scan_above(&mut self) {
        self.prefix_scan();
        self.total();
    }

    fn prefix_scan(&mut self) {
        let supers = self.capacity.div_ceil(SUPER_SLOTS);
        self.program.launch(
            "per_prefix_scan",
            shape::prefix_scan(supers),
            vec![
                address(self.tile_sum),
                address(self.tile_end),
                address(self.group_sum),
                address(self.group_end),
                address(self.super_sum),
                address(self.state),
            ],
        );
    }

    /// Ends of super-groups and the total.
    pub fn total(&mut self) {
        let supers = self.capacity.div_ceil(SUPER_SLOTS) as u64;
        self.program.launch(
            "per_total",
            shape::total(),
            vec![
                address(self.super_sum),
                address(self.super_end),
                value(supers),
                address(self.state),
            ],
        );
    }

    fn levels(&self) -> Argument {
        fields([
            address(self.priority),
            address(self.tile_sum),
            address(self.tile_end),
            address(self.group_sum),
            address(self.group_end),
            address(self.super_sum),
            address(self.super_end),
            value(self.capacity.div_ceil(SUPER_SLOTS) as u64),
        ])
    }

    /// Slots for given targets, by the search of `per_sample` or by sums alone.
    pub fn find(&mut self, targets: &[f64], by_sums: bool) -> Buffer<i64> {
        let target = self.program.buffer(targets);
        let index = self.program.unwritten(targets.len());
        let arguments = vec![
            self.levels(),
            address(self.state),
            address(target),
            value(targets.len() as u32),
            address(index),
        ];
        let kernel = if by_sums {
            "per_find_by_sums"
        } else {
            "per_find"
        };
        self.program
            .launch(kernel, shape::find(targets.len()), arguments);
        index
    }

    /// A batch: slots, priorities, row count at the draw, status.
    pub fn sample(&mut self, n: usize) -> (Buffer<i64>, Buffer<f32>, Buffer<u64>, Buffer<u32>) {
        let index = self.program.unwritten(n);
        let drawn = self.program.unwritten(n);
        let drawn_at = self.program.unwritten(1);
        let status = self.program.unwritten(1);
        let arguments = vec![
            self.levels(),
            address(self.state),
            value(n as u32),
            address(index),
            address(drawn),
            address(drawn_at),
            address(status),
        ];
        self.program
            .launch("per_sample", shape::sample(n), arguments);
        (index, drawn, drawn_at, status)
    }

    /// A batch, drawn and gathered in one pass; `batch` is a `GatherBatch`.
    pub fn sample_batch(&mut self, batch: Argument, n: usize) -> Buffer<u32> {
        let drawn_at: Buffer<u64> = self.program.unwritten(1);
        let status = self.program.unwritten(1);
        let arguments = vec![
            self.levels(),
            batch,
            address(self.records),
            self.layout_argument(),
            address(self.state),
            address(drawn_at),
            address(status),
        ];
        self.program
            .launch("sample_batch", shape::sample_batch(n), arguments);
        status
    }

    pub fn weights(&mut self, drawn: Buffer<f32>, n: usize, normalized: bool) -> Buffer<f32> {
        let weight = self.program.unwritten(n);
        self.program.launch(
            "is_weights",
            shape::rows(n),
            vec![
                address(self.state),
                address(drawn),
                value(n as u32),
                value(u32::from(normalized)),
                address(weight),
            ],
        );
        weight
    }

    /// New priorities for slots, drawn when `drawn_at` rows had been stored.
    pub fn update(&mut self, slots: &[i64], td_errors: &[f32], drawn_at: u64, rule: Rule) {
        let index = self.program.buffer(slots);
        let td = self.program.buffer(td_errors);
        let drawn_at = self.program.buffer(&[drawn_at]);
        let n = slots.len();
        self.program.launch(
            "per_update_pa",
            shape::update(n),
            vec![
                address(index),
                address(td),
                value(n as u32),
                address(drawn_at),
                value(self.capacity as u64),
                value(rule.alpha),
                value(rule.eps),
                value(u32::from(rule.bad_takes_max)),
                value(u32::from(rule.signed)),
                address(self.priority),
                address(self.touched),
                address(self.state),
            ],
        );
    }

    /// Gives rows `first..first + count` the largest priority.
    pub fn insert(&mut self, first: u64, count: u64) {
        let capacity = self.capacity as u64;
        let size = (first + count).min(capacity);
        self.program.launch(
            "per_insert",
            shape::insert(first, count, capacity),
            vec![
                value(first),
                value(count),
                value(capacity),
                value(size),
                address(self.priority),
                address(self.tile_sum),
                address(self.state),
            ],
        );
    }

    /// Stores rows, links them and gives them priorities; `tracked` also notes episodes.
    pub fn push(&mut self, rows: &Rows, first: u64, tracked: bool) {
        let count = rows.actions.len();
        let arrays = [
            address(self.program.buffer(&rows.states)),
            address(self.program.buffer(&rows.next_states)),
            address(self.program.buffer(&rows.actions)),
            address(self.program.buffer(&rows.rewards)),
            address(self.program.buffer(&rows.terminated)),
            address(self.program.buffer(&rows.truncated)),
            address(self.program.buffer(&rows.env_ids)),
            value(first),
            value(count as u32),
            value(0u32),
        ];
        let rows = fields(arrays);
        let layout = self.layout_argument();
        self.program.launch(
            "store_rows",
            shape::store_rows(count, self.layout.state_dim as usize),
            vec![rows.clone(), address(self.records), layout.clone()],
        );
        let (places, ends) = if tracked {
            (address(self.places), address(self.ends))
        } else {
            (null(), null())
        };
        self.program.launch(
            "link_steps",
            shape::link_steps(self.n_envs),
            vec![
                rows,
                address(self.records),
                layout,
                address(self.cursors),
                value(self.n_envs as u32),
                places,
                ends,
                address(self.state),
            ],
        );
        self.insert(first, count as u64);
    }

    /// The four meta words of a slot: action, reward, flags, distance to the next step.
    pub fn meta(&self, slot: usize) -> (u32, f32, u32, u32) {
        let records = self.program.read(self.records);
        let at = slot * self.layout.record_words as usize + self.layout.action_word() as usize;
        (
            records[at],
            f32::from_bits(records[at + 1]),
            records[at + 2],
            records[at + 3],
        )
    }
}

/// How TD errors become priorities.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    pub alpha: f32,
    pub eps: f32,
    pub bad_takes_max: bool,
    pub signed: bool,
}

impl Default for Rule {
    fn default() -> Self {
        Self {
            alpha: 1.0,
            eps: 0.0,
            bad_takes_max: false,
            signed: true,
        }
    }
}
