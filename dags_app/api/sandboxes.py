"""Upload of the files of a payload: one tarball, kept by its SHA-256."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import IO, Any, ClassVar

from django.conf import settings
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.parsers import BaseParser
from rest_framework.request import Request as HttpRequest
from rest_framework.response import Response

from dags_app.services.user_sandboxes import store_upload
from wms2_project.access.roles import Role
from wms2_project.api.errors import BodyTooLarge
from wms2_project.api.views import ApiView

CHUNK_BYTES = 1024 * 1024
MEDIA_TYPES = ("application/gzip", "application/x-tar", "application/octet-stream")


class TarballParser(BaseParser):
    """Passes the body on in chunks, at most WMS2_SANDBOX_MAX_BYTES of it."""

    def parse(
        self, stream: IO[Any], media_type: str | None = None, parser_context: Mapping[str, Any] | None = None
    ) -> dict[str, Iterator[bytes]]:
        """Return the body as `chunks`, which are read when they are iterated."""
        return {"chunks": _chunks(stream)}


def _chunks(stream: IO[Any]) -> Iterator[bytes]:
    """Yield the body. Raises BodyTooLarge where it goes over the limit."""
    size = 0
    while chunk := stream.read(CHUNK_BYTES):
        size += len(chunk)
        if size > settings.SANDBOX_MAX_BYTES:
            raise BodyTooLarge(f"The body is larger than {settings.SANDBOX_MAX_BYTES} bytes.")
        yield chunk


def _parser(media: str) -> type[TarballParser]:
    return type("TarballParser", (TarballParser,), {"media_type": media})


class Uploaded(serializers.Serializer[Any]):
    sandbox_sha256 = serializers.CharField(help_text="For the field of the same name of a request.")


class SandboxView(ApiView):
    """Files of payloads."""

    roles: ClassVar[dict[str, Role]] = {"PUT": Role.REQUESTOR}
    problems: ClassVar[dict[str, tuple[int, ...]]] = {"PUT": (413, 503)}
    parser_classes = [_parser(media) for media in MEDIA_TYPES]

    @extend_schema(
        operation_id="sandboxes_upload",
        request=dict.fromkeys(MEDIA_TYPES, OpenApiTypes.BINARY),
        responses={200: Uploaded},
    )
    def put(self, request: HttpRequest) -> Response:
        """Keep a tarball of files and directories; a request names it by its SHA-256."""
        body: Any = request.data
        chunks = body.get("chunks", ())  # a call without a body has none
        digest = store_upload(chunks=chunks, actor=f"user:{request.user.get_username()}")
        return Response({"sandbox_sha256": digest})
