import ast
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def test_the_page_shows_the_session_that_the_script_records():
    tree = ast.parse((DOCS / "record_session.py").read_text())
    commands = next(
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "COMMANDS"
    )
    page = (DOCS / "command_line.md").read_text()
    places = []
    for command in commands:
        places.append(page.index(f"$ {command}\n", places[-1] + 1 if places else 0))
    assert places == sorted(places)
    assert "Traceback" not in page
