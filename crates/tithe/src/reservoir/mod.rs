//! Weighted selection of rows in one pass and bounded memory, by exponential races.
//!
//! In an *exponential race* every row draws a random key `E/rate`, where `E` is a standard exponential variable and `rate` is the weight
//! of the row in the selection. The row with the smallest key is row n with probability `rate_n / Σ rate`, and the k rows with the smallest
//! keys are a weighted selection without replacement (Efraimidis and Spirakis, *Weighted random sampling with a reservoir*, 2006).
//! The sum of the rates need not be known in advance, and two races over different rows merge exactly: keep the smallest keys of both.
//!
//! [`slots`] selects with replacement: M independent races, each with one winner. [`pool`] selects without replacement: two races that
//! keep many rows each. [`by_group`] covers every group.

pub mod by_group;
pub mod pool;
pub mod slots;
