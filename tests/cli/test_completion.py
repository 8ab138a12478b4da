"""The Tab key: commands, options, methods, formats and files, in bash, zsh and fish."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

from noise2same.cli._completion import FORMATS, METHODS, VARIABLE


def command(*arguments, home=None, **variables):
    """The command line in a process of its own."""
    own = {"HOME": str(home)} if home else {}
    environment = os.environ | own | variables | {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    return subprocess.run(
        [sys.executable, "-m", "noise2same", *arguments], capture_output=True, text=True, env=environment, timeout=60
    )


def test_the_choices_are_those_that_there_are():
    from noise2same.export import SUFFIXES
    from noise2same.methods import METHODS as OURS

    assert ["auto", *OURS] == METHODS
    assert tuple(SUFFIXES) == FORMATS


ASKED = {
    "noise2same de": {"denoise", "demo"},
    "noise2same denoise x.tif --method noise2v": {"noise2void", "noise2void2"},
    "noise2same export m.safetensors --to o": {"onnx", "openvino"},
    "noise2same train x.tif --preset ": {"fast", "best", "paper"},
    "noise2same info m": set(),
    "noise2same denoise ": set(),
}
"""What is typed, and what is offered; a shell that is offered nothing offers files."""


@pytest.mark.parametrize(("typed", "offered"), list(ASKED.items())[1:4])
def test_bash(typed, offered):
    words = typed.split(" ")
    asked = {VARIABLE: "complete_bash", "COMP_WORDS": "\n".join(words), "COMP_CWORD": str(len(words) - 1)}
    assert set(command(**asked).stdout.split()) == offered


def test_zsh_takes_files_where_nothing_is_offered():
    answers = [
        command(**{VARIABLE: "complete_zsh", "_TYPER_COMPLETE_ARGS": typed}).stdout.strip()
        for typed in ("noise2same export m --to o", "noise2same info m")
    ]
    assert '"onnx"\n"openvino"' in answers[0]
    assert answers[1] == "_files"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_it_can_be_installed(shell, tmp_path):
    ended = command("--install-completion", shell, home=tmp_path)
    assert ended.returncode == 0, ended.stderr
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert [path for path in written if VARIABLE in path.read_text()]


SCRIPT = """
source ~/.bashrc
ask() {
    local typed="$1"
    COMP_WORDS=($typed) COMPREPLY=()
    [[ $typed == *" " ]] && COMP_WORDS+=("")
    COMP_CWORD=$(( ${#COMP_WORDS[@]} - 1 ))
    _noise2same_completion "$COMMAND"
    echo "${COMPREPLY[*]}"
}
complete -p noise2same
while IFS= read -r line; do ask "$line"; done
"""


@pytest.mark.skipif(not shutil.which("bash"), reason="needs bash")
def test_a_real_bash_after_the_installation(tmp_path):
    command("--install-completion", "bash", home=tmp_path)
    launcher = tmp_path / "noise2same"
    launcher.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m noise2same "$@"\n')
    launcher.chmod(0o755)
    own = {"HOME": str(tmp_path), "COMMAND": str(launcher)}
    ended = subprocess.run(
        ["bash", "--norc", "-c", SCRIPT],
        input="\n".join(ASKED) + "\n",
        capture_output=True,
        text=True,
        env=os.environ | own,
        timeout=120,
    )
    first, *answers = ended.stdout.splitlines()
    assert "-o default" in first  # files, where nothing is offered
    assert [set(answer.split()) for answer in answers] == list(ASKED.values()), ended.stderr


@pytest.mark.skipif(not shutil.which("fish"), reason="needs fish")
def test_a_real_fish(tmp_path):
    command("--install-completion", "fish", home=tmp_path)
    (tmp_path / "model.safetensors").touch()
    typed = ["complete -C 'noise2same export m --to o'", "complete -C 'noise2same info mo'"]
    ended = subprocess.run(
        ["fish", "-c", "; ".join(typed)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=os.environ | {"HOME": str(tmp_path)},
        timeout=60,
    )
    assert ended.stdout.split() == ["onnx", "openvino", "model.safetensors"]
