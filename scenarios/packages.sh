# Installs what is missing of the Debian packages named as arguments. Sourced by quickstart.sh and tests/run.sh.
install_missing() {
  missing=""
  for package in "$@"; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q "ok installed" || missing="$missing $package"
  done
  [ -n "$missing" ] || return 0
  if [ "$(id -u)" -eq 0 ]; then
    as_root=""
  elif command -v sudo >/dev/null 2>&1; then
    as_root="sudo"
  else
    echo "needed and not installed:$missing" >&2
    echo "neither root nor sudo: install them and run this again" >&2
    return 1
  fi
  echo "installing:$missing"
  export DEBIAN_FRONTEND=noninteractive
  # shellcheck disable=SC2086  # words on purpose
  $as_root apt-get update -qq </dev/null && $as_root apt-get install -y -qq --no-install-recommends $missing </dev/null
}

build_packages="cmake ninja-build g++ git libboost-graph-dev libboost-program-options-dev libeigen3-dev
  nlohmann-json3-dev libtbb-dev libfmt-dev catch2 libbenchmark-dev zlib1g-dev libyaml-cpp-dev
  libpugixml-dev libprotobuf-dev protobuf-compiler"
