# Functions for ci/setup and for the install steps of the adapters (impl/adapters/NAME/install); sourced,
# never run. The caller has set -euo pipefail and, for npm_fetch, `name`: what is being installed.
# shellcheck shell=bash

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
third_party=$root/build/third_party

say() { printf '%s\n' "setup: $*" >&2; }
fail() { say "${@:2}"; exit "$1"; }

# What is optional is skipped with one line that says why, and no error.
skip() { say "$name: skipped: $*"; exit 0; }

on_debian() { command -v dpkg-query > /dev/null && command -v apt-get > /dev/null; }
may_install() { [[ ${ATTEST_SETUP-} != skip ]] && on_debian && ((EUID == 0)); }

# Prints those of its arguments that are not installed.
missing_of() {
  local installed package
  installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "$@" 2> /dev/null || true)
  for package in "$@"; do
    grep -qxF "installed $package" <<< "$installed" || printf '%s\n' "$package"
  done
}

# apt_get LOG ARGS...: quiet; the output goes to the log.
apt_get() {
  DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=300 \
    "${@:2}" >> "$1" 2>&1 < /dev/null
}

# Installs its arguments. The package lists are fetched only where they are absent or out of date.
install_packages() {
  local log status=0
  log=$(mktemp)
  say "installing Debian packages: $*"
  apt_get "$log" install -y --no-install-recommends "$@" || status=$?
  if ((status)); then
    say "fetching Debian's package lists"
    status=0
    apt_get "$log" update || status=$?
    ((status)) || apt_get "$log" install -y --no-install-recommends "$@" || status=$?
  fi
  ((status)) && tail -n 20 "$log" >&2
  rm -f "$log"
  return "$status"
}

# The Debian packages of something optional: skips it where they cannot be had.
optional_packages() {
  local missing
  mapfile -t missing < <(missing_of "$@")
  ((${#missing[@]})) || return 0
  may_install || skip "its Debian packages are not installed: apt-get install ${missing[*]}"
  install_packages "${missing[@]}" || skip "apt-get could not install: ${missing[*]}"
}

# npm_fetch PACKAGE@VERSION SHA512: leaves the pinned tarball's contents in $scratch/package, where
# `scratch` is a new folder in build/third_party that is removed at exit. Move what is wanted into place
# whole, as the last step.
npm_fetch() {
  local tarball why
  command -v npm > /dev/null || { may_install && install_packages npm; } || skip "npm is not installed"
  mkdir -p "$third_party"
  scratch=$(mktemp -d "$third_party/.incoming.XXXXXX")
  trap 'rm -rf "$scratch"' EXIT
  if ! tarball=$(cd "$scratch" && timeout 300 npm pack --loglevel=error --no-update-notifier \
    --fetch-retries=1 "$1" 2> npm.log < /dev/null); then
    why=$(grep -m1 -oiP '^npm (ERR!|error) code \K\S+' "$scratch/npm.log" || printf 'no answer')
    skip "npm could not fetch $1 ($why); try ci/setup --with $name later"
  fi
  printf '%s  %s\n' "$2" "$scratch/$tarball" | sha512sum --check --status ||
    skip "$1 is not the pinned tarball (sha512 differs)"
  tar -xzmf "$scratch/$tarball" -C "$scratch"
}
