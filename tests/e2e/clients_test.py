# SPDX-License-Identifier: Apache-2.0
"""Real clients against the gateway: curl that backs off as told, wrk and h2load."""
import re
import subprocess

import harness


class Clients(harness.Case):
    def test_curl_retry_honours_retry_after_and_recovers(self):
        upstream = self.start(harness.Upstream())
        server = self.start(harness.FlowGuard("--upstream", upstream.url, "--limit", "1/s burst 1 per ip"))
        url = f"http://127.0.0.1:{server.gateway}/"
        self.assertEqual(harness.ask(server.gateway)[0], 200)

        done = subprocess.run([harness.program("curl"), "-sS", "--retry", "5", "-o", self.dir / "body",
                               "-w", "%{http_code}", "-v", url],
                              capture_output=True, text=True, timeout=60)

        self.assertTrue(done.stdout.startswith("200"), done.stdout)
        self.assertIn("429", done.stderr)
        self.assertIn("Retry-After: 1", done.stderr)

    def test_wrk_sees_no_broken_answer(self):
        upstream = self.start(harness.Upstream())
        server = self.start(harness.FlowGuard("--upstream", upstream.url, "--limit", "50/s per ip"))

        done = subprocess.run([harness.program("wrk"), "-t1", "-c8", "-d1s",
                               f"http://127.0.0.1:{server.gateway}/"],
                              capture_output=True, text=True, timeout=60)

        self.assertEqual(done.returncode, 0, done.stderr)
        total = int(re.search(r"(\d+) requests in", done.stdout).group(1))
        refused = int(re.search(r"Non-2xx or 3xx responses: (\d+)", done.stdout).group(1))
        self.assertNotIn("Socket errors", done.stdout)
        self.assertGreater(refused, 0)
        self.assertLessEqual(total - refused, 50 + 50 * 3)
        # wrk does not count answers that come after its time is up: one a connection.
        self.assertGreaterEqual(len(upstream.requests), total - refused)
        self.assertLessEqual(len(upstream.requests), total - refused + 8)

    def test_h2load_over_http1_counts_what_the_gateway_counts(self):
        upstream = self.start(harness.Upstream())
        server = self.start(harness.FlowGuard("--upstream", upstream.url, "--limit", "40/h per ip"))

        done = subprocess.run([harness.program("h2load"), "--h1", "-n", "100", "-c", "4",
                               f"http://127.0.0.1:{server.gateway}/"],
                              capture_output=True, text=True, timeout=60)

        self.assertIn("100 done", done.stdout)
        self.assertRegex(done.stdout, r"status codes: 40 2xx, 0 3xx, 60 4xx, 0 5xx")
        metrics = harness.ask(server.admin, "/metrics")[2]
        self.assertIn("60", re.findall(r"flowguard_\w*\{[^}]*refus[^}]*\} (\d+)|$", metrics) or metrics)
        self.assertEqual(len(upstream.requests), 40)

if __name__ == "__main__":
    harness.main()
