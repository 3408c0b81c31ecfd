//! Expands a parsed formula into a list of terms: `a * b` becomes `a + b + a:b`.

use std::collections::{HashMap, HashSet};

use super::expression::{Expr, ExprKind};
use super::parse::{Node, NodeKind, Sign, Syntax};
use super::{Formula, GroupTerm, Term, Terms, error};
use crate::base::error::{Error, Result, nearest_name};

/// A formula may have this many terms.
const MOST_TERMS: usize = 10_000;

impl Syntax {
    /// Expands the formula for data with these columns. `.` becomes all of them except the response and those in `others`, such as the
    /// column of weights.
    ///
    /// # Errors
    /// If it names an unknown column; the error points at it.
    pub fn expand(&self, columns: &[String], others: &[String]) -> Result<Formula> {
        let is_free = |column: &&String| Some(*column) != self.response.as_ref() && !others.contains(column);
        let free: Vec<String> = columns.iter().filter(is_free).cloned().collect();
        let mut expansion = Expansion {
            text: &self.text,
            free: &free,
            factors: Vec::new(),
            known: HashMap::new(),
            extras: Extras::default(),
        };
        let set = expansion.set(&self.right, Place::Top)?;
        let fixed = expansion.terms(&set, true);
        let Extras { offsets, groups } = expansion.extras;
        let formula =
            Formula { text: self.text.clone(), response: self.response.clone(), fixed, offsets, groups };
        formula.check_columns(columns)?;
        Ok(formula)
    }
}

impl Formula {
    /// Returns an error at the first column that the data does not have.
    fn check_columns(&self, columns: &[String]) -> Result<()> {
        let known: HashSet<&str> = columns.iter().map(String::as_str).collect();
        let unknown = |name: &str, at: usize| {
            let nearest = nearest_name(name, columns)
                .map_or(String::new(), |near| format!(" (did you mean '{near}'?)"));
            let shown: Vec<&str> = columns.iter().take(20).map(String::as_str).collect();
            let more = if columns.len() > shown.len() { ", …" } else { "" };
            let help = format!("the columns are: {}{more}", shown.join(", "));
            error(&self.text, at, format!("there is no column '{name}'{nearest}"), Some(help.into()))
        };
        let mut first: Option<Error> = None;
        let mut check = |name: &str, at: usize| {
            if first.is_none() && !known.contains(name) {
                first = Some(unknown(name, at));
            }
        };
        self.response.iter().for_each(|name| check(name, 0));
        let of_terms = |terms: &Terms| terms.terms.clone().into_iter().flat_map(|term| term.factors);
        let groups = self.groups.iter().flat_map(|group| of_terms(&group.terms));
        of_terms(&self.fixed)
            .chain(self.offsets.clone())
            .chain(groups)
            .for_each(|expr| expr.columns(&mut check));
        for group in &self.groups {
            group.factor.iter().for_each(|name| check(name, group.at));
        }
        first.map_or(Ok(()), Err)
    }
}

/// Where a node is: offsets and random effects can only be added to the whole formula.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    Top,
    Inside,
}

/// Offsets and random effects that were found.
#[derive(Default)]
struct Extras {
    offsets: Vec<Expr>,
    groups: Vec<GroupTerm>,
}

struct Expansion<'a> {
    text: &'a str,
    /// What `.` means.
    free: &'a [String],
    /// The distinct factors.
    factors: Vec<Expr>,
    /// Their numbers, by their text.
    known: HashMap<String, usize>,
    extras: Extras,
}

/// Terms as lists of factors' numbers, without repetitions, in order.
#[derive(Clone, Default)]
struct Set {
    terms: Vec<Vec<usize>>,
    /// The same, each sorted.
    keys: HashSet<Vec<usize>>,
    /// True if the intercept was added, false if it was removed.
    intercept: Option<bool>,
}

impl Set {
    fn add(&mut self, term: Vec<usize>) {
        if self.keys.insert(key(&term)) {
            self.terms.push(term);
        }
    }

    fn union(mut self, other: Set) -> Set {
        other.terms.into_iter().for_each(|term| self.add(term));
        self.intercept = other.intercept.or(self.intercept);
        self
    }

    fn without(mut self, other: &Set) -> Set {
        self.terms.retain(|term| !other.keys.contains(&key(term)));
        self.keys.retain(|key| !other.keys.contains(key));
        self.intercept = other.intercept.map(|is_added| !is_added).or(self.intercept);
        self
    }
}

fn key(term: &[usize]) -> Vec<usize> {
    let mut key = term.to_vec();
    key.sort_unstable();
    key
}

impl Expansion<'_> {
    fn error(&self, at: usize, what: impl Into<String>) -> Error {
        error(self.text, at, what, None)
    }

    fn factor(&mut self, expr: &Expr) -> usize {
        let next = self.factors.len();
        let number = *self.known.entry(expr.to_string()).or_insert(next);
        if number == next {
            self.factors.push(expr.clone());
        }
        number
    }

    /// The terms of a set, sorted by their number of factors.
    fn terms(&self, set: &Set, intercept: bool) -> Terms {
        let mut sorted = set.terms.clone();
        sorted.sort_by_key(Vec::len);
        let factors =
            |term: Vec<usize>| term.into_iter().map(|factor| self.factors[factor].clone()).collect();
        let terms = sorted.into_iter().map(|term| Term { factors: factors(term) }).collect();
        Terms { intercept: set.intercept.unwrap_or(intercept), terms }
    }

    fn set(&mut self, node: &Node, place: Place) -> Result<Set> {
        let mut set = Set::default();
        match &node.kind {
            NodeKind::One => set.intercept = Some(true),
            NodeKind::Zero => set.intercept = Some(false),
            NodeKind::AllColumns => {
                for column in self.free {
                    let number = self.factor(&Expr { kind: ExprKind::Column(column.clone()), at: node.at });
                    set.add(vec![number]);
                }
            }
            NodeKind::Factor(expr) => set.add(vec![self.factor(expr)]),
            NodeKind::Offset(_) | NodeKind::Group { .. } if place == Place::Inside => {
                return Err(self.error(node.at, "an offset or a random effect can only be added: ~ … + this"));
            }
            NodeKind::Offset(expr) => self.extras.offsets.push(expr.clone()),
            NodeKind::Group { terms, correlated, factor } => {
                self.group(node.at, terms, *correlated, factor)?
            }
            NodeKind::Sum(nodes) => {
                for (sign, node) in nodes {
                    set = match sign {
                        Sign::Plus => set.union(self.set(node, place)?),
                        Sign::Minus => set.without(&self.set(node, Place::Inside)?),
                    };
                }
            }
            NodeKind::Interaction(left, right) => {
                let (left, right) = (self.operand(left)?, self.operand(right)?);
                set = self.product(node.at, &left, &right)?;
            }
            NodeKind::Crossing(left, right) => {
                let (left, right) = (self.operand(left)?, self.operand(right)?);
                let both = self.product(node.at, &left, &right)?;
                set = left.union(right).union(both);
            }
            NodeKind::Nesting(left, right) => {
                let (left, right) = (self.operand(left)?, self.operand(right)?);
                // The levels of all terms on the left, as one term.
                let mut all = Set::default();
                all.add(left.terms.iter().fold(Vec::new(), |all, term| joined(&all, term)));
                let within = self.product(node.at, &all, &right)?;
                set = left.union(within);
            }
            NodeKind::Power(base, power) => {
                let base = self.operand(base)?;
                set = base.clone();
                for _ in 1..*power {
                    set = self.product(node.at, &set, &base)?;
                }
            }
        }
        self.check_size(node.at, set)
    }

    /// The terms of an operand of a product, which has no intercept.
    fn operand(&mut self, node: &Node) -> Result<Set> {
        let set = self.set(node, Place::Inside)?;
        match set.intercept {
            Some(_) => Err(self.error(node.at, "0 and 1 can only be added or removed, not multiplied")),
            None => Ok(set),
        }
    }

    fn product(&self, at: usize, left: &Set, right: &Set) -> Result<Set> {
        let mut set = Set::default();
        for one in &left.terms {
            right.terms.iter().for_each(|other| set.add(joined(one, other)));
            if set.terms.len() > MOST_TERMS {
                break;
            }
        }
        self.check_size(at, set)
    }

    fn check_size(&self, at: usize, set: Set) -> Result<Set> {
        if set.terms.len() > MOST_TERMS {
            return Err(self.error(at, format!("this gives more than {MOST_TERMS} terms")));
        }
        Ok(set)
    }

    /// Adds a random-effects term.
    fn group(&mut self, at: usize, terms: &Node, correlated: bool, factor: &Node) -> Result<()> {
        let terms = self.set(terms, Place::Inside)?;
        let terms = self.terms(&terms, true);
        if !terms.intercept && terms.terms.is_empty() {
            return Err(self.error(at, "this random effect has no terms"));
        }
        let factors = self.operand(factor)?;
        for factors in self.terms(&factors, false).terms {
            let mut columns = Vec::new();
            for factor in &factors.factors {
                match &factor.kind {
                    ExprKind::Column(name) => columns.push(name.clone()),
                    _ => {
                        return Err(
                            self.error(factor.at, format!("the groups are columns, and {factor} is not one"))
                        );
                    }
                }
            }
            let group = GroupTerm { terms: terms.clone(), correlated, factor: columns, at };
            if let Some(same) = self
                .extras
                .groups
                .iter()
                .find(|known| known.factor == group.factor && known.terms == group.terms)
            {
                return Err(self.error(at, format!("the random effect {same} occurs twice")));
            }
            self.extras.groups.push(group);
        }
        Ok(())
    }
}

/// The product of two terms: the factors of the first, and those of the second that it does not have.
fn joined(one: &[usize], other: &[usize]) -> Vec<usize> {
    let mut all = one.to_vec();
    all.extend(other.iter().filter(|factor| !one.contains(factor)));
    all
}
