//! Compiles a formula into a design: what the functions mean, and what they have to learn from the data.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};

use super::basis::{Basis, HIGHEST_DEGREE, MOST_COLUMNS};
use super::design::{Design, DesignColumn, DesignTerm, Factor, Function, Numeric, Values};
use super::rank::{self, Product};
use crate::base::error::{Error, Result, nearest_name};
use crate::formula::{Argument, Expr, ExprKind, Formula, Terms};

/// The most categorical factors of one term.
const MOST_CATEGORICAL: usize = 8;
/// A term may have this many cells in principle; the cells that occur are limited by a setting.
const MOST_COMBINATIONS: f64 = 1e15;

/// A column that the formula can use.
pub(super) enum Available {
    /// Numbers or booleans.
    Number,
    /// Text: the position of its reference level, and all its levels, sorted.
    Text(u32, Vec<String>),
}

/// What has to be learnt from the data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum Request {
    /// Mean, variance, range and quantiles of an expression.
    Summary(Numeric),
    /// The sums `Σ w h_j h_k` of the normalised Hermite polynomials of `(x − center) / scale`, up to a degree.
    Products { of: Numeric, center: f64, scale: f64, degree: usize },
    /// The combinations of levels that occur.
    Cells(Vec<Values>),
}

/// What was learnt.
#[derive(Clone, Debug)]
pub(super) enum Fact {
    Summary(Summary),
    Products(Vec<f64>),
    Cells(BTreeMap<Vec<u32>, f64>),
}

/// A summary of the values of an expression.
#[derive(Clone, Debug)]
pub(super) struct Summary {
    pub mass: f64,
    pub mean: f64,
    /// The sum of squared deviations from the mean.
    pub squares: f64,
    pub low: f64,
    pub high: f64,
    /// The values and weights of all rows, or of a random part of them, sorted.
    pub sample: Vec<(f64, f64)>,
}

impl Summary {
    /// A quantile by linear interpolation, as R's type 7 and NumPy have it, where a row of weight `w` counts as `w` rows.
    fn quantile(&self, probability: f64) -> f64 {
        let total: f64 = self.sample.iter().map(|(_, weight)| weight).sum();
        let place = probability * (total - 1.0).max(0.0);
        let at = |rank: f64| {
            let mut before = 0.0;
            let found = self.sample.iter().find(|(_, weight)| {
                before += weight;
                before > rank
            });
            found.or(self.sample.last()).map_or(f64::NAN, |(value, _)| *value)
        };
        let (low, high) = (at(place.floor()), at(place.floor() + 1.0));
        low + (high - low) * place.fract()
    }

    /// The standard deviation with the divisor n − 1, as in R.
    fn sd(&self) -> f64 {
        (self.squares / (self.mass - 1.0)).sqrt()
    }
}

/// Compiles the fixed effects of a formula.
pub(super) struct Compiler<'a> {
    pub formula: &'a Formula,
    pub names: &'a [String],
    pub columns: &'a [Available],
    /// What was learnt so far.
    pub facts: &'a [(Request, Fact)],
    /// What is still needed.
    pub requests: Vec<Request>,
    /// The short name of each factor, by its full name.
    pub short_names: HashMap<String, String>,
}

/// The arguments of a call, taken one after the other.
struct Call<'a> {
    formula: &'a Formula,
    function: &'a str,
    at: usize,
    arguments: &'a [Argument],
    taken: Vec<usize>,
}

impl<'a> Call<'a> {
    /// The argument with this name, or at this position if it has no name.
    fn take(&mut self, name: &str, position: usize) -> Option<&'a Expr> {
        let arguments = self.arguments;
        let is_wanted = |at: usize, argument: &Argument| match &argument.name {
            Some(own) => own == name,
            None => at == position,
        };
        let (at, argument) = arguments.iter().enumerate().find(|(at, argument)| is_wanted(*at, argument))?;
        self.taken.push(at);
        Some(&argument.value)
    }

    fn require(&mut self, name: &str, position: usize) -> Result<&'a Expr> {
        let missing = self.formula.error(self.at, format!("{} needs the argument '{name}'", self.function));
        self.take(name, position).ok_or(missing)
    }

    fn error(&self, expr: &Expr, what: &str) -> Error {
        self.formula.error(expr.at, what)
    }

    /// A whole number from `low` to `high`.
    fn whole(&mut self, name: &str, position: usize, low: usize, high: usize) -> Result<Option<usize>> {
        let Some(expr) = self.take(name, position) else { return Ok(None) };
        match constant(expr) {
            Some(number) if number.fract() == 0.0 && number >= low as f64 && number <= high as f64 => {
                Ok(Some(number as usize))
            }
            _ => Err(self.error(expr, &format!("'{name}' is a whole number from {low} to {high}"))),
        }
    }

    /// A list of rising numbers.
    fn numbers(&mut self, name: &str, position: usize) -> Result<Option<Vec<f64>>> {
        let Some(expr) = self.take(name, position) else { return Ok(None) };
        let numbers: Option<Vec<f64>> = match &expr.kind {
            ExprKind::List(values) => values.iter().map(constant).collect(),
            _ => constant(expr).map(|number| vec![number]),
        };
        match numbers {
            Some(numbers) if !numbers.is_empty() && numbers.windows(2).all(|pair| pair[0] < pair[1]) => {
                Ok(Some(numbers))
            }
            _ => Err(self.error(expr, &format!("'{name}' is a list of rising numbers: {name}=[1, 2.5]"))),
        }
    }

    /// Returns an error for an argument that was not taken.
    fn end(&self) -> Result<()> {
        let mut others = self.arguments.iter().enumerate().filter(|(at, _)| !self.taken.contains(at));
        match others.next() {
            None => Ok(()),
            Some((_, Argument { name: Some(name), value })) => {
                Err(self.error(value, &format!("{} has no argument '{name}'", self.function)))
            }
            Some((_, argument)) => {
                Err(self.error(&argument.value, &format!("{} has fewer arguments", self.function)))
            }
        }
    }
}

/// The number that an expression without columns is.
fn constant(expr: &Expr) -> Option<f64> {
    match &expr.kind {
        ExprKind::Number(number) => Some(*number),
        ExprKind::Negated(of) => constant(of).map(|number| -number),
        _ => None,
    }
}

/// The functions of a formula besides those of one number.
const OTHER_FUNCTIONS: [&str; 9] = ["I", "C", "bs", "ns", "poly", "cut", "center", "scale", "offset"];

impl<'a> Compiler<'a> {
    fn error(&self, expr: &Expr, what: impl Into<String>) -> Error {
        self.formula.error(expr.at, what)
    }

    /// What was learnt for a request; if nothing was, it is made.
    fn fact(&mut self, request: Request) -> Option<&'a Fact> {
        let known = self.facts.iter().find(|(known, _)| *known == request);
        if known.is_none() && !self.requests.contains(&request) {
            self.requests.push(request);
        }
        known.map(|(_, fact)| fact)
    }

    fn summary(&mut self, of: &Numeric) -> Option<&'a Summary> {
        match self.fact(Request::Summary(of.clone()))? {
            Fact::Summary(summary) => Some(summary),
            _ => None,
        }
    }

    fn call(&self, expr: &'a Expr) -> Option<Call<'a>> {
        let ExprKind::Call { function, arguments } = &expr.kind else { return None };
        Some(Call { formula: self.formula, function, at: expr.at, arguments, taken: Vec::new() })
    }

    /// An expression of numbers; `None` if something has to be learnt first.
    pub fn numeric(&mut self, expr: &'a Expr) -> Result<Option<Numeric>> {
        Ok(match &expr.kind {
            ExprKind::Number(number) => Some(Numeric::Constant(*number)),
            ExprKind::Column(name) => Some(Numeric::Column(self.number_column(expr, name)?)),
            ExprKind::Negated(of) => self.numeric(of)?.map(|of| Numeric::Negated(Box::new(of))),
            ExprKind::Binary(operator, left, right) => match (self.numeric(left)?, self.numeric(right)?) {
                (Some(left), Some(right)) => {
                    Some(Numeric::Binary(*operator, Box::new(left), Box::new(right)))
                }
                _ => None,
            },
            ExprKind::Call { .. } => return self.numeric_call(expr),
            ExprKind::Text(_) | ExprKind::Truth(_) | ExprKind::List(_) => {
                return Err(self.error(expr, "expected a number or a column of numbers"));
            }
        })
    }

    fn number_column(&self, expr: &Expr, name: &str) -> Result<usize> {
        let feature = self.feature(expr, name)?;
        match self.columns[feature] {
            Available::Number => Ok(feature),
            Available::Text(..) => {
                Err(self.error(expr, format!("column '{name}' is text, but a number is needed here")))
            }
        }
    }

    fn feature(&self, expr: &Expr, name: &str) -> Result<usize> {
        let found = self.names.iter().position(|known| known == name);
        found.ok_or_else(|| self.error(expr, format!("there is no column '{name}'")))
    }

    fn numeric_call(&mut self, expr: &'a Expr) -> Result<Option<Numeric>> {
        let Some(mut call) = self.call(expr) else { return Ok(None) };
        let function =
            Function::NAMES.iter().find(|(name, _)| *name == call.function).map(|(_, function)| *function);
        let name = call.function;
        if function.is_none() && !["I", "center", "scale"].contains(&name) {
            return Err(self.error(expr, self.unknown(name)));
        }
        let argument = call.require("x", 0)?;
        call.end()?;
        let Some(of) = self.numeric(argument)? else { return Ok(None) };
        if let Some(function) = function {
            return Ok(Some(Numeric::Apply(function, Box::new(of))));
        }
        if name == "I" {
            return Ok(Some(of));
        }
        let Some(summary) = self.summary(&of) else { return Ok(None) };
        let scale = if name == "scale" { summary.sd() } else { 1.0 };
        if !(scale > 0.0 && scale.is_finite()) {
            return Err(self.error(expr, format!("{argument} is constant, so it cannot be scaled")));
        }
        Ok(Some(Numeric::Scaled(Box::new(of), summary.mean, scale)))
    }

    /// Why a function cannot be used as a number.
    fn unknown(&self, name: &str) -> String {
        if OTHER_FUNCTIONS.contains(&name) {
            return format!("{name}() cannot be used within another expression");
        }
        let names = Function::NAMES.iter().map(|(name, _)| *name).chain(OTHER_FUNCTIONS);
        let names: Vec<String> = names.map(str::to_string).collect();
        let near =
            nearest_name(name, &names).map_or(String::new(), |near| format!(" (did you mean '{near}'?)"));
        format!("there is no function '{name}'{near}; the functions are {}", names.join(", "))
    }

    /// The values of a factor; `None` if something has to be learnt first.
    fn values(&mut self, expr: &'a Expr) -> Result<Option<Values>> {
        if let ExprKind::Column(name) = &expr.kind {
            let feature = self.feature(expr, name)?;
            return Ok(Some(match &self.columns[feature] {
                Available::Number => Values::Number(Numeric::Column(feature)),
                Available::Text(reference, levels) => {
                    Values::Levels { feature, reference: *reference, levels: levels.clone() }
                }
            }));
        }
        let Some(mut call) = self.call(expr) else {
            return Err(self.error(expr, "a term is a column or a function of one"));
        };
        match call.function {
            "C" => self.levels(&mut call).map(Some),
            "bs" | "ns" | "poly" | "cut" => {
                let argument = call.require("x", 0)?;
                let Some(of) = self.numeric(argument)? else { return Ok(None) };
                match call.function {
                    "cut" => self.intervals(&mut call, of),
                    "poly" => self.polynomial(&mut call, of),
                    _ => self.spline(&mut call, of),
                }
            }
            _ => Ok(self.numeric(expr)?.map(Values::Number)),
        }
    }

    /// `C(x, ref="b")`
    fn levels(&mut self, call: &mut Call<'a>) -> Result<Values> {
        let column = call.require("x", 0)?;
        let wanted = call.take("ref", 1);
        call.end()?;
        let ExprKind::Column(name) = &column.kind else {
            return Err(self.error(column, "C() takes a column"));
        };
        let feature = self.feature(column, name)?;
        let Available::Text(usual, levels) = &self.columns[feature] else {
            let what = format!("column '{name}' is numeric, and C() needs levels; read the column as text");
            return Err(self.error(column, what));
        };
        let reference = match wanted {
            None => *usual,
            Some(wanted) => {
                let text = match &wanted.kind {
                    ExprKind::Text(text) => text.clone(),
                    _ => wanted.to_string(),
                };
                match levels.iter().position(|level| *level == text) {
                    Some(at) => at as u32,
                    None => {
                        let near = nearest_name(&text, levels)
                            .map_or(String::new(), |near| format!(" (did you mean '{near}'?)"));
                        return Err(
                            self.error(wanted, format!("column '{name}' has no level '{text}'{near}"))
                        );
                    }
                }
            }
        };
        Ok(Values::Levels { feature, reference, levels: levels.clone() })
    }

    /// `cut(x, [1, 2])` or `cut(x, 4)`: four intervals of equal width between the least and the largest value.
    fn intervals(&mut self, call: &mut Call<'a>, of: Numeric) -> Result<Option<Values>> {
        let breaks = call.require("breaks", 1)?;
        let count = constant(breaks);
        let breaks = match count {
            None => call.numbers("breaks", 1)?.unwrap_or_default(),
            Some(_) => {
                let count = call.whole("breaks", 1, 2, MOST_COLUMNS)?.unwrap_or(2);
                let Some(summary) = self.summary(&of) else { return Ok(None) };
                let width = (summary.high - summary.low) / count as f64;
                if width <= 0.0 {
                    return Err(self.formula.error(call.at, "all values are equal, so they cannot be cut"));
                }
                (1..count).map(|at| summary.low + width * at as f64).collect()
            }
        };
        call.end()?;
        Ok(Some(Values::Intervals(of, breaks)))
    }

    /// `poly(x, 3)` or `poly(x, 3, raw=True)`
    fn polynomial(&mut self, call: &mut Call<'a>, of: Numeric) -> Result<Option<Values>> {
        let degree = call.whole("degree", 1, 1, HIGHEST_DEGREE)?.unwrap_or(1);
        let raw = call.take("raw", 2);
        call.end()?;
        match raw.map(|expr| &expr.kind) {
            Some(ExprKind::Truth(true)) => return Ok(Some(Values::Basis(of, Basis::Powers(degree)))),
            None | Some(ExprKind::Truth(false)) => {}
            Some(_) => return Err(self.formula.error(call.at, "'raw' is True or False")),
        }
        let Some(summary) = self.summary(&of) else { return Ok(None) };
        let (center, scale) = (summary.mean, summary.sd());
        let few = || {
            self.formula
                .error(call.at, format!("poly() of degree {degree} needs more than {degree} distinct values"))
        };
        if !(scale > 0.0 && scale.is_finite()) {
            return Err(few());
        }
        let few = few();
        match self.fact(Request::Products { of: of.clone(), center, scale, degree }) {
            Some(Fact::Products(products)) => {
                let basis = Basis::polynomial(degree, center, scale, products).ok_or(few)?;
                Ok(Some(Values::Basis(of, basis)))
            }
            _ => Ok(None),
        }
    }

    /// `bs(x, df=5, degree=3)`, `bs(x, knots=[1, 2])`, and the same for `ns`.
    fn spline(&mut self, call: &mut Call<'a>, of: Numeric) -> Result<Option<Values>> {
        let is_natural = call.function == "ns";
        let at = call.at;
        let df = call.whole("df", 1, 1, MOST_COLUMNS)?;
        let knots = call.numbers("knots", 2)?;
        let degree = if is_natural { 3 } else { call.whole("degree", 3, 1, HIGHEST_DEGREE)?.unwrap_or(3) };
        call.end()?;
        let fewest = if is_natural { 1 } else { degree };
        let count = match (df, &knots) {
            (Some(_), Some(_)) => return Err(self.formula.error(at, "'df' and 'knots' exclude each other")),
            (Some(df), None) if df < fewest => {
                return Err(self.formula.error(at, format!("'df' is at least {fewest} here")));
            }
            (Some(df), None) => df - fewest,
            (None, Some(knots)) => knots.len(),
            (None, None) => 0,
        };
        if count + fewest > MOST_COLUMNS {
            return Err(self.formula.error(at, format!("a spline has at most {MOST_COLUMNS} columns")));
        }
        let Some(summary) = self.summary(&of) else { return Ok(None) };
        let bounds = [summary.low, summary.high];
        let inner = knots.unwrap_or_else(|| {
            (1..=count).map(|knot| summary.quantile(knot as f64 / (count + 1) as f64)).collect()
        });
        let all = [&bounds[..1], &inner, &bounds[1..]].concat();
        if let Some(pair) = all.windows(2).find(|pair| pair[0] >= pair[1]) {
            let what = if pair[0] == pair[1] {
                format!(
                    "two knots are at {}, because many rows have this value; use a lower df or name the knots",
                    pair[0]
                )
            } else {
                format!(
                    "the knots are between the least value {} and the largest value {}",
                    bounds[0], bounds[1]
                )
            };
            return Err(self.formula.error(at, what));
        }
        let basis =
            if is_natural { Basis::natural(&inner, bounds) } else { Basis::spline(degree, &inner, bounds) };
        Ok(Some(Values::Basis(of, basis)))
    }

    /// A short name for a factor: without the arguments after the first one.
    fn short_name(&mut self, expr: &Expr) {
        let short = match &expr.kind {
            ExprKind::Column(name) => name.clone(),
            ExprKind::Call { function, arguments } => match (&function[..], arguments.first()) {
                ("C", Some(Argument { value: Expr { kind: ExprKind::Column(name), .. }, .. })) => {
                    name.clone()
                }
                (_, Some(first)) => format!("{function}({})", first.value),
                _ => expr.to_string(),
            },
            _ => expr.to_string(),
        };
        self.short_names.insert(expr.to_string(), short);
    }

    /// The design, or `None` if something has to be learnt first; `requests` has what.
    pub fn design(&mut self) -> Result<Option<Design>> {
        let Terms { intercept, terms } = &self.formula.fixed;
        let mut factors: Vec<Option<Factor>> = Vec::new();
        let mut numbers: HashMap<String, usize> = HashMap::new();
        let mut by_number: Vec<Vec<usize>> = Vec::new();
        for term in terms {
            let mut own = Vec::new();
            for expr in &term.factors {
                let name = expr.to_string();
                if !numbers.contains_key(&name) {
                    let values = self.values(expr)?;
                    numbers.insert(name.clone(), factors.len());
                    factors.push(values.map(|values| Factor { name: name.clone(), values }));
                    self.short_name(expr);
                }
                own.push(numbers[&name]);
            }
            by_number.push(own);
        }
        let Some(factors) = factors.into_iter().collect::<Option<Vec<Factor>>>() else { return Ok(None) };
        let is_categorical = |factor: usize| factors[factor].values.is_categorical();
        for (term, own) in terms.iter().zip(&by_number) {
            self.check_cells(&term.factors[0], own.iter().map(|factor| &factors[*factor]))?;
        }
        let products = rank::products(*intercept, &by_number, is_categorical);
        let mut design = Design { formula: self.formula.text.clone(), terms: Vec::new() };
        let mut is_whole = true;
        for (term, products) in terms.iter().zip(products) {
            for product in products {
                match self.columns_of(&product, &factors) {
                    Some(columns) => {
                        let own = product.iter().map(|(factor, _)| factors[*factor].clone()).collect();
                        design.terms.push(DesignTerm { name: term.to_string(), factors: own, columns });
                    }
                    None => is_whole = false,
                }
            }
        }
        Ok((is_whole && self.requests.is_empty()).then(|| {
            design.name_factors(&self.short_names);
            design
        }))
    }

    /// Returns an error if a term has too many categorical factors or combinations of levels.
    fn check_cells<'f>(&self, first: &Expr, factors: impl Iterator<Item = &'f Factor>) -> Result<()> {
        let categorical: Vec<&Factor> = factors.filter(|factor| factor.values.is_categorical()).collect();
        let combinations: f64 = categorical.iter().map(|factor| factor.values.width() as f64 + 1.0).product();
        if categorical.len() > MOST_CATEGORICAL || combinations > MOST_COMBINATIONS {
            return Err(self.error(first, "this interaction has too many combinations of levels"));
        }
        Ok(())
    }

    /// The columns of a product of factors, in which the first factor varies fastest. Of combinations of levels only those that occur have
    /// columns. `None` if they are not known yet.
    fn columns_of(&mut self, product: &Product, factors: &[Factor]) -> Option<Vec<DesignColumn>> {
        let categorical: Vec<usize> =
            (0..product.len()).filter(|at| factors[product[*at].0].values.is_categorical()).collect();
        let occurring: Option<Vec<Vec<u32>>> = if categorical.len() < 2 {
            None
        } else {
            let values = categorical.iter().map(|at| factors[product[*at].0].values.clone()).collect();
            match self.fact(Request::Cells(values))? {
                Fact::Cells(cells) => Some(cells.keys().cloned().collect()),
                _ => None,
            }
        };
        // The columns of each factor that is not in `occurring`.
        let choices = |at: usize| -> Vec<u32> {
            let (factor, is_reduced) = product[at];
            let values = &factors[factor].values;
            let all = 0..values.width() as u32;
            all.filter(|part| !(is_reduced && *part == values.reference())).collect()
        };
        let mut columns: Vec<Vec<u32>> = match &occurring {
            None => vec![vec![0; product.len()]],
            Some(cells) => {
                let is_kept = |cell: &&Vec<u32>| {
                    let mut parts = categorical.iter().zip(cell.iter());
                    parts.all(|(at, part)| {
                        let (factor, is_reduced) = product[*at];
                        !(is_reduced && *part == factors[factor].values.reference())
                    })
                };
                let start = cells.iter().filter(is_kept).map(|cell| {
                    let mut parts = vec![0; product.len()];
                    categorical.iter().zip(cell).for_each(|(at, part)| parts[*at] = *part);
                    parts
                });
                start.collect()
            }
        };
        for at in 0..product.len() {
            if occurring.is_some() && categorical.contains(&at) {
                continue;
            }
            let choices = choices(at);
            let with = |parts: &Vec<u32>| {
                choices
                    .iter()
                    .map(|choice| {
                        let mut parts = parts.clone();
                        parts[at] = *choice;
                        parts
                    })
                    .collect::<Vec<_>>()
            };
            columns = columns.iter().flat_map(with).collect();
        }
        columns.sort_by(|a, b| a.iter().rev().cmp(b.iter().rev()));
        Some(columns.into_iter().map(|parts| DesignColumn { parts, center: 0.0, scale: 1.0 }).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_numpy() {
        let summary = |sample: &[(f64, f64)]| Summary {
            mass: 1.0,
            mean: 0.0,
            squares: 0.0,
            low: 0.0,
            high: 0.0,
            sample: sample.to_vec(),
        };
        let unit = summary(&[(1.0, 1.0), (2.0, 1.0), (4.0, 1.0), (8.0, 1.0)]);
        // numpy.quantile([1, 2, 4, 8], [0, 1/3, 0.5, 0.9, 1])
        for (probability, expected) in [(0.0, 1.0), (1.0 / 3.0, 2.0), (0.5, 3.0), (0.9, 6.8), (1.0, 8.0)] {
            assert!((unit.quantile(probability) - expected).abs() < 1e-12, "{probability}");
        }
        let weighted = summary(&[(1.0, 2.0), (5.0, 3.0)]);
        // numpy.quantile([1, 1, 5, 5, 5], [0.3, 0.5])
        assert!((weighted.quantile(0.3) - 1.8).abs() < 1e-12 && weighted.quantile(0.5) == 5.0);
    }
}
