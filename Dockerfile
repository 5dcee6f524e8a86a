# One image for every process of the application; docker-compose.yml says which process a container is.
# deploy/build-image builds it with buildah; `docker compose build` does with Docker.
ARG BASE_IMAGE=debian:trixie-slim

# Secrets stay outside the image, and none is needed where the base's own settings lead to packages:
# "apt" is a list of sources, "pip" a pip.conf, "ca" the authorities it may name as /run/secrets/ca.
FROM ${BASE_IMAGE} AS packages
RUN --mount=type=secret,id=apt,target=/etc/apt/sources.list.d/build.list \
    apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends python3-venv \
 && python3 -m venv /opt/venv
COPY requirements.txt /tmp/
RUN --mount=type=secret,id=pip,target=/etc/pip.conf --mount=type=secret,id=ca \
    /opt/venv/bin/pip install --no-cache-dir --disable-pip-version-check --require-hashes -r /tmp/requirements.txt

FROM ${BASE_IMAGE}
# HTCondor's tools only: submitting a DAG needs condor_dagman on PATH, the daemons run elsewhere
RUN --mount=type=secret,id=apt,target=/etc/apt/sources.list.d/build.list \
    apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends ca-certificates condor python3 \
 && rm -rf /var/lib/apt/lists/* \
 && groupadd --gid 10001 wms2 \
 && useradd --uid 10001 --gid 10001 --create-home --shell /usr/sbin/nologin wms2
ENV PATH=/opt/venv/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    DJANGO_SETTINGS_MODULE=wms2_project.settings \
    WMS2_STATIC_ROOT=/srv/static
WORKDIR /srv/wms2
COPY --from=packages /opt/venv /opt/venv
COPY . /srv/wms2
# collecting static files reads the settings and connects to nothing; the key lives for this line only
RUN SECRET_KEY=unused DATABASE_URL=postgres://unused/unused REDIS_URL=redis://unused \
    python manage.py collectstatic --no-input -v0
USER wms2
EXPOSE 8000
CMD ["gunicorn", "wms2_project.wsgi", "--bind", "0.0.0.0:8000", "--workers", "4", "--threads", "4", "--no-control-socket", "--worker-tmp-dir", "/dev/shm"]
