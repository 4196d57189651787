#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Installs the Debian packages in the folder $1 over a copy of this system, uses them, and purges
# them. The copy is an overlay in memory that only this script sees. Needs root, cryptsetup, cc and
# pkg-config.
set -euo pipefail
if [ "${2-}" != inside ]; then
    exec unshare --mount "$0" "$1" inside
fi
packages=$(realpath "$1")
mount -t tmpfs tmpfs /mnt
mkdir /mnt/{changes,work,root}
mount -t overlay overlay -o lowerdir=/,upperdir=/mnt/changes,workdir=/mnt/work /mnt/root
mount --rbind /dev /mnt/root/dev
mount -t proc proc /mnt/root/proc
mount -t tmpfs tmpfs /mnt/root/mnt
cp "$packages"/*.deb /mnt/root/mnt

chroot /mnt/root bash -euxo pipefail <<'END'
cd /mnt
dpkg --install *.deb
. /usr/share/bash-completion/completions/luxor
zcat /usr/share/man/man1/luxor-encrypt.1.gz | grep -q '^\.SH SYNOPSIS'
luxor-bench --version

printf 'correct horse battery staple' > key
head -c 100001 /dev/urandom > file
luxor encrypt --key-file key --pbkdf-force-iterations 4 --pbkdf-memory 32 file file.luks
cryptsetup open --test-passphrase --key-file key file.luks
luxor decrypt --key-file key file.luks copy
cmp file copy

printf '#include <luxor.h>\n#include <stdio.h>\nint main(void) { puts(luxor_version()); }\n' > version.c
cc version.c $(pkg-config --cflags --libs luxor) -o version
cc version.c -l:libluxor.a $(pkg-config --static --libs-only-other --libs-only-l luxor) -o static
test "$(./version)" = "$(pkg-config --modversion luxor)"
test "$(./static)" = "$(./version)"

# The link of an enabled instance goes with the package.
systemctl enable luxor-serve@disk.socket
test -L /etc/systemd/system/sockets.target.wants/luxor-serve@disk.socket
dpkg --purge luxor libluxor-dev libluxor0
END
if left=$(find /mnt/changes -name '*luxor*' | grep .); then
    echo "the packages left these files behind: $left"
    exit 1
fi
