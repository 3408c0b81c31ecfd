"""The reference of the command line, from its own help."""

import os
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[1]
TITHE = pathlib.Path(os.environ.get("TITHE", ROOT / "target/debug/tithe")).resolve()


def run(*words: str) -> str:
    """Run the program; help is as wide as it likes, because it is wrapped again."""
    return subprocess.run([TITHE, *words], check=True, capture_output=True, text=True).stdout


def commands() -> list[tuple[str, str]]:
    """The commands with their descriptions."""
    listed = run("-h").partition("Commands:\n")[2].partition("\n\n")[0]
    found = [re.match(r"  (\S+)\s+(.*)", line) for line in re.sub(r"\n {5,}", " ", listed).splitlines()]
    return [(match[1], match[2]) for match in found if match and match[1] != "help"]


def sections(text: str) -> list[tuple[str, list[tuple[str, list[str]]]]]:
    """The parts of a long help: title, and entries with the lines of their descriptions."""
    parts: list[tuple[str, list[tuple[str, list[str]]]]] = []
    for line in text.splitlines():
        if title := re.fullmatch(r"(\w[\w ]*):", line):
            parts.append((title[1], []))
        elif not parts:
            continue
        elif entry := re.fullmatch(r" {2,6}([-<\[].*)", line):
            parts[-1][1].append((entry[1], []))
        elif parts[-1][1]:
            parts[-1][1][-1][1].append(line.strip())
    return [part for part in parts if part[1]]


def described(lines: list[str]) -> str:
    """The description of an option as Markdown."""
    paragraphs, values = [[]], []
    for line in lines:
        if value := re.fullmatch(r"- (\S+):\s+(.*)", line):
            values.append([value[1], value[2]])
        elif values and line and not line.startswith("["):
            values[-1][1] += f" {line}"
        elif line and line != "Possible values:":
            paragraphs[-1].append(line)
        else:
            paragraphs.append([])
    blocks = [escaped(" ".join(paragraph)) for paragraph in paragraphs if paragraph]
    default = [block for block in blocks if block.startswith("\\[default")]
    blocks = [block for block in blocks if block not in default]
    if values:
        blocks.append("\n".join(f"- `{name}`: {escaped(meaning)}" for name, meaning in values))
    return "\n\n".join(blocks + default)


def escaped(text: str) -> str:
    """Text as Markdown: what looks like an option, a file or code stays as it is."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(part if part.startswith("`") else re.sub(r"([\\<>*_\[\]$|])", r"\\\1", part) for part in parts)


def command_line() -> str:
    """The page of the command line: a section per command, a definition list per group of options."""
    words = [
        "# Command line",
        (
            "`tithe COMMAND --help` prints the same, and `tithe man` a manual page. Exit codes: 0 success, 1 an error "
            "or (with `--strict`) a warning, 2 a command that is not understood."
        ),
        "\n".join(f"- [`tithe {name}`](#{name}): {escaped(meaning)}" for name, meaning in commands()),
    ]
    for name, meaning in commands():
        text = run(name, "--help")
        usage = re.search(r"Usage: (.*?)\n\n", text, re.DOTALL)
        words += [f"## tithe {name} {{#{name}}}", f"{escaped(meaning)}."]
        if usage:
            words.append(f"```text\n{' '.join(usage[1].split())}\n```")
        for title, entries in sections(text):
            words.append(f"**{title}**")
            for entry, lines in entries:
                option = re.search(r"--([\w-]+)", entry)
                if option and option[1] in ("help", "version"):
                    continue
                anchor = f" {{: #{name}-{option[1]} }}" if option else ""
                body = described(lines).replace("\n", "\n    ")
                words.append(f"`{entry}`{anchor}\n:   {body}")
    return "\n\n".join(words) + "\n"
