"""Many processes on one folder: all start cold at once, and writers are killed at random moments.

Every entry in these tests is a function of its number, so a reader can tell a whole entry from a wrong one.
JITFUSE_TEST_SCALE multiplies the number of killed writers.
"""
from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from amount import PATIENCE, drawn

from jitfuse.cache import Store
from jitfuse.cache.inspect import verify
from jitfuse.cache.location import Layers

COMMON = """
import hashlib, os, sys, time, warnings
warnings.simplefilter("error")
from jitfuse.cache import Entry, cache_key, default_store
def make(number):
    canonical = b"form %d" % number
    code = hashlib.sha256(canonical).digest() * (1 + number % 40 * 100)
    return Entry(cache_key({"form": canonical}), {"number": number}, canonical, code)
store = default_store()
"""
COLD = COMMON + """
rounds, begin = 3, float(sys.argv[1])
while time.time() < begin:
    pass
for _ in range(rounds):
    for number in range(40):
        entry = make(number)
        found = store.load(entry.key, entry.canonical)
        if found is None:
            assert store.store(entry)
        else:
            assert found == entry
stats = store.stats()
assert stats.hits + stats.misses == 120 and stats.misses <= 40
print(stats.misses)
"""
WRITER = COMMON + """
print("ready", flush=True)
number = 0
while True:
    store.store(make(number % 60))
    number += 7
"""


def environ(folder: Path) -> dict[str, str]:
    return {**os.environ, "JITFUSE_CACHE_PATH": "", "JITFUSE_CACHE_DIR": str(folder)}


@pytest.mark.full
def test_thirty_two_processes_cold_on_one_folder(tmp_path: Path) -> None:
    folder = tmp_path / "made" / "by" / "all"
    command = [sys.executable, "-c", COLD, str(time.time() + 1.0)]
    processes = [subprocess.Popen(command, env=environ(folder), stdout=subprocess.PIPE) for _ in range(32)]
    misses = []
    for process in processes:
        out, _ = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0
        misses.append(int(out))
    assert sum(misses) >= 40
    assert len(os.listdir(folder)) == 40 + (folder / "hits.log").exists()  # and no temporary files are left
    assert verify(Store(Layers((), str(folder)))).damaged == ()


@pytest.mark.full
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs kill")
def test_writers_killed_at_random_moments(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    dice = random.Random(2)
    command = [sys.executable, "-c", WRITER]
    iterations = checked = 0
    # on a busy machine writers write little in time
    while iterations < drawn(20) or (checked <= 20 and iterations < 400):
        iterations += 1
        process = subprocess.Popen(command, env=environ(folder), stdout=subprocess.PIPE)
        assert process.stdout is not None and process.stdout.readline() == b"ready\n"
        time.sleep(dice.random() * 0.03)
        process.kill()
        process.wait()
        process.stdout.close()
        report = verify(Store(Layers((), str(folder))))
        assert report.damaged == ()
        checked = report.checked
    assert checked > 20
