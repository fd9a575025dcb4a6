"""Which folders the cache uses and which of them it trusts. Owns no files in them.

Whoever can write to a cache folder can run code as its readers, so a folder counts only if nobody but its
owner (and root) could have put anything there:

- symbolic links are resolved first, and the rules hold for the real path;
- the write layer belongs to the user, with no write permission for group or others; it is created 0700;
- read layers belong to the user or to root, with no write permission for group or others;
- every folder above belongs to the user or to root, and is writable by group or others only with the
  sticky bit (as /tmp is), which keeps them from replacing what is not theirs.

Anything else is not used. Where the system has no user ids (Windows) the profile's own protection is all.
"""
from __future__ import annotations

import os
import stat
import sys

from jitfuse.cache.notices import warn_once
from jitfuse.records import Record

_VARIABLES = ("JITFUSE_CACHE_PATH", "JITFUSE_CACHE_DIR", "JITFUSE_CACHE_SIZE")
_DEFAULTS = ("XDG_CACHE_HOME", "HOME")
_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


class Layers(Record, frozen=True):
    """Real paths of the folders in use: `read` in the order of looking up, then `write` if there is one."""

    read: tuple[str, ...]
    write: str | None


def environment() -> tuple[str | None, ...]:
    """Return what the location depends on, to notice a change; 2 to 3 µs."""
    get = os.environ.get
    path, folder, _ = named = tuple([get(name) for name in _VARIABLES])
    return named if path or folder else (*named, *[get(name) for name in _DEFAULTS])


def resolve_layers() -> Layers:
    """Return the trusted folders that the environment names; warn once about each that is not trusted.

    ``JITFUSE_CACHE_PATH`` holds read layers and last the write layer, separated by ``os.pathsep``; when it
    ends in a separator there is no write layer. It wins over ``JITFUSE_CACHE_DIR``, which names the write
    layer alone. Otherwise the user's cache folder is used. A read layer that does not exist is skipped.
    """
    path = os.environ.get("JITFUSE_CACHE_PATH")
    if path:
        *read, write = path.split(os.pathsep)
    else:
        read, write = [], os.environ.get("JITFUSE_CACHE_DIR") or _default_folder()
    found = [real for name in read if name and (real := read_layer(name))]
    return Layers(tuple(found), write_layer(write) if write else None)


def _default_folder() -> str:
    if sys.platform == "linux":  # the XDG base directories, without the 5 ms that importing platformdirs takes
        base = os.environ.get("XDG_CACHE_HOME", "").strip()
        return os.path.join(base if os.path.isabs(base) else os.path.expanduser("~/.cache"), "jitfuse")
    import platformdirs

    return platformdirs.user_cache_dir("jitfuse", appauthor=False)


def read_layer(path: str) -> str | None:
    """Return the real path of a read layer, or None where it is absent or (said once) not trusted."""
    real = _real(path)
    if not os.path.isabs(real) or not os.path.exists(real):
        return None
    reason = _distrust_folder(real, (_user(), 0)) or _distrust_parents(real)
    return _accept(path, real, reason)


def write_layer(path: str) -> str | None:
    """Return the real path of the write layer, created where absent; None (said once) if it cannot serve."""
    real = _real(path)
    if os.path.expanduser(path).startswith("~"):  # containers run under user ids that have no home
        reason: str | None = "there is no home folder"
    elif not os.path.isabs(real):
        reason = "the working folder is gone"
    else:
        reason = _distrust_parents(real) or _create(real) or _distrust_folder(real, (_user(),))
    return _accept(path, real, reason)


def owners() -> tuple[int, ...] | None:
    """Return the user ids whose files are taken as entries, or None where the system has no user ids."""
    return (_user(), 0) if hasattr(os, "geteuid") else None


def still_safe(real: str) -> bool:
    """Tell whether a folder, trusted once, can be read from now; say once where it was opened to others since.

    Looks at the folder alone, for it is asked at each load. One that is not there is as good as empty.
    """
    try:
        status = os.lstat(real)
    except OSError:
        return True  # reading from it will say what is wrong
    allowed = owners()
    if allowed is None or (status.st_uid in allowed and not status.st_mode & _WRITABLE_BY_OTHERS):
        return True
    return _accept(real, real, _distrust_folder(real, allowed)) is not None


def _user() -> int:
    return os.geteuid() if hasattr(os, "geteuid") else -1


def _real(path: str) -> str:
    """Return the path without symbolic links, or as it is where the working folder it starts from is gone."""
    path = os.path.expanduser(path)
    try:
        return os.path.realpath(path)
    except OSError:
        return path


def _accept(path: str, real: str, reason: str | None) -> str | None:
    if reason is None:
        return real
    warn_once(
        f"location {path}: {reason}",
        f"the kernel cache {path!r} is not used: {reason}. Without it kernels are compiled again in each "
        "process. Repair the folder, or name another in JITFUSE_CACHE_DIR.",
    )
    return None


def _create(real: str) -> str | None:
    """Create the folder and the missing ones above it, all 0700 under any umask that allows it."""
    missing = []
    folder = real
    while not os.path.lexists(folder):
        missing.append(folder)
        folder = os.path.dirname(folder)
    for folder in reversed(missing):
        try:
            os.mkdir(folder, 0o700)
        except FileExistsError:
            continue  # another process was faster; whose it is gets checked next
        except OSError as error:
            return f"it cannot be created ({error.strerror})"
    return None


def _distrust_folder(real: str, allowed: tuple[int, ...]) -> str | None:
    try:
        status = os.lstat(real)
    except OSError as error:
        return f"it cannot be read ({error.strerror})"
    if not stat.S_ISDIR(status.st_mode):
        return "it is not a folder"
    if not hasattr(os, "geteuid"):
        return None
    if status.st_uid not in allowed:
        return f"it belongs to user id {status.st_uid}, not to user id {' or '.join(map(str, allowed))}"
    if status.st_mode & _WRITABLE_BY_OTHERS:
        return f"others may write to it (mode {stat.S_IMODE(status.st_mode):04o}; chmod go-w makes it safe)"
    return None


def _distrust_parents(real: str) -> str | None:
    if not hasattr(os, "geteuid"):
        return None
    folder, parent = real, os.path.dirname(real)
    while folder != parent:
        try:
            status = os.lstat(parent)
        except FileNotFoundError:
            status = None  # still to be created
        except OSError as error:
            return f"{parent!r} above it cannot be read ({error.strerror})"
        if status is not None:
            if status.st_uid not in (_user(), 0):
                return f"{parent!r} above it belongs to user id {status.st_uid}, who could replace it"
            if status.st_mode & _WRITABLE_BY_OTHERS and not status.st_mode & stat.S_ISVTX:
                return f"others may write to {parent!r} above it, and could replace it"
        folder, parent = parent, os.path.dirname(parent)
    return None
