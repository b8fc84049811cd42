from __future__ import annotations

from rukpak.controller.observe.following import FollowedObjects


class Noted:
    """An object that is followed, and what is done with it."""

    def __init__(self, key: str, done: list[str]) -> None:
        self.key, self.done = key, done

    @property
    def followed(self) -> Noted:
        return self

    @property
    def synced(self) -> bool:
        return True

    def get(self, _key: object) -> None:
        return None

    def learn(self, _record: object) -> None:
        self.done.append(f"learn {self.key}")

    def start(self) -> None:
        self.done.append(f"start {self.key}")

    def stop(self) -> None:
        self.done.append(f"stop {self.key}")

    def expect(self, expected: int) -> None:
        self.done.append(f"expect {self.key}={expected}")


def test_exactly_what_was_named_last_is_followed_and_each_object_once() -> None:
    done: list[str] = []
    objects = FollowedObjects[str, int]()

    def follow(name: str, **expected: int) -> list[str]:
        done.clear()
        objects.follow(name, expected, lambda key: Noted(key, done))
        return list(done)

    assert follow("shop", a=1, b=1) == ["expect a=1", "expect b=1", "start a", "start b"]
    assert follow("other", a=7) == ["expect a=7", "start a"]
    assert follow("shop", b=2, c=2) == ["stop a", "expect b=2", "expect c=2", "start c"]
    assert set(objects.of("shop")) == {"b", "c"}
    assert follow("shop") == ["stop b", "stop c"]
    assert (set(objects.of("shop")), set(objects.of("other"))) == (set(), {"a"})
