//! ml
