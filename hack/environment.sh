# Sourced by the commands in this folder: the virtual environment .venv/, made once, and again when pyproject.toml changes.
# After it the working folder is the repository, $called_from is the one before, and $python the interpreter to use.

set -euo pipefail
called_from=$PWD
cd "$(dirname "${BASH_SOURCE[0]}")/.."
python=$PWD/.venv/bin/python

stop() {
  echo "hack/${0##*/}: $*" >&2
  exit 1
}

find_python() {
  local candidate
  for candidate in python3 python3.{11..20}; do
    if "$candidate" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      echo "$candidate"
      return
    fi
  done
  stop "Python 3.11 or newer with its modules venv and ensurepip is missing; install it (Debian: python3-venv)"
}

# What the environment depends on. An interpreter that was replaced below it makes it useless.
fingerprint() {
  { cat pyproject.toml && pwd && "$python" --version; } 2>&1 | sha256sum
}

is_set_up() {
  [ -x "$python" ] && [ -f .venv/.fingerprint ] && [ "$(cat .venv/.fingerprint)" = "$(fingerprint)" ]
}

make_environment() {
  local interpreter
  interpreter=$(find_python) || exit 1
  echo "setting up .venv/: takes about a minute, once" >&2
  "$python" -c '' 2>/dev/null || "$interpreter" -m venv --clear .venv || stop "the virtual environment .venv/ was not made"
  # pip reads dependency groups from version 25.1 on, which is newer than what comes with Python 3.11.
  "$python" -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["dependency-groups"]["dev"], sep="\n")' \
    > .venv/dev.txt
  # Most modules are never imported; Python compiles the others when they are.
  "$python" -m pip install --quiet --disable-pip-version-check --no-compile --editable . --requirement .venv/dev.txt \
    || stop "pip could not install what pyproject.toml names; see above"
  fingerprint > .venv/.fingerprint
}

set_up() {
  command -v git >/dev/null || stop "git is missing; install it"
  if ! is_set_up; then
    # Two commands at once must not install into each other.
    exec 9<pyproject.toml
    flock 9
    is_set_up || make_environment
    exec 9<&-
  fi
}

set_up
