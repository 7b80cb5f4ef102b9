from benchmarks import growth


def test_a_method_that_has_become_too_slow_stays_left_out():
    methods = dict.fromkeys(["quick", "slow", "new"], lambda: growth.Seconds(0.0, 0.0))
    last = {"quick": (1000, 0.001), "slow": (1000, 0.9)}
    assert list(growth.within(methods, last, 10_000, cap=3.0)) == ["quick", "new"]
    assert list(growth.within(methods, last, 100_000, cap=3.0)) == ["quick", "new"]


def test_chunks_are_fitted_as_the_rows_that_they_hold(monkeypatch):
    monkeypatch.setattr(growth, "CHUNK", 700)
    assert [len(p) for p, _ in growth.rows(1500)] == [700, 700, 100]
    seconds = growth.in_chunks(1500)
    assert seconds.fit > 0.0
    assert seconds.calibrate > 0.0


def test_the_table_has_a_line_for_each_method_and_a_column_for_each_size():
    found = {
        100: {"a": growth.Seconds(0.001, 0.002), "b": growth.Seconds(0.5, 0.5)},
        10**6: {"a": growth.Seconds(2, 3)},
    }
    table = growth.section(found, "fit")
    assert [cell.strip() for cell in table.splitlines()[0].strip("|").split("|")] == [
        "method",
        "100",
        "1e6",
    ]
    assert [cell.strip() for cell in table.splitlines()[3].strip("|").split("|")] == [
        "b",
        "500",
        "-",
    ]
