//! The model language: reads formulas such as `y ~ age * city + bs(income, df=5) + (1 | store)` into a list of terms.
//!
//! The grammar is that of Wilkinson and Rogers (1973) as R and bambi have it. [`Syntax::parse`] reads the text, and
//! [`Syntax::expand`] turns it into a [`Formula`] once the names of the columns are known, because `.` stands for all of them.
//! What a function means and which columns of the model matrix a term has is decided where the formula is compiled.

mod expand;
mod expression;
mod parse;
mod tokens;

pub use expression::{Argument, Expr, ExprKind, Operator};
pub use parse::Syntax;

use crate::base::error::{Error, ErrorKind, Help};

/// A formula as a list of terms.
#[derive(Clone, Debug, PartialEq)]
pub struct Formula {
    /// The formula as the user wrote it.
    pub text: String,
    /// The column on the left of `~`, if there is one.
    pub response: Option<String>,
    /// The fixed effects: whether there is an intercept, and the other terms.
    pub fixed: Terms,
    /// The expressions in `offset(…)`, which are added to the linear predictor.
    pub offsets: Vec<Expr>,
    /// The random effects, in the order of the formula.
    pub groups: Vec<GroupTerm>,
}

/// An intercept and terms, each a product of factors. Terms are sorted by their number of factors and otherwise in the order of the
/// formula, as in R.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Terms {
    /// Whether there is an intercept.
    pub intercept: bool,
    /// The other terms.
    pub terms: Vec<Term>,
}

/// A product of factors: a main effect if there is one factor, otherwise an interaction.
#[derive(Clone, Debug, PartialEq)]
pub struct Term {
    /// The factors in order of appearance; no two are equal.
    pub factors: Vec<Expr>,
}

/// A random-effects term: `(1 + x | g)`, `(1 + x || g)` or `(1 | a:b)`. `(1 | a/b)` becomes `(1 | a)` and `(1 | a:b)`.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupTerm {
    /// The effects that vary by group.
    pub terms: Terms,
    /// Whether the effects of a group are correlated: `|`, not `||`.
    pub correlated: bool,
    /// The columns whose levels, taken together, are the groups.
    pub factor: Vec<String>,
    /// The position of the term in the formula, in characters.
    pub at: usize,
}

impl std::fmt::Display for Term {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (at, factor) in self.factors.iter().enumerate() {
            write!(f, "{}{factor}", if at == 0 { "" } else { ":" })?;
        }
        Ok(())
    }
}

impl std::fmt::Display for Terms {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.intercept { "1" } else { "0" })?;
        self.terms.iter().try_for_each(|term| write!(f, " + {term}"))
    }
}

impl std::fmt::Display for GroupTerm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let bar = if self.correlated { "|" } else { "||" };
        let factor: Vec<String> = self.factor.iter().map(|column| expression::quoted(column)).collect();
        write!(f, "({} {bar} {})", self.terms, factor.join(":"))
    }
}

impl Formula {
    /// The columns besides the response, in order of first use.
    pub fn columns(&self) -> Vec<String> {
        let mut columns: Vec<String> = Vec::new();
        let mut add = |name: &str| {
            if !columns.iter().any(|known| known == name) {
                columns.push(name.to_string());
            }
        };
        let groups = self.groups.iter().map(|group| &group.terms);
        for terms in [&self.fixed].into_iter().chain(groups) {
            terms
                .terms
                .iter()
                .flat_map(|term| &term.factors)
                .for_each(|factor| factor.columns(&mut |name, _| add(name)));
        }
        self.offsets.iter().for_each(|offset| offset.columns(&mut |name, _| add(name)));
        self.groups.iter().flat_map(|group| &group.factor).for_each(|name| add(name));
        columns
    }

    /// An error about the character at position `at` of this formula.
    pub fn error(&self, at: usize, what: impl Into<String>) -> Error {
        error(&self.text, at, what, None)
    }
}

/// An error about one character of a formula.
fn error(text: &str, at: usize, what: impl Into<String>, help: Option<Help>) -> Error {
    ErrorKind::Formula { formula: text.to_string(), at, what: what.into(), help }.into()
}

#[cfg(test)]
mod tests;
