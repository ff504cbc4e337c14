//! Saving a buffer and going on with it, bit for bit.
