"""`solspace explore`: a sentence where it cannot start, a warning where others can reach it."""

from __future__ import annotations

import socket
import subprocess
import sys


def explore(*arguments, before=""):
    code = f"{before}from solspace.cli import main; main()"
    command = [sys.executable, "-c", code, "explore", "--no-browser", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def test_without_panel_it_says_what_to_install():
    done = explore(before="import sys; sys.modules['panel'] = None; ")
    assert done.returncode == 2
    assert "pip install 'solspace[explorer]'" in done.stderr


def test_a_taken_port_and_an_open_host():
    with socket.create_server(("0.0.0.0", 0)) as taken:
        done = explore("--host", "0.0.0.0", "--port", str(taken.getsockname()[1]))
    assert done.returncode == 2
    assert "warning: listening on 0.0.0.0" in done.stderr
    assert "no password" in done.stderr
    assert "choose another --port" in done.stderr
    assert "Traceback" not in done.stderr
