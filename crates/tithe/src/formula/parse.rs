//! Parses a formula into a tree of operators on terms; [`super::expand`] turns it into a list of terms.

use super::error;
use super::expression::{Argument, Expr, ExprKind, Operator};
use super::tokens::{Token, tokens};
use crate::base::error::{Error, Result};

/// Parentheses, calls, signs and chains of operators may be nested this deeply; only sums of terms have any length.
const MOST_NESTED: usize = 100;

/// A formula that was parsed, but whose terms are not yet expanded.
#[derive(Clone, Debug)]
pub struct Syntax {
    pub(super) text: String,
    pub(super) response: Option<String>,
    pub(super) right: Node,
}

/// An operation on sets of terms.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) kind: NodeKind,
    pub(super) at: usize,
}

#[derive(Clone, Debug)]
pub(super) enum NodeKind {
    /// `1`: the intercept.
    One,
    /// `0`: no intercept.
    Zero,
    /// `.`: all other columns.
    AllColumns,
    /// A factor.
    Factor(Expr),
    /// `offset(x)`.
    Offset(Expr),
    /// `a + b - c`
    Sum(Vec<(Sign, Node)>),
    /// `a:b`
    Interaction(Box<Node>, Box<Node>),
    /// `a * b`: both, and their interaction.
    Crossing(Box<Node>, Box<Node>),
    /// `a / b`: `a`, and `b` within the levels of `a`.
    Nesting(Box<Node>, Box<Node>),
    /// `a^n`: all interactions of at most n.
    Power(Box<Node>, usize),
    /// `(terms | factor)`
    Group { terms: Box<Node>, correlated: bool, factor: Box<Node> },
}

/// Whether terms are added or removed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Sign {
    Plus,
    Minus,
}

impl Syntax {
    /// Parses a formula.
    ///
    /// # Errors
    /// If it does not follow the grammar; the error points at the character.
    pub fn parse(formula: &str) -> Result<Syntax> {
        let mut parser = Parser { formula, tokens: tokens(formula)?, next: 0, depth: 0 };
        let response = parser.response()?;
        if parser.peek() == &Token::End {
            return Err(parser.expected("a term"));
        }
        let right = parser.sum()?;
        match parser.peek() {
            Token::End => Ok(Syntax { text: formula.to_string(), response, right }),
            Token::Symbol(")") => Err(parser.error("there is no '(' that this ')' closes")),
            Token::Symbol("~") => Err(parser.error("a formula has one '~'")),
            Token::Symbol("|" | "||") => {
                Err(parser.error("a random effect is written in parentheses: (1 | g)"))
            }
            _ => Err(parser.expected("an operator")),
        }
    }

    /// The formula as the user wrote it.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The column on the left of `~`, if there is one.
    pub fn response(&self) -> Option<&str> {
        self.response.as_deref()
    }

    /// The columns that functions such as `C(x)` use by their levels, so that they are read as text.
    pub fn categorical_columns(&self) -> Vec<String> {
        let mut found = Vec::new();
        self.right.factors(&mut |expr| {
            if let ExprKind::Call { function, arguments } = &expr.kind
                && function == "C"
                && let Some(Argument { name: None, value: Expr { kind: ExprKind::Column(name), .. } }) =
                    arguments.first()
            {
                found.push(name.clone());
            }
        });
        found
    }
}

impl Node {
    /// Calls `visit` with each factor.
    fn factors(&self, visit: &mut impl FnMut(&Expr)) {
        match &self.kind {
            NodeKind::One | NodeKind::Zero | NodeKind::AllColumns => {}
            NodeKind::Factor(expr) | NodeKind::Offset(expr) => visit(expr),
            NodeKind::Power(node, _) => node.factors(visit),
            NodeKind::Sum(nodes) => nodes.iter().for_each(|(_, node)| node.factors(visit)),
            NodeKind::Group { terms: left, factor: right, .. }
            | NodeKind::Interaction(left, right)
            | NodeKind::Crossing(left, right)
            | NodeKind::Nesting(left, right) => {
                left.factors(visit);
                right.factors(visit);
            }
        }
    }
}

struct Parser<'a> {
    formula: &'a str,
    tokens: Vec<(Token, usize)>,
    next: usize,
    depth: usize,
}

impl Parser<'_> {
    fn peek(&self) -> &Token {
        self.tokens.get(self.next).map_or(&Token::End, |(token, _)| token)
    }

    fn at(&self) -> usize {
        self.tokens.get(self.next).or(self.tokens.last()).map_or(0, |(_, at)| *at)
    }

    /// Takes the next token if it is this symbol.
    fn takes(&mut self, symbol: &str) -> bool {
        let is_next = matches!(self.peek(), Token::Symbol(next) if *next == symbol);
        self.next += usize::from(is_next);
        is_next
    }

    /// Takes the next token if it is one of these symbols.
    fn takes_any(&mut self, symbols: &[&'static str]) -> Option<&'static str> {
        symbols.iter().find(|symbol| self.takes(symbol)).copied()
    }

    fn error(&self, what: impl Into<String>) -> Error {
        error(self.formula, self.at(), what, None)
    }

    fn expected(&self, what: &str) -> Error {
        self.error(format!("expected {what}, found {}", self.peek().describe()))
    }

    /// Takes the `)` that belongs to the `(` at position `opened`.
    fn close(&mut self, opened: usize) -> Result<()> {
        if self.takes(")") {
            return Ok(());
        }
        match self.peek() {
            Token::End => Err(error(self.formula, opened, "this '(' is never closed", None)),
            _ => Err(self.expected("an operator or ')'")),
        }
    }

    fn deeper(&mut self) -> Result<()> {
        if self.depth >= MOST_NESTED {
            return Err(self.error(format!("the formula is nested more than {MOST_NESTED} levels deep")));
        }
        self.depth += 1;
        Ok(())
    }

    /// Runs `parse` one level deeper.
    fn nested<T>(&mut self, parse: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.deeper()?;
        let parsed = parse(self);
        self.depth -= 1;
        parsed
    }

    /// `y ~` or `~`.
    fn response(&mut self) -> Result<Option<String>> {
        if self.takes("~") {
            return Ok(None);
        }
        let tilde = self.tokens.iter().position(|(token, _)| *token == Token::Symbol("~"));
        let Some(tilde) = tilde else {
            return Err(error(self.formula, 0, "a formula has a '~' between label and terms: y ~ x", None));
        };
        match (self.peek().clone(), tilde) {
            (Token::Name { name, is_quoted }, 1) if is_quoted || name != "." => {
                self.next = 2;
                Ok(Some(name))
            }
            _ => Err(self.error("the left side of '~' is the name of the label's column")),
        }
    }

    /// Terms with `+` and `-`.
    fn sum(&mut self) -> Result<Node> {
        let at = self.at();
        let mut terms = Vec::new();
        let mut sign = if self.takes("-") { Sign::Minus } else { Sign::Plus };
        if sign == Sign::Plus {
            self.takes("+");
        }
        loop {
            terms.push((sign, self.product()?));
            sign = match self.takes_any(&["+", "-"]) {
                Some("+") => Sign::Plus,
                Some(_) => Sign::Minus,
                None => return Ok(Node { kind: NodeKind::Sum(terms), at }),
            };
        }
    }

    /// Terms with `*` and `/`.
    fn product(&mut self) -> Result<Node> {
        self.chain(&["*", "/"], Self::interaction)
    }

    /// Terms with `:`.
    fn interaction(&mut self) -> Result<Node> {
        self.chain(&[":"], Self::power)
    }

    /// Operands with these operators between them, which associate to the left.
    fn chain(&mut self, symbols: &[&'static str], operand: fn(&mut Self) -> Result<Node>) -> Result<Node> {
        let mut left = operand(self)?;
        let depth = self.depth;
        loop {
            let at = self.at();
            let Some(symbol) = self.takes_any(symbols) else { break };
            self.deeper()?;
            let (one, other) = (Box::new(left), Box::new(operand(self)?));
            let kind = match symbol {
                "*" => NodeKind::Crossing(one, other),
                "/" => NodeKind::Nesting(one, other),
                _ => NodeKind::Interaction(one, other),
            };
            left = Node { kind, at };
        }
        self.depth = depth;
        Ok(left)
    }

    /// A term, possibly with `^n`.
    fn power(&mut self) -> Result<Node> {
        let mut base = self.term()?;
        let depth = self.depth;
        loop {
            let at = self.at();
            if self.takes_any(&["^", "**"]).is_none() {
                self.depth = depth;
                return Ok(base);
            }
            self.deeper()?;
            match *self.peek() {
                Token::Number(n) if (1.0..=20.0).contains(&n) && n.fract() == 0.0 => {
                    self.next += 1;
                    base = Node { kind: NodeKind::Power(Box::new(base), n as usize), at };
                }
                _ => {
                    return Err(self.error(
                        "the power of terms is a whole number from 1 to 20; for the square of a column write I(x^2)",
                    ));
                }
            }
        }
    }

    fn term(&mut self) -> Result<Node> {
        let at = self.at();
        let kind = match self.peek().clone() {
            Token::Symbol("(") => return self.nested(Self::parentheses),
            Token::Number(1.0) => NodeKind::One,
            Token::Number(0.0) => NodeKind::Zero,
            Token::Number(_) => {
                return Err(
                    self.error("a number cannot be a term; only 1 and 0 mean with and without an intercept")
                );
            }
            Token::Name { name, is_quoted: false } if name == "." => NodeKind::AllColumns,
            Token::Name { .. } => {
                let expr = self.nested(Self::primary)?;
                return Ok(match expr.kind {
                    ExprKind::Call { function, mut arguments } if function == "offset" => {
                        match (arguments.pop(), arguments.is_empty()) {
                            (Some(Argument { name: None, value }), true) => {
                                Node { kind: NodeKind::Offset(value), at }
                            }
                            _ => {
                                return Err(error(
                                    self.formula,
                                    at,
                                    "offset takes one expression: offset(x)",
                                    None,
                                ));
                            }
                        }
                    }
                    kind => Node { kind: NodeKind::Factor(Expr { kind, at }), at },
                });
            }
            Token::Text(_) => {
                return Err(
                    self.error("a text cannot be a term; write a column's name between back quotes: `name`")
                );
            }
            _ => return Err(self.expected("a term")),
        };
        self.next += 1;
        Ok(Node { kind, at })
    }

    /// `(terms)` or `(terms | factor)`.
    fn parentheses(&mut self) -> Result<Node> {
        let at = self.at();
        self.next += 1;
        let inner = self.sum()?;
        let Some(bar) = self.takes_any(&["||", "|"]) else {
            self.close(at)?;
            return Ok(inner);
        };
        let factor = Box::new(self.sum()?);
        self.close(at)?;
        Ok(Node { kind: NodeKind::Group { terms: Box::new(inner), correlated: bar == "|", factor }, at })
    }

    /// An expression, as in the arguments of a function.
    fn expression(&mut self) -> Result<Expr> {
        self.nested(|parser| parser.operators(0))
    }

    /// Operators of at least this rank, by precedence climbing.
    fn operators(&mut self, least: u8) -> Result<Expr> {
        let at = self.at();
        let mut left = if self.takes("-") {
            // As in R, a sign binds less strongly than a power and more strongly than a product.
            let of = self.nested(|parser| parser.operators(3))?;
            Expr { kind: ExprKind::Negated(Box::new(of)), at }
        } else {
            self.takes("+");
            self.nested(Self::primary)?
        };
        let depth = self.depth;
        loop {
            let operator = match *self.peek() {
                Token::Symbol(symbol) => Operator::of(symbol),
                _ => None,
            };
            let Some(operator) = operator.filter(|operator| operator.rank() >= least) else {
                self.depth = depth;
                return Ok(left);
            };
            self.next += 1;
            self.deeper()?;
            let of_right = if operator == Operator::Power { 3 } else { operator.rank() + 1 };
            let right = self.nested(|parser| parser.operators(of_right))?;
            left = Expr { kind: ExprKind::Binary(operator, Box::new(left), Box::new(right)), at };
        }
    }

    /// A number, text, column, list, call, or an expression in parentheses.
    fn primary(&mut self) -> Result<Expr> {
        let at = self.at();
        let token = self.peek().clone();
        self.next += 1;
        let kind = match token {
            Token::Number(number) => ExprKind::Number(number),
            Token::Text(text) => ExprKind::Text(text),
            Token::Symbol("(") => {
                let inner = self.expression()?;
                self.close(at)?;
                return Ok(inner);
            }
            Token::Symbol("[") => ExprKind::List(self.list("]", at)?),
            Token::Name { name, is_quoted } if is_quoted || self.peek() != &Token::Symbol("(") => {
                match (&name[..], is_quoted) {
                    ("True" | "TRUE" | "true", false) => ExprKind::Truth(true),
                    ("False" | "FALSE" | "false", false) => ExprKind::Truth(false),
                    (".", false) => {
                        return Err(error(self.formula, at, "'.' cannot be used within a function", None));
                    }
                    _ => ExprKind::Column(name),
                }
            }
            Token::Name { name, .. } => {
                let opened = self.at();
                self.next += 1;
                if name == "c" {
                    ExprKind::List(self.list(")", opened)?)
                } else {
                    ExprKind::Call { function: name, arguments: self.arguments(opened)? }
                }
            }
            _ => {
                self.next -= 1;
                return Err(self.expected("a value"));
            }
        };
        Ok(Expr { kind, at })
    }

    /// Values separated by commas, up to the closing bracket.
    fn list(&mut self, end: &str, opened: usize) -> Result<Vec<Expr>> {
        let mut values = Vec::new();
        while !self.takes(end) {
            if self.peek() == &Token::End {
                return Err(error(self.formula, opened, "this bracket is never closed", None));
            }
            if !values.is_empty() && !self.takes(",") {
                return Err(self.expected(&format!("',' or '{end}'")));
            }
            values.push(self.expression()?);
        }
        Ok(values)
    }

    /// The arguments of a function, up to its `)`.
    fn arguments(&mut self, opened: usize) -> Result<Vec<Argument>> {
        let mut arguments: Vec<Argument> = Vec::new();
        while !self.takes(")") {
            if self.peek() == &Token::End {
                return Err(error(self.formula, opened, "this '(' is never closed", None));
            }
            if !arguments.is_empty() && !self.takes(",") {
                return Err(self.expected("',' or ')'"));
            }
            let name = match (self.peek().clone(), self.tokens.get(self.next + 1)) {
                (Token::Name { name, .. }, Some((Token::Symbol("="), _))) => {
                    self.next += 2;
                    Some(name)
                }
                _ => None,
            };
            if name.is_none() && arguments.last().is_some_and(|last| last.name.is_some()) {
                return Err(self.error("an argument without a name cannot follow one with a name"));
            }
            arguments.push(Argument { name, value: self.expression()? });
        }
        Ok(arguments)
    }
}
