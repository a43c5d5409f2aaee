"""A page of the reference that has a section for each command of a protocol."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from dibs.console.arguments import Parser
from dibs.console.commands import load

from .test_reference import first_cells, options_in, page, sections

HELP = frozenset({"-h", "--help"})


class CommandPage(NamedTuple):
    """`said` is the text before the command; `shared` are the options with a separate section."""

    name: str
    said: str
    package: str
    commands: Mapping[str, tuple[str, str]]
    other: frozenset[str]  # the sections that are about no command
    add_shared: Callable[[Parser], None] | None = None
    shared: frozenset[str] = frozenset()

    def sections(self) -> Mapping[str, str]:
        """The text under each heading; headings in command output (`## Pulling …`) do not count."""
        return sections(page(self.name).replace("\n## Pulling", "\n### Pulling"))

    def parser_of(self, command: str) -> Parser:
        made = load(self.package, self.commands, command)
        return made.parser(f"{self.said} {command}", self.commands[command][1], self.add_shared)

    def has_a_section_for_each_command(self) -> None:
        assert set(self.sections()) == {*self.commands, *self.other}
        if self.add_shared:
            assert options_in(self.sections()["Shared by all commands"]) - HELP == self.shared

    def tells_all_of(self, command: str) -> None:
        """Exactly the options that the command takes, and its arguments; test_examples.py has it run."""
        told, actions = self.sections()[command], self.parser_of(command)._actions
        taken = {option for action in actions for option in action.option_strings}
        assert options_in(told) == taken - HELP - self.shared
        for action in actions:
            if not action.option_strings:
                assert str(action.metavar) in first_cells(told)
