"""The page of mistakes: the messages of ConfigError in groups, each with how they begin, their cause and their cure.

A test finds modules whose messages belong to no group. The first group that fits a message has it.
"""

from __future__ import annotations

from tools.site.messages import messages
from tools.site.troubleshooting import Group, section

ERRORS = ("ConfigError",)
MISTAKES = (
    Group(
        "A file, a disk or a pipe takes no more",
        ("OutputError",),
        ("execution/files.py", "history/database.py"),
        "The disk or the quota is full, the program that reads the pipe has ended, or standard output is closed. The "
        "exit code is 74.",
        "Free some space, or write to another place. What was written before is kept; a file that `-o` names is "
        "replaced only when all of it is written.",
    ),
    Group(
        "A file cannot be read or written",
        ERRORS,
        ("config/section.py", "config/entries.py", "execution/files.py", "cli/options.py"),
        "The path is wrong, it is a folder, the file belongs to another user, or it is no text.",
        "Correct the path, or the rights of the file. `-o` names the file that a command writes.",
    ),
    Group(
        "The YAML of a file",
        ERRORS,
        ("config/yaml_lines.py", "config/section.py"),
        "The message begins with file and line (`my-bench.yaml:12: ...`). A key is unknown, missing or there twice, a "
        "value is none of the accepted ones, or the file is not YAML.",
        "Go to the line; a key that is near to the wrong one is suggested. `pinet check FILE` reads a lab file and "
        "touches no board. [Lab file](lab-file.md) and [builds](builds.md) have all keys.",
    ),
    Group(
        "Baselines, acknowledged losses and calibration",
        ERRORS,
        ("config/baselines.py", "config/baselines.py", "config/calibration.py"),
        "The message begins with a file in `baselines/` or the file of the calibration. An entry was edited by hand, "
        "or two branches were merged.",
        "Correct the line, or delete the entry and write it again with `pinet accept`, `pinet losses acknowledge` or "
        "`pinet calibrate`.",
    ),
    Group(
        "The lab file",
        ERRORS,
        ("config/*", "lab/labgrid/*", "lab/ssh.py", "virtual/spec.py", "emulated/*", "exact/measure.py"),
        "The message begins with the lab file. Each line is right for itself, and two of them contradict each other or "
        "the catalogue: a port with two cables, a NIC on a bus that its board lacks, a node without a target.",
        "Correct one of the places that the message names. `pinet doctor` finds what the file cannot show, such as a "
        "cable in another port.",
    ),
    Group(
        "Switches",
        ERRORS,
        ("lab/switch/*", "doctor/*"),
        "The message names the switch. Its backend lacks a key or a package, or a port is not one of its ports.",
        "Add the key, or install the package that the message names. [Switches](switches.md) has the keys of each "
        "backend; `backend: fixed` works with every switch.",
    ),
    Group(
        "Builds of TuxMake",
        ERRORS,
        ("builds/places.py",),
        "The folder lacks files that its `metadata.json` names, or the build failed there.",
        "Look into the log of the build. [Kernel builds](../how-to/kernel-builds.md) says what is read.",
    ),
    Group(
        "Owners of code, and mails about a slower kernel",
        ERRORS,
        ("builds/kernel_tree.py", "report/regression_mail.py", "cli/owners.py"),
        "The driver is not in the shipped table, `--tree` names no source of a kernel, or the run is no reason for a "
        "mail.",
        "Name the source of the kernel with `--tree`. [Report a slower kernel](../how-to/report-a-regression.md) says "
        "which runs can be reported.",
    ),
    Group(
        "Commits of a kernel tree",
        ERRORS,
        ("tree/*", "cli/tree.py", "execution/git.py"),
        "The folder of `--tree` is no git repository of the kernel, it does not have a commit or a defconfig of this "
        "name, or the file of `--config` is no configuration.",
        "Correct the option, or fetch the commit first. [Two commits of a kernel "
        "tree](../how-to/exact-gate.md#two-commits-of-a-kernel-tree)",
    ),
    Group(
        "Builds under test",
        ERRORS,
        ("builds/*", "lab/deploy/*", "ab/*", "exact/*"),
        "The message begins with the build. It has no kernel, its modules are for another kernel, or a key of its "
        "`build.yaml` is wrong. No board was touched.",
        "Correct what the message names; `pinet gate BUILD --dry-run` looks at the files only. [Builds](builds.md)",
    ),
    Group(
        "Options, ini keys and environment variables of pytest",
        ERRORS,
        ("session/arguments.py", "session/settings.py", "session/run_recorder.py", "cli/options.py"),
        "The message begins with the place of the value: `--pinet-NAME`, `PINET_NAME` (environment) or `pinet_name` "
        "(configuration of pytest).",
        "`pinet config` shows each value, and where it was written. [Options](options.md) has the accepted values.",
    ),
    Group(
        "Markers and gate calls",
        ERRORS,
        ("session/*", "measure/*", "model/*", "traffic/*", "tuning/*"),
        "The message begins with the test, or with the argument of the call: `tolerance=...: expected ...`.",
        "Correct the argument in the test. [Tests](tests.md) has all arguments of the marker and the calls.",
    ),
    Group(
        "Combinations of a lab",
        ERRORS,
        ("matrix/*", "report/diagrams.py", "cli/lab_checks.py"),
        "No board, NIC or topology of the lab has this name, or too few boards can send at the same time.",
        "`pinet matrix` lists what the lab can measure, and why not the rest. Quote globs: `'pi4b:*'`.",
    ),
    Group(
        "The history",
        ERRORS,
        ("history/*",),
        "The message begins with the address of the history, or with a stored file. The file is no history, its server "
        "does not answer, or a newer version of pytest-pinet wrote it.",
        "Correct `--history` (of pytest: `--pinet-history`). [PostgreSQL](../how-to/postgresql.md) has the form of an "
        "address.",
    ),
    Group(
        "A watch",
        ERRORS,
        ("watch/*", "cli/watch.py"),
        "The folder is of another watch, another process writes to it, or too few boards are in the lab for traffic.",
        "Choose another folder, or name boards that have a peer at their switch. [Watch](../how-to/watch.md) has the "
        "options.",
    ),
    Group(
        "Runs that a command reads",
        ERRORS,
        ("cli/run_selection.py", "cli/runs.py", "report/merged_run.py"),
        "There is no run of this name, the history is of another lab, or the runs are not of one gate.",
        "`pinet history --runs` lists the runs. A run is a folder such as `.pinet/latest`, its `results.json`, the "
        "beginning of its id, or `latest~1`.",
    ),
    Group(
        "Reports and exports",
        ERRORS,
        ("report/*", "cli/report.py"),
        "A format needs a setting that is missing or has another form, or Allure cannot make the report.",
        "Pass `--set NAME=VALUE` ([metrics](metrics.md) has the settings). `pinet report --page` needs no Allure.",
    ),
    Group(
        "pinet init and pinet demo",
        ERRORS,
        ("init/*", "cli/init.py", "cli/demo.py"),
        "An answer or an option does not fit what was found on the boards, or the file exists already.",
        "Give the answer by the option that the message names. No file is ever replaced.",
    ),
    Group(
        "Faults of a virtual lab",
        ERRORS,
        ("virtual/*", "cli/lab.py"),
        "The fault does not fit the part that it should break, or the lab is not virtual.",
        "`pinet lab degrade --help` lists the faults, and what each can break.",
    ),
    Group(
        "Packages that extend pytest-pinet",
        ERRORS,
        ("execution/entry_points.py", "evidence/sources.py"),
        "An installed package registers something that cannot be used, or two packages use the same name.",
        "Update or uninstall the package that the message names.",
    ),
    Group(
        "Other arguments of commands",
        ERRORS,
        ("cli/*",),
        "The message begins with the option. Its value has another form than the message says, or two options "
        "contradict each other.",
        "`pinet COMMAND --help` has the options. Quote globs, because a shell replaces them.",
    ),
)


def mistakes() -> str:
    """Return a section for each group, with its messages."""
    errors = {error for group in MISTAKES for error in group.errors}
    found = [one for one in messages() if one.error in errors]
    sections = []
    for group in MISTAKES:
        sections.append(section(group, [one for one in found if group.has(one)]))
        found = [one for one in found if not group.has(one)]
    return "\n".join(sections)
