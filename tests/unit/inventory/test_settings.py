"""Typed settings: what is written is what counts, or it is refused with its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from klops.agent.supervision import supervisor
from klops.errors import SourceErrors
from klops.inventory import validate
from klops.inventory.masking import masked, masked_line
from klops.inventory.settings import Settings
from klops.secret import MASK, Redactor, Secret
from tests.unit.inventory.conftest import Write


def settings_of(write: Write, klops: str) -> Settings:
    return write(f"g: {{hosts: {{h: }}}}\nall:\n  vars:\n    klops: {klops}\n").settings("h")


def mistakes(write: Write, klops: str) -> list[str]:
    with pytest.raises(SourceErrors) as caught:
        settings_of(write, klops)
    return [str(mistake).removeprefix("hosts.yml:4:") for mistake in caught.value.mistakes]


def test_defaults(write: Write) -> None:
    for nothing in ("{}", "", "{cards: , container: {env: , volumes: }, services: }"):
        settings = settings_of(write, nothing)
        assert settings == Settings()
    assert settings.root == "/var/lib/klops"
    assert settings.cards.groups == [[0, 1, 2, 3], [4, 5, 6, 7], [0, 1, 2, 3, 4, 5, 6, 7]]
    assert settings.cards.indexes == [0, 1, 2, 3, 4, 5, 6, 7]
    assert (settings.cards.max_age, settings.cards.min_tp, settings.cards.smi.where) == (86400, 1, "auto")
    assert (settings.container.shm, settings.container.recreate) == ("32g", "report")


def test_text_stays_as_written(write: Write) -> None:
    settings = settings_of(
        write,
        "{container: {image: 1.10,"
        " env: {FLAG: no, MODE: 0644, DAY: 2024-01-01, TAG: 1e3, BIG: 1_000, EMPTY: ''}}}",
    )
    assert settings.container.image == "1.10"
    assert settings.container.env == {
        "FLAG": "no",
        "MODE": "0644",
        "DAY": "2024-01-01",
        "TAG": "1e3",
        "BIG": "1_000",
        "EMPTY": "",
    }


def test_arguments_of_vllm(write: Write) -> None:
    service = settings_of(
        write,
        "{services: {s: {model: /m, args: {util: 0.750, len: 262144, chunked: true, eager: false, gone: null,"
        " tag: 1e3, spec: '{\"method\": \"mtp\"}', sizes: [1, 02, no], word: 'true'}}}}",
    ).services["s"]
    assert service.args == {
        "util": "0.750",
        "len": "262144",
        "chunked": True,
        "eager": False,
        "gone": None,
        "tag": "1e3",
        "spec": '{"method": "mtp"}',
        "sizes": ["1", "02", "no"],
        "word": "true",
    }


@pytest.mark.parametrize("written", ["/data/klops", "/data//klops/", "//data/./x/../klops"])
def test_the_root_is_one_path_however_it_is_written(write: Write, written: str) -> None:
    assert settings_of(write, f"{{root: {written}}}").root == "/data/klops"


def test_a_stopping_container_waits_as_long_as_its_supervisor() -> None:
    assert validate.CLOSING == supervisor._CLOSING


def test_whole_numbers_may_be_quoted_digits(write: Write) -> None:
    assert settings_of(write, '{cards: {expected: "4"}}').cards.expected == 4


@pytest.mark.parametrize(
    ("written", "seconds"),
    [("90", 90), ("1.5", 1.5), ("90s", 90), ("30m", 1800), ("24h", 86400), ("7d", 604800), ("500ms", 0.5)],
)
def test_durations(write: Write, written: str, seconds: float) -> None:
    assert settings_of(write, f"{{cards: {{max_age: {written}}}}}").cards.max_age == seconds


@pytest.mark.parametrize(
    ("klops", "message"),
    [
        ("{contaner: {}}", "13: unknown setting klops.contaner (did you mean container?)"),
        ("{container: {imge: x}}", "25: unknown setting klops.container.imge (did you mean image?)"),
        ("{docker: {zzz: x}}", "22: unknown setting klops.docker.zzz (known here: host, sudo)"),
        (
            "{services: {s: {model: /m, prot: 1}}}",
            "39: unknown setting klops.services.s.prot (did you mean port?)",
        ),
        ("[]", "12: expected a mapping for klops"),
        ("{cards: 8}", "20: klops.cards: expected a mapping"),
        ("{container: {volumes: /a:/b}}", "34: klops.container.volumes: expected a list"),
        ("{container: {env: [A]}}", "30: klops.container.env: expected a mapping"),
        ("{cards: {expected: 0x8}}", "31: klops.cards.expected: expected a whole number, found '0x8'"),
        ("{cards: {expected: 08}}", "31: klops.cards.expected: expected a whole number, found '08'"),
        ("{cards: {expected: 8.0}}", "31: klops.cards.expected: expected a whole number, found '8.0'"),
        ("{cards: {expected: yes}}", "31: klops.cards.expected: expected a whole number, found 'yes'"),
        ("{cards: {expected: }}", "21: klops.cards.expected: expected a whole number, found nothing"),
        (
            "{cards: {expected: 0}}",
            "31: klops.cards.expected: expected a whole number from 1 to 256, found 0",
        ),
        ("{docker: {sudo: maybe}}", "28: klops.docker.sudo: expected true or false, found 'maybe'"),
        ("{docker: {sudo: 1}}", "28: klops.docker.sudo: expected true or false, found '1'"),
        ("{root: data}", "19: klops.root: expected an absolute path, found 'data' (start it with /)"),
        ("{root: /}", "19: klops.root: expected a folder of klops' own, found / (such as /var/lib/klops)"),
        ("{root: /a/..//}", "19: klops.root: expected a folder of klops' own, found /"),
        ("{root: '/a:b'}", "19: klops.root: expected a folder that docker can mount, found '/a:b'"),
        ("{root: [/a]}", "19: klops.root: expected an absolute path, found a list"),
        ("{root: '{{ base }}/k'}", "19: klops.root: templates are not supported in klops settings"),
        ("{cards: {max_age: 1:30}}", "30: klops.cards.max_age: expected a duration, found '1:30'"),
        ("{cards: {max_age: 0}}", "30: klops.cards.max_age: expected a duration above 0"),
        ("{container: {shm: big}}", "30: klops.container.shm: expected a size, found 'big'"),
        ("{container: {recreate: no}}", "35: klops.container.recreate: expected report or allow, found 'no'"),
        ("{container: {volumes: [a:/b]}}", "35: klops.container.volumes[0]: expected a volume, found 'a:/b'"),
        ("{container: {env: {A-B: x}}}", "31: klops.container.env.A-B: expected a variable's name"),
        ("{container: {env: {A: }}}", "31: klops.container.env.A: expected text, found nothing"),
        ("{container: {ulimits: {memlock: lots}}}", "44: klops.container.ulimits.memlock: expected a limit"),
        ("{cards: {smi: {where: nowhere}}}", "34: klops.cards.smi.where: expected auto, host or container"),
        ("{services: {s: }}", "24: klops.services.s.model is needed"),
        ("{services: {s: {model: /m, port: 0x1F40}}}", "45: klops.services.s.port: expected a whole number"),
        (
            "{services: {s: {model: /m, port: 70000}}}",
            "45: klops.services.s.port: expected a whole number from 1",
        ),
        (
            "{services: {s: {model: /m, tp: all}}}",
            "43: klops.services.s.tp: expected a whole number, found 'all'",
        ),
        (
            "{services: {s: {model: /m, api_key: {env: A, file: B}}}}",
            "48: klops.services.s.api_key: expected a s",
        ),
        (
            "{services: {s: {model: /m, api_key: {var: A}}}}",
            "48: klops.services.s.api_key: expected a secret",
        ),
        (
            "{services: {s: {model: /m, api_key: ''}}}",
            "48: klops.services.s.api_key: expected text, found an empty",
        ),
        ("{services: {s: {model: /m, args: {--x: 1}}}}", "46: klops.services.s.args.--x: expected a flag"),
        (
            "{services: {s: {model: /m, args: {x: no}}}}",
            "49: klops.services.s.args.x: no is text here and False",
        ),
        (
            "{services: {s: {model: /m, args: {x: {a: 1}}}}}",
            "49: klops.services.s.args.x: expected text, a number",
        ),
        (
            "{cleanup: {schedule: '*/10 * * *'}}",
            "33: klops.cleanup.schedule: expected five fields (minute, hour, day, month, day of the week), ",
        ),
        (
            "{cleanup: {schedule: 60 * * * *}}",
            "33: klops.cleanup.schedule: expected a minute from 0 to 59, found '60'",
        ),
        (
            "{cleanup: {scheduler: crn}}",
            "34: klops.cleanup.scheduler: expected auto, cron, systemd or none, found 'crn'",
        ),
    ],
)
def test_refused_with_its_place(write: Write, klops: str, message: str) -> None:
    assert mistakes(write, klops)[0].startswith(message)


def test_a_relative_model_path_is_problem_e4(write: Write) -> None:
    (found,) = mistakes(write, "{services: {s: {model: Qwen/Qwen3}}}")
    assert found.startswith("35: klops.services.s.model: expected the model's absolute path in the container")
    assert "HFValidationError" in found


@pytest.mark.parametrize(
    ("flag", "setting"),
    [
        ("tensor-parallel-size", "tp"),
        ("tensor_parallel_size", "tp"),
        ("port", "port"),
        ("api-key", "api_key"),
        ("served-model-name", "served_name"),
        ("model", "model"),
    ],
)
def test_flags_that_klops_writes_itself_name_the_setting(write: Write, flag: str, setting: str) -> None:
    (found,) = mistakes(write, f"{{services: {{s: {{model: /m, args: {{{flag}: 1}}}}}}}}")
    assert found == (
        f"46: klops.services.s.args.{flag}: klops writes --{flag} itself"
        f" (use the setting {setting} of the service)"
    )


@pytest.mark.parametrize(
    ("klops", "message"),
    [
        (
            "{services: {a: {model: /m, cards: [0, 1]}, b: {model: /m, port: 8001, cards: [1, 2]}}}",
            "the services a and b both have card 1 (services of one host have disjoint cards)",
        ),
        ("{services: {a: {model: /m}, b: {model: /m}}}", "the services a and b both have port 8000"),
        ("{cards: {use: [0, 8]}}", "klops.cards.use[1]: card 8 is outside of klops.cards.expected"),
        ("{cards: {use: [0, 0]}}", "klops.cards.use[1]: card 0 is named twice"),
        (
            "{cards: {groups: [[0, 9]]}}",
            "klops.cards.groups[0][1]: card 9 is outside of klops.cards.expected",
        ),
        (
            "{cards: {use: [0, 1]}, services: {a: {model: /m, cards: [2]}}}",
            "klops.services.a.cards[0]: card 2 is outside of klops.cards.use (the cards are 0, 1)",
        ),
        ("{services: {a: {model: /m, cards: []}}}", "klops.services.a.cards is empty"),
        (
            "{services: {a: {model: /m, cards: [0], tp: 2}}}",
            "tp 2 needs more than the 1 cards of klops.services.a",
        ),
        (
            "{services: {a: {model: /m, cards: [0, 1, 2], tp: 2}}}",
            "tp 2 needs fewer than the 3 cards of klops.services.a.cards (name 2 cards, or set tp to 3)",
        ),
        (
            "{services: {a: {model: /m, cards: [0, 1, 2]}}}",
            "klops.services.a.cards: 3 cards make no tensor parallel group by themselves (1, 2, 4, 8)",
        ),
        (
            "{services: {a: {model: /m, tp: 16}}}",
            "tp 16: no group of 16 cards among those in use (0, 1, 2, 3, 4, 5, 6, 7) (lower tp, or see",
        ),
        ("{cards: {use: [0, 1, 2]}, services: {a: {model: /m, tp: 4}}}", "tp 4: no group of 4 cards among"),
        (
            "{services: {a: {model: /m, stop_timeout: 81}}}",
            "klops.services.a.stop_timeout is 81 s, more than a stopping container can wait for (at most",
        ),
        (
            "{container: {stop_timeout: 40}, services: {a: {model: /m, stop_timeout: 30}}}",
            "klops.container.stop_timeout is 40 s, too short for klops.services.a.stop_timeout",
        ),
        (
            "{services: {a: {model: /m, args: {max-len: 1, max_len: 2}}}}",
            "max-len and max_len are the same flag of vllm serve",
        ),
        ("{cards: {identities: {8: SN8}}}", "klops.cards.identities.8: card 8 is outside of klops.cards"),
        ("{cards: {probe: {needed: 4}}}", "klops.cards.probe.needed is 4, of 3 tries"),
        ("{cards: {probe: {tries: 1}}}", "klops.cards.probe.needed is 2, of 1 tries"),
    ],
)
def test_settings_that_contradict_each_other(write: Write, klops: str, message: str) -> None:
    (found,) = mistakes(write, klops)
    assert found.partition(": ")[2].startswith(message)


def test_what_is_said_of_cards_and_their_tests(write: Write) -> None:
    cards = settings_of(
        write, "{cards: {identities: {0: SN00, '1': '0000:55:00'}, probe: {sizes: [65536]}, budget: 10m}}"
    ).cards
    assert cards.identities == {0: "SN00", 1: "0000:55:00"}
    assert (cards.probe.sizes, cards.probe.tries, cards.budget) == ([65536], 3, 600.0)
    assert (cards.diagnose, cards.confirm) == ("auto", 2)


@pytest.mark.parametrize(
    "klops",
    [
        "{services: {a: {model: /m, env: {XPU_VISIBLE_DEVICES: '4', CUDA_VISIBLE_DEVICES: '0'}}}}",
        "{container: {env: {XPU_VISIBLE_DEVICES: '4', CUDA_VISIBLE_DEVICES: '0'}}}",
        (
            "{container: {env: {XPU_VISIBLE_DEVICES: '4'}},"
            " services: {a: {model: /m, env: {XPULINK_VISIBLE_DEVICES: '0'}}}}"
        ),
    ],
    ids=["service", "container", "both"],
)
def test_row_C16_two_variables_that_select_different_cards(write: Write, klops: str) -> None:
    (found,) = mistakes(write, klops)
    assert "XPU_VISIBLE_DEVICES=4 and " in found
    assert "select different cards" in found


def test_row_C16_two_variables_that_agree_are_no_mistake(write: Write) -> None:
    said = "{XPU_VISIBLE_DEVICES: '4', CUDA_VISIBLE_DEVICES: '4'}"
    assert settings_of(write, f"{{services: {{a: {{model: /m, env: {said}}}}}}}").services["a"].env


def test_two_services_with_disjoint_cards_are_fine(write: Write) -> None:
    settings = settings_of(
        write,
        "{services: {a: {model: /m, cards: [0, 1, 2, 3], tp: 4},"
        " b: {model: /m, port: 8001, cards: [4, 5, 6, 7], tp: 4}}}",
    )
    assert [service.cards for service in settings.services.values()] == [[0, 1, 2, 3], [4, 5, 6, 7]]


def test_every_mistake_of_every_host_is_told_once(write: Write) -> None:
    inventory = write(
        "g: {hosts: {a: {klops: {rot: /x}}, b: {ansible_port: x}, c: }}",
        group_vars__g="klops: {docker: {sudo: 2}, cards: {expected: x}}\n",
    )
    with pytest.raises(SourceErrors) as caught:
        inventory.check()
    assert [str(mistake.location) for mistake in caught.value.mistakes] == [
        "group_vars/g.yml:1:24",
        "group_vars/g.yml:1:46",
        "hosts.yml:1:25",
        "hosts.yml:1:54",
    ]
    inventory.check(hosts=[])


def test_a_wrong_secret_is_not_shown(write: Write) -> None:
    found = mistakes(write, "{services: {s: {model: /m, api_key: [s3cr3t-made-up]}}}")
    assert "s3cr3t" not in "".join(found)
    with pytest.raises(SourceErrors) as caught:
        settings_of(write, "{services: {s: {model: m, api_key: s3cr3t-made-up}}}")
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__
    assert "s3cr3t" not in str(caught.value)


def test_packages_are_versions_or_mappings(write: Write) -> None:
    stack = settings_of(
        write,
        "{stack: {packages: {vllm: 0.19.0, torch: {version: 2.5.1+cu118, no_deps: yes}, xpu-smi: 1.10},"
        " wheel_dir: /wheels, index_url: https://index.example/simple}}",
    ).stack
    assert {name: one.version for name, one in stack.packages.items()} == {
        "vllm": "0.19.0",
        "torch": "2.5.1+cu118",
        "xpu-smi": "1.10",
    }
    assert [one.no_deps for one in stack.packages.values()] == [False, True, False]
    assert stack.index_url == "https://index.example/simple"


def test_an_index_with_a_password_is_a_secret(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INDEX", "https://reader:gr33n-door@index.example/simple")
    settings = settings_of(write, "{stack: {index_url: {env: INDEX}}}")
    redactor = Redactor()
    settings.resolve_secrets(redactor)
    assert isinstance(settings.stack.index_url, Secret)
    assert redactor("asked gr33n-door") == f"asked {MASK}"
    url = "https://reader:gr33n-door@index.example/simple"
    (mistake,) = mistakes(write, f"{{stack: {{index_url: '{url}'}}}}")
    assert "gr33n" not in mistake
    assert "gr33n" not in masked_line(f"stack: {{index_url: '{url}', options: []}}")[0]
    assert masked({"klops": {"stack": {"index_url": url}}}) == {"klops": {"stack": {"index_url": MASK}}}
    plain = {"klops": {"stack": {"index_url": "https://index.example/simple"}}}
    assert masked(plain) == plain
    assert "a URL with a user or a password in it is a secret" in mistake
    assert "{env: NAME}" in mistake


def test_a_patch_names_a_file_beside_the_one_it_is_written_in(write: Write, tmp_path: Path) -> None:
    patches = settings_of(
        write,
        "{stack: {patches: [{file: vllm/./a.py, copy: patches/a.py}, {file: /site/b.py, diff: /p/b.diff}]}}",
    ).stack.patches
    assert [(one.file, one.copy_from, one.diff) for one in patches] == [
        ("vllm/a.py", str(tmp_path / "patches/a.py"), None),
        ("/site/b.py", None, "/p/b.diff"),
    ]


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("{source: {targets: [{}]}}", "klops.source.targets[0] is neither a root nor a package"),
        ("{source: {targets: [{root: /a, package: b}]}}", "is both a root and a package"),
        (
            "{source: {targets: [{root: /a, carry: [x]}]}}",
            "klops.source.targets[0].carry belongs to",
        ),
        (
            "{source: {targets: [{package: a, carry: ['*.so']}], build: {installs: [b]}}}",
            "klops.source.targets[0].carry: only a build takes files over",
        ),
        ("{source: {targets: [{root: /var/lib/klops/a}]}}", "/var/lib/klops/a is within klops.root"),
        ("{source: {targets: [{root: /opt/../app}]}}", "expected an absolute path, found '/opt/../app'"),
        ("{source: {targets: [{root: //./}]}}", "expected a folder below /, found /"),
        (
            "{source: {targets: [{root: /a/b}, {root: //a/./b/}]}}",
            "klops.source.targets[1]: /a/b is named twice",
        ),
        ("{source: {targets: [{package: a.b, path: src/b}]}}", "src/b can't be imported as a.b"),
        ("{source: {targets: [{package: a}, {package: a}]}}", "klops.source.targets[1]: a is named twice"),
        ("{source: {targets: [{package: a, path: ../a}]}}", "expected a path below the folder"),
        ("{source: {targets: [{package: a-b}]}}", "expected a package's name"),
        ("{source: {targets: [{root: /a/b}, {root: /a}]}}", "/a/b and /a are within each other"),
        ("{source: {targets: [{package: a}, {package: a.b}]}}", "a and a.b are within each other"),
        (
            "{source: {targets: [{package: a_b}], build: {commands: [x], installs: [A-b]}}}",
            "klops.source.build.installs names A-b, which is a target as well",
        ),
        ("{source: {ref: --output=x}}", "expected a commit, branch or tag"),
        (
            "{source: {targets: [{rot: /a}]}}",
            "unknown setting klops.source.targets[0].rot (did you mean root?)",
        ),
        (
            "{stack: {packages: {a: '>=1'}}}",
            "klops.stack.packages.a.version: expected a version",
        ),
        ("{stack: {packages: {a: {no_deps: yes}}}}", "klops.stack.packages.a.version is needed"),
        ("{stack: {packages: {a: {version: 1, deps: no}}}}", "unknown setting klops.stack.packages.a.deps"),
        ("{stack: {packages: {a_b: 1, A-b: 2}}}", "a_b and A-b are one distribution"),
        ("{stack: {patches: [{file: a.py}]}}", "klops.stack.patches[0] has neither copy nor diff"),
        ("{stack: {patches: [{file: a.py, copy: b, diff: c}]}}", "klops.stack.patches[0] has both"),
        ("{stack: {patches: [{file: a.py, coppy: b}]}}", "did you mean copy?"),
        (
            "{stack: {patches: [{file: a, copy: b}, {file: ./a, copy: c}]}}",
            "klops.stack.patches[1]: a is named twice",
        ),
        ("{stack: {index_url: index.example}}", "expected a URL"),
        (
            "{stack: {options: ['--extra-index-url=https://ci:S3cret@index.example/simple']}}",
            "klops.stack.options[0]: a URL with a user or a password in it is a secret",
        ),
        ("{generations: {rollback: always}}", "expected auto or never, found 'always'"),
    ],
)
def test_what_source_and_stack_refuse(write: Write, written: str, said: str) -> None:
    (mistake,) = mistakes(write, written)
    assert said in mistake
