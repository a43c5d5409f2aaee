"""The order of checks before a handler: token, version, rate, address."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from emulator.asking import NEW, NEWEST, OLD

if TYPE_CHECKING:
    from dibs.lab.emulator import Database, Emulator
    from emulator.asking import Plain

VERSIONS = ("2021-05-11", "2021-05-13", "2021-08-16", "2022-02-22", OLD, NEW, NEWEST)
NOBODY = "00000000-0000-4000-8000-000000000000"


def test_wrong_token_is_reported_before_version_and_address(plain: Plain) -> None:
    said = plain("GET", "/v1/nowhere", token="ntn_wrong", version=None)  # noqa: S106
    assert (said.status, said.code, said.message) == (401, "unauthorized", "API token is invalid.")


def test_missing_version_is_reported_before_the_address(plain: Plain) -> None:
    said = plain("GET", "/v1/nowhere", version=None)
    assert (said.status, said.code) == (400, "missing_version")
    assert said.message == (
        "Notion-Version header failed validation: Notion-Version header should be defined, instead was `undefined`."
    )


def test_unknown_version_lists_the_supported_ones(plain: Plain) -> None:
    said = plain("GET", "/v1/users/me", version="2024-01-01")
    assert (said.status, said.code) == (400, "validation_error")
    assert all(version in said.message for version in VERSIONS)
    assert 'instead was `"2024-01-01"`' in said.message


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_is_accepted(plain: Plain, version: str) -> None:
    assert plain("GET", "/v1/users/me", version=version).status == 200


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/nowhere"),
        ("DELETE", "/v1/users/me"),
        ("POST", f"/v1/pages/{NOBODY}"),
        ("GET", f"/v1/pages/{NOBODY}/children/more"),
        ("GET", "/v1/pages/"),
        ("GET", f"/v1/pages/https://www.notion.so/Tasks-{NOBODY}"),
    ],
)
def test_unknown_address_is_an_invalid_request_url(plain: Plain, method: str, path: str) -> None:
    said = plain(method, path)
    assert (said.status, said.code, said.message) == (400, "invalid_request_url", "Invalid request URL.")


@pytest.mark.parametrize("version", VERSIONS[:5])
def test_before_data_sources_a_database_is_queried(plain: Plain, tasks: Database, version: str) -> None:
    assert plain("POST", f"/v1/databases/{tasks.id}/query", {}, version=version).status == 200
    said = plain("POST", f"/v1/data_sources/{tasks.data_source_id}/query", {}, version=version)
    assert (said.status, said.code) == (400, "invalid_request_url")
    assert plain("GET", f"/v1/data_sources/{tasks.data_source_id}", version=version).code == "invalid_request_url"


@pytest.mark.parametrize("version", VERSIONS[5:])
def test_since_data_sources_the_data_source_is_queried(plain: Plain, tasks: Database, version: str) -> None:
    assert plain("POST", f"/v1/data_sources/{tasks.data_source_id}/query", {}, version=version).status == 200
    said = plain("POST", f"/v1/databases/{tasks.id}/query", {}, version=version)
    assert (said.status, said.code) == (400, "invalid_request_url")


def test_database_has_properties_or_data_sources_by_version(plain: Plain, tasks: Database) -> None:
    old = plain("GET", f"/v1/databases/{tasks.id}", version=OLD).body
    assert old["properties"]["ID"]["unique_id"] == {"prefix": "TASK"}
    assert "data_sources" not in old
    new = plain("GET", f"/v1/databases/{tasks.id}", version=NEW).body
    assert new["data_sources"] == [{"id": tasks.data_source_id, "name": "Tasks"}]
    assert "properties" not in new


def test_page_fields_follow_the_api_version(notion: Emulator, plain: Plain, tasks: Database) -> None:
    page = notion.page(tasks.id, {})
    shown = {version: plain("GET", f"/v1/pages/{page}", version=version).body for version in (OLD, NEW, NEWEST)}
    assert shown[OLD]["parent"] == {"type": "database_id", "database_id": tasks.id}
    assert shown[NEW]["parent"]["data_source_id"] == tasks.data_source_id
    assert shown[OLD]["archived"] is shown[NEW]["archived"] is False
    assert "archived" not in shown[NEWEST]
    assert shown[NEWEST]["in_trash"] is False


@pytest.mark.parametrize("kind", ["page", "database", "data_source", "user", "comment"])
def test_missing_object_is_not_found_by_name_and_id(plain: Plain, kind: str) -> None:
    said = plain("GET", f"/v1/{kind}s/{NOBODY.replace('-', '')}")
    assert (said.status, said.code) == (404, "object_not_found")
    assert said.message == (
        f"Could not find {kind} with ID: {NOBODY}. "
        'Make sure the relevant pages and databases are shared with your integration "dibs".'
    )
    assert said.body["additional_data"] == {"integration_id": plain("GET", "/v1/users/me").body["id"]}


def test_id_of_another_object_type_is_reported(notion: Emulator, plain: Plain, tasks: Database) -> None:
    page = notion.page(tasks.id, {})
    said = plain("GET", f"/v1/databases/{page}")
    assert (said.status, said.code) == (400, "validation_error")
    assert said.message == f"Provided ID {page} is a page, not a database. Use the retrieve page API instead"
    said = plain("GET", f"/v1/pages/{tasks.id}")
    assert said.message == f"Provided ID {tasks.id} is a database, not a page. Use the retrieve database API instead"
    assert plain("GET", f"/v1/data_sources/{tasks.id}").code == "object_not_found"
    notion.human.unshare(tasks.id)
    assert {plain("GET", f"/v1/{path}").code for path in (f"databases/{page}", f"pages/{tasks.id}")} == {
        "object_not_found"
    }


def test_malformed_id_is_reported(plain: Plain) -> None:
    said = plain("GET", "/v1/pages/TASK-42")
    assert (said.status, said.code) == (400, "validation_error")
    assert said.message == 'path failed validation: path.page_id should be a valid uuid, instead was `"TASK-42"`.'


def test_invalid_json_body_is_reported(plain: Plain, tasks: Database) -> None:
    said = plain("POST", f"/v1/data_sources/{tasks.data_source_id}/query", content=b'{"filter": ')
    assert (said.status, said.code, said.message) == (400, "invalid_json", "Error parsing JSON body.")


def test_every_answer_carries_the_id_of_its_request(plain: Plain) -> None:
    for said in (plain("GET", "/v1/users/me"), plain("GET", "/v1/nowhere")):
        assert said.body["request_id"] == said.headers["x-notion-request-id"]


def test_a_token_is_never_shown_by_the_api(notion: Emulator, plain: Plain) -> None:
    assert notion.token not in str(plain("GET", "/v1/users").body)
    assert notion.token not in str(plain("GET", "/v1/users/me").body)
