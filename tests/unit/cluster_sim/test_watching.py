from tests.unit.cluster_sim.harness import CONFIG_MAPS, JOBS, Bench, config_map, events, job, types


def test_a_watch_shows_what_comes_after_its_version(bench):
    bench.post(CONFIG_MAPS, config_map("before"))
    version = bench.get(CONFIG_MAPS).json["metadata"]["resourceVersion"]
    bench.post(CONFIG_MAPS, config_map("missed"))

    watch = bench.watch(CONFIG_MAPS, resourceVersion=version)
    bench.patch(f"{CONFIG_MAPS}/missed", {"data": {"a": "1"}})
    bench.delete(f"{CONFIG_MAPS}/missed")

    seen = events(watch)
    assert [event["type"] for event in seen] == ["ADDED", "MODIFIED", "DELETED"]
    assert seen[0]["object"]["kind"] == "ConfigMap"
    versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in seen]
    assert versions == sorted(set(versions))


def test_a_watch_without_a_version_begins_with_what_is_there(bench):
    bench.post(CONFIG_MAPS, config_map("here"))

    assert types(bench.watch(CONFIG_MAPS)) == ["ADDED"]


def test_an_object_that_leaves_the_selection_is_deleted_from_it(bench):
    watch = bench.watch(CONFIG_MAPS, labelSelector="tier=a")
    bench.post(CONFIG_MAPS, config_map("x", metadata={"labels": {"tier": "b"}}))
    path = f"{CONFIG_MAPS}/x"

    bench.patch(path, {"metadata": {"labels": {"tier": "a"}}})
    bench.patch(path, {"data": {"k": "v"}})
    bench.patch(path, {"metadata": {"labels": {"tier": "b"}}})

    assert types(watch) == ["ADDED", "MODIFIED", "DELETED"]


def test_a_watch_of_a_namespace_shows_no_other(bench):
    bench.post("/api/v1/namespaces", {"metadata": {"name": "other"}})
    watch = bench.watch(JOBS)

    bench.post("/apis/batch/v1/namespaces/other/jobs", job("two", suspend=True))

    assert types(watch) == []


def test_a_version_that_history_no_longer_reaches_is_told_inside_the_stream(bench):
    version = bench.cluster.resource_version
    bench.post(CONFIG_MAPS, config_map("x"))
    bench.cluster.compact()

    watch = bench.watch(CONFIG_MAPS, resourceVersion=version)

    (error,) = events(watch)
    assert watch.status == 200
    assert watch.closed
    assert error["type"] == "ERROR"
    assert (error["object"]["code"], error["object"]["reason"]) == (410, "Expired")


def test_history_is_bounded():
    bench = Bench(history_limit=10)
    version = bench.cluster.resource_version
    for number in range(11):
        bench.post(CONFIG_MAPS, config_map(f"x{number}"))

    assert types(bench.watch(CONFIG_MAPS, resourceVersion=version)) == ["ERROR"]
    assert types(bench.watch(CONFIG_MAPS, resourceVersion=version + 1)) == ["ADDED"] * 10


def test_bookmarks_carry_the_version_of_a_quiet_watch(bench):
    watch = bench.watch(CONFIG_MAPS, resourceVersion=bench.cluster.resource_version, allowWatchBookmarks="true")
    bench.post(JOBS, job("noise", suspend=True))

    bench.run(61)

    (bookmark,) = events(watch)
    assert bookmark["type"] == "BOOKMARK"
    assert bookmark["object"]["kind"] == "ConfigMap"
    assert int(bookmark["object"]["metadata"]["resourceVersion"]) == bench.cluster.resource_version


def test_a_watch_ends_after_its_time(bench):
    watch = bench.watch(CONFIG_MAPS, timeoutSeconds=5)
    bench.run(4.9)
    assert not watch.closed

    bench.run(0.2)

    assert watch.closed
    assert watch.take() == []


def test_a_watch_without_a_time_ends_within_the_hour(bench):
    watch = bench.watch(CONFIG_MAPS)
    bench.run(1_800)
    assert not watch.closed
    bench.run(1_801)
    assert watch.closed


def test_a_closed_watch_costs_nothing_more(bench):
    watch = bench.watch(CONFIG_MAPS, allowWatchBookmarks="true")

    watch.close()
    bench.post(CONFIG_MAPS, config_map("x"))

    assert watch.take() == []


def test_subscribers_are_woken_by_lines_and_by_the_end(bench):
    woken: list[int] = []
    watch = bench.watch(CONFIG_MAPS, timeoutSeconds=1)
    watch.subscribe(lambda: woken.append(1))

    bench.post(CONFIG_MAPS, config_map("x"))
    bench.run(2)

    assert len(woken) == 2
