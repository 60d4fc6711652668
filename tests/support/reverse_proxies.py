"""nginx and HAProxy, with configurations that include an upstream file."""

from __future__ import annotations

import shutil

import pytest

PATHS = "/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin"

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


def program(name: str) -> str:
    """The path of a program; a test that needs it is skipped where there is none."""
    found = shutil.which(name, path=PATHS)
    if found is None:
        pytest.skip(f"there is no {name}; apt-get install {'nginx-light' if name == 'nginx' else name}")
    return found
