"""`python far_host.py SERVER SCHEMA WORD …`: a worker in its own network namespace, like another host.

Its only way out is its loopback device, with a proxy that reaches the server through the file system. When the device
is down, the worker is as isolated as on a machine with an unplugged cable.
"""

from __future__ import annotations

import os
import subprocess
import sys

from dibs.lab.torture.proxies import PostgresProxy
from support.postgres_server import die_with_parent


def main(server: str, schema: str, words: list[str]) -> int:
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    with PostgresProxy(server) as proxy:
        url = proxy.url(schema=schema, timeout=20)
        environ = os.environ | {"DIBS_STORE": url}
        return subprocess.run(words, env=environ, preexec_fn=die_with_parent, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
