#!/usr/bin/env bash
# Builds capacity-sidecar_VERSION_ARCH.deb in dist/, from this checkout: `make deb`.
#
#   packaging/debian/build.sh [ARCH [FOLDER]]    amd64 or arm64; else this machine's
#
# One package serves every Python of the list: what is pure lies there once, what is
# compiled once for each, side by side under its tagged name (PEP 3149). Nothing is
# compiled here, so that any machine can build for any other.
set -euo pipefail
cd "$(dirname "$0")/../.."

pythons=(3.10 3.11 3.12 3.13 3.14)
glibc=2.28 # what the wheels may ask for; Ubuntu 22.04 has 2.35
export NEEDS="python3 (>= 3.10~), python3 (<< 3.15~), libc6 (>= $glibc)"

need() { # PROGRAM HOW
  command -v "$1" >/dev/null || { echo "$1 is needed: $2" >&2; exit 1; }
}
need dpkg-buildpackage "apt install dpkg-dev"
need dh "apt install debhelper"
need uv "\`make deb\` brings it, or pip install uv"

arch=${1:-$(dpkg --print-architecture)}
case $arch in
  amd64) machine=x86_64 ;;
  arm64) machine=aarch64 ;;
  *) echo "$arch: only amd64 and arm64 can be built" >&2; exit 1 ;;
esac

folder=${2:-dist}
version=$(sed -n 's/^__version__ = "\(.*\)"$/\1/p' sidecar/__init__.py)
# A release candidate comes before its release: 1.0rc1 is 1.0~rc1.
version=$(sed -E 's/\.?(a|b|rc|dev)([0-9]+)/~\1\2/' <<<"$version")
# What no tag marks as the release is newer than it, or apt would not install it over.
if ! git describe --tags --exact-match >/dev/null 2>&1; then
  version+=$(git log -1 --format=+git%cd.%h --date=format:%Y%m%d%H%M%S 2>/dev/null || true)
fi
# Two builds of one commit are the same to the byte.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}
export SOURCE_DATE_EPOCH

stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
source=$stage/capacity-sidecar
mkdir "$source"

cp -r packaging/debian "$source/debian"
cp packaging/systemd/capacity-sidecar.service "$source/debian/"
cp packaging/systemd/capacity-sidecar.env "$source/debian/capacity-sidecar.default"
cp README.md "$source/"

uv build --quiet --wheel --out-dir "$stage" \
  --build-constraints packaging/requirements/build.txt --require-hashes .
for python in "${pythons[@]}"; do
  install=(uv pip install --quiet --target "$stage/$python" --python-version "$python"
    --python-platform "$machine-manylinux_${glibc/./_}" --only-binary :all: --no-deps)
  "${install[@]}" --require-hashes --requirement packaging/requirements/gcp.txt
  "${install[@]}" "$stage"/capacity_sidecar-*.whl
done
python3 packaging/debian/merge.py "$source/tree" "${pythons[@]/#/$stage/}"
python3 packaging/debian/bundled.py "$source/tree" >>"$source/debian/copyright"

cat >"$source/debian/changelog" <<END
capacity-sidecar ($version) unstable; urgency=medium

  * Built from $(git describe --always --dirty 2>/dev/null || echo "a source archive").

 -- $(sed -n 's/^Maintainer: //p' packaging/debian/control)  $(date -uRd "@$SOURCE_DATE_EPOCH")
END
find "$source" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +

# -d: of all that it would ask for, only debhelper is used.
(cd "$source" && dpkg-buildpackage --host-arch "$arch" --build=binary -d -uc) \
  >"$stage/log" 2>&1 || { cat "$stage/log" >&2; exit 1; }
package=capacity-sidecar_${version}_$arch.deb
mkdir -p "$folder"
mv "$stage/$package" "$folder/"
echo "$folder/$package"
