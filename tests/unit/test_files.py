"""Files are written whole or not at all, with the user's permissions, and what a killed writer left is cleared away."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading

import pytest

from solspace.system.files import replacing

posix = pytest.mark.skipif(sys.platform == "win32", reason="POSIX only")


def write(path, content=b"new"):
    with replacing(path) as file:
        file.write(content)


def test_a_failed_block_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "file"
    write(path, b"old")

    def fail():
        with replacing(path) as file:
            file.write(b"half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]


@posix
@pytest.mark.parametrize("mask", [0o022, 0o077, 0o002])
def test_the_users_umask_decides_who_may_read(tmp_path, mask):
    code = (
        f"import os; os.umask({mask}); from solspace.system.files import replacing\nwith replacing('file') as f: pass"
    )
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o666 & ~mask


@posix
def test_the_umask_is_never_touched(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "umask", lambda mask: pytest.fail("the umask belongs to the whole process"))
    write(tmp_path / "file")


def test_what_a_killed_writer_left_is_removed_by_the_next_one(tmp_path):
    code = (
        "import time; from solspace.system.files import replacing\n"
        "with replacing('run.npz') as file:\n    file.write(b'half'); print('here', flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path, stdout=subprocess.PIPE) as victim:
        victim.stdout.readline()
        (other,) = tmp_path.iterdir()
        write(tmp_path / "run.npz", b"first")
        assert other.exists()  # its writer lives
        victim.send_signal(signal.SIGKILL)
    os.utime(other, (0, 0))  # a younger one may belong to a writer that lives
    (tmp_path / ".another.npz.00000000.tmp").write_bytes(b"of another file")
    write(tmp_path / "run.npz", b"second")
    assert sorted(os.listdir(tmp_path)) == [".another.npz.00000000.tmp", "run.npz"]
    assert (tmp_path / "run.npz").read_bytes() == b"second"


@posix
def test_what_was_planted_in_the_folder_is_neither_waited_for_nor_written_through(tmp_path):
    """A pipe, a folder or a link under the name of a temporary file."""
    folder, victim = tmp_path / "folder", tmp_path / "victim"
    victim.write_text("precious")
    code = "from solspace.system.files import replacing\nwith replacing('run.npz') as file:\n    file.write(b'whole')"
    for plant in (os.mkfifo, os.mkdir, lambda path: os.symlink(victim, path)):
        folder.mkdir()
        plant(folder / ".run.npz.00000000.tmp")
        subprocess.run([sys.executable, "-c", code], cwd=folder, timeout=100, check=True)
        assert victim.read_text() == "precious"
        assert (folder / "run.npz").read_bytes() == b"whole"
        shutil.rmtree(folder)


def test_a_folder_in_the_way_is_named_itself(tmp_path):
    (tmp_path / "folder.png").mkdir()
    with pytest.raises(IsADirectoryError) as caught:
        write(tmp_path / "folder.png")
    assert caught.value.filename == str(tmp_path / "folder.png")
    assert os.listdir(tmp_path) == ["folder.png"]


def test_many_writers_at_once_take_nothing_from_each_other(tmp_path):
    path = tmp_path / "file"
    errors = []

    def many(content):
        try:
            for _ in range(50):
                write(path, content)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=many, args=(bytes([k]) * 1000,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert len(set(path.read_bytes())) == 1
    assert os.listdir(tmp_path) == ["file"]
