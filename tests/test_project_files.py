"""The files around the package say the same as the package: workflow, recipe, links, versions."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

import calspline

ROOT = Path(__file__).parents[1]
ADDRESS = "https://github.com/calspline/calspline"
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
RECIPE = yaml.safe_load((ROOT / "recipe" / "recipe.yaml").read_text(encoding="utf-8"))
WORKFLOWS = {
    path.stem: yaml.safe_load(path.read_text(encoding="utf-8"))
    for path in sorted((ROOT / ".github" / "workflows").glob("*.yml"))
}
PAGES = [
    ".github/pull_request_template.md",
    "AGENTS.md",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CODE_OF_CONDUCT.md",
    "CONTRIBUTING.md",
    "README.md",
    "SECURITY.md",
    "llms.txt",
]
CONDA_NAMES = {
    "duckdb": "python-duckdb",
    "matplotlib": "matplotlib-base",
    "torch": "pytorch",
}


def makefile_targets():
    return set(
        re.findall(
            r"^([\w-]+):",
            (ROOT / "Makefile").read_text(encoding="utf-8"),
            flags=re.MULTILINE,
        )
    )


@pytest.mark.parametrize(
    "path", sorted((ROOT / ".github").rglob("*.yml")), ids=lambda path: path.name
)
def test_what_the_host_reads_is_valid_yaml(path):
    assert isinstance(yaml.safe_load(path.read_text(encoding="utf-8")), dict)


def commands(job):
    """What the steps of a job run."""
    return [step["run"] for step in job["steps"] if "run" in step]


def test_the_workflow_checks_and_tests_every_python_it_can():
    wanted = {"check": "make check", "test": "make test"}
    for name, command in wanted.items():
        job = WORKFLOWS["tests"]["jobs"][name]
        assert job["strategy"]["matrix"]["python"] == ["3.11", "3.12", "3.13", "3.14"]
        assert any(line.startswith(command) for line in commands(job))


def test_the_workflow_tests_on_every_system():
    systems = {job["runs-on"] for job in WORKFLOWS["tests"]["jobs"].values()}
    assert systems == {"ubuntu-latest", "macos-latest", "windows-latest"}


def test_what_the_workflows_make_and_test_exists():
    for workflow in WORKFLOWS.values():
        text = "\n".join(
            line for job in workflow["jobs"].values() for line in commands(job)
        )
        assert set(re.findall(r"\bmake ([a-z-]+)", text)) <= makefile_targets()
        for path in re.findall(r"\btests/[\w/.]+", text):
            assert (ROOT / path).exists(), path


def test_the_long_tests_run_every_night():
    # YAML 1.1 reads the key "on" as true.
    assert WORKFLOWS["nightly"][True]["schedule"]
    (job,) = WORKFLOWS["nightly"]["jobs"].values()
    assert any(line.startswith("make thorough") for line in commands(job))


def test_a_release_is_published_without_a_password():
    jobs = WORKFLOWS["release"]["jobs"]
    publish = jobs["publish"]
    (upload,) = (
        step for step in publish["steps"] if "pypi-publish" in step.get("uses", "")
    )
    assert publish["permissions"] == {"id-token": "write"}
    assert publish["environment"]["name"] == "pypi"
    assert upload["with"] == {"attestations": True}
    assert "secrets." not in (ROOT / ".github/workflows/release.yml").read_text()


def groups(name):
    """The requirements of a dependency group and of the groups it includes."""
    for entry in PYPROJECT["dependency-groups"][name]:
        if isinstance(entry, dict):
            yield from groups(entry["include-group"])
        else:
            yield Requirement(entry)


def test_the_groups_for_developers_are_complete_and_no_extras():
    assert set(PYPROJECT["dependency-groups"]) == {"bench", "dev", "docs", "test"}
    assert {"docs", "test"} <= {
        entry["include-group"]
        for entry in PYPROJECT["dependency-groups"]["dev"]
        if isinstance(entry, dict)
    }
    assert {"mypy", "pytest", "ruff"} <= {
        requirement.name for requirement in groups("dev")
    }
    extras = set(PYPROJECT["project"]["optional-dependencies"])
    assert not extras & set(PYPROJECT["dependency-groups"])
    for name in PYPROJECT["dependency-groups"]:
        own = [each for each in groups(name) if each.name == "calspline"]
        assert all(each.extras <= extras for each in own)


def test_the_commit_hooks_run_ruff_and_mypy():
    hooks = yaml.safe_load(
        (ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8")
    )
    found = {
        hook["id"] for repository in hooks["repos"] for hook in repository["hooks"]
    }
    assert {"ruff-check", "ruff-format", "mypy"} <= found


def conda_requirements(lines):
    """Names and versions of the recipe, as pip writes them."""
    found = [
        Requirement(line.replace("${{ python_min }}", RECIPE["context"]["python_min"]))
        for line in lines
    ]
    return {requirement.name: requirement.specifier for requirement in found}


def test_the_recipe_needs_what_the_package_needs():
    found = conda_requirements(RECIPE["requirements"]["run"])
    assert str(found.pop("python")) == PYPROJECT["project"]["requires-python"]
    wanted = [Requirement(text) for text in PYPROJECT["project"]["dependencies"]]
    assert found == {requirement.name: requirement.specifier for requirement in wanted}


def test_the_recipe_bounds_what_the_extras_bound():
    found = conda_requirements(RECIPE["requirements"]["run_constraints"])
    extras = PYPROJECT["project"]["optional-dependencies"]
    for extra in ("cli", "dask", "ibis", "onnx", "plot", "polars", "spark", "torch"):
        for requirement in map(Requirement, extras[extra]):
            if requirement.name != "calspline":
                assert (
                    found[CONDA_NAMES.get(requirement.name, requirement.name)]
                    == requirement.specifier
                )


def test_the_recipe_has_the_build_system_and_the_command_of_the_package():
    host = conda_requirements(
        line
        for line in RECIPE["requirements"]["host"]
        if not line.startswith("python ")
    )
    (backend,) = map(Requirement, PYPROJECT["build-system"]["requires"])
    assert host[backend.name] == backend.specifier
    ((name, target),) = PYPROJECT["project"]["scripts"].items()
    assert RECIPE["build"]["python"]["entry_points"] == [f"{name} = {target}"]
    assert RECIPE["about"]["license"] == PYPROJECT["project"]["license"]


def test_version_and_address_are_the_same_everywhere():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert RECIPE["context"]["version"] == citation["version"] == calspline.__version__
    assert (
        RECIPE["about"]["homepage"]
        == PYPROJECT["project"]["urls"]["Homepage"]
        == ADDRESS
    )
    assert all(url.startswith(ADDRESS) for url in PYPROJECT["project"]["urls"].values())


def links(page):
    """What a page links to, in its text or below it."""
    text = re.sub(
        r"```.*?```", "", (ROOT / page).read_text(encoding="utf-8"), flags=re.DOTALL
    )
    inline, below = (
        re.findall(r"\]\(([^)\s]+)\)", text),
        re.findall(r"^\[[^\]]+\]: (\S+)$", text, flags=re.MULTILINE),
    )
    return [link for link in [*inline, *below] if not link.startswith("#")]


@pytest.mark.parametrize("page", PAGES)
def test_links_into_the_repository_lead_to_files_of_it(page):
    within = rf"(?:{ADDRESS}/(?:blob|tree)/main|https://raw\.githubusercontent\.com/calspline/calspline/main)/"
    for link in links(page):
        target = re.sub(within, "", link).partition("#")[0]
        base = (ROOT / page).parent if target == link.partition("#")[0] else ROOT
        assert target.startswith("https://") or base.joinpath(target).exists(), link


def test_links_of_the_readme_work_on_a_package_index():
    assert len(links("README.md")) > 15
    assert [
        link for link in links("README.md") if not link.startswith("https://")
    ] == []


def test_every_link_of_the_readme_is_defined():
    text = re.sub(
        r"```.*?```|`[^`]*`",
        "",
        (ROOT / "README.md").read_text(encoding="utf-8"),
        flags=re.DOTALL,
    )
    defined = set(re.findall(r"^\[([^\]]+)\]: ", text, flags=re.MULTILINE))
    used = set(re.findall(r"\]\[([^\]]+)\]", text))
    assert used <= defined
    assert {
        name
        for name in defined - used
        if f"[{name}]" not in text.lower().partition("\n[picture]:")[0]
    } == set()


def test_commands_that_the_pages_name_exist():
    for page in ("AGENTS.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "README.md"):
        named = re.findall(
            r"`make ([a-z-]+)", (ROOT / page).read_text(encoding="utf-8")
        )
        assert set(named) <= makefile_targets(), page


def test_the_map_of_the_code_names_files_that_exist_and_leaves_none_out():
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    package = Path(calspline.__file__).parent
    named = set(re.findall(r"`((?:\w+/)*\w+(?:\.py|/))`", text))
    assert [
        name
        for name in named
        if not (package / name).exists() and not (ROOT / name).exists()
    ] == []
    tops = {
        path.name if path.is_file() else f"{path.name}/"
        for path in package.iterdir()
        if path.name[0] != "_"
    }
    assert {name for name in tops if name.endswith((".py", "/"))} <= named
