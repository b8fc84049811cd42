# Sourced by the commands in this folder: a virtual environment with what requirements.txt beside this file locks, made
# once, and again when that file or pyproject.toml changes. Variables choose another one:
#
#   RUKPAK_PYTHON=3.13               that version of Python
#   RUKPAK_DEPENDENCIES=newest       the newest versions that pyproject.toml allows, or the oldest, instead of the locked
#
# Afterwards the working folder is the repository, $called_from is the one before, $environment the folder of the
# virtual environment, and $python the interpreter to use.

set -euo pipefail
# Images and editors set it. Each process then compiles whatever it imports, which takes longer than to run it.
unset PYTHONDONTWRITEBYTECODE
called_from=$PWD
cd "$(dirname "${BASH_SOURCE[0]}")/.."
environment=$PWD/.venv${RUKPAK_PYTHON:+-$RUKPAK_PYTHON}${RUKPAK_DEPENDENCIES:+-$RUKPAK_DEPENDENCIES}
python=$environment/bin/python

stop() {
  echo "hack/${0##*/}: $*" >&2
  exit 1
}

if [ ! -d rukpak/api ] || [ ! -d rukpak/controller ]; then
  stop "rukpak/api and rukpak/controller are no links to ../api and ../controller, as in a checkout with" \
    "core.symlinks=false; run \"git config core.symlinks true && git checkout -- rukpak\""
fi

find_python() {
  local candidate wanted=${RUKPAK_PYTHON:-3.11}
  local -a candidates=(python3 python3.{11..20})
  [ -z "${RUKPAK_PYTHON:-}" ] || candidates=("python$wanted" "${PYENV_ROOT:-$HOME/.pyenv}/versions/$wanted"*/bin/python)
  for candidate in "${candidates[@]}"; do
    if "$candidate" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      echo "$candidate"
      return
    fi
  done
  [ -z "${RUKPAK_PYTHON:-}" ] || stop "Python $wanted with its modules venv and ensurepip is missing; install it"
  stop "Python 3.11 or newer with its modules venv and ensurepip is missing; install it (Debian: python3-venv)"
}

# The lock, or what is resolved now.
list_requirements() {
  case "${RUKPAK_DEPENDENCIES:-}" in
    "") cat hack/requirements.txt ;;
    newest | oldest) env -u RUKPAK_PYTHON -u RUKPAK_DEPENDENCIES hack/lock --print "$RUKPAK_DEPENDENCIES" ;;
    *) stop "RUKPAK_DEPENDENCIES is newest or oldest, or not set" ;;
  esac
}

# What the environment depends on. An interpreter that was replaced below it makes it useless.
fingerprint() {
  { echo "$requirements" && cat pyproject.toml && pwd && "$python" --version; } 2>&1 | sha256sum
}

is_set_up() {
  [ -x "$python" ] && [ -f "$environment/.fingerprint" ] && [ "$(cat "$environment/.fingerprint")" = "$(fingerprint)" ]
}

# Nothing is built but the project itself, and nothing else is resolved or fetched: what is released later changes nothing.
install_locked() {
  # Most modules are never imported; Python compiles the others when they are.
  "$python" -m pip install --quiet --disable-pip-version-check --no-compile --no-deps "$@"
}

make_environment() {
  local interpreter
  interpreter=$(find_python) || exit 1
  echo "setting up ${environment##*/}/: takes about a minute, once" >&2
  "$python" -c '' 2>/dev/null || "$interpreter" -m venv --clear "$environment" \
    || stop "the virtual environment ${environment##*/}/ was not made"
  sed '/^# Section: tools$/,$d' <<<"$requirements" > "$environment/requirements.txt"
  install_locked --only-binary=:all: --require-hashes --requirement "$environment/requirements.txt" \
    || stop "pip could not install what hack/requirements.txt names; see above"
  install_locked --no-build-isolation --editable . || stop "pip could not install the project; see above"
  fingerprint > "$environment/.fingerprint"
}

# What few commands need is installed when they are run.
install_tools() {
  sed '1,/^# Section: tools$/d' hack/requirements.txt > "$environment/tools.txt"
  install_locked --only-binary=:all: --require-hashes --requirement "$environment/tools.txt"
}

set_up() {
  command -v git >/dev/null || stop "git is missing; install it"
  requirements=$(list_requirements) || exit 1
  if ! is_set_up; then
    # Two commands at once must not install into each other.
    exec 9<pyproject.toml
    flock 9
    is_set_up || make_environment
    exec 9<&-
  fi
}

set_up
