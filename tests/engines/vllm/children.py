# SPDX-License-Identifier: Apache-2.0
"""Processes that do not outlive the one that started them, however it ends."""


def ends_with_us(command: list[str], signal: str = "KILL") -> list[str]:
    """command, which gets this signal when the thread that starts it has ended: start it from one that
    lasts. The process has the pid of the command itself."""
    return ["setpriv", "--pdeathsig", signal, *command]
