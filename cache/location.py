"""Which folders the cache uses and which of them it trusts. Owns no files in them.

Anyone who can write to a cache folder can run code as its readers. So a folder is used only if nobody but the user and
root could have written to it or replaced it. Its path is walked from the root folder down, through symbolic links and
their targets:

- each link on the path belongs to the user or to root;
- each folder on the path, also one that holds a link, belongs to the user or to root. It may be writable by group or
  others only with the sticky bit (as /tmp is), which keeps them from replacing files of other owners;
- the write layer at the end belongs to the user, with no write permission for group or others; it is created 0700;
- a read layer belongs to the user or to root, with no write permission for group or others.

Any other folder is not used. `JITFUSE_CACHE_TRUST=everyone` turns these rules off, for machines without other users. On
systems without user ids (Windows), the profile's own protection is all there is.
"""
from __future__ import annotations

import errno
import os
import stat
import sys

from jitfuse.base.records import Record
from jitfuse.cache.notices import warn_once

_TRUST = "JITFUSE_CACHE_TRUST"
_EVERYONE = "everyone"
_VARIABLES = ("JITFUSE_CACHE_PATH", "JITFUSE_CACHE_DIR", "JITFUSE_CACHE_SIZE", _TRUST)
_DEFAULTS = ("XDG_CACHE_HOME", "HOME")
_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH
_HAS_OWNERS = hasattr(os, "geteuid")
_MOST_LINKS = 40
"""Links that a path may lead through, as on Linux."""
_MOST_WALKS = 256
"""Walks along a path that is being created: one more after each created folder."""

Identity = tuple[int, int, int, int]
"""What identifies a folder: device, inode, owner, mode."""
_walked: dict[str, tuple[tuple[int, ...] | None, Identity]] = {}
"""Folders whose whole path was walked: the `owners` accepted then, and the folder's identity."""


class Layers(Record, frozen=True):
    """Real paths of the folders in use: `read` in lookup order, then `write` if there is one."""

    read: tuple[str, ...]
    write: str | None


class _UnusableError(Exception):
    """Why a folder cannot be used."""


class _UntrustedError(_UnusableError):
    """Which rule of trust a folder breaks."""


def environment() -> tuple[str | None, ...]:
    """Return the variables that the location depends on, to notice a change; takes 2 to 3 µs."""
    get = os.environ.get
    path, folder, *_ = named = tuple([get(name) for name in _VARIABLES])
    return named if path or folder else (*named, *[get(name) for name in _DEFAULTS])


def resolve_layers() -> Layers:
    """Return the trusted folders that the environment names; warn once about each that is not trusted.

    ``JITFUSE_CACHE_PATH`` holds the read layers and, last, the write layer, separated by ``os.pathsep``. If it ends in
    a separator there is no write layer. It takes precedence over ``JITFUSE_CACHE_DIR``, which names the write layer
    alone. Otherwise the user's cache folder is used. A read layer that does not exist is skipped.
    """
    _look_at_trust_variable()
    path = os.environ.get("JITFUSE_CACHE_PATH")
    if path:
        *read, write = path.split(os.pathsep)
    else:
        read, write = [], os.environ.get("JITFUSE_CACHE_DIR") or _default_folder()
    found = [real for name in read if name and (real := read_layer(name))]
    return Layers(tuple(found), write_layer(write) if write else None)


def _default_folder() -> str:
    if sys.platform == "linux":  # the XDG base directories, without importing platformdirs (5 ms)
        base = os.environ.get("XDG_CACHE_HOME", "").strip()
        return os.path.join(base if os.path.isabs(base) else os.path.expanduser("~/.cache"), "jitfuse")
    import platformdirs

    return platformdirs.user_cache_dir("jitfuse", appauthor=False)


# ---------------------------------------------------------------------- whom to trust
def owners() -> tuple[int, ...] | None:
    """Return the user ids whose files are accepted as entries; None if owners are not checked.

    They are not checked if the system has no user ids, or if `trusts_everyone`.
    """
    return (os.geteuid(), 0) if _HAS_OWNERS and not trusts_everyone() else None


def trusts_everyone() -> bool:
    """Return whether ``JITFUSE_CACHE_TRUST=everyone`` is set and valid: owners and permissions are not checked then.

    Never in a set-user-id or set-group-id program: there its caller, not its user, sets the variables.
    """
    return os.environ.get(_TRUST) == _EVERYONE and not _runs_for_another()


def _runs_for_another() -> bool:
    return _HAS_OWNERS and (os.getuid(), os.getgid()) != (os.geteuid(), os.getegid())


def _look_at_trust_variable() -> None:
    value = os.environ.get(_TRUST)
    if not value or trusts_everyone():
        return
    if value == _EVERYONE:
        fault = "holds for no set-user-id or set-group-id program, whose caller could have set it"
    else:
        fault = f"knows one value, {_TRUST}={_EVERYONE}; unset it, or set it to that"
    warn_once(f"trust {value}", f"{_TRUST}={value[:80]!r} is passed over: it {fault}.")


# ---------------------------------------------------------------------- folders
def read_layer(path: str) -> str | None:
    """Return the real path of a read layer, or None if it is absent or (warned once) not trusted."""
    try:
        real, status = _walk(path)
        return None if status is None else _accept(real, status, owners())
    except (_UnusableError, OSError) as error:
        _warn_unusable(path, error)
        return None


def write_layer(path: str) -> str | None:
    """Return the real path of the write layer, created if absent; None (warned once) if it cannot be used.

    After each folder that is created the path is walked again from the start: another user may have created the next
    one first. So nothing is created below an untrusted folder.
    """
    try:
        for _ in range(_MOST_WALKS):
            real, status = _walk(path)
            if status is not None:
                allowed = owners()
                return _accept(real, status, allowed and allowed[:1])
            _create(real)
        raise _UnusableError("it is removed again and again")
    except (_UnusableError, OSError) as error:
        _warn_unusable(path, error)
        return None


def trusted_folder(real: str) -> Identity | None:
    """Return the identity of the folder at a layer's path, or None (warned once) if it can no longer be used.

    Checks only the folder itself while it is the one whose path was walked, because every load calls this. If it was
    changed or replaced, the whole path is walked again: a clean-up of old files may have removed folders above it too,
    and another user may have put something there.
    """
    identity = known_folder(real)
    if identity is not None:
        return identity
    return _walked[real][1] if read_layer(real) == real else None


def known_folder(real: str) -> Identity | None:
    """Return the identity of the folder at a layer's path; None if it is not the walked one. Never warns."""
    try:
        identity = _identity(os.lstat(real))
    except OSError:
        return None
    return identity if _walked.get(real) == (owners(), identity) else None


def is_still(real: str, identity: Identity) -> bool:
    """Return whether a folder that `trusted_folder` returned is still there, and so what was read is its own."""
    try:
        return _identity(os.lstat(real)) == identity
    except OSError:
        return False


def _identity(status: os.stat_result) -> Identity:
    return status.st_dev, status.st_ino, status.st_uid, status.st_mode


def _accept(real: str, status: os.stat_result, allowed: tuple[int, ...] | None) -> str:
    """Return the folder at the end of a walk and record it as walked; raise _UnusableError if it cannot be used."""
    if not stat.S_ISDIR(status.st_mode):
        raise _UnusableError("it is not a folder")
    if allowed is not None and status.st_uid not in allowed:
        raise _UntrustedError(f"it belongs to user id {status.st_uid}, not to user id {allowed[0]}")
    if allowed is not None and status.st_mode & _WRITABLE_BY_OTHERS:
        mode = f"{stat.S_IMODE(status.st_mode):04o}"
        raise _UntrustedError(f"others may write to it (mode {mode}; chmod go-w makes it safe)")
    _walked[real] = owners(), _identity(status)
    return real


def _create(real: str) -> None:
    try:
        os.mkdir(real, 0o700)
    except FileExistsError:
        pass  # another process created it first: the next walk checks whose it is
    except OSError as error:
        raise _UnusableError(f"it cannot be created ({error.strerror})") from None


def _warn_unusable(path: str, error: _UnusableError | OSError) -> None:
    reason = f"it cannot be read ({error.strerror})" if isinstance(error, OSError) else str(error)
    remedy = "Repair the folder, or name another in JITFUSE_CACHE_DIR."
    if isinstance(error, _UntrustedError):
        remedy += f" Where nobody else runs, as in a container, {_TRUST}={_EVERYONE} leaves this check out."
    warn_once(
        f"location {path}: {reason}",
        f"the kernel cache {path!r} is not used: {reason}. Without it kernels are compiled again in each process. "
        f"{remedy}",
    )


# ---------------------------------------------------------------------- walking a path
def _walk(path: str) -> tuple[str, os.stat_result | None]:
    """Follow a path from the root folder down, through links, and check each link and each folder on the way.

    Returns the real path and its status, or the first missing folder and None. A folder is checked before anything in
    it is read, so nobody else can exchange it afterwards. Raises _UnusableError and OSError.
    """
    allowed = owners()
    real, names = _split(_absolute(path))
    status = os.lstat(real)
    links = 0
    while names:
        name = names.pop()
        if name in ("", os.curdir):
            continue
        _check_above(real, status, allowed)
        below = os.path.dirname(real) if name == os.pardir else os.path.join(real, name)
        try:
            status = os.lstat(below)
        except FileNotFoundError:
            return below, None
        if stat.S_ISLNK(status.st_mode):
            links += 1
            below, more = _follow(below, status, real, allowed, links)
            names += more
            status = os.lstat(below)
        real = below
    return real, status


def _follow(
    link: str, status: os.stat_result, holder: str, allowed: tuple[int, ...] | None, links: int,
) -> tuple[str, list[str]]:
    """Return where the path continues after a link: a real path, and the names below it, the next one last."""
    if links > _MOST_LINKS:
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), link)
    if allowed is not None and status.st_uid not in allowed:
        raise _UntrustedError(f"the link {link!r} belongs to user id {status.st_uid}, who chooses where it leads")
    target = os.readlink(link)
    return _split(target) if os.path.isabs(target) else (holder, target.split(os.sep)[::-1])


def _check_above(folder: str, status: os.stat_result, allowed: tuple[int, ...] | None) -> None:
    if not stat.S_ISDIR(status.st_mode):
        raise OSError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), folder)
    if allowed is not None and status.st_uid not in allowed:
        raise _UntrustedError(f"{folder!r} above it belongs to user id {status.st_uid}, who could replace it")
    if allowed is not None and status.st_mode & _WRITABLE_BY_OTHERS and not status.st_mode & stat.S_ISVTX:
        raise _UntrustedError(f"others may write to {folder!r} above it, and could replace it")


def _absolute(path: str) -> str:
    path = os.path.expanduser(path)
    if path.startswith("~"):  # containers may run under user ids without a home
        raise _UnusableError("there is no home folder")
    if not _HAS_OWNERS:
        return os.path.realpath(path)  # no owners to check, and several kinds of links
    try:
        return path if os.path.isabs(path) else os.path.join(os.getcwd(), path)
    except OSError:
        raise _UnusableError("the working folder is gone") from None


def _split(path: str) -> tuple[str, list[str]]:
    """Return the root folder of an absolute path, and the names below it, the next one last."""
    drive, names = os.path.splitdrive(path)
    return drive + os.sep, names.split(os.sep)[::-1]
