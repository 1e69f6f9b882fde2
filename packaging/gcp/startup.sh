#!/usr/bin/env bash
# Start-up script of one VM of the group: vLLM and capacity-sidecar as systemd services.
#
# It runs as root at every boot, and may run again by hand: what is installed stays, the
# settings are written anew. vLLM lives in a virtual environment of its own rather than in
# Docker: the image brings the GPU's driver and pip brings the rest, so there is no
# container engine and no NVIDIA toolkit to install, and the sidecar can read vLLM's
# command line, where the sequence limit stands.
#
# Attributes of the instance (metadata):
#   model             what vLLM serves; needed
#   vllm-spec         what pip installs for vLLM                        default: vllm
#   vllm-options      more options of `vllm serve`, blank separated     default: none
#   sidecar-package   the sidecar's .deb, gs://BUCKET/FILE.deb; needed
#   sidecar-settings  more of its settings, NAME=value, one a line      default: none
set -euo pipefail
shopt -s inherit_errexit

METADATA=http://metadata.google.internal/computeMetadata/v1/instance
VLLM=/opt/vllm
CACHE=/var/cache/capacity-sidecar-start-up
SETTINGS=/etc/capacity-sidecar/start-up.env

say() { echo "capacity-sidecar start-up: $*"; }

fail() {
  say "$*" >&2
  exit 1
}

metadata() {
  curl --silent --fail --noproxy '*' --retry 5 --retry-connrefused \
    --header 'Metadata-Flavor: Google' "$METADATA/$1"
}

attribute() { # NAME DEFAULT
  metadata "attributes/$1" || echo "$2"
}

apt() { # ARGUMENTS... of apt-get
  DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=600 \
    -o Dpkg::Options::=--force-confold "$@"
}

install_packages() {
  # vLLM compiles kernels when it starts: a compiler and Python's headers are needed.
  if ! dpkg-query --show python3-venv python3-dev gcc >/dev/null 2>&1; then
    apt update
    apt install -y --no-install-recommends python3-venv python3-dev gcc
  fi
}

install_into() { # VENV SPEC
  local venv=$1 spec=$2
  if [[ -f $venv/.installed && $(<"$venv/.installed") == "$spec" ]]; then
    say "$venv has $spec already"
    return
  fi
  say "installing $spec into $venv"
  rm -rf "$venv"
  python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet --no-cache-dir --disable-pip-version-check "$spec"
  # Last, so that an installation cut short is done again.
  echo "$spec" >"$venv/.installed"
}

fetch() { # gs://BUCKET/FILE FOLDER; prints the path of the copy
  local path=${1#gs://} folder=$2
  local bucket=${path%%/*} object=${path#*/} token
  token=$(metadata service-accounts/default/token |
    python3 -c 'import json, sys; print(json.load(sys.stdin)["access_token"])')
  mkdir -p "$folder"
  # The token goes in by standard input: a command line can be read by everyone.
  echo "header = \"Authorization: Bearer $token\"" |
    curl --config - --silent --show-error --fail --retry 5 \
      --output "$folder/${object##*/}" \
      "https://storage.googleapis.com/storage/v1/b/$bucket/o/${object//\//%2F}?alt=media"
  echo "$folder/${object##*/}"
}

write_sidecar_settings() { # MORE
  # A file of our own beside the package's, which an operator may edit.
  install -d -m 0700 "${SETTINGS%/*}"
  cat >"$SETTINGS" <<SETTINGS
SIDECAR_TARGETS=127.0.0.1:8000
SIDECAR_SINKS=prometheus,cloud_monitoring
$1
SETTINGS
  mkdir -p /etc/systemd/system/capacity-sidecar.service.d
  printf '[Service]\nEnvironmentFile=%s\n' "$SETTINGS" \
    >/etc/systemd/system/capacity-sidecar.service.d/start-up.conf
}

install_sidecar() { # gs://BUCKET/FILE.deb
  local installed=$CACHE/installed package
  if [[ -f $installed && $(<"$installed") == "$1" ]]; then
    say "$1 is installed already"
    return
  fi
  package=$(fetch "$1" "$CACHE")
  say "installing $package"
  apt install -y --no-install-recommends "$package"
  echo "$1" >"$installed"
}

write_vllm_unit() { # MODEL OPTIONS
  printf 'MODEL="%s"\nVLLM_OPTIONS="%s"\n' "$1" "$2" >/etc/default/vllm
  cat >/etc/systemd/system/vllm.service <<'UNIT'
[Unit]
Description=vLLM
Wants=network-online.target
After=network-online.target
# A model that does not fit fails again and again; go on trying, as a later boot would.
StartLimitIntervalSec=0

[Service]
EnvironmentFile=/etc/default/vllm
Environment=HOME=/var/lib/vllm HF_HOME=/var/lib/vllm/huggingface
Environment=PATH=/opt/vllm/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
ExecStart=/opt/vllm/bin/vllm serve ${MODEL} --port 8000 $VLLM_OPTIONS
User=vllm
StateDirectory=vllm
Restart=always
RestartSec=10
# Requests under way may finish before the VM goes.
TimeoutStopSec=80

[Install]
WantedBy=multi-user.target
UNIT
}

restart_if_changed() { # SERVICE FILE...
  local service=$1 now before=$CACHE/$1
  shift
  now=$(sha256sum "$@")
  systemctl enable --quiet "$service"
  if [[ -f $before && $(<"$before") == "$now" ]]; then
    systemctl start --no-block "$service"
  else
    systemctl restart --no-block "$service"
    mkdir -p "${before%/*}"
    echo "$now" >"$before"
  fi
}

main() {
  local model options package
  model=$(attribute model "")
  [[ -n $model ]] || fail "the attribute model is not set; see packaging/gcp/README.md"
  [[ $model =~ ^[A-Za-z0-9._/:@-]+$ ]] || fail "the attribute model is no model's name: $model"
  options=$(attribute vllm-options "")
  [[ $options != *\"* ]] || fail "the attribute vllm-options may hold no double quotes"
  package=$(attribute sidecar-package "")
  [[ $package == gs://*.deb ]] ||
    fail "the attribute sidecar-package is no gs://BUCKET/FILE.deb: $package"
  nvidia-smi --list-gpus ||
    fail "no GPU or no driver; take an image that brings the driver, see packaging/gcp/README.md"

  install_packages
  id vllm >/dev/null 2>&1 ||
    useradd --system --home-dir /var/lib/vllm --shell /usr/sbin/nologin vllm

  write_sidecar_settings "$(attribute sidecar-settings "")"
  install_sidecar "$package"
  install_into "$VLLM" "$(attribute vllm-spec vllm)"
  write_vllm_unit "$model" "$options"

  systemctl daemon-reload
  restart_if_changed vllm.service "$VLLM/.installed" \
    /etc/default/vllm /etc/systemd/system/vllm.service
  restart_if_changed capacity-sidecar.service "$SETTINGS"

  if curl --silent --fail --noproxy '*' --retry 30 --retry-delay 1 --retry-connrefused \
    --output /dev/null http://127.0.0.1:9846/healthz; then
    say "done; vLLM loads $model now"
  else
    fail "the sidecar does not answer: journalctl -u capacity-sidecar"
  fi
}

main "$@"
