//! The compiled terms of a formula, as they are stored with an encoding.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::basis::Basis;
use crate::base::math;
use crate::formula::Operator;

/// The terms of a formula as columns of the model matrix, in order. The intercept is not among them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Design {
    /// The formula as the user wrote it.
    pub formula: String,
    /// The terms.
    pub terms: Vec<DesignTerm>,
}

/// A term: the columns are products, each of one column of every factor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DesignTerm {
    /// The term as the formula has it: `age:city`.
    pub name: String,
    /// The factors.
    pub factors: Vec<Factor>,
    /// The columns.
    pub columns: Vec<DesignColumn>,
}

/// A column of the model matrix: `(x − center) / scale`, where `x` is the product of the parts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DesignColumn {
    /// For each factor the number of its column: 0 for a number, else a column of the basis or a level.
    pub parts: Vec<u32>,
    /// What is subtracted: the mean, or 0.
    pub center: f64,
    /// The divisor: the standard deviation, or 1.
    pub scale: f64,
}

/// A factor of a term.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Factor {
    /// Its short name, for the names of coefficients: `age`, `bs(income)`.
    pub name: String,
    /// Its values.
    pub values: Values,
}

/// The values of a factor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Values {
    /// A number.
    Number(Numeric),
    /// A basis of functions of a number: a spline or polynomial.
    Basis(Numeric, Basis),
    /// The levels of a column of text: an indicator for each.
    Levels {
        /// The number of the column among the features.
        feature: usize,
        /// The level without an indicator, where another term or the intercept makes it redundant.
        reference: u32,
        /// All levels, sorted.
        levels: Vec<String>,
    },
    /// The intervals between breaks: an indicator for each. Interval `i` is `(breaks[i − 1], breaks[i]]`.
    Intervals(Numeric, Vec<f64>),
}

/// An expression with one number per row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Numeric {
    /// A column of numbers, by its number among the features.
    Column(usize),
    /// A constant.
    Constant(f64),
    /// `−x`.
    Negated(Box<Numeric>),
    /// Two numbers with an operator between them.
    Binary(Operator, Box<Numeric>, Box<Numeric>),
    /// A function of one number.
    Apply(Function, Box<Numeric>),
    /// `(x − center) / scale` with constants that were learnt.
    Scaled(Box<Numeric>, f64, f64),
}

/// A function of one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Function {
    /// The natural logarithm.
    Log,
    /// The logarithm to base 10.
    Log10,
    /// `ln(1 + x)`.
    Log1p,
    /// The exponential function.
    Exp,
    /// The square root.
    Sqrt,
    /// The absolute value.
    Abs,
}

impl Function {
    /// The functions with their names.
    pub(super) const NAMES: [(&'static str, Function); 6] = [
        ("log", Function::Log),
        ("log10", Function::Log10),
        ("log1p", Function::Log1p),
        ("exp", Function::Exp),
        ("sqrt", Function::Sqrt),
        ("abs", Function::Abs),
    ];

    #[inline(always)]
    pub(super) fn apply(self, x: f64) -> f64 {
        match self {
            Function::Log => math::ln(x),
            Function::Log10 => math::log10(x),
            Function::Log1p => math::ln_1p(x),
            Function::Exp => math::exp(x),
            Function::Sqrt => x.sqrt(),
            Function::Abs => x.abs(),
        }
    }
}

/// The value of an operator. Squares are products, as everywhere else.
#[inline(always)]
pub(super) fn operate(operator: Operator, x: f64, y: f64) -> f64 {
    let indicator = |is: bool| f64::from(u8::from(is));
    match operator {
        Operator::Add => x + y,
        Operator::Subtract => x - y,
        Operator::Multiply => x * y,
        Operator::Divide => x / y,
        Operator::Power if y == 2.0 => x * x,
        Operator::Power => math::pow(x, y),
        Operator::Less => indicator(x < y),
        Operator::AtMost => indicator(x <= y),
        Operator::Greater => indicator(x > y),
        Operator::AtLeast => indicator(x >= y),
        Operator::Equal => indicator(x == y),
        Operator::Unequal => indicator(x != y),
    }
}

impl Numeric {
    /// Calls `visit` with the number of each feature in it.
    pub(super) fn features(&self, visit: &mut impl FnMut(usize)) {
        match self {
            Numeric::Column(feature) => visit(*feature),
            Numeric::Constant(_) => {}
            Numeric::Negated(of) | Numeric::Apply(_, of) | Numeric::Scaled(of, ..) => of.features(visit),
            Numeric::Binary(_, left, right) => {
                left.features(visit);
                right.features(visit);
            }
        }
    }

    /// The expression as text, with the names of the features.
    pub(super) fn describe(&self, name: &impl Fn(usize) -> String) -> String {
        match self {
            Numeric::Column(feature) => name(*feature),
            Numeric::Constant(number) => number.to_string(),
            Numeric::Negated(of) => format!("-{}", of.describe(name)),
            Numeric::Binary(operator, left, right) => {
                format!("({} {} {})", left.describe(name), operator.symbol(), right.describe(name))
            }
            Numeric::Apply(function, of) => {
                let known = Function::NAMES.iter().find(|(_, known)| known == function);
                format!("{}({})", known.map_or("", |(name, _)| name), of.describe(name))
            }
            Numeric::Scaled(of, ..) => format!("scale({})", of.describe(name)),
        }
    }

    /// True if its value may be infinite or undefined for usual numbers.
    pub(super) fn is_partial(&self) -> bool {
        match self {
            Numeric::Column(_) | Numeric::Constant(_) => false,
            Numeric::Apply(Function::Abs, of) | Numeric::Negated(of) | Numeric::Scaled(of, ..) => {
                of.is_partial()
            }
            Numeric::Apply(..) => true,
            Numeric::Binary(operator, left, right) => {
                let exponent = **right == Numeric::Constant(2.0);
                let is_partial = match operator {
                    Operator::Divide => true,
                    Operator::Power => !exponent,
                    _ => false,
                };
                is_partial || left.is_partial() || right.is_partial()
            }
        }
    }

    /// What is wrong with it, if it was read from a file; `numbers` tells which features are numbers.
    fn fault(&self, numbers: &[bool]) -> Option<String> {
        match self {
            Numeric::Column(feature) if numbers.get(*feature) != Some(&true) => {
                Some(format!("uses feature {feature} as a number"))
            }
            Numeric::Column(_) | Numeric::Constant(_) => None,
            Numeric::Scaled(_, center, scale) if !is_usable(*center, *scale) => {
                Some(format!("centres a number at {center} and divides it by {scale}"))
            }
            Numeric::Negated(of) | Numeric::Apply(_, of) | Numeric::Scaled(of, ..) => of.fault(numbers),
            Numeric::Binary(_, left, right) => left.fault(numbers).or_else(|| right.fault(numbers)),
        }
    }
}

/// True for a center and a scale that can be squared.
fn is_usable(center: f64, scale: f64) -> bool {
    (center * center).is_finite() && (scale * scale).is_finite() && scale > 0.0
}

impl Values {
    /// The number of columns: of the basis, or one per level.
    pub(super) fn width(&self) -> usize {
        match self {
            Values::Number(_) => 1,
            Values::Basis(_, basis) => basis.width(),
            Values::Levels { levels, .. } => levels.len(),
            Values::Intervals(_, breaks) => breaks.len() + 1,
        }
    }

    /// True if the columns are indicators.
    pub(super) fn is_categorical(&self) -> bool {
        matches!(self, Values::Levels { .. } | Values::Intervals(..))
    }

    /// The column that is left out where the columns would add up to those of another term.
    pub(super) fn reference(&self) -> u32 {
        match self {
            Values::Levels { reference, .. } => *reference,
            _ => 0,
        }
    }

    fn fault(&self, features: &[Option<Vec<&str>>]) -> Option<String> {
        let numbers: Vec<bool> = features.iter().map(Option::is_none).collect();
        match self {
            Values::Number(of) => of.fault(&numbers),
            Values::Basis(of, basis) => of.fault(&numbers).or_else(|| basis.fault()),
            Values::Intervals(of, breaks) => {
                let is_rising =
                    breaks.windows(2).all(|pair| pair[0] < pair[1]) && breaks.iter().all(|b| b.is_finite());
                of.fault(&numbers)
                    .or_else(|| (!is_rising).then(|| "has breaks that are not sorted".to_string()))
            }
            Values::Levels { feature, reference, levels } => {
                let known = features.get(*feature).and_then(Option::as_ref);
                let same = known.is_some_and(|known| known == levels) && (*reference as usize) < levels.len();
                (!same).then(|| "has other levels than its column".to_string())
            }
        }
    }
}

impl DesignTerm {
    /// The term, with the reference level of a column of text.
    fn description(&self) -> String {
        match &self.factors[..] {
            [Factor { values: Values::Levels { reference, levels, .. }, .. }]
                if self.columns.len() < levels.len() =>
            {
                format!("{} (reference: {})", self.name, levels[*reference as usize])
            }
            _ => self.name.clone(),
        }
    }
}

impl Factor {
    /// The name of one of its columns.
    fn column_name(&self, part: u32) -> String {
        let name = &self.name;
        match &self.values {
            Values::Number(_) => name.clone(),
            Values::Basis(..) => format!("{name}[{}]", part + 1),
            Values::Levels { levels, .. } => {
                format!("{name}={}", levels.get(part as usize).map_or("", String::as_str))
            }
            Values::Intervals(_, breaks) => format!("{name}={}", interval(breaks, part as usize)),
        }
    }
}

/// An interval as text: `(2, 5]`, `<= 2` for the first and `> 5` for the last.
fn interval(breaks: &[f64], at: usize) -> String {
    match (at.checked_sub(1).and_then(|before| breaks.get(before)), breaks.get(at)) {
        (Some(low), Some(high)) => format!("({low}, {high}]"),
        (None, Some(high)) => format!("<= {high}"),
        (Some(low), None) => format!("> {low}"),
        (None, None) => "all".to_string(),
    }
}

impl Design {
    /// The number of columns.
    pub fn width(&self) -> usize {
        self.terms.iter().map(|term| term.columns.len()).sum()
    }

    /// The columns, in order.
    pub fn columns(&self) -> impl Iterator<Item = &DesignColumn> {
        self.terms.iter().flat_map(|term| &term.columns)
    }

    /// The same design with columns that are neither centred nor scaled.
    pub fn unscaled(&self) -> Design {
        let mut design = self.clone();
        let columns = design.terms.iter_mut().flat_map(|term| &mut term.columns);
        columns.for_each(|column| (column.center, column.scale) = (0.0, 1.0));
        design
    }

    /// The terms of the formula in order, each with a description and the number of its columns.
    pub fn outline(&self) -> Vec<(String, usize)> {
        let mut outline: Vec<(String, usize)> = Vec::new();
        for (at, term) in self.terms.iter().enumerate() {
            let columns = term.columns.len();
            match outline.last_mut() {
                // A term may consist of several products of factors.
                Some((_, width)) if at > 0 && self.terms[at - 1].name == term.name => *width += columns,
                _ => outline.push((term.description(), columns)),
            }
        }
        outline
    }

    /// True if a column is shifted or scaled.
    pub fn is_standardized(&self) -> bool {
        self.columns().any(|column| (column.center, column.scale) != (0.0, 1.0))
    }

    /// The names of the columns: `age`, `bs(income)[3]`, `age:city=Rome`.
    pub fn names(&self) -> Vec<String> {
        let names = self.terms.iter().flat_map(|term| {
            term.columns.iter().map(|column| {
                let parts =
                    term.factors.iter().zip(&column.parts).map(|(factor, part)| factor.column_name(*part));
                parts.collect::<Vec<_>>().join(":")
            })
        });
        names.collect()
    }

    /// Gives factors with the same short name their full names, which are the keys of `full`.
    pub(super) fn name_factors(&mut self, full: &HashMap<String, String>) {
        let mut uses: HashMap<&str, usize> = HashMap::new();
        full.values().for_each(|short| *uses.entry(short).or_default() += 1);
        for factor in self.terms.iter_mut().flat_map(|term| &mut term.factors) {
            if let Some(short) = full.get(&factor.name).filter(|short| uses.get(short.as_str()) == Some(&1)) {
                factor.name.clone_from(short);
            }
        }
    }

    /// What is wrong with this design, as the rest of a sentence that begins with the file; `None` if nothing is. `features` has the
    /// sorted levels of each feature of text.
    pub(crate) fn fault(&self, features: &[Option<Vec<&str>>]) -> Option<String> {
        if self.width() == 0 {
            return Some("has a formula without columns".to_string());
        }
        for term in &self.terms {
            let of_factors = term.factors.iter().find_map(|factor| factor.values.fault(features));
            let of_column = |column: &DesignColumn| {
                let fits = column.parts.len() == term.factors.len()
                    && column
                        .parts
                        .iter()
                        .zip(&term.factors)
                        .all(|(part, f)| (*part as usize) < f.values.width());
                !(fits && is_usable(column.center, column.scale))
            };
            let of_columns =
                || term.columns.iter().any(of_column).then(|| "has an unusable column".to_string());
            if let Some(fault) = of_factors.or_else(of_columns) {
                return Some(format!("has a term '{}' that {fault}", term.name));
            }
        }
        None
    }
}
