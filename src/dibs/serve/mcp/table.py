"""The tools, as a client is told of them. What they do is in `tools`."""

from collections.abc import Callable
from typing import NamedTuple

from dibs.serve.access import Right
from dibs.serve.mcp import arguments, models
from dibs.serve.mcp.tools import authoring, ending, holding, looking, saying


class Tool(NamedTuple):
    """`act` takes the desk, the session and the arguments.

    `looks`: it changes nothing. `repeats`: a second call changes nothing more. `removes`: it may take something away.
    """

    name: str
    about: str
    takes: type[arguments.Arguments]
    gives: type[models.Answer]
    act: Callable[..., models.Answer]
    right: Right
    looks: bool = False
    repeats: bool = False
    removes: bool = False


TOOLS = (
    Tool(
        "what_next",
        "Look without taking: what you hold, what you could claim now, in order, and why there is nothing else. "
        "Start here.",
        arguments.WhatNext,
        models.Lookout,
        looking.what_next,
        Right.READ,
        looks=True,
    ),
    Tool(
        "claim",
        "Take a task: from now on it is yours alone, and kept so for you while this session lives. Then do the work, "
        "and end it with finish, block, ask_review or give_back.",
        arguments.Claim,
        models.Claimed,
        holding.claim,
        Right.CLAIM,
    ),
    Tool(
        "progress",
        "Leave a note on your task, and make sure that it is still yours before something that cannot be undone. "
        "Not needed to keep it.",
        arguments.Progress,
        models.Kept,
        holding.progress,
        Right.CLAIM,
    ),
    Tool(
        "finish",
        "Your task is done. Tasks that needed it become ready.",
        arguments.Finish,
        models.Ended,
        ending.finish,
        Right.CLAIM,
        repeats=True,
    ),
    Tool(
        "block",
        "Set a task aside until something outside changes: an answer, an outage. If other work must come first, add "
        "that with needed_by instead, and give_back.",
        arguments.Block,
        models.Ended,
        ending.block,
        Right.CLAIM,
        repeats=True,
    ),
    Tool(
        "ask_review",
        "Instead of finish, when somebody has to look at your work before it counts as done.",
        arguments.AskReview,
        models.Ended,
        ending.ask_review,
        Right.CLAIM,
        repeats=True,
    ),
    Tool(
        "give_back",
        "Stop without finishing: your task goes back into the queue, for anybody.",
        arguments.GiveBack,
        models.Ended,
        ending.give_back,
        Right.CLAIM,
        repeats=True,
    ),
    Tool(
        "add",
        "Add tasks with what they need, or links between tasks; all or nothing. Tasks of one call may name each other "
        "by id.",
        arguments.Add,
        models.Added,
        authoring.add,
        Right.PLAN,
    ),
    Tool(
        "plan",
        "Without text: all unfinished tasks, phase after phase. With text: bring a spec's tasks in line with it; what "
        "is finished or being worked on stays as it is.",
        arguments.Plan,
        models.Planned,
        authoring.plan,
        Right.READ,
        repeats=True,
        removes=True,
    ),
    Tool(
        "show",
        "One task in full, with links and history.",
        arguments.Show,
        models.Shown,
        looking.show,
        Right.READ,
        looks=True,
    ),
    Tool("find", "List or search tasks.", arguments.Find, models.Found, looking.find, Right.READ, looks=True),
    Tool(
        "say",
        "Hand on what the person you work for wants, in their own words: new work, or commands such as 'Do X before "
        "Y', 'Undo'.",
        arguments.Say,
        models.Heard,
        saying.say,
        Right.PLAN,
    ),
)


def by_name(name: str) -> Tool | None:
    return next((tool for tool in TOOLS if tool.name == name), None)
