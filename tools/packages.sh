# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Sourced by the tools that need more Python packages than the program and its tables.

# need_packages <root> <part> <folder>: installs tools/requirements-<part>.txt, unless the project's environment has the
# package that is installed in that folder.
need_packages() {
  local python="$1/.venv/bin/python" list="$1/tools/requirements-$2.txt"
  compgen -G "$1/.venv/lib*/python3*/site-packages/$3" >/dev/null && return
  echo "== Python packages of tools/requirements-$2.txt into .venv, once" >&2
  "$python" -I -m pip install --quiet --disable-pip-version-check -r "$list" >&2 && return
  echo "FAILED: cannot install them. By hand: $python -m pip install -r $list" >&2
  exit 2
}
