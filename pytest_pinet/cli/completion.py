"""``pinet completion``: the script that makes a shell complete commands, options and names of the lab."""

from __future__ import annotations

import os

import click
from click.shell_completion import BashComplete, add_completion_class, get_completion_class, split_arg_string

from pytest_pinet.cli import COMPLETE
from pytest_pinet.cli.command import PinetCommand

SHELLS = ("bash", "zsh", "fish")

# bash splits words at the ":" of pi4b:onboard/pair and replaces only the last part, so that the text before it must be
# cut from each answer. The script of click does not.
_BASH = """\
%(complete_func)s() {
    local line="${COMP_LINE:0:COMP_POINT}" breaks="${COMP_WORDBREAKS//[^:=]/}" cut="" type value
    local word="${line##*[[:space:]]}"
    [[ -n $breaks ]] && cut="${word%%"${word##*[$breaks]}"}"
    COMPREPLY=()
    while IFS=, read -r type value; do
        case $type in
            dir) compopt -o dirnames ;;
            file) compopt -o default ;;
            plain) [[ $value == *[/=] ]] && compopt -o nospace
                   [[ -n $cut && $value == "$cut"* ]] && value="${value#"$cut"}"
                   COMPREPLY+=("$value") ;;
        esac
    done < <(env COMP_LINE="$line" %(complete_var)s=bash_complete "$1")
}

complete -o nosort -F %(complete_func)s %(prog_name)s
"""


class WholeWords(BashComplete):
    """Completion for bash that also works in words with ":" and "="."""

    source_template = _BASH

    def get_completion_args(self) -> tuple[list[str], str]:
        line = os.environ.get("COMP_LINE", "")
        words = split_arg_string(line)[1:]
        return (words, "") if not words or line[-1:].isspace() else (words[:-1], words[-1])


def register() -> None:
    """Make click use our completion for bash."""
    add_completion_class(WholeWords, "bash")


@click.command(cls=PinetCommand)
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print the script that completes commands, options, boards, NICs and combinations in SHELL.

    \b
    bash: eval "$(pinet completion bash)"            in ~/.bashrc
    zsh:  eval "$(pinet completion zsh)"             in ~/.zshrc, after compinit
    fish: pinet completion fish | source             in ~/.config/fish/config.fish

    Names come from the lab of --lab or, without the option, of PINET_LAB, of pinet_lab in pytest's configuration, or
    of the virtual lab.
    """
    register()
    found = get_completion_class(shell)
    assert found is not None, shell
    root = click.get_current_context().find_root()
    click.echo(found(root.command, {}, "pinet", COMPLETE).source())
