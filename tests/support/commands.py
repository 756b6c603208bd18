"""What tests of commands share: a small text, and what a refused line says."""

import pytest

TEXT = "red apple\ngreen apple\nblue sky\nblue sea\nred apple pie\nblue sky sea\n" * 2


def refused(run, line, capfd):
    """The message of a line that is refused."""
    with pytest.raises(SystemExit) as ended:
        run(line)
    assert ended.value.code == 2
    return capfd.readouterr().err
