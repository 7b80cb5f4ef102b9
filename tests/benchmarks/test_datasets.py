import numpy as np
import pandas as pd
import pytest

from benchmarks import datasets


@pytest.fixture
def data(tmp_path, monkeypatch):
    monkeypatch.setenv("CALSPLINE_DATA", str(tmp_path))
    return tmp_path


def test_a_missing_folder_is_an_error_that_says_how_to_name_it(monkeypatch, tmp_path):
    monkeypatch.setenv("CALSPLINE_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(
        FileNotFoundError, match="nowhere; set CALSPLINE_DATA to the folder that has it"
    ):
        datasets.load_gusto()
    monkeypatch.delenv("CALSPLINE_DATA")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileNotFoundError, match="set CALSPLINE_DATA"):
        datasets.folder()


def test_a_missing_file_is_named(data):
    with pytest.raises(FileNotFoundError, match=r"538_nba_games\.npz is not there"):
        datasets.load_scores("538_nba_games")


def test_the_target_is_taken_out_of_the_features(data):
    pd.DataFrame({"day30": [0, 1, 0], "age": [50.0, 60.0, 70.0]}).to_csv(
        data / "gusto1_mortality.csv.gz", index=False
    )
    X, y = datasets.load_gusto()
    assert list(X) == ["age"]
    np.testing.assert_array_equal(y, [0, 1, 0])


def test_what_is_known_only_afterwards_is_left_out(data):
    columns = [*datasets.SUPPORT2_EXCLUDED, "hospdead", "age"]
    pd.DataFrame(np.ones((2, len(columns))), columns=columns).to_csv(
        data / "support2.csv.gz", index=False
    )
    assert list(datasets.load_support2()[0]) == ["age"]
    pd.DataFrame({"duration": [9], "age": [40], "y": ["yes"]}).to_csv(
        data / "bank_additional_full.csv.gz", index=False
    )
    assert list(datasets.load_bank()[0]) == ["age"]


def test_adult_keeps_its_question_marks_and_its_two_parts(data):
    for part, income in (("train", ">50K"), ("test", "<=50K")):
        frame = pd.DataFrame({"workclass": ["?"], "income": [income], "split": [part]})
        frame.to_csv(data / f"adult_{part}.csv.gz", index=False)
    X, y, X_test, y_test = datasets.load_adult()
    assert X["workclass"][0] == X_test["workclass"][0] == "?"
    assert (y[0], y_test[0]) == (1, 0)


def test_arrays_come_back_by_name(data):
    (data / "logits").mkdir()
    np.savez(data / "logits" / "net.npz", logits_test=np.eye(3))
    np.testing.assert_array_equal(datasets.load_logits("net")["logits_test"], np.eye(3))
