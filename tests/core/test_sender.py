"""Who a sender is: the same for the same secret, and nothing to read a number from."""

from __future__ import annotations

import hashlib
import hmac

import pytest

from dibs.core.errors import InvalidInput, Misconfigured
from dibs.core.sender import hash_sender, sender_hash_of

SECRET = "a secret of some length"  # noqa: S105 - of the tests


def test_it_is_the_hmac_sha256_of_the_number_under_the_secret() -> None:
    expected = hmac.new(SECRET.encode(), b"+15550100999", hashlib.sha256).hexdigest()
    assert hash_sender("+15550100999", SECRET) == expected
    assert sender_hash_of(expected.upper()) == expected


def test_a_number_is_the_same_however_it_is_spaced() -> None:
    spelt = ("+15550100999", " +1 555 010 0999\n", "+1 (555) 010-0999", "+1.555.010.0999")
    assert len({hash_sender(each, SECRET) for each in spelt}) == 1
    assert hash_sender("15550100999", SECRET) != hash_sender("+15550100999", SECRET)


def test_name_is_hashed_unchanged() -> None:
    names = ("ann", "Ann", "ann-1", "ann 1", "a.nn", "12")
    assert len({hash_sender(each, SECRET) for each in names}) == len(names)


def test_another_secret_changes_all_hashes() -> None:
    assert hash_sender("+15550100999", SECRET) != hash_sender("+15550100999", SECRET + "!")


@pytest.mark.parametrize("secret", ["", "short"])
def test_weak_secret_is_refused_without_repeating_it(secret: str) -> None:
    with pytest.raises(Misconfigured, match="DIBS_SENDER_SECRET") as caught:
        hash_sender("+15550100999", secret)
    assert "5550100999" not in caught.value.message
    assert not secret or f"'{secret}'" not in caught.value.message


def test_empty_sender_is_refused() -> None:
    with pytest.raises(InvalidInput):
        hash_sender(" \n", SECRET)


@pytest.mark.parametrize("wrong", ["+15550100999", "", "g" * 64, "a" * 63, "a" * 65])
def test_invalid_hash_is_refused_without_repeating_it(wrong: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        sender_hash_of(wrong)
    assert not wrong or wrong not in caught.value.message
