# One image for every process of the application; docker-compose.yml says which process a container is.
FROM python:3.12-slim-trixie AS packages
COPY requirements.txt /tmp/
RUN python -m venv /opt/venv \
 && /opt/venv/bin/pip install --no-cache-dir --disable-pip-version-check --require-hashes -r /tmp/requirements.txt

FROM python:3.12-slim-trixie
# HTCondor's tools only: submitting a DAG needs condor_dagman on PATH, the daemons run elsewhere
RUN apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends condor \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --system --uid 10001 --user-group --create-home --shell /usr/sbin/nologin wms2
COPY --from=packages /opt/venv /opt/venv
COPY . /srv/wms2
WORKDIR /srv/wms2
ENV PATH=/opt/venv/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    DJANGO_SETTINGS_MODULE=wms2_project.settings \
    WMS2_STATIC_ROOT=/srv/static
# collecting static files reads the settings and connects to nothing; the key lives for this line only
RUN SECRET_KEY=unused DATABASE_URL=postgres://unused/unused REDIS_URL=redis://unused \
    python manage.py collectstatic --no-input -v0
USER wms2
EXPOSE 8000
CMD ["gunicorn", "wms2_project.wsgi", "--bind", "0.0.0.0:8000", "--workers", "4", "--threads", "4", "--no-control-socket", "--worker-tmp-dir", "/dev/shm"]
