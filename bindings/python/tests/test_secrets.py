# SPDX-License-Identifier: MIT OR Apache-2.0
"""Passphrases and keys that stay in their process, wherever they are nested."""

from __future__ import annotations

import base64
import copy
import io
import json
import os
import pickle
import subprocess
import sys
import tarfile
import traceback
import zipfile
from collections import UserDict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import cloudpickle
import dask.bag
import dask.base
import fsspec
import luxor
import luxor.gpu
import luxor.distributed
import luxor.keys
import luxor.luksfs
import pytest
from conftest import CHEAP
from fsspec.registry import _registry, known_implementations
from luxor import _options

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: A passphrase that occurs nowhere else.
PASSPHRASE = "wisp-quartz-41"
PLAIN = b"what the archive keeps\n" * 40
#: What stands outside `luks`, and the URL's beginning.
OUTSIDE = {
    "zip": "zip://member::luks::",
    "tar": "tar://member::luks::",
    "simplecache": "simplecache::luks::",
    "filecache": "filecache::luks::",
    "blockcache": "blockcache::luks::",
    "two": "simplecache::zip://member::luks::",
    "luks": "luks::simplecache::",
}


@pytest.fixture
def url(tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """A volume whose plaintext is an archive of the kind that the test's name for the outside needs."""
    archive = io.BytesIO()
    if getattr(request, "param", "zip") == "tar":
        with tarfile.open(fileobj=archive, mode="w") as tar:
            entry = tarfile.TarInfo("member")
            entry.size = len(PLAIN)
            tar.addfile(entry, io.BytesIO(PLAIN))
    else:
        with zipfile.ZipFile(archive, "w") as made:
            made.writestr("member", PLAIN)
    path = tmp_path / "volume"
    luxor.encrypt(io.BytesIO(archive.getvalue()), path, passphrase=PASSPHRASE, **CHEAP)
    return f"file://{path}"


def leaks(text: str | bytes) -> bool:
    """Whether the passphrase is in it, also in other forms that pickles and JSON use."""
    data = text.encode() if isinstance(text, str) else text
    plain = PASSPHRASE.encode()
    return any(form in data for form in (plain, base64.b64encode(plain)[:16], plain.hex().encode()))


def sent(send: Callable[[Any], Any], value: Any) -> Any:
    """Return what `send` makes of the value, or the exception."""
    try:
        return send(value)
    except TypeError as error:
        return error


SENDING: list[Callable[[Any], Any]] = [
    pickle.dumps,
    cloudpickle.dumps,
    lambda value: cloudpickle.dumps(lambda: value),
    lambda value: json.dumps({"options": value.fs.storage_options}),
    lambda value: value.fs.to_json(),
    lambda value: value.fs.to_json(include_password=False),
    lambda value: str(value.fs.to_dict()),
]
SHOWING: list[Callable[[Any], str]] = [
    repr,
    lambda value: repr(value.fs),
    lambda value: repr(value.fs.storage_options) + repr(value.fs.storage_args),
    lambda value: repr(vars(value.fs)),
    lambda value: str(value.fs._fs_token),
    lambda value: str(dask.base.tokenize(value.fs)),
]


@pytest.mark.parametrize(
    ("url", "outside"),
    [("tar" if name == "tar" else "zip", name) for name in OUTSIDE],
    indirect=["url"],
)
@pytest.mark.parametrize("form", ["text", "bytes", "Secret"])
def test_a_passphrase_stays_in_its_process_whatever_stands_outside(
    url: str, outside: str, form: str
) -> None:
    forms: dict[str, Any] = {
        "text": PASSPHRASE,
        "bytes": PASSPHRASE.encode(),
        "Secret": luxor.Secret(PASSPHRASE),
    }
    given = {"passphrase": forms[form]}
    opened = fsspec.open(f"{OUTSIDE[outside]}{url}", luks=given)
    # It works here.
    with opened as file:
        data = file.read()
    assert data == PLAIN or PLAIN in data
    assert given == {"passphrase": forms[form]}
    for show in SHOWING:
        assert not leaks(show(opened))
    for send in SENDING:
        result = sent(send, opened)
        assert isinstance(result, TypeError), result
        assert not leaks(str(result))
    with pytest.raises(TypeError, match=r"use key_file, or a key provider as key"):
        pickle.dumps(opened)


def test_a_file_system_that_is_made_by_name_hides_it_too(url: str) -> None:
    path = url.removeprefix("file://")
    secret = {"passphrase": PASSPHRASE}
    archive = fsspec.get_filesystem_class("zip")
    made = [
        fsspec.filesystem("zip", fo=path, target_protocol="luks", target_options=secret),
        fsspec.filesystem("zip", fo=f"luks::{url}", target_options={"luks": secret}),
        fsspec.filesystem("zip", fo=f"luks::{url}", target_options=secret),
        # By position.
        archive(path, "r", "luks", secret),
        fsspec.filesystem("zip", fo=fsspec.open(f"luks::{url}", luks=secret).open()),
    ]
    assert [fs.cat("member") for fs in made] == [PLAIN] * len(made)
    inner = fsspec.filesystem("luks", passphrase=PASSPHRASE)
    made.append(fsspec.filesystem("dir", path=path.rpartition("/")[0], fs=inner))
    for fs in made:
        assert not leaks(repr(fs.storage_options) + repr(fs.storage_args) + repr(vars(fs)))
        for send in (pickle.dumps, cloudpickle.dumps, lambda fs: fs.to_json()):
            assert isinstance(sent(send, fs), TypeError)


def test_the_options_of_the_caller_stay_as_they_are(url: str) -> None:
    options: dict[str, Any] = {"passphrase": PASSPHRASE}
    nested: dict[str, Any] = {"target_options": options, "target_protocol": "luks"}
    fsspec.filesystem("zip", fo=url.removeprefix("file://"), **nested)
    assert options == {"passphrase": PASSPHRASE}
    assert nested["target_options"] is options


class Vault(luxor.luksfs.LuksFileSystem):
    """The protocol under other names."""

    protocol = ("vault", "safe")  # type: ignore[assignment]


@pytest.fixture
def vaults() -> Iterator[None]:
    names = {"vault": Vault, "my vault": Vault, "alias": luxor.luksfs.LuksFileSystem}
    for name, kind in names.items():
        fsspec.register_implementation(name, kind, clobber=True)
    fsspec.register_implementation("late", f"{__name__}.Vault", clobber=True)
    yield
    for name in (*names, "late"):
        _registry.pop(name, None)
        known_implementations.pop(name, None)


@pytest.mark.usefixtures("vaults")
@pytest.mark.parametrize("name", ["vault", "alias", "late"])
def test_other_names_of_the_protocol_hide_it_too(url: str, name: str) -> None:
    path = url.removeprefix("file://")
    secret: dict[str, Any] = {"passphrase": PASSPHRASE}
    outer = [fsspec.filesystem("zip", fo=path, target_protocol=name, target_options=secret)]
    if name == "vault":
        # fsspec takes only names that the class knows out of a chain.
        outer.append(fsspec.filesystem("zip", fo=f"{name}::{url}", target_options=secret))
        outer.append(fsspec.open(f"zip://member::{name}::{url}", **{name: secret}).fs)
    assert [fs.cat("member") for fs in outer] == [PLAIN] * len(outer)
    for fs in (*outer, fsspec.filesystem(name, fo=path, **secret), Vault(path, **secret)):
        assert not leaks(repr(fs.storage_options) + repr(fs.storage_args) + repr(vars(fs)))
        for send in (pickle.dumps, cloudpickle.dumps, lambda fs: fs.to_json()):
            assert isinstance(sent(send, fs), TypeError)


@pytest.mark.parametrize(
    "options",
    [
        {"luks": UserDict(passphrase=PASSPHRASE)},
        {"luks": MappingProxyType({"passphrase": PASSPHRASE})},
        {"others": [{"luks": {"passphrase": PASSPHRASE}}]},
        {"others": ({"deep": [{"luks": {"volume_key": PASSPHRASE.encode()}}]},)},
        {"luks": ({"passphrase": PASSPHRASE},)},
        {"target_protocol": ("file", "luks"), "target_options": {"passphrase": PASSPHRASE}},
    ],
)
def test_containers_of_options_hide_it_too(options: dict[str, Any]) -> None:
    fs = fsspec.filesystem("file", skip_instance_cache=True, **options)
    assert not leaks(repr(fs.storage_options))
    with pytest.raises(TypeError, match="key provider"):
        pickle.dumps(fs.storage_options)


@pytest.mark.usefixtures("vaults")
@pytest.mark.parametrize("name", ["luks", "vault", "alias", "my vault"])
def test_the_name_among_the_options_hides_it_too(url: str, name: str) -> None:
    secret = {"passphrase": PASSPHRASE}
    path = url.removeprefix("file://")
    for made in (
        _options.hidden_for(path, {"protocol": name, **secret}),
        _options.hidden_for(f"{name}::{url}", secret),
        _options.hidden_for(f"zip://member::{name}::{url}", {name: secret}),
        _options.hidden({"fs": {"protocol": name, **secret}}, "reference"),
    ):
        assert not leaks(repr(made))
    if name in ("luks", "vault"):
        fs, _ = fsspec.url_to_fs(f"{name}::{url}", protocol="file", **{name: secret})
        assert not leaks(repr(vars(fs)))


def test_options_without_secrets_are_the_same_objects() -> None:
    options = {"a": [1, {"b": (2, {"c": UserDict(d=3)})}], "luks": {"passphrase": luxor.Secret("p")}}
    assert _options.hidden(options, "file") is options


class Spy(ThreadPoolExecutor):
    """Keeps what is sent to workers."""

    def __init__(self) -> None:
        super().__init__(1)
        self.tasks: list[Any] = []

    def submit(self, function: Any, /, *args: Any, **options: Any) -> Any:
        self.tasks.append((function, args, options))
        return super().submit(function, *args, **options)


@pytest.mark.parametrize("side", ["source", "target", "outermost"])
def test_tasks_of_workers_contain_no_secret(url: str, tmp_path: Path, side: str) -> None:
    (tmp_path / "key").write_text("another")
    options: dict[str, Any] = {"source_options": {"luks": {"passphrase": PASSPHRASE}}}
    if side == "target":
        options["target_options"] = options["source_options"]
    elif side == "outermost":
        options["source_options"] = {"passphrase": PASSPHRASE}
    spy = Spy()
    key = luxor.keys.KeyFile(tmp_path / "key")
    target = f"file://{tmp_path}/target"
    luxor.distributed.encrypt(f"luks::{url}", target, key=key, executor=spy, **options, **CHEAP)
    assert zipfile.ZipFile(luxor.open(tmp_path / "target", key_file=key.path)).namelist()
    assert spy.tasks and not leaks(repr(spy.tasks))
    # Nor do other credentials belong into logs.
    assert "options" not in repr(spy.tasks[-1][1][0].files)
    assert isinstance(sent(cloudpickle.dumps, spy.tasks), TypeError)


class Rows:
    """A dataset of Ray with one file, which keeps the functions that Ray would send."""

    def __init__(self) -> None:
        self.sent: list[Any] = []

    def map(self, function: Any) -> Rows:
        self.sent.append(function)
        return self

    def take_all(self) -> list[dict[str, Any]]:
        return [{"path": "/folder/file", "bytes": b""}]


def test_tasks_of_ray_contain_no_secret(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import ray.data
    from luxor import ray as of_ray

    (tmp_path / "key").write_text(PASSPHRASE)
    key = luxor.keys.KeyFile(tmp_path / "key")
    options = {"luks": {"passphrase": PASSPHRASE}}
    source = of_ray.VolumeDatasource(url, key=key, storage_options=options)
    rows: Any = Rows()
    monkeypatch.setattr(ray.data, "from_items", lambda items: items)
    of_ray.encrypt(rows, f"file://{tmp_path}/out", key=key, storage_options=options, **CHEAP)
    for task in (source, source.get_read_tasks(1), rows.sent[-1]):
        assert not leaks(repr(task) + repr(vars(source)))
        assert isinstance(sent(cloudpickle.dumps, task), TypeError)


def test_options_of_others_with_the_same_name_are_not_changed() -> None:
    """The passphrase of a key of SFTP is that of paramiko."""
    options = {"target_protocol": "sftp", "target_options": {"passphrase": PASSPHRASE}}
    assert _options.hidden(options, "simplecache") == options
    assert _options.hidden({"passphrase": PASSPHRASE}, "sftp") == {"passphrase": PASSPHRASE}


def test_the_configuration_of_fsspec_is_hidden_too(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(fsspec.config.conf, "luks", {"passphrase": PASSPHRASE})
    opened = fsspec.open(f"luks::{url}")
    with opened as file:
        assert PLAIN in file.read()
    assert not leaks(repr(vars(opened.fs)))
    assert isinstance(sent(pickle.dumps, opened), TypeError)


def test_file_systems_with_other_passphrases_are_others(url: str) -> None:
    """fsspec keeps file systems, and finds them by their options."""
    with fsspec.open(f"zip://member::luks::{url}", luks={"passphrase": PASSPHRASE}) as file:
        assert file.read() == PLAIN
    with pytest.raises(luxor.WrongPassphrase):
        fsspec.open(f"zip://member::luks::{url}", luks={"passphrase": "another"})
    one, same = (luxor.Secret(secret) for secret in (PASSPHRASE, PASSPHRASE.encode()))
    assert one == same and hash(one) == hash(same) and repr(one) == repr(same)
    text: object = PASSPHRASE
    assert one != luxor.Secret("another") and one != text


def test_a_token_cannot_be_guessed_in_another_process(url: str) -> None:
    script = (
        "import sys, luxor\n"
        "print(repr(luxor.Secret(sys.argv[1])), end='')\n"
    )
    shown = {
        subprocess.run(
            [sys.executable, "-B", "-c", script, PASSPHRASE],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for _ in range(2)
    }
    assert len({*shown, repr(luxor.Secret(PASSPHRASE))}) == 3


def test_options_that_were_kept_before_luxor_was_imported_are_refused(url: str) -> None:
    """A file system that already has its options when it imports the protocol cannot hide them."""
    script = (
        "import sys, fsspec\n"
        "options = {'passphrase': sys.argv[2]}\n"
        "try:\n"
        "    fsspec.filesystem('zip', fo=sys.argv[1], target_protocol='luks', target_options=options)\n"
        "except TypeError as error:\n"
        "    print(error)\n"
        "import luxor\n"
        "options = {'passphrase': luxor.Secret(sys.argv[2])}\n"
        "fs = fsspec.filesystem('zip', fo=sys.argv[1], target_protocol='luks', target_options=options)\n"
        "print(len(fs.cat('member')))\n"
    )
    command = [sys.executable, "-B", "-c", script, url.removeprefix("file://"), PASSPHRASE]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    refused, length = done.stdout.splitlines()
    assert "use luxor.Secret" in refused and not leaks(refused)
    assert int(length) == len(PLAIN)


def test_the_graph_of_dask_contains_no_secret(url: str) -> None:
    lines = dask.bag.read_text(
        f"zip://member::luks::{url}", storage_options={"luks": {"passphrase": PASSPHRASE}}
    )
    assert b"".join(line.encode() for line in lines.compute(scheduler="sync")) == PLAIN
    assert not leaks(repr(dict(lines.dask)))
    with pytest.raises(TypeError, match="key provider"):
        cloudpickle.dumps(dict(lines.dask))


@pytest.mark.parametrize("outside", ["zip", "two"])
def test_a_key_provider_travels(url: str, tmp_path: Path, outside: str) -> None:
    key = tmp_path / "key"
    key.write_text(PASSPHRASE)
    for options in ({"key": luxor.keys.KeyFile(key)}, {"key_file": str(key)}):
        data = pickle.dumps(fsspec.open(f"{OUTSIDE[outside]}{url}", luks=options))
        assert not leaks(data)
        with pickle.loads(data) as file:
            assert file.read() == PLAIN


def test_volume_keys_and_secrets_of_providers_are_taken(volume: Path, tmp_path: Path) -> None:
    passphrase = luxor.Secret("correct horse")
    with luxor.open(volume, passphrase=passphrase) as file:
        assert file.read(4) == bytes(4)
    assert luxor.Volume(volume).test_key(passphrase=passphrase) == 0
    fs = fsspec.filesystem("luks", key=lambda metadata: passphrase)
    assert fs.cat_file(str(volume), 0, 4) == bytes(4)
    key = os.urandom(64)
    assert luxor.XTS(luxor.Secret(key)).encrypt(bytes(512)) == luxor.XTS(key).encrypt(bytes(512))
    with pytest.raises(luxor.WrongPassphrase):
        luxor.open(volume, volume_key=luxor.Secret(key))
    with pytest.raises(TypeError):
        luxor.Secret(5)  # type: ignore[arg-type]


def test_copies_in_one_process_are_the_same_secret() -> None:
    secret = luxor.Secret(PASSPHRASE)
    assert copy.copy(secret) is secret
    assert copy.deepcopy({"luks": [secret]})["luks"][0] is secret


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_no_protocol_of_pickle_takes_a_secret(protocol: int) -> None:
    with pytest.raises(TypeError, match="key provider"):
        pickle.dumps({"deep": [luxor.Secret(PASSPHRASE)]}, protocol)


@pytest.mark.parametrize("secret", ["passphrase", "key"])
def test_a_traceback_with_variables_does_not_show_it(url: str, secret: str) -> None:
    """Programs that report errors record the variables of each function."""
    wrong = f"{PASSPHRASE} is wrong"

    class Provider:
        def __call__(self, metadata: dict[str, Any], /) -> str:
            return wrong

    options: dict[str, Any] = {"passphrase": wrong} if secret == "passphrase" else {"key": Provider()}
    fs = fsspec.filesystem("luks", **options)
    with pytest.raises(luxor.WrongPassphrase) as raised:
        fs.cat_file(url)
    shown = traceback.TracebackException.from_exception(raised.value, capture_locals=True)
    # Without this function, which has the passphrase itself.
    frames = [frame for frame in shown.stack if frame.filename != __file__]
    assert len(frames) > 2
    assert not leaks("".join(str(frame.locals) for frame in frames))


def shown_by_luxor(error: BaseException) -> str:
    """What an error and its causes show, and the variables of the functions of this package."""
    text = ""
    shown = traceback.TracebackException.from_exception(error, capture_locals=True)
    chain: list[Any] = [shown]
    for each in chain:
        chain += [found for found in (each.__cause__, each.__context__) if found is not None]
        frames = [frame for frame in each.stack if "/luxor/" in frame.filename]
        text += str(each) + "".join(str(frame.locals) for frame in frames)
    causes: list[Any] = [error]
    for cause in causes:
        causes += [found for found in (cause.__cause__, cause.__context__) if found is not None]
        text += repr(cause.args) + repr(vars(cause))
    return text


#: What fails, after it has taken a secret: with a volume, a passphrase and a volume key.
CALLS: list[Callable[[Path, Any, Any], object]] = [
    lambda path, secret, key: luxor.open(path, passphrase=secret),
    lambda path, secret, key: luxor.open(path, "r+b", passphrase=secret),
    lambda path, secret, key: luxor.open(path, passphrase=secret, volume_key=key),
    lambda path, secret, key: luxor.open(path, volume_key=key),
    lambda path, secret, key: luxor.open(path, "wb", passphrase=secret),
    lambda path, secret, key: luxor.open(path, "wb", passphrase=secret, volume_key=key),
    lambda path, secret, key: luxor.open(path, "wx", passphrase=secret),
    lambda path, secret, key: luxor.open(path, "wb", password=secret),  # type: ignore[call-overload]
    lambda path, secret, key: luxor.open(path, "rb", password=secret),  # type: ignore[call-overload]
    lambda path, secret, key: luxor.encrypt(path, path, passphrase=secret),
    lambda path, secret, key: luxor.decrypt(path, f"{path}2", passphrase=secret),
    lambda path, secret, key: luxor.decrypt(path, f"{path}2", volume_key=key),
    lambda path, secret, key: luxor.create(path, 4096, passphrase=secret),
    lambda path, secret, key: luxor.new_header(-1, passphrase=secret),
    lambda path, secret, key: luxor.VolumeCipher(path, passphrase=secret),
    lambda path, secret, key: luxor.VolumeCipher(path, volume_key=key),
    lambda path, secret, key: luxor.Volume(path).test_key(passphrase=secret),
    lambda path, secret, key: luxor.Volume(path).remove_key(passphrase=secret),
    lambda path, secret, key: luxor.Volume(path).add_key(passphrase=secret, new_passphrase=secret),
    lambda path, secret, key: luxor.Volume(path).change_key(passphrase=secret, new_passphrase=secret),
    lambda path, secret, key: luxor.Secret([secret]),  # type: ignore[arg-type]
    lambda path, secret, key: fsspec.filesystem("luks", passphrase=secret, volume_key=key),
    lambda path, secret, key: fsspec.filesystem("luks", passphrase=secret, wrong=1),
    lambda path, secret, key: fsspec.filesystem("luks", passphrase=secret).open(path, "r+b"),
    lambda path, secret, key: fsspec.filesystem("luks", passphrase=[secret]),
    lambda path, secret, key: luxor.distributed.encrypt(
        f"luks::{path}",
        f"{path}2",
        key=luxor.keys.KeyFile(path),
        source_options={"passphrase": secret},
    ),
    lambda path, secret, key: luxor.gpu.read(path, passphrase=secret),
    lambda path, secret, key: luxor.gpu.read(path, volume_key=key, device="cpu"),
    lambda path, secret, key: luxor.gpu.read(path, passphrase=secret, password=secret),  # type: ignore[call-arg]
    lambda path, secret, key: luxor.gpu.read(path, passphrase=[secret]),  # type: ignore[arg-type]
    lambda path, secret, key: luxor.gpu.read(f"file://{path}", passphrase=secret),
    lambda path, secret, key: luxor.gpu.load_safetensors(path, passphrase=secret),
    lambda path, secret, key: luxor.gpu.load_safetensors(
        f"luks::file://{path}", storage_options={"luks": {"passphrase": secret}}
    ),
    lambda path, secret, key: luxor.gpu.load_safetensors(
        f"luks::file://{path}", storage_options={"passphrase": secret, "wrong": 1}
    ),
    lambda path, secret, key: luxor.gpu.read(path, storage_options={"passphrase": secret}),
    lambda path, secret, key: luxor.gpu.write(path, b"x", passphrase=secret),
    lambda path, secret, key: luxor.gpu.write(path, b"x", password=secret),  # type: ignore[call-arg]
    # Where no secret belongs.
    lambda path, secret, key: luxor.open(path, secret),
    lambda path, secret, key: luxor.open(path, secret, passphrase=secret),
    lambda path, secret, key: fsspec.filesystem("luks", pasphrase=secret),
    lambda path, secret, key: luxor.luksfs.LuksFileSystem(pasphrase=secret),
    lambda path, secret, key: luxor.luksfs.LuksFileSystem(key=secret),
    lambda path, secret, key: fsspec.filesystem("luks", passphrase=secret)._open(path, secret),
    lambda path, secret, key: luxor.distributed.encrypt(str(path), f"{path}2", key=secret),
    lambda path, secret, key: luxor.distributed.decrypt(str(path), f"{path}2", key=secret),
    lambda path, secret, key: luxor.distributed.resume("encrypt", str(path), f"{path}2", key=secret),
    lambda path, secret, key: luxor.distributed.abort(f"{path}2", key=secret),
    lambda path, secret, key: luxor.distributed.encrypt(
        str(path), f"{path}2", key=luxor.keys.KeyFile(path), manifest_key=secret
    ),
]


@pytest.mark.parametrize(
    "form",
    [
        lambda secret: secret,
        lambda secret: secret.encode(),
        lambda secret: bytearray(secret.encode()),
        lambda secret: secret + "\udcff",
        lambda secret: secret + "\ud800",
        lambda secret: [secret],
    ],
)
def test_nothing_that_fails_shows_a_secret(url: str, form: Callable[[str], Any]) -> None:
    """Neither its exception, nor the variables of its functions."""
    path = Path(url.removeprefix("file://"))
    secret = form(f"{PASSPHRASE} is wrong")
    key = secret if isinstance(secret, list) else (f"{PASSPHRASE}" * 10).encode()[:64]
    texts = []
    for number, call in enumerate(CALLS):
        with pytest.raises(Exception) as raised:
            call(path, secret, key)
        texts.append(shown_by_luxor(raised.value))
        assert not leaks(texts[-1]), (number, type(raised.value), texts[-1])
    assert any("'passphrase': '<luxor" in text for text in texts)


def test_a_part_of_a_surrogate_pair_is_refused(url: str) -> None:
    path = url.removeprefix("file://")
    with pytest.raises(ValueError, match="surrogate") as raised:
        luxor.open(path, passphrase=f"{PASSPHRASE}\ud800")
    assert type(raised.value) is ValueError and raised.value.__context__ is None
    with pytest.raises(ValueError, match="surrogate"):
        luxor.Secret("\udcff")
    with pytest.raises(TypeError):
        luxor.open(path, passphrase=5)  # type: ignore[call-overload]


def test_a_key_file_that_is_not_there_may_be_the_passphrase(url: str) -> None:
    with pytest.raises(luxor.MissingError, match="the file of key_file cannot be found") as raised:
        luxor.open(url.removeprefix("file://"), key_file=PASSPHRASE)
    assert raised.value.hint == "A passphrase itself is the argument passphrase."
    assert raised.value.filename is None and not leaks(repr(vars(raised.value)))


def test_a_cache_inside_luks_keeps_ciphertext(url: str, tmp_path: Path) -> None:
    for kind in ("simplecache", "filecache"):
        folder = tmp_path / kind
        options: dict[str, Any] = {"luks": {"passphrase": PASSPHRASE}}
        options[kind] = {"cache_storage": str(folder)}
        with fsspec.open(f"luks::{kind}::{url}", **options) as file:
            assert PLAIN in file.read()
        kept = [path.read_bytes() for path in folder.iterdir() if path.is_file()]
        assert kept and not any(PLAIN[:20] in data for data in kept)
