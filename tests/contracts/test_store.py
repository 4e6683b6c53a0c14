"""The store: what is added stays, whatever happens to the file, the disk or the process."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from solspace.store import Result, Store, StoreError

posix = pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals and limits")


def result(key: str, **values: object) -> Result:
    return Result(key, {"n": 9, "target": {"margin": 0.5}, "options": {"n_sweeps": 7}}, values=dict(values))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


def filled(path: Path, count: int = 3) -> Path:
    with Store(path, write=True) as store:
        for i in range(count):
            store.add(result(f"k{i}", solved=i))
    return path


def arrays(store: Store, key: str) -> dict[str, Any]:
    return next(iter(store.get([key], arrays=True))).arrays


def test_round_trip_keeps_every_value(path: Path) -> None:
    arrays = {"w": np.array([[1, -1], [1, 1]], np.int8), "s": np.linspace(0, 1, 5), "e": np.zeros((0, 3), np.float32)}
    given = Result("k", {"n": 9}, values={"a": 0.1 + 0.2, "b": None, "c": [1, 2.5]}, arrays=arrays, version="1",
                   seed=str(2**127), host="h", seconds=0.25, date="2025-01-01")  # fmt: skip
    with Store(path, write=True) as store:
        store.add(given)
    with Store(path) as store:
        (got,) = store.rows(arrays=True)
    assert {**vars(got), "arrays": 0} == {**vars(given), "arrays": 0}
    for name, array in arrays.items():
        assert got.arrays[name].dtype == array.dtype
        np.testing.assert_array_equal(got.arrays[name], array)


def test_filters(path: Path) -> None:
    with Store(filled(path, 10)) as store:
        assert [row.key for row in store.rows(solved=(3, 5))] == ["k3", "k4", "k5"]
        assert [row.key for row in store.rows(solved=[1, 8], n=9)] == ["k1", "k8"]
        assert len(list(store.rows(margin=0.5, n_sweeps=7))) == 10
        assert not list(store.rows(margin=0.4))
        assert [row.key for row in store.get(["k7", "none", "k2"])] == ["k7", "k2"]


def test_a_retried_failure_counts_once_and_the_first_done_row_stands(path: Path) -> None:
    with Store(path, write=True) as store:
        store.add(Result("k", {}, status="failed", error="first"))
        store.add(Result("k", {}, status="failed", error="second"))
        assert [row.error for row in store.rows()] == ["second"]
        store.add(Result("k", {}, values={"v": 1}))
        store.add(Result("k", {}, values={"v": 2}, arrays={"a": np.ones(2)}))
        store.add(Result("k", {}, status="failed", error="third"))
        assert [row.values for row in store.rows()] == [{"v": 1}]
        assert store.statuses(["k"]) == {"k": "done"}
        assert store.count() == {"done": 1, "failed": 0}
        assert arrays(store, "k") == {}


def test_a_failure_retried_with_arrays_is_not_damaged(path: Path) -> None:
    with Store(path, write=True) as store:
        store.add(Result("k", {}, status="failed", error="first"))
        store.add(Result("k", {}, arrays={"a": np.ones(2)}))
        assert not store.damaged()


def test_results_added_together_are_all_there_or_none(path: Path) -> None:
    with Store(path, write=True) as store:
        store.add(Result("a", {"n": 1}, values={"solved": 1}))
        store.add(Result("b", {"n": 2}, arrays={"x": np.arange(2)}), Result("a", {"n": 1}, values={"solved": 9}))
        big = Result("d", {"n": 4}, arrays={"x": np.random.default_rng(0).random(10**5)})
        store._db.execute("PRAGMA max_page_count = 1")
        with pytest.raises(StoreError, match="Every result before this one is safe"):
            store.add(Result("c", {"n": 3}), big)
        assert [(row.key, row.values) for row in store.rows()] == [("a", {"solved": 1}), ("b", {})]
        np.testing.assert_array_equal(arrays(store, "b")["x"], [0, 1])
        assert not store.damaged()


def test_two_writers_get_a_sentence_and_readers_are_let_in(path: Path) -> None:
    with Store(path, write=True) as store:
        with pytest.raises(StoreError, match=r"being written by another process.* One sweep writes at a time"):
            Store(path, write=True)
        store.add(result("k"))
        with Store(path) as first, Store(path) as second:
            store.add(result("l"))
            assert first.count() == second.count() == {"done": 2, "failed": 0}
    with Store(path, write=True) as store:
        assert store.count()["done"] == 2
    assert {p.name for p in path.parent.iterdir()} <= {"runs.db", "runs.db.lock"}


@posix
def test_a_killed_writer_leaves_its_rows_and_no_lock(path: Path) -> None:
    script = textwrap.dedent(f"""
        import os, signal
        from solspace.store import Result, Store
        store = Store({str(path)!r}, write=True)
        for i in range(50):
            store.add(Result(f"k{{i}}", {{}}))
        os.kill(os.getpid(), signal.SIGKILL)
    """)
    assert subprocess.run([sys.executable, "-c", script]).returncode == -signal.SIGKILL
    with Store(path, write=True) as store:
        assert store.count()["done"] == 50


def test_not_a_store(path: Path) -> None:
    content = b"these are not results\n" * 100
    path.write_bytes(content)
    for write in (False, True):
        with pytest.raises(StoreError, match="damaged or not a store"):
            Store(path, write=write)
    assert path.read_bytes() == content
    path.unlink()
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE theirs (x)")
    db.close()
    content = path.read_bytes()
    for write in (False, True):
        with pytest.raises(StoreError, match="is not a solspace store"):
            Store(path, write=write)
    assert path.read_bytes() == content


def test_damaged_pages(path: Path) -> None:
    filled(path, 500)
    content = bytearray(path.read_bytes())
    content[8192:-8192] = os.urandom(len(content) - 16384)
    path.write_bytes(content)
    with pytest.raises(StoreError, match="damaged"), Store(path) as store:
        list(store.rows())
    with pytest.raises(StoreError, match="damaged"), Store(path, write=True) as store:
        list(store.rows())


@pytest.mark.parametrize(
    ("version", "words"), [(99, r"newer solspace \(store format 99.*upgrade"), (1, r"solspace 0\.1.*give another path")]
)
def test_stores_of_other_formats_are_left_alone(path: Path, version: int, words: str) -> None:
    filled(path)
    db = sqlite3.connect(path)
    db.execute(f"PRAGMA user_version = {version}")
    db.close()
    content = path.read_bytes()
    for write in (False, True):
        with pytest.raises(StoreError, match=words):
            Store(path, write=write)
    assert path.read_bytes() == content


def test_no_store_to_read(path: Path) -> None:
    with pytest.raises(StoreError, match="there is no store at"):
        Store(path)
    assert not path.exists()


def test_a_path_that_cannot_be_a_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="folder you may write to"):
        Store(tmp_path / "file" / "runs.db", write=True)


@posix
def test_a_read_only_folder(tmp_path: Path) -> None:
    """Writing gets a sentence, reading works; run as another user where this one may write everywhere."""
    path = filled(tmp_path / "sub" / "runs.db")
    path.parent.chmod(0o555)
    script = textwrap.dedent(f"""
        import os
        import filelock
        from solspace.store import Store, StoreError
        if os.geteuid() == 0:
            os.setuid(65534)
        with Store({str(path)!r}) as store:
            print(store.count())
        try:
            Store({str(path)!r}, write=True)
        except StoreError as error:
            print(error)
    """)
    for folder in [tmp_path, *tmp_path.parents][:4]:
        folder.chmod(folder.stat().st_mode | 0o055)
    try:
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    finally:
        path.parent.chmod(0o755)
    assert done.stdout.startswith("{'done': 3, 'failed': 0}"), done.stderr
    assert "Give a store in a folder you may write to" in done.stdout


def test_full_disk(path: Path) -> None:
    """No room for more: a sentence, what was there is safe, and the store goes on when there is room."""
    filled(path, 20)
    with Store(path, write=True) as store:
        pages = store._db.execute("PRAGMA page_count").fetchone()[0]
        store._db.execute(f"PRAGMA max_page_count = {pages + 2}")
        with pytest.raises(StoreError, match=r"is the disk full.*run the same command again"):
            store.add(Result("big", {}, arrays={"a": np.random.default_rng(0).random(10**5)}))
        assert store.count()["done"] == 20
    with Store(path, write=True) as store:
        assert store.statuses(["big"]) == {}
        store.add(result("big"))
        assert store.count()["done"] == 21


@posix
def test_file_size_limit_of_the_system(path: Path) -> None:
    """The same through the operating system: writes past a limit fail as they do on a full disk."""
    script = textwrap.dedent(f"""
        import resource, signal
        import numpy as np
        from solspace.store import Result, Store, StoreError
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
        with Store({str(path)!r}, write=True) as store:
            try:
                for i in range(100):
                    store.add(Result(str(i), {{}}, arrays={{"a": np.random.default_rng(i).random(2000)}}))
            except StoreError as error:
                print(i, error)
    """)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    count, _, message = done.stdout.partition(" ")
    assert "Every result before this one is safe" in message, done.stderr
    with Store(path) as store:
        assert [int(row.key) for row in store.rows()] == list(range(int(count)))
        np.testing.assert_array_equal(arrays(store, "0")["a"], np.random.default_rng(0).random(2000))


@posix
def test_thousands_of_rows_in_flat_memory(path: Path) -> None:
    import resource

    filled(path, 100)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with Store(path, write=True) as store:
        store._db.execute("PRAGMA synchronous = OFF")  # this is about memory, not about the disk
        for i in range(100, 4000):
            store.add(result(f"k{i}", solved=i))
        assert sum(1 for _ in store.rows(solved=(2000, 3000))) == 1001
        assert store.count()["done"] == 4000
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20_000  # KB


def change(path: Path, old: bytes, new: bytes) -> None:
    """Change some bytes in an idle file, as a disk or a copy does."""
    content = path.read_bytes()
    assert content.count(old) == 1
    path.write_bytes(content.replace(old, new))


def test_a_changed_number_is_seen_and_its_row_named(path: Path) -> None:
    filled(path)
    change(path, b'{"solved":1}', b'{"solved":3}')
    with Store(path) as store:
        assert next(iter(store.get(["k0"]))).values == {"solved": 0}
        with pytest.raises(StoreError, match=r"runs.db: result k1 is damaged \(it differs from its digest\).*again"):
            list(store.get(["k0", "k1"]))
        with pytest.raises(StoreError, match="result k1 is damaged"):
            list(store.rows(solved=3))  # what the damaged number now says must not decide
        assert store.statuses(["k0", "k1", "k2"]) == {"k0": "done", "k1": "damaged", "k2": "done"}
        assert list(store.damaged()) == ["k1"]


def test_a_changed_array_is_seen(path: Path) -> None:
    noise = np.random.default_rng(0).bytes(100)
    with Store(path, write=True) as store:
        store.add(Result("k", {}, arrays={"a": np.frombuffer(noise, np.uint8), "b": np.arange(3)}))
        stored = store._db.execute("SELECT data FROM arrays WHERE name = 'a'").fetchone()[0]
    change(path, stored[-20:], stored[-20:-1] + bytes([stored[-1] ^ 1]))
    with Store(path) as store:
        assert [row.key for row in store.rows()] == ["k"]  # its numbers are sound
        with pytest.raises(StoreError, match=r"result k is damaged .its arrays differ from their digests"):
            arrays(store, "k")


def test_text_that_is_no_text_names_the_file(path: Path) -> None:
    with Store(path, write=True) as store:
        store.add(Result("k", {"word": "abcdefgh"}))
    change(path, b"abcdefgh", b"abc\xff\xfe\xfdgh")
    with pytest.raises(StoreError, match=r"runs.db: result k is damaged"), Store(path) as store:
        list(store.rows())


def test_stores_of_0_2_are_read_and_written(path: Path) -> None:
    """They have a view that is no longer used, and triggers against any change."""
    filled(path)
    db = sqlite3.connect(path)
    db.execute("CREATE VIEW latest AS SELECT * FROM results")
    for table in ("results", "arrays", "digests"):
        for verb in ("UPDATE", "DELETE"):
            name = f"{table}_no_{verb}"
            db.execute(f"CREATE TRIGGER {name} BEFORE {verb} ON {table} BEGIN SELECT RAISE(ABORT, 'no'); END")
    db.close()
    change(path, b'{"solved":1}', b'{"solved":3}')
    with Store(path, write=True) as store:
        assert list(store.damaged()) == ["k1"]
        store.withdraw(["k1"])
        store.add(result("k1", solved=1))
        assert sorted(row.values["solved"] for row in store.rows()) == [0, 1, 2]


def test_a_damaged_index_is_rebuilt_and_hides_no_row(path: Path) -> None:
    with Store(path, write=True) as store:
        for i in range(200):
            store.add(Result(f"key-{i:04}", {}))
    content = path.read_bytes()
    where = [i for i in range(len(content)) if content.startswith(b"key-0150", i)]
    assert len(where) == 3  # the row and two indexes
    for place in where:
        path.write_bytes(content[:place] + b"kez" + content[place + 3 :])
        with pytest.raises(StoreError, match=r"runs.db"), Store(path) as store:
            list(store.get(f"key-{i:04}" for i in range(200)))
        with pytest.warns(UserWarning, match="its indexes were damaged") as caught:
            store = Store(path, write=True)
        with store:
            assert store.count()["done"] == 200 - ("kez-0150" in str(caught[0].message))


def test_memory_is_no_store() -> None:
    for write in (False, True):
        with pytest.raises(StoreError, match=":memory: is not a file"):
            Store(":memory:", write=write)


@posix
def test_a_pipe_is_no_store(path: Path) -> None:
    os.mkfifo(path)
    for write in (False, True):
        with pytest.raises(StoreError, match=r"no store at|not a file"):
            Store(path, write=write)


@pytest.mark.skipif(sys.platform == "win32", reason="symbolic links need a privilege there")
def test_a_link_to_a_store_has_its_lock(path: Path) -> None:
    link = path.with_name("link.db")
    link.symlink_to(path)
    with Store(path, write=True), pytest.raises(StoreError, match=r"link.db is being written"):
        Store(link, write=True)
    with Store(link, write=True) as store:
        store.add(result("k"))
        with pytest.raises(StoreError, match="being written"):
            Store(path, write=True)
    with Store(path) as store:
        assert store.count()["done"] == 1


def test_rows_are_in_the_file_itself_after_concurrent_use(path: Path) -> None:
    writer = Store(path, write=True)
    writer.add(result("k"))
    with Store(path) as reader:  # stays open while the writer closes
        assert reader.count()["done"] == 1
        writer.close()
        alone = path.with_name("copy.db")
        alone.write_bytes(path.read_bytes())
        with Store(alone) as copy:
            assert copy.count()["done"] == 1
