"""The acts of messages, in four languages, with and without open tasks that they can mean."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dibs.chat.analyst.analysis import Message, OpenTask, Role
from dibs.chat.analyst.embedders import Builtin
from dibs.chat.analyst.understanding import Titles, meant, steers, understood
from dibs.chat.analyst.word_analyst import WordAnalyst
from dibs.chat.language.acts import CLASSES, OTHER, REQUEST, Weights, alike, tokens, weights
from dibs.chat.language.cues import takes_up
from dibs.chat.language.sentences import parted
from dibs.core.errors import Misconfigured

if TYPE_CHECKING:
    from pathlib import Path

OPEN = ("Print the flyers", "Call the landlord", "Imprimer les badges", "Contrato de alquiler")


def act(text: str) -> str:
    return understood([text], Titles(OPEN))[0].name


@pytest.mark.parametrize(
    "said",
    [
        "macht mal bitte eine Preisliste für die Messe",
        "tu peux me rédiger un communiqué pour vendredi ?",
        "podéis preparar un cartel para el viernes",
        "Pause the Google Ads campaign over Christmas",
        "please add a search box to the shop",
    ],
)
def test_request_is_understood_in_every_language(said: str) -> None:
    assert act(said) == REQUEST


@pytest.mark.parametrize(
    "said", ["coffee's great today", "Everything is urgent here lol", "Did you sleep well?", "danke euch!", "merci !"]
)
def test_remark_asks_for_nothing(said: str) -> None:
    assert act(said) == OTHER


@pytest.mark.parametrize(
    ("said", "name", "tasks"),
    [
        ("we don't need the flyers anymore", "cancel", (0,)),
        ("scrap the flyer printing, we're going digital", "cancel", (0,)),
        ("tu peux annuler les badges", "cancel", (2,)),
        ("ya no hace falta el contrato de alquiler", "cancel", (3,)),
        ("the flyers are done, tick them off", "done", (0,)),
        ("make the flyers blue instead of red", "edit", (0,)),
        ("the landlord can wait till friday", "defer", (1,)),
        ("flyers before the landlord", "before", (0, 1)),
    ],
)
def test_command_names_its_tasks(said: str, name: str, tasks: tuple[int, ...]) -> None:
    titles = Titles(OPEN)
    (steer,) = steers([said], titles, understood([said], titles))
    assert steer is not None
    assert (steer.name, steer.tasks) == (name, tasks)


@pytest.mark.parametrize("said", ["don't cancel the flyers", "streich die flyer bitte nicht"])
def test_prohibition_is_no_command(said: str) -> None:
    titles = Titles((*OPEN, "Flyer drucken"))
    assert steers([said], titles, understood([said], titles)) == [None]


def test_irreversible_command_is_always_confirmed() -> None:
    titles = Titles(OPEN)
    (steer,) = steers(["cancel the flyers"], titles, understood(["cancel the flyers"], titles))
    assert steer is not None
    assert not steer.certain


def test_rival_titles_leave_the_meaning_open() -> None:
    titles = Titles(("Send the invoice to Acme", "Send the invoice to Globex"))
    assert not meant("drop the invoice", titles).certain
    assert meant("drop the Globex invoice", titles).tasks == (1,)


def test_title_among_thousands_is_found() -> None:
    titles = Titles([f"Paint fence number {number}" for number in range(3000)] + ["Call the landlord"])
    assert meant("the landlord can wait", titles).tasks == (3000,)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("flyers", "flyer", True),
        ("genehmigung", "standbaugenehmigung", True),
        ("newsletter", "newslettre", True),
        ("plate", "template", False),
        ("logo", "login", False),
    ],
)
def test_words_match_despite_endings_compounds_and_typos(one: str, other: str, same: bool) -> None:
    assert alike(one, other) is same


def test_tokens_are_without_accents_and_numbers() -> None:
    assert tokens("L'affiche à 14h !! 🙏 https://x.y/z") == ["l'", "affiche", "a", "#", "h", "!!", "<emo>", "<url>"]


@pytest.mark.parametrize(
    ("said", "there"),
    [
        ("danach einen Bericht schreiben", True),
        ("à partir de ça tu fais un résumé", True),
        ("luego haz un cartel", True),
        ("the website does not have to wait, do it once you can", False),
        ("write a poem", False),
    ],
)
def test_message_continues_the_work_before(said: str, there: bool) -> None:
    assert bool(takes_up(said)) is there


def analysed(*said: Message) -> tuple[list[str], list[str]]:
    found = WordAnalyst(Builtin()).analyse(
        said, [OpenTask("f", "Print the flyers"), OpenTask("l", "Call the landlord")]
    )
    return [task.title for task in found.tasks], [question.text for question in found.questions]


def test_uncertain_command_is_asked_about_and_makes_no_task() -> None:
    assert analysed(Message(1, "we don't need the flyers anymore")) == (
        [],
        ["Do you mean: cancel 'Print the flyers'?"],
    )


def test_role_decides_before_the_words() -> None:
    assert analysed(Message(1, "we don't need the flyers anymore", Role.REQUEST))[0]
    assert analysed(Message(1, "Paint the fence", Role.COMMAND)) == ([], [])


def test_detail_is_stored_with_its_task() -> None:
    said = ("Write a press release about the fair", "max 200 words, no jargon", "thanks!")
    (task,) = WordAnalyst(Builtin()).analyse([Message(n, text) for n, text in enumerate(said, 1)]).tasks
    assert said[1] in task.text
    assert said[2] not in task.text


def test_weights_fit_in_the_wheel_and_damage_is_reported(tmp_path: Path) -> None:
    assert len(weights().table) == 65_536 * len(CLASSES)
    (tmp_path / "acts.bin").write_bytes(b"{}\n")
    with pytest.raises(Misconfigured, match="Reinstall dibs"):
        Weights(str(tmp_path / "acts.bin"))


FENCED = "the export fails, please fix it\n```\ndef f(x):\n    return x\n```"
MAIL = "From: Petra <p@example.org>\nSubject: tents\n\nHello,\nplease send the tents by Friday."
UNCLEAR_SAID = "Someone might look at the gutter"
TRACE = "Traceback (most recent call last):\n  File \"a.py\", line 3, in f\nKeyError: 'x'"


@pytest.mark.parametrize(
    ("said", "words", "quotations"),
    [
        ("fix the export", "fix the export", 0),
        (FENCED, "the export fails, please fix it", 1),
        (MAIL, "", 1),
        (f"can you answer this?\n{MAIL}", "can you answer this?", 1),
        (TRACE, "", 1),
        ("to: the printers, print the flyers", "to: the printers, print the flyers", 0),
    ],
)
def test_quotation_is_separated_from_the_senders_words(said: str, words: str, quotations: int) -> None:
    found = parted(said)
    assert (found.said, len(found.quoted)) == (words, quotations)


@pytest.mark.parametrize("messages", [["Please fix the export", FENCED[32:]], [FENCED[32:], "Please fix the export"]])
def test_quotation_makes_no_task_and_joins_another(messages: list[str]) -> None:
    analysis = WordAnalyst(Builtin()).analyse([Message(number, text) for number, text in enumerate(messages, 1)])
    (task,) = analysis.tasks
    assert task.title == "Fix the export"
    assert "def f(x):\n    return x" in task.text
    assert set(task.messages) == {1, 2}


def test_quotation_is_in_every_task_of_its_message() -> None:
    said = f"Fix the export and write a test for it, then write release notes.\n{TRACE}"
    analysis = WordAnalyst(Builtin()).analyse([Message(1, said)])
    assert len(analysis.tasks) > 1
    assert all("KeyError: 'x'" in task.text for task in analysis.tasks)


def test_further_sentence_makes_a_task_only_if_it_asks() -> None:
    def made(text: str) -> list[str]:
        return [task.title for task in WordAnalyst(Builtin()).analyse([Message(1, text)]).tasks]

    assert made("Könnt ihr die Tabelle reparieren? Datei heißt kalk.xlsx") == ["Könnt ihr die Tabelle reparieren?"]
    assert len(made("Fix the login bug. Write the release notes")) == 2


@pytest.mark.parametrize("said", ["scratch that", "no wait, never mind", "vergiss es", "oublie ça", "nada, déjalo"])
def test_withdrawn_request_makes_no_task(said: str) -> None:
    messages = [Message(1, "Please fix the export"), Message(2, said)]
    assert WordAnalyst(Builtin()).analyse(messages).tasks == ()


def test_unclear_request_is_asked_about_and_can_be_made_a_task() -> None:
    tasks, questions = analysed(Message(1, UNCLEAR_SAID))
    assert tasks == []
    assert questions[-1] == f'Is this new work: "{UNCLEAR_SAID}"? If so, say "task: {UNCLEAR_SAID}".'
    assert analysed(Message(1, f"task: {UNCLEAR_SAID}"))[0]


def test_change_understood_by_the_model_alone_is_asked_about() -> None:
    titles = Titles(OPEN)
    texts = ["we don't need the flyers anymore", "the landlord can wait till friday", "make the flyers blue"]
    for text in texts:
        (steer,) = steers([text], titles, understood([text], titles))
        assert steer is None or not steer.certain
