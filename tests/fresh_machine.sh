#!/usr/bin/env bash
# Try `make lab` (and with --test `make test`) on a machine that has nothing: a bare Debian in a folder, entered by chroot.
#
#   sudo tests/fresh_machine.sh DIR [root] [user] [--test]
#
# Makes DIR/base with debootstrap (minbase with ca-certificates, python3, python3-venv, git and make; 45 s, 400 MB) where it
# is not there yet, and from it a new DIR/root and DIR/user (both unless one is named; each about 2.5 GB when done). There is
# no compiler, Mesa, Vulkan loader, libatomic, Node or browser in them. In each it
#   1. clones this repository (the last commit; FRESH_WORKTREE=1 takes the files as they lie here instead);
#   2. runs `make lab ARGS=--no-browser`, in DIR/user as a user without any rights, until JupyterLab says its address;
#   3. checks that the self-test printed the gradient and that the server answers;
#   4. runs the first notebook in a kernel of its own;
#   5. stops the server, runs `make lab` again and says how long that took;
#   6. runs `slanglab doctor`; with --test, in DIR/root, `.ci/run`.
# Any step that fails ends the script with status 1; the logs stay in DIR.
#
# A network that needs a mirror, a proxy or its own certificates is part of the set-up, not of the machine under test:
#   FRESH_FILES="/etc/pip.conf /etc/apt/apt.conf.d/proxy"  files of this machine to copy to the same place
#   FRESH_ENV="HTTPS_PROXY PIP_CERT"                       variables of this machine to pass on
# resolv.conf, hosts and the certificate bundle are copied always. FRESH_SUITE=trixie takes another Debian release.
set -euo pipefail

die() { echo "fresh_machine: $*" >&2; exit 1; }
say() { echo "== $*"; }

[ "$(id -u)" = 0 ] || die "debootstrap, mount and chroot need root"
command -v debootstrap >/dev/null || die "debootstrap is missing: apt-get install debootstrap"
[ $# -ge 1 ] && [ "${1#-}" = "$1" ] || die "which folder? usage: tests/fresh_machine.sh DIR [root] [user] [--test]"
repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
mkdir -p "$1"; dir=$(cd "$1" && pwd); shift
kinds=() full=no
for word; do
  case $word in
    root | user) kinds+=("$word") ;;
    --test) full=yes ;;
    *) die "unknown argument $word" ;;
  esac
done
[ ${#kinds[@]} -gt 0 ] || kinds=(root user)

mounted=() server=
finish() {
  [ -z "$server" ] || kill -TERM -- "-$server" 2>/dev/null || true
  for place in "${mounted[@]}"; do umount -l "$place" 2>/dev/null || true; done
}
trap finish EXIT

if [ ! -e "$dir/base.done" ]; then
  say "debootstrap into $dir/base"
  rm -rf "$dir/base"
  debootstrap --variant=minbase --include=ca-certificates,python3,python3-venv,git,make "${FRESH_SUITE:-bookworm}" \
    "$dir/base" >"$dir/debootstrap.log" 2>&1 || die "debootstrap failed, see $dir/debootstrap.log"
  touch "$dir/base.done"
fi

passed=()
for name in ${FRESH_ENV:-}; do [ -z "${!name:-}" ] || passed+=("$name=${!name}"); done

enter() { # enter KIND COMMAND: as root or as the plain user, with a bare environment
  local machine=$dir/$1 user=root home=/root
  [ "$1" = root ] || { user=ana; home=/home/ana; }
  chroot --userspec="$user:$user" "$machine" /usr/bin/env -i HOME="$home" USER="$user" LANG=C.UTF-8 \
    PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "${passed[@]}" /bin/bash -c "cd ~ && $2"
}

start_lab() { # start_lab KIND LOG: returns when JupyterLab says its address, fails if `make lab` ends before
  local log=$2 begun=$SECONDS
  set -m # a process group of its own, so that make, the server and its kernels end together
  enter "$1" "cd slanglab && exec make lab ARGS=--no-browser" >"$log" 2>&1 </dev/null &
  server=$!
  set +m
  until grep -q '^ *\(\[.*\] \)\?.*http://[^ ]*/lab' "$log"; do
    kill -0 "$server" 2>/dev/null || { tail -n 30 "$log"; server=; die "make lab ended; see $log"; }
    sleep 0.5
  done
  say "$1: make lab is up after $((SECONDS - begun)) s"
}

stop_lab() {
  kill -TERM -- "-$server" 2>/dev/null || true
  wait "$server" 2>/dev/null || true
  server=
}

for kind in "${kinds[@]}"; do
  machine=$dir/$kind log=$dir/$kind.log
  say "$kind: a new machine in $machine"
  ! grep -q " $machine/" /proc/mounts || die "something is still mounted in $machine"
  rm -rf "$machine"
  cp -a "$dir/base" "$machine"
  for file in /etc/resolv.conf /etc/hosts /etc/ssl/certs/ca-certificates.crt ${FRESH_FILES:-}; do
    [ -e "$file" ] || die "$file of FRESH_FILES is not there"
    mkdir -p "$machine$(dirname "$file")"
    rm -f "$machine$file"
    cp -L "$file" "$machine$file"
  done
  for place in proc dev; do
    mount --bind "/$place" "$machine/$place"
    mounted+=("$machine/$place")
  done
  home=$machine/root
  if [ "$kind" = user ]; then
    chroot "$machine" useradd --create-home --shell /bin/bash ana
    home=$machine/home/ana
    [ ! -e "$machine/root/.npmrc" ] || cp "$machine/root/.npmrc" "$home/"
  fi
  if [ "${FRESH_WORKTREE:-}" = 1 ]; then
    mkdir "$home/slanglab"
    (cd "$repository" && git ls-files -z --cached --others --exclude-standard | tar --null --ignore-failed-read -cf - -T -) |
      tar -xf - -C "$home/slanglab"
  else
    git clone --quiet --no-local "$repository" "$home/slanglab"
  fi
  [ "$kind" = root ] && chown -R root:root "$home/slanglab" || chroot "$machine" chown -R ana:ana /home/ana

  for program in node npm gcc cc chromium vulkaninfo; do
    ! enter "$kind" "command -v $program" >/dev/null || die "$program is there: this is no bare machine"
  done
  ! enter "$kind" "ldconfig -p 2>/dev/null || /sbin/ldconfig -p" | grep -qE 'libatomic|libvulkan' || die "libatomic or libvulkan is there"

  start_lab "$kind" "$log"
  sed 's/^/   | /' "$log"
  grep -qF '[12. 16. 20. 24.]' "$log" || die "$kind: the self-test did not print the gradient; see $log"
  address=$(grep -o 'http://[^ ]*/lab[^ ]*' "$log" | tail -n 1)
  token=${address##*token=} port=${address#http://*:} port=${port%%/*}
  enter "$kind" "python3 -c \"import urllib.request as u; print(u.urlopen('http://127.0.0.1:$port/api/status?token=$token').read().decode())\"" ||
    die "$kind: the server does not answer"
  say "$kind: the first notebook in a kernel"
  enter "$kind" "cd slanglab && .venv/bin/jupyter execute notebooks/01-first-cell.ipynb" || die "$kind: the notebook failed"
  stop_lab

  start_lab "$kind" "$dir/$kind.second.log"
  grep -qF '[12. 16. 20. 24.]' "$dir/$kind.second.log" || die "$kind: no gradient at the second start"
  stop_lab
  enter "$kind" "cd slanglab && .venv/bin/slanglab doctor" || die "$kind: doctor finds no device"

  if [ "$kind" = root ] && [ "$full" = yes ]; then
    say "root: .ci/run"
    enter root "cd slanglab && CI=true .ci/run" 2>&1 | tee "$dir/test.log"
  fi
  say "$kind: all well"
done
