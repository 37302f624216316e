# SPDX-License-Identifier: Apache-2.0
"""Rules that change while the gateway is at work: by SIGHUP, by every way in which a
file is replaced, and ten thousand at a time under load.

FG_RELOAD_SECONDS sets how long the load lasts; FG_RELOAD_P99_US what the 99th
percentile may be meanwhile.  Its default only tells a stall from a machine that builds
at the same time; the printed figures of a quiet machine say more."""
import json
import os
import pathlib
import re
import signal

import harness

SECONDS = float(os.environ.get("FG_RELOAD_SECONDS", "4"))
P99_US = float(os.environ.get("FG_RELOAD_P99_US", "5000000"))
RULES = 10_000


def rules(version, **limits):
    """A rule that answers /probe with its version, and one for each of `limits`."""
    lines = ["rules:",
             f"  - {{name: probe, on: {{route: /probe}}, limit: 0, refuse: {{message: {version}}}}}"]
    for name, limit in limits.items():
        lines.append(f"  - {{name: {name}, on: {{route: /{name}}}, limit: {limit}, by: [ip]}}")
    return "\n".join(lines) + "\n"


def many_rules(version):
    """The kept rule among thousands, of which every reload changes a tenth."""
    lines = [rules(version, kept="1/h")]
    lines += [f"  - {{name: r{i}, on: {{route: /a{i}/b}}, "
              f"limit: {100 + (version if i % 10 == 0 else 0)}/s, by: [ip]}}" for i in range(RULES)]
    return "\n".join(lines) + "\n"


class Reload(harness.Case):
    def serve(self, path):
        self.upstream = self.start(harness.Process([harness.TOOLS / "fg_upstream", 0, 32]))
        port = self.upstream.wait_line("listening").rsplit(":", 1)[1]
        server = self.start(harness.FlowGuard("--rules", path, "--upstream", f"http://127.0.0.1:{port}"))
        self.server = server
        return server

    def loads(self, result="success"):
        metrics = harness.ask(self.server.admin, "/metrics").body
        return int(re.search(rf'flowguard_config_load_total{{result="{result}"}} (\d+)', metrics).group(1))

    def version(self):
        answer = harness.ask(self.server.gateway, "/probe")
        self.assertEqual(answer.status, 429)
        return answer.json()["message"]

    def becomes(self, version):
        harness.wait_until(lambda: self.version() == version, f"rules of {version}")

    def load(self, rate, seconds):
        """An open-loop load in the background; its result by finish()."""
        return self.start(harness.Process([harness.TOOLS / "fg_load", "--port", self.server.gateway,
                                           "--connections", 16, "--rate", rate, "--seconds", seconds]))

    def finish(self, load):
        self.assertEqual(load.wait(SECONDS + harness.WAIT_SECONDS), 0)
        result = json.loads(load.out[-1])
        self.assertEqual(result["errors"], 0)
        self.assertEqual(list(result["statuses"]), ["200"])
        return result

    def test_sighup_takes_a_good_file_and_refuses_a_bad_one_with_its_place(self):
        path = self.write("rules.yaml", rules("v1", once="1/h"))
        server = self.serve(path)
        self.assertEqual(harness.ask(server.gateway, "/once").status, 200)

        server.signal(signal.SIGHUP)
        harness.wait_until(lambda: self.loads() == 2, "the same file was read again")
        self.assertEqual(harness.ask(server.gateway, "/once").status, 429)

        self.write("rules.yaml", rules("v2", once="1/x"))
        server.signal(signal.SIGHUP)
        server.wait_line(r"rules\.yaml:3:\d+: limit: unknown unit")
        harness.wait_until(lambda: self.loads("failure") >= 1, "the failure was counted")
        self.assertEqual(self.version(), "v1")
        self.assertEqual(harness.ask(server.gateway, "/once").status, 429)
        ready = harness.ask(server.admin, "/readyz")
        self.assertEqual(ready.status, 200)
        self.assertIn("the last reload failed", ready.body)

        self.write("rules.yaml", rules("v3", once="1/h"))
        server.signal(signal.SIGHUP)
        self.becomes("v3")
        self.assertEqual(harness.ask(server.gateway, "/once").status, 429)
        self.assertNotIn("failed", harness.ask(server.admin, "/readyz").body)

    def test_every_way_of_replacing_a_file_is_taken_up_under_load_and_keeps_state(self):
        path = self.write("rules.yaml", rules("v1", once="1/h"))
        server = self.serve(path)
        load = self.load(2000, SECONDS)
        self.assertEqual(harness.ask(server.gateway, "/once").status, 200)

        pathlib.Path(path).write_text(rules("in-place", once="1/h"), encoding="utf-8")
        self.becomes("in-place")
        self.write("rules.yaml", rules("renamed-over", once="1/h"))
        self.becomes("renamed-over")
        pathlib.Path(path).unlink()
        self.write("rules.yaml", rules("v1: {", once="1/h"))
        harness.wait_until(lambda: self.loads("failure") >= 1, "a bad file was refused")
        self.assertEqual(self.version(), "renamed-over")
        self.write("rules.yaml", rules("mended", once="1/h"))
        self.becomes("mended")

        self.assertEqual(self.loads(), 4)  # each once, and the first
        self.assertEqual(harness.ask(server.gateway, "/once").status, 429)
        self.finish(load)

    def test_a_mounted_config_map_is_taken_up_by_its_link_swap(self):
        for version in ("v1", "v2"):
            (self.dir / f"..{version}").mkdir()
            self.write(f"..{version}/rules.yaml", rules(version, once="1/h"))
        (self.dir / "..data").symlink_to("..v1")
        (self.dir / "rules.yaml").symlink_to("..data/rules.yaml")
        server = self.serve(str(self.dir / "rules.yaml"))
        load = self.load(1000, 1.5)
        self.assertEqual(self.version(), "v1")
        self.assertEqual(harness.ask(server.gateway, "/once").status, 200)

        (self.dir / "..data_tmp").symlink_to("..v2")
        (self.dir / "..data_tmp").replace(self.dir / "..data")
        self.becomes("v2")

        self.assertEqual(self.loads(), 2)
        self.assertEqual(harness.ask(server.gateway, "/once").status, 429)
        self.finish(load)

    def test_a_deleted_file_keeps_the_rules_and_its_return_is_seen(self):
        path = self.write("rules.yaml", rules("v1", once="1/h"))
        server = self.serve(path)
        self.assertEqual(harness.ask(server.gateway, "/once").status, 200)

        pathlib.Path(path).unlink()
        server.signal(signal.SIGHUP)
        harness.wait_until(lambda: self.loads("failure") >= 1, "that it is gone was told")
        self.assertEqual(self.version(), "v1")
        self.assertEqual(harness.ask(server.gateway, "/once").status, 429)

        self.write("rules.yaml", rules("v2", once="1/h"))
        self.becomes("v2")
        self.assertEqual(harness.ask(server.gateway, "/once").status, 429)

    def test_ten_thousand_rules_are_reloaded_under_load_without_an_error_or_a_stall(self):
        path = self.write("rules.yaml", many_rules(0))
        server = self.serve(path)
        quiet = self.finish(self.load(2000, SECONDS / 2))
        self.assertEqual(harness.ask(server.gateway, "/kept").status, 200)

        load = self.load(2000, SECONDS)
        reloads = 0
        while load.child.poll() is None:
            reloads += 1
            self.write("rules.yaml", many_rules(reloads))
            self.becomes(str(reloads))
            self.assertEqual(harness.ask(server.gateway, "/kept").status, 429, "state was lost")
        busy = self.finish(load)

        print(f"{reloads} reloads of {RULES} rules: p99 {busy['p99_us']:.0f} us, max {busy['max_us']:.0f}; "
              f"without: p99 {quiet['p99_us']:.0f} us, max {quiet['max_us']:.0f}")
        self.assertGreaterEqual(reloads, 1)  # each was taken up, or becomes() had failed
        self.assertLess(busy["p99_us"], P99_US)


if __name__ == "__main__":
    harness.main()
