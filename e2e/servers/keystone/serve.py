#!/usr/bin/python3
"""Serves Keystone on the loopback interface: serve.py DATABASE PORT

The server that comes with Keystone reads one connection after the other. A client that opens one and sends nothing, as Go's
does when a request is given up while it dials, would stop it for all others. This one has a thread for each connection and
lets Keystone answer one request at a time, because writers in one sqlite file would fail each other.
"""

import io
import socketserver
import sqlite3
import sys
import threading
from wsgiref import simple_server

from keystone.server.wsgi import initialize_public_application


class Server(socketserver.ThreadingMixIn, simple_server.WSGIServer):
    daemon_threads = True
    # A request that finds the queue full would wait a second for its next try.
    request_queue_size = 256


def one_at_a_time(application):
    lock = threading.Lock()

    def serve(environ, start_response):
        # A client that is slow to send its body holds up only itself.
        length = int(environ.get("CONTENT_LENGTH") or 0)
        environ["wsgi.input"] = io.BytesIO(environ["wsgi.input"].read(length))
        with lock:
            answer = application(environ, start_response)
            try:
                return [b"".join(answer)]
            finally:
                if hasattr(answer, "close"):
                    answer.close()

    return serve


def main():
    database, port = sys.argv[1], int(sys.argv[2])
    del sys.argv[1:]  # else Keystone takes them for its own
    # With sqlite's default journal, a reader that is left open makes writes fail ("database is locked").
    connection = sqlite3.connect(database)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.close()
    application = one_at_a_time(initialize_public_application())
    simple_server.make_server("127.0.0.1", port, application, server_class=Server).serve_forever()


main()
