/// One transition, as the environment reports it.
///
/// `done` means that the episode ended in `next_state`, whose value is then zero.
#[derive(Debug, Clone, PartialEq)]
pub struct Experience {
    pub state: Vec<f32>,
    pub action: u32,
    pub reward: f32,
    pub next_state: Vec<f32>,
    pub done: bool,
}
