//! Expressions of a formula: columns, numbers, arithmetic and calls of functions.

use std::fmt;

use super::tokens::is_name;

/// An expression and its position in the formula. Expressions are equal if they read the same, wherever they are.
#[derive(Clone, Debug)]
pub struct Expr {
    /// What it is.
    pub kind: ExprKind,
    /// Its position in the formula, in characters.
    pub at: usize,
}

/// The kinds of expression.
#[derive(Clone, Debug, PartialEq)]
pub enum ExprKind {
    /// A number.
    Number(f64),
    /// A text, as an argument.
    Text(String),
    /// `True` or `False`, as an argument.
    Truth(bool),
    /// A column of the data.
    Column(String),
    /// `-x`.
    Negated(Box<Expr>),
    /// `x + y` and other operators.
    Binary(Operator, Box<Expr>, Box<Expr>),
    /// A list of values, as an argument: `[1, 2]` or `c(1, 2)`.
    List(Vec<Expr>),
    /// A call of a function.
    Call {
        /// The name of the function.
        function: String,
        /// Its arguments.
        arguments: Vec<Argument>,
    },
}

/// An argument of a function: `x` or `df=5`.
#[derive(Clone, Debug, PartialEq)]
pub struct Argument {
    /// The name before `=`, if there is one.
    pub name: Option<String>,
    /// The value.
    pub value: Expr,
}

/// An operator between two numbers. Comparisons give 1 or 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Operator {
    /// `+`
    Add,
    /// `-`
    Subtract,
    /// `*`
    Multiply,
    /// `/`
    Divide,
    /// `^` or `**`
    Power,
    /// `<`
    Less,
    /// `<=`
    AtMost,
    /// `>`
    Greater,
    /// `>=`
    AtLeast,
    /// `==`
    Equal,
    /// `!=`
    Unequal,
}

impl Operator {
    /// The operators with their symbols.
    const SYMBOLS: [(Operator, &'static str); 12] = [
        (Operator::Add, "+"),
        (Operator::Subtract, "-"),
        (Operator::Multiply, "*"),
        (Operator::Divide, "/"),
        (Operator::Power, "^"),
        (Operator::Power, "**"),
        (Operator::Less, "<"),
        (Operator::AtMost, "<="),
        (Operator::Greater, ">"),
        (Operator::AtLeast, ">="),
        (Operator::Equal, "=="),
        (Operator::Unequal, "!="),
    ];

    /// The operator with this symbol.
    pub(super) fn of(symbol: &str) -> Option<Operator> {
        Operator::SYMBOLS.iter().find(|(_, known)| *known == symbol).map(|(operator, _)| *operator)
    }

    /// Its symbol.
    pub(crate) fn symbol(self) -> &'static str {
        Operator::SYMBOLS.iter().find(|(operator, _)| *operator == self).map_or("", |(_, symbol)| symbol)
    }

    /// How strongly it binds: comparisons, sums, products, powers.
    pub(super) fn rank(self) -> u8 {
        match self {
            Operator::Add | Operator::Subtract => 1,
            Operator::Multiply | Operator::Divide => 2,
            Operator::Power => 3,
            _ => 0,
        }
    }
}

impl PartialEq for Expr {
    fn eq(&self, other: &Expr) -> bool {
        self.kind == other.kind
    }
}

/// A column's name as a formula has it: between back quotes unless it is a plain name.
pub(super) fn quoted(name: &str) -> String {
    let starts = name.chars().next().is_some_and(is_name) && name != "." && !is_dot_and_digit(name);
    let is_plain = starts && name.chars().all(|c| is_name(c) || c.is_ascii_digit());
    if is_plain { name.to_string() } else { format!("`{name}`") }
}

fn is_dot_and_digit(name: &str) -> bool {
    name.strip_prefix('.').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            ExprKind::Number(number) => write!(f, "{number}"),
            ExprKind::Text(text) => write!(f, "\"{text}\""),
            ExprKind::Truth(truth) => f.write_str(if *truth { "True" } else { "False" }),
            ExprKind::Column(name) => f.write_str(&quoted(name)),
            ExprKind::Negated(of) => write!(f, "-{}", Operand(of, 3)),
            ExprKind::Binary(operator, left, right) => {
                let (rank, symbol) = (operator.rank(), operator.symbol());
                // Powers associate to the right, the others to the left.
                let (at_left, at_right) = if rank == 3 { (4, 3) } else { (rank, rank + 1) };
                let space = if rank < 2 { " " } else { "" };
                write!(f, "{}{space}{symbol}{space}{}", Operand(left, at_left), Operand(right, at_right))
            }
            ExprKind::List(values) => {
                let values: Vec<String> = values.iter().map(Expr::to_string).collect();
                write!(f, "[{}]", values.join(", "))
            }
            ExprKind::Call { function, arguments } => {
                let arguments: Vec<String> = arguments.iter().map(Argument::to_string).collect();
                write!(f, "{function}({})", arguments.join(", "))
            }
        }
    }
}

/// An operand, in parentheses if it binds less strongly than this rank.
struct Operand<'a>(&'a Expr, u8);

impl fmt::Display for Operand<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rank = match &self.0.kind {
            ExprKind::Binary(operator, ..) => operator.rank(),
            ExprKind::Negated(_) => 2,
            _ => 4,
        };
        if rank < self.1 { write!(f, "({})", self.0) } else { self.0.fmt(f) }
    }
}

impl fmt::Display for Argument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(name) = &self.name {
            write!(f, "{name}=")?;
        }
        self.value.fmt(f)
    }
}

impl Expr {
    /// Calls `visit` with the name and position of each column in it, in order.
    pub fn columns(&self, visit: &mut impl FnMut(&str, usize)) {
        match &self.kind {
            ExprKind::Number(_) | ExprKind::Text(_) | ExprKind::Truth(_) => {}
            ExprKind::Column(name) => visit(name, self.at),
            ExprKind::Negated(of) => of.columns(visit),
            ExprKind::Binary(_, left, right) => {
                left.columns(visit);
                right.columns(visit);
            }
            ExprKind::List(values) => values.iter().for_each(|value| value.columns(visit)),
            ExprKind::Call { arguments, .. } => {
                arguments.iter().for_each(|argument| argument.value.columns(visit));
            }
        }
    }
}
