//! `kernels/per_kernels.cu`.

mod draws;
mod gathers;
mod inserts;
mod sums;
mod updates;

use super::Case;

pub fn cases() -> Vec<Case> {
    [
        sums::cases(),
        draws::cases(),
        gathers::cases(),
        updates::cases(),
        inserts::cases(),
    ]
    .concat()
}
