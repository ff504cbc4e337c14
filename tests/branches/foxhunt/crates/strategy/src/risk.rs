//! The last word on every order.

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RiskLimits {
    /// Units, long or short.
    pub max_position: f32,
    /// Below this result the position is closed and stays so.
    pub max_loss: f32,
}

impl Default for RiskLimits {
    fn default() -> Self {
        Self { max_position: 1.0, max_loss: 50.0 }
    }
}

/// What happened to an order.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Verdict {
    Passed(f32),
    Clamped { asked: f32, given: f32 },
    Halted,
}

impl Verdict {
    /// The position that may be held.
    pub fn target(self) -> f32 {
        match self {
            Self::Passed(target) => target,
            Self::Clamped { given, .. } => given,
            Self::Halted => 0.0,
        }
    }
}

#[derive(Debug, Clone)]
pub struct RiskGate {
    limits: RiskLimits,
    result: f32,
    halted: bool,
}

impl RiskGate {
    pub fn new(limits: RiskLimits) -> Self {
        Self { limits, result: 0.0, halted: false }
    }

    pub fn book(&mut self, gain: f32) {
        self.result += gain;
        self.halted |= self.result < -self.limits.max_loss;
    }

    pub fn check(&self, asked: f32) -> Verdict {
        let max = self.limits.max_position;
        match asked.clamp(-max, max) {
            _ if self.halted => Verdict::Halted,
            given if given == asked => Verdict::Passed(asked),
            given => Verdict::Clamped { asked, given },
        }
    }

    pub fn result(&self) -> f32 {
        self.result
    }

    pub fn is_halted(&self) -> bool {
        self.halted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clamps_then_halts() {
        let mut gate = RiskGate::new(RiskLimits { max_position: 2.0, max_loss: 10.0 });
        assert_eq!(gate.check(1.5), Verdict::Passed(1.5));
        assert_eq!(gate.check(-3.0).target(), -2.0);
        gate.book(-11.0);
        gate.book(100.0);
        assert_eq!(gate.check(1.0), Verdict::Halted);
        assert!(gate.is_halted() && gate.result() == 89.0);
    }
}
