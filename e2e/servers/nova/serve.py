#!/usr/bin/python3
"""Serves Nova's compute API on the loopback interface: serve.py DIRECTORY PORT CONTROL_PORT

This is Nova's own application with its own middleware for the tokens of Keystone and its own tables, in sqlite files in
DIRECTORY. It has no scheduler, message queue or hypervisor. The control port adds and removes servers with Nova's own
objects, as nova-conductor and nova-compute leave them behind: an Instance in the database of a cell, and an InstanceMapping
in that of the API.

  POST /servers {"id": UUID, "name": TEXT, "project_id": ID, "user_id": ID, "metadata": {}}
  DELETE /servers/UUID

Nova asks Neutron for the security groups of each server that it shows. The control port answers in its place that the
servers have no port.
"""

import nova.monkey_patch  # noqa: F401, isort: skip: before anything that it replaces parts of

import json
import os
import shutil
import sqlite3
import sys

import eventlet
from eventlet import wsgi
from nova.api.openstack import wsgi_app
from nova.compute import power_state
from nova.compute import vm_states
from nova import context as nova_context
from nova.db import migration
from nova import exception
from nova.network import model as network_model
from nova import objects
from oslo_utils import timeutils
from oslo_utils import uuidutils

# What does not go through Keystone's middleware has no project.
ADMIN = nova_context.get_admin_context

HOST = "compute"


def create_databases(directory):
    """Creates the databases of the API and of both cells, and returns the cell that has the servers."""
    cells = {name: os.path.join(directory, name + ".db") for name in ("cell0", "cell1")}
    migration.db_sync(database="api")
    migration.db_sync(database="main")  # that of cell1, which nova.conf names
    shutil.copyfile(cells["cell1"], cells["cell0"])
    for path in (os.path.join(directory, "api.db"), *cells.values()):
        # With sqlite's default journal, a reader that is left open makes writes fail ("database is locked").
        connection = sqlite3.connect(path)
        connection.execute("PRAGMA journal_mode=WAL")
        connection.close()
    for name, path in cells.items():
        mapping = objects.CellMapping(
            ADMIN(),
            uuid=objects.CellMapping.CELL0_UUID if name == "cell0" else uuidutils.generate_uuid(),
            name=name,
            transport_url="none:///",
            database_connection="sqlite:///" + path,
        )
        mapping.create()
    return mapping


def new_flavor():
    return objects.Flavor(
        id=1, name="small", flavorid="1", memory_mb=2048, vcpus=1, root_gb=20, ephemeral_gb=0, swap=0, rxtx_factor=1.0,
        vcpu_weight=0, disabled=False, is_public=True, extra_specs={}, projects=[], description=None,
    )


def add_server(cell, wanted):
    context = ADMIN()
    identity = {"project_id": wanted["project_id"], "user_id": wanted["user_id"]}
    with nova_context.target_cell(context, cell) as in_cell:
        instance = objects.Instance(
            in_cell, uuid=wanted["id"], display_name=wanted["name"], metadata=wanted["metadata"] or {}, system_metadata={},
            vm_state=vm_states.ACTIVE, power_state=power_state.RUNNING, host=HOST, node=HOST, flavor=new_flavor(),
            old_flavor=None, new_flavor=None, launched_at=timeutils.utcnow(), config_drive="", **identity,
        )
        instance.info_cache = objects.InstanceInfoCache(instance_uuid=instance.uuid, network_info=network_model.NetworkInfo())
        instance.create()
    objects.InstanceMapping(
        context, instance_uuid=wanted["id"], cell_mapping=cell, queued_for_delete=False, **identity
    ).create()


def remove_server(cell, uuid):
    context = ADMIN()
    mapping = objects.InstanceMapping.get_by_instance_uuid(context, uuid)
    mapping.queued_for_delete = True
    mapping.save()
    with nova_context.target_cell(context, cell) as in_cell:
        objects.Instance.get_by_uuid(in_cell, uuid).destroy()


def control(cell):
    """Returns the application of the control port."""

    def serve(environ, start_response):
        method, path = environ["REQUEST_METHOD"], environ["PATH_INFO"]
        status, answer = "200 OK", {}
        try:
            if (method, path) == ("POST", "/servers"):
                length = int(environ.get("CONTENT_LENGTH") or 0)
                add_server(cell, json.loads(environ["wsgi.input"].read(length)))
            elif method == "DELETE" and path.startswith("/servers/"):
                remove_server(cell, path[len("/servers/"):])
            elif (method, path) == ("GET", "/neutron/v2.0/ports"):
                answer = {"ports": []}
            else:
                status = "404 Not Found"
        except (exception.InstanceNotFound, exception.InstanceMappingNotFound) as error:
            status, answer = "404 Not Found", {"error": str(error)}
        except Exception as error:
            status, answer = "500 Internal Server Error", {"error": repr(error)}
        start_response(status, [("Content-Type", "application/json")])
        return [json.dumps(answer).encode()]

    return serve


def main():
    directory, port, control_port = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    del sys.argv[1:]  # else Nova takes them for its own
    wsgi_app.init_global_data(wsgi_app._get_config_files(), "osapi_compute")
    cell = create_databases(directory)
    application = wsgi_app.init_application("osapi_compute")

    def listen(on, app):
        # A request that finds the queue full would wait a second for its next try.
        wsgi.server(eventlet.listen(("127.0.0.1", on), backlog=256), app, log_output=False)

    eventlet.spawn(listen, control_port, control(cell))
    listen(port, application)


main()
