//! The text form of effects that vary by group: `1 + price | shop`.

use crate::base::error::{Error, Result, Setting};
use crate::encoding::GroupFactor;

/// Reads a random-effects term as a formula has it, with or without the parentheses.
pub(super) fn group_factor(text: &str) -> Result<GroupFactor> {
    let wrong = |what: String| {
        Error::setting(Setting::Groups, what)
            .with_help("write for example '1 + price | shop', or '1 | shop' for intercepts only")
    };
    let term = text.trim();
    let term = term.strip_prefix('(').and_then(|term| term.strip_suffix(')')).unwrap_or(term);
    let correlated = !term.contains("||");
    let Some((effects, column)) = term.split_once(if correlated { "|" } else { "||" }) else {
        return Err(wrong(format!("'{text}' has no '|' between the effects and the column of the groups")));
    };
    let column = name(column);
    if column.is_empty() || column.contains(['|', ':', '/', '+']) {
        return Err(wrong(format!("'{column}' is not the name of one column")));
    }
    let mut factor = GroupFactor { correlated, ..GroupFactor::intercept(column) };
    for effect in effects.split('+').map(name) {
        match effect {
            "" => return Err(wrong(format!("'{text}' has an effect without a name"))),
            "0" => factor.intercept = false,
            "1" => factor.intercept = true,
            slope if factor.slopes.iter().any(|known| known == slope) => {
                return Err(wrong(format!("'{text}' has '{slope}' twice")));
            }
            slope => factor.slopes.push(slope.to_string()),
        }
    }
    if !factor.intercept && factor.slopes.is_empty() {
        return Err(wrong(format!("'{text}' has no effect that varies")));
    }
    Ok(factor)
}

/// The random-effects terms of a formula: what is in parentheses and has a `|` outside of inner parentheses.
pub(super) fn terms_of_groups(formula: &str) -> Vec<&str> {
    let (mut open, mut terms) = (Vec::new(), Vec::new());
    for (at, character) in formula.char_indices() {
        match character {
            '(' => open.push((at + 1, false)),
            '|' => open.iter_mut().for_each(|(_, has_bar)| *has_bar = true),
            ')' => {
                if let Some((start, true)) = open.pop() {
                    terms.push(&formula[start..at]);
                    open.iter_mut().for_each(|(_, has_bar)| *has_bar = false);
                }
            }
            _ => {}
        }
    }
    terms
}

/// A name without spaces around it and without backquotes.
fn name(text: &str) -> &str {
    let text = text.trim();
    text.strip_prefix('`').and_then(|text| text.strip_suffix('`')).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_of_groups_are_found_in_formulas() {
        let found = terms_of_groups("y ~ log(x + 1) + (1 | a) + (x || b) + poly(z, 2)");
        assert_eq!(found, ["1 | a", "x || b"]);
        assert!(terms_of_groups("y ~ x * (a + b)").is_empty());
    }

    #[test]
    fn terms_are_read_as_in_formulas() {
        let read = |text: &str| group_factor(text).expect(text);
        assert_eq!(read("1 | shop"), GroupFactor::intercept("shop"));
        assert_eq!(read("(1|shop)"), GroupFactor::intercept("shop"));
        let both = read("1 + price || `the shop`");
        assert_eq!((both.column.as_str(), both.correlated, both.intercept), ("the shop", false, true));
        assert_eq!(both.slopes, ["price"]);
        // As in R, an intercept varies unless it is excluded.
        assert!(read("price | shop").intercept);
        assert!(!read("0 + price | shop").intercept);
        for wrong in ["shop", "1 |", "| shop", "1 | a:b", "0 | shop", "x + x | shop", "1 | a | b", ""] {
            assert!(group_factor(wrong).is_err(), "{wrong}");
        }
    }
}
