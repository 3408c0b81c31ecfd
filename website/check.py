"""Checks the built site: every link and anchor exists, and nothing is loaded from another server.

python website/check.py target/site
"""

import pathlib
import sys
from html.parser import HTMLParser
from urllib.parse import unquote, urlsplit

LOADED = {("script", "src"), ("img", "src"), ("iframe", "src"), ("source", "src"), ("link", "href")}


class Page(HTMLParser):
    """The anchors and references of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.references: list[tuple[str, bool]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        """Remember anchors and references."""
        for name, value in attributes:
            if name in ("id", "name") and value:
                self.anchors.add(value)
            if name in ("href", "src") and value is not None:
                self.references.append((value, (tag, name) in LOADED))


def faults(site: pathlib.Path) -> list[str]:
    """Everything that is wrong with a site, one line each."""
    pages = {path: Page(path.read_text()) for path in site.rglob("*.html")}
    found = []
    for path, page in pages.items():
        where = path.relative_to(site)
        for reference, is_loaded in page.references:
            parts = urlsplit(reference)
            if parts.scheme or parts.netloc:
                if is_loaded and parts.scheme != "data":
                    found.append(f"{where}: loads {reference}")
                continue
            if path.name == "404.html":
                continue
            target = path if not parts.path else (path.parent / unquote(parts.path)).resolve()
            if target.is_dir():
                target /= "index.html"
            if not target.exists():
                found.append(f"{where}: {reference} does not exist")
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
                found.append(f"{where}: {reference} has no such anchor")
    for sheet in site.rglob("*.css"):
        text = sheet.read_text()
        if "url(http" in text or "@import" in text:
            found.append(f"{sheet.relative_to(site)}: loads something from another server")
    if len(pages) < 10:
        found.append(f"only {len(pages)} pages")
    return sorted(set(found))


if __name__ == "__main__":
    problems = faults(pathlib.Path(sys.argv[1]).resolve())
    print("\n".join(problems))
    sys.exit(bool(problems))
