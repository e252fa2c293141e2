"""Made-up data for the scripts of pytorch/examples, in the places and formats where they look for
the real one.

Each maker gets the folder of the copied example, and fills it or the `data` folder beside it. The
numbers come from one seed, so that a table made with them can be made again.
"""

from __future__ import annotations

import random
import struct
import tarfile
from pathlib import Path

SEED = 7
IMAGES = 320


def mnist(folder: Path) -> None:
    """MNIST's four files, filled with noise around a bright patch that depends on the label."""
    raw = folder.parent / "data" / "MNIST" / "raw"
    raw.mkdir(parents=True, exist_ok=True)
    for part in ("train", "t10k"):
        chance = random.Random(SEED)
        labels = bytes(chance.randrange(10) for _ in range(IMAGES))
        pixels = b"".join(_digit(label, chance) for label in labels)
        (raw / f"{part}-images-idx3-ubyte").write_bytes(
            struct.pack(">4I", 2051, IMAGES, 28, 28) + pixels
        )
        (raw / f"{part}-labels-idx1-ubyte").write_bytes(struct.pack(">2I", 2049, IMAGES) + labels)


def mnist_inside(folder: Path) -> None:
    """For scripts that look in their own folder."""
    mnist(folder / "data")


def mnist_and_results(folder: Path) -> None:
    """The same, and the folder where the pictures go, which git does not keep in every copy."""
    mnist(folder)
    (folder / "results").mkdir(exist_ok=True)


def _digit(label: int, chance: random.Random) -> bytes:
    picture = bytearray(chance.randrange(40) for _ in range(28 * 28))
    for row in range(2 * label, 2 * label + 8):
        picture[28 * row + 6 : 28 * row + 22] = bytes(200 + chance.randrange(55) for _ in range(16))
    return bytes(picture)


def words(folder: Path) -> None:
    """Wikitext-2's three files."""
    place = folder / "data" / "wikitext-2"
    place.mkdir(parents=True, exist_ok=True)
    for part, lines in (("train", 600), ("valid", 40), ("test", 40)):
        chance = random.Random(SEED)
        text = "\n".join(
            " ".join(f"w{chance.randrange(300)}" for _ in range(12)) for _ in range(lines)
        )
        (place / f"{part}.txt").write_text(text + "\n", encoding="utf-8")


def papers(folder: Path) -> None:
    """Cora's two tables, packed where `requests`, replaced by a stand-in, finds them."""
    chance = random.Random(SEED)
    place = folder / "stand-in"
    (place / "cora").mkdir(parents=True)
    rows = []
    for paper in range(1700):
        kind = chance.randrange(7)
        features = (
            int(chance.random() < (0.5 if column % 7 == kind else 0.05)) for column in range(70)
        )
        rows.append("\t".join([str(paper), *map(str, features), f"kind{kind}"]))
    (place / "cora" / "cora.content").write_text("\n".join(rows) + "\n", encoding="utf-8")
    cites = sorted({(chance.randrange(1700), chance.randrange(1700)) for _ in range(3000)})
    (place / "cora" / "cora.cites").write_text(
        "\n".join(f"{a}\t{b}" for a, b in cites) + "\n", encoding="utf-8"
    )
    with tarfile.open(place / "cora.tgz", "w:gz") as archive:
        archive.add(place / "cora", "cora")
    (place / "requests.py").write_text(_REQUESTS, encoding="utf-8")


_REQUESTS = '''\
"""Stands in for the package: whatever is asked for, the archive beside this file comes."""

from pathlib import Path


class get:
    def __init__(self, url, stream=True):
        self.raw = Path(__file__).with_name("cora.tgz").open("rb")

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.raw.close()
'''


def photographs(folder: Path) -> None:
    """BSDS300's folders."""
    for part in ("train", "test"):
        _pictures(folder / "dataset" / "BSDS300" / "images" / part, 4, 260)


def styles(folder: Path) -> None:
    """A folder of classes, a picture to imitate, and VGG-16's weights, untrained, where torch's
    hub keeps them.
    """
    import torch
    from torchvision.models import vgg16

    _pictures(folder / "pictures" / "one", 8, 64)
    _pictures(folder, 1, 64)
    torch.manual_seed(SEED)
    with torch.device("meta"):
        whole = vgg16()
    parts: dict[str, torch.Tensor] = {}
    for name, value in whole.state_dict().items():
        if name.startswith("features") and name.endswith("weight"):
            parts[name] = torch.nn.init.kaiming_normal_(torch.empty(value.shape))
        else:
            parts[name] = torch.zeros(1).expand(value.shape)  # not used, so nothing is stored
    place = folder / "hub" / "checkpoints"
    place.mkdir(parents=True)
    torch.save(parts, place / "vgg16-397923af.pth")


def _pictures(folder: Path, count: int, size: int) -> None:
    from PIL import Image

    folder.mkdir(parents=True, exist_ok=True)
    chance = random.Random(SEED)
    for number in range(count):
        coarse = bytes(chance.randrange(256) for _ in range(8 * 8 * 3))
        Image.frombytes("RGB", (8, 8), coarse).resize((size, size), Image.Resampling.BICUBIC).save(
            folder / f"{number}.jpg"
        )
