"""Hooks of MkDocs: generated pages, formulas as MathML, links out of the documentation."""

import html
import pathlib
import posixpath
import re
import sys

from latex2mathml.converter import convert
from mkdocs.structure.files import File

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "website"))

from cli import command_line  # noqa: E402
from options import options  # noqa: E402


def on_config(config):
    """List the pages of docs/ that the navigation does not name under "How to"."""
    named = re.findall(r"'([^']*\.md)'", repr(config.nav))
    docs = pathlib.Path(config.docs_dir)
    group = next(entry["How to"] for entry in config.nav if "How to" in entry)
    group += [page.name for page in sorted(docs.glob("*.md")) if page.name not in named]
    return config


def on_files(files, config):
    """Add the pages that do not come from docs/."""
    files.append(File.generated(config, "reference/cli.md", content=command_line()))
    files.append(File.generated(config, "changelog.md", content=(ROOT / "CHANGELOG.md").read_text()))
    return files


def on_page_markdown(markdown, page, config, files):
    """Insert lists of options; point links out of docs/ to the repository, or make them plain text without one."""
    folder = posixpath.dirname(page.file.src_uri)

    def outward(match: re.Match) -> str:
        text, target = match[1], match[2]
        path = posixpath.normpath(posixpath.join("docs", folder, target.partition("#")[0]))
        if path.startswith("docs/") or "://" in target:
            return match[0]
        if not (ROOT / path).exists():
            raise SystemExit(f"{page.file.src_uri}: link to {target}, which does not exist")
        return f"[{text}]({config.repo_url}/blob/main/{path})" if config.repo_url else f"{text} (`{path}`)"

    markdown = re.sub(r"<!-- options: (\w+) -->", lambda match: options(match[1]), markdown)
    return re.sub(r"(?<!!)\[([^\]]*)\]\(((?:\.\./)+[^)]+)\)", outward, markdown)


def on_page_content(content, page, config, files):
    """Turn TeX into MathML, which browsers show without a script, and roles of docstrings into code."""

    def formula(match: re.Match) -> str:
        tex = html.unescape(match[2])
        display = "block" if tex.startswith(r"\[") else "inline"
        return convert(tex[2:-2].strip(), display=display)

    content = re.sub(r'<(span|div) class="arithmatex">(.*?)</\1>', formula, content, flags=re.DOTALL)
    return re.sub(r":(?:class|func|meth|attr):<code>[~.]?([^<]*)</code>", r"<code>\1</code>", content)
