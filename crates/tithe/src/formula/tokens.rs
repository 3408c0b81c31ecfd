//! Splits a formula into tokens, each with its position.

use super::error;
use crate::base::error::Result;

/// The smallest units of a formula.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    /// A name, quoted or not.
    Name { name: String, is_quoted: bool },
    /// A number that is not negative.
    Number(f64),
    /// A text in quotation marks.
    Text(String),
    /// An operator, bracket or comma.
    Symbol(&'static str),
    /// The end of the formula.
    End,
}

/// Operators and brackets; a longer one comes before its own beginning.
const SYMBOLS: [&str; 24] = [
    "||", "**", "<=", ">=", "==", "!=", "~", "+", "-", "*", "/", ":", "^", "(", ")", "[", "]", ",", "=", "|",
    "<", ">", "%in%", "%",
];

impl Token {
    /// The token as a message shows it.
    pub(super) fn describe(&self) -> String {
        match self {
            Token::Name { name, .. } => format!("'{name}'"),
            Token::Number(number) => format!("'{number}'"),
            Token::Text(text) => format!("\"{text}\""),
            Token::Symbol(symbol) => format!("'{symbol}'"),
            Token::End => "the end of the formula".to_string(),
        }
    }
}

/// The tokens of a formula with their positions in characters; the last one is [`Token::End`].
pub(super) fn tokens(formula: &str) -> Result<Vec<(Token, usize)>> {
    let characters: Vec<char> = formula.chars().collect();
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(&first) = characters.get(at) {
        let rest = &characters[at..];
        let (token, length) = match first {
            _ if first.is_whitespace() => {
                at += 1;
                continue;
            }
            '`' => {
                let (name, length) = quoted(formula, rest, at)?;
                (Token::Name { name, is_quoted: true }, length)
            }
            '"' | '\'' => {
                let (text, length) = quoted(formula, rest, at)?;
                (Token::Text(text), length)
            }
            _ if first.is_ascii_digit() || first == '.' && rest.get(1).is_some_and(char::is_ascii_digit) => {
                number(formula, rest, at)?
            }
            _ if is_name(first) => {
                let length = rest.iter().take_while(|c| is_name(**c) || c.is_ascii_digit()).count();
                (Token::Name { name: rest[..length].iter().collect(), is_quoted: false }, length)
            }
            _ => {
                let starts = |symbol: &&&str| {
                    symbol.chars().zip(rest).filter(|(a, b)| a == *b).count() == symbol.len()
                };
                match SYMBOLS.iter().find(starts) {
                    Some(symbol) => (Token::Symbol(symbol), symbol.len()),
                    None => return Err(error(formula, at, format!("'{first}' has no meaning here"), None)),
                }
            }
        };
        tokens.push((token, at));
        at += length;
    }
    tokens.push((Token::End, characters.len()));
    Ok(tokens)
}

/// True for a character of a name; digits may follow the first one.
pub(super) fn is_name(character: char) -> bool {
    character.is_alphabetic() || character == '_' || character == '.'
}

/// A name or text between two equal quotation marks, and its length with them.
fn quoted(formula: &str, rest: &[char], at: usize) -> Result<(String, usize)> {
    let mark = rest[0];
    match rest[1..].iter().position(|c| *c == mark) {
        Some(length) => Ok((rest[1..=length].iter().collect(), length + 2)),
        None => Err(error(formula, at, format!("there is no second {mark} that ends this"), None)),
    }
}

/// A number in decimal or scientific notation, and its length.
fn number(formula: &str, rest: &[char], at: usize) -> Result<(Token, usize)> {
    let digits = |from: usize| rest[from.min(rest.len())..].iter().take_while(|c| c.is_ascii_digit()).count();
    let mut length = digits(0);
    if rest.get(length) == Some(&'.') {
        length += 1 + digits(length + 1);
    }
    if matches!(rest.get(length), Some('e' | 'E')) {
        let sign = usize::from(matches!(rest.get(length + 1), Some('+' | '-')));
        let exponent = digits(length + 1 + sign);
        length += if exponent > 0 { 1 + sign + exponent } else { 0 };
    }
    let text: String = rest[..length].iter().collect();
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() && !rest.get(length).is_some_and(|c| is_name(*c)) => {
            Ok((Token::Number(number), length))
        }
        Ok(number) if number.is_finite() => {
            let what = "a name cannot start with a digit; write it between back quotes: `2nd`";
            Err(error(formula, at, what, None))
        }
        _ => Err(error(formula, at, format!("'{text}' is not a number"), None)),
    }
}
