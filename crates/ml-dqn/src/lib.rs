//! ml-dqn
