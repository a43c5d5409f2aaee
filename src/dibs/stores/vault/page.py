"""One Markdown file: its front matter, what it says, and the notes that the desk has put below."""

from __future__ import annotations

from hashlib import sha256

from dibs.stores.vault import frontmatter
from dibs.stores.vault.frontmatter import FrontMatter
from dibs.stores.vault.values import PAGE_PROOF

# Above this line is the task, below it the record of the work on it, where agents add their notes.
MARKER = "<!-- dibs: the task ends here, notes on the work follow -->"


class Page:
    """A file's text in its parts. Whatever is not set anew comes out as it went in, byte for byte."""

    def __init__(self, text: str) -> None:
        self._opening, block, self._closing, body = frontmatter.split(text)
        self.newline = "\r\n" if text[: text.find("\n")].endswith("\r") else "\n"
        self._had_front = block is not None
        self.front = FrontMatter(block or "", self.newline)
        self._head, self._marker, self.notes = _split_notes(body)

    @property
    def description(self) -> str:
        """The text without the empty line that sets it off from the front matter, and without the last line's end."""
        text = self._head
        if self._had_front:
            text = text.removeprefix(self.newline)
        return text.removesuffix(self.newline)

    @description.setter
    def description(self, value: str) -> None:
        self._head = f"{self.newline}{value}{self.newline}"
        self._had_front = True

    def give_front(self) -> None:
        """Let there be a front matter, set off by an empty line from the text, which stays as it is."""
        if not self._had_front:
            self._head = f"{self.newline}{self._head}"
            self._had_front = True

    def add_note(self, note: str) -> None:
        if not self._marker:
            self._marker = f"\n{MARKER}\n"
        self.notes += f"\n{note}" if self.notes else note

    def text(self) -> str:
        body = f"{self._head}{self._marker}{self.notes}"
        if not self._had_front:
            return f"{self._opening}{body}"
        return frontmatter.joined(self._opening, self.front, self._closing, body)

    def heading(self) -> str | None:
        """The first heading of the task's text."""
        for line in self._head.split("\n"):
            if line.startswith("# "):
                return line[2:].strip().rstrip("#").strip() or None
        return None

    def digest(self) -> str:
        """What the task says, as it stands, but for this digest itself and for the notes."""
        said = sha256(f"{self.front.text(without=PAGE_PROOF)}\n{self._head}".encode()).hexdigest()[:32]
        return f"sha256:{said}"


def _split_notes(body: str) -> tuple[str, str, str]:
    """The marker takes the line break before it along: the text above may have come without one."""
    start = body.find(MARKER)
    if start < 0 or body[start - 1 : start] not in ("", "\n"):
        return body, "", ""
    end = body.find("\n", start) + 1 or len(body)
    before = 2 if body[:start].endswith("\r\n") else min(1, start)
    return body[: start - before], body[start - before : end], body[end:]
