"""Running git so that it does the same on every machine: no prompt, no editor, no hooks, no secrets in what it says."""

import os
import re
import signal
import subprocess
from collections.abc import Collection
from typing import NamedTuple

from dibs.core.errors import StoreError, StoreUnavailable

# What would point git at another repository than the vault's, or make it chatter.
_FOREIGN = re.compile(
    r"GIT_(?:DIR|WORK_TREE|IMPLICIT_WORK_TREE|COMMON_DIR|INDEX_FILE|OBJECT_DIRECTORY|ALTERNATE_OBJECT_DIRECTORIES|PREFIX"
    r"|NAMESPACE|SHALLOW_FILE|GRAFT_FILE|REPLACE_REF_BASE|NO_REPLACE_OBJECTS|EXTERNAL_DIFF|\w+_PATHSPECS|TRACE\w*"
    r"|CURL_VERBOSE|REDIRECT_\w+)"
)
_ALWAYS = {
    "LC_ALL": "C",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_EDITOR": "false",
    "GIT_OPTIONAL_LOCKS": "0",
    "SSH_ASKPASS_REQUIRE": "never",
}
_SETTINGS = (
    "core.hooksPath=/dev/null",  # a hook that asks or edits would stop agents; the remote's hooks have their say
    "core.autocrlf=false",  # bytes stay what they are, unless the repository's own attributes say otherwise
    "core.fsmonitor=false",
    "commit.gpgSign=false",
    "push.gpgSign=false",
    "push.followTags=false",
    "push.recurseSubmodules=no",
    "advice.detachedHead=false",
)
_SECRET = re.compile(r"(?<=://)[^\s/]*@")
_SAYS_NOTHING = ("To ", "hint:", "error: failed to push some refs")
_ADVICE = "\nAnother git process seems to be running"  # with more lines than what it is about
_LINES_TOLD = 3
_NOBODY = {"NAME": "dibs", "EMAIL": "dibs@localhost"}


class Ran(NamedTuple):
    """What a command came to. `status` None: it did not answer in time and was ended."""

    status: int | None
    out: bytes
    said: str

    @property
    def ok(self) -> bool:
        return self.status == 0


class Git:
    """The git command, in one clone."""

    def __init__(self, root: str, timeout: float) -> None:
        self.root = root
        self.timeout = timeout
        self._environment = {key: value for key, value in os.environ.items() if not _FOREIGN.fullmatch(key)} | _ALWAYS
        self._introduced = False

    def run(self, *words: str, given: bytes = b"", index: str | None = None) -> Ran:
        """Run it to its end, whatever that is. It has no terminal, and a signal to us does not reach it."""
        settings = [word for setting in _SETTINGS for word in ("-c", setting)]
        environment = self._environment if index is None else {**self._environment, "GIT_INDEX_FILE": index}
        try:
            process = subprocess.Popen(  # noqa: S603 - a fixed program, and words that no shell reads
                ["git", "-C", self.root, *settings, *words],  # noqa: S607 - the git that the person uses
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=environment,
                start_new_session=True,
            )
        except FileNotFoundError:
            raise StoreUnavailable("There is no git on this machine. Install it, or use the vault without.") from None
        with process:
            try:
                out, told = process.communicate(given, self.timeout)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                return Ran(None, b"", f"no answer within {self.timeout:g} s")
            except BaseException:
                os.killpg(process.pid, signal.SIGKILL)
                raise
        return Ran(process.returncode, out, _tellable(told))

    def do(self, *words: str, given: bytes = b"", index: str | None = None) -> bytes:
        """Run what must succeed, and give its output."""
        ran = self.run(*words, given=given, index=index)
        if not ran.ok:
            raise StoreError(f"git {words[0]} failed in {self.root}: {ran.said or f'status {ran.status}'}")
        return ran.out

    def ask(self, *words: str, answers: Collection[int] = (0,)) -> str | None:
        """One line of answer; None where git says that there is none, by one of the other statuses expected."""
        ran = self.run(*words)
        if ran.ok:
            return ran.out.decode(errors="surrogateescape").rstrip("\n")
        if ran.status in answers:
            return None
        raise StoreError(f"git {words[0]} failed in {self.root}: {ran.said or f'status {ran.status}'}")

    def introduce(self) -> None:
        """Where this machine has no name to commit under, take ours."""
        if self._introduced:
            return
        for role in ("AUTHOR", "COMMITTER"):
            if not self.run("var", f"GIT_{role}_IDENT").ok:
                self._environment |= {f"GIT_{role}_{part}": value for part, value in _NOBODY.items()}
        self._introduced = True


def _tellable(told: bytes) -> str:
    """The last lines of what git said, without what may stand in a URL before the host."""
    lines = [line.strip() for line in told.decode(errors="replace").partition(_ADVICE)[0].splitlines()]
    telling = [line for line in lines if line and not line.startswith(_SAYS_NOTHING)]
    return _SECRET.sub("…@", "; ".join(telling[-_LINES_TOLD:]))
