"""Intake of announcements from message brokers: `manage intake`.

    RabbitMQ, Redis       ── amqp_reader.py ──┐
                                              ├─► taking.py: one transaction per batch, then acknowledged
    Rucio's hermes, STOMP ── stomp_reader.py ─┘          └─► Announcement rows, which the sweep matches

messages.py reads one message and is pure; process.py keeps the readers going; polling.py announces closed
datasets that no message announced; status.py shows in /readyz what they wait for.
"""
