//! Grouping factors: which column names the groups of a hierarchical model, and which effects vary by group.

use serde::{Deserialize, Serialize};

/// Most levels of a grouping factor.
pub const MOST_GROUPS: usize = 100_000;

/// A random-effects term such as `(1 + x | shop)`: effects that vary by group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupFactor {
    /// The column whose levels are the groups.
    pub column: String,
    /// Whether the intercept varies by group.
    pub intercept: bool,
    /// The features whose slopes vary by group.
    pub slopes: Vec<String>,
    /// Whether the effects of one group may be correlated.
    pub correlated: bool,
}

impl GroupFactor {
    /// An intercept that varies by the levels of a column.
    pub fn intercept(column: impl Into<String>) -> GroupFactor {
        GroupFactor { column: column.into(), intercept: true, slopes: Vec::new(), correlated: true }
    }
}
