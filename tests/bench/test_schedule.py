from bench.schedule import arms_of, round_order
from bench.suite import Role, System


def names(order):
    return "".join(arm.label[0] if not arm.is_repeat else arm.label[0].lower() for arm in order)


def arms(text):
    systems = [System(letter, Role.PEER, "module:run") for letter in text]
    return arms_of(systems, baseline=text[0])


def test_the_baseline_takes_part_twice():
    assert [arm.label for arm in arms("AB")] == ["A", "B", "A (again)"]
    assert [arm.is_repeat for arm in arms("AB")] == [False, False, True]


def test_each_pair_of_rounds_is_a_mirror_image():
    everyone = arms("ABC")
    for pair in range(6):
        there = names(round_order(everyone, 2 * pair))
        back = names(round_order(everyone, 2 * pair + 1))
        assert there == back[::-1]


def test_every_arm_gets_to_lead():
    everyone = arms("ABC")
    orders = [names(round_order(everyone, index)) for index in range(8)]
    assert orders == ["ABCa", "aCBA", "BCaA", "AaCB", "CaAB", "BAaC", "aABC", "CBAa"]


def test_every_round_has_every_arm_once():
    everyone = arms("ABCD")
    for index in range(11):
        assert sorted(names(round_order(everyone, index))) == ["A", "B", "C", "D", "a"]
