"""Which of a source's training images are held out from fitting and training.

Rule 1: a label's images are a set. They are named by the SHA-256 of their resized pixels, so that neither file names, nor order
        on disk, nor copies of an image decide anything.
Rule 2: images that share a patient are one group, over all labels, and so are those of two patients that share an image; any
        other image is a group of its own. No group is on both sides.
Rule 3: groups are ordered by the smallest name in them, and never by a patient's id. In this order a group is held out if one
        of its labels has less than an eighth of its images held out yet, unless some label would have more than half held
        out. Without patients that is the first eighth of a label's images, so that taking one away moves at most one other.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

SHARE = 8
LARGEST_SHARE = 2

Name = bytes
Patients = frozenset[str]
Labelled = Mapping[str, Mapping[Name, Patients]]
Member = tuple[Name, str]


def held_out(images: Labelled) -> dict[str, set[Name]]:
    """The names of the held-out images of each label; `images` are label -> name -> the patients that it is of."""
    sizes = {label: len(by_name) for label, by_name in images.items()}
    held: dict[str, set[Name]] = {label: set() for label in images}
    for members in groups(images):
        added = Counter(label for _, label in members)
        wanted = any(len(held[label]) < sizes[label] // SHARE for label in added)
        if wanted and all(len(held[label]) + more <= sizes[label] // LARGEST_SHARE for label, more in added.items()):
            for name, label in members:
                held[label].add(name)
    return held


def groups(images: Labelled) -> list[list[Member]]:
    """The groups of Rule 2 in the order of Rule 3, as sorted pairs of an image's name and its label."""
    leader = _leaders(patients for by_name in images.values() for patients in by_name.values())
    found: dict[str | Member, list[Member]] = {}
    for label, by_name in images.items():
        for name, patients in by_name.items():
            group = leader(min(patients)) if patients else (name, label)
            found.setdefault(group, []).append((name, label))
    return sorted(sorted(members) for members in found.values())


def _leaders(shared: Iterable[Patients]) -> Callable[[str], str]:
    """One patient to stand for all that are linked by shared images."""
    above: dict[str, str] = {}

    def leader(patient: str) -> str:
        while (other := above.get(patient, patient)) != patient:
            patient = other
        return patient

    for patients in shared:
        first, *others = sorted(patients) or [""]
        for other in others:
            above[leader(other)] = leader(first)
    return leader
