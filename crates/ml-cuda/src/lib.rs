//! ml-cuda
