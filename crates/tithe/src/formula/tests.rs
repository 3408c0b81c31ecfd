//! Tests of the model language.

use super::*;

const COLUMNS: [&str; 8] = ["y", "a", "b", "c", "x", "z", "g", "two words"];

fn columns() -> Vec<String> {
    COLUMNS.map(str::to_string).to_vec()
}

fn formula(text: &str) -> Formula {
    Syntax::parse(text)
        .and_then(|syntax| syntax.expand(&columns(), &[]))
        .unwrap_or_else(|error| panic!("{error}"))
}

fn message(text: &str) -> String {
    let expanded = Syntax::parse(text).and_then(|syntax| syntax.expand(&columns(), &[]));
    expanded.map(|formula| panic!("{formula:?}")).unwrap_err().to_string()
}

#[test]
fn formulas_are_expanded_as_in_r() {
    for (text, expected) in [
        ("y ~ 1", "1"),
        ("y ~ a", "1 + a"),
        ("y ~ a - 1", "0 + a"),
        ("y ~ 0 + a", "0 + a"),
        ("y ~ -1 + a", "0 + a"),
        ("y ~ a + 0 + 1", "1 + a"),
        ("y ~ a - 0", "1 + a"),
        ("y ~ a + a + b", "1 + a + b"),
        ("y ~ a * b", "1 + a + b + a:b"),
        ("y ~ a:b + a", "1 + a + a:b"),
        ("y ~ a:b + b:a", "1 + a:b"),
        ("y ~ a * b * c", "1 + a + b + c + a:b + a:c + b:c + a:b:c"),
        ("y ~ a * b * c - a:b:c", "1 + a + b + c + a:b + a:c + b:c"),
        ("y ~ (a + b + c)^2", "1 + a + b + c + a:b + a:c + b:c"),
        ("y ~ (a + b + c)**3", "1 + a + b + c + a:b + a:c + b:c + a:b:c"),
        ("y ~ a / b", "1 + a + a:b"),
        ("y ~ (a + b) / c", "1 + a + b + a:b:c"),
        ("y ~ a / b / c", "1 + a + a:b + a:b:c"),
        ("y ~ (a + b):x", "1 + a:x + b:x"),
        ("y ~ a + b * x", "1 + a + b + x + b:x"),
        ("y ~ a:b * c", "1 + c + a:b + a:b:c"),
        ("y ~ .", "1 + a + b + c + x + z + g + `two words`"),
        ("y ~ . - a - `two words`", "1 + b + c + x + z + g"),
        ("y ~ log(x + 1) + I(x ^ 2) + I(-x**2 * 3)", "1 + log(x + 1) + I(x^2) + I(-x^2*3)"),
        ("y ~ I((x + 1) * -z / (2 - x))", "1 + I((x + 1)*(-z)/(2 - x))"),
        ("y ~ I(x^z^2) + I((x^z)^2) + I(2^-x)", "1 + I(x^z^2) + I((x^z)^2) + I(2^(-x))"),
        ("y ~ I(x >= 1e-3) + I(x - (z - 1))", "1 + I(x >= 0.001) + I(x - (z - 1))"),
        (
            "y ~ bs( x ,df = 5, knots=c(1,2.5)) : C(a, ref='u v')",
            "1 + bs(x, df=5, knots=[1, 2.5]):C(a, ref=\"u v\")",
        ),
        ("y ~ `two words`:x", "1 + `two words`:x"),
    ] {
        assert_eq!(formula(text).fixed.to_string(), expected, "{text}");
        // Read again, the canonical form is itself.
        assert_eq!(formula(&format!("y ~ {expected}")).fixed.to_string(), expected, "{text}");
    }
}

#[test]
fn offsets_are_separate() {
    let read = formula("y ~ x + offset(log(z)) + offset(b)");
    assert_eq!(read.fixed.to_string(), "1 + x");
    let offsets: Vec<String> = read.offsets.iter().map(Expr::to_string).collect();
    assert_eq!(offsets, ["log(z)", "b"]);
    assert_eq!(read.response.as_deref(), Some("y"));
    assert_eq!(formula("~ x").response, None);
}

#[test]
fn random_effects_have_terms_and_groups() {
    for (text, expected) in [
        ("y ~ x + (1 | g)", &["(1 | g)"][..]),
        ("y ~ x + (x | g)", &["(1 + x | g)"]),
        ("y ~ x + (0 + x || g) + (1 | a:b)", &["(0 + x || g)", "(1 | a:b)"]),
        ("y ~ x + (1 + x * z | a / b)", &["(1 + x + z + x:z | a)", "(1 + x + z + x:z | a:b)"]),
        ("y ~ (1 | `two words`)", &["(1 | `two words`)"]),
    ] {
        let groups: Vec<String> = formula(text).groups.iter().map(GroupTerm::to_string).collect();
        assert_eq!(groups, expected, "{text}");
    }
}

#[test]
fn errors_point_at_the_character() {
    for (text, what, pointer) in [
        ("y ~ (a + b", "this '(' is never closed", "      ^"),
        ("y ~ log(a", "this '(' is never closed", "         ^"),
        ("y ~ a + b)", "there is no '(' that this ')' closes", "           ^"),
        ("y ~ a +", "expected a term, found the end of the formula", "         ^"),
        ("y ~ a b", "expected an operator, found 'b'", "        ^"),
        ("y ~", "expected a term, found the end of the formula", "     ^"),
        ("a + b", "a formula has a '~' between label and terms: y ~ x", "  ^"),
        ("log(y) ~ a", "the left side of '~' is the name of the label's column", "  ^"),
        ("y ~ a + 2", "a number cannot be a term", "          ^"),
        ("y ~ x^2.5", "the power of terms is a whole number", "        ^"),
        ("y ~ a + $", "'$' has no meaning here", "          ^"),
        ("y ~ `a", "there is no second ` that ends this", "      ^"),
        ("y ~ ä + aa", "there is no column 'ä'", "      ^"),
        ("y ~ x + zz + b", "there is no column 'zz'", "          ^"),
        ("y ~ a * (1 | g)", "an offset or a random effect can only be added", "          ^"),
        ("y ~ 1 | g", "a random effect is written in parentheses", "        ^"),
        ("y ~ a ~ b", "a formula has one '~'", "        ^"),
        ("y ~ a * 0", "0 and 1 can only be added or removed", "          ^"),
        ("y ~ (1 | log(g))", "the groups are columns, and log(g) is not one", "           ^"),
        ("y ~ bs(x, df=5, 3)", "an argument without a name cannot follow", "                  ^"),
        ("y ~ 2nd", "a name cannot start with a digit", "      ^"),
        ("y ~ (1 | g) + (1 | g)", "the random effect (1 | g) occurs twice", "                ^"),
    ] {
        let message = message(text);
        assert!(message.contains(what), "{text}: {message}");
        assert!(message.ends_with(&format!("\n  {text}\n{pointer}")), "{text}:\n{message}");
    }
    assert!(message("y ~ lo + two_words").contains("no column 'lo'"));
    assert!(message("y ~ `two wrds`").contains("(did you mean 'two words'?)"));
}

#[test]
fn no_input_exhausts_the_stack_or_memory() {
    let nested = |open: &str, close: &str| format!("y ~ {}x{}", open.repeat(100_000), close.repeat(100_000));
    for text in [
        nested("(", ")"),
        nested("log(", ")"),
        nested("I(-", ")"),
        format!("y ~ I({}x)", "-".repeat(100_000)),
    ] {
        assert!(message(&text).contains("nested more than"), "{}", &text[..20]);
    }
    let many: Vec<String> = (0..300).map(|at| format!("I(x^{at})")).collect();
    assert!(message(&format!("y ~ ({})^3", many.join(" + "))).contains("more than 10000 terms"));
    let long = format!("y ~ {}", vec!["x"; 20_000].join(" + "));
    assert_eq!(formula(&long).fixed.to_string(), "1 + x");
}
