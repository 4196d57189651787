#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Opens volumes of the program $1 with cryptsetup and dm-crypt, also in every state of a
# re-encryption, of an encryption in place and of a decryption in place. cryptsetup continues what Luxor
# has begun, while the volume is active, and Luxor continues what cryptsetup has begun on an active
# volume. Then it compares the names of ciphers: what means the same to dm-crypt means the same to Luxor.
# QEMU emulates the machine with dm-crypt, and this script is also the first program there. Its files are
# in target/dm-crypt. With the argument `names` after the program it compares the names only.
set -eu

cheap='--key-file key --pbkdf pbkdf2 --pbkdf-force-iterations 1000'

# Prints the state of the re-encryption of the volume with the header $1: `none`, `begun`, `between`
# two zones, or in a `zone`. The programs lock the volume, so this reads the JSON itself.
state() {
    json=$(dd if="$1" bs=4096 skip=1 count=3 2>/dev/null | tr -d '\0')
    case $json in
        *'"in-reencryption"'*) echo zone ;;
        *'"online-reencrypt'*)
            # One segment is the data, and two tell how they were and will be.
            if [ "$(echo "$json" | grep -oE '"type":"(crypt|linear)"' | wc -l)" = 3 ]; then
                echo begun
            else
                echo between
            fi
            ;;
        *) echo none ;;
    esac
}

# Ends this script unless the volume $name, with the header $header, is in the state $goal.
must_be_in_goal() {
    now=$(state "$header")
    if [ "$now" != "$goal" ]; then
        echo "$name: the state of the re-encryption is $now instead of $goal" >&2
        exit 1
    fi
}

# Runs a command until the header $2 is in the state $1, and leaves it stopped, as $process.
stop_in() {
    wanted=$1 header=$2
    shift 2
    "$@" &
    process=$!
    go_on_to "$wanted" "$header"
}

# Lets $process run until the header $2 is in the state $1, and stops it.
go_on_to() {
    wanted=$1 header=$2
    while kill -STOP "$process"; do
        if [ "$(state "$header")" = "$wanted" ]; then return 0; fi
        kill -CONT "$process"
        sleep 0.002
    done
    echo "the program ended before the state was: $wanted"
    return 1
}

# Ends the stopped process by the signal $1.
end() {
    kill "-$1" "$process"
    # After KILL the process may be gone.
    kill -CONT "$process" || true
    wait "$process" || true
}

# Sets $header to the header of the volume `disks/$name`, and $detached to the options that name it.
find_header() {
    header=disks/$name detached=
    if [ -e "$header.hdr" ]; then
        header=$header.hdr
        detached="--header $header"
    fi
}

# In the guest: does $1 with the volume $2.
# shellcheck disable=SC2086 # $cheap and $detached are several words
guest_case() {
    action=$1 name=$2 volume=disks/$2
    find_header
    cryptsetup open --key-file key $detached "$volume" "$name" && same || return 1
    set -- cryptsetup reencrypt --batch-mode $cheap $detached --active-name "$name" "$volume"
    case $action in
        open) cryptsetup close "$name" ;;
        resume)
            "$@" --resume-only --hotzone-size 2M || return 1
            case $name in
                # cryptsetup removes the device of a volume that it has decrypted.
                resume-dec*) test ! -e "/dev/mapper/$name" ;;
                *) same && cryptsetup close "$name" ;;
            esac
            ;;
        *)
            set -- "$@" --resilience "${action#*-}" --hotzone-size 2M
            "$@" --init-only && same || return 1
            set -- "$header" "$@" --resume-only
            case $action in
                term-*) stop_in between "$@" && end TERM && same ;;
                kill-*) stop_in zone "$@" && end KILL ;;
                # The machine stops before the process continues.
                off-*) stop_in zone "$@" ;;
            esac
            ;;
    esac
}

# The IV of the first sector of the disk `names`. A number with 33 bits follows, which `plain` and `plain64`
# treat differently.
first_iv=4294967264

# In the guest: prints what dm-crypt reads from the disk `names` under each name of a cipher.
guest_names() {
    while read -r bits name; do
        key=$(head -c "$((bits / 4))" names.key)
        echo "0 64 crypt $name $key $first_iv /dev/$(readlink disks/names | sed 's,.*/,,') 0" >table
        if dmsetup create named <table >/dev/null 2>&1; then
            sum=$(sha256sum </dev/mapper/named)
            dmsetup remove --retry named
        else
            sum=refused
        fi
        echo "@ name $bits $name ${sum%% *}"
    done <names
}

# In the guest: whether the device of the volume has the right plaintext.
same() {
    test "$(sha256sum <"/dev/mapper/$name")" = "$(cat sum)"
}

guest() {
    mount -t proc proc /proc
    mount -t sysfs sys /sys
    mount -t devtmpfs dev /dev
    mount -t tmpfs run /run
    dmesg -n 1
    # There is no udev, which cryptsetup would wait for.
    export DM_DISABLE_UDEV=1
    modprobe -a virtio_pci virtio_blk dm_crypt
    for disk in /sys/block/vd*; do
        # cryptsetup overwrites keyslots on a magnetic disk many times.
        echo 0 >"$disk/queue/rotational"
        ln -s "/dev/${disk##*/}" "disks/$(cat "$disk/serial")"
    done
    echo "@ $(uname -r), $(cryptsetup --version)"
    while read -r action name; do
        if guest_case "$action" "$name" >log 2>&1 </dev/null; then
            echo "@ ok $name"
        else
            cat log
            echo "@ failed $name"
        fi
    done <cases
    guest_names
    echo "@ end"
    poweroff -n -f
}

# Makes the volume $2, with which the guest will do $1. The other arguments are for `luxor encrypt`.
volume() {
    name=$2
    echo "$1 $2" >>cases
    shift 2
    # shellcheck disable=SC2086 # $cheap is several words
    "$luxor" encrypt $cheap "$@" plain "disks/$name"
}

# Begins to re-encrypt the volume `disks/$name`, and goes on to the state $1. The other arguments
# are for `luxor reencrypt`.
# shellcheck disable=SC2086 # $cheap is several words
reencrypt() {
    goal=$1
    shift
    "$luxor" reencrypt --quiet $cheap --init-only "$@" "disks/$name"
    find_header
    set -- "$luxor" reencrypt --quiet $cheap --resume-only --hotzone-size 128K $detached \
        "disks/$name"
    case $goal in
        none) "$@" ;;
        between) stop_in between "$header" "$@" && end TERM ;;
        zone) stop_in zone "$header" "$@" && end KILL ;;
    esac >>log 2>&1
    must_be_in_goal
}

# Makes an encryption of plain data with a detached header, in the state $3.
encryption() {
    name=$2
    echo "$1 $2" >>cases
    cp plain "disks/$name"
    reencrypt "$3" --encrypt --header "disks/$name.hdr"
}

# Begins to do in place what the options of `reencrypt` after the first four arguments say, with the volume
# $2, and goes on to the state $3. The guest will do $1. $4 begins it: `luxor`, or `cryptsetup` for comparison.
# shellcheck disable=SC2086 # $cheap and $detached are several words
in_place() {
    name=$2 goal=$3 first=$4
    echo "$1 $2" >>cases
    shift 4
    if [ "$first" = cryptsetup ]; then
        set -- cryptsetup reencrypt --batch-mode --force-offline-reencrypt "$@"
    else
        set -- "$luxor" reencrypt --quiet "$@"
    fi
    "$@" $cheap --init-only "disks/$name" >>log 2>&1
    find_header
    if [ "$goal" != begun ]; then
        # Data that move have more segments, so their first zone shows that they are under way.
        stop_in zone "$header" "$luxor" reencrypt --quiet $cheap --resume-only --hotzone-size 128K \
            $detached "disks/$name" >>log 2>&1
        if [ "$goal" = between ]; then
            go_on_to between "$header" && end TERM
        else
            end KILL
        fi >>log 2>&1
        must_be_in_goal
    fi
}

# Makes an encryption with the header in front of the data, begun by $4.
encryption_in_front() {
    cp plain "disks/$2"
    truncate --size +2M "disks/$2"
    more=
    if [ "$4" = cryptsetup ]; then more='--type luks2 --luks2-keyslots-size 512k'; fi
    # shellcheck disable=SC2086 # $more is several words
    in_place "$@" --encrypt --reduce-device-size 2M $more
}

# Makes a decryption of a volume with a detached header, begun by $4.
# shellcheck disable=SC2086 # $cheap is several words
decryption() {
    "$luxor" encrypt $cheap --header "disks/$2.hdr" plain "disks/$2"
    in_place "$@" --decrypt --header "disks/$2.hdr"
}

# Makes a decryption of a volume with the header in front, begun by $4.
# shellcheck disable=SC2086 # $cheap is several words
decryption_in_front() {
    "$luxor" encrypt $cheap --luks2-keyslots-size 992K plain "disks/$2"
    in_place "$@" --decrypt --header "disks/$2.hdr"
}

make_volumes() {
    volume open luks2-4096
    volume open luks2-512 --sector-size 512
    volume open luks1 --type luks1
    volume open detached --header disks/detached.hdr
    for action in open resume; do
        volume "$action" "$action-begun"
        reencrypt begun
        volume "$action" "$action-between"
        reencrypt between
        volume "$action" "$action-checksum"
        reencrypt zone
        volume "$action" "$action-journal"
        reencrypt zone --resilience journal
        encryption "$action" "$action-encrypt" between
        encryption "$action" "$action-enc-zone" zone
    done
    for action in open resume; do
        for goal in between zone; do
            # A serial, with `.hdr`, has room for 20 characters.
            short=${goal%ween}
            short=${short%ne}
            encryption_in_front $action $action-front-"$short" "$goal" luxor
            decryption $action $action-dec-"$short" "$goal" luxor
            decryption_in_front $action $action-decf-"$short" "$goal" luxor
        done
        encryption_in_front $action $action-front-c between cryptsetup
        decryption_in_front $action $action-decf-c between cryptsetup
    done
    volume open open-512-to-4096 --sector-size 512
    reencrypt between --sector-size 4096
    volume open finished
    reencrypt none
    for action in term-checksum kill-checksum kill-journal off-checksum off-journal; do
        volume $action $action
    done
}

# The names to compare, with the length of the key in bits. The first ones are Luxor's own.
cipher_names() {
    while read -r bits names; do
        for name in $names; do echo "$bits $name"; done
    done <<'END'
256 aes-xts-plain64 aes-xts-plain aes-cbc-plain aes-cbc-plain64 aes-cbc-essiv:sha256
512 aes-xts-plain64 capi:xts(aes)-plain64
256 aes-xts-plain64:sha256 aes-xts-plain64: aes-xts-plain64:a-b:c aes:1-xts-plain64 aes:01-xts-plain64
256 aes:2-xts-plain64 aes:0-xts-plain64 aes:-xts-plain64 aes:1x-xts-plain64 aes-xts-plain64-
256 aes-xts-plain64be aes-xts-benbi aes-xts-null aes-xts-essiv:sha256 AES-XTS-PLAIN64 aes-xts aes-xts-
256 aes aes-plain aes:1 aes:1-plain aes-plain: aes-plain:x aes-plain- aes- aes-cbc aes-cbc-plain:x
256 aes-cbc-plain64:sha256 aes-cbc-plain64be aes-cbc-benbi aes-cbc-null aes-cbc-essiv aes-cbc-essiv:
256 aes-cbc-essiv:sha1 aes-cbc-essiv:sha512 aes-cbc-essiv:sha256-generic aes-cbc-essiv:sha256:x
256 capi:xts(aes)-plain64 capi:xts(aes)-plain capi:xts(aes)-plain64:sha256 capi:xts(aes)-plain64:a-b
256 capi:xts(aes)-plain64:a:b capi:xts(aes) capi:xts(aes)- capi:XTS(AES)-plain64 capi:aes-xts-plain64
256 capi:xts(ecb(aes-generic))-plain64 capi:xts(ecb(aes))-plain64 capi:xts(aes-generic)-plain64
256 capi:xts(ecb-aes-aesni)-plain64 capi:xts-aes-aesni-plain64 capi:xts(aes-aesni)-plain64
256 capi:cbc(aes)-plain64 capi:cbc(aes)-plain capi:cbc(aes-generic)-plain64 capi:cbc-aes-aesni-plain64
256 capi:cbc-aes-aesni-essiv:sha256-generic capi:cbc-aes-aesni-essiv:sha256
256 capi:cbc(aes)-essiv:sha256 capi:cbc(aes)-essiv capi:cbc(aes)-essiv:sha256-generic
256 capi:essiv(cbc(aes),sha256)-plain64 capi:essiv(cbc(aes),sha256)-plain
256 capi:essiv(cbc(aes),sha256)-plain64:x capi:essiv(cbc(aes),sha256)-essiv:sha256
256 capi:essiv(cbc(aes),sha1)-plain64 capi:essiv(cbc-aes-aesni,sha256-generic)-plain64
256 capi:ecb(aes)-null capi:ctr(aes)-plain64 capi:xts(aes)-plain64be capi:xts(cbc(aes))-plain64
256 aes:+1-xts-plain64 capi:capi:xts(aes)-plain64 aes-xts-plain:x serpent-xts-plain64 xts(aes)-plain64 aes(x)-xts-plain64 aes-xts-plain64:(
END
}

# Prints the SHA-256 of what Luxor reads from the disk `names` under the name $2 of a cipher, with a key
# of $1 bits, or `refused`.
named_by_luxor() {
    rm -f socket copy
    head -c "$(($1 / 8))" names.bin >names.secret
    "$luxor" serve --quiet --read-only --type plain --cipher "$2" --key-size "$1" --skip $first_iv \
        --key-file names.secret --socket socket disks/names >>log 2>&1 &
    server=$!
    while [ ! -S socket ]; do
        if ! kill -0 "$server" 2>/dev/null; then
            echo refused
            return
        fi
        sleep 0.01
    done
    qemu-img convert -O raw "nbd+unix:///?socket=socket" copy
    kill "$server"
    wait "$server" || true
    sha256sum <copy | cut -d ' ' -f 1
}

# Compares the names: Luxor opens a name if dm-crypt reads the same with it as with a name of Luxor's own,
# and reads the same as dm-crypt. It may open a name whose driver this kernel lacks.
judge_names() {
    own=$(sed -n 's/^@ name //p' serial | head -n 6 | cut -d ' ' -f 3)
    sed -n 's/^@ name //p' serial >named
    test "$(wc -l <named)" = "$(wc -l <names)" || return 1
    result=0
    while read -r bits name sum; do
        ours=$(named_by_luxor "$bits" "$name" </dev/null)
        wanted=refused
        if echo "$own" | grep -qx "$sum"; then wanted=$sum; fi
        verdict=ok
        if [ "$ours" != "$wanted" ]; then verdict=FAILED result=1; fi
        printf '%-45s %s  dm-crypt %.8s  luxor %.8s  %s\n' "$name" "$bits" "$sum" "$ours" "$verdict"
    done <named
    return $result
}

# Puts Debian's kernel and its modules into the folder `kernel`. The package is unpacked, not
# installed, because installing it would change what this machine boots.
get_kernel() {
    if [ -d kernel ]; then return; fi
    package=$(apt-cache depends linux-image-cloud-amd64 | sed -n 's/.*Depends: //p')
    if [ -z "$package" ]; then
        echo "no linux-image-cloud-amd64: run sudo apt-get update" >&2
        exit 1
    fi
    rm -rf new linux-image-*.deb
    apt-get --quiet download "$package"
    dpkg-deb --extract linux-image-*.deb new
    rm linux-image-*.deb
    mv new kernel
}

make_initrd() {
    mkdir -p guest/bin guest/sbin guest/disks guest/proc guest/sys guest/dev guest/run
    mkdir guest/etc
    version=$(ls kernel/lib/modules)
    for part in crypto arch drivers/md drivers/block drivers/virtio lib security; do
        from=lib/modules/$version/kernel/$part
        if [ -d "kernel/$from" ]; then
            mkdir -p "guest/$from"
            cp -r "kernel/$from/." "guest/$from"
        fi
    done
    cp kernel/lib/modules/"$version"/modules.* "guest/lib/modules/$version"
    busybox depmod -b guest "$version"
    for name in $(busybox --list); do
        ln -s /bin/busybox "guest/bin/$name"
    done
    cp --remove-destination "$(command -v busybox)" guest/bin/busybox
    ln -s /bin/busybox guest/sbin/modprobe
    for program in cryptsetup dmsetup; do
        program=$(command -v $program)
        cp "$program" guest/bin/
        ldd "$program" | grep -o '/[^ ]*' | while read -r library; do
            mkdir -p "guest${library%/*}"
            cp -L "$library" "guest$library"
        done
    done
    sha256sum <plain >guest/sum
    cp key cases names names.key guest/
    cp "$script" guest/init
    (cd guest && find . | busybox cpio -o -H newc -R 0:0 2>/dev/null) >initrd
}

# Runs the guest. A PCI slot has room for eight disks, and a serial for 20 characters.
boot() {
    set --
    number=0
    for disk in disks/*; do
        place=$((number / 8 + 4)).$((number % 8))
        set -- "$@" -drive "if=none,id=d$number,format=raw,file=$disk" -device \
            "virtio-blk-pci,drive=d$number,serial=${disk##*/},multifunction=on,addr=$place"
        number=$((number + 1))
    done
    timeout 900 qemu-system-x86_64 -accel tcg -cpu max -m 1024 -nodefaults -display none \
        -no-reboot -serial stdio -kernel kernel/boot/vmlinuz-* -initrd initrd \
        -append 'console=ttyS0 loglevel=4 panic=-1 mitigations=off' "$@" </dev/null |
        tr -d '\r' | tee serial
}

# Whether the guest did $1 with the volume $2, and the volume has the right plaintext after `luxor
# reencrypt` has finished it. $before and $after are its states before and after the guest.
# shellcheck disable=SC2086 # $cheap and $detached are several words
judge() {
    name=$2
    find_header
    after=$(state "$header")
    grep -qx "@ ok $name" serial || return 1
    case $1-$before-$after in
        # To open a volume, cryptsetup finishes the zone, and nothing else.
        open-none-none | open-begun-begun | open-between-between | open-zone-between) ;;
        resume-*-none | term-*-none-between | kill-*-none-zone | off-*-none-zone) ;;
        *) return 1 ;;
    esac
    if [ "$after" != none ]; then
        "$luxor" reencrypt --quiet $cheap --resume-only $detached "disks/$name" || return 1
    fi
    # The rest of a volume that was encrypted in place was free, and of one that was decrypted it may be.
    case $name in
        open-dec* | resume-dec*) cmp -n "$(wc -c <plain)" plain "disks/$name" ; return ;;
    esac
    rm -f copy
    "$luxor" decrypt --quiet --key-file key $detached "disks/$name" copy &&
        cmp -n "$(wc -c <plain)" plain copy
}

if [ $$ = 1 ]; then
    guest
fi
PATH=$PATH:/usr/sbin
luxor=$(realpath "$1")
script=$(realpath "$0")
for tool in qemu-system-x86_64/qemu-system-x86 busybox/busybox-static cryptsetup/cryptsetup-bin \
    dmsetup/dmsetup qemu-img/qemu-utils; do
    if ! command -v "${tool%/*}" >/dev/null; then
        echo "${tool%/*} is missing: run sudo apt-get install ${tool#*/}" >&2
        exit 1
    fi
done
mkdir -p "${script%/*}/../target/dm-crypt"
cd "${script%/*}/../target/dm-crypt"
get_kernel
rm -rf disks guest cases log
mkdir disks
printf 'correct horse battery staple' >key
head -c 12M /dev/urandom >plain
: >cases
if [ "${2-}" != names ]; then make_volumes; fi
cipher_names >names
head -c 64 /dev/urandom >names.bin
busybox xxd -p names.bin | tr -d '\n' >names.key
head -c 32K /dev/urandom >disks/names
make_initrd
while read -r action name; do
    find_header
    echo "$action $name $(state "$header")"
done <cases >states
boot
count=0 failures=0
while read -r action name before; do
    if judge "$action" "$name"; then result=ok; else result=FAILED; fi
    printf '%-18s %-16s %-8s -> %-8s %s\n' "$name" "$action" "$before" "$after" "$result"
    count=$((count + 1))
    if [ $result != ok ]; then failures=$((failures + 1)); fi
done <states
echo "$count cases, $failures failed"
judge_names
test "$failures" = 0
rm -r disks guest initrd
