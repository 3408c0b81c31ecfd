"""The keyword arguments of the Python package, from the source of its classes of options."""

import ast
import pathlib

PACKAGE = pathlib.Path(__file__).resolve().parents[1] / "python/tithe"


def classes() -> dict[str, ast.ClassDef]:
    """All classes of options by name."""
    trees = [ast.parse(path.read_text()) for path in sorted(PACKAGE.glob("*.py"))]
    found = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    return {node.name: node for node in found if node.name.endswith("Options")}


def options(name: str) -> str:
    """The options of a class as Markdown: a definition list per class that it inherits from."""
    known = classes()

    def ancestors(node: ast.ClassDef) -> list[ast.ClassDef]:
        bases = [known[base.id] for base in node.bases if isinstance(base, ast.Name) and base.id in known]
        return [node, *(each for base in bases for each in ancestors(base))]

    words = []
    for node in dict.fromkeys(ancestors(known[name])):
        fields = [each for each in node.body if isinstance(each, ast.AnnAssign)]
        if fields and node.name != name:
            words.append(f"*{ast.get_docstring(node)}*")
        for field in fields:
            kind, option = field.annotation.slice.elts
            default, _, text = option.args
            shown = f"`{field.target.id}`: `{ast.unparse(kind)}` = `{ast.unparse(default)}`"
            words.append(f"{shown}\n:   {ast.literal_eval(text).replace('``', '`')}")
    return "\n\n".join(words)
