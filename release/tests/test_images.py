"""docker-bake.hcl, the Dockerfiles and the bills of materials have the same images, labelled in one place."""

import json
import re
from pathlib import Path

import yaml

from release import bill_of_materials

CHECKOUT = Path(__file__).parents[2]
BAKE = (CHECKOUT / "docker-bake.hcl").read_text(encoding="utf-8")
TARGETS: dict[str, str] = dict(re.findall(r'(?ms)^target "(\w+)" \{\n(.*?)^\}', BAKE))
COMMON = TARGETS.pop("image")


def test_every_target_has_its_dockerfile_its_tag_and_its_labels() -> None:
    assert set(re.findall(r'"org\.opencontainers\.image\.(\w+)"', COMMON)) == {
        "licenses", "vendor", "version", "revision", "created"
    }  # fmt: skip
    assert re.search(r"targets = (\[.*\])", BAKE)[1] == json.dumps([*TARGETS])  # type: ignore[index]
    for name, text in TARGETS.items():
        assert 'inherits   = ["image"]' in text
        dockerfile = re.search(r'dockerfile = "(\S+)"', text)
        assert dockerfile is not None
        assert (CHECKOUT / dockerfile[1]).is_file()
        assert f'"${{PREFIX}}steelyard-{name}:${{VERSION}}"' in text
        assert re.search(rf'image\.title" += "steelyard-{name}"', text)
        assert re.search(r'image\.description" += "\w[^"]{20,}"', text)
        assert bill_of_materials.IMAGES[name] == str(Path(dockerfile[1]).parent)


def test_no_dockerfile_labels_its_image_otherwise() -> None:
    labelled = [each for each in CHECKOUT.glob("*/Dockerfile") if re.search(r"(?m)^LABEL", each.read_text())]
    assert labelled == []


def test_what_the_compose_file_builds_is_a_target_or_for_tests() -> None:
    services = yaml.safe_load((CHECKOUT / "docker-compose.yml").read_text())["services"]
    built = {each["image"].partition(":")[0] for each in services.values() if "build" in each}
    assert built - {f"steelyard-{name}" for name in TARGETS} == {"steelyard-loadtest"}


def test_an_image_s_bill_has_its_base_and_what_is_pinned_for_it() -> None:
    bill = bill_of_materials.of_image(CHECKOUT, "server", "1.2.0")
    assert bill["metadata"]["component"]["type"] == "container"
    has = {component["name"].lower() for component in bill["components"]}
    pinned = "".join((CHECKOUT / f"requirements/{each}.txt").read_text() for each in ("agent", "server"))
    assert has == {"python", *map(str.lower, re.findall(r"(?m)^([\w.-]+)==", pinned))}
    references = [component["bom-ref"] for component in bill["components"]]
    assert len(references) == len(set(references))


def test_the_bill_of_the_data_plane_names_its_base_and_what_luarocks_brings() -> None:
    bill = bill_of_materials.of_image(CHECKOUT, "openresty", "1.2.0")
    assert [each["name"] for each in bill["components"]] == ["openresty/openresty", "lua-resty-balancer"]
    assert all(each["version"] in each["purl"] for each in bill["components"])
