//! Answers in tables: "no" is the reference level of a column, "yes" the positive class of a label.

/// Pairs of a negative and a positive answer.
const ANSWERS: [(&str, &str); 10] = [
    ("no", "yes"),
    ("n", "y"),
    ("false", "true"),
    ("f", "t"),
    ("off", "on"),
    ("nein", "ja"),
    ("non", "oui"),
    ("no", "sí"),
    ("no", "si"),
    ("nee", "ja"),
];

/// True if two texts are a negative and a positive answer.
pub(super) fn are_answers(negative: &str, positive: &str) -> bool {
    let (negative, positive) = (negative.trim().to_lowercase(), positive.trim().to_lowercase());
    ANSWERS.contains(&(&negative, &positive))
}
