from benchmarks import growth


def test_a_method_that_has_become_too_slow_stays_left_out():
    methods = dict.fromkeys(["quick", "slow", "new"], lambda: growth.Cost(0.0, 0.0))
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
        100: {"a": growth.Cost(0.001, 0.002), "b": growth.Cost(0.5, 0.5)},
        10**6: {"a": growth.Cost(2, 3)},
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


def test_segments_are_fitted_together_and_each_by_itself():
    p, y = next(growth.rows(300))
    by = (p > 0.2).astype(int)
    for costs in (growth.spline(p, y, by), growth.each_segment(p, y, by)):
        assert costs.fit > 0.0
        assert costs.memory >= 0.0


def test_parts_that_are_not_measured_again_stay_on_the_page():
    found = {100: {"a": growth.Cost(0.001, 0.002, 3e6)}}
    sections = growth.page_of("segments", found)
    page = "# Title\n\nText.\n\n" + "\n\n".join(
        f"## {heading}\n\n{text}" for heading, text in sections.items()
    )
    assert growth.sections_of(page) == {
        heading: text.strip() for heading, text in sections.items()
    }
    assert sections["Segments: memory of a fit, MB"].splitlines()[2].split()[-2] == "3"
