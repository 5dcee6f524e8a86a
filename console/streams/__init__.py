"""The process that sends changes to open pages: `uvicorn console.streams.asgi:application`.

    announce() ── Redis ──► source.py ──► hub.py ──► one queue per open page ──► asgi.py ──► browser
                                            │
                                            └── renders each fragment once per change and role

No page causes a query: fragments are rendered once for all pages, sessions are checked once for all.
"""
