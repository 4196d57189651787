#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Uses the static programs of the archive $1 in a folder that contains nothing else. Needs root,
# cryptsetup and nbdinfo.
set -euo pipefail
if [ "${2-}" != inside ]; then
    exec unshare --mount --pid --fork --kill-child "$0" "$1" inside
fi
archive=$(realpath "$1")
mount -t tmpfs tmpfs /mnt
cd /mnt
set -x
tar xf "$archive" --strip-components=1
luxor() { chroot /mnt /bin/luxor "$@"; }
luxor engines
printf 'correct horse battery staple' > key
head -c 100001 /dev/urandom > file
luxor encrypt --key-file key --pbkdf-force-iterations 4 --pbkdf-memory 32 file file.luks
cryptsetup open --test-passphrase --key-file key file.luks
luxor decrypt --key-file key file.luks copy
cmp file copy
chroot /mnt /bin/luxor-bench --version
luxor serve --key-file key --socket socket file.luks &
for _ in {1..100}; do
    if size=$(nbdinfo --size "nbd+unix:///?socket=socket" 2>/dev/null); then break; fi
    sleep 0.1
done
test "$size" = 100001
