"""What `record` and `calibrate` say, without a program to record."""

import foretrace._calibrate as calibrate
import pytest
from foretrace import _record_command
from foretrace._record_program import Program
from foretrace._record_status import Status


def test_a_wrong_option_is_answered_with_the_nearest():
    with pytest.raises(_record_command._WrongUsageError, match=r"no option --step; did you mean --steps\?"):
        _record_command.parse(["--step", "3", "--", "python", "train.py"])
    with pytest.raises(_record_command._WrongUsageError, match=r"no option --xyzzy$"):
        _record_command.parse(["--xyzzy", "--", "python", "train.py"])


class Recording:
    """A recorder that needs so many steps."""

    path = "x.json.gz"
    figures = None

    def __init__(self, needs):
        self.left = needs

    @property
    def done(self):
        return self.left == 0

    def start(self):
        pass

    def step(self):
        self.left -= 1


@pytest.mark.parametrize("after", [1, 2, 3, 5, 8])
def test_a_program_needs_as_many_steps_as_the_message_says(after):
    needs = 1 + 20 + 3 + 3  # warm-up, measure, settle, trace
    program = Program({"after": after, "id": "x"}, Status(None))
    made = Recording(needs)
    steps = 0
    while not made.done:
        program.event("optimizer", lambda options: made)
        steps += 1
    assert program.too_short(needs).startswith(f"This recording needs {steps} steps; smaller --after")
    assert steps == max(3, after) + 20 + 3 + 3  # what --help says: 31 by default


def test_calibrate_says_what_it_did(monkeypatch):
    monkeypatch.setattr(calibrate, "cuda_in_use", lambda torch: False)
    lines = calibrate.said({"view_us": [1.0, 2.0, 3.0], "event_us": [0.5]}, None, 3.0, "host.csv")
    assert lines[0] == "timed the CPU alone (PyTorch sees no GPU) for 3 s, 3 rounds"
    assert "2.00 us" in lines[1] and "0.50 us" in lines[2]
    assert lines[-1] == "wrote host.csv; next: foretrace whatif TRACE amp --host host.csv"


def test_messages_fit_a_terminal(monkeypatch, capsys):
    from foretrace._width import tell

    text = "record has no option --stps; did you mean --steps?\n  usage: foretrace record [OPTIONS] -- COMMAND...; `foretrace record --help` says more"
    tell(text)
    assert capsys.readouterr().err == f"foretrace: {text}\n"
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    tell(text)
    lines = capsys.readouterr().err.splitlines()
    assert max(map(len, lines)) <= 60 and len(lines) == 4
    assert " ".join(line.strip() for line in lines) == "foretrace: " + " ".join(text.split())
