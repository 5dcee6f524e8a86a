"""Import of requests: one document, one name, or a batch; and the plan preview of a document."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, ClassVar

from django.utils import timezone
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request as HttpRequest
from rest_framework.response import Response

from dags_app.planning.plan import NothingToPlan, PlanRefused
from dags_app.planning.preview import PlanDescription
from requests_app.api.inputs import IMPORT_SCHEMA, ImportByName
from requests_app.api.serializers import ImportBody, links_of
from requests_app.models import Request
from requests_app.selectors.preview import preview_request
from requests_app.services import importing
from wms2_project.access.roles import Role, actor_of, groups_of, operates
from wms2_project.api.bodies import body_of
from wms2_project.api.docs import Problem
from wms2_project.api.errors import problem_details
from wms2_project.api.views import ApiView, parsed
from wms2_project.errors import Conflict, InvalidInput, ServiceUnavailable, Wms2Error

MAX_BATCH = 100
BATCH_SEC = 20.0  # time limit of a batch, whose names are fetched one by one
IDEMPOTENCY_KEY = OpenApiParameter(
    "Idempotency-Key", str, OpenApiParameter.HEADER,
    description="Makes the call repeatable: the same key and body return the first answer.",
)  # fmt: skip
BATCH_SCHEMA: dict[str, Any] = {
    "type": "object",
    "title": "Batch",
    "required": ["requests"],
    "additionalProperties": False,
    "properties": {
        "requests": {
            "type": "array",
            "minItems": 1,
            "maxItems": MAX_BATCH,
            "items": {"description": "Bodies of POST /requests. Each is accepted or refused on its own."},
        }
    },
}


class BatchItem(serializers.Serializer[Any]):
    """Result of one member of the batch: the request, or a problem."""

    index = serializers.IntegerField()
    status = serializers.IntegerField(help_text="HTTP status of this member.")
    request = ImportBody(required=False)
    problem = Problem(required=False)


class BatchBody(serializers.Serializer[Any]):
    """Results in the order of the batch."""

    accepted = serializers.IntegerField()
    refused = serializers.IntegerField()
    results = BatchItem(many=True)


class BatchView(ApiView):
    """Batch import."""

    roles: ClassVar[dict[str, Role]] = {"POST": Role.REQUESTOR}

    @extend_schema(
        operation_id="requests_batch",
        request={"application/json": BATCH_SCHEMA},
        responses={200: BatchBody},
        parameters=[IDEMPOTENCY_KEY],
    )
    def post(self, request: HttpRequest) -> Response:
        """Import up to 100 requests. Each is stored or refused on its own."""
        documents, key = _batch_of(request.data), idempotency_key(request)
        deadline = time.monotonic() + BATCH_SEC
        results = []
        for index, document in enumerate(documents):
            try:
                if time.monotonic() > deadline:
                    raise ServiceUnavailable(
                        "the time limit of the batch was reached", cure="Send this member again"
                    )
                made, created = take_in(document, request, key=f"{key}/{index}" if key else "")
                answer = first_answer(made, created=created)
                results.append({"index": index, "status": 201, "request": answer})
            except (Wms2Error, ValidationError) as error:
                refusal: Any = problem_details(error, {"request": request})
                results.append({"index": index, "status": refusal.status_code, "problem": refusal.data})
        accepted = sum("request" in result for result in results)
        return Response({"accepted": accepted, "refused": len(results) - accepted, "results": results})


class PlanView(ApiView):
    """Plan preview."""

    roles: ClassVar[dict[str, Role]] = {"POST": Role.REQUESTOR}
    problems: ClassVar[dict[str, tuple[int, ...]]] = {"POST": (404, 409, 502, 503)}

    @extend_schema(
        operation_id="requests_plan",
        request={"application/json": IMPORT_SCHEMA},
        responses={200: body_of(PlanDescription)},
    )
    def post(self, request: HttpRequest) -> Response:
        """Preview jobs, groups and costs of a document. Nothing is stored."""
        document = _document(request.data)
        try:
            found = preview_request(document=document, now=timezone.now(), bounded=True)
        except (PlanRefused, NothingToPlan) as error:
            raise Conflict(error.message, cure=error.cure) from error
        return Response(asdict(found.body))  # by a serializer, ten thousand jobs would take seconds


def _document(body: Any) -> Mapping[str, Any]:
    if not isinstance(body, Mapping):
        raise InvalidInput("The body must be a JSON object", fields={"body": "not a JSON object"})
    return body


def _batch_of(body: Any) -> list[Any]:
    documents = body.get("requests") if isinstance(body, Mapping) and set(body) == {"requests"} else None
    if not isinstance(documents, list) or not 1 <= len(documents) <= MAX_BATCH:
        message = f"must be a list of 1 to {MAX_BATCH} requests, and nothing else"
        raise InvalidInput("The body must be a batch", fields={"requests": message})
    return documents


def take_in(body: Any, http: HttpRequest, *, key: str) -> tuple[Request, bool]:
    """Import a document, or fetch a request by name and import it."""
    document = _document(body)
    actor, on_behalf = actor_of(http), operates(http.user)
    draft = document.get("draft", False)
    if not isinstance(draft, bool):
        raise InvalidInput("The request was not stored", fields={"draft": "must be true or false"})
    if document.get("source") == "reqmgr2":
        given = parsed(ImportByName, document)
        given.pop("draft", None)
        return importing.import_by_name(
            request_name=given.pop("request_name"),
            actor=actor,
            idempotency_key=key,
            on_behalf=on_behalf,
            beside=given,
            draft=draft,
        )
    return importing.import_request(
        document={name: value for name, value in document.items() if name != "draft"},
        actor=actor,
        idempotency_key=key,
        on_behalf=on_behalf,
        draft=draft,
        groups=groups_of(http.user),
    )


def imported(made: Request, *, created: bool) -> Response:
    """Return the response of an import. A repeated key gets the same response."""
    headers = {"Location": links_of(made)["self"]}
    headers |= {"ETag": f'"{made.version}"'} if created else {"Idempotency-Replayed": "true"}
    return Response(first_answer(made, created=created), status=201, headers=headers)


def first_answer(made: Request, *, created: bool) -> dict[str, Any]:
    """Return the body of the first response, regardless of the present status."""
    if not created:
        made.status = made.transitions.earliest("id").to_status
    body: dict[str, Any] = ImportBody(made).data
    return body


def idempotency_key(http: HttpRequest) -> str:
    """Return the Idempotency-Key header, or an empty string."""
    key = http.headers.get("Idempotency-Key", "").strip()
    if len(key) > 200 or not key.isascii() or not key.isprintable():
        raise InvalidInput(
            "The Idempotency-Key is invalid",
            fields={"Idempotency-Key": "must be at most 200 printable ASCII characters"},
        )
    return key
