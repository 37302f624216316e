# SPDX-License-Identifier: Apache-2.0
"""Real proxies that ask the decision API: nginx auth_request and Caddy forward_auth."""
import os

import harness

NGINX = """
worker_processes 1;
daemon off;
pid {dir}/nginx.pid;
error_log {dir}/error.log;
events {{ worker_connections 64; }}
http {{
  access_log off;
  client_body_temp_path {dir}/body; proxy_temp_path {dir}/proxy; fastcgi_temp_path {dir}/fastcgi;
  uwsgi_temp_path {dir}/uwsgi; scgi_temp_path {dir}/scgi;
  upstream fg {{ server 127.0.0.1:{decisions}; keepalive 8; }}
  server {{
    listen 127.0.0.1:{port};
    location / {{
      auth_request /_fg;
      auth_request_set $fg_status $upstream_status;
      auth_request_set $fg_retry $upstream_http_retry_after;
      auth_request_set $fg_policy $upstream_http_ratelimit_policy;
      auth_request_set $fg_limit $upstream_http_ratelimit;
      error_page 500 = @denied;
      proxy_pass http://127.0.0.1:{upstream};
    }}
    location @denied {{
      internal;
      default_type application/json;
      add_header Retry-After $fg_retry always;
      add_header RateLimit-Policy $fg_policy always;
      add_header RateLimit $fg_limit always;
      if ($fg_status = 429) {{
        return 429 '{{"code":429,"message":"slow down","success":false}}';
      }}
      if ($fg_status = 503) {{
        return 503 '{{"code":503,"message":"busy","success":false}}';
      }}
      if ($fg_status = 400) {{
        return 400 '{{"code":400,"message":"bad request","success":false}}';
      }}
      return 500;
    }}
    location = /_fg {{
      internal;
      proxy_pass http://fg/v1/auth;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_pass_request_body off;
      proxy_set_header Content-Length "";
      proxy_set_header X-Original-URI $request_uri;
      proxy_set_header X-Original-Method $request_method;
      proxy_set_header X-Forwarded-For $remote_addr;
      proxy_set_header X-Forwarded-Uri "";
      proxy_set_header X-Envoy-Original-Path "";
    }}
  }}
}}
"""

CADDY = """
{{
  admin off
  auto_https off
}}
http://127.0.0.1:{port} {{
  forward_auth 127.0.0.1:{decisions} {{
    uri /v1/auth
    header_up -X-Original-Uri
    header_up -X-Envoy-Original-Path
  }}
  reverse_proxy 127.0.0.1:{upstream}
}}
"""

RULES = """
rules:
  - name: orders
    on: {route: "POST /orders"}
    limit: 2/h
    by: [ip]
  - name: closed
    on: {route: "/closed"}
    limit: 0
    refuse: {status: 503}
"""

CONFIG = """
decisions: {{listen: "127.0.0.1:0"}}
client_ip: {{trusted_proxies: ["127.0.0.1/32"]}}
rules: {rules}
"""


class Proxies(harness.Case):
    def decisions(self):
        rules = self.write("rules.yaml", RULES)
        config = self.write("flowguard.yaml", CONFIG.format(rules=rules))
        return self.start(harness.FlowGuard("--config", config, doors=("decisions",)))

    def refuses_the_third_order(self, port, upstream):
        first = harness.ask(port, "/orders?x=1", "POST")
        second = harness.ask(port, "//orders", "POST")
        third = harness.ask(port, "/orders", "POST")
        other = harness.ask(port, "/elsewhere", "GET")
        # A client that writes what the proxy writes is answered as any other.
        forged = harness.ask(port, "/orders", "POST", headers={
            "X-Forwarded-Uri": "/a", "X-Original-Uri": "/b", "X-Envoy-Original-Path": "/c"})
        closed = harness.ask(port, "/closed")

        self.assertEqual([first[0], second[0], third[0], other[0]], [200, 200, 429, 200])
        self.assertEqual([forged[0], closed[0]], [429, 503])
        self.assertIn("orders", third[1]["ratelimit"])
        self.assertGreaterEqual(int(third[1]["retry-after"]), 1)
        self.assertIn("429", third[2])
        self.assertEqual(len(upstream.requests), 3)

    def test_nginx_auth_request_passes_the_429_through(self):
        upstream = self.start(harness.Upstream())
        server = self.decisions()
        port = harness.free_port()
        conf = self.write("nginx.conf", NGINX.format(dir=self.dir, port=port, upstream=upstream.port,
                                                     decisions=server.decisions))
        self.start(harness.Process([harness.program("nginx"), "-p", self.dir, "-c", conf]))
        harness.wait_until(lambda: harness.answers(port), "nginx listens")

        self.refuses_the_third_order(port, upstream)

    def test_caddy_forward_auth_passes_the_429_through(self):
        upstream = self.start(harness.Upstream())
        server = self.decisions()
        port = harness.free_port()
        conf = self.write("Caddyfile", CADDY.format(port=port, upstream=upstream.port,
                                                    decisions=server.decisions))
        self.start(harness.Process([harness.program("caddy"), "run", "--config", conf,
                                    "--adapter", "caddyfile"],
                                   env={**os.environ, "HOME": str(self.dir)}))
        harness.wait_until(lambda: harness.answers(port), "caddy listens")

        self.refuses_the_third_order(port, upstream)


if __name__ == "__main__":
    harness.main()
