"""Message brokers from which announcements of datasets are read. Addresses and queues have no defaults."""

from __future__ import annotations

from wms2_project.settings.environment import env

# amqp:// and amqps:// (RabbitMQ) or redis://
INTAKE_AMQP_URL = env.str("WMS2_INTAKE_AMQP_URL", default="")
INTAKE_AMQP_QUEUE = env.str("WMS2_INTAKE_AMQP_QUEUE", default="")
INTAKE_AMQP_EXCHANGE = env.str("WMS2_INTAKE_AMQP_EXCHANGE", default="")
INTAKE_AMQP_ROUTING_KEY = env.str("WMS2_INTAKE_AMQP_ROUTING_KEY", default="#")
# stomp:// and stomp+ssl://, with user, password and virtual host
INTAKE_STOMP_URL = env.str("WMS2_INTAKE_STOMP_URL", default="")
INTAKE_STOMP_DESTINATION = env.str("WMS2_INTAKE_STOMP_DESTINATION", default="")
INTAKE_CA_FILE = env.str("WMS2_INTAKE_CA_FILE", default="")
# Events of Rucio that announce a dataset
INTAKE_EVENT_TYPES = [one.lower() for one in env.list("WMS2_INTAKE_EVENT_TYPES", default=["close"])]
# Closed datasets of Rucio that no message announced: names with `*`; empty: Rucio is not polled
INTAKE_POLL_NAMES = env.list("WMS2_INTAKE_POLL_NAMES", default=[])
INTAKE_POLL_INTERVAL_SEC = env.float("WMS2_INTAKE_POLL_INTERVAL_SEC", default=3600.0)
INTAKE_POLL_DAYS = env.float("WMS2_INTAKE_POLL_DAYS", default=7.0)
