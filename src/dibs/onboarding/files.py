"""Files of the user's: read as they are, written whole or not at all."""

import os
import stat
from contextlib import suppress
from tempfile import mkstemp

from dibs.core.errors import InvalidInput, StoreReadOnly

MOST_BYTES = 4 << 20


def read(path: str) -> str | None:
    """What a text file says, byte for byte; None where there is none. Anything else is refused with the reason."""
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        if os.path.islink(path):
            raise InvalidInput(
                f"{path} is a link that leads nowhere; make what it points to, or take it away."
            ) from None
        return None
    except OSError as error:
        raise InvalidInput(f"Cannot read {path}: {error.strerror}.") from None
    if not stat.S_ISREG(mode):
        raise InvalidInput(f"{path} is not a file; dibs leaves it alone.")
    try:
        with open(path, "rb") as file:
            raw = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise InvalidInput(f"Cannot read {path}: {error.strerror}.") from None
    if len(raw) > MOST_BYTES:
        raise InvalidInput(f"{path} has more than {MOST_BYTES >> 20} MB; dibs leaves it alone.")
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{path} is not UTF-8 (byte {error.start}); dibs leaves it alone.") from None


def of_project(folder: str, name: str) -> str:
    """The path of a file in a project. A link that leads out of the project is refused."""
    path, root = os.path.join(folder, name), os.path.realpath(_root(folder))
    end = os.path.realpath(path)
    if os.path.commonpath([root, end]) != root:
        raise InvalidInput(f"{path} leads to {end}, outside of the project; dibs leaves it alone.")
    return path


def _root(folder: str) -> str:
    """The top of the repository, or the folder itself."""
    above = os.path.abspath(folder)
    while not os.path.exists(os.path.join(above, ".git")):
        if above == os.path.dirname(above):
            return folder
        above = os.path.dirname(above)
    return above


def write(path: str, text: str | None) -> None:
    """Put this text there in one step, or take the file away. A link stays one; its target is what is written."""
    target = os.path.realpath(path)
    refuse_read_only(target)
    try:
        if text is None:
            os.unlink(target)
        else:
            os.makedirs(os.path.dirname(target), exist_ok=True)
            _replace(target, text.encode())
    except OSError as error:
        raise StoreReadOnly(f"Cannot write {path}: {error.strerror}.") from None


def refuse_read_only(path: str) -> None:
    """Whoever took everybody's right to write a file away meant it, also where a rename would get around that."""
    with suppress(OSError):
        if not stat.S_IMODE(os.stat(path).st_mode) & 0o222:
            raise StoreReadOnly(f"{path} is read-only; dibs leaves it alone.")


def _replace(target: str, raw: bytes) -> None:
    handle, draft = mkstemp(prefix=".dibs-", dir=os.path.dirname(target))
    try:
        with open(handle, "wb") as file:
            file.write(raw)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(draft, _mode_of(target))
        os.replace(draft, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(draft)
        raise


def _mode_of(target: str) -> int:
    """As the file is; a new one as any other program would make it."""
    try:
        return stat.S_IMODE(os.stat(target).st_mode)
    except FileNotFoundError:
        mask = os.umask(0)
        os.umask(mask)
        return 0o666 & ~mask
